//! A saga: book a flight, a hotel and a car. If one of them cannot be had, cancel what was booked
//! before, the last first.

use outlast::{Context, Function, Result, Retry};
use serde::{Deserialize, Serialize};

/// Where to, and what goes wrong on the way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trip {
    pub city: String,
    /// What cannot be booked in this city, if anything.
    pub sold_out: Option<String>,
    /// What cannot be cancelled at the first try, if anything.
    pub stubborn: Option<String>,
}

/// A trip that is booked in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Itinerary {
    pub flight: String,
    pub hotel: String,
    pub car: String,
}

/// The durable function, ready for any home.
pub fn function() -> Function {
    Function::new("book-trip", book_trip)
}

/// The handler.
pub async fn book_trip(ctx: Context, trip: Trip) -> Result<Itinerary> {
    let trip = &trip;
    // Each part is followed by how to undo it. When a later part fails for good, what was noted is
    // undone in reverse, each as a step of its own: a crash in the middle of undoing goes on there.
    ctx.saga(async |saga| {
        let flight: String = ctx
            .step("book-flight", async |_| agency::book("flight", trip).await)
            .retry(Retry::none())
            .await?;
        saga.undo("cancel-flight", async |step| {
            agency::cancel("flight", trip, step.attempt()).await
        });

        let hotel: String = ctx
            .step("book-hotel", async |_| agency::book("hotel", trip).await)
            .retry(Retry::none())
            .await?;
        saga.undo("cancel-hotel", async |step| {
            agency::cancel("hotel", trip, step.attempt()).await
        });

        let car: String = ctx
            .step("book-car", async |_| agency::book("car", trip).await)
            .retry(Retry::none())
            .await?;
        Ok(Itinerary { flight, hotel, car })
    })
    .await
}

/// Stands in for a travel agency.
mod agency {
    use super::Trip;

    #[derive(Debug, thiserror::Error)]
    pub enum AgencyError {
        #[error("no {what} left in {city}")]
        SoldOut { what: String, city: String },
        #[error("the agency is closed for lunch")]
        Closed,
    }

    pub async fn book(what: &str, trip: &Trip) -> Result<String, AgencyError> {
        if trip.sold_out.as_deref() == Some(what) {
            return Err(AgencyError::SoldOut {
                what: what.to_owned(),
                city: trip.city.clone(),
            });
        }
        Ok(format!("{what} in {}", trip.city))
    }

    pub async fn cancel(what: &str, trip: &Trip, attempt: u32) -> Result<(), AgencyError> {
        if trip.stubborn.as_deref() == Some(what) && attempt == 1 {
            return Err(AgencyError::Closed);
        }
        Ok(())
    }
}
