//! The port to a model that reads for a tool: a long text in, what was asked about it out.
//!
//! A page of the web is long and somebody else's. Where a session has a model, that can read the
//! page by itself, without tools and without the conversation, and only its answer goes on. Where
//! there is none, tools do without.

use std::sync::Arc;

use zero_core::CallId;

use crate::tool::BoxFuture;

/// What is to be read, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadingRequest {
    /// What is asked of the text.
    pub question: String,
    /// Where the text comes from, for the reader's eyes.
    pub source: String,
    /// The text. A stranger wrote it.
    pub text: String,
}

/// Who reads for the calls of a session: it may be another model from one call to the next.
pub trait TextReaderProvider: Send + Sync {
    /// What reads for a call, if anything does.
    fn reader(&self, call: &CallId) -> Option<Arc<dyn TextReader>>;
}

/// Something that reads a text for a tool.
pub trait TextReader: Send + Sync {
    /// Most of a text that it takes, in bytes; a longer one is cut before.
    fn text_bytes_max(&self) -> usize;

    /// Answers what is asked of a text, or says why it cannot. Dropping the future stops it.
    fn read(&self, reading: ReadingRequest) -> BoxFuture<'_, Result<String, String>>;
}
