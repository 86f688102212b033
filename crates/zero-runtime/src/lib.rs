//! The one path every tool call takes, whoever asked for it.
//!
//! `resolve → validate → describe → effects → authorize → admit → execute → bound → record →
//! deliver`, in that order, always: see [`pipeline`]. Faces arrive at [`ToolHost::call`] with a
//! [`zero_core::ToolCall`] and leave with a [`Report`]. No other road leads to a tool, which is
//! what lets a security property be stated once and tested once.
//!
//! Not here: the tools themselves, rule syntax, files and the kernel, any protocol.

pub mod admission;
pub mod approver;
pub mod audit;
mod authorize;
pub mod bound;
pub mod breaker;
pub mod buffers;
pub mod commands;
mod companions;
pub mod context;
pub mod detached;
pub mod dialect;
pub mod editor;
pub mod egress;
pub mod elicitation;
pub mod execute;
pub mod grants;
pub mod hooks;
pub mod host;
pub mod jobs;
mod ledger;
pub mod lines;
pub mod machine;
pub mod memory;
pub mod metrics;
pub mod nearest;
pub mod observer;
mod particulars;
pub mod pipeline;
pub mod policy;
pub mod reader;
pub mod redact;
pub mod registry;
pub mod rule_policy;
pub mod schema;
pub mod seen_files;
pub mod services;
pub mod session;
mod spill_folder;
pub mod stdio;
pub mod tool;
pub mod unsettled;
pub mod web;

pub use approver::{Answer, AnswerOption, Approver, PendingAnswer, Question};
pub use buffers::Changed;
pub use commands::{
    CommandNetwork, CommandOutcome, CommandRequest, CommandSettings, EndFolder, OnTimeout, Ran,
    Settled, Streams, TakenAway, Trial,
};
pub use context::CallContext;
pub use dialect::{Dialect, DialectName};
pub use editor::{Editor, Written};
pub use egress::{Egress, EgressConfig, Internet};
pub use elicitation::{Elicitation, ElicitationAnswer, Elicitor, Wanted};
pub use grants::{Stand, Standing, StandingAnswer, StandingKeeper};
pub use hooks::{HOOK_WORDS_MAX, Hook, HookFile, HookLook, Hooks, OnFailure, ToolPattern};
pub use host::{HostConfig, ToolHost};
pub use machine::Machine;
pub use observer::{CallEvent, Observer};
pub use particulars::{Bound, Particulars};
pub use pipeline::{Outcome, Report};
pub use policy::{
    Decision, DeniedFiles, Grant, JudgedEffect, Policy, PolicyRequest, RiskPolicy, Verdict,
};
pub use reader::{Reader, Readers, Reading};
pub use registry::{Registry, RegistryChange, Shown};
pub use rule_policy::RulePolicy;
pub use services::{Access, Service, ServiceRequest, Services};
pub use session::{Session, SessionConfig};
pub use tool::{About, AnyTool, Description, Tool, ToolReply, erase};
pub use web::{CallWeb, NetworkGuard};
