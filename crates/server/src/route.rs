//! What a request asks for, read from its method and path. Pure: it looks nothing up.
//!
//! Clients send an ARN as one percent-encoded segment; people with curl send it raw, slashes
//! included. So a path is split at its literal slashes first and decoded afterwards.

use hyper::Method;
use std::borrow::Cow;

/// The prefix of the durable operations.
const DURABLE: &str = "2025-12-01";
/// The prefix of the operations on functions.
const LAMBDA: &str = "2015-03-31";
/// The prefix of the Lambda Runtime API.
const RUNTIME: &str = "2018-06-01";
/// Slash-separated parts of an execution's ARN.
const ARN_SEGMENTS: usize = 4;

/// A request that some operation answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// An operation of the service on an execution, by its ARN.
    Execution(Cow<'a, str>, ExecutionAction),
    /// An operation on a callback, by its id.
    Callback(Cow<'a, str>, CallbackAction),
    /// ListDurableExecutionsByFunction.
    Executions(Cow<'a, str>),
    /// Invoke.
    Invoke(Cow<'a, str>),
    /// CreateFunction.
    CreateFunction,
    /// ListFunctions.
    ListFunctions,
    /// An operation on a function.
    Function(Cow<'a, str>, FunctionAction),
    /// An operation on an alias of a function.
    Alias(Cow<'a, str>, Cow<'a, str>, AliasAction),
    /// Checkpoints of several executions.
    Checkpoints,
    /// Our own operations on an execution.
    Own(Cow<'a, str>, OwnAction),
    /// A signal to an execution, by name.
    Signal(Cow<'a, str>, Cow<'a, str>),
    /// What a function prints.
    Logs(Cow<'a, str>, LogAction),
    /// The Lambda Runtime API of a function, under this server's port.
    Runtime(Cow<'a, str>),
    /// How the server is.
    Health,
    /// What the server has counted.
    Metrics,
}

/// What the service can be asked about an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionAction {
    /// CheckpointDurableExecution.
    Checkpoint,
    /// GetDurableExecutionState.
    State,
    /// GetDurableExecution.
    Get,
    /// GetDurableExecutionHistory.
    History,
    /// StopDurableExecution.
    Stop,
}

/// What can be done about a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallbackAction {
    /// SendDurableExecutionCallbackSuccess.
    Succeed,
    /// SendDurableExecutionCallbackFailure.
    Fail,
    /// SendDurableExecutionCallbackHeartbeat.
    Heartbeat,
}

/// What can be done with a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionAction {
    /// GetFunction.
    Get,
    /// DeleteFunction.
    Delete,
    /// GetFunctionConfiguration.
    GetConfiguration,
    /// UpdateFunctionConfiguration.
    UpdateConfiguration,
    /// UpdateFunctionCode.
    UpdateCode,
    /// PublishVersion.
    Publish,
    /// ListVersionsByFunction.
    ListVersions,
    /// CreateAlias.
    CreateAlias,
    /// ListAliases.
    ListAliases,
}

/// What can be done with an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AliasAction {
    /// GetAlias.
    Get,
    /// UpdateAlias.
    Update,
    /// DeleteAlias.
    Delete,
}

/// What Outlast offers on executions beyond the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnAction {
    /// One sentence: why it is where it is.
    Why,
    /// Let it go on after it was held.
    Resume,
    /// Fail it after it was held.
    Fail,
    /// Remove it after its end.
    Delete,
    /// Wait until something changed that its handler does not know.
    Changed,
    /// Wait for its end.
    End,
    /// What time it is, and when it goes on by itself; only on a test clock.
    Clock,
    /// Skip the time in which it only waits; only on a test clock.
    Skip,
}

/// What can be done with what functions print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogAction {
    /// Read the last lines.
    Read,
    /// Add lines.
    Add,
}

/// Why a request has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// No operation has this method and path.
    #[error("no operation has this method and path")]
    Unknown,
    /// Part of the path is not percent-encoded UTF-8.
    #[error("part of the path is not percent-encoded UTF-8")]
    Malformed,
}

/// The route of a request; `path` as it was sent, without the query.
///
/// # Errors
/// When no operation has this method and path, or the path cannot be decoded.
pub fn route<'a>(method: &Method, path: &'a str) -> Result<Route<'a>, RouteError> {
    let rest = path.strip_prefix('/').ok_or(RouteError::Unknown)?;
    let (first, rest) = rest.split_once('/').unwrap_or((rest, ""));
    match first {
        DURABLE => durable(method, rest),
        LAMBDA => functions(method, rest),
        "outlast" => own(method, rest),
        "functions" => runtime(rest),
        "metrics" if rest.is_empty() && method == Method::GET => Ok(Route::Metrics),
        "health" if rest.is_empty() && method == Method::GET => Ok(Route::Health),
        _ => Err(RouteError::Unknown),
    }
}

fn durable<'a>(method: &Method, rest: &'a str) -> Result<Route<'a>, RouteError> {
    let (collection, rest) = rest.split_once('/').ok_or(RouteError::Unknown)?;
    match collection {
        "durable-executions" => {
            use ExecutionAction as Action;
            let (arn, action) = arn_and_rest(rest)?;
            let action = match (method, action) {
                (&Method::POST, "checkpoint") => Action::Checkpoint,
                (&Method::GET, "state") => Action::State,
                (&Method::GET, "") => Action::Get,
                (&Method::GET, "history") => Action::History,
                (&Method::POST, "stop") => Action::Stop,
                _ => return Err(RouteError::Unknown),
            };
            Ok(Route::Execution(decode(arn)?, action))
        }
        "durable-execution-callbacks" => {
            // A raw id may contain slashes: the action is what comes last.
            let (id, action) = rest.rsplit_once('/').ok_or(RouteError::Unknown)?;
            let action = match (method, action) {
                (&Method::POST, "succeed") => CallbackAction::Succeed,
                (&Method::POST, "fail") => CallbackAction::Fail,
                (&Method::POST, "heartbeat") => CallbackAction::Heartbeat,
                _ => return Err(RouteError::Unknown),
            };
            Ok(Route::Callback(decode(id)?, action))
        }
        "functions" => match rest.split_once('/') {
            Some((name, "durable-executions")) if method == Method::GET => {
                Ok(Route::Executions(decode(name)?))
            }
            _ => Err(RouteError::Unknown),
        },
        _ => Err(RouteError::Unknown),
    }
}

fn functions<'a>(method: &Method, rest: &'a str) -> Result<Route<'a>, RouteError> {
    use FunctionAction as Action;
    let rest = match rest.split_once('/') {
        Some(("functions", rest)) => rest,
        None if rest == "functions" => "",
        _ => return Err(RouteError::Unknown),
    };
    let (name, action) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return match (method, action) {
            (&Method::POST, "") => Ok(Route::CreateFunction),
            (&Method::GET, "") => Ok(Route::ListFunctions),
            _ => Err(RouteError::Unknown),
        };
    }
    let name = decode(name)?;
    let action = match (method, action) {
        (&Method::POST, "invocations") => return Ok(Route::Invoke(name)),
        (&Method::GET, "") => Action::Get,
        (&Method::DELETE, "") => Action::Delete,
        (&Method::GET, "configuration") => Action::GetConfiguration,
        (&Method::PUT, "configuration") => Action::UpdateConfiguration,
        (&Method::PUT, "code") => Action::UpdateCode,
        (&Method::POST, "versions") => Action::Publish,
        (&Method::GET, "versions") => Action::ListVersions,
        (&Method::POST, "aliases") => Action::CreateAlias,
        (&Method::GET, "aliases") => Action::ListAliases,
        (method, action) => return alias(method, name, action),
    };
    Ok(Route::Function(name, action))
}

fn alias<'a>(
    method: &Method,
    function: Cow<'a, str>,
    action: &'a str,
) -> Result<Route<'a>, RouteError> {
    let alias = action.strip_prefix("aliases/").ok_or(RouteError::Unknown)?;
    if alias.is_empty() || alias.contains('/') {
        return Err(RouteError::Unknown);
    }
    let action = match *method {
        Method::GET => AliasAction::Get,
        Method::PUT => AliasAction::Update,
        Method::DELETE => AliasAction::Delete,
        _ => return Err(RouteError::Unknown),
    };
    Ok(Route::Alias(function, decode(alias)?, action))
}

fn own<'a>(method: &Method, rest: &'a str) -> Result<Route<'a>, RouteError> {
    if rest == "v1/checkpoints" && method == Method::POST {
        return Ok(Route::Checkpoints);
    }
    if let Some(rest) = rest.strip_prefix("v1/functions/") {
        let action = match (method, rest.split_once('/')) {
            (&Method::GET, Some((_, "logs"))) => LogAction::Read,
            (&Method::POST, Some((_, "logs"))) => LogAction::Add,
            _ => return Err(RouteError::Unknown),
        };
        let function = rest.strip_suffix("/logs").filter(|name| !name.is_empty());
        return Ok(Route::Logs(
            decode(function.ok_or(RouteError::Unknown)?)?,
            action,
        ));
    }
    let rest = rest
        .strip_prefix("v1/executions/")
        .ok_or(RouteError::Unknown)?;
    let (arn, action) = arn_and_rest(rest)?;
    let action = match (method, action) {
        (&Method::GET, "why") => OwnAction::Why,
        (&Method::POST, "resume") => OwnAction::Resume,
        (&Method::POST, "fail") => OwnAction::Fail,
        (&Method::DELETE, "") => OwnAction::Delete,
        (&Method::GET, "changed") => OwnAction::Changed,
        (&Method::GET, "end") => OwnAction::End,
        (&Method::GET, "clock") => OwnAction::Clock,
        (&Method::POST, "clock") => OwnAction::Skip,
        (&Method::POST, action) => {
            let name = action.strip_prefix("signals/");
            let name = name.filter(|name| !name.is_empty() && !name.contains('/'));
            let name = name.ok_or(RouteError::Unknown)?;
            return Ok(Route::Signal(decode(arn)?, decode(name)?));
        }
        _ => return Err(RouteError::Unknown),
    };
    Ok(Route::Own(decode(arn)?, action))
}

fn runtime(rest: &str) -> Result<Route<'_>, RouteError> {
    let (function, rest) = rest.split_once('/').ok_or(RouteError::Unknown)?;
    let is_runtime = rest.split('/').next() == Some(RUNTIME);
    if function.is_empty() || !is_runtime {
        return Err(RouteError::Unknown);
    }
    Ok(Route::Runtime(decode(function)?))
}

/// Splits what begins with an ARN, encoded or raw, from what follows it.
fn arn_and_rest(path: &str) -> Result<(&str, &str), RouteError> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let (arn, rest) = if rest.starts_with("durable-execution/") {
        let mut slashes = path.match_indices('/').skip(ARN_SEGMENTS - 1);
        match slashes.next() {
            Some((end, _)) => path.split_at_checked(end).unwrap_or((path, "")),
            None => (path, ""),
        }
    } else {
        (first, rest)
    };
    if arn.is_empty() {
        return Err(RouteError::Unknown);
    }
    Ok((arn, rest.strip_prefix('/').unwrap_or(rest)))
}

/// The query of a request: names and values, still encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    /// The query with this text, as it was sent.
    pub fn new(text: Option<&'a str>) -> Self {
        Self(text.unwrap_or_default())
    }

    /// The first value with this name; an empty one counts as none.
    ///
    /// # Errors
    /// When the value cannot be decoded.
    pub fn get(&self, name: &str) -> Result<Option<Cow<'a, str>>, RouteError> {
        self.encoded(name).next().map(decode).transpose()
    }

    /// Every value with this name; empty ones do not count.
    ///
    /// # Errors
    /// When a value cannot be decoded.
    pub fn all(&self, name: &str) -> Result<Vec<Cow<'a, str>>, RouteError> {
        self.encoded(name).map(decode).collect()
    }

    fn encoded(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let pairs = self.0.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .filter(move |(key, value)| *key == name && !value.is_empty())
            .map(|(_, value)| value)
    }
}

/// Undoes percent-encoding. A `+` is a `+`: tokens contain it, and no client means a space by it.
fn decode(text: &str) -> Result<Cow<'_, str>, RouteError> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let decoded = if byte == b'%' {
            let digits = rest.next().and_then(hex).zip(rest.next().and_then(hex));
            digits.map(|(high, low)| high << 4 | low)
        } else {
            Some(byte)
        };
        bytes.push(decoded.ok_or(RouteError::Malformed)?);
    }
    let text = String::from_utf8(bytes).map_err(|_| RouteError::Malformed)?;
    Ok(Cow::Owned(text))
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
