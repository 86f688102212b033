//! Servers that misbehave. Whatever one does, the call ends within its timeout with a message that
//! says what happened. Meanwhile other servers answer, memory stays bounded, and no process is
//! left.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_mcp::client::ServerPhase;
use zero_mcp::server_definition::McpServerDefinition;

use crate::hostile_fixture::{HostileFixture, peak_memory};
use crate::server_fixture::wait_until;

/// A mode, and the expected output: these parts in this order, with `…` between them.
type BehaviorRow = (&'static str, &'static str);

/// How long it may take to notice that a timeout has passed, on a busy machine.
const GRACE: Duration = Duration::from_secs(60);
/// Limit for the median time of the working server's answers.
const NEIGHBOR_MEDIAN_MAX: Duration = Duration::from_secs(30);
/// Maximum growth of memory compared with a working server: a few lines of maximum length.
const GROWTH_MAX: u64 = 40 << 20;

/// The timeouts of servers.
#[derive(Clone, Copy)]
struct TestTimeouts {
    startup: Duration,
    silence: Duration,
    call: Duration,
}

/// Long timeouts, for servers that are not expected to reach them on any machine.
const LONG_TIMEOUTS: TestTimeouts = TestTimeouts {
    startup: Duration::from_secs(300),
    silence: Duration::from_secs(300),
    call: Duration::from_secs(300),
};

/// Factor for a second attempt with longer timeouts, if a server did not act in time: the machine
/// may have been too busy.
const SCALES: [u32; 2] = [1, 10];

impl TestTimeouts {
    /// Timeouts for this expectation: those that are expected to pass are short.
    fn for_expected(expected: &str, scale: u32) -> Self {
        let seconds = |count| Duration::from_secs(count) * scale;
        let mut patience = LONG_TIMEOUTS;
        if expected.contains("{startup}") {
            patience.startup = seconds(2);
        }
        if expected.starts_with("Timeout") {
            (patience.silence, patience.call) = (seconds(1), seconds(2));
        }
        patience
    }

    /// Fills the timeouts into the expected output.
    fn expand_times(self, expected: &str) -> String {
        let shown = |time: Duration| format!("{} s", time.as_secs());
        expected
            .replace("{startup}", &shown(self.startup))
            .replace("{silence}", &shown(self.silence))
            .replace("{call}", &shown(self.call))
    }

    fn apply_to(self, definition: &mut McpServerDefinition) {
        definition.startup_timeout = self.startup;
        definition.call_timeout = Some(self.silence);
        definition.call_timeout_max = self.call;
    }
}

/// A host with servers that all have long timeouts.
fn new_fixture(modes: &[&str]) -> HostileFixture {
    HostileFixture::new(modes, |_, definition| LONG_TIMEOUTS.apply_to(definition))
}

/// Checks servers of one host, this many at a time.
async fn check_all(rows: &[BehaviorRow], at_once: usize) {
    let mut rows = rows.to_vec();
    let mut faults = Vec::new();
    for scale in SCALES {
        faults = visit_all(&rows, at_once, scale).await;
        // With longer timeouts, servers that are expected to time out may behave differently.
        rows.retain(|(mode, expected)| {
            let is_short = expected.contains("{startup}") || expected.starts_with("Timeout");
            is_short && faults.iter().any(|(at, _)| at == mode)
        });
        let is_tried_again = |at: &str| rows.iter().any(|(mode, _)| *mode == at);
        if !faults.iter().all(|(mode, _)| is_tried_again(mode)) || rows.is_empty() {
            break;
        }
    }
    let faults: Vec<String> =
        faults.iter().map(|(mode, fault)| format!("{mode}: {fault}")).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Checks each server once, and returns the mismatches by mode.
async fn visit_all(
    rows: &[BehaviorRow],
    at_once: usize,
    scale: u32,
) -> Vec<(&'static str, String)> {
    let modes: Vec<&str> = rows.iter().map(|(mode, _)| *mode).collect();
    let patience = |at: &str| {
        let expected = rows.iter().find(|(mode, _)| *mode == at).map_or("", |row| row.1);
        TestTimeouts::for_expected(expected, scale)
    };
    let arena = HostileFixture::new(&modes, |mode, definition| patience(mode).apply_to(definition));
    arena.servers.wait_until_ready("good").await.unwrap();
    let done = CancellationToken::new();
    let visits = async {
        let visits =
            futures_util::stream::iter(rows).map(|row| check_row(&arena, row, patience(row.0)));
        let faults: Vec<_> = visits.buffer_unordered(at_once).concat().await;
        done.cancel();
        faults
    };
    let (faults, mut neighbour) = tokio::join!(visits, arena.poll_neighbor(&done));
    neighbour.sort();
    let usual = neighbour[neighbour.len() / 2];
    assert!(usual < NEIGHBOR_MEDIAN_MAX, "{usual:?}");
    arena.stop().await;
    faults
}

/// Checks one server, and returns the mismatch.
async fn check_row(
    arena: &HostileFixture,
    (mode, expected): &BehaviorRow,
    patience: TestTimeouts,
) -> Vec<(&'static str, String)> {
    let visit = arena.visit(mode, json!({})).await;
    let mut faults = Vec::new();
    let expected = patience.expand_times(expected);
    if !has_in_order(&visit.output, &expected) {
        faults.push((*mode, format!("expected {expected:?}, got {:?}", visit.output)));
    }
    let parts: Vec<&str> = visit.output.split("; ").collect();
    if parts.iter().enumerate().any(|(at, part)| parts[..at].contains(part)) {
        faults.push((*mode, format!("the output repeats itself: {}", visit.output)));
    }
    let limits = [patience.startup, patience.call];
    for (took, limit) in [visit.start, visit.call].into_iter().zip(limits) {
        if took > limit + GRACE {
            faults.push((*mode, format!("it took {took:?}, and {limit:?} are allowed")));
        }
    }
    faults
}

/// Whether a text starts with the first part, and contains the others after it in this order.
fn has_in_order(text: &str, expected: &str) -> bool {
    let mut words = expected.split(" … ");
    let Some(mut rest) = text.strip_prefix(words.next().unwrap_or_default()) else { return false };
    for word in words {
        let Some((_, after)) = rest.split_once(word) else { return false };
        rest = after;
    }
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_fails_to_start_is_reported() {
    const LATE: &str = "not ready: it did not start within {startup}; if it downloads itself (npx, uvx), allow its registry in `network`, otherwise raise `startupTimeout` (settings.json:3)";
    let rows = [
        (
            "exits-at-once",
            "not ready: it never became ready; its process ended with exit code 3 | cannot find my configuration",
        ),
        ("dies-by-signal", "not ready: it never became ready; its process was ended by signal 6"),
        (
            "exits-on-hello",
            "not ready: it never became ready; its process ended with exit code 101 | panicked at hello",
        ),
        ("never-answers", LATE),
        ("drips-for-ever", LATE),
        (
            "closes-its-output",
            "not ready: it never became ready; the other end closed the connection |",
        ),
        (
            "talks-on-the-wrong-stream",
            "not ready: it did not start within {startup}; … | {\"jsonrpc\":\"2.0\",\"id\":1",
        ),
        (
            "talks-text",
            "not ready: it did not start within {startup}; … lines of its output were not messages, such as: Server listening! No MCP here.",
        ),
        (
            "refuses-to-begin",
            "not ready: it refused the handshake: the licence of this server has expired (-32000) |",
        ),
        (
            "greets-with-nonsense",
            "not ready: its handshake answer cannot be used: it cannot be read: invalid type: integer `7`, expected a string",
        ),
        (
            "greets-with-a-list",
            "not ready: its handshake answer cannot be used: its result is not an object",
        ),
        (
            "speaks-the-future",
            "not ready: it answered `initialize` with protocol version `9999-01-01`",
        ),
        ("speaks-nonsense", "not ready: it answered `initialize` with protocol version `yes`"),
        (
            "discovers-the-future",
            "not ready: it supports only protocol versions that zero does not support: 2999-01-01, [2Jyes |",
        ),
        (
            "refuses-every-version",
            "not ready: it refuses protocol version 2026-07-28, although it lists it as supported |",
        ),
        ("never-lists", LATE),
        (
            "fails-to-list",
            "not ready: it refused to list its tools: the database is down (-32603) |",
        ),
        (
            "lists-nonsense",
            "not ready: its list of tools cannot be used: its `tools` are not a valid list",
        ),
        (
            "dies-in-a-list",
            "not ready: it ended before it had listed its tools; its process ended with exit code 12 | no more memory for a list",
        ),
    ];
    check_all(&rows, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_with_odd_startup_still_works() {
    let rows = [
        ("prints-a-banner", "ok: worked"),
        ("logs-json-first", "ok: worked"),
        ("speaks-bytes", "ok: worked"),
        ("floods-errors", "ok: worked"),
        ("leaves-a-child", "ok: worked"),
        ("answers-ahead", "ok: worked"),
        ("declares-nothing", "ok: worked"),
        ("drips", "ok: worked"),
        ("asks-back", "ok: worked"),
        ("discovers-nonsense", "ok: worked"),
        ("discovers-another-kind", "ok: worked"),
        ("lists-in-circles", "ok: worked"),
        ("lists-an-empty-cursor", "ok: worked"),
        ("bad-neighbours", "ok: worked"),
        ("takes-names", "ok: worked"),
        ("hides-controls", "ok: worked"),
        ("claims-harmlessness", "ok: worked"),
        ("changes-its-list-all-the-time", "ok: worked"),
        ("ignores-the-end", "ok: worked"),
        ("ignores-every-end", "ok: worked"),
    ];
    check_all(&rows, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_answers_are_reported() {
    const SILENT: &str = "Timeout Deadline: timed out after {silence} without an answer or progress; … raise the timeout of MCP server … (settings.json:3)";
    let rows = [
        ("never-returns", SILENT),
        ("stops-reading", SILENT),
        (
            "closes-in-a-call",
            "ExecutionFailed ServerUnavailable: MCP server `closes-in-a-call`: the other end closed the connection; it had not answered, and the call may have run",
        ),
        ("replies-to-others", SILENT),
        ("replies-to-nobody", SILENT),
        ("replies-late", SILENT),
        ("progress-of-others", SILENT),
        (
            "progress-for-ever",
            "Timeout Deadline: timed out after {call} without finishing; … raise the timeout of MCP server `progress-for-ever` (settings.json:3)",
        ),
        (
            "dies-in-a-call",
            "ExecutionFailed ServerUnavailable: MCP server `dies-in-a-call`: its process ended with exit code 7; it had not answered, and the call may have run; the end of its error output:\nthread 'main' panicked",
        ),
        (
            "is-killed-in-a-call",
            "ExecutionFailed ServerUnavailable: MCP server `is-killed-in-a-call`: its process was ended by signal 6; it had not answered, and the call may have run",
        ),
        (
            "broken-json",
            "ExecutionFailed RemoteFailure: MCP server `broken-json` sent an answer that cannot be used: it is not valid JSON; the call may have run",
        ),
        ("null-result", "ExecutionFailed RemoteFailure: … it has neither a result nor an error"),
        (
            "neither-result-nor-error",
            "ExecutionFailed RemoteFailure: … it has neither a result nor an error",
        ),
        (
            "both-result-and-error",
            "ExecutionFailed RemoteFailure: … it has both a result and an error",
        ),
        ("another-rpc", "ExecutionFailed RemoteFailure: … it does not say that it is JSON-RPC 2.0"),
        ("replies-in-a-batch", "ExecutionFailed RemoteFailure: … it is part of a batch"),
        (
            "error-without-a-message",
            "ExecutionFailed RemoteFailure: MCP server `error-without-a-message` refused the call: an invalid error: 5",
        ),
        (
            "answers-with-an-error",
            "ExecutionFailed RemoteFailure: MCP server `answers-with-an-error` refused the call: internal trouble (-32603)",
        ),
        ("says-it-failed", "ExecutionFailed RemoteFailure: no such row\ntry 1 to 9"),
    ];
    check_all(&rows, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repairable_answers_are_repaired() {
    let rows = [
        ("lone-surrogate", "ok: \u{fffd} half"),
        ("bad-bytes", "ok: \u{fffd}\u{fffd} half"),
        ("replies-twice", "ok: first"),
        ("id-as-text", "ok: worked"),
        ("reuses-its-ids", "ok: worked"),
        (
            "deep-reply",
            "ok: [a structured content of the server's answer was left out: it nests 100000 levels deep",
        ),
        (
            "unknown-blocks",
            "ok: [a block of the server's answer was left out: its kind `hologram` is unknown]\nand this",
        ),
        ("bad-picture", "ok: [data of type `image/png` was left out: it is not base64]\nbeside it"),
        ("empty-result", "ok: (the tool returned no output)"),
        (
            "lies-about-results",
            "ok: … [note: the structured content does not match the tool's output schema: /n: expected a whole number",
        ),
    ];
    check_all(&rows, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_without_handshake_is_handled() {
    let rows = [
        ("modern-good", "ok: worked"),
        (
            "modern-unknown-kind",
            "ExecutionFailed RemoteFailure: … its `resultType` is \"hologram\", which is unknown",
        ),
        (
            "modern-task",
            "ExecutionFailed ServerUnavailable: MCP server `modern-task` turned the call into a task",
        ),
        (
            "modern-asks-for-ever",
            "ExecutionFailed ServerUnavailable: MCP server `modern-asks-for-ever` asked questions 10 times without a result",
        ),
        (
            "modern-puts-off-for-ever",
            "Timeout Deadline: timed out after {call} without finishing; … MCP server `modern-puts-off-for-ever` (settings.json:3)",
        ),
        (
            "modern-asks-a-hundred-things",
            "ExecutionFailed ServerUnavailable: … asked 100 questions at once",
        ),
        ("modern-asks-nonsense", "ExecutionFailed RemoteFailure: … cannot be used"),
        (
            "modern-wants-a-model",
            "ExecutionFailed ServerUnavailable: … wants to use a model, which zero does not allow",
        ),
        ("modern-listen-ends-at-once", "ok: listened"),
    ];
    check_all(&rows, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_do_not_break_calls() {
    let rows = [
        ("floods-requests", "ok: after the flood"),
        ("floods-questions", "ok: after the questions"),
        ("floods-notifications", "ok: after the flood"),
        ("modern-listen-floods", "ok: worked"),
        ("lists-for-ever", "NotFound UnknownTool: … lists-for-ever__page0"),
        ("lists-a-hundred-thousand-pages-of-nothing", "NotFound UnknownTool: "),
        ("deep-schema", "NotFound UnknownTool: "),
    ];
    check_all(&rows, 2).await;
}

/// Checks one server, and that memory stays bounded. Each mode has a test of its own, and thus a
/// process of its own, so that memory left by one does not affect the next.
async fn check_memory(mode: &'static str, expected: &'static str) {
    check_all(&[], 1).await;
    let before = peak_memory();
    check_all(&[(mode, expected)], 1).await;
    let grown = peak_memory() - before;
    assert!(grown < GROWTH_MAX, "{mode}: {grown} bytes over {before}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giant_reply_memory_is_bounded() {
    check_memory("giant-reply", "ExecutionFailed RemoteFailure: MCP server `giant-reply` sent an answer that cannot be used: it is longer than 8388608 bytes; the call may have run").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giant_reply_with_trailing_id_memory_is_bounded() {
    check_memory(
        "giant-reply-backwards",
        "ExecutionFailed RemoteFailure: … it is longer than 8388608 bytes; the call may have run",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reply_of_millions_of_values_memory_is_bounded() {
    check_memory("many-nodes", "ok: [a structured content of the server's answer was left out: it has more than 200000 values]").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giant_error_memory_is_bounded() {
    check_memory(
        "giant-error",
        "ExecutionFailed RemoteFailure: MCP server `giant-error` refused the call: no no",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn largest_allowed_reply_memory_is_bounded() {
    check_memory("large-reply", "ok: large large").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_reply_of_control_characters_memory_is_bounded() {
    check_memory("large-reply-of-controls", "ok: ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reply_of_many_blocks_memory_is_bounded() {
    check_memory("many-blocks", "ok: b\nb\n … [a part of the server's answer was left out: there were 39001 more than the 999 that are read]").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_progress_messages_memory_is_bounded() {
    check_memory("large-progress", "Timeout Deadline: ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giant_schema_memory_is_bounded() {
    check_memory("giant-schema", "ok: worked").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_of_thousands_memory_is_bounded() {
    check_memory("lists-five-thousand", "NotFound UnknownTool: … lists-five-thousand__t0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn giant_request_state_memory_is_bounded() {
    check_memory("modern-giant-state", "ExecutionFailed ServerUnavailable: … wants 6291456 bytes of state to be sent back; at most 1048576 are allowed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_line_memory_is_bounded() {
    check_memory(
        "endless-line",
        "not ready: it did not start within {startup} … refused, such as: it is longer than 8388608 bytes",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_cannot_take_name_of_another() {
    let arena = new_fixture(&["pretends-to-be-another", "takes-names"]);
    arena.servers.probe().await;
    let own = |mode| -> Vec<(String, String)> {
        let tools = arena.status(mode).tools.into_iter();
        let mut names: Vec<_> = tools.map(|tool| (tool.own_name, tool.name)).collect();
        names.sort();
        names
    };
    let names = own("pretends-to-be-another");
    assert_eq!(names.len(), 6);
    for (own, name) in names {
        assert_eq!(name, format!("pretends-to-be-another__{own}"));
    }
    let names = own("takes-names");
    assert!(names.iter().all(|(_, name)| name.starts_with("takes-names__") && name.len() <= 64));
    let different: std::collections::BTreeSet<_> = names.iter().map(|(_, name)| name).collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
    assert!(names.contains(&("Read".to_owned(), "takes-names__Read".to_owned())), "{names:?}");
    // The tools whose names were to be taken are unchanged.
    assert_eq!(arena.call("good__work", json!({})).await.unwrap(), "worked");
    std::fs::write(arena.path("work/a.txt"), "mine").unwrap();
    let read = arena.call("Read", json!({"file_path": "a.txt"})).await.unwrap();
    assert!(read.contains("mine"), "{read}");
    arena.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_is_confined_by_sandbox() {
    let modes = ["shows-its-environment", "reads-a-secret", "writes-a-file", "calls-home"];
    let arena = new_fixture(&modes);
    let say = async |mode: &str, input: Value| arena.visit(mode, input).await.output;
    let environment = say("shows-its-environment", json!({})).await;
    assert!(environment.contains("PATH=") && !environment.contains("CARGO"), "{environment}");
    std::fs::write(arena.path("state/secret"), "the secret").unwrap();
    let read = say("reads-a-secret", json!({"path": arena.path("state/secret")})).await;
    assert!(read.starts_with("ok: Err(") && !read.contains("the secret"), "{read}");
    let outside = arena.path("outside");
    let wrote = say("writes-a-file", json!({"path": outside})).await;
    assert!(wrote.starts_with("ok: Err(") && !outside.exists(), "{wrote}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap().to_string();
    assert_eq!(say("calls-home", json!({"to": to})).await, "ok: reached: false");
    arena.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_answer_is_not_used_for_next_call() {
    let patience = TestTimeouts { silence: Duration::from_secs(1), ..LONG_TIMEOUTS };
    let arena =
        HostileFixture::new(&["replies-late"], |_, definition| patience.apply_to(definition));
    let first = arena.visit("replies-late", json!({})).await.output;
    assert!(first.starts_with("Timeout Deadline"), "{first}");
    wait_until(|| !arena.status("replies-late").notes.is_empty()).await;
    let notes = arena.status("replies-late").notes;
    assert_eq!(notes, ["1 of its answers matched no request"]);
    // The next must arrive in time, which a busy machine may prevent.
    let mut output = String::new();
    for _ in 0..20 {
        output = arena.visit("replies-late", json!({})).await.output;
        if !output.starts_with("Timeout Deadline") {
            break;
        }
    }
    assert_eq!(output, "ok: worked");
    arena.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing_definitions_are_noticed() {
    let arena = new_fixture(&["rewrites-itself"]);
    assert_eq!(arena.visit("rewrites-itself", json!({})).await.output, "ok: worked");
    let is_changed = || arena.status("rewrites-itself").tools[0].changed;
    assert!(!is_changed());
    let status = arena.servers.reconnect("rewrites-itself").await.unwrap();
    assert_eq!(status.state, ServerPhase::Ready);
    assert!(is_changed());
    arena.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_server_is_restarted() {
    let arena = new_fixture(&["dies-once"]);
    let first = arena.visit("dies-once", json!({})).await.output;
    assert!(first.starts_with("ExecutionFailed ServerUnavailable"), "{first}");
    assert_eq!(arena.visit("dies-once", json!({})).await.output, "ok: worked");
    assert_eq!(arena.status("dies-once").starts, 2);
    arena.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_subscription_is_not_retried_forever() {
    let modes = ["modern-listen-ends-at-once", "modern-listen-floods"];
    let (arena, begun) = (new_fixture(&modes), Instant::now());
    for mode in modes {
        arena.visit(mode, json!({})).await;
    }
    let counts = async |mode: &str| -> Vec<u32> {
        let output = arena.visit(mode, json!({})).await.output;
        output.split(' ').filter_map(|word| word.parse().ok()).collect()
    };
    // The delays between attempts are one, two and four seconds.
    let most = || 2 + (begun.elapsed().as_secs() + 1).ilog2();
    loop {
        let counts = counts(modes[0]).await;
        let most = most();
        assert!(counts.len() == 2 && counts[0] <= most && counts[1] <= most + 1, "{counts:?}");
        // Until it was tried again.
        if counts[0] > 1 {
            break;
        }
        assert!(begun.elapsed() < GRACE, "it is not tried again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counts = counts(modes[1]).await;
    assert!(counts.len() == 1 && counts[0] <= most() + 2, "{counts:?}");
    arena.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_never_becomes_ready_does_not_delay_stop() {
    let arena = HostileFixture::new(&["never-answers", "talks-text"], |_, definition| {
        definition.startup_timeout = Duration::from_secs(600);
    });
    arena.servers.start_unknown();
    arena.servers.wait_until_ready("good").await.unwrap();
    arena.wait_for_process("never-answers").await;
    let begun = Instant::now();
    arena.stop().await;
    assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
}
