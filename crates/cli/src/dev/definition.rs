//! A function as a project defines it, whatever file says so.

use crate::dev::node::{Node, Trouble};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// A function of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// What is run.
    pub(crate) kind: Kind,
    /// What the runtime client calls.
    pub(crate) handler: String,
    /// The folder or archive with its code.
    pub(crate) code: PathBuf,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) memory_mb: Option<u64>,
    pub(crate) durable: Option<Durable>,
    /// Whether tenants are kept apart.
    pub(crate) per_tenant: bool,
    /// Aliases that point to the only version there is.
    pub(crate) aliases: Vec<String>,
}

/// Durable settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Durable {
    pub(crate) execution_timeout_seconds: u64,
    pub(crate) retention_days: Option<u64>,
}

/// What runs the handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A runtime of the service, by its name.
    Python(String),
    Node(String),
    Java(String),
    /// A program that speaks the Runtime API itself.
    Bootstrap(String),
    /// Such a program, as the project says to start it.
    Command(Vec<String>),
    /// Something that answers the Lambda Invoke API.
    Called(String),
    /// What cannot be run here: why, and what to do.
    Unknown {
        what: String,
        remedy: String,
    },
}

impl Kind {
    /// The kind of a runtime of the service.
    pub(crate) fn of_runtime(runtime: &str) -> Self {
        let name = runtime.to_owned();
        let begins = |start| runtime.starts_with(start);
        if begins("python") {
            Self::Python(name)
        } else if begins("nodejs") {
            Self::Node(name)
        } else if begins("java") {
            Self::Java(name)
        } else if begins("provided") || begins("go1.x") {
            Self::Bootstrap(name)
        } else {
            Self::Unknown {
                what: format!("the runtime {runtime} cannot be started here"),
                remedy: "pythonX, nodejsX, javaX and provided.X can; for another one, give the \
                         command in an outlast.toml"
                    .to_owned(),
            }
        }
    }

    /// The name of the runtime, if it is one of the service's.
    fn runtime(&self) -> Option<&str> {
        match self {
            Self::Python(name) | Self::Node(name) | Self::Java(name) | Self::Bootstrap(name) => {
                Some(name)
            }
            Self::Command(_) | Self::Called(_) | Self::Unknown { .. } => None,
        }
    }
}

impl Definition {
    /// Its configuration in the service's shape.
    pub(crate) fn configuration(&self) -> Map<String, Value> {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        put("Handler", (*self.handler).into());
        if let Some(runtime) = self.kind.runtime() {
            put("Runtime", runtime.into());
        }
        if let Some(seconds) = self.timeout_seconds {
            put("Timeout", seconds.into());
        }
        if let Some(megabytes) = self.memory_mb {
            put("MemorySize", megabytes.into());
        }
        if let Kind::Called(endpoint) = &self.kind {
            put("InvokeEndpoint", (**endpoint).into());
        }
        if let Some(durable) = &self.durable {
            let mut config = Map::new();
            let seconds = durable.execution_timeout_seconds;
            config.insert("ExecutionTimeout".to_owned(), seconds.into());
            if let Some(days) = durable.retention_days {
                config.insert("RetentionPeriodInDays".to_owned(), days.into());
            }
            put("DurableConfig", config.into());
        }
        if self.per_tenant {
            let mode = serde_json::json!({ "TenantIsolationMode": "PER_TENANT" });
            put("TenancyConfig", mode);
        }
        if !self.variables.is_empty() {
            put(
                "Environment",
                serde_json::json!({ "Variables": self.variables }),
            );
        }
        members
    }
}

/// Where code lies that is written relative to a folder, without dots in the middle.
pub(crate) fn place(folder: &Path, code: &str) -> PathBuf {
    folder.join(code).components().collect()
}

/// Durable settings with the names their file uses; without a timeout they mean nothing.
pub(crate) fn durable(node: &Node, timeout: &str, retention: &str) -> Result<Durable, Trouble> {
    let Some(seconds) = node.get(timeout) else {
        let what = format!("a durable function needs {timeout}");
        let remedy = format!("add {timeout}, in seconds: how long an execution may take at most");
        return Err(node.trouble(what, remedy));
    };
    let days = node.get(retention);
    Ok(Durable {
        execution_timeout_seconds: seconds.expect_number(timeout)?,
        retention_days: days.map(|days| days.expect_number(retention)).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_known_by_how_their_names_begin() {
        let kind = |name: &str| Kind::of_runtime(name);
        assert_eq!(kind("python3.13"), Kind::Python("python3.13".to_owned()));
        assert_eq!(kind("nodejs22.x"), Kind::Node("nodejs22.x".to_owned()));
        assert_eq!(kind("java21"), Kind::Java("java21".to_owned()));
        let bootstrap = Kind::Bootstrap("provided.al2023".to_owned());
        assert_eq!(kind("provided.al2023"), bootstrap);
        assert!(matches!(kind("dotnet8"), Kind::Unknown { .. }));
    }

    #[test]
    fn the_configuration_has_the_shape_of_the_service() {
        let definition = Definition {
            name: "order".to_owned(),
            kind: Kind::of_runtime("python3.13"),
            handler: "app.handler".to_owned(),
            code: ".".into(),
            variables: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
            timeout_seconds: Some(30),
            memory_mb: None,
            durable: Some(Durable {
                execution_timeout_seconds: 60,
                retention_days: Some(7),
            }),
            per_tenant: true,
            aliases: Vec::new(),
        };
        let expected = serde_json::json!({
            "Handler": "app.handler",
            "Runtime": "python3.13",
            "Timeout": 30,
            "DurableConfig": {"ExecutionTimeout": 60, "RetentionPeriodInDays": 7},
            "TenancyConfig": {"TenantIsolationMode": "PER_TENANT"},
            "Environment": {"Variables": {"A": "1"}},
        });
        assert_eq!(Value::Object(definition.configuration()), expected);
    }
}
