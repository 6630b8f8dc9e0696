//! Executions whose records make no sense. They are left alone and reported; the others go on.

use crate::engine::lock;
use outlast_core::arn::ExecutionId;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// The quarantined executions, and why.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(Mutex<BTreeMap<ExecutionId, Arc<str>>>);

impl Quarantine {
    pub(crate) fn put(&self, id: ExecutionId, reason: Arc<str>) {
        lock(&self.0).insert(id, reason);
    }

    pub(crate) fn reason(&self, id: ExecutionId) -> Option<Arc<str>> {
        lock(&self.0).get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<(ExecutionId, Arc<str>)> {
        let quarantined = lock(&self.0);
        quarantined
            .iter()
            .map(|(id, why)| (*id, why.clone()))
            .collect()
    }
}
