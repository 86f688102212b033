//! Tests for messages, notices and other updates that are not calls.

use super::*;

/// The ids of the messages that the chunks belong to.
fn message_ids(
    presenter: &mut UpdatePresenter,
    events: &[Event],
    moment: DeliveryMode,
) -> Vec<String> {
    let updates = events.iter().flat_map(|event| presenter.present_entry(event, moment));
    updates_json(updates.collect())
        .iter()
        .filter_map(|update| {
            let id = update.get("messageId")?.as_str()?;
            Some(format!("{} {id}", update["sessionUpdate"].as_str()?))
        })
        .collect()
}

#[test]
fn message_keeps_id_until_interrupted() {
    let events = [
        event(EventKind::Prompt { text: "hi".to_owned(), attachments: vec![] }),
        event(EventKind::RunStarted {
            agent: "main".to_owned(),
            model: "m".to_owned(),
            parent: None,
        }),
        event(EventKind::Thought { text: "hm".to_owned() }),
        event(text("a")),
        run_event("r2", EventKind::Prompt { text: "next".to_owned(), attachments: vec![] }),
        event(text("b")),
        event(text("")),
        event(call_started("c1", "Read", ToolKind::Read, json!({}))),
        event(call_ended("c1", ToolCallStatus::Completed, "x")),
        event(text("c")),
        event(run_ended(RunOutcome::Completed)),
        run_event("r2", text("d")),
    ];
    let live = [
        "agent_thought_chunk r1:1",
        "agent_message_chunk r1:2",
        "agent_message_chunk r1:2",
        "agent_message_chunk r1:3",
        "agent_message_chunk r2:1",
    ];
    assert_eq!(message_ids(&mut presenter(plain_features()), &events, DeliveryMode::Live), live);
    // The order of tools and ledger does not matter.
    let mut quick = presenter(plain_features());
    quick.present_description("c1", "Read a", ToolKind::Read, &[]);
    assert_eq!(message_ids(&mut quick, &events, DeliveryMode::Live), live);
    let again = message_ids(&mut presenter(plain_features()), &events, DeliveryMode::Replay);
    assert_eq!(
        again.iter().filter(|id| id.starts_with("agent")).collect::<Vec<_>>(),
        live.iter().collect::<Vec<_>>()
    );
    assert_eq!(again[0], "user_message_chunk r1:prompt");
    assert_eq!(again[3], "user_message_chunk r2:prompt");
}

#[test]
fn prompt_is_sent_only_on_replay_without_folder() {
    let image = |data: &str| PromptAttachment {
        mime: "image/png".to_owned(),
        data: data.to_owned(),
        name: Some("a\n.png".to_owned()),
    };
    let prompt = EventKind::Prompt {
        text: "[Working directory: ~/w]\n\nhi".to_owned(),
        attachments: vec![image("AAAA"), image("")],
    };
    check(presenter(plain_features()).present_live(prompt.clone()), json!([]));
    let chunk = |content: Value| json!({"sessionUpdate": "user_message_chunk", "messageId": "r1:prompt", "content": content});
    check(
        presenter(plain_features()).present_replay(prompt),
        json!([
            chunk(json!({"type": "text", "text": "hi"})),
            chunk(json!({"type": "image", "data": "AAAA", "mimeType": "image/png"})),
            chunk(json!({"type": "text", "text": "[a .png]"})),
        ]),
    );
}

#[test]
fn entry_of_newer_version_is_shown_as_such() {
    let newer =
        || serde_json::from_value::<EventKind>(json!({"type": "hologram", "beam": 1})).unwrap();
    let text = "an entry of kind `hologram`, which this version of zero cannot show";
    let mut plain = presenter(plain_features());
    let remark = json!([{"sessionUpdate": "agent_thought_chunk", "messageId": "r1:notice-7",
        "content": {"type": "text", "text": format!("[zero] {text}\n")}}]);
    check(plain.present_live(newer()), remark.clone());
    check(plain.present_replay(newer()), remark);
    let mut able = presenter(ClientFeatures { takes_notices: true, ..ClientFeatures::default() });
    let notice = json!([{"sessionUpdate": "notice", "severity": "info", "title": text}]);
    check(able.present_replay(newer()), notice);
}

#[test]
fn notices_and_compaction_need_client_support() {
    let notice =
        |topic: &str| EventKind::Notice { topic: topic.to_owned(), text: "so\nit is".to_owned() };
    let compacted = || EventKind::Compacted {
        summary: "sum".to_owned(),
        tokens_before: 9,
        tokens_after: 3,
        extent: None,
    };
    let aside = |text: &str| {
        json!([{"sessionUpdate": "agent_thought_chunk", "messageId": "r1:notice-7",
                "content": {"type": "text", "text": format!("[zero] {text}\n")}}])
    };
    let mut plain = presenter(plain_features());
    for topic in ["retry", "loop_guard", "compaction", "queued"] {
        check(plain.present_live(notice(topic)), aside("so it is"));
    }
    check(plain.present_replay(notice("retry")), json!([]));
    check(plain.present_replay(notice("loop_guard")), aside("so it is"));
    let summed_up = aside("the conversation was compacted: about 9 tokens before, 3 now");
    check(plain.present_live(compacted()), summed_up.clone());
    check(plain.present_replay(compacted()), summed_up);
    let mut able = presenter(ClientFeatures {
        takes_notices: true,
        takes_compaction: true,
        ..ClientFeatures::default()
    });
    let expected = |severity: &str| json!([{"sessionUpdate": "notice", "severity": severity, "title": "so it is"}]);
    check(able.present_live(notice("retry")), expected("warning"));
    check(able.present_live(notice("loop_guard")), expected("warning"));
    check(able.present_live(notice("queued")), expected("info"));
    check(able.present_replay(notice("loop_guard")), json!([]));
    check(
        able.present_live(compacted()),
        json!([{"sessionUpdate": "compaction_update", "compactionId": "compaction-7",
                "status": "completed", "summary": [{"type": "text", "text":
                    "the conversation was compacted: about 9 tokens before, 3 now\n\nsum"}]}]),
    );
    // A remark of zero does not break a message.
    let mut talking = presenter(plain_features());
    let before = talking.present_live(text("a"))[0]["messageId"].clone();
    talking.present_live(notice("retry"));
    assert_eq!(talking.present_live(text("b"))[0]["messageId"], before);
}

#[test]
fn usage_and_title_changes_are_sent() {
    let usage = |cost_usd| TokenUsage { cost_usd, ..TokenUsage::default() };
    let reported = |cost_usd, window| EventKind::UsageReported {
        run_usage: usage(cost_usd),
        context_tokens: 5,
        context_window: window,
    };
    let mut presenter = presenter(plain_features());
    let info = SessionInfo {
        title: Some("A\ntitle".to_owned()),
        updated_ms: 2_000,
        usage: usage(Some(1.0)),
        context_tokens: Some(3),
        context_window: Some(10),
        ..SessionInfo::default()
    };
    let full = |used: u64, cost: f64| {
        json!({"sessionUpdate": "usage_update", "used": used, "size": 10,
        "cost": {"amount": cost, "currency": "USD"}})
    };
    check(
        updates_json(presenter.present_session_info(&info)),
        json!([
            {"sessionUpdate": "session_info_update", "title": "A title", "updatedAt": "1970-01-01T00:00:02Z"},
            full(3, 1.0),
        ]),
    );
    check(presenter.present_live(reported(Some(0.5), 10)), json!([full(5, 1.5)]));
    presenter
        .present_live(EventKind::RunEnded { end: RunOutcome::Completed, usage: usage(Some(0.5)) });
    check(presenter.present_live(reported(Some(0.25), 10)), json!([full(5, 1.75)]));
    check(presenter.present_live(reported(None, 0)), json!([]));
    check(presenter.present_replay(reported(None, 10)), json!([]));
    let changed = |field: &str, value: Option<&str>| EventKind::Changed {
        field: field.to_owned(),
        value: value.map(str::to_owned),
    };
    check(
        presenter.present_live(changed("title", Some("x"))),
        json!([{"sessionUpdate": "session_info_update", "title": "x"}]),
    );
    check(
        presenter.present_live(changed("title", None)),
        json!([{"sessionUpdate": "session_info_update", "title": null}]),
    );
    check(
        presenter.present_live(changed("mode", Some("plan"))),
        json!([{"sessionUpdate": "current_mode_update", "currentModeId": "plan"}]),
    );
    for silent in [
        changed("mode", Some("yolo")),
        changed("mode", None),
        changed("model", Some("x")),
        changed("label", None),
    ] {
        check(presenter.present_live(silent), json!([]));
    }
    check(presenter.present_replay(changed("title", Some("x"))), json!([]));
    check(presenter.present_live(EventKind::Reset { transcript: 1 }), json!([]));
}

#[test]
fn remark_is_notice_or_separate_thought() {
    let mut plain = presenter(plain_features());
    let (one, other) = (
        updates_json(vec![plain.present_remark("a\nb")]),
        updates_json(vec![plain.present_remark("c")]),
    );
    assert_eq!(one[0]["sessionUpdate"], "agent_thought_chunk");
    assert_eq!(one[0]["content"]["text"], "[zero] a b\n");
    assert_ne!(one[0]["messageId"], other[0]["messageId"]);
    let mut noticing = presenter(ClientFeatures { takes_notices: true, ..plain_features() });
    assert_eq!(updates_json(vec![noticing.present_remark("a")])[0]["sessionUpdate"], "notice");
}

#[test]
fn limit_that_ended_a_run_is_its_last_message() {
    for present in [UpdatePresenter::present_live, UpdatePresenter::present_replay] {
        let mut presenter = presenter(ClientFeatures::default());
        presenter.present_live(EventKind::Text { text: "half".to_owned() });
        let message = "the budget of the run is used up: $0.50 of $0.50; raise it".to_owned();
        let updates = present(&mut presenter, run_ended(RunOutcome::Budget { message }));
        assert_eq!(updates[0]["sessionUpdate"], "agent_message_chunk");
        let text = "\n\n[zero] the budget of the run is used up: $0.50 of $0.50; raise it\n";
        assert_eq!(updates[0]["content"]["text"], text);
    }
}
