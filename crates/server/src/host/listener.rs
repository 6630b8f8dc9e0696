//! A listener for the workers of one function version.
//!
//! Most runtime clients accept a host and a port and no path, so every function has its own port.
//! The protocol has no authentication, so only loopback addresses are listened on.

use crate::host::{
    peer::{Connection, Peer},
    runtime::RuntimeHost,
    worker::Worker,
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

/// Connections one listener keeps at once; further ones wait to be accepted.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Pause after a connection could not be accepted, for want of descriptors mostly.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves the Runtime API on a loopback port while [`run`](Self::run) runs.
#[derive(Debug)]
pub struct RuntimeListener {
    socket: TcpListener,
    address: SocketAddr,
    host: Arc<RuntimeHost>,
    worker: Option<Arc<Worker>>,
}

impl RuntimeListener {
    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is not loopback, or cannot be listened on.
    pub async fn bind(host: Arc<RuntimeHost>, address: SocketAddr) -> io::Result<Self> {
        if !is_loopback(address.ip()) {
            let message = format!(
                "{address} is not a loopback address: the Runtime API has no authentication"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self {
            socket,
            address,
            host,
            worker: None,
        })
    }

    /// Every connection is known to come from `worker`.
    pub fn for_worker(self, worker: Arc<Worker>) -> Self {
        Self {
            worker: Some(worker),
            ..self
        }
    }

    /// Where it listens: the value of `AWS_LAMBDA_RUNTIME_API`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until dropped; dropping closes all connections.
    pub async fn run(self) -> Infallible {
        let Self {
            socket,
            host,
            worker,
            ..
        } = self;
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            // The semaphore is never closed.
            let permit = room.clone().acquire_owned().await.ok();
            let accepted = socket.accept().await.and_then(|(stream, remote)| {
                stream.set_nodelay(true)?;
                let local = stream.local_addr()?;
                Ok((stream, remote, local))
            });
            let (stream, remote, local) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a worker's connection could not be accepted");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let connection = match &worker {
                Some(worker) => Connection::of_worker(remote, local, worker.clone()),
                None => Connection::new(remote, local),
            };
            let host = host.clone();
            connections.spawn(async move {
                serve(stream, &connection, &host).await;
                drop(permit);
            });
        }
    }
}

async fn serve(stream: TcpStream, connection: &Connection, host: &Arc<RuntimeHost>) {
    let answer = |mut request: Request<Incoming>| {
        let (peer, host) = (connection.peer(), host.clone());
        async move {
            request.extensions_mut().insert::<Peer>(peer);
            let response: Response<Full<Bytes>> = host.serve(request).await;
            Ok::<_, Infallible>(response)
        }
    };
    // No header timeout: hyper counts it on idle connections too, and a worker's connection is idle
    // for as long as its handler runs.
    let served = http1::Builder::new()
        .title_case_headers(true)
        .serve_connection(TokioIo::new(stream), service_fn(answer));
    if let Err(error) = served.await {
        tracing::debug!(%error, "a worker's connection broke");
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_loopback() {
        for (ip, loopback) in [
            ("127.0.0.1", true),
            ("127.255.255.255", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("128.0.0.0", false),
            ("126.255.255.255", false),
            ("192.168.0.1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(ip.parse().unwrap()), loopback, "{ip}");
        }
    }
}
