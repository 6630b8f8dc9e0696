//! One program for every home: here, as a worker of a server, or inside AWS Lambda.
//!
//! `cargo run --example anywhere` serves the embedded engine; with `--features remote` and
//! `OUTLAST_ENDPOINT` it is a worker of that server; with `--features lambda` it is the `bootstrap` of
//! an AWS Lambda function, as `deploy/lambda` builds it. If it is given no name there that it knows
//! (`AWS_LAMBDA_FUNCTION_NAME`), it says so and ends.

#![expect(unreachable_pub, reason = "the handlers are written as in a library")]

#[path = "../fan_out/handler.rs"]
mod fan_out;
#[path = "../order/handler.rs"]
mod order;

use outlast::{App, Result};

#[tokio::main]
async fn main() -> Result<()> {
    App::new()
        .register(order::function())
        .register(fan_out::function())
        .run()
        .await
}
