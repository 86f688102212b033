//! Counters of what calls did, per tool, in constant memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use zero_core::ErrorType;

/// Tools counted by name; calls of further ones are counted together as `(other)`.
const TOOLS_MAX: usize = 1_000;
/// Buckets of the duration histogram: bucket `n` holds durations below 2ⁿ µs.
const BUCKETS: usize = 36;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// With a result.
    Ok,
    /// With an error of the tool or its input.
    Error,
    /// Policy or a person said no.
    Denied,
    /// The caller stopped it.
    Cancelled,
    /// It ran out of time.
    Timeout,
    /// The tool has a bug.
    Panic,
}

impl Status {
    /// Stable word for audit rows and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::Panic => "panic",
        }
    }

    /// Reads the word back.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Ok, Self::Error, Self::Denied, Self::Cancelled, Self::Timeout, Self::Panic]
            .into_iter()
            .find(|status| status.word() == word)
    }
}

/// One finished call, as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The tool, canonically where it is known.
    pub tool: &'a str,
    /// How it ended.
    pub status: Status,
    /// The kind of its error, if it had one.
    pub error_type: Option<ErrorType>,
    /// How long it took, waiting included.
    pub duration: Duration,
    /// Calls that were waiting when it was admitted.
    pub queue_depth: usize,
}

/// What is known of one tool.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ToolStats {
    /// Calls in all.
    pub calls: u64,
    /// Calls with a result.
    pub ok: u64,
    /// Calls that policy or a person refused.
    pub denied: u64,
    /// Calls the caller stopped.
    pub cancelled: u64,
    /// Calls that ran out of time.
    pub timeouts: u64,
    /// Calls that hit a bug.
    pub panics: u64,
    /// Errors by their kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Most calls that were seen waiting when one of these was admitted.
    pub queue_depth_max: usize,
    /// Time spent, in microseconds.
    pub duration_us_total: u128,
    #[serde(serialize_with = "buckets_as_list")]
    buckets: Buckets,
}

#[derive(Clone, Debug)]
struct Buckets([u64; BUCKETS]);

impl Default for Buckets {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

fn buckets_as_list<S: serde::Serializer>(
    buckets: &Buckets,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let used = buckets.0.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    serializer.collect_seq(&buckets.0[..used])
}

impl ToolStats {
    fn add(&mut self, sample: &Sample<'_>) {
        self.calls += 1;
        match sample.status {
            Status::Ok => self.ok += 1,
            Status::Error => {}
            Status::Denied => self.denied += 1,
            Status::Cancelled => self.cancelled += 1,
            Status::Timeout => self.timeouts += 1,
            Status::Panic => self.panics += 1,
        }
        if let Some(error_type) = sample.error_type {
            *self.errors.entry(error_type.word()).or_default() += 1;
        }
        self.queue_depth_max = self.queue_depth_max.max(sample.queue_depth);
        let micros = sample.duration.as_micros();
        self.duration_us_total += micros;
        let bucket = (u128::BITS - micros.leading_zeros()) as usize;
        self.buckets.0[bucket.min(BUCKETS - 1)] += 1;
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

    /// The duration below which a share of the calls stayed, to the next power of two.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.calls as f64 * share).ceil() as u64;
        let mut counted = 0;
        for (bucket, count) in self.buckets.0.iter().enumerate() {
            counted += count;
            if counted >= wanted.max(1) {
                return Duration::from_micros(1 << bucket);
            }
        }
        Duration::ZERO
    }
}

/// Counters of a host.
#[derive(Debug, Default)]
pub struct Metrics {
    tools: Mutex<BTreeMap<String, ToolStats>>,
}

impl Metrics {
    /// Counts a finished call.
    pub fn count(&self, sample: &Sample<'_>) {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stats) = tools.get_mut(sample.tool) {
            return stats.add(sample);
        }
        let name = if tools.len() < TOOLS_MAX { sample.tool } else { "(other)" };
        tools.entry(name.to_owned()).or_default().add(sample);
    }

    /// What is known of each tool, by name.
    pub fn tools(&self) -> BTreeMap<String, ToolStats> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_how_they_ended() {
        let metrics = Metrics::default();
        for (status, error_type, micros) in [
            (Status::Ok, None, 3),
            (Status::Ok, None, 900),
            (Status::Timeout, Some(ErrorType::Timeout), 30_000_000),
            (Status::Denied, Some(ErrorType::PermissionDenied), 1),
        ] {
            let duration = Duration::from_micros(micros);
            metrics.count(&Sample { tool: "Read", status, error_type, duration, queue_depth: 2 });
        }
        let stats = &metrics.tools()["Read"];
        assert_eq!((stats.calls, stats.ok, stats.timeouts, stats.denied), (4, 2, 1, 1));
        assert_eq!(stats.success_rate(), 0.5);
        assert_eq!(stats.errors["timeout"], 1);
        assert_eq!(stats.quantile(0.5), Duration::from_micros(4));
        assert_eq!(stats.quantile(0.75), Duration::from_micros(1024));
        assert!(stats.quantile(1.0) >= Duration::from_secs(30));
        assert_eq!(stats.queue_depth_max, 2);
    }

    #[test]
    fn strange_names_do_not_grow_without_bound() {
        let metrics = Metrics::default();
        for n in 0..TOOLS_MAX + 50 {
            let tool = format!("t{n}");
            let duration = Duration::ZERO;
            metrics.count(&Sample {
                tool: &tool,
                status: Status::Ok,
                error_type: None,
                duration,
                queue_depth: 0,
            });
        }
        let tools = metrics.tools();
        assert_eq!((tools.len(), tools["(other)"].calls), (TOOLS_MAX + 1, 50));
    }
}
