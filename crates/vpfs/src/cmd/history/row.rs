//! A sample as a line.

use vpfs_admin::api::{Sample, Waits};

use crate::print::{clock_time, plain};

/// Rates and means of a sample.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row<'a> {
    at: u64,
    seconds: f64,
    server: &'a str,
    bytes_per_second: f64,
    requests_per_second: f64,
    /// Of the requests that ended, if any did.
    wait_seconds: Option<f64>,
    storage_seconds: Option<f64>,
    used: f64,
    entitled: f64,
    /// What held most of the waiting in vpfs, if anything waited.
    rule: &'static str,
    /// For whom it waited longest in vpfs and in the storage, itself not.
    behind: &'a str,
}

impl<'a> Row<'a> {
    pub(super) const CSV_HEADER: &'static str = "at,seconds,server,bytes_per_second,requests_per_second,\
        wait_seconds,storage_seconds,used,entitled,rule,behind";

    pub(super) fn of(sample: &'a Sample) -> Self {
        let Sample { at, seconds, server, app, .. } = sample;
        let work = app.work();
        let seconds = seconds.max(f64::MIN_POSITIVE);
        Self {
            at: *at,
            seconds,
            server,
            bytes_per_second: work.bytes as f64 / seconds,
            requests_per_second: work.requests as f64 / seconds,
            wait_seconds: work.mean(work.wait_seconds),
            storage_seconds: work.mean(work.storage_seconds),
            used: app.used_seconds / seconds,
            entitled: app.entitled_seconds / seconds,
            rule: rule(&app.waits),
            behind: behind(sample),
        }
    }

    pub(super) fn header() -> String {
        let [used, entitled, mb, ops, wait, storage] = ["used", "entitled", "MB/s", "ops/s", "wait", "storage"];
        format!(
            "{:19} {:8} {used:>4} {entitled:>8} {mb:>7} {ops:>7} {wait:>8} {storage:>8} rule    behind",
            "until", "server"
        )
    }

    pub(super) fn line(&self) -> String {
        let percent = |part: f64| format!("{:.0}%", part * 100.0);
        let time = |mean: Option<f64>| mean.map_or("-".to_owned(), |seconds| format!("{:.1}ms", seconds * 1e3));
        format!(
            "{:19} {:8} {:>4} {:>8} {:>7.1} {:>7.0} {:>8} {:>8} {:7} {}",
            clock_time(self.at),
            plain(self.server),
            percent(self.used),
            percent(self.entitled),
            self.bytes_per_second / 1e6,
            self.requests_per_second,
            time(self.wait_seconds),
            time(self.storage_seconds),
            self.rule,
            plain(self.behind),
        )
    }

    /// Names are in quotes if need be.
    pub(super) fn csv(&self) -> String {
        let number = |mean: Option<f64>| mean.map_or(String::new(), |seconds| format!("{seconds:.6}"));
        format!(
            "{},{:.1},{},{:.0},{:.2},{},{},{:.3},{:.3},{},{}",
            self.at,
            self.seconds,
            field(self.server),
            self.bytes_per_second,
            self.requests_per_second,
            number(self.wait_seconds),
            number(self.storage_seconds),
            self.used,
            self.entitled,
            self.rule,
            field(self.behind),
        )
    }
}

fn rule(waits: &Waits) -> &'static str {
    let Waits { share_seconds, cap_seconds, pace_seconds, cost_seconds, minimum_seconds } = *waits;
    let rules = [
        ("share", share_seconds),
        ("cap", cap_seconds),
        ("pace", pace_seconds),
        ("cost", cost_seconds),
        ("minimum", minimum_seconds),
    ];
    let waited = rules.into_iter().filter(|(_, seconds)| *seconds > 0.0);
    waited.max_by(|one, other| one.1.total_cmp(&other.1)).map_or("", |(rule, _)| rule)
}

fn behind(sample: &Sample) -> &str {
    let app = &sample.app;
    let others = app.behind.iter().chain(&app.behind_in_storage);
    let others = others.filter(|behind| behind.app != app.app && behind.seconds > 0.0);
    others.max_by(|one, other| one.seconds.total_cmp(&other.seconds)).map_or("", |behind| &behind.app)
}

fn field(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::super::why::example;
    use super::*;

    fn sample() -> Sample {
        let app = example("small", [3.0, 20.0, 1.0], "a,b");
        Sample { at: 1_800_000_050, seconds: 10.0, server: "s1".into(), policy: "fifo".into(), app }
    }

    #[test]
    fn a_sample_is_a_line_of_rates_and_means() {
        let sample = sample();
        let row = Row::of(&sample);
        let line = "2027-01-15 08:00:50 s1        10%      50%     0.4     100    3.0ms   20.0ms share   a,b";
        assert_eq!(row.line(), line);
        assert_eq!(row.csv(), "1800000050,10.0,s1,409600,100.00,0.003000,0.020000,0.100,0.500,share,\"a,b\"");
        assert_eq!(Row::header().find("rule"), line.find("share"));
        assert_eq!(Row::CSV_HEADER.split(',').count(), 11);
    }
}
