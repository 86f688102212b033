//! Gateways and clients are killed in the middle of a turn, again and again: what was shown is in
//! the ledger, nothing was done twice, and the session goes on.

#![expect(clippy::disallowed_methods, reason = "tests stand outside zero and look at its files")]

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use zero_core::event::{Event, RunEnd, ToolStatus, What};
use zero_wire::Method;
use zero_wire::chat::{AgentWait, ChatSend};
use zero_wire::client::{Client, ConnectOptions, Credentials, Events, Target};
use zero_wire::handshake::{ClientId, ClientInfo, ClientMode};
use zero_wire::zero_sessions::{
    CAP_EVENTS, SESSION_EVENT, SessionEvent, ZeroSessionsEvents, ZeroSessionsOpen,
};

use crate::config::{USER, write};
use crate::gateway_process::{GatewayProcess, PATIENCE, ended};
use crate::model_server::ModelServer;
use crate::program::Program;

/// How often somebody is killed.
const KILLS: u64 = 200;
/// A turn takes about as long; somebody dies at some moment of it.
const TURN_MS: u64 = 350;
/// Makes the moments the same in every run.
const SEED: u64 = 0x5eed;

#[test]
fn whoever_is_killed_nothing_shown_is_lost_and_nothing_is_done_twice() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut lab = Lab::start().await;
        let mut random = fastrand::Rng::with_seed(SEED);
        for number in 0..KILLS {
            let after = Duration::from_millis(random.u64(0..TURN_MS));
            let told = format!("kill {number} of seed {SEED:#x}, after {after:?}");
            match number % 2 {
                0 => lab.kill_gateway(number, after, &told).await,
                _ => lab.kill_tool_host(number, after, &told).await,
            }
        }
        let log = std::fs::read_to_string(lab.zero.folder().join("log.txt")).unwrap_or_default();
        assert!(log.lines().count() > 10, "hardly anybody got as far as a call:\n{log}");
        let Ends { runs_cut, calls_cut } = lab.ends;
        assert!(runs_cut > 10 && calls_cut > 0, "nobody died in mid-turn: {:?}", lab.ends);
    });
}

struct Lab {
    zero: Program,
    _model: ModelServer,
    gateway: GatewayProcess,
    client: Client,
    events: Events,
    ends: Ends,
}

/// How often somebody died at a moment that matters.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    runs_cut: u32,
    calls_cut: u32,
}

impl Lab {
    async fn start() -> Self {
        let zero = Program::outside_tmp();
        let model = ModelServer::start();
        let allow = json!({"permissions": {"allow": ["Bash(echo:*)", "Write(log.txt)"]}});
        write(&zero, USER, model.settings(allow));
        let gateway = GatewayProcess::start(&zero);
        let (client, events) = connect(&zero, &gateway).await;
        Self { zero, _model: model, gateway, client, events, ends: Ends::default() }
    }

    /// Tools run with the gateway, and it is killed.
    async fn kill_gateway(&mut self, number: u64, after: Duration, told: &str) {
        let key = format!("agent:main:kill-{number}");
        let cwd = self.zero.folder().canonicalize().unwrap();
        self.ask::<ZeroSessionsOpen>(json!({"sessionKey": key, "cwd": cwd})).await;
        let prompt = prompt(&key, number);
        self.ask::<ChatSend>(prompt.clone()).await;
        let mut shown = Vec::new();
        let listening = async {
            while let Some(frame) = self.events.next().await {
                shown.extend(entry(frame.event.as_str(), frame.payload, &key));
            }
        };
        let _ = tokio::time::timeout(after, listening).await;
        self.gateway.kill();
        let rest = async {
            while let Some(frame) = self.events.next().await {
                shown.extend(entry(frame.event.as_str(), frame.payload, &key));
            }
        };
        tokio::time::timeout(PATIENCE, rest).await.expect("the end of a gateway is not heard");
        self.gateway = GatewayProcess::start(&self.zero);
        (self.client, self.events) = connect(&self.zero, &self.gateway).await;
        self.ask::<ChatSend>(prompt).await;
        self.check(&key, number, &shown, told).await;
    }

    /// Tools run with a client, which is killed.
    async fn kill_tool_host(&mut self, number: u64, after: Duration, told: &str) {
        let key = format!("agent:main:kill-{number}");
        let text = format!("[append line-{number}]");
        let args = ["run", "--json", "--session", &key, "--url", &self.gateway.url, &text];
        let mut host = self
            .zero
            .command(&args)
            .env("PATH", "/usr/bin:/bin")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        tokio::time::sleep(after * 2).await;
        host.kill().unwrap();
        ended(&mut host);
        let output = host.wait_with_output().unwrap();
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let whole = output.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let shown: Vec<Event> = whole.map(|line| serde_json::from_str(line).unwrap()).collect();
        self.check(&key, number, &shown, told).await;
    }

    /// Whether all is as it should be after somebody died.
    async fn check(&mut self, key: &str, number: u64, shown: &[Event], told: &str) {
        let open = self.ask::<ZeroSessionsOpen>(json!({"sessionKey": key})).await;
        for run in open.run_ids {
            self.ask::<AgentWait>(json!({"runId": run, "timeoutMs": 20_000})).await;
        }
        let ledger = self.ledger(key).await;
        for event in shown {
            assert!(ledger.contains(event), "{told}: shown and lost: {event:?} of {ledger:#?}");
        }
        self.ends.count(&ledger);
        // The same words with the same key are the same run, also when it was somebody else's.
        if let Some(run) = ledger.first().and_then(|event| event.run.as_ref()) {
            let message = format!("[append line-{number}]");
            let same = json!({"sessionKey": key, "message": message, "idempotencyKey": run});
            self.ask::<ChatSend>(same).await;
        }
        let again = json!({"sessionKey": key, "message": "hi",
            "idempotencyKey": format!("again-{number}")});
        self.ask::<ChatSend>(again).await;
        let wait = json!({"runId": format!("again-{number}"), "timeoutMs": 20_000});
        let end = self.ask::<AgentWait>(wait).await;
        assert!(end.ended_at.is_some(), "{told}: the session is stuck: {end:?}");
        let ledger = self.ledger(key).await;
        whole(&ledger, told);
        let log = std::fs::read_to_string(self.zero.folder().join("log.txt")).unwrap_or_default();
        let line = format!("line-{number}");
        let times = log.lines().filter(|other| *other == line).count();
        assert!(times <= 1, "{told}: done {times} times");
        let ran = ledger.iter().any(|event| matches!(event.what, What::ToolStarted { .. }));
        assert!(ran || times == 0, "{told}: done, and not in the ledger");
    }

    async fn ledger(&self, key: &str) -> Vec<Event> {
        self.ask::<ZeroSessionsEvents>(json!({"sessionKey": key})).await.events
    }

    async fn ask<M: Method>(&self, params: Value) -> M::Result {
        let params = serde_json::from_value(params).unwrap();
        let asked = tokio::time::timeout(PATIENCE, self.client.request::<M>(params)).await;
        asked.expect("no answer").unwrap_or_else(|error| panic!("{}: {error}", M::NAME))
    }
}

impl Ends {
    fn count(&mut self, ledger: &[Event]) {
        for event in ledger {
            match &event.what {
                What::RunEnded { end: RunEnd::Interrupted | RunEnd::Failed { .. }, .. } => {
                    self.runs_cut += 1;
                }
                What::ToolEnded {
                    status: ToolStatus::Interrupted | ToolStatus::Failed, ..
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
fn whole(ledger: &[Event], told: &str) {
    for (event, seq) in ledger.iter().zip(1..) {
        assert_eq!(event.seq, seq, "{told}: a gap");
    }
    let runs = |is: fn(&What) -> bool| {
        let runs = ledger.iter().filter(|event| is(&event.what));
        let mut runs: Vec<_> = runs.map(|event| event.run.clone().unwrap()).collect();
        runs.sort();
        runs
    };
    let prompts = runs(|what| matches!(what, What::Prompt { .. }));
    assert_eq!(prompts, runs(|what| matches!(what, What::RunEnded { .. })), "{told}: {ledger:#?}");
    assert!(prompts.windows(2).all(|two| two[0] != two[1]), "{told}: a second run: {prompts:?}");
    let calls = |of: fn(&What) -> Option<&String>| {
        let mut calls: Vec<_> = ledger.iter().filter_map(|event| of(&event.what)).collect();
        calls.sort();
        calls
    };
    let started = calls(|what| match what {
        What::ToolStarted { call, .. } => Some(call),
        _ => None,
    });
    let ended = calls(|what| match what {
        What::ToolEnded { call, .. } => Some(call),
        _ => None,
    });
    assert_eq!(started, ended, "{told}: each call ends once: {ledger:#?}");
}

fn prompt(key: &str, number: u64) -> Value {
    json!({"sessionKey": key, "message": format!("[append line-{number}]"),
        "idempotencyKey": format!("run-{number}")})
}

fn entry(name: &str, payload: Option<Value>, key: &str) -> Option<Event> {
    let payload = payload.filter(|_| name == SESSION_EVENT)?;
    let said: SessionEvent = serde_json::from_value(payload).unwrap();
    (said.session_key == key).then_some(said.event)
}

async fn connect(zero: &Program, gateway: &GatewayProcess) -> (Client, Events) {
    let file = zero.folder().join("home/.local/state/zero/gateway.token");
    let token = std::fs::read_to_string(file).unwrap();
    let mut options = ConnectOptions::new(ClientInfo {
        id: ClientId::Cli,
        display_name: None,
        version: "1".to_owned(),
        build_id: None,
        platform: "linux".to_owned(),
        device_family: None,
        model_identifier: None,
        time_zone: None,
        mode: ClientMode::Cli,
        instance_id: None,
    });
    options.caps = vec![CAP_EVENTS.to_owned()];
    options.auth = Credentials::token(token.trim().to_owned());
    let url = gateway.url.parse().unwrap();
    Client::connect(Target::Url(url), options).await.unwrap()
}
