//! The resources that the commands of one call used.

use serde::{Deserialize, Serialize};

/// Resources that ended commands used, with all of their processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallUsage {
    /// Commands that ended.
    pub commands: u64,
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// Largest memory use of one command, in bytes.
    pub memory_bytes: u64,
    /// Bytes read from disks; bytes from the page cache are not counted.
    pub read_bytes: u64,
    /// Bytes written to files on disks.
    pub written_bytes: u64,
}

impl CallUsage {
    /// Adds the resources of other commands.
    pub fn add(&mut self, other: &Self) {
        self.commands = self.commands.saturating_add(other.commands);
        self.cpu_us = self.cpu_us.saturating_add(other.cpu_us);
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
    }
}
