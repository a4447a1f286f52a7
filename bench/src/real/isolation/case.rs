//! Runs the ways of sharing one after the other.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::proxies::{Place, Proxies};
use super::copies::Copies;
use super::disks::Disks;
use super::mounts::{Mounts, remove_files};
use super::{Access, Figures, Options};
use super::{config, fio};

/// Time for the large application to fill the storage before anything is measured.
const RAMP: Duration = Duration::from_secs(5);

/// Everything a case needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) policies: &'a [String],
    pub(super) place: Place<'a>,
}

/// The results of a case.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) case: String,
    pub(super) small: Figures,
    /// Bytes that the servers' disks wrote (or read, if the large application reads) while the small application ran,
    /// including the small application's own.
    pub(super) all_mb_per_second: Option<f64>,
}

#[derive(Debug)]
enum Case<'a> {
    Alone,
    NoProxy,
    Proxy { policy: &'a str, cap: Option<&'a str> },
}

impl Case<'_> {
    fn name(&self) -> String {
        match self {
            Self::Alone => "alone".to_owned(),
            Self::NoProxy => "no proxy".to_owned(),
            Self::Proxy { policy, cap: None } => (*policy).to_owned(),
            Self::Proxy { policy, cap: Some(cap) } => format!("{policy}, large capped at {cap}"),
        }
    }
}

impl Bench<'_> {
    /// Runs all cases, the first of which is the small application alone. Files in the file system are removed even if
    /// a case fails.
    pub(super) fn run(self) -> Result<Vec<Outcome>, String> {
        self.cases().iter().try_for_each(|case| self.check(case))?;
        let outcomes = self.lay_out().and_then(|()| self.cases().iter().map(|case| self.measure(case)).collect());
        let removed = self.remove("");
        outcomes.and_then(|outcomes| removed.map(|()| outcomes))
    }

    fn cases(&self) -> Vec<Case<'_>> {
        let policies = self.policies.iter().map(|policy| Case::Proxy { policy, cap: None });
        let caps = self.options.caps.iter().map(|cap| Case::Proxy { policy: "sfq-d-plus", cap: Some(cap) });
        [Case::Alone, Case::NoProxy].into_iter().chain(policies).chain(caps).collect()
    }

    fn check(&self, case: &Case<'_>) -> Result<(), String> {
        let Case::Proxy { policy, cap } = case else { return Ok(()) };
        let (apps, scheduler) = config::of(self.options, policy, *cap);
        self.place.check(&apps, &scheduler)
    }

    fn lay_out(&self) -> Result<(), String> {
        eprintln!("laying out files");
        let mounts = Mounts::new(self.place.scratch, &self.direct(), self.options.mounts, Access::Write)?;
        fio::lay_out(self.place.scratch, &mounts.dirs())
    }

    /// The addresses that clients mount without a proxy.
    fn direct(&self) -> String {
        self.place.cluster.spec(&self.place.cluster.addresses[0])
    }

    fn remove(&self, kind: &str) -> Result<(), String> {
        remove_files(self.place.scratch, &self.direct(), kind)
    }

    fn measure(&self, case: &Case<'_>) -> Result<Outcome, String> {
        let disks = Disks::of(self.place.cluster);
        disks.await_quiet();
        eprintln!("measuring {}", case.name());
        let (proxy, small, large) = self.way(case)?;
        let outcome = self.run_applications(case, &disks, &small, &large);
        if let Some(proxy) = proxy {
            proxy.terminate()?;
        }
        let outcome = outcome.map_err(|error| format!("{}: {error}", case.name()))?;
        disks.await_quiet();
        self.remove("large").map(|()| outcome)
    }

    /// The proxies between clients and servers, and the addresses that the small and the large application mount.
    fn way(&self, case: &Case<'_>) -> Result<(Option<Proxies>, String, String), String> {
        let Case::Proxy { policy, cap } = case else { return Ok((None, self.direct(), self.direct())) };
        let (apps, scheduler) = config::of(self.options, policy, *cap);
        let proxies = Proxies::start_in_one(&self.place, &apps, &scheduler)?;
        let [small, large] = [0, 1].map(|app| self.place.cluster.spec(&proxies.address(app)));
        Ok((Some(proxies), small, large))
    }

    fn run_applications(&self, case: &Case<'_>, disks: &Disks, small: &str, large: &str) -> Result<Outcome, String> {
        let mounts = Mounts::new(self.place.scratch, small, self.options.mounts, self.options.small)?;
        std::thread::scope(|scope| {
            let copies = match case {
                Case::Alone => None,
                _ => Some(Copies::start(
                    scope,
                    self.place.scratch,
                    [&self.direct(), large],
                    self.options.call.0,
                    self.options.large,
                )?),
            };
            if copies.is_some() {
                sleep(RAMP);
            }
            let (start, before) = (Instant::now(), disks.moved(self.options.large));
            let small = fio::measure(self.place.scratch, &mounts.dirs(), self.options.small, self.options.seconds)?;
            let (seconds, after) = (start.elapsed().as_secs_f64(), disks.moved(self.options.large));
            copies.map_or(Ok(()), Copies::stop)?;
            let rate = |moved: u64| moved as f64 / 1e6 / seconds;
            let moved = after.zip(before).and_then(|(after, before)| after.checked_sub(before));
            Ok(Outcome { case: case.name(), small, all_mb_per_second: moved.map(rate) })
        })
    }
}
