//! The answer to `/rewind`: the prompts of the session, or what a rewind did, in words.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use zero_core::RunId;
use zero_runtime::file_rewind::FileRewindReport;

use crate::rewind_arguments::{RewindArguments, RewindTarget};
use crate::sessions::rewind::{PromptSummary, RewindOptions, RewindOutcome};
use crate::sessions::{Prompt, PromptAuthority, SessionManagerInner, run_detached};
use crate::store::SessionRecord;

/// Most prompts, changes and conflicts that an answer lists; of prompts, the newest.
const LISTED_MAX: usize = 30;

impl SessionManagerInner {
    /// Rewinds on behalf of a prompt, or lists the prompts. Errors are answers too.
    pub(super) async fn answer_rewind(
        self: &Arc<Self>,
        record: &SessionRecord,
        arguments: RewindArguments,
        prompt: &Prompt,
        run: &RunId,
    ) -> String {
        let address = record.address();
        let Some(target) = arguments.target else {
            return match self.list_prompts(&address).await {
                Ok(prompts) => describe_prompts(&prompts),
                Err(error) => error.to_string(),
            };
        };
        if arguments.overwrite && prompt.leave == PromptAuthority::PromptOnly {
            return "Nothing was done: only users who may answer approvals may overwrite later changes of files."
                .to_owned();
        }
        let options = RewindOptions {
            target,
            scope: arguments.scope,
            overwrite: arguments.overwrite,
            folder_access: prompt.folder_access.clone(),
        };
        // A run that is stopped must not leave a rewind half done.
        let (inner, run) = (Arc::clone(self), run.clone());
        let rewound =
            run_detached(async move { inner.rewind(&address, options, Some(&run)).await });
        match rewound.await {
            Ok(outcome) => outcome.describe(target),
            Err(error) => format!("Nothing was rewound: {error}"),
        }
    }
}

impl RewindOutcome {
    /// What happened, in Markdown.
    pub fn describe(&self, target: RewindTarget) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let mut line = |words: String| {
            let _ = writeln!(text, "{words}");
        };
        let point = match &self.prompt {
            Some((number, words)) => format!("before prompt {number} (“{words}”)"),
            None => "before the last rewind".to_owned(),
        };
        if !self.is_done {
            line(
                "Nothing was touched: these files were changed by another program since."
                    .to_owned(),
            );
        } else if target == RewindTarget::LastRewind {
            line(format!("The last rewind is taken back ({}).", self.scope.describe()));
        } else {
            line(format!("The session is as it was {point}: {}.", self.scope.describe()));
        }
        if let Some(files) = &self.files {
            match self.is_done {
                true => describe_changes(files, &mut line),
                false => describe_conflicts(files, &mut line),
            }
        }
        for note in &self.unrecorded {
            line(format!("- Note: {note}."));
        }
        if self.is_done && target != RewindTarget::LastRewind {
            line("`/rewind undo` takes this back.".to_owned());
        }
        text
    }
}

fn describe_changes(files: &FileRewindReport, line: &mut impl FnMut(String)) {
    if files.change_count == 0 {
        line("- No recorded change of a file was in effect.".to_owned());
    }
    for change in files.changes.iter().take(LISTED_MAX) {
        let subject = &change.subject;
        line(match change.action.as_str() {
            "create" => format!("- removed `{subject}`"),
            "command" => format!("- took back what `{subject}` changed ({} paths)", change.files),
            _ => format!("- restored `{subject}`"),
        });
    }
    let left = files.change_count.saturating_sub(LISTED_MAX as u64);
    if left > 0 {
        line(format!("- and {left} more"));
    }
}

fn describe_conflicts(files: &FileRewindReport, line: &mut impl FnMut(String)) {
    for conflict in files.conflicts.iter().take(LISTED_MAX) {
        line(format!("- `{}`: {} since", conflict.path, conflict.what));
    }
    let left = files.conflict_count.saturating_sub(LISTED_MAX as u64);
    if left > 0 {
        line(format!("- and {left} more"));
    }
    line("To overwrite them, add `force`; what is overwritten is recorded. To leave files alone, add `conversation`.".to_owned());
}

fn describe_prompts(prompts: &[PromptSummary]) -> String {
    if prompts.is_empty() {
        return "There is no prompt to rewind to yet.".to_owned();
    }
    let mut text = String::from("Prompts of this session:\n");
    let skipped = prompts.len().saturating_sub(LISTED_MAX);
    for prompt in prompts.iter().skip(skipped) {
        let _ = writeln!(text, "- {}", prompt.describe());
    }
    text.push_str("\n`/rewind NUMBER` takes files and conversation back to before a prompt; add `files` or `conversation` to take back only these.");
    text
}

impl PromptSummary {
    /// One line about it.
    fn describe(&self) -> String {
        let time = Timestamp::from_millisecond(self.time_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let time = time.strftime("%Y-%m-%d %H:%M");
        let taken_back = if self.is_in_effect { "" } else { ", taken back" };
        let commands = match self.commands {
            0 => String::new(),
            1 => ", 1 command".to_owned(),
            count => format!(", {count} commands"),
        };
        let files = match self.files {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        format!("{}. {time}: “{}” ({files}{commands}{taken_back})", self.number, self.words)
    }
}
