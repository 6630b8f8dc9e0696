//! The simulated host of functions: real handlers that start late, die, go on after they were given
//! up, and whose requests get lost or arrive twice.

use crate::{evaluate::value, outside::Errand, world::World};
use outlast::{
    Context, Error, Function, Request, Retry,
    backend::{Abilities, Backend, BackendError},
    core::{
        Outcome,
        arn::ExecutionId,
        intent::InvokeOutcome,
        wire::{CheckpointRequest, CheckpointResponse, ErrorObject, StatePage},
    },
    invoke,
};
use outlast_engine::{
    Engine, WeakEngine, execution_id,
    invoker::{BoxFuture, Call, Invoker, PlainCall},
};
use std::{sync::Arc, time::Duration};

/// Calls durable handlers.
pub(crate) struct Host {
    /// The world around it.
    pub(crate) world: Arc<World>,
    /// Where checkpoints go.
    pub(crate) engine: WeakEngine,
    /// The handler.
    pub(crate) function: Function,
}

/// What becomes of one call.
enum Fate {
    Runs,
    NotStarted,
    /// Its process dies after so many milliseconds.
    Dies(u64),
    /// It is given up after so many milliseconds, and goes on.
    GivenUp(u64),
}

impl Invoker for Host {
    fn invoke(&self, call: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let Ok(id) = execution_id(&call.input.durable_execution_arn) else {
                return Outcome::Lost;
            };
            let name = self.world.name(id);
            self.world.note(format!("call {name}"));
            self.world.count("invocations");
            pause(&self.world).await;
            let outcome = self.meet(self.fate(), id, call).await;
            self.world.note(format!("end  {name} {}", told(&outcome)));
            outcome
        })
    }
}

impl Host {
    fn fate(&self) -> Fate {
        let world = &self.world;
        let scale = |world: &World| match world.below(3) {
            0 => world.below(10),
            1 => world.below(100),
            _ => world.below(20_000),
        };
        if !world.fault(2) {
            return Fate::Runs;
        }
        match world.below(5) {
            0 => Fate::NotStarted,
            1..=2 => Fate::Dies(scale(world)),
            _ => Fate::GivenUp(scale(world)),
        }
    }

    async fn meet(&self, fate: Fate, id: ExecutionId, call: Call) -> Outcome {
        let invocation = call.invocation_id.clone();
        let running = handle(
            self.world.clone(),
            self.engine.clone(),
            self.function.clone(),
            call,
        );
        let gone = |world: &World| {
            if world.below(2) == 0 {
                Outcome::Lost
            } else {
                Outcome::exited("the process died")
            }
        };
        match fate {
            Fate::Runs => running.await,
            Fate::NotStarted => {
                self.world.count("not started");
                Outcome::NotStarted(ErrorObject::new("Throttled", "come again"))
            }
            Fate::Dies(after) => {
                let limit = Duration::from_millis(after);
                match tokio::time::timeout(limit, running).await {
                    Ok(outcome) => outcome,
                    Err(_) => {
                        self.world.count("handlers died");
                        gone(&self.world)
                    }
                }
            }
            Fate::GivenUp(after) => {
                let mut running = tokio::runtime::Handle::current().spawn(running);
                let limit = Duration::from_millis(after);
                match tokio::time::timeout(limit, &mut running).await {
                    Ok(outcome) => outcome.unwrap_or(Outcome::Lost),
                    Err(_) => {
                        self.world.count("zombies");
                        self.world.note(format!("zombie {}", self.world.name(id)));
                        self.world.state().zombies.insert(invocation);
                        gone(&self.world)
                    }
                }
            }
        }
    }
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Output(output) => format!("{:?}", output.status),
        Outcome::Failed(error) => format!("failed: {error}"),
        Outcome::Answered(_)
        | Outcome::FunctionMissing(_)
        | Outcome::NotStarted(_)
        | Outcome::Lost => "not answered".to_owned(),
    }
}

async fn pause(world: &World) {
    let delay = world.delay();
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
}

async fn handle(world: Arc<World>, engine: WeakEngine, function: Function, call: Call) -> Outcome {
    let Ok(id) = execution_id(&call.input.durable_execution_arn) else {
        return Outcome::Lost;
    };
    let wire = Wire {
        world,
        engine,
        id,
        invocation: call.invocation_id.clone(),
    };
    let request = Request {
        request_id: call.invocation_id,
        ..Request::default()
    };
    let outcome = invoke(&function, call.input, Arc::new(wire), request).await;
    match outcome.answer {
        Ok(output) => Outcome::Output(output),
        Err(failed) => Outcome::Failed(failed.record),
    }
}

/// The way from a handler to the engine.
struct Wire {
    world: Arc<World>,
    engine: WeakEngine,
    id: ExecutionId,
    invocation: Arc<str>,
}

impl Wire {
    fn engine(&self) -> Result<Engine, BackendError> {
        self.engine
            .upgrade()
            .ok_or_else(|| BackendError::transport("nobody is there"))
    }

    async fn send(&self, request: CheckpointRequest) -> Result<CheckpointResponse, BackendError> {
        let answered = self.engine()?.checkpoint(self.id, request.clone()).await;
        match answered {
            Ok(response) => {
                self.world.acknowledge(self.id, &request);
                Ok(response)
            }
            Err(error) => Err(backend_error(&error)),
        }
    }
}

impl Backend for Wire {
    fn checkpoint<'a>(
        &'a self,
        _: &'a str,
        request: CheckpointRequest,
    ) -> BoxFuture<'a, Result<CheckpointResponse, BackendError>> {
        Box::pin(async move {
            let world = &self.world;
            pause(world).await;
            world.count("checkpoints");
            if world.fault(4) {
                world.count("echoes");
                let echo = Errand::Echo(self.id, Box::new(request.clone()));
                world.add(world.below(10_000), echo);
            }
            let lost = || BackendError::transport("the connection was reset");
            let fate = if world.fault(2) { world.below(5) } else { 5 };
            let answer = match fate {
                0 => Err(lost()),
                1 => {
                    let _ = self.send(request).await;
                    Err(lost())
                }
                2 => {
                    let _ = self.send(request.clone()).await;
                    self.send(request).await
                }
                3 => {
                    let (first, second) =
                        tokio::join!(biased; self.send(request.clone()), self.send(request));
                    first.and(second)
                }
                _ => self.send(request).await,
            };
            pause(world).await;
            answer
        })
    }

    fn state<'a>(
        &'a self,
        _: &'a str,
        token: &'a str,
        marker: &'a str,
    ) -> BoxFuture<'a, Result<StatePage, BackendError>> {
        Box::pin(async move {
            pause(&self.world).await;
            let engine = self.engine()?;
            let (token, marker) = (token.to_owned(), Some(marker.to_owned()));
            let page = engine.state(self.id, token, marker, None).await;
            page.map_err(|error| backend_error(&error))
        })
    }

    fn changed<'a>(&'a self, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match self.engine() {
                Ok(engine) => engine.changed(self.id, &self.invocation).await,
                Err(_) => std::future::pending().await,
            }
        })
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            pushes_changes: true,
            ..Abilities::OUTLAST
        }
    }
}

fn backend_error(error: &outlast_engine::Error) -> BackendError {
    let rejection = error.to_rejection();
    let code = rejection.code;
    BackendError::service(code.http_status(), code.name(), rejection.message)
}

/// Calls ordinary functions.
pub(crate) struct PlainHost {
    /// The world around it.
    pub(crate) world: Arc<World>,
}

impl Invoker for PlainHost {
    fn invoke(&self, _: Call) -> BoxFuture<'_, Outcome> {
        Box::pin(async { Outcome::Lost })
    }

    fn invoke_plain(&self, call: PlainCall) -> BoxFuture<'_, InvokeOutcome> {
        Box::pin(async move {
            self.world.note(format!("call {}", call.function.name));
            let id: u64 = call.input.trim().parse().unwrap_or_default();
            pause(&self.world).await;
            match &*call.function.name {
                "plain" => InvokeOutcome::Succeeded(Some(value(id).to_string().into())),
                "plain-failing" => InvokeOutcome::Failed(ErrorObject::new("E", format!("e{id}"))),
                _ => std::future::pending().await,
            }
        })
    }
}

/// A durable function that the programs invoke.
pub(crate) async fn durable(ctx: Context, id: u64) -> outlast::Result<u64> {
    ctx.wait(Duration::from_secs(1 + id % 5)).await?;
    ctx.step("value", async |_| Ok::<_, Error>(value(id))).await
}

/// A durable function that fails.
pub(crate) async fn durable_failing(ctx: Context, id: u64) -> outlast::Result<u64> {
    let step = ctx.step("fail", async |_| Err::<u64, _>(format!("e{id}")));
    step.retry(Retry::none()).await
}
