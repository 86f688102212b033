//! What a terminal does with its rows when its width changes, as far as the environment shows it.

use crate::live_row::{CursorPosition, LiveRow};

/// Properties of the terminal that decide how the live area is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalKind {
    /// What happens to rows when the width changes.
    pub reflow: ReflowKind,
    /// Whether updates are marked, so that the terminal shows each at once (DEC mode 2026).
    pub synchronized: bool,
}

/// What a terminal does with its rows when its width changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReflowKind {
    /// Rows are cut, and stay where they are.
    None,
    /// Rows that are too long take several rows, and the cursor stays on its character.
    AllLines,
    /// The same, except for the cursor's row, which is cut. The cursor moves down with every row
    /// that is added, also with those that are added below it.
    AllButCursorLine,
    /// Not known. The cursor is then never left in the middle of the live area, where the answer
    /// matters.
    #[default]
    Unknown,
}

impl ReflowKind {
    /// Rows above the cursor, as the terminal has arranged them in a window of another width.
    pub fn rows_above_cursor(
        self,
        rows: &[LiveRow],
        cursor: CursorPosition,
        window_columns: usize,
    ) -> usize {
        let wrapped = |row: &LiveRow| row.wrapped_rows(window_columns);
        match self {
            Self::None | Self::Unknown => cursor.row,
            Self::AllLines => {
                let in_row = rows
                    .get(cursor.row)
                    .map_or(0, |row| row.wrapped_row_of(cursor.column, window_columns));
                rows.iter().take(cursor.row).map(wrapped).sum::<usize>() + in_row
            }
            Self::AllButCursorLine => {
                // Such a terminal goes through its rows from the last one. Each row that is added
                // moves the cursor down, and with it the row that is left alone.
                rows.iter().enumerate().rev().fold(cursor.row, |at, (index, row)| {
                    if at == index { at } else { at + wrapped(row) - 1 }
                })
            }
        }
    }
}

impl TerminalKind {
    /// Judges by environment variables. The innermost program counts: a multiplexer hides the
    /// terminal around it.
    pub fn from_env(lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let term = lookup("TERM").unwrap_or_default();
        let reflow = detect_reflow(&term, lookup);
        // Terminals that do not know the mode ignore it, except for very old ones.
        let synchronized = !matches!(term.as_str(), "" | "dumb" | "linux" | "vt100" | "vt220")
            && (lookup("STY").is_none() || lookup("TMUX").is_some());
        Self { reflow, synchronized }
    }
}

fn detect_reflow(term: &str, lookup: &dyn Fn(&str) -> Option<String>) -> ReflowKind {
    let is_set = |name: &str| lookup(name).is_some_and(|value| !value.is_empty());
    let is_one_of = |names: &[&str]| names.iter().any(|name| term.starts_with(name));
    if is_set("TMUX") || is_set("ZELLIJ") {
        return ReflowKind::AllLines;
    }
    if is_set("STY") || is_set("XTERM_VERSION") {
        return ReflowKind::None;
    }
    if is_one_of(&["linux", "screen", "st-", "putty", "vt1", "vt2", "ansi", "dumb", "eterm"]) {
        return ReflowKind::None;
    }
    if is_one_of(&["xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm", "tmux"])
        || is_one_of(&["rxvt-unicode", "contour", "rio"])
    {
        return ReflowKind::AllLines;
    }
    match lookup("TERM_PROGRAM").unwrap_or_default().as_str() {
        // Built upon the same library.
        "vscode" | "Hyper" | "Tabby" => return ReflowKind::AllButCursorLine,
        "iTerm.app" | "Apple_Terminal" | "WezTerm" | "ghostty" | "rio" => {
            return ReflowKind::AllLines;
        }
        _ => {}
    }
    if is_set("VTE_VERSION") {
        return ReflowKind::AllLines;
    }
    if let Some(version) = lookup("KONSOLE_VERSION") {
        // 21.04 was the first that did.
        return match version.parse::<u32>() {
            Ok(version) if version >= 210_400 => ReflowKind::AllLines,
            Ok(_) => ReflowKind::None,
            Err(_) => ReflowKind::Unknown,
        };
    }
    // Most terminals call themselves `xterm-256color`, at the latest through ssh. Many reflow, others
    // (xterm, PuTTY, mosh) do not, and some have a layer between that does its own.
    ReflowKind::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], reflow: ReflowKind, synchronized: bool) {
        let lookup = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let expected = TerminalKind { reflow, synchronized };
        assert_eq!(TerminalKind::from_env(&lookup), expected, "{variables:?}");
    }

    #[test]
    fn environment_tells_kind() {
        use ReflowKind::*;
        let xterm = ("TERM", "xterm-256color");
        check(&[xterm], Unknown, true);
        check(&[xterm, ("WT_SESSION", "1")], Unknown, true);
        check(&[xterm, ("XTERM_VERSION", "XTerm(390)")], None, true);
        check(&[xterm, ("XTERM_VERSION", "XTerm(390)"), ("VTE_VERSION", "7600")], None, true);
        check(&[xterm, ("VTE_VERSION", "7600")], AllLines, true);
        check(&[xterm, ("KONSOLE_VERSION", "230804")], AllLines, true);
        check(&[xterm, ("KONSOLE_VERSION", "201203")], None, true);
        check(&[xterm, ("TERM_PROGRAM", "vscode")], AllButCursorLine, true);
        check(&[xterm, ("TERM_PROGRAM", "iTerm.app")], AllLines, true);
        check(&[("TERM", "xterm-kitty")], AllLines, true);
        check(&[("TERM", "foot-extra")], AllLines, true);
        check(&[("TERM", "linux")], None, false);
        check(&[("TERM", "screen-256color"), ("STY", "1.pts")], None, false);
        let tmux = ("TMUX", "/tmp/tmux-0/default,1,0");
        check(&[("TERM", "screen-256color"), tmux], AllLines, true);
        check(&[("TERM", "tmux-256color"), tmux, ("TERM_PROGRAM", "vscode")], AllLines, true);
        check(&[xterm, ("ZELLIJ", "0"), ("TERM_PROGRAM", "vscode")], AllLines, true);
        check(&[], Unknown, false);
    }
}
