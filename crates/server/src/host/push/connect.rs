//! How a push host gets a connection. Plain TCP here; another transport implements the trait.

use crate::host::push::Target;
use outlast_engine::invoker::BoxFuture;
use std::{io, net::SocketAddr};
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

/// Plain TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Connector for Tcp {
    fn resolve<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move {
            let found = lookup_host((target.host(), target.port())).await?;
            Ok(found.collect())
        })
    }

    fn connect<'a>(
        &'a self,
        _: &'a Target,
        address: SocketAddr,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as BoxStream)
        })
    }
}
