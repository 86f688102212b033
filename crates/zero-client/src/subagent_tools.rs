//! The tools of a session's sub-agents. Each has the rights of the session or fewer.

use std::collections::HashMap;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zero_core::text_shortening::{head, one_line};
use zero_core::{CallId, ErrorReason, SessionId, ToolError, ToolResult};
use zero_policy::PermissionMode;
use zero_runtime::tool_backend::{
    AgentDefinition, SubagentIsolation, SubagentRequest, ToolBackend,
};
use zero_wire::tools::{OfferedAgent, SubagentFolder, ToolsSubagent, ToolsSubagentStep};

/// Most sub-agents of a session at the same time.
const SUBAGENTS_MAX: usize = 256;
/// Longest description or problem of an agent, in characters.
const LINE_LEN_MAX: usize = 900;
/// Largest system prompt of an agent, in bytes.
const PROMPT_BYTES_MAX: usize = 128 * 1024;

/// The tools of sub-agents, by their sessions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SubagentTools(Arc<Mutex<HashMap<String, Arc<dyn ToolBackend>>>>);

impl SubagentTools {
    /// Opens the tools for a sub-agent of the session whose tools are `parent`.
    pub(crate) async fn open(
        &self,
        parent: &Arc<dyn ToolBackend>,
        subagent: ToolsSubagent,
    ) -> Result<ToolResult, ToolError> {
        let ToolsSubagentStep::Open { name, call, mode, worktree, opened_by } = subagent.step
        else {
            return Err(invalid("a sub-agent is opened by the step `open`"));
        };
        let (Ok(session), Ok(call)) = (SessionId::new(&subagent.session_id), CallId::new(&call))
        else {
            return Err(invalid("the sub-agent has no valid session or call"));
        };
        let mode = mode.map(|mode| PermissionMode::from_str(&mode)).transpose();
        let mode = mode.map_err(|error| invalid(&error.to_string()))?;
        let parent = match opened_by {
            Some(session) => self.find(&session)?,
            None => Arc::clone(parent),
        };
        if self.lock().len() >= SUBAGENTS_MAX {
            let text = format!("{SUBAGENTS_MAX} sub-agents are at work here; wait for one to end");
            return Err(ToolError::failed(ErrorReason::QueueFull, text));
        }
        let isolation = SubagentIsolation::from_worktree(worktree);
        let request = SubagentRequest { session, name, call, mode, isolation, is_continued: false };
        let opened = parent.open_subagent(request).await;
        let tools = opened.map_err(|error| failed(&error.to_string()))?;
        let cwd = worktree.then(|| tools.folder()).flatten();
        let folder = SubagentFolder { cwd: cwd.map(|cwd| cwd.display().to_string()) };
        self.lock().insert(subagent.session_id, tools);
        to_result("opened", &folder)
    }

    /// Ends a sub-agent and reports what it changed.
    pub(crate) async fn close(&self, session: &str) -> Result<ToolResult, ToolError> {
        let tools = self.find(session)?;
        let report = tools.close_subagent().await;
        self.lock().remove(session);
        to_result("closed", &report.map_err(|error| failed(&error.to_string()))?)
    }

    /// The tools of a sub-agent.
    pub(crate) fn find(&self, session: &str) -> Result<Arc<dyn ToolBackend>, ToolError> {
        let tools = self.lock().get(session).cloned();
        tools.ok_or_else(|| {
            let text = "the tools of this sub-agent are not open here; the session may have been opened again";
            ToolError::failed(ErrorReason::ServerUnavailable, text)
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<dyn ToolBackend>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An agent as the gateway accepts it.
pub(crate) fn offer_agent(agent: AgentDefinition) -> OfferedAgent {
    let line = |text: &str| one_line(text, LINE_LEN_MAX);
    let prompt = head(&agent.prompt, PROMPT_BYTES_MAX).to_owned();
    OfferedAgent {
        name: agent.name,
        description: line(&agent.description),
        prompt,
        project_file: agent.project_file.as_deref().map(line),
        tools: agent.tools,
        model: agent.model.as_deref().map(line),
        mode: agent.mode.map(|mode| mode.as_str().to_owned()),
        worktree: agent.isolation == SubagentIsolation::Worktree,
        problem: agent.problem.as_deref().map(line),
    }
}

fn to_result(text: &str, structured: &impl serde::Serialize) -> Result<ToolResult, ToolError> {
    let structured =
        serde_json::to_value(structured).map_err(|error| failed(&error.to_string()))?;
    Ok(ToolResult { structured, ..ToolResult::text(text) })
}

fn invalid(why: &str) -> ToolError {
    ToolError::invalid(ErrorReason::SchemaViolation, why.to_owned())
}

fn failed(why: &str) -> ToolError {
    ToolError::failed(ErrorReason::Io, why.to_owned())
}
