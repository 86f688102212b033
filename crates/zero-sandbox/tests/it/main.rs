//! Commands under the spawner and in its sandbox, attacked from inside and from outside.
//!
//! The spawner process is the running program under another name, which here is the test program:
//! code that runs before its tests dispatches it.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests look at real processes and files, and fail by a panic"
)]
#![cfg(target_os = "linux")]

mod attack_lab;
mod attacks;
mod command_changes;
mod command_fixture;
mod command_kills;
mod command_start;
mod enforcement_gaps;
mod everyday_commands;
mod journal_rewind;
mod limits;
mod output_collection;
mod prewarmed_sandbox;
mod process_cleanup;
mod protected_paths;
mod rename_races;
mod sandbox_reuse;
mod shared_network;
mod spawner_client;

/// Runs before the test harness, as the first thing in `main` of the binary.
#[expect(unsafe_code, reason = "the harness owns `main`, so this has to come before it")]
#[used]
// SAFETY: the C library calls it once, with one thread, after its own set-up.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        zero_sandbox::helper_process::dispatch_helper();
        if std::env::args_os().next().is_some_and(|name| name == spawner_client::ARGV0) {
            std::process::exit(spawner_client::main());
        }
        if std::env::args_os().next().is_some_and(|name| name == command_kills::ARGV0) {
            std::process::exit(command_kills::main());
        }
    }
    before_main
};
