//! Which execution people mean: its ARN, `FUNCTION/NAME`, or the beginning of its id.

use crate::{
    client::Client,
    problem::Problem,
    service::{Filter, id_of, text},
};

/// The beginning of an id has so many letters at least: less is a slip of the finger.
const PREFIX_MIN: usize = 4;
/// An id has so many letters.
const ID_LETTERS: usize = 36;
/// Of each function so many of the newest executions are looked at for the beginning of an id.
const LOOKED_AT_MAX: usize = 20_000;
/// So many executions that fit are shown.
const SHOWN_MAX: usize = 5;

/// How an execution was named. Pure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference<'a> {
    Arn(&'a str),
    Named { function: &'a str, name: &'a str },
    Prefix(&'a str),
}

impl<'a> Reference<'a> {
    /// Reads what somebody wrote.
    ///
    /// # Errors
    /// When it can be none of the three.
    pub(crate) fn parse(written: &'a str) -> Result<Self, Problem> {
        let is_id = |letter: u8| letter.is_ascii_hexdigit() || letter == b'-';
        if written.starts_with("arn:") {
            return Ok(Self::Arn(written));
        }
        if let Some((function, name)) = written.split_once('/')
            && !function.is_empty()
            && !name.is_empty()
            && !name.contains('/')
        {
            return Ok(Self::Named { function, name });
        }
        if (PREFIX_MIN..=ID_LETTERS).contains(&written.len()) && written.bytes().all(is_id) {
            return Ok(Self::Prefix(written));
        }
        Err(Problem::usage(format!(
            "{written:?} names no execution: write its ARN, FUNCTION/NAME, or at least \
             {PREFIX_MIN} letters of its id; `outlast ls` shows them"
        )))
    }
}

/// The ARN of the execution that somebody means.
///
/// # Errors
/// When there is none, or more than one.
pub(crate) async fn resolve(client: &Client, written: &str) -> Result<String, Problem> {
    match Reference::parse(written)? {
        Reference::Arn(arn) => Ok(arn.to_owned()),
        Reference::Named { function, name } => {
            let filter = Filter {
                name: Some(name.to_owned()),
                ..Filter::default()
            };
            let found = client.executions(function, &filter, 1).await?;
            let arn = found
                .first()
                .and_then(|found| text(found, "DurableExecutionArn"));
            arn.map(str::to_owned).ok_or_else(|| {
                Problem::not_found(format!(
                    "function {function} has no execution named {name}: `outlast ls {function}` \
                     shows those it has"
                ))
            })
        }
        Reference::Prefix(prefix) => by_prefix(client, prefix).await,
    }
}

async fn by_prefix(client: &Client, prefix: &str) -> Result<String, Problem> {
    let mut found: Vec<String> = Vec::new();
    let prefix = prefix.to_ascii_lowercase();
    let every = Filter::default();
    for function in client.functions().await? {
        let Some(name) = text(&function, "FunctionName") else {
            continue;
        };
        // An ordinary function has none.
        let listed = client.executions(name, &every, LOOKED_AT_MAX);
        let listed = match listed.await {
            Ok(listed) => listed,
            Err(problem) if problem.exception.is_some() => continue,
            Err(problem) => return Err(problem),
        };
        let arns = listed
            .iter()
            .filter_map(|one| text(one, "DurableExecutionArn"));
        found.extend(
            arns.filter(|arn| id_of(arn).starts_with(&prefix))
                .map(str::to_owned),
        );
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Problem::not_found(format!(
            "no execution has an id that begins with {prefix}: `outlast ls` shows the newest"
        ))),
        several => {
            let shown: Vec<&str> = several
                .iter()
                .map(|arn| id_of(arn))
                .take(SHOWN_MAX)
                .collect();
            Err(Problem::usage(format!(
                "{prefix} is the beginning of {} ids ({}, …): write more letters",
                several.len(),
                shown.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_execution_can_be_named_in_three_ways() {
        let arn = "arn:aws:lambda:r:1:function:f:1/durable-execution/n/i";
        assert_eq!(Reference::parse(arn), Ok(Reference::Arn(arn)));
        let named = Reference::Named {
            function: "order:1",
            name: "run-1",
        };
        assert_eq!(Reference::parse("order:1/run-1"), Ok(named));
        assert_eq!(Reference::parse("01ab"), Ok(Reference::Prefix("01ab")));
        let id = "0123abcd-0123-0123-0123-0123456789ab";
        assert_eq!(Reference::parse(id), Ok(Reference::Prefix(id)));
    }

    #[test]
    fn anything_else_is_refused_with_a_remedy() {
        let long = "0".repeat(ID_LETTERS + 1);
        for written in ["", "01a", "order", "/n", "f/", "f/n/m", "01ag", &long] {
            let refused = Reference::parse(written).unwrap_err();
            assert_eq!(refused.cause, crate::problem::Cause::Usage);
            assert!(refused.to_string().contains("`outlast ls`"), "{refused}");
        }
    }
}
