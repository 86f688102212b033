//! Gateways, clients and tool hosts are killed in the middle of a turn, again and again: what was
//! shown is in the ledger, nothing was done twice, and the session goes on.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]
#![expect(clippy::print_stdout, reason = "the client that is killed tells what it was shown")]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use zero_core::RunId;
use zero_core::event::{Event, EventKind, RunOutcome, ToolCallStatus};
use zero_wire::GatewayMethod;
use zero_wire::chat::{AgentWait, ChatAbort, ChatSend};
use zero_wire::client::{GatewayClient, GatewayEvents};
use zero_wire::zero_sessions::{
    CAP_EVENTS, SESSION_EVENT, SessionEvent, ZeroSessionsEvents, ZeroSessionsOpen,
};

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::{GatewayProcess, TIMEOUT, connect, wait_for_child};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// How often somebody is killed.
const KILL_COUNT: u64 = 200;
/// How often somebody is killed while commands are recorded, so that they can be undone.
const RECORDED_KILL_COUNT: u64 = 40;
/// A turn takes about as long; somebody dies at some moment of it.
const TURN_MS: u64 = 350;
/// Makes the moments the same in every run.
const SEED: u64 = 0x5eed;
/// Set in the process that is a client until it is killed: its gateway, session and number.
const CLIENT_ORDER_VARIABLE: &str = "ZERO_TEST_CLIENT";
/// What that process says when it is about to send its prompt.
const READY_LINE: &str = "ready";
/// This test, for whoever runs it a second time as that process.
const THIS_TEST: &str = "fault_injection::killed_process_loses_no_event_and_repeats_no_call";

/// Who is killed. Nobody here is two of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillTarget {
    /// The gateway, which runs the tools, too.
    Gateway,
    /// A client that sent a prompt, whose tools run with the gateway.
    Client,
    /// Who runs the tools of a prompt that somebody else has sent.
    ToolHost,
}

#[test]
fn killed_process_loses_no_event_and_repeats_no_call() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if let Ok(order) = std::env::var(CLIENT_ORDER_VARIABLE) {
            return run_as_client(&serde_json::from_str(&order).unwrap()).await;
        }
        let mut fixture = FaultFixture::start(json!({})).await;
        fixture.kill_often(KILL_COUNT).await;
        let log =
            std::fs::read_to_string(fixture.zero.folder().join("log.txt")).unwrap_or_default();
        assert!(log.lines().count() > 10, "hardly anybody got as far as a call:\n{log}");
        let KillCounts { runs_cut, calls_cut, left_alone } = fixture.ends;
        let died = runs_cut > 10 && calls_cut > 0 && left_alone > 10;
        assert!(died, "hardly anybody died in mid-turn: {:?}", fixture.ends);
    });
}

#[test]
fn killed_process_leaves_no_change_of_a_command_unrecorded() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut fixture = FaultFixture::start(json!({"undo": {"commands": true}})).await;
        fixture.kill_often(RECORDED_KILL_COUNT).await;
        let lines: Vec<u64> =
            (0..RECORDED_KILL_COUNT).filter(|number| fixture.line_count(*number) > 0).collect();
        assert!(lines.len() > 5, "hardly anybody got as far as a call: {lines:?}");
        let listed = fixture.zero.run(&["undo", "--list", "--all"]);
        for number in lines {
            let command = format!("echo line-{number} >> log.txt");
            assert!(listed.contains(&command), "line {number} has no record: {listed}");
        }
        // Whatever was cut off, all of it can be taken back, the newest first.
        while let Some(log) = fixture.read_log() {
            let output = fixture.zero.command(&["undo"]).output().unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{log}: {told}");
        }
    });
}

struct FaultFixture {
    zero: TestProgram,
    _model: ModelServer,
    gateway: GatewayProcess,
    client: GatewayClient,
    events: GatewayEvents,
    ends: KillCounts,
}

/// How often somebody died at a moment that matters.
#[derive(Clone, Copy, Debug, Default)]
struct KillCounts {
    runs_cut: u32,
    calls_cut: u32,
    /// Runs that went on without the client that wanted them.
    left_alone: u32,
}

impl FaultFixture {
    async fn start(mut settings: Value) -> Self {
        let zero = TestProgram::outside_tmp();
        let model = ModelServer::start();
        settings["permissions"] = json!({"allow": ["Bash(echo:*)", "Write(log.txt)"]});
        write_file(&zero, USER_FILE, model.settings_json(settings));
        let gateway = GatewayProcess::start(&zero);
        let (client, events) = connect(zero.folder(), &gateway.url, &[CAP_EVENTS]).await;
        Self { zero, _model: model, gateway, client, events, ends: KillCounts::default() }
    }

    async fn kill_often(&mut self, count: u64) {
        let mut random = fastrand::Rng::with_seed(SEED);
        for number in 0..count {
            let after = Duration::from_millis(random.u64(0..TURN_MS));
            let victims = [KillTarget::Gateway, KillTarget::Client, KillTarget::ToolHost];
            let victim = victims[usize::try_from(number % 3).unwrap()];
            let told = format!("kill {number} of seed {SEED:#x}: {victim:?} after {after:?}");
            match victim {
                KillTarget::Gateway => self.kill_gateway(number, after, &told).await,
                KillTarget::Client => self.kill_client(number, after, &told).await,
                KillTarget::ToolHost => self.kill_tool_host(number, after, &told).await,
            }
        }
    }

    /// Tools run with the gateway, and it is killed.
    async fn kill_gateway(&mut self, number: u64, after: Duration, told: &str) {
        let key = session_key(number);
        let cwd = self.zero.folder().canonicalize().unwrap();
        self.request::<ZeroSessionsOpen>(json!({"sessionKey": key, "cwd": cwd})).await;
        self.request::<ChatSend>(prompt_params(number)).await;
        let mut shown = Vec::new();
        let _ =
            tokio::time::timeout(after, receive_events(&mut self.events, &key, &mut shown)).await;
        self.gateway.kill();
        let rest = receive_events(&mut self.events, &key, &mut shown);
        tokio::time::timeout(TIMEOUT, rest).await.expect("the end of a gateway is not heard");
        self.gateway = GatewayProcess::start(&self.zero);
        let (folder, url) = (self.zero.folder(), &self.gateway.url);
        (self.client, self.events) = connect(folder, url, &[CAP_EVENTS]).await;
        self.request::<ChatSend>(prompt_params(number)).await;
        self.check_turn(number, &shown, told).await;
        self.check_session_continues(number, told).await;
    }

    /// Tools run with the gateway, and the client is killed that wanted them to.
    async fn kill_client(&mut self, number: u64, after: Duration, told: &str) {
        let key = session_key(number);
        let cwd = self.zero.folder().canonicalize().unwrap();
        let order = json!({"url": self.gateway.url, "cwd": cwd, "number": number});
        let this = std::env::current_exe().unwrap();
        let mut client = self
            .zero
            .external_command(this.to_str().unwrap())
            .args(["--exact", THIS_TEST, "--nocapture"])
            .env(CLIENT_ORDER_VARIABLE, order.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(client.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim() != READY_LINE {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "{told}: no client comes");
        }
        tokio::time::sleep(after).await;
        kill_child(&mut client);
        let shown = parse_events(output);
        self.check_turn(number, &shown, told).await;
        let ledger = self.read_ledger(&key).await;
        let end = ledger.iter().find_map(|event| match &event.kind {
            EventKind::RunEnded { end, .. } => Some(end),
            _ => None,
        });
        // Nobody has to be there for a run to come to its end.
        assert!(end.is_none_or(|end| *end == RunOutcome::Completed), "{told}: {ledger:#?}");
        let ends = |event: &Event| matches!(event.kind, EventKind::RunEnded { .. });
        if end.is_some() {
            self.ends.left_alone += u32::from(!shown.iter().any(ends));
            assert_eq!(self.line_count(number), 1, "{told}: not done");
        }
        self.check_session_continues(number, told).await;
    }

    /// Tools run in another process than the client's, and it is killed.
    async fn kill_tool_host(&mut self, number: u64, after: Duration, told: &str) {
        let key = session_key(number);
        let cwd = self.zero.folder().canonicalize().unwrap();
        self.request::<ZeroSessionsOpen>(json!({"sessionKey": key, "cwd": cwd})).await;
        // The tool host is there before its tools are wanted: a run that never ends is in the way
        // until then, and its own prompt comes after that of this client.
        let first = format!("first-{number}");
        let hang = json!({"sessionKey": key, "message": "[hang]", "idempotencyKey": first});
        self.request::<ChatSend>(hang).await;
        self.request::<ChatSend>(prompt_params(number)).await;
        let mut host = self
            .zero
            .command(&["run", "--session", &key, "--url", &self.gateway.url, "hi"])
            .env("PATH", "/usr/bin:/bin")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut shown = Vec::new();
        let attached = async {
            let is_theirs = |event: &Event| matches!(&event.kind, EventKind::Prompt { text, .. } if text == "hi");
            while !shown.iter().any(is_theirs) {
                let frame = self.events.next().await.expect("the gateway is there");
                shown.extend(parse_event(frame.event.as_str(), frame.payload, &key));
            }
        };
        tokio::time::timeout(TIMEOUT, attached).await.expect("no tool host comes");
        self.request::<ChatAbort>(json!({"sessionKey": key, "runId": first})).await;
        let _ =
            tokio::time::timeout(after, receive_events(&mut self.events, &key, &mut shown)).await;
        kill_child(&mut host);
        self.check_turn(number, &shown, told).await;
        // Its tools are gone with it; whoever brings some goes on.
        let args = ["run", "--session", &key, "--url", &self.gateway.url, "hi"];
        let output = self.zero.command(&args).env("PATH", "/usr/bin:/bin").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.trim() == GREETING_ANSWER,
            "{told}: stuck: {output:?}"
        );
        check_ledger_complete(&self.read_ended_ledger(&key, told).await, told);
    }

    /// The next prompt gets its answer.
    async fn check_session_continues(&self, number: u64, told: &str) {
        let (key, run) = (session_key(number), format!("again-{number}"));
        let again = json!({"sessionKey": key, "message": "hi", "idempotencyKey": run});
        self.request::<ChatSend>(again).await;
        let end = self.request::<AgentWait>(json!({"runId": run, "timeoutMs": 20_000})).await;
        assert!(end.ended_at.is_some(), "{told}: the session is stuck: {end:?}");
        let ledger = self.read_ended_ledger(&key, told).await;
        check_ledger_complete(&ledger, told);
        let of_run =
            ledger.iter().filter(|event| event.run.as_ref().is_some_and(|of| of.as_str() == run));
        let (mut answer, mut completed) = (String::new(), false);
        for event in of_run {
            match &event.kind {
                EventKind::Text { text } => answer.push_str(text),
                EventKind::RunEnded { end, .. } => completed = *end == RunOutcome::Completed,
                _ => {}
            }
        }
        assert!(completed && answer == GREETING_ANSWER, "{told}: no answer: {ledger:#?}");
    }

    /// What the commands have written; `None` if nothing is left of it.
    fn read_log(&self) -> Option<String> {
        let log = std::fs::read_to_string(self.zero.folder().join("log.txt"));
        log.ok().filter(|log| !log.is_empty())
    }

    fn line_count(&self, number: u64) -> usize {
        let log = self.read_log().unwrap_or_default();
        let line = format!("line-{number}");
        log.lines().filter(|other| *other == line).count()
    }

    /// Whether all is as it should be after somebody died.
    async fn check_turn(&mut self, number: u64, shown: &[Event], told: &str) {
        let key = &session_key(number);
        let ledger = self.read_ended_ledger(key, told).await;
        for event in shown {
            assert!(ledger.contains(event), "{told}: shown and lost: {event:?} of {ledger:#?}");
        }
        self.ends.count_ledger(&ledger);
        // The same words with the same key are the same run, whoever sends them.
        let is_ours = |event: &&Event| matches!(&event.kind, EventKind::Prompt { text, .. } if *text == prompt_message(number));
        if ledger.iter().any(|event| is_ours(&event)) {
            self.request::<ChatSend>(prompt_params(number)).await;
        }
        let ledger = self.read_ended_ledger(key, told).await;
        check_ledger_complete(&ledger, told);
        let times = self.line_count(number);
        assert!(times <= 1, "{told}: done {times} times");
        let ran = ledger.iter().any(|event| matches!(event.kind, EventKind::ToolStarted { .. }));
        assert!(ran || times == 0, "{told}: done, and not in the ledger");
    }

    /// The ledger once every run in it has ended. The prompt of a dead client may begin at any time
    /// after its death, as long as the gateway has not read all that the client sent.
    async fn read_ended_ledger(&self, key: &str, told: &str) -> Vec<Event> {
        loop {
            let ledger = self.read_ledger(key).await;
            let ends = |run: &RunId| {
                let is_end = |event: &Event| matches!(event.kind, EventKind::RunEnded { .. });
                ledger.iter().any(|event| event.run.as_ref() == Some(run) && is_end(event))
            };
            let runs = ledger.iter().filter_map(|event| event.run.as_ref());
            let Some(unfinished) = runs.into_iter().find(|run| !ends(run)) else { return ledger };
            let wait = json!({"runId": unfinished, "timeoutMs": 20_000});
            let end = self.request::<AgentWait>(wait).await;
            assert!(end.ended_at.is_some(), "{told}: run {unfinished} is stuck: {end:?}");
        }
    }

    async fn read_ledger(&self, key: &str) -> Vec<Event> {
        self.request::<ZeroSessionsEvents>(json!({"sessionKey": key})).await.events
    }

    async fn request<M: GatewayMethod>(&self, params: Value) -> M::Result {
        let params = serde_json::from_value(params).unwrap();
        let asked = tokio::time::timeout(TIMEOUT, self.client.request::<M>(params)).await;
        asked.expect("no answer").unwrap_or_else(|error| panic!("{}: {error}", M::NAME))
    }
}

impl KillCounts {
    fn count_ledger(&mut self, ledger: &[Event]) {
        for event in ledger {
            match &event.kind {
                EventKind::RunEnded {
                    end: RunOutcome::Interrupted | RunOutcome::Failed { .. },
                    ..
                } => {
                    self.runs_cut += 1;
                }
                EventKind::ToolEnded {
                    status: ToolCallStatus::Interrupted | ToolCallStatus::Failed,
                    ..
                } => {
                    self.calls_cut += 1;
                }
                _ => {}
            }
        }
    }
}

/// No gap, one end for each call, one end for each prompt, one run for each key.
#[track_caller]
fn check_ledger_complete(ledger: &[Event], told: &str) {
    for (event, seq) in ledger.iter().zip(1..) {
        assert_eq!(event.seq, seq, "{told}: a gap");
    }
    let runs = |is: fn(&EventKind) -> bool| {
        let runs = ledger.iter().filter(|event| is(&event.kind));
        let mut runs: Vec<_> = runs.map(|event| event.run.clone().unwrap()).collect();
        runs.sort();
        runs
    };
    let prompts = runs(|kind| matches!(kind, EventKind::Prompt { .. }));
    assert_eq!(
        prompts,
        runs(|kind| matches!(kind, EventKind::RunEnded { .. })),
        "{told}: {ledger:#?}"
    );
    assert!(prompts.windows(2).all(|two| two[0] != two[1]), "{told}: a second run: {prompts:?}");
    let calls = |of: fn(&EventKind) -> Option<&String>| {
        let mut calls: Vec<_> = ledger.iter().filter_map(|event| of(&event.kind)).collect();
        calls.sort();
        calls
    };
    let started = calls(|kind| match kind {
        EventKind::ToolStarted { call, .. } => Some(call),
        _ => None,
    });
    let ended = calls(|kind| match kind {
        EventKind::ToolEnded { call, .. } => Some(call),
        _ => None,
    });
    assert_eq!(started, ended, "{told}: each call ends once: {ledger:#?}");
}

/// What the model says to whoever greets it.
const GREETING_ANSWER: &str = "Hello from the model.";

fn session_key(number: u64) -> String {
    format!("agent:main:kill-{number}")
}

fn prompt_message(number: u64) -> String {
    format!("[append line-{number}]")
}

fn prompt_params(number: u64) -> Value {
    json!({"sessionKey": session_key(number), "message": prompt_message(number),
        "idempotencyKey": format!("run-{number}")})
}

/// A client, and nothing else: says something and tells what it is shown, until it is killed.
async fn run_as_client(order: &Value) {
    let number = order["number"].as_u64().unwrap();
    let (client, mut events) =
        connect(Path::new("."), order["url"].as_str().unwrap(), &[CAP_EVENTS]).await;
    let open = json!({"sessionKey": session_key(number), "cwd": order["cwd"]});
    client.request::<ZeroSessionsOpen>(serde_json::from_value(open).unwrap()).await.unwrap();
    // The line that says which test this is has no end.
    println!("\n{READY_LINE}");
    client
        .request::<ChatSend>(serde_json::from_value(prompt_params(number)).unwrap())
        .await
        .unwrap();
    while let Some(frame) = events.next().await {
        if let Some(event) = parse_event(frame.event.as_str(), frame.payload, &session_key(number))
        {
            println!("{}", serde_json::to_string(&event).unwrap());
        }
    }
}

fn kill_child(child: &mut Child) {
    child.kill().unwrap();
    wait_for_child(child);
}

/// What a client told that it was shown; what it could not tell to its end does not count.
fn parse_events(output: impl Read) -> Vec<Event> {
    let told = std::io::read_to_string(output).unwrap();
    let whole = told.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Hears a session until the gateway is gone.
async fn receive_events(events: &mut GatewayEvents, key: &str, shown: &mut Vec<Event>) {
    while let Some(frame) = events.next().await {
        shown.extend(parse_event(frame.event.as_str(), frame.payload, key));
    }
}

fn parse_event(name: &str, payload: Option<Value>, key: &str) -> Option<Event> {
    let payload = payload.filter(|_| name == SESSION_EVENT)?;
    let update: SessionEvent = serde_json::from_value(payload).unwrap();
    (update.session_key == key).then_some(update.event)
}
