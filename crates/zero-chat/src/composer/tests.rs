//! Tests of the editor as a whole: keys go in, text and rows come out.

mod folding;
mod history;
mod keys;
mod properties;
mod speed;
mod vim;

use zero_terminal::input_event::{KeyCode, KeyStroke};

use super::{Composer, ComposerEvent, EditMode};

/// The keys of a line such as `ab<C-a><M-Left><CR>`.
pub(super) fn parse_keys(line: &str) -> Vec<KeyStroke> {
    let mut keys = Vec::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let name = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        match name {
            Some((name, behind)) if !name.is_empty() => {
                keys.push(parse_key(name));
                rest = behind;
            }
            _ => {
                keys.push(KeyStroke::plain(KeyCode::Char(letter)));
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    keys
}

fn parse_key(name: &str) -> KeyStroke {
    let (mut name, mut stroke) = (name, KeyStroke::plain(KeyCode::Escape));
    loop {
        name = match name.split_once('-') {
            Some(("C", rest)) => {
                stroke.ctrl = true;
                rest
            }
            Some(("M", rest)) => {
                stroke.alt = true;
                rest
            }
            Some(("S", rest)) => {
                stroke.shift = true;
                rest
            }
            _ => break,
        };
    }
    stroke.code = match name {
        "CR" => KeyCode::Enter,
        "Tab" => KeyCode::Tab,
        "Esc" => KeyCode::Escape,
        "BS" => KeyCode::Backspace,
        "Del" => KeyCode::Delete,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "PageUp" => KeyCode::PageUp,
        "PageDown" => KeyCode::PageDown,
        "F1" => KeyCode::Function(1),
        name if name.chars().count() == 1 => KeyCode::Char(name.chars().next().unwrap()),
        name => panic!("no key is called {name}"),
    };
    stroke
}

/// Types keys; returns what the last one did.
pub(super) fn type_keys(composer: &mut Composer, line: &str) -> ComposerEvent {
    let events = parse_keys(line).into_iter().map(|stroke| composer.apply(stroke));
    events.last().unwrap_or(ComposerEvent::Edited)
}

/// An editor with a history.
pub(super) fn composer_with(history: &[&str], mode: EditMode) -> Composer {
    Composer::new(history.iter().map(|entry| (*entry).to_owned()).collect(), mode)
}

/// The text with `|` at the cursor, and tokens as they are shown.
pub(super) fn show(composer: &Composer) -> String {
    let mut shown = String::new();
    let text = composer.buffer.text();
    for (at, letter) in text.char_indices().chain([(text.len(), '\0')]) {
        if at == composer.buffer.cursor() {
            shown.push('|');
        }
        match composer.pastes.label(letter) {
            Some(label) => shown.push_str(label),
            None if at < text.len() => shown.push(letter),
            None => {}
        }
    }
    shown
}
