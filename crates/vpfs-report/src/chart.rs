//! Charts of either kind, as SVG and as data.

use serde::Serialize;

use crate::{Axis, Bar, Bars, Plot, Series};

/// A chart of either kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Chart {
    /// Lines and points.
    Plot(Plot),
    /// Grouped bars.
    Bars(Bars),
}

impl From<Plot> for Chart {
    fn from(plot: Plot) -> Self {
        Self::Plot(plot)
    }
}

impl From<Bars> for Chart {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

impl Chart {
    /// The title.
    pub fn title(&self) -> &str {
        match self {
            Self::Plot(plot) => &plot.title,
            Self::Bars(bars) => &bars.title,
        }
    }

    /// The chart as SVG, for a page or a separate file. Equal charts give equal bytes.
    pub fn svg(&self) -> String {
        match self {
            Self::Plot(plot) => plot.svg(),
            Self::Bars(bars) => bars.svg(),
        }
    }

    /// The data as CSV: a line of names with units, then one line for each point or bar.
    ///
    /// Plots: series, x, y; those of the right axis follow after a separate line of names. Bars: group, series, value,
    /// low, high.
    pub fn csv(&self) -> String {
        let records = match self {
            Self::Plot(plot) => plot_records(plot),
            Self::Bars(bars) => bar_records(bars),
        };
        let mut writer = csv::Writer::from_writer(Vec::new());
        for record in records {
            writer.write_record(&record).expect("writing into memory does not fail");
        }
        let bytes = writer.into_inner().expect("writing into memory does not fail");
        String::from_utf8(bytes).expect("made of strings")
    }
}

fn plot_records(plot: &Plot) -> Vec<Vec<String>> {
    let right = plot.right.iter().flat_map(|(axis, series)| points(plot, axis, series));
    points(plot, &plot.y, &plot.series).chain(right).collect()
}

fn points<'a>(plot: &Plot, axis: &Axis, series: &'a [Series]) -> impl Iterator<Item = Vec<String>> + use<'a> {
    let of =
        |series: &'a Series| series.points.iter().map(|(x, y)| vec![series.name.clone(), x.to_string(), y.to_string()]);
    [vec!["series".to_owned(), plot.x.label(), axis.label()]].into_iter().chain(series.iter().flat_map(of))
}

fn bar_records(bars: &Bars) -> Vec<Vec<String>> {
    let header = ["group", "series"].map(str::to_owned).into_iter();
    let header = header.chain([bars.y.label()]).chain(["low", "high"].map(str::to_owned)).collect();
    let of = |(name, values): &(String, Vec<Bar>)| {
        let groups = bars.groups.iter().map(String::as_str).chain(std::iter::repeat(""));
        let record = |(group, bar): (&str, &Bar)| {
            let end = |end: fn((f64, f64)) -> f64| bar.error.map(end).map_or_else(String::new, |end| end.to_string());
            let (low, high) = (end(|(low, _)| low), end(|(_, high)| high));
            vec![group.to_owned(), name.clone(), bar.value.to_string(), low, high]
        };
        groups.zip(values).map(record).collect::<Vec<_>>()
    };
    [header].into_iter().chain(bars.series.iter().flat_map(of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_every_point_and_quotes_names() {
        let plot = Plot::new("t", Axis::linear("time", "s"), Axis::linear("rate", "MB/s"))
            .series(Series::line("a, \"b\"", [(0.0, 1.5), (1.0, f64::NAN)]))
            .right(Axis::linear("depth", ""), [Series::line("c", [(0.1, 4.0)])]);
        let lines = "series,time [s],rate [MB/s]\n\"a, \"\"b\"\"\",0,1.5\n\"a, \"\"b\"\"\",1,NaN\nseries,time [s],depth\nc,0.1,4\n";
        assert_eq!(Chart::from(plot).csv(), lines);
    }

    #[test]
    fn csv_has_every_bar() {
        let bars = Bars::new("t", Axis::linear("time", "s"), ["x"])
            .series("a", [Bar { value: 1.0, error: Some((0.5, 2.0)) }, Bar::new(3.0)]);
        assert_eq!(Chart::from(bars).csv(), "group,series,time [s],low,high\nx,a,1,0.5,2\n,a,3,,\n");
    }

    #[test]
    fn json_has_the_data_and_null_for_what_is_no_number() {
        let plot = Plot::new("t", Axis::linear("x", ""), Axis::log("y", "s"))
            .series(Series::line("a", [(0.0, 1.5), (1.0, f64::NAN)]));
        let json = serde_json::to_value(Chart::from(plot)).unwrap();
        assert_eq!(json["kind"], "plot");
        assert_eq!(json["y"]["unit"], "s");
        assert_eq!(json["series"][0]["points"], serde_json::json!([[0.0, 1.5], [1.0, null]]));
    }
}
