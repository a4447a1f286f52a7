//! `vpfs top`: what applications do now.

mod screen;
mod table;

use std::time::Duration;

use serde::Serialize;
use tokio::runtime::Runtime;
use vpfs_admin::api;
use vpfs_config::Config;

use super::asking::{Answers, Asking};
use super::rows::Glance;
use super::runtime;
use crate::exit::Exit;
use crate::print::{clock_time, now, print, print_json};
use table::{Order, header, line, sort, total};

/// Show who uses the storage, who waits for whom, and what each application is entitled to
///
/// Asks the proxies on this host at their sockets, twice at least, and shows what happened in between: first whether
/// the storage is busy, who is slowed by whom, and whether anybody is below what it is entitled to; then a line per
/// application, with the part of the storage's time that it used and that its weight entitled it to
/// (docs/guide/watching.md).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs top                         live, for all servers on this host\n  \
    vpfs top --once --sort wait      one table of two seconds, those that wait longest first\n  \
    vpfs top --once --json           the same for programs\n\n\
    Keys: ? help and legend, Enter why of the selected application, q quit")]
pub(crate) struct Top {
    #[command(flatten)]
    asking: Asking,

    /// Print one table and end
    #[arg(long)]
    once: bool,

    /// Print JSON
    #[arg(long, requires = "once")]
    json: bool,

    /// What to sort by
    #[arg(long, value_enum, default_value = "bytes")]
    sort: Order,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document {
    interval_seconds: u64,
    #[serde(flatten)]
    glance: Glance,
}

/// Asks the same proxies again and again.
struct Source<'a> {
    runtime: Runtime,
    asking: &'a Asking,
    config: Config,
}

impl Source<'_> {
    fn look(&self) -> Result<Answers<api::Status>, Exit> {
        let mut answers = self.runtime.block_on(self.asking.answers::<api::Status>(&self.config))?;
        for status in &mut answers.list {
            status.servers.retain(|server| self.asking.is_wanted(&server.server));
        }
        Ok(answers)
    }
}

impl Top {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let source = Source { runtime: runtime()?, asking: &self.asking, config: self.asking.config()? };
        let interval = Duration::from_secs(self.interval);
        let before = source.look()?.list;
        if !self.once {
            return screen::run(&source, before, self.sort, interval);
        }
        std::thread::sleep(interval);
        let Answers { list, silent } = source.look()?;
        let mut glance = Glance::of(&before, &list, None);
        sort(&mut glance.apps, self.sort);
        if self.json {
            print_json(&Document { interval_seconds: self.interval, glance })?;
        } else {
            print(format!("{} UTC  {}", clock_time(now()), glance.verdict.text()))?;
            print(header())?;
            glance.apps.iter().try_for_each(|row| print(line(row)))?;
            print(total(&glance))?;
        }
        match silent.is_empty() {
            true => Ok(()),
            // What is shown is not all.
            false => Err(Exit::Failed(silent.join("\n"))),
        }
    }
}
