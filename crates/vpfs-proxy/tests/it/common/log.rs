//! What the code under test logs.

use std::fmt::{Debug, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Lines logged by this thread while this lives.
pub(crate) struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

type Lines = Arc<Mutex<Vec<String>>>;

/// A second subscriber, for ever: as long as there is only one, a line that a thread without subscriber is the first to
/// log is switched off for all threads.
static SECOND: LazyLock<Dispatch> =
    LazyLock::new(|| Dispatch::new(Collector { lines: Lines::default(), level: Level::ERROR }));

impl Log {
    /// Starts to record lines of this level and more severe ones.
    pub(crate) fn of(level: Level) -> Self {
        LazyLock::force(&SECOND);
        let lines = Lines::default();
        let collector = Collector { lines: Arc::clone(&lines), level };
        Self { lines, _guard: tracing::subscriber::set_default(collector) }
    }

    /// The lines that contain this text.
    pub(crate) fn with(&self, text: &str) -> Vec<String> {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(text)).cloned().collect()
    }
}

struct Collector {
    lines: Lines,
    level: Level,
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}
