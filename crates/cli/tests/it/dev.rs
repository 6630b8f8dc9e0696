//! `outlast dev` without any interpreter: shell scripts as workers. What it does with the languages
//! is in tests/official.

use crate::{outlast, program, serve::request};
use std::{
    fs,
    path::Path,
    process::{Child, Command},
};

struct Developing {
    child: Child,
    address: String,
}

impl Drop for Developing {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        // Not killed: it has processes of its own to end.
        let _ = Command::new("kill").args(["-TERM", &id]).status();
        let _ = self.child.wait();
    }
}

fn develop(folder: &Path) -> Developing {
    let arguments = ["--json", "dev", "--listen", "127.0.0.1:0"];
    let (child, developing) = program::start(folder, |program| program.args(arguments));
    let endpoint = developing["endpoint"].as_str().unwrap();
    Developing {
        address: endpoint.strip_prefix("http://").unwrap().to_owned(),
        child,
    }
}

/// A worker that answers every call with its own text, with nothing but bash.
fn worker(answer: &str) -> String {
    format!(
        r#"api=${{AWS_LAMBDA_RUNTIME_API}}
while exec 3<>"/dev/tcp/${{api%:*}}/${{api#*:}}"; do
  printf 'GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: h\r\n\r\n' >&3
  while IFS= read -r line <&3 && [[ $line != $'\r' ]]; do
    line=${{line,,}}
    [[ $line == lambda-runtime-aws-request-id:* ]] && id=${{line#*: }} && id=${{id%$'\r'}}
  done
  exec 3<&- 3>&-
  exec 3<>"/dev/tcp/${{api%:*}}/${{api#*:}}"
  printf 'POST /2018-06-01/runtime/invocation/%s/response HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{answer}' "$id" >&3
  read -r line <&3
  exec 3<&- 3>&-
done
"#,
        length = answer.len()
    )
}

const CALL: &str = "POST /2015-03-31/functions/shell/invocations";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it looks for a change of another process"
)]
fn it_runs_what_the_file_says_and_starts_it_anew_when_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("worker.sh"), worker("1")).unwrap();
    let manifest = "[functions.shell]\ncommand = [\"bash\", \"worker.sh\"]\ntimeout = 20\n";
    fs::write(at.join("outlast.toml"), manifest).unwrap();
    let developing = develop(at);
    let answer = request(&developing.address, CALL, "{}");
    assert!(answer.ends_with("\r\n\r\n1"), "{answer}");
    fs::write(at.join("worker.sh"), worker("22")).unwrap();
    let changed = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        request(&developing.address, CALL, "{}").ends_with("\r\n\r\n22")
    });
    assert!(changed, "the new code was never run");
}

#[test]
fn without_a_project_it_says_what_it_looks_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let said = outlast(&["dev", at]);
    assert_eq!(said.code, Some(1));
    let names = "no template.yaml and no outlast.toml";
    assert!(said.stderr.contains(names), "{said:?}");
    let said = outlast(&["dev", at, "--listen", "0.0.0.0:0"]);
    assert!(said.stderr.contains("loopback only"), "{said:?}");
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it waits for what another process prints"
)]
fn what_functions_print_is_kept_for_whoever_asks() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let script = format!("echo it has begun\n{}", worker("1"));
    fs::write(at.join("worker.sh"), script).unwrap();
    let manifest = "[functions.shell]\ncommand = [\"bash\", \"worker.sh\"]\ntimeout = 20\n";
    fs::write(at.join("outlast.toml"), manifest).unwrap();
    let developing = develop(at);
    let endpoint = format!("http://{}", developing.address);
    for _ in 0..200 {
        let shown = outlast(&["logs", "shell", "--endpoint", &endpoint]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        if shown.stdout.contains("it has begun") {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("nothing was kept");
}
