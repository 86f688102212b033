//! A process that uses the warden as zero does, to be killed in the middle of it.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use zero_sandbox::warden::Warden;

use crate::bench::program;

pub(crate) const ARGV0: &str = "zero-test-client";

/// Runs the script that is its first argument and waits for its own end.
pub(crate) fn main() -> i32 {
    let script = std::env::args().nth(1).unwrap();
    let warden = Warden::start().unwrap();
    let running = warden.spawn(program("bash", &["-c", &script])).unwrap();
    running.wait(std::time::Duration::from_secs(60));
    0
}

/// Starts such a process.
pub(crate) fn start(script: &str) -> Child {
    Command::new("/proc/self/exe").arg0(ARGV0).arg(script).spawn().unwrap()
}
