//! Shows what a call changed, for the user to decide about it.

use anstyle::Style;
use zero_sandbox::journal::{ChangedFile, FileContents};
use zero_tools::diff::file_diff;

use crate::terminal::{STRONG, TerminalStream, diff_line_style, escape_line};

/// Most lines of the change of one file.
const FILE_LINES_MAX: usize = 400;

/// The change of one file, with colors if the stream uses them.
pub(crate) fn render_file(out: &TerminalStream, file: &ChangedFile) -> String {
    let mut shown = String::new();
    for (style, line) in change_lines(file) {
        shown += &format!("{}\n", out.paint(style, &out.escape_exactly(&line)));
    }
    shown
}

/// The lines about the change of one file, as a diff if both states are text. What a file contains is
/// not escaped.
pub(crate) fn change_lines(file: &ChangedFile) -> Vec<(Style, String)> {
    let path = escape_line(&file.path);
    let text = |contents: &FileContents| match contents {
        FileContents::Text(text) => Some(Some(text.clone())),
        FileContents::Absent => Some(None),
        _ => None,
    };
    let what = match (&file.before, &file.after) {
        (FileContents::Absent, _) => "created",
        (_, FileContents::Absent) => "removed",
        _ => "changed",
    };
    let mut title = format!("{what} {path}");
    if let Some((old, new)) = file.modes {
        title += &format!(", mode {old:03o} to {new:03o}");
    }
    let mut rows = Vec::new();
    match (text(&file.before), text(&file.after)) {
        (Some(before), Some(after)) if before != after => {
            let diff = file_diff(&file.path, before.as_deref(), after.as_deref());
            let mut lines = diff.unified.lines();
            rows.extend(
                lines
                    .by_ref()
                    .take(FILE_LINES_MAX)
                    .map(|line| (diff_line_style(line), line.to_owned())),
            );
            if let more @ 1.. = lines.count() {
                rows.push((Style::new(), format!("and {more} more lines")));
            }
        }
        _ => {
            let parts = [&file.before, &file.after].map(describe_contents);
            match parts {
                [Some(old), Some(new)] if old != new => title += &format!(": {old} to {new}"),
                [Some(one), _] | [None, Some(one)] => title += &format!(": {one}"),
                [None, None] => {}
            }
        }
    }
    rows.insert(0, (STRONG, title));
    rows
}

/// What is at a path if it is no text.
fn describe_contents(contents: &FileContents) -> Option<String> {
    match contents {
        FileContents::Absent => None,
        FileContents::Text(_) => Some("a text file".to_owned()),
        FileContents::Binary { bytes } => Some(format!("{bytes} bytes")),
        FileContents::Symlink(target) => Some(format!("a link to {}", escape_line(target))),
        FileContents::Folder => Some("a folder".to_owned()),
        FileContents::Other => Some("a file that cannot be shown".to_owned()),
    }
}
