//! The policy engine from outside.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks_again;
mod attacks_engine;
mod attacks_programs;
mod attacks_shell;
mod bash;
mod closed;
mod command_hosts;
#[path = "../../src/cpu_time.rs"]
mod cpu_time;
mod differential;
mod entrusted;
mod everyday;
mod grants;
mod judging;
mod properties;
mod verdicts;
mod walk;
