//! A tool host with all tools in a temporary folder, whose approver allows everything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{HostLimits, SessionId, ToolCall, ToolError};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, ApprovalSubject, Approver, CallOutcome, CommandSettings,
    Dialect, DialectName, ToolHost, ToolHostConfig, ToolHostSession,
};
use zero_sandbox::{Journal, StateDir, Workspace};

pub(crate) struct AlwaysApprove;

impl Approver for AlwaysApprove {
    fn name(&self) -> &str {
        "test"
    }

    fn unreachable_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        refuse_connections(question)
    }

    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}

/// Nobody can be asked about a connection while a command runs, as with `--yes`.
pub(crate) fn refuse_connections(question: &ApprovalQuestion) -> Option<String> {
    (question.subject == ApprovalSubject::Connection).then(|| "nobody is asked".to_owned())
}

/// The default limits, except for those that a busy machine and an unoptimized build reach: a large
/// change takes long, and a command that is slowed down is told so.
pub(crate) fn busy_machine_limits() -> HostLimits {
    let file_timeout = std::time::Duration::from_secs(10 * 60);
    let mut limits = HostLimits { file_timeout, ..HostLimits::default() };
    limits.set("command-cpu", "100000%").unwrap();
    limits
}

/// A tool host with all tools in a temporary folder.
pub(crate) struct ToolFixture {
    temp: tempfile::TempDir,
    pub(crate) host: ToolHost,
    session: ToolHostSession,
}

impl ToolFixture {
    /// Creates a fixture for single calls without a session.
    pub(crate) fn one_shot() -> Self {
        Self::build(CommandSettings::default(), |host| host.open_one_shot_session())
    }

    /// Creates a fixture for single calls, with these settings for commands.
    pub(crate) fn with_commands(settings: CommandSettings) -> Self {
        Self::build(settings, |host| host.open_one_shot_session())
    }

    /// Creates a fixture for single calls, with these settings for commands and these host limits.
    pub(crate) fn with_limits(settings: CommandSettings, limits: HostLimits) -> Self {
        Self::build_with(settings, limits, |host| host.open_one_shot_session())
    }

    /// Creates a fixture for calls of one session.
    pub(crate) fn session() -> Self {
        Self::session_with_commands(CommandSettings::default())
    }

    /// Creates a fixture for calls of one session, with these settings for commands.
    pub(crate) fn session_with_commands(settings: CommandSettings) -> Self {
        Self::build(settings, |host| host.open_session(SessionId::new("test").unwrap()))
    }

    /// Creates a fixture for calls of one session, of a host with a changed configuration.
    pub(crate) fn session_with_host(set_up: impl FnOnce(&mut ToolHostConfig)) -> Self {
        Self::assemble(set_up, |host| host.open_session(SessionId::new("test").unwrap()))
    }

    /// Creates a fixture for calls of a session that `open` opens, of a host with a changed
    /// configuration.
    pub(crate) fn session_opened_with(
        set_up: impl FnOnce(&mut ToolHostConfig),
        open: impl FnOnce(&ToolHost) -> Result<ToolHostSession, ToolError>,
    ) -> Self {
        Self::assemble(set_up, open)
    }

    fn build(
        commands: CommandSettings,
        open: impl FnOnce(&ToolHost) -> Result<ToolHostSession, ToolError>,
    ) -> Self {
        Self::build_with(commands, busy_machine_limits(), open)
    }

    fn build_with(
        commands: CommandSettings,
        limits: HostLimits,
        open: impl FnOnce(&ToolHost) -> Result<ToolHostSession, ToolError>,
    ) -> Self {
        let set_up = |config: &mut ToolHostConfig| {
            (config.commands, config.limits) = (commands, limits);
        };
        Self::assemble(set_up, open)
    }

    fn assemble(
        set_up: impl FnOnce(&mut ToolHostConfig),
        open: impl FnOnce(&ToolHost) -> Result<ToolHostSession, ToolError>,
    ) -> Self {
        // Not in `/tmp`, because commands have a private one.
        let temp = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::create_dir(temp.path().join("work")).unwrap();
        let host = host_with(temp.path(), set_up);
        let session = open(&host).unwrap();
        Self { temp, host, session }
    }

    /// Ends the session and returns its folder.
    pub(crate) fn into_temp_dir(self) -> tempfile::TempDir {
        self.temp
    }

    /// Returns the session of the calls.
    pub(crate) fn open_session(&self) -> &ToolHostSession {
        &self.session
    }

    /// Returns the path of a workspace file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join("work").join(name)
    }

    /// Returns the folder that contains the workspace.
    pub(crate) fn outside(&self) -> &Path {
        self.temp.path()
    }

    pub(crate) fn write_file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    pub(crate) fn read_bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn read_text(&self, name: &str) -> String {
        String::from_utf8(self.read_bytes(name)).unwrap()
    }

    pub(crate) fn journal(&self) -> &Journal {
        self.host.journal()
    }

    pub(crate) async fn call_as(
        &self,
        dialect: DialectName,
        tool: &str,
        input: Value,
    ) -> Result<CallOutcome, ToolError> {
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: tool.to_owned(),
            input,
            timeout: None,
        };
        self.host
            .call(&self.session, &Dialect::new(dialect), call, &CancellationToken::new())
            .await
            .outcome
    }

    /// Makes a call in the canonical dialect.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<CallOutcome, ToolError> {
        self.call_as(DialectName::Canonical, tool, input).await
    }

    /// Makes a call that must fail, and returns `reason: message`.
    pub(crate) async fn call_error(&self, tool: &str, input: Value) -> String {
        let error = self.call(tool, input).await.unwrap_err();
        format!("{}: {}", error.details["reason"].as_str().unwrap(), error.message)
    }
}

/// Creates a host with all tools for `work` in `folder`, with its state beside it.
pub(crate) fn host_in(folder: &Path) -> ToolHost {
    host_with(folder, |_| {})
}

fn host_with(folder: &Path, set_up: impl FnOnce(&mut ToolHostConfig)) -> ToolHost {
    let workspace = Workspace::open(&[folder.join("work")], None).unwrap();
    let state = StateDir::new(folder.join("state"));
    let mut config = ToolHostConfig {
        approver: Some(Arc::new(AlwaysApprove)),
        ..ToolHostConfig::new(workspace, state)
    };
    set_up(&mut config);
    let host = ToolHost::new(config);
    host.registry().add("builtin", zero_tools::builtin_tools()).unwrap();
    host
}

/// The structured output of a command, with the notes of its result.
pub(crate) fn command_facts(outcome: CallOutcome) -> Value {
    let mut facts = outcome.result.structured;
    if !outcome.result.metadata.notes.is_empty() {
        facts["notes"] = json!(outcome.result.metadata.notes);
    }
    facts
}

/// Returns the first piece of content as text.
pub(crate) fn result_text(outcome: &CallOutcome) -> String {
    outcome.rendered.content[0]["text"].as_str().unwrap_or_default().to_owned()
}
