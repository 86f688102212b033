//! Wraps styled text at words.

use anstyle::Style;

use crate::TerminalStream;
use crate::text_width::char_columns;

/// Smallest room for text; a narrower window wraps by itself.
const ROOM_MIN: usize = 16;

/// A piece of text with its style; a line break is a break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StyledSpan {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// A row of text that fits, and its width in columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StyledRow {
    pub(crate) spans: Vec<StyledSpan>,
    pub(crate) columns: usize,
}

impl StyledRow {
    fn push(&mut self, letter: char, style: Style) {
        self.columns += char_columns(letter);
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.text.push(letter),
            _ => self.spans.push(StyledSpan { text: letter.to_string(), style }),
        }
    }

    fn append(&mut self, other: Self) {
        for span in other.spans {
            span.text.chars().for_each(|letter| self.push(letter, span.style));
        }
    }

    /// The row with its styles.
    pub(crate) fn paint(&self, stream: &TerminalStream) -> String {
        self.spans.iter().map(|span| stream.paint(span.style, &span.text)).collect()
    }
}

/// The columns of the widest line.
pub(crate) fn measure_spans(spans: &[StyledSpan]) -> usize {
    let mut widest = 0;
    let mut columns = 0;
    for letter in spans.iter().flat_map(|span| span.text.chars()) {
        columns = if letter == '\n' { 0 } else { columns + char_columns(letter) };
        widest = widest.max(columns);
    }
    widest
}

/// Splits into rows of at most `room` columns, between words if possible; at least one row.
pub(crate) fn wrap_spans(spans: &[StyledSpan], room: usize) -> Vec<StyledRow> {
    let room = room.max(ROOM_MIN);
    let mut rows = Vec::new();
    let mut row = StyledRow::default();
    let mut word = StyledRow::default();
    // Spaces before the word: dropped where a row is broken.
    let mut gap = StyledRow::default();
    let letters = spans.iter().flat_map(|span| span.text.chars().map(|c| (c, span.style)));
    for (letter, style) in letters {
        match letter {
            '\n' | ' ' | '\t' => {
                if word.columns > 0 {
                    row.append(std::mem::take(&mut gap));
                    row.append(std::mem::take(&mut word));
                }
                if letter == '\n' {
                    gap = StyledRow::default();
                    rows.push(std::mem::take(&mut row));
                } else {
                    gap.push(' ', style);
                }
            }
            letter => {
                // A word that is longer than a row.
                if word.columns + char_columns(letter) > room {
                    rows.extend((row.columns > 0).then(|| std::mem::take(&mut row)));
                    rows.push(std::mem::take(&mut word));
                    gap = StyledRow::default();
                }
                word.push(letter, style);
                if row.columns + gap.columns + word.columns > room {
                    rows.extend((row.columns > 0).then(|| std::mem::take(&mut row)));
                    gap = StyledRow::default();
                }
            }
        }
    }
    if word.columns > 0 {
        row.append(gap);
        row.append(word);
    }
    if row.columns > 0 || rows.is_empty() {
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::STRONG;

    fn span(text: &str, style: Style) -> StyledSpan {
        StyledSpan { text: text.to_owned(), style }
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let rows = wrap_spans(&[span(text, Style::new())], ROOM_MIN);
        let texts: Vec<String> = rows
            .iter()
            .map(|row| row.spans.iter().map(|span| span.text.as_str()).collect())
            .collect();
        assert_eq!(texts, expected);
        for row in rows {
            assert!(row.columns <= ROOM_MIN, "{row:?}");
        }
    }

    #[test]
    fn rows_break_between_words() {
        check("", &[""]);
        check("one two", &["one two"]);
        check("one two three four five", &["one two three", "four five"]);
        check("1234567890123456 x", &["1234567890123456", "x"]);
        check("a\nb\n\nc", &["a", "b", "", "c"]);
        check("  indented", &["  indented"]);
        check("界界界界界界界界界", &["界界界界界界界界", "界"]);
        check(&"x".repeat(40), &[&"x".repeat(16), &"x".repeat(16), &"x".repeat(8)]);
    }

    #[test]
    fn word_of_several_styles_stays_together() {
        let spans = [span("one two three fo", Style::new()), span("ur", STRONG)];
        let rows = wrap_spans(&spans, ROOM_MIN);
        assert_eq!(rows[0].spans, [span("one two three", Style::new())]);
        assert_eq!(rows[1].spans, [span("fo", Style::new()), span("ur", STRONG)]);
        assert_eq!(measure_spans(&spans), 18);
    }
}
