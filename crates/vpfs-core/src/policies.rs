//! The table of policies: all facts about a policy that other code needs.
//!
//! Configuration, manual, simulator and daemon read it, so a new policy is its own file, a variant of [`PolicyKind`], a
//! row here, and its parameters in [`Settings`].

use alloc::boxed::Box;

use crate::engine::Engine;
use crate::fifo::Fifo;
use crate::ioco::Ioco;
use crate::isolation::Isolation;
use crate::request::{OpKind, ServiceClass};
use crate::settings::{Deadlines, PolicyKind, Settings, SharingMode};
use crate::sfq::Sfq;
use crate::total::TotalKind;
use crate::two_level::TwoLevel;

/// A row of the table.
struct Row {
    kind: PolicyKind,
    name: &'static str,
    work_conserving: bool,
    /// Shares can hold for the sum over several servers.
    shares: bool,
    keeps_deadlines: bool,
    has_slots: bool,
    /// Several servers go at one pace.
    one_pace: bool,
    make: fn(&Settings, usize) -> Box<dyn Engine>,
}

impl Row {
    /// A work-conserving policy without anything else.
    const fn new(kind: PolicyKind, name: &'static str, make: fn(&Settings, usize) -> Box<dyn Engine>) -> Self {
        Self {
            kind,
            name,
            work_conserving: true,
            shares: false,
            keeps_deadlines: false,
            has_slots: false,
            one_pace: false,
            make,
        }
    }
}

const TABLE: [Row; 6] = [
    Row::new(PolicyKind::Fifo, "fifo", |_, events| Box::new(Fifo::new(events))),
    Row {
        shares: true,
        has_slots: true,
        ..Row::new(PolicyKind::SfqD, "sfq-d", |settings, events| Box::new(Sfq::of(settings, events)))
    },
    Row {
        shares: true,
        has_slots: true,
        ..Row::new(PolicyKind::SfqDPlus, "sfq-d-plus", |settings, events| Box::new(Sfq::of(settings, events)))
    },
    Row {
        // The others may wait for a deadline.
        work_conserving: false,
        keeps_deadlines: true,
        ..Row::new(PolicyKind::TwoLevel, "two-level", |settings, events| match settings.two_level.deadlines {
            Deadlines::Paced => Box::new(Isolation::of(settings, events)),
            Deadlines::Paper => Box::new(TwoLevel::new(settings.two_level, settings.depth, events)),
        })
    },
    Row {
        has_slots: true,
        ..Row::new(PolicyKind::Ioco, "ioco", |settings, events| {
            Box::new(Ioco::new(settings.ioco, settings.depth, events))
        })
    },
    Row {
        // Bulk may wait for an interactive application.
        work_conserving: false,
        shares: true,
        one_pace: true,
        ..Row::new(PolicyKind::Isolation, "isolation", |settings, events| Box::new(Isolation::of(settings, events)))
    },
];

/// What a policy needs and promises, without caps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Never leaves the storage idle while something is queued.
    pub work_conserving: bool,
    /// Must hear from the schedulers of other servers, for shares or a common pace; see also [`Settings::needs_peers`].
    pub needs_peers: bool,
    /// Never has more slots of the storage in use than its depth.
    pub has_slots: bool,
}

impl PolicyKind {
    /// All of them, in the order of [`PolicyKind::NAMES`].
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::Fifo; TABLE.len()];
        let mut row = 0;
        while row < TABLE.len() {
            all[row] = TABLE[row].kind;
            row += 1;
        }
        all
    };

    /// Their names as written in configurations.
    pub const NAMES: [&'static str; TABLE.len()] = {
        let mut names = [""; TABLE.len()];
        let mut row = 0;
        while row < TABLE.len() {
            names[row] = TABLE[row].name;
            row += 1;
        }
        names
    };

    fn row(self) -> &'static Row {
        const ROWS: &[Row] = &TABLE;
        ROWS.iter().find(|row| row.kind == self).expect("each policy has a row")
    }

    /// Its name as written in configurations, for example `sfq-d-plus`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it keeps totals of this kind.
    pub fn keeps(self, kind: TotalKind) -> bool {
        match kind {
            // In front of any policy.
            TotalKind::Cap => true,
            TotalKind::Target => self.keeps_deadlines(),
            TotalKind::Minimum => self.keeps_minima(),
        }
    }

    /// Whether it keeps the minimum of each application that has one.
    pub fn keeps_minima(self) -> bool {
        self == Self::Isolation
    }

    /// Whether it keeps a rate and a deadline for each application that has a target.
    pub fn keeps_deadlines(self) -> bool {
        self.row().keeps_deadlines
    }
}

impl Settings {
    /// What the policy needs and promises with these settings.
    pub fn capabilities(&self) -> Capabilities {
        let Row { work_conserving, shares, has_slots, one_pace, .. } = *self.kind.row();
        // Peers are needed with shares by layout too: some requests do not reveal their layout.
        let needs_peers = one_pace || shares && self.sharing.mode != SharingMode::Local;
        Capabilities { work_conserving, needs_peers, has_slots }
    }

    /// Whether it must hear from the schedulers of other servers while applications have these totals.
    pub fn needs_peers(&self, totals: impl IntoIterator<Item = TotalKind>) -> bool {
        self.capabilities().needs_peers || totals.into_iter().any(|kind| self.kind.keeps(kind))
    }

    /// The class of a total for which requests of this kind count.
    pub fn class_of(&self, kind: TotalKind, op: OpKind) -> ServiceClass {
        let apart = self.metadata_depth.is_some() && kind != TotalKind::Cap;
        if apart { op.into() } else { ServiceClass::Data }
    }

    /// The engine of the policy, which keeps at most `event_capacity` events between polls.
    pub(crate) fn engine(&self, event_capacity: usize) -> Box<dyn Engine> {
        (self.kind.row().make)(self, event_capacity)
    }
}
