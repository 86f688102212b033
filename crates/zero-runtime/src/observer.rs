//! Events of running calls.

use zero_core::{CallId, CallProgress, FileLocation, ToolKind, ToolName};

/// An event of a call. `Ended` comes exactly once, and last.
#[derive(Clone, Debug)]
pub enum CallEvent {
    /// The call was planned and will be authorized.
    Described {
        /// The id of the call in all its events.
        call: CallId,
        /// The tool's canonical name.
        tool: ToolName,
        /// What it will do.
        title: String,
        /// The kind of tool, for an icon.
        kind: ToolKind,
        /// The files it is about.
        locations: Vec<FileLocation>,
    },
    /// It was authorized, has a slot, and runs.
    Started {
        /// The call, which `Described` named before.
        call: CallId,
    },
    /// A progress message.
    Progress {
        /// The call that sends the message.
        call: CallId,
        /// The message, and how much is done.
        progress: CallProgress,
    },
    /// Output of its command, standard output and standard error as they arrive; invalid UTF-8 is
    /// shown as U+FFFD. If there is too much at once, only the newest part. The result has all of
    /// it.
    Output {
        /// The call whose command wrote it.
        call: CallId,
        /// The output since the last event.
        text: String,
    },
    /// The call has ended.
    Ended {
        /// The call; no further event names it.
        call: CallId,
        /// `ok`, `error`, `denied`, `cancelled`, `timeout` or `panic`.
        status: &'static str,
    },
}

/// Observes calls. Must return at once: it runs on the call's own path.
pub trait CallEventObserver: Send + Sync {
    /// Called for each event.
    fn on_event(&self, event: &CallEvent);

    /// Whether it wants [`CallEvent::Output`], which is only sent on request.
    fn wants_output(&self) -> bool {
        false
    }

    /// The id by which the caller knows a call, if that is another one than the host's.
    fn caller_id(&self, _call: &CallId) -> Option<CallId> {
        None
    }
}
