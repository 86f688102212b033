//! The `zero` program as a person or a script meets it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod acp;
mod acp_wire;
mod audit;
mod commands;
mod config;
mod doctor;
mod extra_ca;
mod faults;
mod gateway;
mod gateway_process;
mod help;
mod hooks;
mod hostile_disk;
mod language_servers;
mod leaks;
mod mcp;
mod mcp_fixture;
mod mcp_servers;
mod mcp_settings;
mod memory;
mod model_server;
mod on_terminal;
mod policy;
mod processes;
mod program;
mod run;
mod sandbox_settings;
mod secret_files;
mod sessions;
mod simulate;
mod stdio_process;
mod telemetry;
mod terminal;
mod tool_host;
mod tools_serve;
