//! Renders the gateway's metrics for `/metrics` in the Prometheus text format.

use std::fmt::{Display, Write};

use crate::gateway_inner::GatewayInner;
use crate::metric_families::{MetricFamily, MetricKind, MetricPoint, MetricValue};

/// Renders all metrics in the Prometheus text format.
pub(crate) fn render(gateway: &GatewayInner) -> String {
    render_page(&gateway.collect_metrics())
}

fn render_page(families: &[MetricFamily]) -> String {
    let mut page = PrometheusPage(String::new());
    for MetricFamily { name, help, kind, points } in families {
        page.write_family(name, *kind, help);
        for MetricPoint { labels, value } in points {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(label, text)| (*label, text.as_str())).collect();
            page.write_point(name, &labels, value);
        }
    }
    page.0
}

/// A page under construction.
struct PrometheusPage(String);

impl PrometheusPage {
    fn write_family(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn write_point(&mut self, name: &str, labels: &[(&str, &str)], value: &MetricValue) {
        let spread = match value {
            MetricValue::Count(count) => return self.write_sample(name, labels, count),
            MetricValue::Amount(amount) => return self.write_sample(name, labels, amount),
            MetricValue::Histogram(spread) => spread,
        };
        let bucket = format!("{name}_bucket");
        let within = spread.within.iter().map(|(bound, count)| (bound.to_string(), *count));
        for (bound, count) in within.chain([("+Inf".to_owned(), spread.count)]) {
            self.write_sample(&bucket, &[labels, &[("le", &bound)]].concat(), count);
        }
        self.write_sample(&format!("{name}_sum"), labels, spread.sum);
        self.write_sample(&format!("{name}_count"), labels, spread.count);
    }

    fn write_sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if index == 0 { '{' } else { ',' });
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use crate::metric_families::{MetricInputs, MetricsSource, build_families};
    use zero_core::{CallUsage, ErrorType};
    use zero_runtime::metrics::{CallMetrics, CallSample, CallStatus, SessionCallStats, ToolStats};
    use zero_session::sessions::SessionStats;

    struct FixedMetrics(CallMetrics);

    impl MetricsSource for FixedMetrics {
        fn tools(&self) -> BTreeMap<String, ToolStats> {
            self.0.tools()
        }

        fn sessions(&self) -> BTreeMap<String, SessionCallStats> {
            self.0.sessions()
        }

        fn queue_depth(&self) -> u64 {
            3
        }

        fn in_flight(&self) -> u64 {
            2
        }
    }

    fn render_source(source: &FixedMetrics) -> String {
        let sessions = SessionStats {
            active_sessions: 4,
            running: 1,
            queued: 2,
            unrecorded: 9,
            ended: 7,
            failed: 1,
            input_tokens: 1_000,
            output_tokens: 50,
            model_retries: 6,
            cluster: None,
        };
        let uptime = Duration::from_millis(1_500);
        super::render_page(&build_families(&MetricInputs {
            tools: source,
            sessions,
            connections: 5,
            uptime,
        }))
    }

    fn record_call(
        metrics: &CallMetrics,
        tool: &str,
        status: CallStatus,
        error_type: Option<ErrorType>,
        ms: u64,
    ) {
        metrics.record(&CallSample {
            session: Some("5f0c"),
            error: error_type.map(|error_type| (error_type, None)),
            usage: CallUsage {
                commands: 1,
                cpu_us: 250_000,
                memory_bytes: 3_000_000,
                read_bytes: 512,
                written_bytes: 4096,
            },
            user_wait: Duration::from_millis(1_500),
            ..CallSample::new(tool, status, Duration::from_millis(ms))
        });
    }

    #[test]
    fn page_lists_every_metric() {
        let metrics = CallMetrics::default();
        record_call(&metrics, "Read", CallStatus::Ok, None, 2);
        record_call(&metrics, "Read", CallStatus::Timeout, Some(ErrorType::Timeout), 30_000);
        record_call(&metrics, "Read", CallStatus::Error, Some(ErrorType::NotFound), 2);
        insta::assert_snapshot!(render_source(&FixedMetrics(metrics)));
    }

    #[test]
    fn label_values_are_escaped() {
        let metrics = CallMetrics::default();
        record_call(&metrics, "a\"}\n1\\", CallStatus::Ok, None, 1);
        let page = render_source(&FixedMetrics(metrics));
        let line = page.lines().find(|line| line.contains("status=\"ok\"")).unwrap();
        assert_eq!(line, r#"zero_tool_executions_total{tool="a\"}\n1\\",status="ok"} 1"#);
    }
}
