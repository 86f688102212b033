//! Entry point of the `zero` program. All code is in the library, where tests can use it.

use std::process::ExitCode;

fn main() -> ExitCode {
    zero_sandbox::helper_process::dispatch_helper();
    zero::run(std::env::args_os())
}
