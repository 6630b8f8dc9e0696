//! ListDurableExecutionsByFunction: filters and pages.

use super::{Api, flag, number};
use crate::{
    answer::{Answered, json},
    error::ApiError,
    route::Query,
};
use hyper::StatusCode;
use outlast_core::{
    arn::{ExecutionArn, ExecutionId, Function, check_execution_name},
    describe::Summary,
    state::page_items,
    time::{Timestamp, iso},
    wire::ExecutionStatus,
};
use outlast_engine::store;
use serde::Serialize;

/// Most statuses in one filter (service model).
const STATUSES_MAX: usize = 10;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Page {
    durable_executions: Vec<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_marker: Option<String>,
}

impl Api {
    pub(super) fn list_executions(&self, function: &str, query: Query<'_>) -> Answered {
        let items = page_items(number(query, "MaxItems")?)?;
        let oldest_first = flag(query, "ReverseOrder")?.unwrap_or(false);
        let statuses = statuses(query)?;
        let name = query.get("DurableExecutionName")?;
        if let Some(name) = &name {
            check_execution_name(name).map_err(|error| ApiError::validation(error.message))?;
        }
        let after = match query.get("Marker")? {
            Some(marker) => Some(read_marker(&marker, oldest_first)?),
            None => None,
        };
        // The bounds themselves are left out.
        let started_from = moment(query, "StartedAfter")?.map(|at| at.plus_millis(1));
        let before = moment(query, "StartedBefore")?;
        let qualifier = query.get("Qualifier")?;
        let listed = self.catalogue.listed(function, qualifier.as_deref())?;
        let nothing =
            statuses.as_ref().is_some_and(Vec::is_empty) || before == Some(Timestamp::default());
        let query = store::Query {
            function: Some(listed.function.name.clone()),
            function_version: listed.version,
            name: name.map(|name| (*name).into()),
            statuses: statuses.unwrap_or_default(),
            started_from,
            started_until: before
                .map(|at| Timestamp::from_millis(at.as_millis().saturating_sub(1))),
            newest_first: !oldest_first,
            after,
            // One more than the page holds tells whether there is another page.
            max: items.saturating_add(1),
        };
        let mut found = if nothing {
            Vec::new()
        } else {
            self.engine.list(&query)?
        };
        let more = found.len() > items;
        found.truncate(items);
        let last = found.last().filter(|_| more);
        let next_marker = last.map(|(id, head)| marker(head.started, *id, oldest_first));
        let summaries = found
            .into_iter()
            .map(|(id, head)| summary(id, head, &listed.function));
        let page = Page {
            durable_executions: summaries.collect(),
            next_marker,
        };
        json(StatusCode::OK, &page)
    }
}

fn summary(id: ExecutionId, head: store::Head, function: &Function) -> Summary {
    let function = Function {
        version: head.function_version,
        ..function.clone()
    };
    let function_arn = function.to_string();
    let arn = ExecutionArn::new(function, head.name.clone(), id);
    Summary {
        durable_execution_arn: arn.to_string().into(),
        durable_execution_name: head.name,
        function_arn,
        status: head.status,
        start_timestamp: head.started,
        end_timestamp: head.ended,
        kms_key_arn: None,
    }
}

/// The statuses asked for; none if all are. Some that the service is said to accept no execution
/// here can have.
fn statuses(query: Query<'_>) -> Result<Option<Vec<ExecutionStatus>>, ApiError> {
    let given = query.all("Statuses")?;
    if given.len() > STATUSES_MAX {
        let message = format!("Statuses may have {STATUSES_MAX} values at most");
        return Err(ApiError::validation(message));
    }
    if given.is_empty() {
        return Ok(None);
    }
    let mut statuses = Vec::new();
    for text in given {
        statuses.extend(match &*text {
            "RUNNING" => Some(ExecutionStatus::Running),
            "SUCCEEDED" => Some(ExecutionStatus::Succeeded),
            "FAILED" => Some(ExecutionStatus::Failed),
            "TIMED_OUT" => Some(ExecutionStatus::TimedOut),
            "STOPPED" => Some(ExecutionStatus::Stopped),
            "PAUSED" | "PAUSING" | "DELETING" => None,
            _ => {
                return Err(ApiError::validation(
                    "Statuses has a value that is no status",
                ));
            }
        });
    }
    Ok(Some(statuses))
}

fn moment(query: Query<'_>, name: &str) -> Result<Option<Timestamp>, ApiError> {
    let Some(text) = query.get(name)? else {
        return Ok(None);
    };
    let moment = iso::parse(&text);
    let wrong = || ApiError::serialization(format!("{name} is not a moment in ISO 8601"));
    moment.map(Some).ok_or_else(wrong)
}

/// A marker names the last execution of its page and the direction.
fn marker(started: Timestamp, id: ExecutionId, oldest_first: bool) -> String {
    let direction = if oldest_first { 'o' } else { 'n' };
    format!("{direction}{:x}-{:x}", started.as_millis(), id.bits())
}

fn read_marker(marker: &str, oldest_first: bool) -> Result<(Timestamp, ExecutionId), ApiError> {
    let read = || {
        let rest = marker.strip_prefix(if oldest_first { 'o' } else { 'n' })?;
        let (started, id) = rest.split_once('-')?;
        let started = Timestamp::from_millis(u64::from_str_radix(started, 16).ok()?);
        let bits = u128::from_str_radix(id, 16).ok()?;
        let id = Some(ExecutionId::from_bits(bits)).filter(|id| id.bits() == bits)?;
        Some((started, id))
    };
    read().ok_or_else(|| ApiError::invalid("invalid marker"))
}
