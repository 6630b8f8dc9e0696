//! Java: the official runtime interface client, from the project's own classpath.

use super::{Missing, Start, Turn, find};
use crate::dev::definition::Definition;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// The class that speaks the Runtime API, as archives name it.
const CLIENT_ENTRY: &[u8] = b"com/amazonaws/services/lambda/runtime/api/client/AWSLambda.class";
const CLIENT_CLASS: &str = "com.amazonaws.services.lambda.runtime.api.client.AWSLambda";
/// The client unpacks this to one place for the whole machine, whenever it starts.
static TURN: Turn = Turn::until_loaded(".libaws-lambda-jni.so");
/// Archives that are looked through for the client, at most.
const ARCHIVES_MAX: usize = 500;

pub(super) fn start(definition: &Definition) -> Result<Start, Missing> {
    let java = find::on_path("java").ok_or_else(|| {
        let what = "there is no java on this machine";
        Missing::new(what, "install a JDK, for example from adoptium.net")
    })?;
    let code = &definition.code;
    let Classpath { entries, watched } = classpath(code);
    if entries.is_empty() {
        let what = format!("{} has no compiled classes", code.display());
        return Err(Missing::new(what, build(code)));
    }
    if !entries.iter().any(|entry| has_client(entry)) {
        let what = "the classpath has no com.amazonaws:aws-lambda-java-runtime-interface-client";
        let remedy = format!("add it as a dependency, then {}", build(code));
        return Err(Missing::new(what, remedy));
    }
    let mut joined = OsString::new();
    for (number, entry) in entries.iter().enumerate() {
        if number > 0 {
            joined.push(if cfg!(windows) { ";" } else { ":" });
        }
        joined.push(std::path::absolute(entry).unwrap_or_else(|_| entry.clone()));
    }
    let mut start = Start::new(java, "aws-lambda-java-runtime-interface-client", code)
        .with([OsString::from("-cp"), joined])
        .with([CLIENT_CLASS, &definition.handler]);
    start.watched = watched;
    start.turn = Some(&TURN);
    Ok(start)
}

/// What Java is told to look in.
struct Classpath {
    entries: Vec<PathBuf>,
    watched: Vec<PathBuf>,
}

/// What Maven, Gradle or `sam build` leaves behind, or the archive itself.
fn classpath(code: &Path) -> Classpath {
    if code.is_file() {
        return Classpath {
            entries: vec![code.to_owned()],
            watched: vec![code.to_owned()],
        };
    }
    let classes = [
        "target/classes",
        "build/classes/java/main",
        "build/resources/main",
    ];
    let classes = classes.iter().map(|place| code.join(place));
    let mut entries: Vec<PathBuf> = classes.filter(|place| place.is_dir()).collect();
    let libraries = ["target/dependency", "build/dependency", "lib"];
    let mut archives: Vec<PathBuf> = libraries
        .iter()
        .flat_map(|folder| archives(&code.join(folder)))
        .collect();
    if archives.is_empty() {
        // One archive with everything in it.
        archives = ["target", "build/libs"]
            .iter()
            .flat_map(|folder| self::archives(&code.join(folder)))
            .filter(|archive| has_client(archive))
            .collect();
    }
    if entries.is_empty() && code.join("lib").is_dir() {
        entries.push(code.to_owned());
    }
    let mut watched = entries.clone();
    watched.extend(
        archives
            .iter()
            .filter_map(|it| it.parent())
            .map(Path::to_owned),
    );
    watched.dedup();
    entries.extend(archives);
    Classpath { entries, watched }
}

/// The archives in a folder, in the order of their names.
fn archives(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten();
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    let archive = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jar");
    let mut archives: Vec<PathBuf> = files.filter(archive).take(ARCHIVES_MAX).collect();
    archives.sort();
    archives
}

/// Whether the client is in a folder of classes, or in an archive: its index names what it holds.
fn has_client(entry: &Path) -> bool {
    if entry.is_dir() {
        let class = std::str::from_utf8(CLIENT_ENTRY).unwrap_or_default();
        return entry.join(class).is_file();
    }
    let name = entry.file_name().map(|name| name.to_string_lossy());
    let named = |name: &str| name.starts_with("aws-lambda-java-runtime-interface-client-");
    if name.is_some_and(|name| named(&name)) {
        return true;
    }
    let archive = fs::read(entry).unwrap_or_default();
    let length = CLIENT_ENTRY.len();
    archive.windows(length).any(|window| window == CLIENT_ENTRY)
}

fn build(code: &Path) -> String {
    let shown = code.display();
    if code.join("pom.xml").is_file() {
        format!("run: mvn -q -f {shown} package dependency:copy-dependencies")
    } else if code.join("build.gradle").is_file() || code.join("build.gradle.kts").is_file() {
        format!("run: gradle -p {shown} build, with the dependencies copied to build/dependency")
    } else {
        "run: sam build".to_owned()
    }
}
