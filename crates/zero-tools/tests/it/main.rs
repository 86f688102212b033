//! The canonical tools, used through the whole path as a face would.
#![expect(clippy::disallowed_methods, reason = "tests set up and look at real files")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "a writer tells its killer that it has begun")]

mod attacks;
mod changes;
mod command_input;
mod commands;
mod contracts;
mod crash;
mod editor;
mod everyday_programs;
mod fixture;
mod hooks;
mod lsp;
mod masked_paths;
mod network;
mod properties;
mod protected_paths;
mod services;
mod tool_discovery;
mod undo;
mod web;
mod writing_tools;

// Commands are started by this program under another name.
zero_sandbox::dispatch_helper_before_main!();
