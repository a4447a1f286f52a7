//! `vpfs events`: what happened lately at the proxies of this host.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use vpfs_config::units::parse_duration;
use vpfs_proxy::admin::events::{Event, EventsReport};

use super::asking::{Answers, Asking};
use super::runtime;
use crate::print::{Exit, clock_time, now, plain, print};

/// How often the proxies are asked again.
const EVERY: Duration = Duration::from_secs(1);

/// Show what happened lately: applications, promises that cannot be kept, peers, reloads
///
/// Asks the proxies on this host at their sockets for the latest thousand lines of their logs, whatever the log's own
/// level and place are (docs/guide/watching.md explains each).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs events                       what happened lately, at all proxies on this host\n  \
    vpfs events --level warn          what needs attention\n  \
    vpfs events --app climate --since 1h\n  \
    vpfs events --follow --json       and what happens from now on, an object in each line")]
pub(crate) struct Events {
    #[command(flatten)]
    asking: Asking,

    /// Go on until interrupted; proxies that end and come back are shown again
    #[arg(long, short)]
    follow: bool,

    /// Only those about this application
    #[arg(long, value_name = "APP")]
    app: Option<String>,

    /// Only those of this level, and of higher ones
    #[arg(long, value_enum, default_value = "info")]
    level: Level,

    /// For how long until now [default: all that is kept]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    since: Option<Duration>,

    /// Print JSON, an object in each line
    #[arg(long)]
    json: bool,
}

/// From the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    /// One that is not known is more than is asked for.
    fn of(event: &Event) -> Self {
        Self::from_str(&event.level, true).unwrap_or(Self::Error)
    }
}

impl Events {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let (config, runtime) = (self.asking.config()?, runtime()?);
        let mut shown = Shown::default();
        self.print(&shown.take_new(runtime.block_on(self.asking.answers(&config))?.told()))?;
        if !self.follow {
            return Ok(());
        }
        loop {
            std::thread::sleep(EVERY);
            // All may be away for a moment, during a restart.
            if let Ok(Answers { list, .. }) = runtime.block_on(self.asking.answers(&config)) {
                self.print(&shown.take_new(list))?;
            }
        }
    }

    fn is_wanted(&self, event: &Event) -> bool {
        // Times of RFC 3339 in UTC are in the order of their letters.
        let begins = self.since.map(|since| clock_time(now().saturating_sub(since.as_secs())).replace(' ', "T"));
        let is_about = |app: &String| event.fields.iter().any(|field| field.name == "app" && field.value == *app);
        Level::of(event) >= self.level
            && begins.is_none_or(|begins| event.time >= begins)
            && self.app.as_ref().is_none_or(is_about)
    }

    fn print(&self, events: &[Line]) -> Result<(), Exit> {
        events.iter().filter(|line| self.is_wanted(&line.event)).try_for_each(|line| match self.json {
            true => print(serde_json::to_string(line).map_err(|error| Exit::Failed(error.to_string()))?),
            false => print(line.text()),
        })
    }
}

#[derive(Default)]
struct Shown(BTreeMap<(u32, Vec<String>), u64>);

impl Shown {
    /// Those that were not shown yet, in the order of time.
    fn take_new(&mut self, reports: Vec<EventsReport>) -> Vec<Line> {
        let mut new = Vec::new();
        for EventsReport { process, servers, events } in reports {
            // Processes of two hosts may have the same id.
            let next = self.0.entry((process, servers)).or_default();
            // In a container, a process that starts anew has the id of the one before.
            if events.last().is_some_and(|last| last.number + 1 < *next) {
                *next = 0;
            }
            let after = events.last().map_or(*next, |last| last.number + 1);
            let fresh = events.into_iter().filter(|event| event.number >= *next);
            new.extend(fresh.map(|event| Line { process, event }));
            *next = after;
        }
        new.sort_by(|one, other| one.event.time.cmp(&other.event.time));
        new
    }
}

#[derive(Serialize)]
struct Line {
    process: u32,
    #[serde(flatten)]
    event: Event,
}

impl Line {
    /// In one line, without what could change a terminal.
    fn text(&self) -> String {
        let Event { time, level, message, fields, .. } = &self.event;
        let mut text = format!("{time} {level:>5} {message}");
        fields.iter().for_each(|field| text += &format!(" {}={}", field.name, field.value));
        plain(&text)
    }
}

#[cfg(test)]
mod tests {
    use vpfs_proxy::admin::events::Field;

    use super::*;

    fn report(process: u32, events: &[(u64, &str)]) -> EventsReport {
        let event = |&(number, time): &(u64, &str)| Event {
            number,
            time: time.into(),
            level: "INFO".into(),
            message: format!("{number} of {process}"),
            fields: vec![Field { name: "app".into(), value: "a\u{1b}[31m".into() }],
        };
        EventsReport { process, servers: vec!["s1".into()], events: events.iter().map(event).collect() }
    }

    #[test]
    fn each_event_is_shown_once_in_the_order_of_time() {
        let mut shown = Shown::default();
        let mut new = |reports: Vec<EventsReport>| -> Vec<String> {
            shown.take_new(reports).into_iter().map(|line| line.event.message).collect()
        };
        let first = vec![report(7, &[(0, "10"), (1, "12")]), report(8, &[(5, "11")])];
        assert_eq!(new(first), ["0 of 7", "5 of 8", "1 of 7"]);
        assert_eq!(new(vec![report(7, &[(1, "12"), (2, "13")]), report(8, &[(5, "11")])]), ["2 of 7"]);
        assert_eq!(new(vec![report(9, &[(0, "14")])]), ["0 of 9"], "a successor numbers anew");
        assert_eq!(new(vec![report(7, &[(0, "15")])]), ["0 of 7"], "as does one with the same id, in a container");
    }

    #[test]
    fn events_are_chosen_by_level_application_and_time() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            events: Events,
        }
        let event = |level: &str, app: &str, ago: u64| Event {
            number: 0,
            time: clock_time(now() - ago).replace(' ', "T") + ".5Z",
            level: level.into(),
            message: String::new(),
            fields: vec![Field { name: "app".into(), value: app.into() }],
        };
        let all = [event("INFO", "a", 7000), event("WARN", "a", 100), event("ERROR", "b", 50)];
        let chosen = |arguments: &str| -> Vec<usize> {
            let command = ["events"].into_iter().chain(arguments.split_whitespace());
            let Command { events } = clap::Parser::parse_from(command);
            (0..all.len()).filter(|index| events.is_wanted(&all[*index])).collect()
        };
        assert_eq!(chosen(""), [0, 1, 2]);
        assert_eq!(chosen("--level warn"), [1, 2]);
        assert_eq!(chosen("--app a --since 1h"), [1]);
        assert!(chosen("--app c").is_empty());
    }

    #[test]
    fn names_do_not_reach_the_terminal_as_they_are() {
        let line = Shown::default().take_new(vec![report(7, &[(0, "10")])]).remove(0).text();
        assert_eq!(line, "10  INFO 0 of 7 app=a?[31m");
    }
}
