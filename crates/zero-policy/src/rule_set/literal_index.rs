//! Preselects the patterns that can match a text: those whose longest literal occurs in it.

use std::collections::HashMap;

use aho_corasick::AhoCorasick;

const FEW_PATTERNS: usize = 8;

/// Patterns by a text that each requires, numbered in the given order.
#[derive(Debug, Default)]
pub(super) struct LiteralIndex {
    finder: Option<AhoCorasick>,
    /// The patterns that require a text, in the order of the finder.
    needing: Vec<Vec<usize>>,
    /// Patterns without a required text, or all patterns if there is no finder.
    always: Vec<usize>,
}

impl LiteralIndex {
    /// Takes the required text of each pattern; empty if it has none.
    pub(super) fn new(needed: impl Iterator<Item = String>) -> Self {
        let mut literals = Self::default();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut texts: Vec<String> = Vec::new();
        let mut count = 0;
        for (at, text) in needed.enumerate() {
            count += 1;
            if text.is_empty() {
                literals.always.push(at);
                continue;
            }
            let number = *numbers.entry(text).or_insert_with_key(|text| {
                texts.push(text.clone());
                literals.needing.push(Vec::new());
                texts.len() - 1
            });
            if let Some(patterns) = literals.needing.get_mut(number) {
                patterns.push(at);
            }
        }
        // For a few patterns a linear scan is faster.
        literals.finder = (count > FEW_PATTERNS).then(|| AhoCorasick::new(&texts).ok()).flatten();
        if literals.finder.is_none() {
            literals.always = (0..count).collect();
        }
        literals
    }

    /// The patterns that may match, each once.
    pub(super) fn candidates(&self, text: &str) -> impl Iterator<Item = usize> + use<'_> {
        let mut found: Vec<usize> = self
            .finder
            .iter()
            .flat_map(|finder| finder.find_overlapping_iter(text))
            .map(|found| found.pattern().as_usize())
            .collect();
        found.sort_unstable();
        found.dedup();
        let needing = found.into_iter().filter_map(|number| self.needing.get(number)).flatten();
        needing.chain(&self.always).copied()
    }
}
