//! The functions an engine knows, and what a name or ARN stands for.

use crate::invoker::Invoker;
use outlast_core::{
    Target,
    arn::{Function, FunctionReference},
    schedule::Share,
    wire::{DurableConfig, ErrorObject, error_type},
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// One version of a function, ready to be called.
#[derive(Clone)]
pub struct Registered {
    /// Which one.
    pub function: Function,
    /// Its durable settings; none for an ordinary function.
    pub config: Option<DurableConfig>,
    /// How long one invocation may take.
    pub timeout: Option<Duration>,
    /// How many of its invocations may run at once, and its share of the slots.
    pub share: Share,
    /// Who calls it.
    pub invoker: Arc<dyn Invoker>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered")
            .field("function", &self.function)
            .field("config", &self.config)
            .field("timeout", &self.timeout)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}

/// Every function of an engine, by name and version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    functions: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<Registered>>>,
}

impl Registry {
    pub(crate) fn put(&mut self, registered: Registered) {
        let Function { name, version, .. } = &registered.function;
        self.functions
            .entry(name.clone())
            .or_default()
            .insert(version.clone(), Arc::new(registered));
    }

    pub(crate) fn get(&self, name: &str, version: &str) -> Option<&Arc<Registered>> {
        self.functions.get(name)?.get(version)
    }

    /// The function that a reference names. Without a qualifier it is the only version, or the
    /// newest.
    pub(crate) fn find(&self, reference: &str) -> Result<&Arc<Registered>, ErrorObject> {
        let missing = || {
            let known: Vec<&str> = self.functions.keys().map(|name| &**name).collect();
            ErrorObject::new(
                error_type::RESOURCE_NOT_FOUND,
                format!(
                    "there is no function {reference}; known are: {}",
                    known.join(", ")
                ),
            )
        };
        let parsed: FunctionReference = reference.parse().map_err(|_| missing())?;
        let versions = self.functions.get(&*parsed.name).ok_or_else(missing)?;
        match parsed.qualifier.as_deref() {
            Some(version) => versions.get(version),
            None => versions.values().next_back(),
        }
        .ok_or_else(missing)
    }

    /// What a chained invoke of `reference` stands for.
    pub(crate) fn target(&self, reference: &str) -> Target {
        match self.find(reference) {
            Err(error) => Target::Refused(error),
            Ok(found) => match &found.config {
                Some(config) => Target::Durable {
                    function: found.function.clone(),
                    config: config.clone(),
                },
                None => Target::Plain {
                    version: found.function.version.clone(),
                },
            },
        }
    }
}
