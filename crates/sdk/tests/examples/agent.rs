//! The agent: asks before it acts, is told what happened, and comes to an end.

#[path = "../../examples/agent/handler.rs"]
mod handler;

use crate::runner::{Script, crash_everywhere, run};
use handler::{
    Conversation, Message, Model, ModelError, Reply, StandIn, ToolCall, Verdict, function,
};
use std::time::Duration;

const QUESTION: &str = "Can I go to Ghent tomorrow?";
const HOUR: Duration = Duration::from_secs(3600);

fn verdict(approved: bool, after: Duration) -> Script {
    let comment = "too expensive".to_owned();
    Script::silent().reply("approve", Verdict { approved, comment }, after)
}

/// What became of the tool calls, in order.
fn outcomes(conversation: &Conversation) -> Vec<String> {
    let outcome = |message: &Message| match message {
        Message::Tool { outcome, .. } => Some(outcome.clone()),
        Message::User(_) | Message::Assistant(_) => None,
    };
    conversation.messages.iter().filter_map(outcome).collect()
}

/// A model that asks for one tool, turn after turn, and answers in the given one.
struct AnswersIn {
    turn: usize,
    tool: &'static str,
}

impl Model for AnswersIn {
    async fn reply(&self, conversation: &[Message], _: u32) -> Result<Reply, ModelError> {
        let turns = conversation
            .iter()
            .filter(|message| matches!(message, Message::Assistant(_)))
            .count();
        if turns + 1 >= self.turn {
            return Ok(Reply::Say(format!("answered in turn {}", turns + 1)));
        }
        Ok(Reply::Use(vec![ToolCall {
            tool: self.tool.to_owned(),
            argument: "Ghent".to_owned(),
        }]))
    }
}

#[tokio::test]
async fn the_agent_looks_asks_books_and_answers() {
    let outcome = run(function(StandIn), QUESTION, verdict(true, HOUR)).await;
    let conversation: Conversation = outcome.value();
    assert!(conversation.answer.contains("booked: Ghent, 9:04"));
    assert_eq!(
        outcomes(&conversation),
        [
            "sunny in Ghent",
            "the next one to Ghent leaves at 9:04",
            "booked: Ghent, 9:04"
        ]
    );
    // The model is asked once per turn, however often the handler runs.
    let thoughts = outcome.steps();
    let thoughts = thoughts.iter().filter(|step| step.starts_with("think"));
    assert_eq!(thoughts.count(), 3);
    assert_eq!(outcome.invocations(), 3);
}

#[tokio::test]
async fn nothing_is_booked_without_an_approval_in_time() {
    let day = 24 * HOUR;
    let second = Duration::from_secs(1);
    for (script, told) in [
        (verdict(false, HOUR), "refused: too expensive"),
        (verdict(true, day - second), "booked: Ghent, 9:04"),
        (
            verdict(true, day + second),
            "refused: nobody approved it in time",
        ),
        (Script::silent(), "refused: nobody approved it in time"),
    ] {
        let outcome = run(function(StandIn), QUESTION, script).await;
        assert_eq!(outcomes(&outcome.value()).last().unwrap(), told);
        let booked = outcome.steps().contains(&"book");
        assert_eq!(booked, told.starts_with("booked"));
    }
}

#[tokio::test]
async fn the_agent_has_eight_turns() {
    for (turn, answers) in [(7, true), (8, true), (9, false)] {
        let tool = "weather";
        let model = AnswersIn { turn, tool };
        let outcome = run(function(model), QUESTION, Script::silent()).await;
        if answers {
            let conversation: Conversation = outcome.value();
            assert_eq!(conversation.answer, format!("answered in turn {turn}"));
        } else {
            assert_eq!(outcome.message(), "no answer after 8 turns");
        }
    }
}

#[tokio::test]
async fn a_tool_that_fails_is_reported_to_the_model_and_does_not_end_the_agent() {
    let model = AnswersIn {
        turn: 2,
        tool: "teleport",
    };
    let outcome = run(function(model), QUESTION, Script::silent()).await;
    let told = outcomes(&outcome.value());
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("there is no tool 'teleport'"), "{told:?}");
}

#[tokio::test]
async fn a_crash_anywhere_changes_nothing_and_never_books_twice() {
    // The kit demands that no at-most-once body runs twice in one attempt. Where a crash interrupts
    // the booking, nobody knows whether it was made, and the conversation ends in another way.
    let report = crash_everywhere(function(StandIn), QUESTION, verdict(true, HOUR)).await;
    assert_eq!(report.interrupted, 2, "after its start, and before its end");
    crash_everywhere(function(StandIn), QUESTION, Script::silent()).await;
}
