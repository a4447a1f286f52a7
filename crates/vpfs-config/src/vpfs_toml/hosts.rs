//! Host lists as cluster tools write them: `c[001-064,070]`, `r[1-2]n[01-16],login1`.
//!
//! Own parser: the only crate for it (hostlist 0.3.1) has had no release since 2020 and does not limit its output.

use crate::schema::units::quote;

/// The longest name in DNS; also keeps a short list from expanding to gigabytes.
const NAME_LIMIT: usize = 253;

/// The host names denoted by `text`, in the order written; at most `limit`.
///
/// Numbers are padded like the start of their range: `[001-064]` gives `001`, `[1-64]` gives `1`. Several brackets in
/// one name give all combinations. An error message states the problem and its place.
pub fn expand(text: &str, limit: usize) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for item in split_outside_brackets(text)? {
        let mut prefixes = vec![String::new()];
        let mut rest = item.trim();
        while !rest.is_empty() {
            let endings;
            (endings, rest) = next_part(rest)?;
            if prefixes.len().saturating_mul(endings.len()) > limit - names.len() {
                return Err(format!("{} names too many hosts; {limit} more are allowed", quote(text)));
            }
            prefixes = product(&prefixes, &endings)?;
        }
        for name in prefixes {
            names.push(check_name(name)?);
        }
        if names.len() > limit {
            return Err(format!("{} names too many hosts; {limit} more are allowed", quote(text)));
        }
    }
    Ok(names)
}

/// Whether `name` consists of characters of host names and IPv4 addresses.
pub(crate) fn is_host_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    !name.is_empty() && name.len() <= NAME_LIMIT && name.bytes().all(legal)
}

fn check_name(name: String) -> Result<String, String> {
    if is_host_name(&name) { Ok(name) } else { Err(format!("{} is not a host name", quote(&name))) }
}

fn split_outside_brackets(text: &str) -> Result<Vec<&str>, String> {
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if inside => return Err(format!("{} has nested brackets", quote(text))),
            ']' if !inside => return Err(format!("{} has a \"]\" without \"[\"", quote(text))),
            '[' | ']' => inside = c == '[',
            ',' if !inside => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(format!("{} has a \"[\" without \"]\"", quote(text)));
    }
    items.push(&text[start..]);
    Ok(items)
}

/// The texts denoted by the next part (a bracket, or the text before one), and the rest.
fn next_part(text: &str) -> Result<(Endings, &str), String> {
    match text.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((ranges, rest)) => Ok((Endings::numbers(ranges)?, rest)),
        None => {
            let (literal, rest) = text.split_at(text.find('[').unwrap_or(text.len()));
            Ok((Endings::Literal(literal.to_owned()), rest))
        }
    }
}

/// Possible continuations of a prefix, not yet expanded: their number is checked before they take memory.
enum Endings {
    Literal(String),
    /// First number, last number, width.
    Numbers(Vec<(u64, u64, usize)>),
}

impl Endings {
    fn numbers(ranges: &str) -> Result<Self, String> {
        ranges.split(',').map(|range| number_range(range.trim())).collect::<Result<_, _>>().map(Self::Numbers)
    }

    fn len(&self) -> usize {
        let Self::Numbers(ranges) = self else { return 1 };
        let total = ranges.iter().fold(0_u64, |total, (low, high, _)| total.saturating_add(high - low + 1));
        usize::try_from(total).unwrap_or(usize::MAX)
    }

    fn for_each(&self, mut visit: impl FnMut(&str)) {
        match self {
            Self::Literal(text) => visit(text),
            Self::Numbers(ranges) => {
                for &(low, high, width) in ranges {
                    (low..=high).for_each(|number| visit(&format!("{number:0width$}")));
                }
            }
        }
    }
}

fn number_range(text: &str) -> Result<(u64, u64, usize), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let number = |digits: &str| {
        // Nine digits are enough for any cluster, and keep the arithmetic from overflowing.
        let fine = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        if fine { digits.parse().ok() } else { None }
    };
    let (Some(first), Some(last)) = (number(low), number(high)) else {
        return Err(format!(
            "[{}] is not a number or a range such as 001-064",
            text.escape_debug().take(60).collect::<String>()
        ));
    };
    if first > last {
        return Err(format!("[{text}] is a descending range; write [{high}-{low}]"));
    }
    let padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
    if (padded(low) || padded(high)) && low.len() != high.len() {
        return Err(format!("[{text}] has numbers padded to different widths"));
    }
    Ok((first, last, if padded(low) { low.len() } else { 0 }))
}

fn product(prefixes: &[String], endings: &Endings) -> Result<Vec<String>, String> {
    let mut names = Vec::with_capacity(prefixes.len() * endings.len());
    for prefix in prefixes {
        endings.for_each(|ending| names.push(format!("{prefix}{ending}")));
        if names.last().is_some_and(|name| name.len() > NAME_LIMIT) {
            return Err(format!("{} is longer than the {NAME_LIMIT} characters of a host name", quote(prefix)));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        expand(text, 1000).unwrap()
    }

    #[test]
    fn expands_as_cluster_tools_do() {
        assert_eq!(names("login1"), ["login1"]);
        assert_eq!(names("c[001-003,070]"), ["c001", "c002", "c003", "c070"]);
        assert_eq!(names("c[8-11]"), ["c8", "c9", "c10", "c11"]);
        assert_eq!(names("c[098-101]"), ["c098", "c099", "c100", "c101"]);
        assert_eq!(
            names("r[1-2]n[01-02].site, login1"),
            ["r1n01.site", "r1n02.site", "r2n01.site", "r2n02.site", "login1"]
        );
        assert_eq!(names("10.1.0.[1-2]"), ["10.1.0.1", "10.1.0.2"]);
        assert_eq!(names("n[0-2]"), ["n0", "n1", "n2"]);
    }

    #[test]
    fn refusals_say_where() {
        let why = |text: &str| expand(text, 100).unwrap_err();
        assert_eq!(why("c[1-3"), r#""c[1-3" has a "[" without "]""#);
        assert_eq!(why("c1-3]"), r#""c1-3]" has a "]" without "[""#);
        assert_eq!(why("c[[1]]"), r#""c[[1]]" has nested brackets"#);
        assert_eq!(why("c[3-1]"), "[3-1] is a descending range; write [1-3]");
        assert_eq!(why("c[01-100]"), "[01-100] has numbers padded to different widths");
        assert_eq!(why("c[a]"), "[a] is not a number or a range such as 001-064");
        assert_eq!(why("c1,,c2"), r#""" is not a host name"#);
        assert_eq!(why("c 1"), r#""c 1" is not a host name"#);
        assert_eq!(why("c[1-101]"), r#""c[1-101]" names too many hosts; 100 more are allowed"#);
        assert_eq!(why("c[1-50],d[1-51]"), r#""c[1-50],d[1-51]" names too many hosts; 100 more are allowed"#);
    }

    #[test]
    fn small_texts_cannot_expand_to_much() {
        assert!(expand("c[0-999999999][0-999999999][0-999999999]", 65_536).is_err());
        assert!(expand(&"[1]".repeat(100_000), 65_536).is_err());
        assert!(expand(&format!("[1-65536]{}", "x".repeat(1 << 20)), 65_536).is_err());
    }

    proptest! {
        #[test]
        fn a_range_gives_each_number_once(low in 0_u64..2000, more in 0_u64..500, width in 1_usize..6) {
            let high = low + more;
            let width = width.max(high.to_string().len());
            let list = expand(&format!("c[{low:0width$}-{high:0width$}]x"), 1000).unwrap();
            let expected: Vec<_> = (low..=high).map(|n| format!("c{n:0width$}x")).collect();
            prop_assert_eq!(list, expected);
        }

        #[test]
        fn what_it_gives_expands_to_itself(text in "[a-c]{1,3}(\\[[0-9]{1,2}(-[0-9]{1,2})?(,[0-9])?\\]){0,2}(,[a-c]{1,2})?") {
            if let Ok(list) = expand(&text, 2000) {
                prop_assert_eq!(expand(&list.join(","), 2000), Ok(list));
            }
        }

        #[test]
        fn any_text_stays_within_the_limit(text in "[\\[\\]0-9a,-]{0,40}|.{0,40}", limit in 0_usize..50) {
            if let Ok(list) = expand(&text, limit) {
                prop_assert!(list.len() <= limit);
            }
        }
    }
}
