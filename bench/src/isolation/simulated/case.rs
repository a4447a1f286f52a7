//! A small application beside a large one: the factors, and the selection of cases.

use std::time::Duration;

use super::super::Access;
use super::load::{Load, Offsets, Seconds, Site};

/// The storage models, by name.
pub(crate) const MODELS: [&str; 5] = ["one-head", "hdd", "ssd", "volume", "throttled-disk"];
/// Bytes that a call of the large application moves on each server.
pub(crate) const LARGE_BYTES: [u32; 4] = [256 << 10, 1 << 20, 4 << 20, 16 << 20];
/// Processes of the large application.
const LARGE_PROCESSES: u32 = 12;
const SMALL_BYTES: u32 = 8 << 10;
const SERVERS: [u32; 3] = [1, 4, 16];
const WEIGHTS: [(u32, u32); 3] = [(1, 1), (4, 1), (1, 4)];
const IN_FLIGHT: [u32; 2] = [1, 4];
const THINK_MICROS: [u64; 2] = [2_000, 200];

/// One situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) site: Site,
    small_op: Access,
    /// Calls in flight, each from a separate process that waits for it.
    small_in_flight: u32,
    small_think_micros: u64,
    large_op: Access,
    /// Bytes of a call on each server.
    pub(crate) large_bytes: u32,
    /// Weights of the small and the large application.
    pub(crate) weights: (u32, u32),
}

impl Case {
    /// The base case, from which the others differ in one factor.
    pub(crate) fn base(model: &'static str) -> Self {
        Self {
            site: Site { model, servers: 4 },
            small_op: Access::Write,
            small_in_flight: 1,
            small_think_micros: 2_000,
            large_op: Access::Write,
            large_bytes: 1 << 20,
            weights: (1, 1),
        }
    }

    /// The base of every model, and each other factor varied by itself on `model`.
    pub(crate) fn selection(model: &'static str) -> Vec<Self> {
        let base = Self::base(model);
        let mut cases: Vec<Self> = MODELS.into_iter().map(Self::base).collect();
        cases.push(Self { small_op: Access::Read, ..base });
        cases.extend(IN_FLIGHT.map(|small_in_flight| Self { small_in_flight, ..base }));
        cases.extend(THINK_MICROS.map(|small_think_micros| Self { small_think_micros, ..base }));
        cases.push(Self { large_op: Access::Read, ..base });
        cases.extend(LARGE_BYTES.map(|large_bytes| Self { large_bytes, ..base }));
        cases.extend(WEIGHTS.map(|weights| Self { weights, ..base }));
        cases.extend(SERVERS.map(|servers| Self { site: Site { model, servers }, ..base }));
        // The base itself is included for each factor.
        let mut once: Vec<Self> = Vec::new();
        for case in cases {
            if !once.contains(&case) {
                once.push(case);
            }
        }
        once
    }

    /// Every combination of all factors.
    pub(crate) fn all() -> Vec<Self> {
        let mut cases: Vec<Self> = MODELS.into_iter().map(Self::base).collect();
        vary(&mut cases, SERVERS, |case, servers| case.site.servers = servers);
        vary(&mut cases, Access::BOTH, |case, op| case.small_op = op);
        vary(&mut cases, IN_FLIGHT, |case, in_flight| case.small_in_flight = in_flight);
        vary(&mut cases, THINK_MICROS, |case, think| case.small_think_micros = think);
        vary(&mut cases, Access::BOTH, |case, op| case.large_op = op);
        vary(&mut cases, LARGE_BYTES, |case, bytes| case.large_bytes = bytes);
        vary(&mut cases, WEIGHTS, |case, weights| case.weights = weights);
        cases
    }

    /// All factors, so that `--case` can select it by any of them.
    pub(crate) fn name(&self) -> String {
        let Self { site: Site { model, servers }, small_in_flight, weights: (small, large), .. } = self;
        let think = Duration::from_micros(self.small_think_micros).as_secs_f64() * 1e3;
        let (small_op, large_op, size) = (self.small_op.name(), self.large_op.name(), size(self.large_bytes));
        format!(
            "{model} x{servers}, small {small_op} x{small_in_flight} {think}ms, large {large_op} {size}, {small}:{large}"
        )
    }

    pub(crate) fn small(&self) -> Load {
        let think = Duration::from_micros(self.small_think_micros);
        let (op, processes) = (self.small_op, self.small_in_flight);
        Load { pattern: Offsets::Random, op, bytes: SMALL_BYTES, processes, think }
    }

    /// Calls like those of the small application, enough to keep the storage busy.
    pub(crate) fn saturating(&self) -> Load {
        Load { processes: 64 * self.site.servers, think: Duration::ZERO, ..self.small() }
    }

    pub(crate) fn large(&self) -> Load {
        large(self.site, self.large_op, self.large_bytes)
    }

    /// Whether the storage serves one access at a time.
    pub(crate) fn is_serial(&self) -> bool {
        matches!(self.site.model, "one-head" | "hdd")
    }
}

/// The large application, whose calls move `bytes` on each server.
pub(crate) fn large(site: Site, op: Access, bytes: u32) -> Load {
    let pattern = Offsets::Sequential;
    Load { pattern, op, bytes: bytes * site.servers, processes: LARGE_PROCESSES, think: Duration::ZERO }
}

/// How long a run with large calls of this size is measured, if one with calls of at most 1 MiB is measured for
/// `seconds`.
pub(crate) fn seconds(seconds: u64, large_bytes: u32) -> Seconds {
    Seconds(seconds * u64::from((large_bytes >> 20).isqrt().max(1)))
}

/// For example `256KiB`.
pub(crate) fn size(bytes: u32) -> String {
    if bytes < 1 << 20 { format!("{}KiB", bytes >> 10) } else { format!("{}MiB", bytes >> 20) }
}

/// Every case with every value.
fn vary<T: Copy, const N: usize>(cases: &mut Vec<Case>, values: [T; N], set: impl Fn(&mut Case, T)) {
    let varied = cases.iter().flat_map(|case| {
        values.map(|value| {
            let mut case = *case;
            set(&mut case, value);
            case
        })
    });
    *cases = varied.collect();
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn names(cases: &[Case]) -> BTreeSet<String> {
        cases.iter().map(Case::name).collect()
    }

    #[test]
    fn a_name_says_all() {
        let expected = "ssd x4, small write x1 2ms, large write 1MiB, 1:1";
        assert_eq!(Case::base("ssd").name(), expected);
    }

    #[test]
    fn each_case_occurs_once() {
        let all = Case::all();
        assert_eq!((all.len(), names(&all).len()), (2880, 2880));
        for model in MODELS {
            let selection = Case::selection(model);
            assert_eq!((selection.len(), names(&selection).len()), (16, 16));
            assert!(names(&selection).is_subset(&names(&all)));
        }
    }

    #[test]
    fn large_calls_are_measured_for_longer() {
        let of = LARGE_BYTES.map(|bytes| seconds(20, bytes));
        assert_eq!(of, [20, 20, 40, 80].map(Seconds));
    }
}
