//! Detects an agent that repeats itself.
//!
//! A step is all calls of one reply with their results. Repeating a single step counts, and so does
//! a cycle of a few steps, such as alternating between two useless calls. Waiting for a background
//! job is no step: time has passed, so doing the same again may have another outcome.

use std::collections::VecDeque;

/// Maximum number of steps in a cycle.
const PERIOD_MAX: usize = 4;

/// Remembers the latest steps.
#[derive(Clone, Debug)]
pub(super) struct LoopGuard {
    ask_at: u32,
    steps: VecDeque<u64>,
}

/// Verdict after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopVerdict {
    Continue,
    /// Ask the user: the cycle was repeated this often.
    Ask(u32),
}

impl LoopGuard {
    pub(super) fn new(ask_at: u32) -> Self {
        Self { ask_at, steps: VecDeque::new() }
    }

    /// Forgets the steps so far: the user lets the agent continue, or time has passed.
    pub(super) fn reset(&mut self) {
        self.steps.clear();
    }

    /// Judges the run after one more step.
    pub(super) fn judge(&mut self, step: u64) -> LoopVerdict {
        let most = usize::try_from(self.ask_at).unwrap_or(usize::MAX);
        self.steps.push_front(step);
        self.steps.truncate(most.saturating_mul(PERIOD_MAX).max(1));
        let repeats = (1..=PERIOD_MAX).map(|period| self.count_repeats(period)).max().unwrap_or(0);
        match repeats >= self.ask_at.max(2) {
            true => LoopVerdict::Ask(repeats),
            false => LoopVerdict::Continue,
        }
    }

    /// How often the latest `period` steps occurred in a row, including the last time.
    fn count_repeats(&self, period: usize) -> u32 {
        let same = self.steps.iter().zip(self.steps.iter().skip(period));
        let same = same.take_while(|(newer, older)| newer == older).count();
        let rounds = same.checked_div(period).unwrap_or(0).saturating_add(1);
        u32::try_from(rounds).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters are steps, `-` is a wait; `.` continues, `?` asks, and the user lets it continue.
    #[track_caller]
    fn check(steps: &str, expected: &str) {
        let mut guard = LoopGuard::new(3);
        let judge = |step: u8| {
            if step == b'-' {
                guard.reset();
                return '.';
            }
            match guard.judge(u64::from(step)) {
                LoopVerdict::Continue => '.',
                LoopVerdict::Ask(_) => {
                    guard.reset();
                    '?'
                }
            }
        };
        assert_eq!(steps.bytes().map(judge).collect::<String>(), expected, "{steps}");
    }

    #[test]
    fn repeats_of_up_to_four_steps_are_detected() {
        check("aaaaaaaaa", "..?..?..?");
        check("aa-aa-aa-aaa", "...........?");
        check("abcdef", "......");
        check("aabaab", "......");
        check("aaabaaa", "..?...?");
        check("ababab", ".....?");
        check("abababababab", ".....?.....?");
        check("abcabcabc", "........?");
        check("abcdabcdabcd", "...........?");
        check("abcdeabcdeabcde", "...............");
    }
}
