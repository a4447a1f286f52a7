//! Times in the past, as people write them.

use std::time::Duration;

use time::{Date, Duration as Days, Month, OffsetDateTime, PrimitiveDateTime, Time};
use vpfs_config::units::parse_duration;

use crate::print::now;

/// For how long until now; `--since` takes any of these.
const FORMS: &str = "2h, 10:30, yesterday or 2027-01-15 10:30";

/// Reads `--since`; fits clap's `value_parser`. Times of day are in UTC, as in all that vpfs prints.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
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
