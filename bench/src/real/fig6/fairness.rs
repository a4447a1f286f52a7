//! Service by window, and the paper's unfairness of it.

use std::fmt::Write as _;
use std::ops::Range;

use super::options::{APPS, Options};

/// Unfairness over a long window that the paper stays below, in %: in the whole run, and while all are there.
const GOALS: [f64; 2] = [9.0, 4.0];

/// Bytes that each application got so far from all servers.
pub(super) type Sample = [u64; APPS];

/// The figures of a run.
#[derive(Debug)]
pub(super) struct Windows {
    seconds: f64,
    /// Bytes by application in each short window.
    short: Vec<Sample>,
    in_long: usize,
    /// The long windows in which each application is there.
    stays: [Range<usize>; APPS],
    full_house: Range<usize>,
}

/// The figures beside the goals.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) text: String,
    pub(super) passed: bool,
}

impl Windows {
    /// From the samples at the beginning and after each short window.
    pub(super) fn new(samples: &[Sample], options: &Options) -> Self {
        let got = |pair: &[Sample]| std::array::from_fn(|app| pair[1][app].saturating_sub(pair[0][app]));
        Self {
            seconds: options.windows(1).as_secs_f64(),
            short: samples.windows(2).map(got).collect(),
            in_long: options.short_in_long(),
            stays: std::array::from_fn(|app| options.stay(app + 1)),
            full_house: options.full_house(),
        }
    }

    /// Unfairness, in %, of what applications got in a part of a long window.
    fn unfairness(&self, bytes: &Sample, long_window: usize) -> f64 {
        let is_there = |app: &usize| self.stays[*app].contains(&long_window);
        unfairness(&(0..APPS).filter(is_there).map(|app| (app + 1, bytes[app])).collect::<Vec<_>>())
    }

    /// Unfairness in each long window, in %.
    fn long(&self) -> Vec<f64> {
        let sum = |windows: &[Sample]| std::array::from_fn(|app| windows.iter().map(|window| window[app]).sum());
        let sums = self.short.chunks_exact(self.in_long).map(sum);
        sums.enumerate().map(|(at, bytes)| self.unfairness(&bytes, at)).collect()
    }

    /// A row for each short window, in MB/s.
    pub(super) fn markdown(&self) -> String {
        let mut text = "| s |".to_owned();
        (1..=APPS).for_each(|app| text += &format!(" app{app} |"));
        text +=
            &format!(" unfairness % | over {:.0} s |\n|{}\n", self.seconds * self.in_long as f64, "---|".repeat(11));
        let long = self.long();
        for (at, window) in self.short.iter().enumerate() {
            let _ = write!(text, "| {:.0} |", (at + 1) as f64 * self.seconds);
            for bytes in window {
                let _ = write!(text, " {:.2} |", *bytes as f64 / self.seconds / 1e6);
            }
            let whole = (at + 1) % self.in_long == 0;
            let over_long = if whole { format!("{:.2}", long[at / self.in_long]) } else { String::new() };
            let _ = writeln!(text, " {:.2} | {over_long} |", self.unfairness(window, at / self.in_long));
        }
        text
    }

    /// All windows for programs.
    pub(super) fn json(&self) -> String {
        let unfairness: Vec<f64> = self.long();
        let json = serde_json::json!({
            "window_seconds": self.seconds,
            "windows_in_long": self.in_long,
            "bytes": self.short,
            "unfairness_percent_long": unfairness,
        });
        format!("{json:#}\n")
    }

    /// Compares the largest unfairness over long windows with the goals. The application that arrives last does so at
    /// the beginning of a long window in which all are there.
    pub(super) fn verdict(&self) -> Verdict {
        let long = self.long();
        let worst = |windows: Range<usize>| long[windows].iter().copied().fold(0.0, f64::max);
        let leaving = worst(self.full_house.end..long.len());
        let figures = [worst(0..long.len()), worst(self.full_house.clone())];
        let passed = figures.iter().zip(GOALS).all(|(figure, goal)| *figure < goal);
        let text = format!(
            "{}: largest unfairness over {:.0} s {:.2} % (goal {} %), with all applications {:.2} % (goal {} %), while \
             they leave {leaving:.2} %",
            if passed { "PASS" } else { "FAIL" },
            self.seconds * self.in_long as f64,
            figures[0],
            GOALS[0],
            figures[1],
            GOALS[1],
        );
        Verdict { text, passed }
    }
}

/// The paper's measure, in %: the differences between the share got and the share due, summed over applications, given
/// as weight and bytes [vPFS §IV-C2]. 0 if nobody got anything.
fn unfairness(apps: &[(usize, u64)]) -> f64 {
    let total = apps.iter().map(|(_, got)| got).sum::<u64>() as f64;
    let weights = apps.iter().map(|(weight, _)| weight).sum::<usize>() as f64;
    if total == 0.0 {
        return 0.0;
    }
    let off = |(weight, got): &(usize, u64)| (*got as f64 / total - *weight as f64 / weights).abs();
    apps.iter().map(off).sum::<f64>() * 100.0
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::default;
    use super::*;

    /// Each gets its weight, in the long windows in which all are there `got`.
    fn windows(got: Sample) -> Windows {
        let options = default();
        let mut samples = vec![Sample::default()];
        for window in 0..options.long_windows() * options.short_in_long() {
            let long = window / options.short_in_long();
            let got = if options.full_house().contains(&long) { got } else { [1, 2, 3, 4, 5, 6, 7, 8] };
            let before = *samples.last().unwrap();
            let is_there = |app: usize| options.stay(app + 1).contains(&long);
            samples.push(std::array::from_fn(|app| before[app] + u64::from(is_there(app)) * got[app] * 1_000_000));
        }
        Windows::new(&samples, &options)
    }

    #[test]
    fn service_in_proportion_to_weights_is_fair() {
        let windows = windows([1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(windows.verdict().passed);
        assert!(windows.long().iter().all(|unfairness| *unfairness < 1e-9), "{:?}", windows.long());
        assert!(windows.markdown().contains("| 60 | 0.20 | 0.00 |"), "{}", windows.markdown());
    }

    #[test]
    fn too_much_for_one_fails() {
        let verdict = windows([3, 2, 3, 4, 5, 6, 7, 8]).verdict();
        assert!(!verdict.passed && verdict.text.starts_with("FAIL"), "{}", verdict.text);
        // 3/38 instead of 1/36 for the first, and the same less for the others.
        let expected = 2.0 * (3.0 / 38.0 - 1.0 / 36.0) * 100.0;
        assert!(verdict.text.contains(&format!("{expected:.2} %")), "{}", verdict.text);
    }
}
