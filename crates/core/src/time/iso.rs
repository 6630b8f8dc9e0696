//! Moments as people and query strings write them: ISO 8601, UTC unless an offset is given.
//!
//! Only the forms that the service's clients send. No time zones by name, no leap seconds.

use super::{Timestamp, epoch_seconds};
use alloc::{format, string::String};

/// The moment to the second, such as `2026-01-01T00:00:00Z`.
pub fn utc(at: Timestamp) -> String {
    let seconds = at.as_millis() / 1_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days, on a calendar whose year begins in March so that leap days come last.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Reads a moment: a date, a date and time with optional fraction and offset, or epoch seconds.
/// None if it is none of these, or before 1970.
pub fn parse(text: &str) -> Option<Timestamp> {
    if let Some(date) = text.get(..10).filter(|date| date.contains('-')) {
        let days = days(date)?;
        let rest = text.get(10..)?;
        let (ms, offset_minutes) = match rest {
            "" => (0, 0),
            time => clock(time.strip_prefix(['T', 't', ' '])?)?,
        };
        let ms = days * 86_400_000 + ms - offset_minutes * 60_000;
        return u64::try_from(ms).ok().map(Timestamp::from_millis);
    }
    let digits = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    let seconds: f64 = Some(text).filter(|text| digits(text))?.parse().ok()?;
    epoch_seconds::from_seconds(seconds)
}

/// Days since the epoch of a date such as `2026-01-01`.
fn days(date: &str) -> Option<i64> {
    let (year, rest) = (date.get(..4)?, date.get(4..)?.strip_prefix('-')?);
    let (month, day) = rest.split_once('-')?;
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) || year < 1970 {
        return None;
    }
    // The calendar of `utc`, backwards.
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Milliseconds of the day and minutes of offset, of a time such as `12:30:00.5+02:00`.
fn clock(text: &str) -> Option<(i64, i64)> {
    let (time, offset) = match text.find(['Z', 'z', '+', '-']) {
        None => (text, 0),
        Some(at) => (text.get(..at)?, offset(text.get(at..)?)?),
    };
    let (time, ms) = match time.split_once('.') {
        None => (time, 0),
        Some((time, fraction)) => (time, millis(fraction)?),
    };
    let mut parts = time.split(':');
    let hour = number(parts.next()?, 2)?;
    let minute = number(parts.next()?, 2)?;
    let second = parts.next().map_or(Some(0), |second| number(second, 2))?;
    let legal = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    legal.then_some((((hour * 60 + minute) * 60 + second) * 1_000 + ms, offset))
}

/// Minutes of an offset such as `Z` or `-05:30`.
fn offset(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let (hour, minute) = match rest.split_once(':') {
        Some(parts) => parts,
        None => (rest.get(..2)?, rest.get(2..)?),
    };
    let (hour, minute) = (number(hour, 2)?, number(minute, 2)?);
    (hour < 24 && minute < 60).then_some(sign * (hour * 60 + minute))
}

/// The first three digits of a fraction of a second; the others are dropped.
fn millis(fraction: &str) -> Option<i64> {
    let legal = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let digits = fraction.bytes().chain(*b"00").take(3);
    legal.then(|| digits.fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0')))
}

/// A number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<i64> {
    let legal = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    legal.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc_and_read_back() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_600, "2026-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            let at = Timestamp::from_millis(seconds * 1_000);
            assert_eq!(utc(at), text);
            assert_eq!(parse(text), Some(at));
        }
    }

    #[test]
    fn every_day_of_four_centuries_reads_back() {
        for day in 0..146_097 {
            let at = Timestamp::from_millis(day * 86_400_000);
            assert_eq!(parse(&utc(at)), Some(at));
        }
    }

    #[test]
    fn the_forms_that_clients_send_are_read() {
        for (text, ms) in [
            ("2026-01-01", 1_767_225_600_000),
            ("2026-01-01T00:00:00Z", 1_767_225_600_000),
            ("2026-01-01T00:00:00.1Z", 1_767_225_600_100),
            ("2026-01-01T00:00:00.123456Z", 1_767_225_600_123),
            ("2026-01-01T02:30:00+02:30", 1_767_225_600_000),
            ("2025-12-31T19:00:00-0500", 1_767_225_600_000),
            ("2026-01-01 00:00", 1_767_225_600_000),
            ("1767225600", 1_767_225_600_000),
            ("1767225600.5", 1_767_225_600_500),
        ] {
            assert_eq!(parse(text).map(Timestamp::as_millis), Some(ms), "{text}");
        }
    }

    #[test]
    fn anything_else_is_not_a_moment() {
        for text in [
            "",
            "now",
            "-5",
            "1e9",
            ".",
            "2026-13-01",
            "2026-02-29",
            "2026-04-31",
            "2026-01-00",
            "1969-12-31",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2",
            "2026-01-01T00",
            "2026-01-01x",
            "1970-01-01T00:00:00+00:01",
            "2026-01-01T00:00:00Zz",
            "2026-1-1",
            "２０２６-01-01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
