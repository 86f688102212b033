//! The `zero` program. Everything it does is in the library, so that tests can reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    zero_sandbox::child::from_argv0();
    zero::run(std::env::args_os())
}
