//! Index of allow rules: compared word by word.

use std::collections::HashMap;

use super::strict_names;
use crate::rule_set::rule_position::earlier_rule;
use crate::shell::ShellArg;

/// Ends each word of a key. No argument of a program can contain it.
const END: char = '\0';

#[derive(Debug, Default)]
pub(super) struct StrictIndex {
    exact: HashMap<String, usize>,
    prefixes: HashMap<String, usize>,
    /// The number of words of the longest rule.
    longest: usize,
}

impl StrictIndex {
    pub(super) fn add_exact(&mut self, words: &[String], place: usize) {
        self.longest = self.longest.max(words.len());
        self.exact.entry(encode_key(words)).or_insert(place);
    }

    pub(super) fn add_prefix(&mut self, words: &[String], place: usize) {
        self.longest = self.longest.max(words.len());
        self.prefixes.entry(encode_key(words)).or_insert(place);
    }

    pub(super) fn find(&self, program: Option<&str>, arguments: &[ShellArg]) -> Option<usize> {
        strict_names(program?)
            .filter(|program| !program.contains(END))
            .filter_map(|program| self.find_named(program, arguments))
            .min()
    }

    fn find_named(&self, program: &str, arguments: &[ShellArg]) -> Option<usize> {
        let mut key = encode_key(&[program.to_owned()]);
        let mut found = self.prefixes.get(&key).copied();
        for argument in arguments.iter().take(self.longest) {
            // The words of a rule cannot match an unknown argument.
            let word = argument.as_known().filter(|word| !word.contains(END));
            let Some(word) = word else { return found };
            key.push_str(word);
            key.push(END);
            found = earlier_rule(found, self.prefixes.get(&key).copied());
        }
        if arguments.len() < self.longest {
            found = earlier_rule(found, self.exact.get(&key).copied());
        }
        found
    }
}

fn encode_key(words: &[String]) -> String {
    words.iter().flat_map(|word| [word.as_str(), "\0"]).collect()
}
