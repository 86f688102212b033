//! Parses expansions that start with `$`, and process substitutions.

use super::ansi_c;
use super::arithmetic::ArithmeticEnd;
use super::reader::ScriptReader;
use super::word::{QuotingContext, push_text};
use crate::shell::ast::{CommandList, ParameterExpansion, ParameterOperation, ShellWord, WordPart};

/// Parameters whose name is one special character.
const SPECIAL_PARAMETERS: &[u8] = b"@*#?$!-";

/// The role of a word within braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BraceWordRole {
    /// A value: inside double quotes, single quotes in it are ordinary characters.
    Value,
    /// A pattern up to `/`, or a replacement: quotes in it are quotes, in any context.
    Pattern,
    /// The same, up to `}`.
    Replacement,
}

impl ScriptReader<'_> {
    /// Parses a `$` or a backtick and its construct.
    pub(super) fn parse_expansion(&mut self, parts: &mut Vec<WordPart>, quoting: QuotingContext) {
        if self.current_byte() == Some(b'`') {
            return self.parse_backticks(parts, quoting);
        }
        let bare = matches!(quoting, QuotingContext::None | QuotingContext::Within);
        if self.is_at("$((") {
            self.parse_dollar_parentheses(parts, quoting);
        } else if self.eat("$(") {
            let list = self.parse_substitution_body();
            parts.push(WordPart::Command { list, quoted: quoting.is_quoted() });
        } else if self.is_at("${") {
            let parameter =
                self.parse_nested(|reader| Some(reader.parse_braced_parameter(quoting)));
            parts.extend(parameter.map(WordPart::Parameter));
        } else if self.is_at("$[") {
            self.parse_dollar_brackets(parts);
        } else if bare && self.eat("$'") {
            self.parse_ansi_c_quoted(parts, quoting);
        } else if bare && self.is_at("$\"") {
            self.eat("$");
            self.peek();
            self.parse_double_quoted(parts);
        } else {
            self.pos += 1;
            match self.parse_plain_name() {
                Some(name) => parts.push(WordPart::Parameter(ParameterExpansion {
                    name,
                    quoted: quoting.is_quoted(),
                    operation: ParameterOperation::Plain,
                    words: Vec::new(),
                })),
                None => push_text(parts, "$", quoting.is_quoted()),
            }
        }
    }

    /// Parses `<( … )` or `>( … )` and adds it to `parts`; does nothing elsewhere.
    pub(super) fn parse_process_substitution(&mut self, parts: &mut Vec<WordPart>) {
        if self.eat("<(") || self.eat(">(") {
            parts.push(WordPart::Process { list: self.parse_substitution_body() });
        }
    }

    /// Parses the script up to the `)` of a substitution.
    pub(super) fn parse_substitution_body(&mut self) -> CommandList {
        self.parse_nested(|reader| {
            let pending = std::mem::take(&mut reader.pending);
            let counting = std::mem::take(&mut reader.counting_parens);
            let within = std::mem::replace(&mut reader.in_substitution, true);
            let list = reader.parse_list();
            if !reader.pending.is_empty() {
                // Its body would be expected after the line with the `)`.
                reader.fail("a here-document without a body before `)`");
            }
            reader.expect(")", "at the end of a substitution");
            reader.in_substitution = within;
            reader.counting_parens = counting;
            reader.pending = pending;
            list
        })
    }

    /// The name after a `$` without braces.
    fn parse_plain_name(&mut self) -> Option<String> {
        let byte = self.peek()?;
        if byte.is_ascii_digit() || SPECIAL_PARAMETERS.contains(&byte) {
            self.pos += 1;
            return Some(char::from(byte).to_string());
        }
        Some(self.parse_identifier()).filter(|name| !name.is_empty())
    }

    /// `$'…'`, after the opening quote.
    fn parse_ansi_c_quoted(&mut self, parts: &mut Vec<WordPart>, quoting: QuotingContext) {
        let start = self.pos;
        loop {
            self.take_until(|byte| matches!(byte, b'\'' | b'\\'));
            if self.current_byte() != Some(b'\\') {
                break;
            }
            self.pos += 1;
            self.next_char();
        }
        let raw = self.text.get(start..self.pos).unwrap_or_default();
        self.parse_close_quote(b'\'');
        match ansi_c::decode(raw) {
            // Bash inserts the result before it expands the surrounding text.
            Some(text)
                if quoting.is_quoted() && text.contains(['$', '`', '"', '\'', '\\', '}']) =>
            {
                self.fail("`$'…'` with a special character within an expansion");
            }
            Some(text) => push_text(parts, &text, true),
            None => self.fail("`$'…'` that is not text"),
        }
    }

    /// `${ … }`.
    fn parse_braced_parameter(&mut self, quoting: QuotingContext) -> ParameterExpansion {
        self.eat("${");
        let inside =
            if quoting.is_quoted() { QuotingContext::Within } else { QuotingContext::None };
        let mut words = Vec::new();
        let mut operation = ParameterOperation::Plain;
        let name = match self.peek() {
            Some(b'#') => self.parse_length(&mut operation, &mut words),
            Some(b'!') => self.parse_indirection(&mut operation),
            _ => self.parse_braced_name(),
        }
        .unwrap_or_default();
        if name.is_empty() {
            self.fail("a bad `${ … }`");
        }
        let is_identifier = !name
            .starts_with(|c: char| c.is_ascii_digit() || SPECIAL_PARAMETERS.contains(&(c as u8)));
        if is_identifier && words.is_empty() && self.peek() == Some(b'[') {
            words.push(self.parse_subscript_until(ArithmeticEnd::BracketInBraces));
        }
        let changed = self.parse_parameter_operator(inside, &mut words);
        if operation == ParameterOperation::Plain {
            operation = changed;
        }
        self.expect("}", "after `${`");
        ParameterExpansion { name, quoted: quoting.is_quoted(), operation, words }
    }

    /// A name within braces, where numbers can have several digits.
    fn parse_braced_name(&mut self) -> Option<String> {
        let mut name = self.parse_plain_name()?;
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            while let Some(byte @ b'0'..=b'9') = self.peek() {
                self.pos += 1;
                name.push(char::from(byte));
            }
        }
        Some(name)
    }

    /// At `${#`: the length of a value, or the parameter `#`.
    fn parse_length(
        &mut self,
        operation: &mut ParameterOperation,
        words: &mut Vec<ShellWord>,
    ) -> Option<String> {
        self.pos += 1;
        let after = self.pos;
        if let Some(name) = self.parse_braced_name() {
            if self.peek() == Some(b'[') {
                words.push(self.parse_subscript_until(ArithmeticEnd::BracketInBraces));
            }
            if self.peek() == Some(b'}') || !words.is_empty() {
                *operation = ParameterOperation::Length;
                return Some(name);
            }
        }
        self.pos = after;
        Some("#".to_owned())
    }

    /// At `${!`: an indirect variable, or the parameter `!`.
    fn parse_indirection(&mut self, operation: &mut ParameterOperation) -> Option<String> {
        self.pos += 1;
        let next = self.peek()?;
        if next == b'}' {
            return Some("!".to_owned());
        }
        *operation = ParameterOperation::Indirect;
        let name = self.parse_braced_name()?;
        // `${!-x}` and similar are ambiguous.
        if SPECIAL_PARAMETERS.contains(&next) && self.peek() != Some(b'}') {
            return None;
        }
        if self.is_at("@}") || self.is_at("*}") {
            self.pos += 1;
        }
        Some(name)
    }

    /// Parses the part after the name within braces.
    fn parse_parameter_operator(
        &mut self,
        inside: QuotingContext,
        words: &mut Vec<ShellWord>,
    ) -> ParameterOperation {
        let Some(byte) = self.peek() else { return ParameterOperation::Plain };
        if byte == b'}' {
            return ParameterOperation::Plain;
        }
        let values = [
            ("-", ParameterOperation::Default),
            ("=", ParameterOperation::Assign),
            ("+", ParameterOperation::Alternative),
            ("?", ParameterOperation::Error),
        ];
        for (sign, operation) in values {
            if self.eat(sign) || self.eat(&format!(":{sign}")) {
                words.push(self.parse_brace_word(inside, BraceWordRole::Value));
                return operation;
            }
        }
        self.pos += 1;
        match byte {
            b':' => {
                let word = self.parse_arithmetic_text(ArithmeticEnd::Brace);
                self.require_plain(&word);
                words.push(word);
                ParameterOperation::Substring
            }
            b'/' => {
                self.eat("/");
                words.push(self.parse_brace_word(inside, BraceWordRole::Pattern));
                if self.eat("/") {
                    words.push(self.parse_brace_word(inside, BraceWordRole::Replacement));
                }
                ParameterOperation::Change
            }
            b'#' | b'%' | b'^' | b',' | b'~' => {
                self.eat(char::from(byte).encode_utf8(&mut [0; 4]));
                words.push(self.parse_brace_word(inside, BraceWordRole::Replacement));
                ParameterOperation::Change
            }
            b'@' => {
                if self.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
                    self.pos += 1;
                }
                ParameterOperation::Indirect
            }
            _ => {
                self.fail("a bad `${ … }`");
                ParameterOperation::Plain
            }
        }
    }

    /// A word within braces, up to its final `}` or `/`.
    fn parse_brace_word(&mut self, quoting: QuotingContext, usage: BraceWordRole) -> ShellWord {
        let start = self.pos;
        let mut parts = Vec::new();
        let quoted = quoting.is_quoted() && usage == BraceWordRole::Value;
        let stops = |byte| b"'\"$`\\}/()<>".contains(&byte);
        loop {
            let text = self.take_until(stops);
            if !text.is_empty() {
                push_text(&mut parts, text, quoted);
            }
            match self.peek() {
                None | Some(b'}') => break,
                Some(b'/') if usage == BraceWordRole::Pattern => break,
                Some(byte) if !stops(byte) => {}
                Some(b'\'') if quoted => self.parse_literal_single_quotes(&mut parts),
                Some(b'\'') => self.parse_single_quoted(&mut parts),
                Some(b'"') => self.parse_double_quoted(&mut parts),
                Some(b'$' | b'`') => self.parse_expansion(&mut parts, quoting),
                Some(b'\\') if quoted => self.parse_escaped_in_quotes(&mut parts, "$`\"\\}"),
                Some(b'\\') => self.parse_escaped(&mut parts),
                Some(b'(' | b')') if self.counting_parens => {
                    self.fail("a parenthesis in an expansion within parentheses");
                }
                Some(b'<' | b'>') if !self.is_at_word_end() => {
                    self.parse_process_substitution(&mut parts)
                }
                Some(byte) => {
                    self.pos += 1;
                    push_text(&mut parts, char::from(byte).encode_utf8(&mut [0; 4]), quoted);
                }
            }
        }
        ShellWord { parts, span: self.span_from(start) }
    }

    /// Single quotes in a value inside double quotes: they are literal, and their content is
    /// expanded, but bash searches for the closing brace after them.
    fn parse_literal_single_quotes(&mut self, parts: &mut Vec<WordPart>) {
        self.pos += 1;
        let text = self.take_until(|byte| byte == b'\'');
        if text.contains(['$', '`', '"', '\\']) {
            self.fail("single quotes that do not quote");
        }
        push_text(parts, &format!("'{text}'"), true);
        self.parse_close_quote(b'\'');
    }
}
