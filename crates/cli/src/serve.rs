//! `outlast serve`: the API over HTTP, on a data folder, until somebody ends it.
//!
//! It ends cleanly on SIGINT and SIGTERM: handlers may finish what they do, then the listener closes.
//! When the disk fails it ends at once, since nothing could be promised any more.

use crate::{
    arguments::Serve,
    output::{Output, Report, Verdict},
};
use anyhow::{Context, anyhow, bail};
use outlast_engine::{
    Engine, Known, Options as EngineOptions, Parts,
    clock::{Clock, EngineClock},
    random::{Random, SystemRandom},
    store,
};
use outlast_server::{
    Options, Server,
    catalogue::{Account, Catalogue},
    host::{
        functions::{FunctionHosts, Shared},
        push::{address::AddressPolicy, connect::Tcp},
    },
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{fs, net::SocketAddr, path::Path, sync::Arc};
use tokio::{net::TcpListener, runtime::Handle, signal};

/// Where the server is, once it is there.
#[derive(Serialize)]
struct Serving {
    endpoint: String,
    data: String,
    functions: Vec<String>,
}

impl Report for Serving {
    fn rows(&self) -> Vec<(String, String)> {
        let functions = if self.functions.is_empty() {
            "none yet".to_owned()
        } else {
            self.functions.join(", ")
        };
        [
            ("endpoint", self.endpoint.clone()),
            ("data", self.data.clone()),
            ("functions", functions),
        ]
        .map(|(what, value)| (what.to_owned(), value))
        .into()
    }
}

/// Serves until a signal comes.
///
/// # Errors
/// When it may not serve like this, cannot begin, or the disk fails.
pub(crate) fn run(serve: &Serve, output: &Output) -> anyhow::Result<Verdict> {
    check(serve)?;
    let functions = match &serve.functions {
        Some(file) => read(file)?,
        None => Map::new(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the threads cannot be started")?;
    runtime.block_on(until_the_end(serve, functions, *output))?;
    Ok(Verdict::Good)
}

/// Whether anybody may be let in.
fn check(serve: &Serve) -> anyhow::Result<()> {
    if !serve.dev {
        bail!(
            "serving needs keys in the configuration, and there are none: \
             add --dev to serve everybody on this machine without keys"
        );
    }
    let ip = serve.listen.ip();
    if !ip.to_canonical().is_loopback() {
        bail!("--dev lets everybody in, so it listens on loopback only, not on {ip}");
    }
    Ok(())
}

/// The configurations in a file, by name.
fn read(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{shown} is not a JSON object of functions by name"))
}

async fn until_the_end(
    serve: &Serve,
    functions: Map<String, Value>,
    output: Output,
) -> anyhow::Result<()> {
    let standing = Standing::open(serve.listen, &serve.data).await?;
    for (name, configuration) in functions {
        let Value::Object(members) = configuration else {
            bail!("function {name}: its configuration is not an object");
        };
        standing.catalogue.put(&name, members).await?;
    }
    output.report(&Serving {
        endpoint: standing.endpoint.clone(),
        data: serve.data.display().to_string(),
        functions: standing.catalogue.names(),
    })?;
    output.note(&environment(&standing.endpoint));
    standing.serve(signalled()).await
}

/// A server that listens and knows its functions, and does nothing yet.
pub(crate) struct Standing {
    pub(crate) endpoint: String,
    pub(crate) hosts: Arc<FunctionHosts>,
    pub(crate) catalogue: Catalogue,
    engine: Engine,
    listener: TcpListener,
}

impl Standing {
    /// Opens the folder and the listener.
    pub(crate) async fn open(listen: SocketAddr, data: &Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("{listen} cannot be listened on"))?;
        let shown = data.display();
        let store = store::open(data).with_context(|| format!("{shown} cannot be opened"))?;
        let clock: Arc<dyn Clock> = Arc::new(EngineClock::system());
        let random: Arc<dyn Random> =
            Arc::new(SystemRandom::new().map_err(|error| anyhow!(error))?);
        let engine = Engine::open(Parts {
            store,
            clock: clock.clone(),
            random: random.clone(),
            options: EngineOptions {
                known: Known::ByCatalogue,
                ..EngineOptions::default()
            },
        });
        let engine = engine
            .await
            .with_context(|| format!("{shown} cannot be used"))?;
        let hosts = Arc::new(FunctionHosts::new(Shared {
            clock,
            random,
            policy: Arc::new(AddressPolicy::with_loopback()),
            connector: Arc::new(Tcp),
            runtime: Handle::current(),
        }));
        let catalogue = Catalogue::open(engine.clone(), hosts.clone(), Account::default())?;
        Ok(Self {
            endpoint: format!("http://{}", listener.local_addr()?),
            hosts,
            catalogue,
            engine,
            listener,
        })
    }

    /// Works until `end` resolves or the disk fails.
    pub(crate) async fn serve(self, end: impl Future<Output = ()>) -> anyhow::Result<()> {
        let Self {
            engine, catalogue, ..
        } = self;
        let runner = engine.clone();
        let running = Handle::current().spawn(async move { runner.run().await });
        let server = Server::new(engine.clone(), catalogue, Options::default());
        let mut failure = None;
        let ended = async {
            tokio::select! {
                () = end => {}
                reason = engine.failed() => failure = Some(reason),
            }
            // Handlers that finish what they do still need the listener.
            engine.shut_down().await;
        };
        server.serve(self.listener, ended).await;
        running.abort();
        match failure {
            Some(reason) => Err(anyhow!("the engine stopped: {reason}")),
            None => Ok(()),
        }
    }
}

/// What the AWS CLI and the AWS SDKs need in their environment.
pub(crate) fn environment(endpoint: &str) -> String {
    let account = Account::default();
    format!(
        "\nfor the AWS CLI and the AWS SDKs:\n\
         export AWS_ENDPOINT_URL_LAMBDA={endpoint}\n\
         export AWS_REGION={region} AWS_DEFAULT_REGION={region}\n\
         export AWS_ACCESS_KEY_ID=dev\n\
         export AWS_SECRET_ACCESS_KEY=dev\n",
        region = account.region
    )
}

/// Resolves when somebody wants the program to end.
pub(crate) async fn signalled() {
    #[cfg(unix)]
    {
        use signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = signal::ctrl_c().await;
}
