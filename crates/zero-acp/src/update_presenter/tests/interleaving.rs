//! Checks that the client gets a consistent sequence, in whatever order the ledger and the tools
//! report a call.

use super::*;

const ROUNDS: u64 = 3000;

/// Applies one of the events of a call, except its end.
fn apply_step(presenter: &mut UpdatePresenter, call: &str, which: u8, now: Instant) -> Vec<Value> {
    let answer =
        |presenter: &mut UpdatePresenter, answer: &str| presenter.resolve_question("ask_1", answer);
    let updates = match which {
        0 => presenter.present_entry(
            &event(call_started(call, "Bash", ToolKind::Execute, json!({"command": "x"}))),
            DeliveryMode::Live,
        ),
        1 => presenter.present_description(call, "Do x", ToolKind::Execute, &[location("a", None)]),
        2 => presenter.present_call_start(call),
        3 => presenter.present_output(call, "some \u{1b}[1mwords\n", now),
        4 => {
            let updated = EventKind::ToolUpdated {
                call: call.to_owned(),
                title: Some("Do x".to_owned()),
                kind: Some(ToolKind::Execute),
                locations: vec![],
                progress: Some(zero_core::CallProgress::new("half")),
                begins: false,
                subagent: None,
            };
            presenter.present_entry(&event(updated), DeliveryMode::Live)
        }
        5 => {
            let (updates, question) = presenter.present_approval(&request(call, &["x"]));
            let question = updates_json(vec![SessionUpdate::ToolCallUpdate(question)]);
            let mut all = updates_json(updates);
            all.extend(question);
            return all;
        }
        6 => answer(presenter, "allow_once"),
        7 => answer(presenter, "reject_once"),
        8 => presenter.present_held_output(now),
        _ => presenter.present_entry(&event(text("words in between")), DeliveryMode::Live),
    };
    updates_json(updates)
}

fn status_rank(status: &str) -> u8 {
    match status {
        "pending" => 0,
        "in_progress" => 1,
        "completed" | "failed" => 2,
        other => panic!("no status: {other}"),
    }
}

/// Checks the updates of one call, in order.
#[track_caller]
fn check_sequence(story: &[(u8, Value)], context: impl Fn() -> String) {
    let mut rank = None;
    let mut finals = 0;
    let mut is_asked = false;
    for (which, update) in story {
        is_asked = match which {
            // The call may have ended, and then no question is asked; nothing follows either way.
            5 => true,
            2 | 6 | 7 => false,
            _ => is_asked,
        };
        if update.get("toolCallId").is_none() {
            continue;
        }
        let is_call = update["sessionUpdate"] == "tool_call";
        assert_eq!(is_call, rank.is_none(), "a call comes first and once\n{}", context());
        let mut fields = update.as_object().unwrap().clone();
        for quiet in ["sessionUpdate", "toolCallId"] {
            fields.remove(quiet);
        }
        assert!(!fields.is_empty(), "an update says something\n{}", context());
        let status = update["status"].as_str().or(is_call.then_some("pending"));
        if let Some(status) = status {
            let next = status_rank(status);
            let now = rank.unwrap_or(0);
            assert!(next >= now && now < 2, "{status} after {now}\n{}", context());
            // A call with a pending question continues only when it is allowed.
            assert!(!(is_asked && next == 1 && rank != Some(1)), "{which}\n{}", context());
            rank = Some(next);
            finals += u8::from(next == 2);
        } else {
            assert_ne!(rank, Some(2), "nothing after the end\n{}", context());
            rank = rank.or(Some(0));
        }
    }
    assert_eq!(finals, 1, "one end\n{}", context());
}

#[test]
fn any_event_order_yields_consistent_updates() {
    for seed in 0..ROUNDS {
        let mut random = fastrand::Rng::with_seed(seed);
        let caps = if random.bool() { terminal_features() } else { plain_features() };
        let mut presenter = presenter(caps);
        let start = Instant::now();
        let mut steps: Vec<u8> = (0..random.usize(0..12)).map(|_| random.u8(0..10)).collect();
        steps.push(10);
        // Many events come late, but an id is not reused and no question is asked about an ended
        // call.
        let late = [1, 2, 3, 4, 6, 7, 8, 9, 10, 11];
        steps.extend((0..random.usize(0..6)).map(|_| late[random.usize(0..late.len())]));
        if random.bool() {
            // The run ends before the call, or instead of it.
            let at = random.usize(0..steps.len());
            if steps[..at].contains(&0) {
                steps.insert(at, 11);
                let tail = steps.split_off(at + 1);
                steps.extend(tail.into_iter().filter(|step| !matches!(step, 0 | 5)));
            }
        }
        let statuses = [
            ToolCallStatus::Completed,
            ToolCallStatus::Failed,
            ToolCallStatus::Denied,
            ToolCallStatus::Cancelled,
            ToolCallStatus::Interrupted,
        ];
        let status = statuses[random.usize(0..statuses.len())];
        let mut story = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let now = start + Duration::from_millis(100 * number as u64);
            let updates = match step {
                10 => presenter.present_live(call_ended("c1", status, "out\n(exit code 1)")),
                11 => presenter.present_live(run_ended(RunOutcome::Completed)),
                step => apply_step(&mut presenter, "c1", *step, now),
            };
            story.push((*step, Value::Null));
            story.extend(updates.into_iter().map(|update| (*step, update)));
        }
        check_sequence(&story, || format!("seed {seed}: {steps:?}\n{story:#?}"));
        assert_eq!(
            updates_json(presenter.abandon_all("left over")),
            Vec::<Value>::new(),
            "seed {seed}"
        );
    }
}

#[test]
fn concurrent_calls_do_not_mix() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut presenter = presenter(terminal_features());
        let now = Instant::now();
        let calls = ["a", "b", "c"];
        let mut story: Vec<(u8, Value)> = Vec::new();
        for _ in 0..30 {
            let (call, step) = (calls[random.usize(0..3)], random.u8(0..5));
            let updates = apply_step(&mut presenter, call, step, now);
            assert!(updates.iter().all(|update| update["toolCallId"] == call));
            story.extend(updates.into_iter().map(|update| (step, update)));
        }
        for call in calls {
            let updates = presenter.present_live(call_ended(call, ToolCallStatus::Completed, "x"));
            story.extend(updates.into_iter().map(|update| (10, update)));
            let own = story.iter().filter(|(_, update)| update["toolCallId"] == call);
            check_sequence(&own.cloned().collect::<Vec<_>>(), || format!("seed {seed} {call}"));
        }
    }
}
