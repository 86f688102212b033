//! What a gateway sends to a collector, and that it is never more, nor in anybody's way.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};
use zero_wire::chat::{AgentWait, ChatSend};

use crate::config::{USER_FILE, write_file};
use crate::doctor::{SYSTEM_PATH, run_doctor};
use crate::gateway_process::connect;
use crate::test_program::TestProgram;

/// What a person says and what a tool is given and gives: none of it may leave.
const PRIVATE_TEXTS: [&str; 3] = ["xyzzy-file", "plugh-content", "/read"];

/// A request that arrived: its path, its head, its body.
type CollectedRequest = (String, String, Vec<u8>);

/// Whether a collector says anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CollectorBehavior {
    Answers,
    Silent,
}

/// A collector that keeps what arrives.
struct FakeCollector {
    address: String,
    arrived: Arc<Mutex<Vec<CollectedRequest>>>,
}

impl FakeCollector {
    fn start(manner: CollectorBehavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve_collector(stream, manner, &kept));
            }
        });
        Self { address, arrived }
    }

    /// The bodies that came to a path.
    fn request_bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let arrived = self.arrived.lock().unwrap();
        arrived.iter().filter(|(to, ..)| to == path).map(|(_, _, body)| body.clone()).collect()
    }

    fn received_spans(&self) -> Vec<Span> {
        let decoded = self.request_bodies("/v1/traces").into_iter();
        let decoded = decoded.map(|body| ExportTraceServiceRequest::decode(&*body).unwrap());
        let of_resources = decoded.flat_map(|request| request.resource_spans);
        of_resources.flat_map(|of| of.scope_spans).flat_map(|of| of.spans).collect()
    }

    /// The figures that arrived last.
    fn received_metrics(&self) -> Vec<Metric> {
        let body = self.request_bodies("/v1/metrics").pop().unwrap();
        let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
        let of_resources = request.resource_metrics.into_iter();
        of_resources.flat_map(|of| of.scope_metrics).flat_map(|of| of.metrics).collect()
    }
}

fn serve_collector(
    stream: TcpStream,
    manner: CollectorBehavior,
    kept: &Mutex<Vec<CollectedRequest>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match reader.read_line(&mut head) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let path = head.split(' ').nth(1).unwrap().to_owned();
        kept.lock().unwrap().push((path, head, body));
        if manner == CollectorBehavior::Answers {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
    }
}

/// A gateway that is killed, at the latest when its test fails.
struct GatewayUnderTest {
    zero: TestProgram,
    child: Child,
    url: String,
}

impl GatewayUnderTest {
    fn start(collector: &FakeCollector) -> Self {
        let zero = TestProgram::new();
        let telemetry = json!({
            "endpoint": format!("http://{}", collector.address), "headers": {"x-key": "s3cret"},
        });
        write_file(&zero, USER_FILE, json!({"gateway": {"telemetry": telemetry}}).to_string());
        write_file(&zero, "xyzzy-file.txt", "plugh-content");
        let mut command = zero.command(&["gateway", "--port", "0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let url = ready["url"].as_str().unwrap().to_owned();
        Self { zero, child, url }
    }

    /// Says something and waits until its run is over.
    fn send_prompt(&self, message: &str) {
        let send = json!({"sessionKey": "main", "message": message, "idempotencyKey": "run-1"});
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, _events) = connect(self.zero.folder(), &self.url, &[]).await;
            client.request::<ChatSend>(serde_json::from_value(send).unwrap()).await.unwrap();
            let wait = json!({"runId": "run-1", "timeoutMs": 60_000});
            let wait = serde_json::from_value(wait).unwrap();
            let ended = serde_json::to_value(client.request::<AgentWait>(wait).await.unwrap());
            assert_eq!(ended.unwrap()["status"], "ok");
            client.close().await;
        });
    }

    /// Asks it to end; how long that took.
    fn stop(&mut self) -> Duration {
        let began = Instant::now();
        let pid = self.child.id().to_string();
        let killed = self.zero.external_command("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(killed.success());
        assert!(self.child.wait().unwrap().success());
        began.elapsed()
    }
}

impl Drop for GatewayUnderTest {
    fn drop(&mut self) {
        // It is gone already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn attribute_text(attributes: &[KeyValue], key: &str) -> String {
    let attribute = attributes.iter().find(|attribute| attribute.key == key);
    match attribute.and_then(|attribute| attribute.value.clone()?.value) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("`{key}` is {other:?} in {attributes:?}"),
    }
}

/// The figure of a name, of the point with this label.
fn metric_count(figures: &[Metric], name: &str, label: Option<(&str, &str)>) -> Option<i64> {
    let metric = figures.iter().find(|metric| metric.name == name)?;
    let points = match metric.data.as_ref()? {
        metric::Data::Sum(sum) => &sum.data_points,
        metric::Data::Gauge(gauge) => &gauge.data_points,
        _ => return None,
    };
    let fits = |attributes: &[KeyValue]| {
        label.is_none_or(|(key, value)| attribute_text(attributes, key) == value)
    };
    match points.iter().find(|point| fits(&point.attributes))?.value? {
        number_data_point::Value::AsInt(count) => Some(count),
        number_data_point::Value::AsDouble(_) => None,
    }
}

#[test]
fn collector_gets_runs_and_calls_without_content() {
    let collector = FakeCollector::start(CollectorBehavior::Answers);
    let mut gateway = GatewayUnderTest::start(&collector);
    gateway.send_prompt("/read xyzzy-file.txt");
    // Long before the next batch is due: it is sent at the end.
    gateway.stop();

    let spans = collector.received_spans();
    let named = |name: &str| {
        let mut found = spans.iter().filter(|span| span.name == name);
        let span = found.next().unwrap_or_else(|| panic!("no `{name}` in {spans:?}"));
        assert!(found.next().is_none(), "there is one `{name}`");
        span
    };
    let (run, call) = (named("run"), named("tool_call"));
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert_eq!((&call.parent_span_id, &call.trace_id), (&run.span_id, &run.trace_id));
    assert!(run.parent_span_id.is_empty());
    assert!(run.start_time_unix_nano <= call.start_time_unix_nano);
    assert!(call.end_time_unix_nano <= run.end_time_unix_nano);
    for (span, key, expected) in [
        (run, "run_id", "run-1"),
        (run, "session_key", "agent:main:main"),
        (run, "model", "direct"),
        (run, "outcome", "completed"),
        (call, "tool", "Read"),
        (call, "status", "ok"),
    ] {
        assert_eq!(attribute_text(&span.attributes, key), expected);
    }
    assert!(spans.iter().all(|span| span.links.is_empty()));
    assert!(run.events.is_empty(), "{run:?}");
    let [used] = call.events.as_slice() else { panic!("{:?}", call.events) };
    assert_eq!((used.name.as_str(), used.attributes.len()), ("tool_used", 3), "{used:?}");
    assert_eq!(attribute_text(&used.attributes, "tool"), "Read");
    let value = |key: &str| {
        let field = used.attributes.iter().find(|field| field.key == key).unwrap();
        field.value.clone().unwrap().value.unwrap()
    };
    assert_eq!(value("success"), any_value::Value::BoolValue(true));
    assert!(matches!(value("duration_ms"), any_value::Value::IntValue(0..60_000)));

    let figures = collector.received_metrics();
    assert_eq!(metric_count(&figures, "zero_runs_ended_total", None), Some(1));
    assert_eq!(metric_count(&figures, "zero_runs_running", None), Some(0));
    let ok = Some(("status", "ok"));
    assert_eq!(metric_count(&figures, "zero_tool_executions_total", ok), Some(1));
    assert_eq!(metric_count(&figures, "zero_session_tool_calls_total", None), Some(1));
    for (name, label) in [
        ("zero_tool_errors_by_severity_total", Some(("severity", "high"))),
        ("zero_tool_user_errors_total", None),
        ("zero_tool_failures_total", None),
        ("zero_tool_recoveries_total", None),
        ("zero_tool_retries_total", None),
        ("zero_tool_memory_peak_bytes", None),
        ("zero_tool_io_bytes_total", Some(("direction", "read"))),
        ("zero_model_retries_total", None),
    ] {
        assert_eq!(metric_count(&figures, name, label), Some(0), "{name}");
    }
    for name in ["zero_tool_cpu_seconds_total", "zero_tool_user_wait_seconds_total"] {
        assert!(figures.iter().any(|metric| metric.name == name), "{name}");
    }
    let spread = figures.iter().find(|metric| metric.name == "zero_tool_duration_seconds");
    let Some(metric::Data::Histogram(spread)) = &spread.unwrap().data else { panic!() };
    assert_eq!((spread.data_points[0].count, spread.data_points[0].bucket_counts.len()), (1, 12));

    let arrived = collector.arrived.lock().unwrap();
    for (path, head, body) in arrived.iter() {
        assert!(head.contains("\r\nx-key: s3cret\r\n"), "{head}");
        assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
        let text = String::from_utf8_lossy(body);
        for private in PRIVATE_TEXTS {
            assert!(!text.contains(private), "{path} tells `{private}`: {text}");
        }
    }
}

#[test]
fn silent_collector_blocks_neither_runs_nor_exit() {
    // One request alone may take 4 s, and there are two. On a busy machine an end may take longer than
    // that, but not every time.
    let mut ends = (0..5).map(|_| {
        let collector = FakeCollector::start(CollectorBehavior::Silent);
        let mut gateway = GatewayUnderTest::start(&collector);
        gateway.send_prompt("/read xyzzy-file.txt");
        let took = gateway.stop();
        assert!(!collector.request_bodies("/v1/metrics").is_empty(), "it was asked");
        took
    });
    assert!(ends.any(|took| took < Duration::from_secs(4)), "the end takes longer");
}

#[test]
fn headers_are_not_sent_in_clear_to_remote_collector() {
    let zero = TestProgram::new();
    let settings = r#"{"gateway": {"telemetry": {"endpoint": "http://192.0.2.1:4318", "headers": {"x-key": "s3cret"}}}}"#;
    write_file(&zero, USER_FILE, settings);
    let text = zero.run(&["gateway", "--port", "0"]);
    assert!(text.starts_with("exit 2\n"), "{text}");
    assert!(text.contains("its headers would be sent to another machine without TLS"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn invalid_endpoint_is_reported_by_doctor() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, r#"{"gateway": {"telemetry": {"endpoint": "nix"}}}"#);
    let told = "error invalid `gateway.telemetry`: its URL is invalid; use one such as `https://collector.example:4318`";
    assert_eq!(run_doctor(&zero, "gateway", SYSTEM_PATH), (1, vec![told.to_owned()]));
}
