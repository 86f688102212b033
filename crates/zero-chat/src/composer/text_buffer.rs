//! A text with a cursor. Every change can be undone.

use std::ops::Range;

use super::grapheme::{line_end, line_start, next_boundary, previous_boundary, round_up, slice};
use super::undo_stack::{BufferChange, ChangeKind, UndoStack};

/// A text with a cursor that is always between two grapheme clusters.
#[derive(Debug, Default)]
pub(super) struct TextBuffer {
    text: String,
    cursor: usize,
    /// Grows with each change, so that others notice it.
    revision: u64,
    undo: UndoStack,
}

impl TextBuffer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Position of the cursor, in bytes.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    /// A number that differs after each change of the text.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The text before the cursor.
    pub(super) fn before_cursor(&self) -> &str {
        slice(&self.text, 0..self.cursor)
    }

    /// The character before the cursor.
    pub(super) fn char_before(&self) -> Option<char> {
        self.before_cursor().chars().next_back()
    }

    /// The character after the cursor.
    pub(super) fn char_after(&self) -> Option<char> {
        slice(&self.text, self.cursor..self.text.len()).chars().next()
    }

    /// Start of the line with the cursor.
    pub(super) fn line_start(&self) -> usize {
        line_start(&self.text, self.cursor)
    }

    /// End of the line with the cursor.
    pub(super) fn line_end(&self) -> usize {
        line_end(&self.text, self.cursor)
    }

    /// Moves the cursor, to the next boundary if the position is inside a cluster.
    pub(super) fn move_to(&mut self, at: usize) {
        self.cursor = round_up(&self.text, at);
        self.undo.seal();
    }

    /// Moves the cursor by one cluster.
    pub(super) fn move_left(&mut self) {
        self.move_to(previous_boundary(&self.text, self.cursor));
    }

    /// Moves the cursor by one cluster.
    pub(super) fn move_right(&mut self) {
        self.move_to(next_boundary(&self.text, self.cursor));
    }

    /// Inserts a text at the cursor, which is then behind it.
    pub(super) fn insert(&mut self, text: &str, kind: ChangeKind) {
        self.replace(self.cursor..self.cursor, text, kind);
    }

    /// Removes the cluster before the cursor.
    pub(super) fn erase_back(&mut self) {
        let start = previous_boundary(&self.text, self.cursor);
        self.replace(start..self.cursor, "", ChangeKind::ErasedBack);
    }

    /// Removes the cluster after the cursor.
    pub(super) fn erase_forward(&mut self) {
        let end = next_boundary(&self.text, self.cursor);
        self.replace(self.cursor..end, "", ChangeKind::ErasedForward);
    }

    /// Replaces a part of the text. The cursor is then behind what was inserted. A range that is not a
    /// part of the text, and a change that changes nothing, are ignored.
    pub(super) fn replace(&mut self, range: Range<usize>, text: &str, kind: ChangeKind) {
        let Some(removed) = self.text.get(range.clone()) else { return };
        if removed == text {
            return;
        }
        let (removed, before) = (removed.to_owned(), self.cursor);
        let at = range.start;
        self.text.replace_range(range, text);
        // Clusters may have become one: a letter that is put before a combining mark takes it.
        self.cursor = round_up(&self.text, at + text.len());
        self.revision += 1;
        let change = BufferChange { at, removed, inserted: text.to_owned() };
        self.undo.record(change, kind, (before, self.cursor));
    }

    /// Replaces the whole text and moves the cursor to a position.
    pub(super) fn replace_all(&mut self, text: &str, cursor: usize) {
        self.replace(0..self.text.len(), text, ChangeKind::Single);
        self.move_to(cursor);
    }

    /// Undoes the last group of changes. Returns whether there was one.
    pub(super) fn undo(&mut self) -> bool {
        let Some(group) = self.undo.pop_done() else { return false };
        for BufferChange { at, removed, inserted } in group.changes.iter().rev() {
            self.text.replace_range(*at..at + inserted.len(), removed);
        }
        self.cursor = group.cursor_before;
        self.revision += 1;
        self.undo.push_undone(group);
        true
    }

    /// Applies the group again that was undone last. Returns whether there was one.
    pub(super) fn redo(&mut self) -> bool {
        let Some(group) = self.undo.pop_undone() else { return false };
        for BufferChange { at, removed, inserted } in &group.changes {
            self.text.replace_range(*at..at + removed.len(), inserted);
        }
        self.cursor = group.cursor_after;
        self.revision += 1;
        self.undo.push_done(group);
        true
    }

    /// What can be undone.
    pub(super) fn undo_stack(&self) -> &UndoStack {
        &self.undo
    }

    /// What can be undone, to group changes.
    pub(super) fn undo_stack_mut(&mut self) -> &mut UndoStack {
        &mut self.undo
    }

    /// Forgets what could be undone.
    pub(super) fn forget_undo(&mut self) {
        self.undo = UndoStack::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::undo_stack::GROUPS_MAX;
    use super::*;

    fn type_text(buffer: &mut TextBuffer, text: &str) {
        for letter in text.chars() {
            buffer.insert(letter.encode_utf8(&mut [0; 4]), ChangeKind::Typed);
        }
    }

    #[test]
    fn typed_words_are_undone_one_by_one() {
        let mut buffer = TextBuffer::default();
        type_text(&mut buffer, "one two  three");
        let mut seen = Vec::new();
        while buffer.undo() {
            seen.push(buffer.text().to_owned());
        }
        assert_eq!(seen, ["one two  ", "one ", ""]);
        assert!(buffer.redo() && buffer.redo() && buffer.redo() && !buffer.redo());
        assert_eq!((buffer.text(), buffer.cursor()), ("one two  three", 14));
    }

    #[test]
    fn erased_letters_are_undone_together_until_cursor_moves() {
        let mut buffer = TextBuffer::default();
        buffer.insert("abcdef", ChangeKind::Single);
        buffer.erase_back();
        buffer.erase_back();
        buffer.move_left();
        buffer.erase_back();
        assert_eq!(buffer.text(), "abd");
        buffer.undo();
        assert_eq!((buffer.text(), buffer.cursor()), ("abcd", 3));
        buffer.undo();
        assert_eq!((buffer.text(), buffer.cursor()), ("abcdef", 6));
    }

    #[test]
    fn change_after_undo_forgets_redo() {
        let mut buffer = TextBuffer::default();
        type_text(&mut buffer, "a");
        buffer.undo();
        type_text(&mut buffer, "b");
        assert!(!buffer.redo());
        assert_eq!(buffer.text(), "b");
    }

    #[test]
    fn session_is_one_group() {
        let mut buffer = TextBuffer::default();
        type_text(&mut buffer, "x");
        buffer.undo_stack_mut().begin_session();
        type_text(&mut buffer, "a b");
        buffer.erase_back();
        buffer.move_to(0);
        type_text(&mut buffer, "c");
        buffer.undo_stack_mut().end_session();
        assert_eq!(buffer.text(), "cxa ");
        buffer.undo();
        assert_eq!(buffer.text(), "x");
        buffer.redo();
        assert_eq!(buffer.text(), "cxa ");
    }

    #[test]
    fn undo_depth_is_bounded() {
        let mut buffer = TextBuffer::default();
        for _ in 0..GROUPS_MAX + 50 {
            buffer.insert("ab", ChangeKind::Single);
        }
        assert_eq!(buffer.undo_stack().depth(), GROUPS_MAX);
        while buffer.undo() {}
        assert_eq!(buffer.text().len(), 100);
    }

    #[test]
    fn undo_bytes_are_bounded() {
        let mut buffer = TextBuffer::default();
        let large = "x".repeat(1 << 20);
        for _ in 0..20 {
            buffer.replace_all(&large, 0);
            buffer.replace_all("", 0);
        }
        let bytes: usize = buffer.undo_stack().texts().map(str::len).sum();
        assert!(bytes <= 16 << 20, "{bytes}");
        assert!(buffer.undo());
        assert_eq!(buffer.text(), large);
    }

    #[test]
    fn cursor_leaves_cluster_that_a_change_made() {
        let mut buffer = TextBuffer::default();
        buffer.insert("x\u{301}", ChangeKind::Single);
        buffer.move_to(0);
        buffer.erase_forward();
        assert_eq!(buffer.text(), "");
        buffer.insert("\u{301}", ChangeKind::Single);
        buffer.move_to(0);
        buffer.insert("e", ChangeKind::Typed);
        assert_eq!((buffer.text(), buffer.cursor()), ("e\u{301}", 3));
    }
}
