//! Decides what may happen, on effects, with a reason for every decision.
//!
//! Pure: facts in, decision out. What must be known of the machine comes through [`Machine`].
//! [`PolicyEngine::decide`] is the way in. [`rule`] and [`rule_set`] hold what people write, [`shell`] reads
//! command lines, [`program`] knows what programs do, [`protected_paths`] what no rule may open.

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
pub mod shell;
mod word_list;

pub use decision::{EffectDecision, GrantScope, PolicyDecision, Verdict};
pub use engine::{
    CommandHosts, ConnectDeniedError, ConnectPermission, ConnectRequest, DecisionRequest,
    PolicyEngine, PolicyEngineConfig,
};
pub use host::{HostName, HostPattern};
pub use machine::{EmptyMachine, FileSearchOutcome, Machine};
pub use permission_mode::PermissionMode;
pub use rule::{PolicyRule, RuleSource};
