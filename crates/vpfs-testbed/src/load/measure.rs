//! The measurements of a run: by phase, over time, and the result of the verification.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use vpfs_sim::model::Latencies;
use vpfs_sim::model::plan::Phase;

pub use vpfs_sim::model::Latency;

/// Everything measured in one run of one application.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Number of processes.
    pub processes: u32,
    /// Number of nodes they ran on.
    pub nodes: u32,
    /// From the first step of the first process to the last step of the last one, without creating and removing the
    /// run's directory.
    pub run_seconds: f64,
    /// Mean over the processes: time in calls.
    pub io_seconds: f64,
    /// Mean over the processes: time in computation.
    pub think_seconds: f64,
    /// Mean over the processes: time waiting for other processes in barriers.
    pub wait_seconds: f64,
    /// The phases in order.
    pub phases: Vec<PhaseReport>,
    /// Throughput over time.
    pub timeline: Timeline,
    /// Result of the verification of data read back.
    pub verification: Verification,
}

impl Report {
    /// The measurements of one phase.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseReport> {
        self.phases.iter().find(|report| report.phase == phase)
    }
}

/// One phase of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Which phase it is.
    pub phase: Phase,
    /// From the start of the first process to the end of the last one.
    pub seconds: f64,
    /// Mean over the processes: time in calls.
    pub io_seconds: f64,
    /// Calls completed.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Over `seconds`.
    pub bytes_per_second: f64,
    /// Over `seconds`.
    pub operations_per_second: f64,
    /// Latency of each call, as seen by the process.
    pub latency: Latency,
}

/// Calls and bytes completed in each interval since the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Length of an interval.
    pub interval_seconds: f64,
    /// The intervals in order, up to the last one in which something completed.
    pub samples: Vec<Sample>,
}

/// Calls and bytes completed in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Calls.
    pub operations: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Result of the verification of data read back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Bytes read and compared.
    pub checked_bytes: u64,
    /// Number of reads that returned wrong data.
    pub wrong_reads: u64,
    /// The first of them.
    pub examples: Vec<WrongRead>,
}

impl Verification {
    /// Whether all data read was correct.
    pub fn is_clean(&self) -> bool {
        self.wrong_reads == 0
    }
}

/// A read that returned wrong data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum WrongRead {
    #[error("{path}: byte {offset} is {found:#04x} instead of {expected:#04x}, {count} wrong bytes in this read")]
    #[serde(rename = "content")]
    Content { path: String, offset: u64, expected: u8, found: u8, count: u64 },
    #[error("{path}: {found} bytes instead of {expected} at byte {offset}")]
    #[serde(rename = "length")]
    Length { path: String, offset: u64, expected: u64, found: u64 },
}

/// `amount` per second over `seconds`; zero if there was no time.
pub fn per_second(amount: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount as f64 / seconds } else { 0.0 }
}

#[derive(Debug)]
pub(crate) struct Recorder {
    interval: Duration,
    state: Mutex<State>,
}

/// How far a run is: the phase that started last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which one it is.
    pub phase: Phase,
    /// Calls completed in it.
    pub operations: u64,
    /// Bytes moved in it.
    pub bytes: u64,
    /// Time since its first process started it.
    pub elapsed: Duration,
}

#[derive(Debug, Default)]
struct State {
    begin: Option<Instant>,
    end: Option<Instant>,
    phases: Vec<PhaseState>,
    think: Duration,
    wait: Duration,
    samples: Vec<Sample>,
    verification: Verification,
}

#[derive(Debug)]
struct PhaseState {
    phase: Phase,
    begin: Instant,
    end: Instant,
    total: Sample,
    io: Duration,
    latency: Latencies,
}

/// Wrong reads kept for the report; all are counted.
const EXAMPLES: usize = 16;

impl Recorder {
    pub(crate) fn new(interval: Duration) -> Self {
        Self { interval, state: Mutex::default() }
    }

    pub(crate) fn progress(&self, now: Instant) -> Option<Progress> {
        let state = self.lock();
        let PhaseState { phase, begin, total: Sample { operations, bytes }, .. } = *state.phases.last()?;
        Some(Progress { phase, operations, bytes, elapsed: now.saturating_duration_since(begin) })
    }

    pub(crate) fn begin_phase(&self, phase: Phase, now: Instant) {
        let mut state = self.lock();
        state.begin.get_or_insert(now);
        if state.phases.iter().all(|known| known.phase != phase) {
            let latency = Latencies::new(3, Duration::from_secs(3600));
            let new = PhaseState { phase, begin: now, end: now, total: Sample::default(), io: Duration::ZERO, latency };
            state.phases.push(new);
        }
    }

    pub(crate) fn end_phase(&self, phase: Phase, now: Instant) {
        let mut state = self.lock();
        state.end = state.end.max(Some(now));
        let phase = state.phase(phase);
        phase.end = phase.end.max(now);
    }

    /// A call started at `begin`, ended at `end` and moved `bytes`.
    pub(crate) fn call(&self, phase: Phase, begin: Instant, end: Instant, bytes: u64) {
        let one = Sample { operations: 1, bytes };
        let mut state = self.lock();
        let since_begin = end - state.begin.unwrap_or(end);
        let interval = since_begin.as_nanos() / self.interval.as_nanos().max(1);
        state.sample(usize::try_from(interval).unwrap_or(usize::MAX)).add(one);
        let phase = state.phase(phase);
        phase.total.add(one);
        phase.io += end - begin;
        phase.latency.record(end - begin);
    }

    pub(crate) fn think(&self, time: Duration) {
        self.lock().think += time;
    }

    pub(crate) fn wait(&self, time: Duration) {
        self.lock().wait += time;
    }

    pub(crate) fn checked(&self, bytes: u64) {
        self.lock().verification.checked_bytes += bytes;
    }

    pub(crate) fn wrong(&self, read: WrongRead) {
        let verification = &mut self.lock().verification;
        verification.wrong_reads += 1;
        if verification.examples.len() < EXAMPLES {
            verification.examples.push(read);
        }
    }

    pub(crate) fn report(&self, processes: u32, nodes: u32) -> Report {
        let state = self.lock();
        let mean = |sum: Duration| sum.as_secs_f64() / f64::from(processes.max(1));
        let phases: Vec<_> = state.phases.iter().map(|phase| phase.report(processes)).collect();
        Report {
            processes,
            nodes,
            run_seconds: state.begin.zip(state.end).map_or(0.0, |(begin, end)| (end - begin).as_secs_f64()),
            io_seconds: phases.iter().map(|phase| phase.io_seconds).sum(),
            think_seconds: mean(state.think),
            wait_seconds: mean(state.wait),
            phases,
            timeline: Timeline { interval_seconds: self.interval.as_secs_f64(), samples: state.samples.clone() },
            verification: state.verification.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn phase(&mut self, phase: Phase) -> &mut PhaseState {
        self.phases.iter_mut().find(|known| known.phase == phase).expect("a phase starts before it has calls")
    }

    fn sample(&mut self, interval: usize) -> &mut Sample {
        if self.samples.len() <= interval {
            self.samples.resize(interval + 1, Sample::default());
        }
        &mut self.samples[interval]
    }
}

impl Sample {
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
    }
}

impl PhaseState {
    fn report(&self, processes: u32) -> PhaseReport {
        let seconds = (self.end - self.begin).as_secs_f64();
        PhaseReport {
            phase: self.phase,
            seconds,
            io_seconds: self.io.as_secs_f64() / f64::from(processes.max(1)),
            operations: self.total.operations,
            bytes: self.total.bytes,
            bytes_per_second: per_second(self.total.bytes, seconds),
            operations_per_second: per_second(self.total.operations, seconds),
            latency: self.latency.summary(),
        }
    }
}

/// Largest, smallest, mean and standard deviation, as IOR and mdtest print them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Largest.
    pub max: f64,
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the whole population (not of a sample), as IOR and mdtest compute it.
    pub std_dev: f64,
}

impl Spread {
    /// Computes the spread of `values`; all zero if there are none.
    pub fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Self {
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            mean,
            std_dev: variance.sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(origin: Instant, ms: u64) -> Instant {
        origin + Duration::from_millis(ms)
    }

    #[test]
    fn a_phase_lasts_from_the_first_start_to_the_last_end() {
        let recorder = Recorder::new(Duration::from_millis(100));
        let zero = Instant::now();
        recorder.begin_phase(Phase::Write, at(zero, 0));
        recorder.begin_phase(Phase::Write, at(zero, 50));
        recorder.call(Phase::Write, at(zero, 0), at(zero, 90), 1000);
        recorder.call(Phase::Write, at(zero, 90), at(zero, 250), 3000);
        recorder.end_phase(Phase::Write, at(zero, 250));
        recorder.end_phase(Phase::Write, at(zero, 90));
        let report = recorder.report(2, 1);
        let write = report.phase(Phase::Write).unwrap();
        assert!((write.seconds - 0.25).abs() < 1e-9 && (write.io_seconds - 0.125).abs() < 1e-9);
        assert!((write.bytes_per_second - 16_000.0).abs() < 1e-6);
        let bytes: Vec<_> = report.timeline.samples.iter().map(|sample| sample.bytes).collect();
        assert_eq!(bytes, [1000, 0, 3000]);
    }

    #[test]
    fn progress_is_that_of_the_phase_without_what_filled_the_files() {
        let recorder = Recorder::new(Duration::from_secs(1));
        let zero = Instant::now();
        assert_eq!(recorder.progress(zero), None);
        recorder.begin_phase(Phase::Setup, zero);
        recorder.call(Phase::Setup, zero, at(zero, 900), 1 << 20);
        recorder.begin_phase(Phase::Read, at(zero, 1000));
        recorder.call(Phase::Read, at(zero, 1000), at(zero, 1200), 4096);
        let elapsed = Duration::from_millis(500);
        let read = Progress { phase: Phase::Read, operations: 1, bytes: 4096, elapsed };
        assert_eq!(recorder.progress(at(zero, 1500)), Some(read));
    }

    #[test]
    fn wrong_reads_are_all_counted_and_some_kept() {
        let recorder = Recorder::new(Duration::from_secs(1));
        for offset in 0..100 {
            recorder.wrong(WrongRead::Length { path: "/a".to_owned(), offset, expected: 8, found: 0 });
        }
        let verification = recorder.report(1, 1).verification;
        assert_eq!((verification.wrong_reads, verification.examples.len()), (100, EXAMPLES));
        assert!(!verification.is_clean());
    }

    #[test]
    fn of_few_values() {
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[1.0, 3.0]), Spread { max: 3.0, min: 1.0, mean: 2.0, std_dev: 1.0 });
    }
}
