//! TOML as a tree with lines.

use crate::dev::node::{Node, Trouble, Value};
use toml_span::{Value as Parsed, value::ValueInner};

/// Reads a file.
pub(crate) fn read(text: &str) -> Result<Node, Trouble> {
    match toml_span::parse(text) {
        Ok(mut parsed) => Ok(node(&mut parsed, text)),
        Err(error) => Err(Trouble {
            line: line(text, error.span.start),
            what: format!("this is not TOML: {error}"),
            remedy: "mend the line".to_owned(),
        }),
    }
}

fn node(parsed: &mut Parsed<'_>, text: &str) -> Node {
    let line = line(text, parsed.span.start);
    let value = match parsed.take() {
        ValueInner::String(text) => Value::Text(text.into_owned()),
        ValueInner::Integer(number) => Value::Text(number.to_string()),
        ValueInner::Float(number) => Value::Text(number.to_string()),
        ValueInner::Boolean(is) => Value::Text(is.to_string()),
        ValueInner::Array(items) => {
            let items = items.into_iter();
            Value::List(items.map(|mut item| node(&mut item, text)).collect())
        }
        ValueInner::Table(table) => {
            let entries = table.into_iter();
            let entry = |(key, mut value): (toml_span::value::Key<'_>, Parsed<'_>)| {
                (key.name.into_owned(), node(&mut value, text))
            };
            Value::Map(entries.map(entry).collect())
        }
    };
    Node::new(line, value)
}

/// The line of a byte, counted from one.
fn line(text: &str, at: usize) -> usize {
    let before = text.bytes().take(at);
    1 + before.filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_lines() {
        let read = read("[functions.a]\ntimeout = 30\nenvironment = { A = \"x\", B = true }\n");
        let read = read.unwrap();
        let function = read.get("functions").unwrap().get("a").unwrap();
        let timeout = function.get("timeout").unwrap();
        assert_eq!((timeout.line, timeout.text()), (2, Some("30")));
        let variables = function.get("environment").unwrap();
        assert_eq!(variables.get("B").unwrap().text(), Some("true"));
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        assert_eq!(read("a = 1\nb = \n").unwrap_err().line, 2);
    }
}
