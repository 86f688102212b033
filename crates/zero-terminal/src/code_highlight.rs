//! Colors in code, line by line as it arrives.
//!
//! Grammars are loaded when the first code of a known language is shown. They were written for editors and
//! use expressions that go back, so a line and the time for one block are bounded: text that exceeds them
//! is shown without colors.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use crate::{FAINT, STRONG, TerminalStream};

/// Longest line that gets colors, in bytes.
const LINE_BYTES_MAX: usize = 500;
/// Longest time that the colors of one block take. Without optimisations, it is a hundred times as long.
const BLOCK_TIME_MAX: Duration =
    if cfg!(debug_assertions) { Duration::from_secs(100) } else { Duration::from_secs(1) };
/// Longest name of a language.
const LANGUAGE_BYTES_MAX: usize = 40;

static GRAMMARS: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_no_newlines);
static SCOPE_STYLES: LazyLock<Vec<(Scope, Style)>> = LazyLock::new(|| {
    let style = |(name, style): &(&str, Style)| Some((Scope::new(name).ok()?, *style));
    STYLES.iter().filter_map(style).collect()
});

const KEYWORD: Style = AnsiColor::Magenta.on_default();
const LITERAL: Style = AnsiColor::Green.on_default();
const NUMBER: Style = AnsiColor::Yellow.on_default();
const TYPE: Style = AnsiColor::Cyan.on_default();
const FUNCTION: Style = AnsiColor::Blue.on_default();

/// What the scopes of a grammar look like; the first one that fits counts.
const STYLES: &[(&str, Style)] = &[
    ("comment", FAINT),
    ("string", LITERAL),
    ("constant.numeric", NUMBER),
    ("constant.language", NUMBER),
    ("constant.character", NUMBER),
    ("keyword.operator", Style::new()),
    ("keyword", KEYWORD),
    ("storage.type.function", KEYWORD),
    ("storage", KEYWORD),
    ("entity.name.function", FUNCTION),
    ("support.function", FUNCTION),
    ("variable.function", FUNCTION),
    ("entity.name.tag", KEYWORD),
    ("entity.name.section", STRONG),
    ("entity.name", TYPE),
    ("entity.other.attribute-name", TYPE),
    ("support.type", TYPE),
    ("support.class", TYPE),
    ("markup.heading", STRONG),
];

/// A part of a line, and its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeSpan<'a> {
    /// The text, as it was written: not escaped.
    pub text: &'a str,
    /// How it looks.
    pub style: Style,
}

/// Knows what came before a line of code.
#[derive(Clone)]
pub struct CodeHighlighter {
    /// `None` without colors, for a language that is not known, and when a limit was reached.
    state: Option<HighlightState>,
}

#[derive(Clone)]
struct HighlightState {
    parser: ParseState,
    scopes: ScopeStack,
    time_left: Duration,
}

impl CodeHighlighter {
    /// For a language: its name, or the ending of its files.
    pub fn new(stream: &TerminalStream, language: &str) -> Self {
        Self::with_time(stream, language, BLOCK_TIME_MAX)
    }

    fn with_time(stream: &TerminalStream, language: &str, time: Duration) -> Self {
        let is_usual = stream.has_colours() && language.len() <= LANGUAGE_BYTES_MAX;
        let state = Some(language)
            .filter(|_| is_usual)
            .and_then(|language| HighlightState::new(language, time));
        Self { state }
    }

    /// For a file, by its name.
    pub fn for_file(stream: &TerminalStream, path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let language = name.rsplit('.').next().unwrap_or(name);
        Self::new(stream, language)
    }

    /// Whether lines get colors.
    pub fn is_active(&self) -> bool {
        self.state.is_some()
    }

    /// The parts of the next line, which together are the line.
    pub fn highlight<'a>(&mut self, line: &'a str) -> Vec<CodeSpan<'a>> {
        let plain = || vec![CodeSpan { text: line, style: Style::new() }];
        let Some(state) = &mut self.state else { return plain() };
        // What follows could not be understood without this line.
        let spans = Some(line).filter(|line| line.len() <= LINE_BYTES_MAX);
        match spans.and_then(|line| state.highlight(line)) {
            Some(spans) => spans,
            None => {
                self.state = None;
                plain()
            }
        }
    }
}

impl HighlightState {
    fn new(language: &str, time_left: Duration) -> Option<Self> {
        // Blocks without a language are the most usual ones.
        if matches!(language, "" | "text" | "txt" | "plain" | "diff" | "console" | "output") {
            return None;
        }
        let name = match language.to_ascii_lowercase().as_str() {
            "shell" | "zsh" | "shell-session" => "bash".to_owned(),
            "jsonc" | "json5" | "jsonl" => "json".to_owned(),
            "golang" => "go".to_owned(),
            name => name.to_owned(),
        };
        let grammar = GRAMMARS.find_syntax_by_token(&name)?;
        if grammar.name == "Plain Text" {
            return None;
        }
        Some(Self { parser: ParseState::new(grammar), scopes: ScopeStack::new(), time_left })
    }

    /// `None` if a limit was reached, or the grammar has an error.
    fn highlight<'a>(&mut self, line: &'a str) -> Option<Vec<CodeSpan<'a>>> {
        let started = Instant::now();
        let changes = self.parser.parse_line(line, &GRAMMARS).ok()?;
        let mut spans: Vec<CodeSpan<'a>> = Vec::new();
        let mut from = 0;
        for (at, change) in changes {
            self.push_span(line, from..at, &mut spans);
            from = from.max(at);
            self.scopes.apply(&change).ok()?;
        }
        self.push_span(line, from..line.len(), &mut spans);
        self.time_left = self.time_left.checked_sub(started.elapsed())?;
        Some(spans)
    }

    fn push_span<'a>(
        &self,
        line: &'a str,
        range: std::ops::Range<usize>,
        spans: &mut Vec<CodeSpan<'a>>,
    ) {
        let Some(text) = line.get(range).filter(|text| !text.is_empty()) else { return };
        spans.push(CodeSpan { text, style: style_of(&self.scopes) });
    }
}

/// The style of the innermost scope that has one.
fn style_of(scopes: &ScopeStack) -> Style {
    let mut inner = scopes.scopes.iter().rev();
    let found = inner.find_map(|scope| {
        let mut styles = SCOPE_STYLES.iter();
        styles.find(|(prefix, _)| prefix.is_prefix_of(*scope)).map(|(_, style)| *style)
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Terminal;

    fn stream() -> TerminalStream {
        Terminal::for_test().out.with_columns(80)
    }

    #[track_caller]
    fn check(language: &str, line: &str, expected: &[(&str, Style)]) {
        let mut highlighter = CodeHighlighter::with_time(&stream(), language, Duration::MAX);
        let spans = highlighter.highlight(line);
        let joined: String = spans.iter().map(|span| span.text).collect();
        assert_eq!(joined, line);
        for (text, style) in expected {
            let found = spans.iter().find(|span| span.text.trim() == *text);
            assert_eq!(found.map(|span| span.style), Some(*style), "{text} in {spans:?}");
        }
    }

    #[test]
    fn code_has_colors_by_its_language() {
        check("rust", "let x = 42; // why", &[("let", KEYWORD), ("42", NUMBER), ("why", FAINT)]);
        check("py", "def f(): return 'a'", &[("f", FUNCTION), ("a", LITERAL)]);
        check("typescript", "const a = true;", &[("const", KEYWORD), ("true", NUMBER)]);
        check("toml", "a = 1", &[("1", NUMBER)]);
        check("sh", "if true; then echo hi; fi", &[("if", KEYWORD)]);
        for language in ["", "text", "no-such-language", &"x".repeat(100)] {
            check(language, "let x = 42;", &[("let x = 42;", Style::new())]);
        }
    }

    #[test]
    fn state_continues_over_lines_and_ends_at_a_limit() {
        assert!(CodeHighlighter::for_file(&stream(), "src/a.rs").is_active());
        let mut highlighter = CodeHighlighter::with_time(&stream(), "rs", Duration::MAX);
        highlighter.highlight("/* one");
        assert_eq!(highlighter.highlight("let").first().unwrap().style, FAINT);
        highlighter.highlight(&"x".repeat(LINE_BYTES_MAX + 1));
        assert!(!highlighter.is_active());
        let mut highlighter = CodeHighlighter::with_time(&stream(), "rs", Duration::ZERO);
        assert_eq!(highlighter.highlight("let").first().unwrap().style, Style::new());
        assert!(!highlighter.is_active());
        let plain = stream().without_colours();
        assert!(!CodeHighlighter::new(&plain, "rust").is_active());
    }
}
