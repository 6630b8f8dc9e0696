//! `outlast functions`: which functions an endpoint has, and changes of them.

use crate::{
    arguments::client::{FunctionAction, FunctionFile},
    client::{Call, Client},
    data,
    output::{Output, Verdict},
    paint::{Cell, fields},
    problem::Problem,
    service::{function_path, text},
};
use hyper::Method;
use serde_json::{Map, Value, json};

const HEAD: [&str; 5] = ["NAME", "VERSION", "DURABLE", "TIMEOUT", "MODIFIED"];

/// Lists, shows, makes, changes or deletes functions.
///
/// # Errors
/// When the endpoint refuses, or a file makes no sense.
pub(super) async fn run(action: FunctionAction, output: Output) -> anyhow::Result<Verdict> {
    match action {
        FunctionAction::Ls(ls) => {
            let functions = Client::new(&ls.connection)?.functions().await?;
            let rows: Vec<Vec<Cell>> = functions.iter().map(row).collect();
            let answer = json!({"Functions": functions});
            output.answer(&answer, |paint| paint.table(&HEAD, &rows))?;
        }
        FunctionAction::Show(one) => {
            let path = format!("{}/configuration", function_path(&one.function));
            let configuration = Client::new(&one.connection)?.get(path).await?;
            output.answer(&configuration, |_| described(&configuration))?;
        }
        FunctionAction::Create(from) => {
            let (client, _, configuration) = configured(&from)?;
            let call = Call::new(Method::POST, "/2015-03-31/functions");
            told(&client, call, configuration, output).await?;
        }
        FunctionAction::Update(from) => {
            let (client, name, configuration) = configured(&from)?;
            let path = format!("{}/configuration", function_path(&name));
            told(&client, Call::new(Method::PUT, path), configuration, output).await?;
        }
        FunctionAction::Delete(one) => {
            let path = function_path(&one.function);
            let client = Client::new(&one.connection)?;
            client.call(Call::new(Method::DELETE, path)).await?;
            let answer = json!({"FunctionName": one.function});
            output.answer(&answer, |_| format!("deleted {}", one.function))?;
        }
    }
    Ok(Verdict::Good)
}

/// Sends a configuration and prints the function's ARN.
async fn told(
    client: &Client,
    call: Call,
    configuration: Value,
    output: Output,
) -> anyhow::Result<()> {
    let answer = client.call(call.with_json(&configuration)).await?.json()?;
    let arn = text(&answer, "FunctionArn").unwrap_or_default();
    output.answer(&answer, |_| arn.to_owned())
}

/// The configuration in a file, and the name of the function it is for.
fn configured(from: &FunctionFile) -> Result<(Client, String, Value), Problem> {
    let mut members: Map<String, Value> = data::object(&from.file)?;
    if let Some(name) = &from.name {
        members.insert("FunctionName".to_owned(), name.clone().into());
    }
    let name = members.get("FunctionName").and_then(Value::as_str);
    let Some(name) = name.filter(|name| !name.is_empty()).map(str::to_owned) else {
        return Err(Problem::usage(format!(
            "{} has no FunctionName: write it there, or give --name",
            from.file
        )));
    };
    Ok((Client::new(&from.connection)?, name, Value::Object(members)))
}

fn row(function: &Value) -> Vec<Cell> {
    let of = |member: &str| text(function, member).unwrap_or_default();
    let number = |value: Option<&Value>| {
        let seconds = value.and_then(Value::as_u64);
        seconds
            .map(|seconds| format!("{seconds} s"))
            .unwrap_or_default()
    };
    vec![
        of("FunctionName").into(),
        of("Version").into(),
        number(function.pointer("/DurableConfig/ExecutionTimeout")).into(),
        number(function.get("Timeout")).into(),
        of("LastModified").into(),
    ]
}

/// A configuration as lines: what is nested stays JSON.
fn described(configuration: &Value) -> String {
    let Value::Object(members) = configuration else {
        return configuration.to_string();
    };
    let rows: Vec<(&str, String)> = members
        .iter()
        .map(|(name, value)| match value {
            Value::String(text) => (name.as_str(), text.clone()),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => (name.as_str(), other.to_string()),
        })
        .collect();
    fields(&rows)
}
