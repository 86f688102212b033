//! Runs from end to end: requests of a client and the events it receives.

use serde_json::{Value, json};
use zero_core::ContextPartKind;
use zero_session::event::{EventKind, RunOutcome};
use zero_wire::EventFrame;
use zero_wire::chat::{
    AgentWait, AgentWaitStatus, ChatAbort, ChatHistory, ChatSend, ChatSendStatus, ReplyDisposition,
};
use zero_wire::method::TokenScope;
use zero_wire::sessions::{
    SessionsDelete, SessionsGet, SessionsList, SessionsPatch, SessionsReset, SessionsResolve,
};
use zero_wire::usage::ZeroUsage;
use zero_wire::zero_sessions::{
    CAP_EVENTS, SessionEvent, ZeroSessionsContext, ZeroSessionsEvents, ZeroSessionsFork,
    ZeroSessionsList, ZeroSessionsOpen, ZeroSessionsPrompts, ZeroSessionsRewind, ZeroSessionsSet,
    ZeroSessionsShow, ZeroSessionsSubscribe,
};

use crate::test_gateway::{TestClient, TestGateway};

fn send_params(run: &str) -> Value {
    json!({"sessionKey": "main", "message": "hello", "idempotencyKey": run})
}

fn event_text(event: &EventFrame) -> String {
    let payload = event.payload.as_ref().unwrap();
    let blocks = payload["message"]["content"].as_array().cloned().unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn openclaw_client_receives_run_from_first_word() {
    let fixture = TestGateway::start(&["Hello there"]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &["tool-events"]).await;
    let ack = ann.request::<ChatSend>(send_params("run-1")).await;
    assert_eq!((ack.run_id.as_str(), ack.status), ("run-1", ChatSendStatus::Started));
    let heard = ann.collect_until_end().await;
    let first = heard.first().unwrap().payload.as_ref().unwrap();
    assert_eq!((&first["stream"], &first["data"]["phase"]), (&json!("lifecycle"), &json!("start")));
    let last = heard.last().unwrap();
    assert_eq!(event_text(last), "Hello there ");
    let payload = last.payload.as_ref().unwrap();
    assert_eq!(payload["stopReason"], "stop");
    assert_eq!(payload["sessionKey"], "agent:main:main");
    // The sequence numbers of the run have no gap.
    let seqs = heard.iter().map(|event| event.payload.as_ref().unwrap()["seq"].as_u64().unwrap());
    assert!(seqs.eq(1..=heard.len() as u64));

    // The same prompt is the same run.
    let again = ann.request::<ChatSend>(send_params("run-1")).await;
    assert_eq!(again.status, ChatSendStatus::Ok);
    let waited = ann.request::<AgentWait>(json!({"runId": "run-1", "timeoutMs": 0})).await;
    let reply = waited.terminal_reply.unwrap();
    assert_eq!(
        (waited.status, reply.disposition),
        (AgentWaitStatus::Ok, ReplyDisposition::Visible)
    );
    assert_eq!(reply.text, "Hello there ");
    let history = ann.request::<ChatHistory>(json!({"sessionKey": "main"})).await;
    let roles: Vec<&str> = history.messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant"]);
}

#[tokio::test]
async fn aborted_run_reports_abort_once() {
    let fixture = TestGateway::start(&["Working @hang"]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    ann.collect_until(|name, payload| name == "chat" && payload["state"] == "delta").await;
    let stopped = ann.request::<ChatAbort>(json!({"sessionKey": "main"})).await;
    assert_eq!((stopped.aborted, stopped.run_ids), (true, vec!["run-1".to_owned()]));
    let heard = ann.collect_until_end().await;
    let payload = heard.last().unwrap().payload.as_ref().unwrap();
    assert_eq!((&payload["state"], &payload["stopReason"]), (&json!("aborted"), &json!("rpc")));
    assert_eq!(event_text(heard.last().unwrap()), "Working ");
    let again = ann.request::<ChatAbort>(json!({"sessionKey": "main"})).await;
    assert!(again.ok && !again.aborted);
    let waited = ann.request::<AgentWait>(json!({"runId": "run-1"})).await;
    assert_eq!(waited.status, AgentWaitStatus::Error);
}

#[tokio::test]
async fn steering_prompt_stops_one_run_and_interrupting_prompt_stops_all() {
    let prompt = |run: &str, mode: Value| {
        json!({
            "sessionKey": "main", "message": format!("prompt {run}"), "idempotencyKey": run, "queueMode": mode,
        })
    };
    for (mode, waiting) in [("steer", AgentWaitStatus::Ok), ("interrupt", AgentWaitStatus::Error)] {
        let fixture = TestGateway::start(&["Working @hang", "Now", "Then"]).await;
        let mut ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
        ann.request::<ChatSend>(prompt("run-1", json!("followup"))).await;
        ann.collect_until(|name, payload| name == "chat" && payload["state"] == "delta").await;
        ann.request::<ChatSend>(prompt("run-2", Value::Null)).await;
        ann.request::<ChatSend>(prompt("run-3", json!(mode))).await;
        let ended = async |run| ann.request::<AgentWait>(json!({"runId": run})).await;
        assert_eq!(ended("run-1").await.status, AgentWaitStatus::Error, "{mode}");
        let (now, then) = (ended("run-3").await, ended("run-2").await);
        assert_eq!((now.status, then.status), (AgentWaitStatus::Ok, waiting), "{mode}");
        assert_eq!(now.terminal_reply.unwrap().text.trim(), "Now", "{mode}");
    }
}

#[tokio::test]
async fn late_client_receives_text_so_far() {
    let fixture = TestGateway::start(&["Once upon a @hang"]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    let all = |name: &str, payload: &Value| {
        let text = &payload["message"]["content"][0]["text"];
        name == "chat" && text == "Once upon a "
    };
    ann.collect_until(all).await;
    let mut late = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    let waited = late.request::<AgentWait>(json!({"runId": "run-1", "timeoutMs": 0})).await;
    assert_eq!(waited.status, AgentWaitStatus::Timeout);
    let heard = late.collect_until(|name, _| name == "chat").await;
    let last = heard.last().unwrap();
    assert_eq!(event_text(last), "Once upon a ");
    assert_eq!(last.payload.as_ref().unwrap()["deltaText"], "Once upon a ");
    late.request::<ChatAbort>(json!({"sessionKey": "main", "runId": "run-1"})).await;
    late.collect_until_end().await;
    ann.collect_until_end().await;
}

#[tokio::test]
async fn native_client_receives_ledger_entries() {
    let fixture = TestGateway::start(&["Hi"]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &["zero-events"]).await;
    let open = ann.request::<ZeroSessionsOpen>(json!({"sessionKey": "main", "cwd": "/tmp"})).await;
    assert_eq!((open.session_key.as_str(), open.cwd.as_deref()), ("agent:main:main", Some("/tmp")));
    ann.request::<ChatSend>(send_params("run-1")).await;
    let mut heard = Vec::new();
    loop {
        let event = ann.next_event().await;
        assert_eq!(event.event, "zero.session.event");
        let event: SessionEvent = serde_json::from_value(event.payload.unwrap()).unwrap();
        let over =
            matches!(event.event.kind, EventKind::RunEnded { end: RunOutcome::Completed, .. });
        heard.push(event.event);
        if over {
            break;
        }
    }
    let params = json!({"sessionKey": "main", "after": open.last_seq});
    let replayed = ann.request::<ZeroSessionsEvents>(params).await;
    assert_eq!(replayed.events[..heard.len()], heard[..]);
    let subscribed = ann.request::<ZeroSessionsSubscribe>(json!({"sessionKey": "main"})).await;
    assert!(subscribed.last_seq >= heard.last().unwrap().seq);
}

#[tokio::test]
async fn session_of_other_owner_is_hidden() {
    const ANNS: &str = "owner:ann:agent:main:main";
    let fixture = TestGateway::start(&["mine", "ours"]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    let mut bob = fixture.connect("bob", &[TokenScope::Write], &[]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    ann.collect_until_end().await;
    let missing = format!("InvalidRequest No session found: {ANNS}");
    let send = json!({"sessionKey": ANNS, "message": "x", "idempotencyKey": "run-2"});
    assert_eq!(bob.expect_refusal::<ChatSend>(send).await, missing);
    assert_eq!(
        bob.expect_refusal::<ZeroSessionsSubscribe>(json!({"sessionKey": ANNS})).await,
        missing
    );
    let open = json!({"sessionKey": ANNS, "cwd": "/tmp"});
    assert_eq!(bob.expect_refusal::<ZeroSessionsOpen>(open).await, missing);
    assert_eq!(ann.request::<ZeroSessionsOpen>(json!({"sessionKey": "main"})).await.cwd, None);
    let resolved = bob.expect_refusal::<SessionsResolve>(json!({"key": ANNS})).await;
    assert_eq!(resolved, missing);
    assert_eq!(
        bob.expect_refusal::<SessionsPatch>(json!({"key": ANNS, "label": "x"})).await,
        missing
    );
    assert_eq!(bob.request::<SessionsList>(json!({})).await.total_count, 0);
    assert!(bob.request::<SessionsGet>(json!({"key": ANNS})).await.messages.is_empty());
    let waited = bob.request::<AgentWait>(json!({"runId": "run-1", "timeoutMs": 0})).await;
    assert_eq!((waited.status, waited.terminal_reply), (AgentWaitStatus::Timeout, None));
    assert!(!bob.request::<ChatAbort>(json!({"sessionKey": ANNS})).await.aborted);
    // The id of another owner's run is free, so it reveals nothing. Bob receives only the events of
    // his own session.
    let own = json!({"sessionKey": "bobs", "message": "x", "idempotencyKey": "run-1"});
    bob.request::<ChatSend>(own).await;
    let heard = bob.collect_until_end().await;
    let keys = heard.iter().map(|event| event.payload.as_ref().unwrap()["sessionKey"].clone());
    assert!(keys.into_iter().all(|key| key == "agent:main:bobs"));
    // An administrator sees all sessions.
    let root = fixture.connect("root", &[TokenScope::Admin], &[]).await;
    assert_eq!(root.request::<SessionsList>(json!({})).await.total_count, 2);
    let reset = root.request::<SessionsReset>(json!({"key": ANNS})).await;
    assert!(reset.entry.session_id.ends_with(".2"), "{}", reset.entry.session_id);
    assert!(ann.request::<SessionsGet>(json!({"key": "main"})).await.messages.is_empty());
}

#[tokio::test]
async fn same_key_of_two_owners_is_two_sessions() {
    let fixture = TestGateway::start(&["for ann", "for bob"]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    let mut bob = fixture.connect("bob", &[TokenScope::Write], &[]).await;
    let mut root = fixture.connect("root", &[TokenScope::Admin], &[CAP_EVENTS]).await;
    for (client, run) in [(&mut ann, "run-1"), (&mut bob, "run-2")] {
        client.request::<ChatSend>(send_params(run)).await;
        let heard = client.collect_until_end().await;
        let payloads = heard.iter().map(|event| event.payload.as_ref().unwrap());
        assert!(payloads.into_iter().all(|payload| payload["sessionKey"] == "agent:main:main"));
        let label = json!({"key": "main", "label": "same"});
        assert_eq!(client.request::<SessionsPatch>(label).await.key, "agent:main:main");
        let found = client.request::<SessionsResolve>(json!({"label": "same"})).await;
        assert_eq!(found.key.as_deref(), Some("agent:main:main"));
        assert_eq!(client.request::<SessionsList>(json!({})).await.total_count, 1);
    }
    for (client, text) in [(&ann, "for ann"), (&bob, "for bob")] {
        let messages = client.request::<SessionsGet>(json!({"key": "main"})).await.messages;
        assert!(serde_json::to_string(&messages).unwrap().contains(text), "{messages:?}");
    }
    // An administrator tells them apart, by the keys that are listed.
    let list = root.request::<ZeroSessionsList>(json!({})).await.sessions;
    let mut keys: Vec<String> = list.into_iter().map(|session| session.session_key).collect();
    keys.sort();
    assert_eq!(keys, ["owner:ann:agent:main:main", "owner:bob:agent:main:main"]);
    for key in &keys {
        let watched = root.request::<ZeroSessionsSubscribe>(json!({"sessionKey": key})).await;
        assert_eq!(watched.session_key, *key);
    }
    let renamed = json!({"key": "main", "label": "anns"});
    ann.request::<SessionsPatch>(renamed).await;
    let event = root.next_event().await.payload.unwrap();
    assert_eq!(event["sessionKey"], keys[0], "{event}");
    root.request::<SessionsDelete>(json!({"key": keys[1]})).await;
    assert_eq!(bob.request::<SessionsList>(json!({})).await.total_count, 0);
    assert_eq!(ann.request::<SessionsList>(json!({})).await.total_count, 1);
    let own = root.request::<SessionsGet>(json!({"key": "main"})).await;
    assert!(own.messages.is_empty(), "it has no session of its own");
}

/// The texts of a session's messages.
async fn message_texts(client: &TestClient, key: &str) -> Vec<String> {
    let messages = client.request::<SessionsGet>(json!({"key": key})).await.messages;
    messages
        .iter()
        .map(|message| {
            let blocks = serde_json::to_value(message).unwrap()["content"].take();
            let blocks = blocks.as_array().unwrap().clone();
            blocks.iter().filter_map(|block| block["text"].as_str()).collect()
        })
        .collect()
}

#[tokio::test]
async fn usage_is_that_of_visible_owners() {
    let fixture = TestGateway::start(&["One", "Two"]).await;
    let admin = fixture.connect("root", &[TokenScope::Admin], &[]).await;
    for (name, run) in [("ann", "run-1"), ("bob", "run-2")] {
        let mut client = fixture.connect(name, &[TokenScope::Write], &[]).await;
        client.request::<ChatSend>(send_params(run)).await;
        client.collect_until_end().await;
        let own = client.request::<ZeroUsage>(json!({"by": "owner"})).await;
        let names: Vec<&str> = own.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!((names, own.total.runs), (vec![name], 1));
        let shown = client.request::<ZeroSessionsShow>(json!({"sessionKey": "main"})).await;
        assert_eq!(own.total.usage.output_tokens, shown.usage.output_tokens);
    }
    let all = admin.request::<ZeroUsage>(json!({"by": "owner"})).await;
    assert_eq!((all.rows.len(), all.total.runs, all.omitted), (2, 2, 0));
    let later = admin.request::<ZeroUsage>(json!({"sinceMs": i64::MAX})).await;
    assert_eq!((later.rows.len(), later.total.runs), (0, 0));
}

#[tokio::test]
async fn fork_is_a_copy_of_the_same_owner() {
    let fixture = TestGateway::start(&["One", "Two", "Three", "Four @hang", "Five"]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    ann.collect_until_end().await;
    let copied = json!({"sessionKey": "main", "key": "copy"});
    let forked = ann.request::<ZeroSessionsFork>(copied.clone()).await;
    assert_eq!(forked.session_key, "agent:main:copy");
    let source = ann.request::<ZeroSessionsShow>(json!({"sessionKey": "main"})).await;
    assert_ne!(forked.session_id, source.session_id);
    assert_eq!(message_texts(&ann, "copy").await, ["hello", "One "]);
    // Each goes on alone.
    for (key, run) in [("copy", "run-2"), ("main", "run-3")] {
        let send = json!({"sessionKey": key, "message": key, "idempotencyKey": run});
        ann.request::<ChatSend>(send).await;
        ann.collect_until_end().await;
    }
    assert_eq!(message_texts(&ann, "copy").await, ["hello", "One ", "copy", "Two "]);
    assert_eq!(message_texts(&ann, "main").await, ["hello", "One ", "main", "Three "]);
    // A key that is taken, a session that is not there, and somebody else's.
    let taken = ann.expect_refusal::<ZeroSessionsFork>(copied).await;
    assert!(taken.contains("there is a session `agent:main:copy` already"), "{taken}");
    let missing = ann.expect_refusal::<ZeroSessionsFork>(json!({"sessionKey": "nothing"})).await;
    assert!(missing.contains("No session found"), "{missing}");
    let bob = fixture.connect("bob", &[TokenScope::Write], &[]).await;
    for key in ["main", "owner:ann:agent:main:main"] {
        let hidden = bob.expect_refusal::<ZeroSessionsFork>(json!({"sessionKey": key})).await;
        assert!(hidden.contains("No session found"), "{key}: {hidden}");
    }
    let stolen = json!({"sessionKey": "main", "key": "owner:bob:agent:main:mine"});
    ann.expect_refusal::<ZeroSessionsFork>(stolen.clone()).await;
    let root = fixture.connect("root", &[TokenScope::Admin], &[]).await;
    let stolen = json!({"sessionKey": "owner:ann:agent:main:main", "key": stolen["key"]});
    let refused = root.expect_refusal::<ZeroSessionsFork>(stolen).await;
    assert!(refused.contains("belongs to the owner of its session"), "{refused}");
    assert_eq!(bob.request::<SessionsList>(json!({})).await.total_count, 0);
    // Who may only read makes no copy.
    let reader = fixture.connect("ann", &[TokenScope::Read], &[]).await;
    let refused = reader.expect_refusal::<ZeroSessionsFork>(json!({"sessionKey": "main"})).await;
    assert!(refused.contains("write"), "{refused}");
    // In the middle of a run, whose calls would never end in the copy: without that run.
    ann.request::<ChatSend>(send_params("run-4")).await;
    ann.collect_until(|name, payload| name == "chat" && payload["state"] == "delta").await;
    let during = json!({"sessionKey": "main", "key": "during"});
    let forked = ann.request::<ZeroSessionsFork>(during).await;
    assert_eq!(message_texts(&ann, "during").await, ["hello", "One ", "main", "Three "]);
    let after = json!({"sessionKey": "during", "after": forked.last_seq - 1});
    let last = ann.request::<ZeroSessionsEvents>(after).await.events.pop().unwrap();
    let last = serde_json::to_string(&last).unwrap();
    assert!(last.contains("as of its last completed prompt"), "{last}");
    let send = json!({"sessionKey": "during", "message": "go on", "idempotencyKey": "run-5"});
    ann.request::<ChatSend>(send).await;
    ann.collect_until(|name, payload| name == "chat" && payload["state"] == "final").await;
    assert!(message_texts(&ann, "during").await.contains(&"Five ".to_owned()));
    ann.request::<ChatAbort>(json!({"sessionKey": "main"})).await;
    ann.collect_until_end().await;
    assert_eq!(ann.request::<SessionsList>(json!({})).await.total_count, 3);
}

#[tokio::test]
async fn rewind_cuts_history_and_is_taken_back() {
    let fixture = TestGateway::start(&["One", "Two", "Three"]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    for (run, message) in [("run-1", "first"), ("run-2", "second")] {
        let send = json!({"sessionKey": "main", "message": message, "idempotencyKey": run});
        ann.request::<ChatSend>(send).await;
        ann.collect_until_end().await;
    }
    let page = json!({"sessionKey": "main", "limit": 1});
    let page = ann.request::<ZeroSessionsPrompts>(page).await;
    let numbers: Vec<u64> = page.prompts.iter().map(|prompt| prompt.number).collect();
    let more = (page.total_count, page.has_more, page.next_offset);
    assert_eq!((numbers, more), (vec![1], (2, true, Some(1))));
    let past = json!({"sessionKey": "main", "offset": 9});
    let past = ann.request::<ZeroSessionsPrompts>(past).await;
    assert_eq!((past.prompts.len(), past.has_more, past.next_offset), (0, false, None));
    let prompts = ann.request::<ZeroSessionsPrompts>(json!({"sessionKey": "main"})).await.prompts;
    let words: Vec<&str> = prompts.iter().map(|prompt| prompt.words.as_str()).collect();
    assert_eq!(words, ["first", "second"]);
    let rewind = |more: serde_json::Value| {
        let mut params = json!({"sessionKey": "main", "scope": "conversation"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let done = ann.request::<ZeroSessionsRewind>(rewind(json!({"prompt": 2}))).await;
    assert!(done.rewound && done.prompt == Some(2), "{done:?}");
    assert_eq!(message_texts(&ann, "main").await, ["first", "One "]);
    let undone = ann.request::<ZeroSessionsRewind>(rewind(json!({"undo": true}))).await;
    assert!(undone.rewound && undone.prompt.is_none(), "{undone:?}");
    assert_eq!(message_texts(&ann, "main").await, ["first", "One ", "second", "Two "]);
    for (wrong, message) in [
        (json!({"prompt": 9}), "there is no prompt 9"),
        (json!({"prompt": 1, "undo": true}), "give one of prompt and undo"),
        (json!({"prompt": 1, "force": true}), "approvals"),
        (json!({"prompt": 0}), "prompt"),
        (json!({"sessionKey": "nothing"}), "No session found"),
    ] {
        let refused = ann.expect_refusal::<ZeroSessionsRewind>(rewind(wrong.clone())).await;
        assert!(refused.contains(message), "{wrong}: {refused}");
    }
    let bob = fixture.connect("bob", &[TokenScope::Write], &[]).await;
    let theirs = json!({"sessionKey": "owner:ann:agent:main:main"});
    let hidden = bob.expect_refusal::<ZeroSessionsRewind>(theirs.clone()).await;
    assert!(hidden.contains("No session found"), "{hidden}");
    let hidden = bob.expect_refusal::<ZeroSessionsPrompts>(theirs).await;
    assert!(hidden.contains("No session found"), "{hidden}");
    let hidden = bob
        .expect_refusal::<ZeroSessionsContext>(json!({"sessionKey": "owner:ann:agent:main:main"}))
        .await;
    assert!(hidden.contains("No session found"), "{hidden}");
    let reader = fixture.connect("ann", &[TokenScope::Read], &[]).await;
    let refused = reader.expect_refusal::<ZeroSessionsRewind>(json!({"sessionKey": "main"})).await;
    assert!(refused.contains("write"), "{refused}");
    let report = reader.request::<ZeroSessionsContext>(json!({"sessionKey": "main"})).await;
    assert!(report.parts.iter().any(|part| part.kind == ContextPartKind::User), "{report:?}");
}

#[tokio::test]
async fn missing_scope_is_named_in_error() {
    let fixture = TestGateway::start(&[]).await;
    let reader = fixture.connect("ann", &[TokenScope::Read], &[]).await;
    let refused = reader.expect_refusal::<ChatSend>(send_params("run-1")).await;
    assert!(refused.starts_with("Forbidden chat.send needs the scope operator.write"), "{refused}");
    let writer = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    let refused = writer.expect_refusal::<SessionsDelete>(json!({"key": "main"})).await;
    assert!(refused.contains("operator.admin"), "{refused}");
    let mut provenance = send_params("run-1");
    provenance["systemProvenanceReceipt"] = json!("trust me");
    let refused = writer.expect_refusal::<ChatSend>(provenance).await;
    assert_eq!(refused, "InvalidRequest system provenance fields require admin scope");
}

#[tokio::test]
async fn reset_needs_write_scope_by_both_methods() {
    let fixture = TestGateway::start(&[]).await;
    let ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    let (by_key, by_open) = (json!({"key": "main"}), json!({"sessionKey": "main", "reset": true}));
    ann.request::<ZeroSessionsOpen>(json!({"sessionKey": "main"})).await;
    let again = ann.request::<ZeroSessionsOpen>(by_open.clone()).await;
    assert_eq!(again.transcript, 2);
    let again = ann.request::<SessionsReset>(by_key.clone()).await;
    assert!(again.entry.session_id.ends_with(".3"), "{}", again.entry.session_id);
    let reader = fixture.connect("ann", &[TokenScope::Read, TokenScope::Approvals], &[]).await;
    let stranger = fixture.connect("bob", &[TokenScope::Write], &[]).await;
    for (who, key, why) in [
        (&reader, "main", "needs the scope operator.write"),
        (&stranger, "owner:ann:agent:main:main", "No session found"),
    ] {
        let refused = who.expect_refusal::<SessionsReset>(json!({"key": key})).await;
        assert!(refused.contains(why), "{refused}");
        let by_open = json!({"sessionKey": key, "reset": true});
        let refused = who.expect_refusal::<ZeroSessionsOpen>(by_open).await;
        assert!(refused.contains(why), "{refused}");
    }
    let shown = ann.request::<ZeroSessionsShow>(json!({"sessionKey": "main"})).await;
    assert_eq!(shown.transcript, 3, "nobody else started it over");
}

#[tokio::test]
async fn looser_mode_needs_approval_scope() {
    let fixture = TestGateway::start(&[]).await;
    let talker = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    for mode in ["auto", "accept-edits"] {
        let wanted = json!({"sessionKey": "main", "mode": mode});
        let refused = talker.expect_refusal::<ZeroSessionsOpen>(wanted.clone()).await;
        assert!(refused.contains("needs the scope operator.approvals"), "{refused}");
        talker.request::<ZeroSessionsOpen>(json!({"sessionKey": "main", "mode": "plan"})).await;
        let refused = talker.expect_refusal::<ZeroSessionsSet>(wanted).await;
        assert!(refused.contains("needs the scope operator.approvals"), "{refused}");
    }
    let permitter = fixture.connect("ann", &[TokenScope::Write, TokenScope::Approvals], &[]).await;
    let session =
        permitter.request::<ZeroSessionsSet>(json!({"sessionKey": "main", "mode": "auto"})).await;
    assert_eq!(session.mode.as_deref(), Some("auto"));
}

#[tokio::test]
async fn agent_of_acp_session_can_be_set() {
    let fixture = TestGateway::start(&[]).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &["zero-events"]).await;
    let open = json!({"sessionKey": "acp:1", "agent": "Direct"});
    let open = ann.request::<ZeroSessionsOpen>(open).await;
    assert_eq!((open.session_key.as_str(), open.agent.as_str()), ("agent:main:acp:1", "direct"));
    assert_eq!(open.thinking, None);
    let set = json!({"sessionKey": "agent:main:acp:1", "agent": "main", "thinking": "high"});
    let set = ann.request::<ZeroSessionsSet>(set).await;
    assert_eq!((set.agent.as_str(), set.thinking.as_deref()), ("main", Some("high")));
    let mut changed = Vec::new();
    while changed.len() < 2 {
        let event = ann.next_event().await;
        let event: SessionEvent = serde_json::from_value(event.payload.unwrap()).unwrap();
        if let EventKind::Changed { field, value } = event.event.kind {
            changed.push(format!("{field} = {}", value.unwrap_or_default()));
        }
    }
    assert_eq!(changed, ["agent = main", "thinking = high"]);

    let fixed = json!({"sessionKey": "bug", "agent": "direct"});
    let refused = ann.expect_refusal::<ZeroSessionsOpen>(fixed).await;
    assert!(refused.ends_with("open `agent:direct:bug` instead"), "{refused}");
    assert_eq!(
        ann.request::<ZeroSessionsList>(json!({})).await.sessions.len(),
        1,
        "nothing was made"
    );
    let unknown = json!({"sessionKey": "acp:1", "agent": "nobody"});
    let refused = ann.expect_refusal::<ZeroSessionsSet>(unknown).await;
    assert!(refused.contains("there is no agent `nobody`"), "{refused}");
}

#[tokio::test]
async fn sessions_are_listed_by_folder_and_page() {
    let fixture = TestGateway::start(&[]).await;
    let ann = fixture.connect("ann", &[TokenScope::Write], &["zero-events"]).await;
    for (key, cwd) in [("a", "/one"), ("b", "/two"), ("c", "/one")] {
        ann.request::<ZeroSessionsOpen>(json!({"sessionKey": key, "cwd": cwd})).await;
    }
    let keys = async |params: Value| {
        let listed = ann.request::<ZeroSessionsList>(params).await;
        let mut keys: Vec<String> = listed.sessions.into_iter().map(|s| s.session_key).collect();
        keys.sort();
        (keys.join(" "), listed.next_offset)
    };
    let of_one = json!({"cwd": "/one"});
    assert_eq!(keys(of_one).await, ("agent:main:a agent:main:c".to_owned(), None));
    assert_eq!(keys(json!({"limit": 2})).await.1, Some(2));
    assert_eq!(keys(json!({"limit": 2, "offset": 2})).await.1, None);
    let bob = fixture.connect("bob", &[TokenScope::Write], &[]).await;
    assert!(bob.request::<ZeroSessionsList>(json!({})).await.sessions.is_empty());
    let refused = ann.expect_refusal::<ZeroSessionsList>(json!({"cwd": "one"})).await;
    assert!(refused.contains("cwd has to be an absolute path"), "{refused}");
}
