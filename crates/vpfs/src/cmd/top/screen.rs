//! The live screen: keys, what is shown, and how.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{ContentStyle, PrintStyledContent, StyledContent, Stylize};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{execute, queue};
use vpfs_admin::api::Status;

use super::table::{Order, header, line, sort};
use super::{Answers, Source};
use crate::cmd::rows::rows;
use crate::exit::Exit;

/// What the user chose.
struct View {
    order: Order,
    /// One of the servers, or all.
    server: Option<String>,
    filter: String,
    /// Letters go to the filter.
    is_typing: bool,
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
    trouble: String,
}

impl Looks {
    /// A failure leaves what was seen before.
    fn add(&mut self, look: Result<Answers<Status>, Exit>) {
        match look {
            Ok(Answers { list, silent }) => {
                self.before = std::mem::replace(&mut self.after, list);
                self.trouble = silent.join("; ");
            }
            Err(exit) => self.trouble = exit.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    fn servers(&self) -> Vec<&str> {
        self.after.iter().flat_map(|status| &status.servers).map(|server| server.server.as_str()).collect()
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
        let mut lines = lines(view, looks, usize::from(width));
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
pub(super) fn run(source: &Source<'_>, first: Vec<Status>, order: Order, interval: Duration) -> Result<(), Exit> {
    let screen = Screen::take().map_err(|error| failed(&error))?;
    let mut view = View { order, server: None, filter: String::new(), is_typing: false };
    let mut looks = Looks { before: Vec::new(), after: first, trouble: "looking for the first time".into() };
    let mut due = Instant::now() + interval;
    loop {
        screen.draw(&view, &looks).map_err(|error| failed(&error))?;
        match next_key(due).map_err(|error| failed(&error))? {
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                if is_interrupt || view.press(key.code, &looks.servers()) == Then::Quit {
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
    fn press(&mut self, key: KeyCode, servers: &[&str]) -> Then {
        match key {
            KeyCode::Char(char) if self.is_typing => self.filter.push(char),
            KeyCode::Backspace if self.is_typing => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('b') => self.order = Order::Bytes,
            KeyCode::Char('o') => self.order = Order::Requests,
            KeyCode::Char('w') => self.order = Order::Wait,
            KeyCode::Char('g') => self.order = Order::Got,
            KeyCode::Char('a') => self.order = Order::App,
            KeyCode::Tab => self.server = following(self.server.as_deref(), servers),
            KeyCode::Char('q') => return Then::Quit,
            _ => {}
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

/// From the top, none wider than `width`.
fn lines(view: &View, looks: &Looks, width: usize) -> impl Iterator<Item = StyledContent<String>> {
    let mut rows = rows(&looks.before, &looks.after, view.server.as_deref());
    rows.retain(|row| row.app.contains(&view.filter));
    sort(&mut rows, view.order);
    let place = match &view.server {
        Some(server) => server.clone(),
        None => format!("all servers: {}", looks.servers().join(", ")),
    };
    let filter = match (view.is_typing, view.filter.as_str()) {
        (true, filter) => format!("  filter: {filter}_"),
        (false, "") => String::new(),
        (false, filter) => format!("  filter: {filter}"),
    };
    let title = format!("vpfs top  {place}{filter}").bold();
    let help = match looks.trouble.as_str() {
        "" => "sort: b bytes, o ops, w wait, g got, a app   Tab server   / filter   q quit".to_owned().dim(),
        trouble => trouble.to_owned().red(),
    };
    let head = format!("{:width$}", header()).reverse();
    let rows = rows.into_iter().map(|row| ContentStyle::new().apply(line(&row)));
    let cut = move |line: StyledContent<String>| line.style().apply(line.content().chars().take(width).collect());
    [title, help, head].into_iter().chain(rows).map(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::rows::tests::status;

    fn view() -> View {
        View { order: Order::Bytes, server: None, filter: String::new(), is_typing: false }
    }

    fn shown(view: &View, looks: &Looks) -> Vec<String> {
        lines(view, looks, 80).map(|line| line.content().trim_end().to_owned()).collect()
    }

    fn looks() -> Looks {
        let (before, after) = (vec![status("s1", 10), status("s2", 10)], vec![status("s1", 14), status("s2", 14)]);
        Looks { before, after, trouble: String::new() }
    }

    #[test]
    fn eighty_columns_show_everything() {
        let lines = shown(&view(), &looks());
        assert_eq!(lines[0], "vpfs top  all servers: s1, s2");
        assert_eq!(lines[2], header().trim_end());
        assert_eq!(lines[3], "climate             25%  50%  50%     2.1       2   500ms   250ms      2 bulk");
    }

    #[test]
    fn keys_choose_server_order_and_filter() {
        let mut view = view();
        let servers = ["s1", "s2"];
        let press = |view: &mut View, keys: &str| {
            keys.chars().for_each(|key| {
                view.press(KeyCode::Char(key), &servers);
            });
        };
        view.press(KeyCode::Tab, &servers);
        assert_eq!(shown(&view, &looks())[0], "vpfs top  s1");
        view.press(KeyCode::Tab, &servers);
        view.press(KeyCode::Tab, &servers);
        assert_eq!(view.server, None);
        press(&mut view, "w/idq");
        assert_eq!((view.order, view.filter.as_str()), (Order::Wait, "idq"), "letters go to the filter");
        view.press(KeyCode::Backspace, &servers);
        assert!(shown(&view, &looks())[3].starts_with("idle "));
        view.press(KeyCode::Esc, &servers);
        assert_eq!(view.filter, "");
        assert_eq!(view.press(KeyCode::Char('q'), &servers), Then::Quit);
    }

    #[test]
    fn a_look_that_fails_is_said_and_changes_nothing_else() {
        let mut looks = looks();
        looks.add(Err(Exit::Failed("the proxy of s1 has ended".into())));
        let lines = shown(&view(), &looks);
        assert_eq!(lines[1], "the proxy of s1 has ended");
        assert!(lines[3].starts_with("climate"));
    }
}
