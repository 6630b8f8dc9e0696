//! The state a handler replays: which operations it gets, and on which page.
//!
//! A pure read: nothing is marked as seen here, no token is used up.

use crate::{
    decide::Env,
    error::Rejection,
    execution::Execution,
    id::hex,
    limits::{PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX},
    operation::Operation,
    token::{CheckpointToken, unhex},
    wire::StatePage,
};
use alloc::{format, string::String, vec::Vec};
use hashbrown::HashMap;

impl Execution {
    /// A page of state for the handler that holds `token`, from `marker` on.
    ///
    /// # Errors
    /// When the token is stale, the marker is not one of this moment, or `max_items` is too large.
    pub fn state_page(
        &self,
        env: &Env<'_>,
        token: &str,
        marker: Option<&str>,
        max_items: Option<u32>,
    ) -> Result<StatePage, Rejection> {
        let token = CheckpointToken::parse(env.keys, token)?;
        self.check_token(env.now.max(self.journal.last_at), &token)?;
        let from = match marker {
            None | Some("") => 0,
            Some(marker) => self.read_marker(marker)?,
        };
        self.page(env, from, page_items(max_items)?)
    }

    /// The page that travels inside the invocation input: as much as fits.
    pub(crate) fn first_page(&self, env: &Env<'_>) -> Result<StatePage, Rejection> {
        self.page(env, 0, usize::MAX)
    }

    fn page(&self, env: &Env<'_>, from: u32, items: usize) -> Result<StatePage, Rejection> {
        let mut operations = Vec::new();
        let mut bytes = 0usize;
        let mut known = HashMap::new();
        let mut is_visible = |operation: &Operation| {
            !env.limits.hide_closed_children || !self.operations.is_hidden(operation, &mut known)
        };
        for index in from..self.operations.count() {
            let Some(operation) = self.operations.get(index) else {
                break;
            };
            if !is_visible(operation) {
                continue;
            }
            bytes = bytes.saturating_add(operation.page_bytes());
            let full = operations.len() >= items || bytes > env.limits.page_bytes_max;
            // A page holds one operation at least, whatever its size, so that paging advances.
            if full && !operations.is_empty() {
                return Ok(StatePage {
                    operations,
                    next_marker: Some(self.marker(index)),
                });
            }
            operations.push(operation.view(env.load)?);
        }
        Ok(StatePage {
            operations,
            next_marker: None,
        })
    }

    /// A marker holds for one token: after the next checkpoint the pages may have changed.
    fn marker(&self, index: u32) -> String {
        let mut bytes = Vec::from(self.gate.sequence.to_be_bytes());
        bytes.extend(index.to_be_bytes());
        hex(&bytes)
    }

    fn read_marker(&self, marker: &str) -> Result<u32, Rejection> {
        let read = || {
            let bytes = unhex(marker)?;
            let (sequence, index) = bytes.split_at_checked(8)?;
            let index = u32::from_be_bytes(index.try_into().ok()?);
            let current = sequence == self.gate.sequence.to_be_bytes();
            (current && index < self.operations.count()).then_some(index)
        };
        read().ok_or_else(|| Rejection::invalid("invalid marker"))
    }
}

/// Items on a page when the caller asked for `max_items`.
///
/// # Errors
/// When it is more than the service allows.
pub fn page_items(max_items: Option<u32>) -> Result<usize, Rejection> {
    match max_items.unwrap_or(0) as usize {
        0 => Ok(PAGE_ITEMS_DEFAULT),
        items if items <= PAGE_ITEMS_MAX => Ok(items),
        items => Err(Rejection::new(
            crate::error::Code::Validation,
            format!("MaxItems must be 0 to {PAGE_ITEMS_MAX}, it is {items}"),
        )),
    }
}

#[cfg(test)]
mod tests;
