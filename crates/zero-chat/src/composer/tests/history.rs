//! Prompts that were sent before.

use super::*;

#[track_caller]
fn check(keys: &str, expected: &str) {
    let history = ["git push", "make test", "git commit", "one\ntwo", "make"];
    let mut composer = composer_with(&history, EditMode::Emacs);
    type_keys(&mut composer, keys);
    assert_eq!(show(&composer), expected, "{keys}");
}

#[test]
fn entries_are_walked_through() {
    check("<Up>", "make|");
    check("<Up><Up>", "one\ntwo|");
    check("<Up><Up><Up>", "git commit|");
    check("<C-p><C-p><C-p><C-n>", "one\ntwo|");
    check("<Up><Up><Up><Up><Up>", "git push|");
    check("<Up><Up><Up><Up><Up><Up><Up>", "git push|");
    check("<Up><Down>", "|");
    check("<Down>", "|");
}

#[test]
fn draft_comes_back() {
    check("dra<Left><C-a><Up><Up><Down><Down>", "|dra");
    check("ma<Up><Up><Down><Down>", "ma|");
    check("a\nb<Up><Up><Down><Down>", "a\nb|");
    check("a<C-j>b<Up><C-a><Up><Up><Down><Down>", "|a\nb");
}

#[test]
fn entries_begin_with_what_is_before_cursor() {
    check("gi<Up>", "git commit|");
    check("gi<Up><Up>", "git push|");
    check("gi<Up><Up><Up>", "git push|");
    check("gi<Up><Up><Down>", "git commit|");
    check("make<Up>", "make test|");
    check("x<Up>", "x|");
    check("gix<Left><Up>", "git commit|");
}

#[test]
fn moved_cursor_walks_rows_of_entry() {
    check("<Up><Up><Left><Up>", "on|e\ntwo");
    check("<Up><Up><Left><Up><Up>", "git commit|");
    check("<Up><Up><Left><Down>", "make|");
}

#[test]
fn edited_entry_is_a_new_draft() {
    check("<Up>x<Down>", "makex|");
    check("<Up><BS><BS><Up>", "make|");
    check("<Up><BS><BS><Up><Up>", "make test|");
    check("<Up><BS><BS><Up><Down>", "ma|");
    check("dra<C-a><Up>x<C-z><C-z>", "|dra");
}

#[test]
fn taken_text_is_newest_entry() {
    let mut composer = composer_with(&["old"], EditMode::Emacs);
    composer.set_text("new");
    composer.take();
    composer.set_text("  ");
    composer.take();
    type_keys(&mut composer, "<Up>");
    assert_eq!(show(&composer), "new|");
    type_keys(&mut composer, "<Up>");
    assert_eq!(show(&composer), "old|");
}

#[test]
fn search_finds_older_entries() {
    check("<C-r>git<CR>", "git commit|");
    check("<C-r>git<C-r><CR>", "git push|");
    check("<C-r>git<C-r><C-r><CR>", "git push|");
    check("<C-r>make t<Left>", "make tes|t");
    check("dra<C-r>xyz<CR>", "dra|");
    check("dra<C-r>gix<BS><CR>", "git commit|");
    check("dra<C-r>git<CR><C-z>", "dra|");
}

#[test]
fn abandoned_search_leaves_draft() {
    for key in ["<Esc>", "<C-g>", "<C-c>"] {
        let mut composer = composer_with(&["git push"], EditMode::Emacs);
        type_keys(&mut composer, "dra<C-r>git");
        assert_eq!(type_keys(&mut composer, key), ComposerEvent::Abandoned);
        assert_eq!(show(&composer), "dra|");
        assert_eq!(type_keys(&mut composer, key), ComposerEvent::Ignored);
    }
}

#[test]
fn search_is_shown_below_entry() {
    let mut composer = composer_with(&["git push\n\x1b"], EditMode::Emacs);
    type_keys(&mut composer, "dra<C-r>gi");
    let layout = composer.layout(20, 5);
    assert_eq!(layout.rows, ["git push", "\\u{1b}", "search: gi"]);
    assert_eq!((layout.cursor.row, layout.cursor.column), (2, 10));
    type_keys(&mut composer, "x");
    assert_eq!(composer.layout(20, 5).rows, ["dra", "no match: gix"]);
    assert_eq!(composer.layout(20, 1).rows, ["no match: gix"]);
    assert_eq!(composer.layout(8, 1).rows, ["ch: gix"]);
}
