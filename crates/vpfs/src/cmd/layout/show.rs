//! Advice as a table and as JSON.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};
use vpfs_harl::RegionAdvice;

use super::advised::{Advised, shown};
use super::answer::{Answer, Group, Small};
use super::classes::Classes;
use super::size::{exact, size};

const PICOS: f64 = 1e12;

/// A table of regions, and what the layout gains.
pub(super) fn text(classes: &Classes, group: &Group<'_>) -> String {
    let advised = group.first;
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["bytes", "requests", "mean size", "stripes", "now", "advised", "gain"]);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for region in &advised.advice.regions {
        table.add_row([
            format!("{} - {}", size(region.bytes.start), size(region.bytes.end)),
            region.requests.to_string(),
            size(region.mean_size),
            stripes(classes, &region.advised.stripes),
            rate(region, region.time_now),
            rate(region, region.advised.time),
            if region.is_kept { "as now".into() } else { gain(region.time_now, region.advised.time) },
        ]);
    }
    let (now, then) = advised.advice.times();
    let summary = match advised.advice.is_worth_it() {
        true => format!(
            "With these stripes, the predicted time of all requests is {} instead of {} \
             (throughput {}).",
            seconds(then),
            seconds(now),
            gain(now, then)
        ),
        false => "Nothing is to be gained: keep the layout.".into(),
    };
    let others = group.others().map_or_else(String::new, |others| format!("\n{others}"));
    format!("{}\n{table}\n\n{summary}{others}{}", shown(&advised.name), notes(&advised.advice.regions))
}

fn notes(regions: &[RegionAdvice]) -> String {
    let mut notes = String::new();
    if regions.iter().any(|region| !region.is_exact) {
        notes += "\nNot all stripes were compared for all requests; there may be slightly better ones.";
    }
    if regions.iter().any(|region| region.is_limited) {
        notes += "\nSpace on a class forbids stripes that would be faster.";
    }
    notes
}

/// `disk 32KiB, flash 160KiB`; a class that is not used has none.
pub(super) fn stripes(classes: &Classes, stripes: &[u64]) -> String {
    let used = classes.cluster.classes().iter().zip(stripes).filter(|(_, stripe)| **stripe > 0);
    used.map(|(class, stripe)| format!("{} {}", class.name, exact(*stripe))).collect::<Vec<_>>().join(", ")
}

/// Bytes per second.
pub(super) fn bytes_per_second(region: &RegionAdvice, time: u128) -> f64 {
    region.moved as f64 / (time.max(1) as f64 / PICOS)
}

fn rate(region: &RegionAdvice, time: u128) -> String {
    format!("{:.1} MB/s", bytes_per_second(region, time) / 1e6)
}

/// `15.6 s`, `480 ms`.
fn seconds(time: u128) -> String {
    match time as f64 / PICOS {
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds if seconds >= 1e-3 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{:.0} us", seconds * 1e6),
    }
}

/// How much more throughput.
fn gain(now: u128, then: u128) -> String {
    format!("{:+.0} %", (now as f64 / then.max(1) as f64 - 1.0) * 100.0)
}

fn number(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// All files, with everything that is known, in the order of what they gain.
pub(super) fn json(classes: &Classes, answer: &Answer) -> Value {
    let region = |region: &RegionAdvice| {
        let stripes: serde_json::Map<String, Value> = (classes.cluster.classes().iter())
            .zip(&region.advised.stripes)
            .map(|(class, stripe)| (class.name.clone(), json!(stripe)))
            .collect();
        json!({
            "begin": region.bytes.start, "end": region.bytes.end, "requests": region.requests,
            "mean_size": region.mean_size, "stripes": stripes, "kept": region.is_kept,
            "exact": region.is_exact, "limited_by_space": region.is_limited,
            "bytes_per_second_now": bytes_per_second(region, region.time_now),
            "bytes_per_second_advised": bytes_per_second(region, region.advised.time),
        })
    };
    let file = |advised: &Advised| {
        let regions: Vec<Value> = advised.advice.regions.iter().map(region).collect();
        let files = advised.advice.table.files(&advised.name);
        let (moved, is_worth_it) = (number(advised.moved()), advised.advice.is_worth_it());
        json!({ "file": advised.name, "moved": moved, "worth_it": is_worth_it, "regions": regions, "files": files })
    };
    // Nothing is searched for these.
    let small = |small: &Small| json!({ "file": small.name, "moved": number(small.moved), "worth_it": false, "regions": [], "files": [] });
    answer.files.iter().map(file).chain(answer.small.iter().map(small)).collect()
}

#[cfg(test)]
mod tests {
    use vpfs_harl::{Model, Op, Question, Request, Trace, advise};

    use super::*;

    const GUIDE: &str = include_str!("../../../../../docs/guide/layout.md");

    /// What stands in the guide between a line of this language and the end of its block.
    fn block(language: &str) -> &'static str {
        let (_, rest) = GUIDE.split_once(&format!("\n```{language}\n")).expect("it is there");
        rest.split_once("\n```").expect("it ends").0
    }

    /// 16 processes, each with one request at a time: 64 reads of 8 MiB, and 1024 of 128 KiB after them.
    fn reads() -> Trace {
        let reads = |count: u64, begin: u64, size: u64, start: u64, takes: u64| {
            let read = move |index: u64| {
                let start = start + index / 16 * takes;
                let rank = u32::try_from(index % 16).expect("it is small");
                Request { rank, op: Op::Read, offset: begin + index * size, size, start, end: start + takes }
            };
            (0..count).map(read)
        };
        let large = reads(64, 0, 8 << 20, 0, 200_000_000);
        Trace::new(large.chain(reads(1024, 512 << 20, 128 << 10, 1_000_000_000, 10_000_000)).collect())
            .expect("a trace")
    }

    #[test]
    fn the_guide_shows_what_is_printed() {
        let classes = Classes::parse("guide", block("toml")).expect("the guide's classes are right");
        let question = Question::new(Model::Concurrent, 20_000_000);
        let runs = vec![(reads(), 1)];
        let advice = advise(&classes.cluster, &runs, &question).expect("there is advice");
        let file = Advised { name: "/scratch/result.dat".into(), runs, question, advice };
        let answer = Answer::new(vec![file], Vec::new(), false);
        let printed = text(&classes, &answer.shown()[0]);
        let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            block("text").lines().collect::<Vec<_>>(),
            "write this into docs/guide/layout.md:\n{printed}"
        );
    }
}
