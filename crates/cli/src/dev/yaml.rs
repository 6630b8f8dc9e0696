//! YAML as a tree with lines. The short forms of intrinsic functions (`!Ref`, `!Sub`) become their
//! long forms; what they mean is not known here.

use crate::dev::node::{Node, Trouble, Value};
use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use std::collections::BTreeMap;

/// Maps and lists in one another, at most.
const DEPTH_MAX: usize = 64;
/// Values of one file, at most, repeated ones counted each time.
const VALUES_MAX: usize = 100_000;

/// Reads the first document.
pub(crate) fn read(text: &str) -> Result<Node, Trouble> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
        values: 0,
    };
    loop {
        let (event, span) = reader.next()?;
        if matches!(event, Event::StreamStart | Event::DocumentStart(..)) {
            continue;
        }
        if matches!(event, Event::StreamEnd | Event::DocumentEnd) {
            return Ok(Node::new(line(&span), Value::Map(Vec::new())));
        }
        return reader.node(event, &span, 0);
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Node>,
    values: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), Trouble> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(Trouble {
                line: error.marker().line(),
                what: format!("this is not YAML: {error}"),
                remedy: "mend the line, or the indentation of the one above it".to_owned(),
            }),
            None => Err(Trouble {
                line: 1,
                what: "the file ends in the middle of a value".to_owned(),
                remedy: "write the rest of it".to_owned(),
            }),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the parser's events may grow, and only these are values"
    )]
    fn node(&mut self, event: Event<'a>, span: &Span, depth: usize) -> Result<Node, Trouble> {
        let line = line(span);
        self.count(line, 1)?;
        if depth > DEPTH_MAX {
            return Err(Trouble {
                line,
                what: format!("more than {DEPTH_MAX} maps and lists lie in one another"),
                remedy: "make it flatter".to_owned(),
            });
        }
        let (value, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let empty = matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = match style == ScalarStyle::Plain && empty && tag.is_none() {
                    true => Value::Nothing,
                    false => Value::Text(text.into_owned()),
                };
                (value, anchor, tag)
            }
            Event::SequenceStart(_, anchor, tag) => (self.list(depth)?, anchor, tag),
            Event::MappingStart(_, anchor, tag) => (self.map(depth)?, anchor, tag),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.unwrap_or(Node::new(line, Value::Nothing));
                self.count(line, size(&node))?;
                return Ok(node);
            }
            _ => (Value::Nothing, 0, None),
        };
        let node = Node::new(line, value);
        let node = match tag.as_deref().and_then(long_form) {
            Some(name) => Node::new(line, Value::Map(vec![(name, node)])),
            None => node,
        };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Value, Trouble> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::List(items));
            }
            items.push(self.node(event, &span, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, Trouble> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let key = self.node(event, &span, depth + 1)?;
            let name = key.expect_text("a key")?.to_owned();
            let (event, span) = self.next()?;
            let node = self.node(event, &span, depth + 1)?;
            if name == "<<" {
                merged.extend(node.entries().iter().cloned());
                continue;
            }
            if let Some((_, first)) = entries.iter().find(|(known, _)| *known == name) {
                let what = format!("{name} is here twice, first in line {}", first.line);
                return Err(key.trouble(what, "remove one of them"));
            }
            entries.push((name, node));
        }
        for (name, node) in merged {
            if entries.iter().all(|(known, _)| *known != name) {
                entries.push((name, node));
            }
        }
        Ok(Value::Map(entries))
    }

    fn count(&mut self, line: usize, values: usize) -> Result<(), Trouble> {
        self.values = self.values.saturating_add(values);
        if self.values <= VALUES_MAX {
            return Ok(());
        }
        Err(Trouble {
            line,
            what: format!("the file has more than {VALUES_MAX} values"),
            remedy: "split it, or repeat less with aliases".to_owned(),
        })
    }
}

/// Values in a tree.
fn size(node: &Node) -> usize {
    let items = node.items().iter().map(size).sum::<usize>();
    let entries = node.entries().iter().map(|(_, node)| size(node));
    1 + items + entries.sum::<usize>()
}

/// `!Ref` is `Ref`, `!Sub` is `Fn::Sub`; tags of YAML itself say nothing new.
fn long_form(tag: &Tag) -> Option<String> {
    if tag.is_yaml_core_schema() {
        return None;
    }
    match tag.suffix() {
        "" => None,
        name @ ("Ref" | "Condition") => Some(name.to_owned()),
        name => Some(format!("Fn::{name}")),
    }
}

fn line(span: &Span) -> usize {
    span.start.line()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_lines_and_short_forms_are_long_ones() {
        let read = read("a: 1\nb:\n  - x\n  - !Sub '${A}'\nc: ~\nd: !GetAtt F.Arn\n").unwrap();
        assert_eq!(read.get("a").unwrap().text(), Some("1"));
        let list = read.get("b").unwrap().items();
        assert_eq!((list[0].line, list[0].text()), (3, Some("x")));
        assert_eq!(list[1].get("Fn::Sub").unwrap().text(), Some("${A}"));
        assert_eq!(read.get("c"), None);
        let got = read.get("d").unwrap();
        assert_eq!(got.get("Fn::GetAtt").unwrap().text(), Some("F.Arn"));
    }

    #[test]
    fn anchors_and_merges_repeat_what_was_said() {
        let read = read("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: *a\n").unwrap();
        let merged = read.get("b").unwrap();
        assert_eq!(merged.get("x").unwrap().text(), Some("1"));
        assert_eq!(merged.get("y").unwrap().text(), Some("3"));
        assert_eq!(read.get("c").unwrap().get("y").unwrap().text(), Some("2"));
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        assert_eq!(read("a: 1\nb: [1\nc: 2\n").unwrap_err().line, 3);
        assert_eq!(read("a: 1\nb: *nobody\n").unwrap_err().line, 2);
        let twice = read("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!(
            (twice.line, &*twice.what),
            (3, "a is here twice, first in line 1")
        );
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(&nested(DEPTH_MAX + 1)).is_ok());
        assert!(read(&nested(DEPTH_MAX + 2)).is_err());
        let mut bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\n".to_owned();
        for (name, before) in ["b", "c", "d", "e", "f"]
            .iter()
            .zip(["a", "b", "c", "d", "e"])
        {
            let items = vec![format!("*{before}"); 10].join(",");
            bomb.push_str(&format!("{name}: &{name} [{items}]\n"));
        }
        assert!(read(&bomb).unwrap_err().what.contains("values"));
    }

    #[test]
    fn an_empty_file_is_an_empty_map() {
        assert!(read("").unwrap().entries().is_empty());
        assert!(read("# nothing\n").unwrap().entries().is_empty());
    }
}
