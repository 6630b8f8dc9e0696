//! The test kit as a home.

use crate::runner::{Home, Outcome, Script, kit};
use outlast::Function;
use serde_json::Value;

/// The test kit, with virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kit;

impl Home for Kit {
    async fn run(&self, function: Function, input: Value, script: Script) -> Outcome {
        let run = kit(function, script).run(input).await;
        Outcome {
            status: run.status(),
            result: run.result::<Value>().ok(),
            error: run.error().cloned(),
            history: run.history().to_vec(),
        }
    }
}
