//! A model with others that stand in for it when it is rate-limited or unavailable.
//!
//! Another model is asked only while nothing of the answer was streamed, so that the user does not
//! see two beginnings. From then on it answers all requests of the run: a provider that is down is
//! not asked again at every step.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use crate::model::{
    ModelClient, ModelError, ModelEvent, ModelFallback, ModelInfo, ModelRequest, ModelStream,
};
use crate::turn::transcript_repair::adapt_for_model;

/// Retries of a model before another one is asked.
const RETRIES_MAX: u32 = 1;
/// Longest delay before a retry; another model is asked instead of a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A model and those that stand in for it, for one run.
pub(crate) struct FallbackModel {
    first: Arc<dyn ModelClient>,
    fallback_models: Arc<[Arc<dyn ModelClient>]>,
    /// How many models had failed when the run was continued.
    failed_before: usize,
    /// How many models have failed in the run.
    failed: Arc<AtomicUsize>,
}

impl FallbackModel {
    pub(crate) fn new(
        first: Arc<dyn ModelClient>,
        fallback_models: Vec<Arc<dyn ModelClient>>,
    ) -> Self {
        let (failed_before, failed) = Default::default();
        Self { first, fallback_models: fallback_models.into(), failed_before, failed }
    }

    /// Begins with a model that stands in for the first one, if there is one with this name.
    #[must_use]
    pub(crate) fn starting_with(mut self, name: &str) -> Self {
        let mut fallback_models = self.fallback_models.iter();
        let at = fallback_models.position(|model| model.info().name == name);
        self.failed_before = at.map_or(0, |at| at + 1);
        self.failed = Arc::new(AtomicUsize::new(self.failed_before));
        self
    }

    /// The model that answers after so many have failed.
    fn model_after(&self, failed: usize) -> &Arc<dyn ModelClient> {
        let other = failed.checked_sub(1).and_then(|at| self.fallback_models.get(at));
        other.unwrap_or(&self.first)
    }
}

impl ModelClient for FallbackModel {
    fn info(&self) -> &ModelInfo {
        self.model_after(self.failed_before).info()
    }

    fn stream(&self, request: ModelRequest, cancel: CancellationToken) -> ModelStream {
        let failed = self.failed.load(Ordering::Relaxed);
        let model = Arc::clone(self.model_after(failed));
        let attempt = FallbackStream {
            current: model.stream(adapt(&request, model.info()), cancel.clone()),
            model,
            fallback_models: Arc::clone(&self.fallback_models),
            failed: Arc::clone(&self.failed),
            next: failed,
            request,
            cancel,
            was_anything_said: false,
            has_ended: false,
        };
        Box::pin(stream::unfold(attempt, |mut attempt| async move {
            let next = attempt.next().await?;
            Some((next, attempt))
        }))
    }
}

struct FallbackStream {
    current: ModelStream,
    model: Arc<dyn ModelClient>,
    fallback_models: Arc<[Arc<dyn ModelClient>]>,
    failed: Arc<AtomicUsize>,
    /// Index of the next model to ask.
    next: usize,
    request: ModelRequest,
    cancel: CancellationToken,
    was_anything_said: bool,
    has_ended: bool,
}

impl FallbackStream {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        if self.has_ended {
            return None;
        }
        let event = self.current.next().await;
        let error = match &event {
            Some(Ok(ModelEvent::Retrying { error, after, attempts }))
                if *attempts > RETRIES_MAX || *after > PAUSE_MAX =>
            {
                Some(error)
            }
            Some(Err(error)) if error.kind.is_transient() => Some(error),
            _ => None,
        };
        if let Some(error) = error.cloned()
            && !self.was_anything_said
            && !self.cancel.is_cancelled()
            && let Some(other) = self.fallback_models.get(self.next).cloned()
        {
            return Some(Ok(self.switch_to(other, error)));
        }
        match &event {
            Some(Ok(ModelEvent::Retrying { .. })) => {}
            Some(Ok(_)) => self.was_anything_said = true,
            Some(Err(_)) | None => self.has_ended = true,
        }
        event
    }

    fn switch_to(&mut self, other: Arc<dyn ModelClient>, error: ModelError) -> ModelEvent {
        let from = self.model.info().name.clone();
        let to = other.info().clone();
        self.next += 1;
        self.failed.fetch_max(self.next, Ordering::Relaxed);
        self.current = other.stream(adapt(&self.request, &to), self.cancel.clone());
        self.model = other;
        ModelEvent::FellBack(Arc::new(ModelFallback { from, to, error }))
    }
}

/// The request for a model that may not accept images.
fn adapt(request: &ModelRequest, to: &ModelInfo) -> ModelRequest {
    let messages = adapt_for_model(&request.messages, to.takes_images);
    ModelRequest { messages, ..request.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TokenUsage;
    use crate::model::{ModelErrorKind, ModelReply, ModelStopReason};

    /// Answers each request with these events.
    struct FixedEventModel {
        info: ModelInfo,
        events: Vec<Result<ModelEvent, ModelError>>,
    }

    impl ModelClient for FixedEventModel {
        fn info(&self) -> &ModelInfo {
            &self.info
        }

        fn stream(&self, _: ModelRequest, _: CancellationToken) -> ModelStream {
            Box::pin(stream::iter(self.events.clone()))
        }
    }

    fn model(name: &str, events: Vec<Result<ModelEvent, ModelError>>) -> Arc<dyn ModelClient> {
        let info = ModelInfo {
            name: name.to_owned(),
            id: name.to_owned(),
            family: String::new(),
            context_window: 1000,
            output_tokens_max: 100,
            takes_images: true,
            prices: None,
        };
        Arc::new(FixedEventModel { info, events })
    }

    fn says(text: &str) -> Result<ModelEvent, ModelError> {
        Ok(ModelEvent::Text(text.to_owned()))
    }

    fn done() -> Result<ModelEvent, ModelError> {
        let usage = TokenUsage::default();
        Ok(ModelEvent::Done(ModelReply { blocks: vec![], stop: ModelStopReason::End, usage }))
    }

    fn fails(kind: ModelErrorKind) -> Result<ModelEvent, ModelError> {
        Err(ModelError::new(kind, kind.as_str()))
    }

    fn retries(attempts: u32, seconds: u64) -> Result<ModelEvent, ModelError> {
        let error = ModelError::new(ModelErrorKind::Server, "busy");
        Ok(ModelEvent::Retrying { error, after: Duration::from_secs(seconds), attempts })
    }

    async fn read(model: &FallbackModel) -> String {
        let mut stream = model.stream(ModelRequest::default(), CancellationToken::new());
        let mut seen = Vec::new();
        while let Some(event) = stream.next().await {
            seen.push(match event {
                Ok(ModelEvent::Text(text)) => text,
                Ok(ModelEvent::FellBack(fallback)) => {
                    format!("{}>{}", fallback.from, fallback.to.name)
                }
                Ok(ModelEvent::Retrying { .. }) => "retry".to_owned(),
                Ok(ModelEvent::Done(_)) => "done".to_owned(),
                Ok(other) => format!("{other:?}"),
                Err(error) => format!("error {error}"),
            });
        }
        seen.join(" ")
    }

    #[tokio::test]
    async fn other_model_answers_only_if_first_is_unavailable_and_silent() {
        use ModelErrorKind::{Auth, ContextLength, RateLimit, Server};
        let cases = [
            (vec![says("hi"), done()], "hi done"),
            (vec![fails(RateLimit)], "a>b B done"),
            (vec![fails(Server)], "a>b B done"),
            (vec![retries(1, 1), says("hi"), done()], "retry hi done"),
            (vec![retries(1, 1), retries(2, 1), done()], "retry a>b B done"),
            (vec![retries(1, 60), done()], "a>b B done"),
            (vec![says("half"), fails(Server)], "half error server"),
            (vec![fails(Auth)], "error auth"),
            (vec![fails(ContextLength)], "error context_length"),
        ];
        for (events, expected) in cases {
            let others = vec![model("b", vec![says("B"), done()])];
            assert_eq!(read(&FallbackModel::new(model("a", events), others)).await, expected);
        }
    }

    #[tokio::test]
    async fn model_that_stood_in_answers_the_rest_of_the_run() {
        let down = || vec![fails(ModelErrorKind::Server)];
        let others = vec![model("b", down()), model("c", vec![says("C"), done()])];
        let models = FallbackModel::new(model("a", down()), others);
        assert_eq!(read(&models).await, "a>b b>c C done");
        assert_eq!(read(&models).await, "C done");
        let others =
            || vec![model("b", vec![says("B"), done()]), model("c", vec![says("C"), done()])];
        for (current, expected) in [("b", "B done"), ("c", "C done"), ("unknown", "hi done")] {
            let first = model("a", vec![says("hi"), done()]);
            let models = FallbackModel::new(first, others()).starting_with(current);
            assert_eq!(read(&models).await, expected, "a run that continues");
            let name = &*models.info().name;
            assert_eq!(name, if current == "unknown" { "a" } else { current });
        }
        let all_down = FallbackModel::new(model("a", down()), vec![model("b", down())]);
        assert_eq!(read(&all_down).await, "a>b error server");
    }
}
