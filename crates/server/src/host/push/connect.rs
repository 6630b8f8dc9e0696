//! How a push host gets a connection: over TCP, encrypted where the target says so.

use crate::host::push::Target;
use outlast_engine::invoker::BoxFuture;
use outlast_http::tls::Tls;
use std::{
    fmt, io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

/// Bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A boxed connection.
pub type BoxStream = Box<dyn ByteStream>;

/// Makes connections. Looking a name up and connecting are two steps, so that the address is checked
/// in between and not looked up again.
pub trait Connector: Send + Sync + 'static {
    /// The addresses of a target, in the order in which to try them.
    fn resolve<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;

    /// Connects to one of them.
    fn connect<'a>(
        &'a self,
        target: &'a Target,
        address: SocketAddr,
    ) -> BoxFuture<'a, io::Result<BoxStream>>;
}

/// The network.
#[derive(Default)]
pub struct Network {
    ca: Option<PathBuf>,
    /// Made when it is first needed: a machine's certificates are many.
    tls: Mutex<Option<Tls>>,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("ca", &self.ca)
            .finish_non_exhaustive()
    }
}

impl Network {
    /// Trusts the certificates in this file besides the machine's.
    pub fn new(ca: Option<PathBuf>) -> Self {
        Self {
            ca,
            tls: Mutex::default(),
        }
    }

    fn tls(&self) -> io::Result<Tls> {
        let mut tls = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = &*tls {
            return Ok(tls.clone());
        }
        let made = Tls::new(self.ca.as_deref()).map_err(io::Error::other)?;
        *tls = Some(made.clone());
        Ok(made)
    }
}

impl Connector for Network {
    fn resolve<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            let found = lookup_host((target.host(), target.port())).await?;
            Ok(found.collect())
        })
    }

    fn connect<'a>(
        &'a self,
        target: &'a Target,
        address: SocketAddr,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            if !target.endpoint().is_encrypted() {
                return Ok(Box::new(stream) as BoxStream);
            }
            let encrypted = self.tls()?.connect(target.host(), stream).await?;
            Ok(Box::new(encrypted) as BoxStream)
        })
    }
}
