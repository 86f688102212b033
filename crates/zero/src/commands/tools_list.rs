//! `zero tools list`: the tools, for people or in the form a model's interface wants.

pub(super) mod formats;

use anstyle::Style;
use zero_runtime::dialect::Offered;

use crate::App;
use crate::approval::risk_style;
use crate::cli::{ListArgs, ListFormat};
use crate::exit::Exit;
use crate::terminal::{Cell, STRONG, Stream, Table};

pub(super) fn run(app: &App, args: &ListArgs) -> anyhow::Result<Exit> {
    let tools = app.offered(args.dialect, None)?;
    let out = &app.terminal.out;
    match if args.json { ListFormat::Json } else { args.format } {
        ListFormat::Table => out.write(&table(&tools, out))?,
        ListFormat::Json => {
            let workspace = app.config.workspace(&[]).ok();
            let full = |tool: &Offered| formats::full(tool, workspace.as_ref());
            out.write_pretty(&tools.iter().map(full).collect::<Vec<_>>())?
        }
        ListFormat::Openai => out.write_pretty(&formats::openai(&tools))?,
        ListFormat::Anthropic => out.write_pretty(&formats::anthropic(&tools))?,
        ListFormat::Gemini => out.write_pretty(&formats::gemini(&tools))?,
        ListFormat::Mcp => out.write_pretty(&formats::mcp(&tools))?,
    }
    Ok(Exit::Ok)
}

fn table(tools: &[Offered], out: &Stream) -> String {
    let mut table = Table::new(["NAME", "CATEGORY", "RISK", "KIND", "DESCRIPTION"]);
    for tool in tools {
        let spec = tool.registered.tool.spec();
        table.row([
            Cell::styled(&tool.name, STRONG),
            spec.category.word().into(),
            Cell::styled(spec.risk.word(), risk_style(spec.risk)),
            spec.kind.word().into(),
            Cell::styled(first_sentence(&tool.description), Style::new()),
        ]);
    }
    table.render(out)
}

/// The first sentence of a description, on one line and without its full stop.
pub(super) fn first_sentence(description: &str) -> String {
    let paragraph = description.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.find(". ").unwrap_or(line.len());
    line[..end].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_shown_by_its_first_sentence() {
        for (description, expected) in [
            ("Reads a file. Long ones are cut.", "Reads a file"),
            ("Reads\na file such as `a.rs`.\n\nMore.", "Reads a file such as `a.rs`"),
            ("", ""),
        ] {
            assert_eq!(first_sentence(description), expected);
        }
    }
}
