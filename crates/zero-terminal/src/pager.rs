//! Shows lines on a screen of their own, a page at a time, and returns to the screen before.

use std::io;

use super::key::Key;
use super::key_reader::KeyReader;
use super::{FAINT, TerminalStream, WindowSize};

/// Switches to the alternate screen.
const ENTER_SCREEN: &str = "\x1b[?1049h";
/// Returns to the screen before.
const LEAVE_SCREEN: &str = "\x1b[?1049l";

/// Lets the user read `rows` until they press a key to return. The rows must fit into the window's
/// width. Keys that were pressed before do not count. Where output is only appended, all rows are.
pub fn show_pages(stream: &TerminalStream, keys: &KeyReader, rows: &[String]) -> io::Result<()> {
    if stream.appends_only() {
        return stream.write(&format!("\n{}\n", rows.join("\n")));
    }
    stream.write(ENTER_SCREEN)?;
    let _screen = ScreenGuard { stream };
    let mut page = PageView { rows, first: 0 };
    keys.discard()?;
    loop {
        let size = stream.window_size();
        stream.write(&page.render(stream, size))?;
        match keys.next_key()? {
            Some(key) => match page.apply_key(key, size) {
                PagerEvent::Moved => {}
                PagerEvent::Left => return Ok(()),
            },
            None => return Ok(()),
        }
    }
}

/// Leaves the alternate screen, whatever ends the reading.
struct ScreenGuard<'a> {
    stream: &'a TerminalStream,
}

impl Drop for ScreenGuard<'_> {
    fn drop(&mut self) {
        let _ = self.stream.write(LEAVE_SCREEN);
    }
}

struct PageView<'a> {
    rows: &'a [String],
    /// Index of the first row on the page.
    first: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum PagerEvent {
    Moved,
    Left,
}

impl PageView<'_> {
    /// Rows of the window without the line with the keys.
    fn page_rows(size: WindowSize) -> usize {
        size.rows.saturating_sub(1).max(1)
    }

    fn last_first(&self, size: WindowSize) -> usize {
        self.rows.len().saturating_sub(Self::page_rows(size))
    }

    fn apply_key(&mut self, key: Key, size: WindowSize) -> PagerEvent {
        let page = Self::page_rows(size);
        self.first = match key {
            Key::Char('q' | 'v') | Key::Escape | Key::Enter | Key::Ctrl('c') => {
                return PagerEvent::Left;
            }
            Key::Down | Key::Char('j') => self.first + 1,
            Key::Up | Key::Char('k') => self.first.saturating_sub(1),
            Key::PageDown | Key::Char(' ' | 'f') => self.first + page,
            Key::PageUp | Key::Char('b') => self.first.saturating_sub(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            _ => self.first,
        };
        self.first = self.first.min(self.last_first(size));
        PagerEvent::Moved
    }

    fn render(&self, stream: &TerminalStream, size: WindowSize) -> String {
        let page = Self::page_rows(size);
        let mut text = String::from("\x1b[H\x1b[J");
        let shown = self.rows.iter().skip(self.first).take(page);
        for row in shown.clone() {
            text.push_str(row);
            text.push('\n');
        }
        let last = self.first + shown.len();
        let keys = format!(
            "lines {} to {last} of {}; space, b, arrows: move; q: back",
            (self.first + 1).min(last),
            self.rows.len()
        );
        text.push_str(&stream.paint(FAINT, &super::truncate_to_columns(&keys, size.columns - 1)));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerSource, Terminal};

    #[test]
    fn pager_moves_within_its_rows() {
        let rows: Vec<String> = (1..=50).map(|row| format!("row {row}")).collect();
        let size = WindowSize { rows: 11, columns: 40 };
        let mut page = PageView { rows: &rows, first: 0 };
        for (key, first) in [
            (Key::Up, 0),
            (Key::Down, 1),
            (Key::PageDown, 11),
            (Key::End, 40),
            (Key::PageDown, 40),
            (Key::PageUp, 30),
            (Key::Char('y'), 30),
            (Key::Home, 0),
        ] {
            assert_eq!(page.apply_key(key, size), PagerEvent::Moved);
            assert_eq!(page.first, first, "{key:?}");
        }
        assert_eq!(page.apply_key(Key::Escape, size), PagerEvent::Left);
        let stream = Terminal::for_test().err.with_columns(80).without_colours();
        let text = page.render(&stream, size);
        assert_eq!(text.lines().count(), 11, "{text}");
        assert!(text.ends_with("lines 1 to 10 of 50; space, b, arrows:…"), "{text}");
    }

    #[test]
    fn pager_returns_to_the_screen_before() {
        let stream = Terminal::for_test().err.with_columns(80);
        let keys = AnswerSource::from_keys("q").open_keys_for_test();
        show_pages(&stream, &keys, &["one".to_owned()]).unwrap();
        let text = stream.written_text();
        assert!(text.starts_with(ENTER_SCREEN) && text.ends_with(LEAVE_SCREEN), "{text:?}");
    }
}
