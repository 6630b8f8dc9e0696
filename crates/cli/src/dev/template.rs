//! SAM and CloudFormation templates: the functions they define.
//!
//! Resources of other kinds are left alone, and so are the members of functions that mean nothing
//! on this machine (policies, events, networks).

use crate::dev::{
    definition::{Definition, Kind, durable, place},
    intrinsic::{Function, Scope},
    node::{Node, Trouble, Value},
};
use outlast_server::catalogue::Account;
use std::{collections::BTreeMap, path::Path};

/// How a runtime is told the form of what it logs, and how much of it is wanted.
const LOG_FORMAT: &str = "AWS_LAMBDA_LOG_FORMAT";
const LOG_LEVEL: &str = "AWS_LAMBDA_LOG_LEVEL";

/// The functions of a template that lies in `folder`.
pub(crate) fn read(
    template: &Node,
    folder: &Path,
    given: &[(String, String)],
) -> Result<Vec<Definition>, Trouble> {
    let mut scope = Scope {
        parameters: parameters(template, given)?,
        conditions: match template.get("Conditions") {
            Some(conditions) => conditions.entries().to_vec(),
            None => Vec::new(),
        },
        mappings: template.get("Mappings").cloned(),
        ..Scope::default()
    };
    let Some(resources) = template.get("Resources") else {
        return Err(template.trouble(
            "the template has no Resources",
            "add a function of the type AWS::Serverless::Function",
        ));
    };
    let mut functions = Vec::new();
    for (logical, resource) in resources.entries() {
        let kind = resource.get("Type").and_then(Node::text);
        match kind {
            Some("AWS::Serverless::Function" | "AWS::Lambda::Function") => {
                if wanted(resource, &scope)? {
                    functions.push((logical, properties(template, resource, kind)));
                }
            }
            _ => scope.resources.push(logical.clone()),
        }
    }
    // Names first: functions refer to one another.
    let unnamed = scope.clone();
    for (logical, properties) in &functions {
        let known = named(logical, properties, &unnamed)?;
        scope.functions.insert((*logical).clone(), known);
    }
    let mut definitions: Vec<Definition> = Vec::new();
    for (logical, properties) in &functions {
        let function = Reader {
            scope: &scope,
            properties,
            folder,
        };
        let definition = function.definition(logical)?;
        if definitions.iter().any(|it| it.name == definition.name) {
            let what = format!("two functions are called {}", definition.name);
            return Err(properties.trouble(what, "give one of them another FunctionName"));
        }
        definitions.push(definition);
    }
    Ok(definitions)
}

/// Every parameter with its value.
fn parameters(
    template: &Node,
    given: &[(String, String)],
) -> Result<BTreeMap<String, String>, Trouble> {
    let Account {
        partition,
        region,
        account,
    } = Account::default();
    let pseudo = [
        ("AWS::Region", &*region),
        ("AWS::AccountId", &*account),
        ("AWS::Partition", &*partition),
        ("AWS::URLSuffix", "amazonaws.com"),
        ("AWS::StackName", "outlast-dev"),
        ("AWS::StackId", "outlast-dev"),
    ];
    let mut values: BTreeMap<String, String> = pseudo
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let declared = template.get("Parameters").map(Node::entries);
    let declared = declared.unwrap_or_default();
    for (name, parameter) in declared {
        let value = given.iter().rev().find(|(known, _)| known == name);
        let value = match (value, parameter.get("Default")) {
            (Some((_, value)), _) => value.clone(),
            (None, Some(default)) => default.expect_text("Default")?.to_owned(),
            (None, None) => {
                let what = format!("the parameter {name} has no value");
                let remedy = format!("add --parameter {name}=VALUE, or a Default here");
                return Err(parameter.trouble(what, remedy));
            }
        };
        values.insert(name.clone(), value);
    }
    for (name, _) in given {
        if declared.iter().all(|(known, _)| known != name) {
            let what = format!("the template has no parameter {name}");
            let remedy = format!("leave out --parameter {name}=…, or add it under Parameters");
            return Err(template.trouble(what, remedy));
        }
    }
    Ok(values)
}

/// Whether the condition of a resource holds.
fn wanted(resource: &Node, scope: &Scope) -> Result<bool, Trouble> {
    match resource.get("Condition") {
        Some(condition) => scope.holds(condition.expect_text("Condition")?, condition, 0),
        None => Ok(true),
    }
}

/// The properties of a function, over those of all functions.
fn properties(template: &Node, resource: &Node, kind: Option<&str>) -> Node {
    let empty = Node::new(resource.line, Value::Map(Vec::new()));
    let own = resource.get("Properties").unwrap_or(&empty);
    let globals = template.get("Globals");
    let globals = globals.and_then(|globals| globals.get("Function"));
    let mut whole = match globals.filter(|_| kind == Some("AWS::Serverless::Function")) {
        Some(globals) => globals.overlaid(own),
        None => own.clone(),
    };
    whole.line = resource.line;
    whole
}

fn named(logical: &str, properties: &Node, scope: &Scope) -> Result<Function, Trouble> {
    let text = |member: &str| -> Result<Option<String>, Trouble> {
        let Some(node) = properties.get(member) else {
            return Ok(None);
        };
        let resolved = scope.resolve(node)?;
        Ok(Some(resolved.expect_text(member)?.to_owned()))
    };
    let name = text("FunctionName")?.unwrap_or_else(|| logical.to_owned());
    let Account {
        partition,
        region,
        account,
    } = Account::default();
    Ok(Function {
        arn: format!("arn:{partition}:lambda:{region}:{account}:function:{name}"),
        alias: text("AutoPublishAlias")?,
        name,
    })
}

struct Reader<'a> {
    scope: &'a Scope,
    properties: &'a Node,
    folder: &'a Path,
}

impl Reader<'_> {
    fn definition(&self, logical: &str) -> Result<Definition, Trouble> {
        let Some(Function { name, alias, .. }) = self.scope.functions.get(logical).cloned() else {
            return Err(self
                .properties
                .trouble("the function has no name", "give it one"));
        };
        let number = |member| {
            let node = self.member(member)?;
            node.map(|node| node.expect_number(member)).transpose()
        };
        let config = match self.member("DurableConfig")? {
            Some(config) => Some(durable(
                &config,
                "ExecutionTimeout",
                "RetentionPeriodInDays",
            )?),
            None => None,
        };
        let (kind, handler, code) = self.code()?;
        Ok(Definition {
            name,
            kind,
            handler,
            code: place(self.folder, &code),
            variables: self.variables()?,
            timeout_seconds: number("Timeout")?,
            memory_mb: number("MemorySize")?,
            durable: config,
            per_tenant: self.per_tenant()?,
            aliases: alias.into_iter().collect(),
        })
    }

    /// What `TenancyConfig` says.
    fn per_tenant(&self) -> Result<bool, Trouble> {
        let Some(config) = self.member("TenancyConfig")? else {
            return Ok(false);
        };
        let mode = config.get("TenantIsolationMode").unwrap_or(&config);
        match self.scope.resolve(mode)?.text() {
            Some("PER_TENANT") => Ok(true),
            _ => Err(mode.trouble(
                "a TenancyConfig has a TenantIsolationMode, and that is PER_TENANT",
                "write TenantIsolationMode: PER_TENANT, or leave TenancyConfig out",
            )),
        }
    }

    /// What runs it, what is called, and where that is.
    fn code(&self) -> Result<(Kind, String, String), Trouble> {
        let unknown = |what: &str, remedy: &str| {
            let (what, remedy) = (what.to_owned(), remedy.to_owned());
            Ok((Kind::Unknown { what, remedy }, String::new(), String::new()))
        };
        if self.text("PackageType")?.as_deref() == Some("Image") {
            return unknown(
                "it is an image",
                "start it with its runtime interface emulator, and name that with `endpoint` in an \
                 outlast.toml",
            );
        }
        if self.properties.get("InlineCode").is_some() {
            return unknown(
                "its code is inline",
                "put it into a file, with CodeUri and Handler",
            );
        }
        let location = match self.member("CodeUri")? {
            Some(location) => Some(location),
            None => self.member("Code")?,
        };
        let code = match &location {
            None => ".".to_owned(),
            Some(location) => match location.text() {
                Some(text) if !text.starts_with("s3://") => text.to_owned(),
                _ => {
                    return unknown(
                        "its code is not on this machine",
                        "give the folder with CodeUri",
                    );
                }
            },
        };
        let Some(runtime) = self.text("Runtime")? else {
            return Err(self.properties.trouble(
                "the function has no Runtime",
                "add one, such as Runtime: python3.13, here or under Globals",
            ));
        };
        let kind = Kind::of_runtime(&runtime);
        let handler = self.text("Handler")?;
        let own = matches!(kind, Kind::Bootstrap(_) | Kind::Unknown { .. });
        let Some(handler) = handler.or_else(|| own.then(|| "bootstrap".to_owned())) else {
            return Err(self.properties.trouble(
                "the function has no Handler",
                "add one, such as Handler: app.handler",
            ));
        };
        Ok((kind, handler, code))
    }

    /// What `LoggingConfig` says, as runtimes are told.
    fn logging(&self) -> Result<BTreeMap<String, String>, Trouble> {
        let mut told = BTreeMap::new();
        let Some(logging) = self.member("LoggingConfig")? else {
            return Ok(told);
        };
        for (member, variable) in [
            ("LogFormat", LOG_FORMAT),
            ("ApplicationLogLevel", LOG_LEVEL),
        ] {
            if let Some(node) = logging.get(member) {
                let node = self.scope.resolve(node)?;
                let text = node.expect_text(member)?;
                told.insert(variable.to_owned(), text.to_owned());
            }
        }
        // As on Lambda; a runtime that is told no level drops what is less than a warning.
        if told.get(LOG_FORMAT).is_some_and(|format| format == "JSON") {
            let level = told.entry(LOG_LEVEL.to_owned());
            level.or_insert_with(|| "INFO".to_owned());
        }
        Ok(told)
    }

    fn variables(&self) -> Result<BTreeMap<String, String>, Trouble> {
        let environment = self.properties.get("Environment");
        let variables = environment.and_then(|environment| environment.get("Variables"));
        let mut all = self.logging()?;
        for (name, value) in variables.map(Node::entries).unwrap_or_default() {
            let value = self.scope.resolve(value)?;
            if value.value != Value::Nothing {
                let text = value.expect_text(&format!("the variable {name}"))?;
                all.insert(name.clone(), text.to_owned());
            }
        }
        Ok(all)
    }

    fn member(&self, name: &str) -> Result<Option<Node>, Trouble> {
        let Some(node) = self.properties.get(name) else {
            return Ok(None);
        };
        let node = self.scope.resolve(node)?;
        Ok((node.value != Value::Nothing).then_some(node))
    }

    fn text(&self, name: &str) -> Result<Option<String>, Trouble> {
        match self.member(name)? {
            Some(node) => Ok(Some(node.expect_text(name)?.to_owned())),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::yaml;

    const TEMPLATE: &str = "\
AWSTemplateFormatVersion: '2010-09-09'
Transform: AWS::Serverless-2016-10-31
Parameters:
  Stage: {Type: String, Default: dev}
  Size: {Type: Number}
Conditions:
  Never: !Equals [!Ref Stage, never]
Globals:
  Function:
    Runtime: python3.13
    Timeout: 30
    Environment:
      Variables: {STAGE: !Ref Stage}
Resources:
  Order:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub 'order-${Stage}'
      Handler: app.handler
      CodeUri: src/
      MemorySize: !Ref Size
      AutoPublishAlias: live
      DurableConfig: {ExecutionTimeout: 3600, RetentionPeriodInDays: 7}
      TenancyConfig: {TenantIsolationMode: PER_TENANT}
      Policies: [!ImportValue Somewhere]
      Environment:
        Variables:
          TABLE: !Ref Table
          MAIL: !Sub '${Mail.Arn}:$LATEST'
          GONE: !Ref AWS::NoValue
      LoggingConfig: {LogFormat: JSON, ApplicationLogLevel: DEBUG}
  Mail:
    Type: AWS::Lambda::Function
    Properties: {Runtime: provided.al2023, Code: mail, LoggingConfig: {LogFormat: JSON}}
  Absent:
    Type: AWS::Lambda::Function
    Condition: Never
  Table:
    Type: AWS::DynamoDB::Table
";

    fn definitions(template: &str) -> Result<Vec<Definition>, Trouble> {
        let given = [("Size".to_owned(), "256".to_owned())];
        read(&yaml::read(template).unwrap(), Path::new("at"), &given)
    }

    #[test]
    fn functions_are_read_with_globals_parameters_and_references() {
        let read = definitions(TEMPLATE).unwrap();
        assert_eq!(read.len(), 2);
        let order = &read[0];
        assert_eq!(order.name, "order-dev");
        assert_eq!(order.kind, Kind::Python("python3.13".to_owned()));
        assert_eq!(order.code, Path::new("at/src/"));
        assert_eq!(order.timeout_seconds, Some(30));
        assert_eq!(order.memory_mb, Some(256));
        assert_eq!(order.aliases, ["live"]);
        assert!(order.per_tenant && !read[1].per_tenant);
        assert_eq!(order.durable.as_ref().unwrap().retention_days, Some(7));
        let variables: Vec<(&str, &str)> =
            order.variables.iter().map(|(k, v)| (&**k, &**v)).collect();
        let mail = "arn:aws:lambda:us-east-1:000000000000:function:Mail:$LATEST";
        assert_eq!(
            variables,
            [
                ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
                ("AWS_LAMBDA_LOG_LEVEL", "DEBUG"),
                ("MAIL", mail),
                ("STAGE", "dev"),
                ("TABLE", "Table")
            ]
        );
        assert_eq!(read[1].kind, Kind::Bootstrap("provided.al2023".to_owned()));
        assert_eq!(read[1].handler, "bootstrap");
        assert_eq!(read[1].variables[LOG_LEVEL], "INFO", "when none is named");
        assert_eq!(
            read[1].timeout_seconds, None,
            "globals are for serverless functions"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_line_and_remedy() {
        for (from, to, line, remedy) in [
            (
                "Size: {Type: Number}",
                "Big: {Type: Number}",
                5,
                "--parameter Big=VALUE",
            ),
            ("{ExecutionTimeout: 3600, ", "{", 22, "add ExecutionTimeout"),
            (
                "Handler: app.handler",
                "Other: 1",
                15,
                "Handler: app.handler",
            ),
            ("Timeout: 30", "Timeout: soon", 11, "digits"),
            ("Runtime: python3.13", "Other: 1", 15, "Runtime: python3.13"),
            (
                "TABLE: !Ref Table",
                "TABLE: !Ref Tabel",
                28,
                "correct the name",
            ),
            ("'order-${Stage}'", "Mail", 32, "another FunctionName"),
            (
                "{TenantIsolationMode: PER_TENANT}",
                "{TenantIsolationMode: SHARED}",
                23,
                "TenantIsolationMode: PER_TENANT",
            ),
        ] {
            let trouble = definitions(&TEMPLATE.replace(from, to)).unwrap_err();
            assert!(trouble.remedy.contains(remedy), "{from}: {trouble}");
            assert!(trouble.line.abs_diff(line) <= 1, "{from}: {trouble}");
        }
    }

    #[test]
    fn code_that_is_elsewhere_does_not_stop_the_others() {
        let elsewhere = TEMPLATE.replace("CodeUri: src/", "CodeUri: s3://bucket/key");
        let read = definitions(&elsewhere).unwrap();
        assert!(matches!(read[0].kind, Kind::Unknown { .. }));
        assert_eq!(read[1].name, "Mail");
    }
}
