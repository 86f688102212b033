//! `zero` without a command: a short description and a few examples.

use crate::AppContext;
use crate::exit::ExitOutcome;
use crate::terminal::{FAINT, STRONG};

const EXAMPLES: [(&str, &str); 7] = [
    ("zero login", "set up a model: provider, key and default"),
    (
        "zero \"why does the build fail?\"",
        "send a prompt to the agent; `zero /help` needs no model",
    ),
    ("zero sessions list", "list the sessions that you can continue"),
    ("zero gateway", "serve agents and sessions to other programs and machines"),
    ("zero tools list", "list the tools that agents can use"),
    ("zero tools call Read '{\"file_path\": \"README.md\"}'", "call a tool as an agent does"),
    ("zero audit tail", "show the latest tool calls and their results"),
];

pub(super) fn run(app: &AppContext) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    let mut text = format!(
        "{} is a coding agent and a sandboxed tool runtime.\n\nTry:\n",
        out.paint(STRONG, "zero")
    );
    for (command, about) in EXAMPLES {
        text.push_str(&format!(
            "  {}\n      {}\n",
            out.paint(STRONG, command),
            out.paint(FAINT, about)
        ));
    }
    text.push_str("\n`zero --help` lists all commands. `zero COMMAND --help` describes one.\n");
    out.write(&text)?;
    Ok(ExitOutcome::Ok)
}
