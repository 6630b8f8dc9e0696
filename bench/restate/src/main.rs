//! Restate under the load of `outlast bench sequential`: a service with ten trivial steps, and clients
//! in a closed loop that call it through the ingress.
//!
//! `outlast-bench-restate serve PORT` is the service; `outlast-bench-restate load INGRESS CLIENTS
//! SECONDS` the clients, who print one line of JSON.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use restate_sdk::prelude::*;
use std::{
    env, process,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

const STEPS: u64 = 10;

struct Bench;

#[restate_sdk::service]
impl Bench {
    #[handler]
    async fn sequential(&self, ctx: Context<'_>, seed: u64) -> Result<u64, HandlerError> {
        let mut sum = seed;
        for step in 0..STEPS {
            sum = ctx
                .run(|| async move { Ok(sum.wrapping_add(step)) })
                .name("step")
                .await?;
        }
        Ok(sum)
    }
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", port] => {
            let address = format!("127.0.0.1:{port}").parse().expect("a port");
            let endpoint = Endpoint::builder().bind(Bench).build();
            HttpServer::new(endpoint).listen_and_serve(address).await;
        }
        ["load", ingress, clients, seconds] => {
            let clients = clients.parse().expect("a number of clients");
            let seconds = seconds.parse().expect("a number of seconds");
            load(ingress, clients, Duration::from_secs(seconds)).await;
        }
        _ => {
            eprintln!("usage: serve PORT | load INGRESS CLIENTS SECONDS");
            process::exit(2);
        }
    }
}

async fn load(ingress: &str, clients: usize, length: Duration) {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let times = Arc::new(Mutex::new(Vec::new()));
    let begun = Instant::now();
    let running: Vec<_> = (0..clients)
        .map(|number| {
            let (client, times) = (client.clone(), times.clone());
            let address = format!("{ingress}/Bench/sequential");
            tokio::spawn(async move {
                while begun.elapsed() < length {
                    let sent = Instant::now();
                    let request = Request::post(&address)
                        .header("content-type", "application/json")
                        .body(Full::from(number.to_string()))
                        .expect("a request");
                    let reply = client.request(request).await.expect("an answer");
                    let status = reply.status();
                    let body = reply.into_body().collect().await.expect("its body");
                    assert!(status.is_success(), "{status}: {:?}", body.to_bytes());
                    times.lock().expect("no panic").push(sent.elapsed());
                }
            })
        })
        .collect();
    for client in running {
        client.await.expect("a client that ended well");
    }
    let took = begun.elapsed().as_secs_f64();
    let mut times = times.lock().expect("no panic");
    times.sort_unstable();
    let at = |part: f64| {
        let index = ((times.len() - 1) as f64 * part) as usize;
        times[index].as_secs_f64() * 1000.0
    };
    println!(
        "{{\"executions\":{},\"steps_per_second\":{:.0},\"execution_p50_ms\":{:.1},\"execution_p99_ms\":{:.1}}}",
        times.len(),
        times.len() as f64 * STEPS as f64 / took,
        at(0.5),
        at(0.99)
    );
}
