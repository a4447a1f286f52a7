//! Rules that no compiler checks.

mod circles;
mod documents;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use circles::before_tests;

use crate::command::cargo;

/// Widest comment line, in characters: the formatter's `max_width`, which it does not apply to comments.
const MAX_COMMENT: usize = 120;

/// Marks of unfinished code.
const UNFINISHED: [&str; 4] = ["TODO", "FIXME", "XXX:", "unimplemented!("];

/// Checks all rules and reports every breach.
pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent directory")?;
    let mut breaches = arrows(root)?;
    let files = rust_files(root)?;
    for file in &files {
        breaches.extend(check_file(root, file)?);
    }
    for folder in crates(root)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        breaches.extend(circles::check(&name, &circles::sources(&folder, &files)?));
        breaches.extend(check_examples(&name, &folder, &files)?);
    }
    breaches.extend(check_measurements(root)?);
    breaches.extend(documents::check(root)?);
    if breaches.is_empty() { Ok(()) } else { Err(breaches.join("\n")) }
}

/// Compares the dependencies among our crates with the list in ARCHITECTURE.md.
fn arrows(root: &Path) -> Result<Vec<String>, String> {
    let text = read(&root.join("ARCHITECTURE.md"))?;
    let documented = documented_arrows(&text);
    let actual = actual_arrows(root)?;
    let crates: BTreeSet<&String> = documented.keys().chain(actual.keys()).collect();
    let nothing = BTreeSet::new();
    Ok(crates
        .into_iter()
        .filter(|name| documented.get(*name) != actual.get(*name))
        .map(|name| {
            let [documented, actual] = [&documented, &actual].map(|arrows| arrows.get(name).unwrap_or(&nothing));
            format!("ARCHITECTURE.md: says {name} -> {documented:?}, its Cargo.toml says {actual:?}")
        })
        .collect())
}

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Lines of the form "- `crate` -> `crate`, `crate`" or "- `crate` -> nothing".
fn documented_arrows(text: &str) -> Arrows {
    let names = |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    text.lines()
        .filter_map(|line| line.strip_prefix("- ")?.split_once(" -> "))
        .filter_map(|(from, to)| Some((names(from).pop()?, names(to).into_iter().collect())))
        .collect()
}

fn actual_arrows(root: &Path) -> Result<Arrows, String> {
    let output = cargo(&["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let name_of = |value: &serde_json::Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name_of).collect();
    Ok(packages
        .iter()
        .map(|package| {
            let name = name_of(package);
            let dependencies = package["dependencies"].as_array().into_iter().flatten().map(name_of);
            // A crate may depend on itself with other features, for its tests.
            let to = dependencies.filter(|to| ours.contains(to) && *to != name).collect();
            (name, to)
        })
        .collect())
}

fn check_file(root: &Path, file: &Path) -> Result<Vec<String>, String> {
    let text = read(file)?;
    let name = file.strip_prefix(root).unwrap_or(file).display();
    let mut breaches = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if !file.ends_with("tidy/mod.rs") && UNFINISHED.iter().any(|mark| line.contains(mark)) {
            breaches.push(format!("{name}:{}: unfinished code", number + 1));
        }
        // That file has the list.
        let phrase = (!file.ends_with("tidy/documents.rs")).then(|| documents::check_code(&name.to_string(), line));
        breaches.extend(phrase.flatten().map(|what| format!("{name}:{}: {what}", number + 1)));
    }
    let wide = wide_comments(&text);
    breaches.extend(wide.map(|line| format!("{name}:{line}: a comment wider than {MAX_COMMENT} columns")));
    breaches.extend(check_protocols(&name.to_string(), &text));
    Ok(breaches)
}

/// Whether the examples of a library are run, and nothing is compiled to find none.
fn check_examples(name: &str, folder: &Path, files: &[PathBuf]) -> Result<Option<String>, String> {
    let source = folder.join("src");
    if !source.join("lib.rs").exists() {
        return Ok(None);
    }
    let mut has_examples = false;
    for file in files.iter().filter(|file| file.starts_with(&source)) {
        let example = |line: &str| ["/// ```", "//! ```"].iter().any(|mark| line.trim_start().starts_with(mark));
        has_examples |= read(file)?.lines().any(example);
    }
    let runs_them = !read(&folder.join("Cargo.toml"))?.contains("\ndoctest = false");
    let wrong =
        if has_examples { "its examples are not run: remove `doctest = false`" } else { "add `doctest = false`" };
    Ok((has_examples != runs_them).then(|| format!("{name}: {wrong}")))
}

/// Numbers of the comment lines that are too wide. Comments behind code are left to the formatter.
fn wide_comments(text: &str) -> impl Iterator<Item = usize> {
    let is_wide = |line: &str| line.trim_start().starts_with("//") && line.chars().count() > MAX_COMMENT;
    text.lines().zip(1..).filter(move |(line, _)| is_wide(line)).map(|(_, number)| number)
}

/// The folders of our crates.
fn crates(root: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(root.join("crates")).map_err(|error| format!("crates: {error}"))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.extend(["xtask", "bench", "e2e", "fuzz"].map(|folder| root.join(folder)));
    folders.sort_unstable();
    Ok(folders)
}

fn rust_files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut pending: Vec<PathBuf> =
        ["crates", "xtask", "bench", "e2e", "fuzz/fuzz_targets", "fuzz/src"].iter().map(|dir| root.join(dir)).collect();
    while let Some(dir) = pending.pop() {
        let entries = std::fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", dir.display()))?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

const PAGE: &str = "docs/measurements.md";

const CLAIMS: &str = "docs/measurements/claims.json";

const BEGIN: &str = "<!-- claims -->\n";

const END: &str = "<!-- /claims -->";

/// What every claim states.
const FIELDS: [&str; 7] = ["claim", "goal", "by_hand", "value", "command", "commit", "machine"];

/// Checks the table, or writes it with `UPDATE=1`.
fn check_measurements(root: &Path) -> Result<Vec<String>, String> {
    let claims: Value =
        serde_json::from_str(&read(&root.join(CLAIMS))?).map_err(|error| format!("{CLAIMS}: {error}"))?;
    let table = table(claims.as_array().ok_or("not a list")?)?;
    let page = read(&root.join(PAGE))?;
    let (before, rest) = page.split_once(BEGIN).ok_or("docs/measurements.md has no <!-- claims -->")?;
    let (_, after) = rest.split_once(END).ok_or("docs/measurements.md has no <!-- /claims -->")?;
    let new = format!("{before}{BEGIN}{table}{END}{after}");
    if new == page {
        return Ok(Vec::new());
    }
    if std::env::var_os("UPDATE").is_some() {
        return std::fs::write(root.join(PAGE), new).map(|()| Vec::new()).map_err(|error| format!("{PAGE}: {error}"));
    }
    Ok(vec![format!("{PAGE}: differs from {CLAIMS}; UPDATE=1 cargo xtask tidy writes the table")])
}

fn table(claims: &[Value]) -> Result<String, String> {
    let mut table = "|claim|goal|best by hand|vpfs|command|origin|\n|---|---|---|---|---|---|\n".to_owned();
    for claim in claims {
        if let Some(group) = claim["group"].as_str() {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "|**{group}**|||||");
            continue;
        }
        let field = |name: &str| claim[name].as_str().ok_or_else(|| format!("{CLAIMS}: {claim} has no {name:?}"));
        let [what, goal, by_hand, value, command, commit, machine] = FIELDS.map(field);
        let command = command.map(|text| if text.contains('`') { text.to_owned() } else { format!("`{text}`") });
        let (what, goal, by_hand, value) = (what?, goal?, by_hand?, value?);
        let (command, commit, machine) = (command?, commit?, machine?);
        let day = field("day")?.rsplit('-').next().unwrap_or_default().trim_start_matches('0');
        let _ = writeln!(table, "|{what}|{goal}|{by_hand}|{value}|{command}|{commit}, {machine}, {day}|");
    }
    Ok(table)
}

/// The module that defines these types; no other one has this name.
const CODECS: &str = "wire";

/// Prefixes of the paths that may name types of a protocol, and why.
const PROTOCOLS: [(&str, &str); 12] = [
    ("crates/vpfs-protocol/src/wire/", "the codecs themselves"),
    ("crates/vpfs-protocol/src/session/orangefs.rs", "the session of OrangeFS"),
    ("crates/vpfs-protocol/src/session/nfs.rs", "the session of NFS"),
    ("crates/vpfs-protocol/tests/", "tests of both sessions, with their messages"),
    ("crates/vpfs-testbed/src/client/", "the client library of OrangeFS"),
    ("crates/vpfs-testbed/src/server/", "the embedded servers of OrangeFS"),
    ("crates/vpfs-testbed/src/fsconfig/", "the configuration of OrangeFS servers"),
    ("crates/vpfs-testbed/src/transport.rs", "frames of BMI and the rules of flows, for both"),
    ("crates/vpfs-testbed/tests/", "tests of both, with their messages"),
    ("crates/vpfs-proxy/tests/", "raw clients and servers that misbehave"),
    ("crates/vpfs-proxy/src/simulation", "model clients and servers, for tests"),
    ("fuzz/", "fuzzes the codecs and the session"),
];

/// The lines of a file that name a type of a protocol where that is not permitted. Unit tests are exempt.
fn check_protocols(name: &str, text: &str) -> Vec<String> {
    if PROTOCOLS.iter().any(|(start, _)| name.starts_with(start)) {
        return Vec::new();
    }
    let lines = before_tests(text).lines().zip(1..);
    let names_codecs = |line: &str| {
        let mut words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':');
        words.any(|word| format!("::{word}").contains(&format!("::{CODECS}::")))
    };
    let is_breach = |line: &str| !line.trim_start().starts_with("//") && names_codecs(line);
    lines
        .filter(|(line, _)| is_breach(line))
        .map(|(_, number)| format!("{name}:{number}: must not name a type of a protocol; see xtask/src/tidy/mod.rs"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_are_read_from_the_list() {
        let arrows = documented_arrows("text\n- `a` -> `b`, `c` (why)\n- `b` -> nothing\n- other\n");
        assert_eq!(arrows["a"], BTreeSet::from(["b".to_owned(), "c".to_owned()]));
        assert!(arrows["b"].is_empty());
        assert_eq!(arrows.len(), 2);
    }

    #[test]
    fn wide_comments_are_found() {
        let comment = |columns: usize| format!("    /// {}\n", "\u{e9}".repeat(columns - "    /// ".len()));
        let code = format!("let text = \"{}\";\n", "x".repeat(MAX_COMMENT));
        let text = [comment(MAX_COMMENT), comment(MAX_COMMENT + 1), code].concat();
        assert_eq!(wide_comments(&text).collect::<Vec<_>>(), [2], "columns are characters, and code may be wider");
    }

    #[test]
    fn a_claim_without_its_origin_is_refused() {
        let claim = serde_json::json!({ "claim": "a", "goal": "", "by_hand": "", "value": "1", "command": "c" });
        assert!(table(&[claim]).is_err_and(|error| error.contains("commit")));
    }

    #[test]
    fn types_of_a_protocol_are_found_outside_its_modules() {
        let text = "use vpfs_protocol::wire::bmi::Tag;\n// vpfs_protocol::wire::pvfs2\nuse crate::{a, wire::bmi};\nuse crate::rewire::X;\n\
                    #[cfg(test)]\nmod tests { use vpfs_protocol::wire::bmi; }\n";
        assert_eq!(check_protocols("crates/vpfs-node/src/node.rs", text).len(), 2);
        assert!(
            check_protocols("crates/vpfs-protocol/src/session/contract.rs", text)[0]
                .starts_with("crates/vpfs-protocol/src/session/contract.rs:1:")
        );
        assert_eq!(check_protocols("crates/vpfs-protocol/src/session/orangefs.rs", text), Vec::<String>::new());
    }
}
