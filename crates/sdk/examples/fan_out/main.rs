//! Makes thumbnails of an album on the test kit: `cargo run --example fan_out`.

#![expect(unreachable_pub, reason = "the handler is written as in a library")]

mod handler;
#[path = "../story/story.rs"]
mod story;

use handler::Album;
use outlast::testing::TestKit;
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let kit = TestKit::of(handler::function());
    let album = Album {
        name: "holiday".to_owned(),
        pictures: 9,
        broken_every: 4,
        tolerated: 2,
    };
    let begun = Instant::now();
    let run = kit.run(&album).await;
    story::tell("Two broken pictures are tolerated", &run, begun);

    let begun = Instant::now();
    let strict = Album {
        tolerated: 0,
        ..album
    };
    let run = kit.run(&strict).await;
    story::tell("One broken picture is too many", &run, begun);
}
