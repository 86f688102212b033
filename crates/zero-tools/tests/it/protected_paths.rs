//! Files that commands may not change, attacked through the tool host; and what commands must still
//! be able to do.

mod existing_files;
mod links_and_programs;
mod quarantine;
mod repositories;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{SessionId, ToolCall, ToolError};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    CallOutcome, CommandPolicy, CommandSettings, DeniedFiles, Dialect, DialectName, Policy,
    PolicyDecision, PolicyRequest, RiskPolicy, ToolHost, ToolHostConfig, ToolHostSession,
};
use zero_sandbox::{StateDir, Workspace};

use crate::fixture::{AlwaysApprove, busy_machine_limits, command_facts, result_text};

/// Longer than anything here takes on a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

/// A policy that opens and hides the given paths.
struct PathListPolicy {
    opened: Vec<PathBuf>,
    denied: Vec<PathBuf>,
}

impl Policy for PathListPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        RiskPolicy.decide(request)
    }
}

impl CommandPolicy for PathListPolicy {
    fn may_change(&self, canonical: &Path) -> bool {
        self.opened.iter().any(|path| path == canonical)
    }

    fn denied_files(&self, _: &Workspace, _: usize) -> DeniedFiles {
        DeniedFiles::All(self.denied.clone())
    }
}

/// A host whose workspace and state are where a test wants them.
struct ProtectedPathFixture {
    temp: tempfile::TempDir,
    host: ToolHost,
    session: ToolHostSession,
}

struct ProtectedPathSetup<'a> {
    /// Where the temp folder is created.
    parent: &'a str,
    /// The workspace roots and the state folder, in the temp folder.
    roots: &'a [&'a str],
    state: &'a str,
    home: Option<&'a str>,
    /// Paths that a rule lets commands change, and paths that a rule hides from them.
    opened: &'a [&'a str],
    denied: &'a [&'a str],
    /// Paths outside the workspace that settings let commands change.
    writable: &'a [&'a str],
    /// Runs before the workspace is opened.
    before: &'a dyn Fn(&Path),
}

impl Default for ProtectedPathSetup<'_> {
    fn default() -> Self {
        Self {
            parent: "/var/tmp",
            roots: &["work"],
            state: "state",
            home: None,
            opened: &[],
            denied: &[],
            writable: &[],
            before: &|_| {},
        }
    }
}

impl ProtectedPathSetup<'_> {
    fn open(self) -> ProtectedPathFixture {
        let temp = tempfile::Builder::new().prefix("zero-it-").tempdir_in(self.parent).unwrap();
        let base = temp.path().canonicalize().unwrap();
        for folder in self.roots {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        (self.before)(&base);
        let roots: Vec<PathBuf> = self.roots.iter().map(|root| base.join(root)).collect();
        let workspace = Workspace::open(&roots, None).unwrap();
        let state = StateDir::new(base.join(self.state));
        let paths = |names: &[&str]| names.iter().map(|name| base.join(name)).collect();
        let policy = PathListPolicy { opened: paths(self.opened), denied: paths(self.denied) };
        let home = self.home.map(|home| base.join(home));
        let path = std::env::var("PATH").unwrap();
        std::fs::write(base.join(".gitconfig"), "[user]\nname = a\nemail = a@b\n").unwrap();
        let environment = [("PATH", path.as_str()), ("HOME", base.to_str().unwrap())];
        let commands = CommandSettings {
            home,
            writable: paths(self.writable),
            environment: environment.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
            ..CommandSettings::default()
        };
        let host = ToolHost::new(ToolHostConfig {
            approver: Some(Arc::new(AlwaysApprove)),
            policy: Arc::new(policy),
            commands,
            limits: busy_machine_limits(),
            ..ToolHostConfig::new(workspace, state)
        });
        host.registry().add("builtin", zero_tools::builtin_tools()).unwrap();
        let session = host.open_session(SessionId::new("test").unwrap()).unwrap();
        ProtectedPathFixture { temp, host, session }
    }
}

impl ProtectedPathFixture {
    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    async fn call(&self, tool: &str, input: Value) -> Result<CallOutcome, ToolError> {
        let (id, tool) = (new_call_id(), tool.to_owned());
        let call = ToolCall { id, session: None, tool, input, timeout: None };
        let dialect = Dialect::new(DialectName::Canonical);
        self.host.call(&self.session, &dialect, call, &CancellationToken::new()).await.outcome
    }

    /// Runs a line, and returns the structured output.
    async fn run_structured(&self, command: &str) -> Value {
        command_facts(self.call("Bash", json!({"command": command})).await.unwrap())
    }

    /// Runs a line, and returns the text for the model.
    async fn run_bash(&self, command: &str) -> String {
        result_text(&self.call("Bash", json!({"command": command})).await.unwrap())
    }

    /// Runs a line that must succeed without notes.
    #[track_caller]
    fn expect_success(&self, command: &str) -> impl Future<Output = String> {
        let at = std::panic::Location::caller();
        let call = self.run_structured(command);
        let command = command.to_owned();
        async move {
            let facts = call.await;
            assert_eq!(facts["exit_code"], 0, "{command} at {at}: {facts}");
            assert_eq!(facts["notes"], Value::Null, "{command} at {at}: {facts}");
            facts["stdout"].as_str().unwrap().to_owned()
        }
    }

    fn file_names(&self, folder: &str) -> Vec<String> {
        // Placeholders stay a moment longer, for the next command.
        zero_sandbox::spawner::Spawner::release_shared_prewarmed();
        let entries = std::fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Runs git as the user does, without a sandbox.
#[track_caller]
fn run_git(folder: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=me", "-c", "user.email=me@b", "-c", "protocol.file.allow=always"]);
    let output = git.args(args).current_dir(folder).env("HOME", folder).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn create_repository(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    run_git(folder, &["init", "-q", "-b", "main"]);
    std::fs::write(folder.join("file"), "one\n").unwrap();
    run_git(folder, &["add", "-A"]);
    run_git(folder, &["commit", "-qm", "first"]);
}
