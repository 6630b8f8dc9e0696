//! What a server tells its operator while it runs: lines on stderr, as text or as JSON.
//!
//! A thread of its own writes, so that whoever reads stderr slowly holds up nobody; what it cannot
//! keep up with is left out, and said to be. Lines of other crates are left out below a warning.

use crate::arguments::LogLevel;
use outlast_core::time::{Timestamp, iso};
use outlast_engine::clock::{Clock as _, WallClock};
use serde_json::{Map, Value};
use std::{
    fmt::{self, Write as _},
    io::Write as _,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};

/// Lines that wait to be written, at most.
const WAITING_MAX: usize = 10_000;

/// Writes events from now on, until the program ends.
///
/// # Errors
/// When the thread that writes cannot be started.
pub(crate) fn begin(level: LogLevel, json: bool) -> anyhow::Result<()> {
    let most = match level {
        LogLevel::Off => return Ok(()),
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    let (lines, waiting) = sync_channel(WAITING_MAX);
    thread::Builder::new()
        .name("logging".to_owned())
        .spawn(move || write(&waiting))?;
    let logging = Logging {
        most,
        json,
        lines,
        left_out: AtomicU64::new(0),
    };
    // Whoever has set one before wants it.
    let _ = tracing::subscriber::set_global_default(logging);
    Ok(())
}

fn write(waiting: &Receiver<String>) {
    while let Ok(line) = waiting.recv() {
        // Nobody listens any more: that is no reason to stop.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

struct Logging {
    most: Level,
    json: bool,
    lines: SyncSender<String>,
    left_out: AtomicU64,
}

impl Logging {
    fn send(&self, line: String) {
        if self.lines.try_send(line).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Subscriber for Logging {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let own = metadata.target().starts_with("outlast");
        let most = if own {
            self.most
        } else {
            self.most.min(Level::WARN)
        };
        metadata.is_event() && *metadata.level() <= most
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most.into())
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        // Spans are not shown, and need not be told apart.
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        let mut fields = Fields::default();
        event.record(&mut fields);
        if left_out > 0 {
            let left_out = Value::from(left_out);
            fields
                .others
                .insert("lines_left_out_before".to_owned(), left_out);
        }
        let metadata = event.metadata();
        let (level, target) = (metadata.level().as_str(), metadata.target());
        let at = WallClock.now();
        self.send(match self.json {
            true => fields.json(at, level, target),
            false => fields.text(at, level, target),
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// What an event says.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => drop(self.others.insert(name.to_owned(), text.into())),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            name => drop(self.others.insert(name.to_owned(), value.into())),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.others.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.others.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl Fields {
    fn json(self, at: Timestamp, level: &str, target: &str) -> String {
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), moment(at).into());
        line.insert("level".to_owned(), level.into());
        line.insert("target".to_owned(), target.into());
        line.insert("message".to_owned(), self.message.into());
        for (name, value) in self.others {
            line.entry(name).or_insert(value);
        }
        Value::Object(line).to_string()
    }

    fn text(self, at: Timestamp, level: &str, target: &str) -> String {
        let mut line = format!("{} {level:5} {target}: ", moment(at));
        push_one_line(&mut line, &self.message);
        for (name, value) in self.others {
            // Only what would be read as something else needs quotes.
            let _ = match value.as_str().filter(|text| is_plain(text)) {
                Some(text) => write!(line, " {name}={text}"),
                None => write!(line, " {name}={value}"),
            };
        }
        line
    }
}

/// Whether a text stays one word of one line, whoever reads it.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=';
    !text.is_empty() && text.chars().all(plain)
}

fn push_one_line(line: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
}

/// A moment to the millisecond.
fn moment(at: Timestamp) -> String {
    let seconds = iso::utc(at);
    let seconds = seconds.trim_end_matches('Z');
    format!("{seconds}.{:03}Z", at.as_millis() % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        let mut others = Map::new();
        others.insert("function".to_owned(), "order".into());
        others.insert("how".to_owned(), "a\nb".into());
        others.insert("status".to_owned(), 500.into());
        Fields {
            message: "it\nfailed".to_owned(),
            others,
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let at = Timestamp::from_millis(1_767_225_600_007);
        let text = fields().text(at, "WARN", "outlast_server::api");
        assert_eq!(
            text,
            "2026-01-01T00:00:00.007Z WARN  outlast_server::api: it\\nfailed \
             function=order how=\"a\\nb\" status=500"
        );
        let json = fields().json(at, "WARN", "t");
        let json: Value = serde_json::from_str(&json).unwrap();
        let expected = serde_json::json!({
            "timestamp": "2026-01-01T00:00:00.007Z", "level": "WARN", "target": "t",
            "message": "it\nfailed", "function": "order", "how": "a\nb", "status": 500,
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn what_is_shown_depends_on_its_level_and_on_whose_it_is() {
        let (lines, shown) = sync_channel(WAITING_MAX);
        let logging = Logging {
            most: Level::INFO,
            json: false,
            lines,
            left_out: AtomicU64::new(0),
        };
        tracing::subscriber::with_default(logging, || {
            tracing::info!(target: "outlast_server", "a");
            tracing::debug!(target: "outlast_server", "b");
            tracing::info!(target: "hyper", "c");
            tracing::warn!(target: "hyper", "d");
        });
        let shown: Vec<String> = shown.into_iter().collect();
        let ends: Vec<&str> = shown
            .iter()
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        assert_eq!(ends, ["a", "d"]);
    }
}
