//! The handlers of all requirements as one program, to be judged on an engine from outside.
//!
//! `outlast-conformance [ID...]` serves the requirements named, or all, wherever it finds itself: for
//! the server in `OUTLAST_ENDPOINT`, or under the Lambda Runtime API (feature `lambda`) the function
//! in `AWS_LAMBDA_FUNCTION_NAME`. `outlast-conformance --list` says what there is, as JSON. It judges
//! nothing and starts no executions.

use outlast::{
    App, BoxError, Function,
    telemetry::{Telemetry, View},
};
use outlast_conformance::{Crash, Records, Requirement, otel};
use serde_json::json;
use std::collections::BTreeMap;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut all = outlast_conformance::all(&Crash::exit(), &Records::stdout());
    let telemetry = Telemetry::from_env()?;
    all.extend(otel::requirements("invocation", &telemetry));
    let by_execution = telemetry.view(View::Execution);
    all.extend(otel::requirements("execution", &by_execution));
    if arguments.iter().any(|argument| argument == "--list") {
        list(&all);
        return Ok(());
    }
    let chosen = choose(all, &arguments)?;
    outlast::log::init()?;
    let app = functions(chosen)
        .into_values()
        .fold(App::new(), App::register);
    Ok(app.run().await?)
}

/// One line of JSON for each requirement.
#[expect(clippy::print_stdout, reason = "it is what was asked for")]
fn list(all: &[Requirement]) {
    for requirement in all {
        let targets: Vec<&str> = requirement.targets.iter().map(Function::name).collect();
        let line = json!({
            "id": requirement.id,
            "function": requirement.function.name(),
            "targets": targets,
            "losesProcess": requirement.loses_process,
        });
        println!("{line}");
    }
}

/// The requirements named; all, if none is.
fn choose(all: Vec<Requirement>, ids: &[String]) -> Result<Vec<Requirement>, BoxError> {
    let known = |id: &&String| all.iter().any(|requirement| requirement.id == **id);
    if let Some(unknown) = ids.iter().find(|id| !known(id)) {
        return Err(format!("there is no requirement '{unknown}'; see --list").into());
    }
    let is_chosen = |requirement: &Requirement| ids.is_empty() || ids.contains(&requirement.id);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// The functions of requirements by name, each once: targets are shared.
fn functions(requirements: Vec<Requirement>) -> BTreeMap<String, Function> {
    requirements
        .into_iter()
        .flat_map(|requirement| {
            let mut functions = requirement.targets;
            functions.push(requirement.function);
            functions
        })
        .map(|function| (function.name().to_owned(), function))
        .collect()
}
