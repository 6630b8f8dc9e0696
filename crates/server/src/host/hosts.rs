//! All runtime hosts of a server, by function and version: what its main port needs to serve the
//! Runtime API under a path, and what metrics are read from.

use crate::host::{
    lock,
    runtime::{Backlog, RuntimeHost},
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, body::Body};
use outlast_core::arn::Function;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

type NameAndVersion = (Arc<str>, Arc<str>);

/// Runtime hosts by function name and version.
#[derive(Debug, Default)]
pub struct RuntimeHosts {
    hosts: Mutex<BTreeMap<NameAndVersion, Arc<RuntimeHost>>>,
}

impl RuntimeHosts {
    /// Adds a host. One that served the same function version before is returned; the calls it has
    /// are its own until it is dropped.
    pub fn put(&self, host: Arc<RuntimeHost>) -> Option<Arc<RuntimeHost>> {
        let Function { name, version, .. } = host.function();
        let key = (name.clone(), version.clone());
        lock(&self.hosts).insert(key, host)
    }

    /// Takes a host away.
    pub fn remove(&self, function: &str, version: &str) -> Option<Arc<RuntimeHost>> {
        lock(&self.hosts).remove(&(function.into(), version.into()))
    }

    /// The host of a function version.
    pub fn get(&self, function: &str, version: &str) -> Option<Arc<RuntimeHost>> {
        lock(&self.hosts)
            .get(&(function.into(), version.into()))
            .cloned()
    }

    /// Answers a worker's request that came in over `/functions/NAME[:VERSION]/2018-06-01/…`. The
    /// request has a [`Peer`](crate::host::peer::Peer) in its extensions.
    pub async fn serve<B>(
        &self,
        function: &str,
        version: &str,
        request: Request<B>,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
    {
        match self.get(function, version) {
            Some(host) => host.serve(request).await,
            None => crate::host::runtime::refused(
                StatusCode::NOT_FOUND,
                "ResourceNotFoundException",
                &format!("no workers are wanted for the function {function}:{version}"),
            ),
        }
    }

    /// The backlog of every function version, in order of their names.
    pub fn backlogs(&self) -> Vec<(Function, Backlog)> {
        let hosts: Vec<Arc<RuntimeHost>> = lock(&self.hosts).values().cloned().collect();
        let backlog = |host: &Arc<RuntimeHost>| (host.function().clone(), host.backlog());
        hosts.iter().map(backlog).collect()
    }
}
