//! `zero` alone: what it is and a few things to try.

use crate::AppContext;
use crate::exit::ExitOutcome;
use crate::terminal::{FAINT, STRONG};

const EXAMPLES: [(&str, &str); 6] = [
    (
        "zero run \"why does the build fail?\"",
        "have an agent work here; `zero run /help` needs no model",
    ),
    ("zero sessions list", "see what was talked about, to go on with it"),
    ("zero gateway", "let other programs and machines use the agents here"),
    ("zero tools list", "see the tools an agent gets"),
    (
        "zero tools call Read '{\"file_path\": \"README.md\"}'",
        "make a call, exactly as an agent would",
    ),
    ("zero audit tail", "see what was called, and what became of it"),
];

pub(super) fn run(app: &AppContext) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    let mut text =
        format!("{} gives any coding agent hands, safely.\n\nTry:\n", out.paint(STRONG, "zero"));
    for (command, about) in EXAMPLES {
        text.push_str(&format!(
            "  {}\n      {}\n",
            out.paint(STRONG, command),
            out.paint(FAINT, about)
        ));
    }
    text.push_str("\n`zero --help` lists all commands; each explains itself with `--help`.\n");
    out.write(&text)?;
    Ok(ExitOutcome::Ok)
}
