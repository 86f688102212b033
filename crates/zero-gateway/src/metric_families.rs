//! Metrics of tools, sessions and connections, independent of the export format.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zero_core::text_shortening::head_chars;
use zero_core::{CallUsage, ErrorSeverity};
use zero_runtime::metrics::{CallStatus, SessionCallStats, ToolStats};
use zero_session::node_bus::{NodeBusState, NodeBusStatus};
use zero_session::sessions::SessionStats;

use crate::gateway_inner::GatewayInner;

/// Maximum number of tools reported by name; the rest is reported together.
const TOOLS_MAX: usize = 200;
/// Maximum number of sessions reported by id; the rest is reported together.
const SESSIONS_MAX: usize = 100;
/// Label for the remaining tools and sessions.
const OTHER: &str = "(other)";
/// Maximum length of a tool's name, in characters.
const NAME_LEN_MAX: usize = 100;
/// Upper bounds of the duration buckets, in milliseconds.
const BOUNDS_MS: [u64; 11] = [1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 300_000];
const STATUSES: [CallStatus; 6] = [
    CallStatus::Ok,
    CallStatus::Error,
    CallStatus::Denied,
    CallStatus::Cancelled,
    CallStatus::Timeout,
    CallStatus::Panic,
];

/// Source of the metrics of the tools on this machine.
pub trait MetricsSource: Send + Sync {
    /// Statistics of each tool, by name.
    fn tools(&self) -> BTreeMap<String, ToolStats>;

    /// Calls of each session, by its id.
    fn sessions(&self) -> BTreeMap<String, SessionCallStats>;

    /// Calls that are waiting for admission.
    fn queue_depth(&self) -> u64;

    /// Calls that are running.
    fn in_flight(&self) -> u64;
}

/// All values of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Name of the metric, without labels.
    pub name: &'static str,
    /// Help text of the metric.
    pub help: &'static str,
    /// Type of the metric.
    pub kind: MetricKind,
    /// The values, each with its own labels.
    pub points: Vec<MetricPoint>,
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only increases, from the start of the process.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Counts in buckets that only increase.
    Histogram,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricPoint {
    /// Labels that distinguish it from other values of the metric.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: MetricValue,
}

/// What a sample contains, depending on the type of its family.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// An integer count.
    Count(u64),
    /// A fractional amount.
    Amount(f64),
    /// A distribution of durations.
    Histogram(MetricHistogram),
}

/// Distribution of durations, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricHistogram {
    /// Upper bounds with the number of observations at or below each.
    pub within: Vec<(f64, u64)>,
    /// Sum of all observations, in seconds.
    pub sum: f64,
    /// Number of observations.
    pub count: u64,
}

/// Input from which the metrics are computed.
pub(crate) struct MetricInputs<'a> {
    pub(crate) tools: &'a dyn MetricsSource,
    pub(crate) sessions: SessionStats,
    pub(crate) connections: u64,
    pub(crate) uptime: Duration,
}

impl GatewayInner {
    pub(crate) fn collect_metrics(&self) -> Vec<MetricFamily> {
        build_families(&MetricInputs {
            tools: self.tool_metrics.as_ref(),
            sessions: self.sessions.stats(),
            connections: self.connections.load(Ordering::Relaxed),
            uptime: self.started.elapsed(),
        })
    }
}

/// What connects a gateway with the others of its cluster.
fn bus_families(bus: &NodeBusStatus) -> Vec<MetricFamily> {
    use MetricKind::{Counter, Gauge};
    let one = |name, kind, help, value| MetricFamily {
        name,
        help,
        kind,
        points: vec![MetricPoint { labels: Vec::new(), value }],
    };
    let counted = |name, help, count| one(name, Counter, help, MetricValue::Count(count));
    let is_connected = u64::from(bus.state == NodeBusState::Connected);
    let counts = &bus.counts;
    let mut families = vec![
        one(
            "zero_bus_connected",
            Gauge,
            "Whether other gateways can be reached.",
            MetricValue::Count(is_connected),
        ),
        counted("zero_bus_rings_sent_total", "Announcements of new entries.", counts.rings_sent),
        counted(
            "zero_bus_rings_received_total",
            "Announcements of new entries by others.",
            counts.rings_received,
        ),
        counted(
            "zero_bus_requests_sent_total",
            "Requests to other gateways.",
            counts.requests_sent,
        ),
        counted(
            "zero_bus_requests_served_total",
            "Requests of other gateways that were executed.",
            counts.requests_served,
        ),
        counted(
            "zero_bus_requests_refused_total",
            "Requests of other gateways that were refused, because there were too many.",
            counts.requests_refused,
        ),
        counted(
            "zero_bus_messages_ignored_total",
            "Messages that were malformed, forged, repeated, late or of another cluster.",
            counts.messages_ignored,
        ),
        counted(
            "zero_bus_connections_lost_total",
            "How often the connection to the bus was lost.",
            counts.connections_lost,
        ),
    ];
    if let Some(round_trip) = bus.round_trip {
        families.push(one(
            "zero_bus_round_trip_seconds",
            Gauge,
            "How long a message last took to the bus and back.",
            MetricValue::Amount(round_trip.as_secs_f64()),
        ));
    }
    families
}

pub(crate) fn build_families(facts: &MetricInputs<'_>) -> Vec<MetricFamily> {
    use MetricKind::{Counter, Gauge};
    let one = |name, kind, help, value| MetricFamily {
        name,
        help,
        kind,
        points: vec![MetricPoint { labels: Vec::new(), value }],
    };
    let count = |name, kind, help, count| one(name, kind, help, MetricValue::Count(count));
    let stats = &facts.sessions;
    let tokens = [("input", stats.input_tokens), ("output", stats.output_tokens)];
    let tokens = tokens.map(|(direction, count)| MetricPoint {
        labels: vec![("direction", direction.to_owned())],
        value: MetricValue::Count(count),
    });
    let uptime = MetricValue::Amount(facts.uptime.as_secs_f64());
    let mut families = tool_families(&tool_counters(facts.tools.tools()));
    families.extend([
        session_family(facts.tools.sessions()),
        count(
            "zero_tool_queue_depth",
            Gauge,
            "Tool calls waiting for admission.",
            facts.tools.queue_depth(),
        ),
        count("zero_tool_in_flight", Gauge, "Running tool calls.", facts.tools.in_flight()),
        count(
            "zero_sessions_active",
            Gauge,
            "Sessions with state in memory.",
            stats.active_sessions,
        ),
        count("zero_runs_running", Gauge, "Active runs.", stats.running),
        count("zero_runs_queued", Gauge, "Queued prompts.", stats.queued),
        count(
            "zero_runs_unrecorded",
            Gauge,
            "Ended runs whose end could not be recorded yet.",
            stats.unrecorded,
        ),
        count("zero_runs_ended_total", Counter, "Runs that ended, with any outcome.", stats.ended),
        count("zero_runs_failed_total", Counter, "Runs that failed.", stats.failed),
        MetricFamily {
            name: "zero_tokens_total",
            help: "Input and output tokens of models.",
            kind: Counter,
            points: tokens.into(),
        },
        count(
            "zero_model_retries_total",
            Counter,
            "Requests to models that were repeated after a temporary failure.",
            stats.model_retries,
        ),
        count("zero_connections", Gauge, "Client connections.", facts.connections),
        one("zero_gateway_uptime_seconds", Gauge, "Uptime of the gateway.", uptime),
    ]);
    if let Some(cluster) = &stats.cluster {
        families.extend([
            count(
                "zero_cluster_lease",
                Gauge,
                "Whether the gateway has a lease in the shared database.",
                u64::from(cluster.has_lease),
            ),
            count(
                "zero_cluster_takeovers_total",
                Counter,
                "Runs of other gateways that were continued here.",
                cluster.takeovers,
            ),
            count(
                "zero_cluster_fenced_total",
                Counter,
                "Runs whose end was refused, since another gateway had continued them.",
                cluster.fenced,
            ),
            count(
                "zero_cluster_claims_total",
                Counter,
                "Sessions that this gateway claimed, once for each claim.",
                cluster.claims,
            ),
            count(
                "zero_store_connections",
                Gauge,
                "Open connections to the shared database.",
                cluster.connections.open,
            ),
            count(
                "zero_store_connections_used",
                Gauge,
                "Connections to the shared database that are in use.",
                cluster.connections.used,
            ),
            count(
                "zero_store_connections_max",
                Gauge,
                "Most connections to the shared database.",
                cluster.connections.most,
            ),
            count(
                "zero_store_connection_waits",
                Gauge,
                "Operations that wait for a connection to the shared database.",
                cluster.connections.waiting,
            ),
        ]);
        families.extend(cluster.bus.as_ref().map(bus_families).into_iter().flatten());
    }
    families
}

/// The calls of sessions. A session keeps its label once it has one, so that no count falls.
fn session_family(sessions: BTreeMap<String, SessionCallStats>) -> MetricFamily {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (session, stats) in sessions {
        let is_own = counts.len() < SESSIONS_MAX && session != OTHER;
        *counts.entry(if is_own { session } else { OTHER.to_owned() }).or_default() += stats.calls;
    }
    let points = counts.into_iter().map(|(session, count)| MetricPoint {
        labels: vec![("session", session)],
        value: MetricValue::Count(count),
    });
    MetricFamily {
        name: "zero_session_tool_calls_total",
        help: "Tool calls of each session.",
        kind: MetricKind::Counter,
        points: points.collect(),
    }
}

fn tool_families(rows: &BTreeMap<String, ToolCounters>) -> Vec<MetricFamily> {
    let point = |tool: &String, more: Option<(&'static str, &str)>, value: MetricValue| {
        let more = more.map(|(label, text)| (label, text.to_owned()));
        MetricPoint { labels: [("tool", tool.clone())].into_iter().chain(more).collect(), value }
    };
    let executions = rows.iter().flat_map(|(tool, row)| {
        let counted = STATUSES.iter().zip(row.by_status);
        counted.map(move |(status, count)| {
            point(tool, Some(("status", status.as_str())), MetricValue::Count(count))
        })
    });
    let durations = rows
        .iter()
        .map(|(tool, row)| point(tool, None, MetricValue::Histogram(row.to_histogram())));
    let errors = rows.iter().flat_map(|(tool, row)| {
        let counted = row.errors.iter();
        counted.map(move |(kind, count)| {
            point(tool, Some(("error_type", kind)), MetricValue::Count(*count))
        })
    });
    let timeouts =
        rows.iter().map(|(tool, row)| point(tool, None, MetricValue::Count(row.timeouts)));
    let per_tool = |name, kind, help, value: &dyn Fn(&ToolCounters) -> MetricValue| MetricFamily {
        name,
        help,
        kind,
        points: rows.iter().map(|(tool, row)| point(tool, None, value(row))).collect(),
    };
    let severities = rows.iter().flat_map(|(tool, row)| {
        ErrorSeverity::ALL.iter().map(move |severity| {
            let count = row.severities.get(severity.as_str()).copied().unwrap_or_default();
            point(tool, Some(("severity", severity.as_str())), MetricValue::Count(count))
        })
    });
    let transfers = rows.iter().flat_map(|(tool, row)| {
        let CallUsage { read_bytes, written_bytes, .. } = row.usage;
        [("read", read_bytes), ("write", written_bytes)].map(|(direction, bytes)| {
            point(tool, Some(("direction", direction)), MetricValue::Count(bytes))
        })
    });
    let to_seconds = |micros: u128| MetricValue::Amount(micros as f64 / 1e6);
    vec![
        MetricFamily {
            name: "zero_tool_executions_total",
            help: "Tool calls, by how they ended.",
            kind: MetricKind::Counter,
            points: executions.collect(),
        },
        MetricFamily {
            name: "zero_tool_duration_seconds",
            help: "How long tool calls took, with the time in the queue and without questions to the user.",
            kind: MetricKind::Histogram,
            points: durations.collect(),
        },
        MetricFamily {
            name: "zero_tool_errors_total",
            help: "Errors of tool calls, by their kind.",
            kind: MetricKind::Counter,
            points: errors.collect(),
        },
        MetricFamily {
            name: "zero_tool_timeouts_total",
            help: "Tool calls that ran out of time.",
            kind: MetricKind::Counter,
            points: timeouts.collect(),
        },
        MetricFamily {
            name: "zero_tool_errors_by_severity_total",
            help: "Errors of tool calls, by severity.",
            kind: MetricKind::Counter,
            points: severities.collect(),
        },
        per_tool(
            "zero_tool_user_errors_total",
            MetricKind::Counter,
            "Errors that no other input would have avoided.",
            &|row| MetricValue::Count(row.user_errors),
        ),
        per_tool(
            "zero_tool_failures_total",
            MetricKind::Counter,
            "Failures of tool calls, also those that a further attempt made good.",
            &|row| MetricValue::Count(row.failures),
        ),
        per_tool(
            "zero_tool_recoveries_total",
            MetricKind::Counter,
            "Failures made good by a further attempt, another tool or a later call of the session.",
            &|row| MetricValue::Count(row.recovered),
        ),
        per_tool(
            "zero_tool_retries_total",
            MetricKind::Counter,
            "Attempts after the first one.",
            &|row| MetricValue::Count(row.retries),
        ),
        per_tool(
            "zero_tool_fallbacks_total",
            MetricKind::Counter,
            "Tool calls in which something else was used because the first choice failed.",
            &|row| MetricValue::Count(row.fallbacks),
        ),
        per_tool(
            "zero_tool_user_wait_seconds_total",
            MetricKind::Counter,
            "How long tool calls waited for the user.",
            &|row| to_seconds(row.user_wait_micros),
        ),
        per_tool(
            "zero_tool_cpu_seconds_total",
            MetricKind::Counter,
            "Processor time of the commands of tool calls.",
            &|row| to_seconds(u128::from(row.usage.cpu_us)),
        ),
        per_tool(
            "zero_tool_memory_peak_bytes",
            MetricKind::Gauge,
            "Largest memory use of a command of a tool call.",
            &|row| MetricValue::Count(row.usage.memory_bytes),
        ),
        MetricFamily {
            name: "zero_tool_io_bytes_total",
            help: "Bytes that commands of tool calls read from and wrote to disks.",
            kind: MetricKind::Counter,
            points: transfers.collect(),
        },
    ]
}

/// Counters of one tool.
#[derive(Default)]
struct ToolCounters {
    calls: u64,
    by_status: [u64; STATUSES.len()],
    within: [u64; BOUNDS_MS.len()],
    micros: u128,
    timeouts: u64,
    errors: BTreeMap<&'static str, u64>,
    severities: BTreeMap<&'static str, u64>,
    user_errors: u64,
    failures: u64,
    recovered: u64,
    retries: u64,
    fallbacks: u64,
    user_wait_micros: u128,
    usage: CallUsage,
}

impl ToolCounters {
    fn add(&mut self, stats: &ToolStats) {
        let known = [stats.denied, stats.cancelled, stats.timeouts, stats.panics];
        let error = stats.calls.saturating_sub(stats.ok + known.iter().sum::<u64>());
        let [denied, cancelled, timeouts, panics] = known;
        let by_status = [stats.ok, error, denied, cancelled, timeouts, panics];
        for (sum, count) in self.by_status.iter_mut().zip(by_status) {
            *sum += count;
        }
        for (sum, bound) in self.within.iter_mut().zip(BOUNDS_MS) {
            *sum += stats.count_within(Duration::from_millis(bound));
        }
        for (kind, count) in &stats.errors {
            *self.errors.entry(kind).or_default() += count;
        }
        for (severity, count) in &stats.severities {
            *self.severities.entry(severity).or_default() += count;
        }
        self.user_errors += stats.user_errors;
        self.failures += stats.failures;
        self.recovered += stats.recovered;
        self.retries += stats.retries;
        self.fallbacks += stats.fallbacks;
        self.user_wait_micros += stats.user_wait_us_total;
        self.usage.add(&stats.usage);
        self.calls += stats.calls;
        self.micros += stats.duration_us_total;
        self.timeouts += stats.timeouts;
    }

    fn to_histogram(&self) -> MetricHistogram {
        let bounds = BOUNDS_MS.map(|bound| Duration::from_millis(bound).as_secs_f64());
        MetricHistogram {
            within: bounds.into_iter().zip(self.within).collect(),
            sum: self.micros as f64 / 1e6,
            count: self.calls,
        }
    }
}

/// Counters per tool. If there are too many tools, the least used ones share one entry.
fn tool_counters(tools: BTreeMap<String, ToolStats>) -> BTreeMap<String, ToolCounters> {
    let mut tools: Vec<(String, ToolStats)> = tools.into_iter().collect();
    tools.sort_by_key(|(_, stats)| Reverse(stats.calls));
    let mut rows: BTreeMap<String, ToolCounters> = BTreeMap::new();
    for (index, (name, stats)) in tools.iter().enumerate() {
        let name = if index < TOOLS_MAX { head_chars(name, NAME_LEN_MAX) } else { OTHER };
        rows.entry(name.to_owned()).or_default().add(stats);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use zero_runtime::metrics::{CallMetrics, CallSample};

    fn record_call(metrics: &CallMetrics, tool: &str) {
        metrics.record(&CallSample::new(tool, CallStatus::Ok, Duration::from_millis(1)));
    }

    #[test]
    fn sessions_beyond_maximum_share_one_count() {
        let metrics = CallMetrics::default();
        for n in 0..SESSIONS_MAX + 20 {
            let session = format!("s{n:04}");
            let sample = CallSample::new("Read", CallStatus::Ok, Duration::ZERO);
            metrics.record(&CallSample { session: Some(&session), ..sample });
        }
        let family = session_family(metrics.sessions());
        assert_eq!(family.points.len(), SESSIONS_MAX + 1);
        let other = family.points.iter().find(|point| point.labels[0].1 == OTHER).unwrap();
        assert_eq!(other.value, MetricValue::Count(20));
    }

    #[test]
    fn excess_tools_share_row_without_losing_counts() {
        let metrics = CallMetrics::default();
        for n in 0..TOOLS_MAX + 50 {
            record_call(&metrics, &format!("t{n:04}"));
        }
        record_call(&metrics, "t0249");
        let rows = tool_counters(metrics.tools());
        assert_eq!(rows.len(), TOOLS_MAX + 1);
        assert_eq!((rows[OTHER].calls, rows["t0249"].calls), (50, 2));
        assert_eq!(rows.values().map(|row| row.calls).sum::<u64>(), TOOLS_MAX as u64 + 51);
    }
}
