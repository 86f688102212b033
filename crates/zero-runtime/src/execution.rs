//! Runs a plan with deadline, cancellation, panic handling and retries.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, ErrorType, SecretMask, ToolError, ToolResult};

use crate::call_context::CallContext;
use crate::tool::AnyPlan;

/// First pause between two attempts; it doubles each time and is jittered.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause that the other side may ask for. Beyond that the caller decides.
const ASKED_PAUSE_MAX: Duration = Duration::from_secs(10);

/// The deadline and the number of attempts of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutionLimits {
    pub(crate) deadline: Duration,
    pub(crate) attempts_max: u32,
    pub(crate) stop_grace: Duration,
}

/// Runs a plan to its outcome. `stop` is the tool's cancellation token: it is cancelled with the
/// caller's, and when the deadline passes. The context counts the attempts.
pub(crate) async fn run(
    plan: &dyn AnyPlan,
    cx: &CallContext,
    caller: &CancellationToken,
    stop: &CancellationToken,
    terms: ExecutionLimits,
) -> Result<ToolResult, ToolError> {
    let deadline = Instant::now() + terms.deadline;
    let mut attempt = 1;
    loop {
        let error = match run_once(plan, cx, caller, stop, deadline, terms).await {
            Ok(result) => return Ok(result),
            Err(error) => error,
        };
        let pause = retry_pause(&error, attempt);
        let pause = pause.filter(|pause| Instant::now() + *pause < deadline);
        let Some(pause) = pause.filter(|_| attempt < terms.attempts_max) else {
            let attempts = cx.attempts();
            return Err(if attempts > 1 { error.with_detail("attempts", attempts) } else { error });
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => attempt += 1,
            () = caller.cancelled() => return Err(ToolError::cancelled()),
        }
        cx.record_retry();
    }
}

/// The pause before another attempt after this error; `None` if there should be none.
fn retry_pause(error: &ToolError, attempt: u32) -> Option<Duration> {
    if !error.is_transient() || error.reason() == Some(ErrorReason::Cancelled) {
        return None;
    }
    match error.retry_after() {
        Some(requested_delay) if requested_delay > ASKED_PAUSE_MAX => None,
        Some(requested_timeout) => Some(crate::web::add_jitter(requested_timeout)),
        None => {
            let pause = RETRY_PAUSE * 2_u32.saturating_pow(attempt - 1).min(32);
            Some(pause.mul_f64(0.5 + fastrand::f64()))
        }
    }
}

async fn run_once(
    plan: &dyn AnyPlan,
    cx: &CallContext,
    caller: &CancellationToken,
    stop: &CancellationToken,
    deadline: Instant,
    terms: ExecutionLimits,
) -> Result<ToolResult, ToolError> {
    let work = AssertUnwindSafe(async { plan.run(cx.clone()).await }).catch_unwind();
    let mut work = std::pin::pin!(work);
    let verdict = tokio::select! {
        biased;
        done = &mut work => return done.unwrap_or_else(|panic| Err(panic_error(cx.secrets(), &*panic))),
        () = caller.cancelled() => ToolError::cancelled(),
        () = tokio::time::sleep_until(deadline) => timeout_error(terms.deadline),
    };
    // The tool is notified and gets a moment to finish: a write that could no longer be undone is
    // reported as a success.
    stop.cancel();
    match tokio::time::timeout(terms.stop_grace, work).await {
        Ok(Ok(Ok(result))) => Ok(result),
        Ok(Err(panic)) => Err(panic_error(cx.secrets(), &*panic)),
        Ok(Ok(Err(last_words))) => Err(merge_details(verdict, last_words)),
        Err(_) => Err(verdict),
    }
}

/// An error with the details that the tool returned when it was stopped, such as its output so far.
/// If the tool reports a timeout too, its advice is more specific and replaces the general one.
fn merge_details(mut verdict: ToolError, last_words: ToolError) -> ToolError {
    if last_words.error_type == ErrorType::Timeout && verdict.error_type == ErrorType::Timeout {
        verdict.message = match last_words.message.strip_prefix("timed out; ") {
            Some(advice) => {
                let what = verdict.message.split("; ").next().unwrap_or_default();
                format!("{what}; {advice}")
            }
            None => last_words.message,
        };
    }
    for (key, value) in last_words.details {
        verdict.details.entry(key).or_insert(value);
    }
    verdict
}

/// Calls a tool's own code so that its panics do not crash the host.
pub(crate) fn catch_panics<T>(work: impl FnOnce() -> Result<T, ToolError>) -> Result<T, ToolError> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(panic_error(&SecretMask::default(), &*panic)))
}

fn timeout_error(limit: Duration) -> ToolError {
    let shown = if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    };
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let message = format!("timed out after {shown}; request less at once, or raise the limit");
    ToolError::new(ErrorType::Timeout, ErrorReason::Deadline, message)
        .with_detail("limit_ms", limit_ms)
}

fn panic_error(secrets: &SecretMask, panic: &(dyn Any + Send)) -> ToolError {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    let what = crate::redaction::redact_and_shorten(&secrets.mask_text(&what));
    tracing::error!(panic = %what, "a tool panicked");
    ToolError::failed(ErrorReason::Panic, "the tool stopped because of a bug; please report it")
        .with_detail("panic", what)
}
