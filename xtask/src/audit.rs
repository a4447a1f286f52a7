//! What we depend on: licences, advisories, and the oldest compiler that builds it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::{cargo, step};

/// Compares the licence of every package with the list in deny.toml. Needs no network and no other tool.
pub(crate) fn licences() -> Result<(), String> {
    check_licences(root()?)
}

/// A compiler that is not installed, and the command that installs it.
pub(crate) struct Missing(pub(crate) String);

/// The command that checks everything with the oldest compiler that may build it.
pub(crate) fn oldest_compiler() -> Result<Command, Missing> {
    let version = minimum_rust().map_err(Missing)?;
    if !Command::new("rustup").args(["run", &version, "cargo", "--version"]).output().is_ok_and(succeeded) {
        return Err(Missing(format!("Rust {version}: rustup toolchain install {version} --profile minimal")));
    }
    let mut build = Command::new("cargo");
    // A directory of its own: the other compiler's files would be built again after it.
    build.args([&format!("+{version}"), "check", "--workspace", "--all-targets", "--quiet", "--locked"]);
    build.args(["--target-dir", "target/minimum-rust"]).env_remove("RUSTUP_TOOLCHAIN");
    build.current_dir(root().map_err(Missing)?);
    Ok(build)
}

/// All checks, including that of advisories, which needs cargo-deny and its database on the network.
pub(crate) fn run() -> Result<(), String> {
    println!("== licences");
    licences()?;
    step(
        "build with the oldest compiler",
        oldest_compiler().map_err(|Missing(what)| format!("install first: {what}"))?,
    )?;
    if !succeeds(&["deny", "--version"]) {
        return Err("advisories are not checked, install first: cargo install --locked cargo-deny".to_owned());
    }
    step("advisories, licences, sources", cargo(&["deny", "check"]))
}

fn succeeds(args: &[&str]) -> bool {
    cargo(args).output().is_ok_and(succeeded)
}

#[expect(clippy::needless_pass_by_value, reason = "for `is_ok_and`")]
fn succeeded(output: std::process::Output) -> bool {
    output.status.success()
}

fn root() -> Result<&'static Path, String> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or_else(|| "xtask has no parent directory".to_owned())
}

/// `rust-version` of the workspace.
pub(crate) fn minimum_rust() -> Result<String, String> {
    let file = root()?.join("Cargo.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let version = text.lines().find_map(|line| line.strip_prefix("rust-version = "));
    version.map(|version| version.trim_matches('"').to_owned()).ok_or_else(|| "Cargo.toml: no rust-version".to_owned())
}

/// Reports each package whose licence is not permitted.
fn check_licences(root: &Path) -> Result<(), String> {
    let deny = root.join("deny.toml");
    let text = std::fs::read_to_string(&deny).map_err(|error| format!("{}: {error}", deny.display()))?;
    let permitted = permitted(&text)?;
    let mut metadata = crate::cargo(&["metadata", "--format-version", "1", "--locked"]);
    let output = metadata.current_dir(root).output().map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let breaches: Vec<String> = packages
        .iter()
        .filter_map(|package| {
            let name = |key: &str| package[key].as_str().unwrap_or_default();
            let licence = name("license");
            let fine = is_permitted(licence, &permitted);
            (!fine)
                .then(|| format!("{} {}: its licence {licence:?} is not in deny.toml", name("name"), name("version")))
        })
        .collect();
    if breaches.is_empty() { Ok(()) } else { Err(breaches.join("\n")) }
}

/// The list `allow` in `[licenses]`.
fn permitted(deny: &str) -> Result<BTreeSet<&str>, String> {
    let section = deny.split_once("[licenses]").ok_or("deny.toml: no [licenses]")?.1;
    let list = section.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.ok_or("deny.toml: no allow in [licenses]")?;
    Ok(list.split('"').skip(1).step_by(2).collect())
}

/// Whether an SPDX expression can be satisfied with permitted licences. `AND` binds more tightly than `OR`; a slash is
/// an old form of `OR`.
fn is_permitted(licence: &str, permitted: &BTreeSet<&str>) -> bool {
    let spaced = licence.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let fine = any(&mut words, permitted);
    fine && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, permitted: &BTreeSet<&str>) -> bool {
    let mut fine = all(words, permitted);
    while words.next_if_eq(&"OR").is_some() {
        fine |= all(words, permitted);
    }
    fine
}

fn all(words: &mut Words<'_>, permitted: &BTreeSet<&str>) -> bool {
    let mut fine = one(words, permitted);
    while words.next_if_eq(&"AND").is_some() {
        fine &= one(words, permitted);
    }
    fine
}

fn one(words: &mut Words<'_>, permitted: &BTreeSet<&str>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let fine = any(words, permitted);
        return words.next() == Some(")") && fine;
    }
    let Some(licence) = words.next() else { return false };
    match words.next_if_eq(&"WITH") {
        // An exception permits more than the licence does, but has to be permitted by itself.
        Some(_) => words.next().is_some_and(|exception| permitted.contains(&*format!("{licence} WITH {exception}"))),
        None => permitted.contains(licence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_satisfied_by_what_is_permitted() {
        let deny = "[bans]\nallow = [\"GPL\"]\n[licenses]\n# why\nallow = [\"MIT\", \"ISC\"]\n";
        let permitted = permitted(deny).expect("a list");
        assert_eq!(permitted, BTreeSet::from(["MIT", "ISC"]));
        for fine in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(GPL-3.0 OR ISC) AND MIT", "GPL-3.0 AND ISC OR MIT"] {
            assert!(is_permitted(fine, &permitted), "{fine}");
        }
        for not in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR MIT", "MIT WITH more", "MIT ISC", "OR MIT"] {
            assert!(!is_permitted(not, &permitted), "{not}");
        }
    }
}
