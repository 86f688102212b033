//! Resource limits of commands: defaults, and changes by a tool or a rule.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::host_limits::{ByteSize, InvalidAmountError, InvalidLimitError};

/// What a machine has for commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineResources {
    /// Memory that the programs of the user may use together.
    pub memory: ByteSize,
    /// Processors that they may use at once.
    pub processors: u64,
}

/// Where the limits of commands come from that nothing sets by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitProfile {
    /// A fair share of the machine, so that builds finish.
    #[default]
    Fair,
    /// Small fixed figures, the same on every machine.
    Strict,
}

impl LimitProfile {
    /// All profiles.
    pub const ALL: [Self; 2] = [Self::Fair, Self::Strict];

    /// The name in settings and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Strict => "strict",
        }
    }

    /// The profile with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }
}

/// Resource limits of a command and all its child processes. [`CommandLimits::default`] has the
/// values of [`LimitProfile::Strict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandLimits {
    /// Memory of all its processes.
    pub memory_max: ByteSize,
    /// Processor time of all its processes, in percent of one processor.
    pub cpu_percent_max: u64,
    /// Number of processes.
    pub processes_max: u64,
    /// Open files of one process.
    pub open_files_max: u64,
    /// The largest file it may write.
    pub file_max: ByteSize,
    /// What it may add to a disk.
    pub disk_max: ByteSize,
    /// What it may read from a disk in a second, and write to it; [`CommandLimits::ANY_RATE`] if
    /// that is not limited.
    pub disk_rate_max: ByteSize,
}

impl Default for CommandLimits {
    fn default() -> Self {
        Self {
            memory_max: ByteSize::megabytes(500),
            cpu_percent_max: 50,
            processes_max: 512,
            open_files_max: 1024,
            file_max: ByteSize::megabytes(100),
            disk_max: ByteSize::megabytes(20_000),
            disk_rate_max: Self::ANY_RATE,
        }
    }
}

impl CommandLimits {
    /// The rate of a command that may use disks as fast as they are.
    pub const ANY_RATE: ByteSize = ByteSize::bytes(u64::MAX);

    /// The limits of [`LimitProfile::Fair`] on a machine: half of its memory, all its processors. No
    /// figure is smaller than that of [`LimitProfile::Strict`].
    ///
    /// A file may be as large as all that a command may add to a disk; the sandbox lowers that to
    /// the space that is free.
    pub fn fair(machine: MachineResources) -> Self {
        let strict = Self::default();
        let memory = ByteSize::bytes(machine.memory.get() / 2);
        Self {
            memory_max: memory.max(strict.memory_max),
            cpu_percent_max: machine.processors.saturating_mul(100).max(strict.cpu_percent_max),
            file_max: strict.disk_max,
            ..strict
        }
    }
}

/// One limit of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandLimit {
    /// [`CommandLimits::memory_max`].
    Memory,
    /// [`CommandLimits::cpu_percent_max`].
    Cpu,
    /// [`CommandLimits::processes_max`].
    Processes,
    /// [`CommandLimits::open_files_max`].
    OpenFiles,
    /// [`CommandLimits::file_max`].
    File,
    /// [`CommandLimits::disk_max`].
    Disk,
    /// [`CommandLimits::disk_rate_max`].
    DiskRate,
}

/// The value of a limit that is not set.
const OFF: &str = "off";

impl CommandLimit {
    /// All limits.
    pub const ALL: [Self; 7] = [
        Self::Memory,
        Self::Cpu,
        Self::Processes,
        Self::OpenFiles,
        Self::File,
        Self::Disk,
        Self::DiskRate,
    ];

    /// The name in settings and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "command-memory",
            Self::Cpu => "command-cpu",
            Self::Processes => "command-processes",
            Self::OpenFiles => "command-open-files",
            Self::File => "command-file",
            Self::Disk => "command-disk",
            Self::DiskRate => "command-disk-rate",
        }
    }

    /// The limit with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// Formats a value with its unit.
    pub fn format_value(self, value: u64) -> String {
        match self {
            Self::Memory | Self::File | Self::Disk => ByteSize::bytes(value).to_string(),
            Self::DiskRate if value == CommandLimits::ANY_RATE.get() => OFF.to_owned(),
            Self::DiskRate => format!("{}/s", ByteSize::bytes(value)),
            Self::Cpu => format!("{value}%"),
            Self::Processes | Self::OpenFiles => value.to_string(),
        }
    }

    /// Parses a value with its unit. Below the range no shell could start; above it the value is a
    /// typing mistake.
    fn parse(self, value: &str) -> Result<u64, InvalidLimitError> {
        if self == Self::DiskRate && value.trim() == OFF {
            return Ok(CommandLimits::ANY_RATE.get());
        }
        let (least, most) = match self {
            Self::Memory => (32_000_000, 64_000_000_000_000),
            Self::Cpu => (1, 100_000),
            Self::Processes => (8, 1_000_000),
            Self::OpenFiles => (32, 1_000_000),
            Self::File => (1_000, 64_000_000_000_000),
            Self::Disk => (10_000_000, 64_000_000_000_000),
            // A shell reads some megabytes to start.
            Self::DiskRate => (1_000_000, 64_000_000_000_000),
        };
        let name = || self.name().to_owned();
        let wrong = |source| InvalidLimitError::Value { name: name(), source };
        let number = match self {
            Self::Memory | Self::File | Self::Disk => {
                value.parse::<ByteSize>().map_err(wrong)?.get()
            }
            Self::DiskRate => {
                let amount = value.trim();
                let amount = amount.strip_suffix("/s").unwrap_or(amount);
                amount.parse::<ByteSize>().map_err(wrong)?.get()
            }
            Self::Cpu => parse_percent(value).map_err(wrong)?,
            Self::Processes | Self::OpenFiles => value
                .trim()
                .parse()
                .map_err(|_| wrong(InvalidAmountError::new(value, "a whole number")))?,
        };
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        let [least, most] = [least, most].map(|bound| self.format_value(bound));
        Err(InvalidLimitError::Range { name: name(), value: value.trim().to_owned(), least, most })
    }
}

/// Parses `50%`, `50 %` or `50`.
fn parse_percent(text: &str) -> Result<u64, InvalidAmountError> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim();
    let wrong =
        || InvalidAmountError::new(text, "a share of one processor such as `50%` or `400%`");
    if number.starts_with('+') { Err(wrong()) } else { number.parse().map_err(|_| wrong()) }
}

impl CommandLimits {
    /// The value of one limit.
    pub fn get(&self, limit: CommandLimit) -> u64 {
        match limit {
            CommandLimit::Memory => self.memory_max.get(),
            CommandLimit::Cpu => self.cpu_percent_max,
            CommandLimit::Processes => self.processes_max,
            CommandLimit::OpenFiles => self.open_files_max,
            CommandLimit::File => self.file_max.get(),
            CommandLimit::Disk => self.disk_max.get(),
            CommandLimit::DiskRate => self.disk_rate_max.get(),
        }
    }

    fn set_value(&mut self, limit: CommandLimit, value: u64) {
        match limit {
            CommandLimit::Memory => self.memory_max = ByteSize::bytes(value),
            CommandLimit::Cpu => self.cpu_percent_max = value,
            CommandLimit::Processes => self.processes_max = value,
            CommandLimit::OpenFiles => self.open_files_max = value,
            CommandLimit::File => self.file_max = ByteSize::bytes(value),
            CommandLimit::Disk => self.disk_max = ByteSize::bytes(value),
            CommandLimit::DiskRate => self.disk_rate_max = ByteSize::bytes(value),
        }
    }

    /// Sets one limit from a value with its unit.
    pub fn set(&mut self, limit: CommandLimit, value: &str) -> Result<(), InvalidLimitError> {
        limit.parse(value).map(|value| self.set_value(limit, value))
    }

    /// These limits with the changes of `change`.
    #[must_use]
    pub fn with_change(mut self, change: &CommandLimitChange) -> Self {
        change.0.iter().for_each(|(limit, value)| self.set_value(*limit, *value));
        self
    }

    /// These limits, raised where `change` has a larger value.
    #[must_use]
    pub fn with_raised(mut self, change: &CommandLimitChange) -> Self {
        for (limit, value) in &change.0 {
            self.set_value(*limit, (*value).max(self.get(*limit)));
        }
        self
    }

    /// Whether no limit is larger than in `usual`.
    pub fn is_within(&self, usual: &Self) -> bool {
        CommandLimit::ALL.into_iter().all(|limit| self.get(limit) <= usual.get(limit))
    }
}

/// Changed limits of commands; the others are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLimitChange(BTreeMap<CommandLimit, u64>);

impl CommandLimitChange {
    /// Sets one limit from a value with its unit.
    pub fn set(&mut self, limit: CommandLimit, value: &str) -> Result<(), InvalidLimitError> {
        limit.parse(value).map(|value| {
            self.0.insert(limit, value);
        })
    }

    /// Whether it changes this limit.
    pub fn has(&self, limit: CommandLimit) -> bool {
        self.0.contains_key(&limit)
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and formatted values of the changed limits.
    pub fn format_values(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().map(|(limit, value)| (limit.name(), limit.format_value(*value)))
    }

    /// Adds the changes of `later`, which override existing ones.
    pub(crate) fn merge_later(&mut self, later: &Self) {
        self.0.extend(&later.0);
    }

    /// Keeps the larger value of each limit.
    pub fn merge_larger(&mut self, other: &Self) {
        for (limit, value) in &other.0 {
            let own = self.0.entry(*limit).or_default();
            *own = (*own).max(*value);
        }
    }
}

impl Serialize for CommandLimitChange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.format_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(pairs: &[(CommandLimit, &str)]) -> CommandLimitChange {
        let mut change = CommandLimitChange::default();
        pairs.iter().for_each(|(limit, value)| change.set(*limit, value).unwrap());
        change
    }

    #[track_caller]
    fn check(limit: CommandLimit, value: &str, expected: Result<&str, &str>) {
        let mut limits = CommandLimits::default();
        let seen = limits.set(limit, value).map(|()| limit.format_value(limits.get(limit)));
        let seen = seen.map_err(|error| error.to_string());
        assert_eq!(seen.as_deref().map_err(String::as_str), expected, "{value}");
        assert_eq!(limits == CommandLimits::default(), expected.is_err(), "{value}");
    }

    #[test]
    fn command_limit_parses_unit_and_checks_range() {
        use CommandLimit::{Cpu, Disk, DiskRate, File, Memory, OpenFiles, Processes};
        for text in ["20MB", "20 MB/s", " 20mb/s "] {
            check(DiskRate, text, Ok("20 MB/s"));
        }
        let slow = "limit `command-disk-rate`: `1kB` is not from 1 MB/s to 64000 GB/s";
        check(DiskRate, "1kB", Err(slow));
        let mut limits = CommandLimits::default();
        limits.set(DiskRate, "5MB/s").unwrap();
        assert!(limits.is_within(&CommandLimits::default()), "off is the largest rate");
        limits.set(DiskRate, "off").unwrap();
        assert_eq!(limits, CommandLimits::default());
        assert_eq!(DiskRate.format_value(limits.get(DiskRate)), "off");
        check(Memory, "4 GB", Ok("4 GB"));
        check(File, "2gb", Ok("2 GB"));
        check(Disk, "100GB", Ok("100 GB"));
        check(Disk, "1MB", Err("limit `command-disk`: `1MB` is not from 10 MB to 64000 GB"));
        check(Processes, "64", Ok("64"));
        check(OpenFiles, "4096", Ok("4096"));
        for text in ["400%", "400 %", " 400", "400"] {
            check(Cpu, text, Ok("400%"));
        }
        check(Memory, "1", Err("limit `command-memory`: `1` is not from 32 MB to 64000 GB"));
        check(Cpu, "0%", Err("limit `command-cpu`: `0%` is not from 1% to 100000%"));
        for text in ["%", "half", "+5", "-5", "1.5%", "5%%", ""] {
            let what = format!(
                "limit `command-cpu`: `{text}` is not a share of one processor such as `50%` or `400%`"
            );
            check(Cpu, text, Err(&what));
        }
        check(Processes, "0", Err("limit `command-processes`: `0` is not from 8 to 1000000"));
        check(OpenFiles, "many", Err("limit `command-open-files`: `many` is not a whole number"));
    }

    #[test]
    fn tool_change_replaces_rule_change_only_raises() {
        let usual = CommandLimits::default();
        let both = change(&[(CommandLimit::Memory, "4GB"), (CommandLimit::Cpu, "10%")]);
        let replaced = usual.with_change(&both);
        assert_eq!(
            (replaced.memory_max, replaced.cpu_percent_max),
            (ByteSize::megabytes(4000), 10)
        );
        let raised = usual.with_raised(&both);
        assert_eq!((raised.memory_max, raised.cpu_percent_max), (ByteSize::megabytes(4000), 50));
        assert!(usual.is_within(&raised) && !raised.is_within(&usual));
    }

    #[test]
    fn merged_changes_keep_largest_of_each_limit() {
        let mut one = change(&[(CommandLimit::Memory, "4GB")]);
        one.merge_larger(&change(&[(CommandLimit::Memory, "1GB"), (CommandLimit::Cpu, "400%")]));
        assert_eq!(one, change(&[(CommandLimit::Memory, "4GB"), (CommandLimit::Cpu, "400%")]));
    }

    #[test]
    fn fair_limits_are_a_share_of_the_machine_and_never_below_strict() {
        let fair = |gigabytes: u64, processors| {
            let memory = ByteSize::megabytes(gigabytes * 1000);
            CommandLimits::fair(MachineResources { memory, processors })
        };
        let strict = CommandLimits::default();
        let large = fair(32, 8);
        assert_eq!((large.memory_max, large.cpu_percent_max), (ByteSize::megabytes(16_000), 800));
        assert_eq!((large.file_max, large.disk_max), (strict.disk_max, strict.disk_max));
        assert_eq!((large.processes_max, large.open_files_max), (512, 1024));
        for limits in [large, fair(0, 1), fair(1, 0)] {
            assert!(strict.is_within(&limits), "{limits:?}");
        }
    }

    #[test]
    fn every_command_limit_is_found_by_name() {
        for limit in CommandLimit::ALL {
            assert_eq!(CommandLimit::from_name(limit.name()), Some(limit));
        }
        assert_eq!(CommandLimit::from_name("command-speed"), None);
    }
}
