//! [vPFS Table 2, Fig. 9 and 10]: the cost of one message for each request on 96 servers, compared with sharing by
//! layout.
//!
//! As in the paper: 96 virtual servers that discard data, eight applications with 32 processes on a node each, equal
//! shares, a threshold below the size of a request. Messages cost processor time at the sender and the receiver, on the
//! processor that moves the data, and bandwidth on the links. The device model is chosen so that all servers together
//! move what the paper's layout-driven run did. Keep-alives between servers are switched off, so that only messages of
//! synchronisation are counted.

use std::time::Duration;

use vpfs_sim::{Results, Scenario, SimError, parallel};

use crate::figures::papers::Values;
use crate::figures::scenario::{self, SEEDS};
use crate::{Axis, Plot, Section, Series, Table, number};

const BASE: &str = include_str!("../../../../../scenarios/figures/vpfs-table-2.toml");
/// In seconds.
const WARM_UP: usize = 30;
const SCHEMES: [&str; 2] = ["threshold", "layout"];

/// The results of one scheme after the start-up.
struct Outcome {
    /// Of all applications, in MB/s.
    throughput: f64,
    /// Of one application, each second, in MB/s.
    series: Vec<f64>,
    /// Standard deviation of it.
    deviation: f64,
    /// Largest difference of an application's share from an eighth, in % of that.
    unfairness: f64,
    /// Synchronisation traffic at one server, each second from the start, in KB/s.
    traffic: Vec<f64>,
    messages: u64,
}

impl Outcome {
    fn of(scenario: &Scenario, results: &Results) -> Self {
        let series: Vec<f64> = results.apps[0].bytes_series.iter().map(|&bytes| bytes as f64 / 1e6).collect();
        let from = Duration::from_secs(WARM_UP as u64);
        let bytes: u64 = results.bytes_between(from, results.elapsed).iter().sum();
        let shares = results.shares_between(from, results.elapsed);
        let off = |share: f64| (share * shares.len() as f64 - 1.0).abs() * 100.0;
        Self {
            throughput: bytes as f64 / (results.elapsed - from).as_secs_f64() / 1e6,
            deviation: deviation(&series[WARM_UP..]),
            unfairness: shares.iter().copied().map(off).fold(0.0, f64::max),
            traffic: traffic(scenario, results),
            messages: results.coordination.as_ref().map_or(0, |sent| sent.messages),
            series,
        }
    }

    /// Mean after the start-up, in KB/s.
    fn steady_traffic(&self) -> f64 {
        self.traffic[WARM_UP..].iter().sum::<f64>() / (self.traffic.len() - WARM_UP) as f64
    }
}

/// Bytes that one server sends, including headers; all servers are alike.
fn traffic(scenario: &Scenario, results: &Results) -> Vec<f64> {
    let Some(sent) = &results.coordination else { return vec![0.0; results.apps[0].bytes_series.len()] };
    let overhead = scenario.peers.message_overhead.0;
    let each =
        |(bytes, messages): (&u64, &u64)| (bytes + messages * overhead) as f64 / 1e3 / results.servers.len() as f64;
    sent.bytes_series.iter().zip(&sent.messages_series).map(each).collect()
}

fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

pub(super) fn run() -> Result<(Section, Values), SimError> {
    let outcomes = outcomes(&base()?, &SEEDS)?;
    Ok((section(&outcomes), values(&outcomes)))
}

fn base() -> Result<Scenario, SimError> {
    let mut base = scenario::parse("vpfs-table-2.toml", BASE)?;
    base.peers.settings.keep_alive = None;
    // The paper's servers report to all others; ours would form groups.
    base.peers.settings.group_size = 96;
    Ok(base)
}

/// Both schemes with the first seed, then with the second one, and so on.
fn outcomes(base: &Scenario, seeds: &[u64]) -> Result<Vec<Outcome>, SimError> {
    let runs: Vec<_> = seeds.iter().flat_map(|&seed| SCHEMES.map(|scheme| (seed, scheme))).collect();
    let outcome = |&(seed, scheme): &(u64, &str)| {
        scenario::run(&scenario::seeded(base, seed), scheme).map(|results| Outcome::of(base, &results))
    };
    parallel::map(&runs, outcome).into_iter().collect()
}

fn values(all: &[Outcome]) -> Values {
    let mut values = Values::default();
    let pairs = || all.chunks_exact(SCHEMES.len()).map(|pair| (&pair[0], &pair[1]));
    for (scheme, name) in SCHEMES.iter().enumerate() {
        let own = || all.iter().skip(scheme).step_by(SCHEMES.len());
        values.set(format!("{name} rate"), own().map(|outcome| outcome.throughput));
        values.set(format!("{name} deviation"), own().map(|outcome| outcome.deviation));
        values.set(format!("{name} unfairness"), own().map(|outcome| outcome.unfairness));
    }
    values.set("gain", pairs().map(|(threshold, layout)| (layout.throughput / threshold.throughput - 1.0) * 100.0));
    values.set("deviation left", pairs().map(|(threshold, layout)| layout.deviation / threshold.deviation * 100.0));
    values.set("traffic left", pairs().map(|(all, layout)| layout.steady_traffic() / all.steady_traffic() * 100.0));
    values
}

fn section(all: &[Outcome]) -> Section {
    let outcomes = &all[..SCHEMES.len()];
    let section = Section::new("vPFS Table 2, Fig. 9 and 10: the cost of synchronisation")
        .text(
            "With 96 servers that each report every request to all others (vpfs forms groups by default), messages become a load themselves: they \
             permanently take the servers' processors and links away from the data. With layout-driven sharing \
             servers report only arrivals to each other, and shares are as good. This is the worst case; a threshold \
             of 10 MB sends a thirtieth of it.",
        )
        .figure(
            chart("Fig. 9: throughput of one application", "MB/s", outcomes, |outcome| &outcome.series),
            "Values over one second.",
        )
        .figure(
            chart("Fig. 10: synchronisation sent by one server", "KB/s", outcomes, |outcome| &outcome.traffic),
            "With headers, without keep-alives.",
        )
        .table(table(outcomes))
        .text("The paper, threshold-driven: 540.91 MB/s, deviation 31.59; layout-driven: 612.08 MB/s, deviation 2.21.")
        .text(
            "The paper explains the swings of its threshold-driven scheme by its scheduler, which re-sorts its queue at every \
             message. The authors' prototype does not: a message only adds to a delay that the flow's next arrival \
             takes, as here. Here both schemes swing, the layout-driven one more: the first calls of 32 MiB come all at \
             once and stay together for rounds of several seconds, in some of which an application gets nothing.",
        );
    scenario::assumptions(section, BASE)
}

fn chart(title: &str, unit: &str, outcomes: &[Outcome], values: fn(&Outcome) -> &Vec<f64>) -> Plot {
    let plot = Plot::new(title, Axis::linear("time", "s"), Axis::linear("each second", unit));
    SCHEMES.iter().zip(outcomes).fold(plot, |plot, (scheme, outcome)| {
        let points = (1_u32..).zip(values(outcome)).map(|(second, value)| (f64::from(second), *value));
        plot.series(Series::line(format!("{scheme}-driven"), points))
    })
}

fn table(outcomes: &[Outcome]) -> Table {
    let heading =
        Table::new(["scheme", "MB/s", "deviation [MB/s]", "unfairness [%]", "messages", "sync at a server [KB/s]"]);
    SCHEMES.iter().zip(outcomes).fold(heading, |table, (scheme, outcome)| {
        let Outcome { throughput, deviation, unfairness, messages, .. } = outcome;
        let numbers = [*throughput, *deviation, *unfairness, *messages as f64, outcome.steady_traffic()].map(number);
        table.row([vec![(*scheme).to_owned()], numbers.to_vec()].concat())
    })
}

/// One seed. `same`: the layout-driven scheme sends a message for each request too.
#[cfg(test)]
pub(crate) fn changed(change: &str) -> Result<Values, SimError> {
    let mut base = base()?;
    if change == "same" {
        let settings = base.policies[0].settings.clone();
        base.policies[1].settings = settings;
    }
    Ok(values(&outcomes(&base, &SEEDS[..1])?))
}
