//! The `zero` program. Everything it does is in the library, so that tests can reach it.

use std::process::ExitCode;

#[global_allocator]
static HEAP: zero_sandbox::own_memory::Heap = zero_sandbox::own_memory::Heap;

fn main() -> ExitCode {
    zero_sandbox::child::from_argv0();
    zero::run(std::env::args_os())
}
