//! Service by window, and the paper's unfairness of it.

use std::fmt::Write as _;

use super::options::{APPS, Options};

/// Unfairness over a long window that the paper stays below, in %: in the whole run, and after the last arrival.
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
        let in_long = options.windows_per_arrival() as usize;
        Self { seconds: options.window().as_secs_f64(), short: samples.windows(2).map(got).collect(), in_long }
    }

    /// How many applications have arrived before the end of a window that ends after `ended` short ones.
    fn present(&self, ended: usize) -> usize {
        ended.div_ceil(self.in_long).min(APPS)
    }

    /// Unfairness in each long window, in %.
    fn long(&self) -> Vec<f64> {
        let sum = |windows: &[Sample]| std::array::from_fn(|app| windows.iter().map(|window| window[app]).sum());
        let sums = self.short.chunks_exact(self.in_long).map(sum);
        sums.enumerate().map(|(at, bytes)| unfairness(&bytes, self.present((at + 1) * self.in_long))).collect()
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
            let _ = writeln!(text, " {:.2} | {over_long} |", unfairness(window, self.present(at + 1)));
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
    /// the beginning of a long window, which counts as after it.
    pub(super) fn verdict(&self) -> Verdict {
        let long = self.long();
        let worst = |from: usize| long.iter().skip(from).copied().fold(0.0, f64::max);
        let figures = [worst(0), worst(APPS - 1)];
        let passed = figures.iter().zip(GOALS).all(|(figure, goal)| *figure < goal);
        let text = format!(
            "{}: largest unfairness over {:.0} s {:.2} % (goal {} %), after the last arrival {:.2} % (goal {} %)",
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

/// The paper's measure, in %: the differences between the share got and the share due, summed over the first `present`
/// applications, of which each has its number as weight [vPFS §IV-C2]. 0 if nobody got anything.
fn unfairness(bytes: &Sample, present: usize) -> f64 {
    let there = &bytes[..present];
    let total = there.iter().sum::<u64>() as f64;
    let weights = (present * (present + 1) / 2) as f64;
    if total == 0.0 {
        return 0.0;
    }
    let off = |(app, got): (usize, &u64)| (*got as f64 / total - (app + 1) as f64 / weights).abs();
    there.iter().enumerate().map(off).sum::<f64>() * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(last: Sample) -> Windows {
        let options = Options::parse(&[]).unwrap();
        let mut samples = vec![Sample::default()];
        for window in 0..options.windows() {
            let present = (window as usize / 12 + 1).min(APPS);
            let got = if window + 12 < options.windows() { [1, 2, 3, 4, 5, 6, 7, 8] } else { last };
            let before = *samples.last().unwrap();
            samples.push(std::array::from_fn(|app| before[app] + if app < present { got[app] * 1_000_000 } else { 0 }));
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
