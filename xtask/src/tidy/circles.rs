//! Circles of imports among the modules of a crate, and among the modules in each folder.
//!
//! A module is a file or folder in the examined folder, with everything in it; modules inside a folder may import its
//! parent. Types that a folder's `mod.rs` or the crate's root re-exports count as belonging to their module. Imports in
//! unit tests are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Modules that import each other, in a crate or a folder of its `src`, and why that is right.
const ALLOWED: [(&str, &[&str], &str); 1] = [(
    "vpfs-protocol/wire",
    &["bmi", "pvfs2"],
    "an error names the operation whose body has no known layout, and both layers return errors",
)];

type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles of the crate called `name`; `files` are its sources with their paths in `src`.
pub(super) fn check(name: &str, files: &[(String, String)]) -> Vec<String> {
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
pub(super) fn before_tests(text: &str) -> &str {
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
        let root = file("lib.rs", "mod a;\n#[cfg(test)]\nmod simulation;\npub use b::{B, C};\npub use c::D;\n");
        let a = file("a/deep.rs", "use crate::{\n    B,\n    other::E,\n};\n");
        let b = file("b.rs", "use crate::D;\n");
        let c = file("c.rs", "fn f() { crate::a::g() }\n");
        let circle = ["x: modules that import each other: a, b, c".to_owned()];
        assert_eq!(check("x", &[root.clone(), a.clone(), b.clone(), c]), circle);
        let harmless = file("c.rs", "// f; crate::a\n#[cfg(test)]\nmod tests { use crate::a; }\n");
        assert_eq!(check("x", &[root, a, b, harmless]), Vec::<String>::new());
    }

    #[test]
    fn circles_are_found_in_a_folder() {
        let root = file("a/mod.rs", "pub(crate) use c::C;\n");
        let b = file("a/b.rs", "use super::C;\nuse super::super::other;\n");
        let c = file("a/c/mod.rs", "use crate::a::D;\n");
        let deep = file("a/c/deep.rs", "use super::super::b::B;\n");
        let circle = ["x/a: modules that import each other: b, c".to_owned()];
        assert_eq!(check("x", &[root.clone(), b.clone(), c.clone(), deep]), circle);
        assert_eq!(check("x", &[root, b, c]), Vec::<String>::new(), "children may know their parent");
    }

    /// Symptom: a module that imports a list of several lines seemed to import whichever module's list is the last one
    /// in the root. Cause: the end of both lists counted as a name, an empty one.
    #[test]
    fn the_end_of_a_list_is_no_name() {
        let root = file("a/mod.rs", "pub use c::{C, D};\n");
        let b = file("a/b.rs", "use super::{\n    Other,\n};\n");
        let c = file("a/c.rs", "use super::b::B;\n");
        assert_eq!(check("x", &[root, b, c]), Vec::<String>::new());
    }
}
