//! Questions from servers or the agent to the user.
//!
//! A server may need a value or a visit to a web page before it can continue, and the agent may
//! need a choice that only the user can make. zero never answers such a question itself: the user
//! sees who asks and why, and the answer goes to that asker only. For permission to run a call, see
//! [`crate::approver`].

use serde_json::{Map, Value};
use zero_core::CallId;

use crate::tool::BoxFuture;

/// A question for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// Who asks, such as ``MCP server `github` `` or `the agent`, for use within a sentence. zero
    /// sets it, not the asker.
    pub origin: String,
    /// The call it belongs to, if known.
    pub call: Option<CallId>,
    /// The question. Untrusted text.
    pub message: String,
    /// The kind of answer that is requested.
    pub wanted: ElicitationMode,
}

impl Elicitation {
    /// Who asks, for the beginning of a sentence.
    pub fn asker(&self) -> String {
        let mut letters = self.origin.chars();
        let first = letters.next().map(char::to_uppercase);
        first.into_iter().flatten().chain(letters).collect()
    }
}

/// The kind of answer that is requested.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationMode {
    /// Values: a JSON Schema of an object with fields for text, numbers, booleans and choices.
    Form(Value),
    /// A visit to a web page. The URL is shown in full, and only the user opens it.
    Url(String),
}

/// The user's answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationAnswer {
    /// Values that match the schema; none for a web page.
    Accept(Map<String, Value>),
    /// The user declined.
    Decline,
    /// No answer: the user left, or nobody is available.
    Cancel,
}

/// Delivers questions to the user. Without an elicitor, questions are cancelled and the asker is
/// told so.
pub trait Elicitor: Send + Sync {
    /// Whether a user may be available. If not, the asker is told so at once.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Asks. May take as long as the user needs; the asker can give up meanwhile.
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer>;
}
