//! Decides on the effects of calls, with a reason for every decision.
//!
//! Pure: facts in, decision out. Facts about the machine come from [`Machine`].
//! [`PolicyEngine::decide`] is the entry point. [`rule`] and [`rule_set`] contain the rules,
//! [`shell`] parses command lines, [`program`] knows the effects of programs, and
//! [`protected_paths`] lists the paths that no rule may open.

pub mod command_access;
#[cfg(test)]
mod cpu_time;
pub mod decision;
pub mod engine;
pub mod host;
pub mod machine;
pub mod path;
pub mod permission_mode;
pub mod program;
pub mod protected_paths;
pub mod rule;
pub mod rule_set;
pub mod secret_file_set;
pub mod shell;
mod word_list;

pub use command_access::{
    CommandAccess, NetworkScope, SecretFileScope, SentFile, SentName, WriteScope,
};
pub use decision::{EffectDecision, GrantScope, PolicyDecision, Verdict};
pub use engine::{
    CommandHosts, ConnectDeniedError, ConnectPermission, ConnectRequest, DecisionRequest,
    PolicyEngine, PolicyEngineConfig, UserApproval,
};
pub use host::{HostName, HostPattern, is_web_port};
pub use machine::{EmptyMachine, FileSearchOutcome, Machine, TargetProtection};
pub use permission_mode::PermissionMode;
pub use program::{GitSettingChange, PackageDownload, PackageManager, registry_addresses};
pub use rule::{PolicyRule, RuleOwner, RuleSource};
pub use secret_file_set::SecretFileSet;
