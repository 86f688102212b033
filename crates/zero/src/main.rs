//! The `zero` program. Everything it does is in the library, so that tests can reach it.

use std::process::ExitCode;

#[global_allocator]
static HEAP: zero_sandbox::process_memory::HeapAllocator =
    zero_sandbox::process_memory::HeapAllocator;

fn main() -> ExitCode {
    zero_sandbox::helper_process::dispatch_helper();
    zero::run(std::env::args_os())
}
