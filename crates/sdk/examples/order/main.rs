//! Runs an order on the test kit, where days take no time: `cargo run --example order`.
//!
//! The order itself is in `handler.rs`; everything here is the world around it.

#![expect(unreachable_pub, reason = "the handler is written as in a library")]

mod handler;
#[path = "../story/story.rs"]
mod story;

use handler::{Approval, Item, Order};
use outlast::testing::{Answer, TestKit};
use std::time::Duration;
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let begun = Instant::now();
    let item = |sku: &str, price_cents, available_in_days| Item {
        sku: sku.to_owned(),
        price_cents,
        available_in_days,
    };
    let order = Order {
        number: 1042,
        card: "flaky".to_owned(),
        items: vec![
            item("lamp", 4_900, 0),
            item("table", 19_900, 3),
            item("rug", 7_500, 0),
        ],
    };

    let approval = Approval {
        approved: true,
        by: "Ada".to_owned(),
    };
    let five_hours = Duration::from_secs(5 * 3600);
    let kit = TestKit::of(handler::function());
    let run = kit
        .clone()
        .callback("approve", Answer::json(approval).after(five_hours))
        .run(&order)
        .await;
    story::tell("An order that goes well", &run, begun);

    let begun = Instant::now();
    let run = kit.callback("approve", Answer::never()).run(&order).await;
    story::tell("The same order, and nobody at the desk", &run, begun);
}
