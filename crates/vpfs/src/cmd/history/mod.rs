//! `vpfs history`: what an application did.

mod row;

use std::time::Duration;

use super::app::of_admin;
use super::asking::Asking;
use super::since;
use crate::exit::Exit;
use crate::print::{clock_time, print, print_json};
use row::Row;

/// Show what an application did and waited for
///
/// Proxies keep that over restarts: by ten seconds for an hour, by minutes for a day, and by ten minutes for thirty
/// days, in their state directory (docs/guide/watching.md).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs history climate                   by ten seconds, of the last hour\n  \
    vpfs history climate --since 20h       by minutes, and the last minute by ten seconds\n  \
    vpfs history climate --since 7d --csv  for a spreadsheet")]
pub(crate) struct History {
    /// The application
    #[arg(add = super::asking::candidates::apps())]
    app: String,

    #[command(flatten)]
    asking: Asking,

    /// From when until now: 2h, 10:30 (UTC), yesterday, or 2027-01-15 10:30
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = since::parse)]
    since: Duration,

    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Print JSON: all counters of all samples
    #[arg(long)]
    json: bool,
}

impl History {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let mut kept = self.asking.history(Some(&self.app), self.since)?;
        if kept.samples.is_empty()
            && let Some(pushed) = of_admin(&self.app)
        {
            kept = self.asking.history(Some(&pushed), self.since)?;
        }
        if self.json {
            return print_json(&kept.samples);
        }
        if kept.samples.is_empty() {
            let begins =
                kept.begins.map_or("there is none yet".to_owned(), |at| format!("it begins at {}", clock_time(at)));
            return Err(Exit::Failed(format!("the history of that time has nothing of {:?}; {begins}", self.app)));
        }
        let rows = kept.samples.iter().map(Row::of);
        if self.csv {
            print(Row::CSV_HEADER)?;
            return rows.map(|row| row.csv()).try_for_each(print);
        }
        print(Row::header())?;
        rows.map(|row| row.line()).try_for_each(print)
    }
}
