//! Decides what may happen, on effects, with a reason for every decision.
//!
//! Pure: facts in, decision out. What must be known of the machine comes through [`World`].
//! [`Engine::decide`] is the way in. [`rule`] and [`rules`] hold what people write, [`shell`] reads
//! command lines, [`program`] knows what programs do, [`protected`] what no rule may open.

#[cfg(test)]
mod cpu_time;
pub mod decision;
pub mod engine;
pub mod host;
pub mod mode;
pub mod path;
pub mod program;
pub mod protected;
pub mod rule;
pub mod rules;
pub mod shell;
pub mod world;

pub use decision::{Decision, Grant, JudgedEffect, Verdict};
pub use engine::{CommandHosts, Engine, EngineConfig, Permit, Reach, Refusal, Request};
pub use host::{HostName, HostPattern};
pub use mode::Mode;
pub use rule::{Rule, Source};
pub use world::{NoWorld, Sought, World};
