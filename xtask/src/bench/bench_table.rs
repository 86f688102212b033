//! The table of results, for a terminal and for the document.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

const HEADINGS: [&str; 6] = ["what", "zero", "peer", "ratio", "budget", ""];

/// One measurement.
#[derive(Debug)]
pub(super) struct BenchRow {
    pub(super) what: String,
    pub(super) ours: String,
    pub(super) peer: String,
    pub(super) ratio: String,
    pub(super) budget: String,
    pub(super) met: bool,
}

impl BenchRow {
    /// A measurement that is compared with a budget only.
    pub(super) fn without_peer(what: &str, ours: String, budget: String, met: bool) -> Self {
        let none = || "–".to_owned();
        Self { what: what.to_owned(), ours, peer: none(), ratio: none(), budget, met }
    }
}

/// The measurements of one suite.
#[derive(Debug, Default)]
pub(super) struct BenchTable {
    rows: Vec<BenchRow>,
}

impl BenchTable {
    /// Adds a measurement and prints it at once: a suite takes minutes.
    pub(super) fn add(&mut self, row: BenchRow) {
        eprintln!("   {}: {} (budget {}) {}", row.what, row.ours, row.budget, met_symbol(row.met));
        self.rows.push(row);
    }

    /// Adds the rows of another suite.
    pub(super) fn append(&mut self, mut other: Self) {
        self.rows.append(&mut other.rows);
    }

    /// Whether every budget was met.
    pub(super) fn is_all_met(&self) -> bool {
        self.rows.iter().all(|row| row.met)
    }

    fn cells(&self) -> Vec<[String; 6]> {
        let heading = HEADINGS.map(str::to_owned);
        let rows = self.rows.iter().map(|row| {
            [&row.what, &row.ours, &row.peer, &row.ratio, &row.budget, met_symbol(row.met)]
                .map(|cell| cell.to_string())
        });
        std::iter::once(heading).chain(rows).collect()
    }

    /// Renders the table in columns.
    pub(super) fn render_terminal(&self) -> String {
        let cells = self.cells();
        let width = |column: usize| {
            cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: [usize; 6] = std::array::from_fn(width);
        let line = |row: &[String; 6]| {
            let padded: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            padded.join("  ").trim_end().to_owned() + "\n"
        };
        cells.iter().map(line).collect()
    }

    /// Renders the table as Markdown.
    fn render_markdown(&self) -> String {
        let cells = self.cells();
        let line = |row: &[String; 6]| format!("| {} |\n", row.join(" | "));
        let heading = line(&cells[0]) + "|---|---|---|---|---|---|\n";
        heading + &cells[1..].iter().map(line).collect::<String>()
    }

    /// Writes the table and the facts about the machine into the section that the document has for the suite.
    pub(super) fn write_into(&self, document: &Path, suite: &str, facts: &str) -> Result<()> {
        let shown = document.display();
        let old =
            std::fs::read_to_string(document).with_context(|| format!("could not read {shown}"))?;
        let section = format!("{}\n{facts}\n", self.render_markdown());
        let new = replace_section(&old, suite, &section).with_context(|| {
            format!(
                "{shown} lacks the markers `{}` and `{}`",
                begin_marker(suite),
                end_marker(suite)
            )
        })?;
        std::fs::write(document, new).with_context(|| format!("could not write {shown}"))
    }
}

fn met_symbol(met: bool) -> &'static str {
    if met { "✓" } else { "✗" }
}

fn begin_marker(suite: &str) -> String {
    format!("<!-- bench:{suite}:begin -->")
}

fn end_marker(suite: &str) -> String {
    format!("<!-- bench:{suite}:end -->")
}

fn replace_section(document: &str, suite: &str, section: &str) -> Option<String> {
    let (begin, end) = (begin_marker(suite), end_marker(suite));
    let (head, rest) = document.split_once(&begin)?;
    let (_, tail) = rest.split_once(&end)?;
    Some(format!("{head}{begin}\n{section}{end}{tail}"))
}

/// Formats a time in milliseconds.
pub(super) fn format_ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// Formats a time in microseconds.
pub(super) fn format_micros(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

/// Formats bytes as megabytes.
pub(super) fn format_mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_table() -> BenchTable {
        let row = BenchRow {
            what: "Grep".into(),
            ours: "21 ms".into(),
            peer: "20 ms".into(),
            ratio: "1.05".into(),
            budget: "≤ 1.15".into(),
            met: true,
        };
        BenchTable { rows: vec![row] }
    }

    #[test]
    fn table_columns_line_up() {
        let expected = "what  zero   peer   ratio  budget\nGrep  21 ms  20 ms  1.05   ≤ 1.15  ✓\n";
        assert_eq!(sample_table().render_terminal(), expected);
    }

    #[test]
    fn document_outside_the_section_of_the_suite_is_kept() {
        let section = |suite: &str, text: &str| {
            format!("{}\n{text}{}\n", begin_marker(suite), end_marker(suite))
        };
        let document =
            format!("before\n{}{}after\n", section("files", "old\n"), section("acp", "kept\n"));
        let new = replace_section(&document, "files", "new\n");
        assert_eq!(
            new,
            Some(format!(
                "before\n{}{}after\n",
                section("files", "new\n"),
                section("acp", "kept\n")
            ))
        );
        assert_eq!(replace_section(&document, "store", ""), None);
    }

    #[test]
    fn markdown_table_has_a_row_per_measurement() {
        assert_eq!(
            sample_table().render_markdown(),
            "| what | zero | peer | ratio | budget |  |\n|---|---|---|---|---|---|\n\
             | Grep | 21 ms | 20 ms | 1.05 | ≤ 1.15 | ✓ |\n"
        );
    }
}
