//! What guides show is what the program does.
//!
//! The mark of each fenced block of README.md and docs/guide says how it is tested:
//!
//! | mark | test |
//! |---|---|
//! | `console test` | each `$ COMMAND` is run, and what it prints follows; `...` stands for lines left out |
//! | `sh run` | a script with embedded servers, which succeeds; its `sleep` waits until they listen |
//! | `sh needs WHAT` | commands that cannot run here, and why; the program knows each `vpfs COMMAND` and its options |
//! | `console measured`, `text measured` | the output depends on the machine; the commands are tested as above |
//! | `toml NAME` | a file that commands find; if it is `vpfs.toml`, it is valid |
//! | `toml`, `csv`, `yaml` | shows the form of a file |
//!
//! `UPDATE=1 cargo test -p vpfs --test guides` writes what commands print now.

use std::fmt::Write as _;
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MARKS: [&str; 9] = [
    "console test",
    "sh run",
    "sh needs WHAT",
    "console measured",
    "text measured",
    "toml NAME",
    "toml",
    "csv",
    "yaml",
];

/// Waits until everything listens that a script has started: how long that takes depends on the machine.
const SLEEP: &str = "#!/bin/bash
for at in $LISTENERS; do until (exec 3<>/dev/tcp/$at) 2>/dev/null; do /bin/sleep 0.05; done; done
";

/// What the shell prints for `command`, with the program under test on its PATH, and whether it succeeds.
fn run(directory: &Path, command: &str) -> (bool, Vec<String>) {
    let program = Path::new(env!("CARGO_BIN_EXE_vpfs")).parent().expect("a file in a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let command = format!("exec 2>&1\n{command}");
    let output = Command::new("sh").args(["-c", &command]).current_dir(directory).env("PATH", path).output();
    let output = output.expect("there is a shell");
    let printed = String::from_utf8_lossy(&output.stdout);
    (output.status.success(), printed.trim_end().lines().map(|line| line.trim_end().to_owned()).collect())
}

/// The addresses of this process, in place of 127.0.0.x: whatever else runs on this host may have the ports there.
fn network() -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{}.{low}.", u32::from(high) % 254 + 1)
}

/// Runs a script, and ends all that it has started. What it prints if it fails.
fn run_script(directory: &Path, lines: &[String]) -> Result<(), String> {
    let script = lines.join("\n");
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("it can be written");
    std::fs::create_dir_all(directory.join("bin")).expect("a directory");
    write("bin/sleep", SLEEP);
    write("script.sh", &format!("exec >script.log 2>&1\nchmod +x bin/sleep\nPATH=$PWD/bin:$PATH\n{script}\n"));
    let configurations = script.split_whitespace().filter(|word| word.ends_with(".toml"));
    let configurations = configurations.filter_map(|name| std::fs::read_to_string(directory.join(name)).ok());
    let texts: Vec<String> = configurations.chain([script.clone()]).collect();
    let before = format!("{}1:", network());
    let ports = texts.iter().flat_map(|text| text.split(&before).skip(1));
    let ports = ports.filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next());
    let listeners: Vec<String> = ports.map(|port| format!("{}{port}", before.replace(':', "/"))).collect();
    let program = Path::new(env!("CARGO_BIN_EXE_vpfs")).parent().expect("a file in a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    command.args(["120", "bash", "-e", "script.sh"]).current_dir(directory).env("PATH", path).process_group(0);
    // Sockets in /run could be those of another proxy.
    command.env("LISTENERS", listeners.join(" ")).env("RUNTIME_DIRECTORY", directory);
    let mut child = command.spawn().expect("there is a shell");
    let status = child.wait().expect("it ends");
    // What a script that failed has not ended itself. There is nothing left of one that succeeded.
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).stderr(Stdio::null()).status();
    let log = std::fs::read_to_string(directory.join("script.log")).unwrap_or_default();
    if status.success() { Ok(()) } else { Err(format!("{status}\n{log}")) }
}

/// The shown part of `printed`: each run of lines after `...` begins at the printed line that equals its first one, and
/// keeps its length.
fn shown(command: &str, old: &[String], printed: Vec<String>) -> Vec<String> {
    if !old.iter().any(|line| line == "...") {
        return printed;
    }
    let (mut new, mut rest) = (Vec::new(), printed.as_slice());
    for (number, part) in old.split(|line| line == "...").enumerate() {
        if number > 0 {
            new.push("...".to_owned());
        }
        let Some(first) = part.first() else { continue };
        let at = rest.iter().position(|line| line == first);
        let at = at.unwrap_or_else(|| panic!("{command} no longer prints {first:?}; change the block by hand"));
        let end = (at + part.len()).min(rest.len());
        new.extend_from_slice(&rest[at..end]);
        rest = &rest[end..];
    }
    new
}

/// README.md and all guides.
fn documents() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guides = std::fs::read_dir(root.join("docs/guide")).expect("there are guides");
    let guides = guides.map(|entry| entry.expect("a file").path());
    let guides = guides.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(path).expect("a text"));
    guides.chain([root.join("README.md")]).map(read).collect()
}

/// A log as a tracer writes it: 16 processes, each with one read at a time, 64 of 8 MiB, then 1024 of 128 KiB.
fn log_of_reads() -> String {
    let mut log = "rank,op,offset,size,time,end,file\n".to_owned();
    let mut reads = |count: u64, begin: u64, size: u64, start_ms: u64, takes_ms: u64| {
        for index in 0..count {
            let (rank, offset) = (index % 16, begin + index * size);
            let start = start_ms + index / 16 * takes_ms;
            let times = [start, start + takes_ms].map(|ms| format!("{}.{:03}", ms / 1000, ms % 1000)).join(",");
            writeln!(log, "{rank},r,{offset},{size},{times},/scratch/result.dat").expect("memory");
        }
    };
    reads(64, 0, 8 << 20, 0, 200);
    reads(1024, 512 << 20, 128 << 10, 1000, 10);
    log
}

/// A directory with the files that readers have: those that guides show, and what these take for granted.
fn directory(documents: &[(PathBuf, String)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("it can be written");
    write("fs.conf", include_str!("guides/fs.conf"));
    write("job.csv", &log_of_reads());
    for block in documents.iter().flat_map(|(_, text)| blocks(text)) {
        if let Some(name) = block.file() {
            write(name, &block.lines.join("\n"));
        }
    }
    directory
}

/// What stands in a block of `console test` now.
fn printed(directory: &Path, block: &Block) -> Vec<String> {
    let mut new = Vec::new();
    let mut lines = block.lines.iter().peekable();
    while let Some(command) = lines.next() {
        new.push(command.clone());
        let command = command.strip_prefix("$ ").unwrap_or_else(|| panic!("{command:?} is no command"));
        let mut old = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            old.push(line.clone());
        }
        let (success, printed) = run(directory, command);
        assert!(success, "{command}: {}", printed.join("\n"));
        new.extend(shown(command, &old, printed));
    }
    new
}

#[test]
fn guides_show_what_commands_print() {
    let documents = documents();
    let mut tested = 0;
    for (path, text) in &documents {
        // Each document has its own, and a reader follows it from the beginning.
        let directory = directory(&documents);
        let mut new: Vec<String> = text.lines().map(str::to_owned).collect();
        for block in blocks(text).filter(|block| block.mark == "console test").collect::<Vec<_>>().iter().rev() {
            tested += 1;
            new.splice(block.range(), printed(directory.path(), block).iter().map(|line| block.indented(line)));
        }
        let new = new.join("\n") + "\n";
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &new).expect("it can be written");
            continue;
        }
        let path = path.display();
        assert!(*text == new, "{path}: UPDATE=1 cargo test -p vpfs --test guides writes\n{new}");
    }
    assert!(tested >= 6, "only {tested} blocks are tested");
}

#[test]
fn scripts_of_guides_run() {
    let mut documents = documents();
    documents.iter_mut().for_each(|(_, text)| *text = text.replace("127.0.0.", &network()));
    let mut scripts = 0;
    for (path, text) in &documents {
        for block in blocks(text).filter(|block| block.mark == "sh run") {
            let directory = directory(&documents);
            let result = run_script(directory.path(), &block.lines);
            assert!(result.is_ok(), "{}:{}: {}", path.display(), block.line, result.unwrap_err());
            scripts += 1;
        }
    }
    assert!(scripts >= 2, "only {scripts} scripts are run");
}

#[test]
fn every_block_says_how_it_is_tested() {
    for (path, text) in documents() {
        for block in blocks(&text) {
            let needs = block.mark.strip_prefix("sh needs ").is_some_and(|what| !what.is_empty());
            let mark = if block.file().is_some() { "toml NAME" } else { block.mark };
            let mark = if needs { "sh needs WHAT" } else { mark };
            assert!(MARKS.contains(&mark), "{}:{}: the mark {mark:?} is unknown", path.display(), block.line);
        }
    }
}

/// A command that asks for its help. What follows `--` is another one, which may not be here.
fn asked(command: &str) -> String {
    format!("{} --help", command.split_once(" -- ").map_or(command, |(own, _)| own))
}

#[test]
fn commands_in_guides_are_commands() {
    let documents = documents();
    let directory = directory(&documents);
    let mut commands = 0;
    for (path, text) in &documents {
        for command in blocks(text).flat_map(|block| block.commands()) {
            let (success, printed) = run(directory.path(), &asked(&command));
            assert!(success, "{}: {command}\n{}", path.display(), printed.join("\n"));
            commands += 1;
        }
    }
    assert!(commands > 25, "only {commands} commands are tested");
}

/// The subcommands of `command`, and theirs.
fn subcommands(command: &str, all: &mut Vec<String>) {
    let (_, help) = run(Path::new("/"), &format!("{command} --help"));
    all.push(command.to_owned());
    // Those of vpfs itself are in groups.
    let list = help.iter().skip_while(|line| *line != "Commands:" && *line != "Operate:");
    let list = list.take_while(|line| *line != "Options:");
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        subcommands(&format!("{command} {name}"), all);
    }
}

#[test]
fn examples_in_helps_are_commands() {
    let mut all = Vec::new();
    subcommands("vpfs", &mut all);
    assert!(all.len() > 15, "{all:?}");
    let mut tested = 0;
    for command in all {
        let (_, help) = run(Path::new("/"), &format!("{command} --help"));
        for example in examples(&help) {
            let (success, printed) = run(Path::new("/"), &asked(&example));
            assert!(success, "{command} --help: {example}\n{}", printed.join("\n"));
            tested += 1;
        }
    }
    assert!(tested > 20, "only {tested} examples are tested");
}

#[test]
fn configurations_in_guides_are_valid() {
    const SERVER: &str = "[[server]]\nname = \"s1\"\naddress = \"tcp://oss1:3334\"\n[[listener]]\nport = 5334\n";
    let mut configurations = 0;
    for (path, text) in documents() {
        for block in blocks(&text).filter(|block| block.file() == Some("vpfs.toml")) {
            let mut text = block.lines.join("\n");
            if !text.contains("[[server]]") {
                text = format!("{SERVER}{text}");
            }
            let config = vpfs_config::Config::parse(&path.display().to_string(), &text)
                .unwrap_or_else(|problems| panic!("{problems}"));
            assert!(config.warnings.list.is_empty(), "{}", config.warnings);
            configurations += 1;
        }
    }
    assert!(configurations >= 2, "only {configurations} configurations are tested");
}

/// A fenced block.
pub(crate) struct Block<'a> {
    /// What stands behind the opening fence.
    pub(crate) mark: &'a str,
    /// The number of the opening fence's line, from 1.
    pub(crate) line: usize,
    /// The lines between the fences, without the fence's indentation.
    pub(crate) lines: Vec<String>,
    indent: &'a str,
}

impl<'a> Block<'a> {
    /// The file whose content this is.
    pub(crate) fn file(&self) -> Option<&'a str> {
        self.mark.strip_prefix("toml ")
    }

    /// The places of [`Block::lines`] among the lines of the text.
    pub(crate) fn range(&self) -> Range<usize> {
        self.line..self.line + self.lines.len()
    }

    pub(crate) fn indented(&self, line: &str) -> String {
        format!("{}{line}", self.indent).trim_end().to_owned()
    }

    /// Every `vpfs ...` in this block.
    pub(crate) fn commands(&self) -> Vec<String> {
        let lines = self.lines.iter().map(String::as_str);
        match self.mark.split(' ').next() {
            Some("sh") if self.mark != "sh run" => commands(lines),
            Some("console") => commands(lines.filter(|line| is_prompt(line))),
            _ => Vec::new(),
        }
    }
}

/// All blocks of a text.
pub(crate) fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (number, fence) = lines.find(|(_, line)| line.trim_start().starts_with("```"))?;
        let (indent, mark) = fence.split_once("```")?;
        let inside = lines.by_ref().take_while(|(_, line)| line.trim() != "```");
        let lines = inside.map(|(_, line)| line.strip_prefix(indent).unwrap_or(line).to_owned()).collect();
        Some(Block { mark, line: number + 1, lines, indent })
    })
}

/// Whether a line of a terminal is `$ COMMAND` or `HOST$ COMMAND`.
pub(crate) fn is_prompt(line: &str) -> bool {
    line.split_once("$ ").is_some_and(|(host, _)| host.chars().all(char::is_alphanumeric))
}

/// The examples at the end of a help text: lines that are indented by two, the longer ones wrapped.
pub(crate) fn examples(help: &[String]) -> Vec<String> {
    let section = help.iter().skip_while(|line| *line != "Examples:").skip(1);
    let mut joined: Vec<String> = Vec::new();
    for line in section.filter_map(|line| line.strip_prefix("  ")) {
        let goes_on = joined.last_mut().filter(|last| last.ends_with('\\') || !line.contains("vpfs "));
        match goes_on {
            Some(last) if last.ends_with('\\') => *last = format!("{} {}", last.trim_end_matches('\\'), line.trim()),
            // An explanation below its command.
            Some(_) if line.starts_with(' ') => (),
            Some(last) => *last = format!("{last} {line}"),
            None => joined.push(line.to_owned()),
        }
    }
    // What is far to the right explains a command.
    let command =
        |line: &String| line.split_once("   ").or(line.split_once("  ")).map_or(line.clone(), |(it, _)| it.into());
    commands(joined.iter().map(command).collect::<Vec<_>>().iter().map(String::as_str))
}

fn commands<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let parts = joined.lines().flat_map(|line| line.split(" #").next().unwrap_or_default().split([';', '|', '>']));
    let parts = parts.flat_map(|part| part.split("&&")).map(|part| part.split(" &").next().unwrap_or_default());
    let parts = parts.map(|part| if is_prompt(part) { part.split_once("$ ").map_or(part, |(_, it)| it) } else { part });
    parts.map(str::trim).filter(|part| part.starts_with("vpfs ")).map(str::to_owned).collect()
}
