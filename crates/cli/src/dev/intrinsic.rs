//! The intrinsic functions of templates, as far as a local run gives them a meaning.
//!
//! Only what is asked for is evaluated, so a function that makes no sense here does no harm where
//! nobody looks. What a resource other than a function would be called is not known before it is
//! deployed: its logical name stands for it.

use crate::dev::node::{Node, Trouble, Value};
use outlast::core::arn::LATEST;
use std::collections::BTreeMap;

/// What names mean in a template.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Parameters and pseudo parameters, by name.
    pub(crate) parameters: BTreeMap<String, String>,
    /// The functions, by logical name.
    pub(crate) functions: BTreeMap<String, Function>,
    /// Logical names of everything else.
    pub(crate) resources: Vec<String>,
    /// The template's conditions.
    pub(crate) conditions: Vec<(String, Node)>,
    /// The template's mappings.
    pub(crate) mappings: Option<Node>,
}

/// A function as others refer to it.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Without a qualifier.
    pub(crate) arn: String,
    pub(crate) alias: Option<String>,
}

impl Scope {
    /// The value with all functions evaluated; nothing where it is to be left out.
    pub(crate) fn resolve(&self, node: &Node) -> Result<Node, Trouble> {
        let value = match &node.value {
            Value::Nothing | Value::Text(_) => return Ok(node.clone()),
            Value::List(items) => {
                let items = items.iter().map(|item| self.resolve(item));
                Value::List(items.collect::<Result<_, _>>()?)
            }
            Value::Map(entries) => {
                if let [(name, argument)] = entries.as_slice()
                    && (name == "Ref" || name.starts_with("Fn::"))
                {
                    return self.call(name, argument);
                }
                let entry = |(name, node): &(String, Node)| Ok((name.clone(), self.resolve(node)?));
                Value::Map(entries.iter().map(entry).collect::<Result<_, _>>()?)
            }
        };
        Ok(Node::new(node.line, value))
    }

    fn call(&self, name: &str, argument: &Node) -> Result<Node, Trouble> {
        let text = |text: String| Ok(Node::of_text(argument.line, text));
        match name {
            "Ref" => match argument.expect_text("what Ref names")? {
                "AWS::NoValue" => Ok(Node::new(argument.line, Value::Nothing)),
                named => text(self.reference(named, argument)?),
            },
            "Fn::GetAtt" => text(self.attribute(&path(argument)?, argument)?),
            "Fn::Sub" => text(self.substituted(argument)?),
            "Fn::Join" => {
                let [delimiter, items] = &*self.pair(argument, "a delimiter and a list")?;
                let delimiter = delimiter.expect_text("the delimiter")?;
                let items = items.items().iter().map(|item| item.expect_text("an item"));
                let items: Vec<&str> = items.collect::<Result<_, _>>()?;
                text(items.join(delimiter))
            }
            "Fn::Split" => {
                let [delimiter, source] = &*self.pair(argument, "a delimiter and a text")?;
                let source = source.expect_text("what is split")?;
                let delimiter = delimiter.expect_text("the delimiter")?;
                let pieces = source.split(delimiter);
                let pieces = pieces.map(|piece| Node::of_text(argument.line, piece));
                Ok(Node::new(argument.line, Value::List(pieces.collect())))
            }
            "Fn::Select" => {
                let [index, items] = &*self.pair(argument, "a number and a list")?;
                let number = index.expect_number("the number")?;
                let item = usize::try_from(number).ok();
                let item = item.and_then(|number| items.items().get(number).cloned());
                item.ok_or_else(|| {
                    argument.trouble(
                        format!("the list has no item {number}"),
                        "the first item is number 0",
                    )
                })
            }
            "Fn::FindInMap" => self.found(argument),
            "Fn::If" => self.chosen(argument),
            _ => Err(argument.trouble(
                format!("{name} has no meaning on this machine"),
                "make it a parameter with a default, or give the value with --parameter",
            )),
        }
    }

    fn reference(&self, name: &str, at: &Node) -> Result<String, Trouble> {
        if let Some(value) = self.parameters.get(name) {
            return Ok(value.clone());
        }
        if let Some(function) = self.functions.get(name) {
            return Ok(function.name.clone());
        }
        // What SAM makes of a function beside it: its version and alias.
        if let Some((logical, part @ ("Version" | "Alias"))) = name.rsplit_once('.')
            && let Some(Function { arn, alias, .. }) = self.functions.get(logical)
        {
            let qualifier = match (part, alias) {
                ("Alias", Some(alias)) => alias,
                _ => LATEST,
            };
            return Ok(format!("{arn}:{qualifier}"));
        }
        if self.resources.iter().any(|known| known == name) {
            return Ok(name.to_owned());
        }
        Err(at.trouble(
            format!("{name} is neither a parameter nor a resource of this template"),
            "correct the name, or add it under Parameters",
        ))
    }

    fn attribute(&self, [logical, attribute]: &[String; 2], at: &Node) -> Result<String, Trouble> {
        if let Some(function) = self.functions.get(logical) {
            return match &**attribute {
                "Arn" => Ok(function.arn.clone()),
                "Version" => Ok(LATEST.to_owned()),
                _ => Err(at.trouble(
                    format!("a function has no attribute {attribute} on this machine"),
                    "Arn and Version are known",
                )),
            };
        }
        if self.resources.contains(logical) {
            return Ok(format!("{logical}.{attribute}"));
        }
        Err(at.trouble(
            format!("{logical} is no resource of this template"),
            "correct the name",
        ))
    }

    /// `${Name}`, `${Logical.Attribute}` and `${!Literal}` in a text, with names of its own first.
    fn substituted(&self, argument: &Node) -> Result<String, Trouble> {
        let (text, own) = match argument.items() {
            [text, own] => (text, Some(self.resolve(own)?)),
            _ => (argument, None),
        };
        let mut rest = text.expect_text("what Sub fills in")?;
        let mut whole = String::new();
        while let Some((before, after)) = rest.split_once("${") {
            whole.push_str(before);
            let Some((name, after)) = after.split_once('}') else {
                return Err(argument.trouble("a ${ is not closed", "add the }"));
            };
            rest = after;
            if let Some(literal) = name.strip_prefix('!') {
                whole.push_str(&format!("${{{literal}}}"));
                continue;
            }
            let name = name.trim();
            let value = match own.as_ref().and_then(|own| own.get(name)) {
                Some(own) => own.expect_text(name)?.to_owned(),
                None => match name.split_once('.') {
                    Some((logical, attribute))
                        if !self.functions.contains_key(logical)
                            || !matches!(attribute, "Alias") =>
                    {
                        self.attribute(&[logical.to_owned(), attribute.to_owned()], argument)?
                    }
                    _ => self.reference(name, argument)?,
                },
            };
            whole.push_str(&value);
        }
        whole.push_str(rest);
        Ok(whole)
    }

    fn found(&self, argument: &Node) -> Result<Node, Trouble> {
        let arguments = self.resolve(argument)?;
        let mut found = self.mappings.as_ref();
        for key in arguments.items().iter().take(3) {
            found = found.and_then(|found| found.get(key.text()?));
        }
        let missing = || argument.trouble("the mapping has no such entry", "add it to Mappings");
        found.cloned().ok_or_else(missing)
    }

    fn chosen(&self, argument: &Node) -> Result<Node, Trouble> {
        let [condition, yes, no] = argument.items() else {
            let remedy = "write the name of a condition and two values";
            return Err(argument.trouble("Fn::If has not three arguments", remedy));
        };
        let name = condition.expect_text("the condition")?;
        self.resolve(if self.holds(name, condition, 0)? {
            yes
        } else {
            no
        })
    }

    /// Whether a condition of the template holds.
    pub(crate) fn holds(&self, name: &str, at: &Node, depth: usize) -> Result<bool, Trouble> {
        let condition = self.conditions.iter().find(|(known, _)| known == name);
        match condition {
            Some((_, condition)) if depth < 16 => self.is_true(condition, depth),
            _ => Err(at.trouble(
                format!("there is no condition {name}, or it depends on itself"),
                "correct it under Conditions",
            )),
        }
    }

    fn is_true(&self, condition: &Node, depth: usize) -> Result<bool, Trouble> {
        let [(name, argument)] = condition.entries() else {
            return Err(condition.trouble("this is no condition", "write one such as Fn::Equals"));
        };
        let each = || {
            argument
                .items()
                .iter()
                .map(|it| self.is_true(it, depth + 1))
        };
        match &**name {
            "Condition" => self.holds(argument.expect_text("Condition")?, argument, depth + 1),
            "Fn::Equals" => {
                let [one, other] = &*self.pair(argument, "two values")?;
                Ok(one.value == other.value)
            }
            "Fn::Not" => Ok(!each().next().transpose()?.unwrap_or(false)),
            "Fn::And" => each().try_fold(true, |all, it| Ok(it? && all)),
            "Fn::Or" => each().try_fold(false, |any, it| Ok(it? || any)),
            _ => Err(condition.trouble(
                format!("{name} is not known in a condition"),
                "Fn::Equals, Fn::Not, Fn::And, Fn::Or and Condition are",
            )),
        }
    }

    fn pair(&self, argument: &Node, wanted: &str) -> Result<Box<[Node; 2]>, Trouble> {
        match argument.items() {
            [one, other] => Ok(Box::new([self.resolve(one)?, self.resolve(other)?])),
            _ => Err(argument.trouble("the arguments are not two", format!("write {wanted}"))),
        }
    }
}

/// `A.B` or `[A, B]`.
fn path(argument: &Node) -> Result<[String; 2], Trouble> {
    let both = match argument.items() {
        [one, other] => Some((one.text(), other.text())),
        _ => argument
            .text()
            .and_then(|text| text.split_once('.'))
            .map(|(one, other)| (Some(one), Some(other))),
    };
    match both {
        Some((Some(one), Some(other))) => Ok([one.to_owned(), other.to_owned()]),
        _ => Err(argument.trouble(
            "this names no attribute of a resource",
            "write Resource.Attribute",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::yaml;

    fn scope() -> Scope {
        let template = yaml::read(
            "Conditions:\n  Prod: !Equals [!Ref Stage, prod]\n  Other: !Not [!Condition Prod]\n  \
             Both: !And [!Condition Prod, !Condition Other]\n  Any: !Or [!Condition Prod, \
             !Condition Other]\n  Loop: !Not [!Condition Loop]\nMappings:\n  M:\n    dev: {Size: \
             small}\n",
        )
        .unwrap();
        Scope {
            parameters: BTreeMap::from([("Stage".to_owned(), "dev".to_owned())]),
            functions: BTreeMap::from([(
                "Order".to_owned(),
                Function {
                    name: "order-dev".to_owned(),
                    arn: "arn:order-dev".to_owned(),
                    alias: Some("live".to_owned()),
                },
            )]),
            resources: vec!["Table".to_owned()],
            conditions: template.get("Conditions").unwrap().entries().to_vec(),
            mappings: template.get("Mappings").cloned(),
        }
    }

    fn resolved(yaml: &str) -> Result<Node, Trouble> {
        scope().resolve(&yaml::read(yaml).unwrap())
    }

    #[test]
    fn functions_are_evaluated() {
        for (written, meant) in [
            ("!Ref Stage", "dev"),
            ("!Ref Order", "order-dev"),
            ("!Ref Order.Alias", "arn:order-dev:live"),
            ("!Ref Order.Version", "arn:order-dev:$LATEST"),
            ("!Ref Table", "Table"),
            ("!GetAtt Order.Arn", "arn:order-dev"),
            ("!GetAtt [Order, Arn]", "arn:order-dev"),
            ("!GetAtt Table.Arn", "Table.Arn"),
            ("{'Fn::GetAtt': [Order, Arn]}", "arn:order-dev"),
            ("!Sub '${Order.Arn}:$LATEST'", "arn:order-dev:$LATEST"),
            (
                "!Sub '${Order}-${!Stage}-${ Stage }'",
                "order-dev-${Stage}-dev",
            ),
            ("!Sub '${Order.Alias}'", "arn:order-dev:live"),
            ("!Sub ['${A}-${Stage}', {A: !Ref Order}]", "order-dev-dev"),
            ("!Join ['-', [a, !Ref Stage]]", "a-dev"),
            ("!Select [1, !Split [',', 'a,b']]", "b"),
            ("!FindInMap [M, !Ref Stage, Size]", "small"),
            ("!If [Prod, a, b]", "b"),
            ("!If [Other, a, b]", "a"),
            ("!If [Both, a, b]", "b"),
            ("!If [Any, a, b]", "a"),
        ] {
            assert_eq!(resolved(written).unwrap().text(), Some(meant), "{written}");
        }
        let nothing = resolved("{a: !Ref 'AWS::NoValue', b: 1}").unwrap();
        assert_eq!(nothing.get("a"), None);
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        for written in [
            "a: 1\nb: !Ref Nobody",
            "a: 1\nb: !GetAtt Nobody.Arn",
            "a: 1\nb: !GetAtt Order.Url",
            "a: 1\nb: !Sub '${'",
            "a: 1\nb: !Join [1]",
            "a: 1\nb: !Select [2, [a, b]]",
            "a: 1\nb: !ImportValue x",
            "a: 1\nb: !If [Nobody, a, b]",
            "a: 1\nb: !If [Loop, a, b]",
            "a: 1\nb: !FindInMap [M, prod, Size]",
        ] {
            let trouble = resolved(written).unwrap_err();
            assert!(trouble.line == 2 || written.contains("Loop"), "{trouble}");
            assert!(!trouble.remedy.is_empty());
        }
    }
}
