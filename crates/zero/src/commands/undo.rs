//! `zero undo`: reverts file changes made by tools and commands.

mod by_product;
pub(super) mod undo_record;
mod unrecorded_command;

use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use zero_core::text_shortening::one_line;
use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_exec::jobs::refuse_beside_job;
use zero_sandbox::journal::UndoConflictPolicy;
use zero_sandbox::{ChangeState, FinalLinkMode, Journal, JournalEntry, StateDir, Workspace};

use self::undo_record::UndoRecord;
use crate::AppContext;
use crate::cli::UndoArgs;
use crate::exit::ExitOutcome;
use crate::terminal::{
    ElapsedCounter, FAINT, GOOD, NOTABLE, STRONG, TableCell, TerminalStream, TextTable,
    escape_line, format_short_time,
};

/// Changes in a list, unless all are asked for.
const LISTED_MAX: usize = 50;
/// Most changes that are named because they were passed over.
const SKIPPED_SHOWN_MAX: usize = 3;
/// Most characters of a path that names a change.
const PATH_CHARS_MAX: usize = 80;

pub(super) fn run(app: &AppContext, args: &UndoArgs) -> anyhow::Result<ExitOutcome> {
    let (workspace, state) =
        (app.config.open_workspace(args.workspace.as_slice())?, app.config.state_dir()?);
    let journal = Journal::new(&state, workspace.clone(), args.limits().file_bytes_max);
    let undo = UndoOperation { app, args, workspace, state, journal };
    if args.list {
        // A command of a zero that was killed does not run any more. A list restores nothing, so that an
        // undo is not completed here.
        if let Err(error) = undo.journal.recover_beside(&|| true) {
            app.terminal.print_note(&error.message);
        }
        return undo.list_entries();
    }
    match undo.revert() {
        Ok(RevertedChange { entry, is_completed }) => {
            let out = &app.terminal.out;
            if args.json {
                let undone = match &entry.totals {
                    Some(totals) => json!({"id": entry.id, "command": entry.path,
                        "action": entry.action, "totals": totals}),
                    None => json!({"id": entry.id, "path": entry.path, "action": entry.action}),
                };
                out.write_json_line(&json!({"ok": true, "undone": undone}))?;
            } else {
                if is_completed {
                    app.terminal.print_note(&format!(
                        "the undo of change {} had been interrupted and is complete now; nothing else was undone",
                        entry.id
                    ));
                }
                out.write(&format!("{}\n", describe_undo(&entry)))?;
                if args.id.is_none() {
                    undo.print_next();
                }
            }
            Ok(ExitOutcome::Ok)
        }
        Err(error) => print_refusal(app, args, &error.with_tool("undo")),
    }
}

/// Arguments and stores of one undo.
struct UndoOperation<'a> {
    app: &'a AppContext,
    args: &'a UndoArgs,
    workspace: Workspace,
    state: StateDir,
    journal: Journal,
}

/// A change that was undone.
struct RevertedChange {
    entry: JournalEntry,
    /// Whether an earlier undo of it had been interrupted, and only its rest was left to do.
    is_completed: bool,
}

impl UndoOperation<'_> {
    /// Reverts the selected change and records the undo in the audit log.
    fn revert(&self) -> Result<RevertedChange, ToolError> {
        if let Some(entry) = self.complete_interrupted()? {
            return Ok(RevertedChange { entry, is_completed: true });
        }
        if self.journal.interrupted_undo().is_some() {
            // Half of its files are restored, so that nothing else can be undone before.
            refuse_beside_job(&self.state, &self.workspace)?;
        }
        let entry = match self.args.id {
            Some(id) => self.journal.entry(id).map_err(with_hint)?,
            None => {
                let newest = self.newest_entry();
                let after = newest.as_ref().ok().and_then(|entry| entry.time.parse().ok());
                self.note_unrecorded(after.unwrap_or(Timestamp::UNIX_EPOCH));
                newest?
            }
        };
        let mut trace = UndoRecord::new(&self.state, &self.workspace, &entry)?;
        let outcome = self.restore(&entry, &mut trace);
        trace.finish(outcome.as_ref().err());
        outcome.map(|()| RevertedChange { entry, is_completed: false })
    }

    /// Completes what an earlier process left. Returns the change whose undo that was, if this is the one
    /// that the user asks for: who repeats an interrupted command means the same change, not the one before.
    fn complete_interrupted(&self) -> Result<Option<JournalEntry>, ToolError> {
        let interrupted = self.journal.interrupted_undo();
        // A record that cannot be recovered must not keep the user from undoing the others.
        let is_busy = || refuse_beside_job(&self.state, &self.workspace).is_err();
        if let Err(error) = self.journal.recover_beside(&is_busy) {
            self.app.terminal.print_note(&error.message);
        }
        let Some(id) = interrupted else { return Ok(None) };
        if self.journal.interrupted_undo().is_some() {
            return Ok(None);
        }
        let entry = self.journal.entry(id)?;
        let is_meant = self.args.id.is_none_or(|requested| requested == id);
        if entry.state == ChangeState::Undone && is_meant {
            return Ok(Some(entry));
        }
        let name = name_entry(&entry);
        if entry.state == ChangeState::Undone {
            let note = format!("the undo of {name} had been interrupted and is complete now");
            self.app.terminal.print_note(&note);
            return Ok(None);
        }
        let message = format!(
            "the undo of {name} had been interrupted, and some of its paths could not be restored; `zero undo {id}` tries them again"
        );
        match is_meant && self.args.id.is_none() {
            true => Err(ToolError::failed(ErrorReason::Io, message).with_detail("id", id)),
            false => {
                self.app.terminal.print_note(&message);
                Ok(None)
            }
        }
    }

    fn restore(&self, entry: &JournalEntry, trace: &mut UndoRecord) -> Result<(), ToolError> {
        let is_set = self.journal.is_set(entry.id);
        if is_set {
            refuse_beside_job(&self.state, &self.workspace)?;
        }
        let undo = |conflicts| {
            let undone = match is_set {
                true => self.journal.undo_set(entry.id, conflicts).map(drop),
                false => self.journal.undo(entry.id, conflicts).map(drop),
            };
            undone.map_err(with_hint)
        };
        let changed_since = entry.state == ChangeState::ChangedSince;
        if self.args.yes {
            if changed_since {
                trace.record_answer("--yes", true);
            }
            return undo(UndoConflictPolicy::Overwrite);
        }
        match undo(UndoConflictPolicy::Refuse) {
            Err(error) if (is_set || changed_since) && is_conflict(&error) => {
                if is_set {
                    return match self.is_overwrite_confirmed(entry, &error, trace) {
                        true => undo(UndoConflictPolicy::Overwrite),
                        false => Err(error),
                    };
                }
                let is_deleted = self.is_deleted(entry);
                match self.is_confirmed(entry, is_deleted, trace) {
                    true => undo(UndoConflictPolicy::Overwrite),
                    false if is_deleted => Err(deleted_error(entry)),
                    false => Err(self.explain_conflict(entry, error)),
                }
            }
            outcome => outcome,
        }
    }

    /// Says what changed the file again, and what to do about it.
    fn explain_conflict(&self, entry: &JournalEntry, mut error: ToolError) -> ToolError {
        let (id, path) = (entry.id, &entry.path);
        let is_later = |other: &&JournalEntry| {
            other.path == *path && other.id > id && other.state == ChangeState::Applied
        };
        let entries = self.journal.list().unwrap_or_default();
        error.message = match entries.iter().find(is_later) {
            Some(JournalEntry { id: later, .. }) => format!(
                "`{path}` was changed again after change {id}, by change {later}; undo that first with `zero undo {later}`, or pass `--yes` to restore the content from before both"
            ),
            None => format!(
                "`{path}` was changed again after change {id}, and not by a tool; pass `--yes` to restore it and lose that"
            ),
        };
        error
    }

    /// Asks whether to overwrite later changes; without a terminal, the answer is no.
    fn is_confirmed(&self, entry: &JournalEntry, gone: bool, trace: &mut UndoRecord) -> bool {
        let Some(answers) = self.app.terminal.answer_source() else { return false };
        let happened = if gone { "deleted" } else { "changed again" };
        let question = format!(
            "`{}` was {happened} after change {}. Restore it anyway?",
            escape_line(&entry.path),
            entry.id
        );
        let agreed = self.app.terminal.confirm(&answers, &question);
        trace.record_answer(zero_runtime::USER_APPROVER, agreed);
        agreed
    }

    /// Shows the paths that were changed after a command, and asks whether to overwrite them.
    fn is_overwrite_confirmed(
        &self,
        entry: &JournalEntry,
        conflict: &ToolError,
        trace: &mut UndoRecord,
    ) -> bool {
        let Some(answers) = self.app.terminal.answer_source() else { return false };
        self.app.terminal.print_error(&conflict.message);
        let question = format!("Undo change {} anyway?", entry.id);
        let agreed = self.app.terminal.confirm(&answers, &question);
        trace.record_answer(zero_runtime::USER_APPROVER, agreed);
        agreed
    }

    /// The newest change. If it is no longer in effect, this is an error: reverting an older change
    /// instead could restore a file that the user did not mean.
    fn newest_entry(&self) -> Result<JournalEntry, ToolError> {
        let counter = ElapsedCounter::new(&self.app.terminal.err);
        counter.start("comparing the recorded changes with their files");
        let chosen = self.choose();
        counter.stop();
        let (newest, skipped) = chosen?.ok_or_else(|| self.nothing_to_undo())?;
        self.print_skipped(&skipped);
        if newest.state != ChangeState::NotApplied {
            return Ok(newest);
        }
        let mut older = self
            .candidates()?
            .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.id < newest.id));
        let now = match newest.action {
            "create" => "the file no longer exists",
            "remove" => "the file exists again",
            _ => "the file has its earlier content",
        };
        let (id, tool, path) = (newest.id, &newest.tool, &newest.path);
        let mut message =
            format!("the newest change, {id} ({tool} `{path}`), is no longer in effect: {now}");
        let is_in_effect = |entry: &JournalEntry| entry.state != ChangeState::NotApplied;
        if let Some(before) = older.find_map(|entry| entry.ok().filter(is_in_effect)) {
            message += &format!("; to undo the one before it, run `zero undo {}`", before.id);
        }
        Err(ToolError::not_found(ErrorReason::NoChange, message).with_detail("id", id))
    }

    /// Names the change that the next undo would revert.
    fn print_next(&self) {
        if let Ok(Some((next, _))) = self.choose() {
            self.app.terminal.print_note(&format!("the next is {}", name_entry(&next)));
        }
    }

    /// Says that a command after the newest change was not recorded: the user may mean that one.
    fn note_unrecorded(&self, after: Timestamp) {
        let settings = self.app.load_settings(&self.workspace, &[]);
        if settings.is_ok_and(|settings| !settings.undo().commands)
            && let Some(command) =
                unrecorded_command::find_newest(&self.state, &self.workspace, after)
        {
            let command = escape_line(&command);
            self.app.terminal.print_note(&format!(
                "the command `{command}` ran later and was not recorded, so that it cannot be undone; `undo.commands` is off in your settings"
            ));
        }
    }

    /// The changes that can be undone, newest first.
    fn candidates(
        &self,
    ) -> Result<impl Iterator<Item = Result<JournalEntry, ToolError>> + '_, ToolError> {
        let ids = self.journal.ids_after(0)?.into_iter().rev();
        let is_candidate = |entry: &JournalEntry| {
            !self.is_undo(entry)
                && !matches!(entry.state, ChangeState::Undone | ChangeState::InProgress)
        };
        let entries = ids.map(|id| self.journal.entry(id));
        Ok(entries.filter(move |entry| entry.as_ref().map_or(true, is_candidate)))
    }

    /// The change that an undo takes, and those that it passes over: commands that only filled caches,
    /// since who undoes after "edit, test" means the edit.
    fn choose(&self) -> Result<Option<(JournalEntry, Vec<JournalEntry>)>, ToolError> {
        let mut skipped = Vec::new();
        for entry in self.candidates()? {
            let entry = entry?;
            if self.has_only_by_products(&entry) {
                skipped.push(entry);
            } else if skipped.is_empty() || entry.state != ChangeState::NotApplied {
                return Ok(Some((entry, skipped)));
            } else {
                break;
            }
        }
        // Nothing else can be undone, so that the newest of them is no surprise.
        Ok(skipped.into_iter().next().map(|newest| (newest, Vec::new())))
    }

    fn has_only_by_products(&self, entry: &JournalEntry) -> bool {
        let paths = entry.totals.as_ref().map(|_| self.journal.changed_paths(entry.id));
        matches!(paths, Some(Ok(paths)) if by_product::are_by_products(&self.workspace, &paths))
    }

    fn print_skipped(&self, skipped: &[JournalEntry]) {
        for entry in skipped.iter().take(SKIPPED_SHOWN_MAX) {
            let (id, name) = (entry.id, name_entry(entry));
            self.app.terminal.print_note(&format!(
                "skipping {name}, which only wrote to caches; `zero undo {id}` undoes it"
            ));
        }
        if let more @ 1.. = skipped.len().saturating_sub(SKIPPED_SHOWN_MAX) {
            self.app.terminal.print_note(&format!("and over {more} more such changes"));
        }
    }

    /// Whether an entry reverted a change. The undo of an undo makes the change again.
    fn is_undo(&self, entry: &JournalEntry) -> bool {
        let Some(undone) = entry.undoes else { return false };
        !self.journal.is_set(entry.id)
            || !self.journal.entry(undone).is_ok_and(|undone| self.is_undo(&undone))
    }

    /// Whether the changed file no longer exists.
    fn is_deleted(&self, entry: &JournalEntry) -> bool {
        let target = self.workspace.resolve(&entry.path, FinalLinkMode::Keep);
        target.is_ok_and(|target| matches!(target.facts(), Ok(None)))
    }

    fn nothing_to_undo(&self) -> ToolError {
        let folder = self.workspace.cwd();
        let hint = match folder.ancestors().skip(1).find(|above| self.has_changes(above)) {
            Some(above) => format!("there are changes in `--workspace {}`", above.display()),
            None => "pass `--workspace DIR` for another folder".to_owned(),
        };
        let folder = folder.display();
        let message = match self.journal.newest_id().is_ok_and(|id| id > 0) {
            true => format!(
                "nothing to undo: every change in `{folder}` is undone already; `zero undo --list` shows them, and `zero undo ID` with the number of an undo makes its change again; {hint}"
            ),
            false => {
                format!("nothing to undo: no tool or command changed a file in `{folder}`; {hint}")
            }
        };
        ToolError::not_found(ErrorReason::NoChange, message)
    }

    /// Whether another folder, opened as a workspace, has a change that can be undone.
    fn has_changes(&self, folder: &Path) -> bool {
        let home = self.app.config.home().map(Path::to_owned);
        let Ok(workspace) = Workspace::open(&[folder.to_owned()], home) else { return false };
        let journal = Journal::new(&self.state, workspace, self.args.limits().file_bytes_max);
        matches!(journal.newest_undoable(), Ok(Some(_)))
    }

    /// The newest changes, and how many older ones there are. Each is compared with its file, which
    /// takes time for large files.
    fn entries(&self) -> Result<(Vec<JournalEntry>, usize), ToolError> {
        let counter = ElapsedCounter::new(&self.app.terminal.err);
        counter.start("comparing the recorded changes with their files");
        let most = if self.args.all { usize::MAX } else { LISTED_MAX };
        let entries = self.journal.list_newest(most);
        counter.stop();
        entries
    }

    fn list_entries(&self) -> anyhow::Result<ExitOutcome> {
        let (entries, older) = self.entries()?;
        let out = &self.app.terminal.out;
        if self.args.json {
            out.write_pretty_json(&entries)?;
        } else if entries.is_empty() {
            let folder = self.workspace.cwd().display().to_string();
            out.write(&format!("no changes recorded for `{}`\n", escape_line(&folder)))?;
        } else {
            let interrupted = self.journal.interrupted_undo();
            out.write(&render_table(&entries, interrupted, out))?;
            if let Some(id) = interrupted {
                self.app.terminal.print_note(&format!(
                    "the undo of change {id} was interrupted; `zero undo` completes it"
                ));
            }
        }
        if older > 0 {
            let note = format!("{older} older changes are not shown; `--all` shows them");
            self.app.terminal.print_note(&note);
        }
        Ok(ExitOutcome::Ok)
    }
}

/// Whether `--yes` would help. A path that now resolves elsewhere is stale too, but stays refused.
fn is_conflict(error: &ToolError) -> bool {
    error.error_type == ErrorType::PermissionDenied
        && error.reason() == Some(ErrorReason::StaleFile)
}

fn deleted_error(entry: &JournalEntry) -> ToolError {
    let message =
        format!("`{}` was deleted since; pass --yes to restore the earlier content", entry.path);
    ToolError::new(ErrorType::PermissionDenied, ErrorReason::StaleFile, message)
        .with_detail("id", entry.id)
}

/// Adds advice to an error, in terms of this command's flags.
fn with_hint(mut error: ToolError) -> ToolError {
    let hint = match error.reason() {
        Some(ErrorReason::StaleFile) if is_conflict(&error) && !error.message.contains("--yes") => {
            " with `--yes`"
        }
        Some(ErrorReason::TooLarge) => "; pass the same `--limit file-size=SIZE` as the call",
        Some(ErrorReason::Io) if error.error_type == ErrorType::NotFound => {
            "; run `zero undo --list` to see the changes"
        }
        _ => "",
    };
    error.message.push_str(hint);
    error
}

fn print_refusal(
    app: &AppContext,
    args: &UndoArgs,
    error: &ToolError,
) -> anyhow::Result<ExitOutcome> {
    if args.json {
        app.terminal.out.write_json_line(&json!({"ok": false, "error": error}))?;
    } else {
        app.terminal.print_error(&error.message);
    }
    Ok(match error.reason() {
        // A declined overwrite is a refusal, not a failure.
        Some(ErrorReason::StaleFile) => ExitOutcome::Denied,
        _ => ExitOutcome::from_error(error),
    })
}

/// A change in a few words.
fn name_entry(entry: &JournalEntry) -> String {
    let (id, path, tool) = (entry.id, escape_line(&entry.path), escape_line(&entry.tool));
    format!("change {id}, {tool} `{}`", one_line(&path, PATH_CHARS_MAX))
}

/// Result of an undo in one line.
fn describe_undo(entry: &JournalEntry) -> String {
    let (id, path, tool) = (entry.id, escape_line(&entry.path), escape_line(&entry.tool));
    if let Some(totals) = &entry.totals {
        return format!("undid change {id} of {tool}, {}: {path}", totals.describe());
    }
    match entry.action {
        "create" => format!("removed `{path}`, which {tool} had created (change {id})"),
        "remove" => format!("restored `{path}`, which {tool} had removed (change {id})"),
        _ => format!("restored `{path}` to its content before {tool} changed it (change {id})"),
    }
}

/// The changes as a table; `interrupted` is the one whose undo is not complete.
fn render_table(
    entries: &[JournalEntry],
    interrupted: Option<u64>,
    out: &TerminalStream,
) -> String {
    let mut table = TextTable::new(["ID", "TIME", "TOOL", "ACTION", "STATE", "PATH"]);
    for entry in entries {
        let has_losses = entry.totals.as_ref().is_some_and(|totals| !totals.losses.is_empty());
        let is_half_undone = interrupted == Some(entry.id);
        let (state, style) = match entry.state {
            ChangeState::Applied | ChangeState::ChangedSince if is_half_undone => {
                ("undo interrupted", NOTABLE)
            }
            ChangeState::Applied if has_losses => ("in part", NOTABLE),
            ChangeState::Applied => ("can be undone", GOOD),
            ChangeState::ChangedSince => ("changed since", NOTABLE),
            ChangeState::NotApplied => ("not in effect", FAINT),
            ChangeState::Undone => ("undone", FAINT),
            ChangeState::InProgress if interrupted.is_some() && entry.undoes == interrupted => {
                ("interrupted", NOTABLE)
            }
            ChangeState::InProgress => ("still running", NOTABLE),
        };
        let action = match entry.undoes {
            Some(id) => format!("undo of {id}"),
            None => match &entry.totals {
                Some(totals) => totals.describe(),
                None => entry.action.to_owned(),
            },
        };
        table.add_row([
            TableCell::styled(entry.id.to_string(), STRONG),
            entry.time.parse().map_or_else(|_| entry.time.clone(), format_short_time).into(),
            (&entry.tool).into(),
            action.into(),
            TableCell::styled(state, style),
            (&entry.path).into(),
        ]);
    }
    table.render(out)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test uses real files directly")]
mod tests {
    use clap::Parser;
    use zero_core::HostLimits;
    use zero_runtime::audit::{AuditLog, AuditRow};
    use zero_sandbox::journal::{ChangeRecorder, SetLimits, SetOrigin};
    use zero_sandbox::{ChangeOrigin, FileChange};

    use super::*;
    use crate::cli::Cli;
    use crate::environment::EnvironmentConfig;
    use crate::terminal::Terminal;
    use crate::test_tools::small_tools;

    /// A workspace in which a tool changed `a.txt` from `one` to `two` and created `new/b.txt`.
    struct UndoFixture {
        folder: tempfile::TempDir,
    }

    impl UndoFixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("a.txt"), "one").unwrap();
            let fixture = Self { folder };
            fixture.change("a.txt", "two");
            fixture.change("new/b.txt", "b");
            fixture
        }

        fn journal(&self) -> (Workspace, Journal) {
            let config = EnvironmentConfig::for_test(self.folder.path());
            let workspace = config.open_workspace(&[]).unwrap();
            let limit = HostLimits::default().file_bytes_max;
            let journal = Journal::new(&config.state_dir().unwrap(), workspace.clone(), limit);
            (workspace, journal)
        }

        /// A record of a command, or of the undo of one.
        fn record_command(&self, undoes: Option<u64>) -> ChangeRecorder {
            let origin = SetOrigin {
                tool: "Bash".to_owned(),
                call: "call_1".to_owned(),
                caller: None,
                command: "echo x > a.txt".to_owned(),
                undoes,
                is_beside: false,
            };
            self.journal().1.record_command(origin, SetLimits::NONE).unwrap()
        }

        /// Changes a file as a command does, and returns the number of the change.
        fn run_command(&self, content: &str) -> u64 {
            let mut recorder = self.record_command(None);
            recorder.record_contents(&self.path("a.txt"));
            std::fs::write(self.path("a.txt"), content).unwrap();
            recorder.finish().unwrap().unwrap().0
        }

        fn change(&self, path: &str, content: &str) {
            let (workspace, journal) = self.journal();
            let target = workspace.resolve(path, FinalLinkMode::Follow).unwrap();
            let note =
                ChangeOrigin { tool: "Write".to_owned(), call: "call_1".to_owned(), caller: None };
            journal
                .change(&target, &note, || Ok(()), |_| Ok(FileChange::Replace(content.into())))
                .unwrap();
        }

        fn path(&self, path: &str) -> std::path::PathBuf {
            self.folder.path().join(path)
        }

        fn audit(&self) -> Vec<AuditRow> {
            let audit = AuditLog::new(
                &EnvironmentConfig::for_test(self.folder.path()).state_dir().unwrap(),
            );
            let mut rows = Vec::new();
            for day in audit.days().unwrap() {
                audit.open_day(&day).unwrap().for_each_row(|row| rows.push(row)).unwrap();
            }
            rows
        }

        fn read(&self, path: &str) -> Option<String> {
            std::fs::read_to_string(self.folder.path().join(path)).ok()
        }

        #[track_caller]
        fn check(&self, words: &[&str], exit: ExitOutcome, message: &str) {
            let app = AppContext {
                config: EnvironmentConfig::for_test(self.folder.path()),
                terminal: Terminal::for_test(),
                tools: std::sync::Arc::new(std::sync::LazyLock::new(small_tools)),
                notifiers: std::sync::Arc::default(),
                console: std::sync::Arc::default(),
                gateway_locality: std::sync::Arc::default(),
            };
            let cli = Cli::try_parse_from(["zero", "undo"].iter().chain(words)).unwrap();
            let ended = crate::commands::run(&app, cli).unwrap();
            let output = app.terminal.out.written_text() + &app.terminal.err.written_text();
            assert_eq!(ended, exit, "{output}");
            assert!(output.contains(message), "{output}");
        }
    }

    #[test]
    fn undo_reverts_changes_one_by_one() {
        let f = UndoFixture::new();
        f.check(&[], ExitOutcome::Ok, "removed `new/b.txt`, which Write had created (change 2)");
        assert!(!f.folder.path().join("new").exists());
        f.check(
            &["--json"],
            ExitOutcome::Ok,
            r#"{"ok":true,"undone":{"id":1,"path":"a.txt","action":"change"}}"#,
        );
        assert_eq!(f.read("a.txt").as_deref(), Some("one"));
        f.check(&[], ExitOutcome::Error, "nothing to undo");
        f.check(&["--list"], ExitOutcome::Ok, "undo of 1");
        f.check(&["--list", "--json"], ExitOutcome::Ok, r#""undoes": 1"#);
        f.check(&["99"], ExitOutcome::Error, "there is no change 99");
    }

    #[test]
    fn repeated_undo_completes_the_interrupted_one_and_no_more() {
        let f = UndoFixture::new();
        let (older, newer) = (f.run_command("three"), f.run_command("four"));
        let begin_undo = || {
            let mut recorder = f.record_command(Some(newer));
            recorder.record_contents(&f.path("a.txt"));
            drop(recorder);
        };
        begin_undo();
        f.check(&["--list"], ExitOutcome::Ok, "undo interrupted");
        f.check(&["--list"], ExitOutcome::Ok, "`zero undo` completes it");
        f.check(&[], ExitOutcome::Ok, "had been interrupted and is complete now; nothing else");
        assert_eq!(f.read("a.txt").as_deref(), Some("three"));
        f.check(&["--list"], ExitOutcome::Ok, "can be undone");

        let redo = f.journal().1.newest_id().unwrap();
        f.check(&[&redo.to_string()], ExitOutcome::Ok, "undid change");
        assert_eq!(f.read("a.txt").as_deref(), Some("four"));
        let again = f.journal().1.newest_id().unwrap();
        let mut recorder = f.record_command(Some(again));
        recorder.record_contents(&f.path("a.txt"));
        drop(recorder);
        // Another change is asked for: the interrupted one is completed before it.
        f.check(&[&older.to_string()], ExitOutcome::Ok, "is complete now");
        assert_eq!(f.read("a.txt").as_deref(), Some("two"));
    }

    #[test]
    fn list_names_changes_that_cannot_be_restored_completely() {
        let f = UndoFixture::new();
        let mut recorder = f.record_command(None);
        recorder.record_contents(&f.path("a.txt"));
        std::fs::write(f.path("a.txt"), "three").unwrap();
        recorder.note_loss("`big` has 3 MB, too much to copy");
        recorder.finish().unwrap();
        f.check(&["--list"], ExitOutcome::Ok, "in part");
    }

    #[test]
    fn undo_refuses_file_changed_since_unless_forced() {
        let f = UndoFixture::new();
        std::fs::write(f.path("a.txt"), "three").unwrap();
        f.check(&["--list"], ExitOutcome::Ok, "changed since");
        let message = "`a.txt` was changed again after change 1, and not by a tool; pass `--yes`";
        f.check(&["1"], ExitOutcome::Denied, message);
        f.check(&["1", "--json"], ExitOutcome::Denied, r#""reason":"stale_file""#);
        assert_eq!(f.read("a.txt").as_deref(), Some("three"));
        f.check(&["1", "--yes"], ExitOutcome::Ok, "restored `a.txt`");
        assert_eq!(f.read("a.txt").as_deref(), Some("one"));
    }

    #[test]
    fn refused_undo_names_the_later_change() {
        let f = UndoFixture::new();
        f.change("a.txt", "three");
        let message = "by change 3; undo that first with `zero undo 3`, or pass `--yes`";
        f.check(&["1"], ExitOutcome::Denied, message);
        f.check(&["99"], ExitOutcome::Error, "`zero undo --list`");
    }

    #[test]
    fn undo_does_not_skip_newest_change() {
        let f = UndoFixture::new();
        std::fs::remove_file(f.path("new/b.txt")).unwrap();
        let message = "error: the newest change, 2 (Write `new/b.txt`), is no longer in effect: the file no longer exists; to undo the one before it, run `zero undo 1`";
        f.check(&[], ExitOutcome::Error, message);
        assert_eq!(f.read("a.txt").as_deref(), Some("two"));
        f.check(&["1"], ExitOutcome::Ok, "restored `a.txt`");
        f.check(&[], ExitOutcome::Error, "is no longer in effect: the file no longer exists\n");
        f.change("a.txt", "three");
        std::fs::write(f.path("a.txt"), "one").unwrap();
        f.check(
            &[],
            ExitOutcome::Error,
            "is no longer in effect: the file has its earlier content",
        );
    }

    #[test]
    fn undo_restores_deleted_file_only_if_forced() {
        let f = UndoFixture::new();
        std::fs::remove_file(f.path("a.txt")).unwrap();
        let message = "`a.txt` was deleted since; pass --yes to restore the earlier content";
        f.check(&["1"], ExitOutcome::Denied, message);
        f.check(&["1", "--yes"], ExitOutcome::Ok, "restored `a.txt`");
        assert_eq!(f.read("a.txt").as_deref(), Some("one"));
    }

    #[test]
    fn every_undo_is_audited() {
        let f = UndoFixture::new();
        std::fs::write(f.path("a.txt"), "three").unwrap();
        f.check(&[], ExitOutcome::Ok, "removed `new/b.txt`");
        f.check(&["1"], ExitOutcome::Denied, "was changed again");
        f.check(&["1", "--yes"], ExitOutcome::Ok, "restored `a.txt`");
        f.check(&["99"], ExitOutcome::Error, "there is no change 99");
        let seen: Vec<_> = f
            .audit()
            .into_iter()
            .map(|row| {
                let effect = &row.effects[0];
                let path = effect.target.rsplit('/').next().unwrap().to_owned();
                let answered = row.decision.and_then(|decision| decision.answered);
                (row.tool, row.status, effect.kind.clone(), path, answered)
            })
            .collect();
        let row = |status: &str, kind: &str, path: &str, answered: Option<&str>| {
            let answered = answered.map(str::to_owned);
            ("undo".to_owned(), status.to_owned(), kind.to_owned(), path.to_owned(), answered)
        };
        assert_eq!(
            seen,
            [
                row("ok", "delete", "b.txt", None),
                row("denied", "write", "a.txt", None),
                row("ok", "write", "a.txt", Some("--yes: allow once")),
            ]
        );
    }

    #[test]
    fn undo_of_large_change_works_under_raised_limit() {
        let f = UndoFixture::new();
        let tiny = ["1", "--limit", "file-size=2b"];
        f.check(&tiny, ExitOutcome::Error, "pass the same `--limit file-size=SIZE` as the call");
        f.check(&["1", "--limit", "file-size=1gb"], ExitOutcome::Ok, "restored `a.txt`");
    }

    #[test]
    fn undo_in_subfolder_names_folder_with_changes() {
        let f = UndoFixture::new();
        let message = format!("there are changes in `--workspace {}`", f.folder.path().display());
        f.check(&["--workspace", "new"], ExitOutcome::Error, &message);
    }
}
