//! `outlast callback`: answers a callback, or keeps it alive.

use crate::{
    arguments::client::CallbackAction,
    client::{Call, Client},
    data,
    output::{Output, Verdict},
    service::encode,
};
use hyper::Method;
use serde_json::json;

/// Sends an answer, or a sign of life.
///
/// # Errors
/// When the endpoint refuses it: the callback is not there, or was answered, or is too old.
pub(super) async fn run(action: CallbackAction, output: Output) -> anyhow::Result<Verdict> {
    let path = |id: &str, action: &str| {
        format!(
            "/2025-12-01/durable-execution-callbacks/{}/{action}",
            encode(id)
        )
    };
    let (connection, call, done) = match &action {
        CallbackAction::Succeed(succeed) => {
            let result = data::read(succeed.data.as_deref())?;
            let call = Call::new(Method::POST, path(&succeed.id, "succeed")).with_body(result);
            (&succeed.connection, call, "answered")
        }
        CallbackAction::Fail(fail) => {
            let error = data::error(&fail.error)?;
            let call = Call::new(Method::POST, path(&fail.id, "fail")).with_json(&error);
            (&fail.connection, call, "answered with an error")
        }
        CallbackAction::Heartbeat(heartbeat) => {
            let call = Call::new(Method::POST, path(&heartbeat.id, "heartbeat"));
            (&heartbeat.connection, call, "kept alive")
        }
    };
    Client::new(connection)?.call(call).await?;
    output.answer(&json!({}), |_| done.to_owned())?;
    Ok(Verdict::Good)
}
