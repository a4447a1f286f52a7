//! The parts of a report.

use serde::Serialize;
use serde_json::json;

use crate::{Chart, Check, Conclusion, Tally};

/// A table of text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>) -> Self {
        Self { headings: headings.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. Short rows end in empty cells; cells beyond the last heading are shown too.
    #[must_use]
    pub fn row<C: Into<String>>(mut self, cells: impl IntoIterator<Item = C>) -> Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
        self
    }
}

/// One item of a section.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Item {
    Text(String),
    Figure { chart: Box<Chart>, caption: String },
    Table(Table),
}

/// A heading, conclusions, values, and below these the other items in the order in which they were added.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    pub(crate) heading: String,
    pub(crate) conclusions: Vec<Conclusion>,
    pub(crate) checks: Vec<Check>,
    pub(crate) items: Vec<Item>,
}

impl Section {
    /// An empty section.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), conclusions: Vec::new(), checks: Vec::new(), items: Vec::new() }
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn text(mut self, paragraph: impl Into<String>) -> Self {
        self.items.push(Item::Text(paragraph.into()));
        self
    }

    /// Adds a chart with a caption, which may be empty.
    #[must_use]
    pub fn figure(mut self, chart: impl Into<Chart>, caption: impl Into<String>) -> Self {
        self.items.push(Item::Figure { chart: Box::new(chart.into()), caption: caption.into() });
        self
    }

    /// Adds a table, unless it has no rows.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        if !table.rows.is_empty() {
            self.items.push(Item::Table(table));
        }
        self
    }

    /// Adds a conclusion. A report shows those of all its sections first.
    #[must_use]
    pub fn conclusion(mut self, conclusion: Conclusion) -> Self {
        self.conclusions.push(conclusion);
        self
    }

    /// Adds a value.
    #[must_use]
    pub fn check(mut self, check: Check) -> Self {
        self.checks.push(check);
        self
    }

    /// Its heading, conclusions and values only.
    pub fn outline(&self) -> Self {
        Self { items: Vec::new(), ..self.clone() }
    }

    /// The section's charts, in order.
    pub fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.items.iter().filter_map(|item| match item {
            Item::Figure { chart, .. } => Some(&**chart),
            Item::Text(_) | Item::Table(_) => None,
        })
    }

    /// The whole section as JSON, with the verdict of each conclusion and value; a value that is not a number becomes
    /// null. `made` says of what, when and where it was made.
    pub fn json(&self, made: &serde_json::Value) -> serde_json::Value {
        let conclusions = self.conclusions.iter().map(|row| json!({ "conclusion": row, "verdict": row.verdict() }));
        let checks = self.checks.iter().map(|row| json!({ "check": row, "verdict": row.verdict() }));
        let (conclusions, checks): (Vec<_>, Vec<_>) = (conclusions.collect(), checks.collect());
        json!({
            "heading": self.heading, "made": made, "conclusions": conclusions, "checks": checks, "items": self.items
        })
    }

    /// Its conclusions.
    pub fn conclusions(&self) -> &[Conclusion] {
        &self.conclusions
    }

    /// Its values.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }
}

/// What a headline means, for those who see colours; its text says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All is well.
    Good,
    /// To be looked at.
    Fair,
    /// Something is wrong.
    Bad,
}

/// A title, an introduction and sections. See the crate's example.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub(crate) title: String,
    pub(crate) headline: Option<(Tone, String)>,
    pub(crate) introduction: Vec<String>,
    pub(crate) links: Vec<(String, String)>,
    pub(crate) sections: Vec<Section>,
}

impl Report {
    /// A report without sections.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), headline: None, introduction: Vec::new(), links: Vec::new(), sections: Vec::new() }
    }

    /// Sets what is said first of all.
    #[must_use]
    pub fn headline(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.headline = Some((tone, text.into()));
        self
    }

    /// Adds a paragraph before the first section.
    #[must_use]
    pub fn introduction(mut self, paragraph: impl Into<String>) -> Self {
        self.introduction.push(paragraph.into());
        self
    }

    /// Adds a link to another page, which is named relative to this one.
    #[must_use]
    pub fn link(mut self, title: impl Into<String>, page: impl Into<String>) -> Self {
        self.links.push((title.into(), page.into()));
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// The conclusions of all sections.
    pub(crate) fn conclusions(&self) -> impl Iterator<Item = &Conclusion> {
        self.sections.iter().flat_map(|section| &section.conclusions)
    }

    /// How many conclusions hold, and how many values agree with a paper.
    pub fn tally(&self) -> Tally {
        Tally::of(self.conclusions(), self.sections.iter().flat_map(|section| &section.checks))
    }
}
