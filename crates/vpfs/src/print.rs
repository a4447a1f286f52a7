//! Standard output, and how times are written there.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use time::OffsetDateTime;

use crate::exit::Exit;

/// Prints a text and a line end. A reader that closes the pipe early, such as `head`, is not an error.
pub(crate) fn print(text: impl Display) -> Result<(), Exit> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::Failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a value for programs.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Exit> {
    print(serde_json::to_string_pretty(value).map_err(|error| Exit::Failed(error.to_string()))?)
}

/// A text from elsewhere, which must not control the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// A duration as people say it: one number that is accurate to a few percent, unless it is below 10 s.
pub(crate) fn roughly(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (unit, name) = match seconds {
        ..120.0 => (1.0, "s"),
        ..7200.0 => (60.0, "min"),
        ..172_800.0 => (3600.0, "h"),
        _ => (86400.0, "days"),
    };
    format!("{:.0} {name}", seconds / unit)
}

/// A part as people read it.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

/// A mean time for people; `-` if nothing had any.
pub(crate) fn mean_time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 0.01 => format!("{:.2}ms", seconds * 1e3),
        Some(seconds) if seconds < 1.0 => format!("{:.0}ms", seconds * 1e3),
        Some(seconds) => format!("{seconds:.1}s"),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Such a time in UTC, as the log has it; for example `2027-01-15 08:00:59`.
pub(crate) fn clock_time(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    // Nothing that was ever measured is outside of its ten thousand years.
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, month) = (at.date(), u8::from(at.month()));
    let (year, day, (hour, minute, second)) = (date.year(), date.day(), at.to_hms());
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let texts = [0, 1_800_000_059, u64::MAX].map(clock_time);
        assert_eq!(texts, ["1970-01-01 00:00:00", "2027-01-15 08:00:59", "1970-01-01 00:00:00"]);
    }

    #[test]
    fn durations_have_the_unit_that_people_would_take() {
        let texts = [0, 1, 119, 120, 7199, 7200, 100_000, 1_000_000].map(Duration::from_secs).map(roughly);
        assert_eq!(texts, ["0 s", "1 s", "119 s", "2 min", "120 min", "2 h", "28 h", "12 days"]);
    }
}
