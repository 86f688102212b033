//! Where vim's motions lead, and which part of a text an operator gets.

use std::ops::Range;

use super::grapheme::{
    line_end, line_range, line_start, next_boundary, previous_boundary, round_up, slice, step_back,
    step_forward,
};
use super::vim_mode::{VimMotion, VimOperator, VimTarget};
use super::word_motion::{CharClass, WordKind, class_at, classify, run_end, run_start};

/// A part of a text for an operator.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OperatorRange {
    /// The part, without the line end of its last line if it is whole lines.
    pub(super) range: Range<usize>,
    /// Whether it is whole lines.
    pub(super) is_linewise: bool,
}

/// Position after a motion. Rows are not known here: up and down are lines.
pub(super) fn move_by(text: &str, at: usize, motion: VimMotion, count: Option<usize>) -> usize {
    let times = count.unwrap_or(1);
    let repeat = |step: &dyn Fn(usize) -> usize| {
        let mut at = at;
        for _ in 0..times {
            let next = step(at);
            if next == at {
                break;
            }
            at = next;
        }
        at
    };
    match motion {
        VimMotion::Left => step_back(text, at, times),
        VimMotion::Right => step_forward(text, at, times),
        VimMotion::Up => repeat(&|at| line_start(text, line_start(text, at).saturating_sub(1))),
        VimMotion::Down => repeat(&|at| next_line(text, at).unwrap_or(at)),
        VimMotion::NextWord(kind) => repeat(&|at| next_word(text, at, kind)),
        VimMotion::PreviousWord(kind) => repeat(&|at| previous_word(text, at, kind)),
        VimMotion::WordEnd(kind) => repeat(&|at| word_end(text, at, kind)),
        VimMotion::LineStart => line_start(text, at),
        VimMotion::FirstLetter => first_letter(text, at),
        VimMotion::LineEnd => line_end(text, lines_below(text, at, times.saturating_sub(1))),
        VimMotion::TextStart => first_letter(text, lines_below(text, 0, times.saturating_sub(1))),
        VimMotion::TextEnd => match count {
            Some(line) => first_letter(text, lines_below(text, 0, line.saturating_sub(1))),
            None => first_letter(text, text.len()),
        },
    }
}

/// The part of the text that an operator gets.
pub(super) fn operator_range(
    text: &str,
    at: usize,
    operator: VimOperator,
    target: VimTarget,
    count: Option<usize>,
) -> OperatorRange {
    let times = count.unwrap_or(1);
    match target {
        VimTarget::Lines => select_lines(text, at, lines_below(text, at, times.saturating_sub(1))),
        VimTarget::InnerWord => select_letters(inner_word(text, at)),
        VimTarget::AroundWord => select_letters(around_word(text, at)),
        VimTarget::Motion(motion) => {
            let to = move_by(text, at, motion, count);
            match motion {
                VimMotion::Up | VimMotion::Down | VimMotion::TextStart | VimMotion::TextEnd => {
                    select_lines(text, at.min(to), at.max(to))
                }
                VimMotion::NextWord(kind) if operator == VimOperator::Change => {
                    select_letters(at..changed_words_end(text, at, kind, times))
                }
                VimMotion::NextWord(_) => select_letters(at..last_word_end(text, at, to)),
                VimMotion::WordEnd(_) => select_letters(at..next_boundary(text, to)),
                _ => select_letters(at.min(to)..at.max(to)),
            }
        }
    }
}

/// The first position of a line that is not blank.
pub(super) fn first_letter(text: &str, at: usize) -> usize {
    let line = line_range(text, at);
    let is_blank = |letter: char| matches!(letter, ' ' | '\t');
    let content = slice(text, line.clone()).trim_start_matches(is_blank);
    round_up(text, line.end - content.len())
}

fn select_letters(range: Range<usize>) -> OperatorRange {
    OperatorRange { range, is_linewise: false }
}

fn select_lines(text: &str, first: usize, last: usize) -> OperatorRange {
    OperatorRange { range: line_start(text, first)..line_end(text, last), is_linewise: true }
}

fn next_line(text: &str, at: usize) -> Option<usize> {
    let end = line_end(text, at);
    (end < text.len()).then_some(end + 1)
}

/// Start of the line so many lines below, or of the last one.
fn lines_below(text: &str, at: usize, count: usize) -> usize {
    let mut at = line_start(text, at);
    for _ in 0..count {
        let Some(next) = next_line(text, at) else { break };
        at = next;
    }
    at
}

fn next_word(text: &str, at: usize, kind: WordKind) -> usize {
    let end = current_run_end(text, at, kind);
    let blanks = slice(text, end..text.len());
    let mut previous = None;
    for (offset, letter) in blanks.char_indices() {
        // An empty line is a word.
        let starts_empty_line = letter == '\n' && previous == Some('\n');
        if starts_empty_line || classify(letter, kind) != Some(CharClass::Blank) {
            return round_up(text, end + offset);
        }
        previous = Some(letter);
    }
    text.len()
}

/// End of the word at a position; the position itself if it is blank.
fn current_run_end(text: &str, at: usize, kind: WordKind) -> usize {
    match class_at(text, at, kind) {
        None | Some(CharClass::Blank) => at,
        Some(CharClass::Token) => next_boundary(text, at),
        Some(class) => run_end(text, at, kind, |other| other == class),
    }
}

fn word_end(text: &str, at: usize, kind: WordKind) -> usize {
    let next = next_boundary(text, at);
    let start = run_end(text, next, kind, |class| class == CharClass::Blank);
    match current_run_end(text, start, kind) {
        end if end > start => previous_boundary(text, end),
        _ => at.max(previous_boundary(text, text.len())),
    }
}

fn previous_word(text: &str, at: usize, kind: WordKind) -> usize {
    let end = run_start(text, at, kind, |class| class == CharClass::Blank);
    let class = slice(text, 0..end).chars().rev().find_map(|letter| classify(letter, kind));
    match class {
        None | Some(CharClass::Blank) => 0,
        Some(CharClass::Token) => previous_boundary(text, end),
        Some(class) => run_start(text, end, kind, |other| other == class),
    }
}

/// Changing words leaves the blanks behind the last one.
fn changed_words_end(text: &str, at: usize, kind: WordKind, count: usize) -> usize {
    if class_at(text, at, kind) == Some(CharClass::Blank) {
        let to = move_by(text, at, VimMotion::NextWord(kind), Some(count));
        return last_word_end(text, at, to);
    }
    let mut end = current_run_end(text, at, kind);
    if count > 1 {
        let last = previous_boundary(text, end);
        let last = move_by(text, last, VimMotion::WordEnd(kind), Some(count - 1));
        end = next_boundary(text, last);
    }
    end
}

/// An operator does not go on to the next line because the last word is at the end of its own.
fn last_word_end(text: &str, at: usize, to: usize) -> usize {
    let word = run_start(text, to, WordKind::Big, |class| class == CharClass::Blank).max(at);
    match slice(text, word..to).contains('\n') {
        true => line_end(text, word),
        false => to,
    }
}

fn inner_word(text: &str, at: usize) -> Range<usize> {
    let line = line_range(text, at);
    let Some(class) = class_at(text, at, WordKind::Small).filter(|_| at < line.end) else {
        return at..at;
    };
    if class == CharClass::Token {
        return at..next_boundary(text, at);
    }
    let is_same = |other: CharClass| other == class;
    let start = run_start(text, at, WordKind::Small, is_same).max(line.start);
    let end = run_end(text, next_boundary(text, at), WordKind::Small, is_same).min(line.end);
    start..end
}

fn around_word(text: &str, at: usize) -> Range<usize> {
    let line = line_range(text, at);
    let word = inner_word(text, at);
    let is_blank = |class: CharClass| class == CharClass::Blank;
    let end = run_end(text, word.end, WordKind::Small, is_blank).min(line.end);
    if class_at(text, at, WordKind::Small) == Some(CharClass::Blank) {
        let next = inner_word(text, word.end);
        return word.start..next.end;
    }
    match end > word.end {
        true => word.start..end,
        false => run_start(text, word.start, WordKind::Small, is_blank).max(line.start)..word.end,
    }
}
