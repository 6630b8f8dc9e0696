//! A durable function, and a program that starts it on the engine inside this process.
//!
//! Run it with a name; end it in the middle and run it again.

use outlast::{App, Context, Result};
use std::time::Duration;

/// Greets somebody and says goodbye five seconds later, whatever happens in between.
pub async fn greet(ctx: Context, name: String) -> Result<String> {
    // What a step returns is recorded: after a crash it is not done again.
    let greeting: String = ctx
        .step("hello", async |_| say(&format!("Hello, {name}!")).await)
        .await?;
    // Nothing runs while it waits, and the wait goes on without this process.
    ctx.wait(Duration::from_secs(5)).await?;
    ctx.step("goodbye", async |_| say(&format!("Goodbye, {name}!")).await)
        .await
        .map(|goodbye: String| format!("{greeting} {goodbye}"))
}

/// Everything that touches the world belongs into a step.
async fn say(text: &str) -> std::io::Result<String> {
    println!("{text}");
    Ok(text.to_owned())
}

#[tokio::main]
async fn main() -> Result<()> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "world".into());
    let app = App::new().function("greet", greet).open().await?;
    // The same name means the same execution, however often this program is run.
    let execution = app
        .start("greet", &name)
        .name(&format!("greet-{name}"))
        .await?;
    let outcome: String = execution.result().await?;
    println!("done: {outcome}");
    app.shut_down().await;
    Ok(())
}
