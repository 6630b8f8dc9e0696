//! Waits for an export in another system, on the test kit: `cargo run --example poll_job`.

#![expect(unreachable_pub, reason = "the handler is written as in a library")]

mod handler;
#[path = "../story/story.rs"]
mod story;

use handler::Request;
use outlast::testing::TestKit;
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let kit = TestKit::of(handler::function());
    for (headline, table, percent_per_check) in [
        ("An export that takes its time", "sales", 17),
        ("An export that fails", "locked", 30),
        ("An export that never ends is cancelled", "everything", 1),
    ] {
        let begun = Instant::now();
        let request = Request {
            table: table.to_owned(),
            percent_per_check,
        };
        let run = kit.run(&request).await;
        story::tell(headline, &run, begun);
    }
}
