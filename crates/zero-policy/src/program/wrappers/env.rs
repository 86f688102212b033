//! `env`: variables, a working folder, and `-S`, which takes a command line.

use crate::program::arguments::{parse_assignment, unknown_arg};
use crate::program::command_analysis::{CommandAnalysis, NestedExecution};
use crate::program::options::{OptionTable, options};
use crate::shell::ShellArg;

const TABLE: OptionTable = options!(
    "-i0v -uC: S:last -aP: ignore-environment null unset: chdir: split-string:last block-signal:: \
     default-signal:: ignore-signal:: list-signal-handling debug argv0: help version"
)
.strict();

/// Most nested `-S` options.
const SPLITS_MAX: usize = 8;

pub(super) fn analyze(args: &[ShellArg]) -> CommandAnalysis {
    let mut args = args.to_vec();
    let mut folder = None;
    let mut guess = false;
    for _ in 0..SPLITS_MAX {
        let options = TABLE.until_operand().parse(&args);
        guess |= options.uncertain || options.has(&["P"]);
        folder = options.values(&["C", "chdir"]).last().cloned().or(folder);
        let Some(text) = options.values(&["S", "split-string"]).last() else {
            return analyze_inner_command(options.operands, folder, guess);
        };
        // The words of the text replace it, and may include options.
        let Some(mut words) = text.as_known().and_then(split_string) else {
            return CommandAnalysis::wrapper()
                .with_run(NestedExecution::Unknown("`-S` holds a text that is not known"));
        };
        words.extend(options.operands);
        args = words;
    }
    CommandAnalysis::wrapper()
        .with_run(NestedExecution::Unknown("`-S` within `-S`, too deep to follow"))
}

fn analyze_inner_command(
    operands: Vec<ShellArg>,
    folder: Option<ShellArg>,
    mut guess: bool,
) -> CommandAnalysis {
    let mut variables = Vec::new();
    let mut words = operands.into_iter().peekable();
    // A lone `-` means `-i`.
    while words.next_if(|word| word.as_known() == Some("-")).is_some() {}
    while let Some(word) = words.peek() {
        match parse_assignment(word) {
            Some(variable) => {
                // `env A=$x ls`: further words of `$x` would be the command.
                guess |= word.may_split();
                variables.push(variable);
            }
            None => break,
        }
        words.next();
    }
    let argv: Vec<ShellArg> = words.collect();
    guess |= argv.first().is_some_and(|program| program.as_known().is_none());
    if argv.is_empty() {
        return CommandAnalysis::read_only().mark_guess_if(guess);
    }
    CommandAnalysis::wrapper()
        .with_run(NestedExecution::Command { argv, variables, folder, more_arguments: false })
        .mark_guess_if(guess)
}

/// Splits a text like `env -S`; `None` if that would reject it.
fn split_string(text: &str) -> Option<Vec<ShellArg>> {
    let mut words = Vec::new();
    let mut word = SplitStringWord::default();
    let mut quote = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (mark @ ('\'' | '"'), None) => {
                quote = Some(mark);
                word.begun = true;
            }
            (mark @ ('\'' | '"'), Some(open)) if mark == open => quote = None,
            ('\\', Some('\'')) => {
                let escaped = letters.next_if(|next| matches!(next, '\'' | '\\'));
                word.push(escaped.unwrap_or('\\'));
            }
            ('\\', _) => match (letters.next()?, quote) {
                ('c', None) => break,
                ('c', _) => return None,
                ('_', None) => word.finish(&mut words),
                ('_', _) => word.push(' '),
                (plain @ ('#' | '$' | '"' | '\'' | '\\'), _) => word.push(plain),
                ('f', _) => word.push('\u{c}'),
                ('n', _) => word.push('\n'),
                ('r', _) => word.push('\r'),
                ('t', _) => word.push('\t'),
                ('v', _) => word.push('\u{b}'),
                _ => return None,
            },
            ('$', None | Some('"')) => word.mark_unknown(),
            ('#', None) if !word.begun => break,
            (space, None) if space.is_ascii_whitespace() || space == '\u{b}' => {
                word.finish(&mut words);
            }
            (plain, _) => word.push(plain),
        }
    }
    word.finish(&mut words);
    (quote.is_none() || letters.peek().is_some()).then_some(words)
}

#[derive(Default)]
struct SplitStringWord {
    text: String,
    begun: bool,
    /// Length of the known prefix, after a variable occurred.
    certain: Option<usize>,
}

impl SplitStringWord {
    fn push(&mut self, letter: char) {
        self.text.push(letter);
        self.begun = true;
    }

    fn mark_unknown(&mut self) {
        self.certain.get_or_insert(self.text.len());
        self.push('$');
    }

    fn finish(&mut self, words: &mut Vec<ShellArg>) {
        let Self { text, begun, certain } = std::mem::take(self);
        match certain {
            Some(end) => {
                words.push(unknown_arg(text.get(..end).unwrap_or_default(), text.as_str()))
            }
            None if begun => words.push(ShellArg::Known(text)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::analysis_text::{check, render_analysis};
    use super::*;

    #[test]
    fn env_variables_and_options_precede_command() {
        check("env rm x", "wrapper runs[rm x]");
        check("env A=b C=$D rm x", "wrapper runs[A=b C=$D rm x] unknown");
        check("env A=b C=\"$D\" rm x", "wrapper runs[A=b C=\"$D\" rm x]");
        check("env -i - PATH=/x rm x", "wrapper runs[PATH=/x rm x]");
        check("env -u A --unset=B -C dir rm x", "wrapper runs[dir: rm x]");
        check("env --ch dir rm x", "wrapper runs[dir: rm x]");
        check("env", "read-only");
        check("env A=b", "read-only");
        check("env $X rm", "wrapper runs[$X rm] unknown");
        check("genv rm x", "wrapper runs[rm x]");
    }

    #[test]
    fn env_split_string_is_a_command_line() {
        check("env -S rm_-rf_x", "wrapper runs[rm -rf x]");
        check("env -Srm_-rf x", "wrapper runs[rm -rf x]");
        check("env -iS A=b_rm x", "wrapper runs[A=b rm x]");
        check("env --split=rm_-rf x -v", "wrapper runs[rm -rf x -v]");
        check("env -S -i_-S", "read-only");
        check("env -S rm_$X", "wrapper unknown");
        check("env -S -C_dir_rm -v", "wrapper runs[dir: rm -v]");
    }

    #[track_caller]
    fn check_split(given: &str, expected: &str) {
        let argv = [ShellArg::known("-S"), ShellArg::known(given)];
        assert_eq!(render_analysis(&analyze(&argv)), expected, "{given}");
    }

    #[test]
    fn env_split_string_has_own_quoting() {
        check_split("rm 'a b' \"c d\"", "wrapper runs[rm a b c d]");
        check_split(r"rm\_-rf\_x", "wrapper runs[rm -rf x]");
        check_split(r"rm x \c ignored", "wrapper runs[rm x]");
        check_split("rm x # comment", "wrapper runs[rm x]");
        check_split("rm ${HOME}/x", "wrapper runs[rm ${HOME}/x]");
        check_split("r'm' x", "wrapper runs[rm x]");
        check_split("rm 'x", "wrapper unknown");
        check_split(r"rm \q", "wrapper unknown");
    }
}
