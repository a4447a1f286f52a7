//! Standard output, how times are written there, and exit codes.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, fs, io};

use serde::Serialize;
use time::OffsetDateTime;

/// Prints a text and a line end. A reader that closes the pipe early, such as `head`, is not an error.
pub(crate) fn print(text: impl Display) -> Result<(), Exit> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Exit::Failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

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

/// The characters that a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    Unicode,
    Ascii,
}

impl Blocks {
    pub(crate) fn of_locale() -> Self {
        let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
        Self::of(&named.into_iter().find(|value| !value.is_empty()).unwrap_or_default())
    }

    /// Those of a locale such as `C.UTF-8`.
    fn of(locale: &str) -> Self {
        let locale = locale.to_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") { Self::Unicode } else { Self::Ascii }
    }

    /// A column for each value, as high as it is a part of `most`.
    pub(crate) fn columns(self, values: impl IntoIterator<Item = f64>, most: f64) -> String {
        let levels = match self {
            Self::Unicode => [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Self::Ascii => [' ', '.', ':', '-', '=', '+', '*', '%', '#'],
        };
        values.into_iter().map(|value| levels[eighths(value, most, 8)]).collect()
    }

    /// A bar of at most `width` characters, as long as `value` is a part of `most`.
    pub(crate) fn bar(self, value: f64, most: f64, width: usize) -> String {
        const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
        let eighths = eighths(value, most, 8 * width);
        match self {
            Self::Unicode => "█".repeat(eighths / 8) + PARTS[eighths % 8],
            Self::Ascii => "#".repeat(eighths.div_ceil(8)),
        }
    }
}

/// A part of `steps`; anything that is not nothing has one.
fn eighths(value: f64, most: f64, steps: usize) -> usize {
    if value <= 0.0 || most <= 0.0 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from one to a few hundred")]
    let part = (value / most * steps as f64).round().clamp(1.0, steps as f64) as usize;
    part
}

/// Refuses a file that exists already, before time is spent on its content.
pub(crate) fn check_new_file(path: &Path, overwrite: bool) -> Result<(), Exit> {
    match fs::symlink_metadata(path) {
        Ok(_) if !overwrite => Err(exists(path)),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Exit::cannot_write(path, &error)),
        _ => Ok(()),
    }
}

pub(crate) fn write_new_file(path: &Path, text: &str, overwrite: bool) -> Result<(), Exit> {
    let mut open = OpenOptions::new();
    let mut file = match open.write(true).truncate(true).create_new(!overwrite).create(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists(path)),
        opened => opened.map_err(|error| Exit::cannot_write(path, &error))?,
    };
    file.write_all(text.as_bytes()).map_err(|error| Exit::cannot_write(path, &error))
}

fn exists(path: &Path) -> Exit {
    Exit::Usage(format!("{} exists; choose another name, or use --overwrite", path.display()))
}

/// What each exit code means, for man pages.
pub(crate) const CODES: [(u8, &str); 5] = [
    (0, "It succeeded."),
    (1, "The operation failed, or a check did; the message says why."),
    (2, "The arguments or the configuration are wrong."),
    (3, "Data that was read back differs from what was written."),
    (4, "The configuration is valid, but host names cannot be resolved now."),
];

/// Why a subcommand failed; each kind has its own exit code.
#[derive(Debug)]
pub(crate) enum Exit {
    Failed(String),
    Usage(String),
    Corrupt(String),
    Unresolved(String),
}

impl Exit {
    pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("cannot write {}: {error}", path.display()))
    }

    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("vpfs: {self}");
        ExitCode::from(match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Corrupt(_) => 3,
            Self::Unresolved(_) => 4,
        })
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(message) | Self::Usage(message) | Self::Corrupt(message) | Self::Unresolved(message) => {
                f.write_str(message)
            }
        }
    }
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

    #[test]
    fn values_become_heights_and_lengths() {
        let values = [0.0, 0.1, 2.0, 4.0, 8.0, 9.0];
        assert_eq!(Blocks::Unicode.columns(values, 8.0), " ▁▂▄██");
        assert_eq!(Blocks::Ascii.columns(values, 8.0), " .:=##");
        assert_eq!(Blocks::Unicode.bar(4.5, 8.0, 8), "████▌");
        assert_eq!(Blocks::Ascii.bar(4.5, 8.0, 8), "#####");
        assert_eq!(Blocks::Unicode.bar(1.0, 0.0, 8), "");
    }

    #[test]
    fn the_locale_decides() {
        let of = ["C.UTF-8", "de_DE.utf8", "C", "POSIX", ""].map(Blocks::of);
        use Blocks::{Ascii, Unicode};
        assert_eq!(of, [Unicode, Unicode, Ascii, Ascii, Ascii]);
    }
}
