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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invoker::{BoxFuture, Call};
    use outlast_core::Outcome;

    struct Nobody;

    impl Invoker for Nobody {
        fn invoke(&self, _: Call) -> BoxFuture<'_, Outcome> {
            Box::pin(async { Outcome::Lost })
        }
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        for (name, version, durable) in [
            ("order", "1", true),
            ("order", "2", true),
            ("mail", "$LATEST", false),
        ] {
            registry.put(Registered {
                function: Function {
                    partition: "aws".into(),
                    region: "local".into(),
                    account: "000000000000".into(),
                    name: name.into(),
                    version: version.into(),
                },
                config: durable.then_some(DurableConfig {
                    execution_timeout: 60,
                    retention_period_in_days: None,
                    kms_key_arn: None,
                }),
                timeout: None,
                share: Share::default(),
                invoker: Arc::new(Nobody),
            });
        }
        registry
    }

    #[test]
    fn a_reference_finds_its_version_or_the_newest() {
        let registry = registry();
        for (reference, version) in [
            ("order", "2"),
            ("order:1", "1"),
            ("arn:aws:lambda:local:000000000000:function:order:1", "1"),
            ("mail", "$LATEST"),
        ] {
            let found = registry.find(reference).unwrap();
            assert_eq!(*found.function.version, *version, "{reference}");
        }
    }

    #[test]
    fn a_missing_function_is_refused_with_those_that_are_known() {
        for reference in ["ordre", "order:3", "", "a b"] {
            let error = registry().find(reference).unwrap_err();
            let message = error.error_message.unwrap();
            assert!(message.contains("mail, order"), "{message}");
        }
    }

    #[test]
    fn a_target_is_durable_plain_or_refused() {
        let registry = registry();
        assert!(matches!(registry.target("order"), Target::Durable { .. }));
        assert!(matches!(registry.target("mail"), Target::Plain { .. }));
        assert!(matches!(registry.target("nobody"), Target::Refused(_)));
    }
}
