//! Backticks: a script in a separate text, with one level of backslashes removed.

use super::reader::ScriptReader;
use super::word::QuotingContext;
use crate::shell::ast::WordPart;

impl ScriptReader<'_> {
    /// `` `…` ``.
    pub(super) fn parse_backticks(&mut self, parts: &mut Vec<WordPart>, quoting: QuotingContext) {
        let start = self.pos;
        self.pos += 1;
        let mut script = String::new();
        loop {
            script.push_str(self.take_until(|byte| matches!(byte, b'`' | b'\\')));
            if self.current_byte() != Some(b'\\') {
                break;
            }
            self.pos += 1;
            match (self.next_char(), quoting) {
                (Some('\n'), _) => {}
                (Some(next @ ('$' | '`' | '\\')), _)
                | (Some(next @ '"'), QuotingContext::Double) => {
                    script.push(next);
                }
                // Whether this backslash is removed depends on the context of the braces.
                (Some('"'), QuotingContext::Within) => {
                    self.fail("`\\\"` in backticks within an expansion")
                }
                (Some(next), _) => script.extend(['\\', next]),
                (None, _) => {}
            }
        }
        self.parse_close_quote(b'`');
        let list = self.parse_script_within(&script, self.span_from(start));
        parts.push(WordPart::Command { list, quoted: quoting.is_quoted() });
    }
}
