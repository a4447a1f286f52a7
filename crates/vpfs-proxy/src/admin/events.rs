//! The latest lines of the log, kept for those who ask: `vpfs events`.

use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tracing::field::{Field as Key, Visit};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, Layer};

use crate::lock;

/// Keeps the latest events of this process: at most [`Events::KEPT`], each with at most 20 fields of 500 characters.
/// Copies keep the same ones.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    latest: VecDeque<Event>,
    count: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Events of a process are numbered from 0.
    pub number: u64,
    /// When, as in RFC 3339, in UTC.
    pub time: String,
    /// `INFO`, `WARN` or `ERROR`.
    pub level: String,
    /// What, in words.
    pub message: String,
    /// To whom, where and how much.
    pub fields: Vec<Field>,
}

/// A detail of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Its name, for example `app`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// The JSON of `/v1/events`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsReport {
    /// The process, whose numbers of events these are.
    pub process: u32,
    /// The names of its servers.
    pub servers: Vec<String>,
    /// The latest events, the oldest first.
    pub events: Vec<Event>,
}

impl Events {
    /// The number of events that are kept.
    pub const KEPT: usize = 1000;

    /// The layer of the log that fills it.
    pub fn layer(&self) -> EventLayer {
        EventLayer::new(self.clone())
    }

    pub(crate) fn report(&self, servers: Vec<String>) -> EventsReport {
        EventsReport { process: std::process::id(), servers, events: lock(&self.0).latest.iter().cloned().collect() }
    }

    fn keep(&self, event: Event) {
        let mut kept = lock(&self.0);
        if kept.latest.len() == Self::KEPT {
            kept.latest.pop_front();
        }
        let number = kept.count;
        kept.count += 1;
        kept.latest.push_back(Event { number, ..event });
    }
}

/// Keeps each line of the log that reaches it; see [`Events::layer`].
#[derive(Debug)]
pub struct EventLayer(Events);

impl EventLayer {
    const fn new(events: Events) -> Self {
        Self(events)
    }
}

impl<S: Subscriber> Layer<S> for EventLayer {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut kept = begin(event.metadata());
        event.record(&mut kept);
        self.0.keep(kept);
    }
}

fn begin(metadata: &Metadata<'_>) -> Event {
    let mut time = String::new();
    // A clock that cannot be written leaves the text empty.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    Event { number: 0, time, level: metadata.level().to_string(), message: String::new(), fields: Vec::new() }
}

impl Event {
    /// More than any line of vpfs has.
    const FIELDS: usize = 20;
    /// Of a longer text, the rest is left out: others choose some of them.
    const CHARACTERS: usize = 500;

    fn set(&mut self, key: &Key, value: &str) {
        let mut value = value.to_owned();
        if let Some((end, _)) = value.char_indices().nth(Self::CHARACTERS) {
            value.truncate(end);
            value.push('…');
        }
        if key.name() == "message" {
            self.message = value;
        } else if self.fields.len() < Self::FIELDS {
            self.fields.push(Field { name: key.name().to_owned(), value });
        }
    }
}

impl Visit for Event {
    fn record_str(&mut self, key: &Key, value: &str) {
        self.set(key, value);
    }

    fn record_debug(&mut self, key: &Key, value: &dyn Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.set(key, &text);
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::prelude::*;

    use super::*;

    fn kept(log: impl FnOnce()) -> Vec<Event> {
        let events = Events::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(events.layer()), log);
        events.report(Vec::new()).events
    }

    #[test]
    fn a_line_keeps_its_details() {
        let events = kept(|| tracing::warn!(app = "climate", bytes = 5_u64, missing = None::<u64>, "too late"));
        let [event] = &events[..] else { panic!("{events:?}") };
        assert_eq!((event.number, event.level.as_str(), event.message.as_str()), (0, "WARN", "too late"));
        let fields: Vec<_> = event.fields.iter().map(|field| (field.name.as_str(), field.value.as_str())).collect();
        assert_eq!(fields, [("app", "climate"), ("bytes", "5")]);
        assert!(event.time.starts_with("20") && event.time.ends_with('Z'), "{}", event.time);
    }

    #[test]
    fn memory_is_bounded() {
        let events = kept(|| (0..3000).for_each(|number| tracing::info!(text = "ä".repeat(600), "{number}")));
        assert_eq!((events.len(), events[0].number, events[0].message.as_str()), (Events::KEPT, 2000, "2000"));
        assert_eq!(events[0].fields[0].value.chars().count(), 501);
    }
}
