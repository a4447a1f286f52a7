//! Fenced blocks of Markdown, and the commands in them.

use std::ops::Range;

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
