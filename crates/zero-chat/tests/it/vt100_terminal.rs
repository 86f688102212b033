//! A terminal that does not rewrap its lines, in memory.

use zero_chat::inline_screen::{ReflowKind, TerminalKind};
use zero_terminal::WindowSize;

use crate::shown_row::{ShownRow, trim_rows};
use crate::terminal_under_test::TerminalUnderTest;

const SCROLLBACK_ROWS: usize = 200_000;

pub(crate) struct Vt100Terminal(vt100::Parser);

impl Vt100Terminal {
    pub(crate) fn new(size: WindowSize) -> Self {
        Self(vt100::Parser::new(to_u16(size.rows), to_u16(size.columns), SCROLLBACK_ROWS))
    }
}

impl TerminalUnderTest for Vt100Terminal {
    fn kind(&self) -> TerminalKind {
        TerminalKind { reflow: ReflowKind::None, synchronized: true }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.process(bytes);
    }

    fn resize(&mut self, size: WindowSize) {
        // The library drops rows at the bottom, with the cursor among them. Terminals move rows at the
        // top into the scrollback instead, as many as it takes to keep the cursor.
        let (rows, _) = self.0.screen().size();
        let (row, column) = self.0.screen().cursor_position();
        if let Some(above) = (row + 1).checked_sub(to_u16(size.rows)) {
            let down = "\n".repeat(usize::from(above));
            let back = (row + 1 - above, column + 1);
            self.write(format!("\x1b[{rows};1H{down}\x1b[{};{}H", back.0, back.1).as_bytes());
        }
        self.0.screen_mut().set_size(to_u16(size.rows), to_u16(size.columns));
    }

    fn rows(&mut self) -> Vec<ShownRow> {
        let screen = self.0.screen_mut();
        let (height, _) = screen.size();
        screen.set_scrollback(usize::MAX);
        let mut rows = Vec::new();
        for above in (1..=screen.scrollback()).rev() {
            screen.set_scrollback(above);
            rows.push(ShownRow::from_screen(screen, 0));
        }
        screen.set_scrollback(0);
        rows.extend((0..height).map(|row| ShownRow::from_screen(screen, row)));
        trim_rows(rows)
    }

    fn cursor(&mut self) -> (usize, usize, bool) {
        let (row, column) = self.0.screen().cursor_position();
        (usize::from(row), usize::from(column), !self.0.screen().hide_cursor())
    }
}

fn to_u16(number: usize) -> u16 {
    u16::try_from(number).unwrap()
}
