//! Sub-agents that wait for an answer: the run that the user started is parked with them, and goes on with
//! them in whichever process gets the answer.

use std::sync::Arc;
use std::time::Duration;

use zero_core::SessionId;
use zero_runtime::ApprovalAnswer;
use zero_runtime::tool_backend::FolderAccess;

use super::fixture::{PATIENCE, SessionTestBed, event_line, run_id};
use crate::approvals::PendingApproval;
use crate::event::{EventKind, RunOutcome};
use crate::open_question::QuestionScope;
use crate::sessions::{SessionError, SessionLimits, SessionQuery, SubagentLimits};
use crate::store::SessionRecord;

const ALLOW: ApprovalAnswer = ApprovalAnswer::AllowOnce;

fn limits() -> SessionLimits {
    let subagents = SubagentLimits { parallel_max: 8, depth_max: 2 };
    SessionLimits { subagents, ..SessionLimits::default() }
}

impl SessionTestBed {
    /// A process whose run has asked this many questions, given what the model says.
    async fn asking(answers: &[&str], questions: usize) -> Self {
        let fixture = Self::with_limits(answers, limits()).await;
        fixture.send("go").await;
        fixture.wait_for_questions(questions).await;
        fixture
    }

    /// Another process on the same store, for which this one is dead.
    async fn next_process(&self, answers: &[&str]) -> Self {
        Self::with_store(Arc::clone(&self.store), answers, limits()).await
    }

    async fn questions(&self) -> Vec<PendingApproval> {
        self.sessions.pending_approvals(QuestionScope::All).await.unwrap()
    }

    async fn wait_for_questions(&self, count: usize) -> Vec<PendingApproval> {
        let wait = async {
            loop {
                let questions = self.questions().await;
                if questions.len() == count {
                    return questions;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(questions) => questions,
            Err(_) => panic!("{count} questions expected: {}", self.ledger_lines().await),
        }
    }

    async fn answer(&self, id: &str, answer: ApprovalAnswer) -> Result<bool, SessionError> {
        self.sessions.answer_approval(id, answer, "me", FolderAccess::Anywhere).await
    }

    /// Waits until the process has nothing of a session in memory.
    async fn wait_until_parked(&self) {
        let wait = async {
            while self.sessions.stats().active_sessions > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let parked = tokio::time::timeout(PATIENCE, wait).await;
        assert!(parked.is_ok(), "the run stays in memory: {}", self.ledger_lines().await);
        assert!(self.sessions.active_runs().is_empty());
        assert!(self.sessions.approvals().list().is_empty());
    }

    /// The sessions below another.
    async fn subagents_of(&self, parent: &SessionId) -> Vec<SessionRecord> {
        let query = SessionQuery { parent: Some(parent.clone()), ..SessionQuery::default() };
        self.sessions.list(query).await.unwrap().sessions
    }

    fn last_line(&self, session: &SessionId) -> String {
        event_line(&self.store.ledger(session).last().unwrap().kind)
    }

    /// Checks that the run and its sub-agents completed, and that each question was asked and answered once.
    async fn check_completed(&self, subagents: usize, questions: usize) {
        assert_eq!(self.wait_for_run("go").await.run.end, Some(RunOutcome::Completed));
        self.check_ledger().await;
        let record = self.record().await;
        let mut children = self.subagents_of(&record.id).await;
        for at in 0.. {
            let Some(child) = children.get(at) else { break };
            children.extend(self.subagents_of(&child.id.clone()).await);
        }
        assert_eq!(children.len(), subagents, "no sub-agent is started twice");
        for child in &children {
            self.check_ledger_of(&child.address()).await;
            assert_eq!(self.last_line(&child.id), "ended completed");
        }
        let lines = self.ledger_lines().await;
        assert_eq!(lines.matches("approval ").count(), questions, "{lines}");
        assert_eq!(lines.matches(" by me").count(), questions, "{lines}");
        assert!(!lines.contains("cancelled") && !lines.contains("failed"), "{lines}");
        assert!(self.questions().await.is_empty());
    }

    fn count(&self, line: &str) -> usize {
        self.backend.log.lock().unwrap().iter().filter(|logged| *logged == line).count()
    }
}

#[tokio::test]
async fn question_of_killed_process_is_answered_in_next() {
    for (given, outcome) in [(ALLOW, "allowed"), (ApprovalAnswer::RejectOnce, "denied")] {
        let killed = SessionTestBed::asking(&["Task:a", "Read:0 Ask:1 Write:2"], 1).await;
        let [asked] = &killed.questions().await[..] else { panic!("one question") };
        let next = killed.next_process(&["found", "done"]).await;
        let [restored] = &next.questions().await[..] else { panic!("one question") };
        assert_eq!((&restored.request, &restored.run), (&asked.request, &Some(run_id("go"))));
        assert!(restored.request.title.starts_with("sub-agent `task`: "));
        assert_eq!(next.sessions.stats().active_sessions, 0, "it takes no memory");
        assert_eq!(next.answer(&asked.request.id, given).await, Ok(true));
        assert_eq!(next.answer(&asked.request.id, given).await, Ok(false), "once");
        next.check_completed(1, 1).await;
        assert_eq!(next.wait_for_run("go").await.text, "done");
        // What had ended is not made again.
        let calls = next.backend.log.lock().unwrap().clone();
        assert_eq!(calls, ["subagent task", "Ask 1", "Write 2", "closed"]);
        let child = &next.subagents_of(&next.record().await.id).await[0];
        let ends = next.store.ledger(&child.id);
        let ends = ends.iter().filter_map(|event| match &event.kind {
            EventKind::ToolEnded { outcome, .. } => Some(serde_json::to_string(outcome).unwrap()),
            _ => None,
        });
        assert!(ends.into_iter().any(|end| end.contains(outcome)));
    }
}

#[tokio::test(start_paused = true)]
async fn run_leaves_memory_with_its_subagents_and_goes_on() {
    let fixture =
        SessionTestBed::asking(&["Task:a Task:b", "Ask:1", "Ask:2", "x", "y", "z"], 2).await;
    let before = fixture.questions().await;
    fixture.wait_until_parked().await;
    assert_eq!(fixture.count("closed"), 0, "the sub-agents have not ended");
    // Days later.
    tokio::time::sleep(Duration::from_secs(7 * 24 * 60 * 60)).await;
    assert_eq!(fixture.questions().await, before);
    // The one goes on as far as it can, and the other one waits.
    assert_eq!(fixture.answer(&before[1].request.id, ALLOW).await, Ok(true));
    fixture.wait_until_parked().await;
    let [left] = &fixture.questions().await[..] else { panic!("one question") };
    assert_eq!(left.request, before[0].request);
    assert_eq!(fixture.count("closed"), 1);
    assert_eq!(fixture.answer(&before[1].request.id, ALLOW).await, Ok(false), "once");
    assert_eq!(fixture.answer(&left.request.id, ALLOW).await, Ok(true));
    fixture.check_completed(2, 2).await;
}

#[tokio::test(start_paused = true)]
async fn two_subagents_of_killed_process_go_on_one_after_the_other() {
    let killed = SessionTestBed::asking(&["Task:a Task:b", "Ask:1", "Ask:2"], 2).await;
    let asked = killed.questions().await;
    let second = killed.next_process(&["one"]).await;
    assert_eq!(second.answer(&asked[0].request.id, ALLOW).await, Ok(true));
    let closed = async {
        while second.count("closed") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.unwrap();
    second.wait_until_parked().await;
    // Killed again: its process is dead for the next one.
    let third = second.next_process(&["two", "done"]).await;
    let [left] = &third.questions().await[..] else { panic!("one question") };
    assert_eq!(left.request, asked[1].request);
    assert_eq!(third.answer(&left.request.id, ALLOW).await, Ok(true));
    third.check_completed(2, 2).await;
    let calls = third.backend.log.lock().unwrap().clone();
    assert_eq!(calls, ["subagent task", "Ask 2", "closed"]);
}

#[tokio::test(start_paused = true)]
async fn both_answers_arrive_while_the_run_goes_on() {
    let killed = SessionTestBed::asking(&["Task:a Task:b", "Ask:1", "Ask:2"], 2).await;
    let asked = killed.questions().await;
    let next = killed.next_process(&["one", "two", "done"]).await;
    let (one, two) = tokio::join!(
        next.answer(&asked[0].request.id, ALLOW),
        next.answer(&asked[1].request.id, ALLOW)
    );
    assert_eq!((one, two), (Ok(true), Ok(true)));
    next.check_completed(2, 2).await;
}

#[tokio::test(start_paused = true)]
async fn run_stays_while_a_subagent_works() {
    let fixture = SessionTestBed::asking(&["Task:a Task:b", "Ask:1", "Hang:2"], 1).await;
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(fixture.sessions.active_runs().len(), 3);
    assert_eq!(fixture.questions().await.len(), 1);
    // If it is killed now, the one that worked has an unknown outcome, and the other one goes on.
    let next = fixture.next_process(&["found", "done"]).await;
    let [question] = &next.questions().await[..] else { panic!("one question") };
    assert_eq!(next.answer(&question.request.id, ALLOW).await, Ok(true));
    assert_eq!(next.wait_for_run("go").await.run.end, Some(RunOutcome::Completed));
    next.check_ledger().await;
    let children = next.subagents_of(&next.record().await.id).await;
    let mut ends: Vec<String> = children.iter().map(|child| next.last_line(&child.id)).collect();
    ends.sort();
    assert_eq!(ends, ["ended completed", "ended interrupted"]);
    for child in &children {
        next.check_ledger_of(&child.address()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn question_two_levels_below_is_parked_and_answered() {
    for is_killed in [true, false] {
        let answers = &["Task:a", "Task:b", "Ask:1", "deep", "mid", "done"];
        let first = SessionTestBed::asking(answers, 1).await;
        let [asked] = &first.questions().await[..] else { panic!("one question") };
        let origin = asked.request.subagent.as_ref().unwrap();
        assert_eq!(origin.path.len(), 2);
        let next = match is_killed {
            true => first.next_process(&["deep", "mid", "done"]).await,
            false => {
                first.wait_until_parked().await;
                first
            }
        };
        assert_eq!(next.answer(&asked.request.id, ALLOW).await, Ok(true));
        next.check_completed(2, 1).await;
        assert_eq!(next.wait_for_run("go").await.text, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn question_whether_subagent_continues_is_parked() {
    let answers = &["Task:a", "Read:", "Read:", "Read:", "found", "done"];
    let fixture = SessionTestBed::asking(answers, 1).await;
    let [asked] = &fixture.questions().await[..] else { panic!("one question") };
    fixture.wait_until_parked().await;
    assert_eq!(fixture.answer(&asked.request.id, ALLOW).await, Ok(true));
    fixture.check_completed(1, 1).await;
}

#[tokio::test(start_paused = true)]
async fn parked_subagents_end_with_their_parent() {
    for how in ["abort", "reset", "delete"] {
        let fixture = SessionTestBed::asking(&["Task:a", "Task:b", "Ask:1"], 1).await;
        let id = fixture.questions().await[0].request.id.clone();
        fixture.wait_until_parked().await;
        let record = fixture.record().await;
        match how {
            "abort" => {
                let stopped = fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap();
                assert_eq!(stopped, [run_id("go")]);
            }
            "reset" => drop(fixture.sessions.reset(&fixture.key).await.unwrap()),
            _ => assert!(fixture.sessions.delete(&fixture.key).await.unwrap()),
        }
        assert!(fixture.questions().await.is_empty(), "{how}");
        assert_eq!(fixture.answer(&id, ALLOW).await, Ok(false), "{how}");
        let unfinished = fixture.sessions.store().unfinished_runs(None).await.unwrap();
        assert!(unfinished.is_empty(), "{how}: {unfinished:?}");
        let children = fixture.subagents_of(&record.id).await;
        assert_eq!(children.len(), usize::from(how != "delete"), "{how}");
        for child in children {
            fixture.check_ledger_of(&child.address()).await;
            assert_eq!(fixture.last_line(&child.id), "ended aborted by parent", "{how}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn session_of_parked_subagent_takes_no_prompt() {
    let fixture = SessionTestBed::asking(&["Task:a", "Ask:1", "found", "done"], 1).await;
    fixture.wait_until_parked().await;
    let id = fixture.questions().await[0].request.id.clone();
    let child = fixture.subagents_of(&fixture.record().await.id).await.remove(0);
    let prompt = crate::sessions::Prompt {
        text: "more".to_owned(),
        folder_access: FolderAccess::Anywhere,
        ..Default::default()
    };
    let sent = fixture.sessions.send(&child.address(), run_id("more"), prompt).await;
    let Err(SessionError::Busy(why)) = sent else { panic!("{sent:?}") };
    assert!(why.contains(&id), "{why}");
    // A copy of it leaves it as it is.
    fixture.sessions.fork(&child.address(), Some("agent:main:copy"), None).await.unwrap();
    assert_eq!(fixture.answer(&id, ALLOW).await, Ok(true));
    fixture.check_completed(1, 1).await;
}

#[tokio::test(start_paused = true)]
async fn subagent_that_cannot_go_on_ends_its_call_and_its_question() {
    let killed = SessionTestBed::asking(&["Task:a Task:b", "Ask:1", "Ask:2"], 2).await;
    let asked = killed.questions().await;
    let next = killed.next_process(&["found", "done"]).await;
    let origin = asked[1].request.subagent.clone().unwrap();
    let child = SessionId::new(origin.session().to_owned()).unwrap();
    let child = next.sessions.store().session_by_id(&child).await.unwrap().unwrap();
    assert!(next.sessions.delete(&child.address()).await.unwrap());
    assert_eq!(next.answer(&asked[0].request.id, ALLOW).await, Ok(true));
    assert_eq!(next.wait_for_run("go").await.text, "done");
    next.check_ledger().await;
    let lines = next.ledger_lines().await;
    assert!(lines.contains("answer cancelled by zero"), "{lines}");
    let ledger = next.store.ledger(&next.record().await.id);
    let ends = ledger.iter().filter_map(|event| match &event.kind {
        EventKind::ToolEnded { outcome, .. } => Some(serde_json::to_string(outcome).unwrap()),
        _ => None,
    });
    let ends: Vec<String> = ends.collect();
    assert!(ends.iter().any(|end| end.contains("its session was removed meanwhile")), "{ends:?}");
    assert!(!ends.iter().any(|end| end.contains("the user rejected")), "{ends:?}");
}

#[tokio::test]
async fn shutdown_keeps_questions_of_subagents() {
    let fixture = SessionTestBed::asking(&["Task:a Task:b", "Ask:1", "Ask:2"], 2).await;
    let asked = fixture.questions().await;
    fixture.sessions.shut_down(PATIENCE).await;
    let next = fixture.next_process(&["one", "two", "done"]).await;
    for question in &asked {
        assert_eq!(next.answer(&question.request.id, ALLOW).await, Ok(true));
    }
    next.check_completed(2, 2).await;
}
