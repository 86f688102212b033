//! The question whether a call may run, and what the user can answer.
//!
//! The question fits into the window; a key shows what is folded. One key answers; keys without
//! a meaning do nothing but show a hint once, and so do several keys at once, as a paste sends them. If rows of the command are folded, the keys that allow the call show all of
//! it first.

use std::io;

use zero_core::{CommandExecution, CommandLine};
use zero_policy::RuleOwner;
use zero_runtime::{ApprovalAnswer, ApprovalQuestion, ApprovalReply, REJECTION_CHARS_MAX};

use super::prompt_text::{self, FittedPrompt, PromptText};
use super::rule_file::RuleFile;
use crate::terminal::dialog::{
    KeyChoice, TextOutcome, UNKNOWN_KEY_NOTE, edit_text, question_rows, render_legend,
};
use crate::terminal::key::Key;
use crate::terminal::key_reader::{KeyPress, KeyReader};
use crate::terminal::live_area::LiveArea;
use crate::terminal::pager::show_pages;
use crate::terminal::text_field::{FieldLines, TextField};
use crate::terminal::{FAINT, STRONG, TerminalStream, escape_line, wrap_words};

const QUESTION: &str = "Allow?";
/// Empties the screen, and puts the cursor to its begin.
const ERASE_SCREEN: &str = "\x1b[H\x1b[2J";
/// Longest command that can be edited, in characters.
const COMMAND_CHARS_MAX: usize = 16_000;

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialogAction {
    Answer(ApprovalAnswer),
    AllowAlways,
    RejectWithMessage,
    EditCommand,
    TryCommand,
    ShowAll,
}

impl DialogAction {
    /// All actions, in the order in which they are offered.
    const ALL: [Self; 10] = [
        Self::Answer(ApprovalAnswer::AllowOnce),
        Self::Answer(ApprovalAnswer::AllowSession),
        Self::AllowAlways,
        Self::TryCommand,
        Self::EditCommand,
        Self::Answer(ApprovalAnswer::RejectOnce),
        Self::Answer(ApprovalAnswer::RejectSession),
        Self::Answer(ApprovalAnswer::RejectTool),
        Self::RejectWithMessage,
        Self::ShowAll,
    ];

    fn key(self) -> char {
        match self {
            Self::Answer(ApprovalAnswer::AllowOnce) => 'y',
            Self::Answer(ApprovalAnswer::AllowSession) => 's',
            Self::AllowAlways => 'a',
            Self::EditCommand => 'e',
            Self::Answer(ApprovalAnswer::RejectOnce) => 'n',
            Self::Answer(ApprovalAnswer::RejectSession) => 'd',
            Self::Answer(ApprovalAnswer::RejectTool) => 'b',
            Self::TryCommand => 't',
            Self::RejectWithMessage => 'r',
            Self::ShowAll => 'v',
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Answer(ApprovalAnswer::AllowOnce) => "allow once",
            Self::Answer(ApprovalAnswer::AllowSession) => "allow in this session",
            Self::AllowAlways => "allow always",
            Self::EditCommand => "edit the command",
            Self::Answer(ApprovalAnswer::RejectOnce) => "reject",
            Self::Answer(ApprovalAnswer::RejectSession) => "reject in this session",
            Self::Answer(ApprovalAnswer::RejectTool) => "block this tool",
            Self::TryCommand => "try it",
            Self::RejectWithMessage => "reject and say why",
            Self::ShowAll => "show all",
        }
    }

    /// Whether the call may run after it.
    fn is_allow(self) -> bool {
        match self {
            Self::Answer(answer) => answer.is_allow(),
            Self::AllowAlways | Self::TryCommand => true,
            Self::EditCommand | Self::RejectWithMessage | Self::ShowAll => false,
        }
    }
}

/// A question as it fits into the window.
struct FittedQuestion {
    text: PromptText,
    fitted: FittedPrompt,
    /// What the user can do.
    actions: Vec<DialogAction>,
}

/// One question to the user.
pub(super) struct ApprovalDialog {
    stream: TerminalStream,
    question: ApprovalQuestion,
    /// The rules of the grants.
    rules: Vec<String>,
    rule_files: Vec<RuleFile>,
}

impl ApprovalDialog {
    pub(super) fn new(
        stream: &TerminalStream,
        question: ApprovalQuestion,
        rule_files: Vec<RuleFile>,
    ) -> Self {
        let stream = stream.clone();
        let rules: Vec<String> = question.grants.iter().map(|grant| grant.rule.clone()).collect();
        let is_possible = |file: &RuleFile| {
            question.can_allow_always(file.owner()) && file.written_rules(&rules).is_some()
        };
        let rule_files = rule_files.into_iter().filter(is_possible).collect();
        Self { stream, question, rules, rule_files }
    }

    /// The question as it fits into the window.
    fn fit(&self) -> FittedQuestion {
        let text = prompt_text::render(&self.stream.fitted_to_window(), &self.question);
        // Whether a row is folded depends on the rows of the legend, which has one more key then.
        let mut actions = self.offered_actions();
        let window_rows = self.stream.window_size().rows;
        let room =
            |actions: &[DialogAction]| window_rows.saturating_sub(self.legend(actions).len() + 1);
        let mut fitted = text.fit(room(&actions));
        if fitted.folded > 0 {
            actions.push(DialogAction::ShowAll);
            fitted = text.fit(room(&actions));
        }
        FittedQuestion { text, fitted, actions }
    }

    fn legend(&self, actions: &[DialogAction]) -> Vec<String> {
        let choices = actions.iter().map(|one| KeyChoice::new(one.key(), one.label()));
        let columns = self.stream.window_size().columns;
        render_legend(&self.stream, &KeyChoice::numbered(choices), columns)
    }

    /// Shows the question and waits for the answer. A user who is gone rejects the call.
    pub(super) fn run(&self, keys: &KeyReader) -> io::Result<ApprovalReply> {
        let FittedQuestion { mut text, mut fitted, mut actions } = self.fit();
        let mut is_read = !fitted.folds_command;
        self.stream.write(&format!("{}\n", fitted.rows.join("\n")))?;
        let mut area = LiveArea::new(&self.stream);
        let prompt = self.stream.paint(STRONG, QUESTION).into_owned();
        let paint = |area: &mut LiveArea<'_>, actions: &[DialogAction], note: &str| {
            self.paint_question(area, keys, &self.legend(actions), QUESTION, note)
        };
        let mut note = String::new();
        keys.begin_question()?;
        paint(&mut area, &actions, &note)?;
        let mut has_hint = false;
        loop {
            let chosen = match keys.next_press()? {
                Some(KeyPress::Key(Key::Char(digit @ '1'..='9'))) => {
                    actions.get(digit as usize - '1' as usize).copied()
                }
                Some(KeyPress::Key(Key::Char(key))) => {
                    let key = key.to_ascii_lowercase();
                    actions.iter().copied().find(|action| action.key() == key)
                }
                Some(KeyPress::Key(Key::Repaint)) => {
                    if self.stream.fills_window() {
                        // Nothing on such a screen is kept by the terminal as it was.
                        FittedQuestion { text, fitted, actions } = self.fit();
                        is_read |= !fitted.folds_command;
                        self.stream
                            .write(&format!("{ERASE_SCREEN}{}\n", fitted.rows.join("\n")))?;
                        area = LiveArea::new(&self.stream);
                    }
                    paint(&mut area, &actions, &note)?;
                    continue;
                }
                Some(KeyPress::Key(Key::Ctrl('d'))) | None => {
                    let end = keys.describe_end("rejected");
                    area.finish(&format!("{prompt} {}", escape_line(&end)))?;
                    return Ok(ApprovalAnswer::RejectOnce.into());
                }
                Some(_) => None,
            };
            let Some(action) = chosen else {
                // Said once, and not again for each key.
                if !has_hint {
                    has_hint = true;
                    note = UNKNOWN_KEY_NOTE.to_owned();
                    paint(&mut area, &actions, &note)?;
                }
                continue;
            };
            note.clear();
            let reply = match action {
                action if action.is_allow() && !is_read => {
                    note = "this is the whole command; answer again".to_owned();
                    is_read = true;
                    show_pages(&self.stream, keys, &text.all_rows())?;
                    None
                }
                DialogAction::Answer(answer) => Some(answer.into()),
                DialogAction::ShowAll => {
                    is_read = true;
                    show_pages(&self.stream, keys, &text.all_rows())?;
                    if self.stream.appends_only() {
                        note = "this is all of it".to_owned();
                    }
                    None
                }
                DialogAction::TryCommand => Some(ApprovalReply::TryCommand),
                DialogAction::AllowAlways => self.ask_rule_file(&mut area, keys, &mut note)?,
                DialogAction::RejectWithMessage => {
                    let field = TextField::new("", REJECTION_CHARS_MAX, FieldLines::One);
                    let reason = self.ask_text(&mut area, keys, "Why?", field)?;
                    reason.map(|reason| match reason.trim() {
                        "" => ApprovalAnswer::RejectOnce.into(),
                        reason => ApprovalReply::RejectWithMessage(reason.to_owned()),
                    })
                }
                DialogAction::EditCommand => {
                    let command = self.editable_command().unwrap_or_default();
                    let field = TextField::new(command, COMMAND_CHARS_MAX, FieldLines::Many);
                    let edited = self.ask_text(&mut area, keys, "Run", field)?;
                    match edited.filter(|edited| !edited.trim().is_empty()) {
                        Some(edited) if edited == command => {
                            note = "the command is unchanged".to_owned();
                            None
                        }
                        edited => edited.map(ApprovalReply::EditCommand),
                    }
                }
            };
            if let Some(reply) = reply {
                let done = escape_line(&describe_reply(&reply)).into_owned();
                area.finish(&format!("{prompt} {done}"))?;
                return Ok(reply);
            }
            keys.discard()?;
            paint(&mut area, &actions, &note)?;
        }
    }

    /// What the user can do, without the key that shows all.
    fn offered_actions(&self) -> Vec<DialogAction> {
        let is_offered = |action: &DialogAction| match action {
            DialogAction::Answer(answer) => self.question.has_option(*answer),
            DialogAction::AllowAlways => !self.rule_files.is_empty(),
            DialogAction::EditCommand => self.editable_command().is_some(),
            DialogAction::TryCommand => self.question.can_try_command,
            DialogAction::RejectWithMessage => true,
            DialogAction::ShowAll => false,
        };
        DialogAction::ALL.into_iter().filter(is_offered).collect()
    }

    fn editable_command(&self) -> Option<&str> {
        let command = self.question.commands().next().filter(|_| self.question.can_edit_command);
        match command {
            Some(CommandExecution { command: CommandLine::Shell(line), .. })
                if line.chars().count() <= COMMAND_CHARS_MAX =>
            {
                Some(line)
            }
            _ => None,
        }
    }

    fn paint_question(
        &self,
        area: &mut LiveArea<'_>,
        keys: &KeyReader,
        legend: &[String],
        question: &str,
        note: &str,
    ) -> io::Result<()> {
        let question = question_rows(&self.stream, keys, question, note);
        let rows: Vec<String> = legend.iter().cloned().chain(question).collect();
        area.paint(&rows, None)
    }

    /// Asks which settings file the rules are for, and adds them. `None` if the user goes back, or
    /// if the file cannot be changed.
    fn ask_rule_file(
        &self,
        area: &mut LiveArea<'_>,
        keys: &KeyReader,
        note: &mut String,
    ) -> io::Result<Option<ApprovalReply>> {
        let key = |file: &RuleFile| match file.owner() {
            RuleOwner::User => 'u',
            RuleOwner::Project => 'p',
        };
        let choices: Vec<KeyChoice> = self
            .rule_files
            .iter()
            .map(|file| KeyChoice::new(key(file), file.describe(&self.rules)))
            .chain([KeyChoice::new('q', "back")])
            .collect();
        let render = || self.rule_file_rows(&choices);
        let count = self.question.grants.len();
        let what = if count == 1 { "Add the rule to?" } else { "Add the rules to?" };
        keys.begin_question()?;
        self.paint_question(area, keys, &render(), what, "")?;
        let mut has_hint = false;
        loop {
            let pressed = match keys.next_press()? {
                None | Some(KeyPress::Key(Key::Escape | Key::Char('q') | Key::Ctrl('d'))) => {
                    return Ok(None);
                }
                Some(KeyPress::Key(Key::Char(pressed))) => Some(pressed.to_ascii_lowercase()),
                Some(KeyPress::Key(Key::Repaint)) => {
                    let note = if has_hint { UNKNOWN_KEY_NOTE } else { "" };
                    self.paint_question(area, keys, &render(), what, note)?;
                    continue;
                }
                Some(_) => None,
            };
            let Some(file) = self.rule_files.iter().find(|file| Some(key(file)) == pressed) else {
                if !has_hint {
                    has_hint = true;
                    self.paint_question(area, keys, &render(), what, UNKNOWN_KEY_NOTE)?;
                }
                continue;
            };
            let rules = file.written_rules(&self.rules).unwrap_or_default();
            return Ok(match file.add_rules(rules) {
                Ok(()) => Some(ApprovalReply::AllowAlways { file: file.shown().to_owned() }),
                Err(why) => {
                    *note = why;
                    None
                }
            });
        }
    }

    /// What the rules would be in each file, and the keys.
    fn rule_file_rows(&self, choices: &[KeyChoice]) -> Vec<String> {
        let size = self.stream.window_size();
        let mut rows = Vec::new();
        let mut push_hint = |text: &str| {
            let wrapped = wrap_words(&escape_line(text), size.columns.saturating_sub(3));
            rows.extend(wrapped.iter().map(|row| format!("  {}", self.stream.paint(FAINT, row))));
        };
        for file in &self.rule_files {
            let written = file.written_rules(&self.rules).unwrap_or_default();
            if written != self.rules {
                push_hint(&format!("in {}: {}", file.shown(), written.join(", ")));
            }
        }
        let has_project = self.rule_files.iter().any(|file| file.owner() == RuleOwner::Project);
        if !has_project && self.question.can_allow_always(RuleOwner::Project) {
            push_hint(
                "not this project's settings: they cannot allow anything until you trust the folder with `zero trust`",
            );
        }
        rows.extend(render_legend(&self.stream, choices, size.columns));
        rows
    }

    /// Lets the user type a text; `None` if they go back.
    fn ask_text(
        &self,
        area: &mut LiveArea<'_>,
        keys: &KeyReader,
        label: &str,
        mut field: TextField,
    ) -> io::Result<Option<String>> {
        let hint = "Enter: done; Esc: back";
        Ok(match edit_text(area, &self.stream, keys, label, hint, &mut field)? {
            TextOutcome::Submitted => Some(field.text()),
            TextOutcome::Cancelled | TextOutcome::Ended => None,
        })
    }
}

/// The reply in the words of the user.
fn describe_reply(reply: &ApprovalReply) -> String {
    match reply {
        ApprovalReply::Answer(ApprovalAnswer::AllowOnce) => "allowed once".to_owned(),
        ApprovalReply::Answer(ApprovalAnswer::AllowSession) => "allowed in this session".to_owned(),
        ApprovalReply::Answer(ApprovalAnswer::RejectOnce) => "rejected".to_owned(),
        ApprovalReply::Answer(ApprovalAnswer::RejectSession) => {
            "rejected in this session".to_owned()
        }
        ApprovalReply::Answer(ApprovalAnswer::RejectTool) => {
            "rejected, and every call of this tool".to_owned()
        }
        ApprovalReply::AllowAlways { file } => format!("allowed always, by {file}"),
        ApprovalReply::RejectWithMessage(message) => format!("rejected: {message}"),
        ApprovalReply::TryCommand => "tried; you decide about its changes".to_owned(),
        ApprovalReply::EditCommand(_) => "edited; zero checks the new command".to_owned(),
    }
}

#[cfg(test)]
mod tests;
