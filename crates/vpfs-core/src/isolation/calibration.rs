//! Moments in which the storage shows what bulk costs.

use core::time::Duration;

use super::device_time::Lesson;
use crate::units::{AppId, Time};

/// A moment without protection, or with requests of one bulk flow only, in which the storage is saturated and its costs can
/// be learned.
///
/// - While bulk goes at a limited rate nothing shows what it costs, so shares of it mean nothing. So there is a moment
///   without limit when that cost is not known, when bulk does not get its share although nothing but the storage holds it back,
///   and every minute in any case.
/// - While several flows are bulk, the storage shows what they cost together, but not each. So each goes alone for a
///   moment when its cost is not known. Its tags run ahead meanwhile, so the others get their shares afterwards.
///
/// It lasts until costs turn out to be right in some windows of saturation.
#[derive(Debug, Default)]
pub(super) struct Calibration {
    running: Option<Running>,
    last: Option<Time>,
    /// How long it is to the next one if that one, too, does not help.
    again: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    solo: Option<AppId>,
    /// Windows to come.
    windows: u32,
    /// When it ends at the latest.
    until: Time,
}

impl Calibration {
    /// Device time in the storage meanwhile; two bulk requests in any case.
    pub(super) const IN_FLIGHT_NS: u64 = 20_000_000;
    const WINDOWS: u32 = 4;
    const LONGEST: Duration = Duration::from_millis(1000);
    const AGAIN: Duration = Duration::from_secs(2);
    const EVERY: Duration = Duration::from_secs(60);

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The bulk flow that goes alone.
    pub(super) fn solo(&self) -> Option<AppId> {
        self.running?.solo
    }

    /// Begins a moment without limit if it is time for one.
    pub(super) fn consider(&mut self, now: Time, unknown: bool, doubtful: bool) {
        let since = self.last.map_or(Duration::MAX, |last| now.since(last));
        let needed = (unknown || doubtful) && since >= self.again;
        if needed || since >= Self::EVERY {
            self.again = if needed { (self.again * 2).clamp(Self::AGAIN, Self::EVERY) } else { Self::AGAIN };
            let windows = if unknown { Self::WINDOWS } else { Self::WINDOWS / 2 };
            self.begin(now, None, windows);
        }
    }

    /// Lets `app` go alone for a moment.
    pub(super) fn begin_solo(&mut self, now: Time, app: AppId) {
        if !self.is_running() {
            self.begin(now, Some(app), Self::WINDOWS);
        }
    }

    fn begin(&mut self, now: Time, solo: Option<AppId>, windows: u32) {
        self.running = Some(Running { solo, windows, until: now + Self::LONGEST });
        self.last = Some(now);
    }

    /// Ends a flow's going alone: somebody is to be protected, or the flow has nothing to send.
    pub(super) fn end_solo(&mut self) {
        if self.solo().is_some() {
            self.running = None;
        }
    }

    /// After each completion; whether a moment without limit just ended.
    pub(super) fn on_window(&mut self, now: Time, lesson: Option<Lesson>) -> bool {
        let Some(running) = &mut self.running else { return false };
        running.windows -= u32::from(lesson == Some(Lesson::Confirmation));
        if running.windows > 0 && now < running.until {
            return false;
        }
        let unlimited = running.solo.is_none();
        self.running = None;
        self.last = Some(now);
        unlimited
    }
}
