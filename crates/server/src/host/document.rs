//! Error documents: how runtimes write down that a handler failed.
//!
//! A document is a JSON object with `errorMessage`, `errorType` and `stackTrace`. Runtimes differ in
//! what they leave out and in how they write a stack frame, so anything readable is taken.

use outlast_core::{json, wire::ErrorObject};
use serde_json::{Map, Value};

/// The type of an error whose report names none.
const UNNAMED: &str = "Runtime.Unknown";

/// Reads an error report. `header` is the error type that came beside it; the document's own wins,
/// because some runtimes always send the same word in the header.
pub fn read(body: &[u8], header: Option<&str>) -> ErrorObject {
    let kind = |written: Option<String>| {
        let known = written.filter(|kind| !kind.is_empty());
        let named = known.or_else(|| header.map(str::to_owned).filter(|kind| !kind.is_empty()));
        Some(named.unwrap_or_else(|| UNNAMED.to_owned()))
    };
    match json::read::<Value>(body) {
        Ok(Value::Object(document)) => {
            let error = mapped(&document);
            ErrorObject {
                error_type: kind(error.error_type),
                ..error
            }
        }
        Ok(Value::String(message)) => ErrorObject {
            error_type: kind(None),
            error_message: Some(message),
            ..ErrorObject::default()
        },
        Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | Err(_) => {
            let text = String::from_utf8_lossy(body).into_owned();
            ErrorObject {
                error_type: kind(None),
                error_message: Some(text).filter(|text| !text.is_empty()),
                ..ErrorObject::default()
            }
        }
    }
}

/// Whether an answer is an error document although nothing beside it says so: the emulator in AWS's
/// base images sends none of the headers of the real service.
///
/// An object that has a `Status` is the output of a durable handler. A plain function may answer
/// anything, so there both members of a document are asked for.
pub fn recognise(body: &[u8], durable: bool) -> Option<ErrorObject> {
    let Ok(Value::Object(document)) = json::read::<Value>(body) else {
        return None;
    };
    let has = |member| document.get(member).is_some_and(Value::is_string);
    let is_error = match durable {
        true => !document.contains_key("Status") && (has("errorType") || has("errorMessage")),
        false => has("errorType") && has("errorMessage"),
    };
    is_error.then(|| read(body, None))
}

fn mapped(document: &Map<String, Value>) -> ErrorObject {
    let text = |member| document.get(member).filter(|value| !value.is_null());
    let frames = |value: &Value| match value {
        Value::Array(frames) => frames.iter().map(plain).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            plain(value).lines().map(str::to_owned).collect()
        }
    };
    ErrorObject {
        error_type: text("errorType").map(plain),
        error_message: text("errorMessage").map(plain),
        error_data: text("errorData").map(plain),
        stack_trace: text("stackTrace").map(frames),
    }
}

/// A string as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, header: Option<&str>, expected: &str) {
        let error = read(body.as_bytes(), header);
        assert_eq!(serde_json::to_string(&error).unwrap(), expected, "{body}");
    }

    #[test]
    fn a_document_becomes_an_error_whatever_its_runtime_wrote() {
        check(
            r#"{"errorMessage":"no","errorType":"ValueError","stackTrace":["a","b"]}"#,
            Some("Unhandled"),
            r#"{"ErrorType":"ValueError","ErrorMessage":"no","StackTrace":["a","b"]}"#,
        );
        check(
            r#"{"errorMessage":"no","errorType":"E","stackTrace":[["f.py",3,"g","h()"],"x"]}"#,
            None,
            r#"{"ErrorType":"E","ErrorMessage":"no","StackTrace":["[\"f.py\",3,\"g\",\"h()\"]","x"]}"#,
        );
        check(
            r#"{"errorMessage":"no","stackTrace":"one\ntwo","errorData":{"a":1}}"#,
            Some("Runtime.ImportModuleError"),
            r#"{"ErrorType":"Runtime.ImportModuleError","ErrorMessage":"no","ErrorData":"{\"a\":1}","StackTrace":["one","two"]}"#,
        );
    }

    #[test]
    fn a_report_that_is_no_document_is_kept_as_the_message() {
        check(
            "oops",
            None,
            r#"{"ErrorType":"Runtime.Unknown","ErrorMessage":"oops"}"#,
        );
        check(
            r#""text""#,
            Some("T"),
            r#"{"ErrorType":"T","ErrorMessage":"text"}"#,
        );
        check(
            "[1]",
            Some(""),
            r#"{"ErrorType":"Runtime.Unknown","ErrorMessage":"[1]"}"#,
        );
        check("", Some("T"), r#"{"ErrorType":"T"}"#);
        let error = read(b"\xff", None);
        assert_eq!(error.error_message.as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn an_output_is_not_taken_for_an_error() {
        let cases = [
            (r#"{"Status":"FAILED","errorType":"E"}"#, false, false),
            (r#"{"Status":"SUCCEEDED"}"#, false, false),
            (r#"{"errorType":"E","errorMessage":"m"}"#, true, true),
            (r#"{"errorMessage":"m"}"#, true, false),
            (r#"{"errorType":"E"}"#, true, false),
            (r#"{"errorType":1,"errorMessage":null}"#, false, false),
            ("[]", false, false),
            ("not json", false, false),
        ];
        for (body, durable, plain) in cases {
            let found = |kind| recognise(body.as_bytes(), kind).is_some();
            assert_eq!((found(true), found(false)), (durable, plain), "{body}");
        }
    }
}
