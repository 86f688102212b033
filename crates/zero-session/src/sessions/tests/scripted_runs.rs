//! The results of scripted model replies.

use std::sync::Arc;
use std::time::Duration;

use super::fixture::{SessionTestBed, run_id};
use crate::budget::BudgetRules;
use crate::event::PromptAttachment;
use crate::sessions::{Prompt, SessionLimits};
use zero_core::{Budget, ContextBreakdown, ContextPart, TokenCountSource};
use zero_runtime::ApprovalAnswer;
use zero_runtime::tool_backend::FolderAccess;

#[track_caller]
fn check(lines: &str, expected: &str) {
    assert_eq!(lines, expected);
}

async fn check_run(answers: &[&str], expected: &str) {
    let fixture = SessionTestBed::new(answers).await;
    check(&fixture.run("go").await, &format!("prompt go / started / {expected}"));
}

#[tokio::test]
async fn text_thoughts_and_calls_are_recorded_in_order() {
    check_run(&["Hi"], "text Hi / usage / ended completed").await;
    check_run(&["~hm Hi you"], "thought hm / text Hiyou / usage / ended completed").await;
    check_run(
        &["look Read:1", "done"],
        "text look / usage / tool Read / completed / text done / usage / ended completed",
    )
    .await;
    check_run(
        &["Write:1 Write:2", "done"],
        "usage / tool Write / tool Write / completed / begins / completed / text done / usage / ended completed",
    )
    .await;
    check_run(
        &["Tell:1", "done"],
        "usage / tool Tell / update Tell it half / completed / text done / usage / ended completed",
    )
    .await;
    check_run(
        &["Nix:1", "done"],
        "usage / tool Nix / failed / text done / usage / ended completed",
    )
    .await;
    check_run(
        &["Panic:1", "done"],
        "usage / tool Panic / failed / text done / usage / ended completed",
    )
    .await;
    check_run(&["cut @max"], "text cut / usage / ended max tokens").await;
    check_run(&["half @fail:network"], "text half / ended failed network").await;
    check_run(&["half @drop"], "text half / ended failed server").await;
    check_run(&["@panic"], "ended failed internal").await;
}

#[tokio::test]
async fn model_receives_earlier_messages() {
    let fixture = SessionTestBed::new(&["Read:1", "one", "two"]).await;
    fixture.run("first").await;
    fixture.run("second").await;
    let requests = fixture.model.requests.lock().unwrap().clone();
    let lengths: Vec<usize> = requests.iter().map(|request| request.messages.len()).collect();
    assert_eq!(lengths, [1, 3, 5]);
    assert!(requests[0].system.contains("/w"), "{}", requests[0].system);
    assert_eq!(requests[0].tools.len(), 11);
    let record = fixture.record().await;
    assert_eq!((record.title.as_deref(), record.usage.input_tokens), (Some("first"), 30));
    assert!(record.context_tokens.is_some());
    assert_eq!(fixture.wait_for_run("second").await.text, "two");
}

#[tokio::test]
async fn agent_gets_only_allowed_tools() {
    let mut fixture = SessionTestBed::new(&["Write:1", "done"]).await;
    fixture.key = fixture.address("agent:qa:x");
    fixture.sessions.open(fixture.open_options()).await.unwrap();
    check(
        &fixture.run("go").await,
        "prompt go / started / usage / tool Write / failed / text done / usage / ended completed",
    );
    assert_eq!(fixture.model.requests.lock().unwrap()[0].tools.len(), 1);
    assert!(fixture.backend.log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn first_answer_to_approval_counts() {
    let fixture = SessionTestBed::new(&["Ask:1", "done"]).await;
    fixture.send("go").await;
    fixture.wait_for_line("approval").await;
    let [pending] = &fixture.sessions.approvals().list()[..] else { panic!("one waits") };
    assert_eq!(pending.run, Some(run_id("go")));
    let id = pending.request.id.clone();
    assert!(fixture.sessions.approvals().resolve(&id, ApprovalAnswer::AllowSession, "me"));
    assert!(!fixture.sessions.approvals().resolve(&id, ApprovalAnswer::RejectOnce, "you"));
    assert!(!fixture.sessions.approvals().resolve("ask_x", ApprovalAnswer::AllowOnce, "you"));
    fixture.wait_for_run("go").await;
    fixture.check_ledger().await;
    check(
        &fixture.ledger_lines().await,
        "prompt go / title = go / started / usage / tool Ask / approval Ask / answer allow_once by me / completed / text done / usage / ended completed",
    );
}

#[tokio::test]
async fn stop_withdraws_open_question() {
    let fixture = SessionTestBed::new(&["Ask:1", "done"]).await;
    fixture.send("go").await;
    fixture.wait_for_line("approval").await;
    assert_eq!(fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap(), [run_id("go")]);
    fixture.wait_for_run("go").await;
    fixture.check_ledger().await;
    check(
        &fixture.ledger_lines().await,
        "prompt go / title = go / started / usage / tool Ask / approval Ask / answer cancelled by zero / cancelled / ended aborted by rpc",
    );
    assert!(fixture.sessions.approvals().list().is_empty());
}

#[tokio::test]
async fn repeated_steps_ask_the_user() {
    let same = "usage / tool Read / completed / ";
    let asked =
        format!("prompt go / started / {}approval Let the agent continue / ", same.repeat(3));
    for (answer, rest) in [
        (
            ApprovalAnswer::RejectOnce,
            "answer reject_once by me / notice loop_guard / ended aborted by loop_guard",
        ),
        (
            ApprovalAnswer::AllowOnce,
            "answer allow_once by me / text done / usage / ended completed",
        ),
    ] {
        let fixture = SessionTestBed::new(&["Read:", "Read:", "Read:", "done"]).await;
        fixture.send("go").await;
        let event = fixture.wait_for_line("approval").await;
        let crate::event::EventKind::ApprovalRequested(request) = &event.kind else { panic!() };
        assert!(fixture.sessions.approvals().get(&request.id).is_some());
        assert!(fixture.sessions.approvals().resolve(&request.id, answer, "me"));
        fixture.wait_for_run("go").await;
        fixture.check_ledger().await;
        let lines = fixture.ledger_lines().await.replace("title = go / ", "");
        assert_eq!(lines, format!("{asked}{rest}"));
    }
}

#[tokio::test]
async fn overlong_transcript_is_compacted() {
    let fixture = SessionTestBed::new(&["one", "@fail:context_length", "sum", "two"]).await;
    fixture.run("first").await;
    check(
        &fixture.run("second").await,
        "prompt second / started / notice compaction / compacted sum / text two / usage / ended completed",
    );
    assert_eq!(fixture.record().await.transcript, 2);
    let old = fixture.sessions.transcript(&fixture.key, Some(1)).await.unwrap().messages;
    assert_eq!(old.len(), 3, "the old one stays: {old:?}");
    let new = fixture.sessions.transcript(&fixture.key, None).await.unwrap().messages;
    assert!(new[0].text().contains("sum") && new[0].text().ends_with("second"), "{new:?}");
    assert_eq!(new[1].text(), "two");
}

#[tokio::test]
async fn attempts_and_broken_summaries_count() {
    // The provider counts one token of each complete reply; what came of a broken one is estimated.
    for (summary, expected) in [
        ("sum", (2, 2)),
        ("@retry sum", (3, 2)),
        ("half @drop", (2, 2)),
        ("@retry @fail:network", (2, 1)),
    ] {
        let fixture = SessionTestBed::new(&["one", summary]).await;
        fixture.run("go").await;
        fixture.run("/compact").await;
        let usage = fixture.record().await.usage;
        assert_eq!((usage.requests, usage.output_tokens), expected, "{summary}: {usage:?}");
    }
}

#[tokio::test]
async fn cut_summary_replaces_nothing() {
    let script = ["one", "@fail:context_length", "half @max", "two"];
    let fixture = SessionTestBed::new(&script).await;
    fixture.run("first").await;
    check(
        &fixture.run("second").await,
        "prompt second / started / notice compaction / notice compaction / ended failed context_length",
    );
    let messages = fixture.sessions.transcript(&fixture.key, None).await.unwrap().messages;
    let texts: Vec<String> = messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["first", "one", "second"]);
}

#[tokio::test]
async fn plan_is_repeated_after_compaction() {
    let first_message = async |fixture: &SessionTestBed| {
        let messages = fixture.sessions.transcript(&fixture.key, None).await.unwrap().messages;
        messages[0].text()
    };
    let compact = async |fixture: &SessionTestBed, name: &str| {
        let prompt = Prompt {
            text: "/compact".to_owned(),
            folder_access: FolderAccess::Anywhere,
            ..Prompt::default()
        };
        fixture.sessions.send(&fixture.key, run_id(name), prompt).await.unwrap();
        fixture.wait_for_run(name).await;
        first_message(fixture).await
    };
    let steps = "[x] look\n[>] change it";
    let fixture =
        SessionTestBed::new(&["Todo:1", "one", "@fail:context_length", "sum", "two", "again"])
            .await;
    fixture.run("first").await;
    fixture.run("second").await;
    let first = first_message(&fixture).await;
    assert!(first.contains("sum") && first.contains(steps), "{first}");
    // The plan is in the ledger, so the next summary has it too, whatever the first one said. This
    // also holds after a restart of the gateway.
    let second = compact(&fixture, "c1").await;
    assert_eq!(second.matches(steps).count(), 1, "{second}");
    assert!(second.contains("again") && second.contains(steps), "{second}");
    let later = SessionTestBed::with_store(
        Arc::clone(&fixture.store),
        &["more", "later", "hi", "anew"],
        SessionLimits::default(),
    );
    let later = later.await;
    later.run("and").await;
    let third = compact(&later, "c2").await;
    assert!(third.contains("later") && third.contains(steps), "{third}");

    // A session that was reset has no plan.
    later.sessions.reset(&later.key).await.unwrap();
    later.run("third").await;
    let fourth = compact(&later, "c3").await;
    assert!(fourth.contains("anew") && !fourth.contains("task list"), "{fourth}");
}

#[tokio::test]
async fn context_breakdown_explains_the_next_request() {
    let fixture = SessionTestBed::new(&["Read:1", "one", "sum"]).await;
    let explain = async || {
        let record = fixture.record().await;
        fixture.sessions.context_breakdown(record, FolderAccess::Anywhere).await.unwrap()
    };
    let kinds = |report: &ContextBreakdown| {
        let row = |part: &ContextPart| {
            format!("{:?} {} {}", part.kind, part.name.as_deref().unwrap_or_default(), part.items)
        };
        report.parts.iter().map(row).collect::<Vec<_>>().join(", ")
    };
    let sum = |report: &ContextBreakdown| report.parts.iter().map(|part| part.tokens).sum::<u64>();
    let before = explain().await;
    assert_eq!(kinds(&before), "SystemPrompt  1, Tools  11");
    assert_eq!(before.counted_by, TokenCountSource::Estimate);
    assert_eq!(before.used_tokens, sum(&before));
    fixture.run("first").await;
    let after = explain().await;
    assert_eq!(kinds(&after), "SystemPrompt  1, Tools  11, User  1, Assistant  2, Results Read 1");
    assert_eq!(after.counted_by, TokenCountSource::Provider);
    assert_eq!(Some(after.used_tokens), fixture.record().await.context_tokens);
    let window = after.window_tokens.unwrap();
    assert_eq!(after.free_tokens, Some(window - after.used_tokens));
    fixture.run("/context").await;
    let shown = fixture.wait_for_run("/context").await.text;
    assert!(shown.contains("Results: Read (1)") && shown.contains("Free"), "{shown}");
    fixture.run("/compact").await;
    let compacted = explain().await;
    assert!(kinds(&compacted).contains("Summary"), "{compacted:?}");
    assert_eq!(compacted.counted_by, TokenCountSource::Estimate);
    assert_eq!(compacted.used_tokens, sum(&compacted));
}

#[tokio::test]
async fn user_can_call_tool_without_model() {
    let fixture = SessionTestBed::new(&[]).await;
    let lines = fixture.run("/read a").await;
    assert!(lines.contains("tool Read / completed / text"), "{lines}");
    assert!(fixture.model.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn commands_are_answered_without_model() {
    let fixture = SessionTestBed::new(&["one", "sum", "reviewed"]).await;
    for (text, starts) in [
        ("/help", "`/help`"),
        ("/status", "- session: `agent:main:main`"),
        ("/mode", "The mode is that of the settings."),
        ("/mode plan", "The mode is plan now."),
        ("/mode nonsense", "there is no mode `nonsense`"),
        (
            "/mode auto",
            "The mode stays as it is: only users who may answer approvals may choose auto.",
        ),
        ("/model", "The model is `scripted`. The models are blind, direct, scripted."),
        ("/model nonsense", "there is no model `nonsense`"),
        ("/hlep", "there is no command `/hlep`"),
        ("/compact", "There is nothing to compact yet."),
    ] {
        fixture.send(text).await;
        let waited = fixture.wait_for_run(text).await;
        assert!(waited.text.contains(starts), "{text}: {}", waited.text);
    }
    fixture.check_ledger().await;
    assert!(fixture.model.requests.lock().unwrap().is_empty());
    assert_eq!(fixture.record().await.title, None);
    assert!(fixture.backend.log.lock().unwrap().contains(&"mode plan".to_owned()));
    fixture.run("go").await;
    // The run of the earlier `/compact` already has that name.
    let prompt = Prompt {
        text: "/compact".to_owned(),
        folder_access: FolderAccess::Anywhere,
        ..Prompt::default()
    };
    fixture.sessions.send(&fixture.key, run_id("again"), prompt).await.unwrap();
    fixture.wait_for_run("again").await;
    fixture.wait_for_line("compacted sum").await;
    fixture.run("/review this").await;
    let requests = fixture.model.requests.lock().unwrap().clone();
    assert_eq!(requests[2].messages.last().unwrap().text(), "review this");
}

#[tokio::test]
async fn images_go_only_to_models_that_take_them() {
    let fixture = SessionTestBed::new(&["nice"]).await;
    let image =
        || PromptAttachment { mime: "image/png".to_owned(), data: "AA==".to_owned(), name: None };
    let prompt = || Prompt {
        attachments: vec![image()],
        folder_access: FolderAccess::Anywhere,
        ..Prompt::default()
    };
    fixture.sessions.send(&fixture.key, run_id("a"), prompt()).await.unwrap();
    fixture.wait_for_run("a").await;
    fixture
        .sessions
        .patch(
            &fixture.key,
            crate::store::SessionPatch { model: Some(Some("blind".into())), ..Default::default() },
        )
        .await
        .unwrap();
    fixture.sessions.send(&fixture.key, run_id("b"), prompt()).await.unwrap();
    fixture.wait_for_run("b").await;
    let ledger = fixture.ledger_lines().await;
    assert!(ledger.contains("notice images / text ok"), "{ledger}");
    assert!(ledger.ends_with("ended completed"), "{ledger}");
}

#[tokio::test(start_paused = true)]
async fn run_stops_at_deadline_or_turn_limit() {
    let fixture = SessionTestBed::with_limits(&["Hang:1"], SessionLimits::default()).await;
    let timeout = Some(Duration::from_secs(5));
    let prompt = Prompt {
        text: "go".to_owned(),
        timeout,
        folder_access: FolderAccess::Anywhere,
        ..Prompt::default()
    };
    fixture.sessions.send(&fixture.key, run_id("go"), prompt).await.unwrap();
    fixture.wait_for_run("go").await;
    fixture.check_ledger().await;
    assert!(
        fixture.ledger_lines().await.ends_with("tool Hang / cancelled / ended aborted by timeout")
    );

    let few = SessionLimits { turns_max: 1, ..SessionLimits::default() };
    let fixture = SessionTestBed::with_limits(&["Read:1"], few).await;
    assert!(fixture.run("go").await.ends_with("completed / ended after 1 turns"));
}

#[tokio::test(start_paused = true)]
async fn run_ends_when_its_budget_is_used_up() {
    let with = |budgets| SessionLimits { budgets, ..SessionLimits::default() };
    let of_run = |run| BudgetRules { run, ..BudgetRules::default() };
    let tokens = |tokens| Budget { tokens: Some(tokens), ..Budget::default() };
    // Each reply uses 11 tokens.
    let answers = &["Read:1", "Read:2", "done"];
    let fixture = SessionTestBed::with_limits(answers, with(of_run(tokens(20)))).await;
    let lines = fixture.run("go").await;
    assert!(lines.ends_with("tool Read / completed / ended budget"), "{lines}");
    fixture.check_ledger().await;
    let fixture = SessionTestBed::with_limits(answers, with(of_run(tokens(27)))).await;
    let lines = fixture.run("go").await;
    assert!(
        lines.contains("notice budget") && lines.ends_with("text done / usage / ended completed"),
        "{lines}"
    );

    let few = Budget { requests: Some(1), ..Budget::default() };
    let fixture = SessionTestBed::with_limits(answers, with(of_run(few))).await;
    assert!(fixture.run("go").await.ends_with("completed / ended budget"));
    let none = Budget { tool_calls: Some(0), ..Budget::default() };
    let fixture = SessionTestBed::with_limits(answers, with(of_run(none))).await;
    assert!(fixture.run("go").await.ends_with("tool Read / failed / ended budget"));
}

#[tokio::test(start_paused = true)]
async fn budget_of_session_and_owner_counts_all_runs() {
    for scope in ["session", "owner", "agent"] {
        let budget = Budget { tokens: Some(20), ..Budget::default() };
        let mut budgets = BudgetRules::default();
        match scope {
            "session" => budgets.session = budget,
            "owner" => budgets.owner = budget,
            _ => budgets.agent = budget,
        }
        let limits = SessionLimits { budgets, ..SessionLimits::default() };
        let mut fixture = SessionTestBed::with_limits(&["one", "two", "three"], limits).await;
        for text in ["a", "b"] {
            assert!(fixture.run(text).await.ends_with("ended completed"), "{scope}");
        }
        assert!(fixture.run("c").await.ends_with("ended budget"), "{scope}");
        let owner = fixture.key.owner.clone();
        fixture.switch_session("other", &owner).await;
        let ends = if scope == "session" { "ended completed" } else { "ended budget" };
        assert!(fixture.run("d").await.ends_with(ends), "{scope}");
    }
}

#[tokio::test(start_paused = true)]
async fn run_ends_when_its_working_time_is_used_up() {
    let fixture = SessionTestBed::with_limits(&["Hang:1"], SessionLimits::default()).await;
    let budget = Budget { seconds: Some(5), ..Budget::default() };
    let text = "go".to_owned();
    let prompt =
        Prompt { text, budget, folder_access: FolderAccess::Anywhere, ..Prompt::default() };
    fixture.sessions.send(&fixture.key, run_id("go"), prompt).await.unwrap();
    fixture.wait_for_run("go").await;
    let lines = fixture.ledger_lines().await;
    assert!(lines.ends_with("tool Hang / cancelled / ended budget"), "{lines}");
    let usages = fixture.sessions.store().run_usages(Default::default()).await.unwrap();
    let usage = &usages[0].usage;
    assert!((5_000..6_000).contains(&usage.work_ms), "{usages:?}");
    assert!((5_000..6_000).contains(&usage.call_ms), "{usages:?}");
    assert_eq!((usage.failed_calls, usage.failed_runs), (0, 0), "it was cancelled");
}

#[tokio::test(start_paused = true)]
async fn failed_calls_and_failed_runs_are_counted() {
    let fixture = SessionTestBed::new(&["Panic:1 Read:2", "done", "@fail:network"]).await;
    assert!(fixture.run("a").await.ends_with("ended completed"));
    assert!(fixture.run("b").await.contains("ended failed"));
    let usages = fixture.sessions.store().run_usages(Default::default()).await.unwrap();
    let counts: Vec<_> = usages
        .iter()
        .map(|run| (run.usage.tool_calls, run.usage.failed_calls, run.usage.failed_runs))
        .collect();
    assert_eq!(counts, [(2, 1, 0), (0, 0, 1)]);
}
