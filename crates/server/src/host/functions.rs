//! The host of each function, as its configuration asks.
//!
//! A function with the member `InvokeEndpoint` is called there; any other waits for workers that
//! speak the Lambda Runtime API, on the server's own port and, if its configuration has `RuntimeApi`
//! (`HOST:PORT`, or only a port), on a listener of its own.

use crate::{
    answer::Answer,
    catalogue::{FunctionConfiguration, Hosts},
    host::{
        hosts::RuntimeHosts,
        listener::RuntimeListener,
        lock,
        push::{self, PushHost, Target, address::AddressPolicy, connect::Connector},
        runtime::{self, RuntimeHost},
    },
};
use hyper::{Request, body::Incoming};
use outlast_core::{Outcome, arn::Function, intent::InvokeOutcome, wire::ErrorObject};
use outlast_engine::{
    clock::Clock,
    invoker::{BoxFuture, Call, Invoker, PlainCall},
    random::Random,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{runtime::Handle, task::AbortHandle};

/// What every host shares.
pub struct Shared {
    /// When an invocation began, and until when it may take.
    pub clock: Arc<dyn Clock>,
    /// For ids.
    pub random: Arc<dyn Random>,
    /// Which addresses may be called.
    pub policy: Arc<AddressPolicy>,
    /// Who connects to them.
    pub connector: Arc<dyn Connector>,
    /// Where listeners run.
    pub runtime: Handle,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// A function's name and version.
type NameAndVersion = (Arc<str>, Arc<str>);

/// The hosts of all functions of a server.
pub struct FunctionHosts {
    shared: Shared,
    workers: RuntimeHosts,
    listeners: Mutex<BTreeMap<NameAndVersion, Listening>>,
}

/// A listener of a function's own.
#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    task: AbortHandle,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for FunctionHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionHosts")
            .field("workers", &self.workers)
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

impl FunctionHosts {
    /// Hosts for functions that are made known later.
    pub fn new(shared: Shared) -> Self {
        Self {
            shared,
            workers: RuntimeHosts::default(),
            listeners: Mutex::default(),
        }
    }

    /// The hosts that workers ask for work.
    pub fn workers(&self) -> &RuntimeHosts {
        &self.workers
    }

    fn called_at(&self, endpoint: &str, function: Function, timeout: Duration) -> Arc<dyn Invoker> {
        let name = function.name.clone();
        let target = match Target::new(endpoint, &name) {
            Ok(target) => target,
            Err(error) => {
                tracing::error!(function = %name, %error, "the function cannot be called");
                return Arc::new(Unreachable(error.to_string().into()));
            }
        };
        let settings = push::Settings {
            function,
            target,
            timeout,
            slack: push::SLACK_DEFAULT,
        };
        let Shared {
            policy, connector, ..
        } = &self.shared;
        PushHost::new(settings, policy.clone(), connector.clone())
    }

    fn asked_for(&self, function: Function, timeout: Duration) -> Arc<RuntimeHost> {
        // Workers that have asked keep their places when nothing has changed for them.
        if let Some(known) = self.workers.get(&function.name, &function.version)
            && *known.function() == function
            && known.timeout() == timeout
        {
            return known;
        }
        let settings = runtime::Settings {
            function,
            timeout,
            waiting_max: runtime::WAITING_MAX_DEFAULT,
        };
        let Shared { clock, random, .. } = &self.shared;
        let host = RuntimeHost::new(settings, clock.clone(), random.clone());
        self.workers.put(host.clone());
        host
    }

    /// Listens where the configuration says, or stops listening.
    fn listen(&self, host: &Arc<RuntimeHost>, address: Option<SocketAddr>) {
        let Function { name, version, .. } = host.function();
        let key = (name.clone(), version.clone());
        let mut listeners = lock(&self.listeners);
        let known = listeners.remove(&key);
        let Some(address) = address else {
            return;
        };
        drop(known);
        let host = host.clone();
        let serving = async move {
            match RuntimeListener::bind(host.clone(), address).await {
                Ok(listener) => match listener.run().await {},
                Err(error) => {
                    let function = host.function();
                    tracing::error!(%function, %address, %error, "workers cannot be listened for");
                }
            }
        };
        let task = self.shared.runtime.spawn(serving).abort_handle();
        listeners.insert(key, Listening { address, task });
    }

    fn listens_at(&self, host: &RuntimeHost) -> Option<SocketAddr> {
        let Function { name, version, .. } = host.function();
        let listeners = lock(&self.listeners);
        let known = listeners.get(&(name.clone(), version.clone()))?;
        (!known.task.is_finished()).then_some(known.address)
    }
}

impl Hosts for FunctionHosts {
    fn invoker(&self, configuration: &FunctionConfiguration, version: &str) -> Arc<dyn Invoker> {
        let function = Function {
            version: version.into(),
            ..configuration.function().clone()
        };
        let timeout = Duration::from_secs(configuration.timeout_seconds().into());
        if let Some(Value::String(endpoint)) = configuration.member("InvokeEndpoint") {
            let invoker = self.called_at(endpoint, function, timeout);
            self.removed(&configuration.function().name, Some(version));
            return invoker;
        }
        let before = self.workers.get(&function.name, &function.version);
        let host = self.asked_for(function, timeout);
        let wanted = configuration.member("RuntimeApi").and_then(address);
        let same = before.is_some_and(|before| Arc::ptr_eq(&before, &host));
        if !same || self.listens_at(&host) != wanted {
            self.listen(&host, wanted);
        }
        host
    }

    fn keeps_time(&self) -> bool {
        true
    }

    fn removed(&self, function: &str, version: Option<&str>) {
        let gone = |(name, its): &NameAndVersion| {
            **name == *function && version.is_none_or(|version| **its == *version)
        };
        for (host, _) in self.workers.backlogs() {
            if gone(&(host.name.clone(), host.version.clone())) {
                self.workers.remove(&host.name, &host.version);
            }
        }
        lock(&self.listeners).retain(|key, _| !gone(key));
    }

    fn runtime(
        &self,
        configuration: &FunctionConfiguration,
        version: &str,
        request: Request<Incoming>,
    ) -> Option<BoxFuture<'static, Answer>> {
        let host = self.workers.get(&configuration.function().name, version)?;
        Some(Box::pin(async move { host.serve(request).await }))
    }
}

/// `HOST:PORT`, or a port on loopback.
fn address(member: &Value) -> Option<SocketAddr> {
    let text = match member {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let port = |text: &str| {
        text.parse()
            .ok()
            .map(|port| (Ipv4Addr::LOCALHOST, port).into())
    };
    text.parse()
        .ok()
        .or_else(|| port(&text))
        .or_else(|| port(text.strip_prefix("localhost:")?))
}

/// A function whose endpoint makes no sense: its executions wait for a better one.
#[derive(Debug)]
struct Unreachable(Arc<str>);

impl Unreachable {
    fn error(&self) -> ErrorObject {
        ErrorObject::new("ResourceNotReadyException", &*self.0)
    }
}

impl Invoker for Unreachable {
    fn invoke(&self, _: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async { Outcome::NotStarted(self.error()) })
    }

    fn invoke_plain(&self, _: PlainCall) -> BoxFuture<'_, InvokeOutcome> {
        Box::pin(async { InvokeOutcome::Failed(self.error()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_address_is_a_host_and_port_or_a_port() {
        let loopback = |port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        assert_eq!(address(&json!("127.0.0.1:9001")), loopback(9_001));
        assert_eq!(address(&json!("localhost:9001")), loopback(9_001));
        assert_eq!(address(&json!("9001")), loopback(9_001));
        assert_eq!(address(&json!(9_001)), loopback(9_001));
        for nonsense in [
            json!("a:b"),
            json!(-1),
            json!(65_536),
            json!(true),
            json!(null),
        ] {
            assert_eq!(address(&nonsense), None, "{nonsense}");
        }
    }
}
