//! Parses a command line loosely: which words may be options, values of options, or operands.
//!
//! No knowledge of the program is needed. A word after an option may be its value or not; the
//! comparison tries both.

use std::collections::BTreeSet;

use crate::shell::ShellArg;
use crate::word_list::words;

/// Programs whose options have one dash and a whole word.
const SINGLE_DASH_WORDS: &[&str] = words!(
    "cc clang clang++ convert dotnet ffmpeg ffprobe find g++ gcc go java javac magick openssl \
     terraform tofu"
);

/// Programs where `-r`, `-R` and `--recursive`, and `-f` and `--force`, are equivalent.
const PAIRED_OPTION_PROGRAMS: &[&str] = &["chgrp", "chmod", "chown", "cp", "rm"];

/// The arguments of a command.
#[derive(Debug, Default)]
pub(super) struct LooseCommandLine {
    pub(super) operands: Vec<LooseOperand>,
    pub(super) options: LooseOptions,
}

/// A word that is not an option.
#[derive(Debug)]
pub(super) struct LooseOperand {
    /// `None` if it is unknown.
    pub(super) text: Option<String>,
    pub(super) skip: OperandSkip,
}

/// Whether a word may be skipped when operands are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandSkip {
    Never,
    /// It follows an option and may be its value, or may expand to nothing.
    IfValue,
    /// It is part of an option, such as `x` of `--a=x`, or may expand to no word: an empty `$x`, or
    /// what `xargs` appends if it reads nothing.
    NoWord,
}

/// The options of a command or of a rule.
#[derive(Debug, Default)]
pub(super) struct LooseOptions {
    letters: BTreeSet<char>,
    longs: Vec<LongOption>,
    /// Whole words without dashes, for programs that use those.
    words: BTreeSet<String>,
    /// Whether some argument is unknown.
    unknown: bool,
    pairs: bool,
}

#[derive(Debug)]
struct LongOption {
    name: String,
    value: Option<String>,
    /// The word after it.
    next: Option<String>,
}

impl LooseCommandLine {
    /// Parses the arguments of a program, given by its bare name.
    pub(super) fn parse(program: &str, arguments: &[ShellArg]) -> Self {
        let mut line = Self::default();
        let is = |name: &str| arguments.iter().any(|word| word.as_known() == Some(name));
        let pushes = program == "git" && is("push");
        line.options.pairs = PAIRED_OPTION_PROGRAMS.contains(&program)
            || pushes
            || (program == "git" && is("clean"));
        let single_dash_words = SINGLE_DASH_WORDS.contains(&program);
        let mut after_option = false;
        let mut words = arguments.iter().peekable();
        while let Some(word) = words.next() {
            let start = word.known_prefix();
            let text = word.as_known();
            line.options.unknown |= text.is_none() && !may_expand_to_nothing(word);
            if text == Some("--") {
                line.operands.extend(words.map(LooseOperand::from_word));
                break;
            }
            if !start.starts_with('-') || start == "-" {
                if pushes && start.starts_with('+') {
                    line.options.letters.insert('f');
                }
                let mut operand = LooseOperand::from_word(word);
                if after_option && !may_expand_to_nothing(word) {
                    operand.skip = OperandSkip::IfValue;
                }
                line.operands.push(operand);
                after_option = false;
                continue;
            }
            let attached = if single_dash_words {
                line.options.add_word(start)
            } else if let Some(long) = start.strip_prefix("--") {
                let next = words.peek().and_then(|next| next.as_known()).map(str::to_owned);
                line.options.add_long(long, next)
            } else {
                line.options.add_letters(start)
            };
            // `--name=value` already has its value.
            after_option = !(start.contains('=') && attached.is_some());
            if let Some(text) = attached {
                line.operands.push(LooseOperand { text: Some(text), skip: OperandSkip::NoWord });
            }
        }
        line
    }
}

/// Whether a word of a command may expand to nothing.
fn may_expand_to_nothing(word: &ShellArg) -> bool {
    matches!(word, ShellArg::Unknown { starts_with, .. } if starts_with.is_empty())
}

impl LooseOperand {
    fn from_word(word: &ShellArg) -> Self {
        let text = word.as_known().map(str::to_owned);
        let skip = match word {
            ShellArg::Known(_) => OperandSkip::Never,
            word if may_expand_to_nothing(word) => OperandSkip::NoWord,
            _ => OperandSkip::IfValue,
        };
        Self { text, skip }
    }
}

impl LooseOptions {
    /// The options of a rule: a long name that is paired with a letter becomes that letter.
    pub(super) fn into_rule_options(mut self) -> Self {
        if self.pairs {
            self.longs.retain(|long| paired_letter(&long.name).is_none());
        }
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.letters.is_empty() && self.longs.is_empty() && self.words.is_empty()
    }

    /// The names of its long options.
    pub(super) fn long_names(&self) -> impl Iterator<Item = &str> {
        self.longs.iter().map(|long| long.name.as_str())
    }

    /// Whether all options of the rule are present.
    pub(super) fn contains_all(&self, rule: &Self) -> bool {
        rule.words.is_subset(&self.words)
            && rule.letters.is_subset(&self.letters)
            && rule
                .longs
                .iter()
                .all(|rule_option| self.longs.iter().any(|own| own.matches_option(rule_option)))
    }

    /// Whether exactly the options of the rule are present.
    pub(super) fn has_exactly(&self, rule: &Self) -> bool {
        let expected = |own: &LongOption| {
            let paired = self.pairs && paired_letter(&own.name).is_some();
            paired || rule.longs.iter().any(|rule_option| own.matches_option(rule_option))
        };
        !self.unknown
            && self.contains_all(rule)
            && self.words.is_subset(&rule.words)
            && self.letters.is_subset(&rule.letters)
            && self.longs.iter().all(expected)
    }

    fn add_long(&mut self, long: &str, next: Option<String>) -> Option<String> {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        if self.pairs {
            self.letters.extend(paired_letter(name));
        }
        self.longs.push(LongOption { name: name.to_owned(), value: value.clone(), next });
        value
    }

    /// Programs that read one dash as two also read two as one.
    fn add_word(&mut self, word: &str) -> Option<String> {
        let word = word.trim_start_matches('-');
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        self.words.insert(name.to_owned());
        value
    }

    fn add_letters(&mut self, word: &str) -> Option<String> {
        let cluster = word.trim_start_matches('-');
        for letter in cluster.chars().take_while(|letter| letter.is_alphanumeric()) {
            self.letters.insert(if self.pairs && letter == 'R' { 'r' } else { letter });
        }
        let attached = cluster.get(cluster.chars().next()?.len_utf8()..)?;
        (!attached.is_empty()).then(|| attached.to_owned())
    }
}

impl LongOption {
    /// Whether this option of a command matches the option of a rule: the same name, or one
    /// abbreviates the other.
    fn matches_option(&self, rule_option: &Self) -> bool {
        let abbreviates = self.name == rule_option.name
            || (!self.name.is_empty() && rule_option.name.starts_with(&self.name))
            // `--force-with-lease` is a different option, not the long form of `--force`.
            || self.name.strip_prefix(&rule_option.name).is_some_and(|rest| !rest.starts_with('-'));
        let same_value = match (&rule_option.value, &self.value) {
            (None, _) => true,
            (Some(wanted), Some(own)) => wanted == own,
            (Some(wanted), None) => self.next.as_ref() == Some(wanted),
        };
        abbreviates && same_value
    }
}

fn paired_letter(name: &str) -> Option<char> {
    let stands_for = |full: &str| !name.is_empty() && full.starts_with(name);
    match () {
        () if stands_for("recursive") => Some('r'),
        () if stands_for("force") => Some('f'),
        () => None,
    }
}
