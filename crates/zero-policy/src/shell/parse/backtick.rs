//! Backticks: a script in a text of its own, one level of backslashes removed.

use super::reader::Reader;
use super::word::Quoting;
use crate::shell::ast::Part;

impl Reader<'_> {
    /// `` `…` ``.
    pub(super) fn backticks(&mut self, parts: &mut Vec<Part>, quoting: Quoting) {
        let start = self.pos;
        self.pos += 1;
        let mut script = String::new();
        loop {
            script.push_str(self.take_until(|byte| matches!(byte, b'`' | b'\\')));
            if self.raw() != Some(b'\\') {
                break;
            }
            self.pos += 1;
            match (self.next_char(), quoting) {
                (Some('\n'), _) => {}
                (Some(next @ ('$' | '`' | '\\')), _) | (Some(next @ '"'), Quoting::Double) => {
                    script.push(next);
                }
                // Whether this backslash goes depends on what stands around the braces.
                (Some('"'), Quoting::Within) => {
                    self.fail("`\\\"` in backticks within an expansion")
                }
                (Some(next), _) => script.extend(['\\', next]),
                (None, _) => {}
            }
        }
        self.close_quote(b'`');
        let list = self.script_within(&script, self.span(start));
        parts.push(Part::Command { list, quoted: quoting.is_quoted() });
    }
}
