//! What this machine has for commands: the memory and the processors that this process may use.
//!
//! A container or a service manager may allow less than the machine has, and a share of resources
//! that cannot be used would not be a limit.

use std::path::Path;
use std::sync::LazyLock;

use zero_core::{ByteSize, MachineResources};

use crate::cgroup;
use crate::kernel_file;

/// What is assumed if the kernel does not say how much memory there is, in bytes.
const MEMORY_UNKNOWN: u64 = 1_000_000_000;

/// As they were when they were first needed: every settings file asks, and the kernel takes its time
/// to add up a control group's statistics.
static RESOURCES: LazyLock<MachineResources> = LazyLock::new(|| {
    let installed = read_installed_memory().unwrap_or(MEMORY_UNKNOWN);
    let memory = cgroup::own_memory_limit().map_or(installed, |limit| limit.min(installed));
    MachineResources { memory: ByteSize::bytes(memory), processors: processor_count() }
});
static PROCESSORS: LazyLock<u64> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u64));

/// Processors that this process may use at once.
pub(crate) fn processor_count() -> u64 {
    *PROCESSORS
}

/// The memory and the processors that this process may use.
pub fn read() -> MachineResources {
    *RESOURCES
}

fn read_installed_memory() -> Option<u64> {
    let text = kernel_file::read(Path::new("/proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_those_of_this_process() {
        let MachineResources { memory, processors } = read();
        assert!(memory.get() > 100_000_000, "{memory}");
        assert!(memory.get() <= read_installed_memory().unwrap());
        assert_eq!(processors, std::thread::available_parallelism().unwrap().get() as u64);
    }
}
