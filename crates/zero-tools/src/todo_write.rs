//! The TodoWrite tool: saves the task list of a session and shows it to the user.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use zero_core::{Effects, ToolError};
use zero_runtime::{CallContext, CallDescription, Tool, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::Workspace;

use crate::task_list::{self, StepPriority, StepStatus, TaskList, TaskListOutput, TaskStep};

/// Saves your task list and shows it to the user. Use it for work of three steps or more, or when
/// the user lists several things to do; for less just do it. Write the whole list every time: it
/// replaces the one before, so include everything that is still to be done. Have one entry
/// `in_progress` while you work, mark it `completed` as soon as it is really done, and not before,
/// then begin the next. Add tasks that you discover, and remove those that are no longer needed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TodoWriteArgs {
    /// The whole list, in the order of the work; at most 100 entries, at most one `in_progress`. An
    /// empty list clears it.
    todos: Vec<TodoItem>,
}

/// One entry of the task list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(inline)]
pub struct TodoItem {
    /// What is to be done, as an instruction: `Add unit tests`.
    content: String,
    /// The status of the step.
    status: StepStatus,
    /// The same while it is being done: `Adding unit tests`.
    active_form: String,
    /// Its priority; `medium` when absent.
    priority: Option<StepPriority>,
}

/// Replaces the task list of the session.
pub struct TodoWriteTool;

impl Tool for TodoWriteTool {
    type Args = TodoWriteArgs;
    type Output = TaskListOutput;
    type Plan = TaskList;
    const NAME: &'static str = "TodoWrite";

    fn info(&self) -> ToolInfo {
        task_list::tool_info("Update the task list")
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("replaces the task list of the session").with_bounds(task_list::bounds())
    }

    fn plan(&self, args: TodoWriteArgs, _workspace: &Workspace) -> Result<TaskList, ToolError> {
        let step = |todo: TodoItem| TaskStep {
            texts: vec![("content", todo.content), ("activeForm", todo.active_form)],
            status: todo.status,
            priority: todo.priority.unwrap_or_default(),
        };
        TaskList::new("todos", args.todos.into_iter().map(step).collect())
    }

    fn describe(&self, list: &TaskList) -> CallDescription {
        list.describe("task list")
    }

    fn effects(&self, _list: &TaskList) -> Effects {
        task_list::state_effects("task list")
    }

    async fn run(
        &self,
        list: Arc<TaskList>,
        _cx: CallContext,
    ) -> Result<ToolReply<TaskListOutput>, ToolError> {
        Ok(list.build_reply("task list"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use zero_core::ResultDisplay;

    use crate::test_host::TestHost;

    fn todo_json(content: &str, status: &str) -> Value {
        json!({"content": content, "status": status, "activeForm": format!("Doing {content}")})
    }

    #[track_caller]
    fn check_rejected(todos: Value, expected: &[&str]) {
        let error = TestHost::new().err("TodoWrite", json!({ "todos": todos }));
        for part in expected {
            assert!(error.message.contains(part), "{part}\n{}", error.message);
        }
    }

    #[test]
    fn todo_list_replaces_plan() {
        let host = TestHost::new();
        let todos = json!([
            todo_json("a", "completed"),
            todo_json("b\nc", "in_progress"),
            {"content": "d", "status": "pending", "activeForm": "Doing d", "priority": "high"},
        ]);
        let result = host.ok("TodoWrite", json!({ "todos": todos }));
        assert_eq!(result.structured, json!({"success": true}));
        let ResultDisplay::Plan { entries } = &result.display else {
            panic!("{:?}", result.display)
        };
        let shown: Vec<String> = entries
            .iter()
            .map(|entry| format!("{} {} {}", entry.content, entry.status, entry.priority))
            .collect();
        let expected = ["a completed medium", "b\\nc in_progress medium", "d pending high"];
        assert_eq!(shown, expected, "control characters are escaped");
        let text = host.text("TodoWrite", json!({ "todos": todos }));
        assert_eq!(text, "The task list is saved: 1 of 3 steps done. Now: Doing b\\nc.");
        assert_eq!(host.text("TodoWrite", json!({"todos": []})), "The task list is empty now.");
        assert_eq!(
            host.text("TodoWrite", json!({"todos": [todo_json("a", "pending")]})),
            "The task list is saved: 0 of 1 step done. No step is in progress: mark the one you begin."
        );
    }

    #[test]
    fn violations_name_each_entry() {
        check_rejected(
            json!([
                todo_json("first", "in_progress"),
                todo_json("b", "pending"),
                todo_json("c", "in_progress")
            ]),
            &["/todos/2/status", "entry 0 (`first`) is in progress and only one may be"],
        );
        check_rejected(
            json!([todo_json(" ", "pending"), todo_json(&"x".repeat(501), "pending")]),
            &["/todos/0/content", "an empty text", "/todos/1/content", "501 characters"],
        );
        check_rejected(
            json!([{"content": "a", "status": "done"}]),
            &["/todos/0/activeForm", "/todos/0/status", "\"in_progress\""],
        );
        let many: Vec<Value> = (0..101).map(|_| todo_json("a", "pending")).collect();
        check_rejected(json!(many), &["/todos", "at most 100 entries", "101"]);
    }
}
