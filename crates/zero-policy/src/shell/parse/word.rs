//! Words and quotes.

use super::reader::{ScriptReader, is_word_break};
use crate::shell::ast::{ShellWord, WordPart};

/// How a word is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordStyle {
    /// An argument, a file name, an element.
    Argument,
    /// A pattern within `[[ … ]]`, where `@( … )` and similar are enabled.
    Pattern,
    /// A regular expression within `[[ … ]]`, where parentheses and `|` are part of the word.
    Regex,
}

/// The quoting around an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotingContext {
    /// None: the result is split.
    None,
    /// Double quotes.
    Double,
    /// A here-document.
    Heredoc,
    /// The braces of `${ … }` inside double quotes or a here-document, or an arithmetic expression.
    Within,
}

impl QuotingContext {
    pub(super) fn is_quoted(self) -> bool {
        self != Self::None
    }
}

impl ShellWord {
    /// Its text, if it consists of unquoted text only.
    pub(super) fn plain_text(&self) -> Option<String> {
        match &self.parts[..] {
            [WordPart::Text { text, quoted: false }] => Some(text.clone()),
            _ => None,
        }
    }

    /// Its text, if it can be the name of a function. With `extglob` enabled `a@()` is a pattern.
    pub(super) fn function_name(&self) -> Option<String> {
        self.plain_text().filter(|text| !text.ends_with(['?', '*', '+', '@', '!']))
    }

    /// Its literal parts in order, quoted or not; expansions are omitted.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            WordPart::Text { text, .. } => Some(&text[..]),
            _ => None,
        })
    }
}

/// Adds text; merges it with text of the same quoting. Empty text is added only if it is quoted.
pub(super) fn push_text(parts: &mut Vec<WordPart>, more: &str, quoting: bool) {
    match parts.last_mut() {
        Some(WordPart::Text { text, quoted }) if *quoted == quoting => text.push_str(more),
        _ if more.is_empty() && !quoting => {}
        _ => parts.push(WordPart::Text { text: more.to_owned(), quoted: quoting }),
    }
}

impl ScriptReader<'_> {
    /// The word at this position, if any, parsed as an argument.
    pub(super) fn parse_argument_word(&mut self) -> Option<ShellWord> {
        self.parse_word_from(self.pos, Vec::new(), WordStyle::Argument)
    }

    /// Parses the rest of a word that started at `start` with `parts`.
    pub(super) fn parse_word_from(
        &mut self,
        start: usize,
        mut parts: Vec<WordPart>,
        style: WordStyle,
    ) -> Option<ShellWord> {
        while !self.is_at_word_end()
            || (style == WordStyle::Regex && matches!(self.current_byte(), Some(b'(' | b'|')))
        {
            self.parse_word_part(&mut parts, style);
        }
        (!parts.is_empty()).then(|| ShellWord { parts, span: self.span_from(start) })
    }

    /// Whether a word ends here.
    pub(super) fn is_at_word_end(&mut self) -> bool {
        match self.peek() {
            None => true,
            Some(b'<') => !self.is_at("<("),
            Some(b'>') => !self.is_at(">("),
            Some(byte) => is_word_break(byte),
        }
    }

    fn parse_word_part(&mut self, parts: &mut Vec<WordPart>, style: WordStyle) {
        let Some(byte) = self.peek() else { return };
        match byte {
            b'\'' => self.parse_single_quoted(parts),
            b'"' => self.parse_double_quoted(parts),
            b'$' | b'`' => self.parse_expansion(parts, QuotingContext::None),
            b'\\' => self.parse_escaped(parts),
            b'<' | b'>' => self.parse_process_substitution(parts),
            b'(' => self.parse_pattern_group(parts),
            b'|' => self.parse_one_char(parts),
            b'?' | b'*' | b'+' | b'@' | b'!' if style == WordStyle::Pattern => {
                self.parse_one_char(parts);
                if self.peek() == Some(b'(') {
                    self.parse_pattern_group(parts);
                }
            }
            _ => {
                let stops = |byte| is_word_break(byte) || b"'\"$`\\?*+@!".contains(&byte);
                let text = self.take_until(stops);
                if text.is_empty() {
                    self.parse_one_char(parts)
                } else {
                    push_text(parts, text, false)
                }
            }
        }
    }

    /// One character as unquoted text.
    fn parse_one_char(&mut self, parts: &mut Vec<WordPart>) {
        if let Some(next) = self.next_char() {
            push_text(parts, next.encode_utf8(&mut [0; 4]), false);
        }
    }

    /// `'…'`.
    pub(super) fn parse_single_quoted(&mut self, parts: &mut Vec<WordPart>) {
        self.pos += 1;
        let text = self.take_until(|byte| byte == b'\'');
        push_text(parts, text, true);
        self.parse_close_quote(b'\'');
    }

    /// `"…"`.
    pub(super) fn parse_double_quoted(&mut self, parts: &mut Vec<WordPart>) {
        self.pos += 1;
        let counting = std::mem::take(&mut self.counting_parens);
        let before = parts.len();
        loop {
            let text = self.take_until(|byte| b"\"$`\\".contains(&byte));
            if !text.is_empty() {
                push_text(parts, text, true);
            }
            match self.current_byte() {
                None | Some(b'"') => break,
                Some(b'\\') => self.parse_escaped_in_quotes(parts, "$`\"\\"),
                Some(_) => self.parse_expansion(parts, QuotingContext::Double),
            }
        }
        self.counting_parens = counting;
        if parts.len() == before {
            push_text(parts, "", true);
        }
        self.parse_close_quote(b'"');
    }

    pub(super) fn parse_close_quote(&mut self, quote: u8) {
        if self.current_byte() == Some(quote) {
            self.pos += 1;
        } else {
            let message = format!("a `{}` is not closed", char::from(quote));
            self.fail(message);
        }
    }

    /// A backslash outside quotes; line continuations are skipped already.
    pub(super) fn parse_escaped(&mut self, parts: &mut Vec<WordPart>) {
        self.pos += 1;
        match self.next_char() {
            Some(next) => push_text(parts, next.encode_utf8(&mut [0; 4]), true),
            // Bash keeps or drops it, depending on the lines before.
            None => self.fail("a backslash at the end"),
        }
    }

    /// A backslash in double quotes or a similar context: it escapes only `special`.
    pub(super) fn parse_escaped_in_quotes(&mut self, parts: &mut Vec<WordPart>, special: &str) {
        self.pos += 1;
        match self.next_char() {
            Some('\n') => {}
            Some(next) => {
                if !special.contains(next) {
                    push_text(parts, "\\", true);
                }
                push_text(parts, next.encode_utf8(&mut [0; 4]), true);
            }
            None => push_text(parts, "\\", true),
        }
    }

    /// `( … )` within a pattern or a regular expression. Bash only counts parentheses here,
    /// including those in a command substitution, so these must be balanced.
    fn parse_pattern_group(&mut self, parts: &mut Vec<WordPart>) {
        let counting = std::mem::replace(&mut self.counting_parens, true);
        let mut depth = 0_usize;
        loop {
            let start = self.pos;
            match self.peek() {
                None => {
                    self.fail("a `(` is not closed");
                    break;
                }
                Some(b'\'') => self.parse_single_quoted(parts),
                Some(b'"') => self.parse_double_quoted(parts),
                Some(b'$' | b'`') => {
                    self.parse_expansion(parts, QuotingContext::None);
                    self.require_balanced(start, b'(', b')');
                }
                Some(b'<' | b'>') if !self.is_at_word_end() => {
                    self.parse_process_substitution(parts);
                    self.require_balanced(start, b'(', b')');
                }
                Some(b'\\') => self.parse_escaped(parts),
                Some(paren @ (b'(' | b')')) => {
                    self.parse_one_char(parts);
                    depth = if paren == b'(' { depth + 1 } else { depth.saturating_sub(1) };
                    if depth == 0 {
                        break;
                    }
                }
                Some(_) => self.parse_one_char(parts),
            }
        }
        self.counting_parens = counting;
    }
}
