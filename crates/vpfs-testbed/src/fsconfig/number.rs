//! Numbers as servers read them, with C's functions: what follows the digits is ignored, and what is too large is the
//! largest number.

use std::ops::RangeInclusive;

/// `%li`: decimal, hexadecimal after `0x`, octal after `0`.
pub(super) fn signed(text: &str) -> Option<i64> {
    let (is_negative, digits) = sign(text.trim_start());
    let (radix, digits) = radix(digits);
    let (magnitude, _) = leading(digits, radix)?;
    Some(match is_negative {
        true => i64::try_from(-i128::from(magnitude)).unwrap_or(i64::MIN),
        false => i64::try_from(magnitude).unwrap_or(i64::MAX),
    })
}

/// `%llu`: decimal; negative numbers wrap.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    let (is_negative, digits) = sign(text.trim_start());
    let (magnitude, _) = leading(digits, 10)?;
    Some(if is_negative { magnitude.wrapping_neg() } else { magnitude })
}

/// `3-5,7-9`, also with blanks; single numbers are ranges of one. Numbers that start with 0 are octal.
pub(super) fn ranges(text: &str) -> Option<Vec<RangeInclusive<u64>>> {
    if text.contains(|c: char| !c.is_ascii_digit() && !matches!(c, ',' | ' ' | '-')) {
        return None;
    }
    let mut ranges = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (first, after) = handle(rest)?;
        let (last, after) = match after.strip_prefix('-') {
            Some(after) => handle(after)?,
            None if after.is_empty() || after.starts_with(',') => (first, after),
            None => return None,
        };
        ranges.push(first..=last);
        rest = after.strip_prefix(',').unwrap_or(after).trim_start();
    }
    (!ranges.is_empty()).then_some(ranges)
}

/// A handle and what follows it.
fn handle(text: &str) -> Option<(u64, &str)> {
    let (radix, digits) = radix(text.trim_start());
    let (handle, rest) = leading(digits, radix)?;
    Some((handle, rest.trim_start()))
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// The radix of a number, and its digits.
fn radix(digits: &str) -> (u32, &str) {
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    }
}

/// The number at the start of a text, and the rest.
fn leading(text: &str, radix: u32) -> Option<(u64, &str)> {
    let len = text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len());
    let (digits, rest) = text.split_at(len);
    // Of digits alone, only a number that is too large fails.
    (len > 0).then(|| (u64::from_str_radix(digits, radix).unwrap_or(u64::MAX), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        let large = "99999999999999999999";
        for (text, expected) in [
            ("1001", Some(1001)),
            (" +7x", Some(7)),
            ("256K", Some(256)),
            ("0x3E9", Some(1001)),
            ("010", Some(8)),
            ("-5", Some(-5)),
            (large, Some(i64::MAX)),
            ("-99999999999999999999", Some(i64::MIN)),
            ("0", Some(0)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(signed(text), expected, "{text}");
        }
        assert_eq!((unsigned("010"), unsigned("-1"), unsigned(large)), (Some(10), Some(u64::MAX), Some(u64::MAX)));
        assert_eq!((unsigned("0x10"), unsigned("a")), (Some(0), None));
    }

    #[test]
    fn ranges_are_those_of_servers() {
        assert_eq!(ranges("3-5,7-9"), Some(vec![3..=5, 7..=9]));
        assert_eq!(ranges(" 3 - 5 7-9, 11 ,"), Some(vec![3..=5, 7..=9, 11..=11]));
        assert_eq!(ranges("010-020"), Some(vec![8..=16]));
        for text in ["", ",", "-5", "3-", "a", "3 5", "08", "0x8", "3-5x", "3\t-5"] {
            assert_eq!(ranges(text), None, "{text}");
        }
    }
}
