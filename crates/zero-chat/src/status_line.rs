//! The last row of the screen: what answers, what it may do, where, and what it has cost.

use serde_json::{Value, json};
use zero_core::sanitize::escape_line;
use zero_terminal::{FAINT, TerminalStream, truncate_to_columns};

/// What the status line says of this machine and its settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusFacts {
    /// What commands can do at most, in a word or two, such as `sandbox`; empty if that is not known.
    pub sandbox: String,
    /// US dollars that the session may cost.
    pub budget_usd: Option<f64>,
    /// Whether a program of the user makes the line.
    pub has_program: bool,
}

/// What the status line says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StatusLine {
    /// Name of the model.
    pub(crate) model: String,
    /// The permission mode.
    pub(crate) mode: String,
    /// The folder, shortened for people.
    pub(crate) folder: String,
    /// Branch of the folder's repository.
    pub(crate) branch: Option<String>,
    /// How full the model's context window is, in percent.
    pub(crate) context_percent: Option<u64>,
    /// Cost of the session in US dollars, if a price is known.
    pub(crate) cost: Option<f64>,
    /// What is known of this machine.
    pub(crate) facts: StatusFacts,
    /// What the user's own program says, instead of the usual parts.
    pub(crate) program_line: Option<String>,
    /// Mode of the editor, such as `NORMAL`.
    pub(crate) editor: Option<&'static str>,
    /// Whether a run works.
    pub(crate) is_running: bool,
    /// Whether only ASCII is written.
    pub(crate) is_ascii: bool,
    /// Prompts that wait for their turn.
    pub(crate) queued: usize,
    /// Whether the connection to the gateway is lost.
    pub(crate) is_disconnected: bool,
    /// What the user should know now; replaces the rest.
    pub(crate) hint: Option<String>,
}

impl StatusLine {
    /// The row, at most `columns` wide.
    pub(crate) fn render(&self, stream: &TerminalStream, columns: usize) -> String {
        let text = match &self.hint {
            Some(hint) => escape_line(hint).into_owned(),
            None => self.parts().join(if self.is_ascii { ", " } else { " · " }),
        };
        let text = truncate_to_columns(&format!("  {text}"), columns);
        stream.paint(FAINT, &text).into_owned()
    }

    fn parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.is_disconnected {
            parts.push("disconnected, trying again".to_owned());
        }
        if self.is_running {
            parts.push("Esc stops".to_owned());
        }
        parts.extend(self.editor.map(str::to_owned));
        if let Some(line) = &self.program_line {
            parts.push(escape_line(line).into_owned());
            return self.add_queue(parts);
        }
        parts.push(escape_line(&self.model).into_owned());
        parts.push(escape_line(&self.mode).into_owned());
        parts.push(match &self.branch {
            Some(branch) => format!("{} ({})", escape_line(&self.folder), escape_line(branch)),
            None => escape_line(&self.folder).into_owned(),
        });
        parts.extend(self.context_percent.map(|percent| format!("context {percent} %")));
        parts.extend(match (self.cost.filter(|cost| *cost > 0.0), self.facts.budget_usd) {
            (cost, Some(budget)) => Some(format!("${:.2} of ${budget:.2}", cost.unwrap_or(0.0))),
            (Some(cost), None) => Some(format!("${cost:.2}")),
            (None, None) => None,
        });
        if !self.facts.sandbox.is_empty() {
            parts.push(escape_line(&self.facts.sandbox).into_owned());
        }
        self.add_queue(parts)
    }

    fn add_queue(&self, mut parts: Vec<String>) -> Vec<String> {
        if self.queued > 0 {
            parts.push(format!("{} queued", self.queued));
        }
        parts
    }

    /// What the user's own program learns: facts about the session, and no text of the work.
    pub(crate) fn to_json(&self, session_key: &str) -> Value {
        json!({
            "sessionKey": session_key,
            "model": self.model,
            "mode": self.mode,
            "folder": self.folder,
            "branch": self.branch,
            "contextPercent": self.context_percent,
            "costUsd": self.cost,
            "budgetUsd": self.facts.budget_usd,
            "sandbox": self.facts.sandbox,
            "isRunning": self.is_running,
            "queued": self.queued,
        })
    }
}

#[cfg(test)]
mod tests {
    use zero_terminal::Terminal;

    use super::*;

    #[test]
    fn line_shows_what_is_known_and_fits() {
        let stream = Terminal::for_test().out;
        let mut line = StatusLine {
            model: "claude".to_owned(),
            mode: "ask".to_owned(),
            folder: "~/x\u{1b}[31m".to_owned(),
            branch: Some("main".to_owned()),
            context_percent: Some(12),
            cost: Some(0.034),
            ..StatusLine::default()
        };
        assert_eq!(
            line.render(&stream, 80),
            "  claude · ask · ~/x\\u{1b}[31m (main) · context 12 % · $0.03"
        );
        assert_eq!(line.render(&stream, 12), "  claude · …");
        line.facts = StatusFacts {
            sandbox: "sandbox".to_owned(),
            budget_usd: Some(5.0),
            has_program: false,
        };
        assert!(line.render(&stream, 99).ends_with("context 12 % · $0.03 of $5.00 · sandbox"));
        line.program_line = Some("mine\u{1b}".to_owned());
        line.queued = 2;
        assert_eq!(line.render(&stream, 80), "  mine\\u{1b} · 2 queued");
        let status = line.to_json("agent:main:x");
        assert_eq!((&status["model"], &status["costUsd"]), (&json!("claude"), &json!(0.034)));
        line.hint = Some("press Ctrl-C again to leave".to_owned());
        assert_eq!(line.render(&stream, 80), "  press Ctrl-C again to leave");
    }
}
