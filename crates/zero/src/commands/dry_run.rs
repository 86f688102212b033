//! `--dry-run`: shows what calls changed in the workspace, then keeps or discards it.
//!
//! The calls run for real and are recorded; discarding them is an undo. What they did elsewhere, such
//! as requests to other machines, cannot be discarded.

use std::sync::Arc;

use zero_core::{HostLimits, ToolError};
use zero_runtime::StartedCalls;
use zero_sandbox::journal::UndoConflictPolicy;
use zero_sandbox::typed_input::SignalKeys;
use zero_sandbox::{ChangeState, Journal, JournalEntry, StateDir, Workspace};

use super::undo::undo_record::UndoRecord;
use crate::AppContext;
use crate::change_view::render_file;
use crate::terminal::dialog::{KeyChoice, KeyOutcome, ask_for_key};
use crate::terminal::{AnswerSource, STRONG, escape_line};

/// What a user has to know about it.
const ELSEWHERE_NOTE: &str = "only changes of files in the workspace can be discarded; requests to other machines, changes in other folders and what MCP servers change between calls remain";
const KEEP_KEY: char = 'y';
/// Most files whose change is shown.
const FILES_SHOWN_MAX: usize = 200;

/// The changes of calls, until they are kept or discarded.
pub(super) struct DryRun<'a> {
    app: &'a AppContext,
    workspace: Workspace,
    state: StateDir,
    journal: Journal,
    /// The newest change before the calls.
    first: u64,
    calls: Arc<StartedCalls>,
}

/// What became of the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DryRunEnd {
    /// Nothing was changed.
    Unchanged,
    Kept,
    Discarded,
    /// Discarded, because the user pressed Ctrl-C: the command ends as interrupted.
    Interrupted,
}

impl<'a> DryRun<'a> {
    /// Begins before the first call.
    pub(super) fn new(app: &'a AppContext, workspace: Workspace) -> anyhow::Result<Self> {
        let state = app.config.state_dir()?;
        let bytes_max = HostLimits::default().file_bytes_max;
        let journal = Journal::new(&state, workspace.clone(), bytes_max);
        let first = journal.newest_id()?;
        app.terminal.print_note(ELSEWHERE_NOTE);
        let calls = app.config.dry_run_calls().unwrap_or_default();
        Ok(Self { app, workspace, state, journal, first, calls })
    }

    /// Shows what the calls changed, and keeps it if the user at `answers` says so.
    pub(super) fn finish(self, answers: Option<AnswerSource>) -> anyhow::Result<DryRunEnd> {
        let entries = self.list_changes()?;
        let terminal = &self.app.terminal;
        if entries.is_empty() {
            terminal.print_note("dry run: no change of files in the workspace was recorded");
            return Ok(DryRunEnd::Unchanged);
        }
        for entry in &entries {
            self.show(entry)?;
        }
        let answer = answers.map_or(KeyOutcome::Ended, |answers| self.ask_to_keep(&answers));
        if answer == KeyOutcome::Chosen(KEEP_KEY) {
            terminal.print_note("dry run: the changes were kept; `zero undo` reverts them");
            return Ok(DryRunEnd::Kept);
        }
        // The newest first, so that each finds its files as it left them.
        let (mut kept, mut failure) = (Vec::new(), None);
        for entry in entries.iter().rev() {
            if let Err(error) = self.discard(entry) {
                kept.push(entry.id.to_string());
                failure.get_or_insert(error);
            }
        }
        if let Some(error) = failure {
            anyhow::bail!(
                "{}; of the changes of this dry run, {} remain: revert them with `zero undo ID` ({})",
                error.message,
                kept.len(),
                kept.join(", ")
            );
        }
        terminal.print_note("dry run: the changes were discarded");
        Ok(match answer {
            KeyOutcome::Interrupted => DryRunEnd::Interrupted,
            KeyOutcome::Chosen(_) | KeyOutcome::Ended => DryRunEnd::Discarded,
        })
    }

    /// Asks whether to keep the changes. Ctrl-C is a key here, and means no as the end of the terminal
    /// does: a process that it ended would keep them.
    fn ask_to_keep(&self, answers: &AnswerSource) -> KeyOutcome {
        let stream = &self.app.terminal.err;
        let choices = [KeyChoice::new(KEEP_KEY, "keep"), KeyChoice::new('n', "discard")];
        let asked = answers
            .open_keys(SignalKeys::AreRead)
            .and_then(|keys| ask_for_key(stream, &keys, "Keep these changes?", &choices));
        asked.unwrap_or(KeyOutcome::Ended)
    }

    /// The changes of the calls that are in effect, oldest first.
    fn list_changes(&self) -> Result<Vec<JournalEntry>, ToolError> {
        let ids = self.journal.ids_after(self.first)?;
        let mut entries =
            ids.iter().map(|id| self.journal.entry(*id)).collect::<Result<Vec<_>, _>>()?;
        entries.retain(|entry| {
            self.calls.contains(&entry.call)
                && entry.undoes.is_none()
                && !matches!(entry.state, ChangeState::Undone | ChangeState::NotApplied)
        });
        Ok(entries)
    }

    fn show(&self, entry: &JournalEntry) -> anyhow::Result<()> {
        let out = &self.app.terminal.out;
        let (files, count) = self.journal.changed_files(entry.id, FILES_SHOWN_MAX)?;
        if let Some(totals) = &entry.totals {
            let title = format!("{}: {}", totals.describe(), escape_line(&entry.path));
            out.write(&format!("{}\n", out.paint(STRONG, &title)))?;
            for loss in &totals.losses {
                self.app.terminal.print_note(&format!("cannot be discarded: {loss}"));
            }
        }
        for file in &files {
            out.write(&render_file(out, file))?;
        }
        if count > files.len() {
            out.write(&format!("and {} more files\n", count - files.len()))?;
        }
        Ok(())
    }

    fn discard(&self, entry: &JournalEntry) -> Result<(), ToolError> {
        let trace = UndoRecord::new(&self.state, &self.workspace, entry)?;
        let undone = match self.journal.is_set(entry.id) {
            true => self.journal.undo_set(entry.id, UndoConflictPolicy::Refuse).map(drop),
            false => self.journal.undo(entry.id, UndoConflictPolicy::Refuse).map(drop),
        };
        trace.finish(undone.as_ref().err());
        undone
    }
}
