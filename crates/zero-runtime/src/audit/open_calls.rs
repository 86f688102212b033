//! Calls that began and have no end in the log: they still run, or their process was killed.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Deserialize;

use super::{AuditLog, AuditRow, DayLogLine, STARTED};

/// Most calls without an end that are told apart; more are only counted.
pub const OPEN_CALLS_MAX: usize = 10_000;

/// A call that began, and where its row is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Name of the file.
    pub file: String,
    /// Line number, from 1.
    pub line: u64,
    /// Id of the call.
    pub call: String,
    /// Name of the tool.
    pub tool: String,
    /// When the call arrived.
    pub time: Timestamp,
    /// The process that made it.
    process: String,
}

/// The calls of which only the begin was read so far.
#[derive(Debug, Default)]
pub struct OpenCalls {
    calls: HashMap<String, OpenCall>,
    left_out: u64,
}

/// Calls without an end, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnfinishedCalls {
    /// Calls whose process is gone, in the order of the log: whether they had their effects is not
    /// known.
    pub unfinished: Vec<OpenCall>,
    /// Number of calls that were not told apart.
    pub left_out: u64,
    /// Number of calls that still run.
    pub running: u64,
}

/// The fields of a row that decide whether a call is open.
#[derive(Deserialize)]
struct RowOutline {
    time: Timestamp,
    call: String,
    tool: String,
    status: String,
    process: Option<String>,
}

impl OpenCalls {
    /// Adds a line of the log, in its order.
    pub fn add_line(&mut self, file: &str, line: DayLogLine<'_>) {
        if let Ok(row) = serde_json::from_slice::<RowOutline>(line.bytes) {
            self.add_outline(file, line.number, row);
        }
    }

    /// Adds a row of the log, in its order.
    pub fn add_row(&mut self, file: &str, line: u64, row: &AuditRow) {
        let AuditRow { time, call, tool, status, process, .. } = row;
        let outline = RowOutline {
            time: *time,
            call: call.clone(),
            tool: tool.clone(),
            status: status.clone(),
            process: process.clone(),
        };
        self.add_outline(file, line, outline);
    }

    fn add_outline(&mut self, file: &str, line: u64, row: RowOutline) {
        let RowOutline { time, call, tool, status, process } = row;
        if status != STARTED {
            self.calls.remove(&call);
        } else if self.calls.len() < OPEN_CALLS_MAX || self.calls.contains_key(&call) {
            let process = process.unwrap_or_default();
            let open = OpenCall { file: file.to_owned(), line, call, tool, time, process };
            self.calls.insert(open.call.clone(), open);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    /// Classifies the calls. `read_rest` adds the rows that were written since the log was read, in
    /// which a call may have ended whose process is gone now.
    pub fn finish<E>(
        mut self,
        audit: &AuditLog,
        read_rest: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<UnfinishedCalls, E> {
        let mut alive: HashMap<String, bool> = HashMap::new();
        let before = self.calls.len();
        self.calls.retain(|_, open| {
            let is_alive = |process: &String| audit.is_alive(process);
            !*alive.entry(open.process.clone()).or_insert_with_key(is_alive)
        });
        let running = (before - self.calls.len()) as u64;
        let left_out = self.left_out;
        if !self.calls.is_empty() {
            let dead: HashSet<String> = self.calls.keys().cloned().collect();
            read_rest(&mut self)?;
            // Calls that began meanwhile are not asked about.
            self.calls.retain(|call, _| dead.contains(call));
        }
        let mut unfinished: Vec<OpenCall> = self.calls.into_values().collect();
        unfinished.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
        Ok(UnfinishedCalls { unfinished, left_out, running })
    }
}
