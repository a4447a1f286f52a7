//! What one application gets for each byte of the other.

use std::time::{Duration, Instant};

use super::Sample;
use super::proxies::Proxies;

/// The time between two samples.
const INTERVAL: Duration = Duration::from_millis(250);
/// Shares are those of this time: less than a second would show single reports.
const WINDOW: Duration = Duration::from_secs(2);
/// Shares that differ by less are the same.
const TOLERANCE: f64 = 0.15;

/// Samples in order of time.
#[derive(Debug, Default)]
pub(super) struct Shares(Vec<(Instant, Sample)>);

impl Shares {
    /// Samples for so long; returns the shares at the end.
    pub(super) fn watch(&mut self, proxies: &mut Proxies<'_>, time: Duration) -> Result<f64, String> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            self.0.push((Instant::now(), proxies.sample()?));
            std::thread::sleep(INTERVAL);
        }
        Ok(self.ratio(self.0.len()).unwrap_or(f64::NAN))
    }

    /// How long after `since` shares were for the first time what they should be; the window is part of that.
    pub(super) fn back_after(&self, since: Instant, expected: f64) -> Option<Duration> {
        let is_back = |count: &usize| {
            let is_near = |ratio: f64| (ratio / expected - 1.0).abs() < TOLERANCE;
            self.0[count - 1].0 > since && self.ratio(*count).is_some_and(is_near)
        };
        (1..=self.0.len()).find(is_back).map(|count| self.0[count - 1].0 - since)
    }

    /// The shares of the last window of the first `count` samples.
    fn ratio(&self, count: usize) -> Option<f64> {
        let (last, before) = self.0[..count].split_last()?;
        let (_, first) = before.iter().rfind(|(at, _)| last.0 - *at >= WINDOW)?;
        let [one, other] = [0, 1].map(|app| (last.1[app] - first[app]) as f64);
        Some(one / other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_back_when_a_window_is_as_before() {
        let begin = Instant::now();
        let mut shares = Shares::default();
        let mut total = [0, 0];
        for second in 0..20 {
            shares.0.push((begin + Duration::from_secs(second), total));
            let rate = if (5..10).contains(&second) { 40 } else { 20 };
            total = [total[0] + rate, total[1] + 10];
        }
        assert_eq!([3, 10, 20].map(|count| shares.ratio(count)), [Some(2.0), Some(4.0), Some(2.0)]);
        assert_eq!(shares.ratio(2), None);
        let mended = begin + Duration::from_millis(9_500);
        assert_eq!(shares.back_after(mended, 2.0), Some(Duration::from_millis(2_500)));
        assert_eq!(shares.back_after(mended, 9.0), None);
    }
}
