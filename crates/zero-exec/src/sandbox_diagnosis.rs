//! Explains in one line why the sandbox made a command fail, and what to do about it.
//!
//! Programs report what the kernel answered, such as a read-only file system or a name that cannot
//! be resolved, and a model then searches for the cause in the wrong place. The [table](SYMPTOMS)
//! has one row for each cause: the messages by which programs report it, and how to explain it.
//!
//! Only a command that failed is explained: one that merely prints such words has no problem. A row
//! that cannot tell whether the sandbox is the cause gives no explanation.

use std::sync::Arc;
use std::time::Duration;

use zero_core::ansi_filter;
use zero_core::{CommandLimit, CommandLimits, ToolName};
use zero_policy::WriteScope;
use zero_sandbox::ProcessLimits;
use zero_sandbox::output_collector::CollectedOutput;
use zero_sandbox::running_command::CommandExit;

use crate::command_request::StreamMode;
use crate::network_failure::{self, HostReach};
use crate::package_caches::PackageCaches;
use crate::read_failure::HiddenHome;
use crate::write_failure::{self, CommandLocation};

/// Most lines of the output that are compared with each row.
const LINES_MAX: usize = 5_000;
/// Longest line that is inspected, in bytes. Longer ones are data, not messages.
const LINE_BYTES_MAX: usize = 4_000;
/// Most explanations of one command.
const NOTES_MAX: usize = 4;
/// A command that ran for less was not slowed down noticeably.
const SLOW_AFTER: Duration = Duration::from_secs(5);

/// What a program was started with, as far as it explains failures.
#[derive(Clone, Debug)]
pub struct LaunchFacts {
    /// Its resource limits.
    pub limits: CommandLimits,
    /// How its standard streams are connected.
    pub streams: StreamMode,
    /// The tool under whose name settings change its limits.
    pub tool: Option<ToolName>,
    /// The caches that it uses.
    pub packages: Option<Arc<PackageCaches>>,
    /// Whether it runs outside the sandbox, so that the sandbox explains nothing.
    pub is_outside: bool,
}

/// A command that has ended, and what its sandbox allowed.
pub(crate) struct DiagnosisInput<'a> {
    pub(crate) exit: &'a CommandExit,
    pub(crate) run_time: Duration,
    pub(crate) facts: &'a LaunchFacts,
    pub(crate) host_reach: HostReach,
    /// Whether the proxy refused a connection or could not make it, which has a note of its own.
    pub(crate) explains_network: bool,
    pub(crate) writes: &'a WriteScope,
    pub(crate) location: &'a CommandLocation,
    pub(crate) hidden: &'a HiddenHome,
}

/// A cause of failures.
struct Symptom {
    /// What programs say about it, in lower case. A line with one of these is explained.
    messages: &'static [&'static str],
    /// Explains a line with such a message. `None` if the sandbox is not the cause.
    explain: fn(&DiagnosisInput<'_>, &str) -> Option<String>,
}

/// The causes, the most specific first.
const SYMPTOMS: &[Symptom] = &[
    Symptom { messages: network_failure::MESSAGES, explain: explain_network },
    Symptom {
        messages: &["connection refused", "econnrefused", "failed to connect to"],
        explain: explain_loopback,
    },
    Symptom { messages: write_failure::MESSAGES, explain: explain_write },
    Symptom { messages: &["resource busy", "ebusy"], explain: explain_busy },
    Symptom {
        messages: &["too many open files", "emfile"],
        explain: |command, _| Some(command.explain_limit(CommandLimit::OpenFiles)),
    },
    Symptom {
        messages: &["file too large", "efbig", "file size limit exceeded"],
        explain: |command, _| Some(command.explain_limit(CommandLimit::File)),
    },
    Symptom {
        messages: &["fork: retry", "fork: resource temporarily", "can't fork", "cannot fork"],
        explain: |command, _| Some(command.explain_limit(CommandLimit::Processes)),
    },
    Symptom {
        messages: &[
            "cannot allocate memory",
            "can't allocate memory",
            "enomem",
            "out of memory",
            "memoryerror",
            "bad_alloc",
        ],
        explain: explain_memory,
    },
    Symptom { messages: PRIVILEGE_MESSAGES, explain: explain_privilege },
    Symptom { messages: TERMINAL_MESSAGES, explain: explain_terminal },
];

/// Messages of programs that want a terminal.
const TERMINAL_MESSAGES: &[&str] = &[
    "not a tty",
    "not a terminal",
    "no tty present",
    "inappropriate ioctl for device",
    "term environment variable not set",
    "term environment variable needs",
    "error opening terminal",
    "requires a terminal",
    "must be run from a terminal",
    "must be run in a terminal",
    "no such device or address: '/dev/tty'",
    "/dev/tty: no such device or address",
];

/// Messages of programs that may want privileges.
const PRIVILEGE_MESSAGES: &[&str] = &[
    "operation not permitted",
    "eperm",
    "no new privileges",
    "must be setuid root",
    "must be root",
    "must be superuser",
    "invalid argument",
    "permission denied",
    "system error",
];

/// Those that say that privileges are missing, whatever the program did.
const MISSING_PRIVILEGES: &[&str] =
    &["no new privileges", "must be setuid root", "must be root", "must be superuser"];

/// Programs that name no privilege when they are refused: the beginning of their message, and its end.
const REFUSED_PROGRAMS: &[(&str, &str)] = &[
    // Owners that the user namespace of a command does not have.
    ("chown: ", ": invalid argument"),
    ("chgrp: ", ": invalid argument"),
    ("mount: ", ": permission denied."),
    ("umount: ", ": permission denied."),
    ("su: ", "system error"),
];

/// What a program did that needs privileges, as words of its messages.
const PRIVILEGED_WORK: &[&str] = &[
    "sudo",
    "su:",
    "mount",
    "chown",
    "chgrp",
    "chroot",
    "mknod",
    "setns",
    "unshare",
    "clone",
    "ptrace",
    "strace",
    "perf",
    "bpf",
    "setcap",
    "setuid",
    "setgid",
    "setgroups",
    "namespace",
    "iptables",
    "ip:",
    "ping",
    "capabilit",
    "swapon",
    "keyctl",
    "io_uring",
    "personality",
    "cannot set date",
];

/// The note of a command that ran outside the sandbox.
const OUTSIDE_NOTE: &str = "it ran outside the sandbox, as the user allowed for this once";
/// What the notes begin with that do not blame the sandbox: limits apply outside, too.
const OTHER_NOTES: &[&str] = &["limits: ", "terminal: ", "connection: "];

/// Whether one of these notes says that the sandbox made a command fail.
pub(crate) fn blames_sandbox(exit: &CommandExit, notes: &[String]) -> bool {
    let is_other = |note: &String| OTHER_NOTES.iter().any(|other| note.starts_with(other));
    exit.exit_code.is_some_and(|code| code != 0) && notes.iter().any(|note| !is_other(note))
}

/// The explanations of why a command failed, or was slow, because of its sandbox.
pub(crate) fn diagnose(command: &DiagnosisInput<'_>, output: &CollectedOutput) -> Vec<String> {
    if command.facts.is_outside {
        return vec![OUTSIDE_NOTE.to_owned()];
    }
    // Each stream by itself: where both are mixed, a message of one may be cut by the other.
    let text = || {
        let streams = [&output.stderr, &output.stdout];
        let pieces = streams.map(|stream| [stream.head(), stream.tail(), b"\n"]);
        ansi_filter::strip_pieces(pieces.iter().flatten().copied())
    };
    let mut notes: Vec<String> = command.hidden.secret_file_note(text).into_iter().collect();
    notes.extend(diagnose_text(command, text));
    notes.truncate(NOTES_MAX);
    notes
}

fn diagnose_text(command: &DiagnosisInput<'_>, text: impl FnOnce() -> String) -> Vec<String> {
    let mut notes: Vec<String> = command.explain_speed().into_iter().collect();
    if command.exit.exit_code.is_none_or(|code| code == 0) {
        return notes;
    }
    let text = text();
    let packages = command.facts.packages.as_ref();
    if let Some(note) = packages.and_then(|packages| packages.replace_read_only(&text)) {
        notes.push(note);
        return notes;
    }
    notes.extend(explain_text(command, &text));
    notes.extend(command.hidden.note_for_text(&text));
    notes.truncate(NOTES_MAX);
    notes
}

fn explain_text(command: &DiagnosisInput<'_>, text: &str) -> Vec<String> {
    let lines: Vec<(&str, String)> = text
        .lines()
        .filter(|line| line.len() <= LINE_BYTES_MAX)
        .take(LINES_MAX)
        .map(|line| (line, line.to_lowercase()))
        .collect();
    let explain_row = |row: &Symptom| {
        let is_about = |lower: &str| row.messages.iter().any(|message| has_message(lower, message));
        let mut about = lines.iter().filter(|(_, lower)| is_about(lower));
        about.find_map(|(line, _)| (row.explain)(command, line))
    };
    let mut notes: Vec<String> = SYMPTOMS.iter().filter_map(explain_row).collect();
    notes
        .extend(write_failure::explain_push(command.location, lines.iter().map(|(line, _)| *line)));
    notes.dedup();
    notes
}

/// Whether a line has a message, not as a part of a longer word: `FileNotFoundError` is no `ENOTFOUND`.
fn has_message(line: &str, message: &str) -> bool {
    let starts_word = |at: usize| {
        let before = line.get(..at).and_then(|before| before.chars().next_back());
        !before.is_some_and(char::is_alphanumeric)
    };
    line.match_indices(message).any(|(at, _)| starts_word(at))
}

fn explain_network(command: &DiagnosisInput<'_>, line: &str) -> Option<String> {
    // The report of the proxy is more precise.
    (!command.explains_network).then(|| network_failure::explain(command.host_reach, line))
}

/// Programs expect the services of this machine at `localhost`.
fn explain_loopback(_: &DiagnosisInput<'_>, line: &str) -> Option<String> {
    let names_loopback = ["localhost", "127.0.0.1", "::1"].iter().any(|name| line.contains(name));
    names_loopback.then(|| {
        "network: `localhost` is the session's own network, in which nothing listens there; start the server as a background job of this session, because commands do not reach services of this machine"
            .to_owned()
    })
}

fn explain_write(command: &DiagnosisInput<'_>, line: &str) -> Option<String> {
    write_failure::explain(command.writes, command.location, line)
}

/// A file that is mounted cannot be replaced, which is how git and editors change files.
fn explain_busy(command: &DiagnosisInput<'_>, line: &str) -> Option<String> {
    write_failure::explain_busy(command.location, line)
}

/// An allocation that fails without a kill: of more than all memory, or beside the limit.
fn explain_memory(command: &DiagnosisInput<'_>, line: &str) -> Option<String> {
    // A shell that cannot fork says so with the same words.
    let limit = match line.contains("fork") {
        true => CommandLimit::Processes,
        false => CommandLimit::Memory,
    };
    let limits = &command.facts.limits;
    let is_near = limit != CommandLimit::Memory
        || command.exit.max_memory_bytes >= limits.memory_max.get() / 2;
    is_near.then(|| command.explain_limit(limit))
}

fn explain_privilege(_: &DiagnosisInput<'_>, line: &str) -> Option<String> {
    let lower = line.trim().to_lowercase();
    let has = |message: &str| lower.contains(message);
    let is_work = (has("operation not permitted") || has("eperm"))
        && PRIVILEGED_WORK.iter().any(|work| has(work));
    let is_refused = REFUSED_PROGRAMS
        .iter()
        .any(|(start, end)| lower.starts_with(start) && lower.ends_with(end));
    let is_missing = MISSING_PRIVILEGES.iter().any(|message| has(message));
    (is_work || is_refused || is_missing).then(|| {
        "sandbox: commands have no privileges: no `sudo`, no change of owners, no mounts, no namespaces, no tracing; no setting gives them, so do without, or ask the user to run it"
            .to_owned()
    })
}

fn explain_terminal(command: &DiagnosisInput<'_>, _: &str) -> Option<String> {
    (command.facts.streams == StreamMode::Pipes).then(|| {
        "terminal: the command has none; request one with `\"tty\": true`, or use an option of the program that needs none"
            .to_owned()
    })
}

impl DiagnosisInput<'_> {
    /// Which limit was reached, its value, and how to raise it.
    fn explain_limit(&self, limit: CommandLimit) -> String {
        let value = self.facts.limits.get(limit);
        let more = limit.format_value(value.saturating_mul(2)).replace(' ', "");
        let (name, allowed) = (limit.name(), limit.format_value(value));
        let setting = match &self.facts.tool {
            Some(tool) => format!("limits.{tool}.{name}"),
            None => format!("limits.{name}"),
        };
        format!(
            "limits: the command seems to need more than `{name}` {allowed}; to raise it: zero config set {setting} {more}"
        )
    }

    /// Whether the processor limit slowed the command down: it used nearly all that it may.
    fn explain_speed(&self) -> Option<String> {
        let limits = &self.facts.limits;
        if self.run_time < SLOW_AFTER || !ProcessLimits::from(*limits).has_cpu_quota() {
            return None;
        }
        let allowed = self.run_time.as_secs_f64() * limits.cpu_percent_max as f64 / 100.0;
        let is_throttled = self.exit.cpu_time.as_secs_f64() >= allowed * 0.9;
        is_throttled.then(|| {
            let note = self.explain_limit(CommandLimit::Cpu);
            let note = note.strip_prefix("limits: the command seems to need more than ");
            format!("limits: the command was slowed down to {}", note.unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use zero_core::ByteSize;
    use zero_sandbox::running_command::ExitCause;

    use super::*;

    /// The notes of a command in `/w` with this exit code, memory use and output.
    fn diagnose_with(change: impl FnOnce(&mut CommandCase), text: &str) -> Vec<String> {
        let mut case = CommandCase::default();
        change(&mut case);
        let CommandCase {
            exit_code,
            memory,
            streams,
            host_reach,
            explains_network,
            seconds,
            cpu,
            writes,
        } = case;
        let exit = CommandExit {
            exit_code: Some(exit_code),
            signal: None,
            why: ExitCause::Finished,
            cpu_time: Duration::from_secs(cpu),
            max_memory_bytes: memory,
            read_bytes: 0,
            written_bytes: 0,
            leftover_processes: 0,
        };
        let root = PathBuf::from("/var/tmp");
        let location = CommandLocation { roots: vec![root.clone()], folder: root.clone() };
        let facts = LaunchFacts {
            limits: CommandLimits::default(),
            streams,
            tool: ToolName::new("Bash").ok(),
            packages: None,
            is_outside: false,
        };
        let command = DiagnosisInput {
            exit: &exit,
            run_time: Duration::from_secs(seconds),
            facts: &facts,
            host_reach,
            explains_network,
            writes: &writes,
            location: &location,
            hidden: &HiddenHome::default(),
        };
        diagnose_text(&command, || text.to_owned())
    }

    struct CommandCase {
        exit_code: i32,
        memory: u64,
        streams: StreamMode,
        host_reach: HostReach,
        explains_network: bool,
        seconds: u64,
        cpu: u64,
        writes: WriteScope,
    }

    impl Default for CommandCase {
        fn default() -> Self {
            Self {
                exit_code: 1,
                memory: 0,
                streams: StreamMode::Pipes,
                host_reach: HostReach::NoneAllowed,
                explains_network: false,
                seconds: 1,
                cpu: 0,
                writes: WriteScope::Workspace,
            }
        }
    }

    /// One message of each cause, and the beginning of its explanation.
    const FAILURES: &[(&str, &str)] = &[
        (
            "curl: (6) Could not resolve host: a.com",
            "network: commands have no network access; to allow a.com: zero config add sandbox.network a.com",
        ),
        (
            "psql: connection to server at \"localhost\" (127.0.0.1), port 5432 failed: Connection refused",
            "network: `localhost` is the session's own network",
        ),
        (
            "curl: (7) Failed to connect to 127.0.0.1 port 9 after 2 ms: Couldn't connect to server",
            "network: `localhost` is the session's own network",
        ),
        (
            "touch: cannot touch '/usr/x': Read-only file system",
            "tried to write `/usr/x`; commands cannot write outside the workspace",
        ),
        (
            "error: could not write config file .git/config: Device or resource busy",
            "tried to change `.git/config`; commands cannot change it, because it decides what git runs",
        ),
        (
            "mv: cannot move 'src' to 'lib': Device or resource busy",
            "`src` is protected, or a folder that contains a protected file",
        ),
        (
            "Error: EMFILE: too many open files, open 'x'",
            "limits: the command seems to need more than `command-open-files` 1024; to raise it: zero config set limits.Bash.command-open-files 2048",
        ),
        (
            "dd: error writing 'x': File too large",
            "limits: the command seems to need more than `command-file` 100 MB; to raise it: zero config set limits.Bash.command-file 200MB",
        ),
        (
            "bash: fork: retry: Resource temporarily unavailable",
            "limits: the command seems to need more than `command-processes` 512",
        ),
        (
            "chown: changing ownership of 'x': Operation not permitted",
            "sandbox: commands have no privileges",
        ),
        (
            "sudo: The \"no new privileges\" flag is set, which prevents sudo from running as root.",
            "sandbox: commands have no privileges",
        ),
        (
            "chown: changing ownership of 'x': Invalid argument",
            "sandbox: commands have no privileges",
        ),
        ("mount: /mnt: permission denied.", "sandbox: commands have no privileges"),
        ("su: System error", "sandbox: commands have no privileges"),
        (
            "hostname: you must be root to change the host name",
            "sandbox: commands have no privileges",
        ),
        ("date: cannot set date: Operation not permitted", "sandbox: commands have no privileges"),
        (
            "the input device is not a TTY",
            "terminal: the command has none; request one with `\"tty\": true`",
        ),
        ("TERM environment variable not set.", "terminal: the command has none"),
    ];

    #[test]
    fn each_failure_is_explained_in_one_line_with_a_way_out() {
        for (text, expected) in FAILURES {
            let notes = diagnose_with(|_| {}, text);
            let [note] = notes.as_slice() else { panic!("{text}: {notes:?}") };
            assert!(note.starts_with(expected) && !note.contains('\n'), "{text}: {note}");
        }
    }

    #[test]
    fn successful_command_is_not_explained() {
        for (text, _) in FAILURES {
            let notes = diagnose_with(|case| case.exit_code = 0, text);
            assert!(notes.is_empty(), "{text}: {notes:?}");
        }
    }

    #[test]
    fn failure_outside_sandbox_is_not_explained() {
        for text in [
            "error[E0308]: mismatched types",
            "curl: (7) Failed to connect to a.com port 443: Connection refused",
            "rm: cannot remove 'x': Operation not permitted",
            "MemoryError",
            "umount: /mnt/usb: device busy",
            "mount: /mnt: mount point does not exist.",
            "ls: cannot open directory 'x': Permission denied",
            "tail: x: Invalid argument",
            "FileNotFoundError: [Errno 2] No such file or directory",
        ] {
            let notes = diagnose_with(|_| {}, text);
            assert!(notes.is_empty(), "{text}: {notes:?}");
        }
        let terminal = diagnose_with(|case| case.streams = StreamMode::Terminal, "not a tty");
        assert!(terminal.is_empty(), "{terminal:?}");
        let lookup = "curl: (6) Could not resolve host: a.com";
        let refused = diagnose_with(|case| case.explains_network = true, lookup);
        assert!(refused.is_empty(), "{refused:?}");
    }

    #[test]
    fn program_that_ignores_the_proxy_gets_a_note() {
        let lookup = "ping: a.com: Temporary failure in name resolution";
        let notes = diagnose_with(|case| case.host_reach = HostReach::Hosts, lookup);
        assert!(notes.len() == 1 && notes[0].contains("`HTTPS_PROXY`"), "{notes:?}");
    }

    #[test]
    fn failed_allocation_near_the_limit_names_it() {
        let notes = diagnose_with(|case| case.memory = 400_000_000, "MemoryError");
        assert!(notes.len() == 1 && notes[0].contains("`command-memory` 500 MB"), "{notes:?}");
        assert_eq!(CommandLimits::default().memory_max, ByteSize::megabytes(500));
    }

    #[test]
    fn throttled_command_gets_note_about_processor_limit() {
        let notes = |seconds, cpu| {
            diagnose_with(
                |case| (case.exit_code, case.seconds, case.cpu) = (0, seconds, cpu),
                "done",
            )
        };
        let expected = "limits: the command was slowed down to `command-cpu` 50%; to raise it: zero config set limits.Bash.command-cpu 100%";
        assert_eq!(notes(60, 30), [expected]);
        // It waited for something else, or was over soon.
        assert!(notes(60, 10).is_empty() && notes(2, 1).is_empty());
    }

    #[test]
    fn write_beyond_the_verdict_can_be_requested() {
        let text = "touch: cannot touch 'new': Read-only file system";
        let notes = diagnose_with(|case| case.writes = WriteScope::Nothing, text);
        let expected = "judged as read-only, tried to write `new`; request it with write access (`\"write_access\": true`)";
        assert_eq!(notes, [expected]);
    }
}
