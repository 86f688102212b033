//! Integration tests of the policy engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod argument_rules;
mod attacks_engine;
mod attacks_programs;
mod attacks_rules;
mod attacks_shell;
mod bash_differential;
mod bash_parser;
mod command_access;
mod command_hosts;
mod confined_changes;
#[path = "../../src/cpu_time.rs"]
mod cpu_time;
mod engine_harness;
mod everyday_commands;
mod grants;
mod masked_files;
mod own_files;
mod private_temp;
mod properties;
mod protected_links;
mod push_repositories;
mod script_walk;
mod tool_resources;
mod verdicts;
