//! An AI agent that waits for a human and never loses its place: `cargo run --example agent`.
//!
//! The model is a deterministic stand-in: there is no network in examples. See `handler.rs`.

#![expect(unreachable_pub, reason = "the handler is written as in a library")]

mod handler;
#[path = "../story/story.rs"]
mod story;

use handler::{StandIn, Verdict};
use outlast::testing::{Answer, Fault, TestKit};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let question = "Can I go to Ghent tomorrow? Book me a train if so.";
    let verdict = Verdict {
        approved: true,
        comment: "have fun".to_owned(),
    };
    let lunch = Duration::from_secs(90 * 60);
    let kit = TestKit::of(handler::function(StandIn));
    let approved = kit
        .clone()
        .callback("approve", Answer::json(&verdict).after(lunch));

    let begun = Instant::now();
    let run = approved.run(question).await;
    story::tell("The agent asks before it books", &run, begun);

    // The process dies while the tools run. Nothing that was recorded happens again.
    let begun = Instant::now();
    let run = approved.fault(Fault::CrashAfter(4)).run(question).await;
    story::tell("The same conversation with a crash in it", &run, begun);

    let begun = Instant::now();
    let run = kit.callback("approve", Answer::never()).run(question).await;
    story::tell("Nobody approves", &run, begun);
}
