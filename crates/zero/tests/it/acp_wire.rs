//! `zero acp` as an editor meets it: the real program on a pipe, a model that follows a script, and
//! a client that speaks the wire itself.
//!
//! Tests with a number in their name are those of the protocol's own kit for testing agents, each
//! under the name it has there.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

mod acp_client;
mod bad_input;
mod cancel;
mod client_terminals;
mod client_tool_calls;
mod client_tools;
mod command_updates;
mod config_options;
mod cuttable_proxy;
mod disconnects;
mod editor_buffers;
mod elicitation;
mod fd_exhaustion;
mod handshake;
mod malformed_lines;
mod mcp;
mod model_logins;
mod openclaw;
mod openclaw_gateway;
mod permissions;
mod prompts;
mod protocol_rules;
mod remote_gateway;
mod schema;
mod secrets;
mod session_fork;
mod session_load;
mod session_reset;
mod session_rewind;
mod session_takeover;
mod sessions;
mod settings;
mod shared_sessions;
mod stop_reasons;
mod terminal_output;
mod transport;
mod turns;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::acp_client::{AcpClient, TIMEOUT};
use crate::config::{USER_FILE, write_file};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// A person's machine: a home, a project and a model.
pub(crate) struct AcpFixture {
    zero: TestProgram,
    model: ModelServer,
    project: PathBuf,
}

impl AcpFixture {
    /// With a project that holds `hello.txt`.
    fn new() -> Self {
        Self::with_settings(json!({}))
    }

    /// The same with more settings.
    fn with_settings(settings: Value) -> Self {
        let (zero, model) = (TestProgram::outside_tmp(), ModelServer::start());
        write_file(&zero, USER_FILE, model.settings_json(settings));
        write_file(&zero, "project/hello.txt", "hello\n");
        let project = zero.folder().join("project").canonicalize().unwrap();
        Self { zero, model, project }
    }

    /// Without any model: prompts are commands.
    fn without_model() -> Self {
        let fixture = Self::new();
        write_file(&fixture.zero, USER_FILE, "{}");
        fixture
    }

    /// An agent that was shaken hands with, by a client that can nothing.
    fn start_client(&self) -> AcpClient {
        self.start_client_with(&[], json!({}))
    }

    fn start_client_with(&self, args: &[&str], can: Value) -> AcpClient {
        AcpClient::start(&self.zero, args, can)
    }

    /// What opens a session in the project.
    fn session_params(&self) -> Value {
        json!({"cwd": self.project, "mcpServers": []})
    }

    /// The same with more fields.
    fn session_params_with(&self, more: Value) -> Value {
        merge_json(self.session_params(), more)
    }

    fn project_path(&self, name: &str) -> PathBuf {
        self.project.join(name)
    }

    fn read_project_file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.project_path(name)).ok()
    }

    fn write_project_file(&self, name: &str, text: &str) {
        write_file(&self.zero, &format!("project/{name}"), text);
    }
}

impl AcpClient {
    /// A new session in the project.
    #[track_caller]
    fn open_session(&mut self, fixture: &AcpFixture) -> String {
        let made = self.call_ok("session/new", fixture.session_params());
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// The same where what stood in the way is gone; that is tried again only now and then.
    #[track_caller]
    fn open_session_eventually(&mut self, fixture: &AcpFixture) -> String {
        let by = Instant::now() + TIMEOUT;
        loop {
            match self.call("session/new", fixture.session_params()) {
                Ok(made) => return made["sessionId"].as_str().unwrap().to_owned(),
                Err(error) => assert!(Instant::now() < by, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Begins a turn.
    fn begin_prompt(&mut self, session: &str, text: &str) -> Value {
        self.request("session/prompt", prompt_params(session, text))
    }

    /// A turn, to its end.
    fn prompt(&mut self, session: &str, text: &str) -> Result<Value, Value> {
        self.call("session/prompt", prompt_params(session, text))
    }

    /// A turn that ends with this stop reason.
    #[track_caller]
    fn run_turn(&mut self, session: &str, text: &str, reason: &str) {
        let id = self.begin_prompt(session, text);
        self.expect_end(&id, reason);
    }

    /// Waits for the end of a turn.
    #[track_caller]
    fn expect_end(&mut self, prompt: &Value, reason: &str) {
        match self.wait(prompt) {
            Ok(end) => assert_eq!(end["stopReason"], reason, "{end}"),
            Err(error) => panic!("it ends with an error: {error}"),
        }
    }

    /// What the agent said in a session since a mark.
    fn message_text(&self, from: usize, session: &str) -> String {
        chunk_text(&self.updates(from, session), "agent_message_chunk")
    }
}

/// A prompt of words.
fn prompt_params(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// A prompt that the model takes as a script.
fn make_script(steps: &[&str]) -> String {
    format!("script:\n{}", steps.join("\n"))
}

/// A step of a script that calls a tool.
fn call_step(tool: &str, input: Value) -> String {
    format!("call {tool} {input}")
}

/// The words of all chunks of a kind.
fn chunk_text(updates: &[Value], kind: &str) -> String {
    let of_kind = updates.iter().filter(|update| update["sessionUpdate"] == kind);
    of_kind.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// The call of a turn that had one: all that was told of it, as a client has it at the end.
#[track_caller]
fn only_call(updates: &[Value]) -> Value {
    let calls = calls(updates);
    let [call] = &calls[..] else { panic!("not one call: {updates:#?}") };
    call.clone()
}

/// Checks that there are so many calls, and that all of them have ended like that.
#[track_caller]
fn check_all_ended(updates: &[Value], count: usize, status: &str) {
    let calls = calls(updates);
    let ended: Vec<&Value> = calls.iter().map(|call| &call["status"]).collect();
    assert_eq!(ended, vec![status; count], "{calls:#?}");
}

/// The calls in the order in which they were announced, each with all that was told of it.
fn calls(updates: &[Value]) -> Vec<Value> {
    let mut calls: Vec<Value> = Vec::new();
    for update in updates {
        match update["sessionUpdate"].as_str() {
            Some("tool_call") => calls.push(update.clone()),
            Some("tool_call_update") => {
                let call = calls.iter_mut().find(|call| call["toolCallId"] == update["toolCallId"]);
                let call = call.expect("a call that was announced");
                *call = merge_json(call.take(), update.clone());
            }
            _ => {}
        }
    }
    calls
}

/// The statuses that were told of a call, in order.
fn statuses(updates: &[Value], call: &Value) -> Vec<String> {
    let of_call = updates.iter().filter(|update| update["toolCallId"] == *call);
    let status = |update: &Value| match update["status"].as_str() {
        Some(status) => Some(status.to_owned()),
        // That is what it is when nothing is said.
        None => (update["sessionUpdate"] == "tool_call").then(|| "pending".to_owned()),
    };
    let mut statuses: Vec<String> = of_call.filter_map(status).collect();
    statuses.dedup();
    statuses
}

/// All texts in the content of a call.
fn call_text(call: &Value) -> String {
    let content = call["content"].as_array().into_iter().flatten();
    content.filter_map(|content| content["content"]["text"].as_str()).collect()
}

fn merge_json(mut one: Value, other: Value) -> Value {
    for (name, value) in other.as_object().unwrap() {
        one[name] = value.clone();
    }
    one
}
