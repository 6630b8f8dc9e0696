//! `outlast why`: one sentence. Outlast's own endpoint knows it; for others it is read from the
//! history.

use crate::{
    arguments::client::One,
    client::Client,
    output::{Output, Verdict},
    paint::moment as shown,
    problem::{Cause, Problem},
    reference::resolve,
    service::{moment, own_path, text},
    tree::{self, Tree},
};
use serde_json::{Value, json};

/// Says why an execution is where it is.
///
/// # Errors
/// When it cannot be found or read.
pub(super) async fn run(one: One, output: Output) -> anyhow::Result<Verdict> {
    let client = Client::new(&one.connection)?;
    let arn = resolve(&client, &one.execution).await?;
    let why = match ask(&client, &arn).await {
        Ok(answer) => text(&answer, "Why").unwrap_or_default().to_owned(),
        Err(problem) if is_elsewhere(&problem) => derive(&client, &arn).await?,
        Err(problem) => return Err(problem.into()),
    };
    output.answer(&json!({"DurableExecutionArn": arn, "Why": why}), |_| {
        why.clone()
    })?;
    Ok(Verdict::Good)
}

/// What the endpoint says, if it is one that can.
async fn ask(client: &Client, arn: &str) -> Result<Value, Problem> {
    client.must_be_outlast("reasons")?;
    client.get(format!("{}/why", own_path(arn))).await
}

/// Whether the endpoint is none of Outlast's. AWS answers paths it does not know with 403 or 404.
fn is_elsewhere(problem: &Problem) -> bool {
    let unauthorized = problem.exception.as_deref() == Some("AccessDeniedException");
    problem.is_unknown_operation()
        || (problem.cause == Cause::Refused && !unauthorized)
        || (problem.cause == Cause::NotFound && problem.exception.is_none())
}

async fn derive(client: &Client, arn: &str) -> Result<String, Problem> {
    let execution = client.execution(arn, true).await?;
    if let Some(ended) = moment(&execution, "EndTimestamp") {
        return Ok(ending(&execution, &shown(ended)));
    }
    Ok(Tree::of(&client.history(arn, false, usize::MAX).await?).why())
}

fn ending(execution: &Value, at: &str) -> String {
    let how = match text(execution, "Status") {
        Some("SUCCEEDED") => "It succeeded",
        Some("FAILED") => "It failed",
        Some("TIMED_OUT") => "It timed out",
        _ => "It was stopped",
    };
    let error = execution.get("Error").map(tree::error);
    let error = error.map_or(String::new(), |error| format!(" with {error}"));
    format!("{how} at {at}{error}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_with_its_error() {
        let failed =
            json!({"Status": "FAILED", "Error": {"ErrorType": "Broke", "ErrorMessage": "no"}});
        assert_eq!(ending(&failed, "noon"), "It failed at noon with Broke: no.");
        assert_eq!(
            ending(&json!({"Status": "SUCCEEDED"}), "noon"),
            "It succeeded at noon."
        );
    }
}
