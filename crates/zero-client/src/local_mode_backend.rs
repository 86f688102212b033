//! A tool backend of a front end: its mode is that of the user who sits there, and its calls are shown.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zero_core::{CallId, SecretMask, ToolCall, ToolError, ToolOutcome};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::file_rewind::{FileRewindReport, FileRewindRequest, RewindRequester};
use zero_runtime::prompt_mentions::MentionTarget;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallObserver, PromptCommand, SubagentRequest, ToolBackend, ToolBackendError, ToolCatalog,
    UnavailableServer, WorktreeReport,
};

use crate::local_mode::LocalMode;

/// Forwards the events of calls to a front end as well.
pub trait CallForwarding: Send + Sync {
    /// An observer of this call that passes every event on to `observer`.
    fn observe(&self, call: &CallId, observer: Arc<dyn CallObserver>) -> Arc<dyn CallObserver>;
}

/// Passes everything on, except for the mode: a gateway can only request one.
pub struct LocalModeBackend {
    backend: Arc<dyn ToolBackend>,
    mode: Arc<LocalMode>,
    forwarding: Option<Arc<dyn CallForwarding>>,
}

impl LocalModeBackend {
    /// A backend under this mode.
    pub fn new(backend: Arc<dyn ToolBackend>, mode: Arc<LocalMode>) -> Self {
        Self { backend, mode, forwarding: None }
    }

    /// Also forwards the events of its calls.
    #[must_use]
    pub fn with_forwarding(mut self, forwarding: Arc<dyn CallForwarding>) -> Self {
        self.forwarding = Some(forwarding);
        self
    }
}

impl ToolBackend for LocalModeBackend {
    fn load_catalog(
        &self,
        dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        self.backend.load_catalog(dialect)
    }

    fn wait_for_servers(&self) -> BoxFuture<'_, Vec<UnavailableServer>> {
        self.backend.wait_for_servers()
    }

    fn list_commands(&self) -> BoxFuture<'_, Result<Vec<PromptCommand>, ToolBackendError>> {
        self.backend.list_commands()
    }

    fn call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        let watch = match &self.forwarding {
            Some(forwarding) => forwarding.observe(&call.id, watch),
            None => watch,
        };
        self.backend.call(call, dialect, cancel, watch)
    }

    fn set_mode(
        &self,
        mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        self.mode.request_mode(mode);
        Box::pin(self.mode.apply_to_backend(&*self.backend))
    }

    fn revoke_grants(&self, rule: Option<&str>) {
        self.backend.revoke_grants(rule);
    }

    fn inspect_mention<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Option<MentionTarget>> {
        self.backend.inspect_mention(path)
    }

    fn rewind_files(
        &self,
        request: FileRewindRequest,
        requester: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        self.backend.rewind_files(request, requester)
    }

    fn has_running_jobs(&self) -> bool {
        self.backend.has_running_jobs()
    }

    fn location(&self) -> String {
        self.backend.location()
    }

    fn folder(&self) -> Option<PathBuf> {
        self.backend.folder()
    }

    fn secret_mask(&self) -> BoxFuture<'_, Arc<SecretMask>> {
        self.backend.secret_mask()
    }

    fn reconnect_grace(&self) -> Duration {
        self.backend.reconnect_grace()
    }

    fn takes_subagents(&self) -> bool {
        self.backend.takes_subagents()
    }

    fn open_subagent(
        &self,
        request: SubagentRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        self.backend.open_subagent(request)
    }

    fn close_subagent(&self) -> BoxFuture<'_, Result<Option<WorktreeReport>, ToolBackendError>> {
        self.backend.close_subagent()
    }
}
