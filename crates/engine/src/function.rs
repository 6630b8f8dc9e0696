//! The functions an engine knows, and what a name or ARN stands for.

use crate::invoker::{Invoker, PlainCall};
use outlast_core::{
    Code, Rejection, Target, Tenancy,
    arn::{Function, FunctionReference, LATEST},
    intent::InvokeOutcome,
    schedule::Share,
    wire::{DurableConfig, ErrorObject},
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// What shares a line and a number of slots: one version of a function. Another version may have
/// no workers, or slow ones.
pub(crate) type NameAndVersion = (Arc<str>, Arc<str>);

/// The line in which executions of a function version wait to be called.
pub(crate) fn lane(function: &Function) -> NameAndVersion {
    (function.name.clone(), function.version.clone())
}

/// One version of a function, ready to be called.
#[derive(Clone)]
pub struct Registered {
    /// Which one.
    pub function: Function,
    /// Its durable settings; none for an ordinary function.
    pub config: Option<DurableConfig>,
    /// For which tenants it may be invoked.
    pub tenancy: Tenancy,
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
            .field("tenancy", &self.tenancy)
            .field("timeout", &self.timeout)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}

impl Registered {
    /// Calls an ordinary function once. It is not waited for longer than its timeout says; a host
    /// that keeps time itself knows more, and has none here.
    pub async fn call_plain(&self, call: PlainCall) -> InvokeOutcome {
        let call = self.invoker.invoke_plain(call);
        let Some(limit) = self.timeout else {
            return call.await;
        };
        let answered = tokio::time::timeout(limit, call).await;
        answered.unwrap_or_else(|_| {
            let seconds = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX);
            InvokeOutcome::timed_out(seconds)
        })
    }
}

/// Who says which functions there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// A program registers what it was built with. What is missing may come with the next build, so
    /// its executions wait; a name without a qualifier stands for the newest version.
    #[default]
    ByProgram,
    /// A catalogue has all of them, as in the service: what is not in it does not exist, a name
    /// without a qualifier stands for `$LATEST`, and durable functions need a qualifier.
    ByCatalogue,
}

/// Every function of an engine, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    functions: BTreeMap<Arc<str>, Named>,
    pub(crate) known: Known,
}

/// What a function's name may stand for.
#[derive(Clone, Debug, Default)]
struct Named {
    versions: BTreeMap<Arc<str>, Arc<Registered>>,
    aliases: BTreeMap<Arc<str>, Arc<str>>,
}

impl Named {
    fn newest(&self) -> Option<&Arc<Registered>> {
        // `$LATEST` is no number and comes before all that are.
        let number = |version: &str| version.parse::<u64>().ok();
        let newest = self.versions.iter().max_by_key(|(name, _)| number(name));
        newest.map(|(_, registered)| registered)
    }

    fn qualified(&self, qualifier: &str) -> Option<&Arc<Registered>> {
        let version = self.aliases.get(qualifier);
        self.versions
            .get(version.map_or(qualifier, |version| version))
    }
}

impl Registry {
    pub(crate) fn new(known: Known) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    pub(crate) fn put(&mut self, registered: Registered) {
        let Function { name, version, .. } = &registered.function;
        self.functions
            .entry(name.clone())
            .or_default()
            .versions
            .insert(version.clone(), Arc::new(registered));
    }

    /// Forgets one version of a function, or all of it. Tells which versions were there.
    pub(crate) fn remove(&mut self, name: &str, version: Option<&str>) -> Vec<Arc<str>> {
        let gone = match (version, self.functions.get_mut(name)) {
            (Some(version), Some(named)) => {
                named.versions.remove_entry(version).into_iter().collect()
            }
            (None, Some(_)) => self.functions.remove(name).unwrap_or_default().versions,
            (_, None) => BTreeMap::new(),
        };
        gone.into_keys().collect()
    }

    /// Sets the aliases of a function that is known.
    pub(crate) fn set_aliases(&mut self, name: &str, aliases: BTreeMap<Arc<str>, Arc<str>>) {
        if let Some(named) = self.functions.get_mut(name) {
            named.aliases = aliases;
        }
    }

    pub(crate) fn get(&self, name: &str, version: &str) -> Option<&Arc<Registered>> {
        self.functions.get(name)?.versions.get(version)
    }

    /// The function version that a reference names, by version or alias.
    pub(crate) fn find(&self, reference: &str) -> Result<&Arc<Registered>, Rejection> {
        let missing = || self.missing(reference);
        let parsed: FunctionReference = reference.parse().map_err(|_| missing())?;
        let named = self.functions.get(&*parsed.name).ok_or_else(missing)?;
        let found = match (parsed.qualifier.as_deref(), self.known) {
            (Some(qualifier), _) => named.qualified(qualifier),
            (None, Known::ByProgram) => named.newest(),
            (None, Known::ByCatalogue) => named.versions.get(LATEST),
        };
        let found = found.ok_or_else(missing)?;
        let Function {
            region, account, ..
        } = &found.function;
        let elsewhere = parsed.region.is_some_and(|other| *other != **region)
            || parsed.account.is_some_and(|other| *other != **account);
        if elsewhere {
            return Err(missing());
        }
        if parsed.qualifier.is_none() && self.known == Known::ByCatalogue && found.config.is_some()
        {
            return Err(Rejection::invalid(format!(
                "an unqualified name or ARN is not allowed for a durable function: \
                 name a version or an alias of {}",
                parsed.name
            )));
        }
        Ok(found)
    }

    /// The version of a function that a reference stood for when it was resolved.
    pub(crate) fn pinned(
        &self,
        reference: &str,
        version: &str,
    ) -> Result<&Arc<Registered>, Rejection> {
        let parsed: Option<FunctionReference> = reference.parse().ok();
        parsed
            .and_then(|parsed| self.get(&parsed.name, version))
            .ok_or_else(|| self.missing(reference))
    }

    fn missing(&self, reference: &str) -> Rejection {
        let message = match self.known {
            Known::ByProgram => {
                let known: Vec<&str> = self.functions.keys().map(|name| &**name).collect();
                let known = known.join(", ");
                format!("there is no function {reference}; known are: {known}")
            }
            // Whoever asks may have no right to know what else there is.
            Known::ByCatalogue => format!("Function not found: {reference}"),
        };
        Rejection::new(Code::ResourceNotFound, message)
    }

    /// What a chained invoke of `reference` stands for.
    pub(crate) fn target(&self, reference: &str) -> Target {
        match self.find(reference) {
            Err(Rejection { code, message }) => {
                Target::Refused(ErrorObject::new(code.name(), message))
            }
            Ok(found) => match &found.config {
                Some(config) => Target::Durable {
                    function: found.function.clone(),
                    config: config.clone(),
                    tenancy: found.tenancy,
                },
                None => Target::Plain {
                    version: found.function.version.clone(),
                    tenancy: found.tenancy,
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
        known(Known::ByProgram)
    }

    fn known(known: Known) -> Registry {
        let mut registry = Registry::new(known);
        for (name, version, durable) in [
            ("order", "$LATEST", true),
            ("order", "9", true),
            ("order", "10", true),
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
                tenancy: Tenancy::Any,
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
            ("order", "10"),
            ("order:9", "9"),
            ("order:$LATEST", "$LATEST"),
            ("arn:aws:lambda:local:000000000000:function:order:9", "9"),
            ("mail", "$LATEST"),
        ] {
            let found = registry.find(reference).unwrap();
            assert_eq!(*found.function.version, *version, "{reference}");
        }
    }

    #[test]
    fn a_missing_function_is_refused_with_those_that_are_known() {
        for reference in ["ordre", "order:3", "", "a b"] {
            let message = registry().find(reference).unwrap_err().message;
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

    #[test]
    fn a_catalogue_wants_durable_functions_qualified_and_tells_nothing_of_others() {
        let registry = known(Known::ByCatalogue);
        let refused = |reference: &str| registry.find(reference).unwrap_err();
        assert_eq!(refused("order").code, Code::InvalidParameterValue);
        let missing = refused("ordre");
        assert_eq!(missing.code, Code::ResourceNotFound);
        assert_eq!(missing.message, "Function not found: ordre");
        for reference in ["order:$LATEST", "order:10", "mail", "mail:$LATEST"] {
            assert!(registry.find(reference).is_ok(), "{reference}");
        }
    }

    #[test]
    fn a_function_of_another_account_or_region_is_not_this_one() {
        for reference in [
            "arn:aws:lambda:local:000000000001:function:order:9",
            "arn:aws:lambda:other:000000000000:function:order:9",
            "000000000001:function:order:9",
        ] {
            let error = registry().find(reference).unwrap_err();
            assert_eq!(error.code, Code::ResourceNotFound, "{reference}");
        }
        assert!(registry().find("000000000000:function:order:9").is_ok());
    }

    #[test]
    fn an_alias_stands_for_its_version_until_it_is_moved_or_removed() {
        let mut registry = registry();
        let found = |registry: &Registry| {
            let found = registry.find("order:live").ok();
            found.map(|found| found.function.version.to_string())
        };
        assert_eq!(found(&registry), None);
        for version in ["9", "10"] {
            let aliases = BTreeMap::from([("live".into(), version.into())]);
            registry.set_aliases("order", aliases);
            assert_eq!(found(&registry).as_deref(), Some(version));
        }
        registry.set_aliases("order", BTreeMap::new());
        assert_eq!(found(&registry), None);
    }

    #[test]
    fn what_is_removed_is_no_longer_found_and_the_rest_is() {
        let mut registry = registry();
        assert_eq!(registry.remove("order", Some("10")), ["10".into()]);
        assert!(registry.find("order:10").is_err() && registry.find("order:9").is_ok());
        assert_eq!(
            registry.remove("order", None),
            ["$LATEST".into(), "9".into()]
        );
        assert!(registry.find("order:9").is_err() && registry.find("mail").is_ok());
        assert!(registry.remove("order", None).is_empty());
        assert!(registry.remove("mail", Some("1")).is_empty());
    }

    #[test]
    fn a_pinned_version_is_found_whatever_the_reference_says_now() {
        let registry = registry();
        let pinned = |version: &str| registry.pinned("order:live", version);
        assert_eq!(*pinned("9").unwrap().function.version, *"9");
        assert_eq!(pinned("11").unwrap_err().code, Code::ResourceNotFound);
    }
}
