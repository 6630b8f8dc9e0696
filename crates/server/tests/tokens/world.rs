//! Two executions on an engine, and somebody who sends them checkpoints of every kind.

use crate::model::{Batch, Expected, Model};
use outlast_core::{
    Code, Outcome, Start, Tenancy,
    arn::{ExecutionId, Function},
    random::SplitMix64,
    schedule::Share,
    time::Timestamp,
    wire::{
        CheckpointRequest, CheckpointResponse, DurableConfig, ErrorObject, InvocationOutput,
        OperationAction, OperationType, OperationUpdate,
    },
};
use outlast_engine::{
    Engine, Error, Options, Parts, Registered,
    clock::EngineClock,
    execution_id,
    invoker::{BoxFuture, Call, Invoker},
    random::Seeded,
    store::{Store, memory::MemoryStore},
};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::{mpsc, oneshot};

/// A call of a handler that waits for its end.
struct Flight {
    execution: ExecutionId,
    token: String,
    end: oneshot::Sender<Outcome>,
}

/// A host that hands every call to the test.
struct Host(mpsc::UnboundedSender<Flight>);

impl Invoker for Host {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let (end, ended) = oneshot::channel();
            let flight = Flight {
                execution: execution_id(&call.input.durable_execution_arn).unwrap(),
                token: call.input.checkpoint_token,
                end,
            };
            let _ = self.0.send(flight);
            ended.await.unwrap_or(Outcome::Lost)
        })
    }
}

struct Execution {
    id: ExecutionId,
    model: Model,
    end: Option<oneshot::Sender<Outcome>>,
    /// Every token it was ever given, in order.
    tokens: Vec<String>,
    last: Option<(String, Option<String>, Batch)>,
}

pub(crate) struct World {
    seed: u64,
    random: SplitMix64,
    store: Arc<MemoryStore>,
    engine: Engine,
    flights: mpsc::UnboundedReceiver<Flight>,
    executions: Vec<Execution>,
    /// Every token that was ever given to anybody.
    given: BTreeSet<String>,
    requests: u32,
    restarts: u64,
    seen: Seen,
}

/// How many answers of each kind there were.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) again: u64,
    pub(crate) stale: u64,
    pub(crate) invalid: u64,
    pub(crate) accepted: u64,
    pub(crate) restarts: u64,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        let store = Arc::new(MemoryStore::new());
        let (engine, flights) = open(&store, seed, 0).await;
        let mut world = Self {
            seed,
            random: SplitMix64::new(seed),
            store,
            engine,
            flights,
            executions: Vec::new(),
            given: BTreeSet::new(),
            requests: 0,
            restarts: 0,
            seen: Seen::default(),
        };
        world.begin();
        for _ in 0..2 {
            let started = world.engine.start(start()).await.unwrap();
            world.executions.push(Execution {
                id: started.execution,
                model: Model::default(),
                end: None,
                tokens: Vec::new(),
                last: None,
            });
        }
        world.called(2).await;
        world
    }

    /// Plays a sequence to its end.
    pub(crate) async fn play(mut self) -> Seen {
        for _ in 0..4 + self.random.next_u64() % 8 {
            let of = self.pick(2);
            match self.pick(16) {
                0..=3 => self.next_checkpoint(of).await,
                4 | 5 => self.repeat(of).await,
                6 => self.late(of).await,
                7 | 8 => self.forged(of).await,
                9 => self.crossed(of).await,
                10 | 11 => self.concurrent(of).await,
                12 => self.refused_batch(of).await,
                13 => self.failed_invocation(of).await,
                14 => self.restart().await,
                _ => self.finish(of).await,
            }
        }
        self.engine.abandon();
        self.seen.restarts = self.restarts;
        self.seen
    }

    /// Sends bodies that were changed on their way; counts those that were accepted and those that
    /// were refused.
    pub(crate) async fn odd_bodies(mut self, count: usize) -> (u32, u32) {
        let (mut accepted, mut refused) = (0, 0);
        for number in 0..count {
            let Some(token) = self.executions[0].model.current.clone() else {
                break;
            };
            let body = self.odd_body(&token, number);
            let Ok(request) = serde_json::from_slice(&body) else {
                refused += 1;
                continue;
            };
            let answer = self.engine.checkpoint(self.executions[0].id, request).await;
            match answer {
                Ok(answer) => {
                    self.executions[0].model.current = answer.checkpoint_token;
                    accepted += 1;
                }
                Err(Error::Rejected(_)) => refused += 1,
                Err(error) => panic!("{error} after {}", String::from_utf8_lossy(&body)),
            }
        }
        assert!(self.engine.health().quarantined.is_empty());
        self.engine.abandon();
        (accepted, refused)
    }

    /// Updates of every kind, with some words exchanged and a byte or two changed.
    fn odd_body(&mut self, token: &str, number: usize) -> Vec<u8> {
        const WORDS: [&str; 18] = [
            "START",
            "SUCCEED",
            "FAIL",
            "RETRY",
            "CANCEL",
            "STEP",
            "WAIT",
            "CONTEXT",
            "CALLBACK",
            "CHAINED_INVOKE",
            "EXECUTION",
            "null",
            "0",
            "-1",
            "99999999999",
            "{}",
            "[]",
            "\"\"",
        ];
        let mut updates = String::new();
        for place in 0..self.pick(4) {
            let (kind, action) = (WORDS[5 + self.pick(6)], WORDS[self.pick(5)]);
            let id = self.pick(6) + if self.pick(2) == 0 { 0 } else { number * 10 };
            let odd = WORDS[11 + self.pick(7)];
            let options = [
                String::new(),
                ",\"WaitOptions\":{\"WaitSeconds\":5}".to_owned(),
                ",\"StepOptions\":{\"NextAttemptDelaySeconds\":1}".to_owned(),
                ",\"ChainedInvokeOptions\":{\"FunctionName\":\"g\"}".to_owned(),
                ",\"CallbackOptions\":{\"TimeoutSeconds\":9}".to_owned(),
                ",\"Payload\":\"p\",\"Error\":{\"ErrorType\":\"e\"}".to_owned(),
                format!(",\"ParentId\":\"{}\"", self.pick(6)),
                format!(",\"Payload\":{odd}"),
                format!(",\"WaitOptions\":{{\"WaitSeconds\":{odd}}}"),
            ];
            let options = &options[self.pick(9)];
            let comma = if place > 0 { "," } else { "" };
            updates += &format!(
                "{comma}{{\"Id\":\"{id}\",\"Type\":\"{kind}\",\"Action\":\"{action}\"{options}}}"
            );
        }
        let body = format!("{{\"CheckpointToken\":\"{token}\",\"Updates\":[{updates}]}}");
        let mut body = body.into_bytes();
        if self.pick(4) == 0 {
            let index = self.pick(body.len() as u64);
            body[index] = u8::try_from(self.pick(256)).unwrap();
        }
        body
    }

    fn pick(&mut self, choices: u64) -> usize {
        usize::try_from(self.random.next_u64() % choices).unwrap()
    }

    fn begin(&self) {
        let runner = self.engine.clone();
        drop(tokio::runtime::Handle::current().spawn(async move { runner.run().await }));
    }

    /// Waits until so many handlers were called.
    async fn called(&mut self, count: usize) {
        for _ in 0..count {
            let flight = self.flights.recv().await.unwrap();
            let fresh = self.given.insert(flight.token.clone());
            assert!(fresh, "an invocation has a token that was given before");
            let mut executions = self.executions.iter_mut();
            let execution = executions.find(|it| it.id == flight.execution).unwrap();
            execution.model.invoked(&flight.token);
            execution.tokens.push(flight.token);
            execution.end = Some(flight.end);
        }
    }

    fn batch(&mut self) -> Batch {
        match self.pick(12) {
            0..=2 => Batch::Empty,
            3..=5 => Batch::Start,
            6..=8 => Batch::Whole,
            9 | 10 => Batch::Finish,
            _ => Batch::Close,
        }
    }

    fn client_token(&mut self) -> Option<String> {
        self.requests += 1;
        (self.pick(4) > 0).then(|| format!("client-{}", self.requests))
    }

    fn current(&self, of: usize) -> String {
        let execution = &self.executions[of];
        let current = execution.model.current.clone();
        // When nothing counts, what counted last is as good as anything.
        current.unwrap_or_else(|| execution.tokens.last().unwrap().clone())
    }

    async fn next_checkpoint(&mut self, of: usize) {
        let (token, client, batch) = (self.current(of), self.client_token(), self.batch());
        self.send(of, token, client, batch).await;
    }

    /// What a client does whose answer was lost; sometimes with another body.
    async fn repeat(&mut self, of: usize) {
        let Some((token, client, mut batch)) = self.executions[of].last.clone() else {
            return self.next_checkpoint(of).await;
        };
        if self.pick(4) == 0 {
            batch = self.batch();
        }
        self.send(of, token, client, batch).await;
    }

    /// Any token that it ever had, with a client token of this request or of the last.
    async fn late(&mut self, of: usize) {
        let count = u64::try_from(self.executions[of].tokens.len()).unwrap();
        let index = self.pick(count);
        let token = self.executions[of].tokens[index].clone();
        let last = self.executions[of].last.clone();
        let client = match (self.pick(2), last) {
            (0, Some((_, client, _))) => client,
            _ => self.client_token(),
        };
        let batch = self.batch();
        self.send(of, token, client, batch).await;
    }

    async fn forged(&mut self, of: usize) {
        const LETTERS: &[u8] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-";
        let mut token = self.current(of).into_bytes();
        for _ in 0..=self.pick(3) {
            let index = self.pick(token.len() as u64);
            let letter = LETTERS[self.pick(LETTERS.len() as u64)];
            match self.pick(4) {
                0 if token.len() > 1 => drop(token.remove(index)),
                1 => token.insert(index, letter),
                2 if token.len() > 1 => token.truncate(index.max(1)),
                _ => token[index] = letter,
            }
        }
        let token = String::from_utf8(token).unwrap();
        if self.given.contains(&token) {
            return;
        }
        let (client, batch) = (self.client_token(), self.batch());
        self.send(of, token, client, batch).await;
    }

    /// A token of the other execution.
    async fn crossed(&mut self, of: usize) {
        let token = self.current(1 - of);
        let last = self.executions[1 - of].last.clone();
        let client = last.and_then(|(_, client, _)| client);
        let batch = self.batch();
        self.send(of, token, client, batch).await;
    }

    /// A batch that makes no sense spends nothing.
    async fn refused_batch(&mut self, of: usize) {
        let (token, client) = (self.current(of), self.client_token());
        self.send(of, token, client, Batch::Invalid).await;
        self.next_checkpoint(of).await;
    }

    /// Two requests at once with the token that counts. Whichever comes first is judged first, the
    /// other by what that left behind.
    async fn concurrent(&mut self, of: usize) {
        let token = self.current(of);
        let (one, other) = (self.client_token(), self.client_token());
        let other = if self.pick(2) == 0 {
            one.clone()
        } else {
            other
        };
        // Two of the same kind: which came first is then seen in who was answered.
        let batch = [Batch::Empty, Batch::Whole][self.pick(2)];
        let first = self.request(of, &token, one.as_deref(), batch);
        let second = self.request(of, &token, other.as_deref(), batch);
        let (engine, id) = (self.engine.clone(), self.executions[of].id);
        let (first, second) =
            tokio::join!(engine.checkpoint(id, first), engine.checkpoint(id, second));
        let order = match (&first, &second) {
            (Err(_), Ok(_)) => [(other, second), (one, first)],
            _ => [(one, first), (other, second)],
        };
        for (client, answer) in order {
            self.compare(of, (token.clone(), client, batch), answer);
        }
    }

    /// The handler fails, and is called again.
    async fn failed_invocation(&mut self, of: usize) {
        let Some(end) = self.executions[of].end.take() else {
            return;
        };
        if self.executions[of].model.closed {
            return;
        }
        self.executions[of].model.ended(false);
        end.send(Outcome::Failed(ErrorObject::new("Error", "no")))
            .unwrap();
        self.called(1).await;
        self.repeat(of).await;
    }

    /// The handler succeeds, and with it the execution.
    async fn finish(&mut self, of: usize) {
        let Some(end) = self.executions[of].end.take() else {
            return;
        };
        let output = InvocationOutput::succeeded(None);
        end.send(Outcome::Output(output)).unwrap();
        self.engine.end(self.executions[of].id).await.unwrap();
        self.executions[of].model.ended(true);
        self.repeat(of).await;
    }

    /// The engine dies. Before it calls anybody again, whoever was called goes on as before, and a
    /// request whose answer was lost is answered again; then it is over for them.
    async fn restart(&mut self) {
        self.restarts += 1;
        let found = Arc::new(self.store.crash());
        self.engine.abandon();
        self.store = found;
        (self.engine, self.flights) = open(&self.store, self.seed, self.restarts).await;
        for of in 0..2 {
            self.repeat(of).await;
        }
        let of = self.pick(2);
        self.next_checkpoint(of).await;
        self.begin();
        let mut alive = 0;
        for execution in &mut self.executions {
            execution.end = None;
            alive += usize::from(!execution.model.closed);
        }
        self.called(alive).await;
        for of in 0..2 {
            self.repeat(of).await;
        }
    }

    fn request(
        &self,
        of: usize,
        token: &str,
        client_token: Option<&str>,
        batch: Batch,
    ) -> CheckpointRequest {
        CheckpointRequest {
            checkpoint_token: token.to_owned(),
            updates: updates(&self.executions[of].model, batch),
            client_token: client_token.map(str::to_owned),
        }
    }

    async fn send(&mut self, of: usize, token: String, client: Option<String>, batch: Batch) {
        let request = self.request(of, &token, client.as_deref(), batch);
        let answer = self
            .engine
            .checkpoint(self.executions[of].id, request)
            .await;
        self.compare(of, (token, client, batch), answer);
    }

    /// Holds an answer against the model, and lets the model go on.
    fn compare(
        &mut self,
        of: usize,
        asked: (String, Option<String>, Batch),
        answer: Result<CheckpointResponse, Error>,
    ) {
        let (token, client, batch) = &asked;
        let execution = &mut self.executions[of];
        let expected = execution.model.judge(token, client.as_deref(), *batch);
        let seen = &mut self.seen;
        match &expected {
            Expected::Again(_) => seen.again += 1,
            Expected::Stale => seen.stale += 1,
            Expected::Invalid => seen.invalid += 1,
            Expected::Accepted { .. } => seen.accepted += 1,
        }
        match (&expected, answer) {
            (Expected::Again(before), Ok(now)) => assert_eq!(*before, now, "{asked:?}"),
            (Expected::Stale, Err(Error::Rejected(no))) => {
                assert_eq!(no.code, Code::InvalidParameterValue, "{asked:?}");
                assert!(no.message.starts_with("Invalid checkpoint token"), "{no:?}");
            }
            (Expected::Invalid, Err(Error::Rejected(no))) => {
                assert_eq!(no.code, Code::InvalidParameterValue, "{asked:?}");
                assert!(
                    !no.message.starts_with("Invalid checkpoint token"),
                    "{no:?}"
                );
            }
            (Expected::Accepted { closes, operations }, Ok(now)) => {
                assert_eq!(now.checkpoint_token.is_none(), *closes, "{asked:?}");
                let changed = now.new_execution_state.operations.iter();
                let changed: Vec<_> = changed
                    .filter(|it| it.operation_type != OperationType::Execution)
                    .map(|it| (it.id.as_str().to_owned(), it.status))
                    .collect();
                assert_eq!(changed, *operations, "{asked:?}");
                if let Some(next) = &now.checkpoint_token {
                    assert!(self.given.insert(next.clone()), "a token was given twice");
                    execution.tokens.push(next.clone());
                }
                execution
                    .model
                    .accepted(token, client.as_deref(), *batch, &now);
                execution.last = Some(asked);
            }
            (expected, answer) => {
                panic!("{asked:?}: expected {expected:?}, found {answer:?}");
            }
        }
    }
}

fn updates(model: &Model, batch: Batch) -> Vec<OperationUpdate> {
    use OperationAction::{Start, Succeed};
    let step = |id: &str, action| OperationUpdate::new(id.into(), OperationType::Step, action);
    let next = format!("s{}", model.steps);
    match (batch, &model.begun) {
        (Batch::Empty, _) | (Batch::Finish, None) => Vec::new(),
        (Batch::Start, _) => vec![step(&next, Start)],
        (Batch::Whole, _) => vec![step(&next, Start), step(&next, Succeed)],
        (Batch::Finish, Some(begun)) => vec![step(begun, Succeed)],
        (Batch::Invalid, _) => {
            let wait = OperationUpdate::new("w".into(), OperationType::Wait, Succeed);
            vec![step(&next, Start), wait]
        }
        (Batch::Close, _) => {
            let end = OperationUpdate::new("end".into(), OperationType::Execution, Succeed);
            vec![end]
        }
    }
}

async fn open(
    store: &Arc<MemoryStore>,
    seed: u64,
    restarts: u64,
) -> (Engine, mpsc::UnboundedReceiver<Flight>) {
    let parts = Parts {
        store: store.clone() as Arc<dyn Store>,
        clock: Arc::new(EngineClock::starting_at(Timestamp::from_millis(
            1_767_225_600_000 + restarts * 1_000_000,
        ))),
        random: Arc::new(Seeded::new(seed ^ (restarts << 48))),
        options: Options::default(),
    };
    let engine = Engine::open(parts).await.unwrap();
    let (sender, flights) = mpsc::unbounded_channel();
    engine.register(Registered {
        function: function(),
        config: Some(config()),
        tenancy: Tenancy::Any,
        timeout: None,
        share: Share::default(),
        invoker: Arc::new(Host(sender)),
    });
    (engine, flights)
}

fn start() -> Start {
    Start {
        function: function(),
        name: None,
        input: None,
        config: config(),
        synchronous: false,
        tenant: None,
        trace: None,
        client_context: None,
        parent: None,
    }
}

fn function() -> Function {
    Function {
        partition: "aws".into(),
        region: "local".into(),
        account: "000000000000".into(),
        name: "f".into(),
        version: "1".into(),
    }
}

fn config() -> DurableConfig {
    DurableConfig {
        execution_timeout: 31_622_400,
        retention_period_in_days: Some(14),
        kms_key_arn: None,
    }
}
