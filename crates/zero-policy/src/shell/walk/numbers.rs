//! Calculations. Where the shell takes a text for a number it reads it as an expression, names in it
//! stand for other texts, and a subscript in any of them may hold a `$(command)`.

use super::super::analysis::DoubtKind;
use super::super::ast::{CommandKind, List, Operation, Part, Span, Word};
use super::super::state::{State, Value, is_number};
use super::{Here, Walker};

/// Operators of `[[ … ]]` that compare numbers.
pub(super) const COMPARING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

impl Walker<'_> {
    /// `(( … ))`, `$(( … ))` and the like.
    pub(super) fn arithmetic(&mut self, word: &Word, here: Here, state: &mut State) {
        self.nested(word, here, state);
        self.calculated(word, here, state);
    }

    /// Calculates a word whose substitutions have run. It is doubted unless it certainly is
    /// harmless.
    pub(super) fn calculated(&mut self, word: &Word, here: Here, state: &mut State) {
        self.doubt_calculation(word, here, state);
        if !assigns(word) {
            return;
        }
        for name in names(word) {
            self.assigned(&name, word.span, here);
            // Any text in it would have been doubted, so that whatever it is now is a number.
            state.set(&name, Value::Number);
        }
    }

    fn doubt_calculation(&mut self, word: &Word, here: Here, state: &State) {
        let harmless = word.parts.iter().all(|part| match part {
            Part::Text { text, .. } => !text.contains(['$', '`']),
            part => self.part_is_number(part, state),
        });
        let unclear = names(word).into_iter().find(|name| !state.is_number(name));
        if harmless && unclear.is_none() {
            return;
        }
        let what = unclear.unwrap_or_else(|| self.written(word).to_owned());
        let reason = format!("`{what}` is calculated, and a text in it may run a command");
        self.doubt(here, word.span, DoubtKind::Unresolved, reason);
    }

    /// The operands of `[[ … ]]` that are numbers or names of variables.
    pub(super) fn tested(&mut self, words: &[Word], span: Span, here: Here, state: &mut State) {
        for (at, word) in words.iter().enumerate() {
            let [Part::Text { text, quoted: false }] = &word.parts[..] else { continue };
            let before = at.checked_sub(1).and_then(|at| words.get(at));
            let after = words.get(at + 1);
            if COMPARING.contains(&text.as_str()) {
                for operand in before.into_iter().chain(after) {
                    self.calculated(operand, here, state);
                }
            } else if matches!(text.as_str(), "-v" | "-R")
                && let Some(name) = after
            {
                let plain = name.parts.iter().all(
                    |part| matches!(part, Part::Text { text, .. } if !text.contains(['$', '`', '['])),
                );
                if !plain {
                    let reason = "the index of an array may hold a command".to_owned();
                    self.doubt(here, span, DoubtKind::Unresolved, reason);
                }
            }
        }
    }

    /// Whether a word certainly becomes a number.
    pub(super) fn is_number(&self, word: &Word, state: &State) -> bool {
        !word.parts.is_empty()
            && word.parts.iter().all(|part| match part {
                Part::Text { text, .. } => is_number(text),
                part => self.part_is_number(part, state),
            })
    }

    /// Whether words certainly become nothing but numbers.
    pub(super) fn are_numbers(&self, words: &[Word], state: &State) -> bool {
        words.iter().all(|word| self.is_number(word, state))
    }

    fn part_is_number(&self, part: &Part, state: &State) -> bool {
        match part {
            Part::Text { .. } | Part::Process { .. } => false,
            Part::Arithmetic(_) => true,
            Part::Command { list, .. } => self.prints_numbers(list, state),
            Part::Parameter(parameter) => match parameter.operation {
                Operation::Length => true,
                Operation::Plain if parameter.words.is_empty() => match parameter.name.as_str() {
                    "#" | "?" | "$" | "!" => true,
                    name => {
                        name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
                            && state.is_number(name)
                    }
                },
                _ => false,
            },
        }
    }

    /// Whether commands print nothing but numbers.
    fn prints_numbers(&self, list: &List, state: &State) -> bool {
        let [item] = &list.items[..] else { return false };
        let Some(last) = item.pipeline.commands.last() else { return false };
        let CommandKind::Simple(simple) = &last.kind else { return false };
        let words: Option<Vec<String>> = simple
            .words
            .iter()
            .flat_map(|word| self.arguments(word, state))
            .map(|arg| arg.as_known().map(str::to_owned))
            .collect();
        let Some(words) = words else { return false };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some((program, args)) = words.split_first() else { return false };
        if state.function(program).is_some() {
            return false;
        }
        match *program {
            // With the name of a file they print it as well.
            "wc" => args.len() == 1 && matches!(args, ["-l" | "-c" | "-w" | "-m"]),
            "seq" => args.iter().all(|arg| is_number(arg)),
            "nproc" => args.is_empty(),
            "date" => args == ["+%s"],
            "id" => matches!(args, ["-u" | "-g"]),
            _ => false,
        }
    }
}

/// The subscript of an element such as `[1]=a`, as a word of its own.
pub(super) fn subscript(element: &Word) -> Option<Word> {
    let Some(Part::Text { text, quoted: false }) = element.parts.first() else { return None };
    let first = text.strip_prefix('[')?;
    let mut parts = Vec::new();
    let first = Part::Text { text: first.to_owned(), quoted: false };
    for part in std::iter::once(&first).chain(element.parts.iter().skip(1)) {
        if let Part::Text { text, quoted: false } = part
            && let Some((inside, _)) = text.split_once("]=").or_else(|| text.split_once("]+="))
        {
            parts.push(Part::Text { text: inside.to_owned(), quoted: false });
            return Some(Word { parts, span: element.span });
        }
        parts.push(part.clone());
    }
    None
}

/// Whether a calculation sets variables.
pub(super) fn assigns(word: &Word) -> bool {
    word.parts.iter().any(|part| match part {
        Part::Text { text, .. } => ["=", "++", "--"].iter().any(|sign| text.contains(sign)),
        _ => true,
    })
}

/// The names in a calculation.
pub(super) fn names(word: &Word) -> Vec<String> {
    let mut names = Vec::new();
    for part in &word.parts {
        let Part::Text { text, .. } = part else { continue };
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '#';
        let pieces = text.split(|char| !is_part(char)).filter(|piece| {
            piece.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        });
        names.extend(pieces.map(str::to_owned));
    }
    names
}
