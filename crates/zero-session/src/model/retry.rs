//! Retries requests while the provider is not ready and nothing was streamed.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::model::attempt_failure::AttemptFailure;
use crate::model::{ModelError, ModelErrorKind, ModelEvent, ModelStream};

/// Number and delays of retries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryLimits {
    /// Maximum number of attempts, including the first.
    pub attempts_max: u32,
    /// First delay if the provider names none. It doubles with each retry.
    pub pause_first: Duration,
    /// Maximum of these delays.
    pub pause_max: Duration,
    /// Maximum delay that a provider can ask for.
    pub asked_pause_max: Duration,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            attempts_max: 5,
            pause_first: Duration::from_secs(1),
            pause_max: Duration::from_secs(60),
            asked_pause_max: Duration::from_secs(120),
        }
    }
}

/// The stream of one attempt.
pub(crate) type AttemptStream =
    Pin<Box<dyn Stream<Item = Result<ModelEvent, AttemptFailure>> + Send>>;

/// Retries until content was streamed, the failure is permanent, or the attempts are exhausted.
pub(crate) fn retry_stream(
    limits: RetryLimits,
    cancel: CancellationToken,
    attempt: impl Fn() -> AttemptStream + Send + 'static,
) -> ModelStream {
    let current = attempt();
    let tries = RetryStream {
        limits,
        cancel,
        attempt,
        attempts: 1,
        step: RetryState::Trying(current),
        was_anything_said: false,
    };
    Box::pin(stream::unfold(tries, |mut tries| async move {
        let next = tries.next().await?;
        Some((next, tries))
    }))
}

struct RetryStream<A> {
    limits: RetryLimits,
    cancel: CancellationToken,
    attempt: A,
    attempts: u32,
    step: RetryState,
    was_anything_said: bool,
}

enum RetryState {
    Trying(AttemptStream),
    Pausing(Duration),
    Ended,
}

impl<A: Fn() -> AttemptStream> RetryStream<A> {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        if let RetryState::Pausing(pause) = self.step {
            let was_cancelled = tokio::select! {
                biased;
                () = self.cancel.cancelled() => true,
                () = tokio::time::sleep(pause) => false,
            };
            if was_cancelled {
                self.step = RetryState::Ended;
                return Some(Err(cancelled_error()));
            }
            self.attempts += 1;
            self.step = RetryState::Trying((self.attempt)());
        }
        let RetryState::Trying(current) = &mut self.step else { return None };
        let failed = match current.next().await {
            Some(Ok(event)) => {
                self.was_anything_said = true;
                if matches!(event, ModelEvent::Done(_)) {
                    self.step = RetryState::Ended;
                }
                return Some(Ok(event));
            }
            Some(Err(failed)) => failed,
            None => AttemptFailure::from(ModelError::new(
                ModelErrorKind::Server,
                "the provider's answer ended without an end",
            )),
        };
        match self.pause_after(&failed) {
            Ok(after) => {
                self.step = RetryState::Pausing(after);
                let error = failed.error;
                Some(Ok(ModelEvent::Retrying { error, after, attempts: self.attempts }))
            }
            Err(why) => {
                self.step = RetryState::Ended;
                let mut error = failed.error;
                error.message.push_str(&why);
                Some(Err(error))
            }
        }
    }

    /// The delay before the next attempt, or the reason why there is none.
    fn pause_after(&self, failed: &AttemptFailure) -> Result<Duration, String> {
        if self.was_anything_said || !failed.may_pass || self.cancel.is_cancelled() {
            return Err(String::new());
        }
        let requested_delay = failed.error.retry_after;
        if let Some(requested_timeout) =
            requested_delay.filter(|asked| *asked > self.limits.asked_pause_max)
        {
            return Err(format!("; try again in {}", format_duration(requested_timeout)));
        }
        if self.attempts >= self.limits.attempts_max {
            return Err(match self.attempts {
                1 => String::new(),
                attempts => format!("; tried {attempts} times"),
            });
        }
        Ok(requested_delay.unwrap_or_else(|| self.backoff_pause()))
    }

    fn backoff_pause(&self) -> Duration {
        let doubled = 2u32.saturating_pow(self.attempts.saturating_sub(1));
        let pause = self.limits.pause_first.saturating_mul(doubled);
        // Jitter, so that clients rejected at the same time do not retry at the same time.
        pause.mul_f64(0.75 + 0.5 * fastrand::f64()).min(self.limits.pause_max)
    }
}

/// The error of a cancelled request.
pub(crate) fn cancelled_error() -> ModelError {
    ModelError::new(ModelErrorKind::Cancelled, "the answer was stopped")
}

fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;
    use crate::event::TokenUsage;
    use crate::model::{ModelReply, ModelStopReason};

    /// Script of one attempt: stream `text`, fail with `kind` (and a retry delay), or finish.
    #[derive(Clone)]
    enum AttemptScript {
        Says(&'static str),
        Fails(ModelErrorKind, Option<u64>),
        IsDone,
    }
    use AttemptScript::{Fails, IsDone, Says};
    use ModelErrorKind::{Auth, Network, RateLimit, Server};

    fn scripted_stream(
        script: Vec<Vec<AttemptScript>>,
        cancel: CancellationToken,
    ) -> (ModelStream, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = count.clone();
        let attempt = move || -> AttemptStream {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            let does = script.get(number).cloned().unwrap_or_default();
            Box::pin(stream::iter(does.into_iter().map(|does| match does {
                Says(text) => Ok(ModelEvent::Text(text.to_owned())),
                Fails(kind, seconds) => {
                    let mut error = ModelError::new(kind, kind.as_str());
                    error.retry_after = seconds.map(Duration::from_secs);
                    Err(AttemptFailure::from(error))
                }
                IsDone => Ok(ModelEvent::Done(ModelReply {
                    blocks: vec![],
                    stop: ModelStopReason::End,
                    usage: TokenUsage::default(),
                })),
            })))
        };
        (retry_stream(RetryLimits::default(), cancel, attempt), count)
    }

    /// Runs the script and checks the events and their time in whole seconds (delays with jitter
    /// are shown as `~`).
    #[track_caller]
    fn check(script: Vec<Vec<AttemptScript>>, expected: &str) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let seen = runtime.block_on(async {
            let (mut stream, _) = scripted_stream(script, CancellationToken::new());
            let mut seen = Vec::new();
            while let Some(event) = stream.next().await {
                seen.push(match event {
                    Ok(ModelEvent::Text(text)) => text,
                    Ok(ModelEvent::Retrying { error, after, attempts }) => {
                        let before = Instant::now();
                        let shown = match error.retry_after {
                            Some(asked) => {
                                assert_eq!(after, asked);
                                format!("{}s", after.as_secs())
                            }
                            None => {
                                let middle = f64::from(2u32.pow(attempts - 1));
                                assert!(
                                    (middle * 0.75..=middle * 1.25).contains(&after.as_secs_f64())
                                );
                                format!("~{middle}s")
                            }
                        };
                        assert_eq!(before.elapsed(), Duration::ZERO);
                        format!("{error} {shown} #{attempts}")
                    }
                    Ok(ModelEvent::Done(_)) => "done".to_owned(),
                    Ok(other) => format!("{other:?}"),
                    Err(error) => format!("error: {error}"),
                });
            }
            seen.join(", ")
        });
        assert_eq!(seen, expected);
    }

    #[test]
    fn transient_failure_is_retried_until_success() {
        check(vec![vec![Says("hi"), IsDone]], "hi, done");
        check(
            vec![vec![Fails(Server, None)], vec![Fails(Network, None)], vec![Says("hi"), IsDone]],
            "server ~1s #1, network ~2s #2, hi, done",
        );
        check(vec![vec![Fails(RateLimit, Some(7))], vec![IsDone]], "rate_limit 7s #1, done");
        check(vec![vec![Fails(RateLimit, Some(120))], vec![IsDone]], "rate_limit 120s #1, done");
        check(
            vec![vec![], vec![IsDone]],
            "the provider's answer ended without an end ~1s #1, done",
        );
    }

    #[test]
    fn permanent_or_partly_shown_failure_is_not_retried() {
        check(vec![vec![Fails(Auth, None)], vec![IsDone]], "error: auth");
        check(vec![vec![Says("hi"), Fails(Network, None)], vec![IsDone]], "hi, error: network");
        check(
            vec![vec![Fails(RateLimit, Some(121))], vec![IsDone]],
            "error: rate_limit; try again in 3 min",
        );
        check(
            vec![vec![Fails(Server, None)]; 9],
            "server ~1s #1, server ~2s #2, server ~4s #3, server ~8s #4, error: server; tried 5 times",
        );
    }

    #[tokio::test(start_paused = true)]
    async fn retry_pause_is_honored_and_cancellable() {
        let cancel = CancellationToken::new();
        let script = vec![vec![Fails(RateLimit, Some(30))], vec![Fails(RateLimit, Some(60))]];
        let (mut stream, count) = scripted_stream(script, cancel.clone());
        let started = Instant::now();
        assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Retrying { .. }))));
        assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Retrying { .. }))));
        assert_eq!(started.elapsed().as_secs(), 30);
        cancel.cancel();
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Cancelled);
        assert_eq!((started.elapsed().as_secs(), count.load(Ordering::Relaxed)), (30, 2));
        assert!(stream.next().await.is_none());
    }
}
