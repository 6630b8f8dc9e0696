//! What a project's file says, with the line of every value, whatever it was written in.
//!
//! Scalars are text: what they mean is for whoever asks. Nothing is looked up or computed here.

use std::{fmt, path::Path};

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Counted from one.
    pub(crate) line: usize,
    pub(crate) value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nothing,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    pub(crate) fn new(line: usize, value: Value) -> Self {
        Self { line, value }
    }

    pub(crate) fn of_text(line: usize, text: impl Into<String>) -> Self {
        Self::new(line, Value::Text(text.into()))
    }

    /// A member of a map.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let mut entries = self.entries().iter();
        let (_, node) = entries.find(|(key, _)| key == name)?;
        (node.value != Value::Nothing).then_some(node)
    }

    /// The members of a map; of anything else, none.
    pub(crate) fn entries(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            Value::Nothing | Value::Text(_) | Value::List(_) => &[],
        }
    }

    /// The items of a list; of anything else, none.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            Value::Nothing | Value::Text(_) | Value::Map(_) => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Nothing | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The text, or what is wrong with it.
    pub(crate) fn expect_text(&self, what: &str) -> Result<&str, Trouble> {
        let wrong = || self.trouble(format!("{what} is not a text"), "write one value");
        self.text().ok_or_else(wrong)
    }

    /// The whole number, or what is wrong with it.
    pub(crate) fn expect_number(&self, what: &str) -> Result<u64, Trouble> {
        let number = self.text().and_then(|text| text.trim().parse().ok());
        number.ok_or_else(|| {
            self.trouble(
                format!("{what} is not a whole number"),
                "write digits, such as 30",
            )
        })
    }

    /// Whether it is so, or what is wrong with it.
    pub(crate) fn expect_bool(&self, what: &str) -> Result<bool, Trouble> {
        let said = self.text().and_then(|text| text.trim().parse().ok());
        let wrong = || {
            self.trouble(
                format!("{what} is neither true nor false"),
                "write true or false",
            )
        };
        said.ok_or_else(wrong)
    }

    /// Something that is wrong here.
    pub(crate) fn trouble(&self, what: impl Into<String>, remedy: impl Into<String>) -> Trouble {
        Trouble {
            line: self.line,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// This map with the members of another in place of its own, maps in maps likewise.
    pub(crate) fn overlaid(&self, over: &Self) -> Self {
        let (Value::Map(own), Value::Map(others)) = (&self.value, &over.value) else {
            return over.clone();
        };
        let mut entries = own.clone();
        for (name, other) in others {
            match entries.iter_mut().find(|(key, _)| key == name) {
                Some((_, known)) => *known = known.overlaid(other),
                None => entries.push((name.clone(), other.clone())),
            }
        }
        Self::new(over.line, Value::Map(entries))
    }
}

/// What is wrong with a file, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) line: usize,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Trouble {
    /// For people, with the file.
    pub(crate) fn told_of(&self, file: &Path) -> anyhow::Error {
        anyhow::anyhow!("{}:{self}", file.display())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.line, self.what, self.remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, Node)]) -> Node {
        let own = |(name, node): &(&str, Node)| ((*name).to_owned(), node.clone());
        Node::new(1, Value::Map(entries.iter().map(own).collect()))
    }

    #[test]
    fn a_map_lies_over_another_member_by_member() {
        let text = |text: &str| Node::of_text(1, text);
        let below = map(&[("a", text("1")), ("m", map(&[("x", text("1"))]))]);
        let over = map(&[("a", text("2")), ("m", map(&[("y", text("2"))]))]);
        let both = map(&[("x", text("1")), ("y", text("2"))]);
        assert_eq!(below.overlaid(&over), map(&[("a", text("2")), ("m", both)]));
    }
}
