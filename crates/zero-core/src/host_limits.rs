//! All limits of a host, with their units.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::command_limits::{
    CommandLimit, CommandLimitChange, CommandLimits, LimitProfile, MachineResources,
};
use crate::{TimeoutClass, ToolName};

/// A number of bytes that prints and parses with its unit. Units are decimal: 1 MB is 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A number of bytes.
    pub const fn bytes(count: u64) -> Self {
        Self(count)
    }

    /// Thousands of bytes.
    pub const fn kilobytes(count: u64) -> Self {
        Self(count * 1_000)
    }

    /// Millions of bytes.
    pub const fn megabytes(count: u64) -> Self {
        Self(count * 1_000_000)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bytes as an index; saturates if `usize` is narrower.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "KB")] {
            if self.0 >= unit {
                let tenths = self.0 / (unit / 10);
                return match tenths % 10 {
                    0 => write!(f, "{} {name}", tenths / 10),
                    tenth => write!(f, "{}.{tenth} {name}", tenths / 10),
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A text that is not a valid amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct InvalidAmountError {
    text: String,
    expected: &'static str,
}

impl InvalidAmountError {
    pub(crate) fn new(text: &str, expected: &'static str) -> Self {
        Self { text: text.to_owned(), expected }
    }
}

/// Splits `12 MB` into 12 and `mb`; the unit may be missing.
fn split_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..digits].parse().ok()?;
    Some((number, text[digits..].trim().to_ascii_lowercase()))
}

impl FromStr for ByteSize {
    type Err = InvalidAmountError;

    fn from_str(text: &str) -> Result<Self, InvalidAmountError> {
        let invalid = || InvalidAmountError {
            text: text.to_owned(),
            expected: "a size such as `500 KB` or `10 MB`",
        };
        let (number, unit) = split_unit(text).ok_or_else(invalid)?;
        let factor = match unit.as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1_000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            _ => return Err(invalid()),
        };
        number.checked_mul(factor).map(Self).ok_or_else(invalid)
    }
}

/// Parses a duration such as `30 s`, `250ms` or `2 m`.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidAmountError> {
    let invalid = || InvalidAmountError {
        text: text.to_owned(),
        expected: "a time such as `250 ms`, `30 s` or `2 m`",
    };
    let (number, unit) = split_unit(text).ok_or_else(invalid)?;
    let factor_ms: u64 = match unit.as_str() {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(invalid()),
    };
    number.checked_mul(factor_ms).map(Duration::from_millis).ok_or_else(invalid)
}

/// The limits of one host. [`HostLimits::default`] has the documented values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// Deadline of a tool that works on one file or folder.
    pub file_timeout: Duration,
    /// Deadline of a search.
    pub search_timeout: Duration,
    /// Deadline of a command.
    pub command_timeout: Duration,
    /// Deadline of a command under a name of a dialect whose platform allows more.
    pub development_timeout: Duration,
    /// Deadline of a call to an MCP server.
    pub mcp_timeout: Duration,
    /// How long the user has to answer whether a connection that waits may be made.
    pub connection_question_timeout: Duration,
    /// How long a call that was cancelled may take to return its outcome.
    pub stop_grace: Duration,
    /// Most bytes of a result that the model gets; the rest is stored in a file.
    pub model_output_bytes_max: ByteSize,
    /// Most bytes of a whole result.
    pub result_bytes_max: ByteSize,
    /// Largest file that is read completely or changed.
    pub file_bytes_max: ByteSize,
    /// Largest input of a call.
    pub input_bytes_max: ByteSize,
    /// Most calls that run at once in one session.
    pub session_calls_max: usize,
    /// Most calls that run at once in the whole host.
    pub host_calls_max: usize,
    /// Most calls that wait for a slot.
    pub queue_calls_max: usize,
    /// Most attempts of an idempotent call that fails transiently, including the first.
    pub attempts_max: u32,
    /// Consecutive failures of a tool that open its circuit.
    pub breaker_failures_max: u32,
    /// How long an open circuit stays open before one call may try again.
    pub breaker_pause: Duration,
    /// What the machine has for commands. Where it was not measured, the profile `fair` has the
    /// figures of `strict`.
    pub machine: Option<MachineResources>,
    /// Where the limits of commands come from that nothing sets by name.
    pub profile: LimitProfile,
    /// Limits of commands that were set by name, whatever the profile is.
    pub command: CommandLimitChange,
    /// Changed limits for the commands of one tool.
    pub tool_commands: BTreeMap<ToolName, CommandLimitChange>,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            file_timeout: Duration::from_secs(30),
            search_timeout: Duration::from_secs(60),
            command_timeout: Duration::from_secs(120),
            development_timeout: Duration::from_secs(300),
            mcp_timeout: Duration::from_secs(120),
            connection_question_timeout: Duration::from_secs(60),
            stop_grace: Duration::from_millis(500),
            model_output_bytes_max: ByteSize::kilobytes(50),
            result_bytes_max: ByteSize::megabytes(10),
            file_bytes_max: ByteSize::megabytes(100),
            input_bytes_max: ByteSize::megabytes(16),
            session_calls_max: 8,
            host_calls_max: 32,
            queue_calls_max: 256,
            attempts_max: 3,
            breaker_failures_max: 5,
            breaker_pause: Duration::from_secs(30),
            machine: None,
            profile: LimitProfile::Fair,
            command: CommandLimitChange::default(),
            tool_commands: BTreeMap::new(),
        }
    }
}

/// Why a limit could not be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLimitError {
    /// No limit has that name.
    #[error("there is no limit `{name}`; the limits are {}", HostLimits::NAMES.join(", "))]
    UnknownName {
        /// The given name.
        name: String,
    },
    /// The value is malformed.
    #[error("limit `{name}`: {source}")]
    Value {
        /// The limit.
        name: String,
        /// What is wrong with its value.
        source: InvalidAmountError,
    },
    /// Too small for anything to run, or so large that it must be a typing mistake.
    #[error("limit `{name}`: `{value}` is not from {least} to {most}")]
    Range {
        /// The limit.
        name: String,
        /// The given value.
        value: String,
        /// The smallest valid value.
        least: String,
        /// The largest valid value.
        most: String,
    },
    /// Zero, with which nothing could run.
    #[error("limit `{name}` must be more than zero")]
    Zero {
        /// The limit.
        name: String,
    },
}

/// The limit that selects a [`LimitProfile`].
const PROFILE_NAME: &str = "profile";

impl HostLimits {
    /// The default limits on a machine with these resources.
    pub fn for_machine(machine: MachineResources) -> Self {
        Self { machine: Some(machine), ..Self::default() }
    }

    /// Names that [`HostLimits::set`] accepts.
    pub const NAMES: &[&str] = &[
        "file-timeout",
        "search-timeout",
        "command-timeout",
        "mcp-timeout",
        "connection-question-timeout",
        "model-output",
        "result",
        "file-size",
        "session-calls",
        "host-calls",
        "queue-calls",
        PROFILE_NAME,
        CommandLimit::Memory.name(),
        CommandLimit::Cpu.name(),
        CommandLimit::Processes.name(),
        CommandLimit::OpenFiles.name(),
        CommandLimit::File.name(),
        CommandLimit::Disk.name(),
        CommandLimit::DiskRate.name(),
    ];

    /// Tools that run commands. Their names may prefix the name of a command limit, as in
    /// `Bash.command-memory`.
    pub const COMMAND_TOOLS: &[&str] = &["Bash"];

    /// A limit by its name, as it is written in settings and flags; `None` if no limit has it.
    pub fn format_value(&self, name: &str) -> Option<String> {
        let time = |time: Duration| match time.subsec_millis() {
            0 => format!("{}s", time.as_secs()),
            _ => format!("{}ms", time.as_millis()),
        };
        Some(match name {
            "file-timeout" => time(self.file_timeout),
            "search-timeout" => time(self.search_timeout),
            "command-timeout" => time(self.command_timeout),
            "mcp-timeout" => time(self.mcp_timeout),
            "connection-question-timeout" => time(self.connection_question_timeout),
            "model-output" => self.model_output_bytes_max.to_string(),
            "result" => self.result_bytes_max.to_string(),
            "file-size" => self.file_bytes_max.to_string(),
            "session-calls" => self.session_calls_max.to_string(),
            "host-calls" => self.host_calls_max.to_string(),
            "queue-calls" => self.queue_calls_max.to_string(),
            PROFILE_NAME => self.profile.name().to_owned(),
            name => {
                let (tool, limit) = match name.split_once('.') {
                    Some((tool, limit)) => (Some(ToolName::new(tool).ok()?), limit),
                    None => (None, name),
                };
                let limit = CommandLimit::from_name(limit)?;
                let limits = match tool {
                    Some(tool) => self.command_limits_for(&tool),
                    None => self.command_limits(),
                };
                limit.format_value(limits.get(limit))
            }
        })
    }

    /// Sets one limit from its name and a value with its unit, as in settings and flags.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidLimitError> {
        HostLimitChange::parse(name, value).map(|change| self.apply(&change))
    }

    /// Sets a limit. The change was parsed before, so this cannot fail.
    pub fn apply(&mut self, change: &HostLimitChange) {
        match &change.0 {
            ParsedLimit::FileTimeout(time) => self.file_timeout = *time,
            ParsedLimit::SearchTimeout(time) => self.search_timeout = *time,
            // The user's own figure applies under every name.
            ParsedLimit::CommandTimeout(time) => {
                (self.command_timeout, self.development_timeout) = (*time, *time);
            }
            ParsedLimit::McpTimeout(time) => self.mcp_timeout = *time,
            ParsedLimit::ConnectionQuestionTimeout(time) => {
                self.connection_question_timeout = *time;
            }
            ParsedLimit::ModelOutput(size) => self.model_output_bytes_max = *size,
            ParsedLimit::Result(size) => self.result_bytes_max = *size,
            ParsedLimit::FileSize(size) => self.file_bytes_max = *size,
            ParsedLimit::SessionCalls(count) => self.session_calls_max = *count,
            ParsedLimit::HostCalls(count) => self.host_calls_max = *count,
            ParsedLimit::QueueCalls(count) => self.queue_calls_max = *count,
            ParsedLimit::Profile(profile) => self.profile = *profile,
            ParsedLimit::Command(change) => self.command.merge_later(change),
            ParsedLimit::ToolCommand(tool, change) => {
                self.tool_commands.entry(tool.clone()).or_default().merge_later(change);
            }
        }
    }

    /// The resource limits for the commands of a tool.
    pub fn command_limits_for(&self, tool: &ToolName) -> CommandLimits {
        match self.tool_commands.get(tool) {
            Some(of_tool) => {
                let mut change = self.command.clone();
                change.merge_later(of_tool);
                self.resolve_command_limits(&change)
            }
            None => self.command_limits(),
        }
    }

    /// The resource limits for commands of no tool.
    pub fn command_limits(&self) -> CommandLimits {
        self.resolve_command_limits(&self.command)
    }

    fn resolve_command_limits(&self, change: &CommandLimitChange) -> CommandLimits {
        let machine = self.machine.filter(|_| self.profile == LimitProfile::Fair);
        let Some(machine) = machine else { return CommandLimits::default().with_change(change) };
        let mut limits = CommandLimits::fair(machine).with_change(change);
        // The profile limits what a command writes in total. A user who raises that does not want
        // a smaller limit for each file.
        if !change.has(CommandLimit::File) {
            limits.file_max = limits.file_max.max(limits.disk_max);
        }
        limits
    }

    /// The deadline of a class of tools.
    pub fn timeout(&self, class: TimeoutClass) -> Duration {
        match class {
            TimeoutClass::File => self.file_timeout,
            TimeoutClass::Search => self.search_timeout,
            TimeoutClass::Command => self.command_timeout,
            TimeoutClass::Development => self.development_timeout,
            TimeoutClass::Mcp => self.mcp_timeout,
        }
    }
}

/// A parsed limit change: [`HostLimits::apply`] sets it and cannot fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLimitChange(ParsedLimit);

/// The limits that can be set by name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ParsedLimit {
    FileTimeout(Duration),
    SearchTimeout(Duration),
    CommandTimeout(Duration),
    McpTimeout(Duration),
    ConnectionQuestionTimeout(Duration),
    ModelOutput(ByteSize),
    Result(ByteSize),
    FileSize(ByteSize),
    SessionCalls(usize),
    HostCalls(usize),
    QueueCalls(usize),
    Profile(LimitProfile),
    Command(CommandLimitChange),
    ToolCommand(ToolName, CommandLimitChange),
}

impl HostLimitChange {
    /// Parses the value of a limit, as in settings and flags.
    pub fn parse(name: &str, value: &str) -> Result<Self, InvalidLimitError> {
        let of_command = |limit: CommandLimit| {
            let mut change = CommandLimitChange::default();
            change.set(limit, value).map(|()| change)
        };
        if let Some(limit) = CommandLimit::from_name(name) {
            return of_command(limit).map(|change| Self(ParsedLimit::Command(change)));
        }
        if let Some((tool, limit)) = parse_tool_limit(name) {
            return of_command(limit).map(|change| Self(ParsedLimit::ToolCommand(tool, change)));
        }
        let wrong = |source| InvalidLimitError::Value { name: name.to_owned(), source };
        let time = || parse_duration(value).map_err(wrong).and_then(|time| above_zero(name, time));
        let size =
            || value.parse::<ByteSize>().map_err(wrong).and_then(|size| above_zero(name, size));
        let count = || {
            let count = value.trim().parse::<usize>().map_err(|_| {
                wrong(InvalidAmountError { text: value.to_owned(), expected: "a whole number" })
            });
            count.and_then(|count| above_zero(name, count))
        };
        Ok(Self(match name {
            "file-timeout" => ParsedLimit::FileTimeout(time()?),
            "search-timeout" => ParsedLimit::SearchTimeout(time()?),
            "command-timeout" => ParsedLimit::CommandTimeout(time()?),
            "mcp-timeout" => ParsedLimit::McpTimeout(time()?),
            "connection-question-timeout" => ParsedLimit::ConnectionQuestionTimeout(time()?),
            "model-output" => ParsedLimit::ModelOutput(size()?),
            "result" => ParsedLimit::Result(size()?),
            "file-size" => ParsedLimit::FileSize(size()?),
            "session-calls" => ParsedLimit::SessionCalls(count()?),
            "host-calls" => ParsedLimit::HostCalls(count()?),
            "queue-calls" => ParsedLimit::QueueCalls(count()?),
            PROFILE_NAME => {
                let profile = LimitProfile::from_name(value.trim());
                let expected = "one of the profiles `fair` and `strict`";
                ParsedLimit::Profile(
                    profile.ok_or_else(|| wrong(InvalidAmountError::new(value, expected)))?,
                )
            }
            _ => return Err(InvalidLimitError::UnknownName { name: name.to_owned() }),
        }))
    }
}

/// Splits `Bash.command-memory` into the tool and the limit of its commands.
fn parse_tool_limit(name: &str) -> Option<(ToolName, CommandLimit)> {
    let (tool, limit) = name.split_once('.')?;
    let tool = HostLimits::COMMAND_TOOLS.iter().find(|known| **known == tool)?;
    Some((ToolName::new(*tool).ok()?, CommandLimit::from_name(limit)?))
}

/// Returns the value, or an error if it is zero.
fn above_zero<T: PartialEq + ZeroValue>(name: &str, value: T) -> Result<T, InvalidLimitError> {
    if value == T::ZERO {
        return Err(InvalidLimitError::Zero { name: name.to_owned() });
    }
    Ok(value)
}

trait ZeroValue {
    const ZERO: Self;
}

impl ZeroValue for Duration {
    const ZERO: Self = Duration::ZERO;
}

impl ZeroValue for ByteSize {
    const ZERO: Self = ByteSize(0);
}

impl ZeroValue for usize {
    const ZERO: Self = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_sizes_print_and_parse_with_unit() {
        for (text, bytes) in
            [("10 MB", 10_000_000), ("50 KB", 50_000), ("1.5 MB", 1_500_000), ("7 B", 7)]
        {
            assert_eq!(ByteSize::bytes(bytes).to_string(), text);
        }
        assert_eq!("10mb".parse(), Ok(ByteSize::megabytes(10)));
        assert_eq!("512".parse(), Ok(ByteSize::bytes(512)));
        for bad in ["", "MB", "-1", "1 XB", "99999999999 GB", "1.5 MB"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tool_can_have_own_command_limits() {
        let mut limits = HostLimits::default();
        limits.set("command-cpu", "100%").unwrap();
        limits.set("Bash.command-memory", "1GB").unwrap();
        assert!(matches!(
            limits.set("Bash.command-cpu", "0%"),
            Err(InvalidLimitError::Range { .. })
        ));
        let bash = limits.command_limits_for(&ToolName::new("Bash").unwrap());
        assert_eq!((bash.memory_max, bash.cpu_percent_max), (ByteSize::megabytes(1000), 100));
        let other = limits.command_limits_for(&ToolName::new("Read").unwrap());
        assert_eq!(other.memory_max, ByteSize::megabytes(500));
        for name in ["Read.command-memory", "Bash.file-timeout", "Bash.", ".command-memory"] {
            let done = limits.set(name, "1GB");
            assert!(matches!(done, Err(InvalidLimitError::UnknownName { .. })), "{name}");
        }
    }

    #[test]
    fn profile_decides_what_is_not_set_by_name() {
        let machine = MachineResources { memory: ByteSize::megabytes(16_000), processors: 4 };
        let bash = ToolName::new("Bash").unwrap();
        let mut limits = HostLimits::for_machine(machine);
        assert_eq!(limits.command_limits_for(&bash), CommandLimits::fair(machine));
        // A limit that is set by name applies under both profiles, whichever was set first.
        limits.set("command-memory", "3GB").unwrap();
        limits.set("Bash.command-cpu", "70%").unwrap();
        limits.set("profile", "strict").unwrap();
        let strict = limits.command_limits_for(&bash);
        assert_eq!((strict.memory_max, strict.cpu_percent_max), (ByteSize::megabytes(3000), 70));
        assert_eq!(strict.file_max, ByteSize::megabytes(100));
        limits.set("profile", "fair").unwrap();
        let fair = limits.command_limits_for(&bash);
        assert_eq!((fair.memory_max, fair.cpu_percent_max), (ByteSize::megabytes(3000), 70));
        // A file may be as large as all that a command may add to a disk.
        limits.set("command-disk", "90GB").unwrap();
        assert_eq!(limits.command_limits().file_max, ByteSize::megabytes(90_000));
        limits.set("command-file", "1GB").unwrap();
        assert_eq!(limits.command_limits().file_max, ByteSize::megabytes(1000));
        let error = limits.set("profile", "lax").unwrap_err().to_string();
        assert_eq!(error, "limit `profile`: `lax` is not one of the profiles `fair` and `strict`");
        // Nothing is opened on a machine that was not measured.
        assert_eq!(HostLimits::default().command_limits(), CommandLimits::default());
    }

    #[test]
    fn limit_is_set_by_name_and_never_to_zero() {
        let mut limits = HostLimits::default();
        limits.set("file-timeout", "250 ms").expect("a known limit");
        assert_eq!(limits.timeout(TimeoutClass::File), Duration::from_millis(250));
        let usual = [TimeoutClass::Command, TimeoutClass::Development, TimeoutClass::Mcp];
        let seconds = |limits: &HostLimits| usual.map(|class| limits.timeout(class).as_secs());
        assert_eq!(seconds(&limits), [120, 300, 120]);
        limits.set("command-timeout", "10s").expect("a known limit");
        limits.set("mcp-timeout", "20s").expect("a known limit");
        assert_eq!(seconds(&limits), [10, 10, 20]);
        assert!(matches!(limits.set("file-timeout", "0s"), Err(InvalidLimitError::Zero { .. })));
        assert!(matches!(limits.set("file-timeout", "soon"), Err(InvalidLimitError::Value { .. })));
        assert!(matches!(limits.set("speed", "1"), Err(InvalidLimitError::UnknownName { .. })));
        assert_eq!(limits.file_timeout, Duration::from_millis(250));
    }
}
