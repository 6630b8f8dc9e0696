//! TLS from certificate files. HTTP/1.1 is spoken inside, nothing older than TLS 1.2 outside.

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
};
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// How connections are encrypted. Cheap to clone.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

/// Why certificate files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("{} holds no {what} that can be read", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// Why it does not.
        source: pem::Error,
    },
    /// The key is not the certificate's, or of a kind that is not known.
    #[error("certificate and key cannot be used together")]
    Pair(#[from] rustls::Error),
}

impl Tls {
    /// With the chain of certificates and the private key in these PEM files.
    ///
    /// # Errors
    /// When a file cannot be read, or they do not belong together.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let file = |path: &Path, what| {
            let path = path.to_owned();
            move |source| TlsError::File { path, what, source }
        };
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain = chain.map_err(file(certificate, "certificate"))?;
        if chain.is_empty() {
            return Err(file(certificate, "certificate")(pem::Error::NoItemsFound));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(file(key, "private key"))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(chain, secret)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}
