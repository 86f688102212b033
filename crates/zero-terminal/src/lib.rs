//! Output to the terminal: all text that the user sees is written here.
//!
//! Results go to stdout, everything else to stderr. Colors, truncated tables and the elapsed counter
//! are used only on a terminal. Untrusted text (file contents, paths, names) is escaped before it
//! reaches a terminal: control and bidirectional characters could otherwise repaint the screen.

mod ascii_signs;
mod captured_output;
pub mod choice_list;
pub mod code_highlight;
pub mod dialog;
mod elapsed_counter;
pub mod filter_list;
pub mod input_decoder;
pub mod input_event;
mod joined_emoji;
pub mod key;
pub mod key_reader;
mod line_wrap;
pub mod live_area;
pub mod live_row;
pub mod markdown;
pub mod pager;
mod prompt_turn;
mod screen_owner;
mod standard_streams;
mod table;
pub mod terminal_kind;
mod terminal_theme;
pub mod text_field;
mod text_width;
mod time_format;

/// The keyboard, byte by byte.
pub mod raw_input {
    pub use zero_sandbox::typed_input::{RawInput, RawRead, SignalKeys};
}

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};

pub use self::captured_output::CapturedOutput;
pub use self::elapsed_counter::ElapsedCounter;
pub use self::joined_emoji::escape_prose;
use self::key_reader::{KeyReader, KeySource, READING_WAIT};
use self::line_wrap::{ProseIndent, wrap_prose};
pub use self::line_wrap::{wrap_after_blanks, wrap_chars, wrap_words};
pub use self::prompt_turn::{PromptTurn, PromptTurnGuard};
pub use self::screen_owner::{ScreenLease, ScreenOwner};
pub use self::table::{TableCell, TextTable};
use self::terminal_kind::ReflowKind;
use self::terminal_theme::SharedTheme;
pub use self::terminal_theme::TerminalTheme;
pub use self::text_width::{char_columns, text_columns, truncate_to_columns};
pub use self::time_format::{format_age, format_short_duration, format_short_time};
pub use zero_core::sanitize::escape_line;
use zero_core::sanitize::{escape_chars_with, escape_lines, is_safe_char};
use zero_policy::Verdict;
use zero_sandbox::typed_input::{RawInput, SignalKeys, discard_typed_input};

pub use self::standard_streams::StandardStreams;

/// Style of table headings and emphasized names.
pub const STRONG: Style = Style::new().bold();
/// Style of secondary text.
pub const FAINT: Style = Style::new().dimmed();
/// Style of success messages and added lines.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Style of errors and removed lines.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Style of warnings.
pub const NOTABLE: Style = AnsiColor::Yellow.on_default();
/// Style of diff hunk headers.
const HUNK: Style = AnsiColor::Cyan.on_default();

/// Style of a policy verdict.
pub fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Allow => GOOD,
        Verdict::Ask => NOTABLE,
        Verdict::Deny => BAD,
    }
}

/// Standard streams of the program.
#[derive(Clone, Debug)]
pub struct Terminal {
    /// Stdout, for results.
    pub out: TerminalStream,
    /// Stderr, for everything else.
    pub err: TerminalStream,
    stdin_is_terminal: bool,
}

impl Terminal {
    /// Uses the standard streams of this process.
    pub fn new(streams: StandardStreams) -> Self {
        let theme = SharedTheme::default();
        let (fills_window, appends_only) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let stream = |target, is_terminal| TerminalStream {
            target,
            is_terminal,
            colours: is_terminal && streams.colours,
            columns: streams.columns.filter(|_| is_terminal),
            theme: theme.clone(),
            reflow: streams.reflow,
            is_ascii: is_terminal && streams.ascii,
            fills_window: Arc::clone(&fills_window),
            appends_only: Arc::clone(&appends_only),
        };
        Self {
            out: stream(StreamTarget::Stdout, streams.stdout_is_terminal),
            err: stream(StreamTarget::Stderr, streams.stderr_is_terminal),
            stdin_is_terminal: streams.stdin_is_terminal,
        }
    }

    /// The same terminal, but output is collected. It cannot show questions.
    pub fn captured(&self) -> (Self, CapturedOutput) {
        let captured = CapturedOutput::default();
        let stream = |stream: &TerminalStream| TerminalStream {
            target: StreamTarget::Memory(captured.clone()),
            columns: Some(stream.true_window_size().columns),
            ..stream.clone()
        };
        let terminal =
            Self { out: stream(&self.out), err: stream(&self.err), stdin_is_terminal: false };
        (terminal, captured)
    }

    /// Source of answers if stdin and stderr are terminals: zero asks on stderr and reads stdin.
    pub fn answer_source(&self) -> Option<AnswerSource> {
        (self.stdin_is_terminal && self.err.is_terminal).then_some(AnswerSource::Stdin)
    }

    /// Source of answers while stdin carries data: zero reads from the controlling terminal.
    pub fn tty_answer_source(&self) -> Option<AnswerSource> {
        self.err.is_terminal.then(AnswerSource::from_tty)?
    }

    /// Whether stdin is a terminal.
    pub fn is_stdin_terminal(&self) -> bool {
        self.stdin_is_terminal
    }

    /// Asks a yes/no question. Blocks; every answer other than `y` or `yes` means no.
    pub fn confirm(&self, answers: &AnswerSource, question: &str) -> bool {
        let answer = self.ask(answers, question, "y/N");
        answer.is_some_and(|answer| matches!(answer.as_str(), "y" | "yes"))
    }

    /// Asks a question and lists the keys that answer it. Keys that were typed before do not count.
    /// Blocks; returns the answer in lower case, or `None` if the question could not be shown or the
    /// answer not read.
    pub fn ask(&self, answers: &AnswerSource, question: &str, keys: &str) -> Option<String> {
        let line = self.ask_line(answers, question, &format!(" [{keys}] ")).ok()?;
        if !line.ends_with('\n') {
            // The input ended without Enter, so the line on the terminal is still open.
            self.err.write("\n").ok()?;
        }
        Some(line.trim().to_ascii_lowercase())
    }

    /// Asks for a line, and returns it without its line end; `None` at the end of the input. `ending` is
    /// what the question ends with, such as `: `. Keys that were typed before do not count.
    pub fn read_line(
        &self,
        answers: &AnswerSource,
        question: &str,
        ending: &str,
    ) -> Option<String> {
        self.ask_line(answers, question, ending).ok()?.strip_suffix('\n').map(str::to_owned)
    }

    /// The question is painted when it takes keys: before, they may be meant for what was on the screen, and
    /// nobody has read what the question is about.
    fn ask_line(&self, answers: &AnswerSource, question: &str, ending: &str) -> io::Result<String> {
        answers.discard_while_reading()?;
        self.err.write(&format!("{}{ending}", self.err.paint(STRONG, question)))?;
        answers.read_line()
    }

    /// Explains a command that speaks a protocol on stdin and stdout to a user who started it on a
    /// terminal, where nothing would seem to happen.
    pub fn print_protocol_hint(&self, protocol: &str, how_to_use: &str) {
        if self.is_stdin_terminal() {
            self.print_note(&format!(
                "this speaks {protocol} on stdin and stdout, for another program; {how_to_use}; press Ctrl-C to end it"
            ));
        }
    }

    /// Prints an error message to stderr.
    pub fn print_error(&self, message: &str) {
        // If stderr is closed, the error cannot be reported anywhere else.
        let _ = self.err.write_message("error:", BAD.bold(), message);
    }

    /// Prints a note to stderr.
    pub fn print_note(&self, message: &str) {
        let _ = self.err.write_message("note:", NOTABLE, message);
    }
}

/// Where zero reads the user's answers.
#[derive(Clone, Debug)]
pub enum AnswerSource {
    /// Stdin, where it and stderr are terminals.
    Stdin,
    /// The controlling terminal, because stdin carries data.
    Tty(Arc<File>),
    /// Prepared answers.
    #[cfg(any(test, feature = "scripted"))]
    Script(Arc<std::sync::Mutex<std::collections::VecDeque<String>>>),
}

impl AnswerSource {
    /// Opens the controlling terminal, if there is one.
    #[expect(clippy::disallowed_methods, reason = "the terminal is not a user file")]
    fn from_tty() -> Option<Self> {
        File::open("/dev/tty").ok().map(|tty| Self::Tty(Arc::new(tty)))
    }

    /// Takes over the keyboard until the reader is closed or dropped. Earlier input is discarded.
    pub fn open_keys(&self, signal_keys: SignalKeys) -> io::Result<KeyReader> {
        let source = match self {
            Self::Stdin => KeySource::Terminal(RawInput::open(io::stdin(), signal_keys)?),
            Self::Tty(tty) => KeySource::Terminal(RawInput::open(&**tty, signal_keys)?),
            #[cfg(any(test, feature = "scripted"))]
            Self::Script(lines) => KeySource::Script(Arc::clone(lines)),
        };
        Ok(KeyReader::new(source))
    }

    /// Takes over the keyboard for who reads its bytes; fails where answers are prepared.
    pub fn open_raw(&self, signal_keys: SignalKeys) -> io::Result<RawInput> {
        match self {
            Self::Stdin => RawInput::open(io::stdin(), signal_keys),
            Self::Tty(tty) => RawInput::open(&**tty, signal_keys),
            #[cfg(any(test, feature = "scripted"))]
            Self::Script(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Discards what was typed and not read yet. A terminal passes on one line at a time, so
    /// nothing of it is in a buffer of this process.
    fn discard_typed(&self) -> io::Result<()> {
        match self {
            Self::Stdin => discard_typed_input(io::stdin()),
            Self::Tty(tty) => discard_typed_input(&**tty),
            #[cfg(any(test, feature = "scripted"))]
            Self::Script(_) => Ok(()),
        }
    }

    /// Discards what is typed while the user cannot have read a question yet.
    fn discard_while_reading(&self) -> io::Result<()> {
        #[cfg(any(test, feature = "scripted"))]
        if matches!(self, Self::Script(_)) {
            return Ok(());
        }
        // The terminal keeps its modes, so that Ctrl-C works meanwhile.
        std::thread::sleep(READING_WAIT);
        self.discard_typed()
    }

    fn read_line(&self) -> io::Result<String> {
        /// Longest answer, in bytes; pasted URLs can be long.
        const ANSWER_BYTES_MAX: u64 = 8 * 1_024;
        let mut answer = String::new();
        match self {
            Self::Stdin => io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer)?,
            Self::Tty(tty) => {
                BufReader::new(&**tty).take(ANSWER_BYTES_MAX).read_line(&mut answer)?
            }
            #[cfg(any(test, feature = "scripted"))]
            Self::Script(lines) => {
                let line = lines
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .pop_front()
                    .unwrap_or_default();
                answer.push_str(&line);
                line.len()
            }
        };
        Ok(answer)
    }
}

/// Stdout or stderr, with the properties that decide how text is formatted.
#[derive(Clone, Debug)]
pub struct TerminalStream {
    target: StreamTarget,
    is_terminal: bool,
    colours: bool,
    columns: Option<usize>,
    theme: SharedTheme,
    reflow: ReflowKind,
    is_ascii: bool,
    /// Whether a part of the program fills the window, on the alternate screen. Streams of a terminal
    /// share it.
    fills_window: Arc<AtomicBool>,
    /// Whether nothing that was written is painted again. Streams of a terminal share it.
    appends_only: Arc<AtomicBool>,
}

/// Size of the terminal's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// Its height.
    pub rows: usize,
    /// Its width.
    pub columns: usize,
}

impl WindowSize {
    /// The size of a terminal that does not know its own.
    const USUAL: Self = Self { rows: 24, columns: 80 };
    /// The smallest size that anything is fitted into.
    const SMALLEST: Self = Self { rows: 10, columns: 20 };
}

#[derive(Clone, Debug)]
enum StreamTarget {
    Stdout,
    Stderr,
    Memory(CapturedOutput),
}

impl TerminalStream {
    /// Writes and flushes.
    pub fn write(&self, text: &str) -> io::Result<()> {
        let text = match self.is_ascii {
            true => &*ascii_signs::replace_signs(text),
            false => text,
        };
        match &self.target {
            StreamTarget::Stdout => write_all(io::stdout().lock(), text),
            StreamTarget::Stderr => write_all(io::stderr().lock(), text),
            StreamTarget::Memory(captured) => {
                captured.push(text);
                Ok(())
            }
        }
    }

    /// Writes a message after its label, wrapped at words.
    fn write_message(&self, label: &str, style: Style, message: &str) -> io::Result<()> {
        let message = self.wrap_prose(&escape_lines(message), label.len() + 1);
        self.write(&format!("{} {message}\n", self.paint(style, label)))
    }

    /// Wraps a text at words on a terminal, its first line after `used` columns.
    pub fn wrap_prose(&self, text: &str, used: usize) -> String {
        match self.columns {
            Some(_) => {
                let place = ProseIndent { first: used, hanging: 0 };
                wrap_prose(text, place, self.window_size().columns)
            }
            None => text.to_owned(),
        }
    }

    /// Writes lines of prose, wrapped at words on a terminal; rows that continue a line are indented
    /// by `hanging` more columns.
    pub fn write_prose(&self, text: &str, hanging: usize) -> io::Result<()> {
        match self.columns {
            Some(_) => {
                let place = ProseIndent { first: 0, hanging };
                self.write(&wrap_prose(text, place, self.window_size().columns))
            }
            None => self.write(text),
        }
    }

    /// Writes indented JSON.
    pub fn write_pretty_json(&self, value: &impl serde::Serialize) -> io::Result<()> {
        self.write_json_text(&(serde_json::to_string_pretty(value)? + "\n"))
    }

    /// Writes JSON on one line.
    pub fn write_json_line(&self, value: &impl serde::Serialize) -> io::Result<()> {
        self.write_json_text(&(serde_json::to_string(value)? + "\n"))
    }

    /// Writes serialized JSON. All JSON output uses this function: on a terminal, control characters
    /// are written as JSON escapes, which keeps the document equal.
    pub fn write_json_text(&self, text: &str) -> io::Result<()> {
        match self.is_terminal {
            true => self.write(&escape_json(text)),
            false => self.write(text),
        }
    }

    /// The present size of the window, or the smallest that anything is fitted into.
    pub fn window_size(&self) -> WindowSize {
        let size = self.true_window_size();
        let WindowSize { rows, columns } = WindowSize::SMALLEST;
        WindowSize { rows: size.rows.max(rows), columns: size.columns.max(columns) }
    }

    /// The present size of the window, however small.
    pub fn true_window_size(&self) -> WindowSize {
        let known = match &self.target {
            StreamTarget::Stdout | StreamTarget::Stderr => terminal_size::terminal_size(),
            StreamTarget::Memory(_) => None,
        };
        match (known, self.columns) {
            (Some((columns, rows)), _) => {
                WindowSize { rows: usize::from(rows.0), columns: usize::from(columns.0) }
            }
            (None, Some(columns)) => WindowSize { columns, ..WindowSize::USUAL },
            (None, None) => WindowSize::USUAL,
        }
    }

    /// The same stream, with text fitted to the present size of the window.
    #[must_use]
    pub fn fitted_to_window(&self) -> Self {
        Self { columns: Some(self.window_size().columns), ..self.clone() }
    }

    /// What the terminal does with its rows when its width changes.
    pub(crate) fn reflow(&self) -> ReflowKind {
        match self.fills_window() {
            // Nothing of the alternate screen is kept.
            true => ReflowKind::None,
            false => self.reflow,
        }
    }

    /// Whether a part of the program fills the window, on the alternate screen: all that is there can
    /// be erased, and the part that has the screen paints it again.
    pub fn fills_window(&self) -> bool {
        self.fills_window.load(Ordering::Relaxed)
    }

    /// Whether nothing that was written is painted again, as screen readers need it.
    pub fn appends_only(&self) -> bool {
        self.appends_only.load(Ordering::Relaxed)
    }

    /// Paints nothing again from now on. All streams of this terminal follow.
    pub fn set_appends_only(&self) {
        self.appends_only.store(true, Ordering::Relaxed);
    }

    /// Says whether a part of the program fills the window. All streams of this terminal follow.
    pub fn set_fills_window(&self, fills_window: bool) {
        self.fills_window.store(fills_window, Ordering::Relaxed);
    }

    /// Whether this stream is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether the locale of the terminal has nothing but ASCII.
    pub fn is_ascii(&self) -> bool {
        self.is_ascii
    }

    /// Whether styles are applied.
    pub fn has_colours(&self) -> bool {
        self.colours && self.theme.effective() != TerminalTheme::None
    }

    /// Whether styles could be applied: the terminal has them, and `NO_COLOR` does not forbid them.
    pub fn can_have_colours(&self) -> bool {
        self.colours
    }

    /// Chooses colors for the background. All streams of this terminal follow.
    pub fn set_theme(&self, theme: TerminalTheme) {
        self.theme.choose(theme);
    }

    /// Says which background the terminal has. All of its streams follow, unless a theme was chosen.
    pub fn set_background(&self, is_light: bool) {
        self.theme.set_background(is_light);
    }

    /// The colors that were chosen.
    pub fn theme(&self) -> TerminalTheme {
        self.theme.chosen()
    }

    /// Applies a style if the stream uses colors.
    pub fn paint<'a>(&self, style: Style, text: &'a str) -> Cow<'a, str> {
        if self.has_colours() && style != Style::new() {
            let style = self.theme.effective().adapt(style);
            Cow::Owned(format!("{style}{text}{style:#}"))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Escapes untrusted text on a terminal; other programs get it unchanged.
    pub fn escape_foreign<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_terminal { escape_prose(text) } else { Cow::Borrowed(text) }
    }

    /// Like [`TerminalStream::escape_foreign`], for text of which each character counts: a change, or
    /// what the user has to decide on.
    pub fn escape_exactly<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_terminal { escape_lines(text) } else { Cow::Borrowed(text) }
    }

    /// Columns that remain after `used` columns; unlimited if this is not a terminal.
    pub fn remaining_columns(&self, used: usize) -> usize {
        self.columns.map_or(usize::MAX, |columns| columns.saturating_sub(used))
    }

    /// Truncates a line to the columns that remain after `used` columns.
    pub fn truncate_line(&self, line: &str, used: usize) -> String {
        truncate_to_columns(line, self.remaining_columns(used))
    }

    /// Renders a unified diff, with colors if the stream uses them.
    pub fn render_diff(&self, unified: &str) -> String {
        let mut shown = String::with_capacity(unified.len());
        for line in unified.lines() {
            let (style, line) = (diff_line_style(line), self.escape_exactly(line));
            for (place, row) in self.rows_with_margin(&line).into_iter().enumerate() {
                let margin = if place == 0 { "" } else { MARGIN };
                // Writing to a String cannot fail.
                let _ = writeln!(shown, "{margin}{}", self.paint(style, &row));
            }
        }
        shown
    }

    /// Renders a line of a program or another machine. All of its rows have a margin, so that none can pass
    /// for a line of zero's own.
    pub fn render_foreign_line(&self, style: Style, line: &str) -> String {
        let mut shown = String::with_capacity(line.len());
        for row in self.rows_with_margin(&escape_line(line)) {
            // Writing to a String cannot fail.
            let _ = writeln!(shown, "{MARGIN}{}", self.paint(style, &row));
        }
        shown
    }

    /// The rows that fit beside a margin.
    fn rows_with_margin(&self, line: &str) -> Vec<String> {
        match self.columns {
            Some(columns) => wrap_after_blanks(line, columns.saturating_sub(MARGIN.len())),
            None => vec![line.to_owned()],
        }
    }
}

/// Precedes each row of what others wrote.
const MARGIN: &str = "  ";

/// Style of a line of a unified diff.
pub fn diff_line_style(line: &str) -> Style {
    match line.as_bytes().first() {
        Some(b'+') => GOOD,
        Some(b'-') => BAD,
        Some(b'@') => HUNK,
        _ => Style::new(),
    }
}

fn write_all(mut stream: impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    stream.flush()
}

/// Escapes control characters in JSON without changing its meaning: outside of strings there are
/// only line ends, and within strings `\u` escapes are allowed.
fn escape_json(text: &str) -> Cow<'_, str> {
    let is_escaped = |c| !is_safe_char(c) && c != '\n';
    escape_chars_with(text, is_escaped, |c, to| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(to, "\\u{unit:04x}");
        }
    })
}

#[cfg(any(test, feature = "scripted"))]
impl Terminal {
    /// Terminal that records its output; it is not interactive.
    pub fn for_test() -> Self {
        let stream = || TerminalStream {
            target: StreamTarget::Memory(CapturedOutput::default()),
            is_terminal: false,
            colours: false,
            columns: None,
            theme: SharedTheme::default(),
            reflow: ReflowKind::default(),
            is_ascii: false,
            fills_window: Arc::default(),
            appends_only: Arc::default(),
        };
        Self { out: stream(), err: stream(), stdin_is_terminal: false }
    }
}

#[cfg(any(test, feature = "scripted"))]
impl AnswerSource {
    /// Answers with these lines, then ends the input.
    pub fn from_script(lines: &[&str]) -> Self {
        let lines = lines.iter().map(|line| format!("{line}\n")).collect();
        Self::Script(Arc::new(std::sync::Mutex::new(lines)))
    }

    /// Presses these keys, then ends the input.
    pub fn from_keys(keys: &str) -> Self {
        let keys = std::iter::once(keys.to_owned()).filter(|keys| !keys.is_empty()).collect();
        Self::Script(Arc::new(std::sync::Mutex::new(keys)))
    }

    /// A keyboard, and the terminal that passes on its keys.
    #[cfg(test)]
    pub(crate) fn from_pty() -> (File, Self) {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        let far = File::options().read(true).write(true).open(name).unwrap();
        (File::from(near), Self::Tty(Arc::new(far)))
    }

    /// The keys of the prepared lines.
    #[expect(clippy::unwrap_used, reason = "prepared keys can always be read")]
    pub fn open_keys_for_test(&self) -> KeyReader {
        self.open_keys(SignalKeys::AreRead).unwrap()
    }
}

#[cfg(any(test, feature = "scripted"))]
impl TerminalStream {
    /// Turns the stream into a terminal of this width, with colors.
    pub fn with_columns(mut self, columns: usize) -> Self {
        (self.is_terminal, self.colours, self.columns) = (true, true, Some(columns));
        self
    }

    /// Disables colors.
    pub fn without_colours(mut self) -> Self {
        self.colours = false;
        self
    }

    /// Text written so far.
    pub fn written_text(&self) -> String {
        match &self.target {
            StreamTarget::Memory(captured) => captured.text(),
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
            let terminal = stream.with_columns(80);
            assert_eq!(terminal.escape_foreign(text), harmless);
            assert_eq!(terminal.escape_exactly(text), harmless);
        }
        let terminal = Terminal::for_test().out.with_columns(80);
        assert_eq!(terminal.escape_foreign("\u{26a0}\u{fe0f}"), "\u{26a0}\u{fe0f}");
        assert_eq!(terminal.escape_exactly("\u{26a0}\u{fe0f}"), "\u{26a0}\\u{fe0f}");
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
    fn messages_are_wrapped_between_words() {
        let mut terminal = Terminal::for_test();
        terminal.err = terminal.err.with_columns(24).without_colours();
        terminal.print_note("one two three four five");
        terminal.print_error("one two\n  three four five six");
        assert_eq!(
            terminal.err.written_text(),
            "note: one two three four\nfive\nerror: one two\n  three four five six\n"
        );
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
