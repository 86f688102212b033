//! Tests with one short request whether a model answers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::message::ModelMessage;
use crate::model::catalog::open_model_with_limits;
use crate::model::model_config::ModelConfig;
use crate::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelHttpLimits, ModelRequest, RetryLimits,
    ThinkingEffort,
};

/// Output tokens of the request. Models that think first need a few more than the answer has.
const TOKENS_MAX: u64 = 64;
/// Time limit of the request. A local server may load the model first.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Sends one short request, and returns why it failed. It is not retried: the caller decides about
/// that.
pub async fn test_model(config: ModelConfig) -> Result<(), ModelError> {
    let limits = ModelHttpLimits {
        head_time: TIME_MAX,
        answer_time: TIME_MAX,
        retry: RetryLimits { attempts_max: 1, ..RetryLimits::default() },
        ..ModelHttpLimits::default()
    };
    let model = open_model_with_limits(limits, config)?;
    let request = ModelRequest {
        system: "Answer with one word.".to_owned(),
        messages: vec![Arc::new(ModelMessage::user("Say ok."))],
        tools: Vec::new().into(),
        output_tokens_max: Some(TOKENS_MAX),
        thinking: ThinkingEffort::Default,
        output_schema: None,
    };
    let mut reply = model.stream(request, CancellationToken::new());
    while let Some(event) = reply.next().await {
        if let ModelEvent::Done(_) = event? {
            return Ok(());
        }
    }
    let message = "the answer ended before it was complete";
    Err(ModelError::new(ModelErrorKind::Server, message))
}
