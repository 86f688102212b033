//! Measures the peak memory of a process.

use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

const POLL: Duration = Duration::from_millis(1);
const NEEDS_LINUX: &str =
    "this system does not say how much memory a process held; the figure needs Linux";

/// Runs a command and returns its peak memory, in bytes.
///
/// The kernel stores that number for each process (`VmHWM`) and drops it when the process is
/// reaped, so it is read repeatedly until the process has ended. It only ever grows: at most the
/// growth of the last millisecond is missed.
pub(super) fn measure_peak(command: Command) -> Result<u64> {
    let name = format!("{command:?}");
    let (peak, status) = run_and_watch(command)?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(peak)
}

/// The same for a command that is expected to fail.
pub(super) fn measure_peak_of_failure(command: Command) -> Result<u64> {
    let name = format!("{command:?}");
    let (peak, status) = run_and_watch(command)?;
    ensure!(status.code() == Some(1), "{name} ended with {status}");
    Ok(peak)
}

/// The peak memory of a running process, in bytes.
pub(super) fn read_peak(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.ok().as_deref().and_then(parse_high_water).context(NEEDS_LINUX)
}

/// Resets the peak of a running process.
pub(super) fn reset_peak(pid: u32) -> Result<()> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").context(NEEDS_LINUX)
}

/// The current memory of a process, in bytes.
pub(super) fn read_current(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    status.ok().and_then(|status| parse_field_bytes(&status, "VmRSS:")).context(NEEDS_LINUX)
}

fn run_and_watch(mut command: Command) -> Result<(u64, ExitStatus)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("could not start {command:?}"))?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let status = loop {
        // A process that has ended has a status file without memory until it is reaped.
        let status_text = std::fs::read_to_string(&status_file).unwrap_or_default();
        peak = peak.max(parse_high_water(&status_text).unwrap_or_default());
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(POLL);
    };
    ensure!(peak > 0, NEEDS_LINUX);
    Ok((peak, status))
}

fn parse_high_water(status: &str) -> Option<u64> {
    parse_field_bytes(status, "VmHWM:")
}

fn parse_field_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_status_memory_is_parsed() {
        assert_eq!(
            parse_high_water("Name:\tx\nVmHWM:\t    12 kB\nVmRSS:\t 8 kB\n"),
            Some(12 * 1024)
        );
        assert_eq!(parse_high_water("Name:\tzombie\n"), None);
        assert_eq!(parse_field_bytes("VmHWM:\t 12 kB\nVmRSS:\t 8 kB\n", "VmRSS:"), Some(8 * 1024));
    }
}
