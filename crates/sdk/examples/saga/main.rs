//! Books a trip, and undoes it when the car is sold out: `cargo run --example saga`.

#![expect(unreachable_pub, reason = "the handler is written as in a library")]

mod handler;
#[path = "../story/story.rs"]
mod story;

use handler::Trip;
use outlast::testing::TestKit;
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let kit = TestKit::of(handler::function());
    let trip = Trip {
        city: "Lisbon".to_owned(),
        sold_out: None,
        stubborn: None,
    };
    let begun = Instant::now();
    let run = kit.run(&trip).await;
    story::tell("A trip that can be booked", &run, begun);

    let begun = Instant::now();
    let unlucky = Trip {
        sold_out: Some("car".to_owned()),
        stubborn: Some("hotel".to_owned()),
        ..trip
    };
    let run = kit.run(&unlucky).await;
    story::tell("No car left: hotel and flight are cancelled", &run, begun);
}
