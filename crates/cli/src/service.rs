//! The operations of the service that commands use: paths, queries and pages.
//!
//! Answers stay JSON as they came, so that `--json` prints what the endpoint said, and what a newer
//! service adds is no reason to fail.

use crate::{
    client::{Answer, Call, Client},
    problem::Problem,
};
use hyper::Method;
use outlast::core::{
    arn::LATEST,
    time::{Timestamp, epoch_seconds},
};
use serde_json::Value;
use std::time::Duration;

/// Items asked for on one page.
const PAGE_ITEMS: usize = 500;
/// Pages that are read of one list, at most: an endpoint whose pages never end is broken.
const PAGES_MAX: usize = 100_000;
/// How long a function may take to answer: the longest synchronous execution, and some slack.
const INVOKE_PATIENCE: Duration = Duration::from_secs(1_000);

/// Which executions of a function are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) statuses: Vec<&'static str>,
    pub(crate) name: Option<String>,
    pub(crate) after: Option<String>,
    pub(crate) before: Option<String>,
    pub(crate) oldest_first: bool,
}

/// How a function is to be called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Invocation {
    pub(crate) event: bool,
    pub(crate) name: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) input: Vec<u8>,
}

impl Client {
    /// Calls a function.
    pub(crate) async fn invoke(
        &self,
        function: &str,
        invocation: Invocation,
    ) -> Result<Answer, Problem> {
        let mut query = Query::default();
        if !is_qualified(function) {
            // A durable function is called by a version only; people mean the latest.
            query.add("Qualifier", LATEST);
        }
        let path = format!("{}/invocations{}", function_path(function), query.0);
        let mut call = Call::new(Method::POST, path).with_body(invocation.input);
        call.patience = Some(INVOKE_PATIENCE);
        let kind = if invocation.event {
            "Event"
        } else {
            "RequestResponse"
        };
        call = call.with_header("x-amz-invocation-type", kind)?;
        if let Some(name) = &invocation.name {
            call = call.with_header("x-amz-durable-execution-name", name)?;
        }
        if let Some(tenant) = &invocation.tenant {
            call = call.with_header("x-amz-tenant-id", tenant)?;
        }
        self.call(call).await
    }

    /// An execution, with or without its payloads.
    pub(crate) async fn execution(&self, arn: &str, data: bool) -> Result<Value, Problem> {
        let mut query = Query::default();
        query.add("IncludeExecutionData", if data { "true" } else { "false" });
        let path = format!("{}{}", execution_path(arn), query.0);
        self.get(path).await
    }

    /// Events of an execution, so many at most.
    pub(crate) async fn history(
        &self,
        arn: &str,
        newest_first: bool,
        max: usize,
    ) -> Result<Vec<Value>, Problem> {
        let path = format!("{}/history", execution_path(arn));
        let mut query = Query::default();
        query.add("IncludeExecutionData", "true");
        if newest_first {
            query.add("ReverseOrder", "true");
        }
        self.pages(&path, &query, "Events", max).await
    }

    /// Executions of a function, so many at most.
    pub(crate) async fn executions(
        &self,
        function: &str,
        filter: &Filter,
        max: usize,
    ) -> Result<Vec<Value>, Problem> {
        let path = format!(
            "/2025-12-01/functions/{}/durable-executions",
            encode(function)
        );
        let mut query = Query::default();
        for status in &filter.statuses {
            query.add("Statuses", status);
        }
        let optional = [
            ("DurableExecutionName", &filter.name),
            ("StartedAfter", &filter.after),
            ("StartedBefore", &filter.before),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                query.add(name, value);
            }
        }
        if filter.oldest_first {
            query.add("ReverseOrder", "true");
        }
        self.pages(&path, &query, "DurableExecutions", max).await
    }

    /// The configurations of all functions.
    pub(crate) async fn functions(&self) -> Result<Vec<Value>, Problem> {
        let query = Query::default();
        self.pages("/2015-03-31/functions", &query, "Functions", usize::MAX)
            .await
    }

    /// Asks for JSON.
    pub(crate) async fn get(&self, path: String) -> Result<Value, Problem> {
        self.call(Call::new(Method::GET, path)).await?.json()
    }

    /// The items of a list, page by page.
    async fn pages(
        &self,
        path: &str,
        query: &Query,
        member: &str,
        max: usize,
    ) -> Result<Vec<Value>, Problem> {
        let mut items: Vec<Value> = Vec::new();
        let mut marker: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut query = query.clone();
            let wanted = max.saturating_sub(items.len()).min(PAGE_ITEMS);
            query.add("MaxItems", &wanted.to_string());
            if let Some(marker) = &marker {
                query.add("Marker", marker);
            }
            let mut page = self.get(format!("{path}{}", query.0)).await?;
            if let Some(Value::Array(found)) = page.get_mut(member).map(Value::take) {
                items.extend(found);
            }
            marker = text(&page, "NextMarker").map(str::to_owned);
            let ended = marker.as_deref().is_none_or(str::is_empty);
            if ended || items.len() >= max {
                break;
            }
        }
        items.truncate(max);
        Ok(items)
    }
}

/// The path of an execution in the service's API.
pub(crate) fn execution_path(arn: &str) -> String {
    format!("/2025-12-01/durable-executions/{}", encode(arn))
}

/// The path of an execution in Outlast's own API.
pub(crate) fn own_path(arn: &str) -> String {
    format!("/outlast/v1/executions/{}", encode(arn))
}

/// The path of a function in the service's API.
pub(crate) fn function_path(function: &str) -> String {
    format!("/2015-03-31/functions/{}", encode(function))
}

/// Whether a function's name or ARN, whole or in part, says which version is meant.
fn is_qualified(function: &str) -> bool {
    // NAME:QUALIFIER, ACCOUNT:function:NAME:QUALIFIER, arn:aws:lambda:REGION:ACCOUNT:function:NAME:QUALIFIER
    matches!(function.split(':').count(), 2 | 4 | 8)
}

/// A query, encoded, with its question mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(pub(crate) String);

impl Query {
    /// Adds a name and its value.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&encode(value));
    }
}

/// A text as one segment of a path, or one value of a query.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A member that is text.
pub(crate) fn text<'a>(value: &'a Value, member: &str) -> Option<&'a str> {
    value.get(member)?.as_str()
}

/// A member that is a moment.
pub(crate) fn moment(value: &Value, member: &str) -> Option<Timestamp> {
    epoch_seconds::from_seconds(value.get(member)?.as_f64()?)
}

/// The function's name in an execution's or function's ARN.
pub(crate) fn function_of(arn: &str) -> &str {
    arn.split(':').nth(6).unwrap_or(arn)
}

/// The id in an execution's ARN.
pub(crate) fn id_of(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or(arn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_means_something_in_a_path_is_encoded() {
        let arn = "arn:aws:lambda:r:1:function:f:$LATEST/durable-execution/n/i";
        assert_eq!(
            execution_path(arn),
            "/2025-12-01/durable-executions/arn%3Aaws%3Alambda%3Ar%3A1%3Afunction%3Af%3A%24LATEST\
             %2Fdurable-execution%2Fn%2Fi"
        );
        assert_eq!(encode("a-_.~ü+&=?%"), "a-_.~%C3%BC%2B%26%3D%3F%25");
        assert_eq!((function_of(arn), id_of(arn)), ("f", "i"));
    }

    #[test]
    fn a_qualifier_is_seen_in_every_way_to_name_a_function() {
        for name in ["f", "1:function:f", "arn:aws:lambda:r:1:function:f"] {
            assert!(!is_qualified(name), "{name}");
            assert!(is_qualified(&format!("{name}:live")), "{name}");
        }
    }

    #[test]
    fn a_query_begins_with_its_question_mark() {
        let mut query = Query::default();
        assert_eq!(query.0, "");
        query.add("A", "1 2");
        query.add("B", "");
        assert_eq!(query.0, "?A=1%202&B=");
    }
}
