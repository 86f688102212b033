//! The Plan tool: shows the user how a task will be done, step by step.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use zero_core::{Effects, SchemaViolation, ToolError, ToolResultPart};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::Workspace;

use crate::task_list::{self, StepPriority, StepStatus, TaskList, TaskListOutput, TaskStep};
use crate::text_format::to_single_line;

/// Longest explanation, in characters.
const EXPLANATION_CHARS_MAX: usize = 2_000;

/// Shows the user how you will do a task, step by step, before you begin and whenever that changes.
/// It is information only and gets no answer: to let the user choose, ask them. Write the whole
/// plan every time. Have one step `in_progress` while you work and mark steps `completed` when they
/// are done. The plan and a task list replace each other, so use one of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanArgs {
    /// The steps, in the order of the work; at most 100, at most one `in_progress`.
    plan: Vec<PlanStep>,
    /// Why this plan, or why it changed, in a sentence or two.
    explanation: Option<String>,
}

/// One step of a plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct PlanStep {
    /// What is to be done, in a few words.
    step: String,
    /// The status of the step.
    status: StepStatus,
    /// Its priority; `medium` when absent.
    priority: Option<StepPriority>,
}

/// A validated plan.
#[derive(Debug)]
pub struct PlanUpdate {
    list: TaskList,
    explanation: Option<String>,
}

/// Replaces the list of steps that the user is shown.
pub struct PlanTool;

impl Tool for PlanTool {
    type Args = PlanArgs;
    type Output = TaskListOutput;
    type Plan = PlanUpdate;
    const NAME: &'static str = "Plan";

    fn info(&self) -> ToolInfo {
        task_list::tool_info("Update the plan")
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("replaces the plan of the session")
            .with_bounds(task_list::bounds())
            .with_bounds([ToolBound::characters("`explanation`", EXPLANATION_CHARS_MAX)])
    }

    fn plan(&self, args: PlanArgs, _workspace: &Workspace) -> Result<PlanUpdate, ToolError> {
        let PlanArgs { plan, explanation } = args;
        if explanation.as_ref().is_some_and(|text| text.chars().count() > EXPLANATION_CHARS_MAX) {
            let expected = format!("at most {EXPLANATION_CHARS_MAX} characters");
            let wrong = SchemaViolation::new("/explanation", expected, "more");
            return Err(ToolError::from_violations(&[wrong]));
        }
        let step = |step: PlanStep| TaskStep {
            texts: vec![("step", step.step)],
            status: step.status,
            priority: step.priority.unwrap_or_default(),
        };
        let list = TaskList::new("plan", plan.into_iter().map(step).collect())?;
        let explanation = explanation.filter(|text| !text.trim().is_empty());
        Ok(PlanUpdate { list, explanation })
    }

    fn describe(&self, plan: &PlanUpdate) -> CallDescription {
        plan.list.describe("plan")
    }

    fn effects(&self, _plan: &PlanUpdate) -> Effects {
        task_list::state_effects("plan")
    }

    async fn run(
        &self,
        plan: Arc<PlanUpdate>,
        _cx: CallContext,
    ) -> Result<ToolReply<TaskListOutput>, ToolError> {
        let mut reply = plan.list.build_reply("plan");
        if let Some(explanation) = &plan.explanation {
            reply
                .content
                .push(ToolResultPart::Text(format!("Why: {}", to_single_line(explanation.trim()))));
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zero_core::ResultDisplay;

    use crate::test_host::TestHost;

    #[test]
    fn plan_is_shown_with_explanation() {
        let host = TestHost::new();
        let plan = json!([
            {"step": "Look", "status": "completed"},
            {"step": "Change", "status": "in_progress", "priority": "low"},
        ]);
        let input = json!({"plan": plan, "explanation": "First look."});
        let result = host.ok("Plan", input.clone());
        assert_eq!(result.structured, json!({"success": true}));
        let ResultDisplay::Plan { entries } = &result.display else {
            panic!("{:?}", result.display)
        };
        assert_eq!((entries.len(), entries[1].priority.as_str()), (2, "low"));
        let text = host.text("Plan", input);
        assert!(text.starts_with("The plan is saved: 1 of 2 steps done. Now: Change."), "{text}");
        assert!(text.ends_with("Why: First look."), "{text}");
    }

    #[test]
    fn violations_name_each_step() {
        let two = json!([
            {"step": "a", "status": "in_progress"},
            {"step": "", "status": "in_progress"},
        ]);
        let message = TestHost::new().err("Plan", json!({ "plan": two })).message;
        assert!(
            message.contains("/plan/1/status") && message.contains("/plan/1/step"),
            "{message}"
        );
        let long = json!({"plan": [], "explanation": "x".repeat(2_001)});
        let message = TestHost::new().err("Plan", long).message;
        assert!(message.contains("/explanation: expected at most 2000 characters"), "{message}");
    }
}
