//! What is written to a terminal, update by update.

use super::*;

const SIZE: WindowSize = WindowSize { rows: 24, columns: 20 };
const PLAIN: TerminalKind = TerminalKind { reflow: ReflowKind::AllLines, synchronized: false };

fn screen(kind: TerminalKind) -> InlineScreen<Vec<u8>> {
    let mut screen = InlineScreen::new(Vec::new(), SIZE, kind);
    screen.set_cursor_display(CursorDisplay::Real);
    screen
}

fn rows(rows: &[&str]) -> Vec<String> {
    rows.iter().map(|row| (*row).to_owned()).collect()
}

fn at(row: usize, column: usize) -> Option<CursorPosition> {
    Some(CursorPosition { row, column })
}

/// What was written since the last call, with visible escapes.
fn written(screen: &mut InlineScreen<Vec<u8>>) -> String {
    String::from_utf8(std::mem::take(&mut screen.out)).unwrap().replace('\x1b', "^")
}

#[test]
fn unchanged_rows_are_not_written_again() {
    let mut screen = screen(PLAIN);
    screen.update("", &rows(&["one", "two", "three"]), at(1, 2)).unwrap();
    assert_eq!(
        written(&mut screen),
        "^[?25l^[K^[C^[J\r^[?7lone\r\ntwo\r\nthree^[?7h\r^[A^[2C^[?25h"
    );
    screen.update("", &rows(&["one", "two", "three"]), at(1, 2)).unwrap();
    assert_eq!(written(&mut screen), "");
    screen.update("", &rows(&["one", "two", "three"]), at(1, 1)).unwrap();
    assert_eq!(written(&mut screen), "\r^[C");
    screen.update("", &rows(&["one", "two", "3"]), at(1, 1)).unwrap();
    assert_eq!(written(&mut screen), "^[?25l^[?7l\r\n^[K3^[?7h\r^[A^[C^[?25h");
    screen.update("", &rows(&["one"]), None).unwrap();
    assert_eq!(written(&mut screen), "^[?25l\r^[J^[A");
    screen.update("", &[], None).unwrap();
    assert_eq!(written(&mut screen), "^[K^[C^[J\r");
}

#[test]
fn finished_lines_are_written_once_above_rows() {
    let mut screen = screen(TerminalKind { synchronized: true, ..PLAIN });
    screen.update("a\nb\n", &rows(&["live"]), None).unwrap();
    assert_eq!(written(&mut screen), "^[?2026h^[?25l^[K^[C^[J\ra\r\nb\r\n^[?7llive^[?7h\r^[?2026l");
    screen.update("c", &rows(&["live"]), None).unwrap();
    assert_eq!(written(&mut screen), "^[?2026h^[K^[C^[J\rc\r\n^[?7llive^[?7h\r^[?2026l");
}

#[test]
fn rows_are_cut_and_too_many_are_dropped() {
    let mut screen = screen(PLAIN);
    assert_eq!(screen.rows_max(), 8);
    let many: Vec<String> = (0..20).map(|row| format!("{row}")).collect();
    screen.update("", &many, None).unwrap();
    assert!(
        written(&mut screen).contains("^[?7l12\r\n13\r\n14\r\n15\r\n16\r\n17\r\n18\r\n19^[?7h")
    );
    screen.resize(WindowSize { rows: 6, columns: 5 }).unwrap();
    written(&mut screen);
    screen.update("", &rows(&["first row", "x", "y", "last row"]), at(0, 1)).unwrap();
    assert_eq!(written(&mut screen), "^[?7lf^[7mi^[27mrs\r\ny\r\nlast^[?7h\r^[2A");
}

#[test]
fn resize_goes_to_first_row_of_area() {
    // Rows of 15, 3 and 12 columns, the cursor in column 10 of the last.
    let live = rows(&["123456789012345", "abc", "12345678901", "below, and long"]);
    for (reflow, columns, above) in [
        (ReflowKind::AllLines, 30, "^[2A"),
        (ReflowKind::AllLines, 15, "^[2A"),
        (ReflowKind::AllLines, 10, "^[4A"),
        (ReflowKind::AllLines, 5, "^[6A"),
        (ReflowKind::None, 5, "^[2A"),
        // The second row of `below` moves the cursor, and its own row is rewrapped.
        (ReflowKind::AllButCursorLine, 10, "^[5A"),
        (ReflowKind::AllButCursorLine, 30, "^[2A"),
        // The cursor is never in the middle.
        (ReflowKind::Unknown, 5, ""),
    ] {
        let mut screen = screen(TerminalKind { reflow, synchronized: false });
        screen.update("", &live, at(2, 10)).unwrap();
        screen.update("", &live, at(2, 10)).unwrap();
        written(&mut screen);
        screen.resize(WindowSize { columns, ..SIZE }).unwrap();
        let text = written(&mut screen);
        let text = text.trim_start_matches("^[?25l").trim_start_matches('\r');
        assert_eq!(text, format!("{above}^[K^[C^[J\r"), "{reflow:?} {columns}");
        // Nothing is left to remove.
        screen.resize(SIZE).unwrap();
        assert_eq!(written(&mut screen), "");
    }
}

#[test]
fn drawn_cursor_leaves_terminal_cursor_at_start() {
    let mut screen = InlineScreen::new(Vec::new(), SIZE, PLAIN);
    screen.update("", &rows(&["one", "two"]), at(1, 3)).unwrap();
    assert_eq!(written(&mut screen), "^[?25l^[K^[C^[J\r^[?7lone\r\ntwo^[7m ^[0m^[?7h\r^[A");
    screen.set_cursor_display(CursorDisplay::Real);
    screen.update("", &rows(&["one", "two"]), at(1, 3)).unwrap();
    assert_eq!(written(&mut screen), "^[?7l\ntwo^[2m ^[0m^[?7h\r^[3C^[?25h");
}

#[test]
fn suspend_and_leave_show_cursor_and_remove_area() {
    let mut screen = screen(PLAIN);
    screen.update("", &rows(&["one", "two"]), None).unwrap();
    written(&mut screen);
    screen.suspend().unwrap();
    assert_eq!(written(&mut screen), "^[K^[C^[J\r^[?25h");
    screen.suspend().unwrap();
    assert_eq!(written(&mut screen), "");
    screen.update("", &rows(&["three"]), at(0, 0)).unwrap();
    assert_eq!(written(&mut screen), "^[?25l^[K^[C^[J\r^[?7lthree^[?7h\r^[?25h");
    screen.leave().unwrap();
    assert_eq!(written(&mut screen), "^[?25l^[K^[C^[J\r^[?25h");
    screen.update("late\n", &rows(&["four"]), None).unwrap();
    screen.resize(WindowSize { rows: 10, columns: 30 }).unwrap();
    assert_eq!(written(&mut screen), "");
}
