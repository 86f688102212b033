//! Text that grows up to a bound: beyond it, its middle is left out.
//!
//! The beginning of an output says what ran and its end says how it went, so both stay.

use zero_core::digit_grouping::group_digits;
use zero_core::text_shortening::{head, tail};

/// A text of bounded size. If something was left out, a line in its place says how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedText {
    text: String,
    bytes_max: usize,
    gap: Option<TextGap>,
}

/// What was left out of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextGap {
    /// Where the line about it begins.
    start: usize,
    /// Where the rest of the text begins.
    end: usize,
    bytes: usize,
    lines: usize,
}

impl BoundedText {
    /// An empty text that keeps about `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { text: String::new(), bytes_max, gap: None }
    }

    /// Keeps about `bytes_max` bytes of a text.
    pub fn from_text(text: &str, bytes_max: usize) -> Self {
        let mut bounded = Self::new(bytes_max);
        bounded.push(text);
        bounded
    }

    /// Adds text at the end.
    pub fn push(&mut self, text: &str) {
        if self.text.len() + text.len() <= self.bytes_limit() {
            self.text.push_str(text);
            return;
        }
        let head_max = self.bytes_max / 3;
        let room = match self.gap {
            Some(_) => 0,
            None => head_max.saturating_sub(self.text.len()),
        };
        let first = head(text, room);
        self.text.push_str(first);
        let rest = text.get(first.len()..).unwrap_or_default();
        let kept = tail(rest, self.bytes_max - head_max);
        let skipped = rest.get(..rest.len() - kept.len()).unwrap_or_default();
        self.shorten(skipped, kept);
    }

    /// The text, with a line in place of what was left out.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Number of line breaks that were left out.
    pub fn lines_left_out(&self) -> usize {
        self.gap.map_or(0, |gap| gap.lines)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Whether there is nothing but blanks.
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// A text is shortened only after it has grown by a quarter, so that pieces cost little.
    fn bytes_limit(&self) -> usize {
        self.bytes_max.saturating_add(self.bytes_max / 4)
    }

    /// Adds `kept`, and leaves out `skipped` together with as much before it as is too much.
    fn shorten(&mut self, skipped: &str, kept: &str) {
        let head_max = self.bytes_max / 3;
        let TextGap { start, end, bytes, lines } = self.gap.unwrap_or_else(|| {
            let start = head(&self.text, head_max).len();
            TextGap { start, end: start, bytes: 0, lines: 0 }
        });
        let tail_max = (self.bytes_max - head_max).saturating_sub(kept.len());
        let before = self.text.get(end..).unwrap_or_default();
        // Skipped text would be a gap within the end.
        let before_kept = if skipped.is_empty() { tail(before, tail_max) } else { "" };
        let dropped = before.get(..before.len() - before_kept.len()).unwrap_or_default();
        let bytes = bytes + dropped.len() + skipped.len();
        let lines = lines + count_breaks(dropped) + count_breaks(skipped);
        if bytes == 0 {
            self.text.push_str(kept);
            return;
        }
        let shown = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mark = format!("\n[{} bytes left out]\n", group_digits(shown));
        let rest = format!("{before_kept}{kept}");
        self.text.truncate(start);
        self.text.push_str(&mark);
        self.gap = Some(TextGap { start, end: self.text.len(), bytes, lines });
        self.text.push_str(&rest);
    }
}

fn count_breaks(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_kept_as_it_is() {
        let mut text = BoundedText::from_text("ab\n", 30);
        text.push("cd");
        assert_eq!((text.as_str(), text.lines_left_out()), ("ab\ncd", 0));
        assert!(!text.is_blank());
        assert!(BoundedText::from_text(" \n", 9).is_blank());
    }

    #[test]
    fn long_text_keeps_beginning_and_end_with_count() {
        let long: String = (0..100).map(|line| format!("{line:02}\n")).collect();
        let text = BoundedText::from_text(&long, 30);
        let end: String = (94..100).map(|line| format!("{line:02}\n")).collect();
        let expected = format!("00\n01\n02\n0\n[270 bytes left out]\n3\n{end}");
        assert_eq!(text.as_str(), expected);
        assert_eq!(text.lines_left_out(), 90);
    }

    #[test]
    fn text_in_pieces_stays_within_bound_and_counts_all() {
        let mut text = BoundedText::new(300);
        for number in 0..1_000 {
            text.push(&format!("{number:03}\n"));
            assert!(text.bytes() < 300 * 5 / 4 + 40, "{}", text.bytes());
        }
        assert!(text.as_str().starts_with("000\n001\n"));
        assert!(text.as_str().ends_with("998\n999\n"));
        let shown = text.as_str().lines().filter(|line| line.len() == 3).count();
        assert!(shown + text.lines_left_out() >= 998, "{shown} {}", text.lines_left_out());
        let kept: usize = text.as_str().split("[").next().unwrap().len() - 1;
        let rest = text.as_str().split("]\n").nth(1).unwrap().len();
        let mark = text.as_str().split(['[', ' ']).nth(1).unwrap().replace(',', "");
        assert_eq!(kept + rest + mark.parse::<usize>().unwrap(), 4_000);
    }
}
