//! What columns mean, by their names, and times in the units of other tracers.

use std::str::FromStr;

use crate::log::shown;
use crate::trace::TIME_MAX;

/// A column that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Rank,
    Op,
    Offset,
    Size,
    Time,
    End,
    Duration,
    File,
}

use Column::{Duration, End, File, Offset, Op, Rank, Size, Time};

/// Our names, and others that mean the same: in small letters, and without anything but letters and digits.
pub(super) const NAMES: [(&str, Column, &str); 8] = [
    ("rank", Rank, "pid process processid proc mpirank task"),
    ("op", Op, "operation optype type iotype rw readwrite opcode access action direction wtrd"),
    ("offset", Offset, "off fileoffset startoffset byteoffset position lba sector startsector block blkno"),
    ("size", Size, "length len bytes nbytes requestsize iosize xfersize transfersize sectors nsectors blocks nblocks"),
    ("time", Time, "timestamp ts start starttime tstart begin begintime arrival arrivaltime"),
    ("end", End, "endtime tend finish finishtime completion completiontime"),
    ("duration", Duration, "elapsed latency response responsetime"),
    ("file", File, "filename filepath path name"),
];

/// What a column counts in, as far as its name says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Unsaid,
    Sectors,
    Time(TimeUnit),
}

/// Units that follow a name, as in `time_us` and `Time (us)`.
const UNITS: [(&str, Counted); 16] = [
    ("microseconds", Counted::Time(TimeUnit::Microseconds)),
    ("milliseconds", Counted::Time(TimeUnit::Milliseconds)),
    ("nanoseconds", Counted::Time(TimeUnit::Nanoseconds)),
    ("seconds", Counted::Time(TimeUnit::Seconds)),
    ("sectors", Counted::Sectors),
    ("blocks", Counted::Sectors),
    ("bytes", Counted::Unsaid),
    ("usec", Counted::Time(TimeUnit::Microseconds)),
    ("msec", Counted::Time(TimeUnit::Milliseconds)),
    ("nsec", Counted::Time(TimeUnit::Nanoseconds)),
    ("sec", Counted::Time(TimeUnit::Seconds)),
    ("us", Counted::Time(TimeUnit::Microseconds)),
    ("ms", Counted::Time(TimeUnit::Milliseconds)),
    ("ns", Counted::Time(TimeUnit::Nanoseconds)),
    ("s", Counted::Time(TimeUnit::Seconds)),
    ("b", Counted::Unsaid),
];

pub(super) fn ours(name: &str) -> Option<Column> {
    NAMES.iter().find(|(own, ..)| *own == name).map(|(_, column, _)| *column)
}

pub(super) fn name_of(column: Column) -> &'static str {
    NAMES.iter().find(|(_, own, _)| *own == column).map_or("", |(name, ..)| name)
}

pub(super) fn column(name: &str) -> Option<Column> {
    let known = |plain: &str| {
        let means =
            |(own, _, others): &&(&str, Column, &str)| *own == plain || others.split(' ').any(|other| other == plain);
        NAMES.iter().find(means).map(|(_, column, _)| *column)
    };
    known(&plain(name)).or_else(|| known(&parted(name)?.0))
}

pub(super) fn counted(name: &str) -> Counted {
    let name_of_sectors =
        ["lba", "sector", "startsector", "block", "blkno", "sectors", "nsectors", "blocks", "nblocks"];
    match (plain(name), parted(name)) {
        (name, _) if name_of_sectors.contains(&name.as_str()) => Counted::Sectors,
        (_, Some((_, unit))) => unit,
        _ => Counted::Unsaid,
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

fn parted(name: &str) -> Option<(String, Counted)> {
    let name = name.trim_end_matches([')', ']']);
    let (rest, unit) = name.rsplit_once(['_', '(', '[', ' ', '.'])?;
    let unit = UNITS.iter().find(|(text, _)| *text == plain(unit))?;
    Some((plain(rest), unit.1))
}

/// The unit of times in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds, from any origin.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Windows's FILETIME: units of 100 ns since 1601.
    Filetime,
}

use TimeUnit::{Filetime, Microseconds, Milliseconds, Nanoseconds, Seconds};

/// Units of FILETIME from 1601 to 1970.
const FILETIME_1970: i128 = 116_444_736_000_000_000;

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Seconds, Milliseconds, Microseconds, Nanoseconds, Filetime];
        let unit = known.into_iter().find(|unit| unit.option() == text);
        unit.ok_or_else(|| "give s, ms, us, ns or filetime".to_owned())
    }
}

impl TimeUnit {
    /// As it is given as an option; what a number that is no time in seconds looks like; nanoseconds.
    fn facts(self) -> (&'static str, &'static str, i128) {
        match self {
            Seconds => ("s", "seconds", 1_000_000_000),
            Milliseconds => ("ms", "milliseconds since 1970", 1_000_000),
            Microseconds => ("us", "microseconds since 1970", 1000),
            Nanoseconds => ("ns", "nanoseconds since 1970", 1),
            Filetime => ("filetime", "Windows's file time, in 100 ns since 1601", 100),
        }
    }

    pub(super) fn option(self) -> &'static str {
        self.facts().0
    }

    fn in_words(self) -> &'static str {
        self.facts().1
    }

    fn nanoseconds(self) -> i128 {
        self.facts().2
    }

    /// The unit in which a number is a time from 2001 to 2286, if it is none in seconds; a FILETIME from 1970 to 2286.
    pub(super) fn of_epoch(number: u64) -> Option<Self> {
        match number {
            1_000_000_000_000..10_000_000_000_000 => Some(Milliseconds),
            1_000_000_000_000_000..10_000_000_000_000_000 => Some(Microseconds),
            116_444_736_000_000_000..217_000_000_000_000_000 => Some(Filetime),
            1_000_000_000_000_000_000..10_000_000_000_000_000_000 => Some(Nanoseconds),
            _ => None,
        }
    }

    /// A time in nanoseconds; that of a file is counted from 1970 then.
    pub(super) fn time(self, what: &str, text: &str) -> Result<u64, String> {
        let origin = if self == Filetime { FILETIME_1970 * 100 } else { 0 };
        let time = self.exact(text).ok_or_else(|| self.is_no_time(what, text))?;
        let time = u64::try_from(time - origin).ok().filter(|time| *time <= TIME_MAX);
        time.ok_or_else(|| self.is_no_time(what, text))
    }

    pub(super) fn duration(self, what: &str, text: &str) -> Result<u64, String> {
        let time = self.exact(text).and_then(|time| u64::try_from(time).ok()).filter(|time| *time <= TIME_MAX);
        time.ok_or_else(|| format!("{what} {} is not a number of {} from 0", shown(text), self.plain()))
    }

    /// Nanoseconds, without their fraction. Floating point could not tell epochs in nanoseconds apart.
    fn exact(self, text: &str) -> Option<i128> {
        if text.contains(['e', 'E']) {
            let nanoseconds = text.parse::<f64>().ok()? * self.nanoseconds() as f64;
            #[expect(clippy::cast_possible_truncation, reason = "within what i128 has")]
            return (nanoseconds.abs() < 1e30).then_some(nanoseconds.round() as i128);
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = fraction.get(..fraction.len().min(18))?;
        let is_number = whole.len() + fraction.len() > 0 && fraction.bytes().all(|byte| byte.is_ascii_digit());
        let whole: i128 = match whole {
            "" => 0,
            whole if whole.len() <= 20 => whole.parse().ok()?,
            _ => return None,
        };
        let part: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let scale = 10_i128.pow(u32::try_from(digits.len()).ok()?);
        is_number.then_some(whole * self.nanoseconds() + part * self.nanoseconds() / scale)
    }

    fn plain(self) -> &'static str {
        if self == Filetime { "100 ns" } else { self.in_words().trim_end_matches(" since 1970") }
    }

    fn is_no_time(self, what: &str, text: &str) -> String {
        let whole = text.split('.').next().unwrap_or_default();
        let guess = whole.parse().ok().and_then(Self::of_epoch).filter(|unit| *unit != self);
        let problem = format!("{what} {} is not a number of {} from 0", shown(text), self.plain());
        if let Some(unit) = guess {
            return format!("{problem}; it looks like {}: give --time-unit {}", unit.in_words(), unit.option());
        }
        let is_date = text.contains([':', '/', 'T']) || text.matches('-').count() > 1;
        if is_date {
            return format!("{problem}; it looks like a date or time of day: have it printed as seconds since 1970");
        }
        match self {
            Filetime => format!("{problem} since 1601; for other times give --time-unit s, ms, us or ns"),
            _ => format!("{problem} to 10^10 s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_tracers_are_known() {
        for (name, expected) in [
            ("Offset", Some(Offset)),
            ("file_offset", Some(Offset)),
            ("offset_bytes", Some(Offset)),
            ("Length", Some(Size)),
            ("start_time", Some(Time)),
            ("Timestamp (us)", Some(Time)),
            ("Response", Some(Duration)),
            ("IOType", Some(Op)),
            ("Wt/Rd", Some(Op)),
            ("Start(s)", Some(Time)),
            ("LBA", Some(Offset)),
            ("hostname", None),
            ("size_kb", None),
        ] {
            assert_eq!(column(name), expected, "{name}");
        }
    }

    #[test]
    fn names_may_say_units() {
        assert_eq!(counted("time_us"), Counted::Time(TimeUnit::Microseconds));
        assert_eq!(counted("Timestamp (ns)"), Counted::Time(TimeUnit::Nanoseconds));
        assert_eq!(counted("offset_sectors"), Counted::Sectors);
        assert_eq!(counted("LBA"), Counted::Sectors);
        assert_eq!(
            (counted("offset_bytes"), counted("status"), counted("time")),
            (Counted::Unsaid, Counted::Unsaid, Counted::Unsaid)
        );
    }

    #[test]
    fn each_column_has_one_name() {
        for (name, column, others) in NAMES {
            assert_eq!((ours(name), name_of(column)), (Some(column), name));
            assert!(others.split(' ').all(|other| plain(other) == other && super::column(other) == Some(column)));
        }
    }

    #[test]
    fn times_are_exact_in_every_unit() {
        let time = |unit: TimeUnit, text| unit.time("time", text).unwrap();
        assert_eq!(time(Seconds, "1.5"), 1_500_000_000);
        assert_eq!(time(Seconds, "1e-05"), 10_000);
        assert_eq!(time(Seconds, "1488412345.123456789"), 1_488_412_345_123_456_789);
        assert_eq!(time(Milliseconds, "1488412345123.25"), 1_488_412_345_123_250_000);
        assert_eq!(time(Microseconds, "1488412345123456"), 1_488_412_345_123_456_000);
        assert_eq!(time(Nanoseconds, "1488412345123456789"), 1_488_412_345_123_456_789);
        assert_eq!(time(Filetime, "128166372003061629"), 1_172_163_600_306_162_900);
        assert_eq!(Filetime.duration("duration", "1331"), Ok(133_100));
    }

    #[test]
    fn a_time_in_another_unit_is_recognised() {
        let problem = |text| Seconds.time("time", text).unwrap_err();
        for (text, unit) in [
            ("1488412345123", "milliseconds since 1970: give --time-unit ms"),
            ("1488412345123456", "microseconds since 1970: give --time-unit us"),
            ("1488412345123456789", "nanoseconds since 1970: give --time-unit ns"),
            ("128166372003061629", "Windows's file time, in 100 ns since 1601: give --time-unit filetime"),
            ("2017-03-01 12:00:00", "a date or time of day: have it printed as seconds since 1970"),
            ("12:00:01.5", "a date or time of day: have it printed as seconds since 1970"),
        ] {
            assert!(problem(text).ends_with(&format!("it looks like {unit}")), "{}", problem(text));
        }
        assert_eq!(problem("nan"), "time \"nan\" is not a number of seconds from 0 to 10^10 s");
        for text in ["", ".", "-1", "1.x", "99999999999", "999999999999999999999999999999999999999999", "1e40", "inf"] {
            problem(text);
        }
        assert!(Filetime.time("time", "5").unwrap_err().contains("give --time-unit s, ms, us or ns"));
    }
}
