//! What a process prints, cut into lines.

use outlast_core::arn::Function;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// A longer line is handed over in pieces, so that a process cannot fill the memory.
const LINE_BYTES_MAX: usize = 256 * 1_024;

/// Where a line was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// A line that a process printed.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The function version it runs.
    pub function: &'a Function,
    /// The system's id of the process.
    pub process: u32,
    /// Where it was printed.
    pub stream: Stream,
    /// The line, without its end. Bytes that are not UTF-8 are replaced.
    pub text: &'a str,
}

/// Gets what processes print. It is called from the task that reads, so it must not block.
pub trait LineSink: Send + Sync + 'static {
    /// A process printed a line.
    fn line(&self, line: Line<'_>);

    /// A process ended without having been asked to, or could not be started.
    fn ended(&self, _function: &Function, _how: &str) {}
}

/// Hands on every line until the stream ends or breaks.
pub async fn lines(stream: Option<impl AsyncRead + Unpin>, mut hand: impl FnMut(&str)) {
    let Some(stream) = stream else { return };
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(read) = reader.fill_buf().await {
        if read.is_empty() {
            break;
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        let taken = end.unwrap_or(read.len()).min(room);
        line.extend_from_slice(read.get(..taken).unwrap_or_default());
        let ended = end == Some(taken);
        reader.consume(taken + usize::from(ended));
        if ended || line.len() >= LINE_BYTES_MAX {
            hand(&text(&line));
            line.clear();
        }
    }
    if !line.is_empty() {
        hand(&text(&line));
    }
}

fn text(line: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn cut(text: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        lines(Some(text), |line| found.push(line.to_owned())).await;
        found
    }

    #[tokio::test]
    async fn output_is_cut_into_lines() {
        assert!(cut(b"").await.is_empty());
        assert_eq!(
            cut(b"one\ntwo\r\n\nthree").await,
            ["one", "two", "", "three"]
        );
        assert_eq!(cut(b"\xffa\n").await, ["\u{fffd}a"]);
    }

    #[tokio::test]
    async fn a_line_at_the_bound_is_whole_and_a_longer_one_comes_in_pieces() {
        for (bytes, pieces) in [
            (LINE_BYTES_MAX - 1, vec![LINE_BYTES_MAX - 1]),
            (LINE_BYTES_MAX, vec![LINE_BYTES_MAX]),
            (LINE_BYTES_MAX + 1, vec![LINE_BYTES_MAX, 1]),
        ] {
            let lengths: Vec<usize> = cut(&vec![b'a'; bytes])
                .await
                .iter()
                .map(String::len)
                .collect();
            assert_eq!(lengths, pieces);
        }
    }
}
