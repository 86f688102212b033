//! Who watches calls while they run.

use zero_core::{CallId, FileLocation, ToolKind, ToolName};

/// One thing that happened to a call. `Ended` comes exactly once, and last.
#[derive(Clone, Debug)]
pub enum CallEvent {
    /// The call is understood and will be judged.
    Described {
        /// Names the call in every event about it.
        call: CallId,
        /// The tool, canonically.
        tool: ToolName,
        /// What it will do.
        title: String,
        /// How to picture it.
        kind: ToolKind,
        /// Places it is about.
        locations: Vec<FileLocation>,
    },
    /// It was allowed, has a place, and runs.
    Started {
        /// The call that `Described` named before.
        call: CallId,
    },
    /// It has something to say before it ends.
    Progress {
        /// The call that sends the message.
        call: CallId,
        /// What it says.
        message: String,
    },
    /// Its command wrote this, to its output or its error output, as it came; what is no text is
    /// shown as U+FFFD. Where too much comes at once, the newest of it. The result has everything.
    Output {
        /// The call whose command wrote it.
        call: CallId,
        /// What it wrote since the last time.
        text: String,
    },
    /// It is over.
    Ended {
        /// The call; no further event names it.
        call: CallId,
        /// `ok`, `error`, `denied`, `cancelled`, `timeout` or `panic`.
        status: &'static str,
    },
}

/// Watches calls. Must return at once: it is called from the path of the call.
pub trait CallEventObserver: Send + Sync {
    /// Something happened.
    fn on_event(&self, event: &CallEvent);

    /// Whether it wants [`CallEvent::SampleOutput`], which is not made for nobody.
    fn wants_output(&self) -> bool {
        false
    }
}
