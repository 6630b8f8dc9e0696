//! Text that must not be seen: it is never printed, and compared without telling how far it agrees.

use outlast_core::token::equal;
use serde::{Deserialize, Deserializer};
use std::{fmt, sync::Arc};

/// A secret. Cheap to clone.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// This text, from now on a secret.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself, for whoever computes with it or stores it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether this is the secret.
    pub fn is(&self, text: &str) -> bool {
        equal(self.0.as_bytes(), text.as_bytes())
    }
}

impl fmt::Debug for Secret {
    /// Never shows the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed_and_only_itself() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?}"), "Secret");
        assert!(secret.is("hunter2"));
        assert!(!secret.is("hunter") && !secret.is("hunter22") && !secret.is("hunter3"));
    }
}
