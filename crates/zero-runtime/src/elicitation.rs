//! How somebody else's tool puts a question to the person, with its name on it.
//!
//! A server may need a value or a visit to a page before it can go on, and the agent itself a choice
//! that only a person can make. It is never answered by itself: the person sees who asks and what
//! for, and what they say goes to that asker and nowhere else. Permission to run a call is another thing: see [`crate::approver`].

use serde_json::{Map, Value};
use zero_core::CallId;

use crate::tool::BoxFuture;

/// What a person is asked on behalf of somebody.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// Who asks, such as ``MCP server `github` `` or `the agent`, as it stands within a sentence. The
    /// asker cannot choose it.
    pub origin: String,
    /// The call it is about, if it is known.
    pub call: Option<CallId>,
    /// What they say. It is text of somebody nobody vouches for.
    pub message: String,
    /// What they want.
    pub wanted: ElicitationMode,
}

impl Elicitation {
    /// Who asks, as it stands at the beginning of a sentence.
    pub fn asker(&self) -> String {
        let mut letters = self.origin.chars();
        let first = letters.next().map(char::to_uppercase);
        first.into_iter().flatten().chain(letters).collect()
    }
}

/// What is wanted of the person.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationMode {
    /// Values: a JSON Schema of an object whose fields are texts, numbers, yes or no, and choices.
    Form(Value),
    /// A visit to a page. It is shown in full, and opened by nobody but the person.
    Url(String),
}

/// What the person said.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationAnswer {
    /// These values, which fit the schema; none for a visit.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Nothing: they went away, or nobody is there.
    Cancel,
}

/// How such a question reaches the person. Without one it is cancelled, and the asker told.
pub trait Elicitor: Send + Sync {
    /// Whether somebody may be there. Where nobody is, the asker is told so at once.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Asks. May take as long as a person takes; the asker can give up meanwhile.
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer>;
}
