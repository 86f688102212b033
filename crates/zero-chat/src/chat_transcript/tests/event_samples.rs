//! Events for tests.

use serde_json::{Value, json};
use zero_core::event::*;
use zero_core::{
    CallProgress, ErrorReason, ErrorType, FileDiff, ResultDisplay, RunId, ToolError, ToolKind,
    ToolOutcome, ToolResult, ToolResultPart,
};

pub(super) fn make_event(kind: EventKind) -> Event {
    Event { seq: 1, run: Some(RunId::new("r1").unwrap()), time_ms: 0, kind }
}

pub(super) fn at(time_ms: i64, event: Event) -> Event {
    Event { time_ms, ..event }
}

pub(super) fn in_run(run: &str, event: Event) -> Event {
    Event { run: Some(RunId::new(run).unwrap()), ..event }
}

pub(super) fn prompt(text: &str) -> Event {
    make_event(EventKind::Prompt { text: text.to_owned(), attachments: vec![] })
}

pub(super) fn run_started(model: &str) -> Event {
    let (agent, model) = ("main".to_owned(), model.to_owned());
    make_event(EventKind::RunStarted { agent, model, parent: None })
}

pub(super) fn text(text: &str) -> Event {
    make_event(EventKind::Text { text: text.to_owned() })
}

pub(super) fn thought(text: &str) -> Event {
    make_event(EventKind::Thought { text: text.to_owned() })
}

pub(super) fn notice(text: &str) -> Event {
    make_event(EventKind::Notice { topic: "retry".to_owned(), text: text.to_owned() })
}

pub(super) fn waits_for_others(text: &str) -> Event {
    make_event(EventKind::Notice { topic: "queued".to_owned(), text: text.to_owned() })
}

fn started(call: &str, name: &str, title: &str, kind: ToolKind, input: Value) -> Event {
    make_event(EventKind::ToolStarted {
        call: call.to_owned(),
        name: name.to_owned(),
        title: title.to_owned(),
        kind,
        input,
        locations: vec![],
        waits: false,
        transcript_id: None,
    })
}

pub(super) fn call_started(call: &str, title: &str, kind: ToolKind) -> Event {
    started(call, "Tool", title, kind, Value::Null)
}

pub(super) fn waiting_call(call: &str, title: &str) -> Event {
    let mut event = call_started(call, title, ToolKind::Read);
    if let EventKind::ToolStarted { waits, .. } = &mut event.kind {
        *waits = true;
    }
    event
}

fn updated(call: &str, progress: Option<CallProgress>, begins: bool) -> Event {
    make_event(EventKind::ToolUpdated {
        call: call.to_owned(),
        title: None,
        kind: None,
        locations: vec![],
        progress,
        begins,
        subagent: None,
    })
}

pub(super) fn call_begins(call: &str) -> Event {
    updated(call, None, true)
}

pub(super) fn call_progress(call: &str, progress: CallProgress) -> Event {
    at(12_000, updated(call, Some(progress), false))
}

pub(super) fn call_ended(call: &str, outcome: ToolOutcome) -> Event {
    make_event(EventKind::tool_ended(call, outcome))
}

/// The outcome of a command.
pub(super) fn output(stdout: &str, stderr: &str, exit_code: i64) -> ToolOutcome {
    let structured = json!({"stdout": stdout, "stderr": stderr, "exit_code": exit_code});
    ToolResult { structured, ..ToolResult::text(stdout) }.into()
}

/// The outcome of a change to a file.
pub(super) fn change(path: &str, unified: &str) -> ToolOutcome {
    let diff = FileDiff {
        path: path.to_owned(),
        unified: unified.to_owned(),
        old_text: None,
        new_text: None,
        partial: false,
    };
    ToolResult { display: ResultDisplay::Diff(diff), ..ToolResult::text("changed") }.into()
}

pub(super) fn plan(steps: &[(&str, &str)]) -> Event {
    let entry = |(content, status): &(&str, &str)| PlanEntry {
        content: (*content).to_owned(),
        priority: "medium".to_owned(),
        status: (*status).to_owned(),
    };
    make_event(EventKind::Plan { entries: steps.iter().map(entry).collect() })
}

pub(super) fn run_ended(end: RunOutcome) -> Event {
    make_event(EventKind::RunEnded { end, usage: TokenUsage::default() })
}

pub(super) fn usage_reported(context_tokens: u64, context_window: u64) -> Event {
    let run_usage = TokenUsage::default();
    make_event(EventKind::UsageReported { run_usage, context_tokens, context_window })
}

pub(super) fn fallback() -> Event {
    let (from, to) = ("large".to_owned(), "small".to_owned());
    make_event(EventKind::ModelFallback { from, to, reason: "rate limit".to_owned() })
}

pub(super) fn compacted() -> Event {
    make_event(EventKind::Compacted {
        summary: "We fixed the parser.\nNext: tests.".to_owned(),
        tokens_before: 90,
        tokens_after: 20,
        extent: None,
    })
}

pub(super) fn changed(field: &str, value: Option<&str>) -> Event {
    let (field, value) = (field.to_owned(), value.map(str::to_owned));
    make_event(EventKind::Changed { field, value })
}

pub(super) fn approval_requested(call: &str) -> Event {
    make_event(EventKind::ApprovalRequested(ApprovalRequest {
        id: "a1".to_owned(),
        subject: ApprovalSubject::Call,
        call: call.to_owned(),
        tool: "Bash".to_owned(),
        title: "Run".to_owned(),
        reason: "no rule".to_owned(),
        risk: "low".to_owned(),
        commands: vec![],
        effects: vec![],
        preview: None,
        input: None,
        options: vec![],
        cwd: "/w".to_owned(),
        expires_ms: 0,
        subagent: None,
    }))
}

pub(super) fn approval_resolved() -> Event {
    let (answer, by) = ("allow_once".to_owned(), "user".to_owned());
    make_event(EventKind::ApprovalResolved { id: "a1".to_owned(), answer, by })
}

fn question_asked(message: &str) -> Event {
    make_event(EventKind::QuestionAsked(UserQuestion {
        id: "q".to_owned(),
        origin: "server `tickets`".to_owned(),
        message: message.to_owned(),
        schema: None,
        url: None,
        subagent: None,
    }))
}

fn question_answered(action: &str) -> Event {
    make_event(EventKind::QuestionAnswered { id: "q".to_owned(), action: action.to_owned() })
}

/// A prompt with an image, thoughts, an answer, and a long run.
pub(super) fn conversation() -> Vec<Event> {
    let image =
        PromptAttachment { mime: "image/png".to_owned(), data: "AA==".to_owned(), name: None };
    let answer = "# Result\n\nThe **parser** reads `a.rs`, which is longer than one row of the window can hold.\n\n* one\n* two\n\n```rust\nlet answer = compute_the_answer(to_everything, in_the_universe, and_the_rest_of_it_too);\n\tindented\n```\n\n• not a call\n";
    let usage = TokenUsage { cost_usd: Some(0.0421), work_ms: 72_000, ..TokenUsage::default() };
    vec![
        make_event(EventKind::Prompt {
            text: "Fix the parser, and tell me what was wrong with it in one sentence, please.\n\n  Indented line."
                .to_owned(),
            attachments: vec![image],
        }),
        run_started("m"),
        at(1_000, thought("First I look at ")),
        at(9_000, thought("the parser.\nThen I fix it.")),
        at(13_000, text(&answer[..20])),
        at(14_000, text(&answer[20..])),
        at(15_000, usage_reported(1_000, 200_000)),
        at(73_000, make_event(EventKind::RunEnded { end: RunOutcome::Completed, usage })),
    ]
}

/// Calls of every kind and outcome.
pub(super) fn calls() -> Vec<Event> {
    let lines: String = (1..=125).map(|line| format!("line {line}\n")).collect();
    let unified = "@@ -1,4 +1,4 @@\n fn main() {\n-\tlet total = count(first);\n+\tlet total = count(second);\n-    old line\n+    something else\n }\n";
    let diff = ResultDisplay::Diff(FileDiff {
        path: "a.rs".to_owned(),
        unified: unified.to_owned(),
        old_text: None,
        new_text: None,
        partial: false,
    });
    let edited = ToolResult { display: diff, ..ToolResult::text("edited") };
    let with_note = {
        let structured = json!({
            "stdout": lines, "stderr": "", "exit_code": 0,
            "notes": ["2 files that the command made were moved to quarantine, because they can run code"],
        });
        ToolResult { structured, ..ToolResult::text("") }
    };
    let image = ToolResult {
        content: vec![
            ToolResultPart::Text("a picture".to_owned()),
            ToolResultPart::Image { mime: "image/png".to_owned(), data: "AA==".to_owned() },
        ],
        ..ToolResult::text("")
    };
    let fetched = ToolResult {
        display: ResultDisplay::markdown("POST https://example.com/\naccept: text/html\n\nbody"),
        ..ToolResult::text("page")
    };
    let totals = json!({"usage": {"input_tokens": 10, "output_tokens": 2, "tool_calls": 12}, "deniedCalls": 1});
    let task = ToolResult { structured: json!({"totals": totals}), ..ToolResult::text("found") };
    let denied = ToolError::new(
        ErrorType::PermissionDenied,
        ErrorReason::Denied,
        "Run `rm -rf /`: denied by rule `deny Bash(rm:*)`, which comes from the settings of the project",
    );
    let failed = ToolError::failed(
        ErrorReason::Io,
        (1..=10).map(|n| format!("why {n}\n")).collect::<String>(),
    );
    let interrupted = ToolError::failed(ErrorReason::Interrupted, "lost");
    let command = json!({"command": "cargo test \\\n  --all"});
    vec![
        run_started("m"),
        call_started("c1", "Read `src/main.rs`", ToolKind::Read),
        call_ended("c1", ToolResult::text("fn main() {}").into()),
        started("c2", "Bash", "Run `cargo test`", ToolKind::Execute, command),
        at(7_000, call_ended("c2", with_note.into())),
        call_started(
            "c3",
            "Run `make all`, which is a command with quite a long title that does not fit into the row",
            ToolKind::Execute,
        ),
        call_ended("c3", output("a\nb\nc\n", "e1\ne2\ne3\ne4\ne5\ne6\n", 2)),
        call_started("c4", "Edit `a.rs`", ToolKind::Edit),
        call_ended("c4", edited.into()),
        call_started("c5", "Run `rm -rf /`", ToolKind::Execute),
        call_ended("c5", denied.into()),
        call_started("c6", "Fetch `x`", ToolKind::Fetch),
        call_ended("c6", fetched.into()),
        call_started("c7", "Read `a.png`", ToolKind::Read),
        call_ended("c7", image.into()),
        started("c8", "Task", "Task: find the parser", ToolKind::Think, Value::Null),
        at(34_000, call_ended("c8", task.into())),
        call_started("c9", "Search `x`", ToolKind::Search),
        call_ended("c9", failed.into()),
        call_started("c10", "Run `sleep 9`", ToolKind::Execute),
        call_ended("c10", ToolError::cancelled().into()),
        call_started("c11", "Run `date`", ToolKind::Execute),
        call_ended("c11", interrupted.into()),
        text("Done."),
        run_ended(RunOutcome::Completed),
    ]
}

/// Plans, and everything that zero says itself.
pub(super) fn plans_and_notices() -> Vec<Event> {
    let rewound = EventKind::Rewound {
        rewind: "w".to_owned(),
        prompt: Some(3),
        before: 9,
        scope: RewindScope::Both,
        files: 2,
    };
    vec![
        plan(&[
            ("Read the parser", "completed"),
            ("Fix the parser, which takes more words than fit into a narrow window", "in_progress"),
            ("Run the tests", "pending"),
        ]),
        notice("the model is overloaded; the next try is in 4 s"),
        fallback(),
        compacted(),
        question_asked("Which project?\nThere are two."),
        question_answered("accept"),
        question_asked("Sign in?"),
        question_answered("decline"),
        changed("mode", Some("plan")),
        changed("thinking", None),
        changed("label", Some("not shown")),
        make_event(rewound),
        make_event(EventKind::Reset { transcript: 2 }),
        make_event(EventKind::Opaque(OpaqueEvent::unreadable("not JSON"))),
        call_started("c", "Run `ls`", ToolKind::Execute),
        approval_requested("c"),
        approval_resolved(),
        call_ended("c", output("a\n", "", 0)),
    ]
}

/// Every way in which a run can end.
pub(super) fn run_ends() -> Vec<Event> {
    let message = || "what happened, and what to do next".to_owned();
    let aborted = |by: &str| RunOutcome::Aborted { by: by.to_owned() };
    let ends = [
        RunOutcome::Completed,
        RunOutcome::MaxTokens,
        RunOutcome::MaxTurns { turns: 50 },
        RunOutcome::Budget { message: message() },
        RunOutcome::Refused { message: message() },
        aborted("rpc"),
        aborted("loop_guard"),
        aborted("timeout"),
        aborted("shutdown"),
        aborted("reset"),
        RunOutcome::Failed { kind: "auth".to_owned(), message: message() },
        RunOutcome::Interrupted,
    ];
    let mut events = Vec::new();
    for end in ends {
        events.extend([prompt("go"), run_started("m"), at(6_000, run_ended(end.clone()))]);
        events.extend([prompt("go"), run_started("m"), at(1_000, run_ended(end))]);
    }
    events
}

/// A run in the middle.
pub(super) fn unfinished() -> Vec<Event> {
    let task = started("t", "Task", "Task: look for the cause", ToolKind::Think, Value::Null);
    let long = (1..=9).map(|line| format!("compiling {line}")).collect::<Vec<_>>().join("\n");
    vec![
        prompt("go"),
        run_started("m"),
        plan(&[("Look", "completed"), ("Fix what is broken", "in_progress")]),
        at(2_000, call_started("c1", "Run `cargo build`", ToolKind::Execute)),
        at(3_000, task),
        at(3_000, waiting_call("c2", "Read `a.rs`")),
        at(3_000, call_started("c3", "Run `curl x`", ToolKind::Execute)),
        at(3_000, approval_requested("c3")),
        call_progress("c1", CallProgress::new(long)),
        call_progress("t", CallProgress::new("call 3: Read `b.rs`")),
        at(12_000, in_run("r2", prompt("and then\nsomething else"))),
    ]
}
