//! The audit log: one row per call, however the call ends, and one before a call runs.
//!
//! The row before tells of calls whose process was killed ([`open_calls`]); most readers leave it
//! out.
//!
//! The log is JSON lines, one file per day, private to its owner. Secrets are redacted before a row
//! is written, and each row is written with a single append, so rows of several processes do not
//! mix. Each row carries the hash of the previous one ([`chain_link`]), across days and processes
//! (`chain_writer`), so that rows that were changed, removed, added or moved afterwards are
//! detected ([`verification`]).

pub mod chain_link;
mod chain_writer;
mod connection_rows;
mod day_reader;
mod decision_fields;
pub mod forward_rows;
mod job_rows;
mod log_expiry;
mod log_head;
pub mod open_calls;
pub mod verification;

use std::fs::File;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zero_core::{CallId, CallUsage, ErrorReason, ToolError};
use zero_sandbox::folder_lease::FolderLease;
use zero_sandbox::{StateDir, Workspace};

pub use self::chain_link::{ChainLink, ChainPosition};
use self::chain_writer::{AppendOutcome, ChainWriter};
pub use self::connection_rows::ConnectionAuditLog;
pub use self::day_reader::{DayLogLine, DayReader};
pub(crate) use self::decision_fields::EFFECTS_MAX;
pub(crate) use self::job_rows::JobAuditLog;
use crate::dialect::DialectName;
use crate::metrics::CallStatus;
use crate::redaction;

/// Prefix of a hook's name in the `rule` field. No rule begins with it.
pub(crate) const HOOK_RULE: &str = "hook ";

/// The status of a row that was written before its call ran.
const STARTED: &str = "started";

/// Where the leases of the processes that write such rows are, in zero's own folder.
pub(crate) const PROCESSES: &str = "audit-processes";

/// One call in the audit log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditRow {
    /// When the call arrived, in UTC.
    pub time: Timestamp,
    /// Id of the call, as in its events.
    pub call: String,
    /// The session, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The session that started it, if the session is one of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The workspace's first folder.
    pub workspace: String,
    /// The tool's canonical name, or the requested name if there is no such tool.
    pub tool: String,
    /// The name that the caller used, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_as: Option<String>,
    /// The caller's dialect.
    pub dialect: String,
    /// What the call was to do, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The input, redacted and shortened.
    pub input: Value,
    /// The effects of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<AuditEffect>,
    /// The policy decision; absent if the call ended before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<AuditDecision>,
    /// The hooks that ran for the call, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<AuditHook>,
    /// `ok`, `error`, `denied`, `cancelled`, `timeout` or `panic`; `started` in the row that is
    /// written before the call runs.
    pub status: String,
    /// The type of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// The reason of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The first line of the error message, redacted and shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Duration in microseconds, including waiting time.
    pub duration_us: u64,
    /// Calls that were waiting when this one was admitted.
    #[serde(default)]
    pub queue_depth: usize,
    /// Number of attempts, if more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The part of the duration in which the call waited for the user's answers, in microseconds;
    /// absent if there was none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub user_wait_us: u64,
    /// The resources that its commands used, if it ran any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<CallUsage>,
    /// The fallback tool that ran instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The connection that the row describes; then the row is not a call, and `tool` is
    /// `connection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<AuditConnection>,
    /// The end of the service that the row describes; then the row is not a call, and `tool` is
    /// `service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<AuditService>,
    /// The end of the background job that the row describes; then the row is not a call, and `tool`
    /// is `job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<AuditJob>,
    /// The forwarded port that the row describes; then the row is not a call, and `tool` is
    /// `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward: Option<AuditForward>,
    /// The process that makes the call; only in a row with status `started`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
}

impl AuditRow {
    /// A row for something that starts now, with status `ok` until an error is recorded.
    pub fn new(time: Timestamp, call: &CallId, workspace: &Workspace, tool: &str) -> Self {
        Self {
            time,
            call: call.to_string(),
            session: None,
            parent: None,
            workspace: redaction::redact_and_shorten(&workspace.cwd().display().to_string()),
            tool: redaction::redact_and_shorten(tool),
            asked_as: None,
            dialect: DialectName::Canonical.to_string(),
            title: None,
            input: Value::Null,
            effects: Vec::new(),
            decision: None,
            hooks: Vec::new(),
            status: CallStatus::Ok.as_str().to_owned(),
            error_type: None,
            reason: None,
            message: None,
            duration_us: 0,
            queue_depth: 0,
            attempts: None,
            user_wait_us: 0,
            usage: None,
            fallback: None,
            connection: None,
            service: None,
            job: None,
            forward: None,
            process: None,
        }
    }

    /// Whether the row was written before its call ran. Another row has its end.
    pub fn is_begin(&self) -> bool {
        self.status == STARTED
    }

    /// Whether the row describes a call, and not a connection, a service, a job or a forwarded port.
    pub fn is_call(&self) -> bool {
        let is_other = self.connection.is_some() || self.service.is_some();
        !is_other && self.job.is_none() && self.forward.is_none()
    }

    /// The input that ran: rewritten by hooks, if they did that.
    pub fn effective_input(&self) -> &Value {
        let rewritten = self.hooks.iter().rev().find_map(|hook| hook.input.as_ref());
        rewritten.unwrap_or(&self.input)
    }

    /// Whether a hook was stricter than the rules: then the decision of the rules is not recorded.
    pub fn is_decided_by_hook(&self) -> bool {
        let rule = self.decision.as_ref().and_then(|decision| decision.rule.as_deref());
        !self.hooks.is_empty() && rule.is_some_and(|rule| rule.starts_with(HOOK_RULE))
    }

    /// Records why there is no result.
    pub fn record_error(&mut self, error: &ToolError) {
        self.error_type = Some(error.error_type.as_str().to_owned());
        self.reason = error.details.get("reason").and_then(Value::as_str).map(str::to_owned);
        // Later lines may quote the file or the input at length.
        let first = error.message.lines().next().unwrap_or_default();
        self.message = Some(redaction::redact_and_shorten(first));
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What the error for an action begins with that was refused because its row could not be written.
pub const UNWRITABLE_LOG: &str = "the audit log cannot be written";

/// The error for an action that was refused because its row could not be written.
pub fn unwritable_log_error(error: &io::Error) -> ToolError {
    let advice = "free disk space, or set XDG_STATE_HOME to a writable folder";
    let message = format!("{UNWRITABLE_LOG} ({error}), so nothing was done; {advice}");
    let reason = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorReason::DiskFull,
        _ => ErrorReason::AccessDenied,
    };
    ToolError::failed(reason, message)
}

/// A connection that a command made or tried to make. The row's title and input have its target;
/// its content is never recorded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditConnection {
    /// `socks5`, `connect` or `http`; `socks4` or `unknown` if the request was not readable.
    pub protocol: String,
    /// The call that opened the connection, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_call: Option<String>,
    /// The address of the host; absent if no connection was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Bytes sent to the host.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Bytes received from the host.
    #[serde(default)]
    pub received_bytes: u64,
}

/// The end of a service. The row's title and input describe the program; the row's duration is its
/// run time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditService {
    /// Exit code of its main process, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that killed its main process, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// The end of a background job. The row's title and input describe the job; the row's duration is
/// its run time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditJob {
    /// The call that started it.
    pub of_call: String,
    /// Exit code of its main process, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that killed its main process, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// The answer of a hook about a call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditHook {
    /// `PreToolUse` or `PostToolUse`.
    pub event: String,
    /// Its command.
    pub hook: String,
    /// Where the hook is configured.
    pub source: String,
    /// `nothing`, `deny`, `ask`, `rewrite`, `remark`, `failed` or `cancelled`.
    pub said: String,
    /// Its reason or its remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The input that it wrote, redacted and shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Duration in microseconds, including waiting time.
    pub duration_us: u64,
}

/// What passed through a forwarded port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditForward {
    /// Connections that were made.
    pub connections: u64,
    /// Bytes to the sandbox.
    pub sent_bytes: u64,
    /// Bytes from the sandbox.
    pub received_bytes: u64,
}

/// One effect of a call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditEffect {
    /// The kind of effect.
    pub kind: String,
    /// The path, host or command.
    pub target: String,
    /// The decision: `allow`, `ask` or `deny`; absent if the call ended before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// The policy decision on a call.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditDecision {
    /// `allow`, `ask` or `deny`.
    pub verdict: String,
    /// The reason for the verdict.
    pub reason: String,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Where that rule is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The risk of the call, including its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
    /// Who was asked, and the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    /// The grants that the answer created for the session, as rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
}

/// The audit log: a chain of rows in daily files, shared by all threads.
#[derive(Debug)]
pub struct AuditLog {
    dir: StateDir,
    state: StateDir,
    writer: Mutex<Option<ChainWriter>>,
    /// Held while this process can make calls, and released by the kernel if it is killed.
    process: OnceLock<(String, FolderLease)>,
}

impl AuditLog {
    /// The log in the state folder.
    pub fn new(state: &StateDir) -> Self {
        Self {
            dir: state.child("audit"),
            state: state.clone(),
            writer: Mutex::new(None),
            process: OnceLock::new(),
        }
    }

    /// Checks that a row can be written: the files can be opened and locked, and the disk has
    /// space. A call that could not be recorded is not made.
    pub fn ensure_writable(&self, now: Timestamp) -> io::Result<()> {
        self.with_writer(|writer| writer.ensure_writable(&self.dir, utc_date(now)))
    }

    /// Writes a row, linked to the previous one.
    pub fn write(&self, row: &AuditRow) -> io::Result<()> {
        let object = serde_json::to_vec(row)?;
        self.with_writer(|writer| writer.append(&self.dir, utc_date(row.time), &object))
    }

    /// Writes the row of a call that is about to run. The returned file must be
    /// [flushed](File::sync_data) before the call has effects that a power cut must not make the log
    /// forget.
    pub fn write_begin(&self, row: &AuditRow) -> io::Result<Option<File>> {
        let process = Some(self.register_process()?.to_owned());
        let row = AuditRow { status: STARTED.to_owned(), process, ..row.clone() };
        let object = serde_json::to_vec(&row)?;
        let mut file = None;
        self.with_writer(|writer| {
            let outcome = writer.append(&self.dir, utc_date(row.time), &object)?;
            file = writer.clone_file()?;
            Ok(outcome)
        })?;
        Ok(file)
    }

    /// The name of this process in rows, which others can look up as long as it lives.
    fn register_process(&self) -> io::Result<&str> {
        if let Some((name, _)) = self.process.get() {
            return Ok(name);
        }
        let name = format!("{:016x}", fastrand::u64(..));
        let lease = FolderLease::acquire(&self.state, PROCESSES, &name)?;
        Ok(&self.process.get_or_init(|| (name, lease)).0)
    }

    /// Whether the process that wrote a row of a begin still lives, so that the call may end.
    pub fn is_alive(&self, process: &str) -> bool {
        // Written by us; anything else in its place could name other folders.
        let is_name = process.len() == 16 && process.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name && FolderLease::is_held(&self.state, PROCESSES, process)
    }

    fn with_writer(
        &self,
        mut work: impl FnMut(&mut ChainWriter) -> io::Result<AppendOutcome>,
    ) -> io::Result<()> {
        let mut slot = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // One retry is enough: the log is not removed twice in a row while it is written.
        for _ in 0..2 {
            let mut writer = match slot.take() {
                Some(writer) => writer,
                None => ChainWriter::open(&self.dir)?,
            };
            if let AppendOutcome::Done = work(&mut writer)? {
                *slot = Some(writer);
                return Ok(());
            }
        }
        Err(io::Error::other("its folder was removed during the write"))
    }

    /// Days with rows, oldest first.
    pub fn days(&self) -> io::Result<Vec<String>> {
        Ok(list_days(&self.dir)?.iter().map(ToString::to_string).collect())
    }

    /// A reader of one day's rows, oldest first.
    pub fn open_day(&self, day: &str) -> io::Result<DayReader> {
        self.open_day_prefix(day, u64::MAX)
    }

    fn open_day_prefix(&self, day: &str, bytes_max: u64) -> io::Result<DayReader> {
        Ok(DayReader::new(day, self.dir.open(&format!("{day}.jsonl"))?, bytes_max))
    }
}

fn utc_date(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

fn day_file_name(day: Date) -> String {
    format!("{day}.jsonl")
}

/// Days with a file, oldest first.
fn list_days(dir: &StateDir) -> io::Result<Vec<Date>> {
    let day = |name: &String| {
        let day = name.strip_suffix(".jsonl")?.parse().ok()?;
        (day_file_name(day) == *name).then_some(day)
    };
    let mut days: Vec<Date> = dir.list_names()?.iter().filter_map(day).collect();
    days.sort();
    Ok(days)
}
