//! The canonical tools, used through the whole path as a face would.
#![expect(clippy::disallowed_methods, reason = "tests set up and look at real files")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "a writer tells its killer that it has begun")]

mod attacks;
mod changes;
mod commands;
mod contracts;
mod crash;
mod discovered;
mod editor;
mod fixture;
mod hooks;
mod input;
mod lsp;
mod masked;
mod network;
mod properties;
mod protected;
mod real_work;
mod services;
mod undo;
mod web;
mod writing_tools;

// Commands are started by this program under another name.
zero_sandbox::look_at_name_before_main!();
