//! The `zero` program as a person or a script meets it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod audit;
mod commands;
mod config;
mod doctor;
mod help;
mod hostile_disk;
mod leaks;
mod mcp;
mod mcp_fixture;
mod mcp_servers;
mod mcp_settings;
mod policy;
mod processes;
mod program;
mod sandbox_settings;
mod simulate;
mod trust;
