//! Reads and prints sizes, rates and durations exactly (printed values read back as the same value), and reads names.
//!
//! Sizes are `64KiB` (1024) or `64KB` (1000), rates `100MB/s` or `800Mbit/s`, durations `250ms` or `5min`. A fraction
//! such as `1.5GB` is valid if it is a whole number of bytes (or nanoseconds): no floating point is involved. A space
//! before the unit is allowed, and `64K` is `64KiB`, as for IOR, dd and systemd. A number without a unit is refused,
//! because tools disagree about its meaning.
//!
//! `{}` prints the shortest text that reads back as the same value; `{:.1}` rounds to the given number of decimals in
//! the largest unit that fits, for people and tables.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vpfs_core::Bytes;

/// A number with a unit that could not be read; the message states what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitError(String);

/// Bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

/// A size, for reading (`"64KiB".parse::<Size>()`) and printing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub Bytes);

/// A duration of whole nanoseconds, at most 584 years, for reading (`"5min".parse::<Span>()`) and printing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub Duration);

/// Reads a size such as `64KiB`; fits clap's `value_parser`.
pub fn parse_size(text: &str) -> Result<Bytes, UnitError> {
    SIZES.parse(text).map(Bytes)
}

/// Reads a rate such as `100MB/s`; fits clap's `value_parser`.
pub fn parse_rate(text: &str) -> Result<Rate, UnitError> {
    RATES.parse(text).map(Rate)
}

/// Reads a duration such as `250ms`; fits clap's `value_parser`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    SPANS.parse(text).map(Duration::from_nanos)
}

impl FromStr for Size {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_size(text).map(Self)
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_rate(text)
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_duration(text).map(Self)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.precision() {
            Some(decimals) => f.write_str(&rounded(self.0.0, BINARY, decimals)),
            None => f.write_str(&shortest(self.0.0, &[BINARY, DECIMAL])),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.precision() {
            Some(decimals) => write!(f, "{}/s", rounded(self.0, DECIMAL, decimals)),
            None => write!(f, "{}/s", shortest(self.0, &[DECIMAL, BINARY])),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        match f.precision() {
            Some(decimals) => f.write_str(&rounded(nanos, SECONDS, decimals)),
            None if nanos == 0 => f.write_str("0s"),
            None => match LONG.iter().find(|unit| nanos.is_multiple_of(unit.1)) {
                Some((name, factor)) => write!(f, "{}{name}", nanos / factor),
                None => f.write_str(&shortest(nanos, &[SECONDS])),
            },
        }
    }
}

type Unit = (&'static str, u64);

const BINARY: &[Unit] =
    &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("PiB", 1 << 50)];
const DECIMAL: &[Unit] = &[
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
];
const BITS: &[Unit] =
    &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000), ("Tbit", 1_000_000_000_000)];
const SECONDS: &[Unit] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
/// Largest first; used for printing only if they divide the value.
const LONG: &[Unit] = &[("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("min", 60_000_000_000)];

/// One kind of value with a unit: its units, their scale, and common mistakes.
struct Quantity {
    /// The base unit, as in "not a whole number of bytes".
    base: &'static str,
    example: &'static str,
    /// Units, and the divisor of a value in them.
    units: &'static [(&'static [Unit], u64)],
    /// Other ways to write them.
    also: &'static [Unit],
    suffix: &'static str,
    /// The probable meaning of a large number without a unit.
    meant: fn(u64) -> Option<String>,
    hints: &'static [(&'static str, &'static str)],
}

const SIZES: Quantity = Quantity {
    base: "bytes",
    example: "KiB",
    units: &[(BINARY, 1), (DECIMAL, 1)],
    also: &[
        ("kB", 1_000),
        ("K", 1 << 10),
        ("k", 1 << 10),
        ("M", 1 << 20),
        ("m", 1 << 20),
        ("G", 1 << 30),
        ("g", 1 << 30),
        ("T", 1 << 40),
        ("t", 1 << 40),
        ("P", 1 << 50),
        ("p", 1 << 50),
    ],
    suffix: "",
    meant: |bytes| Some(Size(Bytes(bytes)).to_string()),
    hints: &[("KB/s", "\"KB\""), ("MB/s", "\"MB\""), ("MiB/s", "\"MiB\""), ("GB/s", "\"GB\"")],
};
const RATES: Quantity = Quantity {
    base: "bytes per second",
    example: "MB/s",
    units: &[(DECIMAL, 1), (BINARY, 1), (BITS, 8)],
    also: &[("kB", 1_000)],
    suffix: "/s",
    meant: |rate| Some(Rate(rate).to_string()),
    hints: &[
        ("Mb/s", "\"MB/s\" (bytes) or \"Mbit/s\" (bits)"),
        ("Gb/s", "\"GB/s\" (bytes) or \"Gbit/s\" (bits)"),
        ("Mbps", "\"Mbit/s\""),
        ("Gbps", "\"Gbit/s\""),
        ("MBps", "\"MB/s\""),
        ("GBps", "\"GB/s\""),
        ("M", "\"MB/s\""),
        ("G", "\"GB/s\""),
    ],
};
const SPANS: Quantity = Quantity {
    base: "nanoseconds",
    example: "s",
    units: &[(SECONDS, 1), (LONG, 1)],
    also: &[("µs", 1_000)],
    suffix: "",
    meant: |_| None,
    hints: &[
        ("m", "\"min\" (minutes) or \"ms\" (milliseconds)"),
        ("sec", "\"s\""),
        ("secs", "\"s\""),
        ("seconds", "\"s\""),
        ("minutes", "\"min\""),
        ("hours", "\"h\""),
        ("days", "\"d\""),
    ],
};

impl Quantity {
    fn parse(&self, text: &str) -> Result<u64, UnitError> {
        let text = text.trim();
        let refuse = |why: &str| Err(UnitError(format!("{} {why}", quote(text))));
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit = unit.trim_start();
        let Some((digits, places)) = decimal(number) else {
            return refuse(&format!("is not a number with a unit; write for example \"64{}\"", self.example));
        };
        let Some((factor, divisor)) = self.unit(unit) else {
            return refuse(&self.unknown_unit(number, unit));
        };
        let scaled = digits.checked_mul(u128::from(factor));
        let divisor = 10_u128.checked_pow(places).and_then(|scale| scale.checked_mul(u128::from(divisor)));
        match (scaled, divisor) {
            (Some(scaled), Some(divisor)) if scaled % divisor != 0 => {
                refuse(&format!("is not a whole number of {}", self.base))
            }
            (Some(scaled), Some(divisor)) => u64::try_from(scaled / divisor).or_else(|_| refuse("is too large")),
            _ => refuse("has too many digits"),
        }
    }

    fn unit(&self, name: &str) -> Option<(u64, u64)> {
        let name = name.strip_suffix(self.suffix)?;
        let find =
            |&(units, divisor): &(&[Unit], u64)| units.iter().find(|unit| unit.0 == name).map(|unit| (unit.1, divisor));
        self.units.iter().chain([&(self.also, 1)]).find_map(find)
    }

    fn names(&self) -> impl Iterator<Item = String> {
        self.units.iter().flat_map(|(units, _)| units.iter()).map(|unit| format!("{}{}", unit.0, self.suffix))
    }

    fn unknown_unit(&self, number: &str, unit: &str) -> String {
        if unit.is_empty() {
            // A large number is probably meant in the base unit.
            let meant = number.parse().ok().filter(|&n| n >= 1024).and_then(self.meant);
            let meant = meant.unwrap_or_else(|| format!("{number}{}", self.example));
            return format!("has no unit; write for example \"{meant}\"");
        }
        let hint = self.hints.iter().find(|hint| hint.0 == unit).map(|hint| hint.1.to_owned());
        // Also catches the right unit in the wrong case, or a rate without its "/s".
        let near = |name: &String| {
            name.eq_ignore_ascii_case(unit)
                || name.strip_suffix("/s").is_some_and(|name| name.eq_ignore_ascii_case(unit))
        };
        match hint.or_else(|| self.names().find(near).map(|name| format!("\"{name}\""))) {
            Some(hint) => format!("has an unknown unit; did you mean {hint}?"),
            None => format!("has an unknown unit; allowed are {}", self.names().collect::<Vec<_>>().join(", ")),
        }
    }
}

/// A decimal number as its digits and the number of digits after the point.
pub(crate) fn decimal(text: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    if whole.is_empty() || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, u32::try_from(fraction.len()).ok()?))
}

/// Text from outside for a message: quoted, control characters escaped, and limited in length.
pub(crate) fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The shortest exact text with at most three decimals; the earlier list of units wins a tie.
fn shortest(value: u64, lists: &[&[Unit]]) -> String {
    let exact = |&(name, factor): &Unit| {
        let thousandths = u128::from(value) * 1000;
        let fits = (value >= factor || factor == 1) && thousandths.is_multiple_of(u128::from(factor));
        fits.then(|| format!("{}{name}", fixed(thousandths / u128::from(factor), 3, true)))
    };
    let texts = lists.iter().flat_map(|units| units.iter().rev()).filter_map(exact);
    texts.min_by_key(String::len).unwrap_or_default()
}

fn rounded(value: u64, units: &[Unit], decimals: usize) -> String {
    let decimals = u32::try_from(decimals).unwrap_or(u32::MAX).min(9);
    let (name, factor) = units.iter().rev().find(|unit| value >= unit.1).unwrap_or(&units[0]);
    if *factor == 1 {
        return format!("{value}{name}");
    }
    let factor = u128::from(*factor);
    let scaled = (u128::from(value) * 10_u128.pow(decimals) + factor / 2) / factor;
    format!("{}{name}", fixed(scaled, decimals, false))
}

/// `scaled` / 10^`decimals`, optionally without trailing zeros.
fn fixed(scaled: u128, decimals: u32, trim: bool) -> String {
    let unit = 10_u128.pow(decimals);
    let whole = scaled / unit;
    if decimals == 0 || (trim && scaled.is_multiple_of(unit)) {
        return whole.to_string();
    }
    let text = format!("{whole}.{:0width$}", scaled % unit, width = decimals as usize);
    if trim { text.trim_end_matches('0').to_owned() } else { text }
}

/// The name of a set: that of its owner, or its owner's and a part of its own after a dot, such as `admin.ior`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SetName(String);

impl SetName {
    /// Owners whose applications would have the names of automatic ones.
    const RESERVED: [&str; 3] = ["host", "uid", "auto"];

    /// Reads a name of 1 to 64 letters, digits, `-`, `_` and `.`; an error says why it is none, and what would be.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !is_name(text) || text.starts_with('.') {
            return Err(format!("{} is not the name of a set; {NAME_RULE}", quote(text)));
        }
        let name = Self(text.to_owned());
        match Self::RESERVED.contains(&name.owner()) {
            true => Err(format!("{} is what automatic applications are called; choose another owner", quote(text))),
            false => Ok(name),
        }
    }

    /// The owner: what stands before the first dot.
    pub fn owner(&self) -> &str {
        self.0.split('.').next().unwrap_or_default()
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SetName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<SetName> for String {
    fn from(name: SetName) -> Self {
        name.0
    }
}

pub(crate) const NAME_RULE: &str = "use 1 to 64 letters, digits, \"-\", \"_\" and \".\"";

pub(crate) fn is_name(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_size("64KiB"), Ok(Bytes(65_536)));
        assert_eq!(parse_size(" 1.5 GB "), Ok(Bytes(1_500_000_000)));
        assert_eq!(parse_size("0.1MB"), Ok(Bytes(100_000)));
        assert_eq!(["1M", "1m", "1024K", "1024k"].map(parse_size), [const { Ok(Bytes(1 << 20)) }; 4]);
        assert_eq!(parse_rate("100MB/s"), Ok(Rate(100_000_000)));
        assert_eq!(parse_rate("800 Mbit/s"), Ok(Rate(100_000_000)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("5min"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("1h"), Ok(Duration::from_secs(3600)));
    }

    #[test]
    fn refusals_say_what_to_write() {
        let message = |error: UnitError| error.to_string();
        let size = |text| message(parse_size(text).unwrap_err());
        let rate = |text| message(parse_rate(text).unwrap_err());
        let span = |text| message(parse_duration(text).unwrap_err());
        assert_eq!(size("64"), r#""64" has no unit; write for example "64KiB""#);
        assert_eq!(size("131072"), r#""131072" has no unit; write for example "128KiB""#);
        assert_eq!(rate("100000000"), r#""100000000" has no unit; write for example "100MB/s""#);
        assert_eq!(span("5000"), r#""5000" has no unit; write for example "5000s""#);
        assert_eq!(size("64mb"), r#""64mb" has an unknown unit; did you mean "MB"?"#);
        assert_eq!(size("1.0001KiB"), r#""1.0001KiB" is not a whole number of bytes"#);
        assert_eq!(size("99999PiB"), r#""99999PiB" is too large"#);
        assert_eq!(size("-1KiB"), r#""-1KiB" is not a number with a unit; write for example "64KiB""#);
        assert_eq!(rate("100MB"), r#""100MB" has an unknown unit; did you mean "MB/s"?"#);
        assert_eq!(rate("1Mb/s"), r#""1Mb/s" has an unknown unit; did you mean "MB/s" (bytes) or "Mbit/s" (bits)?"#);
        assert_eq!(rate("1 bit/s"), r#""1 bit/s" is not a whole number of bytes per second"#);
        assert_eq!(span("5"), r#""5" has no unit; write for example "5s""#);
        assert_eq!(span("5m"), r#""5m" has an unknown unit; did you mean "min" (minutes) or "ms" (milliseconds)?"#);
        assert!(span("5 lightyears").contains("allowed are ns, us, ms, s, d, h, min"));
    }

    #[test]
    fn prints_the_shortest_exact_text() {
        let size = |n| Size(Bytes(n)).to_string();
        assert_eq!(
            ["0B", "128KiB", "1.5MiB", "2MB", "1001B"].map(String::from).to_vec(),
            [size(0), size(131_072), size(1_572_864), size(2_000_000), size(1001)]
        );
        assert_eq!(Rate(1_500_000_000).to_string(), "1.5GB/s");
        let span = |millis| Span(Duration::from_millis(millis)).to_string();
        assert_eq!(
            [span(0), span(250), span(1500), span(330_000), span(300_000)],
            ["0s", "250ms", "1.5s", "330s", "5min"]
        );
    }

    #[test]
    fn a_precision_rounds() {
        assert_eq!(format!("{:.1}", Size(Bytes(1_234_567))), "1.2MiB");
        assert_eq!(format!("{:.2}", Rate(1_234_567)), "1.23MB/s");
        assert_eq!(format!("{:.0}", Span(Duration::from_micros(1_700))), "2ms");
        assert_eq!(format!("{:.3}", Size(Bytes(7))), "7B");
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(n in any::<u64>(), shift in 0_u32..64) {
            let n = n >> shift;
            prop_assert_eq!(parse_size(&Size(Bytes(n)).to_string()), Ok(Bytes(n)));
            prop_assert_eq!(parse_rate(&Rate(n).to_string()), Ok(Rate(n)));
            let span = Duration::from_nanos(n);
            prop_assert_eq!(parse_duration(&Span(span).to_string()), Ok(span));
        }

        #[test]
        fn whole_units_are_exact(n in 0_u64..1 << 14, unit in 0_usize..6) {
            let (name, factor) = BINARY[unit];
            prop_assert_eq!(parse_size(&format!("{n}{name}")), Ok(Bytes(n * factor)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}", number in "[0-9.]{0,60}") {
            for text in [&text, &number, &format!("{number}{text}")] {
                let _ = (parse_size(text), parse_rate(text), parse_duration(text));
            }
        }
    }

    #[test]
    fn a_name_has_an_owner() {
        let owner = |text: &str| SetName::parse(text).map(|name| name.owner().to_owned());
        assert_eq!(owner("slurm"), Ok("slurm".to_owned()));
        assert_eq!(owner("admin.ior.2"), Ok("admin".to_owned()));
        for wrong in ["", ".x", "a/b", "a b", "host", "uid.7", "auto", "é", &"a".repeat(65)] {
            assert!(owner(wrong).is_err(), "{wrong}");
        }
    }
}
