//! Index of command rules with `*`: `git * --help`, `npm run test*`.

use std::collections::BTreeSet;

use super::{loose_name, strict_names};
use crate::rule::{PatternWord, PatternWordPart};
use crate::rule_set::literal_index::LiteralIndex;
use crate::shell::ShellArg;

/// Placeholder for unknown text. No rule contains it, so only a `*` can match it.
const UNKNOWN: char = '\0';
/// Placeholder for a space inside a word, if that must differ from one between words.
const INNER_SPACE: char = '\u{1}';

/// Whether a space inside a word may match one between words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceHandling {
    Distinct,
    Alike,
}

#[derive(Debug, Default)]
pub(super) struct GlobIndex {
    globs: Vec<CommandGlob>,
    literals: LiteralIndex,
}

#[derive(Debug)]
struct CommandGlob {
    /// The texts between the wildcards; the first and the last may be empty.
    texts: Vec<String>,
    place: usize,
}

impl GlobIndex {
    pub(super) fn add(
        &mut self,
        words: &[PatternWord],
        more: bool,
        spaces: SpaceHandling,
        place: usize,
    ) {
        let mut texts = vec![String::new()];
        for (at, word) in words.iter().enumerate() {
            if at > 0 {
                push_literal(&mut texts, " ");
            }
            match word.literal() {
                Some(program) if at == 0 && spaces == SpaceHandling::Alike => {
                    push_literal(&mut texts, &loose_name(&program));
                }
                _ => word.pieces.iter().for_each(|piece| match piece {
                    PatternWordPart::Text(text) => {
                        push_literal(&mut texts, &encode_spaces(text, spaces))
                    }
                    PatternWordPart::Star => texts.push(String::new()),
                }),
            }
        }
        if more {
            let mut open = texts.clone();
            push_literal(&mut open, " ");
            open.push(String::new());
            self.globs.push(CommandGlob { texts: open, place });
        }
        self.globs.push(CommandGlob { texts, place });
    }

    pub(super) fn build(&mut self) {
        let longest = |glob: &CommandGlob| glob.texts.iter().max_by_key(|text| text.len()).cloned();
        let needed = self.globs.iter().map(|glob| longest(glob).unwrap_or_default());
        self.literals = LiteralIndex::new(needed);
    }

    /// The first matching allow rule: only a `*` at its end may match unknown text.
    pub(super) fn find_strictly(
        &self,
        program: Option<&str>,
        arguments: &[ShellArg],
    ) -> Option<usize> {
        if self.globs.is_empty() {
            return None;
        }
        let rest: Vec<String> =
            arguments.iter().map(|word| render_word(word, SpaceHandling::Distinct)).collect();
        let find = |program: &str| {
            let text = join_words(program, &rest);
            self.candidates(&text)
                .filter(|glob| {
                    let literal_prefix =
                        glob.match_length(&text).and_then(|length| text.get(..length));
                    literal_prefix.is_some_and(|text| !text.contains(UNKNOWN))
                })
                .map(|glob| glob.place)
                .min()
        };
        strict_names(program?)
            .filter_map(|name| find(&encode_spaces(name, SpaceHandling::Distinct)))
            .min()
    }

    /// The first matching deny or ask rule, with options in place and moved to the end.
    pub(super) fn find_loosely(
        &self,
        program: Option<&str>,
        arguments: &[ShellArg],
    ) -> Option<usize> {
        if self.globs.is_empty() {
            return None;
        }
        let unknown = UNKNOWN.to_string();
        let written = program.unwrap_or(&unknown);
        let name = loose_name(written);
        let rest: Vec<String> =
            arguments.iter().map(|word| render_word(word, SpaceHandling::Alike)).collect();
        let readings = [
            join_words(written, &rest),
            join_words(&name, &rest),
            join_words(&name, &move_options_last(&rest, OptionValueHandling::StayWithOptions)),
            join_words(&name, &move_options_last(&rest, OptionValueHandling::AreOperands)),
        ];
        let distinct: BTreeSet<&String> = readings.iter().collect();
        distinct
            .into_iter()
            .flat_map(|text| self.candidates(text).filter(|glob| glob.match_length(text).is_some()))
            .map(|glob| glob.place)
            .min()
    }

    fn candidates(&self, text: &str) -> impl Iterator<Item = &CommandGlob> + use<'_> {
        self.literals.candidates(text).filter_map(|at| self.globs.get(at))
    }
}

impl CommandGlob {
    /// The length of text that the literal parts match, if the text matches; a `*` at the end
    /// matches the rest.
    fn match_length(&self, text: &str) -> Option<usize> {
        let (first, rest) = self.texts.split_first()?;
        let mut left = text.strip_prefix(first.as_str())?;
        let Some((last, middle)) = rest.split_last() else {
            return left.is_empty().then_some(text.len());
        };
        for literal in middle {
            left = left.get(left.find(literal.as_str())? + literal.len()..)?;
        }
        match last.is_empty() {
            true => Some(text.len() - left.len()),
            false => left.ends_with(last.as_str()).then_some(text.len()),
        }
    }
}

fn push_literal(texts: &mut [String], text: &str) {
    if let Some(last) = texts.last_mut() {
        last.push_str(text);
    }
}

/// What happens to a word after an option when options are moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionValueHandling {
    StayWithOptions,
    AreOperands,
}

fn move_options_last(words: &[String], values: OptionValueHandling) -> Vec<String> {
    let (mut operands, mut options) = (Vec::new(), Vec::new());
    let mut after_option = false;
    for word in words {
        let option = word.starts_with('-') && word.len() > 1;
        let value = after_option && values == OptionValueHandling::StayWithOptions;
        if option || value { &mut options } else { &mut operands }.push(word.clone());
        after_option = option && !word.contains('=');
    }
    operands.append(&mut options);
    operands
}

fn join_words(program: &str, rest: &[String]) -> String {
    let mut text = program.to_owned();
    for word in rest {
        text.push(' ');
        text.push_str(word);
    }
    text
}

/// An argument in the form that globs are matched against.
fn render_word(word: &ShellArg, spaces: SpaceHandling) -> String {
    let mut text = encode_spaces(word.known_prefix(), spaces);
    if word.as_known().is_none() {
        text.push(UNKNOWN);
    }
    text
}

fn encode_spaces(text: &str, spaces: SpaceHandling) -> String {
    match spaces {
        SpaceHandling::Distinct => text.replace(char::is_whitespace, &INNER_SPACE.to_string()),
        SpaceHandling::Alike => text.replace(char::is_whitespace, " "),
    }
}
