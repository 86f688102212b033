//! Helper processes: this program, started again under another name.
//!
//! zero is one binary. When it needs a helper, it starts itself with a special `argv[0]`, which
//! selects the helper's main function.

mod dispatch_flag;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::{confinement, network_connector, shared_network, spawner};
pub use dispatch_flag::can_run_helper;

/// The `argv[0]` of the init process of a sandbox.
const SANDBOX_INIT_ARGV0: &str = "zero-confined";

/// Runs a helper and ends the process, if the process was started as one. Must come first in
/// `main`: the start of a command waits for it, and it requires a single thread.
pub fn dispatch_helper() {
    dispatch_flag::set();
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    if let Some(code) = run_helper(&name, args) {
        std::process::exit(code);
    }
}

fn run_helper(name: &OsStr, mut args: impl Iterator<Item = OsString>) -> Option<i32> {
    match Path::new(name).file_name()?.to_str()? {
        SANDBOX_INIT_ARGV0 => Some(confinement::sandbox_init::run(args.next())),
        shared_network::ARGV0 => Some(shared_network::run_helper(args.next())),
        network_connector::ARGV0 => Some(network_connector::run_helper()),
        spawner::ARGV0 => Some(spawner::server::main(0)),
        _ => None,
    }
}

/// Calls [`dispatch_helper`](crate::helper_process::dispatch_helper) in a test program before its
/// tests run. The test harness owns `main`, so this runs before it.
#[macro_export]
macro_rules! dispatch_helper_before_main {
    () => {
        #[expect(unsafe_code, reason = "the harness owns `main`, so this has to come before it")]
        #[used]
        // SAFETY: the C library calls it once, with one thread, after its own set-up.
        #[unsafe(link_section = ".init_array")]
        static LOOK_AT_NAME_BEFORE_MAIN: extern "C" fn() = {
            extern "C" fn look() {
                $crate::helper_process::dispatch_helper();
            }
            look
        };
    };
}
