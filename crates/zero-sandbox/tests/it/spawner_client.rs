//! A process that uses the spawner as zero does, to be killed in the middle of it.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::Arc;

use zero_sandbox::NetworkAccess;
use zero_sandbox::shared_network::SharedNetwork;
use zero_sandbox::spawner::Spawner;

use crate::command_fixture::program_spec;

pub(crate) const ARGV0: &str = "zero-test-client";

/// Runs the script that is its first argument, in a session's network if there is a second one, and
/// waits to be killed.
pub(crate) fn main() -> i32 {
    let mut args = std::env::args().skip(1);
    let script = args.next().unwrap();
    let spawner = Spawner::start().unwrap();
    let mut order = program_spec("bash", &["-c", &script]);
    if args.next().is_some() {
        order.profile.network = NetworkAccess::Loopback;
        order.net = Some(Arc::new(SharedNetwork::create(&spawner).unwrap()));
    }
    let running = spawner.spawn(order).unwrap();
    running.wait(std::time::Duration::from_secs(600));
    0
}

/// Starts such a process.
pub(crate) fn start(script: &str) -> Child {
    Command::new("/proc/self/exe").arg0(ARGV0).arg(script).spawn().unwrap()
}

/// Starts such a process, whose command is in a session's network.
pub(crate) fn start_in_network(script: &str) -> Child {
    Command::new("/proc/self/exe").arg0(ARGV0).args([script, "net"]).spawn().unwrap()
}
