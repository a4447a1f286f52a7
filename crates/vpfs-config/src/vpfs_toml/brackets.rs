//! Numbers in brackets, as in `c[001-064,070]` and `r[1-2]n[01-16]-ib`.

use super::host_name::NAME_LIMIT;
use crate::schema::units::quote;

/// The texts denoted by `item`, in the order written; at most `limit`. Brackets must match.
///
/// Numbers have at least as many digits as the start of their range, as in Slurm: `[01-100]` gives `01`, `99` and
/// `100`. `/2` after a range takes every second number, as in ClusterShell. Several brackets give all combinations.
pub(super) fn expand(item: &str, limit: usize) -> Result<Vec<String>, String> {
    let mut texts = vec![String::new()];
    let mut rest = item;
    while !rest.is_empty() {
        let endings;
        (endings, rest) = next_part(rest)?;
        if texts.len().saturating_mul(endings.len()) > limit {
            return Err(too_many(item, limit));
        }
        texts = product(&texts, &endings)?;
    }
    Ok(texts)
}

pub(super) fn too_many(item: &str, limit: usize) -> String {
    format!("{} names too many hosts; {limit} more are allowed", quote(item))
}

/// The texts denoted by the next part (a bracket, or the text before one), and the rest.
fn next_part(text: &str) -> Result<(Endings<'_>, &str), String> {
    match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((ranges, rest)) => Ok((Endings::numbers(ranges)?, rest)),
        None => {
            let (literal, rest) = text.split_at(text.find('[').unwrap_or(text.len()));
            Ok((Endings::Literal(literal), rest))
        }
    }
}

/// Possible continuations of a text, not yet expanded: their number is checked before they take memory.
enum Endings<'a> {
    Literal(&'a str),
    Numbers(Vec<Numbers>),
}

struct Numbers {
    low: u64,
    high: u64,
    step: u64,
    width: usize,
}

impl<'a> Endings<'a> {
    fn numbers(ranges: &'a str) -> Result<Self, String> {
        let ranges = ranges.split(',').map(str::trim).filter(|range| !range.is_empty());
        let numbers = ranges.map(Numbers::read).collect::<Result<Vec<_>, _>>()?;
        if numbers.is_empty() {
            return Err("there is nothing between the brackets; write numbers such as [001-064]".into());
        }
        Ok(Self::Numbers(numbers))
    }

    fn len(&self) -> usize {
        let Self::Numbers(ranges) = self else { return 1 };
        let total = ranges.iter().fold(0_u64, |total, range| total.saturating_add(range.len()));
        usize::try_from(total).unwrap_or(usize::MAX)
    }

    fn for_each(&self, mut visit: impl FnMut(&str)) {
        match self {
            Self::Literal(text) => visit(text),
            Self::Numbers(ranges) => ranges.iter().for_each(|range| range.for_each(&mut visit)),
        }
    }
}

impl Numbers {
    fn read(text: &str) -> Result<Self, String> {
        let shown = text.escape_debug().take(60).collect::<String>();
        if let Some((range, step)) = text.split_once(':') {
            return Err(format!("[{shown}] has an unknown step; write [{range}/{step}]"));
        }
        let (range, step) = text.split_once('/').map_or((text, "1"), |(range, step)| (range.trim(), step.trim()));
        let (low, high) = range.split_once('-').map_or((range, range), |(low, high)| (low.trim(), high.trim()));
        if [low, high, step].iter().any(|digits| digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit())) {
            return Err(format!("[{shown}] is not a number or a range such as [001-064]{}", hint(text)));
        }
        // Enough for any cluster, and keeps the arithmetic from overflowing.
        const DIGITS: usize = 9;
        let number = |digits: &str| digits.parse::<u64>().ok().filter(|_| digits.len() <= DIGITS);
        let (Some(first), Some(last), Some(by)) = (number(low), number(high), number(step)) else {
            return Err(format!("[{shown}] has a number of more than {DIGITS} digits"));
        };
        if first > last {
            return Err(format!("[{shown}] is a descending range; write [{high}-{low}]"));
        }
        if by == 0 {
            return Err(format!("[{shown}] has a step of 0; write [{range}]"));
        }
        Ok(Self { low: first, high: last, step: by, width: low.len() })
    }

    fn len(&self) -> u64 {
        (self.high - self.low) / self.step + 1
    }

    fn for_each(&self, visit: &mut impl FnMut(&str)) {
        let width = self.width;
        (0..self.len()).for_each(|index| visit(&format!("{:0width$}", self.low + index * self.step)));
    }
}

/// What was probably meant by something in brackets that is no number.
fn hint(text: &str) -> &'static str {
    if text.contains(['\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}']) {
        "; replace the typographic dash by \"-\""
    } else if text.contains(char::is_whitespace) {
        "; separate numbers by commas"
    } else if text.contains(char::is_alphabetic) {
        "; write names that differ in letters one by one"
    } else {
        ""
    }
}

fn product(texts: &[String], endings: &Endings<'_>) -> Result<Vec<String>, String> {
    let mut longer = Vec::with_capacity(texts.len() * endings.len());
    for text in texts {
        endings.for_each(|ending| longer.push(format!("{text}{ending}")));
        if let Some(long) = longer.last().filter(|longer| longer.len() > NAME_LIMIT) {
            return Err(format!("{} is longer than the {NAME_LIMIT} characters of a host name", quote(long)));
        }
    }
    Ok(longer)
}
