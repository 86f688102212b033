//! Counters of calls per tool, in constant memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use zero_core::{ErrorReason, ErrorType, ToolError};

/// Most tools with their own counters; further ones are counted together as `(other)`.
const TOOLS_MAX: usize = 1_000;
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
    /// How it ended.
    pub status: CallStatus,
    /// The type of its error, if it had one.
    pub error_type: Option<ErrorType>,
    /// Duration, including waiting time.
    pub duration: Duration,
    /// Calls that were waiting when it was admitted.
    pub queue_depth: usize,
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
    /// Most calls that were waiting when one of these was admitted.
    pub queue_depth_max: usize,
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
        if let Some(error_type) = sample.error_type {
            *self.errors.entry(error_type.as_str()).or_default() += 1;
        }
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
        let wanted = ((self.calls as f64 * share).ceil() as u64).max(1);
        let mut before = 0;
        for (bucket, count) in self.buckets.0.iter().enumerate() {
            if before + count >= wanted {
                // The calls of one bucket are assumed to be spread evenly over it.
                let (begin, width) = bucket_bounds(bucket);
                let place = ((wanted - before) as f64 - 0.5) / *count as f64;
                let micros = begin + (width as f64 * place) as u64;
                let seen = micros.clamp(self.duration_us_min, self.duration_us_max);
                return Duration::from_micros(seen);
            }
            before += count;
        }
        Duration::ZERO
    }
}

/// The counters of a host.
#[derive(Debug, Default)]
pub struct CallMetrics {
    tools: Mutex<BTreeMap<String, ToolStats>>,
}

impl CallMetrics {
    /// Counts a finished call.
    pub fn record(&self, sample: &CallSample<'_>) {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stats) = tools.get_mut(sample.tool) {
            return stats.add(sample);
        }
        let name = if tools.len() < TOOLS_MAX { sample.tool } else { "(other)" };
        tools.entry(name.to_owned()).or_default().add(sample);
    }

    /// The counters of each tool, by name.
    pub fn tools(&self) -> BTreeMap<String, ToolStats> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_status() {
        let metrics = CallMetrics::default();
        for (status, error_type, micros) in [
            (CallStatus::Ok, None, 3),
            (CallStatus::Ok, None, 900),
            (CallStatus::Timeout, Some(ErrorType::Timeout), 30_000_000),
            (CallStatus::Denied, Some(ErrorType::PermissionDenied), 1),
        ] {
            let duration = Duration::from_micros(micros);
            metrics.record(&CallSample {
                tool: "Read",
                status,
                error_type,
                duration,
                queue_depth: 2,
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
            let duration = Duration::from_micros(*micros);
            let (status, error_type, queue_depth) = (CallStatus::Ok, None, 0);
            metrics.record(&CallSample { tool: "t", status, error_type, duration, queue_depth });
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
            let duration = Duration::from_micros(micros);
            let (status, error_type, queue_depth) = (CallStatus::Ok, None, 0);
            metrics.record(&CallSample { tool: "t", status, error_type, duration, queue_depth });
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
            let duration = Duration::ZERO;
            metrics.record(&CallSample {
                tool: &tool,
                status: CallStatus::Ok,
                error_type: None,
                duration,
                queue_depth: 0,
            });
        }
        let tools = metrics.tools();
        assert_eq!((tools.len(), tools["(other)"].calls), (TOOLS_MAX + 1, 50));
    }
}
