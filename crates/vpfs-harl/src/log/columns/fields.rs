//! Lines as fields.

use std::borrow::Cow;

/// What stands between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Character(char),
    /// Any number of blanks.
    Blanks,
}

impl Separator {
    /// That of a log that begins with this line.
    pub(super) fn of(line: &str) -> Self {
        let count = |separator: &char| line.matches(*separator).count();
        let most = ['\t', ';', ',', '|'].into_iter().rev().max_by_key(count).filter(|separator| count(separator) > 0);
        most.map_or(Self::Blanks, Self::Character)
    }

    /// The first field, without quotes, and what follows it.
    pub(super) fn split(self, line: &str) -> (Cow<'_, str>, Option<&str>) {
        let line = line.trim_start_matches(|letter: char| letter == ' ' || self == Self::Blanks && letter == '\t');
        if let Some((field, rest)) = self.quoted(line) {
            return (field, rest);
        }
        let split = match self {
            Self::Character(separator) => line.split_once(separator),
            Self::Blanks => line.split_once([' ', '\t']),
        };
        match split {
            Some((field, rest)) if self == Self::Blanks && rest.trim().is_empty() => (field.into(), None),
            Some((field, rest)) => (field.trim().into(), Some(rest)),
            None => (line.trim().into(), None),
        }
    }

    /// A field that begins with a quote, if another one ends it.
    fn quoted(self, line: &str) -> Option<(Cow<'_, str>, Option<&str>)> {
        let inner = line.strip_prefix('"')?;
        let mut from = 0;
        loop {
            let end = from + inner[from..].find('"')?;
            let after = &inner[end + 1..];
            if after.starts_with('"') {
                from = end + 2;
                continue;
            }
            let field = unescaped(&inner[..end]);
            let after = after.trim_start_matches(' ');
            return match self {
                _ if after.is_empty() => Some((field, None)),
                Self::Blanks => Some((field, Some(after))),
                Self::Character(separator) => Some((field, Some(after.strip_prefix(separator)?))),
            };
        }
    }

    /// A command that changes such lines.
    pub(super) fn awk(self, program: &str) -> String {
        match self {
            Self::Blanks => format!("awk '{program}'"),
            Self::Character('\t') => format!("awk -F '\\t' -v OFS='\\t' '{program}'"),
            Self::Character(separator) => format!("awk -F '{separator}' -v OFS='{separator}' '{program}'"),
        }
    }

    /// All fields.
    pub(super) fn fields(self, line: &str) -> Vec<Cow<'_, str>> {
        let mut rest = Some(line);
        std::iter::from_fn(|| {
            let (field, next) = self.split(rest?);
            rest = next;
            Some(field)
        })
        .collect()
    }
}

fn unescaped(field: &str) -> Cow<'_, str> {
    if field.contains('"') { field.replace("\"\"", "\"").into() } else { field.into() }
}

/// The rest of a line as one field: a name may contain separators.
pub(super) fn whole(rest: &str) -> Cow<'_, str> {
    let rest = rest.trim();
    match rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => unescaped(inner),
        None => rest.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_split_as_their_line_says() {
        for (line, expected) in [
            ("a,b, c", vec!["a", "b", "c"]),
            ("a;b;1,5", vec!["a", "b", "1,5"]),
            ("a\tb c\t\t5", vec!["a", "b c", "", "5"]),
            ("  a   b c  ", vec!["a", "b", "c"]),
            ("\"a,\"\"b\",c", vec!["a,\"b", "c"]),
            ("\"a\" \"b c\" 5", vec!["a", "b c", "5"]),
            ("\"a,b", vec!["\"a", "b"]),
            ("a | b", vec!["a", "b"]),
        ] {
            assert_eq!(Separator::of(line).fields(line), expected, "{line}");
        }
        assert_eq!(Separator::of("one"), Separator::Blanks);
    }
}
