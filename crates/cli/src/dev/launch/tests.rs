//! How functions are started, and what is said to be missing.

use super::*;
use crate::dev::definition::Durable;
use std::{collections::BTreeMap, fs};

fn definition(code: &Path, runtime: &str) -> Definition {
    Definition {
        name: "order".to_owned(),
        kind: Kind::of_runtime(runtime),
        handler: "app.handler".to_owned(),
        code: code.to_owned(),
        variables: BTreeMap::new(),
        timeout_seconds: None,
        memory_mb: Some(256),
        durable: Some(Durable {
            execution_timeout_seconds: 60,
            retention_days: None,
        }),
        per_tenant: false,
        aliases: Vec::new(),
    }
}

fn missing(code: &Path, runtime: &str) -> Missing {
    launch(&definition(code, runtime), code, "http://127.0.0.1:1").unwrap_err()
}

#[test]
fn what_is_missing_comes_with_the_command_that_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let gone = missing(&at.join("gone"), "nodejs22.x");
    assert!(gone.what.contains("there is no folder"), "{gone:?}");
    assert_eq!(missing(at, "provided.al2023").remedy, "run: sam build");
    fs::write(at.join("Cargo.toml"), "").unwrap();
    let rust = missing(at, "provided.al2023").remedy;
    assert!(rust.starts_with("run: cargo lambda build"), "{rust}");
    assert!(missing(at, "ruby3.4").remedy.contains("outlast.toml"));
    if find::on_path("java").is_some() {
        fs::write(at.join("pom.xml"), "").unwrap();
        let java = missing(at, "java21");
        assert!(java.remedy.contains("mvn -q -f"), "{java:?}");
        fs::create_dir_all(at.join("target/classes")).unwrap();
        let java = missing(at, "java21");
        assert!(java.what.contains("runtime-interface-client"), "{java:?}");
    }
}

#[test]
fn a_bootstrap_is_found_where_builds_leave_it() {
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("target/lambda/order");
    fs::create_dir_all(&built).unwrap();
    fs::write(built.join("bootstrap"), "").unwrap();
    let mut definition = definition(folder.path(), "provided.al2023");
    definition.handler = "bootstrap".to_owned();
    let found = launch(&definition, folder.path(), "http://e").unwrap();
    let found = found.unwrap().program;
    assert_eq!(found.program, built.join("bootstrap"));
    assert_eq!(found.environment.memory_mb, 256);
    assert_eq!(found.environment.endpoint.as_deref(), Some("http://e"));
    let own = (ENDPOINT.to_owned(), "http://other".to_owned());
    definition.variables.extend([own]);
    let found = launch(&definition, folder.path(), "http://e").unwrap();
    assert_eq!(found.unwrap().program.environment.endpoint, None);
}

#[test]
fn what_somebody_else_runs_is_not_started() {
    let mut definition = definition(Path::new("."), "java21");
    definition.kind = Kind::Called("http://127.0.0.1:9000".to_owned());
    assert!(launch(&definition, Path::new("."), "").unwrap().is_none());
}

#[test]
fn a_command_is_found_beside_the_code_or_on_the_path() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("worker"), "").unwrap();
    let mut definition = definition(folder.path(), "java21");
    for (program, there) in [("./worker", true), ("./none", false), ("sh", true)] {
        definition.kind = Kind::Command(vec![program.to_owned(), "-x".to_owned()]);
        let launched = launch(&definition, folder.path(), "");
        assert_eq!(launched.is_ok(), there, "{program}");
        if let Ok(Some(launched)) = launched {
            assert_eq!(launched.program.arguments, ["-x"]);
        }
    }
}
