//! Rules about names: which files get regions, and which names are ours.

use glob::{MatchOptions, Pattern, PatternError};
use vpfs_harl::RegionStripeTable;

/// Maps have such names until they are complete; no program sees or makes them.
const NEW: &str = ".vpfs-new-";

/// New files that match get regions.
#[derive(Clone, Debug)]
pub struct Rule {
    pattern: Pattern,
    /// The stripes of a whole class: those of a server times its servers.
    pub table: RegionStripeTable,
    /// The class of each stripe in a row.
    pub classes: Vec<String>,
}

impl Rule {
    /// `pattern` is a path below the source in which `*` stands for any part of one name and `**` for any
    /// directories, but not for hidden ones, as in a shell.
    ///
    /// # Errors
    /// If it is no pattern.
    pub fn new(pattern: &str, classes: Vec<String>, table: RegionStripeTable) -> Result<Self, PatternError> {
        Ok(Self { pattern: Pattern::new(pattern)?, table, classes })
    }
}

/// The first rule for a new file. A file that `vpfs layout copy` builds has the layout of the name that it will get.
pub fn rule<'a>(rules: &'a [Rule], directory: &str, name: &str) -> Option<&'a Rule> {
    let copied = name.strip_prefix('.').and_then(|name| name.strip_suffix(".vpfs-partial"));
    let name = copied.unwrap_or(name);
    let path = if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
    let (require_literal_separator, require_literal_leading_dot) = (true, true);
    let options = MatchOptions { case_sensitive: true, require_literal_separator, require_literal_leading_dot };
    rules.iter().find(|rule| rule.pattern.matches_with(&path, options))
}

/// The name of a map until it is complete.
pub(crate) fn unfinished(id: &str) -> String {
    format!("{NEW}{id}")
}

/// Whether a name is hidden and refused.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(NEW.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vpfs_harl::Row;

    #[test]
    fn the_first_rule_that_matches_counts() {
        let table = |end| RegionStripeTable::new([Row { bytes: 0..end, stripes: vec![1] }]);
        let rule_of = |pattern, end| Rule::new(pattern, vec!["disk".into()], table(end)).unwrap();
        let rules = [rule_of("out/*.h5", 1), rule_of("**/*.h5", 2), rule_of("top", 3)];
        let found = |directory, name| rule(&rules, directory, name).map(|rule| rule.table.rows()[0].bytes.end);
        assert_eq!(found("out", "a.h5"), Some(1));
        assert_eq!(found("out/deep", "a.h5"), Some(2), "* does not cross directories");
        assert_eq!(found("", "a.h5"), Some(2));
        assert_eq!(found("out", ".a.h5.vpfs-partial"), Some(1), "a copy gets the layout of its name");
        assert_eq!(found("out", ".a.h5"), None, "hidden files are matched by name only, as in a shell");
        assert_eq!((found("", "top"), found("", "other")), (Some(3), None));
        assert!(Rule::new("a[", vec![], table(1)).is_err());
    }

    #[test]
    fn only_unfinished_maps_are_hidden() {
        assert!(is_reserved(unfinished("00").as_bytes()));
        assert!(!is_reserved(b".vpfs-partial") && !is_reserved(b"a.vpfs-new-"));
    }
}
