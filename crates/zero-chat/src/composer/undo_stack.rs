//! Changes of a text in groups that are undone together, such as a word that was typed.

use std::collections::VecDeque;

/// Most groups that can be undone.
pub(super) const GROUPS_MAX: usize = 500;
/// Most bytes of text in all groups; the oldest groups go first.
const BYTES_MAX: usize = 16 << 20;
/// Most changes in a group.
const GROUP_CHANGES_MAX: usize = 1_000;
/// Bytes after which a group takes no more changes.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// Longest text that consecutive keys add to a change.
const MERGED_BYTES_MAX: usize = 512;

/// A text that took the place of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BufferChange {
    /// Position of the first byte.
    pub(super) at: usize,
    /// Text that was there before.
    pub(super) removed: String,
    /// Text that is there now.
    pub(super) inserted: String,
}

/// How a change came about: keys of the same kind in a row are undone together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// A typed character.
    Typed,
    /// The character before the cursor was removed.
    ErasedBack,
    /// The character after the cursor was removed.
    ErasedForward,
    /// Anything else: a group of its own.
    Single,
}

/// Changes that are undone together, and where the cursor was.
#[derive(Debug)]
pub(super) struct ChangeGroup {
    kind: ChangeKind,
    /// The changes, oldest first.
    pub(super) changes: Vec<BufferChange>,
    /// Position of the cursor before the first change.
    pub(super) cursor_before: usize,
    /// Position of the cursor after the last change.
    pub(super) cursor_after: usize,
}

/// What can be undone and done again.
#[derive(Debug, Default)]
pub(super) struct UndoStack {
    done: VecDeque<ChangeGroup>,
    undone: Vec<ChangeGroup>,
    /// Bytes of the texts in both.
    bytes: usize,
    /// Whether the last group takes no more changes.
    is_sealed: bool,
    /// Whether changes belong to one group until the session ends.
    is_session: bool,
}

impl BufferChange {
    fn bytes(&self) -> usize {
        self.removed.len() + self.inserted.len()
    }
}

impl ChangeGroup {
    fn has_room(&self) -> bool {
        self.changes.len() < GROUP_CHANGES_MAX && self.bytes() < GROUP_BYTES_MAX
    }

    fn bytes(&self) -> usize {
        self.changes.iter().map(BufferChange::bytes).sum()
    }
}

impl UndoStack {
    /// Records a change that was made. Groups that were undone are forgotten.
    pub(super) fn record(
        &mut self,
        change: BufferChange,
        kind: ChangeKind,
        cursor: (usize, usize),
    ) {
        let forgotten: usize = self.undone.drain(..).map(|group| group.bytes()).sum();
        self.bytes = (self.bytes + change.bytes()).saturating_sub(forgotten);
        if let Some(change) = self.add_to_last_group(change, kind, cursor.1) {
            self.done.push_back(ChangeGroup {
                kind,
                changes: vec![change],
                cursor_before: cursor.0,
                cursor_after: cursor.1,
            });
            self.is_sealed = false;
        }
        while self.done.len() > GROUPS_MAX || (self.bytes > BYTES_MAX && self.done.len() > 1) {
            let oldest = self.done.pop_front().map_or(0, |group| group.bytes());
            self.bytes = self.bytes.saturating_sub(oldest);
        }
    }

    /// Adds the change to the last group, or returns it if a new group begins.
    fn add_to_last_group(
        &mut self,
        change: BufferChange,
        kind: ChangeKind,
        cursor_after: usize,
    ) -> Option<BufferChange> {
        let is_session = self.is_session;
        let Some(group) = self.done.back_mut().filter(|_| !self.is_sealed) else {
            return Some(change);
        };
        if !is_session && (kind != group.kind || kind == ChangeKind::Single) {
            return Some(change);
        }
        let rejected = match group.changes.last_mut() {
            Some(last) => merge(last, change, kind),
            None => Some(change),
        };
        match rejected {
            Some(change) if is_session && group.has_room() => group.changes.push(change),
            Some(change) => return Some(change),
            None => {}
        }
        group.cursor_after = cursor_after;
        None
    }

    /// Ends the last group, as when the cursor is moved.
    pub(super) fn seal(&mut self) {
        self.is_sealed |= !self.is_session;
    }

    /// Makes all further changes one group, until [`UndoStack::end_session`].
    pub(super) fn begin_session(&mut self) {
        self.is_sealed = true;
        self.is_session = true;
    }

    /// Ends the group of a session.
    pub(super) fn end_session(&mut self) {
        self.is_session = false;
        self.is_sealed = true;
    }

    /// Takes back the last group: the caller reverts it and hands it to [`UndoStack::push_undone`].
    pub(super) fn pop_done(&mut self) -> Option<ChangeGroup> {
        self.is_sealed = true;
        self.done.pop_back()
    }

    /// Stores a group that the caller has reverted.
    pub(super) fn push_undone(&mut self, group: ChangeGroup) {
        self.undone.push(group);
    }

    /// The group that was undone last: the caller applies it and hands it to [`UndoStack::push_done`].
    pub(super) fn pop_undone(&mut self) -> Option<ChangeGroup> {
        self.is_sealed = true;
        self.undone.pop()
    }

    /// Stores a group that the caller has applied again.
    pub(super) fn push_done(&mut self, group: ChangeGroup) {
        self.done.push_back(group);
    }

    /// All texts that may come back.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let groups = self.done.iter().chain(&self.undone);
        let changes = groups.flat_map(|group| &group.changes);
        changes.flat_map(|change| [change.removed.as_str(), change.inserted.as_str()])
    }

    /// How many groups can be undone.
    #[cfg(test)]
    pub(super) fn depth(&self) -> usize {
        self.done.len()
    }
}

/// Extends a change by the next one if both are one edit to the user, or returns the next one.
fn merge(last: &mut BufferChange, next: BufferChange, kind: ChangeKind) -> Option<BufferChange> {
    let is_short = last.bytes() < MERGED_BYTES_MAX;
    let is_merged = is_short
        && match kind {
            ChangeKind::Typed => {
                let follows = next.at == last.at + last.inserted.len();
                let begins_word = last.inserted.ends_with(char::is_whitespace)
                    && !next.inserted.starts_with(char::is_whitespace);
                let is_merged = follows && next.removed.is_empty() && !begins_word;
                if is_merged {
                    last.inserted.push_str(&next.inserted);
                }
                is_merged
            }
            ChangeKind::ErasedBack => {
                let is_merged = last.inserted.is_empty() && next.at + next.removed.len() == last.at;
                if is_merged {
                    last.removed.insert_str(0, &next.removed);
                    last.at = next.at;
                }
                is_merged
            }
            ChangeKind::ErasedForward => {
                let is_merged = last.inserted.is_empty() && next.at == last.at;
                if is_merged {
                    last.removed.push_str(&next.removed);
                }
                is_merged
            }
            ChangeKind::Single => false,
        };
    (!is_merged).then_some(next)
}
