//! The library that terminals in editors and browsers are made of. It rewraps its lines, except for the
//! cursor's.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use zero_chat::inline_screen::{ReflowKind, TerminalKind};
use zero_terminal::WindowSize;

use crate::shown_row::{LetterColor, LetterStyle, ShownLetter, ShownRow, trim_rows};
use crate::terminal_under_test::TerminalUnderTest;

/// Text, its marks, whether it is inverse, and its colors: -1 for none, then those of the palette, then
/// exact ones.
type XtermSpan = (String, [bool; 4], bool, [i64; 2]);

/// Ends with its process.
pub(crate) struct XtermTerminal {
    node: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl XtermTerminal {
    pub(crate) fn new(size: WindowSize) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/xterm_terminal.mjs");
        let mut node = Command::new("node");
        node.arg(script).arg(package_folder());
        node.args([size.columns.to_string(), size.rows.to_string()]);
        let mut node = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = node.stdin.take().unwrap();
        let answers = BufReader::new(node.stdout.take().unwrap());
        Self { node, requests, answers }
    }

    fn call(&mut self, request: &Value) -> Value {
        writeln!(self.requests, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl TerminalUnderTest for XtermTerminal {
    fn kind(&self) -> TerminalKind {
        TerminalKind { reflow: ReflowKind::AllButCursorLine, synchronized: true }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.call(&json!({"write": std::str::from_utf8(bytes).unwrap()}));
    }

    fn resize(&mut self, size: WindowSize) {
        self.call(&json!({"resize": [size.columns, size.rows]}));
    }

    fn rows(&mut self) -> Vec<ShownRow> {
        let mut answer = self.call(&json!({"rows": true}));
        let rows: Vec<Vec<XtermSpan>> = serde_json::from_value(answer["rows"].take()).unwrap();
        trim_rows(rows.into_iter().map(|spans| {
            ShownRow::new(spans.iter().flat_map(|(text, marks, is_inverse, colors)| {
                let colors = colors.map(|color| match color {
                    -1 => None,
                    index @ 0..=255 => Some(LetterColor::Palette(u8::try_from(index).unwrap())),
                    exact => Some(LetterColor::Exact(u32::try_from(exact - 256).unwrap())),
                });
                let style = LetterStyle { marks: *marks, is_inverse: *is_inverse, colors };
                text.chars().map(move |letter| ShownLetter { letter, style })
            }))
        }))
    }

    fn cursor(&mut self) -> (usize, usize, bool) {
        let answer = self.call(&json!({}));
        let [row, column, visible]: [usize; 3] =
            serde_json::from_value(answer["cursor"].clone()).unwrap();
        (row, column, visible == 1)
    }
}

impl Drop for XtermTerminal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

/// Where `cargo xtask test` installs packages of npm.
fn package_folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    match root.starts_with("/tmp") {
        true => PathBuf::from("/var/tmp/zero-language-servers"),
        false => root.join("target/language-servers"),
    }
}
