//! The policies that are compared.

use std::time::Duration;

use vpfs_core::{Bytes, Cap, Depth, PolicyKind, Scope, Settings, SlotCostTable, Target};
use vpfs_sim::{App, PolicySpec};

/// A policy as the daemon has it by default, or with caps set by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: &'static str,
    kind: PolicyKind,
    is_adaptive: bool,
    /// The cap of the large application, in % of its throughput alone.
    cap_percent: Option<u32>,
}

impl Candidate {
    const fn new(name: &'static str, kind: PolicyKind) -> Self {
        Self { name, kind, is_adaptive: false, cap_percent: None }
    }

    const fn cap(name: &'static str, percent: u32) -> Self {
        Self { cap_percent: Some(percent), ..Self::new(name, PolicyKind::SfqDPlus) }
    }

    pub(crate) const FIFO: Self = Self::new("fifo", PolicyKind::Fifo);
    pub(crate) const SFQ_D_PLUS: Self = Self::new("sfq-d-plus", PolicyKind::SfqDPlus);
    pub(crate) const ISOLATION: Self = Self::new("isolation", PolicyKind::Isolation);

    /// All of them.
    pub(crate) const ALL: [Self; 10] = [
        Self::FIFO,
        Self::new("sfq-d", PolicyKind::SfqD),
        Self::SFQ_D_PLUS,
        Self { is_adaptive: true, ..Self::new("adaptive", PolicyKind::SfqDPlus) },
        Self::new("two-level", PolicyKind::TwoLevel),
        Self::new("ioco", PolicyKind::Ioco),
        Self::ISOLATION,
        Self::cap("cap-66", 66),
        Self::cap("cap-80", 80),
        Self::cap("cap-90", 90),
    ];

    pub(crate) fn is_capped(self) -> bool {
        self.cap_percent.is_some()
    }

    pub(crate) fn spec(self) -> PolicySpec {
        let depth = Depth::new(14).unwrap_or(Depth::ONE);
        let settings = Settings::new(self.kind, depth, SlotCostTable::default());
        PolicySpec::new(self.name, Settings { adaptive: self.is_adaptive, ..settings })
    }

    /// The small application with the parameters that this policy needs.
    pub(crate) fn small(self, app: App) -> App {
        // Two-level has targets instead of weights: set a target that just covers the demand of the small application.
        let target = Target { rate: Bytes(4_000_000), scope: Scope::Server, deadline: Duration::from_millis(20) };
        App { target: (self.kind == PolicyKind::TwoLevel).then_some(target), ..app }
    }

    /// The large application, which moves `alone` bytes a second on each server when it is alone there.
    pub(crate) fn large(self, app: App, alone: f64) -> App {
        let cap = self.cap_percent.and_then(|percent| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes a second of a server")]
            let rate = (alone * f64::from(percent) / 100.0) as u64;
            Cap::new(rate, Bytes::mib(4))
        });
        App { cap, ..app }
    }
}
