//! The export: asked about until it is done, failed, or not worth asking about any more.

#[path = "../../examples/poll_job/handler.rs"]
mod handler;

use crate::runner::{Script, crash_everywhere, run};
use handler::{Request, function};

fn request(table: &str, percent_per_check: u32) -> Request {
    Request {
        table: table.to_owned(),
        percent_per_check,
    }
}

#[tokio::test]
async fn an_export_is_fetched_once_it_is_done() {
    let outcome = run(function(), request("sales", 34), Script::silent()).await;
    assert_eq!(outcome.value::<String>(), "contents of export-of-sales.csv");
    assert_eq!(outcome.steps(), ["start", "export", "fetch"]);
    // Two pauses between three questions.
    assert_eq!(outcome.invocations(), 3);
}

#[tokio::test]
async fn an_export_that_fails_fails_the_execution() {
    let outcome = run(function(), request("locked", 60), Script::silent()).await;
    assert_eq!(outcome.message(), "the table is locked");
    assert_eq!(outcome.steps(), ["start", "export"]);
}

#[tokio::test]
async fn an_export_has_twelve_questions_to_be_done() {
    // Done at the 11th, the 12th, and what would be the 13th.
    for (percent_per_check, done) in [(10, true), (9, true), (8, false)] {
        let outcome = run(
            function(),
            request("sales", percent_per_check),
            Script::silent(),
        )
        .await;
        if done {
            assert_eq!(
                outcome.steps().last(),
                Some(&"fetch"),
                "{percent_per_check} %"
            );
        } else {
            assert!(outcome.message().contains("after 12 checks"));
            assert_eq!(outcome.steps(), ["start", "cancel"]);
        }
    }
}

#[tokio::test]
async fn a_crash_anywhere_changes_nothing() {
    crash_everywhere(function(), request("sales", 34), Script::silent()).await;
    crash_everywhere(function(), request("locked", 34), Script::silent()).await;
    crash_everywhere(function(), request("sales", 1), Script::silent()).await;
}
