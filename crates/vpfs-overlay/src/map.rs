//! Which bytes of a file lie in which region file, and the text that says so.

use std::fmt;
use std::ops::Range;

use glob::{MatchOptions, Pattern, PatternError};
use vpfs_harl::{RegionStripeTable, Row};

/// The longest text of a map, in bytes; more than a thousand regions in four classes need.
pub const TEXT_MAX: usize = 256 << 10;

/// The most classes of a map, which bounds the files that a request may touch.
const CLASSES_MAX: usize = 16;

const FIRST: &str = "vpfs region map 1";

const LAST: &str = "end";

/// The layout of a file: a name that only it has, and a table of regions. Stripes are those of a whole class: what one
/// round puts into the class's region file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionMap {
    id: String,
    classes: Vec<String>,
    table: RegionStripeTable,
    files: Vec<RegionFile>,
}

/// The part of a region that lies in one class's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionFile {
    /// Its row of the table.
    region: usize,
    /// Its class, as a number in the map's list.
    pub class: usize,
    /// Its name in the directory of the class.
    pub name: String,
    /// The region's first byte in the file.
    begin: u64,
    /// Bytes in each round of all classes, and before this class's part of it.
    round: u64,
    before: u64,
    stripe: u64,
}

/// A piece of a request that lies in one region file without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The region file, as a number in [`RegionMap::files`].
    pub file: usize,
    /// Offset in it.
    pub at: u64,
    /// Bytes, not zero.
    pub size: u64,
}

/// Why a text is no map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the region map: {problem}")]
pub struct MapError {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub problem: &'static str,
}

impl RegionMap {
    /// A map for a new file. Each row has a stripe for each class, 0 for those that hold nothing of the region.
    ///
    /// # Errors
    /// If there is no region, a region without a class, too many classes, or a name that cannot be one.
    pub fn new(id: String, classes: Vec<String>, table: RegionStripeTable) -> Result<Self, &'static str> {
        let is_id = id.len() == 32 && id.bytes().all(|letter| matches!(letter, b'0'..=b'9' | b'a'..=b'f'));
        if !is_id {
            return Err("the id is not 32 hexadecimal digits");
        }
        if classes.len() > CLASSES_MAX || !classes.iter().all(|class| is_class(class)) {
            return Err("there are more than 16 classes, or a name of one is not of letters, digits, - and _");
        }
        if (1..classes.len()).any(|at| classes[..at].contains(&classes[at])) {
            return Err("a class is listed twice");
        }
        if table.rows().is_empty() {
            return Err("there is no region");
        }
        let names = table.files(&id);
        let mut files = Vec::new();
        for (region, (row, name)) in table.rows().iter().zip(names).enumerate() {
            let sum = row.stripes.iter().try_fold(0_u64, |sum, stripe| sum.checked_add(*stripe));
            let round = sum.filter(|round| (1..=1 << 40).contains(round));
            let round = round.ok_or("a region has no class, or a round of more than 1 TiB")?;
            if row.stripes.len() != classes.len() {
                return Err("a region has not one stripe for each class");
            }
            let mut before = 0;
            for (class, stripe) in row.stripes.iter().copied().enumerate().filter(|(_, stripe)| *stripe > 0) {
                let begin = row.bytes.start;
                files.push(RegionFile { region, class, name: name.clone(), begin, round, before, stripe });
                before += stripe;
            }
        }
        Ok(Self { id, classes, table, files })
    }

    /// Reads the text of a map.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, MapError> {
        let mut lines = text.lines().map(str::trim).enumerate();
        let lines = lines.by_ref().map(|(index, line)| (index + 1, line));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut next = || lines.next().ok_or(MapError { line: text.lines().count(), problem: "the map ends early" });
        let wrong = |line, problem| MapError { line, problem };
        match next()? {
            (_, FIRST) => {}
            (line, _) => return Err(wrong(line, "is not the first line of a map of this version")),
        }
        let (line, id) = next()?;
        let id = id.strip_prefix("id ").ok_or(wrong(line, "is not the id"))?.to_owned();
        let (line, classes) = next()?;
        let classes = classes.strip_prefix("classes ").ok_or(wrong(line, "is not the list of classes"))?;
        let classes: Vec<String> = classes.split_ascii_whitespace().map(str::to_owned).collect();
        let mut regions = Vec::new();
        let last = loop {
            match next()? {
                (line, LAST) => break line,
                (line, text) => regions.push(region(text, &classes).map_err(|problem| wrong(line, problem))?),
            }
        };
        let mut expected = 0;
        let rows = regions.into_iter().map(|(bytes, stripes)| {
            let follows = bytes.start == expected && !bytes.is_empty();
            expected = bytes.end;
            let mut of_all = vec![0; classes.len()];
            stripes.into_iter().for_each(|(class, stripe)| of_all[class] = stripe);
            follows.then_some(Row { bytes, stripes: of_all })
        });
        let rows: Option<Vec<Row>> = rows.collect();
        let rows = rows.ok_or(wrong(last, "the regions do not follow each other from 0"))?;
        Self::new(id, classes, RegionStripeTable::new(rows)).map_err(|problem| wrong(last, problem))
    }

    /// The name that only this map has.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The region files, by region, then class.
    pub fn files(&self) -> &[RegionFile] {
        &self.files
    }

    /// The pieces of a range, in its order, each as long as it can be. O(log regions), then O(1) for each.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> {
        self.table.pieces(range).flat_map(move |part| {
            let first = self.files.partition_point(|file| file.region < part.region);
            let files = &self.files[first..];
            let files = &files[..files.partition_point(|file| file.region == part.region)];
            let mut at = part.offset;
            let end = part.offset + part.size;
            std::iter::from_fn(move || {
                let within = at % files[0].round;
                let index = files.partition_point(|file| file.before + file.stripe <= within);
                let file = &files[index];
                let until = if files.len() == 1 { end } else { at - within + file.before + file.stripe };
                let size = until.min(end) - at;
                let piece = Piece { file: first + index, at: file.count(at), size };
                at += size;
                (size > 0).then_some(piece)
            })
        })
    }

    /// The size of the file if this region file has `size` bytes: where its last one lies. O(1).
    pub fn end(&self, file: usize, size: u64) -> u64 {
        let file = &self.files[file];
        let Some(last) = size.checked_sub(1) else { return 0 };
        let place = (last / file.stripe).saturating_mul(file.round).saturating_add(file.before + last % file.stripe);
        file.begin.saturating_add(place).saturating_add(1)
    }

    /// How many of the first `size` bytes of the file lie in this region file. O(1).
    pub fn share(&self, file: usize, size: u64) -> u64 {
        let file = &self.files[file];
        let rows = self.table.rows();
        let end = if file.region + 1 == rows.len() { size } else { size.min(rows[file.region].bytes.end) };
        end.checked_sub(file.begin).map_or(0, |bytes| file.count(bytes))
    }
}

impl RegionFile {
    fn count(&self, bytes: u64) -> u64 {
        let within = (bytes % self.round).saturating_sub(self.before).min(self.stripe);
        bytes / self.round * self.stripe + within
    }
}

type RegionLine = (Range<u64>, Vec<(usize, u64)>);

/// `region BEGIN END CLASS=STRIPE ...`
fn region(text: &str, classes: &[String]) -> Result<RegionLine, &'static str> {
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("region") {
        return Err("is neither a region nor the end");
    }
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).filter(|number| *number <= 1 << 62);
    let bytes = number().zip(number()).ok_or("has no begin and end in bytes")?;
    let mut stripes: Vec<(usize, u64)> = Vec::new();
    for word in words {
        let (name, stripe) = word.split_once('=').ok_or("has a class without its stripe")?;
        let stripe = stripe.parse().map_err(|_| "has a stripe that is no number")?;
        let class = classes.iter().position(|class| class == name).ok_or("has a class that is not in the list")?;
        if stripes.iter().any(|(known, _)| *known == class) {
            return Err("names a class twice");
        }
        stripes.push((class, stripe));
    }
    Ok((bytes.0..bytes.1, stripes))
}

/// Names of classes stand in maps and in configurations.
pub fn is_class(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    (1..=64).contains(&name.len()) && name.chars().all(is_letter)
}

impl fmt::Display for RegionMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FIRST}")?;
        writeln!(
            f,
            "# The bytes of this file lie elsewhere: use it through `vpfs mount`, or make it plain with `vpfs layout join`."
        )?;
        writeln!(f, "id {}", self.id)?;
        writeln!(f, "classes {}", self.classes.join(" "))?;
        for row in self.table.rows() {
            write!(f, "region {} {}", row.bytes.start, row.bytes.end)?;
            for (class, stripe) in self.classes.iter().zip(&row.stripes).filter(|(_, stripe)| **stripe > 0) {
                write!(f, " {class}={stripe}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{LAST}")
    }
}

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

pub(crate) fn unfinished(id: &str) -> String {
    format!("{NEW}{id}")
}

pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(NEW.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vpfs_harl::Row;

    use super::*;

    pub(crate) const ID: &str = "00112233445566778899aabbccddeeff";

    fn map(regions: &[(u64, [u64; 2])]) -> RegionMap {
        let mut begin = 0;
        let rows = regions.iter().map(|(length, stripes)| {
            begin += length;
            Row { bytes: begin - length..begin, stripes: stripes.to_vec() }
        });
        let classes = vec!["disk".to_owned(), "flash".to_owned()];
        RegionMap::new(ID.to_owned(), classes, RegionStripeTable::new(rows)).expect("a map")
    }

    #[test]
    fn the_text_is_that_of_the_documentation() {
        let map = map(&[(100, [0, 64]), (50, [30, 10])]);
        let text = map.to_string();
        assert!(text.contains("\nregion 0 100 flash=64\nregion 100 150 disk=30 flash=10\nend\n"), "{text}");
        let names: Vec<_> = map.files().iter().map(|file| (file.class, file.name.as_str())).collect();
        let second = format!("{ID}.region-0000000000000064");
        assert_eq!(names[1..], [(0, second.as_str()), (1, second.as_str())]);
        assert_eq!(RegionMap::parse(&text).unwrap().to_string(), text);
    }

    #[test]
    fn broken_texts_are_refused_with_the_line() {
        let good = map(&[(100, [0, 64]), (50, [30, 10])]).to_string();
        let problem = |text: String| RegionMap::parse(&text).unwrap_err().to_string();
        assert!(problem(good.replace("map 1", "map 2")).starts_with("line 1 of the region map"));
        assert!(problem(good.replace("id 0", "id x")).contains("32 hexadecimal"));
        assert!(problem(good.replace(" flash=64", "")).contains("no class"));
        assert!(problem(good.replace("flash", "fl/sh")).contains("name"));
        assert!(problem(good.replace("flash=64", "tape=64")).contains("not in the list"));
        assert!(problem(good.replace("flash=10", "disk=10")).contains("twice"));
        assert!(problem(good.replace("disk flash", "flash flash").replace(" disk=30", "")).contains("listed twice"));
        assert!(problem(good.replace("region 100", "region 99")).contains("do not follow"));
        assert!(problem(good.replace("end", "")).contains("ends early"));
        assert!(problem(good.replace("100", "99999999999999999999")).contains("begin and end"));
    }

    proptest! {
        /// The oracle is a flat array: each byte has one place, and each place one byte.
        #[test]
        fn pieces_are_a_permutation_of_the_flat_file(
            regions in prop::collection::vec((1_u64..60, (0_u64..9, 0_u64..9).prop_filter("used", |(h, s)| h + s > 0)), 1..6),
            size in 0_u64..400, begin in 0_u64..400,
        ) {
            let regions: Vec<_> = regions.into_iter().map(|(length, (h, s))| (length, [h, s])).collect();
            let map = map(&regions);
            let mut taken = std::collections::BTreeMap::new();
            let mut next = 0;
            for piece in map.pieces(0..size) {
                for byte in 0..piece.size {
                    prop_assert!(taken.insert((piece.file, piece.at + byte), next).is_none(), "two bytes in one place");
                    prop_assert_eq!(map.end(piece.file, piece.at + byte + 1), next + 1);
                    next += 1;
                }
            }
            prop_assert_eq!(next, size);
            for file in 0..map.files().len() {
                let mine = taken.keys().filter(|(of, _)| *of == file).count() as u64;
                prop_assert_eq!(map.share(file, size), mine);
                prop_assert!((0..mine).all(|at| taken.contains_key(&(file, at))), "region files have no gaps");
            }
            let begin = begin.min(size);
            let mut at = begin;
            for piece in map.pieces(begin..size) {
                prop_assert_eq!(taken[&(piece.file, piece.at)], at);
                at += piece.size;
            }
            prop_assert_eq!(at, size);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(vpfs region map 1\n)?(id [0-9a-f]{32}\n)?([a-z0-9= -]{0,40}\n){0,5}(end)?") {
            let _ = RegionMap::parse(&text);
        }
    }

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
