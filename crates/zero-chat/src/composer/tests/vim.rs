//! Vim keys.

use super::*;

/// Checks the text after `keys` in normal mode, from a text with `|` before the cursor.
#[track_caller]
fn check(before: &str, keys: &str, expected: &str) {
    let composer = run(before, keys);
    assert_eq!(show(&composer), expected, "{keys} in {before:?}");
}

fn run(before: &str, keys: &str) -> Composer {
    let mut composer = composer_with(&["old entry"], EditMode::Vim);
    composer.set_text(&before.replace('|', ""));
    type_keys(&mut composer, "<Esc>");
    composer.buffer.move_to(before.find('|').unwrap());
    type_keys(&mut composer, keys);
    composer
}

#[test]
fn motion_moves_cursor() {
    for (keys, expected) in [
        ("h", "one two-x\n  thr|ee four\n\nfive"),
        ("9h", "one two-x\n|  three four\n\nfive"),
        ("l", "one two-x\n  three| four\n\nfive"),
        ("99l", "one two-x\n  three fou|r\n\nfive"),
        ("k", "one tw|o-x\n  three four\n\nfive"),
        ("j", "one two-x\n  three four\n|\nfive"),
        ("jj", "one two-x\n  three four\n\nfiv|e"),
        ("2j", "one two-x\n  three four\n\nfiv|e"),
        ("w", "one two-x\n  three |four\n\nfive"),
        ("ww", "one two-x\n  three four\n|\nfive"),
        ("3w", "one two-x\n  three four\n\n|five"),
        ("b", "one two-x\n  |three four\n\nfive"),
        ("bb", "one two-|x\n  three four\n\nfive"),
        ("bB", "one |two-x\n  three four\n\nfive"),
        ("bbB", "one |two-x\n  three four\n\nfive"),
        ("e", "one two-x\n  three fou|r\n\nfive"),
        ("0", "one two-x\n|  three four\n\nfive"),
        ("^", "one two-x\n  |three four\n\nfive"),
        ("$", "one two-x\n  three fou|r\n\nfive"),
        ("gg", "|one two-x\n  three four\n\nfive"),
        ("G", "one two-x\n  three four\n\n|five"),
        ("2G", "one two-x\n  |three four\n\nfive"),
        ("2gg", "one two-x\n  |three four\n\nfive"),
        ("gge", "on|e two-x\n  three four\n\nfive"),
        ("gg3e", "one two|-x\n  three four\n\nfive"),
        ("ggWw", "one two|-x\n  three four\n\nfive"),
        ("ggWE", "one two-|x\n  three four\n\nfive"),
    ] {
        let before = "one two-x\n  thre|e four\n\nfive";
        check(before, keys, expected);
    }
}

#[test]
fn key_removes_text() {
    check("a|bc", "x", "a|c");
    check("a|bc", "2x", "|a");
    check("a|bc", "9x", "|a");
    check("ab|c", "X", "a|c");
    check("ab|c", "2X", "|c");
    check("a |b c\nd", "D", "a| \nd");
    check("a |b c\nd", "Cx<Esc>", "a |x\nd");
    check("e\u{301}|e\u{301}x", "x", "e\u{301}|x");
    check("|", "xXDdddwdiw", "|");
}

#[test]
fn operator_takes_motion() {
    check("a |bc d", "dw", "a |d");
    check("a |bc d", "d2w", "a| ");
    check("a |bc d", "2dw", "a| ");
    check("a b|c\n d", "dw", "a |b\n d");
    check("a bc| d", "db", "a | d");
    check("a |bc d", "de", "a | d");
    check("a b|c d", "de", "a |b");
    check("a b|c d", "d0", "|c d");
    check("a b|c d", "d$", "a |b");
    check("a b|c d", "diw", "a | d");
    check("a b|c d", "daw", "a |d");
    check("a |bc", "daw", "|a");
    check("a |  bc", "diw", "a|bc");
    check("a b|c d", "dh", "a |c d");
    check("a b|c d", "dl", "a b| d");
    check("  a b|c", "d^", "  |c");
    check("a|b\nc\nd", "dj", "|d");
    check("a\nb|c\nd", "dk", "|d");
    check("a\nb|c\nd", "dG", "|a");
    check("a\nb|c\nd", "dgg", "|d");
    check("a b|c d", "dz", "a b|c d");
    check("a b|c d", "d<Esc>x", "a b| d");
}

#[test]
fn change_inserts() {
    check("a |bc d", "cwx<Esc>", "a |x d");
    check("a |bc d e", "c2wx<Esc>", "a |x e");
    check("a b|c d", "ciwx<Esc>", "a |x d");
    check("a b|c d", "cbx<Esc>", "a |xc d");
    check("a |bc d", "cex<Esc>", "a |x d");
    check("a\nb|c\nd", "ccx<Esc>", "a\n|x\nd");
    check("a b|c d", "c$x<Esc>", "a b|x");
    check("a b|c d", "sx<Esc>", "a b|x d");
    check("a b|c d", "Sx<Esc>", "|x");
    check("a |bc d", "cwx y<Esc>u", "a |bc d");
    check("a |bc d", "cwx<Esc>u<C-r>", "a x| d");
}

#[test]
fn lines_are_deleted_and_put() {
    check("a\nb|c\nd", "dd", "a\n|d");
    check("a\nb|c\nd", "ddp", "a\nd\n|bc");
    check("a\nb|c\nd", "ddP", "a\n|bc\nd");
    check("a\nb|c\nd", "ddu", "a\nb|c\nd");
    check("a\nb|c\nd", "2dd", "|a");
    check("a\nb|c\nd", "9dd", "|a");
    check("a\n|d", "dd", "|a");
    check("|a", "dd", "|");
    check("a\nb|c\nd", "yyp", "a\nbc\n|bc\nd");
    check("a\nb|c\nd", "yy2P", "a\n|bc\nbc\nbc\nd");
    check("|ab cd", "ywP", "ab| ab cd");
    check("|ab cd", "yww2p", "ab cab ab| d");
    check("ab |cd", "yiwP", "ab c|dcd");
    check("ab c|d", "yb", "ab |cd");
    check("a|b", "p", "a|b");
}

#[test]
fn insert_begins_where_asked() {
    check("  a|b\nc", "ix<Esc>", "  a|xb\nc");
    check("  a|b\nc", "ax<Esc>", "  ab|x\nc");
    check("  a|b\nc", "Ix<Esc>", "  |xab\nc");
    check("  |ab\nc", "Ax<Esc>", "  ab|x\nc");
    check("  a|b\nc", "ox<Esc>", "  ab\n|x\nc");
    check("  a|b\nc", "Ox<Esc>", "|x\n  ab\nc");
    check("a|b", "rx", "a|x");
    check("|abc", "2rx", "x|xc");
    check("|abc", "4rx", "|abc");
    check("|abc", "r<CR>", "\n|bc");
    check("|abc", "r<Esc>x", "|bc");
    check("a|b", "ix y<Esc>ofoo<Esc>uu", "a|b");
    check("a|b", "ix y<Esc>ofoo<Esc>u", "ax |yb");
}

#[test]
fn mode_is_shown_and_keys_are_distinguished() {
    let mut composer = composer_with(&[], EditMode::Vim);
    assert_eq!(composer.mode_label(), Some("INSERT"));
    type_keys(&mut composer, "hi");
    assert_eq!(type_keys(&mut composer, "<Esc>"), ComposerEvent::Edited);
    assert_eq!(composer.mode_label(), Some("NORMAL"));
    assert_eq!(composer.completion_token(), None);
    assert_eq!(type_keys(&mut composer, "<Esc>"), ComposerEvent::Ignored);
    assert_eq!(type_keys(&mut composer, "3"), ComposerEvent::Edited);
    assert_eq!(type_keys(&mut composer, "<Esc>"), ComposerEvent::Edited);
    assert_eq!(type_keys(&mut composer, "q"), ComposerEvent::Ignored);
    for key in ["<C-c>", "<C-t>", "<C-l>", "<C-g>", "<Tab>", "<PageUp>", "<M-x>", "<C-d>"] {
        assert_eq!(type_keys(&mut composer, key), ComposerEvent::Ignored, "{key}");
    }
    assert_eq!(type_keys(&mut composer, "<C-CR>"), ComposerEvent::SubmitNow);
    assert_eq!(type_keys(&mut composer, "<CR>"), ComposerEvent::Submit);
    assert_eq!(composer.take(), "hi");
    assert_eq!(composer.mode_label(), Some("INSERT"));
    assert_eq!(composer_with(&[], EditMode::Emacs).mode_label(), None);
}

#[test]
fn normal_mode_walks_history_at_edge() {
    check("dra|ft", "0k", "old entr|y");
    check("dra|ft", "0kj", "|draft");
    check("dra|ft", "k", "dra|ft");
    check("|", "k", "old entr|y");
}

#[test]
fn count_is_bounded() {
    let composer = run("ab|c", "yyy99999999999999999999p");
    assert_eq!(composer.text().lines().count(), 1);
    let composer = run("ab|c", "yy99999999999999999999p");
    assert_eq!(composer.text().lines().count(), 10_000);
    let mut composer = run("ab|c", "yl");
    composer.paste(&"x".repeat(1 << 20));
    type_keys(&mut composer, "yy");
    assert_eq!(type_keys(&mut composer, "9999p"), ComposerEvent::Refused);
}
