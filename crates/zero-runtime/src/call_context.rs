//! What a running tool can reach: only what was granted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;
use zero_core::{
    CallId, ErrorReason, ErrorType, HostLimits, PathZone, SessionId, ToolError, ToolName,
};
use zero_exec::CallCommands;
use zero_sandbox::{ChangeOrigin, FinalLinkMode, Journal, Workspace};

use crate::admission::CallPermit;
use crate::editor_buffers::{EditorBuffer, EditorBuffers};
use crate::elicitation::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};
use crate::host_extensions::HostExtensions;
use crate::observer::{CallEvent, CallEventObserver};
use crate::policy::Policy;
use crate::seen_files::SeenFiles;
use crate::text_reader::{TextReader, TextReaderProvider};
use crate::web::{CallWebAccess, NetworkGuard};

/// What a running tool can reach. Cheap to clone.
#[derive(Clone)]
pub struct CallContext {
    inner: Arc<CallContextParts>,
}

/// The parts of a [`CallContext`].
pub(crate) struct CallContextParts {
    pub(crate) call: CallId,
    pub(crate) tool: ToolName,
    pub(crate) workspace: Workspace,
    pub(crate) journal: Journal,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) limits: Arc<HostLimits>,
    pub(crate) cancel: CancellationToken,
    /// The caller's own, which a deadline does not pull.
    pub(crate) caller: CancellationToken,
    pub(crate) seen: Option<Arc<SeenFiles>>,
    pub(crate) observer: Option<Arc<dyn CallEventObserver>>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
    pub(crate) session: Option<SessionId>,
    /// Given up while the call waits for a person.
    pub(crate) permit: Mutex<Option<CallPermit>>,
    pub(crate) commands: CallCommands,
    pub(crate) companions: Arc<HostExtensions>,
    pub(crate) buffers: Option<Arc<EditorBuffers>>,
    pub(crate) guard: NetworkGuard,
    pub(crate) readers: Option<Arc<dyn TextReaderProvider>>,
    /// What the editor has of the files that a person is about to be shown, once it was asked.
    pub(crate) foreseen: OnceLock<HashMap<PathBuf, EditorBuffer>>,
}

impl CallContext {
    pub(crate) fn new(parts: CallContextParts) -> Self {
        Self { inner: Arc::new(parts) }
    }

    pub(crate) fn commands(&self) -> &CallCommands {
        &self.inner.commands
    }

    /// The editor of the session, if there is one.
    pub(crate) fn buffers(&self) -> Option<&Arc<EditorBuffers>> {
        self.inner.buffers.as_ref()
    }

    /// What the editor has of the files that a person is about to be shown.
    pub(crate) fn prefetched_buffers(&self) -> &OnceLock<HashMap<PathBuf, EditorBuffer>> {
        &self.inner.foreseen
    }

    /// What the tools of this host share between calls, of that type.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.inner.companions.get()
    }

    /// The web, as far as this call may reach it: the hosts among its effects, once it was allowed.
    pub fn web(&self) -> CallWebAccess {
        let hosts = Arc::clone(&self.inner.commands.launcher.hosts);
        CallWebAccess::new(self.inner.guard.clone(), hosts)
    }

    /// What reads long texts for this call, if anything does.
    pub fn reader(&self) -> Option<Arc<dyn TextReader>> {
        self.inner.readers.as_ref()?.reader(&self.inner.call)
    }

    /// The call being made.
    pub fn call(&self) -> &CallId {
        &self.inner.call
    }

    /// The session it belongs to; `None` for a single call.
    pub fn session(&self) -> Option<&SessionId> {
        self.inner.session.as_ref()
    }

    /// Asks the person what only they know, and waits for as long as they take. The call gives its
    /// place among those that run to others meanwhile. The origin says who asks.
    pub async fn elicit(
        &self,
        origin: &str,
        message: String,
        wanted: ElicitationMode,
    ) -> Result<ElicitationAnswer, ToolError> {
        let reached = |elicitor: &&Arc<dyn Elicitor>| elicitor.is_reachable();
        let Some(elicitor) = self.inner.elicitor.as_ref().filter(reached) else {
            let message = "no user is available to answer; decide with what you know, or end your turn with the question";
            return Err(ToolError::new(
                ErrorType::PermissionDenied,
                ErrorReason::NoApprover,
                message,
            ));
        };
        drop(self.inner.permit.lock().unwrap_or_else(PoisonError::into_inner).take());
        let call = Some(self.inner.call.clone());
        let elicitation = Elicitation { origin: origin.to_owned(), call, message, wanted };
        tokio::select! {
            biased;
            () = self.cancelled() => Err(ToolError::cancelled()),
            answer = elicitor.elicit(&elicitation) => Ok(answer),
        }
    }

    /// The folders this host works in.
    pub fn workspace(&self) -> &Workspace {
        &self.inner.workspace
    }

    /// Whether something met on the way, in a search or a listing, may be read: what a rule denies
    /// is left out, and its name is not told. What was asked for by name was judged before.
    pub fn may_read(&self, written: &Path, canonical: &Path) -> bool {
        self.inner.policy.may_read(self.inner.tool.as_str(), written, canonical)
    }

    /// Whether [`CallContext::may_read`] can say no to something in a folder, by its canonical path.
    /// Results of the session lie in zero's own folder, and are the session's.
    pub fn filters_reads_in(&self, folder: &Path) -> bool {
        let located = self.inner.workspace.resolve_path(folder, FinalLinkMode::Keep);
        match located.map(|located| located.target().zone()) {
            Ok(PathZone::Spill) => self.filters_reads(),
            _ => self.inner.policy.filters_reads_in(folder),
        }
    }

    /// Whether [`CallContext::may_read`] can ever say no.
    pub fn filters_reads(&self) -> bool {
        self.inner.policy.filters_reads()
    }

    /// The one way to change a file. Text goes through [`CallContext::change_text`].
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// How this call signs a change.
    pub fn change_note(&self) -> ChangeOrigin {
        ChangeOrigin { tool: self.inner.tool.to_string(), call: self.inner.call.to_string() }
    }

    /// The bounds of this host.
    pub fn limits(&self) -> &HostLimits {
        &self.inner.limits
    }

    /// The files this session has seen; `None` for a call without a session.
    pub fn seen_files(&self) -> Option<&SeenFiles> {
        self.inner.seen.as_deref()
    }

    /// True once the call should stop.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancel.is_cancelled()
    }

    /// True when the call should stop because its time is up, and not because nobody wants it.
    pub(crate) fn is_past_deadline(&self) -> bool {
        self.is_cancelled() && !self.inner.caller.is_cancelled()
    }

    /// The call's place in the queue.
    pub(crate) fn permit(&self) -> Option<CallPermit> {
        self.inner.permit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fails once the call should stop; loops call it now and then.
    pub fn check_cancelled(&self) -> Result<(), ToolError> {
        if self.is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }

    /// Completes when the call should stop.
    pub async fn cancelled(&self) {
        self.inner.cancel.cancelled().await;
    }

    /// Tells whoever watches how far the call is.
    pub fn report_progress(&self, message: impl Into<String>) {
        if let Some(observer) = &self.inner.observer {
            observer.on_event(&CallEvent::Progress {
                call: self.inner.call.clone(),
                message: message.into(),
            });
        }
    }

    /// Whether somebody wants to know what commands write while they run.
    pub(crate) fn wants_output(&self) -> bool {
        self.inner.observer.as_ref().is_some_and(|observer| observer.wants_output())
    }

    /// Tells whoever watches what its command wrote.
    pub(crate) fn report_output(&self, text: String) {
        if let Some(observer) = &self.inner.observer {
            observer.on_event(&CallEvent::Output { call: self.inner.call.clone(), text });
        }
    }

    /// Runs work that blocks, off the async threads.
    ///
    /// The call's place in the queue is held until the work really ends, also when the call was
    /// given up before: otherwise a hanging disk could pile up threads without bound.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let cx = self.clone();
        let span = tracing::Span::current();
        let handle = tokio::task::spawn_blocking(move || {
            let _held = cx.permit();
            span.in_scope(|| work(&cx))
        });
        match handle.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                // Carried on to where every panic of a tool is caught and counted.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(ToolError::failed(ErrorReason::Cancelled, "zero is shutting down")),
            },
        }
    }
}
