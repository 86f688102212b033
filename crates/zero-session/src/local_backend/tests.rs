//! The local backend with zero's own tools in a temporary folder.
#![expect(clippy::disallowed_methods, reason = "tests set up real files")]

use std::io::{BufRead as _, Read as _};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};
use zero_core::{CallProgress, FileDiff, FileLocation, ResultDisplay};
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{PolicyEngine, PolicyEngineConfig, Verdict};
use zero_runtime::dialect::{render_for_model, render_plain};
use zero_runtime::{AnyTool, RulePolicy, ToolHostConfig};
use zero_sandbox::{StateDir, Workspace};

use super::*;
use crate::event::{ResultContent, ToolCallStatus};

// The test binary acts as the helper process that starts commands.
zero_sandbox::dispatch_helper_before_main!();

/// Gives the same answer to every question and records the questions.
struct FixedApprover {
    answer: ApprovalAnswer,
    asked: Mutex<Vec<(String, ApprovalQuestion)>>,
    stood: Mutex<Vec<Vec<GrantRecord>>>,
}

impl FixedApprover {
    fn new(answer: ApprovalAnswer) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default(), stood: Mutex::default() })
    }

    fn question_count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl CallApprover for FixedApprover {
    fn ask<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        self.asked.lock().unwrap().push((call.to_owned(), question.clone()));
        Box::pin(std::future::ready(self.answer))
    }

    fn store_grants(&self, grants: Vec<GrantRecord>) {
        self.stood.lock().unwrap().push(grants);
    }
}

/// An approver without a user, which explains why it rejects.
struct UnattendedApprover;

impl CallApprover for UnattendedApprover {
    fn unattended_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        Some(format!("allow `{}` in the settings", question.tool))
    }

    fn ask<'a>(&'a self, _: &'a str, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }

    fn store_grants(&self, _: Vec<GrantRecord>) {}
}

/// Records updates of a call.
#[derive(Default)]
struct RecordingObserver {
    described: Mutex<Vec<(String, ToolKind, Vec<FileLocation>)>>,
    progress: Mutex<Vec<String>>,
    /// `begun`, followed by the output.
    printed: Mutex<String>,
    spoke: Notify,
}

impl CallObserver for RecordingObserver {
    fn on_described(&self, title: String, kind: ToolKind, locations: Vec<FileLocation>) {
        self.described.lock().unwrap().push((title, kind, locations));
    }

    fn on_progress(&self, progress: CallProgress) {
        self.progress.lock().unwrap().push(progress.message);
        self.spoke.notify_one();
    }

    fn on_started(&self) {
        self.printed.lock().unwrap().push_str("begun: ");
    }

    fn on_output(&self, text: &str) {
        self.printed.lock().unwrap().push_str(text);
    }
}

struct BackendFixture {
    temp: tempfile::TempDir,
    host: Arc<ToolHost>,
    dialects: Arc<DialectCache>,
}

impl BackendFixture {
    fn new(rules: &[(Verdict, &str)]) -> Self {
        // Not in `/tmp`, because a command sees its own `/tmp`.
        Self::in_folder(tempfile::tempdir_in("/var/tmp").unwrap(), rules)
    }

    fn in_folder(temp: tempfile::TempDir, rules: &[(Verdict, &str)]) -> Self {
        let folder = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(folder.join("work")).unwrap();
        let rule = |(verdict, text): &(Verdict, &str)| {
            let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
            PolicyRule::parse(text, *verdict, source).unwrap()
        };
        let engine = PolicyEngine::new(PolicyEngineConfig {
            rules: rules.iter().map(rule).collect(),
            roots: vec![folder.join("work")],
            ..PolicyEngineConfig::default()
        });
        let search_path = vec!["/usr/bin".into(), "/bin".into()];
        let host = ToolHost::new(ToolHostConfig {
            policy: Arc::new(RulePolicy::new(engine, search_path)),
            ..ToolHostConfig::new(
                Workspace::open(&[folder.join("work")], None).unwrap(),
                StateDir::new(folder.join("state")),
            )
        });
        host.registry().add(BUILTIN, zero_tools::builtin_tools()).unwrap();
        Self { temp, host: Arc::new(host), dialects: Arc::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("work").join(name)
    }

    fn write_file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn config(&self, session: &str, approver: &Arc<FixedApprover>) -> LocalToolBackendConfig {
        LocalToolBackendConfig {
            host: Arc::clone(&self.host),
            session: SessionId::new(session).unwrap(),
            owner: None,
            dialects: Arc::clone(&self.dialects),
            approver: Arc::clone(approver) as Arc<dyn CallApprover>,
            elicitor: None,
            mode: None,
            grants: Vec::new(),
            result_lifetime: ResultLifetime::Session,
            editor: None,
            own_folder: Some(self.path("../own")),
            keep: Box::new(()),
            parent: None,
            worktrees: None,
        }
    }

    fn backend(&self, session: &str, approver: &Arc<FixedApprover>) -> LocalToolBackend {
        LocalToolBackend::new(self.config(session, approver)).unwrap()
    }
}

#[tokio::test]
async fn rewind_of_gateway_is_judged_as_the_change_it_is() {
    use zero_runtime::file_rewind::FileRewindAction;
    const DENIED: &[(Verdict, &str)] = &[(Verdict::Deny, "Edit(locked.txt)")];
    let (allow, reject) = (ApprovalAnswer::AllowOnce, ApprovalAnswer::RejectOnce);
    // File, mode, rules, answer; whether it is taken back, questions, and words of the error.
    let rows = [
        ("a.txt", PermissionMode::Plan, &[][..], allow, false, 0, "plan mode"),
        ("a.txt", PermissionMode::Ask, &[], reject, false, 1, "rejected"),
        ("a.txt", PermissionMode::Ask, &[], allow, true, 1, ""),
        // It would remove a file.
        ("a.txt", PermissionMode::AcceptEdits, &[], reject, false, 1, "rejected"),
        ("a.txt", PermissionMode::Auto, &[], reject, true, 0, ""),
        ("locked.txt", PermissionMode::Auto, DENIED, allow, false, 0, "Edit(locked.txt)"),
    ];
    for (file, mode, rules, answer, is_done, questions, words) in rows {
        let free = BackendFixture::new(&[]);
        let writer = free.backend("s", &FixedApprover::new(ApprovalAnswer::AllowOnce));
        let (end, _) = call(&writer, "Write", json!({"file_path": file, "content": "x"})).await;
        assert_eq!(end.status(), ToolCallStatus::Completed, "{end:?}");
        let fixture = BackendFixture::in_folder(free.temp, rules);
        let approver = FixedApprover::new(answer);
        let backend = fixture.backend("s", &approver);
        backend.set_mode(Some(mode)).await.unwrap();
        let request = FileRewindRequest {
            rewind: "rewind_1".to_owned(),
            calls: vec!["call_1".to_owned()],
            action: FileRewindAction::Apply,
        };
        let requester = RewindRequester::Gateway(CancellationToken::new());
        let done = backend.rewind_files(request.clone(), requester).await;
        let message = done.as_ref().err().map_or("", |error| error.message.as_str());
        assert!(message.contains(words), "{file} {mode}: {message}");
        let left = (done.is_ok(), fixture.path(file).exists(), approver.question_count());
        assert_eq!(left, (is_done, !is_done, questions), "{file} {mode}");
        let log = std::fs::read_dir(fixture.path("../state/audit")).unwrap();
        let log: Vec<_> =
            log.filter_map(|day| std::fs::read_to_string(day.unwrap().path()).ok()).collect();
        assert!(log.concat().contains("\"tool\":\"rewind\""), "{log:?}");
        // The user of this machine needs no permission.
        backend.rewind_files(request, RewindRequester::User).await.unwrap();
        assert!(!fixture.path(file).exists());
    }
}

#[tokio::test]
async fn mention_is_file_folder_or_nothing() {
    let fixture = BackendFixture::new(&[]);
    std::fs::write(fixture.path("here.txt"), "x").unwrap();
    std::fs::create_dir(fixture.path("folder")).unwrap();
    let backend = fixture.backend("s", &FixedApprover::new(ApprovalAnswer::RejectOnce));
    for (path, expected) in [
        ("here.txt", Some(MentionTarget::File)),
        ("./folder/../here.txt", Some(MentionTarget::File)),
        ("folder", Some(MentionTarget::Folder)),
        ("folder/", Some(MentionTarget::Folder)),
        (".", Some(MentionTarget::Folder)),
        ("nowhere", None),
        ("here.txt/x", None),
        ("bad\0", None),
    ] {
        assert_eq!(backend.inspect_mention(path).await, expected, "{path:?}");
    }
}

fn backend_call(id: &str, tool: &str, input: Value) -> ToolCall {
    let (id, tool) = (CallId::new(id).unwrap(), tool.to_owned());
    ToolCall { id, session: None, tool, input, timeout: None }
}

async fn call(
    backend: &LocalToolBackend,
    tool: &str,
    input: Value,
) -> (ToolOutcome, Arc<RecordingObserver>) {
    let watch = Arc::new(RecordingObserver::default());
    let observer = Arc::clone(&watch) as Arc<dyn CallObserver>;
    let (call, dialect) = (backend_call("call_1", tool, input), DialectName::Canonical);
    let end = backend.call(call, dialect, CancellationToken::new(), observer).await;
    (end, watch)
}

/// The text of a result.
fn result_text(end: &ToolOutcome) -> String {
    match &render_plain(end)[..] {
        [ResultContent::Text { text }] => text.clone(),
        content => panic!("{content:?}"),
    }
}

fn file_position(path: &Path) -> FileLocation {
    FileLocation { path: path.to_owned(), line: None }
}

#[tokio::test]
async fn file_read_needs_no_approval() {
    let fixture = BackendFixture::new(&[]);
    fixture.write_file("a.txt", "one\ntwo\n");
    let no = FixedApprover::new(ApprovalAnswer::RejectOnce);
    let backend = fixture.backend("s", &no);
    let (end, watch) = call(&backend, "Read", json!({"file_path": "a.txt"})).await;
    assert_eq!(
        (end.status(), result_text(&end).as_str()),
        (ToolCallStatus::Completed, "     1\tone\n     2\ttwo")
    );
    let result = end.result().unwrap();
    assert!(matches!(&result.display, ResultDisplay::Markdown { .. }), "{end:?}");
    assert_eq!(result.structured["total_lines"], 2, "{end:?}");
    assert_eq!(result.locations, [file_position(&fixture.path("a.txt"))]);
    let described = watch.described.lock().unwrap();
    assert_eq!(described.len(), 1);
    let (title, kind, locations) = &described[0];
    assert_eq!((title.as_str(), *kind), ("Read `a.txt`", ToolKind::Read));
    assert_eq!(*locations, [file_position(&fixture.path("a.txt"))]);
    assert_eq!(no.question_count(), 0);
    assert!(backend.switchboard.lock_routes().is_empty(), "nothing is left of a call");
}

#[tokio::test]
async fn rejected_call_is_reported_to_model() {
    let fixture = BackendFixture::new(&[]);
    let no = FixedApprover::new(ApprovalAnswer::RejectOnce);
    let backend = fixture.backend("s", &no);
    let (end, _) = call(&backend, "Write", json!({"file_path": "a", "content": "x"})).await;
    assert_eq!(end.status(), ToolCallStatus::Denied);
    assert!(result_text(&end).contains("the user rejected this call"), "{}", result_text(&end));
    assert!(!fixture.path("a").exists());
    let asked = no.asked.lock().unwrap();
    let (id, question) = &asked[0];
    assert_eq!((id.as_str(), question.tool.as_str()), ("call_1", "Write"), "by the loop's own id");
    assert!(no.stood.lock().unwrap().is_empty(), "it counts once");
}

#[tokio::test]
async fn unattended_denial_tells_model_how_to_allow() {
    let fixture = BackendFixture::new(&[]);
    let config = fixture.config("s", &FixedApprover::new(ApprovalAnswer::AllowOnce));
    let backend = LocalToolBackend::new(LocalToolBackendConfig {
        approver: Arc::new(UnattendedApprover),
        ..config
    })
    .unwrap();
    let (end, _) = call(&backend, "Write", json!({"file_path": "a", "content": "x"})).await;
    assert_eq!(end.status(), ToolCallStatus::Denied);
    assert!(
        result_text(&end).contains("to allow it, allow `Write` in the settings"),
        "{}",
        result_text(&end)
    );
    assert!(!fixture.path("a").exists());
}

#[tokio::test]
async fn approved_edit_returns_diff() {
    let fixture = BackendFixture::new(&[]);
    fixture.write_file("a", "old\n");
    let yes = FixedApprover::new(ApprovalAnswer::AllowOnce);
    let backend = fixture.backend("s", &yes);
    call(&backend, "Read", json!({"file_path": "a"})).await;
    let (end, _) = call(&backend, "Write", json!({"file_path": "a", "content": "new\n"})).await;
    assert_eq!(end.status(), ToolCallStatus::Completed, "{end:?}");
    let Some(ResultDisplay::Diff(diff)) = end.result().map(|result| &result.display) else {
        panic!("{end:?}")
    };
    let FileDiff { path, unified, old_text, new_text, partial } = diff;
    assert_eq!((path.as_str(), *partial), ("a", false));
    assert!(unified.contains("-old\n+new"), "{unified}");
    assert_eq!((old_text.as_deref(), new_text.as_deref()), (Some("old\n"), Some("new\n")));
    assert_eq!(std::fs::read_to_string(fixture.path("a")).unwrap(), "new\n");
    assert!(yes.asked.lock().unwrap()[0].1.preview.is_some());
    let edit = json!({"file_path": "a", "old_string": "new", "new_string": "last"});
    let (edited, _) = call(&backend, "Edit", edit).await;
    for (outcome, text) in [(end, "new\n"), (edited, "last\n")] {
        let stored = serde_json::to_string(&outcome).unwrap();
        let field = format!("\"new_text\":{}", json!(text));
        assert_eq!(stored.matches(&field).count(), 1, "the text is stored once: {stored}");
    }
}

#[tokio::test]
async fn todo_list_becomes_session_plan() {
    let fixture = BackendFixture::new(&[]);
    let backend = fixture.backend("s", &FixedApprover::new(ApprovalAnswer::RejectOnce));
    let todo = json!({"content": "Test", "status": "in_progress", "activeForm": "Testing"});
    let (end, _) = call(&backend, "TodoWrite", json!({ "todos": [todo] })).await;
    assert_eq!(end.status(), ToolCallStatus::Completed, "{end:?}");
    let plan = end.result().unwrap().plan().unwrap();
    assert_eq!((plan.len(), &*plan[0].content, &*plan[0].status), (1, "Test", "in_progress"));
    let catalog = backend.load_catalog(DialectName::Canonical).await.unwrap();
    let lists = catalog.tools.iter().find(|tool| tool.canonical == "TodoWrite").unwrap();
    assert!(!lists.read_only, "two at a time would leave whichever came last");
    let (end, _) = call(&backend, "LS", json!({})).await;
    assert_eq!(end.result().unwrap().plan(), None);
}

#[tokio::test]
async fn new_session_receives_stored_notes() {
    let fixture = BackendFixture::new(&[]);
    let state = StateDir::new(fixture.path("../state"));
    fixture.host.insert_extension(Arc::new(NoteStoreSet::new(Some(fixture.path("../own")), state)));
    let yes = FixedApprover::new(ApprovalAnswer::AllowOnce);
    let backend = fixture.backend("s", &yes);
    let save = json!({"action": "save", "name": "tabs", "text": "Use tabs."});
    let (end, _) = call(&backend, "Memory", save).await;
    assert_eq!(end.status(), ToolCallStatus::Completed, "{end:?}");
    assert_eq!(yes.question_count(), 1, "what later sessions are told is for the person to decide");
    let later = fixture.backend("t", &yes);
    let catalog = later.load_catalog(DialectName::Canonical).await.unwrap();
    let notes = &catalog.instructions[0];
    assert_eq!(notes.path, "memory");
    assert!(notes.text.contains("tabs (project, by agent in session s, 20"), "{}", notes.text);
    assert!(notes.text.ends_with("\n> Use tabs."), "{}", notes.text);
    let (end, _) = call(&later, "Memory", json!({"action": "list"})).await;
    assert_eq!(
        (end.status(), yes.question_count()),
        (ToolCallStatus::Completed, 1),
        "to look is allowed"
    );
}

#[tokio::test]
async fn failed_call_returns_error_result() {
    let fixture = BackendFixture::new(&[(Verdict::Deny, "Read(secret)")]);
    fixture.write_file("secret", "x");
    let yes = FixedApprover::new(ApprovalAnswer::AllowSession);
    let backend = fixture.backend("s", &yes);
    for (tool, input, status, words) in [
        ("Raed", json!({}), ToolCallStatus::Failed, "did you mean"),
        ("Read", json!({"path": 1}), ToolCallStatus::Failed, "file_path"),
        ("Read", json!({"file_path": "none"}), ToolCallStatus::Failed, "none"),
        ("Read", json!({"file_path": "secret"}), ToolCallStatus::Denied, "denied by rule"),
        ("read_file", json!({"path": "a"}), ToolCallStatus::Failed, "there is no tool"),
    ] {
        let (end, _) = call(&backend, tool, input).await;
        assert_eq!(end.status(), status, "{tool}: {end:?}");
        assert!(result_text(&end).contains(words), "{tool}: {}", result_text(&end));
    }
    assert_eq!(yes.question_count(), 0);
}

#[tokio::test]
async fn call_uses_requested_dialect() {
    let fixture = BackendFixture::new(&[]);
    fixture.write_file("a.txt", "one\n");
    let backend = fixture.backend("s", &FixedApprover::new(ApprovalAnswer::RejectOnce));
    for (dialect, tool, field) in [
        (DialectName::Acp, "read_file", "path"),
        (DialectName::Qwen, "read_file", "absolute_path"),
        (DialectName::Opencode, "read", "path"),
    ] {
        let input = json!({field: fixture.path("a.txt")});
        let (order, watch) = (backend_call("c", tool, input), RecordingObserver::default());
        let end = backend.call(order, dialect, CancellationToken::new(), Arc::new(watch)).await;
        let [ResultContent::Text { text }] = &render_for_model(dialect, tool, &end)[..] else {
            panic!("{end:?}")
        };
        assert_eq!(
            (end.status(), text.as_str()),
            (ToolCallStatus::Completed, "one"),
            "{dialect}: {end:?}"
        );
        let catalog = backend.load_catalog(dialect).await.unwrap();
        assert!(catalog.tools.iter().any(|known| known.name == tool && known.canonical == "Read"));
    }
}

#[tokio::test]
async fn cancel_stops_running_command() {
    let fixture = BackendFixture::new(&[(Verdict::Allow, "Bash(sleep:*)")]);
    let backend = fixture.backend("s", &FixedApprover::new(ApprovalAnswer::RejectOnce));
    let (watch, cancel) = (Arc::new(RecordingObserver::default()), CancellationToken::new());
    let order = backend_call("c", "Bash", json!({"command": "echo on; sleep 600"}));
    let running = backend.call(
        order,
        DialectName::Canonical,
        cancel.clone(),
        Arc::clone(&watch) as Arc<dyn CallObserver>,
    );
    let stop = async {
        watch.spoke.notified().await;
        cancel.cancel();
    };
    let (end, ()) = tokio::join!(running, stop);
    assert_eq!(end.status(), ToolCallStatus::Cancelled, "{end:?}");
    assert!(watch.progress.lock().unwrap()[0].contains("on"), "it ran");
    assert!(backend.switchboard.lock_routes().is_empty());
}

#[tokio::test]
async fn timed_out_command_tells_model_what_it_printed() {
    let fixture = BackendFixture::new(&[(Verdict::Allow, "Bash(sleep:*)")]);
    let backend = fixture.backend("s", &FixedApprover::new(ApprovalAnswer::RejectOnce));
    let input = json!({"command": "echo half way; sleep 600"});
    let call =
        ToolCall { timeout: Some(Duration::from_secs(2)), ..backend_call("c", "Bash", input) };
    let (dialect, watch) = (DialectName::Canonical, Arc::new(RecordingObserver::default()));
    let end = backend.call(call, dialect, CancellationToken::new(), watch).await;
    let error = end.error().unwrap();
    assert_eq!(error.error_type, zero_core::ErrorType::Timeout, "{error:?}");
    let [ResultContent::Text { text }] = &render_for_model(dialect, "Bash", &end)[..] else {
        panic!("{end:?}")
    };
    assert!(text.contains("half way"), "{text}");
    assert!(text.contains(r#""error_type":"timeout""#), "{text}");
}

#[tokio::test]
async fn session_grants_are_stored_and_restored() {
    let fixture = BackendFixture::new(&[]);
    let yes = FixedApprover::new(ApprovalAnswer::AllowSession);
    let write = |name: &str| json!({"file_path": name, "content": "x"});
    let kept = {
        let backend = fixture.backend("s", &yes);
        for name in ["a", "b"] {
            let (end, _) = call(&backend, "Write", write(name)).await;
            assert_eq!(end.status(), ToolCallStatus::Completed, "{end:?}");
        }
        yes.stood.lock().unwrap().pop().unwrap()
    };
    assert_eq!(yes.question_count(), 2);
    assert!(!kept.is_empty() && kept.iter().all(|one| one.allowed && one.by == "person"));

    let no = FixedApprover::new(ApprovalAnswer::RejectOnce);
    let config = LocalToolBackendConfig { grants: kept.clone(), ..fixture.config("s", &no) };
    let backend = LocalToolBackend::new(config).unwrap();
    std::fs::remove_file(fixture.path("a")).unwrap();
    let (end, _) = call(&backend, "Write", write("a")).await;
    assert_eq!((end.status(), no.question_count()), (ToolCallStatus::Completed, 0), "{end:?}");
    // The grant applies to this session only.
    let other = fixture.backend("other", &no);
    std::fs::remove_file(fixture.path("a")).unwrap();
    let (end, _) = call(&other, "Write", write("a")).await;
    assert_eq!((end.status(), no.question_count()), (ToolCallStatus::Denied, 1), "{end:?}");

    // Plan mode rejects the call despite earlier grants and despite a new approval.
    for (mode, grants) in [(Some(PermissionMode::Plan), kept), (None, Vec::new())] {
        let planner = FixedApprover::new(ApprovalAnswer::AllowSession);
        let config = LocalToolBackendConfig { mode, grants, ..fixture.config("p", &planner) };
        let planning = LocalToolBackend::new(config).unwrap();
        planning.set_mode(Some(PermissionMode::Plan)).await.unwrap();
        for (tool, input) in [
            ("Write", write("a")),
            ("Bash", json!({"command": "touch a"})),
            ("Delete", json!({"file_path": "b"})),
        ] {
            let (end, _) = call(&planning, tool, input).await;
            assert_eq!(end.status(), ToolCallStatus::Denied, "{tool}: {end:?}");
            assert!(result_text(&end).contains("plan mode"), "{tool}: {}", result_text(&end));
        }
        assert_eq!(planner.question_count(), 0);
        let (end, _) = call(&planning, "LS", json!({})).await;
        assert_eq!(end.status(), ToolCallStatus::Completed, "looking is allowed");
        planning.set_mode(Some(PermissionMode::AcceptEdits)).await.unwrap();
        let (end, _) = call(&planning, "Write", write("e")).await;
        assert_eq!(
            (end.status(), planner.question_count()),
            (ToolCallStatus::Completed, 0),
            "{end:?}"
        );
        std::fs::remove_file(fixture.path("e")).unwrap();
    }
    assert!(!fixture.path("a").exists() && fixture.path("b").exists());
}

#[tokio::test]
async fn subagent_has_mode_that_its_parent_has_now() {
    let fixture = BackendFixture::new(&[]);
    let no = FixedApprover::new(ApprovalAnswer::RejectOnce);
    let parent = fixture.backend("parent", &no);
    let child = parent
        .open_subagent(SubagentRequest {
            session: SessionId::new("child").unwrap(),
            name: "task".to_owned(),
            call: CallId::from_bits(1),
            mode: Some(PermissionMode::AcceptEdits),
            isolation: SubagentIsolation::Shared,
            is_continued: false,
        })
        .await
        .unwrap();
    let write = async |name: &str| {
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: "Write".to_owned(),
            input: json!({"file_path": name, "content": "x"}),
            timeout: None,
        };
        let watch = Arc::new(RecordingObserver::default());
        child.call(call, DialectName::Canonical, CancellationToken::new(), watch).await.status()
    };
    // The settings say `ask`.
    for (mode, expected) in [
        (None, ToolCallStatus::Denied),
        (Some(PermissionMode::AcceptEdits), ToolCallStatus::Completed),
        (Some(PermissionMode::Plan), ToolCallStatus::Denied),
        (Some(PermissionMode::AcceptEdits), ToolCallStatus::Completed),
        (None, ToolCallStatus::Denied),
    ] {
        parent.set_mode(mode).await.unwrap();
        let name = format!("{}.txt", fastrand::u32(..));
        assert_eq!(write(&name).await, expected, "{mode:?}");
    }
}

/// A foreign tool that claims to be read-only.
fn foreign_tool() -> Arc<dyn AnyTool> {
    zero_runtime::erase(zero_tools::ls::LsTool)
}

#[tokio::test]
async fn catalog_lists_tools_instructions_and_commands() {
    let fixture = BackendFixture::new(&[]);
    fixture.write_file("AGENTS.md", "Be careful.");
    std::fs::create_dir_all(fixture.path(".zero/commands")).unwrap();
    fixture.write_file(".zero/commands/fix.md", "Fix $1.");
    std::fs::create_dir_all(fixture.path("../own/commands")).unwrap();
    std::fs::write(fixture.path("../own/AGENTS.md"), "Be brief.").unwrap();
    std::fs::write(fixture.path("../own/commands/fix.md"), "Mine.").unwrap();
    let backend = fixture.backend("s", &FixedApprover::new(ApprovalAnswer::RejectOnce));
    let catalog = backend.load_catalog(DialectName::Canonical).await.unwrap();
    assert_eq!(catalog.cwd, fixture.path("").canonicalize().unwrap());
    assert!(catalog.system.contains(std::env::consts::ARCH));
    let texts: Vec<&str> = catalog.instructions.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["Be brief.", "Be careful."]);
    let prompts: Vec<&str> = catalog.commands.iter().map(|one| one.prompt.as_str()).collect();
    assert_eq!(prompts, ["Mine."]);
    let read_only = |catalog: &ToolCatalog| {
        let names = catalog.tools.iter().filter(|tool| tool.read_only);
        let mut names: Vec<String> = names.map(|tool| tool.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(read_only(&catalog), ["Glob", "Grep", "LS", "LSP", "Read", "ReadMany"]);
    assert_eq!(backend.location(), "this machine");
    let again = backend.load_catalog(DialectName::Canonical).await.unwrap();
    assert!(Arc::ptr_eq(&again.tools.definitions(), &catalog.tools.definitions()), "made once");
    // Foreign tools may change anything, whatever they claim.
    let registry = fixture.host.registry();
    registry.remove_source(BUILTIN);
    registry.add("elsewhere", vec![foreign_tool()]).unwrap();
    let catalog = backend.load_catalog(DialectName::Canonical).await.unwrap();
    assert_eq!((catalog.tools.len(), read_only(&catalog).len()), (1, 0));
}

/// Sends a signal when dropped.
struct DropSignal(Option<oneshot::Sender<()>>);

impl Drop for DropSignal {
    fn drop(&mut self) {
        let _ = self.0.take().map(|sender| sender.send(()));
    }
}

#[tokio::test]
async fn dropping_backend_ends_its_processes() {
    let fixture = BackendFixture::new(&[]);
    let pipe = fixture.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (sender, gone) = oneshot::channel();
    let keep = Box::new(DropSignal(Some(sender)));
    let yes = FixedApprover::new(ApprovalAnswer::AllowOnce);
    let backend =
        LocalToolBackend::new(LocalToolBackendConfig { keep, ..fixture.config("s", &yes) })
            .unwrap();
    // The reader reaches the end once all writers are gone.
    let reading = tokio::task::spawn_blocking(move || {
        let mut lines = std::io::BufReader::new(std::fs::File::open(pipe).unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        (line, lines)
    });
    let command = "exec 3>pipe; echo on >&3; sleep 600";
    let input = json!({"command": command, "run_in_background": true});
    let (end, _) = call(&backend, "Bash", input).await;
    assert_eq!(end.status(), ToolCallStatus::Completed, "{end:?}");
    let (line, mut lines) = reading.await.unwrap();
    assert_eq!(line, "on\n");
    drop(backend);
    let rest = tokio::task::spawn_blocking(move || {
        let mut rest = String::new();
        lines.read_to_string(&mut rest).map(|_| rest).unwrap()
    });
    let rest = tokio::time::timeout(Duration::from_secs(60), rest).await;
    assert_eq!(rest.expect("it goes on").unwrap(), "");
    gone.await.unwrap();
}

#[tokio::test]
async fn observer_receives_start_and_output() {
    let fixture = BackendFixture::new(&[]);
    let yes = FixedApprover::new(ApprovalAnswer::AllowOnce);
    let backend = fixture.backend("s", &yes);
    let (end, watch) = call(&backend, "Bash", json!({"command": "echo on; echo off"})).await;
    assert_eq!((end.status(), &*result_text(&end)), (ToolCallStatus::Completed, "on\noff\n"));
    assert_eq!(*watch.printed.lock().unwrap(), "begun: on\noff\n");
    let no = FixedApprover::new(ApprovalAnswer::RejectOnce);
    let backend = fixture.backend("t", &no);
    let (_, watch) = call(&backend, "Bash", json!({"command": "touch a; echo on"})).await;
    assert_eq!(*watch.printed.lock().unwrap(), "", "what is not allowed does not begin");
}

#[tokio::test]
async fn hard_link_of_denied_file_is_not_read_for_the_context() {
    let fixture = BackendFixture::new(&[(Verdict::Deny, "Read(private.md)")]);
    fixture.write_file("private.md", "---\ndescription: hunter2\n---\nhunter2");
    let skill = json!({"skill": "leak"});
    for (folder, name) in [
        (".zero/skills/leak", "SKILL.md"),
        (".zero/agents", "leak.md"),
        (".zero/commands", "leak.md"),
        ("", "AGENTS.md"),
    ] {
        std::fs::create_dir_all(fixture.path(folder)).unwrap();
        let link = fixture.path(folder).join(name);
        std::fs::hard_link(fixture.path("private.md"), &link).unwrap();
        let backend = fixture.backend("s", &FixedApprover::new(ApprovalAnswer::AllowOnce));
        let catalog = backend.load_catalog(DialectName::Canonical).await.unwrap();
        let shown =
            format!("{:?} {:?} {:?}", catalog.instructions, catalog.commands, catalog.agents);
        assert!(!shown.contains("hunter2"), "{folder}/{name}: {shown}");
        let (end, _) = call(&backend, "Skill", skill.clone()).await;
        let text = result_text(&end);
        assert!(!text.contains("hunter2") && end.status() == ToolCallStatus::Failed, "{text}");
        std::fs::remove_file(&link).unwrap();
    }
    // A file with two names of which none is denied is used.
    fixture.write_file("other.md", "---\ndescription: plain\n---\nplain words");
    let link = fixture.path(".zero/skills/leak/SKILL.md");
    std::fs::hard_link(fixture.path("other.md"), link).unwrap();
    let backend = fixture.backend("s", &FixedApprover::new(ApprovalAnswer::AllowOnce));
    let (end, _) = call(&backend, "Skill", skill).await;
    assert!(result_text(&end).contains("plain words"), "{end:?}");
}
