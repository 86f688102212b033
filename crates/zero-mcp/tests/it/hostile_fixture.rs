//! A host with MCP servers that misbehave, each in its own way, and one that works.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{SessionId, ToolCall, ToolError, ToolResultPart};
use zero_mcp::client::credentials::EmptyLoginStore;
use zero_mcp::client::http::NetworkGuard;
use zero_mcp::client::{
    McpServerSet, McpServerSetConfig, McpServerStatus, RemoteServerAccess, ServerPool,
};
use zero_mcp::server_definition::{
    McpServerDefinition, ServerAlias, ServerLaunch, ServerTransport,
};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    Dialect, DialectName, Elicitation, ElicitationAnswer, Elicitor, ToolHost, ToolHostConfig,
    ToolHostSession,
};
use zero_sandbox::{StateDir, Workspace};

use crate::server_fixture::{AllowAll, SleepCommand, wait_until};

/// The server that works.
pub(crate) const GOOD: &str = "good";

/// A user who answers every question at once.
struct AutoElicitor;

impl Elicitor for AutoElicitor {
    fn elicit<'a>(&'a self, _: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        let values = Map::from_iter([("name".to_owned(), json!("Ada"))]);
        Box::pin(std::future::ready(ElicitationAnswer::Accept(values)))
    }
}

/// The host under test and its servers.
pub(crate) struct HostileFixture {
    temp: tempfile::TempDir,
    pub(crate) host: ToolHost,
    pub(crate) servers: Arc<McpServerSet>,
    session: ToolHostSession,
    mark: SleepCommand,
}

impl HostileFixture {
    /// Creates a host with a server for each of these modes, named by [`alias`], and one that
    /// works.
    pub(crate) fn new(modes: &[&str], change: impl Fn(&str, &mut McpServerDefinition)) -> Self {
        // Not in `/tmp`, because servers have a `/tmp` of their own.
        let temp = tempfile::tempdir_in("/var/tmp").unwrap();
        let work = temp.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let workspace = Workspace::open(std::slice::from_ref(&work), None).unwrap();
        let mut config = ToolHostConfig::new(workspace, state.clone());
        config.approver = Some(Arc::new(AllowAll));
        let host = ToolHost::new(config);
        host.registry().add("builtin", zero_tools::builtin_tools()).unwrap();
        let mark = SleepCommand::new();
        let definitions = modes.iter().chain([&GOOD]).map(|mode| {
            let mut definition = definition(mode, &work, &mark);
            if *mode != GOOD {
                change(mode, &mut definition);
            }
            definition
        });
        let servers = McpServerSet::new(McpServerSetConfig {
            services: host.services(),
            web: RemoteServerAccess {
                guard: NetworkGuard::new(Arc::clone(host.policy()), host.resolver_config().clone()),
                credentials: Arc::new(EmptyLoginStore),
            },
            registry: Arc::clone(host.registry()),
            state,
            definitions: definitions.collect(),
            schema_tokens_max: 1_000_000,
            elicitor: Some(Arc::new(AutoElicitor)),
            pool: Arc::new(ServerPool::default()),
            confined_by: String::new(),
        });
        let session = host.open_session(SessionId::new("test").unwrap()).unwrap();
        Self { temp, host, servers, session, mark }
    }

    /// The folder of the host and its servers.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// Returns the outcome of a call as text.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<String, ToolError> {
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: tool.to_owned(),
            input,
            timeout: None,
        };
        let dialect = Dialect::new(DialectName::Canonical);
        let never = CancellationToken::new();
        let report = self.host.call(&self.session, &dialect, call, &never).await;
        report.outcome.map(|outcome| {
            let texts = outcome.result.content.iter().map(|content| match content {
                ToolResultPart::Text(text) => text.clone(),
                other => format!("{other:?}"),
            });
            texts.collect::<Vec<_>>().join("\n")
        })
    }

    /// Starts the server of a mode and calls its tool `work`.
    pub(crate) async fn visit(&self, mode: &str, input: Value) -> VisitReport {
        let (alias, begun) = (alias(mode), Instant::now());
        let ready = self.servers.wait_until_ready(&alias).await;
        let start = begun.elapsed();
        if let Err(error) = ready {
            let output = format!("not ready: {} | {}", error.message, error.stderr_tail.trim());
            return VisitReport { output, start, call: Duration::ZERO };
        }
        let begun = Instant::now();
        let output = match self.call(&format!("{alias}__work"), input).await {
            Ok(text) => format!("ok: {text}"),
            Err(error) => {
                let reason = error.reason().map(|reason| format!("{reason:?}"));
                format!("{:?} {}: {}", error.error_type, reason.unwrap_or_default(), error.message)
            }
        };
        VisitReport { output, start, call: begun.elapsed() }
    }

    /// Returns the status of the server of a mode.
    pub(crate) fn status(&self, mode: &str) -> McpServerStatus {
        let alias = alias(mode);
        self.servers.status().into_iter().find(|status| status.alias == alias).unwrap()
    }

    /// Calls the working server again and again, and returns how long each call took.
    pub(crate) async fn poll_neighbor(&self, until: &CancellationToken) -> Vec<Duration> {
        let mut took = Vec::new();
        while took.is_empty() || !until.is_cancelled() {
            let begun = Instant::now();
            let output = self.call("good__work", json!({})).await;
            assert_eq!(output.unwrap(), "worked", "other servers do not affect it");
            took.push(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        took
    }

    /// Waits until the process of a mode runs.
    pub(crate) async fn wait_for_process(&self, mode: &str) {
        wait_until(|| {
            std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
                let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
                let [program, is, mark, ..] = words[..] else { return false };
                program.ends_with(b"hostile_server")
                    && is == mode.as_bytes()
                    && mark == self.mark.seconds().as_bytes()
            })
        })
        .await;
    }

    /// Stops all servers, and checks that none of their processes is left.
    pub(crate) async fn stop(self) {
        self.servers.stop().await;
        // Killed processes may take a moment to disappear.
        let left = self.mark.wait_until_ended().await;
        assert!(left < Duration::from_secs(30), "processes were left for {left:?}");
    }
}

/// The outcome of starting and calling a server.
pub(crate) struct VisitReport {
    /// The output, starting with `ok`, `not ready`, or the kind of error.
    pub(crate) output: String,
    /// How long the server took to start.
    pub(crate) start: Duration,
    /// How long the call took.
    pub(crate) call: Duration,
}

/// Returns the alias of the server of a mode.
pub(crate) fn alias(mode: &str) -> String {
    // The length of an alias is limited.
    mode.chars().take(ServerAlias::LEN_MAX).collect()
}

fn definition(mode: &str, work: &Path, mark: &SleepCommand) -> McpServerDefinition {
    McpServerDefinition {
        alias: ServerAlias::new(alias(mode)).unwrap(),
        transport: ServerTransport::Command(ServerLaunch {
            command: server_program(work).display().to_string(),
            args: vec![mode.to_owned(), mark.seconds().to_owned()],
            variables: Vec::new(),
            folder: work.to_owned(),
            network: Vec::new(),
            writable: Vec::new(),
        }),
        startup_timeout: Duration::from_secs(60),
        call_timeout: Some(Duration::from_secs(60)),
        call_timeout_max: Duration::from_secs(60),
        tool_timeouts: Default::default(),
        tools_allowed: None,
        tools_denied: Vec::new(),
        written_at: "settings.json:3".to_owned(),
    }
}

/// The server: an example of this crate, copied beside its working directory. Servers have a `/tmp`
/// of their own, and the build may be in the real one.
fn server_program(work: &Path) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().with_file_name("examples").join("hostile_server");
    assert!(
        program.is_file(),
        "{} is missing: `cargo build -p zero-mcp --example hostile_server`",
        program.display()
    );
    let copy = work.with_file_name("hostile_server");
    if !copy.exists() {
        std::fs::copy(&program, &copy).unwrap();
    }
    copy
}

/// Peak memory of this process so far, in bytes.
pub(crate) fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}
