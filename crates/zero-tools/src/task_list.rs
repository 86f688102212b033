//! The list of steps shared by TodoWrite and Plan ([`TaskList`]): validation, limits and rendering.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::event::PlanEntry;
use zero_core::text_shortening::head_chars;
use zero_core::{
    Effect, Effects, ResultDisplay, RiskLevel, SchemaViolation, TimeoutClass, ToolCategory,
    ToolError, ToolKind, ToolResultPart,
};
use zero_runtime::{CallDescription, ToolBound, ToolInfo, ToolReply};

use crate::text_format::{pluralize, to_single_line};

/// Most steps of one list.
pub(crate) const STEPS_MAX: usize = 100;
/// Longest text of a step, in characters.
pub(crate) const STEP_CHARS_MAX: usize = 500;
/// Longest text of a step in an error, in characters.
const SHOWN_CHARS_MAX: usize = 60;

/// Returns the bounds for the tool reference.
pub(crate) fn bounds() -> [ToolBound; 2] {
    [
        ToolBound::count("steps of a list", STEPS_MAX),
        ToolBound::characters("a text of a step", STEP_CHARS_MAX),
    ]
}

/// The status of a step.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum StepStatus {
    /// The step is not started.
    Pending,
    /// The step is being worked on.
    InProgress,
    /// The step is done.
    Completed,
}

/// The priority of a step.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum StepPriority {
    /// More important than the others.
    High,
    /// As important as most.
    #[default]
    Medium,
    /// Less important than the others.
    Low,
}

/// One step, and the input fields that its texts come from.
#[derive(Debug)]
pub(crate) struct TaskStep {
    pub(crate) texts: Vec<(&'static str, String)>,
    pub(crate) status: StepStatus,
    pub(crate) priority: StepPriority,
}

/// The result of an update.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TaskListOutput {
    /// Whether the list was saved.
    pub success: bool,
}

/// Returns the info of a tool that maintains such a list.
pub(crate) fn tool_info(display_name: &'static str) -> ToolInfo {
    ToolInfo {
        display_name,
        category: ToolCategory::Project,
        kind: ToolKind::Think,
        risk: RiskLevel::Low,
        timeout_class: TimeoutClass::File,
        idempotent: true,
        fallback: None,
    }
}

/// Returns the effects of saving a list.
pub(crate) fn state_effects(what: &str) -> Effects {
    vec![Effect::State(format!("the {what}"))]
}

/// A validated list of steps.
#[derive(Debug)]
pub struct TaskList {
    entries: Vec<PlanEntry>,
    /// The text of the step in progress.
    now: Option<String>,
    done: usize,
}

impl TaskList {
    /// Validates the list in the input field `field`. The first text of a step describes it, the
    /// last one is shown while it is in progress. The error names every invalid entry.
    pub(crate) fn new(field: &str, steps: Vec<TaskStep>) -> Result<Self, ToolError> {
        let wrong = find_violations(field, &steps);
        if !wrong.is_empty() {
            return Err(ToolError::from_violations(&wrong));
        }
        let done = steps.iter().filter(|step| step.status == StepStatus::Completed).count();
        let current = steps.iter().find(|step| step.status == StepStatus::InProgress);
        let now = current.and_then(|step| step.texts.last()).map(|(_, text)| to_single_line(text));
        let entries = steps.iter().map(to_plan_entry).collect();
        Ok(Self { entries, now, done })
    }

    /// Returns a text such as `1 of 3 steps done`.
    fn describe_progress(&self) -> String {
        match self.entries.len() {
            0 => "empty".to_owned(),
            all => format!("{} of {} done", self.done, pluralize(all as u64, "step", "steps")),
        }
    }

    /// Describes the update for the user.
    pub(crate) fn describe(&self, what: &str) -> CallDescription {
        let title = format!("Update the {what} ({})", self.describe_progress());
        CallDescription { title, locations: Vec::new() }
    }

    /// Returns the reply with the state of the list.
    pub(crate) fn build_reply(&self, what: &str) -> ToolReply<TaskListOutput> {
        let mut text = match self.entries.is_empty() {
            true => format!("The {what} is empty now."),
            false => format!("The {what} is saved: {}.", self.describe_progress()),
        };
        match &self.now {
            Some(now) => text.push_str(&format!(" Now: {now}.")),
            None if self.done < self.entries.len() => {
                text.push_str(" No step is in progress: mark the one you begin.");
            }
            None => {}
        }
        ToolReply {
            content: vec![ToolResultPart::Text(text)],
            display: ResultDisplay::Plan { entries: self.entries.clone() },
            output: TaskListOutput { success: true },
            locations: Vec::new(),
        }
    }
}

fn to_plan_entry(step: &TaskStep) -> PlanEntry {
    let priority = match step.priority {
        StepPriority::High => "high",
        StepPriority::Medium => "medium",
        StepPriority::Low => "low",
    };
    let status = match step.status {
        StepStatus::Pending => "pending",
        StepStatus::InProgress => "in_progress",
        StepStatus::Completed => "completed",
    };
    PlanEntry {
        content: to_single_line(step_text(step)),
        priority: priority.to_owned(),
        status: status.to_owned(),
    }
}

fn step_text(step: &TaskStep) -> &str {
    step.texts.first().map_or("", |(_, text)| text.trim())
}

fn find_violations(field: &str, steps: &[TaskStep]) -> Vec<SchemaViolation> {
    let mut wrong = Vec::new();
    if steps.len() > STEPS_MAX {
        let expected = format!("at most {STEPS_MAX} entries");
        wrong.push(SchemaViolation::new(format!("/{field}"), expected, steps.len().to_string()));
        return wrong;
    }
    let mut current: Option<(usize, &TaskStep)> = None;
    for (at, step) in steps.iter().enumerate() {
        for (name, text) in &step.texts {
            let chars = text.chars().count();
            let found = match () {
                () if text.trim().is_empty() => "an empty text".to_owned(),
                () if chars > STEP_CHARS_MAX => pluralize(chars as u64, "character", "characters"),
                () => continue,
            };
            let expected = format!("a text of 1 to {STEP_CHARS_MAX} characters");
            wrong.push(SchemaViolation::new(format!("/{field}/{at}/{name}"), expected, found));
        }
        match current {
            Some((first, other)) if step.status == StepStatus::InProgress => {
                let shown = head_chars(step_text(other), SHOWN_CHARS_MAX);
                let expected = format!(
                    "`pending` or `completed`, since entry {first} ({}) is in progress and only one may be",
                    zero_core::sanitize::to_quoted_line(shown)
                );
                let pointer = format!("/{field}/{at}/status");
                wrong.push(SchemaViolation::new(pointer, expected, "`in_progress`"));
            }
            None if step.status == StepStatus::InProgress => current = Some((at, step)),
            _ => {}
        }
    }
    wrong
}
