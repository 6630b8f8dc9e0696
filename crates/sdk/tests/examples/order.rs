//! The order: paid once, approved or refunded, shipped in full.

#[path = "../../examples/order/handler.rs"]
mod handler;

use crate::runner::{Outcome, Script, crash_everywhere, run};
use handler::{Approval, Closed, Item, Order, function};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
const SECOND: Duration = Duration::from_secs(1);

fn order(card: &str, available_in_days: &[u32]) -> Order {
    let item = |(index, days): (usize, &u32)| Item {
        sku: format!("item-{index}"),
        price_cents: 100,
        available_in_days: *days,
    };
    Order {
        number: 7,
        card: card.to_owned(),
        items: available_in_days.iter().enumerate().map(item).collect(),
    }
}

fn decision(approved: bool, after: Duration) -> Script {
    let by = "Ada".to_owned();
    Script::silent().reply("approve", Approval { approved, by }, after)
}

fn refund_reason(outcome: &Outcome) -> String {
    match outcome.value() {
        Closed::Refunded { reason, .. } => reason,
        shipped @ Closed::Shipped { .. } => panic!("{shipped:?}"),
    }
}

#[tokio::test]
async fn an_approved_order_is_shipped_in_full_and_receipted() {
    let outcome = run(function(), order("good", &[0, 3, 0]), decision(true, DAY)).await;
    let Closed::Shipped {
        approved_by,
        parcels,
        receipt,
        payment,
    } = outcome.value()
    else {
        panic!("{:?}", outcome.result);
    };
    assert_eq!(approved_by, "Ada");
    assert_eq!(
        parcels,
        [0, 1, 2].map(|index| format!("parcel with item-{index}"))
    );
    assert!(payment.starts_with("300 cents"));
    assert!(receipt.ends_with("3 parcels"));
    assert_eq!(outcome.elapsed().as_secs() / DAY.as_secs(), 5);
}

#[tokio::test]
async fn nothing_runs_while_the_order_waits() {
    let outcome = run(function(), order("good", &[3]), decision(true, DAY)).await;
    // The cooling-off day, the human, the warehouse: three waits, four invocations.
    assert_eq!(outcome.invocations(), 4);
}

#[tokio::test]
async fn an_unreachable_bank_is_asked_again_and_a_refusing_one_is_not() {
    let flaky = run(function(), order("flaky", &[0]), decision(true, DAY)).await;
    assert_eq!(flaky.failures("charge"), 1);
    assert!(matches!(flaky.value(), Closed::Shipped { .. }));

    let declined = run(function(), order("declined", &[0]), Script::silent()).await;
    assert_eq!(declined.message(), "the card was declined");
    assert_eq!(declined.failures("charge"), 1);
    assert!(declined.steps().is_empty());
}

#[tokio::test]
async fn an_order_that_is_not_approved_is_refunded() {
    let refused = run(function(), order("good", &[0]), decision(false, DAY)).await;
    assert_eq!(refund_reason(&refused), "refused by Ada");
    assert_eq!(refused.steps(), ["charge", "approve-submitter", "refund"]);

    let broken = Script::silent().failure("approve", "the form is lost");
    let broken = run(function(), order("good", &[0]), broken).await;
    assert_eq!(
        refund_reason(&broken),
        "the desk could not decide: the form is lost"
    );
}

#[tokio::test]
async fn the_desk_has_two_days_to_the_second() {
    for (after, in_time) in [(2 * DAY - SECOND, true), (2 * DAY + SECOND, false)] {
        let outcome = run(function(), order("good", &[0]), decision(true, after)).await;
        let shipped = matches!(outcome.value(), Closed::Shipped { .. });
        assert_eq!(shipped, in_time, "{after:?}");
    }
    let outcome = run(function(), order("good", &[0]), Script::silent()).await;
    assert_eq!(refund_reason(&outcome), "nobody looked at it in time");
    assert_eq!(outcome.elapsed().as_secs(), 3 * DAY.as_secs());
}

#[tokio::test]
async fn an_order_of_nothing_ships_nothing() {
    let outcome = run(function(), order("good", &[]), decision(true, DAY)).await;
    let Closed::Shipped { parcels, .. } = outcome.value() else {
        panic!("{:?}", outcome.result);
    };
    assert!(parcels.is_empty());
}

#[tokio::test]
async fn a_crash_anywhere_changes_nothing() {
    let busy = order("flaky", &[0, 2, 1]);
    crash_everywhere(function(), &busy, decision(true, DAY)).await;
    crash_everywhere(function(), &busy, decision(false, DAY)).await;
    crash_everywhere(function(), &busy, Script::silent()).await;
    crash_everywhere(function(), order("declined", &[0]), Script::silent()).await;
}
