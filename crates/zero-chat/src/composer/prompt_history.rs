//! Prompts that were sent before, to be found and edited again.

use std::collections::VecDeque;

/// Most entries; the oldest go first.
pub(super) const ENTRIES_MAX: usize = 1_000;
/// Most bytes of all entries together.
const BYTES_MAX: usize = 8 << 20;

/// The prompts, oldest first.
#[derive(Debug, Default)]
pub(super) struct PromptHistory {
    entries: VecDeque<String>,
    bytes: usize,
}

impl PromptHistory {
    /// A history with entries, oldest first.
    pub(super) fn new(entries: Vec<String>) -> Self {
        let mut history = Self::default();
        for entry in entries {
            history.push(entry);
        }
        history
    }

    /// Adds an entry, unless it is blank, equal to the last one, or larger than all entries may be.
    pub(super) fn push(&mut self, entry: String) {
        let is_repeated = self.entries.back() == Some(&entry);
        if entry.trim().is_empty() || is_repeated || entry.len() > super::TEXT_BYTES_MAX {
            return;
        }
        self.bytes += entry.len();
        self.entries.push_back(entry);
        while self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            self.bytes -= self.entries.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entry(&self, index: usize) -> Option<&str> {
        self.entries.get(index).map(String::as_str)
    }

    /// The newest entry before `end` that is accepted, with its index.
    pub(super) fn find_older(
        &self,
        end: usize,
        is_accepted: impl Fn(&str) -> bool,
    ) -> Option<(usize, &str)> {
        let older = self.entries.iter().enumerate().take(end).rev();
        older.map(|(index, entry)| (index, entry.as_str())).find(|(_, entry)| is_accepted(entry))
    }

    /// The oldest entry after `start` that is accepted, with its index.
    pub(super) fn find_newer(
        &self,
        start: usize,
        is_accepted: impl Fn(&str) -> bool,
    ) -> Option<(usize, &str)> {
        let newer = self.entries.iter().enumerate().skip(start + 1);
        newer.map(|(index, entry)| (index, entry.as_str())).find(|(_, entry)| is_accepted(entry))
    }
}

/// A walk through the entries that begin like a draft.
#[derive(Debug)]
pub(super) struct HistoryWalk {
    /// What the entries begin with.
    pub(super) prefix: String,
    /// The entry that is shown.
    pub(super) index: usize,
    /// The text before the walk, which comes back at its end.
    pub(super) draft: String,
    /// Position of the cursor in the draft.
    pub(super) draft_cursor: usize,
    /// Revision of the text that shows the entry: another one means that it was edited.
    pub(super) revision: u64,
}

/// A search for entries that contain a text, while it is typed.
#[derive(Debug, Default)]
pub(super) struct HistorySearch {
    /// What is searched for.
    pub(super) query: String,
    /// The entry that was found.
    pub(super) found: Option<usize>,
}

impl HistorySearch {
    /// Longest query, in bytes.
    const QUERY_BYTES_MAX: usize = 1_000;

    /// Adds a character to the query.
    pub(super) fn extend(&mut self, letter: char, history: &PromptHistory) {
        if self.query.len() < Self::QUERY_BYTES_MAX {
            self.query.push(letter);
            let end = self.found.map_or(history.len(), |index| index + 1);
            self.find(end, history);
        }
    }

    /// Removes the last character of the query and searches from the newest entry.
    pub(super) fn shorten(&mut self, history: &PromptHistory) {
        self.query.pop();
        self.found = None;
        self.find(history.len(), history);
    }

    /// Goes to the next older entry; stays if there is none.
    pub(super) fn find_next(&mut self, history: &PromptHistory) {
        self.find(self.found.unwrap_or(history.len()), history);
    }

    fn find(&mut self, end: usize, history: &PromptHistory) {
        if self.query.is_empty() {
            return;
        }
        let found = history.find_older(end, |entry| entry.contains(&self.query));
        // An entry that no longer contains the query is not a result; there may be no older one.
        let is_still_found = self.found.and_then(|index| history.entry(index));
        let is_still_found = is_still_found.is_some_and(|entry| entry.contains(&self.query));
        match found {
            Some((index, _)) => self.found = Some(index),
            None if is_still_found => {}
            None => self.found = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(entries: &[&str]) -> PromptHistory {
        PromptHistory::new(entries.iter().map(|entry| (*entry).to_owned()).collect())
    }

    #[test]
    fn blank_and_repeated_entries_are_skipped() {
        let history = history(&["a", "a", " \n", "b", "a"]);
        assert_eq!(history.entries, ["a", "b", "a"]);
    }

    #[test]
    fn history_is_bounded() {
        let mut history = PromptHistory::new((0..1_200).map(|entry| entry.to_string()).collect());
        assert_eq!((history.len(), history.entry(0)), (ENTRIES_MAX, Some("200")));
        for letter in 'a'..='z' {
            history.push(letter.to_string().repeat(1 << 20));
        }
        assert!(history.bytes <= BYTES_MAX && history.len() == 8, "{}", history.len());
        let last = history.len();
        history.push("x".repeat(super::super::TEXT_BYTES_MAX + 1));
        assert_eq!(history.len(), last);
    }

    #[test]
    fn search_goes_to_older_entries() {
        let history = history(&["make test", "git push", "make", "ls"]);
        let mut search = HistorySearch::default();
        search.find_next(&history);
        assert_eq!(search.found, None);
        for letter in "ma".chars() {
            search.extend(letter, &history);
        }
        assert_eq!(search.found, Some(2));
        search.find_next(&history);
        assert_eq!(search.found, Some(0));
        search.find_next(&history);
        assert_eq!(search.found, Some(0), "there is no older one");
        search.extend('x', &history);
        assert_eq!(search.found, None);
        search.shorten(&history);
        assert_eq!(search.found, Some(2));
    }
}
