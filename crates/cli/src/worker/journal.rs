//! Hands what programs print to the server, in batches. What is more than the server takes is
//! dropped: it was printed here too.

use crate::{
    client::{Call, Client},
    service::encode,
};
use hyper::Method;
use outlast_server::host::process::Stream;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Lines that may wait to be sent.
const WAITING_MAX: usize = 1_024;
/// Lines of one batch.
const BATCH_LINES_MAX: usize = 100;
/// Letters of one line.
const LETTERS_MAX: usize = 8_192;

/// Takes lines.
#[derive(Clone, Debug)]
pub(super) struct Journal(mpsc::Sender<Value>);

impl Journal {
    /// Lines for a function, and the future that sends them until nobody adds any.
    pub(super) fn new(
        client: Arc<Client>,
        function: &str,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (sender, mut lines) = mpsc::channel(WAITING_MAX);
        let path = format!("/outlast/v1/functions/{}/logs", encode(function));
        let delivery = async move {
            let mut batch = Vec::new();
            while lines.recv_many(&mut batch, BATCH_LINES_MAX).await > 0 {
                let body = json!({"Lines": std::mem::take(&mut batch)});
                let call = Call::new(Method::POST, path.clone()).with_json(&body);
                // A server that does not want them can do without.
                let _ = client.call(call).await;
            }
        };
        (Self(sender), delivery)
    }

    /// A program printed a line.
    pub(super) fn add(&self, process: u32, stream: Stream, text: &str) {
        let text = crate::paint::short(text, LETTERS_MAX);
        let line = json!({"Process": process, "Stream": stream, "Text": text});
        let _ = self.0.try_send(line);
    }
}
