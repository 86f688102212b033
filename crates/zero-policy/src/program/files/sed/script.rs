//! Scans a `sed` script for the files it names and the commands it runs.

use std::iter::Peekable;
use std::str::Chars;

use crate::shell::ShellArg;

use super::super::analysis_builder::{AccessDepth, CommandAnalysisBuilder};

/// Adds the effects of a script; one that cannot be parsed may run anything.
pub(super) fn record_script(script: &str, notes: &mut CommandAnalysisBuilder) {
    let understood = SedScanner::new(script, BracketHandling::HideDelimiter).scan(notes);
    if understood.is_none() {
        notes.record_unknown_run("the sed script is not understood");
    }
    // Versions differ on whether a delimiter in brackets ends a pattern. The effects of both
    // readings are added; if one of them does not parse, that version would reject the script.
    if script.contains('[') {
        let _ = SedScanner::new(script, BracketHandling::TreatAsPlain).scan(notes);
    }
}

/// Adds the effects of a text if it is a script; does nothing otherwise.
pub(super) fn record_script_effects(perhaps_script: &str, notes: &mut CommandAnalysisBuilder) {
    let mut found = CommandAnalysisBuilder::default();
    if SedScanner::new(perhaps_script, BracketHandling::HideDelimiter).scan(&mut found).is_some() {
        notes.merge(found.build_complete());
    }
}

/// Whether a delimiter in brackets ends a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BracketHandling {
    HideDelimiter,
    TreatAsPlain,
}

struct SedScanner<'a> {
    rest: Peekable<Chars<'a>>,
    brackets: BracketHandling,
    /// Whether this line has a label. Some versions take the rest of the line as the label, so
    /// nothing after it may continue on the next line.
    after_label: bool,
}

/// `None` if the script cannot be parsed.
type ScanResult = Option<()>;

impl<'a> SedScanner<'a> {
    fn new(script: &'a str, brackets: BracketHandling) -> Self {
        Self { rest: script.chars().peekable(), brackets, after_label: false }
    }

    fn scan(mut self, notes: &mut CommandAnalysisBuilder) -> ScanResult {
        loop {
            self.skip_while(|c| c.is_whitespace() && c != '\n' || c == ';' || c == '}');
            match self.rest.peek() {
                None => return Some(()),
                Some('\n') => {
                    self.rest.next();
                    self.after_label = false;
                    continue;
                }
                Some(_) => {}
            }
            self.skip_addresses()?;
            self.scan_command(notes)?;
        }
    }

    /// `1`, `$`, `/x/I`, `\,x,`, `2~3`, two of them with a comma, and `!`.
    fn skip_addresses(&mut self) -> ScanResult {
        self.skip_address()?;
        self.skip_blanks();
        if self.take_char(',') {
            self.skip_blanks();
            self.skip_address()?;
        }
        self.skip_while(|c| c == ' ' || c == '\t' || c == '!');
        Some(())
    }

    fn skip_address(&mut self) -> ScanResult {
        match self.rest.peek().copied() {
            Some('$') => drop(self.rest.next()),
            Some('/') => {
                self.rest.next();
                self.skip_pattern('/')?;
                self.skip_while(|c| c == 'I' || c == 'M');
            }
            Some('\\') => {
                self.rest.next();
                let delimiter = self.read_delimiter()?;
                self.skip_pattern(delimiter)?;
                self.skip_while(|c| c == 'I' || c == 'M');
            }
            Some(c) if c.is_ascii_digit() || c == '+' || c == '~' => {
                self.skip_while(|c| c.is_ascii_digit() || c == '+' || c == '~');
            }
            _ => {}
        }
        Some(())
    }

    fn scan_command(&mut self, notes: &mut CommandAnalysisBuilder) -> ScanResult {
        match self.rest.next()? {
            '{' => Some(()),
            '#' => {
                self.read_line();
                Some(())
            }
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {
                self.expect_end()
            }
            'q' | 'Q' | 'l' | 'L' => {
                self.skip_blanks();
                self.skip_while(|c| c.is_ascii_digit());
                self.expect_end()
            }
            ':' | 'b' | 't' | 'T' | 'v' => {
                self.skip_blanks();
                // Whitespace ends a label too, and the next command may follow directly.
                self.skip_while(|c| !c.is_whitespace() && !matches!(c, ';' | '}'));
                self.after_label = true;
                Some(())
            }
            'a' | 'i' | 'c' => self.skip_text(),
            'r' | 'R' => {
                let file = self.read_file_name()?;
                if file != "/dev/stdin" {
                    notes.record_read(&ShellArg::known(file), AccessDepth::Itself);
                }
                Some(())
            }
            'w' | 'W' => self.scan_write(notes),
            'e' => {
                let command = self.read_line();
                match command.trim() {
                    "" => notes.record_unknown_run("sed runs its pattern space"),
                    command => notes.record_script(&ShellArg::known(command)),
                }
                Some(())
            }
            's' => {
                let delimiter = self.read_delimiter()?;
                self.skip_pattern(delimiter)?;
                self.skip_until(delimiter)?;
                self.scan_flags(notes)
            }
            'y' => {
                let delimiter = self.read_delimiter()?;
                self.skip_until(delimiter)?;
                self.skip_until(delimiter)?;
                self.expect_end()
            }
            _ => None,
        }
    }

    /// The flags after `s/x/y/`.
    fn scan_flags(&mut self, notes: &mut CommandAnalysisBuilder) -> ScanResult {
        loop {
            match self.rest.peek().copied() {
                Some('e') => notes.record_unknown_run("sed runs its pattern space"),
                Some('w') => {
                    self.rest.next();
                    return self.scan_write(notes);
                }
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9') => {}
                _ => return self.expect_end(),
            }
            self.rest.next();
        }
    }

    fn scan_write(&mut self, notes: &mut CommandAnalysisBuilder) -> ScanResult {
        let file = self.read_file_name()?;
        if !matches!(file.as_str(), "/dev/stdout" | "/dev/stderr") {
            notes.record_write(&ShellArg::known(file), AccessDepth::Itself);
        }
        Some(())
    }

    /// A file name extends to the end of the line.
    fn read_file_name(&mut self) -> Option<String> {
        self.skip_blanks();
        Some(self.read_line()).filter(|name| !name.is_empty())
    }

    /// The text of `a`, `i` and `c`: up to the first line that does not end with a backslash.
    fn skip_text(&mut self) -> ScanResult {
        while let Some(c) = self.rest.peek().copied() {
            match c {
                '\n' => return Some(()),
                '\\' => {
                    self.rest.next();
                    self.rest.next().map_or(Some(()), |escaped| self.check_line_break(escaped))?;
                }
                _ => drop(self.rest.next()),
            }
        }
        Some(())
    }

    fn read_delimiter(&mut self) -> Option<char> {
        self.rest.next().filter(|c| !matches!(c, '\n' | '\\'))
    }

    /// Skips a pattern and its delimiter.
    fn skip_pattern(&mut self, delimiter: char) -> ScanResult {
        loop {
            match self.rest.next()? {
                c if c == delimiter => return Some(()),
                '\n' => return None,
                '\\' => {
                    let escaped = self.rest.next()?;
                    self.check_line_break(escaped)?;
                }
                '[' if self.brackets == BracketHandling::HideDelimiter => {
                    self.skip_bracket(delimiter)
                }
                _ => {}
            }
        }
    }

    /// Skips `…]` if it is closed on this line; otherwise the bracket is a plain character.
    fn skip_bracket(&mut self, delimiter: char) {
        let mut lookahead = self.rest.clone();
        if delimiter == '[' || delimiter == ']' {
            return;
        }
        lookahead.next_if_eq(&'^');
        lookahead.next_if_eq(&']');
        while let Some(c) = lookahead.next() {
            match c {
                '\n' => return,
                ']' => {
                    self.rest = lookahead;
                    return;
                }
                // `[:alpha:]` contains brackets of its own.
                '[' => {
                    if let Some(kind) = lookahead.next_if(|c| matches!(c, ':' | '.' | '=')) {
                        let mut last = ' ';
                        for c in lookahead.by_ref() {
                            if last == kind && c == ']' {
                                break;
                            }
                            last = c;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Skips a replacement and its delimiter.
    fn skip_until(&mut self, delimiter: char) -> ScanResult {
        loop {
            match self.rest.next()? {
                c if c == delimiter => return Some(()),
                '\\' => {
                    let escaped = self.rest.next()?;
                    self.check_line_break(escaped)?;
                }
                other => self.check_line_break(other)?,
            }
        }
    }

    /// A command may continue on the next line, unless this line may be a label.
    fn check_line_break(&self, passed: char) -> ScanResult {
        (passed != '\n' || !self.after_label).then_some(())
    }

    /// Checks that the command ends here.
    fn expect_end(&mut self) -> ScanResult {
        self.skip_while(|c| c.is_whitespace() && c != '\n');
        match self.rest.peek() {
            None | Some(';' | '\n' | '}' | '#') => Some(()),
            Some(_) => None,
        }
    }

    /// The rest of the line.
    fn read_line(&mut self) -> String {
        std::iter::from_fn(|| self.rest.next_if(|c| *c != '\n')).collect()
    }

    fn take_char(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn skip_blanks(&mut self) {
        self.skip_while(|c| c == ' ' || c == '\t');
    }

    fn skip_while(&mut self, skipped: impl Fn(char) -> bool) {
        while self.rest.next_if(|c| skipped(*c)).is_some() {}
    }
}
