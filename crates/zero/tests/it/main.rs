//! The `zero` program as a person or a script meets it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod acp;
mod acp_wire;
mod attacks;
mod audit;
mod budgets;
mod chat;
mod chat_screens;
mod chat_tmux;
#[cfg(feature = "cluster")]
mod cluster;
mod commands;
mod config;
#[cfg(all(feature = "lsp", feature = "web"))]
mod conformance;
mod console;
mod doctor;
mod everyday_work;
mod examples;
mod extra_ca;
mod fault_injection;
mod gateway;
mod gateway_process;
mod help;
mod hooks;
mod hostile_disk;
mod import;
mod init;
mod jobs;
#[cfg(feature = "lsp")]
mod language_servers;
mod login;
mod mcp;
mod mcp_fixture;
mod mcp_servers;
mod mcp_settings;
mod memory;
#[cfg(not(all(
    feature = "cluster",
    feature = "keyring",
    feature = "lsp",
    feature = "telemetry",
    feature = "web"
)))]
mod missing_features;
mod model_server;
/// The servers of the tests of `zero-session`.
#[cfg(feature = "cluster")]
#[expect(dead_code, reason = "other tests use the rest")]
#[expect(clippy::disallowed_methods, reason = "the server is a real process with real files")]
#[path = "../../../zero-session/tests/it/nats_server.rs"]
mod nats_server;
mod policy;
mod policy_simulate;
mod ports;
#[cfg(feature = "cluster")]
#[expect(dead_code, reason = "other tests use the rest")]
#[expect(clippy::disallowed_methods, reason = "the server is a real process with real files")]
#[path = "../../../zero-session/tests/it/postgres_server.rs"]
mod postgres_server;
mod process_cleanup;
mod questions;
mod run;
mod sandbox_settings;
mod scripts;
mod secret_files;
mod secret_leaks;
mod secret_values;
mod session_rewind;
mod sessions;
mod skills;
mod stdio_process;
mod subagent_worktrees;
mod subagents;
#[cfg(feature = "telemetry")]
mod telemetry;
mod terminal;
mod terminal_process;
mod test_program;
mod tool_host;
mod tools_serve;
mod trust;
mod undo;
mod update;
