//! `vpfs generate`: man pages and completions for packages, from the definitions of the commands themselves.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::builder::PossibleValuesParser;
use clap_complete::env::Shells;

use crate::print::{CODES, Exit, print};
use crate::{GROUPS, related};

/// Write man pages and completions for bash, zsh and fish
#[derive(clap::Args)]
pub(crate) struct Generate {
    /// The directory for man/, bash/, zsh/ and fish/; files that exist are replaced
    directory: PathBuf,
}

impl Generate {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let failed = |error| Exit::Failed(format!("cannot write to {}: {error}", self.directory.display()));
        write(&self.directory, crate::command()).map_err(failed)
    }
}

fn write(directory: &Path, command: clap::Command) -> io::Result<()> {
    // `vpfs help top` would have a page of its own.
    let command = command.disable_help_subcommand(true);
    for (shell, file) in [("bash", "bash/vpfs.bash"), ("zsh", "zsh/_vpfs"), ("fish", "fish/vpfs.fish")] {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        fs::write(path, script(shell, "vpfs")?)?;
    }
    let directory = directory.join("man");
    fs::create_dir_all(&directory)?;
    clap_mangen::generate_to(command, &directory)?;
    for page in fs::read_dir(directory)? {
        let page = page?.path();
        let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        fs::write(&page, with_paths(&(with_lines(&fs::read_to_string(&page)?) + &ending(&name))))?;
    }
    Ok(())
}

/// `docs/commands.md`: a row for each command, in the order of `vpfs --help`.
#[cfg(test)]
fn reference(command: &clap::Command) -> String {
    fn rows(command: &clap::Command, name: &str, text: &mut String) {
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
            let name = format!("{name} {}", inner.get_name());
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("|`{name}`|{}|\n", about.replace('\n', " ")));
            rows(inner, &name, text);
        }
    }
    let mut text = "# Commands\n\n<!-- Printed from the definitions of the commands; do not edit. \
                    UPDATE=1 cargo test -p vpfs generate rewrites it. -->\n\n\
                    Options and examples: `vpfs COMMAND --help`, or `man vpfs-COMMAND`.\n\n\
                    |command|what it does|\n|---|---|\n"
        .to_owned();
    rows(command, "vpfs", &mut text);
    text
}

fn ending(page: &str) -> String {
    let codes = CODES.iter().map(|(code, meaning)| format!(".TP\n{code}\n{meaning}\n"));
    let command = page.strip_prefix("vpfs-").unwrap_or_default();
    // That of `vpfs app set` is about `vpfs app`.
    let parent = GROUPS.iter().flat_map(|(_, names)| *names).find(|name| command.starts_with(&format!("{name}-")));
    let related: Vec<&str> = match parent {
        Some(parent) => vec![parent],
        None if command.is_empty() => vec!["status", "demo", "init", "proxy"],
        None => related(command).collect(),
    };
    let pages = related.iter().map(|name| format!(".BR vpfs\\-{} (1),\n", name.replace('-', "\\-")));
    let main = if command.is_empty() { "" } else { ".BR vpfs (1),\n" };
    format!(
        ".SH \"EXIT STATUS\"\n{}.SH \"SEE ALSO\"\n{main}{}docs/guide/README.md, docs/config.md\n",
        codes.collect::<String>(),
        pages.collect::<String>(),
    )
}

/// The page with documents where packages install them.
fn with_paths(page: &str) -> String {
    page.replace("docs/", "/usr/share/doc/vpfs/")
}

/// The page with examples line by line, as they are printed by `--help`.
fn with_lines(page: &str) -> String {
    page.replace(".SH EXTRA\n", ".SH EXAMPLES\n.nf\n").replace("\nExamples:\n", "\n")
}

/// Set by the shell that asks.
pub(crate) const VARIABLE: &str = "VPFS_COMPLETE";

/// Print what makes a shell complete commands, applications and servers
///
/// Applications and servers are those of the configuration, and of the proxies that run here. Packages install the same
/// for bash, zsh and fish.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    source <(vpfs completions bash)                          in this shell; in ~/.bashrc for all\n  \
    source <(vpfs completions zsh)                           after compinit in ~/.zshrc\n  \
    vpfs completions fish > ~/.config/fish/completions/vpfs.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(["bash", "elvish", "fish", "powershell", "zsh"]))]
    shell: String,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        // The program by the name that it has here, which need not be on the path.
        let program = std::env::args_os().next().map_or_else(|| "vpfs".into(), program);
        let script = script(&self.shell, &program.to_string_lossy());
        print(script.map_err(|error| Exit::Failed(error.to_string()))?.trim_end())
    }
}

fn program(called: OsString) -> OsString {
    let called = PathBuf::from(called);
    match called.components().count() {
        ..2 => called.into(),
        _ => std::path::absolute(&called).unwrap_or(called).into(),
    }
}

/// What a shell has to run so that it asks `program`.
pub(super) fn script(shell: &str, program: &str) -> io::Result<String> {
    let shells = Shells::builtins();
    let known = shells.completer(shell).ok_or_else(|| io::Error::other(format!("{shell} is not supported")))?;
    let mut script = Vec::new();
    known.write_registration(VARIABLE, "vpfs", "vpfs", program, &mut script)?;
    let script = String::from_utf8(script).map_err(io::Error::other)?;
    Ok(match shell {
        // It would take names such as uid:1000 for several words.
        "bash" => script + "COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}\n",
        // In a directory of functions, the first use runs the file and has to complete, too.
        "zsh" => script + "if [ \"$funcstack[1]\" = _vpfs ]; then _clap_dynamic_completer_vpfs \"$@\"; fi\n",
        _ => script,
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The page cannot fall behind the commands.
    #[test]
    fn the_list_of_commands_matches_them() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
        let printed = reference(&crate::Cli::command());
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, &printed).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == printed, "docs/commands.md is old; run UPDATE=1 cargo test -p vpfs generate");
    }

    /// Symptom: pages named `docs/config.md`, which no package had.
    #[test]
    fn what_pages_name_is_in_the_packages() {
        let (folder, crate_) = (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")));
        write(folder.path(), crate::command()).unwrap();
        let manifest = fs::read_to_string(crate_.join("Cargo.toml")).unwrap();
        let mut named = 0;
        for page in fs::read_dir(folder.path().join("man")).unwrap() {
            let page = fs::read_to_string(page.unwrap().path()).unwrap().replace('\\', "");
            for rest in page.split("/usr/share/doc/vpfs/").skip(1) {
                let end = rest.find(".md").expect("a document") + ".md".len();
                let document = &rest[..end];
                assert!(crate_.join("../../docs").join(document).exists(), "{document}");
                let all = document.rsplit_once('/').map_or(document.to_owned(), |(folder, _)| format!("{folder}/*.md"));
                assert_eq!(manifest.matches(&format!("\"../../docs/{all}\"")).count(), 2, "{document}: deb and rpm");
                named += 1;
            }
        }
        assert!(named > 5, "{named}");
    }

    #[test]
    fn pages_say_how_commands_end_and_what_is_near() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), crate::command()).unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(format!("man/{name}.1"))).unwrap();
        let why = page("vpfs-why");
        assert!(why.contains("EXIT STATUS") && why.contains("\n.TP\n2\nThe arguments"), "{why}");
        assert!(why.contains(".BR vpfs (1),\n") && why.contains(".BR vpfs\\-top (1),\n"), "{why}");
        assert!(!why.contains("vpfs\\-why (1)") && page("vpfs-app-set").contains(".BR vpfs\\-app (1),"));
        assert!(page("vpfs").contains(".BR vpfs\\-demo (1),"));
    }

    #[test]
    fn every_shell_has_a_script_that_asks_this_program() {
        for shell in Shells::builtins().names() {
            let script = script(shell, "/opt/vpfs").unwrap();
            assert!(script.contains(VARIABLE) && script.contains("/opt/vpfs"), "{script}");
        }
        assert!(script("csh", "vpfs").is_err());
    }
}
