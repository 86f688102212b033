//! `zero tools list`: the tools as a table, as JSON, or in the format of a model API.

pub(super) mod formats;

use anstyle::Style;
use zero_core::text_shortening::first_sentence;
use zero_runtime::dialect::DialectTool;

use crate::AppContext;
use crate::approval::risk_style;
use crate::cli::{ToolsListArgs, ToolsListFormat};
use crate::exit::ExitOutcome;
use crate::terminal::{STRONG, TableCell, TerminalStream, TextTable};

pub(super) fn run(app: &AppContext, args: &ToolsListArgs) -> anyhow::Result<ExitOutcome> {
    let tools = app.offered_tools(args.dialect, None)?;
    let out = &app.terminal.out;
    match if args.json { ToolsListFormat::Json } else { args.format } {
        ToolsListFormat::Table => out.write(&render_table(&tools, out))?,
        ToolsListFormat::Json => {
            let workspace = app.config.open_workspace(&[]).ok();
            let full = |tool: &DialectTool| formats::to_full_json(tool, workspace.as_ref());
            out.write_pretty_json(&tools.iter().map(full).collect::<Vec<_>>())?
        }
        ToolsListFormat::Openai => out.write_pretty_json(&formats::to_openai(&tools))?,
        ToolsListFormat::Anthropic => out.write_pretty_json(&formats::to_anthropic(&tools))?,
        ToolsListFormat::Gemini => out.write_pretty_json(&formats::to_gemini(&tools))?,
        ToolsListFormat::Mcp => out.write_pretty_json(&formats::to_mcp(&tools))?,
    }
    Ok(ExitOutcome::Ok)
}

fn render_table(tools: &[DialectTool], out: &TerminalStream) -> String {
    let mut table = TextTable::new(["NAME", "CATEGORY", "RISK", "KIND", "DESCRIPTION"]);
    for tool in tools {
        let spec = tool.registered.tool.spec();
        table.add_row([
            TableCell::styled(&tool.name, STRONG),
            spec.category.as_str().into(),
            TableCell::styled(spec.risk.as_str(), risk_style(spec.risk)),
            spec.kind.as_str().into(),
            TableCell::styled(first_sentence(&tool.description), Style::new()),
        ]);
    }
    table.render(out)
}
