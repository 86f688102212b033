//! The port to language models: takes a request and returns a stream of events.

mod anthropic;
#[cfg(test)]
mod arbitrary_json;
mod attempt_failure;
pub mod catalog;
mod conversation;
pub(crate) mod cost;
mod endpoint;
mod fallback_model;
mod gemini;
mod http_limits;
mod http_model;
pub mod known_models;
pub mod local_servers;
mod model_config;
mod model_name;
pub mod model_test;
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
use crate::output_schema::OutputSchema;
pub use zero_core::ThinkingEffort;
pub use zero_runtime::tool_backend::ModelToolDefinition;

/// A model client. There is one for each model that the settings or the environment name.
pub trait ModelClient: Send + Sync {
    /// Properties of the model.
    fn info(&self) -> &ModelInfo;

    /// Sends a request. The stream ends with [`ModelEvent::Done`] or with the first error. The
    /// client retries transient failures itself and reports each retry with
    /// [`ModelEvent::Retrying`]. It never repeats content that was already streamed.
    fn stream(&self, request: ModelRequest, cancel: CancellationToken) -> ModelStream;
}

/// Stream of a model's reply.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// Properties of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// Name that users select it by: a key of `models` in settings, or `provider/model`.
    pub name: String,
    /// The provider's name for the model.
    pub id: String,
    /// Family of the model, which determines its tool dialect: `gpt`, `claude`, `gemini`, `qwen`, …
    pub family: String,
    /// Context window in tokens; [`UNBOUNDED`] if there is no limit.
    pub context_window: u64,
    /// Maximum number of output tokens per reply.
    pub output_tokens_max: u64,
    /// Whether it accepts images.
    pub takes_images: bool,
    /// Prices in US dollars per million tokens, if known.
    pub prices: Option<TokenPrices>,
}

/// Context window of a model without a limit.
pub const UNBOUNDED: u64 = u32::MAX as u64;

impl ModelInfo {
    /// Context window in tokens; `None` if there is no limit.
    pub fn window(&self) -> Option<u64> {
        Some(self.context_window).filter(|window| *window < UNBOUNDED)
    }
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPrices {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Input tokens read from the provider's cache.
    pub cache_read: f64,
    /// Input tokens written to the provider's cache.
    pub cache_write: f64,
}

/// A request to a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: String,
    /// The conversation. It ends with a user message.
    pub messages: Vec<Arc<ModelMessage>>,
    /// The tools it may use.
    pub tools: Arc<[ModelToolDefinition]>,
    /// Maximum number of output tokens; `None` uses the model's own limit.
    pub output_tokens_max: Option<u64>,
    /// Thinking effort.
    pub thinking: ThinkingEffort,
    /// Schema of the final answer. Providers that can enforce it do; the system prompt says it to all.
    pub output_schema: Option<OutputSchema>,
}

/// One event of a model's reply.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More thinking.
    Thought(String),
    /// A tool call begins. Its arguments follow with [`ModelEvent::Done`].
    ToolUse {
        /// Id that the result will refer to.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// The provider was not ready; the request is retried.
    Retrying {
        /// Reason of the retry.
        error: ModelError,
        /// Delay before the retry.
        after: Duration,
        /// Number of attempts so far.
        attempts: u32,
    },
    /// The model was not available, and another one answers.
    FellBack(Arc<ModelFallback>),
    /// The complete reply; no event comes after it.
    Done(ModelReply),
}

/// Another model answers, since the first one was not available.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFallback {
    /// Name of the model that failed.
    pub from: String,
    /// Properties of the model that answers.
    pub to: ModelInfo,
    /// Why the first one failed.
    pub error: ModelError,
}

/// A complete reply.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelReply {
    /// Thoughts, text and calls, complete and in order.
    pub blocks: Vec<MessageBlock>,
    /// Why the model stopped.
    pub stop: ModelStopReason,
    /// Token usage.
    pub usage: TokenUsage,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelStopReason {
    /// The reply is complete.
    End,
    /// The model waits for tool results.
    ToolUse,
    /// The output limit is reached.
    MaxTokens,
    /// The model or its provider declined, with the provider's message.
    Refusal(String),
}

/// Why a model gave no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    /// Kind of the failure.
    pub kind: ModelErrorKind,
    /// Description of the failure and what to do next. Never contains a key.
    pub message: String,
    /// Delay that the provider asks for.
    pub retry_after: Option<Duration>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The key is missing, wrong or lacks permission.
    Auth,
    /// A rate limit is reached, or the account has no credit.
    RateLimit,
    /// The conversation exceeds the context window.
    ContextLength,
    /// The model or its provider declined.
    Refusal,
    /// The provider is unreachable or the connection broke.
    Network,
    /// No data arrived in time.
    Timeout,
    /// The provider failed or sent an invalid response.
    Server,
    /// The provider rejects the request.
    InvalidRequest,
    /// The request was cancelled.
    Cancelled,
}

impl ModelErrorKind {
    /// Stable name for clients.
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

    /// Whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::RateLimit | Self::Network | Self::Timeout | Self::Server)
    }
}

impl ModelError {
    /// Creates an error without a retry delay.
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
