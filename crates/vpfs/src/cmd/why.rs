//! `vpfs why`: who waited for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table as TextTable};
use serde::Serialize;
use vpfs_config::units::Rate;
use vpfs_proxy::admin::api;
use vpfs_proxy::admin::api::{App, AtServer, OBSERVED, Sample, Slower, Span, Storage, TriedRate, Waits};
use vpfs_report::{Axis, Bar, Bars, Report as Page, Section, Table};

use super::app::of_admin;
use super::asking::Asking;
use super::{history, runtime};
use crate::print;
use crate::print::{Exit, clock_time, mean_time, now, percent, plain, print, print_json, roughly};

#[cfg(test)]
pub(super) use tests::bare_cells;
#[cfg(test)]
pub(super) use tests::{app as example, span as example_span};

/// Say why an application is as slow as it is, and whom it waits for
///
/// Of the time that its requests took: how much was waiting in vpfs, behind which applications and for which rule; how
/// much in the storage, compared with the best that it has seen there; whether the application used what it is entitled
/// to, what would change it, and what other rates of large applications were recently worth. Without an application,
/// one table of who waited for whom (docs/guide/watching.md).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs why climate                 what its requests waited for in the next 5 seconds\n  \
    vpfs why                         who waited for whom\n  \
    vpfs why climate --since 2h      from the history that proxies keep\n  \
    vpfs why climate --json          the same for programs")]
pub(crate) struct Why {
    /// The application [default: a table of all]
    #[arg(add = super::asking::apps())]
    app: Option<String>,

    #[command(flatten)]
    asking: Asking,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,

    /// Look into the history instead, from when until now: 2h, 10:30 (UTC), yesterday, or 2027-01-15 10:30
    #[arg(long, value_name = "TIME", value_parser = history::parse_since, conflicts_with = "interval")]
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
    /// What rates of bulk were recently worth.
    tried_rates: &'a [TriedRate],
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
                tried_rates: tried_rates(span),
                breakdown: &breakdown,
            });
        }
        print(explanation(&breakdown, span))
    }

    fn show_all(&self, span: &Span) -> Result<(), Exit> {
        let all: Vec<Breakdown> = span.apps().into_iter().filter_map(|app| Breakdown::of(span, app)).collect();
        if self.json {
            return print_json(&all);
        }
        print(matrix_of(&all, span))
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
            None => span.servers.push(AtServer { name, policy, seconds, tried_rates: Vec::new(), apps: vec![app] }),
        }
    }
    span
}

/// The same in words as `vpfs why APP` prints it.
pub(super) fn explain(app: &str, span: &Span) -> String {
    Breakdown::of(span, app).map_or_else(|| unknown(app, span), |breakdown| explanation(&breakdown, span))
}

fn unknown(app: &str, span: &Span) -> String {
    if span.apps().is_empty() {
        return format!("no application had requests in {:.0} s; --interval looks for longer", span.seconds);
    }
    let known = span.apps().into_iter().take(10).collect::<Vec<_>>().join(", ");
    format!("no application {app:?} here; there are {known} (`vpfs top` shows all)")
}

/// Less of the time is not worth a word.
const LITTLE: f64 = 0.01;

/// Unstored bytes that keep a disk busy for a while.
const MUCH_UNSTORED: u64 = 256 << 20;

/// What an application's requests waited for.
fn explanation(breakdown: &Breakdown, span: &Span) -> String {
    let mut lines = vec![heading(breakdown, span)];
    if breakdown.requests == 0 {
        let Breakdown { queued, outstanding, .. } = breakdown;
        let cap = breakdown.cap_bytes_per_second.map(|rate| format!(" Its cap is {}.", Rate(rate))).unwrap_or_default();
        lines.push(format!("None ended; waiting in vpfs: {queued}, in the storage: {outstanding}.{cap}"));
        return lines.join("\n");
    }
    let Waits { share_seconds, cap_seconds, pace_seconds, minimum_seconds } = breakdown.waits;
    let rules = [
        ("share", share_seconds),
        ("cap", cap_seconds),
        ("pace", pace_seconds),
        ("minimum of another", minimum_seconds),
    ];
    lines.push(row("in vpfs", breakdown.vpfs_seconds(), breakdown));
    lines.extend(parts("for", rules, breakdown));
    lines.extend(parts("behind", names(&breakdown.behind, breakdown), breakdown));
    lines.push(row("in the storage", breakdown.storage_seconds(), breakdown));
    let itself = [
        ("as at best", breakdown.quiet_seconds),
        ("slow itself", breakdown.storage_itself_seconds),
        ("processor of the proxy's host", breakdown.processor_seconds),
    ];
    lines.extend(parts("of that", itself, breakdown));
    lines.extend(parts("behind", names(&breakdown.behind_in_storage, breakdown), breakdown));
    let [used, entitled] = [breakdown.used, breakdown.entitled].map(percent);
    lines.push(format!("  {:15} {used:>4} of the storage's time; entitled to {entitled}", "used"));
    lines.push(String::new());
    lines.extend(sentences(breakdown, span.unstored_bytes));
    lines.extend(curve(breakdown, span));
    lines.join("\n")
}

/// What rates of bulk were worth, of the server that decides; none if nothing is known.
fn tried_rates(span: &Span) -> &[TriedRate] {
    span.servers.iter().map(|server| &*server.tried_rates).find(|rates| !rates.is_empty()).unwrap_or_default()
}

/// Rates below and above the best one that are shown.
const NEAR: usize = 3;

/// What rates of bulk were recently worth to bulk and to this application; if it is bulk itself, to those that would
/// lose most. `None` if nothing is known, or it has nothing to do with it.
fn curve(Breakdown { app, bulk, .. }: &Breakdown, span: &Span) -> Option<String> {
    let rates = tried_rates(span);
    let best = (0..rates.len()).min_by(|a, b| (rates[*a].bulk - 1.0).abs().total_cmp(&(rates[*b].bulk - 1.0).abs()))?;
    let near = &rates[best.saturating_sub(NEAR)..(best + NEAR + 1).min(rates.len())];
    let mut others = TriedRate::slowest(near);
    others.retain(|name| *bulk || name == app);
    others.truncate(NEAR);
    if others.is_empty() || near.len() < 2 {
        return None;
    }
    let row = |rate: &TriedRate| {
        let speeds = others.iter().map(|name| rate.speed_of(name).map_or("-".to_owned(), percent));
        [format!("{:.1} MB/s", rate.bytes_per_second as f64 / 1e6), percent(rate.bulk)]
            .into_iter()
            .chain(speeds)
            .collect::<Vec<_>>()
    };
    let mut table = TextTable::new();
    let header = ["rate of bulk".to_owned(), "bulk gets".to_owned()];
    let header = header.into_iter().chain(others.iter().map(|name| format!("speed of {}", plain(name))));
    table.load_style(NOTHING).set_header(header).add_rows(near.iter().map(row));
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Some(format!(
        "\nSeen recently at each server, relative to the rate that is best for all (docs/isolation.md):\n{table}"
    ))
}

fn heading(breakdown: &Breakdown, span: &Span) -> String {
    let Breakdown { app, servers, requests, bytes, .. } = breakdown;
    let [rate, mb] = [*requests as f64, *bytes as f64 / 1e6].map(|count| count / span.seconds);
    let each = time(breakdown.request_seconds / (*requests).max(1) as f64);
    let seconds = roughly(Duration::from_secs_f64(span.seconds));
    let servers = servers.join(", ");
    format!("{} at {servers}, {seconds}: {rate:.1} requests/s, {mb:.1} MB/s, {each} each", plain(app))
}

fn row(name: &str, seconds: f64, breakdown: &Breakdown) -> String {
    let each = time(seconds / breakdown.requests as f64);
    format!("  {name:15} {:>4} {each:>8}", percent(breakdown.part(seconds)))
}

/// One line with all that are worth a word, if any is.
fn parts<N: AsRef<str>>(
    what: &str,
    parts: impl IntoIterator<Item = (N, f64)>,
    breakdown: &Breakdown,
) -> Option<String> {
    let mut parts: Vec<(N, f64)> = parts.into_iter().filter(|part| breakdown.part(part.1) >= LITTLE).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let parts = parts.iter().map(|(name, part)| format!("{} {}", name.as_ref(), percent(breakdown.part(*part))));
    let parts = parts.collect::<Vec<_>>().join(", ");
    (!parts.is_empty()).then(|| format!("    {what} {parts}"))
}

fn names(behind: &BTreeMap<String, f64>, breakdown: &Breakdown) -> Vec<(String, f64)> {
    let name = |app: &String| if *app == breakdown.app { "itself".to_owned() } else { plain(app) };
    behind.iter().map(|(app, seconds)| (name(app), *seconds)).collect()
}

fn sentences(breakdown: &Breakdown, unstored_bytes: u64) -> Vec<String> {
    let mut sentences = Vec::new();
    if breakdown.part(breakdown.vpfs_seconds()) < LITTLE {
        sentences.push("vpfs held nothing.".to_owned());
    }
    let found = Cause::of(breakdown);
    sentences.extend(breakdown.slower.map(slower));
    let [cause, change] = found.sentences(breakdown);
    if breakdown.slower.is_none() || !matches!(found, Cause::Storage | Cause::Nothing) {
        sentences.push(cause);
    }
    if unstored_bytes > MUCH_UNSTORED && matches!(found, Cause::Storage | Cause::Neighbour(_) | Cause::Itself) {
        let memory = unstored_bytes as f64 / 1e9;
        sentences.push(format!(
            "The server's memory holds {memory:.1} GB that are not stored yet, and the disk is busy with that before \
             anything else: see write-back in `vpfs doctor`."
        ));
    }
    sentences.push(entitled(breakdown));
    if !breakdown.is_best_known {
        let how = "until it has had 32 requests in a second or more since the proxy started";
        sentences.push(format!("How fast the storage is at best is not known for its requests, {how}."));
    }
    sentences.push(format!("What would change it: {change}"));
    sentences
}

fn entitled(breakdown: &Breakdown) -> String {
    let gets = if breakdown.is_below_entitled() { "It gets less than" } else { "It gets what" };
    let (weight, share) = (breakdown.weight, percent(breakdown.share));
    format!("{gets} it is entitled to: its weight {weight} is {share} of those that ask.")
}

fn slower(Slower { factor, for_seconds }: Slower) -> String {
    let since = for_seconds.map(Duration::from_secs_f64).map(|ago| {
        let time = clock_time(now().saturating_sub(ago.as_secs()));
        format!(" since {time} UTC, {} ago", roughly(ago))
    });
    let since = since.unwrap_or_default();
    format!(
        "The storage itself is slow{since}: applications that have it to themselves wait {factor:.1} times as long as at \
         best."
    )
}

fn time(seconds: f64) -> String {
    match seconds {
        ..0.01 => format!("{:.2} ms", seconds * 1e3),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// More columns do not fit a terminal; the others together have the last one.
const COLUMNS: usize = 6;

/// A row for each application: of the time of its requests, what was behind whom, for rules alone, in storage that was
/// slow itself, for processors of the proxy's host, and as at best.
#[derive(Clone, Debug, Default)]
pub(super) struct Matrix {
    pub(super) header: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Matrix {
    /// Of the first `most` applications by name.
    pub(super) fn of(span: &Span, most: usize) -> Self {
        Self::new(&span.apps().into_iter().filter_map(|app| Breakdown::of(span, app)).take(most).collect::<Vec<_>>())
    }

    fn new(all: &[Breakdown]) -> Self {
        let rows: Vec<(&Breakdown, BTreeMap<&str, f64>)> = all.iter().map(|app| (app, app.waited_for())).collect();
        let columns = columns(&rows);
        let names = columns.iter().map(|name| plain(name));
        let last = [OTHERS, "rules", "storage", "processor", "at best"].map(str::to_owned);
        let header = ["application".to_owned()].into_iter().chain(names).chain(last).collect();
        Self { header, rows: rows.iter().map(|(app, behind)| cells(app, behind, &columns)).collect() }
    }
}

fn cells(app: &Breakdown, behind: &BTreeMap<&str, f64>, columns: &[&str]) -> Vec<String> {
    let named = columns.iter().map(|name| behind.get(name).copied().unwrap_or(0.0));
    let others = behind.values().sum::<f64>() - named.clone().sum::<f64>();
    let held = app.vpfs_seconds() - app.behind.values().sum::<f64>();
    let last = [others, held.max(0.0), app.storage_itself_seconds, app.processor_seconds, app.quiet_seconds];
    let parts = named.chain(last).map(|seconds| percent(app.part(seconds)));
    [plain(&app.app)].into_iter().chain(parts).collect()
}

fn matrix_of(all: &[Breakdown], span: &Span) -> String {
    if all.is_empty() {
        return "No application had requests.".to_owned();
    }
    let Matrix { header, rows } = Matrix::new(all);
    let mut table = TextTable::new();
    table.load_style(NOTHING).set_header(header).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{table}\nOf the time of a row's requests in {:.0} s: the part in which they waited in vpfs or in the storage \
         behind the\napplication of the column, were held by rules alone (a cap, a pace), were in storage slower than \
         at best, waited for\na processor of the proxy's host, and were in the storage as at best.",
        span.seconds
    )
}

/// Those for whom applications waited longest, as parts of their time; a job of few requests counts as much as others.
fn columns<'a>(rows: &[(&Breakdown, BTreeMap<&'a str, f64>)]) -> Vec<&'a str> {
    let mut sums = BTreeMap::<&str, f64>::new();
    for (app, behind) in rows {
        behind.iter().for_each(|(name, seconds)| *sums.entry(name).or_default() += app.part(*seconds));
    }
    let mut columns: Vec<(&str, f64)> = sums.into_iter().filter(|(name, _)| *name != OTHERS).collect();
    columns.sort_by(|one, other| other.1.total_cmp(&one.1));
    columns.into_iter().take(COLUMNS).map(|(name, _)| name).collect()
}

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
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = history::parse_since)]
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
            print::check_new_file(path, self.overwrite)?;
        }
        let page = page(&look_back(&self.asking, self.since)?);
        match &self.html {
            Some(path) => {
                print::write_new_file(path, &page.html(), self.overwrite)?;
                print(format_args!("{} has the report", path.display()))
            }
            None => print(page.text().trim_end()),
        }
    }
}

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
    let of = |server: &vpfs_proxy::admin::api::AtServer| format!("{} at {}", server.policy, server.name);
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

/// As in the API.
const OTHERS: &str = "(others)";

/// What counts as having got all of something.
const NEARLY: f64 = 0.9;

/// Less of an application's time is not said to have slowed it.
const WORTH_A_WORD: f64 = 0.1;

/// Sums over servers, in seconds. Parts of `request_seconds` are `waits`, `quiet_seconds`, `behind_in_storage`,
/// `storage_itself_seconds` and `processor_seconds`; `behind` says the same as `waits` in another way.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Breakdown {
    pub(super) app: String,
    pub(super) servers: Vec<String>,
    pub(super) policy: String,
    /// Those that ended.
    pub(super) requests: u64,
    /// Those that wait in vpfs at the end,
    pub(super) queued: u64,
    /// and that are in the storage then.
    pub(super) outstanding: u64,
    data_requests: u64,
    pub(super) bytes: u64,
    /// From arrival to the end, of all requests.
    request_seconds: f64,
    /// In vpfs, by the rule that held them.
    pub(super) waits: Waits,
    /// In vpfs, by the application that was preferred.
    pub(super) behind: BTreeMap<String, f64>,
    /// In the storage, as long as at best.
    quiet_seconds: f64,
    /// In the storage for longer than that, by the application for which it worked meanwhile.
    pub(super) behind_in_storage: BTreeMap<String, f64>,
    /// In the storage for longer than that, because it was slow itself.
    storage_itself_seconds: f64,
    /// On the way to it or back, waiting for a processor of the proxy's host.
    processor_seconds: f64,
    /// The best is known for most requests.
    is_best_known: bool,
    /// The storage is slower than at best.
    pub(super) slower: Option<Slower>,
    /// The part of the storage's time that it used, ...
    pub(super) used: f64,
    /// ... and that its weight entitled it to while anyone asked; of all applications, these are 1.
    pub(super) entitled: f64,
    /// The part of the time in which anyone asked.
    #[serde(skip)]
    asked: f64,
    /// What its cap allowed.
    #[serde(skip)]
    allowed_bytes: f64,
    /// Its weight's part of the weights of those that had requests.
    pub(super) share: f64,
    pub(super) weight: u32,
    /// Others are protected from it.
    pub(super) bulk: bool,
    pub(super) cap_bytes_per_second: Option<u64>,
}

impl Breakdown {
    /// `None` if no server knows the application, or it had no requests.
    pub(super) fn of(span: &Span, app: &str) -> Option<Self> {
        let mut sum = Self { app: app.to_owned(), is_best_known: true, ..Self::default() };
        let (mut seconds, mut unknown) = (0.0, 0.0);
        for server in &span.servers {
            let Some(found) = server.apps.iter().find(|found| found.app == app) else { continue };
            seconds += server.seconds;
            sum.servers.push(server.name.clone());
            sum.policy.clone_from(&server.policy);
            sum.share += share(server, found) * server.seconds;
            sum.asked += server.apps.iter().map(|app| app.entitled_seconds).sum::<f64>();
            let cap = found.cap_bytes_per_second.map_or(f64::INFINITY, |cap| cap as f64);
            sum.allowed_bytes += cap * server.seconds;
            sum.add(found);
            unknown += sum.add_storage(server, found);
        }
        if sum.servers.is_empty() {
            return None;
        }
        sum.entitled /= sum.asked.max(f64::MIN_POSITIVE);
        for part in [&mut sum.used, &mut sum.asked, &mut sum.share] {
            *part /= seconds;
        }
        // Failed requests, those in pieces, and rounding.
        let known = sum.vpfs_seconds() + sum.storage_seconds();
        sum.quiet_seconds += (sum.request_seconds - known).max(0.0);
        sum.request_seconds = sum.vpfs_seconds() + sum.storage_seconds();
        sum.is_best_known = unknown * 2.0 < sum.storage_seconds();
        Some(sum)
    }

    fn vpfs_seconds(&self) -> f64 {
        let Waits { share_seconds, cap_seconds, pace_seconds, minimum_seconds } = self.waits;
        share_seconds + cap_seconds + pace_seconds + minimum_seconds
    }

    pub(super) fn storage_seconds(&self) -> f64 {
        let behind = self.behind_in_storage.values().sum::<f64>();
        self.quiet_seconds + behind + self.storage_itself_seconds + self.processor_seconds
    }

    /// Seconds as a part of the time of its requests.
    pub(super) fn part(&self, seconds: f64) -> f64 {
        if self.request_seconds > 0.0 { seconds / self.request_seconds } else { 0.0 }
    }

    /// It used less of the storage than it is entitled to, although it waited for others and its cap allowed more, and
    /// its requests went slower than with that part alone. Waiting for the pace of bulk does not count: what that
    /// leaves unused is what the policy pays for the others' short waits, and no fault to look for.
    pub(super) fn is_below_entitled(&self) -> bool {
        let is_quick = self.is_best_known && self.part(self.quiet_seconds) >= NEARLY * self.share;
        let is_held_up = self.part(self.held_up_seconds()) >= WORTH_A_WORD;
        let is_stuck = self.requests + self.outstanding == 0 && self.queued > 0 && self.cap_bytes_per_second.is_none();
        let may_have_more = (self.bytes as f64) < NEARLY * self.allowed_bytes;
        self.has_less_than_entitled() && may_have_more && (is_held_up && !is_quick || is_stuck)
    }

    fn has_less_than_entitled(&self) -> bool {
        self.used < NEARLY * self.entitled * self.asked
    }

    /// What of its time it waited for others.
    fn held_up_seconds(&self) -> f64 {
        let own = |list: &BTreeMap<String, f64>| list.get(&self.app).copied().unwrap_or(0.0);
        let in_storage: f64 = self.behind_in_storage.values().sum();
        let Waits { cap_seconds, pace_seconds, .. } = self.waits;
        self.vpfs_seconds() - cap_seconds - pace_seconds - own(&self.behind) + in_storage - own(&self.behind_in_storage)
    }

    /// For whom it waited, in vpfs and in the storage.
    fn waited_for(&self) -> BTreeMap<&str, f64> {
        let mut sums = BTreeMap::<&str, f64>::new();
        for (name, seconds) in self.behind.iter().chain(&self.behind_in_storage) {
            *sums.entry(name).or_default() += seconds;
        }
        sums
    }

    /// The other applications, those with a name, for which it waited for a part of its time that is worth a word.
    pub(super) fn slowed_by(&self) -> impl Iterator<Item = (&str, f64)> {
        let others = self.waited_for().into_iter().filter(move |(name, _)| *name != self.app && *name != OTHERS);
        others.filter(move |(_, seconds)| self.part(*seconds) >= WORTH_A_WORD)
    }

    /// The one of them for which it waited longest, and for which part of its time.
    pub(super) fn slowed_most_by(&self) -> Option<(&str, f64)> {
        let (app, seconds) = self.slowed_by().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some((app, self.part(seconds)))
    }

    fn add(&mut self, app: &App) {
        let work = app.work();
        self.requests += work.requests;
        self.queued += work.queued;
        self.outstanding += work.outstanding;
        self.bytes += work.bytes;
        self.request_seconds += work.seconds();
        self.data_requests += app.read.requests + app.write.requests;
        self.waits.share_seconds += app.waits.share_seconds;
        self.waits.cap_seconds += app.waits.cap_seconds;
        self.waits.pace_seconds += app.waits.pace_seconds;
        self.waits.minimum_seconds += app.waits.minimum_seconds;
        for behind in &app.behind {
            *self.behind.entry(behind.app.clone()).or_default() += behind.seconds;
        }
        self.used += app.used_seconds;
        self.entitled += app.entitled_seconds;
        self.weight = app.weight;
        self.bulk |= app.bulk;
        self.cap_bytes_per_second = app.cap_bytes_per_second;
    }

    /// Divides its time in the storage; returns that of which the best is not known.
    fn add_storage(&mut self, server: &AtServer, app: &App) -> f64 {
        let (mut behind, mut unknown) = (0.0, 0.0);
        for alike in app.in_storage.iter().filter(|alike| alike.requests > 0) {
            let best = quiet(app, alike).map(|best| best * alike.requests as f64);
            if best.is_none() {
                unknown += alike.seconds;
            }
            // Without a best, what the storage did not work for others meanwhile.
            let excess = (alike.seconds - best.unwrap_or(alike.own_seconds)).max(0.0);
            let processor = alike.lost_to_processor_seconds.min(excess);
            let storage = alike.lost_to_storage_seconds.min(excess - processor);
            let mut others = excess - processor - storage;
            if alike.situation == Storage::ALONE {
                // Nobody else was there; the rest comes and goes.
                others = others.min(alike.seconds - alike.own_seconds);
            }
            self.quiet_seconds += alike.seconds - processor - storage - others;
            self.processor_seconds += processor;
            self.storage_itself_seconds += storage;
            behind += others;
        }
        self.divide(behind, server, app);
        let slower = server.slower();
        let is_more = |slower: &Slower| self.slower.is_none_or(|known| known.factor < slower.factor);
        self.slower = slower.filter(is_more).or(self.slower);
        unknown
    }

    /// Divides what was for others in the storage in proportion to the work for each.
    fn divide(&mut self, seconds: f64, server: &AtServer, app: &App) {
        if seconds <= 0.0 {
            return;
        }
        let known = app.behind_in_storage.iter().map(|behind| (&*behind.app, behind.seconds));
        let mut parts: Vec<(&str, f64)> = known.filter(|(_, seconds)| *seconds > 0.0).collect();
        if parts.is_empty() {
            // No other's left while its own were there: those that had some there were served alongside them.
            let others = server.apps.iter().filter(|other| other.app != app.app && other.used_seconds > 0.0);
            parts.extend(others.map(|other| (&*other.app, other.used_seconds)));
        }
        if parts.is_empty() {
            parts.push((OTHERS, 1.0));
        }
        let whole: f64 = parts.iter().map(|(_, part)| part).sum();
        for (name, part) in parts {
            *self.behind_in_storage.entry(name.to_owned()).or_default() += seconds * part / whole;
        }
    }
}

/// What a request like these takes while nobody else is in the storage, if that is known.
fn quiet(app: &App, alike: &Storage) -> Option<f64> {
    let same = |other: &&Storage| (&other.op, other.size_bytes) == (&alike.op, alike.size_bytes);
    app.in_storage.iter().filter(same).find_map(|other| other.quiet_seconds)
}

/// Its weight's part of the weights beside it for which somebody had requests, of that of its share, and so on.
fn share(server: &AtServer, app: &App) -> f64 {
    let parts = (0..=app.shares.len()).map(|level| {
        let inside = server.apps.iter().filter(|other| other.shares.starts_with(&app.shares[..level]));
        // Each application that is not in a further share, and each share once.
        let beside: BTreeSet<_> = inside.map(|other| at(other, level)).collect();
        let whole: f64 = beside.iter().map(|(_, weight)| f64::from(*weight)).sum();
        f64::from(at(app, level).1) / whole
    });
    parts.product()
}

/// What an application is, or belongs to, so many shares below the top, and the weight of that.
fn at(app: &App, level: usize) -> (Result<&str, &str>, u32) {
    app.shares.get(level).map_or((Ok(&app.app), app.weight), |share| (Err(&share.share), share.weight))
}

/// What most of the time was for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "app")]
pub(super) enum Cause {
    /// Its cap.
    Cap,
    /// The pace of bulk.
    Pace,
    /// The minimum of another application.
    Minimum,
    /// The turns of others in vpfs, of which this one took most.
    Share(Option<String>),
    /// Requests of others in the storage, of which this one had most.
    Neighbour(String),
    /// Its own requests.
    Itself,
    /// The storage, which is slower than at best.
    Storage,
    /// The processors of the proxy's host.
    Processor,
    /// The storage, which takes as long at best.
    Nothing,
}

impl Cause {
    pub(super) fn of(breakdown: &Breakdown) -> Self {
        let Breakdown { app, waits, behind, behind_in_storage, .. } = breakdown;
        let whole: f64 = behind.values().sum();
        let own = if whole > 0.0 { behind.get(app).copied().unwrap_or(0.0) / whole } else { 0.0 };
        let others = |list: &std::collections::BTreeMap<String, f64>| {
            let others = list.iter().filter(|(name, _)| *name != app);
            others.clone().max_by(|one, other| one.1.total_cmp(other.1)).map(|(name, _)| name.clone())
        };
        let own_in_storage = behind_in_storage.get(app).copied().unwrap_or(0.0);
        let in_storage = behind_in_storage.values().sum::<f64>() - own_in_storage;
        let causes = [
            (Some(Self::Nothing), breakdown.quiet_seconds),
            (Some(Self::Cap), waits.cap_seconds),
            (Some(Self::Pace), waits.pace_seconds),
            (Some(Self::Minimum), waits.minimum_seconds),
            (Some(Self::Share(others(behind))), waits.share_seconds * (1.0 - own)),
            (Some(Self::Itself), waits.share_seconds * own + own_in_storage),
            (others(behind_in_storage).map(Self::Neighbour), in_storage),
            (Some(Self::Storage), breakdown.storage_itself_seconds),
            (Some(Self::Processor), breakdown.processor_seconds),
        ];
        let known = causes.into_iter().filter_map(|(cause, seconds)| Some((cause?, seconds)));
        known.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(Self::Nothing, |(cause, _)| cause)
    }

    /// In three words, for a column.
    pub(super) fn short(&self) -> String {
        match self {
            Self::Cap => "its cap".to_owned(),
            Self::Pace => "pace of bulk".to_owned(),
            Self::Minimum => "another's minimum".to_owned(),
            Self::Share(None) => "turns of others".to_owned(),
            Self::Share(Some(app)) | Self::Neighbour(app) => format!("behind {}", plain(app)),
            Self::Itself => "its own requests".to_owned(),
            Self::Storage => "slow storage".to_owned(),
            Self::Processor => "processors".to_owned(),
            Self::Nothing => "-".to_owned(),
        }
    }

    /// A sentence for the cause, and one for what would change it.
    pub(super) fn sentences(&self, breakdown: &Breakdown) -> [String; 2] {
        let Breakdown { policy, .. } = breakdown;
        let said = |cause: &str, change: &str| [cause.to_owned(), change.to_owned()];
        match self {
            Self::Cap => {
                let rate = Rate(breakdown.cap_bytes_per_second.unwrap_or(0));
                let cause = format!("Its own cap of {rate} holds it.");
                [cause, "A higher cap, or none; neither its weight nor more requests in flight.".to_owned()]
            }
            Self::Pace => said(
                "It takes all that it can get, and is held so that others, who ask for less than their share, have a \
                 short way to the storage.",
                "A larger weight; or those others end.",
            ),
            Self::Minimum => said(
                "The minimum of another application comes first.",
                "A smaller min_rate for that one, or a min_rate for this one.",
            ),
            Self::Share(other) => {
                let other = other.as_deref().unwrap_or("others");
                let has_less = breakdown.has_less_than_entitled();
                let cause = match has_less {
                    false => format!("It asks for more than its share; it is mostly the turn of {other}."),
                    true => format!("It is mostly the turn of {other}, although its own share is larger than it used."),
                };
                let change = match has_less {
                    false => "A larger weight. More requests in flight only wait longer.",
                    true => "More requests in flight, so that one waits whenever it is its turn; or larger ones.",
                };
                [cause, change.to_owned()]
            }
            Self::Neighbour(other) => {
                let cause = format!("Its requests wait in the storage behind those of {other}.");
                let change = match (policy.strip_suffix(OBSERVED), policy.as_str()) {
                    (Some(observed), _) => format!(
                        "mode = \"manage\" in [scheduler] (now: \"observe\"), with which \"{observed}\" holds back what \
                         {other} has in the storage."
                    ),
                    (None, "isolation") => {
                        "A larger weight, or a `latency` for it; `isolation` bounds what others have \
                                            there as far as throughput allows."
                            .to_owned()
                    }
                    (None, _) => format!(
                        "policy = \"isolation\" bounds what others have in the storage (now: \"{policy}\"); or a cap \
                         for {other}."
                    ),
                };
                [cause, change]
            }
            Self::Itself => said(
                "Its requests wait behind its own: it has more in flight than the storage serves at a time.",
                "Fewer in flight take less time each; more do not make it faster.",
            ),
            Self::Storage => said(
                "The storage itself is slow.",
                "Nothing in vpfs: look for a failing disk, a rebuild, a full cache, the network to it, or load that \
                 bypasses vpfs.",
            ),
            Self::Processor => said(
                "Messages wait for a processor of the proxy's host, and not for the storage.",
                "Less other work on that host, more processors, or a proxy on another host (`top` there shows what is \
                 busy).",
            ),
            Self::Nothing => {
                let cause = match breakdown.slowed_most_by() {
                    Some((app, part)) => format!(
                        "No cause is larger than the time that the storage takes at best; the largest is {}, with {} of \
                         its time.",
                        plain(app),
                        percent(part)
                    ),
                    None => "Nobody makes it wait for longer than the storage takes at best.".to_owned(),
                };
                [cause, faster_alone(breakdown)]
            }
        }
    }
}

/// What makes an application faster that waits for nobody.
fn faster_alone(breakdown: &Breakdown) -> String {
    const SMALL: u64 = 256 << 10;
    let size = breakdown.bytes / breakdown.data_requests.max(1);
    match breakdown.data_requests > 0 && size < SMALL {
        true => format!("More requests in flight, or larger ones (now {:.0} KiB each).", size as f64 / 1024.0),
        false => "More requests in flight.".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use vpfs_proxy::admin::api::{Behind, InShare, Speed, Work};

    use super::*;

    fn text(times: [f64; 3], other: &str) -> String {
        let span = span(vec![app("small", times, other), app("large", [0.0, 1.0, 1.0], "large")]);
        explanation(&Breakdown::of(&span, "small").unwrap(), &span)
    }

    #[test]
    fn a_neighbour_is_named_with_its_part() {
        let text = text([0.0, 20.0, 1.0], "large");
        let expected = "small at s1, 10 s: 100.0 requests/s, 0.4 MB/s, 20 ms each\n\
            \x20 in vpfs           0%  0.00 ms\n\
            \x20 in the storage  100%    20 ms\n\
            \x20   of that as at best 5%\n\
            \x20   behind large 95%\n\
            \x20 used             10% of the storage's time; entitled to 50%\n\
            \n\
            vpfs held nothing.\n\
            Its requests wait in the storage behind those of large.\n\
            It gets less than it is entitled to: its weight 1 is 50% of those that ask.\n\
            What would change it: policy = \"isolation\" bounds what others have in the storage (now: \"fifo\"); or a \
            cap for large.";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_rates_of_bulk_are_worth_is_shown() {
        let mut span = span(vec![app("small", [0.0, 20.0, 1.0], "large"), app("large", [0.0, 1.0, 1.0], "large")]);
        let tried = |rate: u64, bulk, speed| TriedRate {
            bytes_per_second: rate * 100_000,
            bulk,
            speeds: vec![Speed { app: "small".to_owned(), speed }],
        };
        span.servers[0].tried_rates = vec![tried(138, 1.0, 1.0), tried(150, 1.09, 0.76)];
        let lines = |app: &str| {
            let text = curve(&Breakdown::of(&span, app).unwrap(), &span)?;
            Some(
                text.lines()
                    .skip(2)
                    .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                    .collect::<Vec<_>>(),
            )
        };
        let expected = ["rate of bulk bulk gets speed of small", "13.8 MB/s 100% 100%", "15.0 MB/s 109% 76%"];
        assert_eq!(lines("small").unwrap(), expected);
        assert_eq!(lines("large"), None, "it is not bulk");
        span.servers[0].apps[1].bulk = true;
        let text = curve(&Breakdown::of(&span, "large").unwrap(), &span).unwrap();
        assert!(text.contains("speed of small"), "{text}");
    }

    #[test]
    fn memory_that_is_not_stored_is_named() {
        let mut span = span(vec![app("small", [0.0, 20.0, 1.0], "large"), app("large", [0.0, 1.0, 1.0], "large")]);
        let text = |span: &Span| explanation(&Breakdown::of(span, "small").unwrap(), span);
        assert!(!text(&span).contains("not stored"));
        span.unstored_bytes = 3_100_000_000;
        assert!(text(&span).contains("memory holds 3.1 GB that are not stored yet"), "{}", text(&span));
    }

    #[test]
    fn slow_storage_is_said_to_be_slow_since_when() {
        let alone = span(vec![app("small", [0.0, 3.0, 3.0], "small")]);
        let text = explanation(&Breakdown::of(&alone, "small").unwrap(), &alone);
        assert!(text.contains("vpfs held nothing.\nThe storage itself is slow since "), "{text}");
        assert!(
            text.contains("UTC, 60 s ago: applications that have it to themselves wait 3.0 times as long as at best."),
            "{text}"
        );
        assert!(text.contains("look for a failing disk"), "{text}");
    }

    #[test]
    fn what_waits_for_its_share_is_said_to_ask_for_more() {
        let mut apps = [app("small", [20.0, 1.0, 1.0], "large"), app("large", [0.0, 1.0, 1.0], "large")];
        apps[0].used_seconds = 5.0;
        let span = span(apps.into());
        let text = explanation(&Breakdown::of(&span, "small").unwrap(), &span);
        assert!(
            text.contains(
                "It asks for more than its share; it is mostly the turn of large.\nIt gets what it is entitled to"
            ),
            "{text}"
        );
        assert!(text.contains("    for share 95%\n    behind large 95%\n"), "{text}");
    }

    #[test]
    fn rows_are_divided_among_columns() {
        let span = span(vec![app("small", [0.0, 20.0, 1.0], "large"), app("large", [1.0, 1.0, 1.0], "large")]);
        let all: Vec<_> = ["small", "large"].into_iter().filter_map(|app| Breakdown::of(&span, app)).collect();
        let text = matrix_of(&all, &span);
        let words: Vec<Vec<&str>> = text.lines().take(3).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["application", "large", "(others)", "rules", "storage", "processor", "at", "best"]);
        assert_eq!(words[1], ["small", "95%", "0%", "0%", "0%", "0%", "5%"]);
        assert_eq!(words[2], ["large", "50%", "0%", "0%", "0%", "0%", "50%"]);
        assert_eq!(matrix_of(&[], &span), "No application had requests.");
    }

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

    fn work(requests: u64, wait: f64, storage: f64) -> Work {
        Work {
            queued: 0,
            outstanding: 0,
            requests,
            failed: 0,
            late: 0,
            bytes: requests << 12,
            wait_seconds: wait,
            storage_seconds: storage,
        }
    }

    fn behind(list: &[(&str, f64)]) -> Vec<Behind> {
        list.iter().map(|(app, seconds)| Behind { app: (*app).to_owned(), seconds: *seconds }).collect()
    }

    /// 1000 reads of 4 KiB in ten seconds that took `seconds` in the storage, `own` of it their own; at best 1 s.
    pub(in crate::cmd) fn app(name: &str, [wait, seconds, own]: [f64; 3], other: &str) -> App {
        let alike = Storage {
            op: "read".into(),
            size_bytes: 4096,
            situation: if other == name { "alone".into() } else { "beside".into() },
            requests: 1000,
            seconds,
            own_seconds: own,
            lost_to_processor_seconds: 0.0,
            lost_to_storage_seconds: if other == name { (own - 1.0).max(0.0) } else { 0.0 },
            quiet_seconds: Some(0.001),
            slower_seconds: (other == name && own > 2.5).then_some(60.0),
        };
        App {
            app: name.to_owned(),
            automatic: false,
            shares: Vec::new(),
            weight: 1,
            exempt: false,
            bulk: false,
            used_seconds: 1.0,
            entitled_seconds: 5.0,
            has_cap: false,
            cap_bytes_per_second: None,
            released_requests: 0,
            held_seconds: 0.0,
            waits: Waits { share_seconds: wait, ..Waits::default() },
            behind: behind(&[(other, wait)]),
            behind_in_storage: behind(&[(other, seconds - own)]),
            in_storage: vec![alike],
            read: work(1000, wait, seconds),
            write: work(0, 0.0, 0.0),
            metadata: work(0, 0.0, 0.0),
        }
    }

    pub(in crate::cmd) fn span(apps: Vec<App>) -> Span {
        let server =
            AtServer { name: "s1".into(), policy: "fifo".into(), seconds: 10.0, tried_rates: Vec::new(), apps };
        Span { seconds: 10.0, servers: vec![server], unstored_bytes: 0 }
    }

    #[test]
    fn time_in_the_storage_beyond_the_best_is_for_those_in_front() {
        let span = span(vec![app("small", [0.0, 20.0, 1.0], "large"), app("large", [0.0, 1.0, 1.0], "large")]);
        let small = Breakdown::of(&span, "small").unwrap();
        assert_eq!((small.quiet_seconds, small.behind_in_storage["large"]), (1.0, 19.0));
        assert_eq!((small.storage_itself_seconds, small.slower, small.is_below_entitled()), (0.0, None, true));
        assert_eq!((small.vpfs_seconds(), small.share, small.entitled, small.used), (0.0, 0.5, 0.5, 0.1));
        assert_eq!(Breakdown::of(&span, "other"), None);
        // 1000 reads of 4 KiB are all that its cap allows in these ten seconds.
        let mut capped = span.clone();
        capped.servers[0].apps[0].cap_bytes_per_second = Some(400 << 10);
        assert!(!Breakdown::of(&capped, "small").unwrap().is_below_entitled(), "more would be above its cap");
    }

    /// Symptom: after a change from manage to observe, an application that its neighbour slowed down sixteen times was
    /// told that the storage is slow. Requests that have company say nothing about that, however long they take.
    #[test]
    fn slow_storage_is_only_what_is_slow_for_one_that_has_it_to_itself() {
        let alone = Breakdown::of(&span(vec![app("small", [0.0, 3.0, 3.0], "small")]), "small").unwrap();
        assert_eq!((alone.storage_itself_seconds, alone.quiet_seconds), (2.0, 1.0));
        assert_eq!(alone.slower, Some(Slower { factor: 3.0, for_seconds: Some(60.0) }));
        let both = Breakdown::of(&span(vec![app("small", [0.0, 21.0, 9.0], "large")]), "small").unwrap();
        assert_eq!((both.behind_in_storage["large"], both.storage_itself_seconds, both.slower), (20.0, 0.0, None));
    }

    #[test]
    fn what_a_processor_explains_is_nobodys() {
        let mut small = app("small", [0.0, 21.0, 1.0], "large");
        small.in_storage[0].lost_to_processor_seconds = 15.0;
        let small = Breakdown::of(&span(vec![small]), "small").unwrap();
        assert_eq!((small.processor_seconds, small.behind_in_storage["large"], small.quiet_seconds), (15.0, 5.0, 1.0));
    }

    #[test]
    fn without_a_best_what_the_storage_worked_for_others_is_theirs() {
        let mut unknown = app("small", [1.0, 20.0, 1.0], "large");
        unknown.in_storage[0].quiet_seconds = None;
        let known = Breakdown::of(&span(vec![unknown.clone()]), "small").unwrap();
        assert_eq!((known.quiet_seconds, known.behind_in_storage["large"], known.is_best_known), (1.0, 19.0, false));
        // None of the large ones left meanwhile.
        (unknown.in_storage[0].quiet_seconds, unknown.behind_in_storage) = (Some(0.001), Vec::new());
        let both = span(vec![unknown, app("large", [0.0, 1.0, 1.0], "large")]);
        assert_eq!(Breakdown::of(&both, "small").unwrap().behind_in_storage["large"], 19.0);
    }

    /// Symptom: under management, the report said of every application that it was below its share: of small ones that
    /// have few requests in the storage, and of large ones that are paced, or whose own wait for each other.
    #[test]
    fn an_application_that_asks_for_less_or_waits_for_itself_is_not_below() {
        let got = |wait: f64, storage: f64, other: &str| {
            let span = span(vec![app("it", [wait, storage, 1.0], other), app("large", [0.0, 1.0, 1.0], "large")]);
            !Breakdown::of(&span, "it").unwrap().is_below_entitled()
        };
        assert!(got(0.0, 2.0, "large"), "it is half as fast as alone, and its share is a half");
        assert!(got(50.0, 20.0, "it"), "nobody else made it wait");
        assert!(!got(0.0, 4.0, "large") && !got(4.0, 1.0, "large"));
        let mut paced = app("it", [4.0, 1.0, 1.0], "large");
        paced.waits = Waits { pace_seconds: 4.0, ..Waits::default() };
        paced.behind.clear();
        let span = span(vec![paced, app("large", [0.0, 1.0, 1.0], "large")]);
        assert!(!Breakdown::of(&span, "it").unwrap().is_below_entitled(), "that is what protects the others");
    }

    /// Symptom: with `auto_share = "each"`, automatic applications were told a part of one weight as their share.
    #[test]
    fn those_in_a_share_divide_its_weight_and_others_have_their_own() {
        let mut apps = ["named", "uid:1", "uid:2"].map(|name| app(name, [0.0, 1.0, 1.0], name));
        let shares = |apps: &[App; 3]| {
            let span = span(apps.to_vec());
            ["named", "uid:1"].map(|name| Breakdown::of(&span, name).unwrap().share)
        };
        apps[1..].iter_mut().for_each(|app| (app.automatic, app.weight) = (true, 2));
        assert_eq!(shares(&apps), [0.2, 0.4]);
        let within = |path: &str| InShare { share: path.to_owned(), weight: 3 };
        apps[1..].iter_mut().for_each(|app| app.shares = vec![within("auto")]);
        assert_eq!(shares(&apps), [1.0 / 4.0, 3.0 / 8.0]);
        apps[1].shares.push(within("auto/one"));
        assert_eq!(shares(&apps), [1.0 / 4.0, 9.0 / 20.0], "3 beside the other one's 2");
    }

    fn cause(times: [f64; 3], other: &str) -> Cause {
        Cause::of(&Breakdown::of(&span(vec![app("small", times, other)]), "small").unwrap())
    }

    #[test]
    fn the_largest_part_is_the_cause() {
        assert_eq!(cause([0.0, 1.0, 1.0], "large"), Cause::Nothing);
        assert_eq!(cause([0.0, 20.0, 1.0], "large"), Cause::Neighbour("large".into()));
        assert_eq!(cause([0.0, 20.0, 1.0], "small"), Cause::Itself);
        assert_eq!(cause([20.0, 1.0, 1.0], "large"), Cause::Share(Some("large".into())));
        assert_eq!(cause([20.0, 1.0, 1.0], "small"), Cause::Itself);
        assert_eq!(cause([0.0, 4.0, 4.0], "small"), Cause::Storage);
        assert_eq!(cause([0.0, 4.0, 3.0], "large"), Cause::Neighbour("large".into()), "it is not alone");
    }

    /// Symptom: in front of real servers, "nobody makes it wait" stood below "behind genomics 33%".
    #[test]
    fn a_smaller_cause_is_named_as_such() {
        let breakdown = Breakdown::of(&span(vec![app("small", [0.0, 1.8, 1.0], "large")]), "small").unwrap();
        assert_eq!(Cause::of(&breakdown), Cause::Nothing);
        let [said, _] = Cause::Nothing.sentences(&breakdown);
        assert!(said.ends_with("the largest is large, with 44% of its time."), "{said}");
    }

    #[test]
    fn advice_fits_the_configuration() {
        let change = |policy: &str| {
            let mut span = span(vec![app("small", [0.0, 20.0, 1.0], "large")]);
            policy.clone_into(&mut span.servers[0].policy);
            let breakdown = Breakdown::of(&span, "small").unwrap();
            Cause::of(&breakdown).sentences(&breakdown)[1].clone()
        };
        assert!(change("fifo").starts_with("policy = \"isolation\""), "{}", change("fifo"));
        assert!(change("isolation (observed)").starts_with("mode = \"manage\""), "{}", change("isolation (observed)"));
        assert!(change("isolation").starts_with("A larger weight"), "{}", change("isolation"));
    }

    #[test]
    fn a_cap_is_named_with_its_rate() {
        let mut capped = app("small", [0.0, 1.0, 1.0], "large");
        (capped.waits.cap_seconds, capped.cap_bytes_per_second) = (9.0, Some(2_000_000));
        let breakdown = Breakdown::of(&span(vec![capped]), "small").unwrap();
        assert_eq!(Cause::of(&breakdown), Cause::Cap);
        assert!(Cause::Cap.sentences(&breakdown)[0].contains("cap of 2MB/s"));
    }
}
