//! Folded pastes.

use super::*;

fn long_text() -> String {
    (0..120).map(|line| format!("line {line}\n")).collect()
}

#[test]
fn long_paste_is_one_token() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    type_keys(&mut composer, "see ");
    composer.paste(&long_text());
    type_keys(&mut composer, "!");
    assert_eq!(show(&composer), "see [pasted 120 lines]!|");
    assert_eq!(composer.text(), format!("see {}!", long_text()));
    assert_eq!(composer.layout(40, 9).rows, ["see [pasted 120 lines]!"]);
    assert_eq!(composer.layout(10, 9).rows, ["see ", "[pasted …", "!"]);
    type_keys(&mut composer, "<Left><Left>");
    assert_eq!(show(&composer), "see |[pasted 120 lines]!");
    type_keys(&mut composer, "<M-f>");
    assert_eq!(show(&composer), "see [pasted 120 lines]|!");
    type_keys(&mut composer, "<BS>");
    assert_eq!(composer.text(), "see !");
    type_keys(&mut composer, "<C-z>");
    assert_eq!(composer.text(), format!("see {}!", long_text()));
}

#[test]
fn short_paste_is_shown() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    composer.paste("a\nb\x1b[31m");
    assert_eq!(show(&composer), "a\nb\x1b[31m|");
    assert_eq!(composer.layout(40, 9).rows, ["a", "b\\u{1b}[31m"]);
}

#[test]
fn token_is_unfolded_in_place() {
    for keys in ["<C-o>", "<Left><C-o>"] {
        let mut composer = composer_with(&[], EditMode::Emacs);
        composer.paste("a");
        composer.paste(&long_text());
        assert_eq!(type_keys(&mut composer, keys), ComposerEvent::Edited);
        assert_eq!(show(&composer), format!("a{}|", long_text()));
        type_keys(&mut composer, "<C-z>");
        assert!(show(&composer).contains("[pasted 120 lines]"));
        assert_eq!(composer.text(), format!("a{}", long_text()));
    }
    let mut composer = composer_with(&[], EditMode::Emacs);
    composer.paste(&long_text());
    assert_eq!(type_keys(&mut composer, "x<C-o>"), ComposerEvent::Ignored);
}

#[test]
fn token_is_cut_and_inserted() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    composer.paste(&long_text());
    type_keys(&mut composer, "<C-u>");
    assert!(composer.is_empty());
    composer.take();
    type_keys(&mut composer, "<C-y>-<C-y>");
    assert_eq!(show(&composer), "[pasted 120 lines]-[pasted 120 lines]|");
    assert_eq!(composer.text(), format!("{0}-{0}", long_text()));
}

#[test]
fn characters_of_tokens_are_kept() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    composer.paste(&long_text());
    let foreign = "a\u{E0200}b";
    composer.paste(foreign);
    type_keys(&mut composer, "\u{E0201}");
    let text = format!("{}{foreign}\u{E0201}", long_text());
    assert_eq!(composer.text(), text);
    type_keys(&mut composer, "<C-o>");
    assert_eq!(composer.text(), text, "a token of such a text stays folded");
    composer.set_text(foreign);
    assert_eq!(composer.text(), foreign);
    assert_eq!(composer.take(), foreign);
    type_keys(&mut composer, "<Up>");
    assert_eq!(composer.text(), foreign);
}

#[test]
fn pastes_are_released() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    let large = "x".repeat(1 << 20);
    for round in 0..40 {
        composer.paste(&large);
        assert_eq!(show(&composer), "[pasted 1048576 characters]|", "{round}");
        type_keys(&mut composer, "<BS>");
    }
    composer.paste(&large);
    assert!(composer.take() == large);
    assert!(composer.is_empty());
}
