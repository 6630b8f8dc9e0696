//! Who may write to one execution, in the words of the protocol and nothing else: one token counts,
//! an accepted checkpoint spends it, and the last accepted request may be repeated.

use outlast_core::wire::{CheckpointResponse, OperationStatus};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// Nothing.
    Empty,
    /// A step begins.
    Start,
    /// A step begins and ends.
    Whole,
    /// The step that began last ends.
    Finish,
    /// Something that no batch may hold.
    Invalid,
    /// The execution ends.
    Close,
}

/// What must come back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    /// The very answer that was given before.
    Again(CheckpointResponse),
    /// The token does not count.
    Stale,
    /// The batch makes no sense.
    Invalid,
    /// A new token, unless the execution is over, and these operations.
    Accepted {
        closes: bool,
        operations: Vec<(String, OperationStatus)>,
    },
}

/// The last accepted checkpoint: its token, its client token, its answer.
type Slot = (String, String, CheckpointResponse);

/// One execution.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The only token that counts.
    pub(crate) current: Option<String>,
    pub(crate) slot: Option<Slot>,
    pub(crate) closed: bool,
    /// The step that began and did not end.
    pub(crate) begun: Option<String>,
    pub(crate) steps: u32,
}

impl Model {
    /// A handler was called with this token.
    pub(crate) fn invoked(&mut self, token: &str) {
        self.current = Some(token.to_owned());
        self.slot = None;
    }

    /// The handler's call ended, or the execution did.
    pub(crate) fn ended(&mut self, closed: bool) {
        self.current = None;
        self.closed |= closed;
        if closed {
            self.slot = None;
        }
    }

    /// What a request must be answered with; what it changes is told by [`Model::accepted`].
    pub(crate) fn judge(&self, token: &str, client_token: Option<&str>, batch: Batch) -> Expected {
        if let Some((spent, client, answer)) = &self.slot
            && spent == token
            && Some(client.as_str()) == client_token
        {
            return Expected::Again(answer.clone());
        }
        if self.current.as_deref() != Some(token) {
            return Expected::Stale;
        }
        let next = format!("s{}", self.steps);
        let one = |id: String, status| vec![(id, status)];
        let operations = match batch {
            Batch::Invalid => return Expected::Invalid,
            Batch::Finish => match &self.begun {
                Some(id) => one(id.clone(), OperationStatus::Succeeded),
                // It asks for nothing then.
                None => Vec::new(),
            },
            Batch::Empty | Batch::Close => Vec::new(),
            Batch::Start => one(next, OperationStatus::Started),
            Batch::Whole => one(next, OperationStatus::Succeeded),
        };
        Expected::Accepted {
            closes: batch == Batch::Close,
            operations,
        }
    }

    /// A request was accepted with this answer.
    pub(crate) fn accepted(
        &mut self,
        token: &str,
        client_token: Option<&str>,
        batch: Batch,
        answer: &CheckpointResponse,
    ) {
        match batch {
            Batch::Start => self.begun = Some(format!("s{}", self.steps)),
            Batch::Finish => self.begun = None,
            Batch::Empty | Batch::Whole | Batch::Invalid | Batch::Close => {}
        }
        if matches!(batch, Batch::Start | Batch::Whole) {
            self.steps += 1;
        }
        self.current.clone_from(&answer.checkpoint_token);
        self.slot =
            client_token.map(|client| (token.to_owned(), client.to_owned(), answer.clone()));
        if batch == Batch::Close {
            self.ended(true);
        }
    }
}
