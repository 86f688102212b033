//! Starts and confines programs: commands of calls, jobs that outlive calls, services that run
//! beside them, and the proxy through which all of these connect to hosts.
//!
//! Not here: who asked for a program, and whether it may run. The caller supplies these answers: a
//! [`CommandPolicy`] for the files and hosts a program may use, an [`egress::ConnectionLog`] for
//! the records of its connections, and a [`services::ServiceSupervisor`] for services.
//! `zero_sandbox` builds the sandbox.

mod call_usage_meter;
mod change_recording;
mod check_pace;
mod command_errors;
mod command_policy;
mod command_request;
mod command_settings;
mod confined_git;
mod denied_changes;
pub mod detached_thread;
pub mod egress;
mod environment;
mod foreground_command;
mod git_config_draft;
mod git_facts;
mod host_commands;
pub mod jobs;
mod launcher;
mod local_machine;
mod loss_note;
mod network_failure;
mod neutral_git;
mod new_files;
mod output_feed;
mod output_tail;
mod package_caches;
mod profile;
mod read_failure;
mod repository_contents;
mod sandbox_diagnosis;
mod sandbox_probe;
mod sequencer_steps;
pub mod services;
mod session_commands;
mod session_network;
mod shell;
mod spill_file;
mod spill_folder;
pub mod spill_quota;
mod tracked_files;
mod tree_watch;
mod watch_lease;
pub mod worktrees;
mod write_failure;

pub use call_usage_meter::CallUsageMeter;
pub use change_recording::RecordedProgram;
pub use command_policy::{CommandPolicy, DeniedChanges, DeniedFiles};
pub use command_request::{CommandRequest, StreamMode};
pub use command_settings::{
    CommandNetwork, CommandSettings, OutsideUse, TimeoutAction, UndoSettings,
};
pub use egress::{EgressConfig, EgressProxy, ResolverConfig};
pub use foreground_command::{
    CallCommands, CommandDisposition, CommandOutcome, ForegroundCommand, OutputObservation,
};
pub use git_config_draft::GitConfigDraft;
pub use host_commands::{HostCommands, check_creation};
pub use launcher::{CommandLauncher, LaunchAccess, PreparedLaunch};
pub use local_machine::LocalMachine;
pub use local_machine::package_registries::project_registry_hosts;
pub use package_caches::PackageCaches;
pub use profile::{list_denied_paths, list_hidden_paths};
pub use read_failure::HiddenHome;
pub use sandbox_diagnosis::LaunchFacts;
pub use sandbox_probe::{SandboxProbeReport, probe_sandbox};
pub use session_commands::{FailureEvidence, SessionCommands, ShellEndFolder, TMP_SHELF};
pub use session_network::{GrantProvider, NetworkPolicy, NetworkUseGuard, SessionNetwork};
pub use spill_folder::SpillFolder;
pub use tracked_files::TrackedFileFinder;
pub use tree_watch::{QuarantinedFile, TreeWatch, WatchReport};

/// Holds the jobs that run: ends all other programs of this process, calls `detach` with the ids of
/// the jobs, and returns when they have ended. Jobs that created files which jobs may not create are
/// not held. Does nothing without such jobs, and ends at once if `detach` fails;
/// [`end_all_programs`] then ends them.
pub fn hold_jobs(detach: impl FnOnce(&[String]) -> std::io::Result<()>) {
    if !zero_sandbox::detachable_process::can_detach() {
        return;
    }
    let jobs = session_commands::end_forbidden_jobs(session_commands::end_all_but_jobs());
    if jobs.is_empty() {
        return;
    }
    services::end_all_services();
    let ids: Vec<String> = jobs.iter().map(|job| job.id().to_owned()).collect();
    match detach(&ids) {
        Ok(()) => session_commands::wait_for_jobs(jobs),
        Err(error) => tracing::warn!(%error, "this process cannot hold its jobs"),
    }
}

/// Ends every command and service of this process, and waits until what they left behind is checked.
/// Call it before the process exits: a task that holds a session or service may never be dropped.
pub fn end_all_programs() {
    // Sessions wait for programs that are just starting, so services come second.
    session_commands::end_all_sessions();
    services::end_all_services();
    jobs::JobRegistry::close_servers();
}
