//! Circles of imports among the modules of a crate.
//!
//! A module is a file or folder in `src`, with everything in it; what a folder has in it may know its parent. Types
//! that the crate exports from its root count as their module's. Code for tests may import what it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Modules that import each other, and why that is right.
const ALLOWED: [(&str, &[&str], &str); 1] = [(
    "vpfs-wire",
    &["bmi", "error", "pvfs2"],
    "an error names the operation whose body has no known layout, and both layers return errors",
)];

type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles of the crate in `folder`, called `name`; `files` are its sources with their paths in `src`.
pub(super) fn check(name: &str, files: &[(String, String)]) -> Vec<String> {
    let imports = imports(files);
    let circles = imports.keys().filter_map(|module| circle(&imports, module));
    let unique: BTreeSet<Vec<String>> = circles.collect();
    let is_allowed = |circle: &Vec<String>| ALLOWED.iter().any(|(of, modules, _)| *of == name && circle == modules);
    unique
        .into_iter()
        .filter(|circle| !is_allowed(circle))
        .map(|circle| format!("{name}: modules that import each other: {}", circle.join(", ")))
        .collect()
}

/// Which modules each module imports.
fn imports(files: &[(String, String)]) -> Imports {
    let root = files.iter().find(|(path, _)| path == "lib.rs" || path == "main.rs");
    let exported = root.map(|(_, text)| exports(text)).unwrap_or_default();
    let modules: BTreeSet<&str> = files.iter().map(|(path, _)| module_of(path)).collect();
    let mut imports = Imports::new();
    for (path, text) in files {
        let from = module_of(path);
        if matches!(from, "lib" | "main") {
            continue;
        }
        let names = code(text).flat_map(|line| names_after(line, "crate::")).collect::<Vec<_>>();
        let to = names.iter().filter_map(|name| match modules.contains(name.as_str()) {
            true => Some(name.clone()),
            false => exported.get(name).cloned(),
        });
        imports.entry(from.to_owned()).or_default().extend(to.filter(|to| to != from));
    }
    imports
}

/// The first part of a path in `src`.
fn module_of(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Types that a root exports, each with its module: of lines such as `pub use module::{A, B};`.
fn exports(root: &str) -> BTreeMap<String, String> {
    let statements = root.split(';').filter_map(|statement| statement.split("pub use ").nth(1));
    statements
        .filter_map(|statement| statement.split_once("::"))
        .flat_map(|(module, names)| {
            names.split(['{', '}', ',', ' ', '\n']).map(move |name| (name.to_owned(), module.to_owned()))
        })
        .collect()
}

/// Statements before the tests, without comments; a list of imports may go over several lines.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    text[..end].split(';').flat_map(|statement| {
        let is_import = statement.trim_start().starts_with("use crate::{");
        let lines = statement.lines().filter(move |_| !is_import).filter(|line| !line.trim_start().starts_with("//"));
        lines.chain(is_import.then_some(statement))
    })
}

/// The names that follow `prefix`: one, or the outer ones of a list in braces.
fn names_after(line: &str, prefix: &str) -> Vec<String> {
    let rests = line.match_indices(prefix).map(|(at, _)| &line[at + prefix.len()..]);
    rests
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(list) => list.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>(),
            None => vec![rest.to_owned()],
        })
        .map(|name| name.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect())
        .collect()
}

/// The modules that import `module` in the end and are imported by it, with itself; sorted.
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
pub(super) fn sources(folder: &Path, files: &[std::path::PathBuf]) -> Result<Vec<(String, String)>, String> {
    let source = folder.join("src");
    let own = files.iter().filter_map(|file| Some((file, file.strip_prefix(&source).ok()?)));
    own.map(|(file, path)| Ok((path.display().to_string(), super::read(file)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> (String, String) {
        (path.to_owned(), text.to_owned())
    }

    #[test]
    fn circles_are_found_also_through_the_root_and_folders() {
        let root = file("lib.rs", "mod a;\npub use b::{B, C};\npub use c::D;\n");
        let a = file("a/deep.rs", "use crate::{\n    B,\n    other::E,\n};\n");
        let b = file("b.rs", "use crate::D;\n");
        let c = file("c.rs", "fn f() { crate::a::g() }\n");
        let circle = ["x: modules that import each other: a, b, c".to_owned()];
        assert_eq!(check("x", &[root.clone(), a.clone(), b.clone(), c]), circle);
        let harmless = file("c.rs", "// crate::a\n#[cfg(test)]\nmod tests { use crate::a; }\n");
        assert_eq!(check("x", &[root, a, b, harmless]), Vec::<String>::new());
    }
}
