//! An order that survives `kill -9`: `cargo run --release -p outlast --example survive`.
//!
//! Kill it in the middle, as hard as you like, and run it again: it goes on where it was. What was
//! done is not done again, and the wait has gone on without it.

#![expect(clippy::print_stdout, reason = "it tells what happens")]

use outlast::{App, Context, Result};
use std::time::Duration;

#[derive(serde::Serialize, serde::Deserialize)]
struct Order {
    number: u32,
    items: Vec<String>,
}

async fn order(ctx: Context, order: Order) -> Result<String> {
    let payment: String = ctx
        .step("charge", async |_| {
            work(
                &format!("charging the card for order {}", order.number),
                "payment 7",
            )
            .await
        })
        .await?;
    let mut parcels = Vec::new();
    for item in &order.items {
        let parcel: String = ctx
            .step("pack", async |_| {
                work(
                    &format!("packing the {item}"),
                    &format!("parcel with a {item}"),
                )
                .await
            })
            .await?;
        parcels.push(parcel);
    }
    if !ctx.is_replaying() {
        println!("  waiting ten seconds for the courier; nothing runs meanwhile");
    }
    ctx.wait(Duration::from_secs(10)).await?;
    let parcels = parcels.join(", ");
    ctx.step("ship", async |_| {
        work(
            "handing over",
            &format!("shipped {parcels}, paid by {payment}"),
        )
        .await
    })
    .await
}

/// Work that takes a second.
async fn work(what: &str, outcome: &str) -> Result<String> {
    println!("  {what} ...");
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(outcome.to_owned())
}

#[tokio::main]
async fn main() -> Result<()> {
    let items = ["lamp", "table", "rug", "chair"]
        .map(str::to_owned)
        .to_vec();
    let app = App::new().function("order", order).open().await?;
    let execution = app
        .start(
            "order",
            &Order {
                number: 1042,
                items,
            },
        )
        .name("order-1042")
        .await?;
    let before = if execution.existed() {
        "goes on"
    } else {
        "begins"
    };
    println!(
        "order 1042 {before}; kill this process and run it again (pid {})",
        std::process::id()
    );
    println!("done: {}", execution.result::<String>().await?);
    app.shut_down().await;
    Ok(())
}
