//! Checkpoint bodies, one after another, each a line: whatever they say, a refused one changes
//! nothing, an accepted one leaves an execution that keeps its promises and folds from its records.
//!
//! The word `TOKEN` stands for the newest token.

#![no_main]

use outlast_core::{
    Env, Execution, Input, Quotas, Start, Target, record,
    time::Timestamp,
    token::{Key, Keys},
    wire::{CheckpointRequest, DurableConfig, ErrorObject},
};

const START_MS: u64 = 1_767_225_600_000;

libfuzzer_sys::fuzz_target!(|bodies: &str| {
    let keys = Keys::new(Key::new(1, [7; 32]));
    let quotas = Quotas::unlimited();
    let refused = |_: &str| Target::Refused(ErrorObject::default());
    let mut env = Env {
        now: Timestamp::from_millis(START_MS),
        random: [1; 32],
        keys: &keys,
        limits: &quotas,
        resolve: &refused,
        load: &record::nothing,
    };
    let (mut execution, mut records) = Execution::start(&env, start()).expect("a legal start");
    let invoke = Input::Invoke {
        invocation_id: "first".into(),
    };
    let begun = execution.decide(&env, invoke).expect("a legal invocation");
    records.extend(begun.records);
    let mut token = begun
        .reply
        .into_invocation()
        .map(|input| input.checkpoint_token);
    for (number, body) in (1..).zip(bodies.lines()) {
        env.now = Timestamp::from_millis(START_MS + number);
        let body = body.replace("TOKEN", token.as_deref().unwrap_or("none"));
        let Ok(request) = serde_json::from_str::<CheckpointRequest>(&body) else {
            continue;
        };
        let before = execution.clone();
        match execution.decide(&env, Input::Checkpoint(request)) {
            Ok(decision) => {
                records.extend(decision.records);
                execution
                    .check_invariants()
                    .expect("an execution keeps its promises");
                if let Some(response) = decision.reply.into_checkpoint() {
                    token = response.checkpoint_token.or(token);
                }
            }
            Err(_) => assert_eq!(execution, before, "a refused checkpoint changes nothing"),
        }
    }
    let folded = Execution::from_records(&records).expect("records that were decided");
    assert_eq!(folded, execution);
});

fn start() -> Start {
    let function = "arn:aws:lambda:us-east-1:123456789012:function:order:1";
    Start {
        function: function.parse().expect("the name of a function"),
        name: None,
        input: Some("{}".into()),
        config: DurableConfig {
            execution_timeout: 60,
            retention_period_in_days: None,
            kms_key_arn: None,
        },
        synchronous: false,
        tenant: None,
        trace: None,
        client_context: None,
        parent: None,
    }
}
