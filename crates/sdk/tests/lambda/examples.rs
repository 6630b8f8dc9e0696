//! The examples' handlers as a Lambda program, for a service that is none of ours: AWS's local runner
//! calls them in `tests/official/runner.py`.

#[path = "../../examples/agent/handler.rs"]
mod agent;
#[path = "../../examples/fan_out/handler.rs"]
mod fan_out;
#[path = "../../examples/order/handler.rs"]
mod order;
#[path = "../../examples/poll_job/handler.rs"]
mod poll_job;
#[path = "../../examples/saga/handler.rs"]
mod saga;

use outlast::App;

/// Not a test by itself: the process that somebody else starts.
#[tokio::test]
async fn the_examples_as_a_program() {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        return;
    }
    let app = App::new()
        .register(agent::function(agent::StandIn))
        .register(fan_out::function())
        .register(order::function())
        .register(poll_job::function())
        .register(saga::function());
    if let Err(error) = app.run().await {
        panic!("{error}");
    }
}
