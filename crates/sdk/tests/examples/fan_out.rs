//! The thumbnails: some failures are tolerated, too many end it, and the report tells.

#[path = "../../examples/fan_out/handler.rs"]
mod handler;

use crate::runner::{Script, crash_everywhere, run};
use handler::{Album, Report, function};

fn album(pictures: u32, broken_every: u32, tolerated: u64) -> Album {
    Album {
        name: "a".to_owned(),
        pictures,
        broken_every,
        tolerated,
    }
}

async fn report(album: Album) -> Report {
    run(function(), album, Script::silent()).await.value()
}

#[tokio::test]
async fn every_picture_of_a_good_album_gets_its_thumbnail() {
    let outcome = run(function(), album(9, 0, 0), Script::silent()).await;
    let report: Report = outcome.value();
    assert_eq!((report.thumbnails, report.given_up), (9, false));
    assert!(report.broken.is_empty());
    // The first one found the service busy once.
    assert_eq!(outcome.failures("resize"), 1);
    assert_eq!(outcome.steps().last(), Some(&"publish"));
}

#[tokio::test]
async fn two_broken_pictures_are_given_up_on_when_one_is_tolerated_and_not_when_two_are() {
    for (tolerated, given_up) in [(1, true), (2, false), (3, false)] {
        let report = report(album(9, 4, tolerated)).await;
        assert_eq!(report.given_up, given_up, "{tolerated} tolerated");
        assert_eq!(
            report.broken,
            ["a-04 is not a picture", "a-08 is not a picture"]
        );
    }
}

#[tokio::test]
async fn an_empty_album_is_reported_as_such() {
    let report = report(album(0, 0, 0)).await;
    assert_eq!((report.thumbnails, report.given_up), (0, false));
}

#[tokio::test]
async fn a_crash_anywhere_changes_nothing() {
    crash_everywhere(function(), album(9, 4, 2), Script::silent()).await;
    crash_everywhere(function(), album(3, 1, 3), Script::silent()).await;
}
