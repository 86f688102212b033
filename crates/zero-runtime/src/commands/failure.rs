//! Why a command did not start, or did not come to its end.

use std::io;

use zero_core::{ByteSize, ErrorType, Reason, ToolError};
use zero_sandbox::ProcessLimits;
use zero_sandbox::running::{Ended, Why};
use zero_sandbox::warden::SpawnError;

/// Why a command did not start.
pub(super) fn of_start(error: &SpawnError) -> ToolError {
    let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
    let message = format!("{error}{hint}");
    match error {
        SpawnError::NotFound { program, .. } => {
            ToolError::not_found(Reason::Io, message).with("program", program.as_str())
        }
        SpawnError::NotExecutable { path, .. } => ToolError::failed(Reason::AccessDenied, message)
            .with("program", path.display().to_string()),
        SpawnError::BadFolder { folder, .. } => {
            ToolError::not_found(Reason::Io, message).with("file", folder.display().to_string())
        }
        SpawnError::TooLarge => ToolError::invalid(Reason::TooLarge, message),
        SpawnError::BadText { .. } => ToolError::invalid(Reason::SchemaViolation, message),
        // Fail closed: what cannot be confined does not run.
        SpawnError::Refused { .. } => {
            ToolError::new(ErrorType::PermissionDenied, Reason::AccessDenied, message)
                .with("sandbox", true)
        }
        SpawnError::System { source, .. } => {
            ToolError::failed(Reason::Io, format!("{message}: {source}"))
        }
        _ => ToolError::failed(Reason::Io, message),
    }
}

/// Why a command that started has no result; `None` when it ran to its end.
pub(super) fn of_end(ended: &Ended, limits: &ProcessLimits) -> Option<ToolError> {
    let exhausted = |limit: &str, allowed: u64, used: u64, shown: String| {
        let message = format!(
            "stopped because {shown}; do less at once, or raise the limit `{limit}` of commands in the settings"
        );
        let error = ToolError::failed(Reason::ResourceExhausted, message);
        Some(error.with("limit", limit).with("allowed", allowed).with("used", used))
    };
    match ended.why {
        Why::Finished => None,
        Why::TimedOut => Some(ToolError::new(
            ErrorType::Timeout,
            Reason::Deadline,
            "stopped because it took longer than its `timeout`; give it more, or run it in the background",
        )),
        Why::Killed => Some(ToolError::cancelled()),
        Why::MemoryLimit { limit, used } => {
            let shown = format!(
                "it held {} of memory, and may hold {}",
                ByteSize::bytes(used),
                ByteSize::bytes(limit)
            );
            exhausted("memory", limit, used, shown)
        }
        Why::ProcessLimit { limit, used } => {
            let shown = format!("it had {used} processes, and may have {limit}");
            exhausted("processes", limit, used, shown)
        }
        Why::OutputLimit => {
            exhausted("output", limits.file_bytes, limits.file_bytes, "it wrote too much".into())
        }
        _ => Some(ToolError::failed(
            Reason::Io,
            "the process that watched the command was killed, and the command with it; try again",
        )),
    }
}

pub(super) fn no_warden(error: &io::Error) -> ToolError {
    ToolError::failed(
        Reason::Io,
        format!("the process that starts commands does not start: {error}"),
    )
}

pub(super) fn no_tmp(error: &io::Error) -> ToolError {
    ToolError::failed(
        Reason::Io,
        format!("the private folder for temporary files cannot be made: {error}"),
    )
}

pub(super) fn unwatched(error: &io::Error) -> ToolError {
    ToolError::failed(Reason::Io, format!("the command cannot be watched: {error}"))
}

pub(super) fn unreadable(error: &io::Error) -> ToolError {
    ToolError::failed(Reason::Io, format!("the output of the command cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(why: Why, expected: Option<(ErrorType, Reason, &str)>) {
        let ended = Ended {
            exit_code: None,
            signal: Some(9),
            why,
            cpu_time: Duration::ZERO,
            max_memory_bytes: 0,
            leftover_processes: 0,
        };
        let error = of_end(&ended, &crate::commands::CommandSettings::default().limits);
        let seen = error.as_ref().map(|error| {
            (error.error_type, error.reason().unwrap(), error.message.split(';').next().unwrap())
        });
        assert_eq!(seen, expected);
    }

    #[test]
    fn every_end_but_the_commands_own_is_an_error() {
        use ErrorType::{ExecutionFailed, Timeout};
        check(Why::Finished, None);
        let late = "stopped because it took longer than its `timeout`";
        check(Why::TimedOut, Some((Timeout, Reason::Deadline, late)));
        let cancelled = "cancelled before it finished";
        check(Why::Killed, Some((ExecutionFailed, Reason::Cancelled, cancelled)));
        let much = "stopped because it held 600 MB of memory, and may hold 500 MB";
        let memory = Why::MemoryLimit { limit: 500_000_000, used: 600_000_000 };
        check(memory, Some((ExecutionFailed, Reason::ResourceExhausted, much)));
        let many = "stopped because it had 513 processes, and may have 512";
        let processes = Why::ProcessLimit { limit: 512, used: 513 };
        check(processes, Some((ExecutionFailed, Reason::ResourceExhausted, many)));
        let lost = "the process that watched the command was killed, and the command with it";
        check(Why::Lost, Some((ExecutionFailed, Reason::Io, lost)));
    }
}
