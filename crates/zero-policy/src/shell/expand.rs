//! From a word to the arguments it becomes, as far as they can be known.
//!
//! The steps of the shell, in its order: braces, tilde, variables, splitting, quotes. File name
//! patterns are kept as patterns. What depends on something unknown becomes [`Arg::Unknown`].

use std::path::Path;

use super::arg::Arg;
use super::ast::{Operation, Part, Word};
use super::state::{State, Value};

/// Words that braces may become; with more, the word is unknown.
const BRACE_WORDS_MAX: usize = 64;
/// Characters of a word that are looked at for braces; patterns in longer words are not resolved.
const BRACE_ATOMS_MAX: usize = 4096;

/// What a process substitution is called by the program that gets it.
const PROCESS_FILE: &str = "/dev/fd/63";

/// The smallest piece of a word.
#[derive(Clone, Debug)]
enum Atom {
    /// An unquoted character: may glob, split or open a brace.
    Plain(char),
    /// A quoted character: means itself.
    Quoted(char),
    /// Quotes around nothing: there is a word, even if it is empty.
    Quotes,
    /// The value of a variable outside quotes: is split and globbed, but not brace-expanded.
    Split(String),
    /// The value of a variable that is a file name pattern.
    Pattern(String),
    /// Something unknown.
    Hole,
}

/// The arguments a word becomes. `written` is the word in the source, for people.
pub(super) fn arguments(
    word: &Word,
    written: &str,
    state: &State,
    home: Option<&Path>,
) -> Vec<Arg> {
    let unknown = || Arg::Unknown { starts_with: String::new(), written: written.to_owned() };
    let mut atoms = Vec::new();
    for part in &word.parts {
        push_part(part, state, home, &mut atoms);
    }
    let Some(words) = brace_words(atoms) else { return vec![unknown()] };
    let mut arguments = Vec::new();
    for atoms in words {
        fields(&expand_tilde(atoms, home), written, &mut arguments);
    }
    arguments
}

/// The one argument a word becomes where the shell does not split: an assignment, a here-string.
pub(super) fn scalar(word: &Word, written: &str, state: &State, home: Option<&Path>) -> Arg {
    let mut atoms = Vec::new();
    for part in &word.parts {
        push_part(part, state, home, &mut atoms);
    }
    let mut text = String::new();
    for atom in expand_tilde(atoms, home) {
        match atom {
            Atom::Plain(char) | Atom::Quoted(char) => text.push(char),
            Atom::Quotes => {}
            Atom::Split(value) | Atom::Pattern(value) => text.push_str(&value),
            Atom::Hole => {
                return Arg::Unknown { starts_with: text, written: written.to_owned() };
            }
        }
    }
    Arg::Known(text)
}

fn push_part(part: &Part, state: &State, home: Option<&Path>, atoms: &mut Vec<Atom>) {
    match part {
        Part::Text { text, quoted: true } => {
            atoms.push(Atom::Quotes);
            atoms.extend(text.chars().map(Atom::Quoted));
        }
        Part::Text { text, quoted: false } => atoms.extend(text.chars().map(Atom::Plain)),
        Part::Parameter(parameter) => {
            let value = match parameter.operation {
                Operation::Plain => lookup(&parameter.name, state, home),
                _ => Value::Unknown,
            };
            if parameter.quoted {
                atoms.push(Atom::Quotes);
            }
            match value {
                Value::Known(text) if parameter.quoted => {
                    atoms.extend(text.chars().map(Atom::Quoted));
                }
                Value::Known(text) => atoms.push(Atom::Split(text)),
                Value::Pattern(pattern) => atoms.push(Atom::Pattern(pattern)),
                Value::Unknown => atoms.push(Atom::Hole),
            }
        }
        Part::Command { .. } | Part::Arithmetic(_) => atoms.push(Atom::Hole),
        Part::Process { .. } => atoms.extend(PROCESS_FILE.chars().map(Atom::Quoted)),
    }
}

fn lookup(name: &str, state: &State, home: Option<&Path>) -> Value {
    use super::analysis::Folders;
    if let Some(value) = state.variable(name) {
        return value.clone();
    }
    let path = match (name, &state.folders) {
        ("HOME", _) => home,
        ("PWD", Folders::OneOf(folders)) if folders.len() == 1 => {
            folders.first().map(std::path::PathBuf::as_path)
        }
        _ => None,
    };
    path.and_then(Path::to_str).map_or(Value::Unknown, |path| Value::Known(path.to_owned()))
}

/// `{a,b}` and `{1..3}`: the words they become, or `None` when there are too many.
fn brace_words(atoms: Vec<Atom>) -> Option<Vec<Vec<Atom>>> {
    let has_brace = atoms.iter().any(|atom| matches!(atom, Atom::Plain('{')));
    if !has_brace {
        return Some(vec![atoms]);
    }
    if atoms.len() > BRACE_ATOMS_MAX {
        return None;
    }
    let mut done: Vec<Vec<Atom>> = Vec::new();
    let mut open: Vec<Vec<Atom>> = vec![atoms];
    // Each round expands the first brace of one word; the results are looked at again.
    for _ in 0..BRACE_WORDS_MAX * 8 {
        let Some(word) = open.pop() else {
            done.reverse();
            return Some(done);
        };
        match first_brace(&word)? {
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

struct Brace {
    start: usize,
    end: usize,
    choices: Vec<Vec<Atom>>,
}

/// The first brace that expands; the outer `None` when it is too large.
#[expect(clippy::option_option, reason = "too large and none at all are different answers")]
fn first_brace(word: &[Atom]) -> Option<Option<Brace>> {
    for (start, atom) in word.iter().enumerate() {
        if !matches!(atom, Atom::Plain('{')) {
            continue;
        }
        let mut depth = 0usize;
        let mut commas = vec![start];
        let mut end = None;
        for (at, atom) in word.iter().enumerate().skip(start) {
            match atom {
                Atom::Plain('{') => depth += 1,
                Atom::Plain('}') => {
                    depth -= 1;
                    if depth == 0 {
                        end = Some(at);
                        break;
                    }
                }
                Atom::Plain(',') if depth == 1 => commas.push(at),
                _ => {}
            }
        }
        let Some(end) = end else { continue };
        if commas.len() > 1 {
            commas.push(end);
            let choices =
                commas.windows(2).map(|pair| word[pair[0] + 1..pair[1]].to_vec()).collect();
            return Some(Some(Brace { start, end: end + 1, choices }));
        }
        let inner: Option<String> = word[start + 1..end]
            .iter()
            .map(|atom| if let Atom::Plain(char) = atom { Some(*char) } else { None })
            .collect();
        if let Some(range) = inner.as_deref().filter(|inner| inner.contains("..")) {
            let choices = range_words(range)?;
            if let Some(choices) = choices {
                return Some(Some(Brace { start, end: end + 1, choices }));
            }
        }
    }
    Some(None)
}

/// `1..3`, `a..e`: the texts; the outer `None` when there are too many.
#[expect(clippy::option_option, reason = "too many and none at all are different answers")]
fn range_words(range: &str) -> Option<Option<Vec<Vec<Atom>>>> {
    let mut ends = range.split("..");
    let (Some(first), Some(last), None) = (ends.next(), ends.next(), ends.next()) else {
        // With a step: seldom enough to be left unknown.
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
            (low..=high).map(|number| number.to_string()).collect()
        }
        _ => {
            let mut chars = first.chars().zip(last.chars());
            match (chars.next(), first.len() == 1 && last.len() == 1) {
                (Some((low, high)), true) => {
                    let (low, high) = (low.min(high), low.max(high));
                    if u32::from(high) - u32::from(low) >= BRACE_WORDS_MAX as u32 {
                        return None;
                    }
                    (low..=high).map(String::from).collect()
                }
                _ => return Some(None),
            }
        }
    };
    Some(Some(texts.iter().map(|text| text.chars().map(Atom::Plain).collect()).collect()))
}

/// `~` and `~/…` at the start of a word.
fn expand_tilde(atoms: Vec<Atom>, home: Option<&Path>) -> Vec<Atom> {
    if !matches!(atoms.first(), Some(Atom::Plain('~'))) {
        return atoms;
    }
    let end = atoms.iter().position(|atom| matches!(atom, Atom::Plain('/'))).unwrap_or(atoms.len());
    let expanded = match (end, home.and_then(Path::to_str)) {
        (1, Some(home)) => home.chars().map(Atom::Quoted).collect(),
        // `~user`, `~+`, or nobody said where home is.
        _ => vec![Atom::Hole],
    };
    let mut all: Vec<Atom> = expanded;
    all.extend(atoms.into_iter().skip(end));
    all
}

/// Splits what was expanded outside quotes and says what each field is.
fn fields(atoms: &[Atom], written: &str, arguments: &mut Vec<Arg>) {
    let mut field = Field::default();
    for atom in atoms {
        match atom {
            Atom::Plain(char) => field.push(*char, false),
            Atom::Quoted(char) => field.push(*char, true),
            Atom::Quotes => field.exists = true,
            Atom::Hole => field.open(),
            Atom::Pattern(pattern) => {
                field.exists = true;
                field.globs = true;
                field.text.push_str(pattern);
                field.pattern.push_str(pattern);
            }
            Atom::Split(value) => {
                for char in value.chars() {
                    if matches!(char, ' ' | '\t' | '\n') {
                        field.end(written, arguments);
                    } else {
                        field.push(char, false);
                    }
                }
            }
        }
    }
    field.end(written, arguments);
}

#[derive(Default)]
struct Field {
    /// What it certainly starts with.
    text: String,
    /// The same with quoted special characters escaped.
    pattern: String,
    exists: bool,
    globs: bool,
    /// Whether a bracket was opened.
    brackets: bool,
    unknown: bool,
}

impl Field {
    fn push(&mut self, char: char, quoted: bool) {
        self.exists = true;
        if self.unknown {
            return;
        }
        let special = matches!(char, '*' | '?' | '[');
        self.text.push(char);
        if quoted && (special || char == '\\') {
            self.pattern.push('\\');
        }
        // A bracket means itself until it is closed, as that of `[ -f x ]` never is.
        self.globs |= !quoted && matches!(char, '*' | '?') || self.brackets && char == ']';
        self.brackets |= !quoted && char == '[';
        self.pattern.push(char);
    }

    fn open(&mut self) {
        self.exists = true;
        self.unknown = true;
    }

    fn end(&mut self, written: &str, arguments: &mut Vec<Arg>) {
        let field = std::mem::take(self);
        if !field.exists {
            return;
        }
        arguments.push(if field.unknown {
            // A pattern before the hole may stand for anything that fits it.
            let certain = field.text.find(['*', '?', '[']).unwrap_or(field.text.len());
            let starts_with = field.text[..certain].to_owned();
            Arg::Unknown { starts_with, written: written.to_owned() }
        } else if field.globs {
            Arg::Pattern(field.pattern)
        } else {
            Arg::Known(field.text)
        });
    }
}
