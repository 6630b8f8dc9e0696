//! Time as data: a millisecond timestamp and whole-second delays.
//!
//! There is no clock here. Whoever calls the core says what time it is.

pub mod iso;

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment, in milliseconds since the Unix epoch.
///
/// Serialises as an integer of milliseconds, the form that invocation inputs carry and the only one
/// that every official SDK reads. HTTP bodies use [`epoch_seconds`] instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The moment `ms` milliseconds after the epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This moment moved later by a whole number of seconds; never wraps.
    #[must_use]
    pub const fn plus_seconds(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(seconds as u64 * 1_000))
    }

    /// This moment moved later by `ms` milliseconds; never wraps.
    #[must_use]
    pub const fn plus_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment, zero if `earlier` is later.
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    /// Accepts integer milliseconds (invocation inputs) and fractional seconds (HTTP bodies).
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("milliseconds as an integer or seconds as a fraction")
            }

            fn visit_u64<E: de::Error>(self, ms: u64) -> Result<Timestamp, E> {
                Ok(Timestamp(ms))
            }

            fn visit_i64<E: de::Error>(self, ms: i64) -> Result<Timestamp, E> {
                u64::try_from(ms)
                    .map(Timestamp)
                    .map_err(|_| E::custom("timestamp before the Unix epoch"))
            }

            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Timestamp, E> {
                epoch_seconds::from_seconds(seconds)
                    .ok_or_else(|| E::custom("timestamp out of range"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The timestamp form of HTTP bodies: epoch seconds with a millisecond fraction.
pub mod epoch_seconds {
    use super::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    /// Writes a timestamp as fractional seconds.
    ///
    /// # Errors
    /// Only what the serializer itself reports.
    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(to_seconds(*at))
    }

    /// Reads fractional or whole seconds.
    ///
    /// # Errors
    /// When the value is not a number or lies before the epoch.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        from_seconds(seconds).ok_or_else(|| D::Error::custom("timestamp out of range"))
    }

    /// The same form for optional members, omitted when absent.
    pub mod option {
        use super::{Timestamp, from_seconds, to_seconds};
        use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

        /// Writes fractional seconds, or nothing.
        ///
        /// # Errors
        /// Only what the serializer itself reports.
        pub fn serialize<S: Serializer>(
            at: &Option<Timestamp>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match at {
                Some(at) => serializer.serialize_f64(to_seconds(*at)),
                None => serializer.serialize_none(),
            }
        }

        /// Reads fractional or whole seconds, or nothing.
        ///
        /// # Errors
        /// When the value is not a number or lies before the epoch.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Timestamp>, D::Error> {
            Option::<f64>::deserialize(deserializer)?
                .map(|seconds| {
                    from_seconds(seconds).ok_or_else(|| D::Error::custom("timestamp out of range"))
                })
                .transpose()
        }
    }

    /// Seconds with a millisecond fraction; exact for every date this century and far beyond.
    #[expect(
        clippy::cast_precision_loss,
        reason = "53 bits hold milliseconds for 285,000 years"
    )]
    pub fn to_seconds(at: Timestamp) -> f64 {
        at.as_millis() as f64 / 1_000.0
    }

    /// The timestamp nearest to `seconds`, or `None` when it is negative or not a number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "range checked just before"
    )]
    pub fn from_seconds(seconds: f64) -> Option<Timestamp> {
        let ms = seconds * 1_000.0 + 0.5;
        (0.0..9.0e15)
            .contains(&ms)
            .then_some(Timestamp::from_millis(ms as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn timestamps_read_back_in_both_wire_forms() {
        for ms in [0, 1, 999, 1_000, 1_767_225_600_123, 4_102_444_799_999] {
            let at = Timestamp::from_millis(ms);
            let text = serde_json::to_string(&at).unwrap();
            assert_eq!(text, ms.to_string());
            assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), at);
            let seconds = epoch_seconds::to_seconds(at);
            assert_eq!(epoch_seconds::from_seconds(seconds), Some(at));
        }
        assert_eq!(
            serde_json::from_str::<Timestamp>("1767225600.123")
                .unwrap()
                .as_millis(),
            1_767_225_600_123
        );
        assert!(serde_json::from_str::<Timestamp>("-1").is_err());
        assert!(serde_json::from_str::<Timestamp>("\"2026-01-01\"").is_err());
    }
}
