//! The outputs that guides show are those of the commands above them.
//!
//! In a block of README.md or docs/guide that starts with "```console test", each line `$ COMMAND` is run in an empty
//! directory, and what it prints must be what follows. A line `...` leaves out lines up to the one that is shown next.
//! `UPDATE=1 cargo test -p vpfs --test guides` writes what commands print now.

use std::path::{Path, PathBuf};
use std::process::Command;

const FENCE: &str = "```console test";

/// What the shell prints for `command`, with the program under test on its PATH.
fn run(directory: &Path, command: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_vpfs")).parent().expect("a file in a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh").args(["-c", command]).current_dir(directory).env("PATH", path).output();
    let output = output.expect("there is a shell");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// The shown part of `printed`: each run of lines after `...` begins at the printed line that equals its first one, and
/// keeps its length.
fn shown(command: &str, old: &[&str], printed: &[String]) -> Vec<String> {
    if !old.contains(&"...") {
        return printed.to_vec();
    }
    let (mut new, mut rest) = (Vec::new(), printed);
    for (number, part) in old.split(|line| *line == "...").enumerate() {
        if number > 0 {
            new.push("...".to_owned());
        }
        let Some(first) = part.first() else { continue };
        let at = rest.iter().position(|line| line == first);
        let at = at.unwrap_or_else(|| panic!("{command} no longer prints {first:?}; mend the block by hand"));
        let end = (at + part.len()).min(rest.len());
        new.extend_from_slice(&rest[at..end]);
        rest = &rest[end..];
    }
    new
}

/// The document as it must be.
fn expected(text: &str) -> String {
    let (mut lines, mut new) = (text.lines().peekable(), Vec::new());
    while let Some(line) = lines.next() {
        new.push(line.to_owned());
        if line != FENCE {
            continue;
        }
        let directory = tempfile::tempdir().expect("a directory");
        while let Some(command) = lines.next_if(|line| *line != "```") {
            new.push(command.to_owned());
            let command = command.strip_prefix("$ ").unwrap_or_else(|| panic!("{command:?} is no command"));
            let mut old = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ") && *line != "```") {
                old.push(line);
            }
            new.extend(shown(command, &old, &run(directory.path(), command)));
        }
    }
    new.join("\n") + "\n"
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guides = std::fs::read_dir(root.join("docs/guide")).expect("there are guides");
    let guides = guides.map(|entry| entry.expect("a file").path());
    guides.filter(|path| path.extension().is_some_and(|end| end == "md")).chain([root.join("README.md")]).collect()
}

#[test]
fn guides_show_what_commands_print() {
    let mut blocks = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a text");
        blocks += text.lines().filter(|line| *line == FENCE).count();
        let expected = expected(&text);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &expected).expect("it can be written");
            continue;
        }
        let path = path.display();
        assert!(text == expected, "{path}: UPDATE=1 cargo test -p vpfs --test guides writes\n{expected}");
    }
    assert!(blocks >= 3, "{blocks} blocks: the mark {FENCE:?} was lost");
}
