//! The events a client receives for a run, one by one.

use super::*;
use crate::testing::{run_id, run_ledger};
use zero_core::event::{ApprovalOption, ApprovalSubject, ResultContent, ToolCallStatus};
use zero_core::{FileDiff, FileLocation, ResultDisplay, ToolOutcome};

const ALL: RelayInterest = RelayInterest { tools: true, approvals: true };

fn session_info() -> Arc<RelaySessionInfo> {
    Arc::new(RelaySessionInfo {
        key: "agent:main:main".to_owned(),
        agent: "main".to_owned(),
        host: "gateway".to_owned(),
    })
}

fn relay(interest: RelayInterest) -> OpenClawRelay {
    OpenClawRelay::from_history(session_info(), interest, [], &[])
}

/// All events as sent on the wire, one per line.
fn wire_lines(relayed: &[RelayEvent]) -> String {
    let line = |relayed: &RelayEvent| {
        let (name, payload) = match relayed {
            RelayEvent::Chat(event) => (CHAT, serde_json::to_value(event)),
            RelayEvent::Agent(event) => (AGENT, serde_json::to_value(event)),
            RelayEvent::ApprovalRequested(event) => {
                (APPROVAL_REQUESTED, serde_json::to_value(event))
            }
            RelayEvent::ApprovalResolved(event) => (APPROVAL_RESOLVED, serde_json::to_value(event)),
        };
        format!("{name} {}", payload.unwrap())
    };
    relayed.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The events for these entries, with a flush after each one.
fn relay_events(relay: &mut OpenClawRelay, events: &[Event]) -> Vec<RelayEvent> {
    let mut relayed = Vec::new();
    for event in events {
        relay.handle_event(event, SendCapacity::Ample, &mut relayed);
        relay.flush(FlushScope::EnoughNew, &mut relayed);
    }
    relayed
}

fn prompt() -> EventKind {
    EventKind::Prompt { text: "fix it".to_owned(), attachments: Vec::new() }
}

fn run_started() -> EventKind {
    EventKind::RunStarted { agent: "main".to_owned(), model: "gpt".to_owned(), parent: None }
}

fn text(text: &str) -> EventKind {
    EventKind::Text { text: text.to_owned() }
}

fn tool_started(call: &str) -> EventKind {
    EventKind::ToolStarted {
        call: call.to_owned(),
        name: "edit_file".to_owned(),
        title: "Edit".to_owned(),
        kind: ToolKind::Edit,
        input: json!({"path": "a.rs"}),
        locations: Vec::new(),
        waits: false,
        transcript_id: None,
    }
}

fn tool_ended(call: &str, status: ToolCallStatus) -> EventKind {
    let diff = FileDiff {
        path: "/w/a.rs".to_owned(),
        unified: "@@ -1 +1 @@\n-a\n+b\n".to_owned(),
        old_text: None,
        new_text: None,
        partial: false,
    };
    let outcome = ToolOutcome::from_content(
        status,
        vec![ResultContent::Text { text: "done".to_owned() }],
        Some(ResultDisplay::Diff(diff)),
        vec![FileLocation { path: "/w/a.rs".into(), line: Some(1) }],
    );
    EventKind::tool_ended(call, outcome)
}

fn approval_requested() -> EventKind {
    let option = |id: &str| ApprovalOption { id: id.to_owned(), name: id.to_owned() };
    EventKind::ApprovalRequested(ApprovalRequest {
        subject: ApprovalSubject::Call,
        id: "q1".to_owned(),
        call: "c1".to_owned(),
        tool: "Edit".to_owned(),
        title: "Edit a.rs".to_owned(),
        reason: "it changes a file".to_owned(),
        risk: "medium".to_owned(),
        commands: Vec::new(),
        effects: Vec::new(),
        preview: None,
        input: None,
        options: vec![option("allow_once"), option("allow_always"), option("reject_once")],
        cwd: "/w".to_owned(),
        expires_ms: 99_000,
        subagent: None,
    })
}

fn approval_resolved(answer: &str) -> EventKind {
    let (id, answer) = ("q1".to_owned(), answer.to_owned());
    EventKind::ApprovalResolved { id, answer, by: "ann".to_owned() }
}

fn run_ended(end: RunOutcome) -> EventKind {
    let usage = TokenUsage { input_tokens: 10, output_tokens: 2, ..TokenUsage::default() };
    EventKind::RunEnded { end, usage }
}

/// A run that contains every kind of entry.
fn whole_run() -> Vec<Event> {
    run_ledger(
        "r1",
        [
            prompt(),
            run_started(),
            EventKind::Thought { text: "hm".to_owned() },
            text("I look"),
            tool_started("c1"),
            approval_requested(),
            approval_resolved("allow_once"),
            EventKind::ToolUpdated {
                call: "c1".to_owned(),
                title: Some("Edit a.rs".to_owned()),
                kind: None,
                locations: Vec::new(),
                progress: Some(zero_core::CallProgress::new("half")),
                begins: false,
                subagent: None,
            },
            tool_ended("c1", ToolCallStatus::Completed),
            EventKind::UsageReported {
                run_usage: TokenUsage {
                    input_tokens: 10,
                    output_tokens: 2,
                    ..TokenUsage::default()
                },
                context_tokens: 12,
                context_window: 100,
            },
            text("Fixed"),
            text("."),
            run_ended(RunOutcome::Completed),
        ],
    )
}

#[test]
fn full_run_is_relayed_with_all_interests() {
    let mut relay = relay(ALL);
    let relayed = relay_events(&mut relay, &whole_run());
    assert!(!relay.is_busy());
    insta::assert_snapshot!(wire_lines(&relayed));
}

#[test]
fn full_run_is_relayed_as_chat_only() {
    let relayed = relay_events(&mut relay(RelayInterest::default()), &whole_run());
    insta::assert_snapshot!(wire_lines(&relayed));
}

/// The text that the OpenClaw bridge forwards: joined text blocks with the end trimmed, of which it
/// takes the new part.
fn bridge_text(relayed: &[RelayEvent]) -> String {
    let mut sent = String::new();
    for relayed in relayed {
        let RelayEvent::Chat(event) = relayed else { continue };
        let message = match &event.state {
            ChatRunState::Delta { message, .. } => message,
            ChatRunState::Final { message: Some(message), .. } => message,
            _ => continue,
        };
        let texts = message.content.iter().filter_map(|block| match block {
            zero_wire::chat::ChatBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        let full = texts.collect::<Vec<_>>().join("\n");
        let full = full.trim_end();
        assert!(full.starts_with(&sent), "{full:?} does not go on from {sent:?}");
        sent = full.to_owned();
    }
    sent
}

fn deltas(relayed: &[RelayEvent]) -> Vec<String> {
    let delta = |relayed: &RelayEvent| match relayed {
        RelayEvent::Chat(event) => match &event.state {
            ChatRunState::Delta { delta_text, .. } => Some(delta_text.clone()),
            _ => None,
        },
        _ => None,
    };
    relayed.iter().filter_map(delta).collect()
}

#[test]
fn text_grows_monotonically_across_tool_calls() {
    let events = run_ledger(
        "r",
        [
            prompt(),
            text("First \n"),
            tool_started("a"),
            tool_ended("a", ToolCallStatus::Failed),
            text("  second"),
            tool_started("b"),
            tool_started("c"),
            text("third"),
            run_ended(RunOutcome::MaxTokens),
        ],
    );
    let relayed = relay_events(&mut relay(ALL), &events);
    assert_eq!(bridge_text(&relayed), "First \n\n  second\n\nthird");
    assert_eq!(deltas(&relayed).concat(), "First \n\n  second\n\nthird");
    assert_eq!(run_text(&events, &run_id("r")), "First \n\n  second\n\nthird");
}

#[test]
fn run_sequence_numbers_have_no_gaps() {
    let relayed = relay_events(&mut relay(ALL), &whole_run());
    let seqs = relayed.iter().filter_map(|relayed| match relayed {
        RelayEvent::Chat(event) => Some(event.seq),
        RelayEvent::Agent(event) => Some(event.seq),
        _ => None,
    });
    let seqs: Vec<u64> = seqs.collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[track_caller]
fn check_end(end: RunOutcome, expected: &str) {
    let events = run_ledger("r", [prompt(), run_started(), text("so far"), run_ended(end.clone())]);
    let relayed = relay_events(&mut relay(ALL), &events);
    let is_last = |relayed: &&RelayEvent| match relayed {
        RelayEvent::Chat(event) => !matches!(event.state, ChatRunState::Delta { .. }),
        _ => false,
    };
    let last: Vec<&RelayEvent> = relayed.iter().filter(is_last).collect();
    let [RelayEvent::Chat(event)] = last.as_slice() else { panic!("not one end but {last:?}") };
    let event = serde_json::to_value(event).unwrap();
    let text = &event["message"]["content"][0]["text"];
    assert_eq!(text, "so far");
    assert_eq!(event["state"], expected, "{end:?}");
}

#[test]
fn every_run_ends_once_and_keeps_its_text() {
    check_end(RunOutcome::Completed, "final");
    check_end(RunOutcome::MaxTurns { turns: 3 }, "final");
    check_end(RunOutcome::Aborted { by: "rpc".to_owned() }, "aborted");
    check_end(RunOutcome::Refused { message: "no".to_owned() }, "error");
    check_end(RunOutcome::Failed { kind: "auth".to_owned(), message: "no".to_owned() }, "error");
    check_end(RunOutcome::Interrupted, "error");
}

#[test]
fn ended_run_emits_nothing() {
    let mut events =
        run_ledger("r", [prompt(), text("a"), run_ended(RunOutcome::Completed), text("ghost")]);
    events.extend(run_ledger("never-begun", [text("ghost"), run_ended(RunOutcome::Completed)]));
    let relayed = relay_events(&mut relay(ALL), &events);
    assert!(!wire_lines(&relayed).contains("ghost"));
    assert!(!wire_lines(&relayed).contains("never-begun"));
}

#[test]
fn late_subscriber_receives_full_text_first() {
    let events = whole_run();
    let (earlier, later) = events.split_at(6);
    let mut late = OpenClawRelay::from_history(session_info(), ALL, [], earlier);
    let mut relayed = Vec::new();
    late.catch_up(&mut relayed);
    assert_eq!(deltas(&relayed), ["I look"]);
    assert!(
        matches!(relayed.last(), Some(RelayEvent::ApprovalRequested(asked)) if asked.id == "q1")
    );
    relayed.extend(relay_events(&mut late, later));
    assert_eq!(bridge_text(&relayed), "I look\n\nFixed.");
    assert!(
        wire_lines(&relayed).contains(r#""name":"edit_file","toolCallId":"c1","isError":false"#)
    );
}

#[test]
fn subscriber_after_run_end_receives_nothing() {
    let mut late = OpenClawRelay::from_history(session_info(), ALL, [], &whole_run());
    let mut relayed = Vec::new();
    late.catch_up(&mut relayed);
    assert_eq!(relayed, []);
    assert!(!late.is_busy());
}

#[test]
fn run_started_before_history_still_ends() {
    let events = run_ledger("old", [text("tail"), run_ended(RunOutcome::Completed)]);
    let (earlier, later) = events.split_at(1);
    let mut late = OpenClawRelay::from_history(session_info(), ALL, [run_id("old")], earlier);
    let relayed = relay_events(&mut late, later);
    assert_eq!(bridge_text(&relayed), "tail");
    assert!(!late.is_busy());
}

#[test]
fn runs_of_one_session_do_not_mix() {
    let mut events = run_ledger(
        "a",
        [prompt(), text("one"), prompt(), text("!"), run_ended(RunOutcome::Completed)],
    );
    events[2].run = Some(run_id("b"));
    let mut relay = relay(ALL);
    let relayed = relay_events(&mut relay, &events);
    assert_eq!(bridge_text(&relayed), "one!");
    assert!(relay.is_busy());
    let relayed = relay_events(
        &mut relay,
        &run_ledger("b", [run_started(), text("two"), run_ended(RunOutcome::Completed)]),
    );
    assert_eq!(bridge_text(&relayed), "two");
}

#[test]
fn bytes_sent_are_proportional_to_reply() {
    let mut relay = relay(RelayInterest::default());
    let (mut relayed, mut text_bytes, mut bytes) = (Vec::new(), 0, 0);
    relay.handle_event(&run_ledger("r", [prompt()])[0], SendCapacity::Ample, &mut relayed);
    for event in run_ledger("r", std::iter::repeat_n(text("0123456789"), 6_000)) {
        relay.handle_event(&event, SendCapacity::Ample, &mut relayed);
        relay.flush(FlushScope::EnoughNew, &mut relayed);
        text_bytes += 10;
        bytes += wire_lines(&relayed).len();
        relayed.clear();
    }
    assert!(bytes < text_bytes * 3 * NEW_SHARE, "{bytes} bytes for {text_bytes}");
    assert!(relay.has_held_text());
    relay.flush(FlushScope::All, &mut relayed);
    assert!(!relay.has_held_text());
}

#[test]
fn endless_reply_is_truncated_with_notice() {
    let mut relay = relay(RelayInterest::default());
    let mut relayed = Vec::new();
    let long = "x".repeat(REPLY_BYTES_MAX / 2);
    let events = run_ledger("r", [prompt(), text(&long), text(&long), text("y"), text("z")]);
    for event in &events {
        relay.handle_event(event, SendCapacity::Ample, &mut relayed);
    }
    relay.flush(FlushScope::All, &mut relayed);
    assert!(bridge_text(&relayed).ends_with(REPLY_CUT));
    assert!(!bridge_text(&relayed).contains('z'));
}

/// Size of the events on the wire, in bytes.
fn sent_bytes(relayed: &[RelayEvent]) -> usize {
    let written = relayed.iter().map(|relayed| match relayed {
        RelayEvent::Chat(event) => serde_json::to_string(event),
        RelayEvent::Agent(event) => serde_json::to_string(event),
        RelayEvent::ApprovalRequested(event) => serde_json::to_string(event),
        RelayEvent::ApprovalResolved(event) => serde_json::to_string(event),
    });
    written.map(|written| written.unwrap().len()).sum()
}

#[test]
fn one_reply_always_fits_send_queue() {
    let limits = crate::GatewayLimits::default();
    for character in ["x", "\u{1}", "\"", "é", "🦀"] {
        let long = character.repeat(9 * 1024 * 1024 / character.len());
        let thought = EventKind::Thought { text: long.clone() };
        let events =
            run_ledger("r", [prompt(), thought, text(&long), run_ended(RunOutcome::Completed)]);
        let relayed = relay_events(&mut relay(ALL), &events);
        let bytes = sent_bytes(&relayed);
        assert!(bytes < limits.buffered_bytes_max * 7 / 8, "{character:?}: {bytes}");
        let largest = relayed.iter().map(|one| sent_bytes(std::slice::from_ref(one))).max();
        assert!(largest.unwrap() < limits.payload_bytes_max, "{character:?}: {largest:?}");
        // The part that fits is present.
        assert!(bridge_text(&relayed).starts_with(&character.repeat(100_000)), "{character:?}");
    }
}

#[test]
fn text_is_held_at_low_capacity_and_sent_at_end() {
    let mut relay = relay(ALL);
    let mut relayed = Vec::new();
    let events = run_ledger(
        "r",
        [
            prompt(),
            text("one"),
            tool_started("a"),
            tool_ended("a", ToolCallStatus::Completed),
            text("two"),
            run_ended(RunOutcome::Completed),
        ],
    );
    for event in &events {
        relay.handle_event(event, SendCapacity::Low, &mut relayed);
    }
    assert_eq!(deltas(&relayed), [""; 0]);
    assert_eq!(bridge_text(&relayed), "one\n\ntwo");
}

#[test]
fn approvals_go_only_to_approvers() {
    let mut events = run_ledger(
        "r",
        [prompt(), approval_requested(), approval_resolved("expired"), approval_requested()],
    );
    // Also if the entry names no run.
    events[3].run = None;
    let relayed = relay_events(&mut relay(ALL), &events);
    let about_questions = |relayed: &&RelayEvent| {
        matches!(relayed, RelayEvent::ApprovalRequested(_) | RelayEvent::ApprovalResolved(_))
    };
    assert_eq!(relayed.iter().filter(about_questions).count(), 3);
    assert!(
        wire_lines(&relayed).contains(r#"exec.approval.resolved {"id":"q1","decision":"deny""#)
    );
    let deaf = RelayInterest { tools: true, approvals: false };
    let relayed = relay_events(&mut relay(deaf), &events);
    assert_eq!(relayed.iter().filter(about_questions).count(), 0);
}

#[test]
fn budget_that_ended_a_run_is_its_last_paragraph() {
    let message = "the budget of the run is used up".to_owned();
    let end = RunOutcome::Budget { message: message.clone() };
    let events = run_ledger("r1", [prompt(), run_started(), text("half"), run_ended(end)]);
    let relayed = relay_events(&mut relay(RelayInterest::default()), &events);
    assert_eq!(bridge_text(&relayed), "half\n\n[the budget of the run is used up]");
    let is_said = relayed.iter().any(|relayed| match relayed {
        RelayEvent::Chat(event) => matches!(&event.state, ChatRunState::Final { error_message, .. } if error_message.as_deref() == Some(&message)),
        _ => false,
    });
    assert!(is_said, "{}", wire_lines(&relayed));
}
