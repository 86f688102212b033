//! The whole window as one picture, on the alternate screen of the terminal.
//!
//! The previous screen comes back when it is left. Rows that did not change are not written again.

use std::io::{self, Write as _};

use zero_terminal::live_area::CursorPosition;
use zero_terminal::live_row::{LiveRow, RowCursor};
use zero_terminal::{TerminalStream, WindowSize};

use crate::inline_screen::TerminalKind;
use crate::stream_writer::StreamWriter;

/// The alternate screen has its own stack of keyboard modes.
const ENTER: &str = "\x1b[?1049h\x1b[>1u";
const LEAVE: &str = "\x1b[<u\x1b[?1049l\x1b[?25h";
const ERASE: &str = "\x1b[H\x1b[2J";

/// What the wheel of the mouse sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WheelMode {
    /// Arrow keys. The terminal's own selection works.
    Arrows,
    /// Reports. The terminal selects with Shift.
    Reports,
}

impl WheelMode {
    fn enable(self) -> &'static str {
        match self {
            Self::Arrows => "\x1b[?1007h",
            Self::Reports => "\x1b[?1000h\x1b[?1006h",
        }
    }

    fn disable(self) -> &'static str {
        match self {
            Self::Arrows => "\x1b[?1007l",
            Self::Reports => "\x1b[?1006l\x1b[?1000l",
        }
    }
}

/// A picture that fills the window. Dropping it restores the previous screen.
pub(crate) struct FullScreen {
    out: StreamWriter,
    stream: TerminalStream,
    size: WindowSize,
    wheel: WheelMode,
    is_synchronized: bool,
    /// The rows on the screen; `None` if what is there is not known.
    painted: Option<Vec<LiveRow>>,
}

impl FullScreen {
    pub(crate) fn enter(
        stream: &TerminalStream,
        size: WindowSize,
        kind: TerminalKind,
        wheel: WheelMode,
    ) -> io::Result<Self> {
        let mut screen = Self {
            out: StreamWriter::new(stream),
            stream: stream.clone(),
            size,
            wheel,
            is_synchronized: kind.synchronized,
            painted: None,
        };
        screen.write(&format!("{ENTER}{}", wheel.enable()))?;
        screen.stream.set_fills_window(true);
        Ok(screen)
    }

    pub(crate) fn size(&self) -> WindowSize {
        self.size
    }

    /// The window has another size: everything is painted again.
    pub(crate) fn resize(&mut self, size: WindowSize) {
        self.size = size;
        self.painted = None;
    }

    /// Shows rows from the top; the rest of the window is empty. Without a cursor, the terminal's is
    /// hidden.
    pub(crate) fn update(
        &mut self,
        rows: &[String],
        cursor: Option<CursorPosition>,
    ) -> io::Result<()> {
        let fit = |row: &String| LiveRow::new(row, self.size.columns + 1, RowCursor::Elsewhere);
        let rows: Vec<LiveRow> = rows.iter().take(self.size.rows).map(fit).collect();
        let mut text = String::from(if self.is_synchronized { "\x1b[?2026h" } else { "" });
        text.push_str("\x1b[?25l\x1b[?7l");
        let painted = self.painted.take();
        if painted.is_none() {
            text.push_str(ERASE);
        }
        let before = painted.unwrap_or_default();
        let empty = LiveRow { text: String::new(), columns: 0 };
        for at in 0..rows.len().max(before.len()) {
            let (row, old) = (rows.get(at).unwrap_or(&empty), before.get(at).unwrap_or(&empty));
            if row != old {
                text.push_str(&format!("\x1b[{};1H{}", at + 1, row.text));
                if row.columns < self.size.columns {
                    text.push_str("\x1b[K");
                }
            }
        }
        self.painted = Some(rows);
        text.push_str("\x1b[?7h");
        if let Some(CursorPosition { row, column }) = cursor {
            text.push_str(&format!("\x1b[{};{}H\x1b[?25h", row + 1, column + 1));
        }
        if self.is_synchronized {
            text.push_str("\x1b[?2026l");
        }
        self.write(&text)
    }

    /// Shows rows at the top and leaves the cursor below them, so that another part of the program may write.
    pub(crate) fn suspend(&mut self, rows: &[String]) -> io::Result<()> {
        self.update(rows, None)?;
        self.painted = None;
        let below = rows.len().min(self.size.rows.saturating_sub(1)) + 1;
        let wheel = self.wheel.disable();
        self.write(&format!("{wheel}\x1b[{below};1H\x1b[?25h"))
    }

    /// Takes the screen back.
    pub(crate) fn resume(&mut self, size: WindowSize) -> io::Result<()> {
        self.resize(size);
        let wheel = self.wheel.enable();
        self.write(wheel)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        // A terminal that is gone cannot be restored.
        let _ = self.write(&format!("{}{LEAVE}", self.wheel.disable()));
        self.stream.set_fills_window(false);
    }
}

#[cfg(test)]
mod tests {
    use zero_terminal::Terminal;

    use super::*;
    use crate::inline_screen::ReflowKind;

    #[test]
    fn changed_rows_are_painted_and_screen_is_restored() {
        let stream = Terminal::for_test().out.with_columns(20);
        let size = WindowSize { rows: 4, columns: 20 };
        let kind = TerminalKind { reflow: ReflowKind::Unknown, synchronized: true };
        let mut vt = vt100::Parser::new(4, 20, 0);
        vt.process(b"before");
        let mut screen = FullScreen::enter(&stream, size, kind, WheelMode::Reports).unwrap();
        let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        let cursor = Some(CursorPosition { row: 3, column: 2 });
        screen.update(&rows(&["one", "two", "", "> x"]), cursor).unwrap();
        let first = stream.written_text().len();
        screen.update(&rows(&["one", "2", "", "> x"]), cursor).unwrap();
        let written = stream.written_text();
        assert!(!written[first..].contains("one"), "{:?}", &written[first..]);
        vt.process(written.as_bytes());
        assert_eq!(vt.screen().contents(), "one\n2\n\n> x");
        assert_eq!(vt.screen().cursor_position(), (3, 2));
        let seen = stream.written_text().len();
        screen.resize(WindowSize { rows: 2, columns: 20 });
        screen.update(&rows(&["a", "b", "c"]), None).unwrap();
        drop(screen);
        vt.process(&stream.written_text().as_bytes()[seen..]);
        assert!(!vt.screen().alternate_screen());
        assert_eq!(vt.screen().contents(), "before");
    }
}
