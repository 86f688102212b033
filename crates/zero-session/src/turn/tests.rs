//! Steps of runs as lines: inputs and the resulting actions.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use zero_core::{CallProgress, ErrorReason, ToolError, ToolKind, ToolResult};
use zero_runtime::DialectName;

use super::transcript_repair::tests::find_flaw;
use super::*;
use crate::message::ToolInput;
use crate::model::ThinkingEffort;
use zero_runtime::tool_backend::CatalogEntry;

fn config() -> TurnConfig {
    TurnConfig {
        dialect: Some(DialectName::Canonical),
        call_seed: 0,
        turns_max: 20,
        calls_max: None,
        parallel_calls: ParallelCalls { reads_max: 2, tasks_max: 2 },
        thinking: ThinkingEffort::Default,
        context_window: 100_000,
        takes_images: true,
        prices: None,
        compact_at_percent: 80,
        repeats_before_asking: 3,
        context_tokens: None,
        output_schema: None,
    }
}

fn context() -> RequestContext {
    let tool = |name: &str, read_only: bool| CatalogEntry {
        name: name.to_owned(),
        canonical: name.to_owned(),
        display_name: None,
        description: String::new(),
        input_schema: json!({}),
        kind: ToolKind::Other,
        read_only,
        info: None,
    };
    RequestContext {
        system: "sys".to_owned(),
        tools: vec![
            tool("Read", true),
            tool("Grep", true),
            tool("Write", false),
            tool("BashOutput", false),
        ]
        .into(),
    }
}

/// `Read:1` is a call with the model's id 1, `Read` a call without an id; anything else is text.
fn reply(script: &str, stop: ModelStopReason) -> TurnInput {
    let blocks = script.split_whitespace().map(|word| {
        let (name, id) = word.split_once(':').unwrap_or((word, ""));
        let input = match id.strip_prefix('!') {
            Some(_) => ToolInput::parse("{\"half"),
            None => ToolInput::from(json!({ "of": id })),
        };
        match name.chars().next().is_some_and(char::is_uppercase) {
            true => MessageBlock::ToolUse {
                id: id.to_owned(),
                name: name.to_owned(),
                input,
                opaque: Value::Null,
            },
            false => MessageBlock::text(word),
        }
    });
    let usage = TokenUsage { input_tokens: 10, output_tokens: 2, ..TokenUsage::default() };
    TurnInput::Model(ModelEvent::Done(ModelReply { blocks: blocks.collect(), stop, usage }))
}

fn reply_done(script: &str) -> TurnInput {
    reply(script, ModelStopReason::End)
}

fn call_ended(number: u32, text: &str) -> TurnInput {
    let outcome = match text {
        "error" => ToolError::failed(ErrorReason::Io, "error").into(),
        text => ToolResult::text(text).into(),
    };
    TurnInput::CallEnded { call: call(number), outcome }
}

fn call(number: u32) -> String {
    format!("call_{number:024x}")
}

fn call_cancelled(number: u32) -> TurnInput {
    TurnInput::CallEnded { call: call(number), outcome: ToolError::cancelled().into() }
}

fn context_loaded() -> TurnInput {
    TurnInput::Context(Ok(context()))
}

fn stop() -> TurnInput {
    TurnInput::Stop(aborted_end("rpc"))
}

fn context_overflow() -> TurnInput {
    TurnInput::ModelFailed(ModelError::new(ModelErrorKind::ContextLength, "too long"))
}

fn action_line(action: &TurnAction) -> String {
    let number = |call: &str| call.trim_start_matches("call_").trim_start_matches('0').to_owned();
    let number = |call: &str| match number(call) {
        digits if digits.is_empty() => "0".to_owned(),
        digits => digits,
    };
    match action {
        TurnAction::LoadContext => "look".to_owned(),
        TurnAction::AskModel(request) => format!("ask {}", request.messages.len()),
        TurnAction::Show(EventKind::Text { text }) => format!("text {text}"),
        TurnAction::Show(EventKind::Thought { text }) => format!("thought {text}"),
        TurnAction::Show(EventKind::ToolStarted { call, name, waits: true, .. }) => {
            format!("waits {} {name}", number(call))
        }
        TurnAction::Show(EventKind::ToolStarted { call, name, .. }) => {
            format!("started {} {name}", number(call))
        }
        TurnAction::Show(EventKind::ToolEnded { call, status, .. }) => {
            format!("ended {} {status:?}", number(call))
        }
        TurnAction::Show(EventKind::ToolUpdated { call, begins: true, .. }) => {
            format!("begins {}", number(call))
        }
        TurnAction::Show(EventKind::ToolUpdated { call, .. }) => {
            format!("updated {}", number(call))
        }
        TurnAction::Show(EventKind::UsageReported { context_tokens, .. }) => {
            format!("usage {context_tokens}")
        }
        TurnAction::Show(EventKind::Notice { topic, .. }) => format!("notice {topic}"),
        TurnAction::Show(EventKind::Compacted { summary, .. }) => format!("compacted {summary}"),
        TurnAction::Show(kind) => format!("{kind:?}"),
        TurnAction::RunCall { call: order, .. } => format!("run {}", number(order.id.as_str())),
        TurnAction::AskUser(_) => "person?".to_owned(),
        TurnAction::Summarise(_) => "summarise".to_owned(),
        TurnAction::StartTranscript(messages) => format!("restart {}", messages.len()),
        TurnAction::Save(messages) => format!("save {}", messages.len()),
        TurnAction::CancelCalls => "cancel calls".to_owned(),
        TurnAction::Finish(RunOutcome::Aborted { by }) => format!("finish aborted by {by}"),
        TurnAction::Finish(RunOutcome::Failed { kind, .. }) => format!("finish failed {kind}"),
        TurnAction::Finish(end) => format!("finish {end:?}").to_lowercase(),
    }
}

/// Checks the actions for the last of these inputs, and that the transcript is valid at the end.
#[track_caller]
fn check_with(config: TurnConfig, inputs: Vec<TurnInput>, expected: &str) {
    let mut turn = Turn::new(config, Vec::new(), TurnGoal::Answer(ModelMessage::user("go")));
    let mut saved = Vec::new();
    let mut lines = String::new();
    for input in inputs {
        let actions = turn.step(input);
        for action in &actions {
            match action {
                TurnAction::Save(messages) => saved.extend(messages.clone()),
                TurnAction::StartTranscript(messages) => saved = messages.clone(),
                _ => {}
            }
        }
        lines = actions.iter().map(action_line).collect::<Vec<_>>().join(" | ");
    }
    assert_eq!(lines, expected);
    assert_eq!(saved, turn.transcript, "what is saved is what the next request tells");
    if matches!(turn.phase, TurnPhase::Finished) {
        assert_eq!(find_flaw(&saved), None);
    }
}

#[track_caller]
fn check(inputs: Vec<TurnInput>, expected: &str) {
    check_with(config(), inputs, expected);
}

fn after_request(more: Vec<TurnInput>) -> Vec<TurnInput> {
    let mut inputs = vec![TurnInput::Begin, context_loaded()];
    inputs.extend(more);
    inputs
}

#[test]
fn text_streams_and_run_ends() {
    check(vec![TurnInput::Begin], "save 1 | look");
    check(after_request(vec![]), "ask 1");
    check(after_request(vec![TurnInput::Model(ModelEvent::Text("Hi".into()))]), "text Hi");
    check(after_request(vec![TurnInput::Model(ModelEvent::Thought("hm".into()))]), "thought hm");
    let text = TurnInput::Model(ModelEvent::Text("hi".into()));
    check(after_request(vec![text, reply_done("hi")]), "save 1 | usage 12 | finish completed");
    check(
        after_request(vec![reply_done("unstreamed")]),
        "text unstreamed | save 1 | usage 12 | finish completed",
    );
    check(after_request(vec![reply_done("")]), "usage 12 | notice empty_answer | finish completed");
    check(
        after_request(vec![reply("cut", ModelStopReason::MaxTokens)]),
        "text cut | save 1 | usage 12 | finish maxtokens",
    );
    check(
        after_request(vec![reply("no Read:1", ModelStopReason::Refusal("bad".into()))]),
        "text no | save 1 | usage 12 | finish refused { message: \"bad\" }",
    );
    let retrying = ModelEvent::Retrying {
        error: ModelError::new(ModelErrorKind::RateLimit, "slow down"),
        after: Duration::from_secs(2),
        attempts: 1,
    };
    check(after_request(vec![TurnInput::Model(retrying)]), "notice retry");
}

#[test]
fn read_only_calls_run_in_parallel_others_alone() {
    let calls = || reply_done("Read:1 Grep:2 Read:3 Write:4 Read:5");
    // All calls are announced before the first one starts.
    let begun = "save 1 | usage 12 | started 0 Read | started 1 Grep | waits 2 Read | waits 3 Write | waits 4 Read | run 0 | run 1";
    check(after_request(vec![calls()]), begun);
    check(after_request(vec![calls(), call_ended(1, "b")]), "ended 1 Completed | begins 2 | run 2");
    check(
        after_request(vec![calls(), call_ended(1, "b"), call_ended(0, "a")]),
        "ended 0 Completed",
    );
    check(
        after_request(vec![calls(), call_ended(1, "b"), call_ended(0, "a"), call_ended(2, "c")]),
        "ended 2 Completed | begins 3 | run 3",
    );
    let all = || {
        vec![
            calls(),
            call_ended(1, "b"),
            call_ended(0, "a"),
            call_ended(2, "c"),
            call_ended(3, "d"),
        ]
    };
    check(after_request(all()), "ended 3 Completed | begins 4 | run 4");
    let mut all = all();
    all.push(call_ended(4, "e"));
    check(after_request(all), "ended 4 Completed | save 1 | look");
}

#[test]
fn results_follow_call_order() {
    let mut turn = Turn::new(config(), Vec::new(), TurnGoal::Answer(ModelMessage::user("go")));
    for input in after_request(vec![
        reply_done("Read:a Grep:b"),
        call_ended(1, "second"),
        call_ended(0, "first"),
    ]) {
        turn.step(input);
    }
    let results: Vec<(String, String)> = turn.transcript[2]
        .blocks
        .iter()
        .map(|block| match block {
            MessageBlock::ToolResult { id, content, .. } => (id.clone(), format!("{content:?}")),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(results[0].0 == "a" && results[0].1.contains("first"), "{results:?}");
    assert!(results[1].0 == "b" && results[1].1.contains("second"), "{results:?}");
}

#[test]
fn impossible_call_is_answered_without_running() {
    let (fails, on) = ("started 0", "ended 0 Failed | save 1 | look");
    check(
        after_request(vec![reply_done("Raed:1")]),
        &format!("save 1 | usage 12 | {fails} Raed | {on}"),
    );
    check(
        after_request(vec![reply_done("Read:!")]),
        &format!("save 1 | usage 12 | {fails} Read | {on}"),
    );
    check(
        after_request(vec![reply("Write:1", ModelStopReason::MaxTokens)]),
        &format!("save 1 | usage 12 | {fails} Write | {on}"),
    );
    check(
        after_request(vec![reply("Write:1 text", ModelStopReason::MaxTokens)]),
        "text text | save 1 | usage 12 | started 0 Write | run 0",
    );
    let mut turn = Turn::new(config(), Vec::new(), TurnGoal::Answer(ModelMessage::user("go")));
    for input in after_request(vec![reply_done("Raed:1 Zebra:2")]) {
        turn.step(input);
    }
    let message = format!("{:?}", turn.transcript[2]);
    assert!(
        message.contains("there is no tool `Raed`; did you mean `Read`? The tools are"),
        "{message}"
    );
    assert!(
        message.contains("there is no tool `Zebra`; the tools are Read, Grep, Write"),
        "{message}"
    );
}

#[test]
fn call_beyond_the_budget_is_answered_without_running() {
    let one = TurnConfig { calls_max: Some(1), ..config() };
    let mut turn = Turn::new(one, Vec::new(), TurnGoal::Answer(ModelMessage::user("go")));
    for input in after_request(vec![reply_done("Write:1 Write:2"), call_ended(0, "ok")]) {
        turn.step(input);
    }
    let message = format!("{:?}", turn.transcript[2]);
    assert!(
        message.contains("not run: the budget of tool calls is used up; finish with what you have"),
        "{message}"
    );
    assert_eq!(turn.usage().tool_calls, 2);
}

#[test]
fn requests_are_counted_with_retries_and_those_of_tools() {
    let mut turn = Turn::new(config(), Vec::new(), TurnGoal::Answer(ModelMessage::user("go")));
    let retry = TurnInput::Model(ModelEvent::Retrying {
        error: ModelError::new(ModelErrorKind::Server, "busy"),
        after: std::time::Duration::ZERO,
        attempts: 1,
    });
    let used = TurnInput::Used(TokenUsage { input_tokens: 5, requests: 1, ..Default::default() });
    for input in after_request(vec![retry, reply_done("Write:1"), used]) {
        turn.step(input);
    }
    assert_eq!((turn.usage().requests, turn.usage().input_tokens), (3, 15));
}

#[test]
fn missing_or_duplicate_ids_are_replaced() {
    let mut turn = Turn::new(config(), Vec::new(), TurnGoal::Answer(ModelMessage::user("go")));
    let twice = vec![
        reply_done("Read:x Grep:x"),
        call_ended(0, "a"),
        call_ended(1, "b"),
        context_loaded(),
        reply_done("Read:x"),
    ];
    for input in after_request(twice).into_iter().chain([call_ended(2, "c")]) {
        turn.step(input);
    }
    assert_eq!(find_flaw(&turn.transcript), None);
    let ids = transcript_repair::call_ids(&turn.transcript);
    assert_eq!(ids, HashSet::from(["x", &call(1), &call(2)]));
}

#[test]
fn stop_finishes_running_calls() {
    check(vec![stop()], "finish aborted by rpc");
    check(vec![TurnInput::Begin, stop()], "finish aborted by rpc");
    check(after_request(vec![stop()]), "finish aborted by rpc");
    let text = || TurnInput::Model(ModelEvent::Text("half".into()));
    check(after_request(vec![text(), stop()]), "save 1 | finish aborted by rpc");
    check(after_request(vec![text(), stop(), reply_done("more")]), "");
    check(
        after_request(vec![reply_done("Read:1 Grep:2 Write:3"), stop()]),
        "ended 2 Cancelled | cancel calls",
    );
    check(after_request(vec![reply_done("Read:1 Grep:2 Write:3"), stop(), stop()]), "");
    check(
        after_request(vec![
            reply_done("Read:1 Grep:2 Write:3"),
            stop(),
            call_cancelled(0),
            call_ended(1, "done"),
        ]),
        "ended 1 Completed | save 1 | finish aborted by rpc",
    );
    check(after_request(vec![reply_done("Read:1"), stop(), call_cancelled(7)]), "");
}

#[test]
fn call_updates_are_shown_while_running() {
    let says = || TurnInput::Progress { call: call(0), progress: CallProgress::new("half") };
    check(after_request(vec![reply_done("Read:1"), says()]), "updated 0");
    check(after_request(vec![reply_done("Read:1"), call_ended(0, "x"), says()]), "");
    check(after_request(vec![reply_done("Read:1"), call_ended(0, "x"), call_ended(0, "x")]), "");
}

#[test]
fn model_failure_ends_run_with_its_kind() {
    for (kind, end) in [
        (ModelErrorKind::Auth, "finish failed auth"),
        (ModelErrorKind::Network, "finish failed network"),
        (ModelErrorKind::InvalidRequest, "finish failed invalid_request"),
        (ModelErrorKind::Refusal, "finish refused { message: \"why\" }"),
        (ModelErrorKind::Cancelled, "finish aborted by model"),
    ] {
        check(after_request(vec![TurnInput::ModelFailed(ModelError::new(kind, "why"))]), end);
    }
    let text = TurnInput::Model(ModelEvent::Text("half".into()));
    let broke = TurnInput::ModelFailed(ModelError::new(ModelErrorKind::Server, "broke"));
    check(after_request(vec![text, broke]), "save 1 | finish failed server");
    let away = ToolBackendError::ClientDisconnected { host: "laptop".into() };
    check(vec![TurnInput::Begin, TurnInput::Context(Err(away))], "finish failed tool_host");
}

#[test]
fn broken_off_reply_counts_with_estimate() {
    let used = |inputs: Vec<TurnInput>| {
        let goal = TurnGoal::Answer(ModelMessage::user("go"));
        let mut turn = Turn::new(config(), Vec::new(), goal);
        let sent = after_request(Vec::new());
        sent.into_iter().for_each(|input| drop(turn.step(input)));
        let sent_tokens = turn.context_tokens();
        inputs.into_iter().for_each(|input| drop(turn.step(input)));
        let usage = turn.usage();
        (usage.requests, usage.input_tokens == sent_tokens, usage.output_tokens)
    };
    let text = || TurnInput::Model(ModelEvent::Text("four letters".into()));
    let broke = || TurnInput::ModelFailed(ModelError::new(ModelErrorKind::Server, "broke"));
    let thought = || TurnInput::Model(ModelEvent::Thought("hm, hm".into()));
    for (inputs, output_tokens) in
        [(vec![text(), broke()], 3), (vec![text(), stop()], 3), (vec![thought(), stop()], 2)]
    {
        assert_eq!(used(inputs), (1, true, output_tokens));
    }
    // Nothing came, so that nothing is billed; a complete reply counts as the provider says.
    assert_eq!(used(vec![broke()]), (0, false, 0));
    assert_eq!(used(vec![text(), reply_done("x")]).2, 2);
}

#[test]
fn model_requests_are_bounded() {
    let few = TurnConfig { turns_max: 2, ..config() };
    let turns = vec![
        reply_done("Read:1"),
        call_ended(0, "a"),
        context_loaded(),
        reply_done("Read:2"),
        call_ended(1, "b"),
    ];
    check_with(
        few,
        after_request(turns),
        "ended 1 Completed | save 1 | finish maxturns { turns: 2 }",
    );
}

fn repeated_steps(times: u32) -> Vec<TurnInput> {
    let mut inputs = vec![TurnInput::Begin];
    for number in 0..times {
        inputs.extend([context_loaded(), reply_done("Read"), call_ended(number, "same")]);
    }
    inputs
}

#[test]
fn repeated_steps_ask_again_after_each_answer() {
    check(repeated_steps(2), "ended 1 Completed | save 1 | look");
    check(repeated_steps(3), "ended 2 Completed | save 1 | person?");
    let asked = |answer| {
        let mut inputs = repeated_steps(3);
        inputs.push(TurnInput::Guard(answer));
        inputs
    };
    check(asked(LoopGuardAnswer::Stop), "notice loop_guard | finish aborted by loop_guard");
    check(asked(LoopGuardAnswer::Continue), "look");
    let mut on = asked(LoopGuardAnswer::Continue);
    for number in 3..5 {
        on.extend([context_loaded(), reply_done("Read"), call_ended(number, "same")]);
    }
    check(on.clone(), "ended 4 Completed | save 1 | look");
    on.extend([context_loaded(), reply_done("Read"), call_ended(5, "same")]);
    check(on, "ended 5 Completed | save 1 | person?");
    let mut differs = repeated_steps(2);
    differs.extend([context_loaded(), reply_done("Read"), call_ended(2, "different")]);
    check(differs, "ended 2 Completed | save 1 | look");
}

#[test]
fn polls_of_running_job_do_not_count_as_repeats() {
    let poll = |number: u32, status: &str| {
        let structured = json!({"jobs": [{"job_id": "job_1", "status": status}]});
        let result = ToolResult { structured, ..ToolResult::text("same") };
        let ended = TurnInput::CallEnded { call: call(number), outcome: result.into() };
        [context_loaded(), reply_done("BashOutput"), ended]
    };
    let polls = |status: &str, times: u32| {
        let steps = (0..times).flat_map(|number| poll(number, status));
        std::iter::once(TurnInput::Begin).chain(steps).collect::<Vec<_>>()
    };
    check(polls("running", 12), "ended b Completed | save 1 | look");
    check(polls("exited", 3), "ended 2 Completed | save 1 | person?");
    // Beside a poll, other calls count.
    let mut mixed = vec![TurnInput::Begin];
    for step in 0..3 {
        let [_, _, ended] = poll(2 * step + 1, "running");
        mixed.extend([
            context_loaded(),
            reply_done("Read BashOutput"),
            call_ended(2 * step, "same"),
            ended,
        ]);
    }
    check(mixed, "ended 5 Completed | save 1 | person?");
}

#[test]
fn full_window_is_compacted_before_overflow() {
    let small = || TurnConfig { context_window: 1000, context_tokens: Some(790), ..config() };
    let history = vec![
        ModelMessage::user("old"),
        ModelMessage::assistant(vec![MessageBlock::text("answer")]),
    ];
    let run = |config: TurnConfig, inputs: Vec<TurnInput>, expected: &str| {
        let prompt = ModelMessage::user("p".repeat(100));
        let mut turn = Turn::new(config, history.clone(), TurnGoal::Answer(prompt));
        let mut lines = String::new();
        for input in inputs {
            lines = turn.step(input).iter().map(action_line).collect::<Vec<_>>().join(" | ");
        }
        assert_eq!(lines, expected);
        turn
    };
    let full = || vec![TurnInput::Begin, context_loaded()];
    run(small(), full(), "notice compaction | summarise");
    let summary = || {
        TurnInput::Summary(Ok(TranscriptSummary {
            text: " sum ".into(),
            stop: ModelStopReason::End,
            usage: TokenUsage::default(),
            plan: Vec::new(),
            fallbacks: Vec::new(),
        }))
    };
    let mut inputs = full();
    inputs.push(summary());
    let turn = run(small(), inputs.clone(), "restart 1 | compacted sum | ask 1");
    let kept = turn.transcript[0].text();
    assert!(kept.contains("sum") && kept.ends_with(&"p".repeat(100)), "{kept}");
    inputs.push(context_overflow());
    run(small(), inputs, "finish failed context_length");

    let failed = || TurnInput::Summary(Err(ModelError::new(ModelErrorKind::Server, "down")));
    let mut inputs = full();
    inputs.push(failed());
    run(small(), inputs.clone(), "notice compaction | ask 3");
    // A summary that is cut or declined replaces nothing; the request after it does not try again
    // at once.
    for stop in [ModelStopReason::MaxTokens, ModelStopReason::Refusal("no".into())] {
        let bad = TranscriptSummary {
            text: "half".into(),
            stop,
            usage: TokenUsage::default(),
            plan: Vec::new(),
            fallbacks: Vec::new(),
        };
        let mut inputs = full();
        inputs.push(TurnInput::Summary(Ok(bad)));
        let turn = run(small(), inputs.clone(), "notice compaction | ask 3");
        assert_eq!(turn.transcript.len(), 3);
        let mut read = reply_done("Read:1");
        if let TurnInput::Model(ModelEvent::Done(reply)) = &mut read {
            reply.usage.input_tokens = 820;
        }
        inputs.extend([read, call_ended(0, "text"), context_loaded()]);
        run(small(), inputs, "ask 5");
    }
    let over = TurnConfig { context_tokens: Some(1200), ..small() };
    run(over, inputs.clone(), "notice compaction | finish failed context_length");
    inputs.pop();
    inputs.push(stop());
    run(small(), inputs, "finish aborted by rpc");

    let mut inputs = full();
    inputs.push(context_overflow());
    run(config(), inputs.clone(), "notice compaction | summarise");
    inputs.push(summary());
    run(config(), inputs.clone(), "restart 1 | compacted sum | ask 1");
    inputs.push(context_overflow());
    run(config(), inputs.clone(), "finish failed context_length");
    inputs.pop();
    inputs.pop();
    inputs.push(failed());
    run(config(), inputs, "notice compaction | finish failed context_length");
}

#[test]
fn old_results_are_trimmed_before_anything_is_summarized() {
    let mut history = Vec::new();
    for id in 0..6 {
        let (id, name) = (id.to_string(), "Read".to_owned());
        let input = ToolInput::from(json!({"file_path": "a"}));
        let opaque = Value::Null;
        let used = MessageBlock::ToolUse { id: id.clone(), name: name.clone(), input, opaque };
        let content = vec![crate::event::ResultContent::Text { text: "x".repeat(4_000) }];
        let result = MessageBlock::ToolResult { id, name, content, is_error: false };
        history.push(ModelMessage::assistant(vec![used]));
        history
            .push(ModelMessage { role: crate::message::MessageRole::User, blocks: vec![result] });
    }
    let run = |tokens: u64, expected: &str| {
        let config =
            TurnConfig { context_window: 10_000, context_tokens: Some(tokens), ..config() };
        let goal = TurnGoal::Answer(ModelMessage::user("go on"));
        let mut turn = Turn::new(config, history.clone(), goal);
        turn.step(TurnInput::Begin);
        let actions = turn.step(context_loaded());
        let lines: Vec<String> = actions.iter().map(action_line).collect();
        assert_eq!(lines.join(" | "), expected);
        assert_eq!(find_flaw(&turn.transcript), None);
    };
    run(7_000, "ask 13");
    run(8_500, "notice compaction | restart 13 | ask 13");
    run(15_000, "notice compaction | restart 13 | notice compaction | summarise");
}

#[test]
fn answer_that_does_not_fit_schema_is_corrected_twice() {
    let schema = json!({"type": "object", "required": ["a"]});
    let schema = crate::output_schema::OutputSchema::new(schema).unwrap();
    let config = || TurnConfig { output_schema: Some(schema.clone()), ..config() };
    let says = |text: &str| {
        let usage = TokenUsage { input_tokens: 10, output_tokens: 2, ..TokenUsage::default() };
        let (blocks, stop) = (vec![MessageBlock::text(text)], ModelStopReason::End);
        TurnInput::Model(ModelEvent::Done(ModelReply { blocks, stop, usage }))
    };
    let begin = || vec![TurnInput::Begin, context_loaded()];
    let inputs = |answers: &[&str]| {
        let mut inputs = begin();
        for answer in answers {
            inputs.extend([says(answer), context_loaded()]);
        }
        inputs.pop();
        inputs
    };
    let fits = r#"{"a": 1}"#;
    let wrong = "text no | save 1 | usage 12 | notice output_schema | save 1 | look";
    check_with(
        config(),
        inputs(&[fits]),
        &format!("text {fits} | save 1 | usage 12 | finish completed"),
    );
    check_with(config(), inputs(&["no"]), wrong);
    check_with(config(), inputs(&["no", "no"]), wrong);
    let failed = "text no | save 1 | usage 12 | finish failed output_schema";
    check_with(config(), inputs(&["no", "no", "no"]), failed);
    let end = format!("text {fits} | save 1 | usage 12 | finish completed");
    check_with(config(), inputs(&["no", fits]), &end);
    // What the model says beside a call is no answer.
    let mut calling = begin();
    calling.push(reply_done("look Read:1"));
    check_with(config(), calling, "text look | save 1 | usage 12 | started 0 Read | run 0");
}

#[test]
fn fallback_model_brings_its_window_and_prices() {
    let prices =
        crate::model::TokenPrices { input: 1e6, output: 0.0, cache_read: 0.0, cache_write: 0.0 };
    let to = crate::model::ModelInfo {
        name: "other".to_owned(),
        id: "other".to_owned(),
        family: String::new(),
        context_window: 500,
        output_tokens_max: 100,
        takes_images: false,
        prices: Some(prices),
    };
    let error = ModelError::new(ModelErrorKind::RateLimit, "too many requests");
    let fallback = ModelFallback { from: "first".to_owned(), to, error };
    let goal = TurnGoal::Answer(ModelMessage::user("go"));
    let mut turn = Turn::new(config(), Vec::new(), goal);
    turn.step(TurnInput::Begin);
    turn.step(context_loaded());
    let shown = turn.step(TurnInput::Model(ModelEvent::FellBack(Arc::new(fallback))));
    let expected = EventKind::ModelFallback {
        from: "first".to_owned(),
        to: "other".to_owned(),
        reason: "too many requests".to_owned(),
    };
    let [TurnAction::Show(EventKind::UsageReported { run_usage, .. }), fell_back] = &shown[..]
    else {
        panic!("{shown:?}")
    };
    assert_eq!(run_usage.requests, 1, "the failed request is that of the first model");
    assert_eq!(*fell_back, TurnAction::Show(expected));
    turn.step(reply_done("done"));
    let usage = turn.usage();
    assert_eq!((usage.requests, usage.cost_usd), (2, Some(10.0)));
    assert_eq!(turn.config.context_window, 500);
}

#[test]
fn user_can_request_compaction() {
    let turn = |messages| Turn::new(config(), messages, TurnGoal::Compact(String::new()));
    let lines = |turn: &mut Turn, input| {
        turn.step(input).iter().map(action_line).collect::<Vec<_>>().join(" | ")
    };
    let mut empty = turn(Vec::new());
    let nothing = "text There is nothing to compact yet. | finish completed";
    assert_eq!(lines(&mut empty, TurnInput::Begin), "look");
    assert_eq!(lines(&mut empty, context_loaded()), nothing);
    let mut one =
        turn(vec![ModelMessage::user("a"), ModelMessage::assistant(vec![MessageBlock::text("b")])]);
    assert_eq!(lines(&mut one, TurnInput::Begin), "look");
    let away = ToolBackendError::Workspace("away".to_owned());
    let mut without_tools = one.clone();
    let asked = lines(&mut without_tools, TurnInput::Context(Err(away)));
    assert_eq!(asked, "notice compaction | summarise");
    assert_eq!(lines(&mut one, context_loaded()), "notice compaction | summarise");
    let summary = TranscriptSummary {
        text: "sum".into(),
        stop: ModelStopReason::End,
        usage: TokenUsage::default(),
        plan: Vec::new(),
        fallbacks: Vec::new(),
    };
    assert_eq!(
        lines(&mut one.clone(), TurnInput::Summary(Ok(summary))),
        "restart 1 | compacted sum | finish completed"
    );
    let empty = TranscriptSummary {
        text: " ".into(),
        stop: ModelStopReason::End,
        usage: TokenUsage::default(),
        plan: Vec::new(),
        fallbacks: Vec::new(),
    };
    assert_eq!(lines(&mut one, TurnInput::Summary(Ok(empty))), "finish failed server");
}

#[test]
fn text_only_model_gets_image_placeholders() {
    let image = MessageBlock::Image { mime: "image/png".into(), data: "AA==".into() };
    let prompt = ModelMessage { role: crate::message::MessageRole::User, blocks: vec![image] };
    let blind = TurnConfig { takes_images: false, ..config() };
    let mut turn = Turn::new(blind, Vec::new(), TurnGoal::Answer(prompt));
    turn.step(TurnInput::Begin);
    let actions = turn.step(context_loaded());
    let Some(TurnAction::AskModel(request)) = actions.first() else { panic!("{actions:?}") };
    assert_eq!(request.messages[0].text(), "[an image (image/png), which this model cannot see]");
}

/// Any input at any time, whether it fits the state or not.
fn any_input() -> impl Strategy<Value = TurnInput> {
    let script = prop::sample::select(vec![
        "",
        "hi",
        "Read:1",
        "hi Read Read",
        "Read:1 Grep:2 Write:3 Read:1",
        "Write:1 Write:2",
        "Nothing:1 Read:!",
    ]);
    let stops = prop::sample::select(vec![
        ModelStopReason::End,
        ModelStopReason::ToolUse,
        ModelStopReason::MaxTokens,
        ModelStopReason::Refusal(String::new()),
    ]);
    let kinds = prop::sample::select(vec![ModelErrorKind::ContextLength, ModelErrorKind::Server]);
    prop_oneof![
        2 => Just(TurnInput::Begin),
        8 => Just(context_loaded()),
        1 => Just(TurnInput::Context(Err(ToolBackendError::Workspace("gone".into())))),
        6 => (script, stops).prop_map(|(script, stop)| reply(script, stop)),
        2 => Just(TurnInput::Model(ModelEvent::Text("t".into()))),
        1 => kinds.prop_map(|kind| TurnInput::ModelFailed(ModelError::new(kind, "why"))),
        12 => (0_u32..12, prop::sample::select(vec!["same", "error"]))
            .prop_map(|(number, text)| call_ended(number, text)),
        2 => (0_u32..12).prop_map(call_cancelled),
        1 => (0_u32..12).prop_map(|n| TurnInput::Progress { call: call(n), progress: CallProgress::new("p") }),
        2 => Just(TurnInput::Guard(LoopGuardAnswer::Continue)),
        1 => Just(TurnInput::Guard(LoopGuardAnswer::Stop)),
        2 => prop::sample::select(vec!["sum", ""]).prop_map(|text| {
            TurnInput::Summary(Ok(TranscriptSummary { text: text.into(), stop: ModelStopReason::End, usage: TokenUsage::default(), plan: Vec::new(), fallbacks: Vec::new() }))
        }),
        1 => Just(stop()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn whatever_happens_every_call_and_the_run_end_once(
        inputs in prop::collection::vec(any_input(), 0..60),
        window in prop::sample::select(vec![0_u64, 40, 100_000]),
    ) {
        let config = TurnConfig { context_window: window, ..config() };
        let mut turn = Turn::new(config, Vec::new(), TurnGoal::Answer(ModelMessage::user("go")));
        let mut saved: Vec<Arc<ModelMessage>> = Vec::new();
        let mut calls: BTreeMap<String, u32> = BTreeMap::new();
        let mut running: BTreeSet<String> = BTreeSet::new();
        let mut ends = 0;
        let mut take = |actions: Vec<TurnAction>, running: &mut BTreeSet<String>| {
            for action in actions {
                assert_eq!(ends, 0, "nothing comes after the end, but {action:?} did");
                match action {
                    TurnAction::Show(EventKind::ToolStarted { call, .. }) => {
                        assert!(calls.insert(call, 0).is_none(), "a call starts once");
                    }
                    TurnAction::Show(EventKind::ToolEnded { call, .. }) => {
                        running.remove(&call);
                        *calls.get_mut(&call).expect("it has started") += 1;
                    }
                    TurnAction::RunCall { call: order, .. } => {
                        assert_eq!(calls.get(order.id.as_str()), Some(&0), "it was shown before it runs");
                        running.insert(order.id.into());
                    }
                    TurnAction::Save(messages) => saved.extend(messages),
                    TurnAction::StartTranscript(messages) => saved = messages,
                    TurnAction::AskModel(request) => {
                        assert_eq!(find_flaw(&request.messages), None);
                        assert_eq!(
                            request.messages.last().map(|message| message.role),
                            Some(crate::message::MessageRole::User)
                        );
                    }
                    TurnAction::Finish(_) => ends += 1,
                    _ => {}
                }
                let kept = saved.iter().map(|message| ModelMessage::clone(message)).collect();
                assert_eq!(find_flaw(&transcript_repair::repair(kept)), None);
            }
            ends
        };
        let mut ended = 0;
        for input in inputs {
            ended = take(turn.step(input), &mut running);
        }
        if ended == 0 {
            take(turn.step(stop()), &mut running);
        }
        for call in running.clone() {
            let outcome = ToolError::cancelled().into();
            take(turn.step(TurnInput::CallEnded { call, outcome }), &mut running);
        }
        prop_assert_eq!(take(Vec::new(), &mut running), 1);
        prop_assert!(calls.values().all(|ends| *ends == 1), "{:?}", calls);
        prop_assert_eq!(find_flaw(&saved), None);
    }
}
