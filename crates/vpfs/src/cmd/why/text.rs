//! The answer in words and numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use vpfs_admin::api::{Slower, Span, Waits};
use vpfs_config::units::Rate;

use super::breakdown::Breakdown;
use super::cause::Cause;
use crate::print::{clock_time, now, percent, plain, roughly};

/// Less of the time is not worth a word.
const LITTLE: f64 = 0.01;
/// Unstored bytes that keep a disk busy for a while.
const MUCH: u64 = 256 << 20;

/// What an application's requests waited for.
pub(super) fn of(breakdown: &Breakdown, span: &Span) -> String {
    let mut lines = vec![heading(breakdown, span)];
    if breakdown.requests == 0 {
        let Breakdown { queued, outstanding, .. } = breakdown;
        let cap = breakdown.cap_bytes_per_second.map(|rate| format!(" Its cap is {}.", Rate(rate))).unwrap_or_default();
        lines.push(format!("None ended; waiting in vpfs: {queued}, in the storage: {outstanding}.{cap}"));
        return lines.join("\n");
    }
    let Waits { share_seconds, cap_seconds, pace_seconds, cost_seconds, minimum_seconds } = breakdown.waits;
    let rules = [
        ("share", share_seconds),
        ("cap", cap_seconds),
        ("pace", pace_seconds),
        ("cost not known yet", cost_seconds),
        ("minimum of another", minimum_seconds),
    ];
    lines.push(row("in vpfs", breakdown.vpfs_seconds(), breakdown));
    lines.extend(parts("for", rules, breakdown));
    lines.extend(parts("behind", names(&breakdown.behind, breakdown), breakdown));
    lines.push(row("in the storage", breakdown.storage_seconds(), breakdown));
    let itself = [
        ("as at best", breakdown.quiet_seconds),
        ("slow itself", breakdown.storage_itself_seconds),
        ("processor of the proxy's host", breakdown.processor_seconds),
    ];
    lines.extend(parts("of that", itself, breakdown));
    lines.extend(parts("behind", names(&breakdown.behind_in_storage, breakdown), breakdown));
    let [used, entitled] = [breakdown.used, breakdown.entitled].map(percent);
    lines.push(format!("  {:15} {used:>4} of the storage's time; entitled to {entitled}", "used"));
    lines.push(String::new());
    lines.extend(sentences(breakdown, span.unstored_bytes));
    lines.join("\n")
}

fn heading(breakdown: &Breakdown, span: &Span) -> String {
    let Breakdown { app, servers, requests, bytes, .. } = breakdown;
    let [rate, mb] = [*requests as f64, *bytes as f64 / 1e6].map(|count| count / span.seconds);
    let each = time(breakdown.request_seconds / (*requests).max(1) as f64);
    let seconds = roughly(Duration::from_secs_f64(span.seconds));
    let servers = servers.join(", ");
    format!("{} at {servers}, {seconds}: {rate:.1} requests/s, {mb:.1} MB/s, {each} each", plain(app))
}

fn row(name: &str, seconds: f64, breakdown: &Breakdown) -> String {
    let each = time(seconds / breakdown.requests as f64);
    format!("  {name:15} {:>4} {each:>8}", percent(breakdown.part(seconds)))
}

/// One line with all that are worth a word, if any is.
fn parts<N: AsRef<str>>(
    what: &str,
    parts: impl IntoIterator<Item = (N, f64)>,
    breakdown: &Breakdown,
) -> Option<String> {
    let mut parts: Vec<(N, f64)> = parts.into_iter().filter(|part| breakdown.part(part.1) >= LITTLE).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    let parts = parts.iter().map(|(name, part)| format!("{} {}", name.as_ref(), percent(breakdown.part(*part))));
    let parts = parts.collect::<Vec<_>>().join(", ");
    (!parts.is_empty()).then(|| format!("    {what} {parts}"))
}

fn names(behind: &BTreeMap<String, f64>, breakdown: &Breakdown) -> Vec<(String, f64)> {
    let name = |app: &String| if *app == breakdown.app { "itself".to_owned() } else { plain(app) };
    behind.iter().map(|(app, seconds)| (name(app), *seconds)).collect()
}

fn sentences(breakdown: &Breakdown, unstored_bytes: u64) -> Vec<String> {
    let mut sentences = Vec::new();
    if breakdown.part(breakdown.vpfs_seconds()) < LITTLE {
        sentences.push("vpfs held nothing.".to_owned());
    }
    let found = Cause::of(breakdown);
    sentences.extend(breakdown.slower.map(slower));
    let [cause, change] = found.sentences(breakdown);
    if breakdown.slower.is_none() || !matches!(found, Cause::Storage | Cause::Nothing) {
        sentences.push(cause);
    }
    if unstored_bytes > MUCH && matches!(found, Cause::Storage | Cause::Neighbour(_) | Cause::Itself) {
        let memory = unstored_bytes as f64 / 1e9;
        sentences.push(format!(
            "The server's memory holds {memory:.1} GB that are not stored yet, and the disk is busy with that before \
             anything else: see write-back in `vpfs doctor`."
        ));
    }
    sentences.push(entitled(breakdown));
    if !breakdown.is_best_known {
        let how = "until it has had 32 requests in a second or more since the proxy started";
        sentences.push(format!("How fast the storage is at best is not known for its requests, {how}."));
    }
    sentences.push(format!("What would change it: {change}"));
    sentences
}

fn entitled(breakdown: &Breakdown) -> String {
    let gets = if breakdown.is_below_entitled() { "It gets less than" } else { "It gets what" };
    let (weight, share) = (breakdown.weight, percent(breakdown.share));
    format!("{gets} it is entitled to: its weight {weight} is {share} of those that ask.")
}

fn slower(Slower { factor, for_seconds }: Slower) -> String {
    let since = for_seconds.map(Duration::from_secs_f64).map(|ago| {
        let time = clock_time(now().saturating_sub(ago.as_secs()));
        format!(" since {time} UTC, {} ago", roughly(ago))
    });
    let since = since.unwrap_or_default();
    format!(
        "The storage itself is slow{since}: applications that have it to themselves wait {factor:.1} times as long as at \
         best."
    )
}

fn time(seconds: f64) -> String {
    match seconds {
        ..0.01 => format!("{:.2} ms", seconds * 1e3),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::breakdown::tests::{app, span};
    use super::*;

    fn text(times: [f64; 3], other: &str) -> String {
        let span = span(vec![app("small", times, other), app("large", [0.0, 1.0, 1.0], "large")]);
        of(&Breakdown::of(&span, "small").unwrap(), &span)
    }

    #[test]
    fn a_neighbour_is_named_with_its_part() {
        let text = text([0.0, 20.0, 1.0], "large");
        let expected = "small at s1, 10 s: 100.0 requests/s, 0.4 MB/s, 20 ms each\n\
            \x20 in vpfs           0%  0.00 ms\n\
            \x20 in the storage  100%    20 ms\n\
            \x20   of that as at best 5%\n\
            \x20   behind large 95%\n\
            \x20 used             10% of the storage's time; entitled to 50%\n\
            \n\
            vpfs held nothing.\n\
            Its requests wait in the storage behind those of large.\n\
            It gets less than it is entitled to: its weight 1 is 50% of those that ask.\n\
            What would change it: policy = \"isolation\" bounds what others have in the storage (now: \"fifo\"); or a \
            cap for large.";
        assert_eq!(text, expected);
    }

    #[test]
    fn memory_that_is_not_stored_is_named() {
        let mut span = span(vec![app("small", [0.0, 20.0, 1.0], "large"), app("large", [0.0, 1.0, 1.0], "large")]);
        let text = |span: &Span| of(&Breakdown::of(span, "small").unwrap(), span);
        assert!(!text(&span).contains("not stored"));
        span.unstored_bytes = 3_100_000_000;
        assert!(text(&span).contains("memory holds 3.1 GB that are not stored yet"), "{}", text(&span));
    }

    #[test]
    fn slow_storage_is_said_to_be_slow_since_when() {
        let alone = span(vec![app("small", [0.0, 3.0, 3.0], "small")]);
        let text = of(&Breakdown::of(&alone, "small").unwrap(), &alone);
        assert!(text.contains("vpfs held nothing.\nThe storage itself is slow since "), "{text}");
        assert!(
            text.contains("UTC, 60 s ago: applications that have it to themselves wait 3.0 times as long as at best."),
            "{text}"
        );
        assert!(text.contains("look for a failing disk"), "{text}");
    }

    #[test]
    fn what_waits_for_its_share_is_said_to_ask_for_more() {
        let mut apps = [app("small", [20.0, 1.0, 1.0], "large"), app("large", [0.0, 1.0, 1.0], "large")];
        apps[0].used_seconds = 5.0;
        let span = span(apps.into());
        let text = of(&Breakdown::of(&span, "small").unwrap(), &span);
        assert!(
            text.contains(
                "It asks for more than its share; it is mostly the turn of large.\nIt gets what it is entitled to"
            ),
            "{text}"
        );
        assert!(text.contains("    for share 95%\n    behind large 95%\n"), "{text}");
    }
}
