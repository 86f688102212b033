//! A command that the user tries: it runs recorded, the user sees what it changed, then keeps or
//! discards that.
//!
//! A trial can change nothing but the workspace: no host, no other folder and no repository is open to
//! it, so that everything it changes is in the journal. Until the user has said to keep the changes,
//! whatever ends the call discards them.

use std::path::{Component, Path};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use zero_core::event::ResultContent;
use zero_core::text_shortening::{TextFocus, shorten_middle};
use zero_core::{
    CallId, Effect, Effects, ErrorReason, ErrorType, SecretMask, ToolError, ToolResult,
};
use zero_policy::{CommandAccess, EffectDecision};
use zero_sandbox::command_capture;
use zero_sandbox::journal::{ChangedFile, FileContents, UndoConflictPolicy};
use zero_sandbox::{ChangeState, Journal, JournalEntry, Workspace};

use crate::approver::{
    Approver, TRIAL_DISCARDED, TRIAL_DISCARDED_IN_PART, TrialReview, TrialVerdict,
};
use crate::dialect;
use crate::policy::PolicyDecision;

/// Most files whose change is shown.
const FILES_SHOWN_MAX: usize = 200;
/// Most bytes of the command's output that are shown.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// How long the end of a command that was killed is waited for.
const END_WAIT_MAX: Duration = Duration::from_secs(130);
/// The same where the thread has to wait.
const DROP_WAIT_MAX: Duration = Duration::from_secs(10);
const END_PAUSE: Duration = Duration::from_millis(20);

/// Whether everything that the command of a call can change could be taken back.
pub(crate) fn is_possible(
    effects: &Effects,
    decision: &PolicyDecision,
    workspace: &Workspace,
) -> bool {
    let CommandAccess { git_settings, registries, repositories, .. } =
        decision.access.clone().unwrap_or_default();
    let has_plain_access =
        git_settings.is_empty() && registries.is_empty() && repositories.is_empty();
    let needs_more = |effect: &Effect| {
        effect
            .execution()
            .is_some_and(|execution| execution.network_access || execution.outside_sandbox)
    };
    let is_inside = |effect: &EffectDecision| match effect.kind {
        "exec" | "read" => true,
        "write" | "delete" => {
            let path = workspace.cwd().join(Path::new(&effect.target));
            let is_plain = !path.components().any(|part| part == Component::ParentDir);
            is_plain && workspace.roots().any(|root| path.starts_with(root))
        }
        // Hosts, engines, secrets that are sent out: whatever it is, it is not in the journal.
        _ => false,
    };
    has_plain_access
        && !effects.iter().any(needs_more)
        && decision.effects.iter().all(is_inside)
        && command_capture::is_available()
}

/// A trial from its start until its changes are kept or discarded. Dropping it discards them.
pub(crate) struct CommandTrial {
    journal: Journal,
    call: CallId,
    /// The newest change before the command.
    first: u64,
    /// The changes that the user was shown.
    shown: Vec<u64>,
    is_kept: bool,
}

/// How a trial ended.
pub(crate) struct TrialEnd {
    /// What became of it, for the audit log.
    pub(crate) answered: &'static str,
    /// What the model gets.
    pub(crate) outcome: Result<ToolResult, ToolError>,
}

impl CommandTrial {
    pub(crate) fn begin(journal: &Journal, call: &CallId) -> Result<Self, ToolError> {
        let first = journal.newest_id()?;
        Ok(Self {
            journal: journal.clone(),
            call: call.clone(),
            first,
            shown: Vec::new(),
            is_kept: false,
        })
    }

    /// Shows the user what the command changed, and does what they say. Without an answer, the changes
    /// are discarded.
    pub(crate) async fn review(
        mut self,
        approver: &dyn Approver,
        title: &str,
        outcome: Result<ToolResult, ToolError>,
        secrets: &SecretMask,
        cancel: &CancellationToken,
    ) -> TrialEnd {
        self.wait_for_end().await;
        let described = self.describe(title, &outcome, secrets);
        let has_losses = described.as_ref().is_ok_and(|review| !review.losses.is_empty());
        let verdict = match described {
            Ok(review) => tokio::select! {
                biased;
                () = cancel.cancelled() => Ok(TrialVerdict::Discard),
                verdict = approver.review_trial(&review) => Ok(verdict),
            },
            Err(error) => Err(error),
        };
        match verdict {
            Ok(TrialVerdict::Keep) => {
                self.is_kept = true;
                TrialEnd { answered: "try it, then keep", outcome }
            }
            verdict => {
                let discarded = self.discard();
                let (answered, message) = match (&verdict, discarded) {
                    (_, Err(left)) => ("try it, then discard, which failed", left),
                    (Err(error), Ok(())) => {
                        let what = format!(
                            "the changes could not be shown and were discarded: {}",
                            error.message
                        );
                        ("try it, then discard", what)
                    }
                    (Ok(_), Ok(())) if has_losses => (
                        "try it, then discard, except for losses",
                        TRIAL_DISCARDED_IN_PART.to_owned(),
                    ),
                    (Ok(_), Ok(())) => ("try it, then discard", TRIAL_DISCARDED.to_owned()),
                };
                let error = ToolError::new(
                    ErrorType::PermissionDenied,
                    ErrorReason::Rejected,
                    format!("{title}: {message}"),
                );
                TrialEnd { answered, outcome: Err(error) }
            }
        }
    }

    /// Waits until the changes of a command that was killed are stored: before, nothing can be taken
    /// back.
    async fn wait_for_end(&self) {
        let until = Instant::now() + END_WAIT_MAX;
        while Instant::now() < until && self.is_running() {
            tokio::time::sleep(END_PAUSE).await;
        }
    }

    fn is_running(&self) -> bool {
        let is_running = |entry: &JournalEntry| entry.state == ChangeState::InProgress;
        self.list_changes().is_ok_and(|entries| entries.iter().any(is_running))
    }

    fn describe(
        &mut self,
        title: &str,
        outcome: &Result<ToolResult, ToolError>,
        secrets: &SecretMask,
    ) -> Result<TrialReview, ToolError> {
        let mut review = TrialReview {
            call: self.call.clone(),
            title: secrets.mask_text(title).into_owned(),
            output: describe_outcome(outcome),
            files: Vec::new(),
            file_count: 0,
            losses: Vec::new(),
        };
        for entry in self.list_changes()? {
            self.shown.push(entry.id);
            let left = FILES_SHOWN_MAX.saturating_sub(review.files.len());
            let (files, count) = self.journal.changed_files(entry.id, left)?;
            review.files.extend(files.into_iter().map(|file| mask_file(file, secrets)));
            review.file_count += count;
            review.losses.extend(entry.totals.into_iter().flat_map(|totals| totals.losses));
        }
        Ok(review)
    }

    /// The changes of the call that are in effect, oldest first.
    fn list_changes(&self) -> Result<Vec<JournalEntry>, ToolError> {
        let ids = self.journal.ids_after(self.first)?;
        // An entry of another call that cannot be read is no reason to keep these changes.
        let mut entries: Vec<JournalEntry> =
            ids.iter().filter_map(|id| self.journal.entry(*id).ok()).collect();
        entries.retain(|entry| {
            entry.call == self.call.as_str()
                && entry.undoes.is_none()
                && !matches!(entry.state, ChangeState::Undone | ChangeState::NotApplied)
        });
        Ok(entries)
    }

    /// Takes the changes back, the newest first. Fails with what is left and what to do.
    fn discard(&mut self) -> Result<(), String> {
        // Nothing is tried twice: failures are reported, and `zero undo` can undo the changes.
        self.is_kept = true;
        let entries = self.list_changes().map_err(|error| {
            format!(
                "the user discarded the changes, but they could not be found: {}; see `zero undo --list`",
                error.message
            )
        })?;
        let is_there = |id: &u64| entries.iter().any(|entry| entry.id == *id);
        if !self.shown.iter().all(is_there) {
            return Err(
                "the user discarded the changes, but the earlier content is no longer recorded; see `zero undo --list`"
                    .to_owned(),
            );
        }
        let (mut left, mut failure) = (Vec::new(), None);
        for entry in entries.iter().rev() {
            let undone = match self.journal.is_set(entry.id) {
                true => self.journal.undo_set(entry.id, UndoConflictPolicy::Refuse).map(drop),
                false => self.journal.undo(entry.id, UndoConflictPolicy::Refuse).map(drop),
            };
            if let Err(error) = undone {
                left.push(entry.id.to_string());
                failure.get_or_insert(error);
            }
        }
        match failure {
            None => Ok(()),
            Some(error) => Err(format!(
                "the user tried this command and discarded its changes, but not all could be taken back: {}; revert the rest with `zero undo ID` ({})",
                error.message,
                left.join(", ")
            )),
        }
    }
}

impl Drop for CommandTrial {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // The command may just have been killed, and its changes are stored in a moment.
        let until = Instant::now() + DROP_WAIT_MAX;
        while Instant::now() < until && self.is_running() {
            std::thread::sleep(END_PAUSE);
        }
        if let Err(left) = self.discard() {
            tracing::error!(call = %self.call, "a trial ended without an answer: {left}");
        }
    }
}

fn describe_outcome(outcome: &Result<ToolResult, ToolError>) -> String {
    let pieces = dialect::render_plain(&outcome.clone().into());
    let text = pieces.iter().filter_map(|piece| match piece {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image { .. } => None,
    });
    let text = text.collect::<Vec<_>>().join("\n");
    shorten_middle(&text, OUTPUT_BYTES_MAX, TextFocus::End, |cut| format!("\n[{cut} bytes]\n"))
        .into_owned()
}

fn mask_file(mut file: ChangedFile, secrets: &SecretMask) -> ChangedFile {
    for contents in [&mut file.before, &mut file.after] {
        if let FileContents::Text(text) | FileContents::Symlink(text) = contents {
            secrets.mask_string(text);
        }
    }
    file
}
