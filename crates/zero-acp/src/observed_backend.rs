//! A tool backend that also reports its calls to the session's task.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use zero_client::LocalMode;
use zero_core::{
    CallProgress, FileLocation, SecretMask, ToolCall, ToolError, ToolKind, ToolOutcome,
};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::file_rewind::{FileRewindReport, FileRewindRequest, RewindRequester};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallObserver, SubagentRequest, ToolBackend, ToolBackendError, ToolCatalog,
};

use crate::output_buffer::OutputBuffer;
use crate::session_message::{SessionMessage, SessionSender};

/// A tool backend, and the session's task that observes its calls.
pub(crate) struct ObservedToolBackend {
    pub(crate) backend: Arc<dyn ToolBackend>,
    pub(crate) sender: SessionSender,
    pub(crate) own_mode: Arc<LocalMode>,
}

impl ToolBackend for ObservedToolBackend {
    fn load_catalog(
        &self,
        dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        self.backend.load_catalog(dialect)
    }

    fn call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        let tap = ForwardingObserver {
            call: String::from(call.id.clone()),
            watch,
            sender: self.sender.clone(),
            printed: Arc::default(),
            unsent: Mutex::default(),
        };
        self.backend.call(call, dialect, cancel, Arc::new(tap))
    }

    fn set_mode(
        &self,
        mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        self.own_mode.request_mode(mode);
        Box::pin(self.own_mode.apply_to_backend(&*self.backend))
    }

    fn rewind_files(
        &self,
        request: FileRewindRequest,
        requester: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        self.backend.rewind_files(request, requester)
    }

    fn folder(&self) -> Option<PathBuf> {
        self.backend.folder()
    }

    fn location(&self) -> String {
        self.backend.location()
    }

    fn secret_mask(&self) -> BoxFuture<'_, Arc<SecretMask>> {
        self.backend.secret_mask()
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
}

/// Observes one call and forwards its events to both observers. An event that does not fit into the
/// queue is covered by the ledger or by the next event.
struct ForwardingObserver {
    call: String,
    watch: Arc<dyn CallObserver>,
    sender: SessionSender,
    printed: Arc<OutputBuffer>,
    /// Whether output was printed and its message did not fit into the queue.
    unsent: Mutex<bool>,
}

impl CallObserver for ForwardingObserver {
    fn on_described(&self, title: String, kind: ToolKind, locations: Vec<FileLocation>) {
        let _ = self.sender.try_send(SessionMessage::CallDescribed {
            call: self.call.clone(),
            title: title.clone(),
            kind,
            locations: locations.clone(),
        });
        self.watch.on_described(title, kind, locations);
    }

    fn on_progress(&self, progress: CallProgress) {
        self.watch.on_progress(progress);
    }

    fn on_started(&self) {
        let _ = self.sender.try_send(SessionMessage::CallStarted { call: self.call.clone() });
        self.watch.on_started();
    }

    fn on_output(&self, text: &str) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        if self.printed.push(text) || *unsent {
            let message = SessionMessage::OutputAvailable {
                call: self.call.clone(),
                printed: Arc::clone(&self.printed),
            };
            *unsent = self.sender.try_send(message).is_err();
        }
        self.watch.on_output(text);
    }
}
