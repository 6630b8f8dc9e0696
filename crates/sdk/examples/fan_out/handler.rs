//! Fan out: list an album, make a thumbnail of every picture, a few at a time, tolerate some broken
//! pictures, and report.

use outlast::{Completion, CompletionReason, Context, Function, Result, Retry};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Album {
    pub name: String,
    pub pictures: u32,
    /// Every picture whose number is a multiple of this one is broken; 0 for none.
    pub broken_every: u32,
    /// More broken pictures than this, and the rest is not worth the effort.
    pub tolerated: u64,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub thumbnails: usize,
    /// What went wrong, in the order of the pictures.
    pub broken: Vec<String>,
    /// Whether the album was given up because too much was broken.
    pub given_up: bool,
}

/// The durable function, ready for any home.
pub fn function() -> Function {
    Function::new("thumbnails", thumbnails)
}

/// The handler.
pub async fn thumbnails(ctx: Context, album: Album) -> Result<Report> {
    // Listing is a step: tomorrow's list may differ, and a replay must see today's.
    let pictures: Vec<Picture> = ctx
        .step("list", async |_| pictures::list(&album).await)
        .await?;

    // A failed item does not fail the map: the result tells what became of each. Without a
    // completion rule the first failure would end it.
    let made = ctx
        .map("make", &pictures, async |ctx, picture| {
            ctx.step("resize", async |step| {
                pictures::resize(picture, step.attempt()).await
            })
            .retry(Retry::fixed(Duration::from_secs(10)).on_messages(["busy"]))
            .await
        })
        .item_namer(|picture, _| picture.name.clone())
        .max_concurrency(4)
        .completion(Completion::tolerated_failures(album.tolerated))
        .await?;

    let report = Report {
        thumbnails: made.success_count(),
        broken: made
            .errors()
            .filter_map(|error| error.error_message.clone())
            .collect(),
        given_up: made.completion_reason() == CompletionReason::FailureToleranceExceeded,
    };
    ctx.step("publish", async |_| {
        pictures::publish(&album, &report).await
    })
    .await?;
    Ok(report)
}

/// One picture of an album.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Picture {
    pub name: String,
    pub broken: bool,
}

/// Stands in for a store of pictures.
mod pictures {
    use super::{Album, Picture, Report};

    #[derive(Debug, thiserror::Error)]
    pub enum ResizeError {
        #[error("{0} is not a picture")]
        Broken(String),
        #[error("busy, come back later")]
        Busy,
    }

    pub async fn list(album: &Album) -> Result<Vec<Picture>, std::io::Error> {
        let picture = |number: u32| Picture {
            name: format!("{}-{number:02}", album.name),
            broken: album.broken_every > 0 && number.is_multiple_of(album.broken_every),
        };
        Ok((1..=album.pictures).map(picture).collect())
    }

    pub async fn resize(picture: &Picture, attempt: u32) -> Result<String, ResizeError> {
        if picture.broken {
            return Err(ResizeError::Broken(picture.name.clone()));
        }
        // The first picture finds the service busy, so that a retry can be seen.
        if picture.name.ends_with("-01") && attempt == 1 {
            return Err(ResizeError::Busy);
        }
        Ok(format!("{}.thumb", picture.name))
    }

    pub async fn publish(_album: &Album, _report: &Report) -> Result<(), std::io::Error> {
        Ok(())
    }
}
