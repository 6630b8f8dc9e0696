//! Names: executions, functions, and the ways a caller may write them.
//!
//! Purely syntactic. Whether a function exists is the caller's to find out.

use crate::{
    error::{Code, Rejection},
    id::{digest128, uuid},
    limits::{
        ARN_LENGTH_MAX, EXECUTION_NAME_LENGTH_MAX, FUNCTION_REFERENCE_LENGTH_MAX,
        TENANT_ID_LENGTH_MAX,
    },
    time::Timestamp,
    token::unhex,
};
use alloc::{
    format,
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};
use core::{fmt, str::FromStr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// The version of a function that can still be changed: whatever was deployed last.
pub const LATEST: &str = "$LATEST";

/// The id of an execution: the last part of its ARN and the id of its EXECUTION operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(u128);

impl ExecutionId {
    /// The id with these bits (six of them are fixed by the UUID form).
    pub fn from_bits(bits: u128) -> Self {
        const FIXED: u128 = 0xf << 76 | 0x3 << 62;
        const VERSION_AND_VARIANT: u128 = 0x8 << 76 | 0x2 << 62;
        Self(bits & !FIXED | VERSION_AND_VARIANT)
    }

    /// The id of an execution that starts at `at`, with chance from `random`. Ids are ordered by
    /// start, so that a store writes those of one time to one place.
    pub fn new(at: Timestamp, random: u128) -> Self {
        const CHANCE_BITS: u32 = 80;
        let chance = random & ((1 << CHANCE_BITS) - 1);
        Self::from_bits(u128::from(at.as_millis()) << CHANCE_BITS | chance)
    }

    /// The id of the one child that `operation` of the execution `parent` may have.
    pub fn of_child(parent: &ExecutionArn, operation: &str) -> Self {
        let parent = parent.to_string();
        Self::from_bits(digest128(&[
            b"child",
            parent.as_bytes(),
            operation.as_bytes(),
        ]))
    }

    /// The bits of the id.
    pub const fn bits(self) -> u128 {
        self.0
    }

    fn from_uuid_text(text: &str) -> Option<Self> {
        let digits: String = text.split('-').collect();
        let bytes: [u8; 16] = unhex(&digits)?.try_into().ok()?;
        let bits = u128::from_be_bytes(bytes);
        (uuid(bits) == text).then_some(Self(bits))
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&uuid(self.0))
    }
}

/// One version of one function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// Partition, `aws` unless told otherwise.
    pub partition: Arc<str>,
    /// Region.
    pub region: Arc<str>,
    /// Account, twelve digits.
    pub account: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Resolved version (`$LATEST` or a number), never an alias.
    pub version: Arc<str>,
}

impl fmt::Display for Function {
    /// The qualified ARN.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "arn:{}:lambda:{}:{}:function:{}:{}",
            self.partition, self.region, self.account, self.name, self.version
        )
    }
}

impl FromStr for Function {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        let parts: Vec<&str> = text.split(':').collect();
        let [
            "arn",
            partition,
            "lambda",
            region,
            account,
            "function",
            name,
            version,
        ] = parts.as_slice()
        else {
            return Err(malformed("function ARN", text));
        };
        let function = Self {
            partition: (*partition).into(),
            region: (*region).into(),
            account: (*account).into(),
            name: (*name).into(),
            version: (*version).into(),
        };
        let legal = is_word(partition, b"-")
            && is_word(region, b"-")
            && is_account(account)
            && is_word(name, b"-_")
            && is_version(version);
        legal
            .then_some(function)
            .ok_or_else(|| malformed("function ARN", text))
    }
}

/// The ARN of an execution.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionArn {
    /// The function version it is pinned to.
    pub function: Function,
    /// The name its starter chose, or a generated one.
    pub name: Arc<str>,
    /// Its id.
    pub id: Arc<str>,
}

impl ExecutionArn {
    /// The ARN of the execution with this id and name.
    pub fn new(function: Function, name: Arc<str>, id: ExecutionId) -> Self {
        Self {
            function,
            name,
            id: id.to_string().into(),
        }
    }

    /// The ARN of the one child that `operation` of `parent` may have. Its name is generated, so it
    /// never collides with one that somebody chose.
    pub fn of_child(parent: &Self, operation: &str, function: Function) -> Self {
        let id = ExecutionId::of_child(parent, operation);
        let name = uuid(digest128(&[b"name", &id.bits().to_be_bytes()]));
        Self::new(function, name.into(), id)
    }

    /// The id, if it is one that this engine can have given out.
    pub fn execution_id(&self) -> Option<ExecutionId> {
        ExecutionId::from_uuid_text(&self.id)
    }
}

impl fmt::Display for ExecutionArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/durable-execution/{}/{}",
            self.function, self.name, self.id
        )
    }
}

impl FromStr for ExecutionArn {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        let parts: Vec<&str> = text.split('/').collect();
        let [function, "durable-execution", name, id] = parts.as_slice() else {
            return Err(malformed("execution ARN", text));
        };
        if text.len() > ARN_LENGTH_MAX || !is_word(name, b"-_") || !is_word(id, b"-_") {
            return Err(malformed("execution ARN", text));
        }
        Ok(Self {
            function: function.parse()?,
            name: (*name).into(),
            id: (*id).into(),
        })
    }
}

impl Serialize for ExecutionArn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ExecutionArn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// A function as a caller writes it: a name, a partial ARN or an ARN, with or without qualifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionReference {
    /// Region, if written.
    pub region: Option<String>,
    /// Account, if written.
    pub account: Option<String>,
    /// Name.
    pub name: String,
    /// Version or alias, if written.
    pub qualifier: Option<String>,
}

impl fmt::Display for FunctionReference {
    /// As much of an ARN as is known; reads back as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.region, &self.account) {
            (Some(region), Some(account)) => {
                write!(f, "arn:aws:lambda:{region}:{account}:function:")?;
            }
            (None, Some(account)) => write!(f, "{account}:function:")?,
            (_, None) => {}
        }
        f.write_str(&self.name)?;
        match &self.qualifier {
            Some(qualifier) => write!(f, ":{qualifier}"),
            None => Ok(()),
        }
    }
}

impl FromStr for FunctionReference {
    type Err = Rejection;

    fn from_str(text: &str) -> Result<Self, Rejection> {
        if text.is_empty() || text.len() > FUNCTION_REFERENCE_LENGTH_MAX {
            return Err(malformed("function name", text));
        }
        let parts: Vec<&str> = text.split(':').collect();
        let (region, account, rest) = match parts.as_slice() {
            [
                "arn",
                partition,
                "lambda",
                region,
                account,
                "function",
                rest @ ..,
            ] if is_word(partition, b"-") && is_word(region, b"-") => {
                (Some(*region), Some(*account), rest)
            }
            [account, "function", rest @ ..] => (None, Some(*account), rest),
            ["function", rest @ ..] => (None, None, rest),
            rest => (None, None, rest),
        };
        let (name, qualifier) = match rest {
            [name] => (*name, None),
            [name, qualifier] => (*name, Some(*qualifier)),
            _ => return Err(malformed("function name", text)),
        };
        let legal = is_word(name, b"-_.")
            && account.is_none_or(is_account)
            && qualifier.is_none_or(|text| is_version(text) || is_word(text, b"-_"));
        if !legal {
            return Err(malformed("function name", text));
        }
        Ok(Self {
            region: region.map(String::from),
            account: account.map(String::from),
            name: name.into(),
            qualifier: qualifier.map(String::from),
        })
    }
}

/// Checks a name a caller chose for an execution.
///
/// # Errors
/// When it is empty, too long or uses other characters than letters, digits, `-` and `_`.
pub fn check_execution_name(name: &str) -> Result<(), Rejection> {
    (name.len() <= EXECUTION_NAME_LENGTH_MAX && is_word(name, b"-_"))
        .then_some(())
        .ok_or_else(|| malformed("execution name", name))
}

/// Checks a tenant id.
///
/// # Errors
/// When it is empty, too long or uses characters the service does not allow.
pub fn check_tenant(tenant: &str) -> Result<(), Rejection> {
    (tenant.len() <= TENANT_ID_LENGTH_MAX && is_word(tenant, b"._:/=+-@ "))
        .then_some(())
        .ok_or_else(|| malformed("tenant id", tenant))
}

/// Whether `text` is one or more letters, digits or bytes of `more`.
pub(crate) fn is_word(text: &str, more: &[u8]) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || more.contains(&byte))
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_version(text: &str) -> bool {
    matches!(text, LATEST | "$LATEST.PUBLISHED")
        || !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn malformed(what: &str, text: &str) -> Rejection {
    // The text comes from outside and may be of any length: an answer repeats only its beginning.
    let shown: String = text.chars().take(80).collect();
    Rejection::new(
        Code::InvalidParameterValue,
        format!("invalid {what}: \"{shown}\""),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTION: &str = "arn:aws:lambda:eu-west-1:123456789012:function:order:$LATEST";

    #[test]
    fn ids_are_ordered_by_start_and_differ_by_chance() {
        let at = Timestamp::from_millis;
        let id = |ms, random| ExecutionId::new(at(ms), random);
        assert!(id(1_767_225_600_000, u128::MAX) < id(1_767_225_600_001, 0));
        assert_ne!(id(5, 1), id(5, 2));
        assert!(id(u64::MAX, 0).to_string().len() == 36);
    }

    #[test]
    fn execution_arns_read_back() {
        let id = ExecutionId::from_bits(42);
        let arn = ExecutionArn::new(FUNCTION.parse().unwrap(), "run-1".into(), id);
        let text = arn.to_string();
        assert_eq!(
            text,
            "arn:aws:lambda:eu-west-1:123456789012:function:order:$LATEST/durable-execution/run-1/\
             00000000-0000-8000-8000-00000000002a"
        );
        let back: ExecutionArn = text.parse().unwrap();
        assert_eq!(back, arn);
        assert_eq!(back.execution_id(), Some(id));
        let json = serde_json::to_string(&arn).unwrap();
        assert_eq!(serde_json::from_str::<ExecutionArn>(&json).unwrap(), arn);
    }

    #[test]
    fn malformed_arns_are_refused() {
        let tail = "/durable-execution/n/i";
        for head in [
            "arn:aws:lambda:r:12345678901:function:f:1",
            "arn:aws:lambda:r:123456789012:function:f",
            "arn:aws:lambda:r:123456789012:function:f.g:1",
            "arn:aws:lambda:r:123456789012:function:f:alias",
            "arn:aws:s3:r:123456789012:function:f:1",
        ] {
            assert!(
                format!("{head}{tail}").parse::<ExecutionArn>().is_err(),
                "{head}"
            );
        }
        let legal = "arn:aws:lambda:r:123456789012:function:f:1";
        for tail in [
            "",
            "/durable-execution/n",
            "/durable-execution/n/",
            "/other/n/i",
            "/durable-execution/n/i/j",
        ] {
            assert!(
                format!("{legal}{tail}").parse::<ExecutionArn>().is_err(),
                "{tail}"
            );
        }
        assert!(format!("{legal}{tail}").parse::<ExecutionArn>().is_ok());
        let room = ARN_LENGTH_MAX - legal.len() - "/durable-execution//i".len();
        let long = |extra: usize| {
            let name = "n".repeat(room + extra);
            format!("{legal}/durable-execution/{name}/i").parse::<ExecutionArn>()
        };
        assert!(long(0).is_ok() && long(1).is_err());
    }

    #[test]
    fn ids_of_other_engines_parse_but_are_not_ours() {
        let text = format!("{FUNCTION}/durable-execution/n/some_id");
        assert_eq!(text.parse::<ExecutionArn>().unwrap().execution_id(), None);
    }

    #[test]
    fn ids_agree_with_their_uuid_text() {
        for bits in [0, 1, u128::MAX, 0x1234_5678_9abc_def0_1234_5678_9abc_def0] {
            let id = ExecutionId::from_bits(bits);
            assert_eq!(id.to_string(), uuid(bits));
            assert_eq!(ExecutionId::from_uuid_text(&id.to_string()), Some(id));
        }
    }

    #[test]
    fn a_child_id_depends_on_parent_and_operation() {
        let parent = |name: &str| {
            ExecutionArn::new(
                FUNCTION.parse().unwrap(),
                name.into(),
                ExecutionId::from_bits(1),
            )
        };
        let child = ExecutionId::of_child(&parent("a"), "1");
        assert_eq!(child, ExecutionId::of_child(&parent("a"), "1"));
        assert_ne!(child, ExecutionId::of_child(&parent("a"), "2"));
        assert_ne!(child, ExecutionId::of_child(&parent("b"), "1"));
    }

    #[test]
    fn functions_may_be_written_in_every_form_of_the_service() {
        let check =
            |text: &str, region: Option<&str>, account: Option<&str>, qualifier: Option<&str>| {
                let read: FunctionReference = text.parse().unwrap();
                assert_eq!(read.region.as_deref(), region, "{text}");
                assert_eq!(read.account.as_deref(), account, "{text}");
                assert_eq!(read.name, "f-1_a", "{text}");
                assert_eq!(read.qualifier.as_deref(), qualifier, "{text}");
                assert_eq!(read.to_string().parse(), Ok(read), "{text}");
            };
        check("f-1_a", None, None, None);
        check("f-1_a:$LATEST", None, None, Some("$LATEST"));
        check("function:f-1_a:live", None, None, Some("live"));
        check(
            "123456789012:function:f-1_a",
            None,
            Some("123456789012"),
            None,
        );
        check(
            "123456789012:function:f-1_a:7",
            None,
            Some("123456789012"),
            Some("7"),
        );
        let arn = "arn:aws:lambda:us-east-1:123456789012:function:f-1_a";
        check(arn, Some("us-east-1"), Some("123456789012"), None);
        check(
            &format!("{arn}:7"),
            Some("us-east-1"),
            Some("123456789012"),
            Some("7"),
        );
        for text in [
            "",
            "a b",
            "f:",
            ":f",
            "f:1:2",
            "12:function:f",
            "arn:aws:sqs:r:123456789012:function:f",
        ] {
            assert!(text.parse::<FunctionReference>().is_err(), "{text}");
        }
        let long = |length: usize| "f".repeat(length).parse::<FunctionReference>();
        assert!(long(FUNCTION_REFERENCE_LENGTH_MAX - 1).is_ok());
        assert!(long(FUNCTION_REFERENCE_LENGTH_MAX).is_ok());
        assert!(long(FUNCTION_REFERENCE_LENGTH_MAX + 1).is_err());
    }

    #[test]
    fn names_and_tenants_keep_their_limits() {
        let name = |length: usize| check_execution_name(&"n".repeat(length));
        assert!(name(0).is_err() && name(1).is_ok());
        assert!(name(63).is_ok() && name(64).is_ok() && name(65).is_err());
        assert!(check_execution_name("a.b").is_err() && check_execution_name("a-B_9").is_ok());
        let tenant = |length: usize| check_tenant(&"t".repeat(length));
        assert!(tenant(0).is_err() && tenant(255).is_ok());
        assert!(tenant(256).is_ok() && tenant(257).is_err());
        assert!(check_tenant("a/b=c").is_ok() && check_tenant("a\n").is_err());
    }
}
