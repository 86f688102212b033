//! The changes of commands in a [`Journal`]: recording, listing, undoing, recovering and expiring
//! sets of changes.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Duration;

use zero_core::{ErrorReason, ErrorType, ToolError};

use super::change_recorder::ChangeRecorder;
use super::change_restore::{self, ChangeConflict};
use super::change_set::{self, ChangeSet, END, LOG, SetLimits, SetOrigin, SetSummary, UNDONE};
use super::path_state::TreeRoots;
use super::set_completion::SetEnding;
use super::{ChangeState, Journal, JournalEntry, UndoConflictPolicy, UndoOrigin};
use crate::command_capture::capture_guard::CaptureGuard;

/// How many conflicts and failures a message names.
const NAMED_MAX: usize = 20;
/// How long a set without a log may have been claimed by a process that is about to write it.
const CLAIM_AGE_MAX: Duration = Duration::from_secs(60);
/// How long the end of a command is waited for whose zero was killed: it is killed at once.
const COMMAND_END_MAX: Duration = Duration::from_secs(5);

impl Journal {
    /// Begins to record the changes of a command. Nothing is stored before the first change. When
    /// the command has ended, the oldest changes beyond the limits are removed.
    pub fn record_command(
        &self,
        origin: SetOrigin,
        limits: SetLimits,
    ) -> io::Result<ChangeRecorder> {
        Ok(ChangeRecorder::new(self.store.clone(), self.tree_roots()?, origin, limits))
    }

    pub(super) fn tree_roots(&self) -> io::Result<TreeRoots> {
        TreeRoots::open(self.workspace.roots())
    }

    /// Whether a number is that of the changes of a command.
    pub fn is_set(&self, id: u64) -> bool {
        self.store.set_dir(id).path().symlink_metadata().is_ok()
    }

    /// The numbers of all changes, lowest first.
    pub(super) fn all_ids(&self) -> Result<Vec<u64>, ToolError> {
        let mut ids = self.store.ids()?;
        let sets = self.store.set_ids().map_err(|error| self.store.set_error(0, &error))?;
        // A number without a log was claimed by a process that died at once.
        ids.extend(sets.into_iter().filter(|id| self.has_content(*id)));
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    fn has_content(&self, id: u64) -> bool {
        let dir = self.store.set_dir(id);
        dir.size(END).is_ok() || dir.size(LOG).is_ok_and(|size| size > 0)
    }

    pub(super) fn set_entry(&self, id: u64) -> Result<JournalEntry, ToolError> {
        let dir = self.store.set_dir(id);
        let failed = |error: io::Error| self.store.set_error(id, &error);
        let (header, totals, state) = match ChangeSet::read_summary(&dir) {
            Ok((header, totals)) if dir.size(UNDONE).is_ok() => {
                (header, Some(totals), ChangeState::Undone)
            }
            Ok((header, totals)) => {
                let state = match self.find_conflicts(id)?.is_empty() {
                    true => ChangeState::Applied,
                    false => ChangeState::ChangedSince,
                };
                (header, Some(totals), state)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (header, _) = change_set::read_log(&dir).map_err(failed)?;
                (header, None, ChangeState::InProgress)
            }
            Err(error) => return Err(failed(error)),
        };
        Ok(JournalEntry {
            id,
            time: header.time,
            tool: header.origin.tool,
            call: header.origin.call,
            caller: header.origin.caller,
            path: header.origin.command,
            action: "command",
            state,
            undoes: header.origin.undoes,
            totals,
        })
    }

    /// The paths that were changed after the command of set `id`.
    pub fn find_conflicts(&self, id: u64) -> Result<Vec<ChangeConflict>, ToolError> {
        let failed = |error: io::Error| self.store.set_error(id, &error);
        let dir = self.store.set_dir(id);
        let set = ChangeSet::read(&dir).map_err(failed)?;
        Ok(change_restore::find_conflicts(&set, &dir, &self.tree_roots().map_err(failed)?))
    }

    /// Undoes the changes of a command. If a path was changed since, nothing is touched unless
    /// `conflicts` says so. Returns the number and totals of the changes that the undo made.
    pub fn undo_set(
        &self,
        id: u64,
        conflicts: UndoConflictPolicy,
    ) -> Result<(u64, SetSummary), ToolError> {
        self.undo_set_as(id, conflicts, &UndoOrigin::Undo)
    }

    pub(super) fn undo_set_as(
        &self,
        id: u64,
        conflicts: UndoConflictPolicy,
        by: &UndoOrigin<'_>,
    ) -> Result<(u64, SetSummary), ToolError> {
        let failed = |error: io::Error| self.store.set_error(id, &error);
        let _lock = self.lock_sets()?;
        let dir = self.store.set_dir(id);
        match self.set_entry(id)?.state {
            ChangeState::InProgress => {
                let message = format!("the command of change {id} still runs; nothing was done");
                return Err(ToolError::failed(ErrorReason::Busy, message).with_detail("id", id));
            }
            ChangeState::Undone => {
                let message = format!("change {id} is undone already; nothing was done");
                return Err(
                    ToolError::invalid(ErrorReason::NoChange, message).with_detail("id", id)
                );
            }
            _ => {}
        }
        let set = ChangeSet::read(&dir).map_err(failed)?;
        let roots = self.tree_roots().map_err(failed)?;
        let found = change_restore::find_conflicts(&set, &dir, &roots);
        if conflicts == UndoConflictPolicy::Refuse {
            if !found.is_empty() {
                return Err(self.conflict_error(id, &found));
            }
            let shared = change_restore::list_shared(&set);
            if !shared.is_empty() {
                return Err(self.shared_error(id, &shared));
            }
        }
        let origin = SetOrigin {
            tool: by.tool().to_owned(),
            caller: by.caller(set.header.origin.caller.as_deref()),
            undoes: Some(id),
            is_beside: false,
            ..set.header.origin.clone()
        };
        // The user asked for it: replaced files are kept, whatever their size.
        let recorder = self.record_command(origin, SetLimits::NONE).map_err(failed)?;
        self.restore_set(id, &set, recorder, SetEnding::Regular)
    }

    fn restore_set(
        &self,
        id: u64,
        set: &ChangeSet,
        mut recorder: ChangeRecorder,
        ending: SetEnding,
    ) -> Result<(u64, SetSummary), ToolError> {
        let dir = self.store.set_dir(id);
        let restored = change_restore::restore(set, &dir, &mut recorder);
        let failures = restored.map_err(|error| self.store.set_error(id, &error))?;
        for (path, error) in &failures {
            recorder.note_loss(&format!("`{}` was not restored: {error}", path.display()));
        }
        let undo = recorder.finish_as(ending)?.unwrap_or_default();
        if failures.is_empty() {
            self.mark_set_undone(id);
            return Ok(undo);
        }
        let named = failures.iter().take(NAMED_MAX);
        let named = named
            .map(|(path, error)| format!("\n  {}: {error}", self.workspace.display_path(path)));
        let restored = match undo {
            (0, _) => "nothing was restored".to_owned(),
            (number, _) => format!("what was restored is change {number}"),
        };
        let paths = if failures.len() == 1 { "path" } else { "paths" };
        let message = format!(
            "{} {paths} of change {id} could not be restored; {restored}:{}",
            failures.len(),
            named.collect::<String>()
        );
        Err(ToolError::failed(ErrorReason::Io, message).with_detail("id", id))
    }

    /// Marks a set as undone and removes its images, which are of no more use.
    fn mark_set_undone(&self, id: u64) {
        let dir = self.store.set_dir(id);
        // If this fails, recovery repeats it.
        if dir.size(UNDONE).is_err() && dir.create_new(UNDONE).is_err() {
            return;
        }
        for name in dir.list_names().unwrap_or_default() {
            // Images are files, except trees.
            if name != END && name != UNDONE && dir.remove(&name).is_err() {
                let _ = dir.child(&name).remove_all();
            }
        }
    }

    fn conflict_error(&self, id: u64, found: &[ChangeConflict]) -> ToolError {
        let shown = |conflict: &ChangeConflict| {
            let path = self.workspace.display_path(&conflict.path);
            format!("\n  {} since: {path}", conflict.what)
        };
        let mut message = format!(
            "{} of the paths of change {id} were changed after it; undo the later changes first, or force the undo with `--yes`",
            found.len()
        );
        message.extend(found.iter().take(NAMED_MAX).map(shown));
        if found.len() > NAMED_MAX {
            message += &format!("\n  and {} more", found.len() - NAMED_MAX);
        }
        let paths: Vec<String> =
            found.iter().map(|conflict| self.workspace.display_path(&conflict.path)).collect();
        ToolError::new(ErrorType::PermissionDenied, ErrorReason::StaleFile, message)
            .with_detail("id", id)
            .with_detail("conflicts", paths)
    }

    fn shared_error(&self, id: u64, found: &[ChangeConflict]) -> ToolError {
        let count = found.len();
        let mut message = format!(
            "change {id} was made in the background, and {count} of its files existed before: what you or others wrote to them meanwhile would be undone, too; force the undo with `--yes`"
        );
        let paths: Vec<String> =
            found.iter().map(|shared| self.workspace.display_path(&shared.path)).collect();
        message.extend(paths.iter().take(NAMED_MAX).map(|path| format!("\n  {path}")));
        if count > NAMED_MAX {
            message += &format!("\n  and {} more", count - NAMED_MAX);
        }
        ToolError::new(ErrorType::PermissionDenied, ErrorReason::StaleFile, message)
            .with_detail("id", id)
            .with_detail("conflicts", paths)
    }

    fn lock_sets(&self) -> Result<File, ToolError> {
        let failed = |error: io::Error| self.store.set_error(0, &error);
        let lock = self.store.undo_lock().map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(lock)
    }

    /// Finishes the sets of commands that ended with their zero, and completes undos that were
    /// interrupted. Returns the first failure when all were tried.
    pub(super) fn recover_sets(&self, is_busy: &dyn Fn() -> bool) -> Result<usize, ToolError> {
        let failed = |error: io::Error| self.store.set_error(0, &error);
        let ids = self.store.set_ids().map_err(failed)?;
        let is_open = |id: &u64| self.store.set_dir(*id).size(END).is_err();
        let (open, finished): (Vec<u64>, Vec<u64>) = ids.into_iter().partition(is_open);
        if open.is_empty() && finished.is_empty() {
            return Ok(0);
        }
        let lock = self.store.undo_lock().map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            // Another process undoes or recovers.
            Err(TryLockError::WouldBlock) => return Ok(0),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut recovered = 0;
        let mut failure = None;
        for id in open {
            // One that cannot be recovered does not keep the others from it.
            match self.recover_set(id, is_busy) {
                Ok(is_recovered) => recovered += usize::from(is_recovered),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // An undo that was complete, except that it was not reported.
        for id in finished {
            if let Ok((header, totals)) = ChangeSet::read_summary(&self.store.set_dir(id))
                && let Some(undone) = header.origin.undoes
                && totals.losses.is_empty()
                && self.store.set_dir(undone).size(UNDONE).is_err()
                && self.is_set(undone)
            {
                self.mark_set_undone(undone);
            }
        }
        failure.map_or(Ok(recovered), Err)
    }

    fn recover_set(&self, id: u64, is_busy: &dyn Fn() -> bool) -> Result<bool, ToolError> {
        let failed = |error: io::Error| self.store.set_error(id, &error);
        let dir = self.store.set_dir(id);
        let remove_if_stale = || {
            let is_stale = dir.age(".").is_ok_and(|age| age > CLAIM_AGE_MAX);
            if is_stale {
                self.store.remove_set(id);
            }
            Ok(is_stale)
        };
        let Ok(Some(log)) = dir.existing_lock_file(LOG) else {
            // Claimed, and nothing recorded yet.
            return remove_if_stale();
        };
        // Its command runs, in another process or in this one.
        if log.try_lock().is_err() {
            return Ok(false);
        }
        // It may have been finished in between.
        if dir.size(END).is_ok() {
            return Ok(false);
        }
        // Its process may be about to lock it.
        if dir.size(LOG).is_ok_and(|size| size == 0) {
            return remove_if_stale();
        }
        let Ok((header, _)) = change_set::read_log(&dir) else {
            // Without a complete first line, nothing was touched.
            self.store.remove_set(id);
            return Ok(true);
        };
        let undone = header.origin.undoes.filter(|undone| self.is_set(*undone));
        if undone.is_some() && is_busy() {
            return Ok(false);
        }
        // Its zero is gone, and its last call may take effect until it is gone, too.
        let guard = header.guard.as_deref().map(CaptureGuard::from_name);
        if guard.is_some_and(|guard| !guard.wait_until_gone(COMMAND_END_MAX)) {
            return Ok(false);
        }
        change_set::continue_log(&dir, &log).map_err(failed)?;
        let roots = self.tree_roots().map_err(failed)?;
        let recorder =
            ChangeRecorder::resume(self.store.clone(), roots, (id, log)).map_err(failed)?;
        match undone.map(|undone| (undone, ChangeSet::read(&self.store.set_dir(undone)))) {
            Some((undone, Ok(set))) => {
                // What cannot be restored is in its record.
                let _ = self.restore_set(undone, &set, recorder, SetEnding::AfterCrash);
            }
            _ => drop(recorder.finish_as(SetEnding::AfterCrash)?),
        }
        Ok(true)
    }

    /// The number of a change whose undo was interrupted, if it is not completed yet.
    pub fn interrupted_undo(&self) -> Option<u64> {
        let sets = self.store.set_ids().unwrap_or_default();
        sets.into_iter().find_map(|id| {
            let dir = self.store.set_dir(id);
            let log = dir.existing_lock_file(LOG).ok()??;
            let is_left = log.try_lock().is_ok() && dir.size(END).is_err();
            let (header, _) = change_set::read_log(&dir).ok()?;
            header.origin.undoes.filter(|undone| is_left && self.is_set(*undone))
        })
    }

    /// Bytes on disk, and the number of commands, that can be undone.
    pub fn held_by_commands(&self) -> (usize, u64) {
        let sets = self.store.set_ids().unwrap_or_default();
        let held = sets.into_iter().filter_map(|id| {
            let dir = self.store.set_dir(id);
            let (_, totals) = ChangeSet::read_summary(&dir).ok()?;
            dir.size(UNDONE).is_err().then_some(totals.held_bytes)
        });
        held.fold((0, 0), |(count, bytes), more| (count + 1, bytes + more))
    }
}
