//! A server on a free port whose functions do what their input says, for clients in other languages
//! to be tried against: `play` is durable, `plain` is not. Prints its endpoint and serves until it is
//! killed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "it is only for trying things out"
)]

#[path = "../tests/it/client.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod client;
#[path = "../tests/it/script.rs"]
mod script;

use outlast_engine::{
    Engine, Known, Options as EngineOptions, Parts,
    clock::EngineClock,
    random::SystemRandom,
    store::{Store, memory::MemoryStore},
};
use outlast_server::{
    Options, Server,
    catalogue::{Account, Catalogue},
};
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::main]
async fn main() {
    let engine = Engine::open(Parts {
        store: Arc::new(MemoryStore::new()) as Arc<dyn Store>,
        clock: Arc::new(EngineClock::tokio()),
        random: Arc::new(SystemRandom::new().unwrap()),
        options: EngineOptions {
            known: Known::ByCatalogue,
            ..EngineOptions::default()
        },
    });
    let engine = engine.await.unwrap();
    let scripts = script::Scripts::default();
    let hosts = Arc::new(scripts.clone());
    let catalogue = Catalogue::open(engine.clone(), hosts, Account::default()).unwrap();
    let durable = json!({"DurableConfig": {"ExecutionTimeout": 600}});
    for (name, members) in [("play", durable), ("plain", json!({"Timeout": 2}))] {
        let Value::Object(members) = members else {
            continue;
        };
        catalogue.put(name, members).await.unwrap();
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    scripts.server.set(address).unwrap();
    println!("http://{address}");
    let runner = engine.clone();
    let runtime = tokio::runtime::Handle::current();
    drop(runtime.spawn(async move { runner.run().await }));
    let server = Server::new(engine, catalogue, Options::default());
    server.serve(listener, std::future::pending()).await;
}
