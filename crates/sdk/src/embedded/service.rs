//! The engine in this process, as the typed client asks it.

use super::refused;
use crate::{
    backend::BoxFuture,
    client::{CallbackReply, Ended, Held, NewExecution, Service, StartedExecution},
    error::Result,
};
use outlast_core::{
    Start,
    arn::ExecutionId,
    delivery::Arrival,
    event::Event,
    wire::{ErrorObject, ExecutionStatus, Payload},
};
use outlast_engine::{End, Engine, HistoryPart, execution_id};

/// Events read at a time.
const PAGE_ITEMS: u32 = 1_000;

fn id(arn: &str) -> Result<ExecutionId> {
    execution_id(arn).map_err(|error| refused(&error))
}

impl Service for Engine {
    fn start(&self, new: NewExecution) -> BoxFuture<'_, Result<StartedExecution>> {
        Box::pin(async move {
            let resolved = self.resolve(&new.function);
            let (function, config) = resolved.map_err(|error| refused(&error))?;
            let start = Start {
                function,
                name: new.name,
                input: Some(new.input),
                config,
                synchronous: false,
                tenant: new.tenant,
                trace: new.trace,
                client_context: None,
                parent: None,
            };
            let started = Self::start(self, start).await;
            let started = started.map_err(|error| refused(&error))?;
            Ok(StartedExecution {
                arn: started.arn,
                existed: started.existed,
            })
        })
    }

    fn end<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<Ended>> {
        Box::pin(async move {
            let ended = Self::end(self, id(arn)?).await;
            let End {
                status,
                result,
                error,
            } = ended.map_err(|error| refused(&error))?;
            Ok(Ended {
                status,
                result,
                error,
            })
        })
    }

    fn status<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<ExecutionStatus>> {
        Box::pin(async move {
            let head = self.head(id(arn)?).await;
            head.map(|head| head.status)
                .map_err(|error| refused(&error))
        })
    }

    fn why<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            let why = Self::why(self, id(arn)?).await;
            why.map_err(|error| refused(&error))
        })
    }

    fn history<'a>(&'a self, arn: &'a str) -> BoxFuture<'a, Result<Vec<Event>>> {
        Box::pin(async move {
            let id = id(arn)?;
            let mut events = Vec::new();
            let mut marker = None;
            loop {
                let part = HistoryPart {
                    marker,
                    max_items: Some(PAGE_ITEMS),
                    ..HistoryPart::default()
                };
                let page = Self::history(self, id, part).await;
                let page = page.map_err(|error| refused(&error))?;
                events.extend(page.events);
                match page.next_marker {
                    Some(next) => marker = Some(next),
                    None => return Ok(events),
                }
            }
        })
    }

    fn signal<'a>(
        &'a self,
        arn: &'a str,
        name: &'a str,
        payload: Option<Payload>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let name = name.into();
            let delivered = self.deliver(id(arn)?, Arrival::Signal { name, payload });
            let delivered = delivered.await.map(drop);
            delivered.map_err(|error| refused(&error))
        })
    }

    fn stop<'a>(&'a self, arn: &'a str, error: ErrorObject) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let stopped = Self::stop(self, id(arn)?, Some(error)).await;
            stopped.map(drop).map_err(|error| refused(&error))
        })
    }

    fn release<'a>(&'a self, arn: &'a str, held: Held) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let released = match held {
                Held::GoOn => self.resume(id(arn)?).await,
                Held::Fail => self.fail_held(id(arn)?).await,
            };
            released.map_err(|error| refused(&error))
        })
    }

    fn callback<'a>(&'a self, id: &'a str, reply: CallbackReply) -> BoxFuture<'a, Result<()>> {
        let callback_id = id.into();
        let arrival = match reply {
            CallbackReply::Succeeded(result) => Arrival::CallbackSucceeded {
                callback_id,
                result,
            },
            CallbackReply::Failed(error) => Arrival::CallbackFailed { callback_id, error },
            CallbackReply::Heartbeat => Arrival::CallbackHeartbeat { callback_id },
        };
        Box::pin(async move {
            let delivered = Self::callback(self, id, arrival).await;
            delivered.map(drop).map_err(|error| refused(&error))
        })
    }
}
