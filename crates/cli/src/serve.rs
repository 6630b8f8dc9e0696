//! `outlast serve`: the API over HTTP, on a data folder, until somebody ends it.
//!
//! It ends cleanly on SIGINT and SIGTERM: handlers may finish what they do, then the listener closes.
//! When the disk fails it ends at once, since nothing could be promised any more.

use crate::{
    arguments::Serve,
    descriptors, logging,
    output::{Output, Report, Verdict},
    settings::Settings,
};
use anyhow::{Context, anyhow, bail};
use outlast_engine::{
    Engine, Known, Options as EngineOptions, Parts,
    clock::{Clock, EngineClock, TestClock, WallClock},
    random::{Random, SystemRandom},
    store::{self, counted::Counted},
};
use outlast_server::{
    Server,
    auth::Access,
    catalogue::Catalogue,
    host::push::{connect::Network, signing::Signing},
    hosting::{self, Hosting},
    keys::StoredKeys,
    tls::Tls,
};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{fs, future::Future, path::Path, sync::Arc, time::Duration};
use tokio::{net::TcpListener, runtime::Handle, signal};

/// Pause between two looks at the file of keys.
const KEYS_PAUSE: Duration = Duration::from_secs(1);

/// Where the server is, once it is there.
#[derive(Serialize)]
struct Serving {
    endpoint: String,
    data: String,
    functions: Vec<String>,
    access: &'static str,
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
            ("access", self.access.to_owned()),
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
    logging::begin(serve.log, output.is_json())?;
    let mut settings = Settings::of(serve)?;
    let most = descriptors::for_connections();
    settings.options.connections_max = settings.options.connections_max.min(most);
    settings.options.test_clock = serve.test_clock.then(Arc::<TestClock>::default);
    let access = access(&settings)?;
    let functions = match &settings.functions {
        Some(file) => read(file)?,
        None => Map::new(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the threads cannot be started")?;
    runtime.block_on(until_the_end(settings, access, functions, *output))?;
    Ok(Verdict::Good)
}

/// Who is let in.
fn access(settings: &Settings) -> anyhow::Result<Access> {
    let ip = settings.listen.ip();
    if settings.dev {
        if !ip.to_canonical().is_loopback() {
            bail!("--dev lets everybody in, so it listens on loopback only, not on {ip}");
        }
        return Ok(Access::open());
    }
    let credentials = settings.credentials()?;
    if credentials.is_empty() {
        bail!(
            "serving needs keys, and there are none: make one with `outlast keys create --role \
             admin`, or add --dev to serve everybody on this machine without keys"
        );
    }
    let clock = Arc::new(WallClock);
    Ok(Access::closed(credentials, settings.callbacks, clock))
}

/// The configurations in a file, by name.
fn read(file: &Path) -> anyhow::Result<Map<String, Value>> {
    let shown = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("{shown} cannot be read"))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{shown} is not a JSON object of functions by name"))
}

async fn until_the_end(
    settings: Settings,
    access: Access,
    functions: Map<String, Value>,
    output: Output,
) -> anyhow::Result<()> {
    let standing = Standing::open(settings, access).await?;
    for (name, configuration) in functions {
        let Value::Object(members) = configuration else {
            bail!("function {name}: its configuration is not an object");
        };
        standing.catalogue.put(&name, members).await?;
    }
    output.report(&Serving {
        endpoint: standing.endpoint.clone(),
        data: standing.settings.data.display().to_string(),
        functions: standing.catalogue.names(),
        access: if standing.settings.dev {
            "open"
        } else {
            "keys"
        },
    })?;
    output.note(&environment(&standing.endpoint, &standing.settings));
    standing.serve(signalled(), output).await
}

/// A server that listens and knows its functions, and does nothing yet.
pub(crate) struct Standing {
    pub(crate) endpoint: String,
    pub(crate) hosting: Arc<Hosting>,
    pub(crate) catalogue: Catalogue,
    pub(crate) settings: Settings,
    access: Access,
    engine: Engine,
    listener: TcpListener,
    tls: Option<Tls>,
}

impl Standing {
    /// Opens the folder and the listener.
    pub(crate) async fn open(settings: Settings, access: Access) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(settings.listen)
            .await
            .with_context(|| format!("{} cannot be listened on", settings.listen))?;
        let tls = settings.tls.as_ref();
        let tls = tls.map(|files| Tls::from_files(&files.certificate, &files.key));
        let tls = tls.transpose()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (engine, hosting) = open(&settings).await?;
        let account = settings.account.clone();
        let catalogue = Catalogue::open(engine.clone(), hosting.clone(), account)?;
        Ok(Self {
            endpoint: format!("{scheme}://{}", listener.local_addr()?),
            hosting,
            catalogue,
            settings,
            access,
            engine,
            listener,
            tls,
        })
    }

    /// Works until `end` resolves or the disk fails.
    pub(crate) async fn serve(
        self,
        end: impl Future<Output = ()>,
        output: Output,
    ) -> anyhow::Result<()> {
        let (engine, access, settings) = (self.engine, self.access, self.settings);
        let hosting = self.hosting;
        let runner = engine.clone();
        let running = Handle::current().spawn(async move { runner.run().await });
        let options = settings.options.clone();
        let mut server =
            Server::with_access(engine.clone(), self.catalogue, access.clone(), options);
        if let Some(tls) = self.tls {
            server = server.with_tls(tls);
        }
        let watching = Handle::current().spawn(watch(settings, access, output));
        let mut failure = None;
        let ended = async {
            tokio::select! {
                () = end => {}
                reason = engine.failed() => failure = Some(reason),
            }
            // Handlers that finish what they do still need the listener.
            tokio::join!(engine.shut_down(), async { hosting.close() });
        };
        server.serve(self.listener, ended).await;
        running.abort();
        watching.abort();
        match failure {
            Some(reason) => Err(anyhow!("the engine stopped: {reason}")),
            None => Ok(()),
        }
    }
}

/// The engine on the data folder, and who runs its functions.
async fn open(settings: &Settings) -> anyhow::Result<(Engine, Arc<Hosting>)> {
    let data = settings.data.display();
    let store = store::open(&settings.data).with_context(|| format!("{data} cannot be opened"))?;
    let clock: Arc<dyn Clock> = match &settings.options.test_clock {
        Some(clock) => clock.clone(),
        None => Arc::new(EngineClock::system()),
    };
    let random: Arc<dyn Random> = Arc::new(SystemRandom::new().map_err(|error| anyhow!(error))?);
    let engine = Engine::open(Parts {
        store: Arc::new(Counted::new(store)),
        clock: clock.clone(),
        random: random.clone(),
        options: EngineOptions {
            known: Known::ByCatalogue,
            grace: settings.options.grace,
            quotas: settings.quotas.clone(),
            // Each function has its own bound: what one of them may not use, another may.
            invocations_max: usize::MAX,
            ..EngineOptions::default()
        },
    });
    let engine = engine
        .await
        .with_context(|| format!("{data} cannot be used"))?;
    let signing = Signing::from_env(&settings.push.sign)
        .context("push.sign: the calls of these hosts cannot be signed")?;
    let hosting = Hosting::new(hosting::Parts {
        clock,
        random,
        policy: Arc::new(settings.policy.clone()),
        connector: Arc::new(Network::new(settings.push.ca.clone())),
        signing: Arc::new(signing),
        invocations_max: settings.invocations_max,
    });
    Ok((engine, Arc::new(hosting)))
}

/// Lets in whoever got a key, and nobody whose key was taken away, while the server runs.
async fn watch(settings: Settings, access: Access, output: Output) {
    let mut seen = None;
    loop {
        let changed = StoredKeys::changed(&settings.data);
        if changed != seen {
            match settings.credentials() {
                Ok(credentials) => {
                    access.replace(credentials);
                    seen = changed;
                }
                Err(error) => {
                    // What was known before goes on: a typing error must not shut everybody out.
                    output.note(&format!("the keys were not read again: {error:#}"));
                    seen = changed;
                }
            }
        }
        tokio::time::sleep(KEYS_PAUSE).await;
    }
}

/// What the AWS CLI and the AWS SDKs need in their environment.
pub(crate) fn environment(endpoint: &str, settings: &Settings) -> String {
    let region = &settings.account.region;
    let mut text = format!(
        "\nfor the AWS CLI and the AWS SDKs:\n\
         export AWS_ENDPOINT_URL_LAMBDA={endpoint}\n\
         export AWS_REGION={region} AWS_DEFAULT_REGION={region}\n"
    );
    if settings.dev {
        text += "export AWS_ACCESS_KEY_ID=dev\nexport AWS_SECRET_ACCESS_KEY=dev\n";
        let address = endpoint.trim_start_matches("http://");
        text += "\nfor the workers of a function:\nexport AWS_LAMBDA_RUNTIME_API=";
        text += &format!("{address}/functions/NAME\n");
    } else if settings.tls.is_none() && !settings.listen.ip().to_canonical().is_loopback() {
        text += "\nnothing is encrypted: give it --tls-certificate and --tls-key, or something in \
                 front of it that encrypts\n";
    }
    text
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
