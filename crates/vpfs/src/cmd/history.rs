//! `vpfs history`: what an application did.

use std::time::Duration;

use time::{Date, Duration as Days, Month, OffsetDateTime, PrimitiveDateTime, Time};
use vpfs_config::units::parse_duration;
use vpfs_proxy::admin::api::{Sample, Waits};

use super::app::of_admin;
use super::asking::Asking;
use crate::print::{Exit, clock_time, now, plain, print, print_json};

/// Show what an application did and waited for
///
/// Proxies keep that over restarts: by ten seconds for an hour, by minutes for a day, and by ten minutes for thirty
/// days, in their state directory (docs/guide/watching.md).
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    vpfs history climate                   by ten seconds, of the last hour\n  \
    vpfs history climate --since 20h       by minutes, and the last minute by ten seconds\n  \
    vpfs history climate --since 7d --csv  for a spreadsheet")]
pub(crate) struct History {
    /// The application
    #[arg(add = super::asking::apps())]
    app: String,

    #[command(flatten)]
    asking: Asking,

    /// From when until now: 2h, 10:30 (UTC), yesterday, or 2027-01-15 10:30
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_since)]
    since: Duration,

    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Print JSON: all counters of all samples
    #[arg(long)]
    json: bool,
}

impl History {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let mut kept = self.asking.history(Some(&self.app), self.since)?;
        if kept.samples.is_empty()
            && let Some(pushed) = of_admin(&self.app)
        {
            kept = self.asking.history(Some(&pushed), self.since)?;
        }
        if self.json {
            return print_json(&kept.samples);
        }
        if kept.samples.is_empty() {
            let begins =
                kept.begins.map_or("there is none yet".to_owned(), |at| format!("it begins at {}", clock_time(at)));
            return Err(Exit::Failed(format!("the history of that time has nothing of {:?}; {begins}", self.app)));
        }
        let rows = kept.samples.iter().map(Row::of);
        if self.csv {
            print(Row::CSV_HEADER)?;
            return rows.map(|row| row.csv()).try_for_each(print);
        }
        print(Row::header())?;
        rows.map(|row| row.line()).try_for_each(print)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Row<'a> {
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
    const CSV_HEADER: &'static str = "at,seconds,server,bytes_per_second,requests_per_second,\
        wait_seconds,storage_seconds,used,entitled,rule,behind";

    fn of(sample: &'a Sample) -> Self {
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

    fn header() -> String {
        let [used, entitled, mb, ops, wait, storage] = ["used", "entitled", "MB/s", "ops/s", "wait", "storage"];
        format!(
            "{:19} {:8} {used:>4} {entitled:>8} {mb:>7} {ops:>7} {wait:>8} {storage:>8} rule    behind",
            "until", "server"
        )
    }

    fn line(&self) -> String {
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
    fn csv(&self) -> String {
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
    let Waits { share_seconds, cap_seconds, pace_seconds, minimum_seconds } = *waits;
    let rules = [("share", share_seconds), ("cap", cap_seconds), ("pace", pace_seconds), ("minimum", minimum_seconds)];
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

/// For how long until now; `--since` takes any of these.
const FORMS: &str = "2h, 10:30, yesterday or 2027-01-15 10:30";

/// Reads `--since`; fits clap's `value_parser`. Times of day are in UTC, as in all that vpfs prints.
pub(super) fn parse_since(text: &str) -> Result<Duration, String> {
    // Nothing has a finer clock than that.
    parse_at(text, OffsetDateTime::from_unix_timestamp(now().cast_signed()).unwrap_or(OffsetDateTime::UNIX_EPOCH))
}

fn parse_at(text: &str, now: OffsetDateTime) -> Result<Duration, String> {
    let words = text.trim().to_lowercase();
    let ago = words.strip_suffix("ago").unwrap_or(&words).trim();
    if ago.starts_with(|c: char| c.is_ascii_digit()) && !ago.contains([':', '-']) {
        return length(ago);
    }
    let (today, midnight) = (now.date(), Time::MIDNIGHT);
    let on = |date: Option<Date>, time: Time| Some(PrimitiveDateTime::new(date?, time).assume_utc());
    let at_t = || words.split_once('t').filter(|(first, _)| date(first).is_some());
    let (first, second) = words.split_once(' ').or_else(at_t).unwrap_or((&words, ""));
    let at = match (&*words, date(first), clock(&words)) {
        ("today", ..) => on(Some(today), midnight),
        ("yesterday", ..) => on(today.previous_day(), midnight),
        // The last time that it was so late.
        (.., Some(time)) if time > now.time() => on(today.previous_day(), time),
        (.., Some(time)) => on(Some(today), time),
        (_, Some(date), _) if second.is_empty() => on(Some(date), midnight),
        (_, Some(date), _) => clock(second.trim_end_matches('z')).and_then(|time| on(Some(date), time)),
        _ if first == "yesterday" => clock(second).and_then(|time| on(today.previous_day(), time)),
        _ => None,
    };
    let at = at.ok_or_else(|| format!("write a time such as {FORMS} (UTC)"))?;
    let since: Days = now - at;
    Duration::try_from(since).map_err(|_| "is in the future; write the beginning of a time until now".to_owned())
}

/// A length of time, with the units that people write.
fn length(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let unit = match unit.trim() {
        "m" | "mins" | "minute" | "minutes" => "min",
        "hr" | "hrs" | "hour" | "hours" => "h",
        "day" | "days" => "d",
        "sec" | "secs" | "second" | "seconds" => "s",
        "w" | "week" | "weeks" => return length(&format!("{number}d")).map(|day| day.saturating_mul(7)),
        other => other,
    };
    parse_duration(&format!("{number}{unit}")).map_err(|error| error.to_string())
}

/// `10:30`, with seconds or without.
fn clock(text: &str) -> Option<Time> {
    let mut parts = text.trim().split(':').map(|part| part.parse().ok());
    let time = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    parts.next().is_none().then(|| Time::from_hms(time.0, time.1, time.2).ok())?
}

/// `2027-01-15`.
fn date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let month = Month::try_from(month.parse::<u8>().ok()?).ok()?;
    parts.next().is_none().then(|| Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::why::example;

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

    #[test]
    fn times_are_read_as_people_write_them() {
        let now = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap(); // 2027-01-15 08:00:00
        let hours = |text: &str| parse_at(text, now).map(|since| since.as_secs_f64() / 3600.0);
        for (text, expected) in [
            ("2h", 2.0),
            ("2h ago", 2.0),
            ("90 minutes ago", 1.5),
            ("5m", 1.0 / 12.0),
            ("1 week", 168.0),
            ("7d", 168.0),
            ("today", 8.0),
            ("yesterday", 32.0),
            ("Yesterday 10:30", 21.5),
            ("07:30", 0.5),
            ("10:30", 21.5),
            ("2027-01-14", 32.0),
            ("2027-01-14 20:00", 12.0),
            ("2027-01-14T20:00:00Z", 12.0),
        ] {
            assert_eq!(hours(text), Ok(expected), "{text}");
        }
        for (text, said) in [
            ("soon", "write a time such as"),
            ("25:00", "write a time such as"),
            ("2027-02-30", "write a time such as"),
            ("2027-01-16", "is in the future"),
            ("2", "has no unit"),
            ("", "write a time such as"),
        ] {
            assert!(hours(text).is_err_and(|problem| problem.contains(said)), "{text}: {:?}", hours(text));
        }
    }
}
