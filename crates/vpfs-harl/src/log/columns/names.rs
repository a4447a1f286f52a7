//! What columns mean, by their names.

use super::time::TimeUnit;

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

/// The column of our name.
pub(super) fn ours(name: &str) -> Option<Column> {
    NAMES.iter().find(|(own, ..)| *own == name).map(|(_, column, _)| *column)
}

/// Our name of a column.
pub(super) fn name_of(column: Column) -> &'static str {
    NAMES.iter().find(|(_, own, _)| *own == column).map_or("", |(name, ..)| name)
}

/// The column that a name of any tracer means.
pub(super) fn column(name: &str) -> Option<Column> {
    let known = |plain: &str| {
        let means =
            |(own, _, others): &&(&str, Column, &str)| *own == plain || others.split(' ').any(|other| other == plain);
        NAMES.iter().find(means).map(|(_, column, _)| *column)
    };
    known(&plain(name)).or_else(|| known(&parted(name)?.0))
}

/// What a column counts in.
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

/// A name without its unit, and the unit.
fn parted(name: &str) -> Option<(String, Counted)> {
    let name = name.trim_end_matches([')', ']']);
    let (rest, unit) = name.rsplit_once(['_', '(', '[', ' ', '.'])?;
    let unit = UNITS.iter().find(|(text, _)| *text == plain(unit))?;
    Some((plain(rest), unit.1))
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
}
