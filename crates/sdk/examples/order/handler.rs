//! An order: paid, kept for a day in case the customer changes their mind, approved by a human,
//! shipped item by item, and closed with a receipt.
//!
//! Everything that touches the world is a step. The services at the bottom are stand-ins that
//! depend on their arguments alone; put your own clients there.

use bank::BankError;
use outlast::{Context, ErrorKind, Function, Result, Retry};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What the customer bought.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub number: u32,
    pub card: String,
    pub items: Vec<Item>,
}

/// One line of an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Item {
    pub sku: String,
    pub price_cents: u64,
    /// Days until the warehouse has it.
    pub available_in_days: u32,
}

/// What the human at the desk says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub approved: bool,
    pub by: String,
}

/// How an order ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Closed {
    /// Everything is on its way.
    Shipped {
        payment: String,
        approved_by: String,
        parcels: Vec<String>,
        receipt: String,
    },
    /// The money went back.
    Refunded { payment: String, reason: String },
}

/// The durable function, ready for any home.
pub fn function() -> Function {
    Function::new("order", order)
}

/// The handler: ordinary async code, read from top to bottom.
pub async fn order(ctx: Context, order: Order) -> Result<Closed> {
    let total_cents: u64 = order.items.iter().map(|item| item.price_cents).sum();

    // The payment is recorded once it is made: no crash after this line can charge twice. A crash
    // *inside* the body runs it again, and the bank drops the duplicate by its idempotency key.
    let payment: String = ctx
        .step("charge", async |step| {
            let key = step.idempotency_key();
            bank::charge(&order.card, total_cents, &key, step.attempt()).await
        })
        .retry(
            Retry::exponential()
                .max_attempts(5)
                .when(|failure| failure.downcast_ref() == Some(&BankError::Unreachable)),
        )
        .await?;

    // The customer may change their mind for a day. Nothing runs meanwhile, and nothing is paid for.
    ctx.wait(DAY).await?;

    let approval = ctx
        .wait_for_callback("approve", async |callback_id| {
            desk::ask(order.number, &callback_id).await
        })
        .timeout(2 * DAY)
        .await;
    let refusal = match &approval {
        Ok(Approval { approved: true, .. }) => None,
        Ok(Approval { by, .. }) => Some(format!("refused by {by}")),
        Err(error) if error.kind() == ErrorKind::CallbackTimeout => {
            Some("nobody looked at it in time".to_owned())
        }
        Err(error) => Some(format!("the desk could not decide: {}", error.message())),
    };
    if let Some(reason) = refusal {
        // The money must go back, so this step is patient.
        ctx.step("refund", async |step| {
            bank::refund(&payment, &step.idempotency_key()).await
        })
        .retry(Retry::critical())
        .await?;
        return Ok(Closed::Refunded { payment, reason });
    }

    // Two parcels are packed at a time. Each item has a context of its own, and an item that waits
    // for the warehouse does not keep the others from being recorded.
    let parcels: Vec<String> = ctx
        .map("ship", &order.items, ship)
        .item_namer(|item, _| item.sku.clone())
        .max_concurrency(2)
        .await?
        .into_values()?;

    let receipt: String = ctx
        .step("receipt", async |_| {
            mail::receipt(order.number, &payment, parcels.len()).await
        })
        .await?;
    Ok(Closed::Shipped {
        payment,
        approved_by: approval?.by,
        parcels,
        receipt,
    })
}

/// Ships one item: waits until it can be had, then packs it.
async fn ship(ctx: Context, item: &Item) -> Result<String> {
    if item.available_in_days > 0 {
        ctx.wait(DAY * item.available_in_days).await?;
    }
    ctx.step("pack", async |_| warehouse::pack(&item.sku).await)
        .await
}

/// Stands in for a payment service.
mod bank {
    #[derive(Debug, PartialEq, thiserror::Error)]
    pub enum BankError {
        /// Asking again helps.
        #[error("the bank cannot be reached")]
        Unreachable,
        /// Asking again does not help.
        #[error("the card was declined")]
        Declined,
    }

    pub async fn charge(
        card: &str,
        cents: u64,
        idempotency_key: &str,
        attempt: u32,
    ) -> Result<String, BankError> {
        let key: String = idempotency_key.chars().take(8).collect();
        match card {
            "declined" => Err(BankError::Declined),
            "flaky" if attempt == 1 => Err(BankError::Unreachable),
            _ => Ok(format!("{cents} cents, payment {key}")),
        }
    }

    pub async fn refund(_payment: &str, _idempotency_key: &str) -> Result<(), BankError> {
        Ok(())
    }
}

/// Stands in for the place where humans find what waits for them: a mail, a chat, a web page.
mod desk {
    pub async fn ask(_order: u32, _callback_id: &str) -> Result<(), std::io::Error> {
        Ok(())
    }
}

/// Stands in for a warehouse.
mod warehouse {
    pub async fn pack(sku: &str) -> Result<String, std::io::Error> {
        Ok(format!("parcel with {sku}"))
    }
}

/// Stands in for a mail service.
mod mail {
    pub async fn receipt(
        order: u32,
        payment: &str,
        parcels: usize,
    ) -> Result<String, std::io::Error> {
        Ok(format!("order {order}: {payment}, {parcels} parcels"))
    }
}
