//! How to reach the person.

use zero_core::{Display, Effects, Risk, ToolName};

use crate::tool::BoxFuture;

/// What a person is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The tool, canonically.
    pub tool: ToolName,
    /// What the call will do, in one line.
    pub title: String,
    /// Why it is asked.
    pub reason: String,
    /// How much harm it can do.
    pub risk: Risk,
    /// What it will touch.
    pub effects: Effects,
    /// The change it would make, where there is one to show.
    pub preview: Option<Display>,
}

/// What the person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This once.
    AllowOnce,
    /// No.
    Reject,
}

/// How to reach the person. A host without one denies what it would have to ask.
pub trait Approver: Send + Sync {
    /// Who answers, for the audit log: `person`, `--yes`, …
    fn name(&self) -> &str;

    /// Asks. May take as long as a person takes; the call can be cancelled meanwhile.
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer>;
}
