//! A text that the user types and edits in place.

use zero_core::sanitize::escape_line;

use super::key::Key;
use super::live_area::CursorPosition;
use super::text_width::text_columns;

/// Fewest columns that text is wrapped to.
const COLUMNS_MIN: usize = 8;

/// A text with a cursor.
#[derive(Debug)]
pub struct TextField {
    letters: Vec<char>,
    /// Index of the letter after the cursor.
    cursor: usize,
    letters_max: usize,
    lines: FieldLines,
}

/// How many lines a field can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLines {
    /// One line.
    One,
    /// Several; Ctrl-J begins a new one.
    Many,
}

/// What a key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldEvent {
    /// The text or the cursor may have changed.
    Edited,
    /// The user is done.
    Submitted,
    /// The user wants nothing of it.
    Cancelled,
}

impl TextField {
    /// A field with a text, and the cursor at its end.
    pub fn new(text: &str, letters_max: usize, lines: FieldLines) -> Self {
        let letters: Vec<char> = text.chars().take(letters_max).collect();
        Self { cursor: letters.len(), letters, letters_max, lines }
    }

    /// The text as it is now.
    pub fn text(&self) -> String {
        self.letters.iter().collect()
    }

    /// Edits the text, or says that the user is done with it.
    pub fn apply_key(&mut self, key: Key) -> FieldEvent {
        match key {
            Key::Enter => return FieldEvent::Submitted,
            Key::Ctrl('j') if self.lines == FieldLines::One => return FieldEvent::Submitted,
            Key::Escape | Key::Ctrl('c') => return FieldEvent::Cancelled,
            Key::Ctrl('d') if self.letters.is_empty() => return FieldEvent::Cancelled,
            Key::Ctrl('j') => self.insert('\n'),
            Key::Char(letter) => self.insert(letter),
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.letters.remove(self.cursor);
            }
            Key::Delete | Key::Ctrl('d') if self.cursor < self.letters.len() => {
                self.letters.remove(self.cursor);
            }
            Key::Left | Key::Ctrl('b') => self.cursor = self.cursor.saturating_sub(1),
            Key::Right | Key::Ctrl('f') => self.cursor = (self.cursor + 1).min(self.letters.len()),
            Key::Home | Key::Ctrl('a') => self.cursor = self.line_start(),
            Key::End | Key::Ctrl('e') => self.cursor = self.line_end(),
            Key::Ctrl('u') => {
                let start = self.line_start();
                self.letters.drain(start..self.cursor);
                self.cursor = start;
            }
            Key::Ctrl('k') => {
                let end = self.line_end();
                self.letters.drain(self.cursor..end);
            }
            Key::Ctrl('w') => self.erase_word(),
            _ => {}
        }
        FieldEvent::Edited
    }

    fn insert(&mut self, letter: char) {
        if self.letters.len() < self.letters_max {
            self.letters.insert(self.cursor, letter);
            self.cursor += 1;
        }
    }

    fn line_start(&self) -> usize {
        let before = self.letters.get(..self.cursor).unwrap_or_default();
        before.iter().rposition(|letter| *letter == '\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        let after = self.letters.get(self.cursor..).unwrap_or_default();
        let length = after.iter().position(|letter| *letter == '\n').unwrap_or(after.len());
        self.cursor + length
    }

    fn erase_word(&mut self) {
        let before = self.letters.get(..self.cursor).unwrap_or_default();
        let blanks = before.iter().rev().take_while(|letter| letter.is_whitespace()).count();
        let word = before.iter().rev().skip(blanks).take_while(|letter| !letter.is_whitespace());
        let start = self.cursor - blanks - word.count();
        self.letters.drain(start..self.cursor);
        self.cursor = start;
    }

    /// The rows to show and the position of the cursor in them. Of more than `rows_max` rows, those
    /// around the cursor are shown.
    pub fn layout(&self, columns: usize, rows_max: usize) -> (Vec<String>, CursorPosition) {
        let columns = columns.max(COLUMNS_MIN);
        let mut rows = vec![String::new()];
        let (mut used, mut position) = (0, CursorPosition { row: 0, column: 0 });
        for (at, letter) in self.letters.iter().chain([&' ']).enumerate() {
            let mut bytes = [0; 4];
            let shown = escape_line(letter.encode_utf8(&mut bytes)).into_owned();
            let shown = if *letter == '\n' { " ".to_owned() } else { shown };
            let width = text_columns(&shown);
            if used + width > columns {
                rows.push(String::new());
                used = 0;
            }
            if at == self.cursor {
                position = CursorPosition { row: rows.len() - 1, column: used };
            }
            if *letter == '\n' {
                rows.push(String::new());
                used = 0;
            } else if let Some(row) = rows.last_mut().filter(|_| at < self.letters.len()) {
                row.push_str(&shown);
                used += width;
            }
        }
        let rows_max = rows_max.max(1);
        let first = (position.row + 1).saturating_sub(rows_max);
        let shown = rows.into_iter().skip(first).take(rows_max).collect();
        (shown, CursorPosition { row: position.row - first, ..position })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_keys(field: &mut TextField, keys: &[Key]) -> FieldEvent {
        keys.iter().map(|key| field.apply_key(*key)).last().unwrap_or(FieldEvent::Edited)
    }

    #[test]
    fn field_edits_at_cursor() {
        use Key::*;
        #[track_caller]
        fn check(keys: &[Key], expected: &str) {
            let mut field = TextField::new("git push", 12, FieldLines::One);
            type_keys(&mut field, keys);
            assert_eq!(field.text(), expected, "{keys:?}");
        }
        check(&[Char('!')], "git push!");
        check(&[Home, Char('a'), Char('b')], "abgit push");
        check(&[Backspace, Left, Delete], "git pu");
        check(&[Ctrl('w'), Char('x')], "git x");
        check(&[Left, Left, Ctrl('u')], "sh");
        check(&[Ctrl('a'), Right, Right, Right, Ctrl('k')], "git");
        check(&[Char('1'), Char('2'), Char('3'), Char('4'), Char('5')], "git push1234");
        check(&[Unknown, PageUp, Up], "git push");
    }

    #[test]
    fn field_ends_with_enter_or_escape() {
        use Key::*;
        let mut field = TextField::new("", 9, FieldLines::Many);
        assert_eq!(type_keys(&mut field, &[Char('a'), Ctrl('j')]), FieldEvent::Edited);
        assert_eq!(field.text(), "a\n");
        assert_eq!(field.apply_key(Enter), FieldEvent::Submitted);
        assert_eq!(field.apply_key(Escape), FieldEvent::Cancelled);
        assert_eq!(field.apply_key(Ctrl('c')), FieldEvent::Cancelled);
        let mut field = TextField::new("", 9, FieldLines::One);
        assert_eq!(field.apply_key(Ctrl('d')), FieldEvent::Cancelled);
        assert_eq!(field.apply_key(Ctrl('j')), FieldEvent::Submitted);
    }

    #[test]
    fn layout_wraps_and_escapes_and_follows_cursor() {
        let field = TextField::new("abcdefghij", 99, FieldLines::One);
        let (rows, cursor) = field.layout(8, 9);
        assert_eq!((rows, cursor), (vec!["abcdefgh".into(), "ij".into()], at(1, 2)));
        let (rows, cursor) = TextField::new("a\x1b\nb\n", 99, FieldLines::Many).layout(40, 9);
        assert_eq!(rows, ["a\\u{1b}", "b", ""]);
        assert_eq!(cursor, at(2, 0));
        let (rows, cursor) = TextField::new("1\n2\n3\n4", 99, FieldLines::Many).layout(40, 2);
        assert_eq!((rows, cursor), (vec!["3".into(), "4".into()], at(1, 1)));
        let (rows, cursor) = TextField::new("界界界界", 99, FieldLines::One).layout(8, 9);
        assert_eq!((rows, cursor), (vec!["界界界界".into(), String::new()], at(1, 0)));
    }

    fn at(row: usize, column: usize) -> CursorPosition {
        CursorPosition { row, column }
    }
}
