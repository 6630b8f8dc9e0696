//! What people hand to a command: as it stands, from a file, or from stdin.

use crate::{arguments::client, problem::Problem};
use serde_json::{Map, Value};
use std::{
    fs::File,
    io::{Read, stdin},
};

/// Bytes of what is handed over, at most: more than any endpoint takes.
const BYTES_MAX: usize = 8 * 1_048_576;

/// The bytes that `given` means: itself, `@FILE`, or `-` for stdin. None are none.
///
/// # Errors
/// When they cannot be read, or are too many.
pub(crate) fn read(given: Option<&str>) -> Result<Vec<u8>, Problem> {
    match given {
        None => Ok(Vec::new()),
        Some("-") => all(stdin().lock(), "stdin"),
        Some(given) => match given.strip_prefix('@') {
            Some(file) => from_file(file),
            None => all(given.as_bytes(), "the data"),
        },
    }
}

/// The JSON object in a file, or in stdin if its name is `-`.
///
/// # Errors
/// When it cannot be read, or is something else.
pub(crate) fn object(file: &str) -> Result<Map<String, Value>, Problem> {
    let bytes = match file {
        "-" => all(stdin().lock(), "stdin")?,
        file => from_file(file)?,
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        Problem::usage(format!(
            "{file} is not a JSON object ({error}): write a function's configuration, such as \
             {{\"FunctionName\": \"order\", \"DurableConfig\": {{\"ExecutionTimeout\": 3600}}}}"
        ))
    })
}

/// The input of a function: JSON, or nothing.
///
/// # Errors
/// When it cannot be read, or is not JSON.
pub(crate) fn input(given: Option<&str>) -> Result<Vec<u8>, Problem> {
    let bytes = read(given)?;
    if bytes.is_empty() {
        return Ok(bytes);
    }
    match serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => {
            let shown = crate::paint::short(&String::from_utf8_lossy(&bytes), 40);
            Err(Problem::usage(format!(
                "the input {shown} is not JSON ({error}): a text needs quotes, such as '\"text\"'; \
                 @FILE reads a file"
            )))
        }
    }
}

/// The error that somebody wants to hand over, in the service's shape.
///
/// # Errors
/// When its data cannot be read, or is not UTF-8.
pub(crate) fn error(given: &client::Error) -> Result<Value, Problem> {
    let mut error = Map::new();
    let mut put = |member: &str, value: Option<String>| {
        if let Some(value) = value {
            error.insert(member.into(), value.into());
        }
    };
    put("ErrorType", given.error_type.clone());
    put("ErrorMessage", given.message.clone());
    if given.data.is_some() {
        let data = String::from_utf8(read(given.data.as_deref())?);
        let data = data.map_err(|_| Problem::usage("the data of an error must be UTF-8"))?;
        put("ErrorData", Some(data));
    }
    Ok(Value::Object(error))
}

fn from_file(file: &str) -> Result<Vec<u8>, Problem> {
    let unreadable = |error| Problem::usage(format!("{file} cannot be read: {error}"));
    all(File::open(file).map_err(unreadable)?, file)
}

fn all(from: impl Read, what: &str) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let read = from.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Problem::usage(format!("{what} cannot be read: {error}")))?;
    if bytes.len() > BYTES_MAX {
        return Err(Problem::usage(format!(
            "{what} has more than {BYTES_MAX} bytes: put it into a file store and hand over its address"
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_read_from_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        std::fs::write(&file, "[1]").unwrap();
        let at = format!("@{}", file.display());
        assert_eq!(read(None).unwrap(), b"");
        assert_eq!(read(Some("{}")).unwrap(), b"{}");
        assert_eq!(input(Some(&at)).unwrap(), b"[1]");
        let missing = read(Some("@no such file")).unwrap_err().to_string();
        assert!(missing.contains("no such file cannot be read"), "{missing}");
        let text = input(Some("hello")).unwrap_err().to_string();
        assert!(text.contains("the input hello is not JSON"), "{text}");
    }

    #[test]
    fn data_is_bounded() {
        for (bytes, fits) in [
            (BYTES_MAX - 1, true),
            (BYTES_MAX, true),
            (BYTES_MAX + 1, false),
        ] {
            assert_eq!(all(&vec![b' '; bytes][..], "it").is_ok(), fits, "{bytes}");
        }
    }

    #[test]
    fn an_error_has_only_what_was_given() {
        let given = client::Error {
            error_type: Some("Late".to_owned()),
            message: None,
            data: Some("{}".to_owned()),
        };
        assert_eq!(
            error(&given).unwrap().to_string(),
            r#"{"ErrorData":"{}","ErrorType":"Late"}"#
        );
    }
}
