//! The variation of a number over repetitions.

use serde::Serialize;

/// Largest, smallest, mean and standard deviation, as IOR and mdtest print them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Largest.
    pub max: f64,
    /// Smallest.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the whole population (not of a sample), as IOR and mdtest compute it.
    pub std_dev: f64,
}

impl Spread {
    /// Computes the spread of `values`; all zero if there are none.
    pub fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Self {
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            mean,
            std_dev: variance.sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_few_values() {
        assert_eq!(Spread::of(&[]), Spread::default());
        assert_eq!(Spread::of(&[1.0, 3.0]), Spread { max: 3.0, min: 1.0, mean: 2.0, std_dev: 1.0 });
    }
}
