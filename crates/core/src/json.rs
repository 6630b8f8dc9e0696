//! Reads JSON of languages whose texts are UTF-16, where a text may end in half a character.
//!
//! JavaScript and Python write such a half as an escape of its own, and Rust has no text for it. It
//! is read as U+FFFD: an error message that was cut within a character must not be the reason why
//! an execution cannot go on. What is not JSON otherwise is still refused.

use alloc::vec::Vec;
use serde::de::DeserializeOwned;

/// What stands for half a character.
const REPLACEMENT: &[u8; 4] = b"fffd";
/// The length of an escape like `\u00e9`.
const ESCAPE_BYTES: usize = 6;

/// Reads JSON.
///
/// # Errors
/// When it is not JSON, or not of this type.
pub fn read<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(json).or_else(|error| match mended(json) {
        Some(mended) => serde_json::from_slice(&mended),
        None => Err(error),
    })
}

/// The same JSON with whole characters only, if it has halves.
fn mended(json: &[u8]) -> Option<Vec<u8>> {
    let mut mended: Option<Vec<u8>> = None;
    let mut at = 0;
    while let Some(rest) = json.get(at..).filter(|rest| !rest.is_empty()) {
        at += match (rest.first(), escaped(rest)) {
            (Some(b'\\'), Some(0xd800..0xdc00)) if is_low(rest.get(ESCAPE_BYTES..)) => {
                2 * ESCAPE_BYTES
            }
            (Some(b'\\'), Some(0xd800..0xe000)) => {
                let copy = mended.get_or_insert_with(|| json.to_vec());
                if let Some(digits) = copy.get_mut(at + 2..at + ESCAPE_BYTES) {
                    digits.copy_from_slice(REPLACEMENT);
                }
                ESCAPE_BYTES
            }
            // The character after it is no beginning of an escape.
            (Some(b'\\'), _) => 2,
            _ => 1,
        };
    }
    mended
}

/// The number in an escape at the beginning, if one is there.
fn escaped(json: &[u8]) -> Option<u32> {
    let digits = json.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_low(json: Option<&[u8]>) -> bool {
    json.and_then(escaped)
        .is_some_and(|number| (0xdc00..0xe000).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn half_a_character_is_read_as_a_replacement_and_whole_ones_as_they_are() {
        let cases = [
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""cut \ud83d""#, "cut \u{fffd}"),
            (r#""\ude00 cut""#, "\u{fffd} cut"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\uD83D\n\uDE00""#, "\u{fffd}\n\u{fffd}"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{fffd}"),
            (r#""\\\ud83d""#, "\\\u{fffd}"),
            (r#""é \u00e9 \ud800""#, "é é \u{fffd}"),
        ];
        for (json, text) in cases {
            assert_eq!(read::<String>(json.as_bytes()).unwrap(), text, "{json}");
        }
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for json in [
            "",
            r#"""#,
            r#""\ud83"#,
            r#""\ud83""#,
            r#""\ud83d"#,
            r#""\u+123""#,
            "\\",
            "{",
        ] {
            read::<serde_json::Value>(json.as_bytes()).unwrap_err();
        }
        // JSON, but of another type.
        read::<u8>(br#""\ud83d""#).unwrap_err();
    }
}
