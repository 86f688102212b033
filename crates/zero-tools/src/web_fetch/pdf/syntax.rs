//! The syntax of PDF ([`PdfValueReader`]): numbers, names, strings, lists and dictionaries.

use std::collections::BTreeMap;

use super::PdfBudget;

/// Most nested lists and dictionaries.
const DEPTH_MAX: usize = 24;
/// Longest name or keyword, in bytes.
const WORD_BYTES_MAX: usize = 128;
/// Longest string, in bytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// A PDF dictionary.
pub(super) type PdfDict = BTreeMap<String, PdfValue>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PdfValue {
    Null,
    Number(f64),
    Name(String),
    Text(Vec<u8>),
    List(Vec<PdfValue>),
    Dict(PdfDict),
    /// A reference to another object, by its number.
    Reference(u32),
    /// Anything else: `true`, `obj`, an operator of a page.
    Keyword(String),
}

impl PdfValue {
    pub(super) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn as_name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> Option<&[PdfValue]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    pub(super) fn as_dict(&self) -> Option<&PdfDict> {
        match self {
            Self::Dict(dict) => Some(dict),
            _ => None,
        }
    }

    fn is_keyword(&self, word: &str) -> bool {
        matches!(self, Self::Keyword(own) if own == word)
    }
}

/// Reads values one by one.
pub(super) struct PdfValueReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> PdfValueReader<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()) }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn skip_to(&mut self, at: usize) {
        self.at = at.clamp(self.at, self.bytes.len());
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Returns the next value, or `None` at the end or when the budget is exceeded.
    pub(super) fn read_value(&mut self, budget: &mut PdfBudget) -> Option<PdfValue> {
        let start = self.at;
        let value = self.read_value_at_depth(0, budget);
        let covered = budget.spend_work(self.at.saturating_sub(start).max(1));
        value.filter(|_| covered)
    }

    fn read_value_at_depth(&mut self, depth: usize, budget: &mut PdfBudget) -> Option<PdfValue> {
        if !budget.spend_value() {
            return None;
        }
        self.skip_space();
        match self.peek()? {
            b'/' => {
                self.at += 1;
                Some(PdfValue::Name(self.read_name()))
            }
            b'(' => Some(PdfValue::Text(self.read_text())),
            b'<' if self.rest().starts_with(b"<<") => {
                self.at += 2;
                self.read_dict(depth, budget).map(PdfValue::Dict)
            }
            b'<' => Some(PdfValue::Text(self.read_hex())),
            b'[' => {
                self.at += 1;
                self.read_list(depth, budget).map(PdfValue::List)
            }
            b'>' | b']' | b'{' | b'}' | b')' => {
                let end = if self.rest().starts_with(b">>") { 2 } else { 1 };
                let word = self.rest().get(..end).unwrap_or_default();
                let word = String::from_utf8_lossy(word).into_owned();
                self.at += end;
                Some(PdfValue::Keyword(word))
            }
            b'+' | b'-' | b'.' | b'0'..=b'9' => Some(self.read_number_or_reference()),
            _ => {
                let word = self.read_keyword();
                Some(if word == "null" { PdfValue::Null } else { PdfValue::Keyword(word) })
            }
        }
    }

    fn read_list(&mut self, depth: usize, budget: &mut PdfBudget) -> Option<Vec<PdfValue>> {
        if depth >= DEPTH_MAX {
            return None;
        }
        let mut list = Vec::new();
        loop {
            match self.read_value_at_depth(depth + 1, budget)? {
                end if end.is_keyword("]") => return Some(list),
                // The end of something else: this list was not closed.
                end if end.is_keyword(">>") || end.is_keyword("endobj") => return Some(list),
                value => list.push(value),
            }
        }
    }

    fn read_dict(&mut self, depth: usize, budget: &mut PdfBudget) -> Option<PdfDict> {
        if depth >= DEPTH_MAX {
            return None;
        }
        let mut dict = PdfDict::new();
        loop {
            match self.read_value_at_depth(depth + 1, budget)? {
                PdfValue::Name(name) => match self.read_value_at_depth(depth + 1, budget)? {
                    end if end.is_keyword(">>") => return Some(dict),
                    value => drop(dict.insert(name, value)),
                },
                end if end.is_keyword(">>") || end.is_keyword("endobj") => return Some(dict),
                _ => {}
            }
        }
    }

    pub(super) fn skip_space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'%' => {
                    let line = self.rest().iter().position(|b| matches!(b, b'\n' | b'\r'));
                    self.at += line.unwrap_or(self.rest().len());
                }
                byte if is_space(byte) => self.at += 1,
                _ => break,
            }
        }
    }

    fn take_regular(&mut self) -> &'a [u8] {
        let length = self.rest().iter().position(|byte| !is_regular(*byte));
        let word = self.rest().get(..length.unwrap_or(self.rest().len())).unwrap_or_default();
        self.at += word.len();
        word
    }

    fn read_keyword(&mut self) -> String {
        let word = self.take_regular();
        if word.is_empty() {
            // Every step consumes at least one byte.
            self.at += 1;
        }
        String::from_utf8_lossy(word.get(..word.len().min(WORD_BYTES_MAX)).unwrap_or_default())
            .into_owned()
    }

    fn read_name(&mut self) -> String {
        let written = self.take_regular();
        let written = written.get(..written.len().min(WORD_BYTES_MAX)).unwrap_or_default();
        let mut name = Vec::with_capacity(written.len());
        let mut bytes = written.iter();
        while let Some(byte) = bytes.next() {
            let escaped = match (byte, bytes.as_slice()) {
                (b'#', [high, low, ..]) => hex_digit(*high).zip(hex_digit(*low)),
                _ => None,
            };
            match escaped {
                Some((high, low)) => {
                    name.push(high << 4 | low);
                    bytes.next();
                    bytes.next();
                }
                None => name.push(*byte),
            }
        }
        String::from_utf8_lossy(&name).into_owned()
    }

    fn read_number_or_reference(&mut self) -> PdfValue {
        let first = self.take_regular();
        let after = self.at;
        if let Some(object) = parse_integer(first) {
            self.skip_space();
            let generation = self.take_regular();
            self.skip_space();
            if parse_integer(generation).is_some() && self.take_regular() == b"R" {
                return PdfValue::Reference(object);
            }
            self.at = after;
        }
        let text = std::str::from_utf8(first).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => PdfValue::Number(number),
            _ if first.is_empty() => PdfValue::Null,
            // Some programs write `--5` or `1.2.3`; the intended value is not guessed.
            _ => PdfValue::Number(0.0),
        }
    }

    fn read_text(&mut self) -> Vec<u8> {
        self.at += 1;
        let mut text = Vec::new();
        let mut open = 1_usize;
        while let Some(byte) = self.peek() {
            self.at += 1;
            let byte = match byte {
                b'(' => {
                    open += 1;
                    byte
                }
                b')' => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                    byte
                }
                b'\\' => match self.read_escape() {
                    Some(byte) => byte,
                    None => continue,
                },
                byte => byte,
            };
            if text.len() < TEXT_BYTES_MAX {
                text.push(byte);
            }
        }
        text
    }

    /// Reads what follows a backslash; `None` for a line continuation.
    fn read_escape(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'f' => 12,
            b'0'..=b'7' => {
                let mut value = u32::from(byte - b'0');
                for _ in 0..2 {
                    match self.peek() {
                        Some(digit @ b'0'..=b'7') => {
                            value = value * 8 + u32::from(digit - b'0');
                            self.at += 1;
                        }
                        _ => break,
                    }
                }
                u8::try_from(value & 0xff).unwrap_or_default()
            }
            b'\r' => {
                if self.peek() == Some(b'\n') {
                    self.at += 1;
                }
                return None;
            }
            b'\n' => return None,
            other => other,
        })
    }

    fn read_hex(&mut self) -> Vec<u8> {
        self.at += 1;
        let (mut text, mut high) = (Vec::new(), None);
        while let Some(byte) = self.peek() {
            self.at += 1;
            if byte == b'>' {
                break;
            }
            let Some(digit) = hex_digit(byte) else { continue };
            match high.take() {
                None => high = Some(digit),
                Some(high) if text.len() < TEXT_BYTES_MAX => text.push(high << 4 | digit),
                Some(_) => {}
            }
        }
        text.extend(high.map(|high| high << 4));
        text
    }
}

/// Parses an unsigned integer, such as an object number.
pub(super) fn parse_integer(bytes: &[u8]) -> Option<u32> {
    let digits = !bytes.is_empty() && bytes.len() <= 10 && bytes.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bytes).ok().filter(|_| digits)?.parse().ok()
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 12 | 0)
}

fn is_regular(byte: u8) -> bool {
    !is_space(byte)
        && !matches!(byte, b'/' | b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'%')
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
