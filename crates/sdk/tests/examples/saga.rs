//! The trip: booked in full, or not at all.

#[path = "../../examples/saga/handler.rs"]
mod handler;

use crate::runner::{Script, crash_everywhere, run};
use handler::{Itinerary, Trip, function};

fn trip(sold_out: Option<&str>, stubborn: Option<&str>) -> Trip {
    Trip {
        city: "Lisbon".to_owned(),
        sold_out: sold_out.map(str::to_owned),
        stubborn: stubborn.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_trip_with_everything_available_is_booked() {
    let outcome = run(function(), trip(None, None), Script::silent()).await;
    assert_eq!(outcome.value::<Itinerary>().car, "car in Lisbon");
    assert_eq!(outcome.steps(), ["book-flight", "book-hotel", "book-car"]);
}

#[tokio::test]
async fn what_was_booked_is_cancelled_in_reverse() {
    for (sold_out, steps) in [
        ("flight", &[][..]),
        ("hotel", &["book-flight", "cancel-flight"]),
        (
            "car",
            &["book-flight", "book-hotel", "cancel-hotel", "cancel-flight"],
        ),
    ] {
        let outcome = run(function(), trip(Some(sold_out), None), Script::silent()).await;
        assert_eq!(outcome.message(), format!("no {sold_out} left in Lisbon"));
        assert_eq!(outcome.steps(), steps);
    }
}

#[tokio::test]
async fn a_cancellation_that_fails_is_tried_again_before_the_next() {
    let outcome = run(
        function(),
        trip(Some("car"), Some("hotel")),
        Script::silent(),
    )
    .await;
    assert_eq!(outcome.failures("cancel-hotel"), 1);
    assert_eq!(outcome.steps()[2..], ["cancel-hotel", "cancel-flight"]);
}

#[tokio::test]
async fn a_crash_anywhere_changes_nothing() {
    crash_everywhere(function(), trip(None, None), Script::silent()).await;
    crash_everywhere(
        function(),
        trip(Some("car"), Some("hotel")),
        Script::silent(),
    )
    .await;
}
