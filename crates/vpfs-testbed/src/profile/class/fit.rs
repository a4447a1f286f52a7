//! Start-up times and rates from timed series.

use serde::Serialize;

use super::{Probe, Timing};

/// An average of all repetitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// The standard deviation among repetitions; 0 for one.
    pub deviation: f64,
}

/// The times of reads or writes at a server, without the network's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AccessFit {
    /// The shortest start-up time.
    pub startup_min_ns: Figure,
    /// The longest start-up time.
    pub startup_max_ns: Figure,
    /// The time of each byte.
    pub ns_per_byte: Figure,
    /// How far the mean times of sizes are from the line through them, at most, as a part of the mean.
    pub off_the_line: f64,
    /// Whether the time of a byte could not be told from that of the network, of which a twentieth was taken.
    pub is_hidden_by_network: bool,
}

/// The times of a class of servers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassFit {
    /// Times of reads.
    pub read: AccessFit,
    /// Times of writes.
    pub write: AccessFit,
}

/// Why times do not give a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClassFitError {
    /// No reads or no writes.
    #[error(
        "{0} were not measured, but a class of servers needs them; name a directory, or a device with --destroy-data"
    )]
    Missing(&'static str),
    /// Large accesses are not slower than small ones.
    #[error(
        "large {0} took no longer than small ones, so their rate cannot be found; measure for longer (--time), a larger \
         file (--size), and while nothing else uses the storage"
    )]
    NoRate(&'static str),
}

/// The parameters of the cost model from `timings`. `network_ns_per_byte` is that of the network which the accesses
/// passed, if they passed one.
///
/// For each repetition, the rate is the slope of the least-squares line through the mean times of all sizes. The times
/// of the smallest accesses without those of their bytes are start-up times: an even distribution with their 1st
/// percentile and their mean [HARL §III-D takes averages and does not say how it finds the limits]. Means, because
/// storage that is limited to a rate serves most accesses at once and lets a few wait for long: no percentile shows how
/// many it serves in a second.
///
/// # Errors
/// Reads or writes are missing, or do not take longer the larger they are.
pub fn fit_class(timings: &[Timing], network_ns_per_byte: Option<f64>) -> Result<ClassFit, ClassFitError> {
    let network = network_ns_per_byte.unwrap_or(0.0);
    let access = |probe, name| access(&repetitions(timings, probe), network, name);
    Ok(ClassFit { read: access(Probe::Read, "reads")?, write: access(Probe::Write, "writes")? })
}

/// The network's time of each byte: the slope of the least-squares line through the means, so that latency is no part
/// of it [HARL §III-D, t].
///
/// # Errors
/// Transfers are missing, or do not take longer the larger they are.
pub fn fit_network(timings: &[Timing]) -> Result<Figure, ClassFitError> {
    slope(&repetitions(timings, Probe::Network), "transfers").map(|(slope, _)| slope)
}

/// The timings of a probe, by repetition.
fn repetitions(timings: &[Timing], probe: Probe) -> Vec<Vec<Timing>> {
    let mut own: Vec<Timing> = timings.iter().filter(|timing| timing.probe == probe).copied().collect();
    own.sort_by_key(|timing| (timing.repetition, timing.size_bytes));
    own.chunk_by(|one, other| one.repetition == other.repetition).map(<[Timing]>::to_vec).collect()
}

/// The least part of the time of a byte that is assumed to be the storage's.
const STORAGE_LEAST: f64 = 0.05;

fn access(repetitions: &[Vec<Timing>], network: f64, name: &'static str) -> Result<AccessFit, ClassFitError> {
    let (slope, lines) = slope(repetitions, name)?;
    let (mut least, mut most) = (Vec::new(), Vec::new());
    for (list, line) in repetitions.iter().zip(&lines) {
        let Some(small) = list.first() else { continue };
        let bytes = small.size_bytes as f64 * line.slope;
        let (p1, mean) = (small.p1_ns as f64, small.mean_ns as f64);
        // The 1st percentile is 49 of 50 parts below the mean.
        let shortest = (mean - (mean - p1) * 50.0 / 49.0 - bytes).max(0.0);
        least.push(shortest);
        most.push((2.0 * (mean - bytes) - shortest).max(shortest));
    }
    let storage = slope.mean - network;
    let floor = slope.mean * STORAGE_LEAST;
    Ok(AccessFit {
        startup_min_ns: figure(&least),
        startup_max_ns: figure(&most),
        ns_per_byte: Figure { mean: storage.max(floor), deviation: slope.deviation },
        off_the_line: repetitions.iter().zip(&lines).map(|(list, line)| line.distance(list)).fold(0.0, f64::max),
        is_hidden_by_network: storage < floor,
    })
}

/// The mean slope, and the line of each repetition.
fn slope(repetitions: &[Vec<Timing>], name: &'static str) -> Result<(Figure, Vec<Line>), ClassFitError> {
    if repetitions.is_empty() {
        return Err(ClassFitError::Missing(name));
    }
    let lines: Vec<Line> = repetitions.iter().map(|list| Line::through(list)).collect();
    let slope = figure(&lines.iter().map(|line| line.slope).collect::<Vec<_>>());
    if slope.mean <= 0.0 { Err(ClassFitError::NoRate(name)) } else { Ok((slope, lines)) }
}

/// A time of `start` nanoseconds and of `slope` for each byte.
struct Line {
    start: f64,
    slope: f64,
}

impl Line {
    /// The least-squares line through the means; level if there are fewer than two sizes.
    fn through(list: &[Timing]) -> Self {
        let count = (list.len() as f64).max(1.0);
        let mean = |of: fn(&Timing) -> f64| list.iter().map(of).sum::<f64>() / count;
        let (size, time) = (|timing: &Timing| timing.size_bytes as f64, |timing: &Timing| timing.mean_ns as f64);
        let (mean_size, mean_time) = (mean(size), mean(time));
        let variance: f64 = list.iter().map(|timing| (size(timing) - mean_size).powi(2)).sum();
        let covariance: f64 = list.iter().map(|t| (size(t) - mean_size) * (time(t) - mean_time)).sum();
        let slope = if variance > 0.0 { covariance / variance } else { 0.0 };
        Self { start: mean_time - slope * mean_size, slope }
    }

    /// The largest distance of a mean, as a part of it.
    fn distance(&self, list: &[Timing]) -> f64 {
        let distance = |timing: &Timing| {
            let time = timing.mean_ns as f64;
            (self.start + self.slope * timing.size_bytes as f64 - time).abs() / time.max(1.0)
        };
        list.iter().map(distance).fold(0.0, f64::max)
    }
}

fn figure(values: &[f64]) -> Figure {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Figure { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of 1 to 2 ms and 10 ns for each byte.
    fn exact(probe: Probe, repetition: u32, size_bytes: u64) -> Timing {
        let at = |startup: u64| startup + 10 * size_bytes;
        Timing {
            probe,
            repetition,
            size_bytes,
            accesses: 99,
            p1_ns: at(1_010_000),
            mean_ns: at(1_500_000),
            p99_ns: at(1_990_000),
        }
    }

    fn all() -> Vec<Timing> {
        let probes = [Probe::Read, Probe::Write];
        let sizes = [4096, 65536, 1 << 20];
        let of = |probe| (0..2).flat_map(move |repetition| sizes.map(|size| exact(probe, repetition, size)));
        probes.into_iter().flat_map(of).collect()
    }

    fn is_near(figure: Figure, expected: f64) -> bool {
        (figure.mean - expected).abs() < expected / 1e6 && figure.deviation < expected / 1e6
    }

    #[test]
    fn the_model_is_found_again() {
        let fit = fit_class(&all(), None).unwrap();
        let read = fit.read;
        assert!(is_near(read.startup_min_ns, 1e6) && is_near(read.startup_max_ns, 2e6), "{read:?}");
        assert!(is_near(read.ns_per_byte, 10.0) && read.off_the_line < 1e-6, "{read:?}");
        assert_eq!(fit.write, fit.read);
    }

    /// Ten accesses at once, then a wait until they are within the limit.
    #[test]
    fn a_limit_of_accesses_is_found_by_the_mean() {
        let limited = |timing: &Timing| {
            let mean_ns = 5_000_000 + 10 * timing.size_bytes;
            Timing { p1_ns: 100_000 + 10 * timing.size_bytes, p99_ns: 50_000_000, mean_ns, ..*timing }
        };
        let read = fit_class(&all().iter().map(limited).collect::<Vec<_>>(), None).unwrap().read;
        assert!(read.startup_min_ns.mean < 1e-6 && is_near(read.startup_max_ns, 1e7), "{read:?}");
    }

    #[test]
    fn the_networks_part_of_the_time_is_subtracted() {
        let known = fit_class(&all(), Some(4.0)).unwrap();
        assert!(is_near(known.read.ns_per_byte, 6.0) && is_near(known.read.startup_min_ns, 1e6), "{known:?}");
        let hidden = fit_class(&all(), Some(10.0)).unwrap();
        assert!(hidden.read.is_hidden_by_network && is_near(hidden.read.ns_per_byte, 0.5), "{hidden:?}");
    }

    #[test]
    fn latency_is_no_part_of_the_networks_time() {
        let timed = |kib: u64| Timing { mean_ns: 3000 * kib + 77, ..exact(Probe::Network, 0, 1000 * kib) };
        assert!(is_near(fit_network(&[1, 2, 5].map(timed)).unwrap(), 3.0));
        assert_eq!(fit_network(&all()), Err(ClassFitError::Missing("transfers")));
        assert_eq!(fit_network(&[timed(1)]), Err(ClassFitError::NoRate("transfers")));
    }

    #[test]
    fn repetitions_give_mean_and_spread() {
        let mut timings = all();
        for timing in timings.iter_mut().filter(|timing| timing.repetition == 1) {
            timing.mean_ns += 2 * timing.size_bytes;
        }
        let read = fit_class(&timings, None).unwrap().read;
        assert!((read.ns_per_byte.mean - 11.0).abs() < 1e-6, "{read:?}");
        assert!((read.ns_per_byte.deviation - 2_f64.sqrt()).abs() < 1e-6, "{read:?}");
    }

    #[test]
    fn times_that_give_no_profile_are_refused() {
        let reads: Vec<Timing> = all().into_iter().filter(|timing| timing.probe == Probe::Read).collect();
        assert_eq!(fit_class(&reads, None), Err(ClassFitError::Missing("writes")));
        let level: Vec<Timing> = all().iter().map(|timing| Timing { mean_ns: 5, ..*timing }).collect();
        assert_eq!(fit_class(&level, None), Err(ClassFitError::NoRate("reads")));
    }
}
