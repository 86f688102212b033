//! Emacs keys.

use super::*;
use crate::composer::{CompletionTokenKind, TEXT_BYTES_MAX};

/// Checks the text after `keys`, from a text with `|` at the cursor.
#[track_caller]
fn check(before: &str, keys: &str, expected: &str) {
    let mut composer = composer_with(&[], EditMode::Emacs);
    composer.set_text(&before.replace('|', ""));
    composer.buffer.move_to(before.find('|').unwrap());
    type_keys(&mut composer, keys);
    assert_eq!(show(&composer), expected, "{keys} in {before:?}");
}

#[test]
fn key_moves_cursor() {
    for (keys, expected) in [
        ("<C-a>", "one two\n|three four\nfive"),
        ("<Home>", "one two\n|three four\nfive"),
        ("<C-e>", "one two\nthree four|\nfive"),
        ("<End>", "one two\nthree four|\nfive"),
        ("<C-b>", "one two\nthree| four\nfive"),
        ("<Left>", "one two\nthree| four\nfive"),
        ("<C-f>", "one two\nthree f|our\nfive"),
        ("<Right>", "one two\nthree f|our\nfive"),
        ("<C-p>", "one tw|o\nthree four\nfive"),
        ("<C-n>", "one two\nthree four\nfive|"),
        ("<Up>", "one tw|o\nthree four\nfive"),
        ("<Up><C-a><C-b>", "|one two\nthree four\nfive"),
        ("<C-n><C-p>", "one two\nthree |four\nfive"),
        ("<M-b>", "one two\n|three four\nfive"),
        ("<M-f>", "one two\nthree four|\nfive"),
        ("<M-b><M-b>", "one |two\nthree four\nfive"),
        ("<C-Left>", "one two\n|three four\nfive"),
        ("<C-Right>", "one two\nthree four|\nfive"),
        ("<M-Left>", "one two\n|three four\nfive"),
        ("<M-Right>", "one two\nthree four|\nfive"),
        ("<M-<>", "|one two\nthree four\nfive"),
        ("<C-Home>", "|one two\nthree four\nfive"),
        ("<C-End>", "one two\nthree four\nfive|"),
    ] {
        check("one two\nthree |four\nfive", keys, expected);
    }
}

#[test]
fn key_removes_text() {
    check("ab|c", "<BS>", "a|c");
    check("ab|c", "<C-h>", "a|c");
    check("ab|c", "<C-d>", "ab|");
    check("ab|c", "<Del><Del>", "ab|");
    check("a e\u{301}|", "<BS>", "a |");
    check("|👩\u{200d}💻x", "<C-d>", "|x");
    check("git -am|x y", "<C-w>", "git |x y");
    check("git -am|x y", "<M-BS>", "git -|x y");
    check("git -am|x y", "<C-BS>", "git -|x y");
    check("a |b_c d", "<M-d>", "a | d");
    check("a |b c", "<C-Del>", "a | c");
    check("a\nb c|d", "<C-u>", "a\n|d");
    check("a\nb c|d", "<C-u><C-u>", "a|d");
    check("a\nb c|d", "<C-u><C-u><C-u>", "|d");
    check("a |b\nc", "<C-k>", "a |\nc");
    check("a |b\nc", "<C-k><C-k>", "a |c");
    check("a |b\nc", "<C-k><C-k><C-k><C-k>", "a |");
    check("|", "<C-k><C-u><C-w><BS><Del><M-d><M-BS>", "|");
}

#[test]
fn cut_text_is_inserted_again() {
    check("one two|", "<C-w><C-a><C-y>", "two|one ");
    check("one two|", "<C-w><C-w><C-y>", "one two|");
    check("|one two", "<M-d><M-d><C-y><C-y>", "one twoone two|");
    check("one two|", "<C-w><Left><C-w><C-y>", "one| ");
    check("one two|", "<C-w><Left><C-w><C-y><M-y>", "two| ");
    check("one two|", "<C-w><Left><C-w><C-y><M-y><M-y>", "one| ");
    check("one|", "<M-y>", "one|");
    check("one|", "<C-y>", "one|");
    check("one|", "<C-w><C-w><C-y>", "one|");
}

#[test]
fn changes_are_undone_and_redone() {
    check("|", "one two<C-z>", "one |");
    check("|", "one two<C-_><C-_>", "|");
    check("|", "one two<C-z><C-z><M-/>", "one |");
    check("|", "one two<C-z><C-z><C-S-z><C-S-z>", "one two|");
    check("|", "one two<C-z><C-z><C-Z>", "one |");
    check("a|b", "<C-k><C-u><C-z><C-z>", "a|b");
    check("a|b", "<M-/>", "a|b");
}

#[test]
fn newline_has_several_keys() {
    for keys in ["<S-CR>", "<M-CR>", "<C-j>", "\\<CR>"] {
        check("a|b", keys, "a\n|b");
    }
    check("a\\|b", "<CR>", "a\n|b");
    check("a|\\b", "<CR>", "a|\\b");
}

/// Checks what a key does to a text, or to an empty one.
#[track_caller]
fn check_event(text: &str, key: &str, expected: ComposerEvent) {
    for mode in [EditMode::Emacs, EditMode::Vim] {
        let mut composer = composer_with(&[], mode);
        composer.set_text(text);
        assert_eq!(type_keys(&mut composer, key), expected, "{key} {mode:?}");
        assert_eq!(composer.text(), text, "{key} {mode:?}");
    }
}

#[test]
fn enter_submits_text() {
    check_event("a", "<CR>", ComposerEvent::Submit);
    check_event("a\\", "<C-CR>", ComposerEvent::SubmitNow);
    let mut composer = composer_with(&[], EditMode::Emacs);
    assert_eq!(type_keys(&mut composer, "a\\<CR>"), ComposerEvent::Edited);
}

#[test]
fn keys_of_the_loop_are_ignored() {
    for key in [
        "<C-c>",
        "<C-t>",
        "<C-l>",
        "<C-g>",
        "<C-x>",
        "<Tab>",
        "<S-Tab>",
        "<PageUp>",
        "<PageDown>",
        "<F1>",
        "<M-x>",
        "<C-o>",
        "<Up>",
        "<Down>",
    ] {
        check_event("text", key, ComposerEvent::Ignored);
        check_event("", key, ComposerEvent::Ignored);
    }
    check_event("", "<C-d>", ComposerEvent::Ignored);
    let mut composer = composer_with(&[], EditMode::Emacs);
    assert_eq!(type_keys(&mut composer, "a<Esc>"), ComposerEvent::Ignored);
}

#[test]
fn cursor_moves_by_shown_rows() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    composer.set_text("one two three four");
    let layout = composer.layout(10, 5);
    assert_eq!(layout.rows, ["one two ", "three ", "four"]);
    type_keys(&mut composer, "<Up>");
    assert_eq!(show(&composer), "one two thre|e four");
    type_keys(&mut composer, "<Up>");
    assert_eq!(show(&composer), "one |two three four");
    type_keys(&mut composer, "<End><Up>");
    assert_eq!(show(&composer), "one two thre|e four");
    composer.set_text("abcdefg\na\nabcdefg");
    type_keys(&mut composer, "<Up><Up>");
    assert_eq!(show(&composer), "abcdefg|\na\nabcdefg", "the column is remembered");
}

#[test]
fn word_is_completed() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    type_keys(&mut composer, "/mo");
    let token = composer.completion_token().unwrap();
    assert_eq!((token.kind, token.query.as_str()), (CompletionTokenKind::Command, "mo"));
    composer.complete("/model ");
    type_keys(&mut composer, "@\"a b\"<Left>");
    let token = composer.completion_token().unwrap();
    assert_eq!((token.kind, token.is_quoted), (CompletionTokenKind::Path, true));
    composer.complete("@\"a box/x.rs\"");
    assert_eq!(show(&composer), "/model @\"a box/x.rs\"|");
    assert_eq!(composer.complete("x"), ComposerEvent::Ignored);
    type_keys(&mut composer, "<C-z>");
    assert_eq!(composer.text(), "/model @\"a b\"");
}

#[test]
fn text_is_taken_once() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    type_keys(&mut composer, "hello");
    assert!(!composer.is_empty());
    assert_eq!(composer.take(), "hello");
    assert!(composer.is_empty());
    type_keys(&mut composer, "<C-z>");
    assert!(composer.is_empty(), "what was sent is not a draft again");
    type_keys(&mut composer, "<Up>");
    assert_eq!(composer.text(), "hello");
    composer.clear();
    type_keys(&mut composer, "<C-z>");
    assert_eq!(composer.text(), "hello", "what was cleared comes back");
}

#[test]
fn text_beyond_bound_is_refused() {
    let mut composer = composer_with(&[], EditMode::Emacs);
    let full = "x".repeat(TEXT_BYTES_MAX);
    assert_eq!(composer.set_text(&full), ComposerEvent::Edited);
    type_keys(&mut composer, "<Left>");
    for (name, event) in [
        ("key", type_keys(&mut composer, "a")),
        ("newline", type_keys(&mut composer, "<C-j>")),
        ("paste", composer.paste("b")),
        ("long paste", composer.paste(&full)),
        ("text", composer.set_text(&format!("{full}x"))),
    ] {
        assert_eq!(event, ComposerEvent::Refused, "{name}");
    }
    assert!(composer.text() == full);
    type_keys(&mut composer, "<BS>");
    assert_eq!(type_keys(&mut composer, "a"), ComposerEvent::Edited);
    let mut composer = composer_with(&[], EditMode::Emacs);
    composer.paste(&"x".repeat(TEXT_BYTES_MAX / 2));
    type_keys(&mut composer, "<C-w><C-y><C-y>");
    assert_eq!(type_keys(&mut composer, "<C-y>"), ComposerEvent::Refused);
    assert_eq!(composer.text().len(), TEXT_BYTES_MAX);
}
