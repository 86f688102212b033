//! The port to whatever thinks: a request in, a stream of events out.

mod anthropic;
#[cfg(test)]
mod arbitrary_json;
mod attempt_failure;
pub mod catalog;
mod conversation;
mod cost;
mod endpoint;
mod gemini;
mod http_limits;
mod http_model;
pub mod known_models;
mod model_config;
mod model_name;
mod openai;
mod openai_chat;
mod openai_responses;
mod protocol;
mod provider_error;
mod reply_limiter;
mod request_secrets;
mod retry;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use tokio_util::sync::CancellationToken;

pub use self::http_limits::ModelHttpLimits;
pub use self::retry::RetryLimits;
use crate::event::TokenUsage;
use crate::message::{MessageBlock, ModelMessage};
pub use zero_core::ThinkingEffort;
pub use zero_runtime::tool_backend::ModelToolDefinition;

/// Something that answers. One is made for each model that settings or the environment name.
pub trait ModelClient: Send + Sync {
    /// What is known of it.
    fn info(&self) -> &ModelInfo;

    /// Asks. The stream ends after [`ModelEvent::Done`] or the first error, and always with one of
    /// them. Retrying what may be retried is the model's own business; it says so by
    /// [`ModelEvent::Retrying`]. Nothing that was streamed is ever streamed again.
    fn stream(&self, request: ModelRequest, cancel: CancellationToken) -> ModelStream;
}

/// What a model says, piece by piece.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// What is known of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// The name people choose it by: a key of `models` in settings, or `provider/model`.
    pub name: String,
    /// The provider's own name for it.
    pub id: String,
    /// Which family it is of, for the dialect of its tools: `gpt`, `claude`, `gemini`, `qwen`, …
    pub family: String,
    /// Tokens it can take; [`UNBOUNDED`] where nothing is too long for it.
    pub context_window: u64,
    /// Most tokens it may write at a time.
    pub output_tokens_max: u64,
    /// Whether it takes pictures.
    pub takes_images: bool,
    /// US dollars for a million tokens, where known.
    pub prices: Option<TokenPrices>,
}

/// The window of what needs none.
pub const UNBOUNDED: u64 = u32::MAX as u64;

impl ModelInfo {
    /// Tokens it can take, where there is a bound to speak of.
    pub fn window(&self) -> Option<u64> {
        Some(self.context_window).filter(|window| *window < UNBOUNDED)
    }
}

/// US dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPrices {
    /// Read.
    pub input: f64,
    /// Written.
    pub output: f64,
    /// Read from the provider's cache.
    pub cache_read: f64,
    /// Written to the provider's cache.
    pub cache_write: f64,
}

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// What it is told about itself and its work.
    pub system: String,
    /// The conversation. It ends with a message of the user.
    pub messages: Vec<Arc<ModelMessage>>,
    /// The tools it may use.
    pub tools: Arc<[ModelToolDefinition]>,
    /// Most tokens it may write; the model's own limit when absent.
    pub output_tokens_max: Option<u64>,
    /// How much it should think.
    pub thinking: ThinkingEffort,
}

/// One thing a model says.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// More words.
    Text(String),
    /// More thought.
    Thought(String),
    /// It begins to write a call. Its arguments follow with [`ModelEvent::Done`].
    ToolUse {
        /// What the result will refer to.
        id: String,
        /// The tool.
        name: String,
    },
    /// The provider was not ready; it is asked again.
    Retrying {
        /// Why.
        error: ModelError,
        /// When.
        after: Duration,
        /// How often it was tried by now.
        attempts: u32,
    },
    /// The complete reply; no event comes after it.
    Done(ModelReply),
}

/// All that a model said.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelReply {
    /// What, in order: thoughts, text and calls, complete.
    pub blocks: Vec<MessageBlock>,
    /// Why it stopped.
    pub stop: ModelStopReason,
    /// What it took.
    pub usage: TokenUsage,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelStopReason {
    /// It had said what it wanted.
    End,
    /// It wants tools to run.
    ToolUse,
    /// It may not write more.
    MaxTokens,
    /// It, or its provider, declined. The words are the provider's.
    Refusal(String),
}

/// Why a model gave no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// Which kind.
    pub kind: ModelErrorKind,
    /// What happened and what to do next. Never holds a key.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The key is missing, wrong, or may not do this.
    Auth,
    /// Too much for now, or no credit left.
    RateLimit,
    /// The conversation is longer than the model can take.
    ContextLength,
    /// The model or its provider declined.
    Refusal,
    /// It could not be reached, or the connection broke.
    Network,
    /// It said nothing for too long.
    Timeout,
    /// It failed by itself, or says nonsense.
    Server,
    /// It does not accept the request.
    InvalidRequest,
    /// It was stopped.
    Cancelled,
}

impl ModelErrorKind {
    /// Stable word for clients.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimit => "rate_limit",
            Self::ContextLength => "context_length",
            Self::Refusal => "refusal",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Server => "server",
            Self::InvalidRequest => "invalid_request",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the same request may succeed a little later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::RateLimit | Self::Network | Self::Timeout | Self::Server)
    }
}

impl ModelError {
    /// An error without a time to wait.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ModelError {}
