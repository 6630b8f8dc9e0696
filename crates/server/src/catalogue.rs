//! Which functions there are: their configurations, versions and aliases.
//!
//! Kept in the engine's settings, one for each function, and made known to the engine. Every change
//! is durable before it counts, and goes on if whoever asked for it goes away. What a configuration
//! says about hosts is theirs to read.

mod configuration;
mod entry;

pub use configuration::FunctionConfiguration;
pub(crate) use configuration::Members;
pub(crate) use entry::Entry;

use crate::{answer::Answer, error::ApiError, host::runtime::Backlog};
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{Request, body::Incoming};
use outlast_core::{
    Outcome, Rejection,
    arn::{Function, FunctionReference, LATEST},
    id::{digest128, uuid},
    intent::InvokeOutcome,
    schedule::Share,
    time::iso,
    wire::ErrorObject,
};
use outlast_engine::{
    Engine, Registered,
    invoker::{BoxFuture, Call, Invoker, PlainCall},
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::{runtime::Handle, sync::Mutex};

/// The setting that lists the names of all functions.
const NAMES_SETTING: &str = "functions";

/// A request of the Lambda Runtime API. Its body comes as it is sent, or was read to see who signed.
pub type RuntimeRequest = Request<Either<Incoming, Full<Bytes>>>;

/// Who runs the handlers of functions.
pub trait Hosts: Send + Sync + 'static {
    /// Whether a configuration can be hosted.
    ///
    /// # Errors
    /// With the reason, when it cannot.
    fn check(&self, _configuration: &FunctionConfiguration) -> Result<(), String> {
        Ok(())
    }

    /// Whoever calls this version of a function. Asked again each time its configuration changes:
    /// a host that keeps something for it goes on with that.
    fn invoker(&self, configuration: &FunctionConfiguration, version: &str) -> Arc<dyn Invoker>;

    /// Whether the invokers end a call themselves when the function's timeout has passed, counted
    /// from the moment a handler has it. Otherwise the engine does, from the moment it asks.
    fn keeps_time(&self) -> bool {
        false
    }

    /// What each version of a function may use.
    fn share(&self) -> Share {
        Share::default()
    }

    /// A version of a function, or the whole function, is gone.
    fn removed(&self, _function: &str, _version: Option<&str>) {}

    /// Answers a request of the Lambda Runtime API that came to the server's own port; nothing if
    /// this version of the function is not served that way.
    fn runtime(
        &self,
        _configuration: &FunctionConfiguration,
        _version: &str,
        _request: RuntimeRequest,
    ) -> Option<BoxFuture<'static, Answer>> {
        None
    }

    /// How much there is to do for each version of a function, as far as it is known here.
    fn backlogs(&self) -> Vec<(Function, Backlog)> {
        Vec::new()
    }
}

/// Functions that are known and that nobody runs: their executions wait.
#[derive(Clone, Copy, Debug)]
pub struct Unhosted;

impl Hosts for Unhosted {
    fn invoker(&self, _: &FunctionConfiguration, _: &str) -> Arc<dyn Invoker> {
        Arc::new(Self)
    }
}

impl Invoker for Unhosted {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { Outcome::NotStarted(unhosted(&call.function)) })
    }

    fn invoke_plain(&self, call: PlainCall) -> BoxFuture<'_, InvokeOutcome> {
        Box::pin(async move { InvokeOutcome::Failed(unhosted(&call.function)) })
    }
}

fn unhosted(function: &Function) -> ErrorObject {
    let message = format!("nobody runs the function {function}");
    ErrorObject::new("ResourceNotReadyException", message)
}

/// The partition, region and account of functions that do not say theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Partition.
    pub partition: Arc<str>,
    /// Region.
    pub region: Arc<str>,
    /// Account, twelve digits.
    pub account: Arc<str>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            partition: "aws".into(),
            region: "us-east-1".into(),
            account: "000000000000".into(),
        }
    }
}

/// Why a function cannot be taken up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("function {function}: {reason}")]
pub struct Unusable {
    /// Which one.
    pub function: String,
    /// What is wrong with it.
    pub reason: String,
}

/// All functions of a server. Cheap to clone; all clones are the same catalogue.
#[derive(Clone)]
pub struct Catalogue {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    hosts: Arc<dyn Hosts>,
    account: Account,
    functions: RwLock<BTreeMap<String, Arc<Entry>>>,
    /// One change at a time, from what it read to what it stored.
    changing: Mutex<()>,
}

/// When something was changed, and what that change is called.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    pub(crate) last_modified: String,
    pub(crate) revision_id: String,
}

/// The executions that a list is about.
pub(crate) struct Listed {
    /// Their function; its version says nothing.
    pub(crate) function: Function,
    /// Their version, if only one is asked for.
    pub(crate) version: Option<Arc<str>>,
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Catalogue")
    }
}

impl Catalogue {
    /// Reads the functions that are stored beside the engine's executions and makes them known to
    /// it. To be done before the engine runs: it takes what it does not know for deleted.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn open(
        engine: Engine,
        hosts: Arc<dyn Hosts>,
        account: Account,
    ) -> Result<Self, outlast_engine::Error> {
        let unreadable = |what: &str, error: serde_json::Error| {
            let message = format!("the stored {what} cannot be read: {error}");
            Rejection::new(outlast_core::Code::Service, message)
        };
        let names = engine.setting(NAMES_SETTING)?.unwrap_or_default();
        let names: Vec<String> = match names.as_slice() {
            [] => Vec::new(),
            names => serde_json::from_slice(names).map_err(|error| unreadable("names", error))?,
        };
        let mut functions = BTreeMap::new();
        for name in names {
            let stored = engine.setting(&key(&name))?.unwrap_or_default();
            let entry: Entry = serde_json::from_slice(&stored)
                .map_err(|error| unreadable(&format!("function {name}"), error))?;
            functions.insert(name, Arc::new(entry));
        }
        let inner = Inner {
            engine,
            hosts,
            account,
            functions: RwLock::default(),
            changing: Mutex::default(),
        };
        for (name, entry) in &functions {
            inner.announce(name, None, Some(entry));
        }
        *inner
            .functions
            .write()
            .unwrap_or_else(PoisonError::into_inner) = functions;
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Takes up a function as somebody configured it, in the shape of the service: a new one, or a
    /// known one whose `$LATEST` is then as this says. Its versions and aliases stay.
    ///
    /// # Errors
    /// When the configuration makes no sense or cannot be stored.
    pub async fn put(
        &self,
        name: &str,
        members: serde_json::Map<String, serde_json::Value>,
    ) -> Result<(), Unusable> {
        let mut members = members;
        members.insert("FunctionName".into(), name.into());
        let (account, stamp) = (self.inner.account.clone(), self.stamp());
        let put = self.change(name, move |entry| {
            let latest = FunctionConfiguration::create(Members(members), &account, &stamp)?;
            match entry {
                Some(entry) if entry.latest.is_same_as(&latest) => Ok((entry.clone(), ())),
                Some(entry) => Ok((entry.with_latest(latest), ())),
                None => Ok((Entry::new(latest), ())),
            }
        });
        put.await.map_err(|error| Unusable {
            function: name.to_owned(),
            reason: error.message,
        })
    }

    /// Lets an alias of a known function point to its `$LATEST`.
    ///
    /// # Errors
    /// When there is no such function, the alias makes no sense or cannot be stored.
    pub async fn put_alias(&self, name: &str, alias: &str) -> Result<(), Unusable> {
        let stamp = self.stamp();
        let (function, wanted) = (name.to_owned(), alias.to_owned());
        let put = self.change(name, move |entry| {
            let missing = || ApiError::not_found(format!("Function not found: {function}"));
            let entry = entry.ok_or_else(missing)?;
            let mut members = Members::default();
            members.0.insert("Name".into(), (*wanted).into());
            members.0.insert("FunctionVersion".into(), LATEST.into());
            match entry.alias(&wanted) {
                Ok(_) => entry.with_updated_alias(&wanted, &members, &stamp),
                Err(_) => entry.with_new_alias(&members, &stamp),
            }
        });
        put.await.map(drop).map_err(|error| Unusable {
            function: name.to_owned(),
            reason: error.message,
        })
    }

    /// The names of all functions.
    pub fn names(&self) -> Vec<String> {
        self.inner.read().keys().cloned().collect()
    }

    pub(crate) fn account(&self) -> &Account {
        &self.inner.account
    }

    pub(crate) fn stamp(&self) -> Stamp {
        let mut moment = iso::utc(self.inner.engine.now());
        // The service writes the offset and milliseconds; they are always zero here.
        moment.truncate(moment.len().saturating_sub(1));
        Stamp {
            last_modified: format!("{moment}.000+0000"),
            revision_id: uuid(digest128(&[b"revision", &self.inner.engine.random()])),
        }
    }

    /// A function by its name; the region and account of the reference must be its own.
    pub(crate) fn get(&self, reference: &FunctionReference) -> Result<Arc<Entry>, ApiError> {
        let missing = || ApiError::not_found(format!("Function not found: {}", reference.name));
        let entry = self.inner.read().get(&reference.name).cloned();
        let entry = entry.ok_or_else(missing)?;
        let function = entry.latest.function();
        let is = |written: &Option<String>, own: &str| {
            written.as_deref().is_none_or(|written| written == own)
        };
        if is(&reference.region, &function.region) && is(&reference.account, &function.account) {
            Ok(entry)
        } else {
            Err(missing())
        }
    }

    /// Up to `max` functions whose names come after `after`, and whether there are more.
    pub(crate) fn page(&self, after: Option<&str>, max: usize) -> (Vec<Arc<Entry>>, bool) {
        use std::ops::Bound::{Excluded, Unbounded};
        let functions = self.inner.read();
        let after = after.map_or(Unbounded, Excluded);
        let mut following = functions.range::<str, _>((after, Unbounded));
        let page = following.by_ref().take(max);
        let page = page.map(|(_, entry)| entry.clone()).collect();
        (page, following.next().is_some())
    }

    /// Which executions are those of a function, or of one of its versions or aliases.
    pub(crate) fn listed(
        &self,
        function: &str,
        qualifier: Option<&str>,
    ) -> Result<Listed, ApiError> {
        let reference = reference(function, qualifier)?;
        let entry = self.get(&reference)?;
        let version = match reference.qualifier.as_deref() {
            Some(qualifier) => Some(entry.find(qualifier)?.function().version.clone()),
            None => None,
        };
        Ok(Listed {
            function: entry.latest.function().clone(),
            version,
        })
    }

    /// Who answers a request of the Lambda Runtime API for this function.
    pub(crate) fn backlogs(&self) -> Vec<(Function, Backlog)> {
        self.inner.hosts.backlogs()
    }

    pub(crate) fn runtime(
        &self,
        reference: &FunctionReference,
        request: RuntimeRequest,
    ) -> Result<Option<BoxFuture<'static, Answer>>, ApiError> {
        let entry = self.get(reference)?;
        let qualifier = reference.qualifier.as_deref().unwrap_or(LATEST);
        let configuration = entry.find(qualifier)?;
        let version = &configuration.function().version;
        Ok(self.inner.hosts.runtime(configuration, version, request))
    }

    /// Changes a function, or makes one.
    pub(crate) async fn change<R: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(Option<&Entry>) -> Result<(Entry, R), ApiError> + Send + 'static,
    ) -> Result<R, ApiError> {
        let (inner, name) = (self.inner.clone(), name.to_owned());
        let changing = Handle::current().spawn(async move {
            let _changing = inner.changing.lock().await;
            let before = inner.read().get(&name).cloned();
            let (after, result) = work(before.as_deref())?;
            inner
                .hosts
                .check(&after.latest)
                .map_err(ApiError::invalid)?;
            let stored = serde_json::to_vec(&after).unwrap_or_default();
            inner.engine.put_setting(&key(&name), stored).await?;
            if before.is_none() {
                let mut names: Vec<String> = inner.read().keys().cloned().collect();
                names.push(name.clone());
                inner.store_names(&names).await?;
            }
            inner.announce(&name, before.as_deref(), Some(&after));
            inner.write().insert(name, Arc::new(after));
            Ok(result)
        });
        changing.await.unwrap_or_else(|_| Err(interrupted()))
    }

    /// Removes a function.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), ApiError> {
        let (inner, name) = (self.inner.clone(), name.to_owned());
        let removing = Handle::current().spawn(async move {
            let _changing = inner.changing.lock().await;
            let before = inner.read().get(&name).cloned();
            let names: Vec<String> = inner.read().keys().cloned().collect();
            let names: Vec<String> = names.into_iter().filter(|other| *other != name).collect();
            inner.store_names(&names).await?;
            inner.announce(&name, before.as_deref(), None);
            inner.write().remove(&name);
            // Only tidiness: a function that is not listed is not read.
            inner.engine.put_setting(&key(&name), Vec::new()).await?;
            Ok(())
        });
        removing.await.unwrap_or_else(|_| Err(interrupted()))
    }
}

impl Inner {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, Arc<Entry>>> {
        self.functions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, Arc<Entry>>> {
        self.functions
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn store_names(&self, names: &[String]) -> Result<(), ApiError> {
        let names = serde_json::to_vec(names).unwrap_or_default();
        Ok(self.engine.put_setting(NAMES_SETTING, names).await?)
    }

    /// Makes the difference known to the engine and the hosts.
    fn announce(&self, name: &str, before: Option<&Entry>, after: Option<&Entry>) {
        let Some(after) = after else {
            self.engine.unregister(name, None);
            self.hosts.removed(name, None);
            return;
        };
        for configuration in before.into_iter().flat_map(Entry::configurations) {
            let version = &configuration.function().version;
            if after.find(version).is_err() {
                self.engine.unregister(name, Some(version));
                self.hosts.removed(name, Some(version));
            }
        }
        for configuration in after.configurations() {
            let function = configuration.function();
            let known = before.and_then(|before| before.find(&function.version).ok());
            if known == Some(configuration) {
                continue;
            }
            let timeout = Some(Duration::from_secs(configuration.timeout_seconds().into()));
            self.engine.register(Registered {
                function: function.clone(),
                config: configuration.durable_config().cloned(),
                tenancy: configuration.tenancy(),
                timeout: timeout.filter(|_| !self.hosts.keeps_time()),
                share: self.hosts.share(),
                invoker: self.hosts.invoker(configuration, &function.version),
            });
        }
        self.engine.set_aliases(name, after.alias_versions());
    }
}

/// A function as a caller writes it, together with the qualifier of the query; both must agree if
/// both have one.
pub(crate) fn reference(
    function: &str,
    qualifier: Option<&str>,
) -> Result<FunctionReference, ApiError> {
    let wrong = |rejection: Rejection| ApiError::validation(rejection.message);
    let own: FunctionReference = function.parse().map_err(wrong)?;
    match (&own.qualifier, qualifier) {
        (None, Some(qualifier)) => format!("{function}:{qualifier}").parse().map_err(wrong),
        (Some(own), Some(other)) if own != other => Err(ApiError::invalid(
            "the qualifier of the name and the qualifier of the query differ",
        )),
        _ => Ok(own),
    }
}

/// The setting that keeps a function.
fn key(name: &str) -> String {
    format!("function/{name}")
}

fn interrupted() -> ApiError {
    ApiError::of(outlast_core::Code::Service, "the server is shutting down")
}
