//! Tests for the updates of each entry and for their order.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_core::event::{
    ApprovalOption, Event, EventKind, PlanEntry, PromptAttachment, ResultContent, TokenUsage,
    ToolCallStatus,
};
use zero_core::{FileDiff, ResultDisplay, ToolError, ToolResultPart};

use super::*;

mod calls;
mod interleaving;
mod messages;
mod questions;
mod terminals;

fn plain_features() -> ClientFeatures {
    ClientFeatures::default()
}

fn terminal_features() -> ClientFeatures {
    ClientFeatures { shows_output: true, ..ClientFeatures::default() }
}

fn presenter(caps: ClientFeatures) -> UpdatePresenter {
    UpdatePresenter::new(caps, PathBuf::from("/w"))
}

fn run_event(run: &str, kind: EventKind) -> Event {
    Event { seq: 7, run: Some(RunId::new(run).unwrap()), time_ms: 1_000, kind }
}

fn event(kind: EventKind) -> Event {
    run_event("r1", kind)
}

/// The updates as JSON; checks that the schema reads each of them back unchanged.
#[track_caller]
fn updates_json(updates: Vec<SessionUpdate>) -> Vec<Value> {
    let json = |update: SessionUpdate| {
        let json = serde_json::to_value(&update).unwrap();
        let back: SessionUpdate = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(back, update);
        json
    };
    updates.into_iter().map(json).collect()
}

impl UpdatePresenter {
    #[track_caller]
    fn present_live(&mut self, kind: EventKind) -> Vec<Value> {
        updates_json(self.present_entry(&event(kind), DeliveryMode::Live))
    }

    #[track_caller]
    fn present_replay(&mut self, kind: EventKind) -> Vec<Value> {
        updates_json(self.present_entry(&event(kind), DeliveryMode::Replay))
    }
}

#[track_caller]
fn check(updates: Vec<Value>, expected: Value) {
    assert_eq!(Value::from(updates), expected);
}

fn text(text: &str) -> EventKind {
    EventKind::Text { text: text.to_owned() }
}

fn call_started(call: &str, name: &str, kind: ToolKind, input: Value) -> EventKind {
    EventKind::ToolStarted {
        call: call.to_owned(),
        name: name.to_owned(),
        title: name.to_owned(),
        kind,
        input,
        locations: vec![],
        waits: false,
        transcript_id: None,
    }
}

fn text_content(text: &str) -> Vec<ResultContent> {
    vec![ResultContent::Text { text: text.to_owned() }]
}

fn call_ended(call: &str, status: ToolCallStatus, text: &str) -> EventKind {
    let outcome = ToolOutcome::from_content(status, text_content(text), None, vec![]);
    EventKind::tool_ended(call, outcome)
}

/// The end of a command with some text and structured output.
fn command_ended(call: &str, text: &str, structured: Value) -> EventKind {
    EventKind::tool_ended(call, ToolResult { structured, ..ToolResult::text(text) }.into())
}

fn run_ended(end: RunOutcome) -> EventKind {
    EventKind::RunEnded { end, usage: TokenUsage::default() }
}

fn request(call: &str, commands: &[&str]) -> ApprovalRequest {
    ApprovalRequest {
        subject: zero_core::event::ApprovalSubject::Call,
        id: "ask_1".to_owned(),
        call: call.to_owned(),
        tool: "Bash".to_owned(),
        title: "Tidy up".to_owned(),
        reason: "no rule allows it".to_owned(),
        risk: "high".to_owned(),
        commands: commands.iter().map(|line| (*line).to_owned()).collect(),
        effects: vec![],
        preview: None,
        input: None,
        options: vec![ApprovalOption { id: "allow_once".to_owned(), name: "Allow".to_owned() }],
        cwd: "/w".to_owned(),
        expires_ms: 0,
        subagent: None,
    }
}

fn location(path: &str, line: Option<u64>) -> FileLocation {
    FileLocation { path: path.into(), line }
}
