//! Decides what may happen, on effects, with a reason for every decision.
//!
//! Pure: facts in, decision out. What must be known of the machine comes through [`World`].

pub mod decision;
pub mod host;
pub mod path;
pub mod program;
pub mod protected;
pub mod rule;
pub mod rules;
pub mod shell;
pub mod world;

pub use decision::{Decision, Grant, JudgedEffect, Verdict};
pub use world::{NoWorld, World};
