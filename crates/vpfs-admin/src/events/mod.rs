//! The latest lines of the log, kept for those who ask: `vpfs events`.

mod layer;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

pub use layer::EventLayer;

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

    /// All that are kept, for an answer of the process of these servers.
    pub(crate) fn report(&self, servers: Vec<String>) -> EventsReport {
        EventsReport { process: std::process::id(), servers, events: self.kept().latest.iter().cloned().collect() }
    }

    fn keep(&self, event: Event) {
        let mut kept = self.kept();
        if kept.latest.len() == Self::KEPT {
            kept.latest.pop_front();
        }
        let number = kept.count;
        kept.count += 1;
        kept.latest.push_back(Event { number, ..event });
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
