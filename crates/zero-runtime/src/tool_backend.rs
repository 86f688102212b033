//! The port to the tools of a session, wherever they run: beside the gateway, or with a client.
//!
//! An implementation enforces its own policy. The loop only asks for a call and reports what
//! became of it; it knows no more of a file or a command than the backend reports.

mod approval_request;
mod folder_access;
mod tool_list;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zero_core::event::QuestionOrigin;
use zero_core::{
    CallId, CallProgress, ErrorReason, FileLocation, RiskLevel, SecretMask, SessionId, ToolCall,
    ToolCategory, ToolError, ToolKind, ToolOutcome,
};
use zero_policy::PermissionMode;

pub use self::approval_request::{approval_request, new_question_id, question_expiry_ms};
pub use self::folder_access::{FolderAccess, FolderAccessError};
pub use self::tool_list::{ModelToolDefinition, ToolList};
use crate::approver::{ApprovalAnswer, ApprovalQuestion, ApprovalReply, TrialReview, TrialVerdict};
use crate::dialect::DialectName;
use crate::elicitation::Elicitor;
use crate::file_rewind::{FileRewindReport, FileRewindRequest, RewindRequester};
use crate::grants::GrantRecord;
use crate::prompt_mentions::MentionTarget;
use crate::session_results::ResultLifetime;
use crate::text_reader::TextReader;
use crate::tool::BoxFuture;
pub use zero_exec::worktrees::WorktreeReport;

/// MCP servers of a tool host, which take some time to start.
pub trait ServerStartup: Send + Sync {
    /// Waits for the servers whose tools are not known yet, for `most` at most; returns those that
    /// are still not available.
    fn wait_for_servers(&self, most: Duration) -> BoxFuture<'_, Vec<UnavailableServer>>;
}

/// A server whose tools are not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableServer {
    /// Its name.
    pub name: String,
    /// Why it did not start; `None` while it is still starting.
    pub why: Option<String>,
}

impl UnavailableServer {
    /// Longest wait of a first prompt. A server with a shorter startup timeout is given that.
    pub const WAIT_MAX: Duration = Duration::from_secs(5);
}

impl std::fmt::Display for UnavailableServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.name;
        match &self.why {
            None => write!(
                f,
                "MCP server `{name}` is still starting; this prompt goes on without its tools, and they are there for the next one once it is up"
            ),
            Some(why) => write!(
                f,
                "MCP server `{name}` did not start, and this prompt goes on without its tools: {why}"
            ),
        }
    }
}

/// What does the work of one session.
pub trait ToolBackend: Send + Sync {
    /// What there is to work with. It may differ from one request to the next, since servers that
    /// bring tools come and go.
    fn load_catalog(
        &self,
        dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>>;

    /// The commands that the user defined, as in the catalog.
    fn list_commands(&self) -> BoxFuture<'_, Result<Vec<PromptCommand>, ToolBackendError>> {
        Box::pin(async { Ok(self.load_catalog(DialectName::Canonical).await?.commands) })
    }

    /// Makes a call, whose tool and input are written in a dialect. `watch` receives its progress until the
    /// future ends; when `cancel` is cancelled it ends soon, with
    /// [`ErrorReason::Cancelled`](zero_core::ErrorReason::Cancelled).
    fn call(
        &self,
        call: ToolCall,
        dialect: DialectName,
        cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome>;

    /// Changes how much may be done without asking, also for running calls and sub-agents. `None` is the
    /// mode of the settings where the tools run.
    fn set_mode(&self, mode: Option<PermissionMode>)
    -> BoxFuture<'_, Result<(), ToolBackendError>>;

    /// Revokes what the user allowed or rejected for the session under this rule, or everything
    /// without one. Does nothing if a client hosts the tools: its user answers there.
    fn revoke_grants(&self, _rule: Option<&str>) {}

    /// What a path that a prompt mentions names, if these tools are on this machine. Nothing if it
    /// does not exist.
    fn inspect_mention<'a>(&'a self, _path: &'a str) -> BoxFuture<'a, Option<MentionTarget>> {
        Box::pin(std::future::ready(None))
    }

    /// Takes back what calls of the session changed in files, as far as it is recorded.
    fn rewind_files(
        &self,
        _request: FileRewindRequest,
        _requester: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        let message = format!(
            "the tools of this session are with {}, which cannot rewind files; rewind the conversation only",
            self.location()
        );
        let error = ToolError::failed(ErrorReason::ServerUnavailable, message);
        Box::pin(std::future::ready(Err(error)))
    }

    /// Waits for the servers that bring tools and were just started, on the first call only and for a
    /// bounded time. Returns those that are still missing. None if the tools are elsewhere: their host waits.
    fn wait_for_servers(&self) -> BoxFuture<'_, Vec<UnavailableServer>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Whether background jobs run that end with the backend.
    fn has_running_jobs(&self) -> bool {
        false
    }

    /// Where they are, for people: `this machine`, or a client's name.
    fn location(&self) -> String;

    /// The folder they work in, links settled, where that is one of this machine.
    fn folder(&self) -> Option<PathBuf>;

    /// The values of secrets that they know. Other text that is sent to a model must not contain
    /// them either. Empty if they are elsewhere: their host masks there.
    fn secret_mask(&self) -> BoxFuture<'_, Arc<SecretMask>> {
        Box::pin(std::future::ready(Arc::default()))
    }

    /// How long a run waits for them when they are lost in the middle of it. Not at all, unless they
    /// say that they come back.
    fn reconnect_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// What became of calls that another process made with the tools, as far as they know. An outcome is
    /// returned once.
    fn take_outcomes(&self, _calls: Vec<String>) -> BoxFuture<'_, HashMap<String, ToolOutcome>> {
        Box::pin(std::future::ready(HashMap::new()))
    }

    /// Whether sub-agents of the session can use these tools.
    fn takes_subagents(&self) -> bool {
        false
    }

    /// Opens these tools for a sub-agent of the session: on the same machine, with the same rules and
    /// grants, and never with more rights.
    fn open_subagent(
        &self,
        _request: SubagentRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        Box::pin(std::future::ready(Err(ToolBackendError::Workspace(format!(
            "the tools at {} cannot work for sub-agents",
            self.location()
        )))))
    }

    /// Ends the work of a sub-agent, for which these tools were opened. Returns what it changed in a
    /// worktree of its own.
    fn close_subagent(&self) -> BoxFuture<'_, Result<Option<WorktreeReport>, ToolBackendError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A sub-agent for which tools are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentRequest {
    /// Id of its session.
    pub session: SessionId,
    /// Its name, which is shown with its questions.
    pub name: String,
    /// The call of the parent session that started it.
    pub call: CallId,
    /// A mode that may be stricter than that of the parent session.
    pub mode: Option<PermissionMode>,
    /// Where it works.
    pub isolation: SubagentIsolation,
    /// Whether it waited for an answer and goes on.
    pub is_continued: bool,
}

/// Where a sub-agent works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubagentIsolation {
    /// In the folder of its parent.
    #[default]
    Shared,
    /// In a git worktree of its own, outside of which it can change nothing.
    Worktree,
}

impl SubagentIsolation {
    /// Whether it works in a worktree, which other processes can read.
    pub fn from_worktree(has_worktree: bool) -> Self {
        match has_worktree {
            true => Self::Worktree,
            false => Self::Shared,
        }
    }
}

/// What there is to work with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCatalog {
    /// The folder that work happens in.
    pub cwd: PathBuf,
    /// The system it is on, in words a model understands: `linux x86_64`.
    pub system: String,
    /// The tools, in the dialect that was asked for.
    pub tools: ToolList,
    /// What the workspace says about itself (AGENTS.md and the like), outermost first.
    pub instructions: Vec<InstructionFile>,
    /// Commands that the user defined, by name.
    pub commands: Vec<PromptCommand>,
    /// Agents that files of the user or the workspace define, by name.
    pub agents: Vec<AgentDefinition>,
}

/// An agent that is defined in a Markdown file. It can only restrict what its parent may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentDefinition {
    /// Its name: 1 to 64 lower-case letters, digits, `_` or `-`.
    pub name: String,
    /// When to use it, in one line.
    pub description: String,
    /// Its system prompt, or what is quoted below zero's own if a project's file has it.
    pub prompt: String,
    /// The file as displayed, if it is one of the project: its text can only suggest.
    pub project_file: Option<String>,
    /// Canonical names of the tools it may use, of those that its parent has; a trailing `*` matches
    /// any suffix. `None` for all of them.
    pub tools: Option<Vec<String>>,
    /// Name of its model; `None` for that of its parent.
    pub model: Option<String>,
    /// Its mode, if that is stricter than its parent's.
    pub mode: Option<PermissionMode>,
    /// Where it works at least isolated; a call can ask for more.
    pub isolation: SubagentIsolation,
    /// What is wrong with its file. Then it cannot be used.
    pub problem: Option<String>,
}

/// A tool of the catalog.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogEntry {
    /// Its name in the dialect.
    pub name: String,
    /// Its canonical name, by which agents choose a subset.
    pub canonical: String,
    /// Its name for people; `None` if its host does not say it.
    pub display_name: Option<String>,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Value,
    /// Kind of tool, which clients show as an icon.
    pub kind: ToolKind,
    /// Whether it changes nothing, so that several may run at a time.
    pub read_only: bool,
    /// Further facts for programs; `None` for a tool of another process, which does not say it.
    pub info: Option<CatalogInfo>,
}

/// What a tool declares for programs.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogInfo {
    /// JSON Schema of its structured result.
    pub output_schema: Value,
    /// Its category.
    pub category: ToolCategory,
    /// Its risk before the arguments are known.
    pub risk: RiskLevel,
}

/// A file with instructions for agents that work here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    /// Its path, as people write it.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// A prompt command that the user wrote as a Markdown file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptCommand {
    /// What it is called by, without the slash.
    pub name: String,
    /// What it does, in one line.
    pub description: String,
    /// What may follow it, for people.
    pub argument_hint: Option<String>,
    /// The prompt it stands for. `$ARGUMENTS` is what follows it, `$1` to `$9` its words.
    pub prompt: String,
}

/// Receives the progress of a call while it runs. Must return at once.
pub trait CallObserver: Send + Sync {
    /// What it will do is known.
    fn on_described(&self, title: String, kind: ToolKind, locations: Vec<FileLocation>);

    /// It has something to say before it ends.
    fn on_progress(&self, progress: CallProgress);

    /// It was allowed, has a place, and runs.
    fn on_started(&self) {}

    /// Its command printed this. Output that is shown while it runs is not kept: the result has all
    /// of it.
    fn on_output(&self, _text: &str) {}

    /// It has started a sub-agent, whose session has this key.
    fn on_subagent(&self, _session_key: String) {}

    /// What reads long texts for the call, where a model does.
    fn reader(&self) -> Option<Arc<dyn TextReader>> {
        None
    }
}

/// Observes a call that is not shown: its caller reports its end.
#[derive(Clone, Copy, Debug)]
pub struct SilentObserver;

impl CallObserver for SilentObserver {
    fn on_described(&self, _title: String, _kind: ToolKind, _locations: Vec<FileLocation>) {}

    fn on_progress(&self, _progress: CallProgress) {}
}

/// Why a tool host cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolBackendError {
    /// Where the tools are is not known now, because the session store does not answer.
    #[error("{0}")]
    StoreUnavailable(String),
    /// The folder cannot be worked in.
    #[error("{0}")]
    Workspace(String),
    /// The user for whom it would work may not work there.
    #[error(transparent)]
    FolderNotAllowed(#[from] FolderAccessError),
    /// The client that hosts the tools of this session is not connected.
    #[error(
        "the tools of this session are with {host}, which is not connected; start it again, or start a new session"
    )]
    ClientDisconnected {
        /// The client.
        host: String,
    },
}

/// Opens the tool backends of sessions whose tools run on this machine.
pub trait ToolBackendFactory: Send + Sync {
    /// Opens the backend of a session in a folder. Slow work waits for the first call.
    fn open(
        &self,
        order: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>>;

    /// Copies the results of a session that were too large for its transcript, for a copy of the
    /// session.
    fn copy_results(
        &self,
        _from: &SessionId,
        _to: &SessionId,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends the background jobs of a session that is reset or deleted, whichever process of this
    /// machine holds them, and removes the results that were too large for its transcript. Failures
    /// are logged.
    fn discard_session(&self, _session: &SessionId) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What the backend of a session is opened with.
pub struct ToolBackendRequest {
    /// Id of the session that the tools are for.
    pub session: SessionId,
    /// Owner of the session, if others may have sessions in the same folder.
    pub owner: Option<String>,
    /// The folder to work in.
    pub cwd: PathBuf,
    /// Where it has to lie once it is opened.
    pub folder_access: FolderAccess,
    /// Permission mode; `None` uses the mode of the settings.
    pub mode: Option<PermissionMode>,
    /// Asks the user whether a call may run.
    pub approver: Arc<dyn CallApprover>,
    /// Asks the user a question on behalf of a tool.
    pub elicitor: Arc<dyn Elicitor>,
    /// The grants that the user gave earlier in this session.
    pub grants: Vec<GrantRecord>,
    /// How long its oversized results exist.
    pub result_lifetime: ResultLifetime,
}

/// Asks the user for approval of a call, and stores their grants.
pub trait CallApprover: Send + Sync {
    /// Who answers, for the audit log: [`USER_APPROVER`](crate::USER_APPROVER), `--yes`, …
    fn name(&self) -> &str {
        crate::USER_APPROVER
    }

    /// Whether the answers come from a user who has seen the question.
    fn is_person(&self) -> bool {
        true
    }

    /// Whether its answer can let a command run outside the sandbox: the user answers at the machine
    /// on which it runs. A client of a gateway may be a program, and may be somewhere else.
    fn can_leave_sandbox(&self) -> bool {
        false
    }

    /// How the user could allow this call if there is no user to ask; the call is denied with this text.
    fn unattended_hint(&self, _question: &ApprovalQuestion) -> Option<String> {
        None
    }

    /// Asks the user, on behalf of the call with this id.
    fn ask<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalAnswer>;

    /// Asks a user who may reply with more than an answer.
    fn ask_for_reply<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
    ) -> BoxFuture<'a, ApprovalReply> {
        Box::pin(async move { self.ask(call, question).await.into() })
    }

    /// Asks on behalf of a call of a sub-agent; `call` is the one that started it, or the sub-agent above it.
    fn ask_for_subagent<'a>(
        &'a self,
        call: &'a str,
        question: &'a ApprovalQuestion,
        _origin: QuestionOrigin,
    ) -> BoxFuture<'a, ApprovalReply> {
        self.ask_for_reply(call, question)
    }

    /// Whether it can show the user what a tried command changed, and ask about it.
    fn can_review_trials(&self) -> bool {
        false
    }

    /// Asks whether the changes of a tried command stay.
    fn review_trial<'a>(&'a self, _review: &'a TrialReview) -> BoxFuture<'a, TrialVerdict> {
        Box::pin(std::future::ready(TrialVerdict::Discard))
    }

    /// Receives all grants of the session after they changed.
    fn store_grants(&self, grants: Vec<GrantRecord>);

    /// The grants that were stored and no longer are, because another process revoked them. Asked
    /// before each call; a grant is reported once.
    fn take_revoked_grants(&self) -> BoxFuture<'_, Vec<GrantRecord>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}
