//! The tools of a session at a client, opened for one of the session's sub-agents.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize as _;
use tokio_util::sync::CancellationToken;
use zero_core::{ToolCall, ToolOutcome, ToolResult};
use zero_runtime::DialectName;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallObserver, SubagentIsolation, SubagentRequest, ToolBackend, ToolBackendError, ToolCatalog,
    WorktreeReport,
};
use zero_session::PermissionMode;
use zero_wire::tools::{SubagentFolder, ToolsSubagent, ToolsSubagentStep};

use crate::remote_tool_backend::RemoteToolBackend;

/// Executes the tool calls of a sub-agent at the client that hosts the tools of its parent.
pub(crate) struct RemoteSubagentTools {
    parent: Arc<RemoteToolBackend>,
    /// Id of the sub-agent's session.
    session_id: String,
    /// The folder in which it works, if it is another one than that of its parent.
    folder: Option<PathBuf>,
}

impl RemoteSubagentTools {
    /// Opens the tools. `opened_by` is the session of the sub-agent that asks for it, if one does.
    pub(crate) async fn open(
        parent: Arc<RemoteToolBackend>,
        opened_by: Option<&str>,
        request: SubagentRequest,
    ) -> Result<Arc<dyn ToolBackend>, ToolBackendError> {
        let session_id = request.session.to_string();
        let step = ToolsSubagentStep::Open {
            name: request.name,
            call: String::from(request.call),
            mode: request.mode.map(|mode| mode.as_str().to_owned()),
            worktree: request.isolation == SubagentIsolation::Worktree,
            opened_by: opened_by.map(str::to_owned),
        };
        let subagent = ToolsSubagent { session_id: session_id.clone(), step };
        let result = to_result(parent.request_subagent_step(subagent).await)?;
        let folder = SubagentFolder::deserialize(&result.structured).ok();
        let folder = folder.and_then(|folder| folder.cwd).map(PathBuf::from);
        Ok(Arc::new(Self { parent, session_id, folder }))
    }

    fn subagent(&self, step: ToolsSubagentStep) -> ToolsSubagent {
        ToolsSubagent { session_id: self.session_id.clone(), step }
    }
}

impl ToolBackend for RemoteSubagentTools {
    fn load_catalog(
        &self,
        dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        Box::pin(async move {
            let mut catalog = self.parent.load_catalog(dialect).await?;
            catalog.cwd = self.folder.clone().unwrap_or(catalog.cwd);
            Ok(catalog)
        })
    }

    fn call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        let subagent = Some(self.subagent(ToolsSubagentStep::Call));
        Box::pin(self.parent.run_call(call, dialect, subagent, cancel, watch))
    }

    fn set_mode(
        &self,
        _mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        let error = format!(
            "the mode of a sub-agent at {} follows that of its parent session; change it there",
            self.parent.location()
        );
        Box::pin(std::future::ready(Err(ToolBackendError::Workspace(error))))
    }

    fn location(&self) -> String {
        self.parent.location()
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }

    fn takes_subagents(&self) -> bool {
        self.parent.takes_subagents()
    }

    fn open_subagent(
        &self,
        request: SubagentRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        Box::pin(Self::open(Arc::clone(&self.parent), Some(&self.session_id), request))
    }

    fn close_subagent(&self) -> BoxFuture<'_, Result<Option<WorktreeReport>, ToolBackendError>> {
        Box::pin(async move {
            let close = self.subagent(ToolsSubagentStep::Close);
            let result = to_result(self.parent.request_subagent_step(close).await)?;
            Option::<WorktreeReport>::deserialize(&result.structured).map_err(|error| {
                let location = self.parent.location();
                ToolBackendError::Workspace(format!(
                    "{location} reported something else than a worktree: {error}"
                ))
            })
        })
    }
}

fn to_result(outcome: ToolOutcome) -> Result<ToolResult, ToolBackendError> {
    match outcome {
        ToolOutcome::Result(result) => Ok(result),
        ToolOutcome::Error(error) => Err(ToolBackendError::Workspace(error.message)),
    }
}
