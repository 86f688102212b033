//! Errors of commands that did not start or were stopped before they finished.

use std::io;

use zero_core::{
    ByteSize, CommandLimit, CommandLimits, ErrorReason, ErrorType, ToolError, ToolName,
};
use zero_sandbox::ConfinementGap;
use zero_sandbox::running_command::{CommandExit, ExitCause};
use zero_sandbox::spawner::SpawnError;

use crate::tree_watch::WatchReport;

/// `SIGXFSZ`: a process wrote a file larger than its limit.
const FILE_TOO_LARGE: i32 = 25;
/// The exit code and the message of a shell whose child died of `SIGXFSZ`.
const SHELL_FILE_TOO_LARGE: (i32, &str) = (128 + FILE_TOO_LARGE, "File size limit exceeded");

/// The resource limits of a tool's commands, and the tool name under which settings change them.
#[derive(Clone, Debug)]
pub(crate) struct ToolCommandLimits {
    pub(super) tool: ToolName,
    pub(super) limits: CommandLimits,
}

impl ToolCommandLimits {
    /// The error of a job that was stopped before it finished; `None` if it ended by itself.
    pub(crate) fn job_error(&self, exit: &CommandExit) -> Option<ToolError> {
        end_error(exit, self, String::new)
    }
}

/// Converts the failure to start a command into a tool error.
pub(super) fn start_error(error: &SpawnError) -> ToolError {
    let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
    let message = format!("{error}{hint}");
    match error {
        SpawnError::NotFound { program, .. } => {
            ToolError::not_found(ErrorReason::Io, message).with_detail("program", program.as_str())
        }
        SpawnError::NotExecutable { path, .. } => {
            ToolError::failed(ErrorReason::AccessDenied, message)
                .with_detail("program", path.display().to_string())
        }
        SpawnError::BadFolder { folder, .. } => ToolError::not_found(ErrorReason::Io, message)
            .with_detail("file", folder.display().to_string()),
        SpawnError::TooLarge => ToolError::invalid(ErrorReason::TooLarge, message),
        SpawnError::BadText { .. } => ToolError::invalid(ErrorReason::SchemaViolation, message),
        // Fail closed: a command that cannot be confined does not run.
        SpawnError::Refused { gaps, .. } => {
            let message = format!("{message}{}", weaker_sandbox_hint(gaps));
            let missing: Vec<&str> = gaps.iter().map(|gap| gap.property.as_str()).collect();
            ToolError::new(ErrorType::PermissionDenied, ErrorReason::AccessDenied, message)
                .with_detail("sandbox", true)
                .with_detail("missing", missing)
        }
        SpawnError::System { source, .. } => {
            ToolError::failed(ErrorReason::Io, format!("{message}: {source}"))
        }
        _ => ToolError::failed(ErrorReason::Io, message),
    }
}

/// Adds the findings of the tree watch (quarantined files, warnings) to an error. They are also in
/// its message, which the user sees.
pub(super) fn with_watch_report(mut error: ToolError, report: &WatchReport) -> ToolError {
    if *report == WatchReport::default() {
        return error;
    }
    for note in report.notes("commands") {
        error.message.push_str(&format!("\n({note})"));
    }
    let taken = report.quarantined.iter().map(|quarantined| {
        serde_json::json!({
            "path": quarantined.path.display().to_string(),
            "kept_at": quarantined.kept_at.display().to_string(),
            "why": quarantined.why,
        })
    });
    error
        .with_detail("quarantined", taken.collect::<Vec<_>>())
        .with_detail("warnings", report.warnings.clone())
}

/// Adds the sandbox properties that were not enforced to an error.
pub(super) fn with_sandbox_gaps(error: ToolError, missing: &[ConfinementGap]) -> ToolError {
    if missing.is_empty() {
        return error;
    }
    let missing: Vec<&str> = missing.iter().map(|gap| gap.property.as_str()).collect();
    error.with_detail("not_enforced", missing)
}

/// Adds what the sandbox reported, such as refused connections or changes that cannot be undone, to an error.
pub(super) fn with_sandbox_notes(error: ToolError, notes: &[String]) -> ToolError {
    if notes.is_empty() { error } else { error.with_detail("notes", notes.to_vec()) }
}

/// Tells the user which settings let commands run on a machine that cannot enforce `gaps`.
fn weaker_sandbox_hint(gaps: &[ConfinementGap]) -> String {
    if gaps.is_empty() {
        return String::new();
    }
    let each = gaps.iter().map(|gap| format!("`zero config add sandbox.weaker {}`", gap.property));
    let mut each: Vec<String> = each.collect();
    each.dedup();
    format!(
        "\n`zero doctor` shows what this machine can enforce; to run commands without it, at your own risk: {}",
        each.join(", ")
    )
}

/// The error of a command that was stopped before it finished; `None` if it ended by itself.
/// `written` returns its output.
pub(super) fn end_error(
    exit: &CommandExit,
    allowance: &ToolCommandLimits,
    written: impl FnOnce() -> String,
) -> Option<ToolError> {
    let of_command = |limit: CommandLimit, allowed: u64, used: Option<u64>, shown: String| {
        Some(limit_error(limit, allowance, allowed, used, &shown))
    };
    match exit.why {
        ExitCause::Finished if is_file_too_large(exit, written) => {
            let allowed = allowance.limits.file_max;
            let shown = format!(
                "it wrote a file larger than {allowed}, than the disk has space left for, or than a smaller limit that it set itself with `ulimit -f`"
            );
            of_command(CommandLimit::File, allowed.get(), None, shown)
        }
        ExitCause::Finished => None,
        ExitCause::TimedOut => Some(ToolError::new(
            ErrorType::Timeout,
            ErrorReason::Deadline,
            "timed out; pass a larger `timeout` (up to 600000 ms) or use `run_in_background`",
        )),
        ExitCause::Killed => Some(ToolError::cancelled()),
        ExitCause::MemoryLimit { limit, used } => {
            // The kernel stops the group at its limit, so the memory it would have needed is
            // unknown.
            let (held, may) = (ByteSize::bytes(used), ByteSize::bytes(limit));
            let shown = format!("it used {held} of memory, more than the limit of {may}");
            of_command(CommandLimit::Memory, limit, Some(used), shown)
        }
        ExitCause::ProcessLimit { limit, used } => {
            let shown = format!("it had {used} processes, more than the limit of {limit}");
            of_command(CommandLimit::Processes, limit, Some(used), shown)
        }
        ExitCause::DiskLimit { limit, used } => {
            let (more, may) = (ByteSize::bytes(used), ByteSize::bytes(limit));
            let shown = format!(
                "the free space on a disk that it can change fell by {more} while it ran, more than the limit of {may}"
            );
            of_command(CommandLimit::Disk, limit, Some(used), shown)
        }
        ExitCause::DiskFull { reserve, free } => {
            let (free, reserve) = (ByteSize::bytes(free), ByteSize::bytes(reserve));
            let message = format!(
                "stopped because a disk that it can change is nearly full: {free} are free, and commands leave {reserve}; remove files that are not needed, and try again"
            );
            Some(ToolError::failed(ErrorReason::ResourceExhausted, message))
        }
        ExitCause::OutputLimit => Some(ToolError::failed(
            ErrorReason::ResourceExhausted,
            "stopped because it wrote too much output; redirect it to a file",
        )),
        _ => Some(ToolError::failed(
            ErrorReason::Io,
            "the process that supervises the command was killed, and the command with it; try again",
        )),
    }
}

fn is_file_too_large(exit: &CommandExit, written: impl FnOnce() -> String) -> bool {
    let (code, words) = SHELL_FILE_TOO_LARGE;
    exit.signal == Some(FILE_TOO_LARGE)
        || (exit.exit_code == Some(code) && written().contains(words))
}

/// The error for a limit that was reached: which limit, its value, and how to raise it.
fn limit_error(
    limit: CommandLimit,
    allowance: &ToolCommandLimits,
    allowed: u64,
    used: Option<u64>,
    shown: &str,
) -> ToolError {
    let (name, setting) = (limit.name(), format!("limits.{}.{}", allowance.tool, limit.name()));
    let more = limit.format_value(suggest_limit(allowed, used)).replace(' ', "");
    let message = format!(
        "stopped because {shown}; do less at once, or raise the limit `{name}` with `zero config set {setting} {more}`, or only for some commands with a rule such as `{{\"rule\": \"Bash(make:*)\", \"limits\": {{\"{name}\": \"{more}\"}}}}`"
    );
    let error = ToolError::failed(ErrorReason::ResourceExhausted, message);
    let error = error
        .with_detail("limit", name)
        .with_detail("allowed", allowed)
        .with_detail("setting", setting);
    match used {
        Some(used) => error.with_detail("used", used),
        None => error,
    }
}

/// Suggests a limit: twice the larger of what was allowed and what was used.
fn suggest_limit(allowed: u64, used: Option<u64>) -> u64 {
    allowed.max(used.unwrap_or(0)).saturating_mul(2)
}

pub(super) fn spawner_error(error: &io::Error) -> ToolError {
    ToolError::failed(
        ErrorReason::Io,
        format!("could not start the process that runs commands: {error}"),
    )
}

pub(super) fn temp_folder_error(error: &io::Error) -> ToolError {
    ToolError::failed(
        ErrorReason::Io,
        format!("could not create the private folder for temporary files: {error}"),
    )
}

pub(super) fn monitor_error(error: &io::Error) -> ToolError {
    ToolError::failed(ErrorReason::Io, format!("could not supervise the command: {error}"))
}

pub(super) fn output_error(error: &io::Error) -> ToolError {
    ToolError::failed(ErrorReason::Io, format!("could not read the output of the command: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn command_end(why: ExitCause) -> CommandExit {
        CommandExit {
            exit_code: None,
            signal: Some(9),
            why,
            cpu_time: Duration::ZERO,
            max_memory_bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            leftover_processes: 0,
        }
    }

    fn command_error(ended: &CommandExit, written: &str) -> Option<ToolError> {
        let tool = ToolName::new("Bash").unwrap();
        let allowed = ToolCommandLimits { tool, limits: CommandLimits::default() };
        end_error(ended, &allowed, || written.to_owned())
    }

    #[track_caller]
    fn check(why: ExitCause, expected: Option<(ErrorType, ErrorReason, &str)>) {
        let error = command_error(&command_end(why), "");
        let seen = error.as_ref().map(|error| {
            (error.error_type, error.reason().unwrap(), error.message.split(';').next().unwrap())
        });
        assert_eq!(seen, expected);
    }

    #[test]
    fn every_abnormal_command_end_is_an_error() {
        use ErrorType::{ExecutionFailed, Timeout};
        check(ExitCause::Finished, None);
        let late = "timed out";
        check(ExitCause::TimedOut, Some((Timeout, ErrorReason::Deadline, late)));
        let cancelled = "cancelled before it finished";
        check(ExitCause::Killed, Some((ExecutionFailed, ErrorReason::Cancelled, cancelled)));
        let much = "stopped because it used 600 MB of memory, more than the limit of 500 MB";
        let memory = ExitCause::MemoryLimit { limit: 500_000_000, used: 600_000_000 };
        check(memory, Some((ExecutionFailed, ErrorReason::ResourceExhausted, much)));
        let many = "stopped because it had 513 processes, more than the limit of 512";
        let processes = ExitCause::ProcessLimit { limit: 512, used: 513 };
        check(processes, Some((ExecutionFailed, ErrorReason::ResourceExhausted, many)));
        let filled = "stopped because the free space on a disk that it can change fell by 21 GB while it ran, more than the limit of 20 GB";
        let disk = ExitCause::DiskLimit { limit: 20_000_000_000, used: 21_000_000_000 };
        check(disk, Some((ExecutionFailed, ErrorReason::ResourceExhausted, filled)));
        let full = "stopped because a disk that it can change is nearly full: 900 MB are free, and commands leave 1 GB";
        let disk = ExitCause::DiskFull { reserve: 1_000_000_000, free: 900_000_000 };
        check(disk, Some((ExecutionFailed, ErrorReason::ResourceExhausted, full)));
        let lost = "the process that supervises the command was killed, and the command with it";
        check(ExitCause::Lost, Some((ExecutionFailed, ErrorReason::Io, lost)));
    }
    #[test]
    fn limit_error_says_how_to_raise_limit() {
        let memory = ExitCause::MemoryLimit { limit: 500_000_000, used: 500_000_000 };
        let error = command_error(&command_end(memory), "").unwrap();
        assert!(
            error.message.contains("`zero config set limits.Bash.command-memory 1GB`"),
            "{error:?}"
        );
        let details = serde_json::to_value(&error.details).unwrap();
        assert_eq!(details["limit"], "command-memory");
        assert_eq!(details["setting"], "limits.Bash.command-memory");
        assert_eq!(
            (&details["allowed"], &details["used"]),
            (&500_000_000.into(), &500_000_000.into())
        );
    }

    #[test]
    fn oversized_file_is_detected_by_signal() {
        let died = CommandExit { signal: Some(25), ..command_end(ExitCause::Finished) };
        let shell_error = |code, output| {
            let ended = CommandExit {
                signal: None,
                exit_code: Some(code),
                ..command_end(ExitCause::Finished)
            };
            command_error(&ended, output)
        };
        let output = "sh: line 1: 7 File size limit exceeded cat";
        for error in [command_error(&died, ""), shell_error(153, output)] {
            let error = error.unwrap();
            assert_eq!(error.reason(), Some(ErrorReason::ResourceExhausted));
            assert!(error.message.contains("limits.Bash.command-file 200MB"), "{error:?}");
            assert!(error.message.contains("`ulimit -f`"), "{error:?}");
        }
        assert!(shell_error(153, "").is_none() && shell_error(1, output).is_none());
    }

    #[test]
    fn refusal_names_property_reason_and_remedy() {
        let gap = |property| ConfinementGap { property, why: "no".to_owned(), fix: None };
        let error = start_error(&SpawnError::Refused {
            why: "`host_sockets` cannot be enforced here: no".to_owned(),
            gaps: vec![gap(zero_sandbox::SandboxProperty::HostSockets)],
        });
        assert_eq!(
            error.message,
            "the command cannot be confined: `host_sockets` cannot be enforced here: no\n`zero doctor` shows what this machine can enforce; to run commands without it, at your own risk: `zero config add sandbox.weaker host_sockets`"
        );
        assert_eq!(serde_json::to_value(&error.details).unwrap()["missing"][0], "host_sockets");
    }
}
