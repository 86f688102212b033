//! Tests of the built-in tools through the tool host, as clients use them.
#![expect(clippy::disallowed_methods, reason = "tests create and read real files")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "the writer process reports that it has started")]

mod attacks;
mod changes;
mod command_input;
mod commands;
mod contracts;
mod crash;
mod editor;
mod everyday_programs;
mod fixture;
mod held_connections;
mod home_folder;
mod hooks;
mod judged_access;
#[cfg(feature = "lsp")]
mod lsp;
mod masked_paths;
mod network;
mod outside_sandbox;
mod private_temp;
mod properties;
mod protected_paths;
mod secret_values;
mod services;
mod simulated_calls;
mod tool_discovery;
mod undo;
#[cfg(feature = "web")]
mod web;
mod writing_tools;

// The test program is also the helper program that starts commands.
zero_sandbox::dispatch_helper_before_main!();
