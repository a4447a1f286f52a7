//! Documents: their language, their links, and how much there is to read.

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use super::{language, markdown, read};

/// The most words in all documents together. A longer text is shortened, or replaces another one.
const MAX_WORDS: usize = 45_000;
/// The same for one decision,
const MAX_DECISION_WORDS: usize = 700;
/// and for the first page, in lines.
const MAX_README_LINES: usize = 120;

/// Breaches of all documents in the repository.
pub(super) fn check(root: &Path) -> Result<Vec<String>, String> {
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
        for paragraph in markdown::paragraphs(&text) {
            let found = language::check(&name, &paragraph).into_iter();
            breaches.extend(found.map(|(line, what)| format!("{name}:{line}: {what}")));
        }
        for (line, target) in markdown::links(&text) {
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
    let found = anchor.is_empty()
        || read(&place).is_ok_and(|text| markdown::anchors(&text).iter().any(|heading| heading == anchor));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_from_their_file() {
        assert_eq!(normal(Path::new("docs/guide/../config.md")), Path::new("docs/config.md"));
    }
}
