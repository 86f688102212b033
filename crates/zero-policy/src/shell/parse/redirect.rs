//! Redirections.

use super::heredoc::PendingHeredoc;
use super::reader::ScriptReader;
use super::word::push_text;
use crate::shell::ast::{Redirection, RedirectionKind, ShellWord, SourceSpan, WordPart};

/// The operators, longest first.
const OPERATORS: [(&str, RedirectionKind); 12] = [
    ("<<<", RedirectionKind::HereString),
    ("<<-", RedirectionKind::HereDocument),
    ("<<", RedirectionKind::HereDocument),
    ("<&", RedirectionKind::Duplicate),
    ("<>", RedirectionKind::ReadWrite),
    ("<", RedirectionKind::Read),
    (">>", RedirectionKind::Write),
    (">&", RedirectionKind::Duplicate),
    (">|", RedirectionKind::Write),
    (">", RedirectionKind::Write),
    ("&>>", RedirectionKind::Write),
    ("&>", RedirectionKind::Write),
];

impl ScriptReader<'_> {
    /// The redirection at this position, if any.
    pub(super) fn parse_redirection(&mut self) -> Option<Redirection> {
        if !matches!(self.peek()?, b'<' | b'>' | b'&' | b'{' | b'0'..=b'9') {
            return None;
        }
        let start = self.pos;
        let has_descriptor = self.skip_descriptor();
        let variable = if has_descriptor { None } else { self.parse_descriptor_variable() };
        let prefixed = self.pos > start && (has_descriptor || variable.is_some());
        let found = OPERATORS.into_iter().find(|(sign, _)| self.is_at(sign));
        let Some((sign, kind)) = found.filter(|(sign, _)| {
            let is_process = self.is_at("<(") || self.is_at(">(");
            let is_split = prefixed && sign.starts_with('&');
            !(is_process || is_split)
        }) else {
            self.pos = start;
            return None;
        };
        self.eat(sign);
        self.skip_blanks();
        let target_start = self.pos;
        let target = if kind == RedirectionKind::Duplicate && self.peek() == Some(b'-') {
            // Bash takes the `-` alone: `>&-x` closes, and `x` is another word.
            self.pos += 1;
            let mut parts = Vec::new();
            push_text(&mut parts, "-", false);
            Some(ShellWord { parts, span: self.span_from(target_start) })
        } else {
            self.parse_argument_word()
        };
        let Some(target) = target else {
            self.fail("expected a word after a redirection");
            return None;
        };
        if kind != RedirectionKind::Duplicate && self.is_descriptor(target_start) {
            self.fail("a redirection where a word should be");
        }
        let span = self.span_from(start);
        let (kind, target) = match kind {
            RedirectionKind::HereDocument => {
                (kind, self.register_heredoc(sign, target_start, &target))
            }
            RedirectionKind::Duplicate if sign == ">&" && !names_descriptor(&target) => {
                (RedirectionKind::Write, target)
            }
            _ => (kind, target),
        };
        Some(Redirection { kind, variable, target, span })
    }

    /// Skips the number before a redirection. A number that is too large is a word.
    fn skip_descriptor(&mut self) -> bool {
        let start = self.pos;
        let mut number = Some(0_i32);
        while let Some(byte @ b'0'..=b'9') = self.peek() {
            let digit = i32::from(byte - b'0');
            number = number.and_then(|n| n.checked_mul(10)?.checked_add(digit));
            self.pos += 1;
        }
        let found = self.pos > start
            && number.is_some()
            && matches!(self.current_byte(), Some(b'<' | b'>'));
        if !found {
            self.pos = start;
        }
        found
    }

    /// Skips the `{name}` before a redirection.
    fn parse_descriptor_variable(&mut self) -> Option<String> {
        let start = self.pos;
        if self.eat("{") {
            let name = self.parse_identifier();
            if !name.is_empty() && self.eat("}") && matches!(self.peek(), Some(b'<' | b'>')) {
                return Some(name);
            }
        }
        self.pos = start;
        None
    }

    /// Whether the text since `start` is the descriptor of another redirection.
    fn is_descriptor(&mut self, start: usize) -> bool {
        let end = self.pos;
        if !matches!(self.peek(), Some(b'<' | b'>')) {
            return false;
        }
        self.pos = start;
        let found = self.skip_descriptor() || self.parse_descriptor_variable().is_some();
        let same = self.pos >= end;
        self.pos = end;
        found && same
    }

    /// Registers a here-document; its body follows the line. Until then the target contains its
    /// number.
    fn register_heredoc(&mut self, sign: &str, start: usize, target: &ShellWord) -> ShellWord {
        let mut delimiter: String = target.texts().collect();
        let mut quoted = false;
        for part in &target.parts {
            match part {
                WordPart::Text { quoted: text_quoted, .. } => quoted |= text_quoted,
                // The delimiter is not expanded: `<<$x` ends at a line `$x`.
                _ => {
                    delimiter = self.text.get(start..self.pos).unwrap_or_default().to_owned();
                    if delimiter.contains(['\'', '"', '\\', '`', '(', '{', '[']) {
                        self.fail("an expansion as the end of a here-document");
                    }
                }
            }
        }
        if delimiter.contains('\n') {
            self.fail("a new line in the end of a here-document");
        }
        let number = self.bodies.len();
        self.bodies.push(ShellWord { parts: Vec::new(), span: self.span_from(self.pos) });
        self.pending.push(PendingHeredoc { number, delimiter, quoted, strip_tabs: sign == "<<-" });
        ShellWord { parts: Vec::new(), span: SourceSpan { start: number, end: usize::MAX } }
    }
}

/// Whether the target of `>&` is a descriptor: a number, possibly with a `-` that moves it, or `-`.
fn names_descriptor(target: &ShellWord) -> bool {
    if target.parts.iter().any(|part| !matches!(part, WordPart::Text { .. })) {
        return false;
    }
    let text: String = target.texts().collect();
    let number = text.strip_suffix('-').unwrap_or(&text);
    !text.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}
