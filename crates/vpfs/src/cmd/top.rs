//! `vpfs top`: what applications do now.

use std::io;
use std::io::Write;
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{PrintStyledContent, StyledContent, Stylize};
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{event, execute, queue, terminal};
use serde::Serialize;
use tokio::runtime::Runtime;
use vpfs_config::Config;
use vpfs_proxy::admin::api;
use vpfs_proxy::admin::api::Status;

use super::asking::{Answers, Asking};
use super::rows::{Glance, Level, Row};
use super::runtime;
use super::why::explain;
use crate::print::{Exit, clock_time, mean_time, now, percent, print, print_json};

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
            return run_screen(&source, before, self.sort, interval);
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

struct View {
    order: Order,
    /// One of the servers, or all.
    server: Option<String>,
    filter: String,
    /// Letters go to the filter.
    is_typing: bool,
    /// The line of the table.
    selected: usize,
    page: Page,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Page {
    Table,
    /// Why an application is as slow as it is.
    Why(String),
    Help,
}

/// What a key does beyond the view.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    Stay,
    Quit,
}

/// Two looks, and what is wrong with the latest one.
struct Looks {
    before: Vec<Status>,
    after: Vec<Status>,
    /// The time of the latest, in seconds since 1970.
    at: u64,
    trouble: String,
}

impl Looks {
    /// A failure leaves what was seen before.
    fn add(&mut self, look: Result<Answers<Status>, Exit>) {
        match look {
            Ok(Answers { list, silent }) => {
                self.before = std::mem::replace(&mut self.after, list);
                (self.at, self.trouble) = (now(), silent.join("; "));
            }
            Err(exit) => self.trouble = exit.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    fn servers(&self) -> Vec<&str> {
        self.after.iter().flat_map(|status| &status.servers).map(|server| server.server.as_str()).collect()
    }

    /// As it is shown.
    fn glance(&self, view: &View) -> Glance {
        let mut glance = Glance::of(&self.before, &self.after, view.server.as_deref());
        glance.apps.retain(|row| row.app.contains(&view.filter));
        sort(&mut glance.apps, view.order);
        glance
    }
}

/// The terminal, which is as it was before once this is dropped.
struct Screen;

impl Screen {
    fn take() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let screen = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    fn draw(&self, view: &View, looks: &Looks) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let mut out = io::BufWriter::new(io::stdout().lock());
        let mut lines = lines(view, looks, (usize::from(width), usize::from(height))).into_iter();
        for row in 0..height {
            // Before the line: after one of the full width, this would take its last character.
            queue!(out, MoveTo(0, row), Clear(ClearType::CurrentLine))?;
            lines.next().map_or(Ok(()), |line| queue!(out, PrintStyledContent(line)))?;
        }
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Shows and looks again until the user quits.
fn run_screen(source: &Source<'_>, first: Vec<Status>, order: Order, interval: Duration) -> Result<(), Exit> {
    let screen = Screen::take().map_err(|error| failed(&error))?;
    let mut view = View::new(order);
    let mut looks = Looks { before: Vec::new(), after: first, at: now(), trouble: "looking for the first time".into() };
    let mut due = Instant::now() + interval;
    loop {
        screen.draw(&view, &looks).map_err(|error| failed(&error))?;
        match next_key(due).map_err(|error| failed(&error))? {
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                if is_interrupt || view.press(key.code, &looks) == Then::Quit {
                    return Ok(());
                }
            }
            Some(_) => {}
            None => {
                looks.add(source.look());
                due = Instant::now() + interval;
            }
        }
    }
}

fn failed(error: &io::Error) -> Exit {
    Exit::Failed(format!("cannot use this terminal: {error}; --once needs none"))
}

/// What happens until then.
fn next_key(due: Instant) -> io::Result<Option<Event>> {
    match event::poll(due.saturating_duration_since(Instant::now()))? {
        true => event::read().map(Some),
        false => Ok(None),
    }
}

impl View {
    const fn new(order: Order) -> Self {
        Self { order, server: None, filter: String::new(), is_typing: false, selected: 0, page: Page::Table }
    }

    fn press(&mut self, key: KeyCode, looks: &Looks) -> Then {
        match key {
            KeyCode::Char(char) if self.is_typing => self.filter.push(char),
            KeyCode::Backspace if self.is_typing => drop(self.filter.pop()),
            KeyCode::Enter if self.is_typing => self.is_typing = false,
            KeyCode::Esc if self.page == Page::Table => (self.is_typing, self.filter) = (false, String::new()),
            KeyCode::Char('q') if self.page == Page::Table => return Then::Quit,
            _ if self.page != Page::Table => self.page = Page::Table,
            KeyCode::Enter => {
                let row = looks.glance(self).apps.into_iter().nth(self.selected);
                self.page = row.map_or(Page::Table, |row| Page::Why(row.app));
            }
            KeyCode::Char('?') => self.page = Page::Help,
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.selected += 1,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('b') => self.order = Order::Bytes,
            KeyCode::Char('o') => self.order = Order::Requests,
            KeyCode::Char('w') => self.order = Order::Wait,
            KeyCode::Char('u') => self.order = Order::Used,
            KeyCode::Char('a') => self.order = Order::App,
            KeyCode::Tab => self.server = following(self.server.as_deref(), &looks.servers()),
            _ => {}
        }
        if self.page == Page::Table {
            self.selected = self.selected.min(looks.glance(self).apps.len().saturating_sub(1));
        }
        Then::Stay
    }
}

/// All, then each server, then all again.
fn following(server: Option<&str>, servers: &[&str]) -> Option<String> {
    let next = match server {
        None => 0,
        Some(name) => servers.iter().position(|found| *found == name).map_or(servers.len(), |index| index + 1),
    };
    servers.get(next).map(|name| (*name).to_owned())
}

/// From the top, none wider than the screen.
fn lines(view: &View, looks: &Looks, (width, height): (usize, usize)) -> Vec<StyledContent<String>> {
    let glance = looks.glance(view);
    let mut lines = vec![title(view, looks).bold()];
    match (&view.page, looks.trouble.as_str()) {
        (Page::Help, _) => lines.extend(HELP.lines().map(|line| line.to_owned().stylize())),
        (Page::Why(app), _) => {
            let text = explain(app, &glance.span);
            lines.extend(text.lines().flat_map(|line| wrapped(line.split_inclusive(' '), width)).map(Stylize::stylize));
        }
        (Page::Table, trouble) => {
            if !trouble.is_empty() {
                lines.push(format!("! {trouble}").red());
            }
            lines.extend(table(view, &glance, (width, height - lines.len().min(height))));
        }
    }
    let keys = match view.page {
        Page::Table => "? help   Enter: why   b o w u a: sort   Tab: server   / filter   q quit",
        _ => "any key: back",
    };
    lines.truncate(height.saturating_sub(1));
    lines.push(keys.to_owned().dim());
    lines.into_iter().map(|line| line.style().apply(line.content().chars().take(width).collect())).collect()
}

fn title(view: &View, looks: &Looks) -> String {
    let place = match &view.server {
        Some(server) => server.clone(),
        None => format!("all servers: {}", looks.servers().join(", ")),
    };
    let filter = match (view.is_typing, view.filter.as_str()) {
        (true, filter) => format!("  filter: {filter}_"),
        (false, "") => String::new(),
        (false, filter) => format!("  filter: {filter}"),
    };
    format!("vpfs top  {} UTC  {place}{filter}", clock_time(looks.at))
}

/// The verdict, the sum, and a line for each application, of which the selected one is among those that fit.
fn table(view: &View, glance: &Glance, (width, height): (usize, usize)) -> Vec<StyledContent<String>> {
    let Glance { verdict, apps, .. } = glance;
    let sentences = [format!("{}:", verdict.level.sign())].into_iter().chain(verdict.sentences.iter().cloned());
    let sentences = sentences.map(|sentence| sentence + " ");
    let mut lines: Vec<_> = wrapped(sentences, width).map(|line| colour(line, verdict.level).bold()).collect();
    lines.push(format!("{:width$}", header()).reverse());
    lines.push(total(glance).bold());
    let room = height.saturating_sub(lines.len() + 1).max(1);
    let first = (view.selected + 1).saturating_sub(room);
    lines.extend(apps.iter().enumerate().skip(first).take(room).map(|(index, row)| {
        let level = match row.sign() {
            '!' => Level::Below,
            '~' => Level::Slowed,
            _ => Level::Good,
        };
        let line = match row.cause {
            None => line(row).dim(),
            Some(_) => colour(line(row), level),
        };
        if index == view.selected { line.underlined() } else { line }
    }));
    lines
}

fn colour(line: String, level: Level) -> StyledContent<String> {
    match level {
        Level::Below => line.red(),
        Level::Slowed => line.yellow(),
        Level::Good => line.stylize(),
    }
}

/// As many as fit in each line; what is wider itself has one of its own.
fn wrapped<S: AsRef<str>>(parts: impl IntoIterator<Item = S>, width: usize) -> impl Iterator<Item = String> {
    let mut lines = vec![String::new()];
    for part in parts {
        let (part, last) = (part.as_ref(), lines.len() - 1);
        let both = lines[last].chars().count() + part.trim_end().chars().count();
        match both > width && !lines[last].is_empty() {
            true => lines.push(part.to_owned()),
            false => lines[last] += part,
        }
    }
    lines.into_iter()
}

const HELP: &str = "
 used      part of the storage's time that it used; of all, the utilisation
 entitled  part that its weight gives it among those that ask; of all, 100%
 wait      mean time of a request in vpfs
 storage   mean time of a request in the storage
 why       what most of the time of its requests was for; - if nothing holds it

 !  uses less than it is entitled to, although it waits for others (red)
 ~  waits for others, or for a rule that protects them (yellow)

 up, down  select an application           Enter  why it is as slow as it is
 b MB/s   o ops/s   w wait   u used   a application: sort
 Tab       one server after another, all   /  names with a text; Esc: all
 q         quit
";

/// The width of the name; longer ones are cut.
const NAME: usize = 16;

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    /// Most bytes a second first.
    Bytes,
    /// Most requests a second first.
    Requests,
    /// Longest mean wait first.
    Wait,
    /// Largest part of the storage's time first.
    Used,
    /// By name.
    App,
}

/// Sorts rows, which are in the order of their names; that order stays among equals.
fn sort(rows: &mut [Row], order: Order) {
    let key = |row: &Row| match order {
        Order::Bytes => row.bytes_per_second,
        Order::Requests => row.requests_per_second,
        Order::Wait => row.wait_seconds.unwrap_or(0.0),
        Order::Used => row.used,
        Order::App => 0.0,
    };
    rows.sort_by(|one, other| key(other).total_cmp(&key(one)));
}

fn header() -> String {
    columns(' ', "application", &["MB/s", "ops/s", "used", "entitled", "wait", "storage"], "why")
}

fn line(row: &Row) -> String {
    columns(row.sign(), &row.app, &numbers(row, row.entitled()), &row.why())
}

/// Those of the sum of all.
fn total(Glance { total, span, .. }: &Glance) -> String {
    let servers = span.servers.len();
    let why = format!("{servers} server{}", if servers == 1 { "" } else { "s" });
    columns(' ', "total", &numbers(total, total.entitled()), &why)
}

fn numbers(row: &Row, entitled: String) -> [String; 6] {
    let (mb, ops) = (row.bytes_per_second / 1e6, row.requests_per_second);
    let [wait, storage] = [row.wait_seconds, row.storage_seconds].map(mean_time);
    [format!("{mb:.1}"), format!("{ops:.0}"), percent(row.used), entitled, wait, storage]
}

fn columns<N: AsRef<str>>(sign: char, name: &str, numbers: &[N; 6], why: &str) -> String {
    let name = match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    };
    let [mb, ops, used, entitled, wait, storage] = numbers.each_ref().map(AsRef::as_ref);
    format!("{sign} {name:NAME$} {mb:>7} {ops:>7} {used:>4} {entitled:>8} {wait:>7} {storage:>7}  {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::rows::tests::status;

    fn shown(view: &View, looks: &Looks) -> Vec<String> {
        lines(view, looks, (80, 24)).iter().map(|line| line.content().trim_end().to_owned()).collect()
    }

    fn looks() -> Looks {
        let (before, after) = (vec![status("s1", 10), status("s2", 10)], vec![status("s1", 14), status("s2", 14)]);
        Looks { before, after, at: 1_800_000_059, trouble: String::new() }
    }

    #[test]
    fn eighty_columns_show_everything() {
        let lines = shown(&View::new(Order::Bytes), &looks());
        let expected = [
            "vpfs top  2027-01-15 08:00:59 UTC  all servers: s1, s2",
            "OK: The storage is in use (50%). No application waits long for another.",
            "All get what they are entitled to.",
            "  application         MB/s   ops/s used entitled    wait storage  why",
            "  total                2.1       2  50%     100%   500ms   250ms  2 servers",
            "  climate              2.1       2  50%     100%   500ms   250ms  -",
            "  idle                 0.0       0   0%        -       -       -  idle",
        ];
        assert_eq!(lines[..7], expected);
        assert!(lines[7].ends_with("q quit"), "{lines:?}");
        assert!(HELP.lines().all(|line| line.len() <= 80));
    }

    #[test]
    fn keys_choose_server_order_and_filter() {
        let (mut view, looks) = (View::new(Order::Bytes), looks());
        let press = |view: &mut View, keys: &str| {
            keys.chars().for_each(|key| {
                view.press(KeyCode::Char(key), &looks);
            });
        };
        view.press(KeyCode::Tab, &looks);
        assert!(shown(&view, &looks)[0].ends_with("UTC  s1"));
        view.press(KeyCode::Tab, &looks);
        view.press(KeyCode::Tab, &looks);
        assert_eq!(view.server, None);
        press(&mut view, "w/idq");
        assert_eq!((view.order, view.filter.as_str()), (Order::Wait, "idq"), "letters go to the filter");
        view.press(KeyCode::Backspace, &looks);
        assert!(shown(&view, &looks)[5].starts_with("  idle "));
        view.press(KeyCode::Esc, &looks);
        assert_eq!(view.filter, "");
        assert_eq!(view.press(KeyCode::Char('q'), &looks), Then::Quit);
    }

    #[test]
    fn enter_says_why_and_a_question_mark_what_columns_are() {
        let (mut view, looks) = (View::new(Order::Bytes), looks());
        (0..9).for_each(|_| _ = view.press(KeyCode::Down, &looks));
        assert_eq!(view.selected, 1, "the last one");
        view.press(KeyCode::Up, &looks);
        view.press(KeyCode::Enter, &looks);
        let lines = shown(&view, &looks);
        assert!(lines[1].starts_with("climate at s1, s2, 4 s: 2.0 requests/s"), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("What would change it")), "{lines:?}");
        assert_eq!(view.press(KeyCode::Char('q'), &looks), Then::Stay, "it goes back");
        assert_eq!(view.page, Page::Table);
        view.press(KeyCode::Char('?'), &looks);
        assert!(shown(&view, &looks).iter().any(|line| line.contains("the utilisation")));
    }

    #[test]
    fn the_selected_line_is_shown_on_a_small_screen() {
        let (mut view, looks) = (View::new(Order::Bytes), looks());
        view.press(KeyCode::Down, &looks);
        let lines = lines(&view, &looks, (80, 7));
        assert!(lines.len() == 7 && lines[5].content().starts_with("  idle"), "{lines:?}");
    }

    #[test]
    fn a_look_that_fails_is_said_and_changes_nothing_else() {
        let mut looks = looks();
        looks.add(Err(Exit::Failed("the proxy of s1 has ended".into())));
        let lines = shown(&View::new(Order::Bytes), &looks);
        assert_eq!(lines[1], "! the proxy of s1 has ended");
        assert!(lines[6].starts_with("  climate"));
    }

    fn glance() -> Glance {
        Glance::of(&[status("s1", 10)], &[status("s1", 14)], None)
    }

    #[test]
    fn columns_are_aligned_and_fit_eighty_characters() {
        let mut glance = glance();
        assert_eq!(line(&glance.apps[0]), "  climate              1.0       1  50%     100%   500ms   250ms  -");
        assert_eq!(line(&glance.apps[1]), "  idle                 0.0       0   0%        -       -       -  idle");
        assert_eq!(total(&glance), "  total                1.0       1  50%     100%   500ms   250ms  1 server");
        let row = &mut glance.apps[0];
        (row.app, row.wait_seconds, row.below_entitled) = ("host:192.168.100.200".into(), Some(123.4), true);
        assert!(line(row).starts_with("! host:192.168.10… "), "{}", line(row));
        assert_eq!(header().find("why"), line(&glance.apps[1]).rfind("idle"));
    }

    #[test]
    fn rows_are_sorted_by_what_was_asked_for() {
        let sorted = |order| {
            let mut rows = glance().apps;
            rows.reverse();
            sort(&mut rows, order);
            rows.remove(0).app
        };
        assert_eq!([Order::Bytes, Order::Wait, Order::App].map(sorted), ["climate", "climate", "idle"]);
    }
}
