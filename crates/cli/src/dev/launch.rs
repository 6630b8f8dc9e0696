//! How the processes of a function are started, or what is missing for that and how to get it.
//!
//! The official runtime client of a language is used where the project has it. Python and Node do
//! without: a small client of our own is given to the interpreter as text, so nothing is installed
//! and nothing is written.

mod find;
mod java;

use crate::dev::definition::{Definition, Kind};
use outlast_server::host::process::{
    Credentials, Environment, MEMORY_MB_DEFAULT, Program, START_MAX_DEFAULT, Turn,
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

const PYTHON_CLIENT: &str = include_str!("bootstrap.py");
const NODE_CLIENT: &str = include_str!("bootstrap.mjs");
/// Where the AWS SDKs look for the durable API.
const ENDPOINT: &str = "AWS_ENDPOINT_URL_LAMBDA";
/// Asks an interpreter for its version, and which of two modules it finds.
const PYTHON_QUESTION: &str = "import sys, importlib.util as u; sys.path.insert(0, sys.argv[1]); \
     print('%d.%d' % sys.version_info[:2], u.find_spec('awslambdaric') is not None, \
     u.find_spec('aws_durable_execution_sdk_python') is not None)";

/// How to start a function.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: Program,
    /// With which client, for people.
    pub(crate) client: String,
    /// Things people should know beforehand.
    pub(crate) notes: Vec<String>,
    /// What its processes are started anew for when it changes.
    pub(crate) watched: Vec<PathBuf>,
}

/// Why a function cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Missing {
    fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

/// A program with its arguments, and what is said about it.
struct Start {
    program: OsString,
    arguments: Vec<OsString>,
    client: String,
    notes: Vec<String>,
    watched: Vec<PathBuf>,
    turn: Option<&'static Turn>,
}

impl Start {
    fn new(program: impl Into<OsString>, client: impl Into<String>, watched: &Path) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            client: client.into(),
            notes: Vec::new(),
            watched: vec![watched.to_owned()],
            turn: None,
        }
    }

    fn with<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }
}

/// How to start a function of the project in `root`; nothing if somebody else runs it.
///
/// # Errors
/// What is missing.
pub(crate) fn launch(
    definition: &Definition,
    root: &Path,
    endpoint: &str,
) -> Result<Option<Launch>, Missing> {
    let start = match &definition.kind {
        Kind::Called(_) => return Ok(None),
        Kind::Unknown { what, remedy } => return Err(Missing::new(what, remedy)),
        Kind::Python(runtime) => python(definition, root, runtime)?,
        Kind::Node(_) => node(definition, root)?,
        Kind::Java(_) => java::start(definition)?,
        Kind::Bootstrap(_) => bootstrap(definition, root)?,
        Kind::Command(command) => own_command(definition, command)?,
    };
    let folder = match definition.code.is_dir() {
        true => definition.code.clone(),
        false => root.to_owned(),
    };
    let key = "dev".to_owned();
    let memory = definition.memory_mb.and_then(|mb| u32::try_from(mb).ok());
    let environment = Environment {
        variables: definition.variables.clone(),
        handler: definition.handler.clone(),
        code: folder.clone(),
        memory_mb: memory.unwrap_or(MEMORY_MB_DEFAULT),
        // A function that says where its API is means it.
        endpoint: match definition.variables.contains_key(ENDPOINT) {
            true => None,
            false => Some(endpoint.to_owned()),
        },
        credentials: Some(Credentials {
            access_key_id: key.clone(),
            secret_access_key: key,
            session_token: None,
        }),
        concurrency: None,
    };
    Ok(Some(Launch {
        program: Program {
            program: start.program,
            arguments: start.arguments,
            folder: Some(folder),
            environment,
            processes: 1,
            start_max: START_MAX_DEFAULT,
            turn: start.turn,
        },
        client: start.client,
        notes: start.notes,
        watched: start.watched,
    }))
}

fn python(definition: &Definition, root: &Path, runtime: &str) -> Result<Start, Missing> {
    folder(definition)?;
    let code = &definition.code;
    let python = find::python(code, root).ok_or_else(|| {
        let what = "there is no python3 on this machine";
        Missing::new(
            what,
            "install Python from python.org or with your package manager",
        )
    })?;
    let shown = python.display();
    let answer = Command::new(&python)
        .args(["-c", PYTHON_QUESTION])
        .arg(code)
        .output()
        .map_err(|error| {
            let what = format!("{shown} cannot be started: {error}");
            Missing::new(what, "mend that installation of Python")
        })?;
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    let mut words = answer.split_whitespace();
    let version = words.next().unwrap_or_default();
    let has_client = words.next() == Some("True");
    let has_sdk = words.next() == Some("True");
    let mut start = if has_client {
        Start::new(&python, format!("awslambdaric, Python {version}"), code).with([
            "-m",
            "awslambdaric",
            &definition.handler,
        ])
    } else {
        Start::new(&python, format!("Python {version}"), code).with(["-c", PYTHON_CLIENT])
    };
    if definition.durable.is_some() && !has_sdk {
        start.notes.push(format!(
            "the durable execution SDK is missing; run: {shown} -m pip install \
             aws-durable-execution-sdk-python"
        ));
    }
    if runtime != format!("python{version}") {
        let note = format!("it asks for {runtime} and gets Python {version} ({shown})");
        start.notes.push(note);
    }
    Ok(start)
}

fn node(definition: &Definition, root: &Path) -> Result<Start, Missing> {
    folder(definition)?;
    let code = &definition.code;
    let node = find::on_path("node").ok_or_else(|| {
        let what = "there is no node on this machine";
        Missing::new(
            what,
            "install Node.js from nodejs.org or with your package manager",
        )
    })?;
    let client = find::upwards(code, Path::new("node_modules/aws-lambda-ric/bin/index.mjs"));
    let mut start = match client {
        Some(client) => {
            let start = Start::new(node, "aws-lambda-ric", code).with([client]);
            start.with([&*definition.handler])
        }
        None => Start::new(node, "Node", code).with(["--input-type=module", "-e", NODE_CLIENT]),
    };
    let sdk = Path::new("node_modules/@aws/durable-execution-sdk-js");
    if definition.durable.is_some() && find::upwards(code, sdk).is_none() {
        let prefix = find::upwards(code, Path::new("package.json"));
        let prefix = prefix.as_deref().and_then(Path::parent).unwrap_or(root);
        start.notes.push(format!(
            "the durable execution SDK is missing, unless it is bundled; run: npm install --prefix \
             {} @aws/durable-execution-sdk-js",
            prefix.display()
        ));
    }
    Ok(start)
}

/// A program of the project's that speaks the Runtime API itself.
fn bootstrap(definition: &Definition, root: &Path) -> Result<Start, Missing> {
    let code = &definition.code;
    let name = &definition.name;
    let handler = match &*definition.handler {
        // What the documentation of other tools has people write where nothing is meant.
        "" | "bootstrap" | "rust.handler" => name,
        handler => handler,
    };
    let places = [
        code.join("bootstrap"),
        code.join("target/lambda").join(handler).join("bootstrap"),
        root.join("target/lambda").join(handler).join("bootstrap"),
        root.join(".aws-sam/build").join(name).join("bootstrap"),
    ];
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(Start::new(found, "its own program", found)),
        None => {
            let what = format!("there is no {}", code.join("bootstrap").display());
            let remedy = if code.join("Cargo.toml").is_file() {
                format!(
                    "run: cargo lambda build --manifest-path {}",
                    code.join("Cargo.toml").display()
                )
            } else if code.join("go.mod").is_file() {
                format!("run: cd {} && go build -o bootstrap", code.display())
            } else {
                "run: sam build".to_owned()
            };
            Err(Missing::new(what, remedy))
        }
    }
}

fn own_command(definition: &Definition, command: &[String]) -> Result<Start, Missing> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Missing::new("the command is empty", "give a program"));
    };
    let code = &definition.code;
    let beside = code.join(program);
    let found = match program.contains('/') {
        true => beside.is_file().then_some(beside),
        false => find::on_path(program),
    };
    let missing = || {
        let what = format!("there is no program {program}");
        Missing::new(what, "build or install it, or correct the command")
    };
    let found = found.ok_or_else(missing)?;
    let shown = command.join(" ");
    Ok(Start::new(found, shown, code).with(arguments))
}

fn folder(definition: &Definition) -> Result<(), Missing> {
    let code = &definition.code;
    match code.is_dir() {
        true => Ok(()),
        false => {
            let what = format!("there is no folder {}", code.display());
            Err(Missing::new(
                what,
                "correct where the code is (CodeUri), or make it",
            ))
        }
    }
}

#[cfg(test)]
mod tests;
