//! `vpfs report`: who slowed whom, and what each used and was entitled to, on one page.

use std::path::PathBuf;
use std::time::Duration;

use vpfs_admin::api::Span;
use vpfs_report::{Axis, Bar, Bars, Report as Page, Section, Table};

use super::breakdown::Breakdown;
use super::cause::Cause;
use super::matrix::Matrix;
use super::{Window, look_back};
use crate::cmd::asking::Asking;
use crate::cmd::since;
use crate::exit::Exit;
use crate::new_file;
use crate::print::{clock_time, mean_time, now, percent, plain, print};

/// More applications make no page that is read; these are the ones whose requests took longest.
const APPS: usize = 40;

/// Report who slowed whom and what each application used and was entitled to, from the history that proxies keep
///
/// For a site that has run with mode = "observe" in `[scheduler]`, and for any other: which applications waited for
/// which others, for how much of their time, what part of the storage's time each used and was entitled to by its
/// weight, on one page, as text or as HTML without scripts (docs/guide/watching.md).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs report --since 24h                       as text\n  \
    vpfs report --since 7d --html report.html     as a page for a browser")]
pub(crate) struct Report {
    #[command(flatten)]
    asking: Asking,

    /// From when until now: 2h, 10:30 (UTC), yesterday, or 2027-01-15 10:30
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = since::parse)]
    since: Duration,

    /// Write a page for a browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long, requires = "html")]
    overwrite: bool,
}

impl Report {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        if let Some(path) = &self.html {
            new_file::check(path, self.overwrite)?;
        }
        let page = page(&look_back(&self.asking, self.since)?);
        match &self.html {
            Some(path) => {
                new_file::write(path, &page.html(), self.overwrite)?;
                print(format_args!("{} has the report", path.display()))
            }
            None => print(page.text().trim_end()),
        }
    }
}

/// All of it.
fn page(Window { from, span }: &Window) -> Page {
    let mut all: Vec<Breakdown> = span.apps().into_iter().filter_map(|app| Breakdown::of(span, app)).collect();
    all.sort_by(|one, other| other.request_seconds.total_cmp(&one.request_seconds));
    all.truncate(APPS);
    let servers: Vec<&str> = span.servers.iter().map(|server| &*server.name).collect();
    Page::new(format!("vpfs: who slowed whom at {}", servers.join(", ")))
        .introduction(format!("From {} to {} UTC; {}", clock_time(*from), clock_time(now()), policies(span)))
        .section(slowed(&all))
        .section(waits(&all))
        .section(shares(&all))
        .section(change(&all))
}

/// What would change it for those that used less than they are entitled to, as `vpfs why` says of each.
fn change(all: &[Breakdown]) -> Section {
    let section = Section::new("What would change it");
    let below = all.iter().filter(|app| app.requests > 0 && app.is_below_entitled()).map(|app| {
        let [cause, change] = Cause::of(app).sentences(app);
        [plain(&app.app), cause, change]
    });
    let rows: Vec<[String; 3]> = below.collect();
    if rows.is_empty() {
        return section.text("Nothing has to: no application is below what it is entitled to.");
    }
    section
        .table(rows.into_iter().fold(Table::new(["application", "why it is slow", "what would change it"]), Table::row))
}

fn policies(span: &Span) -> String {
    let of = |server: &vpfs_admin::api::AtServer| format!("{} at {}", server.policy, server.name);
    format!("policy at its end: {}.", span.servers.iter().map(of).collect::<Vec<_>>().join(", "))
}

/// A row for each two of which one waited for the other for a part worth it; those who waited longest first.
fn slowed(all: &[Breakdown]) -> Section {
    let mut pairs = Vec::new();
    for app in all {
        pairs.extend(app.slowed_by().map(|(by, seconds)| (app, by, seconds)));
    }
    let section = Section::new("Who slowed whom");
    if pairs.is_empty() {
        return section.text("No application waited for another one for a tenth of its requests' time.");
    }
    pairs.sort_by(|one, other| other.2.total_cmp(&one.2));
    let table = Table::new(["slowed", "by", "part of its requests' time", "of each request"]);
    let table = pairs.iter().fold(table, |table, (app, by, seconds)| {
        let each = mean_time((app.requests > 0).then(|| seconds / app.requests as f64));
        table.row([plain(&app.app), plain(by), percent(app.part(*seconds)), each])
    });
    section.table(table).text(
        "Time in vpfs while the other one was preferred, and time in the storage beyond the best of the same requests, for \
         as long as it worked for the other one.",
    )
}

/// The same of all, with what was for nobody.
fn waits(all: &[Breakdown]) -> Section {
    let Matrix { header, rows } = Matrix::new(all);
    let table = rows.into_iter().fold(Table::new(header), Table::row);
    Section::new("What the time of requests was for").table(table).text(
        "Behind the application of the column; for rules alone (a cap, a pace); in storage that was slower than at best; \
         for a processor of the proxy's host; in the storage as at best.",
    )
}

/// What each used and was entitled to.
fn shares(all: &[Breakdown]) -> Section {
    let headings =
        ["application", "weight", "used", "entitled", "below that", "moved [MB]", "requests", "wait", "storage"];
    let table = all.iter().fold(Table::new(headings), |table, app| {
        let mean = |seconds: f64| mean_time((app.requests > 0).then(|| seconds / app.requests as f64));
        table.row([
            plain(&app.app),
            app.weight.to_string(),
            percent(app.used),
            percent(app.entitled),
            (if app.is_below_entitled() { "yes" } else { "no" }).to_owned(),
            format!("{:.1}", app.bytes as f64 / 1e6),
            app.requests.to_string(),
            mean(app.vpfs_seconds()),
            mean(app.storage_seconds()),
        ])
    });
    let shown = || all.iter().take(8);
    let bar = |part: f64| Bar::new((part * 100.0).round());
    let bars = Bars::new("Share of the storage's time", Axis::linear("share", "%"), shown().map(|app| plain(&app.app)))
        .series("used", shown().map(|app| bar(app.used)))
        .series("entitled", shown().map(|app| bar(app.entitled)));
    Section::new("Shares of the storage's time").table(table).figure(
        bars,
        "Used: by when its requests left the storage. Entitled: by its weight among those that had requests.",
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::breakdown::tests::{app, span};
    use super::*;

    /// A page whose cells have no attributes.
    pub(in crate::cmd) fn bare_cells(html: &str) -> String {
        let mut cells = html.split("<td ");
        let first = cells.next().unwrap_or_default().to_owned();
        cells.fold(first, |page, cell| page + "<td>" + cell.split_once('>').map_or(cell, |(_, rest)| rest))
    }

    #[test]
    fn the_page_names_who_slowed_whom_and_what_each_used() {
        let apps = vec![app("small", [0.0, 20.0, 1.0], "<b>large"), app("<b>large", [0.0, 1.0, 1.0], "<b>large")];
        let html = page(&Window { from: 1_800_000_000, span: span(apps) }).html();
        let html = bare_cells(&html);
        assert!(html.contains("<td>small</td><td>&lt;b&gt;large</td><td>95%</td><td>19ms</td>"), "{html}");
        assert!(html.contains("<td>small</td><td>1</td><td>10%</td><td>50%</td><td>yes</td>"), "{html}");
        assert!(
            html.contains("bounds what others have in the storage") && !html.contains("<td>&lt;b&gt;large</td><td>Its"),
            "{html}"
        );
        assert!(html.contains("From 2027-01-15 08:00:00") && html.contains("fifo at s1") && !html.contains("<b>large"));
        let alone = page(&Window { from: 0, span: span(vec![app("a", [0.0, 1.0, 1.0], "a")]) }).html();
        assert!(alone.contains("No application waited for another one"), "{alone}");
        assert!(alone.contains("no application is below what it is entitled to"), "{alone}");
    }
}
