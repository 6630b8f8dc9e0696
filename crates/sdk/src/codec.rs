//! How values become payload text and come back.
//!
//! The default is JSON, straight through serde. A [`Codec`] replaces it, for one operation or for a
//! whole function: encryption, compression, another format. It works on JSON values so that one
//! codec serves every type (see ADR 0004).

use crate::error::BoxError;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{any::TypeId, sync::Arc};

/// Turns values into payload text and back.
///
/// What it writes is stored for as long as the execution lives, so it must be able to read its own
/// older output. It must not depend on anything but its arguments.
pub trait Codec: Send + Sync + 'static {
    /// Writes a value.
    ///
    /// # Errors
    /// [`CodecError`]; see its constructors for what each does to the execution.
    fn encode(&self, value: Value, place: &Place<'_>) -> Result<String, CodecError>;

    /// Reads a value that this codec wrote.
    ///
    /// # Errors
    /// [`CodecError`]; see its constructors for what each does to the execution.
    fn decode(&self, text: &str, place: &Place<'_>) -> Result<Value, CodecError>;
}

/// Whose value a codec is working on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Place<'a> {
    /// The execution.
    pub execution_arn: &'a str,
    /// The operation's wire id.
    pub operation_id: &'a str,
}

impl<'a> Place<'a> {
    pub(crate) fn new(execution_arn: &'a str, operation_id: &'a str) -> Self {
        Self {
            execution_arn,
            operation_id,
        }
    }
}

/// Why a value could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CodecError {
    message: String,
    pub(crate) retryable: bool,
    #[source]
    source: Option<BoxError>,
}

impl CodecError {
    /// The value itself is the problem: the operation fails for good and its error can be handled.
    pub fn permanent(error: impl Into<BoxError>) -> Self {
        let source = error.into();
        Self {
            message: source.to_string(),
            retryable: false,
            source: Some(source),
        }
    }

    /// Something outside is the problem (a key service, a store): the invocation fails and is
    /// repeated.
    pub fn retryable(error: impl Into<BoxError>) -> Self {
        Self {
            retryable: true,
            ..Self::permanent(error)
        }
    }
}

/// A codec from two functions over JSON values.
///
/// ```
/// use outlast::codec;
/// use serde_json::Value;
///
/// // Text is stored in upper case.
/// let shouting = codec::from_fns(
///     |value| Ok(value.as_str().unwrap_or_default().to_uppercase()),
///     |text| Ok(Value::from(text)),
/// );
/// # let _ = shouting;
/// ```
pub fn from_fns<E, D>(encode: E, decode: D) -> impl Codec
where
    E: Fn(Value) -> Result<String, BoxError> + Send + Sync + 'static,
    D: Fn(&str) -> Result<Value, BoxError> + Send + Sync + 'static,
{
    struct FromFns<E, D>(E, D);
    impl<E, D> Codec for FromFns<E, D>
    where
        E: Fn(Value) -> Result<String, BoxError> + Send + Sync + 'static,
        D: Fn(&str) -> Result<Value, BoxError> + Send + Sync + 'static,
    {
        fn encode(&self, value: Value, _: &Place<'_>) -> Result<String, CodecError> {
            (self.0)(value).map_err(CodecError::permanent)
        }

        fn decode(&self, text: &str, _: &Place<'_>) -> Result<Value, CodecError> {
            (self.1)(text).map_err(CodecError::permanent)
        }
    }
    FromFns(encode, decode)
}

/// The codec in force for one operation.
#[derive(Clone, Default)]
pub(crate) struct Coding(pub(crate) Option<Arc<dyn Codec>>);

impl std::fmt::Debug for Coding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "custom codec"
        } else {
            "JSON"
        })
    }
}

impl Coding {
    /// This coding, or `default` where it says nothing.
    pub(crate) fn or(&self, default: &Self) -> Self {
        Self(self.0.clone().or_else(|| default.0.clone()))
    }

    pub(crate) fn encode<T: Serialize + ?Sized>(
        &self,
        value: &T,
        place: &Place<'_>,
    ) -> Result<String, CodecError> {
        match &self.0 {
            None => serde_json::to_string(value).map_err(CodecError::permanent),
            Some(codec) => codec.encode(
                serde_json::to_value(value).map_err(CodecError::permanent)?,
                place,
            ),
        }
    }

    /// Reads a value; an absent payload is the absent value (unit, `None`, null).
    pub(crate) fn decode<T: DeserializeOwned>(
        &self,
        text: Option<&str>,
        place: &Place<'_>,
    ) -> Result<T, CodecError> {
        match (&self.0, text) {
            (None, text) => {
                let text = text.filter(|text| !text.is_empty()).unwrap_or("null");
                serde_json::from_str(text).map_err(CodecError::permanent)
            }
            (Some(_), None) => T::deserialize(Value::Null).map_err(CodecError::permanent),
            (Some(codec), Some(text)) => {
                T::deserialize(codec.decode(text, place)?).map_err(CodecError::permanent)
            }
        }
    }

    /// Reads what the outside sent: text stays text (`String`, `Option<String>`), any other type is
    /// read as JSON unless a codec says otherwise.
    pub(crate) fn decode_external<T: DeserializeOwned + 'static>(
        &self,
        text: Option<&str>,
        place: &Place<'_>,
    ) -> Result<T, CodecError> {
        let is_text =
            [TypeId::of::<String>(), TypeId::of::<Option<String>>()].contains(&TypeId::of::<T>());
        match text {
            Some(text) if self.0.is_none() && is_text => {
                T::deserialize(Value::from(text)).map_err(CodecError::permanent)
            }
            _ => self.decode(text, place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'static> = Place {
        execution_arn: "arn",
        operation_id: "1",
    };

    #[test]
    fn absent_payloads_are_absent_values() {
        let json = Coding::default();
        json.decode::<()>(None, &PLACE).unwrap();
        assert_eq!(json.decode::<Option<u8>>(None, &PLACE).unwrap(), None);
        assert!(json.decode::<u8>(None, &PLACE).is_err());
    }

    #[test]
    fn text_from_outside_is_text_and_everything_else_is_json() {
        let json = Coding::default();
        assert_eq!(
            json.decode_external::<String>(Some("yes"), &PLACE).unwrap(),
            "yes"
        );
        assert_eq!(
            json.decode_external::<Option<String>>(Some("7"), &PLACE)
                .unwrap(),
            Some("7".to_owned())
        );
        assert_eq!(
            json.decode_external::<Option<String>>(None, &PLACE)
                .unwrap(),
            None
        );
        assert_eq!(json.decode_external::<u8>(Some("7"), &PLACE).unwrap(), 7);
        assert!(json.decode_external::<u8>(Some("seven"), &PLACE).is_err());
    }

    #[test]
    fn a_custom_codec_is_used_both_ways() {
        let codec = from_fns(
            |value| Ok(format!("<{value}>")),
            |text| Ok(serde_json::from_str(text.trim_matches(['<', '>']))?),
        );
        let coding = Coding(Some(Arc::new(codec)));
        assert_eq!(coding.encode(&5, &PLACE).unwrap(), "<5>");
        assert_eq!(coding.decode::<u8>(Some("<5>"), &PLACE).unwrap(), 5);
    }
}
