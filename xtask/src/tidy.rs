//! Rules that no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cargo;

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
        breaches.extend(check_circles(&name, &sources(&folder, &files)?));
        breaches.extend(check_examples(&name, &folder, &files)?);
    }
    breaches.extend(check_measurements(root)?);
    breaches.extend(check_documents(root)?);
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
    // This file has the lists.
    let is_list = file.ends_with("xtask/src/tidy.rs");
    for (line, number) in text.lines().zip(1..).filter(|_| !is_list) {
        if UNFINISHED.iter().any(|mark| line.contains(mark)) {
            breaches.push(format!("{name}:{number}: unfinished code"));
        }
        breaches.extend(check_code(&name.to_string(), line).map(|what| format!("{name}:{number}: {what}")));
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
        let day = field("day")?.split_once('-').unwrap_or_default().1;
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
        .map(|(_, number)| format!("{name}:{number}: must not name a type of a protocol; see xtask/src/tidy.rs"))
        .collect()
}

/// Modules that import each other, in a crate or a folder of its `src`, and why that is right.
const ALLOWED: [(&str, &[&str], &str); 1] = [(
    "vpfs-protocol/wire",
    &["bmi", "pvfs2"],
    "an error names the operation whose body has no known layout, and both layers return errors",
)];

type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles of imports among the modules of the crate called `name`, and among the modules in each folder; `files`
/// are its sources with their paths in `src`.
///
/// A module is a file or folder in the examined folder, with everything in it; modules inside a folder may import its
/// parent. Types that a folder's `mod.rs` or the crate's root re-exports count as belonging to their module. Imports in
/// unit tests are not checked.
fn check_circles(name: &str, files: &[(String, String)]) -> Vec<String> {
    let folders: BTreeSet<&str> = files.iter().flat_map(|(path, _)| folders_of(path)).collect();
    folders.into_iter().flat_map(|folder| check_folder(name, folder, files)).collect()
}

/// The folders that a file is in, each as the start of its path.
fn folders_of(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at + 1);
    [0].into_iter().chain(ends).map(|end| &path[..end])
}

fn check_folder(name: &str, folder: &str, files: &[(String, String)]) -> Vec<String> {
    let place = format!("{name}/{folder}");
    let place = place.trim_end_matches('/');
    let imports = imports(folder, files);
    let circles = imports.keys().filter_map(|module| circle(&imports, module));
    let unique: BTreeSet<Vec<String>> = circles.collect();
    let is_allowed = |circle: &Vec<String>| ALLOWED.iter().any(|(of, modules, _)| *of == place && circle == modules);
    unique
        .into_iter()
        .filter(|circle| !is_allowed(circle))
        .map(|circle| format!("{place}: modules that import each other: {}", circle.join(", ")))
        .collect()
}

/// Which modules of `folder` each of them imports.
fn imports(folder: &str, files: &[(String, String)]) -> Imports {
    let inside = || files.iter().filter_map(|(path, text)| Some((path.strip_prefix(folder)?, text)));
    let root = inside().find(|(path, _)| is_root(path));
    let modules: BTreeSet<&str> = inside().map(|(path, _)| module_of(path)).collect();
    let exported = root.map(|(_, text)| exports(text, &modules)).unwrap_or_default();
    let absolute = format!("crate::{}", folder.replace('/', "::"));
    let mut imports = Imports::new();
    for (path, text) in inside().filter(|(path, _)| !is_root(path)) {
        let from = module_of(path);
        let relative = "super::".repeat(depth(path));
        let prefixes = [absolute.as_str(), relative.as_str()];
        let names = code(text, &prefixes)
            .into_iter()
            .flat_map(|line| prefixes.into_iter().flat_map(|prefix| names_after(&line, prefix)).collect::<Vec<_>>());
        let to = names.filter_map(|name| match modules.contains(name.as_str()) {
            true => Some(name),
            false => exported.get(&name).cloned(),
        });
        imports.entry(from.to_owned()).or_default().extend(to.filter(|to| to != from));
    }
    imports
}

fn is_root(path: &str) -> bool {
    matches!(path, "lib.rs" | "main.rs" | "mod.rs")
}

/// The first part of a path in a folder.
fn module_of(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// How many `super` lead from the module of a file to the folder that its path begins in.
fn depth(path: &str) -> usize {
    path.split('/').count() - usize::from(path.ends_with("/mod.rs"))
}

/// The types that a root imports from `modules`, each with its module: from lines such as `pub use module::{A, B};`,
/// also without `pub`, because the modules in a folder see their parent's imports.
fn exports(root: &str, modules: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let statements = before_tests(root).split(';').filter_map(|statement| statement.rsplit_once("use "));
    statements
        .filter_map(|(_, path)| path.trim_start_matches("self::").split_once("::"))
        .filter(|(module, _)| modules.contains(module))
        .flat_map(|(module, names)| {
            let names = names.split(['{', '}', ',', ' ', '\n']).filter(|name| !name.is_empty());
            names.map(move |name| (name.to_owned(), module.to_owned()))
        })
        .collect()
}

/// Statements before the tests, without comments; a list of imports in braces may span several lines.
fn code(text: &str, prefixes: &[&str]) -> Vec<String> {
    let lists: Vec<String> = prefixes.iter().map(|prefix| format!("use {prefix}{{")).collect();
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code = before_tests(text).lines().filter(is_code).collect::<Vec<_>>().join("\n");
    let statements = code.split(';').flat_map(|statement| {
        let is_import = lists.iter().any(|list| statement.trim_start().starts_with(list));
        if is_import { vec![statement] } else { statement.lines().collect() }
    });
    statements.map(str::to_owned).collect()
}

/// The text of a file without its unit tests. A declaration such as `mod simulation;` may stand anywhere.
fn before_tests(text: &str) -> &str {
    let ends = ["#[cfg(test)]\nmod ", "#[cfg(test)]\npub"].into_iter().flat_map(|mark| text.match_indices(mark));
    let is_code =
        |(at, mark): &(usize, &str)| text[at + mark.len()..].lines().next().is_some_and(|line| !line.ends_with(';'));
    let end = ends.filter(is_code).map(|(at, _)| at).min();
    &text[..end.unwrap_or(text.len())]
}

/// The names that follow `prefix` where it is not the end of a longer path: a single name, or the outer names of a list
/// in braces.
fn names_after(line: &str, prefix: &str) -> Vec<String> {
    let starts = line.match_indices(prefix).filter(|(at, _)| !line[..*at].ends_with("::"));
    let rests = starts.map(|(at, _)| &line[at + prefix.len()..]);
    rests
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(list) => list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>(),
            None => vec![rest.to_owned()],
        })
        .map(|name| name.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect())
        .collect()
}

/// The modules that import `module` and are imported by it, directly or indirectly, including itself; sorted.
fn circle(imports: &Imports, module: &str) -> Option<Vec<String>> {
    let circle: Vec<String> = imports
        .keys()
        .filter(|other| *other == module || reaches(imports, module, other) && reaches(imports, other, module))
        .cloned()
        .collect();
    (circle.len() > 1).then_some(circle)
}

fn reaches(imports: &Imports, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if next == to {
                return true;
            }
            if seen.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    false
}

/// The sources of a crate, with their paths in `src`.
fn sources(folder: &Path, files: &[std::path::PathBuf]) -> Result<Vec<(String, String)>, String> {
    let source = folder.join("src");
    let own = files.iter().filter_map(|file| Some((file, file.strip_prefix(&source).ok()?)));
    own.map(|(file, path)| Ok((path.display().to_string(), read(file)?))).collect()
}

/// The most words in all documents together. A longer text is shortened, or replaces another one.
const MAX_WORDS: usize = 45_000;

/// The same for one decision,
const MAX_DECISION_WORDS: usize = 700;

/// and for the first page, in lines.
const MAX_README_LINES: usize = 120;

/// Breaches of all documents in the repository: their language, their links, and how much there is to read.
fn check_documents(root: &Path) -> Result<Vec<String>, String> {
    let mut breaches = Vec::new();
    let mut words = 0;
    for file in files(root)? {
        let text = read(&root.join(&file))?;
        let name = file.display().to_string();
        let count = text.split_whitespace().count();
        words += count;
        if name.starts_with("docs/decisions") && count > MAX_DECISION_WORDS {
            breaches.push(format!("{name}: {count} words, at most {MAX_DECISION_WORDS}"));
        }
        if name == "README.md" && text.lines().count() > MAX_README_LINES {
            breaches.push(format!("{name}: more than {MAX_README_LINES} lines"));
        }
        for paragraph in paragraphs(&text) {
            let found = check_language(&name, &paragraph).into_iter();
            breaches.extend(found.map(|(line, what)| format!("{name}:{line}: {what}")));
        }
        for (line, target) in links(&text) {
            breaches.extend(broken(root, &file, &target).map(|what| format!("{name}:{line}: {what}")));
        }
    }
    if words > MAX_WORDS {
        breaches.push(format!("documents: {words} words, at most {MAX_WORDS}"));
    }
    Ok(breaches)
}

/// All documents that Git knows.
fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git").args(["ls-files", "*.md"]).current_dir(root).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(list.lines().map(PathBuf::from).filter(|file| root.join(file).exists()).collect())
}

/// What is wrong with a link of `file`. Those to other sites are not followed.
fn broken(root: &Path, file: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let linked = if path.is_empty() { file.to_owned() } else { normal(&file.parent()?.join(path)) };
    let place = root.join(&linked);
    if !place.exists() {
        return Some(format!("the link leads to {}, which is not there", linked.display()));
    }
    let found =
        anchor.is_empty() || read(&place).is_ok_and(|text| anchors(&text).iter().any(|heading| heading == anchor));
    (!found).then(|| format!("{} has no heading for #{anchor}", linked.display()))
}

/// The path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

/// A paragraph, item or row without its code.
struct Paragraph {
    /// Lines joined by blanks; code is blank.
    text: String,
    /// Where in `text` each line of the file begins, and its number from 1.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    fn line_of(&self, at: usize) -> usize {
        self.lines.iter().take_while(|(start, _)| *start <= at).last().map_or(1, |(_, number)| *number)
    }
}

/// All paragraphs of a text. Fenced blocks and comments are left out.
fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut all = vec![Paragraph { text: String::new(), lines: Vec::new() }];
    for (number, line) in prose(text) {
        let starts = line.trim_start().starts_with(['#', '|', '-', '*', '>']) || line.trim().is_empty();
        if starts && all.last().is_some_and(|last| !last.text.is_empty()) {
            all.push(Paragraph { text: String::new(), lines: Vec::new() });
        }
        if let Some(last) = all.last_mut() {
            last.lines.push((last.text.len(), number));
            last.text.push_str(line.trim());
            last.text.push(' ');
        }
    }
    for paragraph in &mut all {
        paragraph.text = without_code(&paragraph.text);
    }
    all
}

/// Targets of links, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let targets = |line: &str| -> Vec<String> {
        let line = without_code(line);
        let parts = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        parts.map(|(target, _)| target.to_owned()).collect()
    };
    prose(text).flat_map(|(number, line)| targets(line).into_iter().map(move |target| (number, target))).collect()
}

/// The anchors of all headings, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).flat_map(char::to_lowercase).collect()
}

/// Lines outside of fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        let is_prose = !fenced && !is_fence && !line.starts_with("<!--");
        is_prose.then_some((number, line))
    })
}

/// The text with blanks instead of inline code, so that places stay the same.
fn without_code(text: &str) -> String {
    let mut code = false;
    let blank = |letter: char| {
        code ^= letter == '`';
        if code || letter == '`' { " ".repeat(letter.len_utf8()) } else { letter.to_string() }
    };
    text.chars().map(blank).collect()
}

// English that native readers stumble over, in documents, and the worst of it in code: help texts, messages, comments.
//
// A phrase is listed only if it can be recognised without a parser. What a word means where it is right after all goes
// into [`EXCEPTIONS`], with the reason.

/// What is not to be written, and what instead. Words, in any case; between them there may be the end of a line.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "name the person, or \"anyone who\""),
    ("nobody who", "\"no one\" with a verb, or name who may"),
    ("but for", "\"except\" or \"apart from\""),
    ("mend", "\"fix\""),
    ("mends", "\"fixes\""),
    ("mended", "\"fixed\""),
    ("lays", "\"writes\" or \"places\""),
    ("anew", "\"again\" or \"new\""),
    ("of late", "\"recently\""),
    ("beside", "\"next to\" or \"alongside\""),
    ("in turn with", "\"in alternating runs with\""),
    ("for each server", "\"per server\""),
    ("for each client", "\"per client\""),
    ("for each application", "\"per application\""),
    ("for each request", "\"per request\""),
    ("kept 0", "a percentage and of what: \"kept 84 % of its speed\""),
    ("keeps 0", "a percentage and of what: \"keeps 84 % of its speed\""),
];

/// Those that are not to be in code, either.
const IN_CODE: [&str; 7] = ["whoever", "nobody who", "but for", "mend", "mends", "mended", "lays"];

/// Part of a file's path, the phrase, and why it is right there.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Breaches in one paragraph of `file`: line and message.
fn check_language(file: &str, paragraph: &Paragraph) -> Vec<(usize, String)> {
    let found = phrases(file, &paragraph.text);
    let mut breaches: Vec<_> =
        found.map(|(at, phrase, instead)| (paragraph.line_of(at), format!("{phrase:?}: write {instead}"))).collect();
    for at in who_sentences(&paragraph.text) {
        breaches.push((paragraph.line_of(at), "a sentence that begins with \"Who\": name the subject".to_owned()));
    }
    breaches
}

/// The breach in one line of code, if it has one.
fn check_code(file: &str, line: &str) -> Option<String> {
    let (_, phrase, instead) = phrases(file, line).find(|(_, phrase, _)| IN_CODE.contains(phrase))?;
    Some(format!("{phrase:?}: write {instead}"))
}

/// Places of phrases in a text, with what to write instead.
fn phrases(file: &str, text: &str) -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    let words = words(text);
    let permitted = |phrase: &str| EXCEPTIONS.iter().any(|(path, what, _)| file.contains(path) && *what == phrase);
    let mut all = Vec::new();
    for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| !permitted(phrase)) {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let is_it =
            |found: &&[Word<'_>]| found.iter().zip(&wanted).all(|(word, it)| word.text.eq_ignore_ascii_case(it));
        all.extend(words.windows(wanted.len()).filter(is_it).map(|found| (found[0].at, *phrase, *instead)));
    }
    all.into_iter()
}

struct Word<'a> {
    at: usize,
    text: &'a str,
}

/// Words are letters, digits and hyphens, so that names such as `small-beside-large` are one.
fn words(text: &str) -> Vec<Word<'_>> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    let parts = text.split(|letter: char| !is_part(letter)).filter(|part| !part.is_empty());
    parts.map(|part| Word { at: part.as_ptr() as usize - text.as_ptr() as usize, text: part }).collect()
}

/// Where sentences begin with "Who" that do not ask.
fn who_sentences(text: &str) -> impl Iterator<Item = usize> {
    let starts = text.match_indices("Who ").filter(|(at, _)| {
        let before = text[..*at].trim_end_matches([' ', '*', '"', '(']);
        before.is_empty() || before.ends_with(['.', ':', '|', '!', '?'])
    });
    let asks = |at: usize| text[at..].find(['.', '?', '|']).is_some_and(|end| text[at + end..].starts_with('?'));
    starts.map(|(at, _)| at).filter(move |at| !asks(*at))
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

    fn file(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn circles_are_found_also_through_the_root_and_folders() {
        let root = file("lib.rs", "mod a;\n#[cfg(test)]\nmod simulation;\npub use b::{B, C};\npub use c::D;\n");
        let a = file("a/deep.rs", "use crate::{\n    B,\n    other::E,\n};\n");
        let b = file("b.rs", "use crate::D;\n");
        let c = file("c.rs", "fn f() { crate::a::g() }\n");
        let circle = ["x: modules that import each other: a, b, c".to_owned()];
        assert_eq!(check_circles("x", &[root.clone(), a.clone(), b.clone(), c]), circle);
        let harmless = file("c.rs", "// f; crate::a\n#[cfg(test)]\nmod tests { use crate::a; }\n");
        assert_eq!(check_circles("x", &[root, a, b, harmless]), Vec::<String>::new());
    }

    #[test]
    fn circles_are_found_in_a_folder() {
        let root = file("a/mod.rs", "pub(crate) use c::C;\n");
        let b = file("a/b.rs", "use super::C;\nuse super::super::other;\n");
        let c = file("a/c/mod.rs", "use crate::a::D;\n");
        let deep = file("a/c/deep.rs", "use super::super::b::B;\n");
        let circle = ["x/a: modules that import each other: b, c".to_owned()];
        assert_eq!(check_circles("x", &[root.clone(), b.clone(), c.clone(), deep]), circle);
        assert_eq!(check_circles("x", &[root, b, c]), Vec::<String>::new(), "children may know their parent");
    }

    /// Symptom: a module that imports a list of several lines seemed to import whichever module's list is the last one
    /// in the root. Cause: the end of both lists counted as a name, an empty one.
    #[test]
    fn the_end_of_a_list_is_no_name() {
        let root = file("a/mod.rs", "pub use c::{C, D};\n");
        let b = file("a/b.rs", "use super::{\n    Other,\n};\n");
        let c = file("a/c.rs", "use super::b::B;\n");
        assert_eq!(check_circles("x", &[root, b, c]), Vec::<String>::new());
    }

    #[test]
    fn links_are_followed_from_their_file() {
        assert_eq!(normal(Path::new("docs/guide/../config.md")), Path::new("docs/config.md"));
    }

    #[test]
    fn anchors_are_those_of_github() {
        assert_eq!(
            anchors("# Is it for me?\n```\n# no\n```\n## `status`, top: why\n"),
            ["is-it-for-me", "status-top-why"]
        );
    }

    #[test]
    fn links_have_their_lines() {
        assert_eq!(links("a\n[b](c.md) and [d](e.md#f) `[x](y)`"), [(2, "c.md".to_owned()), (2, "e.md#f".to_owned())]);
    }

    fn breaches(text: &str) -> usize {
        paragraphs(text).iter().map(|one| check_language("a.md", one).len()).sum()
    }

    #[test]
    fn phrases_are_found_over_ends_of_lines_and_only_in_prose() {
        assert_eq!(breaches("All pass, but\nfor one. It was Mended."), 2);
        assert_eq!(breaches("`vpfs x --mend`, small-beside-large, amend\n\n```sh\nmend\n```\n"), 0);
    }

    #[test]
    fn the_worst_is_found_in_code() {
        assert!(check_code("a.rs", "/// How to mend it.").is_some());
        assert!(check_code("a.rs", "let is_mended = beside; // for each request").is_none());
    }

    #[test]
    fn only_questions_begin_with_who() {
        assert_eq!(breaches("Who waits is slow. So *Who pays* waits."), 1);
        assert_eq!(breaches("Who waits for whom? The table tells. People who wait."), 0);
    }
}
