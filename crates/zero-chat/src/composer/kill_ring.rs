//! Texts that were cut, to be inserted again.

use std::collections::VecDeque;

/// Most texts.
const TEXTS_MAX: usize = 32;
/// Most bytes of all texts together, except that the last one is always there.
const BYTES_MAX: usize = 4 << 20;

/// The texts that were cut, the last one at the front.
#[derive(Debug, Default)]
pub(super) struct KillRing {
    texts: VecDeque<String>,
}

/// Where a text was cut, seen from the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillDirection {
    /// Before the cursor.
    Back,
    /// After the cursor.
    Forward,
}

impl KillRing {
    /// Stores a text.
    pub(super) fn push(&mut self, text: String) {
        if !text.is_empty() {
            self.texts.push_front(text);
            self.trim();
        }
    }

    /// Adds to the last text, since both were cut one after the other.
    pub(super) fn extend(&mut self, text: String, direction: KillDirection) {
        match (self.texts.front_mut(), direction) {
            (Some(last), KillDirection::Back) => last.insert_str(0, &text),
            (Some(last), KillDirection::Forward) => last.push_str(&text),
            (None, _) => self.texts.push_front(text),
        }
        self.trim();
    }

    /// The text that was cut last.
    pub(super) fn last(&self) -> Option<&str> {
        self.texts.front().map(String::as_str)
    }

    /// Puts the last text behind all others and returns the one that was cut before it.
    pub(super) fn rotate(&mut self) -> Option<&str> {
        if !self.texts.is_empty() {
            self.texts.rotate_left(1);
        }
        self.last()
    }

    /// All texts.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    fn trim(&mut self) {
        let mut bytes: usize = self.texts.iter().map(String::len).sum();
        while self.texts.len() > TEXTS_MAX || (bytes > BYTES_MAX && self.texts.len() > 1) {
            bytes -= self.texts.pop_back().map_or(0, |text| text.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_rotates_through_texts() {
        let mut ring = KillRing::default();
        assert_eq!(ring.rotate(), None);
        for text in ["a", "b", "c", ""] {
            ring.push(text.to_owned());
        }
        assert_eq!(ring.last(), Some("c"));
        assert_eq!(ring.rotate(), Some("b"));
        assert_eq!(ring.rotate(), Some("a"));
        assert_eq!(ring.rotate(), Some("c"));
        ring.extend("x".to_owned(), KillDirection::Back);
        ring.extend("y".to_owned(), KillDirection::Forward);
        assert_eq!(ring.last(), Some("xcy"));
    }

    #[test]
    fn ring_is_bounded() {
        let mut ring = KillRing::default();
        for _ in 0..TEXTS_MAX + 5 {
            ring.push("x".to_owned());
        }
        assert_eq!(ring.texts().count(), TEXTS_MAX);
        ring.push("x".repeat(BYTES_MAX + 1));
        assert_eq!(ring.texts().count(), 1);
    }
}
