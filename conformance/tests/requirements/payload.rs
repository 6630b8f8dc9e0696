//! Callback payloads as the official runner writes them: JSON with a space after every comma and
//! colon, which the expected histories quote.

use outlast::BoxError;
use serde::Serialize as _;
use serde_json::{Serializer, Value, ser::Formatter};
use std::io;

/// The value as that text.
pub(crate) fn text(value: &Value) -> Result<String, BoxError> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced))?;
    Ok(String::from_utf8(bytes)?)
}

struct Spaced;

fn comma<W: io::Write + ?Sized>(writer: &mut W, first: bool) -> io::Result<()> {
    if first {
        Ok(())
    } else {
        writer.write_all(b", ")
    }
}

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        comma(writer, first)
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        comma(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[test]
fn there_is_a_space_after_every_comma_and_colon() {
    let value = serde_json::json!({ "a": [1, "x, y"], "b": {} });
    assert_eq!(text(&value).unwrap(), r#"{"a": [1, "x, y"], "b": {}}"#);
}
