//! Counters of calls per tool and per session, in constant memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use zero_core::{CallUsage, ErrorReason, ErrorSeverity, ErrorType, ToolError};

/// Most tools with their own counters; further ones are counted together as `(other)`.
const TOOLS_MAX: usize = 1_000;
/// Most sessions with their own counters; further ones are counted together as `(other)`.
const SESSIONS_MAX: usize = 1_000;
/// Most tools with their own counter in a session; further ones are counted as `(other)`.
const SESSION_TOOLS_MAX: usize = 50;
/// Most pairs of session and tool whose last call failed that are remembered. Failures beyond that
/// count as not recovered.
const FAILING_MAX: usize = 10_000;
/// Name under which those beyond a maximum are counted.
const OTHER: &str = "(other)";
/// Buckets per power of two of the duration histogram, so a bucket is at most an eighth as wide as
/// the durations in it.
const SUB_BUCKETS: usize = 1 << SUB_BITS;
const SUB_BITS: u32 = 3;
/// Buckets of the duration histogram; the last one also holds longer durations (19 hours).
const BUCKETS: usize = 272;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// With a result.
    Ok,
    /// With an error of the tool or its input.
    Error,
    /// Denied by policy or the user.
    Denied,
    /// Cancelled by the caller.
    Cancelled,
    /// Timed out.
    Timeout,
    /// The tool panicked.
    Panic,
}

impl CallStatus {
    /// Stable word for audit rows and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::Panic => "panic",
        }
    }

    /// The status of a call with this error.
    pub(crate) fn from_error(error: &ToolError) -> Self {
        match (error.error_type, error.reason()) {
            (ErrorType::Timeout, _) => Self::Timeout,
            (_, Some(ErrorReason::Cancelled)) => Self::Cancelled,
            (_, Some(ErrorReason::Panic)) => Self::Panic,
            (ErrorType::PermissionDenied, Some(reason)) if reason.is_denial() => Self::Denied,
            _ => Self::Error,
        }
    }

    /// Parses the word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Ok, Self::Error, Self::Denied, Self::Cancelled, Self::Timeout, Self::Panic]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// One finished call.
#[derive(Clone, Copy, Debug)]
pub struct CallSample<'a> {
    /// The tool's canonical name, if known.
    pub tool: &'a str,
    /// The session, if there was one.
    pub session: Option<&'a str>,
    /// How it ended.
    pub status: CallStatus,
    /// The type and reason of its error, if it had one.
    pub error: Option<(ErrorType, Option<ErrorReason>)>,
    /// Duration, including the time in the queue, without the time in which the user was asked.
    pub duration: Duration,
    /// How long it waited for the user.
    pub user_wait: Duration,
    /// Calls that were waiting when it was admitted.
    pub queue_depth: usize,
    /// Number of attempts, the first one included.
    pub attempts: u32,
    /// Whether something else was used because the first choice failed.
    pub fell_back: bool,
    /// The resources that its commands used.
    pub usage: CallUsage,
}

impl<'a> CallSample<'a> {
    /// A call without session, error, commands and further attempts.
    pub fn new(tool: &'a str, status: CallStatus, duration: Duration) -> Self {
        Self {
            tool,
            session: None,
            status,
            error: None,
            duration,
            user_wait: Duration::ZERO,
            queue_depth: 0,
            attempts: 1,
            fell_back: false,
            usage: CallUsage::default(),
        }
    }

    /// Whether zero itself found a way after a failure.
    fn is_rescued(&self) -> bool {
        self.status == CallStatus::Ok && (self.attempts > 1 || self.fell_back)
    }

    /// Whether it failed by itself, without being denied or cancelled.
    fn is_failure(&self) -> bool {
        matches!(self.status, CallStatus::Error | CallStatus::Timeout | CallStatus::Panic)
    }
}

/// The counters of one tool.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ToolStats {
    /// Calls that ended, whatever their status.
    pub calls: u64,
    /// Calls with a result.
    pub ok: u64,
    /// Calls that policy or the user denied.
    pub denied: u64,
    /// Calls that the caller cancelled.
    pub cancelled: u64,
    /// Calls that timed out.
    pub timeouts: u64,
    /// Calls that panicked.
    pub panics: u64,
    /// Errors by type.
    pub errors: BTreeMap<&'static str, u64>,
    /// Errors by severity: `low`, `medium`, `high`, `critical`.
    pub severities: BTreeMap<&'static str, u64>,
    /// Errors that no other input would have avoided: those of severity `high` and `critical`.
    pub user_errors: u64,
    /// Failures: calls that ended with an error, a timeout or a panic, and calls that succeeded only
    /// at a further attempt or with another tool.
    pub failures: u64,
    /// Failures after which zero itself found a way, or after which the tool succeeded in the same
    /// session.
    pub recovered: u64,
    /// Attempts after the first one.
    pub retries: u64,
    /// Calls in which something else was used because the first choice failed.
    pub fallbacks: u64,
    /// Most calls that were waiting when one of these was admitted.
    pub queue_depth_max: usize,
    /// Total time in which calls waited for the user, in microseconds; not part of their duration.
    pub user_wait_us_total: u128,
    /// Resources that their commands used.
    pub usage: CallUsage,
    /// Total duration, in microseconds.
    pub duration_us_total: u128,
    /// The fastest call, in microseconds.
    pub duration_us_min: u64,
    /// The slowest call, in microseconds.
    pub duration_us_max: u64,
    #[serde(skip)]
    buckets: DurationBuckets,
}

/// Number of calls per duration.
#[derive(Clone, Debug)]
struct DurationBuckets([u64; BUCKETS]);

impl Default for DurationBuckets {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

/// The bucket of a duration: exact for the first few microseconds, then eight per power of two.
fn bucket_index(micros: u64) -> usize {
    if micros < SUB_BUCKETS as u64 {
        return micros as usize;
    }
    let shift = micros.ilog2() - SUB_BITS;
    let bucket = shift as usize * SUB_BUCKETS + (micros >> shift) as usize;
    bucket.min(BUCKETS - 1)
}

/// The start and width of a bucket.
fn bucket_bounds(bucket: usize) -> (u64, u64) {
    if bucket < SUB_BUCKETS {
        return (bucket as u64, 1);
    }
    let shift = bucket / SUB_BUCKETS - 1;
    ((((bucket % SUB_BUCKETS) + SUB_BUCKETS) as u64) << shift, 1 << shift)
}

impl ToolStats {
    fn add(&mut self, sample: &CallSample<'_>) {
        self.calls += 1;
        match sample.status {
            CallStatus::Ok => self.ok += 1,
            CallStatus::Error => {}
            CallStatus::Denied => self.denied += 1,
            CallStatus::Cancelled => self.cancelled += 1,
            CallStatus::Timeout => self.timeouts += 1,
            CallStatus::Panic => self.panics += 1,
        }
        if let Some((error_type, reason)) = sample.error {
            *self.errors.entry(error_type.as_str()).or_default() += 1;
            let severity = ErrorSeverity::of(error_type, reason);
            *self.severities.entry(severity.as_str()).or_default() += 1;
            self.user_errors += u64::from(severity.affects_user());
        }
        self.failures += u64::from(sample.is_failure() || sample.is_rescued());
        self.recovered += u64::from(sample.is_rescued());
        self.retries += u64::from(sample.attempts.saturating_sub(1));
        self.fallbacks += u64::from(sample.fell_back);
        self.user_wait_us_total += sample.user_wait.as_micros();
        self.usage.add(&sample.usage);
        self.queue_depth_max = self.queue_depth_max.max(sample.queue_depth);
        let micros = u64::try_from(sample.duration.as_micros()).unwrap_or(u64::MAX);
        self.duration_us_total += u128::from(micros);
        let first = self.calls == 1;
        self.duration_us_min = if first { micros } else { self.duration_us_min.min(micros) };
        self.duration_us_max = self.duration_us_max.max(micros);
        self.buckets.0[bucket_index(micros)] += 1;
    }

    /// Share of calls with a result, from 0 to 1.
    pub fn success_rate(&self) -> f64 {
        if self.calls == 0 { 1.0 } else { self.ok as f64 / self.calls as f64 }
    }

    /// Share of failures that were recovered, from 0 to 1; `None` without failures.
    pub fn recovery_rate(&self) -> Option<f64> {
        (self.failures > 0).then(|| self.recovered as f64 / self.failures as f64)
    }

    /// Average duration.
    pub fn mean(&self) -> Duration {
        let mean = self.duration_us_total / u128::from(self.calls.max(1));
        Duration::from_micros(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// Calls that took at most `limit`; buckets that extend beyond it are not counted.
    pub fn count_within(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        let whole = |bucket: usize| {
            let (begin, width) = bucket_bounds(bucket);
            begin.saturating_add(width - 1) <= limit
        };
        let counted = self.buckets.0.iter().enumerate().filter(|(bucket, _)| whole(*bucket));
        counted.map(|(_, count)| count).sum()
    }

    /// The duration that a share of the calls did not exceed: off by at most an eighth, and exact
    /// if all took equally long.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = ((self.calls as f64 * share).ceil() as u64).max(1);
        let mut before = 0;
        for (bucket, count) in self.buckets.0.iter().enumerate() {
            if before + count >= rank {
                // The calls of one bucket are assumed to be spread evenly over it.
                let (begin, width) = bucket_bounds(bucket);
                let place = ((rank - before) as f64 - 0.5) / *count as f64;
                let micros = begin + (width as f64 * place) as u64;
                let seen = micros.clamp(self.duration_us_min, self.duration_us_max);
                return Duration::from_micros(seen);
            }
            before += count;
        }
        Duration::ZERO
    }
}

/// The calls of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionCallStats {
    /// Calls that ended, whatever their status.
    pub calls: u64,
    /// Calls with a result.
    pub ok: u64,
    /// Calls by tool.
    pub tools: BTreeMap<String, u64>,
}

impl SessionCallStats {
    fn add(&mut self, sample: &CallSample<'_>) {
        self.calls += 1;
        self.ok += u64::from(sample.status == CallStatus::Ok);
        let is_known = self.tools.contains_key(sample.tool);
        let own = is_known || self.tools.len() < SESSION_TOOLS_MAX;
        *self.tools.entry(if own { sample.tool } else { OTHER }.to_owned()).or_default() += 1;
    }
}

/// The counters of a host.
#[derive(Debug, Default)]
pub struct CallMetrics {
    tools: Mutex<BTreeMap<String, ToolStats>>,
    sessions: Mutex<BTreeMap<String, SessionCallStats>>,
    failing: Mutex<FailingTools>,
}

/// Failures after which the tool has not succeeded yet, by session and tool.
#[derive(Debug, Default)]
struct FailingTools(HashMap<(String, String), u64>);

impl FailingTools {
    /// Takes a call into account. Returns the number of earlier failures that it recovers.
    fn update(&mut self, sample: &CallSample<'_>) -> u64 {
        let Some(session) = sample.session else { return 0 };
        if sample.status == CallStatus::Ok {
            // Most calls find nothing to forget, and must not copy their names for it.
            if self.0.is_empty() {
                return 0;
            }
            return self.0.remove(&(session.to_owned(), sample.tool.to_owned())).unwrap_or(0);
        }
        if sample.is_failure() {
            let key = (session.to_owned(), sample.tool.to_owned());
            let has_room = self.0.len() < FAILING_MAX;
            match self.0.get_mut(&key) {
                Some(count) => *count += 1,
                None if has_room => drop(self.0.insert(key, 1)),
                None => {}
            }
        }
        0
    }
}

impl CallMetrics {
    /// Counts a finished call.
    pub fn record(&self, sample: &CallSample<'_>) {
        let recovered = self.failing.lock().unwrap_or_else(PoisonError::into_inner).update(sample);
        if let Some(session) = sample.session {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let is_own = sessions.contains_key(session) || sessions.len() < SESSIONS_MAX;
            sessions
                .entry(if is_own { session } else { OTHER }.to_owned())
                .or_default()
                .add(sample);
        }
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = tools.contains_key(sample.tool) || tools.len() < TOOLS_MAX;
        let stats = tools.entry(if is_own { sample.tool } else { OTHER }.to_owned()).or_default();
        stats.add(sample);
        stats.recovered += recovered;
    }

    /// The calls of each session, by its id.
    pub fn sessions(&self) -> BTreeMap<String, SessionCallStats> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The counters of each tool, by name.
    pub fn tools(&self) -> BTreeMap<String, ToolStats> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok_call(tool: &str, micros: u64) -> CallSample<'_> {
        CallSample::new(tool, CallStatus::Ok, Duration::from_micros(micros))
    }

    fn failed_call(tool: &str, error: (ErrorType, Option<ErrorReason>)) -> CallSample<'_> {
        let sample = CallSample::new(tool, CallStatus::Error, Duration::ZERO);
        CallSample { error: Some(error), ..sample }
    }

    #[test]
    fn failures_are_recovered_by_retry_fallback_or_later_success() {
        let metrics = CallMetrics::default();
        let failed = (ErrorType::ExecutionFailed, None);
        let in_session = |session, sample| metrics.record(&CallSample { session, ..sample });
        // Two failures, of which a success of the same tool in the same session makes up.
        in_session(Some("a"), failed_call("Edit", failed));
        in_session(Some("a"), failed_call("Edit", failed));
        in_session(Some("a"), ok_call("Edit", 1));
        // A success elsewhere, or of another tool, recovers nothing; nor does one without session.
        in_session(Some("b"), failed_call("Edit", failed));
        in_session(Some("a"), ok_call("Edit", 1));
        in_session(Some("b"), ok_call("Read", 1));
        in_session(None, failed_call("Read", failed));
        in_session(None, ok_call("Read", 1));
        metrics.record(&CallSample { attempts: 3, ..ok_call("WebFetch", 1) });
        metrics.record(&CallSample { fell_back: true, ..ok_call("WebFetch", 1) });
        let tools = metrics.tools();
        let counts = |tool: &str| (tools[tool].failures, tools[tool].recovered);
        assert_eq!([counts("Edit"), counts("Read"), counts("WebFetch")], [(3, 2), (1, 0), (2, 2)]);
        assert_eq!((tools["WebFetch"].retries, tools["WebFetch"].fallbacks), (2, 1));
        assert_eq!(tools["WebFetch"].recovery_rate(), Some(1.0));
    }

    #[test]
    fn denied_and_cancelled_calls_are_not_failures() {
        let metrics = CallMetrics::default();
        for (status, error) in [
            (CallStatus::Denied, (ErrorType::PermissionDenied, Some(ErrorReason::Denied))),
            (CallStatus::Cancelled, (ErrorType::ExecutionFailed, Some(ErrorReason::Cancelled))),
        ] {
            metrics.record(&CallSample { status, ..failed_call("Bash", error) });
        }
        let stats = &metrics.tools()["Bash"];
        assert_eq!((stats.failures, stats.recovery_rate(), stats.user_errors), (0, None, 0));
        assert_eq!(stats.severities, BTreeMap::from([("low", 1), ("medium", 1)]));
    }

    #[test]
    fn resources_and_waits_are_summed_and_peaks_kept() {
        let metrics = CallMetrics::default();
        for (memory_bytes, cpu_us) in [(10, 5), (30, 7), (20, 1)] {
            let (read_bytes, written_bytes) = (512, 1024);
            let usage = CallUsage { commands: 1, cpu_us, memory_bytes, read_bytes, written_bytes };
            let user_wait = Duration::from_micros(4);
            metrics.record(&CallSample { usage, user_wait, ..ok_call("Bash", 100) });
        }
        let stats = &metrics.tools()["Bash"];
        let expected = CallUsage {
            commands: 3,
            cpu_us: 13,
            memory_bytes: 30,
            read_bytes: 1536,
            written_bytes: 3072,
        };
        assert_eq!((stats.usage, stats.user_wait_us_total), (expected, 12));
        assert_eq!(stats.duration_us_total, 300, "waits are not part of durations");
    }

    #[test]
    fn sessions_count_their_tools_within_bounds() {
        let metrics = CallMetrics::default();
        for n in 0..SESSION_TOOLS_MAX + 5 {
            let tool = format!("t{n}");
            metrics.record(&CallSample { session: Some("s"), ..ok_call(&tool, 0) });
        }
        for n in 0..SESSIONS_MAX + 5 {
            let session = format!("x{n}");
            let error = (ErrorType::NotFound, None);
            let session = Some(session.as_str());
            metrics.record(&CallSample { session, ..failed_call("Read", error) });
        }
        let sessions = metrics.sessions();
        assert_eq!(sessions["s"].tools.len(), SESSION_TOOLS_MAX + 1);
        assert_eq!((sessions["s"].tools[OTHER], sessions["s"].ok), (5, 55));
        assert_eq!((sessions.len(), sessions[OTHER].calls, sessions[OTHER].ok), (1_001, 6, 0));
    }

    #[test]
    fn calls_are_counted_by_status() {
        let metrics = CallMetrics::default();
        for (status, error_type, micros) in [
            (CallStatus::Ok, None, 3),
            (CallStatus::Ok, None, 900),
            (CallStatus::Timeout, Some(ErrorType::Timeout), 30_000_000),
            (CallStatus::Denied, Some(ErrorType::PermissionDenied), 1),
        ] {
            metrics.record(&CallSample {
                error: error_type.map(|error_type| (error_type, None)),
                queue_depth: 2,
                ..CallSample::new("Read", status, Duration::from_micros(micros))
            });
        }
        let stats = &metrics.tools()["Read"];
        assert_eq!((stats.calls, stats.ok, stats.timeouts, stats.denied), (4, 2, 1, 1));
        assert_eq!(stats.success_rate(), 0.5);
        assert_eq!(stats.errors["timeout"], 1);
        assert_eq!((stats.duration_us_min, stats.duration_us_max), (1, 30_000_000));
        assert_eq!(stats.queue_depth_max, 2);
    }

    /// Checks a quantile of calls with these durations, within a tolerance.
    #[track_caller]
    fn check_quantile(micros: &[u64], share: f64, expected: u64, tolerance: u64) {
        let metrics = CallMetrics::default();
        for micros in micros {
            metrics.record(&ok_call("t", *micros));
        }
        let measured = metrics.tools()["t"].quantile(share).as_micros() as u64;
        assert!(measured.abs_diff(expected) <= tolerance, "{measured} is not near {expected}");
    }

    #[test]
    fn quantiles_are_close_to_exact() {
        check_quantile(&[185], 0.5, 185, 0);
        check_quantile(&[185], 0.95, 185, 0);
        check_quantile(&[0], 0.5, 0, 0);
        check_quantile(&[1, 3, 900, 30_000_000], 0.5, 3, 0);
        check_quantile(&[1, 3, 900, 30_000_000], 0.75, 900, 112);
        check_quantile(&[1, 3, 900, 30_000_000], 1.0, 30_000_000, 3_750_000);
        check_quantile(&(1..=10_000).collect::<Vec<_>>(), 0.5, 5_000, 100);
        check_quantile(&(1..=10_000).collect::<Vec<_>>(), 0.95, 9_500, 100);
        check_quantile(&[u64::MAX], 0.5, u64::MAX, 0);
    }

    #[test]
    fn calls_within_a_limit_are_counted_by_whole_buckets() {
        let metrics = CallMetrics::default();
        for micros in [3, 900, 30_000_000] {
            metrics.record(&ok_call("t", micros));
        }
        let stats = &metrics.tools()["t"];
        let within = |micros| stats.count_within(Duration::from_micros(micros));
        assert_eq!([within(2), within(3), within(1_000), within(40_000_000)], [0, 1, 2, 3]);
    }

    #[test]
    fn buckets_are_contiguous() {
        for bucket in 0..BUCKETS - 1 {
            let (begin, width) = bucket_bounds(bucket);
            assert_eq!((bucket_index(begin), bucket_index(begin + width - 1)), (bucket, bucket));
            assert_eq!(bucket_bounds(bucket + 1).0, begin + width);
        }
        assert_eq!(bucket_index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn unknown_tool_names_do_not_grow_unbounded() {
        let metrics = CallMetrics::default();
        for n in 0..TOOLS_MAX + 50 {
            let tool = format!("t{n}");
            metrics.record(&ok_call(&tool, 0));
        }
        let tools = metrics.tools();
        assert_eq!((tools.len(), tools["(other)"].calls), (TOOLS_MAX + 1, 50));
    }
}
