//! Forwards the events of calls to the session's task.

use std::sync::{Arc, Mutex, PoisonError};

use zero_client::{CallForwarding, LocalMode, LocalModeBackend};
use zero_core::{CallId, CallProgress, FileLocation, ToolKind};
use zero_runtime::text_reader::TextReader;
use zero_runtime::tool_backend::{CallObserver, ToolBackend};

use crate::output_buffer::OutputBuffer;
use crate::session_message::{SessionMessage, SessionSender};

/// The backend of a session, under its user's mode, with its calls forwarded to its task.
pub(crate) fn session_backend(
    backend: &Arc<dyn ToolBackend>,
    mode: &Arc<LocalMode>,
    sender: &SessionSender,
) -> Arc<dyn ToolBackend> {
    let forwarding = Arc::new(SessionForwarding { sender: sender.clone() });
    let backend = LocalModeBackend::new(Arc::clone(backend), Arc::clone(mode));
    Arc::new(backend.with_forwarding(forwarding))
}

/// Forwards the events of a session's calls to its task.
struct SessionForwarding {
    sender: SessionSender,
}

impl CallForwarding for SessionForwarding {
    fn observe(&self, call: &CallId, observer: Arc<dyn CallObserver>) -> Arc<dyn CallObserver> {
        Arc::new(ForwardingObserver {
            call: String::from(call.clone()),
            watch: observer,
            sender: self.sender.clone(),
            printed: Arc::default(),
            unsent: Mutex::default(),
        })
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

    fn reader(&self) -> Option<Arc<dyn TextReader>> {
        self.watch.reader()
    }
}
