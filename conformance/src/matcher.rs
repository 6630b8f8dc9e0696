//! Judges what an execution did against what a requirement expects, both as JSON.
//!
//! The language of expectations: `${NAME}` is bound to the first value it meets and must equal it
//! ever after, `${/regex/}` must be found in the value, `'*'` and `{}` accept anything that is
//! there, other mappings name the members that must match, and everything else must be equal, with
//! known names inside a text replaced by their values. Running a requirement is not done here.

#[cfg(test)]
mod tests;

use regex_lite::Regex;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt::Write as _};

/// What the names in a requirement stand for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings(BTreeMap<String, Value>);

impl Bindings {
    /// Binds the variables of a requirement. A variable of the form `${GEN_STR:n}` becomes a text
    /// of `n` letters, drawn by `letter`.
    pub fn of_variables(variables: Option<&Value>, mut letter: impl FnMut() -> char) -> Self {
        let variables = variables.and_then(Value::as_object).into_iter().flatten();
        Self(
            variables
                .map(|(name, value)| {
                    let length = value
                        .as_str()
                        .and_then(whole_name)
                        .and_then(|name| name.strip_prefix("GEN_STR:"));
                    let generated = length.and_then(|length| length.parse::<usize>().ok());
                    let value = generated.map_or_else(
                        || value.clone(),
                        |length| {
                            std::iter::repeat_with(&mut letter)
                                .take(length)
                                .collect::<String>()
                                .into()
                        },
                    );
                    (name.clone(), value)
                })
                .collect(),
        )
    }

    /// What a name stands for.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The value with every known name in it replaced.
    pub fn substitute(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match whole_name(text).and_then(|name| self.get(name)) {
                Some(bound) => bound.clone(),
                None => self.substitute_text(text).into(),
            },
            Value::Array(items) => items.iter().map(|item| self.substitute(item)).collect(),
            Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(key, value)| (key.clone(), self.substitute(value)));
                Value::Object(members.collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn substitute_text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("${{{name}}}"), &plain(value))
        })
    }
}

/// The name if the text is `${name}` and nothing else.
fn whole_name(text: &str) -> Option<&str> {
    text.strip_prefix("${")?
        .strip_suffix('}')
        .filter(|name| !name.contains(['{', '}']))
}

/// The pattern if the text is `${/pattern/}`.
fn whole_pattern(text: &str) -> Option<&str> {
    text.strip_prefix("${/")?.strip_suffix("/}")
}

/// A value as text, without the quotes of a string.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Compares expectations with values, collecting what is wrong.
#[derive(Debug)]
pub struct Matcher {
    bindings: Bindings,
    problems: Vec<String>,
}

impl Matcher {
    /// A matcher that knows these names.
    pub fn new(bindings: Bindings) -> Self {
        Self {
            bindings,
            problems: Vec::new(),
        }
    }

    /// What was wrong; nothing if all matched.
    pub fn into_problems(self) -> Vec<String> {
        self.problems
    }

    fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// Judges a whole history. Events are numbered from 1 without gaps and matched by number.
    ///
    /// A list of expected events that ends with the end of an invocation or of the execution is
    /// meant to be complete. Then nothing else may have happened: only the execution's own start and
    /// end and the end of an invocation may be left out of the list.
    pub fn events(&mut self, expected: &[Value], actual: &[Value]) {
        for (index, event) in actual.iter().enumerate() {
            if number(event) != Some(index as u64 + 1) {
                self.problem(format!(
                    "event {} of the history is numbered {}",
                    index + 1,
                    member(event, "EventId")
                ));
            }
        }
        let find = |wanted| actual.iter().find(|event| number(event) == Some(wanted));
        for event in expected {
            let Some(wanted) = number(event) else {
                self.problem(format!("an expected event has no number: {event}"));
                continue;
            };
            match find(wanted) {
                Some(found) => self.value(event, found, &format!("event {wanted}")),
                None => self.problem(format!(
                    "event {wanted} is missing, expected {}",
                    member(event, "EventType")
                )),
            }
        }
        let last = expected.last();
        if last.is_some_and(|event| is_end_of_invocation(event) || is_end_of_execution(event)) {
            self.nothing_else(expected, actual);
        }
    }

    fn nothing_else(&mut self, expected: &[Value], actual: &[Value]) {
        let listed = |event: &Value| expected.iter().any(|other| number(other) == number(event));
        let last = expected.iter().filter_map(number).max().unwrap_or_default();
        for event in actual.iter().filter(|event| !listed(event)) {
            let at = number(event).unwrap_or_default();
            let may_be_left_out = member(event, "EventType") == "ExecutionStarted"
                || (is_end_of_invocation(event) && at < last)
                || (is_end_of_execution(event) && at == last + 1);
            if !may_be_left_out {
                self.problem(format!(
                    "event {at} is not expected: {}",
                    member(event, "EventType")
                ));
            }
        }
    }

    /// Judges one value.
    pub fn value(&mut self, expected: &Value, actual: &Value, path: &str) {
        if let (Value::Object(members), Value::Object(found)) = (expected, actual) {
            self.members(members, found, path);
        } else if let (Value::Array(items), Value::Array(found)) = (expected, actual)
            && items.len() == found.len()
        {
            for (index, (item, found)) in items.iter().zip(found).enumerate() {
                self.value(item, found, &format!("{path}[{index}]"));
            }
        } else if let Value::String(text) = expected {
            self.text(text, actual, path);
        } else if !is_empty_mapping(expected) {
            self.equal(expected, actual, path);
        }
    }

    fn members(&mut self, expected: &Map<String, Value>, actual: &Map<String, Value>, path: &str) {
        for (key, value) in expected {
            match actual.get(key) {
                Some(found) => self.value(value, found, &format!("{path}.{key}")),
                None => self.problem(format!("{path}.{key} is missing, expected {value}")),
            }
        }
    }

    fn text(&mut self, expected: &str, actual: &Value, path: &str) {
        if expected == "*" {
        } else if let Some(pattern) = whole_pattern(expected) {
            match Regex::new(pattern) {
                Ok(regex) if regex.is_match(&plain(actual)) => {}
                Ok(_) => self.problem(format!("{path}: {actual} does not match /{pattern}/")),
                Err(error) => self.problem(format!(
                    "{path}: the pattern /{pattern}/ cannot be read: {error}"
                )),
            }
        } else if let Some(name) = whole_name(expected) {
            match self.bindings.get(name) {
                Some(bound) if bound == actual => {}
                Some(bound) => {
                    let problem = format!("{path}: {actual}, but {name} stands for {bound}");
                    self.problem(problem);
                }
                None => {
                    self.bindings.0.insert(name.to_owned(), actual.clone());
                }
            }
        } else {
            let expected = self.bindings.substitute_text(expected).into();
            self.equal(&expected, actual, path);
        }
    }

    fn equal(&mut self, expected: &Value, actual: &Value, path: &str) {
        if expected != actual {
            self.problem(format!("{path}: expected {expected}, found {actual}"));
        }
    }

    /// Judges how the execution ended. A result is compared as the JSON it is, and only if the
    /// execution succeeded and the requirement names one.
    pub fn result(&mut self, expected: &Value, status: &str, result: Option<&str>) {
        if let Some(wanted) = expected.get("ExecutionStatus") {
            self.equal(wanted, &status.into(), "status");
        }
        let Some(wanted) = expected.get("Result").filter(|_| status == "SUCCEEDED") else {
            return;
        };
        let wanted = self.bindings.substitute(wanted);
        let found = result.map_or(Value::Null, |text| {
            serde_json::from_str(text).unwrap_or_else(|_| text.into())
        });
        self.equal(&wanted, &found, "result");
    }

    /// Judges the messages that were logged: how many match each pattern, and in which order.
    pub fn logs(&mut self, expected: &[Value], messages: &[String]) {
        let mut position = 0;
        for entry in expected {
            let pattern = entry
                .pointer("/match/message")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let pattern = self.bindings.substitute_text(pattern);
            let pattern = pattern.trim_start_matches('/').trim_end_matches('/');
            let Some(count) = entry.get("count").and_then(Value::as_u64) else {
                self.problem(format!("the expected log {entry} names no count"));
                continue;
            };
            let regex = match Regex::new(pattern) {
                Ok(regex) => regex,
                Err(error) => {
                    self.problem(format!("the pattern /{pattern}/ cannot be read: {error}"));
                    continue;
                }
            };
            let found: Vec<usize> = messages
                .iter()
                .enumerate()
                .filter(|(_, text)| regex.is_match(text))
                .map(|(at, _)| at)
                .collect();
            if found.len() as u64 != count {
                let problem = format!(
                    "/{pattern}/ was logged {} times, expected {count}",
                    found.len()
                );
                self.problem(problem);
            } else if found.first().is_some_and(|first| *first < position) {
                self.problem(format!("/{pattern}/ was logged too early"));
            }
            position = found.last().map_or(position, |last| last + 1);
        }
    }
}

fn is_empty_mapping(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn number(event: &Value) -> Option<u64> {
    event.get("EventId")?.as_u64()
}

fn member<'a>(event: &'a Value, key: &str) -> &'a str {
    event.get(key).and_then(Value::as_str).unwrap_or("nothing")
}

fn is_end_of_invocation(event: &Value) -> bool {
    member(event, "EventType") == "InvocationCompleted"
}

fn is_end_of_execution(event: &Value) -> bool {
    [
        "ExecutionSucceeded",
        "ExecutionFailed",
        "ExecutionTimedOut",
        "ExecutionStopped",
    ]
    .contains(&member(event, "EventType"))
}

/// A history in one line per event, to stand beside what is wrong with it.
pub fn transcript(events: &[Value]) -> String {
    events.iter().fold(String::new(), |mut text, event| {
        let kind = member(event, "EventType");
        let details = event
            .get(format!("{kind}Details"))
            .map(ToString::to_string)
            .unwrap_or_default();
        let details: String = details.chars().take(200).collect();
        let id: String = member(event, "Id").chars().take(6).collect();
        let parent: String = member(event, "ParentId").chars().take(6).collect();
        let name = member(event, "Name");
        let label = member(event, "SubType");
        let at = number(event).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {at:>3} {kind} {label} id={id} parent={parent} name={name} {details}"
        );
        text
    })
}
