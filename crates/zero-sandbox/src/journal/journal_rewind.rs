//! Takes back all changes that a set of calls made, newest first: the files of a rewind.
//!
//! [`Journal::plan_rewind`] compares everything first and touches nothing; a later change by another
//! program is a conflict. [`Journal::apply_rewind`] then undoes one change after the other. Each undo
//! survives a crash on its own and names the rewind. A rewind with the same ID that is made again finds
//! what is undone already and does the rest, so one that was killed is completed by repeating it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use zero_core::{ErrorReason, ToolError};

use super::change_record::{ChangeRecord, RecordedState};
use super::change_restore::{self, ChangeConflict};
use super::change_set::{self, BeforeState, ChangeSet, END, image_name};
use super::content_digest::sha256;
use super::file_snapshot::FileSnapshot;
use super::open_set::{BYTES, INODE};
use super::path_state::PathState;
use super::{ChangeState, Journal, UndoConflictPolicy, UndoOrigin};
use crate::state_dir::StateDir;

/// Most conflicts that a plan names.
const CONFLICTS_MAX: usize = 1_000;

/// A change that a rewind takes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewoundChange {
    /// The number of the change in the journal.
    pub id: u64,
    /// The tool that made it, or `rewind`.
    pub tool: String,
    /// The path of the file as displayed, or the command.
    pub subject: String,
    /// `create`, `change`, `remove` or `command`, as the change did it.
    pub action: String,
    /// Number of files, links and folders that it changed.
    pub files: u64,
}

/// What a rewind does to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRewind {
    /// It has its earlier state again.
    Restore,
    /// It exists no longer.
    Remove,
}

/// What a rewind would take back.
#[derive(Debug, Default)]
pub struct RewindPlan {
    /// The changes, newest first.
    pub changes: Vec<RewoundChange>,
    /// The paths that another program changed, in order.
    pub conflicts: Vec<ChangeConflict>,
    /// The calls of which the journal has a change, in effect or not.
    pub recorded: BTreeSet<String>,
    /// Whether the changes of a command are among them.
    pub has_commands: bool,
    /// All paths that they concern.
    pub paths: BTreeMap<PathBuf, PathRewind>,
}

/// The head of a recorded change.
struct ChangeHead {
    caller: Option<String>,
    undoes: Option<u64>,
}

/// The state of a path after the newer changes of a plan were taken back.
enum PlannedState {
    Recorded(RecordedState),
    /// The state before a command, with the set that has its image.
    Before(u64, BeforeState),
    Absent,
}

impl Journal {
    /// What has to be undone so that no change of these calls is in effect. `rewind` is the ID of
    /// the rewind, and what an earlier attempt of it undid is not undone again.
    pub fn plan_rewind(
        &self,
        calls: &HashSet<String>,
        rewind: &str,
    ) -> Result<RewindPlan, ToolError> {
        let heads = self.read_heads()?;
        let mut plan = RewindPlan::default();
        let called = heads.values().filter_map(|head| head.caller.as_ref());
        plan.recorded = called.filter(|caller| calls.contains(*caller)).cloned().collect();
        let mut planned = HashMap::new();
        let mut conflicts = BTreeMap::new();
        for id in select_changes(&heads, calls, rewind) {
            let change = match self.is_set(id) {
                true => {
                    plan.has_commands = true;
                    Some(self.plan_set(id, &mut planned, &mut conflicts)?)
                }
                false => self.plan_change(id, &mut planned, &mut conflicts)?,
            };
            plan.changes.extend(change);
        }
        let conflict = |(path, what)| ChangeConflict { path, what };
        plan.conflicts = conflicts.into_iter().take(CONFLICTS_MAX).map(conflict).collect();
        let path = |(path, state): (PathBuf, PlannedState)| match state {
            PlannedState::Absent
            | PlannedState::Recorded(RecordedState::Absent)
            | PlannedState::Before(_, BeforeState::Absent) => (path, PathRewind::Remove),
            _ => (path, PathRewind::Restore),
        };
        plan.paths = planned.into_iter().map(path).collect();
        Ok(plan)
    }

    /// Undoes the changes of a plan. Later changes are overwritten, and recorded in turn. Returns
    /// the changes that were undone.
    pub fn apply_rewind(
        &self,
        plan: &RewindPlan,
        rewind: &str,
    ) -> Result<Vec<RewoundChange>, ToolError> {
        let (origin, conflicts) = (UndoOrigin::Rewind(rewind), UndoConflictPolicy::Overwrite);
        let mut undone = Vec::new();
        for change in &plan.changes {
            let result = match self.is_set(change.id) {
                true => self.undo_set_as(change.id, conflicts, &origin).map(drop),
                false => self.undo_as(change.id, conflicts, &origin).map(drop),
            };
            match result {
                Ok(()) => undone.push(change.clone()),
                // The file was restored meanwhile.
                Err(error) if error.reason() == Some(ErrorReason::NoChange) => {}
                Err(mut error) => {
                    error.message = format!(
                        "{}; {} of {} changes were taken back; repeat the rewind to continue it",
                        error.message,
                        undone.len(),
                        plan.changes.len()
                    );
                    return Err(error);
                }
            }
        }
        Ok(undone)
    }

    /// The path of a conflict as displayed.
    pub fn display_conflict(&self, conflict: &ChangeConflict) -> String {
        self.workspace.display_path(&conflict.path)
    }

    fn read_heads(&self) -> Result<BTreeMap<u64, ChangeHead>, ToolError> {
        let mut heads = BTreeMap::new();
        for id in self.all_ids()? {
            let head = if self.is_set(id) {
                let dir = self.store.set_dir(id);
                let header = ChangeSet::read_summary(&dir)
                    .map(|(header, _)| header)
                    .or_else(|_| change_set::read_log(&dir).map(|(header, _)| header));
                let origin = header.map_err(|error| self.store.set_error(id, &error))?.origin;
                ChangeHead { caller: origin.caller, undoes: origin.undoes }
            } else {
                let ChangeRecord { caller, undoes, .. } = self.store.read_record(id)?;
                ChangeHead { caller, undoes }
            };
            heads.insert(id, head);
        }
        Ok(heads)
    }

    /// Plans the undo of a change of one file; `None` if the file is as it was before.
    fn plan_change(
        &self,
        id: u64,
        planned: &mut HashMap<PathBuf, PlannedState>,
        conflicts: &mut BTreeMap<PathBuf, &'static str>,
    ) -> Result<Option<RewoundChange>, ToolError> {
        let record = self.store.read_record(id)?;
        let path = record.path.to_path();
        let state = match find_planned(planned, &path) {
            // What a stored tree contains is known when it is back; that it is untouched was checked.
            Some(PlannedState::Before(_, BeforeState::Stored { .. })) => ChangeState::Applied,
            Some(state) if self.is_planned(state, &record.after) => ChangeState::Applied,
            Some(state) if self.is_planned(state, &record.before) => ChangeState::NotApplied,
            Some(_) => ChangeState::ChangedSince,
            None => {
                let now = self.resolve_target(&path).and_then(|target| self.take_snapshot(&target));
                match now {
                    Ok((now, _)) if record.after.matches(&now) => ChangeState::Applied,
                    Ok((now, _)) if record.before.matches(&now) => ChangeState::NotApplied,
                    Ok((FileSnapshot::Absent, _)) => {
                        conflicts.entry(path.clone()).or_insert("deleted");
                        ChangeState::InProgress
                    }
                    Ok(_) => ChangeState::ChangedSince,
                    Err(_) => {
                        conflicts.entry(path.clone()).or_insert("unreadable");
                        ChangeState::InProgress
                    }
                }
            }
        };
        if state == ChangeState::ChangedSince {
            conflicts.entry(path.clone()).or_insert("changed");
        }
        if state == ChangeState::NotApplied {
            return Ok(None);
        }
        let action = match (&record.before, &record.after) {
            (RecordedState::Absent, _) => "create",
            (_, RecordedState::Absent) => "remove",
            _ => "change",
        };
        for folder in &record.created_folders {
            planned.insert(folder.to_path(), PlannedState::Absent);
        }
        let subject = self.workspace.display_path(&path);
        planned.insert(path, PlannedState::Recorded(record.before));
        let (tool, action) = (record.tool, action.to_owned());
        Ok(Some(RewoundChange { id, tool, subject, action, files: 1 }))
    }

    fn plan_set(
        &self,
        id: u64,
        planned: &mut HashMap<PathBuf, PlannedState>,
        conflicts: &mut BTreeMap<PathBuf, &'static str>,
    ) -> Result<RewoundChange, ToolError> {
        let failed = |error: std::io::Error| self.store.set_error(id, &error);
        let dir = self.store.set_dir(id);
        if dir.size(END).is_err() {
            let message = format!("the command of change {id} still runs; nothing was done");
            return Err(ToolError::failed(ErrorReason::Busy, message).with_detail("id", id));
        }
        let set = ChangeSet::read(&dir).map_err(failed)?;
        let roots = self.tree_roots().map_err(failed)?;
        let shared = change_restore::list_shared(&set);
        let found = change_restore::find_conflicts(&set, &dir, &roots);
        for ChangeConflict { path, what } in found.into_iter().chain(shared) {
            if find_planned(planned, &path).is_none() {
                conflicts.entry(path).or_insert(what);
            }
        }
        for (path, item) in set.paths() {
            if let Some(state) = find_planned(planned, &path)
                && !self.is_planned_path(state, &item.after)
            {
                conflicts.entry(path.clone()).or_insert("changed");
            }
            let before = match &item.before {
                Some(before) => PlannedState::Before(id, before.clone()),
                None => PlannedState::Absent,
            };
            planned.insert(path, before);
        }
        Ok(RewoundChange {
            id,
            tool: set.header.origin.tool,
            subject: set.header.origin.command,
            action: "command".to_owned(),
            files: set.summary.files(),
        })
    }

    /// Whether a planned state is the recorded one. The contents before a command are compared, as
    /// far as the journal has them.
    fn is_planned(&self, planned: &PlannedState, recorded: &RecordedState) -> bool {
        match (planned, recorded) {
            (PlannedState::Absent, RecordedState::Absent)
            | (PlannedState::Before(_, BeforeState::Absent), RecordedState::Absent) => true,
            (
                PlannedState::Recorded(RecordedState::File { bytes: a, sha256: b, .. }),
                RecordedState::File { bytes, sha256, .. },
            ) => a == bytes && b == sha256,
            (PlannedState::Recorded(planned), recorded) => planned == recorded,
            (
                PlannedState::Before(_, BeforeState::Symlink { target }),
                RecordedState::Symlink { target: recorded },
            ) => target == recorded,
            (
                PlannedState::Before(id, BeforeState::File { image, state, .. }),
                RecordedState::File { bytes, sha256: expected, .. },
            ) => {
                let is_same_size = state.bytes() == *bytes;
                let image = || read_image(&self.store.set_dir(*id), *image, *bytes);
                is_same_size && image().is_none_or(|image| sha256(&image) == *expected)
            }
            _ => false,
        }
    }

    /// Whether a planned state is the one that a command left.
    fn is_planned_path(&self, planned: &PlannedState, left: &PathState) -> bool {
        match (planned, left) {
            (PlannedState::Absent, PathState::Absent)
            | (PlannedState::Recorded(RecordedState::Absent), PathState::Absent)
            | (PlannedState::Before(_, BeforeState::Absent), PathState::Absent) => true,
            (PlannedState::Recorded(RecordedState::File { bytes, .. }), left) => {
                matches!(left, PathState::File { .. }) && left.bytes() == *bytes
            }
            (
                PlannedState::Recorded(RecordedState::Symlink { target })
                | PlannedState::Before(_, BeforeState::Symlink { target }),
                PathState::Symlink { target: left },
            ) => target == left,
            (PlannedState::Before(_, BeforeState::File { state, .. }), left) => state == left,
            (
                PlannedState::Before(_, BeforeState::Folder { .. }),
                PathState::Folder { .. } | PathState::File { .. },
            ) => true,
            (PlannedState::Before(_, BeforeState::Stored { .. }), _) => true,
            // A folder that a file was written into exists as long as the file.
            (PlannedState::Absent, PathState::Folder { .. }) => true,
            _ => false,
        }
    }
}

/// The planned state of a path. A tree that an undo moved into the journal comes back whole.
fn find_planned<'a>(
    planned: &'a HashMap<PathBuf, PlannedState>,
    path: &Path,
) -> Option<&'a PlannedState> {
    let stored = |folder| {
        let state = planned.get(folder);
        state.filter(|state| matches!(state, PlannedState::Before(_, BeforeState::Stored { .. })))
    };
    planned.get(path).or_else(|| path.ancestors().skip(1).find_map(stored))
}

/// The contents of a file before a command; `None` if the journal has no image that can be read, or
/// the image is not what it was: the file may have other names.
fn read_image(dir: &StateDir, image: u64, bytes: u64) -> Option<Vec<u8>> {
    let open = |kind| dir.open(&image_name(image, kind)).ok();
    let mut contents = Vec::new();
    let file = open(BYTES).or_else(|| open(INODE))?;
    file.take(bytes.saturating_add(1)).read_to_end(&mut contents).ok()?;
    (contents.len() as u64 == bytes).then_some(contents)
}

/// The changes to undo, newest first. A change, its undo, the undo of that and so on are a chain: only
/// its last element can be undone, and only if the chain is not in the state that it had before the
/// calls.
fn select_changes(
    heads: &BTreeMap<u64, ChangeHead>,
    calls: &HashSet<String>,
    rewind: &str,
) -> Vec<u64> {
    let mut selected = HashSet::new();
    // The first change of each chain, and how often it was undone: 0 for the change itself.
    let mut places: HashMap<u64, (u64, u32)> = HashMap::new();
    let mut chains: BTreeMap<u64, Vec<(u64, u32)>> = BTreeMap::new();
    for (id, head) in heads {
        let is_selected = match (head.caller.as_deref(), head.undoes) {
            // An earlier attempt of this rewind.
            (Some(caller), Some(undone)) if caller == rewind => selected.contains(&undone),
            (Some(caller), _) => calls.contains(caller),
            (None, _) => false,
        };
        if is_selected {
            selected.insert(*id);
        }
        let place = match head.undoes {
            Some(undone) => {
                let (root, depth) = places.get(&undone).copied().unwrap_or((undone, 0));
                (root, depth + 1)
            }
            None => (*id, 0),
        };
        places.insert(*id, place);
        chains.entry(place.0).or_default().push((*id, place.1));
    }
    let is_in_effect = |depth: u32| depth.is_multiple_of(2);
    let mut wanted: Vec<u64> = Vec::new();
    for chain in chains.values() {
        let Some((last, depth)) = chain.last() else { continue };
        let Some(first) = chain.iter().position(|(id, _)| selected.contains(id)) else { continue };
        // The set was undone or repeated since, outside this rewind.
        if !selected.contains(last) {
            continue;
        }
        let before = first.checked_sub(1).and_then(|before| chain.get(before));
        if before.is_some_and(|(_, depth)| is_in_effect(*depth)) != is_in_effect(*depth) {
            wanted.push(*last);
        }
    }
    wanted.sort_unstable();
    wanted.reverse();
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes in order, each as its call and the number of the change that it undoes.
    #[track_caller]
    fn check(changes: &[(&str, u64)], calls: &[&str], expected: &[u64]) {
        let head = |(at, (caller, undoes)): (usize, &(&str, u64))| {
            let undoes = Some(*undoes).filter(|undoes| *undoes > 0);
            (at as u64 + 1, ChangeHead { caller: Some((*caller).to_owned()), undoes })
        };
        let heads = changes.iter().enumerate().map(head).collect();
        let calls = calls.iter().map(|call| (*call).to_owned()).collect();
        assert_eq!(select_changes(&heads, &calls, "now"), expected, "{changes:?} {calls:?}");
    }

    #[test]
    fn selection_has_changes_of_calls_newest_first() {
        check(&[("a", 0), ("b", 0), ("a", 0)], &["a"], &[3, 1]);
        check(&[("a", 0), ("b", 0)], &[], &[]);
        check(&[("a", 0), ("b", 0)], &["a", "b"], &[2, 1]);
    }

    #[test]
    fn undone_change_is_left_and_redone_one_is_selected_once() {
        // `zero undo` belongs to the call of the change.
        check(&[("a", 0), ("a", 1)], &["a"], &[]);
        check(&[("a", 0), ("a", 1), ("a", 2)], &["a"], &[3]);
        // An undo of a call before the point is not touched.
        check(&[("old", 0), ("old", 1)], &["a"], &[]);
    }

    #[test]
    fn rewind_since_the_point_is_taken_back() {
        let taken = [("a", 0), ("b", 0), ("first", 2), ("first", 1)];
        // To before the rewind: both changes are made again.
        check(&taken, &["first"], &[4, 3]);
        // To before the calls: nothing is left to do.
        check(&taken, &["a", "b", "first"], &[]);
        // To before the second call: the first is in effect again.
        check(&taken, &["b", "first"], &[4]);
        // Another session's rewind.
        check(&taken, &["a", "b"], &[]);
    }

    #[test]
    fn repeated_attempt_undoes_the_rest() {
        let partly = [("a", 0), ("b", 0), ("now", 2)];
        check(&partly, &["a", "b"], &[1]);
        check(&partly, &["c"], &[]);
    }
}
