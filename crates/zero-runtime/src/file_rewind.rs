//! Takes back what the calls of a session changed in files, for a rewind of the session.
//!
//! The journal knows by which call a file was changed. The caller names the calls; the journal is
//! beside the tools, wherever they run. Like every change of files, a rewind is in the audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, HostLimits, ToolError};
use zero_exec::jobs::refuse_beside_job;
pub use zero_sandbox::journal::RewoundChange;
use zero_sandbox::journal::{PathRewind, RewindPlan};
use zero_sandbox::{Journal, StateDir, Workspace};

use crate::audit::{AuditEffect, AuditLog, AuditRow, unwritable_log_error};
use crate::metrics::CallStatus;
use crate::redaction::redact_and_shorten;
use crate::tool_host::{ToolHost, new_call_id};

/// The name by which a gateway asks a client to rewind files. No tool can have it.
pub const REWIND_CALL: &str = "zero.rewind";
/// Most calls of one request.
pub const CALLS_MAX: usize = 20_000;
/// Most changes and conflicts that a report names; it counts all of them.
const NAMED_MAX: usize = 200;
/// Most effects in the audit row of a rewind.
const EFFECTS_MAX: usize = 100;

/// Which changes to take back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileRewindRequest {
    /// Id of the rewind. One that was interrupted is completed by the same id.
    pub rewind: String,
    /// The calls, by the ids that the session knows them by, and earlier rewinds by theirs.
    pub calls: Vec<String>,
    /// What to do.
    pub action: FileRewindAction,
}

/// Who asks for a rewind.
#[derive(Clone, Debug)]
pub enum RewindRequester {
    /// The user of the machine on which the tools run.
    User,
    /// A gateway elsewhere. Its requests are judged as the changes that they make, and the user of
    /// this machine may be asked until it is cancelled.
    Gateway(CancellationToken),
}

/// What to do about the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRewindAction {
    /// Compare only.
    Check,
    /// Take them back, unless another program has changed a file since.
    Apply,
    /// Take them back, and overwrite what another program has changed. That is recorded in turn.
    Overwrite,
}

/// What a rewind found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileRewindReport {
    /// The changes that were taken back or, if it only compared, would be; newest first.
    pub changes: Vec<RewoundChange>,
    /// Number of all of these, and of the files that they concern.
    pub change_count: u64,
    /// Number of the files that they concern.
    pub file_count: u64,
    /// What another program changed since. Unless it is to be overwritten, nothing was touched.
    pub conflicts: Vec<FileConflict>,
    /// Number of all of these.
    pub conflict_count: u64,
    /// The calls of which a change is recorded.
    pub recorded: BTreeSet<String>,
    /// Whether the changes of commands are recorded here.
    pub records_commands: bool,
}

/// A file that another program changed since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileConflict {
    /// Its path, as displayed.
    pub path: String,
    /// `changed`, `deleted`, `created`, `unreadable` or `perhaps changed`.
    pub what: String,
}

/// Takes back changes of one workspace.
#[derive(Clone)]
pub struct FileRewinder {
    state: StateDir,
    workspace: Workspace,
    journal: Journal,
    records_commands: bool,
}

impl FileRewinder {
    /// For the workspace of a tool host.
    pub fn for_host(host: &ToolHost) -> Self {
        Self {
            state: host.state().clone(),
            workspace: host.workspace().clone(),
            journal: host.journal().clone(),
            records_commands: host.commands.settings.undo.commands,
        }
    }

    /// For a workspace without a tool host.
    pub fn new(
        state: &StateDir,
        workspace: Workspace,
        limits: &HostLimits,
        records_commands: bool,
    ) -> Self {
        Self {
            state: state.clone(),
            journal: Journal::new(state, workspace.clone(), limits.file_bytes_max),
            workspace,
            records_commands,
        }
    }

    /// Compares, and takes the changes back as requested.
    pub async fn run(self, request: FileRewindRequest) -> Result<FileRewindReport, ToolError> {
        spawn_rewind(move || self.run_blocking(&request, None)).await
    }

    /// The paths that a request would change now.
    pub(crate) async fn plan_paths(
        self,
        request: FileRewindRequest,
    ) -> Result<BTreeMap<PathBuf, PathRewind>, ToolError> {
        spawn_rewind(move || {
            let plan = self.plan(&request)?;
            let is_empty = is_refused(&request, &plan) || plan.changes.is_empty();
            Ok(if is_empty { BTreeMap::new() } else { plan.paths })
        })
        .await
    }

    /// Takes the changes back, if they still concern no other paths than those that were judged.
    pub(crate) async fn run_within(
        self,
        request: FileRewindRequest,
        judged: BTreeMap<PathBuf, PathRewind>,
    ) -> Result<FileRewindReport, ToolError> {
        spawn_rewind(move || self.run_blocking(&request, Some(&judged))).await
    }

    /// Records that a rewind of these paths was not allowed.
    pub(crate) async fn record_refusal(
        self,
        request: FileRewindRequest,
        paths: BTreeMap<PathBuf, PathRewind>,
        error: ToolError,
    ) {
        let effect = |(path, what): (&PathBuf, &PathRewind)| {
            let kind = match what {
                PathRewind::Restore => "write",
                PathRewind::Remove => "delete",
            };
            let target = redact_and_shorten(&path.display().to_string());
            AuditEffect { kind: kind.to_owned(), target, ..AuditEffect::default() }
        };
        let written = spawn_rewind(move || {
            let time = Timestamp::now();
            let mut row = AuditRow {
                title: Some(format!("Rewind {} files", paths.len())),
                input: json!({"rewind": request.rewind}),
                effects: paths.iter().take(EFFECTS_MAX).map(effect).collect(),
                ..AuditRow::new(time, &new_call_id(), &self.workspace, "rewind")
            };
            CallStatus::Denied.as_str().clone_into(&mut row.status);
            row.record_error(&error);
            let written = AuditLog::new(&self.state).write(&row);
            written.map_err(|error| unwritable_log_error(&error))
        });
        if let Err(error) = written.await {
            tracing::error!(error = error.message, "could not write an audit record");
        }
    }

    fn plan(&self, request: &FileRewindRequest) -> Result<RewindPlan, ToolError> {
        if request.calls.len() > CALLS_MAX {
            let message = format!(
                "there are {} calls to take back, and {CALLS_MAX} are the most; rewind to a later prompt",
                request.calls.len()
            );
            return Err(ToolError::invalid(ErrorReason::TooLarge, message));
        }
        // A change that cannot be recovered must not keep the user from undoing the rest.
        if let Err(error) = self.journal.recover() {
            tracing::warn!(error = error.message, "a change in the journal cannot be recovered");
        }
        let calls = request.calls.iter().cloned().collect();
        self.journal.plan_rewind(&calls, &request.rewind).map_err(|error| match error.reason() {
            // A command that still runs is a job most often, which can be ended by its name.
            Some(ErrorReason::Busy) => {
                refuse_beside_job(&self.state, &self.workspace).err().unwrap_or(error)
            }
            _ => error,
        })
    }

    fn run_blocking(
        &self,
        request: &FileRewindRequest,
        judged: Option<&BTreeMap<PathBuf, PathRewind>>,
    ) -> Result<FileRewindReport, ToolError> {
        let plan = self.plan(request)?;
        if request.action == FileRewindAction::Check
            || is_refused(request, &plan)
            || plan.changes.is_empty()
        {
            return Ok(self.report(&plan, &plan.changes));
        }
        let is_judged = |(path, what)| judged.is_none_or(|judged| judged.get(path) == Some(what));
        if !plan.paths.iter().all(is_judged) {
            let message = "files were changed while the rewind was judged; rewind again";
            return Err(ToolError::failed(ErrorReason::Busy, message));
        }
        if plan.has_commands {
            refuse_beside_job(&self.state, &self.workspace)?;
        }
        let (time, began) = (Timestamp::now(), Instant::now());
        let audit = AuditLog::new(&self.state);
        audit.ensure_writable(time).map_err(|error| unwritable_log_error(&error))?;
        let done = self.journal.apply_rewind(&plan, &request.rewind);
        let row = self.audit_row(time, began, request, &plan, done.as_ref().err());
        if let Err(error) = audit.write(&row) {
            tracing::error!(%error, "could not write an audit record");
        }
        Ok(self.report(&plan, &done?))
    }

    fn report(&self, plan: &RewindPlan, changes: &[RewoundChange]) -> FileRewindReport {
        let conflict = |conflict| FileConflict {
            path: self.journal.display_conflict(conflict),
            what: conflict.what.to_owned(),
        };
        let single = changes.iter().filter(|change| change.action != "command");
        let paths: BTreeSet<&str> = single.map(|change| change.subject.as_str()).collect();
        let commands = changes.iter().filter(|change| change.action == "command");
        let of_commands = commands.map(|change| change.files).sum::<u64>();
        FileRewindReport {
            changes: changes.iter().take(NAMED_MAX).cloned().collect(),
            change_count: changes.len() as u64,
            file_count: paths.len() as u64 + of_commands,
            conflicts: plan.conflicts.iter().take(NAMED_MAX).map(conflict).collect(),
            conflict_count: plan.conflicts.len() as u64,
            recorded: plan.recorded.clone(),
            records_commands: self.records_commands,
        }
    }

    fn audit_row(
        &self,
        time: Timestamp,
        started_at: Instant,
        request: &FileRewindRequest,
        plan: &RewindPlan,
        error: Option<&ToolError>,
    ) -> AuditRow {
        let effect = |change: &RewoundChange| {
            let target = match change.action.as_str() {
                "command" => change.subject.clone(),
                _ => self.workspace.cwd().join(&change.subject).display().to_string(),
            };
            // Taking back the creation of a file deletes it.
            let kind = if change.action == "create" { "delete" } else { "write" };
            let (kind, target) = (kind.to_owned(), redact_and_shorten(&target));
            AuditEffect { kind, target, ..AuditEffect::default() }
        };
        let ids: Vec<u64> = plan.changes.iter().take(EFFECTS_MAX).map(|change| change.id).collect();
        let mut row = AuditRow {
            title: Some(format!("Rewind {} changes", plan.changes.len())),
            input: json!({"rewind": request.rewind, "changes": ids}),
            effects: plan.changes.iter().take(EFFECTS_MAX).map(effect).collect(),
            ..AuditRow::new(time, &new_call_id(), &self.workspace, "rewind")
        };
        row.duration_us = u64::try_from(started_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Some(error) = error {
            CallStatus::Error.as_str().clone_into(&mut row.status);
            row.record_error(error);
        }
        row
    }
}

/// Whether another program changed a file that must not be overwritten.
fn is_refused(request: &FileRewindRequest, plan: &RewindPlan) -> bool {
    request.action == FileRewindAction::Apply && !plan.conflicts.is_empty()
}

async fn spawn_rewind<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(ToolError::failed(ErrorReason::Interrupted, "zero is shutting down"))
    })
}
