//! `vpfs why`: who waited for whom.

mod breakdown;
mod cause;
mod matrix;
mod report;
mod text;

use std::time::Duration;

use serde::Serialize;
use vpfs_admin::api::{self, AtServer, Sample, Span};

use super::app::of_admin;
use super::asking::Asking;
use super::{runtime, since};
use crate::exit::Exit;
use crate::print::{clock_time, now, percent, plain, print, print_json};
#[cfg(test)]
pub(super) use breakdown::tests::{app as example, span as example_span};
#[cfg(test)]
pub(super) use report::tests::bare_cells;

pub(super) use breakdown::Breakdown;
pub(super) use cause::Cause;
pub(super) use matrix::Matrix;
pub(crate) use report::Report;

/// Say why an application is as slow as it is, and whom it waits for
///
/// Of the time that its requests took: how much was waiting in vpfs, behind which applications and for which rule; how
/// much in the storage, compared with the best that it has seen there; whether the application used what it is entitled
/// to, and what would change it. Without an application, one table of who waited for whom (docs/guide/watching.md).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs why climate                 what its requests waited for in the next 5 seconds\n  \
    vpfs why                         who waited for whom\n  \
    vpfs why climate --since 2h      from the history that proxies keep\n  \
    vpfs why climate --json          the same for programs")]
pub(crate) struct Why {
    /// The application [default: a table of all]
    #[arg(add = super::asking::candidates::apps())]
    app: Option<String>,

    #[command(flatten)]
    asking: Asking,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,

    /// Look into the history instead, from when until now: 2h, 10:30 (UTC), yesterday, or 2027-01-15 10:30
    #[arg(long, value_name = "TIME", value_parser = since::parse, conflicts_with = "interval")]
    since: Option<Duration>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The history may begin so many seconds later than asked for.
const SLACK: u64 = 600;

/// What `--json` prints of an application.
#[derive(Serialize)]
struct Answer<'a> {
    interval_seconds: f64,
    cause: Cause,
    below_entitled: bool,
    #[serde(flatten)]
    breakdown: &'a Breakdown,
}

impl Why {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let span = self.span()?;
        match &self.app {
            Some(app) => self.explain(app, &span),
            None => self.show_all(&span),
        }
    }

    fn span(&self) -> Result<Span, Exit> {
        self.since.map_or_else(|| self.look_twice(), |since| Ok(look_back(&self.asking, since)?.span))
    }

    fn look_twice(&self) -> Result<Span, Exit> {
        let (runtime, config) = (runtime()?, self.asking.config()?);
        let look = || runtime.block_on(self.asking.answers::<api::Status>(&config));
        let before = look()?.list;
        std::thread::sleep(Duration::from_secs(self.interval));
        let mut span = Span::between(&before, &look()?.told());
        span.servers.retain(|server| self.asking.is_wanted(&server.name));
        Ok(span)
    }

    fn explain(&self, app: &str, span: &Span) -> Result<(), Exit> {
        let pushed = || Breakdown::of(span, &of_admin(app)?);
        let Some(breakdown) = Breakdown::of(span, app).or_else(pushed) else {
            return Err(Exit::Failed(unknown(app, span)));
        };
        if self.json {
            let (cause, below_entitled) = (Cause::of(&breakdown), breakdown.is_below_entitled());
            return print_json(&Answer {
                interval_seconds: span.seconds,
                cause,
                below_entitled,
                breakdown: &breakdown,
            });
        }
        print(text::of(&breakdown, span))
    }

    fn show_all(&self, span: &Span) -> Result<(), Exit> {
        let all: Vec<Breakdown> = span.apps().into_iter().filter_map(|app| Breakdown::of(span, app)).collect();
        if self.json {
            return print_json(&all);
        }
        print(matrix::of(&all, span))
    }
}

/// The applications whose requests wait most, at most so many: for how much of their time, and why. Those that wait for
/// others come first.
pub(super) fn facts(span: &Span, most: usize) -> Vec<String> {
    let all = span.apps().into_iter().filter_map(|app| Breakdown::of(span, app));
    let waiting = all.map(|app| (1.0 - app.part(app.quiet_seconds), Cause::of(&app), app));
    let mut waiting: Vec<_> = waiting.filter(|(part, _, app)| app.requests > 0 && *part >= MUCH).collect();
    let is_own = |cause: &Cause| matches!(cause, Cause::Itself | Cause::Nothing);
    waiting.sort_by(|one, other| is_own(&one.1).cmp(&is_own(&other.1)).then(other.0.total_cmp(&one.0)));
    let fact = |(part, cause, app): &(f64, Cause, Breakdown)| {
        let [why, _] = cause.sentences(app);
        format!("{} waits {} of its time. {why}", plain(&app.app), percent(*part))
    };
    waiting.iter().take(most).map(fact).collect()
}

/// Less waiting is not worth a sentence.
const MUCH: f64 = 0.1;

/// Some time until now.
struct Window {
    /// Its beginning, in seconds since 1970.
    from: u64,
    span: Span,
}

/// What the history has of the latest time; says so if it does not go back that far.
fn look_back(asking: &Asking, since: Duration) -> Result<Window, Exit> {
    let kept = asking.history(None, since)?;
    let from = now().saturating_sub(since.as_secs());
    let Some(begins) = kept.begins else {
        return Err(Exit::Failed(
            "there is no history yet; proxies keep it from ten seconds after their start on".to_owned(),
        ));
    };
    if begins > from + SLACK {
        eprintln!("vpfs: the history does not go back that far; it begins at {} UTC", clock_time(begins));
    }
    Ok(Window { from: from.max(begins), span: sums(kept.samples) })
}

/// Samples as one span.
fn sums(samples: Vec<Sample>) -> Span {
    let mut span = Span::default();
    for Sample { seconds, server: name, policy, app, .. } in samples {
        span.seconds = span.seconds.max(seconds);
        match span.servers.iter_mut().find(|server| server.name == name) {
            Some(server) => {
                server.seconds = server.seconds.max(seconds);
                server.apps.push(app);
            }
            None => span.servers.push(AtServer { name, policy, seconds, apps: vec![app] }),
        }
    }
    span
}

/// The same in words as `vpfs why APP` prints it.
pub(super) fn explain(app: &str, span: &Span) -> String {
    Breakdown::of(span, app).map_or_else(|| unknown(app, span), |breakdown| text::of(&breakdown, span))
}

fn unknown(app: &str, span: &Span) -> String {
    if span.apps().is_empty() {
        return format!("no application had requests in {:.0} s; --interval looks for longer", span.seconds);
    }
    let known = span.apps().into_iter().take(10).collect::<Vec<_>>().join(", ");
    format!("no application {app:?} here; there are {known} (`vpfs top` shows all)")
}
