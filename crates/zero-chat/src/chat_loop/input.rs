//! What keys do.

use tokio::time::Instant;
use zero_client::OverlapPolicy;
use zero_terminal::input_event::{InputEvent, KeyCode, KeyStroke};

use super::{ChatLoop, DRAFT_WAIT, RepeatKey, TWICE_WAIT};
use crate::chat_command::{COMMANDS, ChatCommand};
use crate::completion_menu::{Suggestion, rank_command, rank_files};
use crate::composer::{CompletionTokenKind, ComposerEvent};

/// What Escape does next.
const ESCAPE_HINT: &str = "press Esc again to go back to an earlier prompt";

impl ChatLoop {
    pub(super) fn handle_input(&mut self, event: InputEvent) {
        self.status.hint = None;
        if matches!(event, InputEvent::Key(_) | InputEvent::Paste(_)) {
            self.typed_at = Some(Instant::now());
            self.focus.note_key();
            self.enter_waits = false;
        }
        // Only keys that follow each other are one that is pressed twice.
        if !event_is_repeatable(&event) {
            self.pressed = None;
        }
        match event {
            InputEvent::Key(stroke) if self.is_transcript_shown() => self.handle_view_key(stroke),
            InputEvent::Paste(text) if self.is_transcript_shown() => self.paste_into_view(&text),
            InputEvent::Wheel { is_up } => self.turn_wheel(is_up),
            InputEvent::Key(stroke) => self.handle_key(stroke),
            // Some terminals paste content that is not text in this way.
            InputEvent::Paste(text) if text.is_empty() => self.spawn_clipboard_read(),
            InputEvent::Paste(text) => match self.composer.paste(&self.mention_images(&text)) {
                ComposerEvent::Refused => self.refuse_text(),
                _ => self.note_edit(),
            },
            InputEvent::FocusGained => self.focus.report(true),
            InputEvent::FocusLost => self.focus.report(false),
            InputEvent::CursorReport { .. }
            | InputEvent::KeyboardReport
            | InputEvent::DeviceAttributes
            | InputEvent::Unknown => {}
            InputEvent::Background { is_light } => self.learn_background(is_light),
        }
        // Who pressed a key waits for it.
        self.paint_at = Some(Instant::now());
    }

    /// Uses colors that can be read on the background from now on.
    fn learn_background(&mut self, is_light: bool) {
        self.config.stream.set_background(is_light);
        if let Some(full) = &mut self.full {
            full.view.forget_rows();
        }
    }

    fn handle_key(&mut self, stroke: KeyStroke) {
        if self.menu.is_open() && self.apply_to_menu(stroke) {
            return;
        }
        if is_plain_enter(stroke) && self.is_mention_pending() {
            // It means a file that will be shown in a moment.
            self.enter_waits = true;
            self.status.hint = Some("looking for files".to_owned());
            return;
        }
        match self.composer.apply(stroke) {
            ComposerEvent::Edited => self.note_edit(),
            ComposerEvent::Submit => self.submit_composer(OverlapPolicy::Queue),
            ComposerEvent::SubmitNow => self.submit_composer(OverlapPolicy::Steer),
            ComposerEvent::Ignored => self.handle_other_key(stroke),
            ComposerEvent::Abandoned => {}
            ComposerEvent::Refused => self.refuse_text(),
        }
    }

    /// Lets the open menu have a key; false if it has no use for it.
    fn apply_to_menu(&mut self, stroke: KeyStroke) -> bool {
        match stroke {
            KeyStroke { code: KeyCode::Tab, shift: false, .. } => self.accept_suggestion(),
            stroke if is_plain_enter(stroke) => {
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

    /// Whether a file is being mentioned, and the files are not listed yet.
    fn is_mention_pending(&self) -> bool {
        let token = self.composer.completion_token();
        self.is_listing_files
            && self.files.is_none()
            && token.is_some_and(|token| token.kind == CompletionTokenKind::Path)
    }

    /// The files are listed: an Enter that was pressed before counts now.
    pub(super) fn apply_waiting_enter(&mut self) {
        if !std::mem::take(&mut self.enter_waits) {
            return;
        }
        self.status.hint = None;
        match self.menu.is_open() {
            true => self.accept_suggestion(),
            false => self.submit_composer(OverlapPolicy::Queue),
        }
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
            KeyCode::Char('v') if ctrl => self.spawn_clipboard_read(),
            KeyCode::Up if stroke.alt => self.recall_queued(),
            KeyCode::PageUp => _ = self.scroll_page(true),
            KeyCode::PageDown => _ = self.scroll_page(false),
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
    pub(super) fn interrupt(&mut self) {
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
        } else if self.composer.is_empty() {
            match self.is_second_press(RepeatKey::Escape) {
                true => self.run_command(ChatCommand::Rewind),
                false => self.status.hint = Some(ESCAPE_HINT.to_owned()),
            }
        }
    }

    /// A paste that is nothing but paths of images, as when they are dropped on the window, mentions
    /// them: they are then read under the rules for reading.
    fn mention_images(&self, pasted: &str) -> String {
        let Some(paths) = pasted_paths(pasted) else { return pasted.to_owned() };
        if !paths.iter().all(|path| self.config.host.is_image(path)) {
            return pasted.to_owned();
        }
        let mentions = paths.iter().map(|path| mention(path));
        mentions.collect::<Vec<_>>().join(" ") + " "
    }

    /// Takes the last prompt that waits back into the input, to be edited.
    fn recall_queued(&mut self) {
        let Some((run, text)) = self.transcript.last_queued() else {
            self.status.hint = Some("no prompt waits".to_owned());
            return;
        };
        let (run, text) = (run.clone(), text.to_owned());
        self.transcript.withdraw_queued(&run);
        self.spawn_abort(run.as_str().to_owned());
        self.return_text(&text);
    }

    pub(super) fn refuse_text(&mut self) {
        self.status.hint =
            Some("the text is too long; put it into a file and mention it with @".to_owned());
    }

    pub(super) fn note_edit(&mut self) {
        self.draft_at = Some(Instant::now() + DRAFT_WAIT);
        self.refresh_menu();
    }

    /// Shows suggestions for the word before the cursor.
    pub(super) fn refresh_menu(&mut self) {
        // Output that is only appended cannot show suggestions.
        let token = self.composer.completion_token().filter(|_| !self.is_plain());
        let Some(token) = token else {
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
                let suggestions = files
                    .into_iter()
                    .map(|file| Suggestion { replacement: mention(file), about: String::new() });
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
        let mut fitting: Vec<_> = own
            .chain(session)
            .filter_map(|(name, about)| Some((rank_command(name, typed)?, name, about)))
            .collect();
        fitting.sort_by_key(|(rank, ..)| *rank);
        let suggest = |(_, name, about): (_, &str, &str)| Suggestion {
            replacement: format!("/{name}"),
            about: about.to_owned(),
        };
        fitting.into_iter().map(suggest).collect()
    }
}

/// Whether a key does something else when it is pressed twice, or is no key at all.
fn event_is_repeatable(event: &InputEvent) -> bool {
    match event {
        InputEvent::Key(KeyStroke { code, ctrl, .. }) => {
            *code == KeyCode::Escape || (*ctrl && *code == KeyCode::Char('c'))
        }
        InputEvent::Paste(_) | InputEvent::Unknown => false,
        _ => true,
    }
}

fn is_plain_enter(stroke: KeyStroke) -> bool {
    stroke == KeyStroke { code: KeyCode::Enter, ctrl: false, alt: false, shift: false }
}

/// How a prompt mentions a file.
fn mention(path: &str) -> String {
    match path.contains(char::is_whitespace) {
        true => format!("@\"{path}\""),
        false => format!("@{path}"),
    }
}

/// The paths that a paste consists of, as terminals write them when files are dropped: quoted, with
/// backslashes, or as addresses. `None` if it is something else.
fn pasted_paths(pasted: &str) -> Option<Vec<String>> {
    const PASTE_BYTES_MAX: usize = 8 * 1024;
    let pasted = pasted.trim();
    if pasted.is_empty() || pasted.len() > PASTE_BYTES_MAX {
        return None;
    }
    let mut paths = Vec::new();
    let mut letters = pasted.chars().peekable();
    while letters.peek().is_some() {
        let quote = letters.next_if(|letter| matches!(letter, '\'' | '"'));
        let mut path = String::new();
        while let Some(letter) = letters.next() {
            match (letter, quote) {
                (letter, Some(quote)) if letter == quote => break,
                (letter, None) if letter.is_whitespace() => break,
                ('\\', None) => path.extend(letters.next()),
                (letter, _) => path.push(letter),
            }
        }
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        let path = path.strip_prefix("file://").map_or(path.clone(), decode_address);
        let is_path = path.starts_with('/') || path.starts_with("~/") || path.contains('.');
        if !is_path || path.contains(['\n', '"']) {
            return None;
        }
        paths.push(path);
    }
    Some(paths)
}

/// The path of an address, in which bytes are written as `%20`.
fn decode_address(address: &str) -> String {
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| byte == b'%');
        let decoded = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(decoded.unwrap_or(byte));
        rest = if decoded.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_files_are_paths() {
        #[track_caller]
        fn check(pasted: &str, expected: Option<&[&str]>) {
            let paths = pasted_paths(pasted);
            let paths = paths.as_ref().map(|paths| paths.iter().map(String::as_str).collect());
            assert_eq!(paths, expected.map(<[&str]>::to_vec), "{pasted:?}");
        }
        check("/tmp/a.png", Some(&["/tmp/a.png"]));
        check("'/tmp/a b.png' ", Some(&["/tmp/a b.png"]));
        check("/tmp/a\\ b.png c.jpg\n", Some(&["/tmp/a b.png", "c.jpg"]));
        check("file:///tmp/a%20b.png", Some(&["/tmp/a b.png"]));
        check("two words", None);
        check("", None);
        check(&"a.b ".repeat(4_000), None);
    }
}
