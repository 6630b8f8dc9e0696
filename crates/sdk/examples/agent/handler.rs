//! An AI agent that cannot lose its place: the conversation is made of recorded steps.
//!
//! Each turn asks the model, then runs the tools it asks for: harmless ones side by side, those
//! with consequences one by one and only after a human has approved the very call. A crash, or a
//! week's wait for the human, costs nothing: the model is never asked the same turn twice.
//!
//! The model here is a small deterministic stand-in, because examples have no network and no key.
//! It plays by the same rules as a real one: it sees the conversation and says what to do next.
//! Implement [`Model`] for your provider's client and hand it to [`function`].

use outlast::{Completion, Context, Error, ErrorKind, Function, Result, Retry};
use serde::{Deserialize, Serialize};
use std::{future::Future, sync::Arc, time::Duration};

/// Turns after which the agent gives up: a loop that asks a model needs a bound.
const TURNS_MAX: u32 = 8;
/// How long a human has to approve a call.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// One entry of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    User(String),
    Assistant(Reply),
    /// What a tool gave back, or why it did not run.
    Tool {
        call: ToolCall,
        outcome: String,
    },
}

/// What the model wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Say(String),
    /// It wants to see what these tools give before it goes on.
    Use(Vec<ToolCall>),
}

/// A tool the model asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub tool: String,
    pub argument: String,
}

/// What the human says about a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verdict {
    pub approved: bool,
    pub comment: String,
}

/// What the agent leaves behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    pub answer: String,
    pub messages: Vec<Message>,
}

/// A language model.
pub trait Model: Send + Sync + 'static {
    /// What the model says to a conversation.
    fn reply(
        &self,
        conversation: &[Message],
        attempt: u32,
    ) -> impl Future<Output = Result<Reply, ModelError>> + Send;
}

/// Why a model did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("the model is overloaded")]
    Overloaded,
}

/// The durable function for a model, ready for any home.
pub fn function(model: impl Model) -> Function {
    let model = Arc::new(model);
    Function::new("agent", move |ctx, question| {
        let model = model.clone();
        async move { agent(ctx, &*model, question).await }
    })
}

/// The handler.
pub async fn agent(ctx: Context, model: &impl Model, question: String) -> Result<Conversation> {
    // An ordinary variable: every replay rebuilds it from recorded steps.
    let mut messages = vec![Message::User(question)];

    for turn in 1..=TURNS_MAX {
        let reply: Reply = ctx
            .step(&format!("think-{turn}"), async |step| {
                model.reply(&messages, step.attempt()).await
            })
            .retry(Retry::exponential().max_attempts(8))
            .timeout(Duration::from_secs(120))
            .await?;
        messages.push(Message::Assistant(reply.clone()));

        let calls = match reply {
            Reply::Say(answer) => return Ok(Conversation { answer, messages }),
            Reply::Use(calls) => calls,
        };
        let (risky, harmless): (Vec<_>, Vec<_>) = calls
            .into_iter()
            .partition(|call| tools::needs_approval(&call.tool));
        messages.extend(look_up(&ctx, turn, harmless).await?);
        for call in risky {
            messages.push(act(&ctx, call).await?);
        }
    }
    Err(Error::new(
        "TooManyTurns",
        format!("no answer after {TURNS_MAX} turns"),
    ))
}

/// Runs harmless tools side by side. One that fails tells the model so instead of ending the agent.
async fn look_up(ctx: &Context, turn: u32, calls: Vec<ToolCall>) -> Result<Vec<Message>> {
    if calls.is_empty() {
        return Ok(Vec::new());
    }
    let results = ctx
        .map(&format!("tools-{turn}"), &calls, async |ctx, call| {
            ctx.step(&call.tool, async |_| tools::run(call).await)
                .retry(Retry::transient())
                .await
        })
        .item_namer(|call, _| call.tool.clone())
        .max_concurrency(4)
        .completion(Completion::all_completed())
        .await?;
    let outcomes = results
        .items()
        .iter()
        .map(|item| match (&item.result, &item.error) {
            (Some(text), _) => text.clone(),
            (None, Some(error)) => format!("failed: {error}"),
            (None, None) => "did not finish".to_owned(),
        });
    Ok(calls
        .iter()
        .zip(outcomes)
        .map(|(call, outcome)| Message::Tool {
            call: call.clone(),
            outcome,
        })
        .collect())
}

/// Runs a tool with consequences, if a human agrees.
async fn act(ctx: &Context, call: ToolCall) -> Result<Message> {
    let verdict = ctx
        .wait_for_callback("approve", async |callback_id| {
            tools::ask_human(&call, &callback_id).await
        })
        .timeout(APPROVAL_TIMEOUT)
        .await;
    let outcome = match verdict {
        Ok(Verdict { approved: true, .. }) => {
            // It must not happen twice: a crash in its middle counts as a failure, and it is not
            // tried again. The model is told, and can look before it acts.
            let done = ctx
                .step(&call.tool, async |_| tools::run(&call).await)
                .at_most_once()
                .retry(Retry::none())
                .await;
            done.unwrap_or_else(|error| format!("failed: {}", error.message()))
        }
        Ok(Verdict { comment, .. }) => format!("refused: {comment}"),
        Err(error) if error.kind() == ErrorKind::CallbackTimeout => {
            "refused: nobody approved it in time".to_owned()
        }
        Err(error) => return Err(error),
    };
    Ok(Message::Tool { call, outcome })
}

/// Stands in for real tools.
mod tools {
    use super::ToolCall;

    /// Whether running the tool changes the world.
    pub fn needs_approval(tool: &str) -> bool {
        tool == "book"
    }

    pub async fn run(call: &ToolCall) -> Result<String, std::io::Error> {
        match call.tool.as_str() {
            "weather" => Ok(format!("sunny in {}", call.argument)),
            "trains" => Ok(format!("the next one to {} leaves at 9:04", call.argument)),
            "book" => Ok(format!("booked: {}", call.argument)),
            unknown => Err(std::io::Error::other(format!(
                "there is no tool '{unknown}'"
            ))),
        }
    }

    pub async fn ask_human(_call: &ToolCall, _callback_id: &str) -> Result<(), std::io::Error> {
        Ok(())
    }
}

/// The stand-in for a model: it looks at weather and trains, books, and reports.
///
/// It is overloaded at the first attempt of a conversation, as the real ones are.
#[derive(Clone, Copy, Debug)]
pub struct StandIn;

impl Model for StandIn {
    async fn reply(&self, conversation: &[Message], attempt: u32) -> Result<Reply, ModelError> {
        if conversation.len() == 1 && attempt == 1 {
            return Err(ModelError::Overloaded);
        }
        let call = |tool: &str, argument: &str| ToolCall {
            tool: tool.to_owned(),
            argument: argument.to_owned(),
        };
        Ok(match conversation.last() {
            Some(Message::Tool {
                call: last,
                outcome,
            }) if last.tool == "book" => Reply::Say(format!(
                "Tomorrow is fine for a trip. Your ticket: {outcome}."
            )),
            Some(Message::Tool { .. }) => Reply::Use(vec![call("book", "Ghent, 9:04")]),
            _ => Reply::Use(vec![call("weather", "Ghent"), call("trains", "Ghent")]),
        })
    }
}
