//! Measurements as a table.

use comfy_table::{CellAlignment, Table, presets};

/// A quantity that was measured several times.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// The operation, for example `pull and add`.
    pub(crate) benchmark: &'static str,
    /// The subject, for example a scheduler.
    pub(crate) subject: &'static str,
    /// The input.
    pub(crate) input: String,
    /// Unit of the samples.
    pub(crate) unit: &'static str,
    /// One number for each run.
    pub(crate) samples: Vec<f64>,
    /// The goal: an upper limit for the median.
    pub(crate) target: Option<f64>,
    /// Largest service per weight of a class of clients, divided by the smallest; 1 is fair.
    pub(crate) shares_max_min: Option<f64>,
}

impl Measurement {
    /// For a policy that does not serve in proportion to weights.
    pub(crate) fn without_shares(self) -> Self {
        Self { shares_max_min: None, ..self }
    }

    /// The median of the samples.
    pub(crate) fn median(&self) -> f64 {
        let sorted = self.sorted();
        sorted[sorted.len() / 2]
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// Prints a table.
#[expect(clippy::print_stdout, reason = "it is what the program is for")]
pub(crate) fn print(measurements: &[Measurement]) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["benchmark", "subject", "input", "min", "median", "max", "target", "unit", "shares max/min"]);
    for measurement in measurements {
        let sorted = measurement.sorted();
        let number = |value: f64| format!("{value:.1}");
        table.add_row([
            measurement.benchmark.to_owned(),
            measurement.subject.to_owned(),
            measurement.input.clone(),
            number(sorted[0]),
            number(measurement.median()),
            number(sorted[sorted.len() - 1]),
            measurement.target.map_or(String::new(), |target| format!("{target}")),
            measurement.unit.to_owned(),
            measurement.shares_max_min.map_or(String::new(), |shares| format!("{shares:.3}")),
        ]);
    }
    for numeric in [3, 4, 5, 6, 8] {
        if let Some(column) = table.column_mut(numeric) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
}
