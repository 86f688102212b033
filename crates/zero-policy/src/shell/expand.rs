//! Expands a word to its arguments, as far as they are known.
//!
//! The steps and their order are those of the shell: braces, tilde, variables, splitting, quotes.
//! Globs are kept as patterns. A result that depends on an unknown value is [`ShellArg::Unknown`].

use std::path::Path;

use super::arg::ShellArg;
use super::ast::{
    CommandList, ParameterExpansion, ParameterOperation, ShellCommand, ShellCommandKind, ShellWord,
    WordPart,
};
use super::shell_state::{ShellState, VariableValue};

/// Most words of a brace expansion; with more, the word is unknown.
const BRACE_WORDS_MAX: usize = 64;
/// Most characters of a word that is scanned for braces; longer words are not expanded.
const BRACE_ATOMS_MAX: usize = 4096;
/// Most characters of a range such as `{1..9}`; a longer one is not expanded.
const RANGE_CHARS_MAX: usize = 64;
/// Most bytes that variables can add to a word; the rest of it is unknown.
const VALUES_BYTES_MAX: usize = 256 * 1024;

/// The path that a program gets for a process substitution.
const PROCESS_FILE: &str = "/dev/fd/63";

/// The smallest part of a word.
#[derive(Clone, Debug)]
enum WordAtom {
    /// An unquoted character: may glob, split or open a brace.
    Plain(char),
    /// A quoted character: literal.
    Quoted(char),
    /// Empty quotes: the word exists, even if it is empty.
    Quotes,
    /// The value of a variable outside quotes: is split and globbed, but not brace-expanded.
    Split(String),
    /// The value of a variable that is a glob.
    Pattern(String),
    /// Between two elements of a list.
    Break,
    /// An unknown value that stays within its word.
    Unknown,
    /// An unknown value that may become several words, or none.
    UnknownWords,
}

/// The arguments of a word. `written` is the word in the source, for display.
pub(super) fn expand_arguments(
    word: &ShellWord,
    written: &str,
    state: &ShellState,
    home: Option<&Path>,
) -> Vec<ShellArg> {
    let unknown = || ShellArg::Unknown { starts_with: String::new(), written: written.to_owned() };
    let mut atoms = Vec::new();
    let mut room = VALUES_BYTES_MAX;
    for part in &word.parts {
        push_part(part, state, home, &mut room, &mut atoms);
    }
    let Some(words) = expand_braces(atoms) else { return vec![unknown()] };
    let mut arguments = Vec::new();
    for atoms in words {
        split_fields(
            &expand_tilde(atoms, TildeContext::Argument, state, home),
            written,
            &mut arguments,
        );
    }
    arguments
}

/// The argument of a word of `export` or `declare` that is an assignment, which is neither split
/// nor globbed.
pub(super) fn expand_declaration(
    word: &ShellWord,
    written: &str,
    state: &ShellState,
    home: Option<&Path>,
) -> Option<ShellArg> {
    let Some(WordPart::Text { text, quoted: false }) = word.parts.first() else { return None };
    let atoms: Vec<WordAtom> = text.chars().map(WordAtom::Plain).collect();
    find_value_start(&atoms)?;
    let braces = |part: &WordPart| matches!(part, WordPart::Text { text, quoted: false } if text.contains('{'));
    let plain = !word.parts.iter().any(braces);
    plain.then(|| expand_scalar(word, written, TildeContext::Argument, state, home))
}

/// The argument of a word that the shell does not split: an assignment, a here-string.
pub(super) fn expand_scalar(
    word: &ShellWord,
    written: &str,
    tilde: TildeContext,
    state: &ShellState,
    home: Option<&Path>,
) -> ShellArg {
    let mut atoms = Vec::new();
    let mut room = VALUES_BYTES_MAX;
    for part in &word.parts {
        push_part(part, state, home, &mut room, &mut atoms);
    }
    let mut text = String::new();
    for atom in expand_tilde(atoms, tilde, state, home) {
        match atom {
            WordAtom::Plain(char) | WordAtom::Quoted(char) => text.push(char),
            WordAtom::Quotes => {}
            WordAtom::Break => text.push(' '),
            WordAtom::Split(value) | WordAtom::Pattern(value) => text.push_str(&value),
            WordAtom::Unknown | WordAtom::UnknownWords => {
                return ShellArg::Unknown { starts_with: text, written: written.to_owned() };
            }
        }
    }
    ShellArg::Known(text)
}

fn push_part(
    part: &WordPart,
    state: &ShellState,
    home: Option<&Path>,
    remaining: &mut usize,
    atoms: &mut Vec<WordAtom>,
) {
    match part {
        WordPart::Text { text, quoted: true } => {
            atoms.push(WordAtom::Quotes);
            atoms.extend(text.chars().map(WordAtom::Quoted));
        }
        WordPart::Text { text, quoted: false } => atoms.extend(text.chars().map(WordAtom::Plain)),
        WordPart::Parameter(parameter) => {
            if let Some(texts) = expand_guess(parameter, state, home) {
                return push_guess(&texts, parameter.quoted, remaining, atoms);
            }
            let value = match parameter.operation {
                // A subscript selects an element, and elements are not tracked.
                ParameterOperation::Plain if parameter.words.is_empty() => {
                    lookup_variable(&parameter.name, state, home)
                }
                ParameterOperation::Length => VariableValue::Number,
                _ => VariableValue::Unknown,
            };
            let value = match value {
                VariableValue::Known(text) if text.len() > *remaining => VariableValue::Unknown,
                value => value,
            };
            if let VariableValue::Known(text) = &value {
                *remaining -= text.len();
            }
            if parameter.quoted {
                atoms.push(WordAtom::Quotes);
            }
            match value {
                VariableValue::Known(text) if parameter.quoted => {
                    atoms.extend(text.chars().map(WordAtom::Quoted));
                }
                VariableValue::Known(text) => atoms.push(WordAtom::Split(text)),
                VariableValue::Pattern(pattern) => atoms.push(WordAtom::Pattern(pattern)),
                VariableValue::Number => atoms.push(WordAtom::Unknown),
                VariableValue::Guess(_) | VariableValue::Unknown
                    if parameter.quoted && !is_word_list(parameter) =>
                {
                    atoms.push(WordAtom::Unknown);
                }
                VariableValue::Guess(_) | VariableValue::Unknown => {
                    atoms.push(WordAtom::UnknownWords)
                }
            }
        }
        WordPart::Command { list, quoted }
            if state.is_guessing()
                && let Some(text) = evaluate_echo(list, state, home) =>
        {
            push_guess(&[text], *quoted, remaining, atoms);
        }
        WordPart::Command { quoted: false, .. } => atoms.push(WordAtom::UnknownWords),
        WordPart::Command { .. } | WordPart::Arithmetic(_) => atoms.push(WordAtom::Unknown),
        WordPart::Process { .. } => atoms.extend(PROCESS_FILE.chars().map(WordAtom::Quoted)),
    }
}

/// Whether it becomes several words even within quotes.
pub(super) fn is_word_list(parameter: &ParameterExpansion) -> bool {
    let all = |word: &ShellWord| {
        word.parts
            .iter()
            .any(|part| matches!(part, WordPart::Text { text, .. } if text.contains('@')))
    };
    parameter.name == "@"
        || parameter.operation == ParameterOperation::Indirect
        || parameter.words.first().is_some_and(all)
        || (parameter.operation != ParameterOperation::Plain && !parameter.words.is_empty())
}

/// The elements of an expansion, if the guesses are right.
fn expand_guess(
    parameter: &ParameterExpansion,
    state: &ShellState,
    home: Option<&Path>,
) -> Option<Vec<String>> {
    if !state.is_guessing() {
        return None;
    }
    let element = |list: &[String], at: usize| list.get(at).map(|text| vec![text.clone()]);
    let name = parameter.name.as_str();
    match (parameter.operation, &parameter.words[..]) {
        (ParameterOperation::Plain, []) => match name {
            "@" | "*" => state.guess("@").map(<[String]>::to_vec),
            "0" => element(state.guess("0")?, 0),
            _ => match name.parse::<usize>() {
                Ok(at) => element(state.guess("@")?, at.checked_sub(1)?),
                Err(_) => element(state.guess(name)?, 0),
            },
        },
        (ParameterOperation::Plain, [subscript]) => {
            match expand_scalar(subscript, "", TildeContext::Never, state, home) {
                ShellArg::Known(all) if all == "@" || all == "*" => {
                    Some(state.guess(name)?.to_vec())
                }
                ShellArg::Known(at) => element(state.guess(name)?, at.parse().ok()?),
                _ => None,
            }
        }
        (
            ParameterOperation::Default
            | ParameterOperation::Assign
            | ParameterOperation::Alternative,
            [.., last],
        ) => match expand_scalar(last, "", TildeContext::Argument, state, home) {
            ShellArg::Known(text) => Some(vec![text]),
            _ => None,
        },
        _ => None,
    }
}

fn push_guess(texts: &[String], quoted: bool, remaining: &mut usize, atoms: &mut Vec<WordAtom>) {
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            atoms.push(WordAtom::Break);
        }
        match remaining.checked_sub(text.len()) {
            None => atoms.push(WordAtom::UnknownWords),
            Some(left) => {
                *remaining = left;
                if quoted {
                    atoms.push(WordAtom::Quotes);
                    atoms.extend(text.chars().map(WordAtom::Quoted));
                } else {
                    atoms.push(WordAtom::Split(text.clone()));
                }
            }
        }
    }
}

/// The words of the only command of a list, without its redirections.
fn list_only_words(
    list: &CommandList,
    state: &ShellState,
    home: Option<&Path>,
) -> Option<Vec<String>> {
    let [item] = &list.items[..] else { return None };
    let [ShellCommand { kind: ShellCommandKind::Simple(simple), .. }] = &item.pipeline.commands[..]
    else {
        return None;
    };
    simple
        .words
        .iter()
        .flat_map(|word| expand_arguments(word, "", state, home))
        .map(|arg| arg.as_known().map(str::to_owned))
        .collect()
}

/// The output of `echo` and `printf`, if nothing else runs.
fn evaluate_echo(list: &CommandList, state: &ShellState, home: Option<&Path>) -> Option<String> {
    let words = list_only_words(list, state, home)?;
    let (program, printed) = words.split_first()?;
    let prints = matches!(program.as_str(), "echo" | "printf");
    let text = printed.iter().skip_while(|word| word.starts_with('-')).cloned();
    prints.then(|| text.collect::<Vec<_>>().join(" "))
}

fn lookup_variable(name: &str, state: &ShellState, home: Option<&Path>) -> VariableValue {
    use super::analysis::WorkingFolders;
    if let Some(value) = state.variable(name) {
        return value.clone();
    }
    if matches!(name, "#" | "?" | "$" | "!") {
        return VariableValue::Number;
    }
    let path = match (name, &state.folders) {
        ("HOME", _) => home,
        ("PWD", WorkingFolders::OneOf(folders)) if folders.len() == 1 => {
            folders.first().map(std::path::PathBuf::as_path)
        }
        _ => None,
    };
    path.and_then(Path::to_str)
        .map_or(VariableValue::Unknown, |path| VariableValue::Known(path.to_owned()))
}

/// Expands `{a,b}` and `{1..3}`; `None` if there are too many words.
fn expand_braces(atoms: Vec<WordAtom>) -> Option<Vec<Vec<WordAtom>>> {
    let has_brace = atoms.iter().any(|atom| matches!(atom, WordAtom::Plain('{')));
    if !has_brace {
        return Some(vec![atoms]);
    }
    if atoms.len() > BRACE_ATOMS_MAX {
        return None;
    }
    let mut done: Vec<Vec<WordAtom>> = Vec::new();
    let mut open: Vec<Vec<WordAtom>> = vec![atoms];
    // Each iteration expands the first brace of one word; the results are scanned again.
    for _ in 0..BRACE_WORDS_MAX * 8 {
        let Some(word) = open.pop() else {
            done.reverse();
            return Some(done);
        };
        match find_first_brace(&word)? {
            None => done.push(word),
            Some(brace) => {
                let (before, after) = (&word[..brace.start], &word[brace.end..]);
                for choice in brace.choices {
                    open.push([before, &choice, after].concat());
                }
            }
        }
        if open.len() + done.len() > BRACE_WORDS_MAX {
            return None;
        }
    }
    None
}

struct BraceExpansion {
    start: usize,
    end: usize,
    choices: Vec<Vec<WordAtom>>,
}

/// The first brace that expands; the outer `None` if it is too large.
#[expect(clippy::option_option, reason = "too large and none at all are different answers")]
fn find_first_brace(word: &[WordAtom]) -> Option<Option<BraceExpansion>> {
    // One pass finds all pairs: searching the end of each brace separately would be quadratic.
    let mut open: Vec<BracePair> = Vec::new();
    let mut found: Vec<BracePair> = Vec::new();
    let mut after_dot = false;
    for (at, atom) in word.iter().enumerate() {
        let dot = matches!(atom, WordAtom::Plain('.'));
        match atom {
            WordAtom::Plain('{') => {
                open.push(BracePair { start: at, end: at, commas: Vec::new(), dots: false })
            }
            WordAtom::Plain('}') => {
                found.extend(open.pop().map(|brace| BracePair { end: at, ..brace }))
            }
            WordAtom::Plain(',') => {
                open.iter_mut().next_back().into_iter().for_each(|brace| brace.commas.push(at))
            }
            _ if dot && after_dot => {
                open.iter_mut().next_back().into_iter().for_each(|brace| brace.dots = true)
            }
            _ => {}
        }
        after_dot = dot;
    }
    found.retain(|brace| !brace.commas.is_empty() || brace.dots);
    found.sort_by_key(|brace| brace.start);
    for BracePair { start, end, commas, .. } in found {
        if !commas.is_empty() {
            let ends: Vec<usize> =
                std::iter::once(start).chain(commas).chain(std::iter::once(end)).collect();
            let choices = ends
                .windows(2)
                .filter_map(|pair| Some(word.get(pair.first()? + 1..*pair.last()?)?.to_vec()))
                .collect();
            return Some(Some(BraceExpansion { start, end: end + 1, choices }));
        }
        let inner = word.get(start + 1..end).unwrap_or_default();
        if inner.len() > RANGE_CHARS_MAX {
            return None;
        }
        let range: Option<String> = inner
            .iter()
            .map(|atom| if let WordAtom::Plain(char) = atom { Some(*char) } else { None })
            .collect();
        if let Some(range) = range
            && let Some(choices) = expand_range(&range)?
        {
            return Some(Some(BraceExpansion { start, end: end + 1, choices }));
        }
    }
    Some(None)
}

/// A pair of braces, and its content outside of inner pairs.
struct BracePair {
    start: usize,
    end: usize,
    commas: Vec<usize>,
    /// Whether it contains `..`.
    dots: bool,
}

/// Expands `1..3` and `a..e`; the outer `None` if there are too many.
#[expect(clippy::option_option, reason = "too many and none at all are different answers")]
fn expand_range(range: &str) -> Option<Option<Vec<Vec<WordAtom>>>> {
    let mut ends = range.split("..");
    let (Some(first), Some(last), None) = (ends.next(), ends.next(), ends.next()) else {
        // With a step: rare enough to leave it unknown.
        return if range.split("..").count() == 3 { None } else { Some(None) };
    };
    if [first, last].iter().any(|end| end.len() > 1 && end.trim_start_matches('-').starts_with('0'))
    {
        // Padded with zeros.
        return None;
    }
    let texts: Vec<String> = match (first.parse::<i64>(), last.parse::<i64>()) {
        (Ok(first), Ok(last)) => {
            if first.abs_diff(last) >= BRACE_WORDS_MAX as u64 {
                return None;
            }
            let (low, high) = (first.min(last), first.max(last));
            let up = (low..=high).map(|number| number.to_string());
            if first <= last { up.collect() } else { up.rev().collect() }
        }
        _ => {
            let mut chars = first.chars().zip(last.chars());
            match (chars.next(), first.len() == 1 && last.len() == 1) {
                (Some((first, last)), true) => {
                    let (low, high) = (first.min(last), first.max(last));
                    if u32::from(high) - u32::from(low) >= BRACE_WORDS_MAX as u32 {
                        return None;
                    }
                    let up = (low..=high).map(String::from);
                    if first <= last { up.collect() } else { up.rev().collect() }
                }
                _ => return Some(None),
            }
        }
    };
    Some(Some(texts.iter().map(|text| text.chars().map(WordAtom::Plain).collect()).collect()))
}

/// Where a `~` is expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TildeContext {
    /// Nowhere.
    Never,
    /// At the start of the word, and in what looks like an assignment.
    Argument,
    /// At the start and after each `:`.
    Assigned,
}

/// Expands `~` and `~/…` to the home folder, and `~+` to the working folder.
fn expand_tilde(
    atoms: Vec<WordAtom>,
    tilde: TildeContext,
    state: &ShellState,
    home: Option<&Path>,
) -> Vec<WordAtom> {
    if !atoms.iter().any(|atom| matches!(atom, WordAtom::Plain('~'))) {
        return atoms;
    }
    let value_at = match tilde {
        TildeContext::Argument => find_value_start(&atoms),
        TildeContext::Assigned => Some(0),
        TildeContext::Never => return atoms,
    };
    let mut expanded = Vec::new();
    let mut atoms = atoms.into_iter().enumerate().peekable();
    let mut before = None;
    while let Some((at, atom)) = atoms.next() {
        let in_value = value_at.is_some_and(|start| at >= start);
        let starts =
            at == 0 || (in_value && value_at == Some(at)) || (in_value && before == Some(':'));
        let after_equals = before == Some('=');
        before = if let WordAtom::Plain(char) = atom { Some(char) } else { None };
        if before == Some('~') && after_equals && !starts {
            // `--file=~/x`: bash does not expand it, other shells and settings do.
            expanded.push(WordAtom::Unknown);
            continue;
        }
        if !(starts && before == Some('~')) {
            expanded.push(atom);
            continue;
        }
        let mut name = Some(String::new());
        while let Some((_, next)) = atoms.peek() {
            if matches!(next, WordAtom::Plain('/'))
                || (in_value && matches!(next, WordAtom::Plain(':')))
            {
                break;
            }
            match (&mut name, next) {
                (Some(name), WordAtom::Plain(char)) => name.push(*char),
                _ => name = None,
            }
            atoms.next();
        }
        let folder = match name.as_deref() {
            Some("") => home.and_then(Path::to_str).map(str::to_owned),
            Some("+") => match lookup_variable("PWD", state, home) {
                VariableValue::Known(folder) => Some(folder),
                _ => None,
            },
            // `~user`, `~-`.
            _ => None,
        };
        match folder {
            Some(folder) => expanded.extend(folder.chars().map(WordAtom::Quoted)),
            // The home folder is unknown.
            None => expanded.push(WordAtom::Unknown),
        }
    }
    expanded
}

/// The start of the value in a word such as `NAME=value`.
fn find_value_start(atoms: &[WordAtom]) -> Option<usize> {
    let equals = atoms.iter().position(|atom| matches!(atom, WordAtom::Plain('=')))?;
    let name = atoms.get(..equals)?;
    let is_name = name.iter().enumerate().all(|(at, atom)| match atom {
        WordAtom::Plain(char) => {
            *char == '_'
                || char.is_ascii_alphabetic()
                || (at > 0 && (char.is_ascii_digit() || "+[]".contains(*char)))
        }
        _ => false,
    });
    (equals > 0 && is_name).then_some(equals + 1)
}

/// Splits what was expanded outside quotes and classifies each field.
fn split_fields(atoms: &[WordAtom], written: &str, arguments: &mut Vec<ShellArg>) {
    let mut field = SplitField::default();
    for atom in atoms {
        match atom {
            WordAtom::Plain(char) => field.push_char(*char, false),
            WordAtom::Quoted(char) => field.push_char(*char, true),
            WordAtom::Quotes => field.exists = true,
            WordAtom::Break => field.finish(written, arguments),
            WordAtom::Unknown => field.mark_unknown(),
            WordAtom::UnknownWords => field.mark_unknown_words(),
            WordAtom::Pattern(pattern) => {
                field.exists = true;
                field.globs = true;
                field.text.push_str(pattern);
                field.pattern.push_str(pattern);
            }
            WordAtom::Split(value) => {
                for char in value.chars() {
                    if matches!(char, ' ' | '\t' | '\n') {
                        field.finish(written, arguments);
                    } else {
                        field.push_char(char, false);
                    }
                }
            }
        }
    }
    field.finish(written, arguments);
}

#[derive(Default)]
struct SplitField {
    /// The known prefix.
    text: String,
    /// The same with quoted special characters escaped.
    pattern: String,
    exists: bool,
    globs: bool,
    /// Whether it contains a `[`.
    bracket: bool,
    unknown: bool,
    /// Whether unknown words may follow.
    more: bool,
}

impl SplitField {
    fn push_char(&mut self, char: char, quoted: bool) {
        self.exists = true;
        if self.unknown {
            return;
        }
        let special = matches!(char, '*' | '?' | '[');
        self.text.push(char);
        if quoted && (special || char == '\\') {
            self.pattern.push('\\');
        }
        // `[` is a glob only with a `]` after it; alone it is a command.
        self.globs |= !quoted && (matches!(char, '*' | '?') || (char == ']' && self.bracket));
        self.bracket |= !quoted && char == '[';
        self.pattern.push(char);
    }

    fn mark_unknown(&mut self) {
        self.exists = true;
        self.unknown = true;
    }

    fn mark_unknown_words(&mut self) {
        self.mark_unknown();
        self.more = true;
    }

    fn finish(&mut self, written: &str, arguments: &mut Vec<ShellArg>) {
        let field = std::mem::take(self);
        if !field.exists {
            return;
        }
        if !field.unknown {
            let whole = if field.globs {
                ShellArg::Pattern(field.pattern)
            } else {
                ShellArg::Known(field.text)
            };
            arguments.push(whole);
            return;
        }
        // A glob before the unknown part may match anything.
        let certain = field.text.find(['*', '?', '[']).unwrap_or(field.text.len());
        let starts_with = field.text[..certain].to_owned();
        let more = field.more && !starts_with.is_empty();
        arguments.push(ShellArg::Unknown { starts_with, written: written.to_owned() });
        if more {
            // `a$x` may become `a` and `-rf`: the words after the first are unknown.
            arguments
                .push(ShellArg::Unknown { starts_with: String::new(), written: String::new() });
        }
    }
}
