//! The last row of the screen: what answers, what it may do, where, and what it has cost.

use zero_core::sanitize::escape_line;
use zero_terminal::{FAINT, TerminalStream, truncate_to_columns};

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
    /// Mode of the editor, such as `NORMAL`.
    pub(crate) editor: Option<&'static str>,
    /// Whether a run works.
    pub(crate) is_running: bool,
    /// Whether only ASCII is written.
    pub(crate) is_plain: bool,
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
            None => self.parts().join(if self.is_plain { ", " } else { " · " }),
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
        parts.push(escape_line(&self.model).into_owned());
        parts.push(escape_line(&self.mode).into_owned());
        parts.push(match &self.branch {
            Some(branch) => format!("{} ({})", escape_line(&self.folder), escape_line(branch)),
            None => escape_line(&self.folder).into_owned(),
        });
        parts.extend(self.context_percent.map(|percent| format!("context {percent} %")));
        parts.extend(self.cost.filter(|cost| *cost > 0.0).map(|cost| format!("${cost:.2}")));
        if self.queued > 0 {
            parts.push(format!("{} queued", self.queued));
        }
        parts
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
        line.hint = Some("press Ctrl-C again to leave".to_owned());
        assert_eq!(line.render(&stream, 80), "  press Ctrl-C again to leave");
    }
}
