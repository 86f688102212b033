//! What holds for all keys, pastes and texts.

use proptest::collection::vec;
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation as _;
use zero_terminal::text_columns;

use super::*;
use crate::composer::folded_paste::is_token;
use crate::composer::grapheme::is_boundary;

/// One thing that a user does.
#[derive(Clone, Debug)]
enum UserAction {
    Press(KeyStroke),
    Paste(String),
    SetText(String),
    Complete(String),
    Take,
    Clear,
}

fn any_letter() -> impl Strategy<Value = char> {
    prop_oneof![
        8 => prop::sample::select("abw d0$^ipxcyGgurRo\\/@\" .-_".chars().collect::<Vec<_>>()),
        4 => prop::sample::select(
            "é界👩👍🏽🇩🇪\u{301}\u{200d}\u{fe0f}\t\n\r\x1b\u{202e}가क्षلا\u{600}\u{e0200}\u{e0041}\u{e01ef}"
                .chars().collect::<Vec<_>>()
        ),
        1 => any::<char>(),
    ]
}

fn any_text(letters_max: usize) -> impl Strategy<Value = String> {
    vec(any_letter(), 0..letters_max).prop_map(|letters| letters.into_iter().collect())
}

fn any_stroke() -> impl Strategy<Value = KeyStroke> {
    let code = prop_oneof![
        any_letter().prop_map(KeyCode::Char),
        prop::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Tab,
            KeyCode::Escape,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::PageUp,
            KeyCode::Function(3),
        ]),
        prop::sample::select("abdefhjknoprtuwyz_/".chars().collect::<Vec<_>>())
            .prop_map(KeyCode::Char),
    ];
    let modifiers = prop_oneof![
        4 => Just((false, false, false)),
        3 => Just((true, false, false)),
        2 => Just((false, true, false)),
        1 => any::<(bool, bool, bool)>(),
    ];
    (code, modifiers).prop_map(|(code, (ctrl, alt, shift))| KeyStroke { code, ctrl, alt, shift })
}

fn any_action() -> impl Strategy<Value = UserAction> {
    prop_oneof![
        30 => any_stroke().prop_map(UserAction::Press),
        3 => any_text(40).prop_map(UserAction::Paste),
        1 => (any_text(4), 9..20_usize).prop_map(|(line, lines)| {
            UserAction::Paste(format!("{line}\n").repeat(lines))
        }),
        1 => any_text(300).prop_map(UserAction::SetText),
        1 => any_text(9).prop_map(UserAction::Complete),
        1 => Just(UserAction::Take),
        1 => Just(UserAction::Clear),
    ]
}

fn act(composer: &mut Composer, action: &UserAction) {
    match action {
        UserAction::Press(stroke) => _ = composer.apply(*stroke),
        UserAction::Paste(text) => _ = composer.paste(text),
        UserAction::SetText(text) => _ = composer.set_text(text),
        UserAction::Complete(text) => _ = composer.complete(text),
        UserAction::Take => _ = composer.take(),
        UserAction::Clear => composer.clear(),
    }
}

#[track_caller]
fn check_layout(composer: &Composer, columns: usize, rows_max: usize) {
    let layout = composer.layout(columns, rows_max);
    let rows = &layout.rows;
    assert!((1..=rows_max.max(1)).contains(&rows.len()), "{rows:?}");
    assert!(layout.cursor.row < rows.len() && layout.cursor.column < columns, "{layout:?}");
    for row in rows {
        let letters: usize = row.chars().map(zero_terminal::char_columns).sum();
        assert!(text_columns(row) <= columns && letters <= columns, "{row:?} in {columns}");
        assert!(!row.contains(|c: char| !zero_core::sanitize::is_safe_char(c)), "{row:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_input_keeps_cursor_and_rows_valid(
        actions in vec(any_action(), 1..60),
        history in vec(any_text(30), 0..5),
        is_vim in any::<bool>(),
        columns in 8..40_usize,
        rows_max in 0..7_usize,
    ) {
        let mode = if is_vim { EditMode::Vim } else { EditMode::Emacs };
        let mut composer = Composer::new(history, mode);
        for action in &actions {
            act(&mut composer, action);
            let (text, cursor) = (composer.buffer.text(), composer.buffer.cursor());
            prop_assert!(is_boundary(text, cursor), "{cursor} in {text:?} after {action:?}");
            check_layout(&composer, columns, rows_max);
            let token = composer.completion_token();
            prop_assert!(token.is_none_or(|token| text.get(token.range).is_some()));
        }
    }

    #[test]
    fn undo_of_all_returns_to_start(
        start in any_text(40),
        actions in vec(any_action(), 1..60),
        is_vim in any::<bool>(),
    ) {
        let mode = if is_vim { EditMode::Vim } else { EditMode::Emacs };
        let mut composer = Composer::new(vec!["entry".to_owned()], mode);
        composer.set_text(&start);
        composer.buffer.forget_undo();
        for action in &actions {
            if !matches!(action, UserAction::Take) {
                act(&mut composer, action);
            }
        }
        composer.search = None;
        let end = composer.text();
        let undone = std::iter::repeat_with(|| composer.buffer.undo()).take_while(|done| *done).count();
        prop_assert_eq!(composer.text(), start);
        for _ in 0..undone {
            prop_assert!(composer.buffer.redo());
        }
        prop_assert_eq!(composer.text(), end);
    }

    #[test]
    fn edits_match_naive_model(edits in vec((0..6_u8, any_text(6)), 1..40)) {
        let mut composer = composer_with(&[], EditMode::Emacs);
        let mut model = NaiveText::default();
        for (edit, text) in edits {
            let text = text.replace(is_token, "");
            match edit {
                0 => {
                    type_keys(&mut composer, "<BS>");
                    model.erase_back();
                }
                1 => {
                    type_keys(&mut composer, "<Del>");
                    model.erase_forward();
                }
                2 => {
                    type_keys(&mut composer, "<Left>");
                    model.cursor = model.previous();
                }
                3 => {
                    type_keys(&mut composer, "<Right>");
                    model.cursor = model.next();
                }
                _ => {
                    composer.paste(&text);
                    model.insert(&text);
                }
            }
            prop_assert_eq!(composer.text(), model.text.as_str());
            prop_assert_eq!(composer.buffer.cursor(), model.cursor);
        }
    }

    #[test]
    fn pastes_expand_exactly(pastes in vec((any_text(5), 1..30_usize), 1..12)) {
        let mut composer = composer_with(&[], EditMode::Emacs);
        let mut expected = String::new();
        for (line, lines) in pastes {
            let paste = format!("{line}\n").repeat(lines);
            composer.paste(&paste);
            expected.push_str(&paste);
            // A mark joins what is before it, so the cursor may only be at the end.
            prop_assert_eq!(composer.buffer.cursor(), composer.buffer.text().len());
        }
        prop_assert_eq!(composer.text(), expected.as_str());
        prop_assert_eq!(composer.take(), expected);
    }
}

/// An editor that splits its whole text into clusters each time.
#[derive(Default)]
struct NaiveText {
    text: String,
    cursor: usize,
}

impl NaiveText {
    fn boundaries(&self) -> Vec<usize> {
        let mut boundaries = vec![0];
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            let (content, end) = match line.strip_suffix('\n') {
                Some(content) => (content, true),
                None => (line, false),
            };
            for cluster in content.graphemes(true) {
                at += cluster.len();
                boundaries.push(at);
            }
            at += usize::from(end);
            boundaries.extend(end.then_some(at));
        }
        boundaries
    }

    fn previous(&self) -> usize {
        self.boundaries().into_iter().rfind(|at| *at < self.cursor).unwrap_or(0)
    }

    fn next(&self) -> usize {
        self.boundaries().into_iter().find(|at| *at > self.cursor).unwrap_or(self.text.len())
    }

    fn round_cursor(&mut self) {
        self.cursor = self.boundaries().into_iter().find(|at| *at >= self.cursor).unwrap();
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
        self.round_cursor();
    }

    fn erase_back(&mut self) {
        let start = self.previous();
        self.text.drain(start..self.cursor);
        self.cursor = start;
        self.round_cursor();
    }

    fn erase_forward(&mut self) {
        let end = self.next();
        self.text.drain(self.cursor..end);
        self.round_cursor();
    }
}
