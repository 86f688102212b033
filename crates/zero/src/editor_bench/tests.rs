//! Benches for an editor, with the tools that come with zero and a real server.
#![expect(clippy::disallowed_methods, reason = "tests set up and look at real files")]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_acp::{ServerReach, SessionServer};
use zero_core::event::{Place, ResultContent, ToolStatus};
use zero_core::{Kind, SessionId};
use zero_policy::Mode;
use zero_runtime::{
    Answer, DialectName, Editor, Elicitation, ElicitationAnswer, Elicitor, Question, Written,
};
use zero_session::hands::{CallApprover, CallEnd, Hands, HandsCall, HandsWatch};
use zero_session::store::StandingGrant;

use super::*;
use crate::config::Config;
use crate::terminal::Terminal;

/// How long anything may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    _temp: tempfile::TempDir,
    folder: PathBuf,
    terminal: Terminal,
    bench: EditorBench,
}

impl Rig {
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
        let app = App {
            config: Config::for_test(&folder),
            terminal: terminal.clone(),
            tools: Arc::new(LazyLock::new(zero_tools::builtin)),
        };
        Self { _temp: temp, folder, terminal, bench: EditorBench::new(app, Vec::new()) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn order(&self, session: &str) -> BenchOrder {
        BenchOrder {
            session: SessionId::new(session).unwrap(),
            cwd: self.path("work"),
            additional: Vec::new(),
            mode: None,
            approver: Arc::new(Yes),
            elicitor: Arc::new(Yes),
            editor: None,
            servers: Vec::new(),
        }
    }

    fn server(&self, name: &str, variable: &str) -> SessionServer {
        let script = self.path("work/server.py").display().to_string();
        let env = BTreeMap::from([("GIVEN".to_owned(), variable.to_owned())]);
        let how = ServerReach::Command {
            command: "/usr/bin/python3".into(),
            args: vec![script, name.to_owned()],
            env,
        };
        SessionServer { name: name.to_owned(), how }
    }

    /// How many processes of servers there are.
    fn processes(&self) -> usize {
        let script = self.path("work/server.py").display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.map(|entry| std::fs::read(entry.path().join("cmdline")));
        lines.flatten().filter(|line| String::from_utf8_lossy(line).contains(&script)).count()
    }
}

/// Says yes to everything, has every file open, and hears nothing.
struct Yes;

impl CallApprover for Yes {
    fn ask<'a>(&'a self, _: &'a str, _: &'a Question) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::AllowOnce))
    }

    fn stands(&self, _: Vec<StandingGrant>) {}
}

impl Elicitor for Yes {
    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(std::future::ready(ElicitationAnswer::Cancel))
    }
}

impl Editor for Yes {
    fn read<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(Some("being typed\n".to_owned())))
    }

    fn write<'a>(&'a self, _: &'a Path, _: &'a str) -> BoxFuture<'a, Written> {
        Box::pin(std::future::ready(Written::NotTaken))
    }
}

impl HandsWatch for Yes {
    fn described(&self, _: String, _: Kind, _: Vec<Place>) {}

    fn progress(&self, _: String) {}
}

async fn call(hands: &dyn Hands, tool: &str, input: Value) -> (ToolStatus, String) {
    let dialect = DialectName::Canonical;
    let call = HandsCall { id: "c".to_owned(), tool: tool.to_owned(), input, dialect };
    let CallEnd { status, content, .. } =
        hands.call(call, CancellationToken::new(), Arc::new(Yes)).await;
    match content.into_iter().next() {
        Some(ResultContent::Text { text }) => (status, text),
        other => panic!("{other:?}"),
    }
}

async fn tools(hands: &dyn Hands) -> Vec<String> {
    let bench = hands.bench(DialectName::Canonical).await.unwrap();
    bench.tools.iter().map(|tool| tool.canonical.clone()).collect()
}

/// Waits for something that others do.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what} within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn folders_that_cannot_be_worked_in_are_said_to_be() {
    let rig = Rig::new(&json!({}));
    std::fs::write(rig.path("file"), "").unwrap();
    symlink("/", rig.path("all")).unwrap();
    let (work, lib) = (rig.path("work"), rig.path("lib"));
    for (cwd, additional, expected) in [
        ("work".into(), vec![], "is not absolute"),
        (rig.path("missing"), vec![], "does not exist"),
        (rig.path("file"), vec![], "file"),
        (rig.path("all"), vec![], "`/` is the whole machine"),
        (work.clone(), vec!["lib".into()], "is not absolute"),
        (work.clone(), vec![lib.clone(), rig.path("missing")], "does not exist"),
        (work.clone(), vec![lib.clone(); FOLDERS_MAX + 1], "name fewer"),
    ] {
        let error = rig.bench.check(&cwd, &additional).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let order = BenchOrder { cwd, additional, ..rig.order("s") };
        assert_eq!(rig.bench.open(order).await.err().unwrap().to_string(), error);
    }
    rig.bench.check(&work, &[lib, rig.path("work/inner")]).await.unwrap();
}

#[tokio::test]
async fn a_bench_has_the_folders_and_buffers_of_its_editor() {
    let rig = Rig::new(&json!({"permissions": {"mode": "accept-edits"}}));
    std::fs::write(rig.path("lib/a.txt"), "on disk\n").unwrap();
    let read = json!({"file_path": rig.path("lib/a.txt")});
    let order = BenchOrder {
        additional: vec![rig.path("lib"), rig.path("work/inner")],
        editor: Some(Arc::new(Yes)),
        ..rig.order("one")
    };
    let OpenBench { hands, own_mode, .. } = rig.bench.open(order).await.unwrap();
    assert_eq!((own_mode, hands.folder()), (Mode::AcceptEdits, Some(rig.path("work"))));
    let (status, said) = call(&*hands, "Read", read.clone()).await;
    assert!(status == ToolStatus::Completed && said.contains("being typed"), "{said}");
    let additional = vec![rig.path("lib")];
    let order = BenchOrder { additional, ..rig.order("two") };
    let other = rig.bench.open(order).await.unwrap().hands;
    let (_, said) = call(&*other, "Read", read).await;
    assert!(said.contains("on disk"), "a buffer is of one session: {said}");
}

#[tokio::test]
async fn the_servers_of_a_session_are_its_own_and_end_with_it() {
    let rig = Rig::new(&json!({"permissions": {"deny": ["bad__*"]}}));
    let mut servers = vec![rig.server("My Server", "${HOME}"), rig.server("bad", "s3cret")];
    servers.push(SessionServer {
        name: "plain".to_owned(),
        how: ServerReach::Http {
            url: "http://example.com/?key=s3cret".to_owned(),
            headers: BTreeMap::from([("authorization".to_owned(), "s3cret".to_owned())]),
        },
    });
    let order = BenchOrder { servers, ..rig.order("one") };
    let hands = rig.bench.open(order).await.unwrap().hands;
    let is_there = async || tools(&*hands).await.iter().any(|tool| tool == "My-Server__echo");
    until("its tools are there", is_there).await;
    let (status, said) = call(&*hands, "My-Server__env", json!({})).await;
    assert_eq!(status, ToolStatus::Completed, "{said}");
    let env: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(env["GIVEN"], "${HOME}".len(), "it is meant as it is written");
    assert!(!tools(&*hands).await.iter().any(|tool| tool.starts_with("bad")));

    let other = rig.bench.open(rig.order("two")).await.unwrap().hands;
    assert!(!tools(&*other).await.iter().any(|tool| tool.contains("__")), "those of one session");

    let told = rig.terminal.err.written();
    assert!(told.contains("`plain` (your editor) is not used") && told.contains("https"), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
    assert!(rig.processes() > 0);
    drop(hands);
    until("the server ends with its session", async || rig.processes() == 0).await;
}
