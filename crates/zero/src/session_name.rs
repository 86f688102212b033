//! Short names for sessions, easier to remember and to type than keys.

const ADJECTIVES: &[&str] = &[
    "agile", "amber", "bold", "brave", "brief", "bright", "brisk", "calm", "clear", "clever",
    "cosy", "crisp", "curious", "deft", "eager", "early", "fair", "fancy", "fast", "fine", "fond",
    "free", "fresh", "gentle", "glad", "golden", "grand", "green", "handy", "happy", "honest",
    "humble", "keen", "kind", "late", "light", "lively", "lucky", "mellow", "merry", "mild",
    "modest", "neat", "nimble", "noble", "patient", "plain", "polite", "proud", "quick", "quiet",
    "rapid", "ready", "red", "sharp", "silent", "smart", "snug", "steady", "sunny", "swift",
    "tidy", "warm", "wise",
];
const NOUNS: &[&str] = &[
    "badger", "beacon", "birch", "bridge", "brook", "canyon", "cedar", "cliff", "cloud", "comet",
    "coral", "crane", "creek", "delta", "dune", "eagle", "falcon", "fern", "finch", "fjord",
    "forest", "fox", "garden", "glacier", "harbor", "hazel", "heron", "hill", "island", "ivy",
    "lake", "lantern", "lark", "maple", "meadow", "moon", "moss", "oak", "ocean", "orchid",
    "otter", "owl", "panda", "pebble", "pine", "planet", "plum", "pond", "raven", "reef", "ridge",
    "river", "robin", "sparrow", "spring", "spruce", "star", "stone", "storm", "summit", "swan",
    "tulip", "valley", "willow",
];

/// A name such as `brave-otter`. Different numbers give different names, as far as there are any.
pub(crate) fn session_name(number: usize) -> String {
    let pick = |words: &'static [&'static str], at: usize| {
        words.get(at % words.len()).copied().unwrap_or_default()
    };
    let adjective = pick(ADJECTIVES, number);
    let noun = pick(NOUNS, number / ADJECTIVES.len());
    format!("{adjective}-{noun}")
}

/// A name that no session has, such as `brave-otter-3f2a91`.
pub(crate) fn unused_session_name() -> String {
    let name = session_name(fastrand::usize(..name_count()));
    format!("{name}-{:06x}", fastrand::u32(..1 << 24))
}

/// Number of different names.
pub(crate) fn name_count() -> usize {
    ADJECTIVES.len() * NOUNS.len()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn session_names_are_distinct_words() {
        let names: HashSet<String> = (0..name_count()).map(session_name).collect();
        assert_eq!(names.len(), name_count());
        let is_word = |name: &String| {
            name.split('-').count() == 2
                && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
        };
        assert!(names.iter().all(is_word));
    }
}
