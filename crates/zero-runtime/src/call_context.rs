//! What a running tool may use.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;
use zero_core::{
    CallId, CallProgress, ErrorReason, ErrorType, HostLimits, PathZone, ResultMetadata, SecretMask,
    SessionId, ToolError, ToolName,
};
use zero_exec::CallCommands;
use zero_sandbox::{ChangeOrigin, FinalLinkMode, Journal, Workspace};

use crate::admission::CallPermit;
use crate::editor_buffers::{EditorBuffer, EditorBuffers};
use crate::elicitation::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};
use crate::host_extensions::HostExtensions;
use crate::observer::{CallEvent, CallEventObserver};
use crate::policy::Policy;
use crate::rule_policy;
use crate::seen_files::SeenFiles;
use crate::text_reader::{TextReader, TextReaderProvider};
use crate::user_wait::UserWaitClock;
use crate::web::{CallWebAccess, NetworkGuard};

/// What a running tool may use. Cheap to clone.
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
    /// The caller's own token, which a deadline does not cancel.
    pub(crate) caller: CancellationToken,
    pub(crate) seen: Option<Arc<SeenFiles>>,
    pub(crate) observer: Option<Arc<dyn CallEventObserver>>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
    pub(crate) session: Option<SessionId>,
    /// Released while the call waits for the user.
    pub(crate) permit: Mutex<Option<CallPermit>>,
    pub(crate) commands: CallCommands,
    pub(crate) companions: Arc<HostExtensions>,
    pub(crate) buffers: Option<Arc<EditorBuffers>>,
    pub(crate) guard: NetworkGuard,
    pub(crate) readers: Option<Arc<dyn TextReaderProvider>>,
    /// The editor's text of files whose changes the user is about to see, once it was requested.
    pub(crate) foreseen: OnceLock<HashMap<PathBuf, EditorBuffer>>,
    /// The time spent on questions to the user.
    pub(crate) user_wait: Arc<UserWaitClock>,
    /// Attempts after the first one.
    pub(crate) retries: Arc<AtomicU32>,
    /// What the result tells beside its output.
    pub(crate) metadata: Arc<Mutex<ResultMetadata>>,
}

impl CallContext {
    pub(crate) fn new(parts: CallContextParts) -> Self {
        Self { inner: Arc::new(parts) }
    }

    pub(crate) fn commands(&self) -> &CallCommands {
        &self.inner.commands
    }

    /// The session's editor, if there is one.
    pub(crate) fn buffers(&self) -> Option<&Arc<EditorBuffers>> {
        self.inner.buffers.as_ref()
    }

    /// The editor's text of files whose changes the user is about to see.
    pub(crate) fn prefetched_buffers(&self) -> &OnceLock<HashMap<PathBuf, EditorBuffer>> {
        &self.inner.foreseen
    }

    /// The value of this type that the host's tools share between calls.
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.inner.companions.get()
    }

    /// Web access, limited to the hosts among the call's authorized effects.
    pub fn web(&self) -> CallWebAccess {
        let hosts = Arc::clone(&self.inner.commands.launcher.hosts);
        CallWebAccess::new(self.inner.guard.clone(), hosts)
    }

    /// Reads long texts for this call, if available.
    pub fn reader(&self) -> Option<Arc<dyn TextReader>> {
        self.inner.readers.as_ref()?.reader(&self.inner.call)
    }

    /// The id of the call.
    pub fn call(&self) -> &CallId {
        &self.inner.call
    }

    /// The id by which the caller knows the call, such as the one that an editor shows it with.
    pub fn caller_id(&self) -> CallId {
        let observer = self.inner.observer.as_ref();
        let known = observer.and_then(|observer| observer.caller_id(&self.inner.call));
        known.unwrap_or_else(|| self.inner.call.clone())
    }

    /// The session it belongs to; `None` for a single call.
    pub fn session(&self) -> Option<&SessionId> {
        self.inner.session.as_ref()
    }

    /// Asks the user a question on behalf of `origin`, and waits for the answer. The call releases
    /// its slot meanwhile.
    pub async fn elicit(
        &self,
        origin: &str,
        message: String,
        mode: ElicitationMode,
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
        let message = self.secrets().mask_text(&message).into_owned();
        let elicitation = Elicitation { origin: origin.to_owned(), call, message, mode };
        let _waiting = self.inner.user_wait.start();
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

    /// Whether a path found in a search or listing may be read. Denied paths are omitted with their
    /// names. Paths named in the call were authorized before.
    pub fn may_read(&self, written: &Path, canonical: &Path) -> bool {
        self.inner.policy.may_read(self.inner.tool.as_str(), written, canonical)
    }

    /// Identities of the denied files that have several names (hard links); `None` if there are too
    /// many to list. Searches the workspace.
    pub fn linked_denied_files(&self) -> Option<HashSet<(u64, u64)>> {
        let found = rule_policy::find_linked_denied_files(&*self.inner.policy, self.workspace())?;
        Some(found.into_iter().map(|(_, identity)| identity).collect())
    }

    /// Whether an open file is one that a rule denies, by another name (a hard link).
    pub fn is_denied_link(&self, file: &File) -> bool {
        rule_policy::is_denied_link(&*self.inner.policy, self.workspace(), file)
    }

    /// Whether [`CallContext::may_read`] can deny anything in a folder, given by its canonical
    /// path. The session's own results in zero's folder are readable.
    pub fn filters_reads_in(&self, folder: &Path) -> bool {
        let located = self.inner.workspace.resolve_path(folder, FinalLinkMode::Keep);
        match located.map(|located| located.target().zone()) {
            Ok(PathZone::Spill) => self.filters_reads(),
            _ => self.inner.policy.filters_reads_in(folder),
        }
    }

    /// Whether [`CallContext::may_read`] can deny anything at all.
    pub fn filters_reads(&self) -> bool {
        self.inner.policy.filters_reads()
    }

    /// The only way to change a file. Text changes go through [`CallContext::change_text`].
    pub fn journal(&self) -> &Journal {
        &self.inner.journal
    }

    /// The origin that this call records with a change.
    pub fn change_note(&self) -> ChangeOrigin {
        ChangeOrigin {
            tool: self.inner.tool.to_string(),
            call: self.inner.call.to_string(),
            caller: Some(self.caller_id().to_string()),
        }
    }

    /// The limits of this host.
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

    /// True if the call should stop because of its deadline, not because it was cancelled.
    pub(crate) fn is_past_deadline(&self) -> bool {
        self.is_cancelled() && !self.inner.caller.is_cancelled()
    }

    /// The call's slot.
    pub(crate) fn permit(&self) -> Option<CallPermit> {
        self.inner.permit.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fails once the call should stop; long loops call it regularly.
    pub fn check_cancelled(&self) -> Result<(), ToolError> {
        if self.is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }

    /// Completes when the call should stop.
    pub async fn cancelled(&self) {
        self.inner.cancel.cancelled().await;
    }

    /// Sends progress to the observer.
    pub fn report_progress(&self, mut progress: CallProgress) {
        if let Some(observer) = &self.inner.observer {
            self.secrets().mask_string(&mut progress.message);
            observer.on_event(&CallEvent::Progress { call: self.inner.call.clone(), progress });
        }
    }

    /// Counts another attempt of something that failed for a temporary reason, for the audit row
    /// and statistics.
    pub fn record_retry(&self) {
        self.inner.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds notes to the metadata of the result.
    pub fn record_notes(&self, notes: &[String]) {
        let mut metadata = self.inner.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        notes.iter().for_each(|note| metadata.add_note(note));
    }

    /// Records that `to` is used because `from` failed: in the metadata of the result, the audit row
    /// and statistics.
    pub fn record_fallback(&self, from: &str, to: &str, reason: &str) {
        let mut metadata = self.inner.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        metadata.add_fallback(from, to, reason);
    }

    /// The number of attempts of this call so far.
    pub fn attempts(&self) -> u32 {
        self.inner.retries.load(Ordering::Relaxed).saturating_add(1)
    }

    /// The secret values that were known when the call began to run.
    pub(crate) fn secrets(&self) -> &SecretMask {
        &self.inner.commands.secrets
    }

    /// Whether an observer wants the output of commands while they run.
    pub(crate) fn wants_output(&self) -> bool {
        self.inner.observer.as_ref().is_some_and(|observer| observer.wants_output())
    }

    /// Sends output of a command to the observer.
    pub(crate) fn report_output(&self, text: String) {
        if let Some(observer) = &self.inner.observer {
            observer.on_event(&CallEvent::Output { call: self.inner.call.clone(), text });
        }
    }

    /// Runs blocking work off the async threads.
    ///
    /// The call's slot is held until the work really ends, even if the call was cancelled before:
    /// otherwise a hanging disk could accumulate threads without bound.
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
                // Resumed where every panic of a tool is caught and counted.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(ToolError::failed(ErrorReason::Cancelled, "zero is shutting down")),
            },
        }
    }
}
