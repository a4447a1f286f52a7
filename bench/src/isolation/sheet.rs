//! A table, for a terminal and for a page.

use comfy_table::{CellAlignment, Table, presets};

/// Text, then numbers.
pub(crate) struct Sheet {
    pub(crate) title: &'static str,
    /// How many of these columns contain text.
    pub(crate) texts: usize,
    pub(crate) headings: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A heading, and what is in the cells below it.
pub(crate) type Column<'a, R> = (&'static str, &'a dyn Fn(&R) -> String);

impl Sheet {
    /// One line for each of `rows`.
    pub(crate) fn new<R>(title: &'static str, texts: usize, rows: &[R], columns: &[Column<'_, R>]) -> Self {
        let cells = |row: &R| columns.iter().map(|(_, cell)| cell(row)).collect();
        let headings = columns.iter().map(|(heading, _)| *heading).collect();
        Self { title, texts, headings, rows: rows.iter().map(cells).collect() }
    }

    /// As Markdown, with aligned columns.
    pub(crate) fn markdown(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(&self.headings);
        for row in &self.rows {
            table.add_row(row);
        }
        for column in self.texts..self.headings.len() {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        format!("{}\n\n{table}\n", self.title)
    }

    /// For a page.
    pub(crate) fn table(&self) -> vpfs_report::Table {
        self.rows
            .iter()
            .fold(vpfs_report::Table::new(self.headings.clone()), |table, row| table.row(row.iter().cloned()))
    }
}

/// A value with this many decimals; a dash if it is not a number.
pub(crate) fn decimals(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { "-".to_owned() }
}
