//! Extracts the new part of a reply that arrives several times: as a growing text, in separate
//! items, and again at its end. Texts are compared without whitespace, which differs between the
//! copies.

use std::collections::BTreeMap;

/// Shortest common text, in characters without whitespace, that counts as the same if it is
/// uncertain.
const SAME_MIN: usize = 4;
/// Items that are remembered.
const ITEMS_MAX: usize = 1_000;

/// The text of a run.
#[derive(Debug, Default)]
pub(crate) struct CumulativeText {
    /// The text that was emitted.
    emitted: String,
    /// The last version of the whole text.
    whole: String,
    /// The last versions of the items.
    items: BTreeMap<String, String>,
    last: TextSource,
    /// Whether something else was shown since.
    interrupted: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum TextSource {
    #[default]
    Whole,
    Item(String),
}

/// How new text continues the emitted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextJoin {
    /// It continues directly.
    Continue,
    /// It is a separate text.
    Separate,
}

/// The kind of a whole-text update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextStage<'a> {
    /// An intermediate one, with the delta that the gateway states, if any.
    Partial(Option<&'a str>),
    /// The final one.
    Final,
}

impl CumulativeText {
    /// The new part of the whole text.
    pub(crate) fn update_whole(&mut self, whole: &str, stage: TextStage<'_>) -> Option<String> {
        let (new, joint) = self.find_new(whole, stage)?;
        whole.clone_into(&mut self.whole);
        self.push_new(TextSource::Whole, new, joint)
    }

    /// The new part, if only a delta is given.
    pub(crate) fn append(&mut self, more: &str) -> Option<String> {
        let whole = format!("{}{more}", self.whole);
        self.update_whole(&whole, TextStage::Partial(Some(more)))
    }

    /// The new part of an item.
    pub(crate) fn update_item(&mut self, id: &str, piece: &str) -> Option<String> {
        let known = self.items.get(id).map_or("", String::as_str);
        if !known.is_empty() && strip_known_prefix(piece, known).is_some() {
            return None;
        }
        let joint = if known.is_empty() { TextJoin::Separate } else { TextJoin::Continue };
        let new = strip_known_prefix(known, piece).unwrap_or(piece).to_owned();
        let emitted = strip_spaces(&self.emitted);
        let is_emitted = known.is_empty() && strip_spaces(piece).len() >= SAME_MIN;
        if is_emitted && emitted.ends_with(&strip_spaces(piece)) {
            return None;
        }
        if self.items.len() < ITEMS_MAX || self.items.contains_key(id) {
            self.items.insert(id.to_owned(), piece.to_owned());
        }
        self.push_new(TextSource::Item(id.to_owned()), &new, joint)
    }

    /// Something else is shown in between.
    pub(crate) fn interrupt(&mut self) {
        self.interrupted = true;
    }

    fn find_new<'a>(&self, whole: &'a str, stage: TextStage<'_>) -> Option<(&'a str, TextJoin)> {
        if let Some(rest) = whole.strip_prefix(&self.whole)
            && self.items.is_empty()
        {
            return Some((rest, TextJoin::Continue));
        }
        // A new message after a call may begin like the previous one.
        if self.interrupted
            && !self.whole.is_empty()
            && stage == TextStage::Partial(Some(whole))
            && whole.len() <= self.whole.len()
        {
            return Some((whole, TextJoin::Separate));
        }
        // The whole text may include the items.
        if strip_spaces(&self.emitted).len() >= SAME_MIN
            && let Some(rest) = strip_known_prefix(&self.emitted, whole)
        {
            return Some((rest, TextJoin::Continue));
        }
        if let Some(rest) = strip_known_prefix(&self.whole, whole) {
            return Some((rest, TextJoin::Continue));
        }
        let is_older = strip_known_prefix(whole, &self.whole).is_some();
        let is_emitted = stage == TextStage::Final
            && !self.whole.is_empty()
            && strip_spaces(&self.emitted).ends_with(&strip_spaces(whole));
        if is_older || is_emitted { None } else { Some((whole, TextJoin::Separate)) }
    }

    fn push_new(&mut self, source: TextSource, new: &str, joint: TextJoin) -> Option<String> {
        if new.is_empty() || (new.trim().is_empty() && self.emitted.is_empty()) {
            return None;
        }
        let is_joined = (joint == TextJoin::Continue && source == self.last)
            || self.emitted.is_empty()
            || self.interrupted
            || self.emitted.ends_with('\n')
            || new.starts_with('\n');
        let text = if is_joined { new.to_owned() } else { format!("\n\n{new}") };
        self.emitted.push_str(&text);
        self.last = source;
        self.interrupted = false;
        Some(text)
    }
}

/// The part of `whole` after the characters of `known`; `None` if it does not begin with them.
fn strip_known_prefix<'a>(known: &str, whole: &'a str) -> Option<&'a str> {
    let mut rest = whole;
    for character in known.chars().filter(|c| !c.is_whitespace()) {
        rest = rest.trim_start().strip_prefix(character)?;
    }
    // Whitespace that was already emitted is not repeated.
    let spaces: String = known.chars().rev().take_while(|c| c.is_whitespace()).collect();
    let spaces: String = spaces.chars().rev().collect();
    Some(rest.strip_prefix(spaces.as_str()).unwrap_or(rest))
}

fn strip_spaces(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    enum TextStep {
        Whole(&'static str),
        Delta(&'static str, &'static str),
        More(&'static str),
        Item(&'static str, &'static str),
        Call,
        Last(&'static str),
    }
    use TextStep::{Call, Delta, Item, Last, More, Whole};

    #[track_caller]
    fn check(steps: &[TextStep], expected: &str) {
        let mut speech = CumulativeText::default();
        let mut emitted = String::new();
        for step in steps {
            let new = match step {
                Whole(whole) => speech.update_whole(whole, TextStage::Partial(None)),
                Delta(whole, new) => speech.update_whole(whole, TextStage::Partial(Some(new))),
                More(more) => speech.append(more),
                Item(id, piece) => speech.update_item(id, piece),
                Last(whole) => speech.update_whole(whole, TextStage::Final),
                Call => {
                    speech.interrupt();
                    Some("|".to_owned())
                }
            };
            emitted.push_str(&new.unwrap_or_default());
        }
        assert_eq!(emitted, expected);
    }

    #[test]
    fn growing_text_is_emitted_once() {
        check(&[Whole("I "), Whole("I am "), Whole("I am here"), Last("I am here")], "I am here");
        check(&[Whole("I "), Last("I am here")], "I am here");
        check(&[Last("All at once")], "All at once");
        check(&[Whole("a b"), Whole("a"), Whole("a b c")], "a b c");
        check(&[Whole("Done. "), Last("Done.")], "Done. ");
        check(&[Whole("One. "), Whole("One.\n\nTwo")], "One. \n\nTwo");
        check(&[More("a"), More("b"), Last("ab c")], "ab c");
    }

    #[test]
    fn cumulative_and_per_message_text_are_emitted_once() {
        check(
            &[Whole("I look."), Call, Whole("I look.\n\nSeen"), Last("I look.\n\nSeen")],
            "I look.|\n\nSeen",
        );
        check(
            &[Whole("I look."), Call, Delta("See", "See"), Delta("Seen", "n"), Last("Seen")],
            "I look.|Seen",
        );
        check(
            &[Whole("I look."), Call, Delta("Seen", "Seen"), Last("I look.\n\nSeen")],
            "I look.|Seen",
        );
        check(
            &[Whole("I do"), Call, Delta("I", "I"), Delta("I did", " did"), Last("I did")],
            "I do|I did",
        );
        check(&[Whole("Ask"), Call, Last("ok")], "Ask|ok");
    }

    #[test]
    fn items_beside_whole_text_are_emitted_once() {
        check(
            &[
                Item("1", "Check"),
                Item("1", "Checking it."),
                Item("1", "Checking it."),
                Call,
                Whole("Done"),
                Last("Done"),
            ],
            "Checking it.|Done",
        );
        check(
            &[
                Item("1", "Checking it."),
                Call,
                Whole("Checking\nit.\n\nDone"),
                Last("Checking it.\n\nDone"),
            ],
            "Checking it.|\n\nDone",
        );
        check(
            &[Item("1", "First."), Item("2", "Second."), Call, Last("Third")],
            "First.\n\nSecond.|Third",
        );
        check(
            &[Whole("Hello there."), Item("1", "Hello there."), Call, Whole("Hello there. Bye")],
            "Hello there.| Bye",
        );
        check(&[Item("1", "Look."), Whole("Yes")], "Look.\n\nYes");
    }

    #[test]
    fn rewritten_text_is_emitted_whole() {
        check(&[Whole("Helo wrld"), Whole("Hello world")], "Helo wrld\n\nHello world");
    }
}
