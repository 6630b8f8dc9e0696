//! TLS of clients: which certificates are trusted, and what it means when one is not.
//!
//! The machine's own certificates count, and those of one more file. There is no way to trust
//! everybody.

use crate::options::Unusable;
use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use std::{fmt, io, path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The variable with the file of certificates to trust besides the machine's.
pub const CA_VARIABLE: &str = "OUTLAST_CA";

/// Encrypts connections. Cheap to clone.
#[derive(Clone)]
pub struct Tls(TlsConnector);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Trusts the machine's certificates, and those in the PEM file `ca`.
    ///
    /// # Errors
    /// When the file cannot be used, or there is nothing at all to trust.
    pub fn new(ca: Option<&Path>) -> Result<Self, Unusable> {
        let mut roots = RootCertStore::empty();
        // Some of a machine's certificates are often odd; those are left out.
        let known = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(known.certs);
        if let Some(file) = ca {
            add(&mut roots, file)?;
        }
        if roots.is_empty() {
            return Err(Unusable::new(format!(
                "this machine trusts no certificates, so no server can be recognised: install its \
                 CA certificates (the package ca-certificates), or name a file of them with --ca or \
                 {CA_VARIABLE}"
            )));
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Unusable::new(error.to_string()))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Encrypts a connection to whoever can show a certificate for `host`.
    ///
    /// # Errors
    /// When they cannot, or the connection breaks. What it says names the remedy.
    pub async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            let message = format!("{host} is no name that a certificate could be for");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })?;
        let connecting = self.0.connect(name, stream);
        connecting.await.map_err(|error| explained(host, error))
    }
}

fn add(roots: &mut RootCertStore, file: &Path) -> Result<(), Unusable> {
    let unusable = |why: &dyn fmt::Display| {
        let shown = file.display();
        Unusable::new(format!(
            "{shown} (--ca or {CA_VARIABLE}) holds no certificates in PEM that can be trusted: {why}"
        ))
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))?;
    let mut any = false;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        roots.add(certificate).map_err(|error| unusable(&error))?;
        any = true;
    }
    match any {
        true => Ok(()),
        false => Err(unusable(&"it is empty")),
    }
}

/// Whether no further attempt will go better: the other side is not who it should be.
pub(crate) fn is_final(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
    )
}

/// What a handshake that failed means, and what helps.
fn explained(host: &str, error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|error| error.downcast_ref());
    let message = match inner {
        Some(Error::InvalidCertificate(reason)) => certificate(host, reason),
        Some(Error::InvalidMessage(_)) => {
            "what answers there does not speak TLS: is http:// meant?".to_owned()
        }
        Some(other) => format!("no encrypted connection: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it closed the connection instead of encrypting it: is http:// meant?".to_owned()
        }
        None => return error,
    };
    io::Error::new(error.kind(), message)
}

fn certificate(host: &str, reason: &CertificateError) -> String {
    use CertificateError as Reason;
    let text = reason.to_string();
    if text.contains("CaUsedAsEndEntity") {
        return format!(
            "{host} shows the certificate of an authority as its own: give it one that this \
             authority signed, or one made with CA:FALSE"
        );
    }
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the others say all there is to say; new ones are added"
    )]
    match reason {
        // The latter is what an authority of the same name with another key did, an older one say.
        Reason::UnknownIssuer | Reason::BadSignature => format!(
            "nobody this machine trusts vouches for the certificate of {host}: name the file of the \
             certificate that signed it (or of its own, if it signed itself) with --ca or \
             {CA_VARIABLE}"
        ),
        Reason::NotValidForName | Reason::NotValidForNameContext { .. } => {
            let names = match reason {
                Reason::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
                    format!(", but for {}", presented.join(", "))
                }
                _ => String::new(),
            };
            format!(
                "the certificate there is not for {host}{names}: ask it by a name it is for, or \
                 have one made that names {host}"
            )
        }
        Reason::Expired | Reason::ExpiredContext { .. } => format!(
            "the certificate of {host} has expired: renew it there, or set this machine's clock if \
             it is wrong"
        ),
        Reason::NotValidYet | Reason::NotValidYetContext { .. } => format!(
            "the certificate of {host} is not valid yet: set this machine's clock if it is wrong"
        ),
        _ => format!("the certificate of {host} cannot be accepted: {text}"),
    }
}

#[cfg(test)]
mod tests;
