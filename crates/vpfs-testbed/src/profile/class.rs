//! The times of a class of equal servers, as HARL's cost model has them [HARL §III-D, Table I]: a start-up time drawn
//! evenly between two limits, then bytes at a constant rate, for reads and writes, and the network's time for a byte.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde::Serialize;
use vpfs_core::Bytes;

use crate::profile::ProfileError;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// Bytes that come over the network, but from no storage.
    Network,
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// Accesses of one kind, one at a time, at random places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    /// What they do.
    pub probe: Probe,
    /// Bytes of each.
    pub size: Bytes,
    /// The number of the repetition, from 0. Each has other places.
    pub repetition: u32,
    /// How long the series may take, unless that is too short for `least` accesses.
    pub time: Duration,
    /// The least number of accesses.
    pub least: u32,
    /// The largest number of accesses.
    pub most: u32,
}

/// Storage whose accesses can be timed one by one.
pub trait TimedStorage {
    /// What can be timed.
    fn probes(&self) -> Vec<Probe>;

    /// The times of the accesses of `series`.
    fn times(&mut self, series: Series) -> Result<Vec<Duration>, ProfileError>;
}

/// A series that was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// What was timed.
    pub probe: Probe,
    /// The repetition, from 0.
    pub repetition: u32,
    /// Bytes of each access.
    pub size_bytes: u64,
    /// The number of accesses.
    pub accesses: u32,
    /// The time that 1 % of them are below.
    pub p1_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The time that 99 % of them are below.
    pub p99_ns: u64,
}

impl Timing {
    fn new(series: Series, mut times: Vec<Duration>) -> Option<Self> {
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let at = |percent: usize| nanos(times[(last * percent + 50) / 100]);
        Some(Self {
            probe: series.probe,
            repetition: series.repetition,
            size_bytes: series.size.0,
            accesses: u32::try_from(times.len()).unwrap_or(u32::MAX),
            p1_ns: at(1),
            mean_ns: nanos(times.iter().sum::<Duration>()) / times.len() as u64,
            p99_ns: at(99),
        })
    }
}

/// Which series are timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassPlan {
    /// Sizes, ascending. The smallest finds the start-up times and gets half of the time; all find the rate.
    pub sizes: Vec<Bytes>,
    /// How often everything is repeated.
    pub repetitions: u32,
    /// The most accesses of a series.
    pub most: u32,
}

const LEAST: u32 = 3;

impl Default for ClassPlan {
    /// 4 KiB to 4 MiB, five times.
    fn default() -> Self {
        Self { sizes: [4, 64, 256, 1024, 4096].map(Bytes::kib).to_vec(), repetitions: 5, most: 10_000 }
    }
}

/// The progress of a plan.
#[derive(Clone, Copy, Debug)]
pub struct ClassProgress {
    /// The series being timed.
    pub series: Series,
    /// Number of series before it.
    pub done: usize,
    /// Number of all series.
    pub all: usize,
}

impl ClassPlan {
    /// The largest access.
    pub fn largest(&self) -> Bytes {
        self.sizes.iter().copied().max().unwrap_or(Bytes::ZERO)
    }

    /// Times all series in about `time`; without a limit, each has its largest number of accesses. Repetitions follow
    /// each other, so that a disturbance falls into few of them.
    pub fn run(
        &self,
        storage: &mut dyn TimedStorage,
        time: Option<Duration>,
        mut on_progress: impl FnMut(ClassProgress),
    ) -> Result<Vec<Timing>, ProfileError> {
        let all = self.series(&storage.probes());
        let end = time.map(|time| Instant::now() + time);
        let mut timings = Vec::with_capacity(all.len());
        for (done, series) in all.iter().enumerate() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let parts: u32 = all[done..].iter().map(|series| self.parts(series)).sum();
            let time = left.map_or(Duration::MAX, |left| left * self.parts(series) / parts.max(1));
            let series = Series { time, ..*series };
            on_progress(ClassProgress { series, done, all: all.len() });
            timings.extend(Timing::new(series, storage.times(series)?));
        }
        Ok(timings)
    }

    fn series(&self, probes: &[Probe]) -> Vec<Series> {
        let of = |repetition| {
            let sizes = |probe| self.sizes.iter().map(move |&size| (probe, size));
            probes.iter().copied().flat_map(sizes).map(move |(probe, size)| Series {
                probe,
                size,
                repetition,
                time: Duration::MAX,
                least: LEAST.min(self.most),
                most: self.most,
            })
        };
        (0..self.repetitions).flat_map(of).collect()
    }

    fn parts(&self, series: &Series) -> u32 {
        let others = u32::try_from(self.sizes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let finds_startup = Some(&series.size) == self.sizes.first() && series.probe != Probe::Network;
        if finds_startup { others.max(1) } else { 1 }
    }
}

/// The times of the accesses of `series`, which `access` makes. The first one finds storage and network in another
/// state than the others do, and does not count.
pub(super) fn timed(series: Series, mut access: impl FnMut(u32) -> io::Result<()>) -> io::Result<Vec<Duration>> {
    access(0)?;
    let (begin, mut times) = (Instant::now(), Vec::new());
    let mut now = begin;
    for number in 1..=series.most {
        if number > series.least && now.duration_since(begin) >= series.time {
            break;
        }
        access(number)?;
        times.push(now.elapsed());
        now = Instant::now();
    }
    Ok(times)
}

// Start-up times and rates from timed series.

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

fn slope(repetitions: &[Vec<Timing>], name: &'static str) -> Result<(Figure, Vec<Line>), ClassFitError> {
    if repetitions.is_empty() {
        return Err(ClassFitError::Missing(name));
    }
    let lines: Vec<Line> = repetitions.iter().map(|list| Line::through(list)).collect();
    let slope = figure(&lines.iter().map(|line| line.slope).collect::<Vec<_>>());
    if slope.mean <= 0.0 { Err(ClassFitError::NoRate(name)) } else { Ok((slope, lines)) }
}

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

// A class as a file for `vpfs layout advise`, and for people.

/// What is not measured of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassLabels {
    /// Its name: letters, digits, "-" and "_".
    pub name: String,
    /// The number of its servers.
    pub servers: u32,
    /// Their addresses, or none; without quotation marks, backslashes and control characters.
    pub addresses: Vec<String>,
    /// The rate of each server's link, if it was given, such as `112MB/s`.
    pub network: Option<String>,
    /// What may be placed on each server, such as `100GiB`.
    pub free: Option<String>,
}

/// The file, with the keys of the classes of servers of `vpfs layout advise`. `measured` says what was measured, in one
/// line.
pub fn class_toml(fit: &ClassFit, labels: &ClassLabels, measured: &str) -> String {
    let mut text = format!("# {measured}\n# Mean and standard deviation of all repetitions:\n");
    class_summary(fit).lines().for_each(|line| text += &format!("#   {line}\n"));
    if let Some(network) = &labels.network {
        text += &format!("network = \"{network}\"\n");
    }
    text += &format!("\n[[class]]\nname = \"{}\"\n", labels.name);
    if labels.addresses.is_empty() {
        text += &format!("servers = {}\n", labels.servers);
    } else {
        let quoted: Vec<String> = labels.addresses.iter().map(|address| format!("\"{address}\"")).collect();
        text += &format!("addresses = [{}]\n", quoted.join(", "));
    }
    text += &format!("read = {}\nwrite = {}\n", access_toml(&fit.read), access_toml(&fit.write));
    if let Some(free) = &labels.free {
        text += &format!("free = \"{free}\"\n");
    }
    text
}

/// The network's rate as a file that goes with those of classes. `measured` says what was measured, in one line.
pub fn network_toml(network: Figure, measured: &str) -> String {
    let rate = rate(network.mean);
    format!(
        "# {measured}\n# Mean and standard deviation of all repetitions: {}\nnetwork = \"{rate}\"\n",
        spread(network)
    )
}

/// The rate, with the spread among repetitions.
pub fn network_summary(network: Figure) -> String {
    format!("network: {}\n{}", spread(network), unsteady("network", network))
}

/// A line for reads and writes each, with the spread among repetitions, and warnings.
pub fn class_summary(fit: &ClassFit) -> String {
    let mut text = String::new();
    for (name, access) in [("read", &fit.read), ("write", &fit.write)] {
        let startup = [access.startup_min_ns, access.startup_max_ns]
            .map(|figure| format!("{} ± {}", micros(figure.mean), micros(figure.deviation)));
        let [least, most] = startup;
        text += &format!("{name}: startup_min {least}, startup_max {most}, rate {}\n", spread(access.ns_per_byte));
        if access.is_hidden_by_network {
            text += &format!("{name}: the storage is hardly slower than the network, so its rate is a guess\n");
        }
        if access.ns_per_byte.deviation > access.ns_per_byte.mean * MUCH_SPREAD {
            text +=
                &format!("{name}: repetitions differ much; measure longer, and while nothing else uses the storage\n");
        }
        if access.off_the_line > OFF_THE_LINE {
            let percent = access.off_the_line * 100.0;
            text += &format!(
                "{name}: times are off those of a constant rate by up to {percent:.0} % (a cache, a limit, other load?)\n"
            );
        }
    }
    text
}

fn unsteady(name: &str, figure: Figure) -> String {
    match figure.deviation > figure.mean * MUCH_SPREAD {
        true => {
            format!("{name}: repetitions differ much; measure for longer (--time), and while nothing else uses it\n")
        }
        false => String::new(),
    }
}

/// A standard deviation of a larger part of the mean is worth a warning.
const MUCH_SPREAD: f64 = 0.2;
/// Medians that are off by more are worth a warning.
const OFF_THE_LINE: f64 = 0.25;

fn access_toml(fit: &AccessFit) -> String {
    let (least, most) = (micros(fit.startup_min_ns.mean), micros(fit.startup_max_ns.mean));
    let rate = rate(fit.ns_per_byte.mean);
    format!("{{ startup_min = \"{least}\", startup_max = \"{most}\", rate = \"{rate}\" }}")
}

fn micros(nanos: f64) -> String {
    format!("{:.1}us", nanos / 1e3)
}

fn spread(ns_per_byte: Figure) -> String {
    let percent = ns_per_byte.deviation / ns_per_byte.mean * 100.0;
    format!("{} ± {percent:.1} %", rate(ns_per_byte.mean))
}

/// Bytes per second, within what the cost model takes.
fn rate(ns_per_byte: f64) -> String {
    match 1e9 / ns_per_byte.max(0.01) {
        slow if slow < 1e6 => format!("{:.0}KB/s", (slow / 1e3).max(100.0)),
        fast => format!("{:.2}MB/s", fast / 1e6),
    }
}

/// What the server sends first, so that a client notices any other server.
const GREETING: [u8; 8] = *b"vpfsnet1";
/// The most that a client may ask for at once.
const TRANSFER_MAX: u64 = 64 << 20;
/// A peer that is silent for longer is given up.
const PATIENCE: Duration = Duration::from_secs(30);
const PIECE: usize = 1 << 20;

/// A connection to [`answer_network`].
#[derive(Debug)]
pub struct NetworkPath {
    address: String,
    stream: TcpStream,
}

impl NetworkPath {
    /// Connects to `HOST:PORT`.
    ///
    /// # Errors
    /// Nothing answers there, or something else.
    pub fn connect(address: &str) -> Result<Self, ProfileError> {
        let failed = |error| ProfileError::network("connect to", address)(error);
        let mut stream = connect(address).map_err(failed)?;
        let mut greeting = [0; GREETING.len()];
        match stream.read_exact(&mut greeting) {
            Ok(()) if greeting == GREETING => Ok(Self { address: address.to_owned(), stream }),
            Ok(()) => Err(ProfileError::NotOurServer(address.to_owned())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::UnexpectedEof) => {
                Err(ProfileError::NotOurServer(address.to_owned()))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn transfer(&mut self, size: Bytes, buffer: &mut [u8]) -> io::Result<()> {
        self.stream.write_all(&size.0.to_le_bytes())?;
        each_piece(size.0, |len| self.stream.read_exact(&mut buffer[..len]))
    }
}

impl TimedStorage for NetworkPath {
    fn probes(&self) -> Vec<Probe> {
        vec![Probe::Network]
    }

    fn times(&mut self, series: Series) -> Result<Vec<Duration>, ProfileError> {
        let mut buffer = vec![0; PIECE];
        let times = timed(series, |_| self.transfer(series.size, &mut buffer));
        times.map_err(|error| ProfileError::network("receive from", &self.address)(error))
    }
}

/// Sends each client of `stream` what it asks for, until it hangs up.
///
/// # Errors
/// The client broke off, was silent for half a minute, or asked for more than 64 MiB at once.
pub fn answer_network(mut stream: TcpStream) -> io::Result<()> {
    prepare(&stream)?;
    stream.write_all(&GREETING)?;
    let data = vec![0x5a; PIECE];
    loop {
        let mut size = [0; 8];
        match stream.read_exact(&mut size) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let size = u64::from_le_bytes(size);
        if size > TRANSFER_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is no `vpfs profile network`"));
        }
        each_piece(size, |len| stream.write_all(&data[..len]))?;
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return prepare(&stream).map(|()| stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn each_piece(size: u64, mut move_piece: impl FnMut(usize) -> io::Result<()>) -> io::Result<()> {
    let mut left = size;
    while left > 0 {
        let len = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        move_piece(len)?;
        left -= len as u64;
    }
    Ok(())
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
