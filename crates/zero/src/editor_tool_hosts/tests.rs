//! Benches for an editor, with the tools that come with zero and a real server.
#![expect(clippy::disallowed_methods, reason = "tests set up and look at real files")]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_acp::{SessionMcpServer, SessionServerTransport};
use zero_core::event::{ResultContent, ToolCallStatus};
use zero_core::{CallId, FileLocation, SessionId, ToolCall, ToolKind};
use zero_policy::PermissionMode;
use zero_runtime::dialect::render_plain;
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::tool_backend::{CallApprover, CallObserver, ToolBackend};
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, DialectName, Editor, EditorWriteOutcome, Elicitation,
    ElicitationAnswer, Elicitor,
};
use zero_session::store::GrantRecord;

use super::*;
use crate::environment::EnvironmentConfig;
use crate::terminal::Terminal;

/// How long anything may take that has to happen.
const TIMEOUT: Duration = Duration::from_secs(60);

struct EditorFixture {
    _temp: tempfile::TempDir,
    folder: PathBuf,
    terminal: Terminal,
    factory: EditorToolHostFactory,
}

impl EditorFixture {
    fn new(settings: &Value) -> Self {
        // Not in `/tmp`, where a server would see the way to it in its own.
        let temp = tempfile::tempdir_in("/var/tmp").unwrap();
        let folder = temp.path().canonicalize().unwrap();
        for name in ["home/.config/zero", "work/inner", "lib"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        std::fs::write(folder.join("home/.config/zero/settings.json"), settings.to_string())
            .unwrap();
        let script = include_str!("../../tests/it/mcp_server.py");
        std::fs::write(folder.join("work/server.py"), script).unwrap();
        let terminal = Terminal::for_test();
        let app = AppContext {
            config: EnvironmentConfig::for_test(&folder),
            terminal: terminal.clone(),
            tools: Arc::new(LazyLock::new(zero_tools::builtin_tools)),
            notifiers: Arc::default(),
            console: Arc::default(),
            gateway_locality: Arc::default(),
        };
        Self { _temp: temp, folder, terminal, factory: EditorToolHostFactory::new(app, Vec::new()) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn make_order(&self, session: &str) -> ToolHostRequest {
        ToolHostRequest {
            session: SessionId::new(session).unwrap(),
            cwd: self.path("work"),
            additional: Vec::new(),
            mode: None,
            approver: Arc::new(PermissiveEditor),
            elicitor: Arc::new(PermissiveEditor),
            editor: None,
            servers: Vec::new(),
            tools: Vec::new(),
            result_lifetime: ResultLifetime::Session,
        }
    }

    fn make_server(&self, name: &str, variable: &str) -> SessionMcpServer {
        let script = self.path("work/server.py").display().to_string();
        let env = BTreeMap::from([("GIVEN".to_owned(), variable.to_owned())]);
        let how = SessionServerTransport::Command {
            command: "/usr/bin/python3".into(),
            args: vec![script, name.to_owned()],
            env,
        };
        SessionMcpServer { name: name.to_owned(), transport: how }
    }

    /// How many processes of servers there are.
    fn count_processes(&self) -> usize {
        let script = self.path("work/server.py").display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.map(|entry| std::fs::read(entry.path().join("cmdline")));
        lines.flatten().filter(|line| String::from_utf8_lossy(line).contains(&script)).count()
    }
}

/// Says yes to everything, has every file open, and hears nothing.
struct PermissiveEditor;

impl CallApprover for PermissiveEditor {
    fn ask<'a>(&'a self, _: &'a str, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }

    fn store_grants(&self, _: Vec<GrantRecord>) {}
}

impl Elicitor for PermissiveEditor {
    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(std::future::ready(ElicitationAnswer::Cancel))
    }
}

impl Editor for PermissiveEditor {
    fn read<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(Some("being typed\n".to_owned())))
    }

    fn write<'a>(&'a self, _: &'a Path, _: &'a str) -> BoxFuture<'a, EditorWriteOutcome> {
        Box::pin(std::future::ready(EditorWriteOutcome::NotHandled))
    }
}

impl CallObserver for PermissiveEditor {
    fn on_described(&self, _: String, _: ToolKind, _: Vec<FileLocation>) {}

    fn on_progress(&self, _: zero_core::CallProgress) {}
}

async fn call_tool(
    backend: &dyn ToolBackend,
    tool: &str,
    input: Value,
) -> (ToolCallStatus, String) {
    let dialect = DialectName::Canonical;
    let (id, tool) = (CallId::from_bits(1), tool.to_owned());
    let call = ToolCall { id, session: None, tool, input, timeout: None };
    let observer = Arc::new(PermissiveEditor);
    let outcome = backend.call(call, dialect, CancellationToken::new(), observer).await;
    match render_plain(&outcome).into_iter().next() {
        Some(ResultContent::Text { text }) => (outcome.status(), text),
        other => panic!("{other:?}"),
    }
}

async fn list_tools(backend: &dyn ToolBackend) -> Vec<String> {
    let catalog = backend.load_catalog(DialectName::Canonical).await.unwrap();
    catalog.tools.iter().map(|tool| tool.canonical.clone()).collect()
}

/// Waits for something that others do.
async fn wait_until(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what} within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn unusable_folders_are_reported() {
    let rig = EditorFixture::new(&json!({}));
    std::fs::write(rig.path("file"), "").unwrap();
    symlink("/", rig.path("all")).unwrap();
    let (work, lib) = (rig.path("work"), rig.path("lib"));
    for (cwd, additional, expected) in [
        ("work".into(), vec![], "is not an absolute path"),
        (rig.path("missing"), vec![], "does not exist"),
        (rig.path("file"), vec![], "file"),
        (rig.path("all"), vec![], "`/` cannot be a workspace"),
        (work.clone(), vec!["lib".into()], "is not an absolute path"),
        (work.clone(), vec![lib.clone(), rig.path("missing")], "does not exist"),
        (work.clone(), vec![lib.clone(); FOLDERS_MAX + 1], "use fewer"),
    ] {
        let error = rig.factory.check_folders(&cwd, &additional).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let order = ToolHostRequest { cwd, additional, ..rig.make_order("s") };
        assert_eq!(rig.factory.open(order).await.err().unwrap().to_string(), error);
    }
    rig.factory.check_folders(&work, &[lib, rig.path("work/inner")]).await.unwrap();
}

#[tokio::test]
async fn backend_uses_editor_folders_and_buffers() {
    let rig = EditorFixture::new(&json!({"permissions": {"mode": "accept-edits"}}));
    std::fs::write(rig.path("lib/a.txt"), "on disk\n").unwrap();
    let read = json!({"file_path": rig.path("lib/a.txt")});
    let order = ToolHostRequest {
        additional: vec![rig.path("lib"), rig.path("work/inner")],
        editor: Some(Arc::new(PermissiveEditor)),
        ..rig.make_order("one")
    };
    let SessionToolHost { backend, own_mode } = rig.factory.open(order).await.unwrap();
    assert_eq!((own_mode, backend.folder()), (PermissionMode::AcceptEdits, Some(rig.path("work"))));
    let (status, text) = call_tool(&*backend, "Read", read.clone()).await;
    assert!(status == ToolCallStatus::Completed && text.contains("being typed"), "{text}");
    let additional = vec![rig.path("lib")];
    let order = ToolHostRequest { additional, ..rig.make_order("two") };
    let other = rig.factory.open(order).await.unwrap().backend;
    let (_, text) = call_tool(&*other, "Read", read).await;
    assert!(text.contains("on disk"), "a buffer is of one session: {text}");
}

#[tokio::test]
async fn session_servers_are_private_and_end_with_session() {
    let rig = EditorFixture::new(&json!({"permissions": {"deny": ["bad__*"]}}));
    let mut servers =
        vec![rig.make_server("My Server", "${HOME}"), rig.make_server("bad", "s3cret")];
    servers.push(SessionMcpServer {
        name: "plain".to_owned(),
        transport: SessionServerTransport::Http {
            url: "http://example.com/?key=s3cret".to_owned(),
            headers: BTreeMap::from([("authorization".to_owned(), "s3cret".to_owned())]),
        },
    });
    let order = ToolHostRequest { servers, ..rig.make_order("one") };
    let backend = rig.factory.open(order).await.unwrap().backend;
    let is_there =
        async || list_tools(&*backend).await.iter().any(|tool| tool == "My-Server__echo");
    wait_until("its tools are there", is_there).await;
    let (status, text) = call_tool(&*backend, "My-Server__env", json!({})).await;
    assert_eq!(status, ToolCallStatus::Completed, "{text}");
    let env: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(env["GIVEN"], "${HOME}".len(), "it is meant as it is written");
    assert!(!list_tools(&*backend).await.iter().any(|tool| tool.starts_with("bad")));

    let other = rig.factory.open(rig.make_order("two")).await.unwrap().backend;
    assert!(
        !list_tools(&*other).await.iter().any(|tool| tool.contains("__")),
        "those of one session"
    );

    let stderr = rig.terminal.err.written_text();
    assert!(
        stderr.contains("cannot use MCP server `plain` (your editor)") && stderr.contains("https"),
        "{stderr}"
    );
    assert!(!stderr.contains("s3cret"), "{stderr}");
    assert!(rig.count_processes() > 0);
    drop(backend);
    wait_until("the server ends with its session", async || rig.count_processes() == 0).await;
}
