//! What `outlast serve` is to do: flags first, then the environment, then the configuration file,
//! then defaults. Nothing is done here but reading files.

use crate::arguments::{CallbacksFlag, Serve};
use anyhow::{Context as _, bail};
use outlast_core::limits::Quotas;
use outlast_http::tls::CA_VARIABLE;
use outlast_server::{
    Options,
    auth::{Callbacks, Credentials, Role},
    catalogue::Account,
    config::{Config, Parity, Push, SECRET_LENGTH_MIN, TlsFiles, check_account, check_region},
    host::push::address::AddressPolicy,
    hosting::INVOCATIONS_MAX_DEFAULT,
    keys::StoredKeys,
    secret::Secret,
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

/// Where it listens unless told otherwise.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4_777);
/// The data folder unless told otherwise.
const DATA: &str = ".outlast";
/// An admin's bearer token, for those who hand secrets over in the environment. Not a flag: others
/// on the machine can read flags.
const ADMIN_TOKEN: &str = "OUTLAST_ADMIN_TOKEN";

/// Everything that is decided before anything is done.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) data: PathBuf,
    pub(crate) functions: Option<PathBuf>,
    pub(crate) account: Account,
    pub(crate) callbacks: Callbacks,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) policy: AddressPolicy,
    pub(crate) push: Push,
    pub(crate) quotas: Quotas,
    pub(crate) invocations_max: usize,
    pub(crate) options: Options,
    pub(crate) dev: bool,
    /// Keys and tokens that are there from beginning to end.
    fixed: Credentials,
}

impl Settings {
    /// What flags, environment and file say together.
    ///
    /// # Errors
    /// When one of them makes no sense.
    pub(crate) fn of(serve: &Serve) -> anyhow::Result<Self> {
        let config = match &serve.config {
            Some(file) => read(file)?,
            None => Config::default(),
        };
        let mut account = Account::default();
        if let Some(region) = serve.region.as_ref().or(config.region.as_ref()) {
            check_region(region)?;
            account.region = region.as_str().into();
        }
        if let Some(number) = serve.account.as_ref().or(config.account.as_ref()) {
            check_account(number)?;
            account.account = number.as_str().into();
        }
        let policy = match serve.dev {
            true => AddressPolicy::with_loopback(),
            false => AddressPolicy::default(),
        };
        let invocations = config.limits.invocations_max;
        let callbacks = serve.callbacks.map(|flag| match flag {
            CallbacksFlag::Open => Callbacks::Open,
            CallbacksFlag::Closed => Callbacks::Closed,
        });
        Ok(Self {
            policy: config.policy(policy)?,
            push: push(config.push.clone()),
            fixed: fixed(&config)?,
            options: config.limits.options(),
            quotas: match config.parity.unwrap_or_default() {
                Parity::Relaxed => Quotas::unlimited(),
                Parity::Strict => Quotas::aws(),
            },
            invocations_max: match invocations {
                Some(invocations) => usize::try_from(invocations).unwrap_or(usize::MAX),
                None => INVOCATIONS_MAX_DEFAULT,
            },
            callbacks: callbacks.or(config.callbacks).unwrap_or_default(),
            listen: serve.listen.or(config.listen).unwrap_or(LISTEN),
            data: serve
                .data
                .clone()
                .or(config.data)
                .unwrap_or_else(|| DATA.into()),
            functions: serve.functions.clone().or(config.functions),
            tls: tls(serve, config.tls)?,
            account,
            dev: serve.dev,
        })
    }

    /// Open to everybody on this machine, for whoever writes functions.
    pub(crate) fn developing(listen: SocketAddr, data: PathBuf) -> Self {
        Self {
            listen,
            data,
            functions: None,
            account: Account::default(),
            callbacks: Callbacks::default(),
            tls: None,
            policy: AddressPolicy::with_loopback(),
            push: push(Push::default()),
            quotas: Quotas::unlimited(),
            invocations_max: INVOCATIONS_MAX_DEFAULT,
            options: Options::default(),
            dev: true,
            fixed: Credentials::default(),
        }
    }

    /// Everything that callers may show now.
    ///
    /// # Errors
    /// When the keys of the data folder cannot be used.
    pub(crate) fn credentials(&self) -> anyhow::Result<Credentials> {
        let mut credentials = self.fixed.clone();
        StoredKeys::load(&self.data)?.add_to(&mut credentials);
        Ok(credentials)
    }
}

fn read(file: &Path) -> anyhow::Result<Config> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
    let mut config = Config::parse(&text).with_context(|| format!("{shown} cannot be used"))?;
    // What a file names is beside it, wherever the program is started.
    let folder = file.parent().unwrap_or(Path::new(""));
    let places = [&mut config.data, &mut config.functions, &mut config.push.ca];
    let mut places: Vec<&mut PathBuf> = places.into_iter().flatten().collect();
    if let Some(tls) = &mut config.tls {
        places.extend([&mut tls.certificate, &mut tls.key]);
    }
    for place in places {
        *place = folder.join(&*place);
    }
    Ok(config)
}

/// How functions elsewhere are called; the environment may name certificates to trust.
fn push(mut push: Push) -> Push {
    let named = std::env::var_os(CA_VARIABLE).filter(|file| !file.is_empty());
    push.ca = push.ca.or_else(|| named.map(PathBuf::from));
    push
}

fn fixed(config: &Config) -> anyhow::Result<Credentials> {
    let mut credentials = config.credentials();
    if let Ok(token) = std::env::var(ADMIN_TOKEN) {
        if token.len() < SECRET_LENGTH_MIN {
            bail!("{ADMIN_TOKEN}: a secret has {SECRET_LENGTH_MIN} characters at least");
        }
        credentials.add_token(&Secret::new(token), Role::Admin);
    }
    Ok(credentials)
}

fn tls(serve: &Serve, file: Option<TlsFiles>) -> anyhow::Result<Option<TlsFiles>> {
    let (certificate, key) = file.map(|tls| (tls.certificate, tls.key)).unzip();
    let certificate = serve.tls_certificate.clone().or(certificate);
    let key = serve.tls_key.clone().or(key);
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        (Some(_), None) => bail!("a TLS certificate is given and its key is not: --tls-key FILE"),
        (None, Some(_)) => {
            bail!("a TLS key is given and its certificate is not: --tls-certificate FILE")
        }
    }
}
