//! A server for one test: an engine in memory, scripted functions, a port of its own.

use crate::{
    client::{Client, Reply, encode},
    script::Scripts,
};
use hyper::Method;
use outlast_engine::{
    Engine, Known, Options as EngineOptions, Parts,
    clock::EngineClock,
    random::Seeded,
    store::{Store, memory::MemoryStore},
};
use outlast_server::{
    Options, Server,
    auth::Access,
    catalogue::{Account, Catalogue, Hosts},
    tls::Tls,
};
use serde_json::{Value, json};
use std::{ops::Deref, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// A running server. Ends with the runtime of its test, or when told.
pub(crate) struct Home {
    pub(crate) client: Client,
    pub(crate) engine: Engine,
    pub(crate) catalogue: Catalogue,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) scripts: Scripts,
    end: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Deref for Home {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Home {
    /// A server without functions.
    pub(crate) async fn empty() -> Self {
        Self::on(Arc::new(MemoryStore::new()), Options::default()).await
    }

    /// A server with the durable function `play` and the ordinary function `plain`.
    pub(crate) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let home = Self::on(Arc::new(MemoryStore::new()), options).await;
        home.configure("play", json!({"DurableConfig": {"ExecutionTimeout": 600}}))
            .await;
        home.configure("plain", json!({"Timeout": 2})).await;
        home
    }

    /// The functions `play-for` and `plain-for`, which keep tenants apart.
    pub(crate) async fn configure_tenants(&self) {
        let tenancy = json!({"TenantIsolationMode": "PER_TENANT"});
        let durable = json!({"DurableConfig": {"ExecutionTimeout": 600}, "TenancyConfig": tenancy});
        self.configure("play-for", durable).await;
        let plain = json!({"Timeout": 2, "TenancyConfig": tenancy});
        self.configure("plain-for", plain).await;
    }

    pub(crate) async fn on(store: Arc<MemoryStore>, options: Options) -> Self {
        Self::guarded(store, options, Access::open(), None).await
    }

    /// A server without functions, with these hosts.
    pub(crate) async fn hosted(hosts: Arc<dyn Hosts>) -> Self {
        Self::hosted_with(hosts, Options::default()).await
    }

    pub(crate) async fn hosted_with(hosts: Arc<dyn Hosts>, options: Options) -> Self {
        let store = Arc::new(MemoryStore::new());
        let guard = (Access::open(), None);
        Self::made_of(store, options, guard, (Scripts::default(), hosts)).await
    }

    /// A server that lets only some in, perhaps encrypted.
    pub(crate) async fn guarded(
        store: Arc<MemoryStore>,
        options: Options,
        access: Access,
        tls: Option<Tls>,
    ) -> Self {
        let scripts = Scripts::default();
        let hosts = Arc::new(scripts.clone());
        Self::made_of(store, options, (access, tls), (scripts, hosts)).await
    }

    /// The same without functions, with these hosts.
    pub(crate) async fn guarded_hosts(hosts: Arc<dyn Hosts>, access: Access) -> Self {
        let store = Arc::new(MemoryStore::new());
        let scripts = Scripts::default();
        Self::made_of(store, Options::default(), (access, None), (scripts, hosts)).await
    }

    async fn made_of(
        store: Arc<MemoryStore>,
        options: Options,
        (access, tls): (Access, Option<Tls>),
        (scripts, hosts): (Scripts, Arc<dyn Hosts>),
    ) -> Self {
        let engine = Engine::open(Parts {
            store: store.clone() as Arc<dyn Store>,
            clock: Arc::new(EngineClock::tokio()),
            random: Arc::new(Seeded::new(7)),
            options: EngineOptions {
                known: Known::ByCatalogue,
                grace: Duration::from_millis(100),
                // As `outlast serve` has it: hosts have bounds of their own.
                invocations_max: usize::MAX,
                ..EngineOptions::default()
            },
        });
        let engine = engine.await.unwrap();
        let catalogue = Catalogue::open(engine.clone(), hosts, Account::default()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        scripts.server.set(address).unwrap();
        let (served, functions) = (engine.clone(), catalogue.clone());
        let mut server = Server::with_access(served, functions, access, options);
        if let Some(tls) = tls {
            server = server.with_tls(tls);
        }
        let (end, ended) = oneshot::channel::<()>();
        let runtime = tokio::runtime::Handle::current();
        let serving = runtime.spawn(async move {
            server.serve(listener, async { drop(ended.await) }).await;
        });
        let runner = engine.clone();
        drop(runtime.spawn(async move { runner.run().await }));
        Self {
            client: Client(address),
            engine,
            catalogue,
            store,
            scripts,
            end: Some(end),
            serving,
        }
    }

    /// Ends the listener as an operator would.
    pub(crate) async fn close(mut self) {
        drop(self.end.take());
        self.serving.await.unwrap();
    }

    pub(crate) async fn configure(&self, name: &str, members: Value) {
        let members = members.as_object().unwrap().clone();
        self.catalogue.put(name, members).await.unwrap();
    }

    /// Invokes `play:$LATEST`.
    pub(crate) async fn play(&self, headers: &[(&str, &str)], script: Value) -> Reply {
        self.invoke("play:$LATEST", headers, script.to_string())
            .await
    }

    pub(crate) async fn invoke(
        &self,
        function: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Reply {
        let path = format!("/2015-03-31/functions/{}/invocations", encode(function));
        self.send(Method::POST, &path, headers, body).await
    }

    /// Starts a script and does not wait; gives the ARN.
    pub(crate) async fn start(&self, script: Value) -> String {
        let reply = self
            .play(&[("x-amz-invocation-type", "Event")], script)
            .await;
        reply.ok(202);
        assert!(reply.body.is_empty());
        reply
            .header("x-amz-durable-execution-arn")
            .unwrap()
            .to_owned()
    }

    /// The description of an execution.
    pub(crate) async fn describe(&self, arn: &str) -> Value {
        self.get(&execution(arn, "")).await.ok(200)
    }

    /// Waits until an execution shows this.
    pub(crate) async fn until(&self, arn: &str, status: &str) -> Value {
        self.eventually(async || {
            let described = self.describe(arn).await;
            (described["Status"] == status).then_some(described)
        })
        .await
    }

    /// The events of an execution.
    pub(crate) async fn events(&self, arn: &str) -> Vec<Value> {
        let history = self
            .get(&execution(arn, "/history?MaxItems=1000"))
            .await
            .ok(200);
        history["Events"].as_array().unwrap().clone()
    }

    /// Waits for an event of this type.
    pub(crate) async fn event(&self, arn: &str, kind: &str) -> Value {
        self.eventually(async || {
            let events = self.events(arn).await;
            events.into_iter().find(|event| event["EventType"] == kind)
        })
        .await
    }

    /// Asks until there is something to say.
    pub(crate) async fn eventually<T>(&self, ask: impl AsyncFn() -> Option<T>) -> T {
        for _ in 0..2_000 {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it never happened")
    }
}

/// The path of an execution.
pub(crate) fn execution(arn: &str, tail: &str) -> String {
    format!("/2025-12-01/durable-executions/{}{tail}", encode(arn))
}
