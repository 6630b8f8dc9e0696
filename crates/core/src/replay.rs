//! The replay journal: what a handler's backend already knows, matched against what the handler
//! does now.
//!
//! The journal keeps operations in arrival order, which is almost the order in which deterministic
//! code asks for them, so a lookup is usually one comparison and replay stays linear. It decides
//! nothing about running code; it answers "is this recorded?" and "is it still the same operation?".

use crate::{
    id::{OperationId, Position},
    wire::{Operation, OperationStatus, OperationType},
};
use alloc::{
    boxed::Box,
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};
use core::fmt;
use hashbrown::HashMap;

/// Every operation the handler's side knows about, by id.
#[derive(Debug, Default)]
pub struct Journal {
    operations: Vec<Arc<Operation>>,
    index: HashMap<OperationId, usize>,
    /// Which operations the handler came to.
    met: Vec<bool>,
    next: usize,
    pending: usize,
}

/// What [`Journal::put`] replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The status before, if the operation was known.
    pub before: Option<OperationStatus>,
    /// The status now.
    pub after: OperationStatus,
}

impl Change {
    /// Whether this change is the one that closed the operation.
    pub fn closed(self) -> bool {
        self.after.is_terminal() && !self.before.is_some_and(OperationStatus::is_terminal)
    }
}

impl Journal {
    /// Makes room for so many more operations at once.
    pub fn reserve(&mut self, operations: usize) {
        self.operations.reserve(operations);
        self.index.reserve(operations);
        self.met.reserve(operations);
    }

    /// The operation recorded under `id`.
    pub fn get(&mut self, id: &OperationId) -> Option<&Arc<Operation>> {
        let at = self.find(id)?;
        self.next = at + 1;
        self.operations.get(at)
    }

    /// Whether an operation is recorded under `id`.
    pub fn contains(&self, id: &OperationId) -> bool {
        self.find(id).is_some()
    }

    /// Where an operation stands: usually right after the one asked for last.
    fn find(&self, id: &OperationId) -> Option<usize> {
        match self.operations.get(self.next) {
            Some(operation) if operation.id == *id => Some(self.next),
            _ => self.index.get(id).copied(),
        }
    }

    /// Stores the newest state of an operation. A terminal operation never changes: a later report
    /// about it (a duplicate delivery) is ignored.
    pub fn put(&mut self, operation: Operation) -> Change {
        let after = operation.status;
        let now_pending = usize::from(is_pending(&operation));
        let Some(&at) = self.index.get(&operation.id) else {
            self.index
                .insert(operation.id.clone(), self.operations.len());
            self.operations.push(Arc::new(operation));
            self.met.push(false);
            self.pending += now_pending;
            return Change {
                before: None,
                after,
            };
        };
        let Some(known) = self.operations.get_mut(at) else {
            return Change {
                before: None,
                after,
            };
        };
        let before = known.status;
        if before.is_terminal() {
            return Change {
                before: Some(before),
                after: before,
            };
        }
        self.pending = self.pending + now_pending - usize::from(is_pending(known));
        *known = Arc::new(operation);
        Change {
            before: Some(before),
            after,
        }
    }

    /// The handler came to an operation and had no need of it.
    pub fn pass(&mut self, id: &OperationId) {
        if let Some(met) = self.find(id).and_then(|at| self.met.get_mut(at)) {
            *met = true;
        }
    }

    /// Recorded operations that the handler has not come to.
    pub fn unmet(&self) -> impl Iterator<Item = &Arc<Operation>> {
        let unmet = self
            .operations
            .iter()
            .zip(&self.met)
            .filter(|(_, met)| !**met);
        unmet.map(|(operation, _)| operation)
    }

    /// How many operations the backend will finish or wake by itself; with none, an invocation has
    /// no business to suspend.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// How many operations are known.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The operations in arrival order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Operation>> {
        self.operations.iter()
    }

    /// The record of the operation the handler meets now, if there is one.
    ///
    /// # Errors
    /// [`Mismatch`] when the record belongs to a different operation: the handler's code or its
    /// control flow changed since it was written.
    pub fn meet(&mut self, current: &Identity) -> Result<Option<Arc<Operation>>, Box<Mismatch>> {
        self.pass(&current.id);
        match self.get(&current.id) {
            None => Ok(None),
            Some(recorded) => current.compare(recorded).map(|()| Some(recorded.clone())),
        }
    }
}

/// Operations that keep a suspended execution alive: the service will act on them.
fn is_pending(operation: &Operation) -> bool {
    match operation.operation_type {
        OperationType::Step => operation.status == OperationStatus::Pending,
        OperationType::Wait | OperationType::Callback | OperationType::ChainedInvoke => {
            operation.status == OperationStatus::Started
        }
        OperationType::Execution | OperationType::Context => false,
    }
}

/// What the handler says an operation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its wire id.
    pub id: OperationId,
    /// Where it stands, for people.
    pub position: Position,
    /// Its type.
    pub operation_type: OperationType,
    /// Its label.
    pub sub_type: Arc<str>,
    /// Its name.
    pub name: Option<Arc<str>>,
    /// The recorded context it belongs to.
    pub parent_id: Option<OperationId>,
}

impl Identity {
    fn compare(&self, recorded: &Operation) -> Result<(), Box<Mismatch>> {
        let text = |value: Option<&str>| {
            value
                .filter(|value| !value.is_empty())
                .map_or(String::from("none"), quote)
        };
        let differs = |attribute, before: String, now: String| {
            Box::new(Mismatch {
                position: self.position.clone(),
                id: self.id.clone(),
                attribute,
                recorded: before,
                current: now,
                recorded_operation: describe(
                    recorded.operation_type,
                    recorded.sub_type.as_deref(),
                    recorded.name.as_deref(),
                ),
                current_operation: describe(
                    self.operation_type,
                    Some(&self.sub_type),
                    self.name.as_deref(),
                ),
            })
        };
        if recorded.operation_type != self.operation_type {
            return Err(differs(
                "type",
                recorded.operation_type.to_string(),
                self.operation_type.to_string(),
            ));
        }
        let pairs = [
            (
                "subtype",
                recorded.sub_type.as_deref(),
                Some(self.sub_type.as_ref()),
            ),
            ("name", recorded.name.as_deref(), self.name.as_deref()),
            (
                "parent",
                recorded.parent_id.as_ref().map(OperationId::as_str),
                self.parent_id.as_ref().map(OperationId::as_str),
            ),
        ];
        for (attribute, before, now) in pairs {
            if before.unwrap_or_default() != now.unwrap_or_default() {
                return Err(differs(attribute, text(before), text(now)));
            }
        }
        Ok(())
    }
}

fn quote(text: &str) -> String {
    format!("\"{text}\"")
}

/// An operation in one phrase, as a [`Mismatch`] shows it.
pub fn describe(
    operation_type: OperationType,
    sub_type: Option<&str>,
    name: Option<&str>,
) -> String {
    let label = sub_type.unwrap_or(operation_type.as_str());
    match name {
        Some(name) => format!("{label} \"{name}\""),
        None => format!("{label} without a name"),
    }
}

/// The handler met a recorded operation that is not the one it is about to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Where in the execution.
    pub position: Position,
    /// The wire id both share.
    pub id: OperationId,
    /// Which attribute differs.
    pub attribute: &'static str,
    /// Its recorded value.
    pub recorded: String,
    /// Its value in today's code.
    pub current: String,
    /// The recorded operation in one phrase.
    pub recorded_operation: String,
    /// Today's operation in one phrase.
    pub current_operation: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "operation {} differs from its record in its {}\n  - recorded: {} ({} {})\n  + current:  {} ({} {})\n  id {}; \
             the code took another path than the one recorded: check for a changed order of operations, a condition on \
             time or chance, or iteration over an unordered map",
            self.position,
            self.attribute,
            self.recorded_operation,
            self.attribute,
            self.recorded,
            self.current_operation,
            self.attribute,
            self.current,
            self.id,
        )
    }
}

impl core::error::Error for Mismatch {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{time::Timestamp, wire::sub_type};
    use proptest::prelude::*;

    fn operation(number: u64, status: OperationStatus) -> Operation {
        let id = Position::root().child(number).id();
        let mut operation = Operation::new(id, OperationType::Wait, status, Timestamp::default());
        operation.sub_type = Some(sub_type::WAIT.into());
        operation
    }

    fn identity(number: u64) -> Identity {
        let position = Position::root().child(number);
        Identity {
            id: position.id(),
            position,
            operation_type: OperationType::Wait,
            sub_type: sub_type::WAIT.into(),
            name: None,
            parent_id: None,
        }
    }

    #[test]
    fn an_unrecorded_operation_is_new_and_a_recorded_one_is_met() {
        let mut journal = Journal::default();
        assert_eq!(journal.meet(&identity(1)), Ok(None));
        journal.put(operation(1, OperationStatus::Started));
        assert!(journal.meet(&identity(1)).unwrap().is_some());
        assert_eq!((journal.len(), journal.pending()), (1, 1));
    }

    #[test]
    fn a_terminal_operation_never_changes_and_closes_once() {
        let mut journal = Journal::default();
        journal.put(operation(1, OperationStatus::Started));
        assert!(
            journal
                .put(operation(1, OperationStatus::Succeeded))
                .closed()
        );
        assert!(
            !journal
                .put(operation(1, OperationStatus::Succeeded))
                .closed()
        );
        let change = journal.put(operation(1, OperationStatus::Started));
        assert_eq!(change.after, OperationStatus::Succeeded);
        assert_eq!(journal.pending(), 0);
    }

    #[test]
    fn every_differing_attribute_is_named_with_both_values() {
        let check = |change: fn(&mut Identity), expected: [&str; 3]| {
            let mut journal = Journal::default();
            journal.put(operation(1, OperationStatus::Started));
            let mut current = identity(1);
            change(&mut current);
            let mismatch = journal.meet(&current).unwrap_err();
            assert_eq!(
                [mismatch.attribute, &mismatch.recorded, &mismatch.current],
                expected
            );
        };
        check(
            |it| it.operation_type = OperationType::Step,
            ["type", "WAIT", "STEP"],
        );
        check(
            |it| it.sub_type = "Nap".into(),
            ["subtype", "\"Wait\"", "\"Nap\""],
        );
        check(
            |it| it.name = Some("rest".into()),
            ["name", "none", "\"rest\""],
        );
        check(
            |it| it.parent_id = Some("p".into()),
            ["parent", "none", "\"p\""],
        );
    }

    #[test]
    fn a_mismatch_reads_as_a_diff() {
        let mut journal = Journal::default();
        let mut recorded = operation(1, OperationStatus::Started);
        recorded.name = Some("charge".into());
        journal.put(recorded);
        let mut current = identity(1);
        current.name = Some("refund".into());
        let text = journal.meet(&current).unwrap_err().to_string();
        insta::assert_snapshot!(text, @r#"
        operation 1 differs from its record in its name
          - recorded: Wait "charge" (name "charge")
          + current:  Wait "refund" (name "refund")
          id 6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b; the code took another path than the one recorded: check for a changed order of operations, a condition on time or chance, or iteration over an unordered map
        "#);
    }

    proptest! {
        /// Whatever order records arrive and are asked for in, each is found and pending is exact.
        #[test]
        fn lookups_do_not_depend_on_order(arrivals in prop::collection::vec((1u64..20, any::<bool>()), 0..60), asks in prop::collection::vec(1u64..25, 0..60)) {
            let mut journal = Journal::default();
            let mut model = alloc::collections::BTreeMap::new();
            for (number, done) in arrivals {
                let status = if done { OperationStatus::Succeeded } else { OperationStatus::Started };
                journal.put(operation(number, status));
                let known = model.entry(number).or_insert(status);
                if *known == OperationStatus::Started { *known = status; }
            }
            for number in asks {
                let found = journal.get(&Position::root().child(number).id()).map(|it| it.status);
                prop_assert_eq!(found, model.get(&number).copied());
            }
            let pending = model.values().filter(|status| !status.is_terminal()).count();
            prop_assert_eq!(journal.pending(), pending);
        }
    }
}
