//! The interface to a model that reads long texts for a tool.
//!
//! A web page is long and untrusted. If a session has a model, it reads the page without tools and
//! without the conversation, and only its answer is returned. Without a model, tools return the
//! text itself.

use std::sync::Arc;

use zero_core::CallId;

use crate::tool::BoxFuture;

/// A text and a question about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingRequest {
    /// The question about the text.
    pub question: String,
    /// Where the text comes from.
    pub source: String,
    /// The text. Untrusted.
    pub text: String,
}

/// Provides readers for the calls of a session; the model may differ from one call to the next.
pub trait TextReaderProvider: Send + Sync {
    /// The reader for a call, if any.
    fn reader(&self, call: &CallId) -> Option<Arc<dyn TextReader>>;
}

/// Reads a text for a tool.
pub trait TextReader: Send + Sync {
    /// Longest text, in bytes; callers truncate longer ones.
    fn text_bytes_max(&self) -> usize;

    /// Answers the question, or returns why it cannot. Dropping the future cancels it.
    fn read(&self, reading: ReadingRequest) -> BoxFuture<'_, Result<String, String>>;
}
