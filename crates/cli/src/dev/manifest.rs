//! `outlast.toml`: the functions of a project, without a template.
//!
//! ```toml
//! [functions.order]
//! runtime = "python3.13"          # or: command = ["./worker"], or: endpoint = "http://…"
//! handler = "app.handler"
//! code = "src"
//! timeout = 30
//! memory = 256
//! aliases = ["live"]
//! environment = { TABLE = "orders" }
//! durable = { execution_timeout = 3600, retention_days = 14 }
//! per_tenant = true
//! ```

use crate::dev::{
    definition::{Definition, Kind, durable, place},
    node::{Node, Trouble},
};
use std::{collections::BTreeMap, path::Path};

/// What a function may say.
const MEMBERS: [&str; 11] = [
    "runtime",
    "command",
    "endpoint",
    "handler",
    "code",
    "timeout",
    "memory",
    "aliases",
    "environment",
    "durable",
    "per_tenant",
];

/// The functions of a file that lies in `folder`.
pub(crate) fn read(file: &Node, folder: &Path) -> Result<Vec<Definition>, Trouble> {
    let functions = file.get("functions").map(Node::entries).unwrap_or_default();
    if functions.is_empty() {
        return Err(file.trouble("the file defines no functions", "add one: [functions.NAME]"));
    }
    let read = |(name, function): &(String, Node)| definition(name, function, folder);
    functions.iter().map(read).collect()
}

fn definition(name: &str, function: &Node, folder: &Path) -> Result<Definition, Trouble> {
    for (member, node) in function.entries() {
        if !MEMBERS.contains(&&**member) {
            let what = format!("the function {name} has the unknown member {member}");
            return Err(node.trouble(what, format!("known are: {}", MEMBERS.join(", "))));
        }
    }
    let number = |member| {
        let node = function.get(member);
        node.map(|node| node.expect_number(member)).transpose()
    };
    let config = function.get("durable");
    let config = config.map(|node| durable(node, "execution_timeout", "retention_days"));
    let code = match function.get("code") {
        Some(code) => code.expect_text("code")?,
        None => ".",
    };
    let kind = kind(name, function)?;
    let handler = match function.get("handler") {
        Some(handler) => handler.expect_text("handler")?,
        None if matches!(kind, Kind::Python(_) | Kind::Node(_) | Kind::Java(_)) => {
            let what = format!("the function {name} has no handler");
            return Err(function.trouble(what, "add one: handler = \"app.handler\""));
        }
        None => "bootstrap",
    };
    let mut variables = BTreeMap::new();
    let environment = function.get("environment").map(Node::entries);
    for (variable, value) in environment.unwrap_or_default() {
        variables.insert(variable.clone(), value.expect_text(variable)?.to_owned());
    }
    Ok(Definition {
        name: name.to_owned(),
        kind,
        handler: handler.to_owned(),
        code: place(folder, code),
        variables,
        timeout_seconds: number("timeout")?,
        memory_mb: number("memory")?,
        durable: config.transpose()?,
        per_tenant: match function.get("per_tenant") {
            Some(node) => node.expect_bool("per_tenant")?,
            None => false,
        },
        aliases: texts(function, "aliases")?,
    })
}

fn kind(name: &str, function: &Node) -> Result<Kind, Trouble> {
    let said = ["runtime", "command", "endpoint"];
    let mut said = said.iter().filter_map(|member| function.get(member));
    let (first, second) = (said.next(), said.next());
    let remedy = "give one of runtime, command and endpoint";
    match (first, second) {
        (None, _) => {
            let what = format!("nothing says how the function {name} is run");
            Err(function.trouble(what, remedy))
        }
        (_, Some(second)) => {
            let what = format!("the function {name} says twice how it is run");
            Err(second.trouble(what, remedy))
        }
        (Some(node), None) => {
            if function.get("command").is_some() {
                let command = texts(function, "command")?;
                if command.is_empty() {
                    return Err(node.trouble("the command is empty", "give a program"));
                }
                return Ok(Kind::Command(command));
            }
            let text = node.expect_text("how it is run")?;
            Ok(match function.get("endpoint") {
                Some(_) => Kind::Called(text.to_owned()),
                None => Kind::of_runtime(text),
            })
        }
    }
}

fn texts(function: &Node, member: &str) -> Result<Vec<String>, Trouble> {
    let items = function.get(member).map(Node::items).unwrap_or_default();
    let text = |item: &Node| Ok(item.expect_text(member)?.to_owned());
    items.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::toml;

    fn definitions(text: &str) -> Result<Vec<Definition>, Trouble> {
        read(&toml::read(text).unwrap(), Path::new("at"))
    }

    #[test]
    fn functions_are_read() {
        let read = definitions(
            "[functions.order]\nruntime = \"python3.13\"\nhandler = \"app.handler\"\ncode = \
             \"src\"\ntimeout = 30\nenvironment = { A = 1 }\ndurable = { execution_timeout = 60 }\n\
             per_tenant = true\n\
             [functions.rust]\ncommand = [\"cargo\", \"run\"]\naliases = [\"live\"]\n\
             [functions.far]\nendpoint = \"http://127.0.0.1:9000\"\n",
        )
        .unwrap();
        let names: Vec<&str> = read.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["far", "order", "rust"]);
        assert_eq!(
            read[0].kind,
            Kind::Called("http://127.0.0.1:9000".to_owned())
        );
        assert_eq!(read[1].code, Path::new("at/src"));
        assert_eq!(read[1].variables["A"], "1");
        assert!(read[1].per_tenant && !read[2].per_tenant);
        let command = ["cargo", "run"].map(str::to_owned);
        assert_eq!(read[2].kind, Kind::Command(command.to_vec()));
        assert_eq!(read[2].aliases, ["live"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_remedy() {
        for (text, line, remedy) in [
            ("a = 1\n", 1, "[functions.NAME]"),
            ("[functions.a]\nhandler = \"x\"\n", 1, "one of runtime"),
            ("[functions.a]\nruntime = \"java21\"\n", 1, "handler ="),
            (
                "[functions.a]\nruntime = \"java21\"\ncommand = [\"a\"]\n",
                3,
                "one of runtime",
            ),
            ("[functions.a]\ncommand = []\n", 2, "a program"),
            (
                "[functions.a]\ncommand = [\"a\"]\nper_tenant = \"x\"\n",
                3,
                "true or false",
            ),
            (
                "[functions.a]\nruntim = \"java21\"\n",
                2,
                "runtime, command",
            ),
            (
                "[functions.a]\ncommand = [\"a\"]\ndurable = {}\n",
                3,
                "execution_timeout",
            ),
        ] {
            let trouble = definitions(text).unwrap_err();
            assert!(trouble.remedy.contains(remedy), "{text}: {trouble}");
            assert_eq!(trouble.line, line, "{text}: {trouble}");
        }
    }
}
