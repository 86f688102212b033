//! What keys do.

use tokio::time::Instant;
use zero_client::OverlapPolicy;
use zero_terminal::input_event::{InputEvent, KeyCode, KeyStroke};

use super::{ChatLoop, DRAFT_WAIT, RepeatKey, TWICE_WAIT};
use crate::chat_command::COMMANDS;
use crate::completion_menu::{Suggestion, rank_files};
use crate::composer::{CompletionTokenKind, ComposerEvent};

impl ChatLoop {
    pub(super) fn handle_input(&mut self, event: InputEvent) {
        self.status.hint = None;
        if matches!(event, InputEvent::Key(_) | InputEvent::Paste(_)) {
            self.typed_at = Some(Instant::now());
        }
        match event {
            InputEvent::Key(stroke) => self.handle_key(stroke),
            InputEvent::Paste(text) => match self.composer.paste(&text) {
                ComposerEvent::Refused => self.refuse_text(),
                _ => self.note_edit(),
            },
            InputEvent::FocusGained => self.is_focused = true,
            InputEvent::FocusLost => self.is_focused = false,
            InputEvent::CursorReport { .. }
            | InputEvent::KeyboardReport
            | InputEvent::DeviceAttributes
            | InputEvent::Unknown => {}
        }
        // Who pressed a key waits for it.
        self.paint_at = Some(Instant::now());
    }

    fn handle_key(&mut self, stroke: KeyStroke) {
        if self.menu.is_open() && self.apply_to_menu(stroke) {
            return;
        }
        match self.composer.apply(stroke) {
            ComposerEvent::Edited => self.note_edit(),
            ComposerEvent::Submit => self.submit_composer(OverlapPolicy::Queue),
            ComposerEvent::SubmitNow => self.submit_composer(OverlapPolicy::Replace),
            ComposerEvent::Ignored => self.handle_other_key(stroke),
            ComposerEvent::Abandoned => {}
            ComposerEvent::Refused => self.refuse_text(),
        }
    }

    /// Lets the open menu have a key; false if it has no use for it.
    fn apply_to_menu(&mut self, stroke: KeyStroke) -> bool {
        match stroke {
            KeyStroke { code: KeyCode::Tab, shift: false, .. } => self.accept_suggestion(),
            KeyStroke { code: KeyCode::Enter, ctrl: false, alt: false, shift: false } => {
                // A command that is complete is sent.
                let is_complete = self.menu.selected().is_some_and(|selected| {
                    selected.replacement.starts_with('/')
                        && self.composer.text().trim_end() == selected.replacement
                });
                if is_complete {
                    return false;
                }
                self.accept_suggestion();
            }
            KeyStroke { code: KeyCode::Up, .. } => self.menu.select(false),
            KeyStroke { code: KeyCode::Down, .. } => self.menu.select(true),
            KeyStroke { code: KeyCode::Escape, .. } => self.menu.close(),
            _ => return false,
        }
        true
    }

    fn accept_suggestion(&mut self) {
        if let Some(selected) = self.menu.selected() {
            let replacement = format!("{} ", selected.replacement);
            self.composer.complete(&replacement);
            self.note_edit();
        }
    }

    fn handle_other_key(&mut self, stroke: KeyStroke) {
        let KeyStroke { code, ctrl, shift, .. } = stroke;
        match code {
            KeyCode::Char('c') if ctrl => self.interrupt(),
            KeyCode::Char('d') if ctrl => self.leaving = true,
            KeyCode::Char('t') if ctrl => self.show_transcript(),
            KeyCode::Char('l') if ctrl => self.paint_soon(),
            KeyCode::Char('g') if ctrl => self.edit_in_editor(),
            KeyCode::Escape => self.escape(),
            KeyCode::Tab if shift => self.cycle_mode(),
            _ => {}
        }
    }

    /// Whether a key is pressed the second time within a short while.
    fn is_second_press(&mut self, key: RepeatKey) -> bool {
        let now = Instant::now();
        let is_second =
            self.pressed.is_some_and(|(pressed, at)| pressed == key && now < at + TWICE_WAIT);
        self.pressed = if is_second { None } else { Some((key, now)) };
        is_second
    }

    /// Ctrl-C: empties the input, stops the run, or leaves if it is pressed twice.
    fn interrupt(&mut self) {
        if !self.composer.is_empty() {
            self.composer.clear();
            self.note_edit();
        } else if self.is_second_press(RepeatKey::Interrupt) {
            self.leaving = true;
        } else {
            let is_running = self.stop_run();
            let what = if is_running { "stopping; " } else { "" };
            self.status.hint = Some(format!("{what}press Ctrl-C again to leave"));
        }
    }

    /// Escape: stops the run; twice on an empty line, goes back to an earlier prompt.
    fn escape(&mut self) {
        if self.stop_run() {
            self.status.hint = Some("stopping".to_owned());
        } else if self.composer.is_empty() && self.is_second_press(RepeatKey::Escape) {
            self.composer.set_text("/rewind ");
            self.note_edit();
        }
    }

    fn refuse_text(&mut self) {
        self.status.hint =
            Some("the text is too long; put it into a file and mention it with @".to_owned());
    }

    pub(super) fn note_edit(&mut self) {
        self.draft_at = Some(Instant::now() + DRAFT_WAIT);
        self.refresh_menu();
    }

    /// Shows suggestions for the word before the cursor.
    pub(super) fn refresh_menu(&mut self) {
        let Some(token) = self.composer.completion_token() else {
            self.menu.hide();
            return;
        };
        let typed = token.query;
        match token.kind {
            CompletionTokenKind::Command => {
                let suggestions = self.suggest_commands(&typed);
                self.menu.show(&format!("/{typed}"), suggestions);
            }
            CompletionTokenKind::Path => {
                if self.files.is_none() && !self.is_listing_files {
                    self.spawn_file_listing();
                }
                let files = rank_files(self.files.as_deref().unwrap_or_default(), &typed);
                let suggestions = files.into_iter().map(|file| Suggestion {
                    replacement: match file.contains(char::is_whitespace) {
                        true => format!("@\"{file}\""),
                        false => format!("@{file}"),
                    },
                    about: String::new(),
                });
                self.menu.show(&format!("@{typed}"), suggestions.collect());
            }
        }
    }

    fn suggest_commands(&self, typed: &str) -> Vec<Suggestion> {
        let own = COMMANDS.iter().map(|command| (command.name, command.about));
        let known = |name: &str| COMMANDS.iter().any(|command| command.name == name);
        let session = self
            .session
            .choices
            .commands
            .iter()
            .filter(|command| !known(&command.name))
            .map(|command| (command.name.as_str(), command.description.as_str()));
        let typed = typed.to_lowercase();
        own.chain(session)
            .filter(|(name, _)| name.to_lowercase().starts_with(&typed))
            .map(|(name, about)| Suggestion {
                replacement: format!("/{name}"),
                about: about.to_owned(),
            })
            .collect()
    }
}
