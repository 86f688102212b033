//! Everything a person sees passes through here.
//!
//! Stdout belongs to results and stderr to everything else. Colours, cut tables and the running
//! counter appear only where somebody is looking; text that others wrote (file contents, paths,
//! names) loses its control and direction-changing characters before it reaches a terminal, so
//! that a file cannot repaint the screen of whoever looks at it.

mod elapsed_counter;
mod table;
mod time_format;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};

pub(crate) use self::elapsed_counter::ElapsedCounter;
pub(crate) use self::table::{TableCell, TextTable};
pub(crate) use self::time_format::{format_short_duration, format_short_time};
use zero_policy::Verdict;

use crate::environment::StandardStreams;

/// Headings of tables and names that stand out.
pub(crate) const STRONG: Style = Style::new().bold();
/// What matters less.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Good news, and added lines.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Bad news, and removed lines.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// What asks for attention.
pub(crate) const NOTABLE: Style = AnsiColor::Yellow.on_default();
/// Where a hunk of a diff begins.
const HUNK: Style = AnsiColor::Cyan.on_default();

/// The colour of a verdict.
pub(crate) fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Allow => GOOD,
        Verdict::Ask => NOTABLE,
        Verdict::Deny => BAD,
    }
}

/// The person's side of the program.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    /// Results.
    pub(crate) out: TerminalStream,
    /// Everything else.
    pub(crate) err: TerminalStream,
    stdin_is_terminal: bool,
}

impl Terminal {
    /// The terminal behind the standard streams.
    pub(crate) fn new(streams: StandardStreams) -> Self {
        let stream = |target, is_terminal| TerminalStream {
            target,
            is_terminal,
            colours: is_terminal && streams.colours,
            columns: streams.columns.filter(|_| is_terminal),
        };
        Self {
            out: stream(StreamTarget::Stdout, streams.stdout_is_terminal),
            err: stream(StreamTarget::Stderr, streams.stderr_is_terminal),
            stdin_is_terminal: streams.stdin_is_terminal,
        }
    }

    /// Where a person would answer: they see the question on stderr and type on stdin.
    pub(crate) fn answer_source(&self) -> Option<AnswerSource> {
        (self.stdin_is_terminal && self.err.is_terminal).then_some(AnswerSource::Stdin)
    }

    /// The same when stdin holds something else: they type on the terminal zero was started from.
    pub(crate) fn tty_answer_source(&self) -> Option<AnswerSource> {
        self.err.is_terminal.then(AnswerSource::from_tty)?
    }

    /// Whether the input is typed by hand.
    pub(crate) fn is_stdin_terminal(&self) -> bool {
        self.stdin_is_terminal
    }

    /// Asks a question that has yes and no for an answer. Blocks; anything but yes is no.
    pub(crate) fn confirm(&self, answers: &AnswerSource, question: &str) -> bool {
        let answer = self.ask(answers, question, "y/N");
        answer.is_some_and(|answer| matches!(answer.as_str(), "y" | "yes"))
    }

    /// Asks a question and names the keys that answer it. Blocks; gives what was typed, in small
    /// letters, or nothing when it could not be asked.
    pub(crate) fn ask(&self, answers: &AnswerSource, question: &str, keys: &str) -> Option<String> {
        self.err.write(&format!("{} [{keys}] ", self.err.paint(STRONG, question))).ok()?;
        let line = answers.read_line().ok()?;
        if !line.ends_with('\n') {
            // They went away, and their Enter did not end the line.
            self.err.write("\n").ok()?;
        }
        Some(line.trim().to_ascii_lowercase())
    }

    /// Says what went wrong.
    pub(crate) fn print_error(&self, message: &str) {
        let message = escape_lines(message);
        // When stderr is gone there is nobody left to tell.
        let _ = self.err.write(&format!("{} {message}\n", self.err.paint(BAD.bold(), "error:")));
    }

    /// Says something worth knowing beside the result.
    pub(crate) fn print_note(&self, message: &str) {
        let message = escape_lines(message);
        let _ = self.err.write(&format!("{} {message}\n", self.err.paint(NOTABLE, "note:")));
    }
}

/// Where a person types what they answer.
#[derive(Clone, Debug)]
pub(crate) enum AnswerSource {
    /// On stdin.
    Stdin,
    /// On the terminal itself, because stdin is taken.
    Tty(Arc<File>),
    /// Beforehand.
    #[cfg(test)]
    Script(Arc<std::sync::Mutex<std::collections::VecDeque<String>>>),
}

impl AnswerSource {
    /// The terminal zero was started from, if there is one.
    #[expect(clippy::disallowed_methods, reason = "the terminal is no file of the person's")]
    fn from_tty() -> Option<Self> {
        File::open("/dev/tty").ok().map(|tty| Self::Tty(Arc::new(tty)))
    }

    /// A line as it was typed, without its end; nothing when they went away.
    pub(crate) fn read_answer(&self) -> Option<String> {
        self.read_line().ok()?.strip_suffix('\n').map(str::to_owned)
    }

    fn read_line(&self) -> io::Result<String> {
        /// Longest answer read, in bytes: a pasted address takes some room.
        const ANSWER_BYTES_MAX: u64 = 8 * 1_024;
        let mut answer = String::new();
        match self {
            Self::Stdin => io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer)?,
            Self::Tty(tty) => {
                BufReader::new(&**tty).take(ANSWER_BYTES_MAX).read_line(&mut answer)?
            }
            #[cfg(test)]
            Self::Script(lines) => {
                let line = lines.lock().unwrap().pop_front().unwrap_or_default();
                answer.push_str(&line);
                line.len()
            }
        };
        Ok(answer)
    }
}

/// One way out of the program.
#[derive(Clone, Debug)]
pub(crate) struct TerminalStream {
    target: StreamTarget,
    is_terminal: bool,
    colours: bool,
    columns: Option<usize>,
}

#[derive(Clone, Debug)]
enum StreamTarget {
    Stdout,
    Stderr,
    #[cfg(test)]
    Memory(std::sync::Arc<std::sync::Mutex<String>>),
}

impl TerminalStream {
    /// Writes and flushes.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        match &self.target {
            StreamTarget::Stdout => write_all(io::stdout().lock(), text),
            StreamTarget::Stderr => write_all(io::stderr().lock(), text),
            #[cfg(test)]
            StreamTarget::Memory(memory) => {
                memory.lock().unwrap().push_str(text);
                Ok(())
            }
        }
    }

    /// Writes JSON, spread over lines.
    pub(crate) fn write_pretty_json(&self, value: &impl serde::Serialize) -> io::Result<()> {
        self.write_json_text(&(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// Writes JSON on one line.
    pub(crate) fn write_json_line(&self, value: &impl serde::Serialize) -> io::Result<()> {
        self.write_json_text(&(serde_json::to_string(value)? + "\n"))
    }

    /// Writes text that is JSON already. All JSON passes here: where somebody is looking, what could
    /// steer the terminal is written as an escape of JSON, so that it is the same document.
    pub(crate) fn write_json_text(&self, text: &str) -> io::Result<()> {
        match self.is_terminal {
            true => self.write(&escape_json(text)),
            false => self.write(text),
        }
    }

    /// Whether somebody is looking.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The text in a style, where styles show.
    pub(crate) fn paint<'a>(&self, style: Style, text: &'a str) -> Cow<'a, str> {
        if self.colours && style != Style::new() {
            Cow::Owned(format!("{style}{text}{style:#}"))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Text that others wrote: as it is for programs, harmless for a terminal.
    pub(crate) fn escape_foreign<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_terminal { escape_lines(text) } else { Cow::Borrowed(text) }
    }

    /// Columns that are left beside `used` others.
    pub(crate) fn remaining_columns(&self, used: usize) -> usize {
        self.columns.map_or(usize::MAX, |columns| columns.saturating_sub(used))
    }

    /// As much of a line as the window has room for beside `used` other columns.
    pub(crate) fn truncate_line(&self, line: &str, used: usize) -> String {
        table::truncate(line, self.remaining_columns(used))
    }

    /// A unified diff, coloured where colours show.
    pub(crate) fn render_diff(&self, unified: &str) -> String {
        let mut shown = String::with_capacity(unified.len());
        for line in unified.lines() {
            let style = match line.as_bytes().first() {
                Some(b'+') => GOOD,
                Some(b'-') => BAD,
                Some(b'@') => HUNK,
                _ => Style::new(),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(shown, "{}", self.paint(style, &self.escape_foreign(line)));
        }
        shown
    }
}

fn write_all(mut stream: impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Whether an error says that the reader went away, which is its right: `zero tools list | head -1`.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// What was left out of the audit log because it could not be read.
pub(crate) fn damaged_lines_note(count: usize) -> String {
    match count {
        1 => "1 damaged line of the audit log was left out".to_owned(),
        _ => format!("{count} damaged lines of the audit log were left out"),
    }
}

/// Makes text harmless but keeps its lines and tabs.
pub(crate) fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\n' || c == '\t')
}

/// Makes text harmless and keeps it on one line.
pub(crate) fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    escape_with(text, keep, |c, to| to.extend(c.escape_default()))
}

/// Makes JSON harmless without changing what it says: between values there are only line ends, and
/// whatever else is harmful stands in a string, where `\u` may stand for it.
fn escape_json(text: &str) -> Cow<'_, str> {
    escape_with(
        text,
        |c| c == '\n',
        |c, to| {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(to, "\\u{unit:04x}");
            }
        },
    )
}

fn escape_with(
    text: &str,
    keep: impl Fn(char) -> bool,
    write: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    let harmful = |c: char| is_harmful(c) && !keep(c);
    if !text.contains(harmful) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if harmful(c) { write(c, &mut escaped) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// Control characters, and the invisible ones that reorder or hide what stands around them.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
        || matches!(c, '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
impl Terminal {
    /// A terminal that remembers; nobody is looking and nobody can be asked.
    pub(crate) fn for_test() -> Self {
        let stream = || TerminalStream {
            target: StreamTarget::Memory(Default::default()),
            is_terminal: false,
            colours: false,
            columns: None,
        };
        Self { out: stream(), err: stream(), stdin_is_terminal: false }
    }
}

#[cfg(test)]
impl AnswerSource {
    /// Somebody who types these lines and goes away.
    pub(crate) fn from_script(lines: &[&str]) -> Self {
        let lines = lines.iter().map(|line| format!("{line}\n")).collect();
        Self::Script(Arc::new(std::sync::Mutex::new(lines)))
    }
}

#[cfg(test)]
impl TerminalStream {
    /// The same stream as if somebody were looking, in a window of some width.
    pub(crate) fn with_columns(mut self, columns: usize) -> Self {
        (self.is_terminal, self.colours, self.columns) = (true, true, Some(columns));
        self
    }

    /// The same stream for somebody who wants no colours.
    pub(crate) fn without_colours(mut self) -> Self {
        self.colours = false;
        self
    }

    /// What was written to it.
    pub(crate) fn written_text(&self) -> String {
        match &self.target {
            StreamTarget::Memory(memory) => memory.lock().unwrap().clone(),
            StreamTarget::Stdout | StreamTarget::Stderr => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_control_terminal() {
        for (text, harmless) in [
            ("plain ünï\tcode\n", "plain ünï\tcode\n"),
            ("\x1b[2Jgone", "\\u{1b}[2Jgone"),
            ("bell\x07 back\r", "bell\\u{7} back\\r"),
            ("a\u{202E}txt.exe", "a\\u{202e}txt.exe"),
            ("c1 \u{9b}31m", "c1 \\u{9b}31m"),
        ] {
            let stream = Terminal::for_test().out;
            assert_eq!(stream.escape_foreign(text), text, "programs get it as it is");
            assert_eq!(stream.with_columns(80).escape_foreign(text), harmless);
        }
    }

    #[test]
    fn json_cannot_control_terminal_and_stays_equal() {
        let value = serde_json::json!({"a\u{202e}": ["\u{9b}31m \u{7f}\x1b\n", "\u{e0041}ü"]});
        let shown = "{\"a\\u202e\":[\"\\u009b31m \\u007f\\u001b\\n\",\"\\udb40\\udc41ü\"]}\n";
        let stream = Terminal::for_test().out.with_columns(80);
        stream.write_json_line(&value).unwrap();
        assert_eq!(stream.written_text(), shown);
        stream.write_pretty_json(&value).unwrap();
        let pretty = stream.written_text().split_off(shown.len());
        assert!(pretty.contains("\n  \"a\\u202e\": [\n"), "{pretty}");
        for text in [shown, &pretty] {
            assert_eq!(serde_json::from_str::<serde_json::Value>(text).unwrap(), value);
        }
        let stream = Terminal::for_test().out;
        stream.write_json_line(&value).unwrap();
        assert_eq!(stream.written_text(), format!("{value}\n"), "programs get it as it is");
    }

    #[test]
    fn unanswered_question_ends_its_line() {
        let terminal = Terminal::for_test();
        let (answered, gone) = (AnswerSource::from_script(&["Y"]), AnswerSource::from_script(&[]));
        assert_eq!(terminal.ask(&answered, "Allow?", "y/N").as_deref(), Some("y"));
        assert_eq!(terminal.ask(&gone, "Allow?", "y/N").as_deref(), Some(""));
        assert_eq!(terminal.err.written_text(), "Allow? [y/N] Allow? [y/N] \n");
    }

    #[test]
    fn diff_is_coloured_only_with_colours_enabled() {
        let stream = Terminal::for_test().out;
        assert_eq!(stream.render_diff("@@ -1 +1 @@\n-a\n+b"), "@@ -1 +1 @@\n-a\n+b\n");
        assert_eq!(
            stream.with_columns(80).render_diff("-a\n+b"),
            "\x1b[31m-a\x1b[0m\n\x1b[32m+b\x1b[0m\n"
        );
    }
}
