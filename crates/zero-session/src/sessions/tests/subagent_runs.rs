//! Sub-agents: sessions with a parent, their limits, budgets and ends.

use std::sync::atomic::Ordering;

use zero_core::Budget;

use super::fixture::*;
use crate::budget::BudgetRules;
use crate::event::{EventKind, RunOutcome, ToolCallStatus};
use crate::run_usage::RunUsageQuery;
use crate::sessions::*;
use crate::store::SessionRecord;

impl SessionTestBed {
    /// The sessions of the sub-agents of the session, oldest first.
    async fn children(&self) -> Vec<SessionRecord> {
        let parent = Some(self.record().await.id);
        let query = SessionQuery { parent, ..SessionQuery::default() };
        let mut children = self.sessions.list(query).await.unwrap().sessions;
        children.reverse();
        children
    }

    fn log(&self) -> Vec<String> {
        self.backend.log.lock().unwrap().clone()
    }

    /// The names of the tools of each request, and its first words.
    fn requests(&self) -> Vec<(String, Vec<String>)> {
        let requests = self.model.requests.lock().unwrap();
        let request = |request: &crate::model::ModelRequest| {
            let text = request.messages.first().map(|message| message.text()).unwrap_or_default();
            (text, request.tools.iter().map(|tool| tool.name.clone()).collect())
        };
        requests.iter().map(request).collect()
    }

    /// The outcome of the last call of the session, as the model was told of it.
    async fn last_outcome(&self) -> (ToolCallStatus, String) {
        let ledger = self.store.ledger(&self.record().await.id);
        let ended = ledger.iter().rev().find_map(|event| match &event.kind {
            EventKind::ToolEnded { status, outcome, .. } => {
                Some((*status, serde_json::to_string(outcome).unwrap()))
            }
            _ => None,
        });
        ended.unwrap()
    }
}

fn with_subagents(parallel_max: usize, depth_max: u32) -> SessionLimits {
    let subagents = SubagentLimits { parallel_max, depth_max };
    SessionLimits { subagents, ..SessionLimits::default() }
}

#[tokio::test(start_paused = true)]
async fn subagent_has_session_of_its_own_and_its_answer_is_the_result() {
    let fixture = SessionTestBed::new(&["Task:look", "Read:1", "found", "done"]).await;
    let lines = fixture.run("go").await;
    assert!(lines.ends_with("completed / text done / usage / ended completed"), "{lines}");
    let (_, outcome) = fixture.last_outcome().await;
    assert!(outcome.contains("found"), "{outcome}");
    let [child] = &fixture.children().await[..] else { panic!("one child") };
    assert!(outcome.contains(child.key.as_str()), "{outcome}");
    assert!(child.key.as_str().starts_with("agent:main:main/task-"), "{}", child.key);
    assert_eq!(child.parent, Some(fixture.record().await.id));
    assert_eq!(child.title.as_deref(), Some("look"));
    fixture.check_ledger_of(&child.address()).await;
    let announced =
        fixture.store.ledger(&fixture.record().await.id).into_iter().find_map(|event| match event
            .kind
        {
            EventKind::ToolUpdated { subagent, .. } => subagent,
            _ => None,
        });
    assert_eq!(announced.as_deref(), Some(child.key.as_str()));
    let ledger = fixture.store.ledger(&child.id);
    let parent = ledger.iter().find_map(|event| match &event.kind {
        EventKind::RunStarted { parent, .. } => parent.clone(),
        _ => None,
    });
    assert_eq!(parent.unwrap().run, run_id("go"));
    assert_eq!(fixture.log(), ["subagent task", "Read 1", "closed"]);
    // It knows nothing of the parent's conversation, and cannot start others.
    let requests = fixture.requests();
    assert_eq!(requests[1].0, "look");
    assert!(requests[0].1.contains(&"Task".to_owned()));
    assert!(!requests[1].1.contains(&"Task".to_owned()));
    // Users see their own sessions only, unless they ask for these.
    let own = fixture.sessions.list(SessionQuery::default()).await.unwrap();
    assert_eq!(own.sessions.len(), 1);
    // What it does is shown as the progress of the call.
    let all = fixture.ledger_lines().await;
    assert!(all.contains("update task: look"), "{all}");
    assert!(fixture.sessions.stats().active_sessions <= 1, "nothing of it stays in memory");
}

#[tokio::test(start_paused = true)]
async fn subagents_work_side_by_side_and_end_with_their_parent() {
    let answers = &["Task:a Task:b", "Hang:1", "Hang:2"];
    let fixture = SessionTestBed::new(answers).await;
    fixture.send("go").await;
    // Both hang at the same time.
    let both = async {
        while fixture.log().iter().filter(|line| line.starts_with("Hang")).count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), both).await.unwrap();
    fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap();
    let run = fixture.wait_for_run("go").await.run;
    assert_eq!(run.end, Some(RunOutcome::Aborted { by: "rpc".to_owned() }));
    let children = fixture.children().await;
    assert_eq!(children.len(), 2);
    for child in children {
        fixture.check_ledger_of(&child.address()).await;
        let ledger = fixture.store.ledger(&child.id);
        let last = event_line(&ledger.last().unwrap().kind);
        assert_eq!(last, "ended aborted by parent");
    }
    assert!(fixture.log().iter().filter(|line| *line == "closed").count() == 2);
}

#[tokio::test(start_paused = true)]
async fn more_subagents_than_the_limit_wait() {
    let answers = &["Task:a Task:b", "Read:1", "one", "Read:2", "two", "done"];
    let fixture = SessionTestBed::with_limits(answers, with_subagents(1, 1)).await;
    fixture.run("go").await;
    let texts: Vec<String> = fixture.requests().into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["go", "a", "a", "b", "b", "go"]);
}

#[tokio::test(start_paused = true)]
async fn mode_change_reaches_running_subagent() {
    let fixture = SessionTestBed::new(&["Task:x", "Hang:1"]).await;
    fixture.send("go").await;
    let hangs = async {
        while !fixture.log().iter().any(|line| line.starts_with("Hang")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), hangs).await.unwrap();
    let before = fixture.log().len();
    let patch = async |address: &SessionAddress, mode| {
        let patch = SessionPatch { mode: Some(mode), ..SessionPatch::default() };
        fixture.sessions.patch(address, patch).await.unwrap();
    };
    // The parent's: also if it is cleared, the tools that its run uses hear of it.
    for mode in [Some(PermissionMode::Auto), Some(PermissionMode::Ask), None] {
        patch(&fixture.key, mode).await;
    }
    assert_eq!(fixture.log()[before..], ["mode auto", "mode ask", "mode of settings"]);
    assert_eq!(*fixture.backend.opened.lock().unwrap(), 1, "nobody uses a new one");
    // Its own.
    patch(&fixture.children().await[0].address(), Some(PermissionMode::Plan)).await;
    assert_eq!(fixture.log()[before + 3..], ["mode plan"]);
    fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap();
    fixture.wait_for_run("go").await;
}

#[tokio::test(start_paused = true)]
async fn depth_of_subagents_is_limited() {
    let none = SessionTestBed::with_limits(&["Task:a", "done"], with_subagents(8, 0)).await;
    none.run("go").await;
    assert!(none.last_outcome().await.1.contains("there is no tool `Task`"));
    let two = &["Task:a", "Task:b", "Task:c", "deep", "mid", "done"];
    let fixture = SessionTestBed::with_limits(two, with_subagents(8, 2)).await;
    fixture.run("go").await;
    let opened = fixture.log().iter().filter(|line| *line == "subagent task").count();
    assert_eq!(opened, 2, "the third level has no such tool");
    let root = RunUsageQuery { run: Some(run_id("go")), ..RunUsageQuery::default() };
    let total = fixture.sessions.store().usage_total(root, None).await.unwrap();
    assert_eq!((total.runs, total.usage.requests), (3, 6));
}

#[tokio::test(start_paused = true)]
async fn agent_of_subagent_is_checked() {
    let rows = [
        ("Task@main:x", "the agent `main` cannot start itself"),
        ("Task@nobody:x", "there is no agent `nobody`; there are reviewer, qa"),
        ("Task@direct:x", "there is no agent `direct`"),
    ];
    for (call, expected) in rows {
        let fixture = SessionTestBed::new(&[call, "done"]).await;
        fixture.run("go").await;
        let (status, outcome) = fixture.last_outcome().await;
        assert_eq!(status, ToolCallStatus::Failed);
        assert!(outcome.contains(expected), "{outcome}");
        assert!(fixture.children().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn agent_that_cannot_be_used_is_named_once_and_refused() {
    let fixture = SessionTestBed::new(&["Task@broken:x", "done", "done again"]).await;
    fixture.backend.has_broken_agent.store(true, Ordering::Relaxed);
    fixture.run("go").await;
    let (status, outcome) = fixture.last_outcome().await;
    assert_eq!(status, ToolCallStatus::Failed);
    assert!(outcome.contains("the agent `broken` cannot be used: it has no name"), "{outcome}");
    assert!(fixture.children().await.is_empty());
    fixture.run("again").await;
    let ledger = fixture.ledger_lines().await;
    assert_eq!(ledger.matches("notice agents").count(), 1, "{ledger}");
}

#[tokio::test(start_paused = true)]
async fn subagent_has_no_tool_that_its_parent_lacks() {
    let mut fixture = SessionTestBed::new(&["Task@reviewer:x", "found", "done"]).await;
    fixture.run("go").await;
    assert_eq!(fixture.log(), ["subagent reviewer in plan", "closed"]);
    // What a project's file says is below zero's own prompt and does not replace it.
    let system = fixture.model.requests.lock().unwrap()[1].system.clone();
    let (own, role) =
        system.split_once("<instructions from=\".zero/agents/reviewer.md\">").unwrap();
    assert!(own.starts_with("You are zero, a coding agent."), "{own}");
    assert!(role.contains("You are reviewer."), "{role}");
    assert_eq!(fixture.requests()[1].1, ["Read", "Write"]);
    // `qa` may use tools with R only, so it is not offered any sub-agent.
    fixture.switch_session("agent:qa:x", "me").await;
    fixture.run("again").await;
    assert_eq!(fixture.requests().last().unwrap().1, ["Read"]);
    // As a sub-agent of one that may use all.
    let fixture = SessionTestBed::new(&["Task@qa:x", "found", "done"]).await;
    fixture.run("go").await;
    assert_eq!(fixture.requests()[1].1, ["Read"]);
    assert_eq!(fixture.children().await[0].agent, "qa");
}

#[tokio::test(start_paused = true)]
async fn subagent_counts_to_budgets_of_its_parent() {
    // Each reply uses 11 tokens.
    let budget = Budget { tokens: Some(30), ..Budget::default() };
    let answers = &["Task:a", "Read:1", "Read:2", "Read:3", "never", "never"];
    for scope in ["run", "session", "agent"] {
        let mut budgets = BudgetRules::default();
        match scope {
            "run" => budgets.run = budget,
            "session" => budgets.session = budget,
            _ => budgets.agent = budget,
        }
        let limits = SessionLimits { budgets, ..SessionLimits::default() };
        let fixture = SessionTestBed::with_limits(answers, limits).await;
        let lines = fixture.run("go").await;
        assert!(lines.ends_with("ended budget"), "{scope}: {lines}");
        assert_eq!(fixture.requests().len(), 3, "{scope}");
        let child = &fixture.children().await[0];
        let last = event_line(&fixture.store.ledger(&child.id).last().unwrap().kind);
        assert_eq!(last, "ended budget", "{scope}");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_subagents_share_one_allowance() {
    let calls = Budget { tool_calls: Some(3), ..Budget::default() };
    let budgets = BudgetRules { run: calls, ..BudgetRules::default() };
    let limits = SessionLimits { budgets, ..SessionLimits::default() };
    let answers = &["Task:a", "Read:1 Read:2 Read:3", "more", "more"];
    let fixture = SessionTestBed::with_limits(answers, limits).await;
    let lines = fixture.run("go").await;
    let reads = fixture.log().iter().filter(|line| line.starts_with("Read")).count();
    assert_eq!(reads, 2, "one of the three is the call of the sub-agent itself");
    assert!(lines.ends_with("ended budget"), "{lines}");
}

#[tokio::test(start_paused = true)]
async fn subagent_counts_to_budget_of_its_own_agent() {
    // Each reply uses 11 tokens.
    let budgets = BudgetRules {
        agent: Budget { tokens: Some(40), ..Budget::default() },
        ..BudgetRules::default()
    };
    let limits = SessionLimits { budgets, ..SessionLimits::default() };
    let answers = &["Read:1", "Read:2", "done", "Task@qa:x", "Read:3", "done"];
    let mut fixture = SessionTestBed::with_limits(answers, limits).await;
    fixture.switch_session("agent:qa:x", "me").await;
    fixture.run("one").await;
    fixture.switch_session("main", "me").await;
    let lines = fixture.run("two").await;
    assert!(lines.ends_with("ended completed"), "its parent has not used its own: {lines}");
    let child = &fixture.children().await[0];
    let last = event_line(&fixture.store.ledger(&child.id).last().unwrap().kind);
    assert_eq!(last, "ended budget");
}

#[tokio::test(start_paused = true)]
async fn subagents_do_not_count_to_sessions_of_owner() {
    let limits = SessionLimits { sessions_max: 1, ..SessionLimits::default() };
    let answers = &["Task:a Task:b", "one", "two", "done"];
    let fixture = SessionTestBed::with_limits(answers, limits).await;
    let lines = fixture.run("go").await;
    assert!(lines.ends_with("ended completed"), "{lines}");
    assert_eq!(fixture.children().await.len(), 2);
}
