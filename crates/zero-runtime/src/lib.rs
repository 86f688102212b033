//! The only path that tool calls take, whatever front end they come from.
//!
//! `resolve → validate → describe → effects → authorize → admit → execute → mask → bound →
//! record → deliver`, always in that order: see [`pipeline`]. Front ends pass a [`zero_core::ToolCall`] to
//! [`ToolHost::call`] and get a [`CallReport`]. Nothing else can run a tool, so a security property
//! is stated and tested once.
//!
//! Not here: the tools themselves, rule syntax, files and the kernel, protocols.

mod address_notes;
pub mod admission;
pub mod approver;
pub mod audit;
mod authorization;
pub mod call_context;
pub mod call_id;
mod call_record;
pub mod circuit_breaker;
pub mod clock;
mod commands;
mod configured_command;
mod connection_questions;
pub mod dialect;
pub mod editor;
pub mod editor_buffers;
pub mod elicitation;
pub mod execution;
pub mod failed_plan;
pub mod file_rewind;
pub mod grants;
pub mod hooks;
mod host_extensions;
pub mod host_session;
pub mod json_reader;
pub mod line_reader;
pub mod metrics;
pub mod name_suggestions;
pub mod notes;
pub mod observer;
pub mod ordered_lock;
pub mod pipeline;
pub mod policy;
pub mod prompt_mentions;
pub mod redaction;
pub mod registry;
pub mod result_truncation;
mod rewind_authorization;
pub mod rule_policy;
pub mod schema;
mod secret_guard;
pub mod seen_files;
mod service_rows;
pub mod session_results;
pub mod simulated_call;
pub mod skills;
mod started_calls;
pub mod stdio;
pub mod text_reader;
pub mod tool;
pub mod tool_backend;
pub mod tool_host;
mod tool_notes;
mod trial;
mod undo_outlook;
mod user_wait;
pub mod web;

pub use approver::{
    AnswerOption, ApprovalAnswer, ApprovalQuestion, ApprovalReply, ApprovalSubject, Approver,
    PendingAnswer, QuestionWithdrawal, REJECTED_BY_USER, REJECTED_EARLIER, REJECTED_IN_SESSION,
    REJECTED_WITH_MESSAGE, REJECTION_CHARS_MAX, TRIAL_DISCARDED, TRIAL_DISCARDED_IN_PART,
    TrialReview, TrialVerdict, USER_APPROVER, WithdrawalNote,
};
pub use call_context::CallContext;
pub use dialect::{Dialect, DialectName};
pub use editor::{Editor, EditorWriteOutcome};
pub use editor_buffers::TextChange;
pub use elicitation::{AGENT_ORIGIN, Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};
pub use grants::{GrantDecision, GrantRecord, GrantStore, SavedGrant, SessionGrant};
pub use hooks::{
    HOOK_WORDS_MAX, Hook, HookFailureAction, HookFile, HookFileReader, HookSettings, ToolPattern,
};
pub use host_session::{SessionInheritance, ToolHostSession, ToolHostSessionConfig};
pub use observer::{CallEvent, CallEventObserver};
pub use pipeline::{CallOutcome, CallReport};
pub use policy::{
    CommandPolicy, DeniedChanges, DeniedFiles, EffectDecision, GrantScope, Policy, PolicyDecision,
    PolicyRequest, RiskPolicy, Verdict,
};
pub use redaction::{SecretMaskConfig, SecretReport, WorkspaceSecrets};
pub use registry::{MissingTool, RegistryChange, ToolRegistry, ToolVisibility};
pub use rule_policy::RulePolicy;
pub use started_calls::StartedCalls;
pub use text_reader::{ReadingRequest, TextReader, TextReaderProvider};
pub use tool::{AnyTool, CallDescription, Tool, ToolInfo, ToolReply, erase};
pub use tool_host::{ToolHost, ToolHostConfig};
pub use tool_notes::{ToolBound, ToolNotes};
pub use web::{CallWebAccess, NetworkGuard};

// Types in the signatures of this crate.
pub use zero_exec::services::{ServiceHandle, ServiceLauncher, ServiceRequest};
pub use zero_exec::{
    CommandDisposition, CommandNetwork, CommandOutcome, CommandRequest, CommandSettings,
    LaunchAccess, OutsideUse, QuarantinedFile, ResolverConfig, SandboxProbeReport, ShellEndFolder,
    StreamMode, TimeoutAction, UndoSettings, WatchReport,
};
