//! `outlast ls`: executions of one function, or of all.

use crate::{
    arguments::client::{Ls, Status},
    client::Client,
    output::{Output, Verdict},
    paint::{Cell, duration, moment as shown},
    problem::Problem,
    service::{Filter, function_of, id_of, moment, text},
};
use outlast::core::time::{Timestamp, iso};
use outlast_engine::clock::{Clock as _, EngineClock};
use serde_json::{Value, json};

const HEAD: [&str; 6] = ["ID", "STATUS", "FUNCTION", "NAME", "STARTED", "TOOK"];

/// Lists executions, newest first unless told otherwise.
///
/// # Errors
/// When they cannot be listed.
pub(super) async fn run(ls: Ls, output: Output) -> anyhow::Result<Verdict> {
    let client = Client::new(&ls.connection)?;
    let filter = Filter {
        statuses: ls.status.iter().copied().map(Status::as_str).collect(),
        name: ls.name.clone(),
        after: written(ls.after.as_deref(), "--after")?,
        before: written(ls.before.as_deref(), "--before")?,
        oldest_first: ls.reverse,
    };
    let max = ls.max as usize;
    let executions = match &ls.function {
        Some(function) => client.executions(function, &filter, max).await?,
        None => of_all(&client, &filter, max).await?,
    };
    let now = EngineClock::system().now();
    let rows: Vec<Vec<Cell>> = executions.iter().map(|one| row(one, now)).collect();
    let answer = json!({"DurableExecutions": executions});
    output.answer(&answer, |paint| paint.table(&HEAD, &rows))?;
    Ok(Verdict::Good)
}

/// The executions of all functions, in one order.
async fn of_all(client: &Client, filter: &Filter, max: usize) -> Result<Vec<Value>, Problem> {
    let mut all = Vec::new();
    for function in client.functions().await? {
        let durable = function.get("DurableConfig").is_some();
        if let Some(name) = text(&function, "FunctionName").filter(|_| durable) {
            all.extend(client.executions(name, filter, max).await?);
        }
    }
    let started = |one: &Value| moment(one, "StartTimestamp");
    all.sort_by_key(started);
    if !filter.oldest_first {
        all.reverse();
    }
    all.truncate(max);
    Ok(all)
}

/// A moment as endpoints read it.
fn written(moment: Option<&str>, option: &str) -> Result<Option<String>, Problem> {
    let Some(moment) = moment else {
        return Ok(None);
    };
    match iso::parse(moment) {
        Some(_) => Ok(Some(moment.to_owned())),
        None => Err(Problem::usage(format!(
            "{option} {moment:?} is no moment: write it as 2026-01-31, 2026-01-31T12:00:00Z or in \
             seconds since 1970"
        ))),
    }
}

fn row(execution: &Value, now: Timestamp) -> Vec<Cell> {
    let of = |member: &str| text(execution, member).unwrap_or_default();
    let arn = of("DurableExecutionArn");
    let started = moment(execution, "StartTimestamp");
    let took = started.map(|started| {
        let ended = moment(execution, "EndTimestamp").unwrap_or(now.max(started));
        duration(ended.millis_since(started))
    });
    vec![
        id_of(arn).into(),
        Cell::status(of("Status")),
        function_of(arn).into(),
        of("DurableExecutionName").into(),
        started.map(shown).unwrap_or_default().into(),
        took.unwrap_or_default().into(),
    ]
}
