//! One line for every call, on every way out.
//!
//! The log is JSON lines, one file a day, private to its owner. A row is cleaned of secrets before
//! it is written, and it is written with a single append, so rows of several processes do not mix.
//! Each carries the hash of the one before it ([`chain_link`]), across days and processes (`writer`), so
//! that a row that was changed, removed, added or moved afterwards is found ([`verification`]).

pub mod chain_link;
mod chain_writer;
mod connection_rows;
mod day_reader;
mod decision_fields;
mod log_head;
pub mod verification;

use std::io;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zero_core::{CallId, ErrorReason, ToolError};
use zero_sandbox::{StateDir, Workspace};

pub use self::chain_link::{ChainLink, ChainPosition};
use self::chain_writer::{AppendOutcome, ChainWriter};
pub use self::connection_rows::ConnectionAuditLog;
pub use self::day_reader::{DayLogLine, DayReader};
pub(crate) use self::decision_fields::EFFECTS_MAX;
use crate::dialect::DialectName;
use crate::metrics::CallStatus;
use crate::redaction;

/// How a hook begins where otherwise a rule is named. No rule begins so.
pub(crate) const HOOK_RULE: &str = "hook ";

/// One call, as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditRow {
    /// When the call came in, in UTC.
    pub time: Timestamp,
    /// Id of the call, as in its events.
    pub call: String,
    /// The session, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The workspace's first folder.
    pub workspace: String,
    /// The tool by its canonical name, or as asked for when there is none.
    pub tool: String,
    /// The name the caller used, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_as: Option<String>,
    /// The dialect the caller spoke.
    pub dialect: String,
    /// What it was to do, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The input, cleaned and shortened.
    pub input: Value,
    /// What it was to touch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<AuditEffect>,
    /// How it was judged; absent when it never came so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<AuditDecision>,
    /// The hooks that ran for it, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<AuditHook>,
    /// `ok`, `error`, `denied`, `cancelled`, `timeout` or `panic`.
    pub status: String,
    /// The kind of its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// The error's reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The first line of the error's message, cleaned and shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in microseconds, waiting included.
    pub duration_us: u64,
    /// Calls that were waiting when it was admitted.
    #[serde(default)]
    pub queue_depth: usize,
    /// How often it was tried, when more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The tool that stood in for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The connection it is about; then it is no call, and `tool` is `connection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<AuditConnection>,
    /// How the service ended that it is about; then it is no call, and `tool` is `service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<AuditService>,
}

impl AuditRow {
    /// The row of something that begins now, in a workspace, and is well until it is not.
    pub fn new(time: Timestamp, call: &CallId, workspace: &Workspace, tool: &str) -> Self {
        Self {
            time,
            call: call.to_string(),
            session: None,
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
            fallback: None,
            connection: None,
            service: None,
        }
    }

    /// Whether it is about what somebody asked a host for, and not about what came of that.
    pub fn is_call(&self) -> bool {
        self.connection.is_none() && self.service.is_none()
    }

    /// The input as it ran: as hooks rewrote it, if they did.
    pub fn effective_input(&self) -> &Value {
        let rewritten = self.hooks.iter().rev().find_map(|hook| hook.input.as_ref());
        rewritten.unwrap_or(&self.input)
    }

    /// Whether a hook was stricter than the rules: then what these said is not known.
    pub fn is_decided_by_hook(&self) -> bool {
        let rule = self.decision.as_ref().and_then(|decision| decision.rule.as_deref());
        !self.hooks.is_empty() && rule.is_some_and(|rule| rule.starts_with(HOOK_RULE))
    }

    /// Notes why there is no result.
    pub fn record_error(&mut self, error: &ToolError) {
        self.error_type = Some(error.error_type.as_str().to_owned());
        self.reason = error.details.get("reason").and_then(Value::as_str).map(str::to_owned);
        // What stands below the first line may quote the file or the input at length.
        let first = error.message.lines().next().unwrap_or_default();
        self.message = Some(redaction::redact_and_shorten(first));
    }
}

/// The error of what is not done because its row could not be written.
pub fn unwritable_log_error(error: &io::Error) -> ToolError {
    let advice = "free disk space, or set XDG_STATE_HOME to a writable folder";
    let message =
        format!("the audit log cannot be written ({error}), so nothing was done; {advice}");
    let reason = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorReason::DiskFull,
        _ => ErrorReason::AccessDenied,
    };
    ToolError::failed(reason, message)
}

/// A connection that a command made, or tried to make, as it is written down. Where to stands in the
/// row's title and input; what was said there is nobody's business.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditConnection {
    /// `socks5`, `connect` or `http`; `socks4` or `unknown` where it came to nothing.
    pub protocol: String,
    /// The call whose connection it was, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_call: Option<String>,
    /// The address it went to; absent when none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Bytes that were sent to the host.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Bytes that came from it.
    #[serde(default)]
    pub received_bytes: u64,
}

/// How a program ended that ran beside calls, as it is written down. What it was stands in the
/// row's title and input; the row's duration is how long it ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditService {
    /// What its main process returned, if it returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended its main process, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// What a hook of settings said about a call, as it is written down.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditHook {
    /// `PreToolUse` or `PostToolUse`.
    pub event: String,
    /// Its command.
    pub hook: String,
    /// Where it stands.
    pub source: String,
    /// `nothing`, `deny`, `ask`, `rewrite`, `remark`, `failed` or `cancelled`.
    pub said: String,
    /// Why, or what it remarked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The input as it rewrote it, cleaned and shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// How long it took, in microseconds, waiting for its turn included.
    pub duration_us: u64,
}

/// One effect, as it is written down.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditEffect {
    /// What kind of effect.
    pub kind: String,
    /// On what.
    pub target: String,
    /// How it was judged: `allow`, `ask` or `deny`; absent when it never came so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The rule that decided about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// How a call was judged, as it is written down.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuditDecision {
    /// `allow`, `ask` or `deny`.
    pub verdict: String,
    /// Why.
    pub reason: String,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Where that rule stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How much harm the call could do, its arguments considered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
    /// Who was asked, and what they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<String>,
    /// What their answer settled for the rest of the session, as rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
}

/// The audit log: a chain of rows in files by day, shared by all threads.
#[derive(Debug)]
pub struct AuditLog {
    dir: StateDir,
    writer: Mutex<Option<ChainWriter>>,
}

impl AuditLog {
    /// The log kept under `state`.
    pub fn new(state: &StateDir) -> Self {
        Self { dir: state.child("audit"), writer: Mutex::new(None) }
    }

    /// Makes sure that a row can be written: the files are open, nobody keeps them locked, and there
    /// is room on the disk. A call whose trace would be lost is not made.
    pub fn ensure_writable(&self, now: Timestamp) -> io::Result<()> {
        self.with_writer(|writer| writer.ensure_writable(&self.dir, utc_date(now)))
    }

    /// Writes a row, tied to the one before it.
    pub fn write(&self, row: &AuditRow) -> io::Result<()> {
        let object = serde_json::to_vec(row)?;
        self.with_writer(|writer| writer.append(&self.dir, utc_date(row.time), &object))
    }

    fn with_writer(
        &self,
        mut work: impl FnMut(&mut ChainWriter) -> io::Result<AppendOutcome>,
    ) -> io::Result<()> {
        let mut slot = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody who clears the log away while it is written to does not do so twice in a row.
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
        Err(io::Error::other("its folder was removed while it was written to"))
    }

    /// Days that have rows, oldest first.
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

/// Days that have a file, oldest first.
fn list_days(dir: &StateDir) -> io::Result<Vec<Date>> {
    let day = |name: &String| {
        let day = name.strip_suffix(".jsonl")?.parse().ok()?;
        (day_file_name(day) == *name).then_some(day)
    };
    let mut days: Vec<Date> = dir.list_names()?.iter().filter_map(day).collect();
    days.sort();
    Ok(days)
}
