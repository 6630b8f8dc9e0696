//! Which host runs a function, by what its configuration says.
//!
//! `InvokeEndpoint` (with `InvokeFunctionName`, if the function is called something else there) has
//! its calls pushed; otherwise workers ask for them: over the server's own port under
//! `/functions/NAME[:VERSION]`, and for `$LATEST` also over a loopback port of its own, if
//! `RuntimeApi` names one. A version that was published never shares workers with another.

use crate::{
    answer::Answer,
    catalogue::{FunctionConfiguration, Hosts, RuntimeRequest, Unhosted},
    host::{
        hosts::RuntimeHosts,
        listener::RuntimeListener,
        push::{
            self, PushHost, SLACK_DEFAULT, Target, address::AddressPolicy, connect::Connector,
            signing::Signing,
        },
        runtime::{self, Backlog, RuntimeHost, WAITING_MAX_DEFAULT, refused},
    },
};
use hyper::StatusCode;
use outlast_core::{
    Outcome,
    arn::{Function, LATEST},
    intent::InvokeOutcome,
    schedule::Share,
    wire::ErrorObject,
};
use outlast_engine::{
    clock::Clock,
    invoker::{BoxFuture, Call, Invoker, PlainCall},
    random::Random,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{runtime::Handle, sync::watch, task::AbortHandle};

/// Pause before a port is tried again that somebody else has.
const PORT_PAUSE: Duration = Duration::from_secs(1);

/// Invocations of one function version at the same time, unless told otherwise: those that workers
/// have, and those that wait for one. More would only take memory from others.
pub const INVOCATIONS_MAX_DEFAULT: usize = 1_000;

/// What hosts need besides configurations.
#[derive(Clone)]
pub struct Parts {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Ids of invocations.
    pub random: Arc<dyn Random>,
    /// Which addresses may be called.
    pub policy: Arc<AddressPolicy>,
    /// How they are connected to.
    pub connector: Arc<dyn Connector>,
    /// Which calls are signed.
    pub signing: Arc<Signing>,
    /// Invocations of one function version at the same time. It is the only bound: a function that
    /// has no workers, or slow ones, takes nothing from others.
    pub invocations_max: usize,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// The hosts of a server's functions.
pub struct Hosting {
    parts: Parts,
    tasks: Handle,
    /// All hosts that workers ask, for metrics.
    hosts: RuntimeHosts,
    kept: Mutex<BTreeMap<(String, String), Kept>>,
}

impl fmt::Debug for Hosting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosting").finish_non_exhaustive()
    }
}

/// A host that workers ask, until it is closed.
struct Kept {
    host: Arc<RuntimeHost>,
    /// Closes it when dropped: whoever waits for it is told.
    open: watch::Sender<()>,
    listening: Option<Listening>,
}

/// A port of a function's own, until this is dropped.
struct Listening {
    address: SocketAddr,
    task: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where a function's calls go.
enum Place {
    Push(Target),
    Workers(Option<SocketAddr>),
}

impl Hosting {
    /// Hosts without functions. Their listeners are tasks of the runtime this is called on.
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            tasks: Handle::current(),
            hosts: RuntimeHosts::default(),
            kept: Mutex::default(),
        }
    }

    /// The hosts that workers ask.
    pub fn runtimes(&self) -> &RuntimeHosts {
        &self.hosts
    }

    /// No worker gets more work here, and durable calls that wait for one leave the line: what
    /// workers have may still be finished. To be done once the engine calls nobody any more, which
    /// would otherwise call again and again.
    pub fn close(&self) {
        for kept in self.lock().values() {
            kept.host.close();
        }
    }

    fn push(&self, configuration: &FunctionConfiguration, target: Target) -> Arc<dyn Invoker> {
        let settings = push::Settings {
            function: configuration.function().clone(),
            signer: self.parts.signing.signer(&target),
            target,
            timeout: timeout(configuration),
            slack: SLACK_DEFAULT,
        };
        let Parts {
            policy, connector, ..
        } = self.parts.clone();
        PushHost::new(settings, policy, connector)
    }

    fn workers(
        &self,
        configuration: &FunctionConfiguration,
        address: Option<SocketAddr>,
    ) -> Arc<dyn Invoker> {
        let function = configuration.function();
        let key = (function.name.to_string(), function.version.to_string());
        let mut kept = self.lock();
        let known = kept.remove(&key);
        // A function that was deleted and made again may live elsewhere.
        let known = known.filter(|kept| kept.host.function() == function);
        let mut now = known.unwrap_or_else(|| {
            let settings = runtime::Settings {
                function: function.clone(),
                timeout: timeout(configuration),
                // What may be called must also find a place; the rest is for ordinary calls.
                waiting_max: WAITING_MAX_DEFAULT.saturating_add(self.parts.invocations_max),
            };
            let Parts { clock, random, .. } = self.parts.clone();
            let host = RuntimeHost::new(settings, clock, random);
            self.hosts.put(host.clone());
            Kept {
                host,
                open: watch::Sender::new(()),
                listening: None,
            }
        });
        now.host.set_timeout(timeout(configuration));
        let address = address.filter(|_| *function.version == *LATEST);
        if now.listening.as_ref().map(|listening| listening.address) != address {
            now.listening = address.map(|address| self.listen(address, now.host.clone()));
        }
        let invoker = Open {
            host: now.host.clone(),
            open: now.open.subscribe(),
        };
        kept.insert(key, now);
        Arc::new(invoker)
    }

    fn listen(&self, address: SocketAddr, host: Arc<RuntimeHost>) -> Listening {
        let listening = async move {
            loop {
                match RuntimeListener::bind(host.clone(), address).await {
                    Ok(listener) => match listener.run().await {},
                    Err(error) => {
                        let function = &host.function().name;
                        tracing::error!(%function, %address, %error, "its workers have no port");
                    }
                }
                tokio::time::sleep(PORT_PAUSE).await;
            }
        };
        Listening {
            address,
            task: self.tasks.spawn(listening).abort_handle(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hosts for Hosting {
    fn check(&self, configuration: &FunctionConfiguration) -> Result<(), String> {
        place(configuration).map(drop)
    }

    fn invoker(&self, configuration: &FunctionConfiguration, version: &str) -> Arc<dyn Invoker> {
        match place(configuration) {
            Ok(Place::Push(target)) => {
                let name = &configuration.function().name;
                self.removed(name, Some(version));
                self.push(configuration, target)
            }
            Ok(Place::Workers(address)) => self.workers(configuration, address),
            Err(error) => {
                let function = configuration.function();
                tracing::error!(%function, %error, "nobody can run this function");
                Arc::new(Unhosted)
            }
        }
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn share(&self) -> Share {
        Share {
            concurrency_max: self.parts.invocations_max,
            ..Share::default()
        }
    }

    fn removed(&self, function: &str, version: Option<&str>) {
        let mut kept = self.lock();
        kept.retain(|(name, own), _| {
            let gone = name == function && version.is_none_or(|version| version == own);
            if gone {
                self.hosts.remove(name, own);
            }
            !gone
        });
    }

    fn backlogs(&self) -> Vec<(Function, Backlog)> {
        self.hosts.backlogs()
    }

    fn runtime(
        &self,
        configuration: &FunctionConfiguration,
        version: &str,
        request: RuntimeRequest,
    ) -> Option<BoxFuture<'static, Answer>> {
        let key = (
            configuration.function().name.to_string(),
            version.to_owned(),
        );
        let kept = self.lock();
        let kept = kept.get(&key)?;
        let (host, mut open) = (kept.host.clone(), kept.open.subscribe());
        let asks = request.uri().path().ends_with("/invocation/next");
        Some(Box::pin(async move {
            tokio::select! {
                biased;
                answer = host.serve(request) => answer,
                // Whoever serves this port waits for its requests; workers come back.
                () = host.closed(), if asks => refused(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "ServiceException",
                    "the server is shutting down",
                ),
                _ = open.changed() => refused(
                    StatusCode::GONE,
                    "ResourceNotFoundException",
                    "the function is gone, or run by somebody else",
                ),
            }
        }))
    }
}

/// Calls a host that may be closed while somebody waits for it.
struct Open {
    host: Arc<RuntimeHost>,
    open: watch::Receiver<()>,
}

impl Invoker for Open {
    fn has_begun(&self, invocation_id: &str) -> bool {
        self.host.has_begun(invocation_id)
    }

    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        let mut open = self.open.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                outcome = self.host.invoke(call) => outcome,
                // A worker may have it: nobody knows what becomes of it.
                _ = open.changed() => Outcome::Lost,
            }
        })
    }

    fn invoke_plain(&self, call: PlainCall) -> BoxFuture<'_, InvokeOutcome> {
        let mut open = self.open.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                outcome = self.host.invoke_plain(call) => outcome,
                _ = open.changed() => {
                    let message = "the function was deleted or moved while it was called";
                    InvokeOutcome::Failed(ErrorObject::new("ResourceNotReadyException", message))
                }
            }
        })
    }
}

fn timeout(configuration: &FunctionConfiguration) -> Duration {
    Duration::from_secs(configuration.timeout_seconds().into())
}

/// Where a configuration wants its calls to go.
fn place(configuration: &FunctionConfiguration) -> Result<Place, String> {
    let text = |name: &str| match configuration.member(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("{name} must be a string")),
    };
    if let Some(endpoint) = text("InvokeEndpoint")? {
        let own = &configuration.function().name;
        let name = text("InvokeFunctionName")?.unwrap_or(own);
        let target = Target::new(endpoint, name).map_err(|error| error.to_string())?;
        return Ok(Place::Push(target));
    }
    let wrong = || "RuntimeApi must be a port, or a loopback address with a port".to_owned();
    let address = match configuration.member("RuntimeApi") {
        None => return Ok(Place::Workers(None)),
        Some(Value::Number(port)) => format!("127.0.0.1:{port}"),
        Some(Value::String(text)) if text.contains(':') => text.replace("localhost:", "127.0.0.1:"),
        Some(Value::String(port)) => format!("127.0.0.1:{port}"),
        Some(_) => return Err(wrong()),
    };
    let address: SocketAddr = address.parse().map_err(|_| wrong())?;
    if address.port() == 0 || !address.ip().to_canonical().is_loopback() {
        return Err(wrong());
    }
    Ok(Place::Workers(Some(address)))
}
