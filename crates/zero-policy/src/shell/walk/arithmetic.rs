//! Arithmetic. Where the shell expects a number it evaluates the text as an expression: names in it
//! stand for other texts, and a subscript in any of them can contain a `$(command)`.

use super::super::analysis::UncertaintyKind;
use super::super::ast::{
    CommandList, ParameterOperation, ShellCommandKind, ShellWord, SourceSpan, WordPart,
};
use super::super::shell_state::{ShellState, VariableValue, is_number};
use super::{NodeContext, ScriptWalker};

/// Operators of `[[ … ]]` that compare numbers.
pub(super) const NUMERIC_COMPARISONS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

impl ScriptWalker<'_> {
    /// `(( … ))`, `$(( … ))` and the like.
    pub(super) fn walk_arithmetic(
        &mut self,
        word: &ShellWord,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        self.walk_nested_word(word, context, state);
        self.walk_calculation(word, context, state);
    }

    /// Evaluates a word whose substitutions have run. The result is uncertain unless it is
    /// certainly harmless.
    pub(super) fn walk_calculation(
        &mut self,
        word: &ShellWord,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        self.check_calculation(word, context, state);
        if !assigns_variables(word) {
            return;
        }
        // A name that is put together here may get a subscript.
        let texts = word.parts.iter().filter_map(|part| match part {
            WordPart::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        let texts: Vec<&str> = texts.collect();
        if texts.len() < word.parts.len() && texts.iter().any(|text| text.contains('[')) {
            self.arrays.insert_any();
        }
        for name in collect_names(word) {
            self.arrays.insert(&name);
            self.check_assigned_variable(&name, word.span, context);
            // Any text in it would have been reported, so the value is a number now.
            state.set(&name, VariableValue::Number);
        }
    }

    fn check_calculation(&mut self, word: &ShellWord, context: NodeContext, state: &ShellState) {
        let harmless = word.parts.iter().all(|part| match part {
            WordPart::Text { text, .. } => !text.contains(['$', '`']),
            part => self.part_is_number(part, state),
        });
        let unclear = collect_names(word).into_iter().find(|name| !state.is_number(name));
        if harmless && unclear.is_none() {
            return;
        }
        let what = unclear.unwrap_or_else(|| self.source_text(word).to_owned());
        let reason = format!("`{what}` is calculated, and a text in it may run a command");
        self.record_uncertainty(context, word.span, UncertaintyKind::Unresolved, reason);
    }

    /// The operands of `[[ … ]]` that are numbers or names of variables.
    pub(super) fn walk_test_operands(
        &mut self,
        words: &[ShellWord],
        span: SourceSpan,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        for (at, word) in words.iter().enumerate() {
            let [WordPart::Text { text, quoted: false }] = &word.parts[..] else { continue };
            let before = at.checked_sub(1).and_then(|at| words.get(at));
            let after = words.get(at + 1);
            if NUMERIC_COMPARISONS.contains(&text.as_str()) {
                for operand in before.into_iter().chain(after) {
                    self.walk_calculation(operand, context, state);
                }
            } else if matches!(text.as_str(), "-v" | "-R")
                && let Some(name) = after
            {
                let plain = name.parts.iter().all(
                    |part| matches!(part, WordPart::Text { text, .. } if !text.contains(['$', '`', '['])),
                );
                if !plain {
                    let reason = "the index of an array may hold a command".to_owned();
                    self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
                }
            }
        }
    }

    /// Whether a word certainly expands to a number.
    pub(super) fn is_number(&self, word: &ShellWord, state: &ShellState) -> bool {
        !word.parts.is_empty()
            && word.parts.iter().all(|part| match part {
                WordPart::Text { text, .. } => is_number(text),
                part => self.part_is_number(part, state),
            })
    }

    /// Whether words certainly expand to numbers only.
    pub(super) fn are_numbers(&self, words: &[ShellWord], state: &ShellState) -> bool {
        words.iter().all(|word| self.is_number(word, state))
    }

    fn part_is_number(&self, part: &WordPart, state: &ShellState) -> bool {
        match part {
            WordPart::Text { .. } | WordPart::Process { .. } => false,
            WordPart::Arithmetic(_) => true,
            WordPart::Command { list, .. } => self.prints_numbers(list, state),
            WordPart::Parameter(parameter) => match parameter.operation {
                ParameterOperation::Length => true,
                ParameterOperation::Plain if parameter.words.is_empty() => {
                    match parameter.name.as_str() {
                        "#" | "?" | "$" | "!" => true,
                        name => {
                            name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
                                && state.is_number(name)
                        }
                    }
                }
                _ => false,
            },
        }
    }

    /// Whether commands print only numbers.
    fn prints_numbers(&self, list: &CommandList, state: &ShellState) -> bool {
        let [item] = &list.items[..] else { return false };
        let Some(last) = item.pipeline.commands.last() else { return false };
        let ShellCommandKind::Simple(simple) = &last.kind else { return false };
        let words: Option<Vec<String>> = simple
            .words
            .iter()
            .flat_map(|word| self.expand_arguments(word, state))
            .map(|arg| arg.as_known().map(str::to_owned))
            .collect();
        let Some(words) = words else { return false };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some((program, args)) = words.split_first() else { return false };
        if state.function(program).is_some() {
            return false;
        }
        match *program {
            // With a file name they print the name as well.
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
pub(super) fn parse_subscript(element: &ShellWord) -> Option<ShellWord> {
    let Some(WordPart::Text { text, quoted: false }) = element.parts.first() else { return None };
    let first = text.strip_prefix('[')?;
    let mut parts = Vec::new();
    let first = WordPart::Text { text: first.to_owned(), quoted: false };
    for part in std::iter::once(&first).chain(element.parts.iter().skip(1)) {
        if let WordPart::Text { text, quoted: false } = part
            && let Some((inside, _)) = text.split_once("]=").or_else(|| text.split_once("]+="))
        {
            parts.push(WordPart::Text { text: inside.to_owned(), quoted: false });
            return Some(ShellWord { parts, span: element.span });
        }
        parts.push(part.clone());
    }
    None
}

/// Whether an expression sets variables.
pub(super) fn assigns_variables(word: &ShellWord) -> bool {
    word.parts.iter().any(|part| match part {
        WordPart::Text { text, .. } => ["=", "++", "--"].iter().any(|sign| text.contains(sign)),
        _ => true,
    })
}

/// The names in an expression.
pub(super) fn collect_names(word: &ShellWord) -> Vec<String> {
    let mut names = Vec::new();
    for part in &word.parts {
        let WordPart::Text { text, .. } = part else { continue };
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '#';
        let pieces = text.split(|char| !is_part(char)).filter(|piece| {
            piece.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        });
        names.extend(pieces.map(str::to_owned));
    }
    names
}
