//! Replays random output and random changes of the window on real terminals. Afterwards every finished
//! line must be there once, in order and in its styles, followed by the live area, and by nothing else.

use proptest::prelude::*;
use zero_chat::inline_screen::{CursorDisplay, InlineScreen, ReflowKind};
use zero_terminal::WindowSize;
use zero_terminal::live_area::CursorPosition;
use zero_terminal::text_columns;

use crate::shown_row::ShownRow;
use crate::terminal_under_test::{ByteQueue, TerminalUnderTest};
use crate::tmux_terminal::TmuxTerminal;
use crate::vt100_terminal::Vt100Terminal;
use crate::xterm_terminal::XtermTerminal;

const START: WindowSize = WindowSize { rows: 24, columns: 80 };
/// No window is narrower.
const COLUMNS_MIN: usize = 20;

#[derive(Clone, Debug)]
enum ReplayStep {
    Update(UpdateStep),
    Resize(WindowSize),
    /// The program learns of the change only after it wrote.
    LateResize(WindowSize, UpdateStep),
    Suspend,
}

#[derive(Clone, Debug)]
struct UpdateStep {
    /// Columns of the finished lines.
    finished: Vec<usize>,
    /// Columns of the rows of the live area, and of what they consist.
    rows: Vec<(usize, &'static str)>,
    cursor: Option<CursorPosition>,
    display: CursorDisplay,
    /// Chooses the styles of lines and rows.
    styles: usize,
}

fn update_step(display: impl Strategy<Value = CursorDisplay>) -> impl Strategy<Value = UpdateStep> {
    let columns = || prop_oneof![3 => 0..30_usize, 2 => 30..120_usize, 1 => 120..350_usize];
    let filler = prop_oneof![4 => Just("-"), 1 => Just("界")];
    let position = (0..12_usize, columns());
    (
        proptest::collection::vec(columns(), 0..5),
        proptest::collection::vec((columns(), filler), 0..12),
        proptest::option::of(position.prop_map(|(row, column)| CursorPosition { row, column })),
        display,
        0..1_000_usize,
    )
        .prop_map(|(finished, rows, cursor, display, styles)| UpdateStep {
            finished,
            rows,
            cursor,
            display,
            styles,
        })
}

fn any_display() -> impl Strategy<Value = CursorDisplay> {
    prop_oneof![Just(CursorDisplay::Real), Just(CursorDisplay::Drawn)]
}

fn window_size() -> impl Strategy<Value = WindowSize> {
    let columns = prop_oneof![COLUMNS_MIN..60_usize, COLUMNS_MIN..=300];
    (4..60_usize, columns).prop_map(|(rows, columns)| WindowSize { rows, columns })
}

fn replay_step() -> impl Strategy<Value = ReplayStep> {
    prop_oneof![
        6 => update_step(any_display()).prop_map(ReplayStep::Update),
        5 => window_size().prop_map(ReplayStep::Resize),
        1 => Just(ReplayStep::Suspend),
    ]
}

fn replay_step_with_late_resize() -> impl Strategy<Value = ReplayStep> {
    let late = (window_size(), update_step(Just(CursorDisplay::Drawn)))
        .prop_map(|(size, update)| ReplayStep::LateResize(size, update));
    prop_oneof![6 => replay_step(), 1 => late]
}

/// A screen on a terminal, and what should be there.
struct Replay<T> {
    terminal: T,
    bytes: ByteQueue,
    screen: InlineScreen<ByteQueue>,
    size: WindowSize,
    /// Finished lines, or the rows of them on a terminal that does not rewrap.
    finished: Vec<ShownRow>,
    lines_written: usize,
    /// The last update: its rows, as they are shown, and the cursor.
    rows: Vec<ShownRow>,
    cursor: Option<CursorPosition>,
    /// Whether the terminal's own cursor is in the live area.
    is_cursor_real: bool,
    /// Looks at the whole terminal after each step. Not for long replays.
    checks_each_step: bool,
}

impl<T: TerminalUnderTest> Replay<T> {
    fn new(terminal: T) -> Self {
        let bytes = ByteQueue::default();
        let screen = InlineScreen::new(bytes.clone(), START, terminal.kind());
        Self {
            terminal,
            bytes,
            screen,
            size: START,
            finished: Vec::new(),
            lines_written: 0,
            rows: Vec::new(),
            cursor: None,
            is_cursor_real: false,
            checks_each_step: true,
        }
    }

    fn reflows(&self) -> bool {
        self.terminal.kind().reflow != ReflowKind::None
    }

    fn apply(&mut self, step: &ReplayStep) {
        match step {
            ReplayStep::Update(update) => self.update(update, self.size),
            ReplayStep::Resize(size) => {
                self.make_room(*size);
                self.resize_terminal(*size);
                self.resize_screen(*size);
            }
            ReplayStep::LateResize(size, update) => {
                let mut update = update.clone();
                update.rows.truncate(size.rows.min(3));
                let short = UpdateStep { finished: Vec::new(), ..update.clone() };
                // The cursor is at its safe place before the change.
                self.update(&short, self.size);
                self.make_room(*size);
                self.resize_terminal(*size);
                self.update(&update, *size);
                self.resize_screen(*size);
            }
            ReplayStep::Suspend => {
                self.screen.suspend().unwrap();
                self.show();
                (self.rows, self.cursor, self.is_cursor_real) = (Vec::new(), None, false);
                self.check();
                assert!(self.terminal.cursor().2, "the cursor is visible");
            }
        }
    }

    /// Writes what the screen has written.
    fn show(&mut self) {
        let bytes = self.bytes.take();
        assert_only_known_sequences(&bytes);
        self.terminal.write(&bytes);
    }

    fn update(&mut self, update: &UpdateStep, terminal_size: WindowSize) {
        let mut finished = String::new();
        for columns in &update.finished {
            self.lines_written += 1;
            let line = numbered_text(&format!("L{}:", self.lines_written), "x", *columns);
            let line = paint_letters(&line, update.styles + self.lines_written);
            finished.push_str(&line);
            finished.push('\n');
            let mut rest = ShownRow::from_written(&line);
            while !self.reflows() && rest.columns() > terminal_size.columns {
                let (row, after) = rest.split_at_columns(terminal_size.columns);
                self.finished.push(row);
                rest = after;
            }
            self.finished.push(rest);
        }
        let named = |(index, (columns, filler)): (usize, &(usize, &str))| {
            // The library that stands for terminals without reflow fails on wide characters that a
            // change of the window divides.
            let filler = if self.reflows() { filler } else { "-" };
            numbered_text(&format!("~{index}:"), filler, *columns)
        };
        let rows: Vec<String> = update.rows.iter().enumerate().map(named).collect();
        let paint = |(at, row): (usize, &String)| paint_letters(row, update.styles + at);
        let styled: Vec<String> = rows.iter().enumerate().map(paint).collect();
        let cursor = update.cursor.filter(|_| !rows.is_empty()).map(|cursor| CursorPosition {
            row: cursor.row.min(rows.len() - 1),
            column: cursor.column.min(self.size.columns - 1),
        });
        self.screen.set_cursor_display(update.display);
        self.screen.update(&finished, &styled, cursor).unwrap();
        self.show();
        self.screen.update("", &styled, cursor).unwrap();
        assert_eq!(self.bytes.take(), b"", "nothing changed");

        let rows_max = (self.size.rows / 3).max(3).min(self.size.rows);
        let first = rows.len().saturating_sub(rows_max);
        let mut shown: Vec<usize> = (first..rows.len()).collect();
        if let Some(cursor) = cursor.filter(|cursor| cursor.row < first) {
            shown[0] = cursor.row;
        }
        let last_column = self.size.columns - 1;
        let show = |row: &usize| {
            let (shown, _) = ShownRow::from_written(&styled[*row]).split_at_columns(last_column);
            match cursor.filter(|cursor| cursor.row == *row) {
                Some(cursor) if update.display == CursorDisplay::Drawn => {
                    shown.with_drawn_cursor(cursor.column.min(last_column))
                }
                _ => shown,
            }
        };
        self.rows = shown.iter().map(show).collect();
        self.cursor = cursor.map(|cursor| CursorPosition {
            row: shown.iter().position(|row| *row == cursor.row).unwrap(),
            ..cursor
        });
        self.is_cursor_real = cursor.is_some() && update.display == CursorDisplay::Real;
        if terminal_size == self.size {
            self.check();
        }
    }

    /// What no program can prevent: a terminal that rewraps the live area moves rows into the
    /// scrollback if there are not enough above, and tmux does even if there are empty ones below. So
    /// the live area is made small before.
    fn make_room(&mut self, size: WindowSize) {
        if !self.reflows() {
            return;
        }
        let wrapped = |row: &ShownRow| row.columns().max(1).div_ceil(size.columns - 1);
        let cursor = self.cursor.map_or(0, |cursor| cursor.column / size.columns);
        let added = self.rows.iter().map(|row| wrapped(row) - 1).sum::<usize>() + cursor;
        let cuts_cursor_row = self.terminal.kind().reflow == ReflowKind::AllButCursorLine;
        let area_row = match self.cursor.filter(|_| self.is_cursor_real) {
            Some(cursor) => cursor.row,
            None if cuts_cursor_row => self.rows.len().saturating_sub(1),
            None => 0,
        };
        let is_cursor_moved = self.is_cursor_real && cuts_cursor_row && added > 0;
        let (row, ..) = self.terminal.cursor();
        if row.min(size.rows - 1) < area_row + added || is_cursor_moved {
            let display = match self.is_cursor_real {
                true => CursorDisplay::Real,
                false => CursorDisplay::Drawn,
            };
            let cursor = self.cursor.map(|_| CursorPosition { row: 2, column: 5 });
            let rows = vec![(10, "-"); 3];
            let update = UpdateStep { finished: Vec::new(), rows, cursor, display, styles: 0 };
            self.update(&update, self.size);
        }
    }

    fn resize_terminal(&mut self, size: WindowSize) {
        if let Some(cursor) = self.cursor.filter(|_| self.is_cursor_real && !self.reflows()) {
            // Rows of the live area that went into the scrollback stay there.
            let lost = (cursor.row + 1).saturating_sub(size.rows);
            self.finished.extend(self.rows.drain(..lost));
        }
        self.terminal.resize(size);
    }

    fn resize_screen(&mut self, size: WindowSize) {
        self.size = size;
        self.screen.resize(size).unwrap();
        self.show();
        (self.rows, self.cursor, self.is_cursor_real) = (Vec::new(), None, false);
        self.check();
    }

    fn check(&mut self) {
        if !self.checks_each_step {
            return;
        }
        let actual = self.terminal.rows();
        let expected: Vec<&ShownRow> = self.finished.iter().chain(&self.rows).collect();
        let is_blank = |row: &&ShownRow| row.is_empty();
        let blanks = expected.iter().rev().copied().take_while(is_blank).count();
        let expected = &expected[..expected.len() - blanks];
        let pair = |index: usize| (actual.get(index), expected.get(index));
        let is_same = |index: &usize| match pair(*index) {
            (Some(actual), Some(expected)) if self.reflows() => actual == *expected,
            // Its end may have been cut while it was on the screen.
            (Some(actual), Some(expected)) => {
                expected.starts_with(actual)
                    && actual.columns() >= expected.columns().min(COLUMNS_MIN - 1)
            }
            _ => false,
        };
        let count = actual.len().max(expected.len());
        if let Some(index) = (0..count).find(|index| !is_same(index)) {
            let rows = (index.saturating_sub(3)..count.min(index + 8)).map(pair);
            let listed: Vec<String> = rows.map(|pair| format!("{pair:?}")).collect();
            panic!("row {index} in {:?}:\n{}", self.size, listed.join("\n"));
        }
        // A cursor in another row than assumed would spoil the next step.
        let (_, column, is_visible) = self.terminal.cursor();
        assert!(!is_visible || self.is_cursor_real || self.rows.is_empty());
        if let Some(cursor) = self.cursor.filter(|_| self.is_cursor_real) {
            assert_eq!((column, is_visible), (cursor.column, true));
        }
    }
}

/// A text of so many columns that begins with a name.
fn numbered_text(name: &str, filler: &str, columns: usize) -> String {
    let mut text = cut(name, columns);
    while text_columns(&text) + text_columns(filler) <= columns {
        text.push_str(filler);
    }
    text
}

/// A text with styles as a program writes them, chosen by a number.
fn paint_letters(text: &str, styles: usize) -> String {
    // Nothing has a background: xterm gives it to the rest of a row that begins at the bottom.
    const STYLES: [&str; 9] = [
        "",
        "\x1b[1m",
        "\x1b[2m\x1b[3m",
        "\x1b[4m",
        "\x1b[36m",
        "\x1b[1m\x1b[91m",
        "\x1b[38;5;208m",
        "\x1b[38;2;10;200;30m",
        "\x1b[32m",
    ];
    let letters: Vec<char> = text.chars().collect();
    let parts = letters.chunks(1 + styles % 17).enumerate();
    let paint = |(at, part): (usize, &[char])| {
        let part: String = part.iter().collect();
        match STYLES[(at + styles / 17) % STYLES.len()] {
            "" => part,
            style => format!("{style}{part}\x1b[0m"),
        }
    };
    parts.map(paint).collect()
}

fn cut(text: &str, columns: usize) -> String {
    let mut cut = String::new();
    for letter in text.chars() {
        cut.push(letter);
        if text_columns(&cut) > columns {
            cut.pop();
            break;
        }
    }
    cut
}

/// Only relative moves, erasing, styles and modes: no scroll region, no row numbers.
fn assert_only_known_sequences(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap();
    for sequence in text.split('\x1b').skip(1) {
        let body = sequence.strip_prefix('[').expect("only CSI sequences");
        let last = body.find(|c: char| ('@'..='~').contains(&c)).map(|at| &body[at..=at]);
        assert!(
            matches!(last, Some("A" | "C" | "J" | "K" | "m" | "h" | "l")),
            "{sequence:?} in {text:?}"
        );
    }
}

#[test]
fn vt100_ten_thousand_lines_and_two_hundred_resizes_lose_nothing() {
    let mut replay = Replay::new(Vt100Terminal::new(START));
    for round in 0..200_usize {
        // Steps that have no common divisor with the ranges reach every size.
        let size =
            WindowSize { rows: 4 + round * 17 % 57, columns: COLUMNS_MIN + round * 37 % 281 };
        let display = if round % 3 == 0 { CursorDisplay::Drawn } else { CursorDisplay::Real };
        for part in 0..10_usize {
            let finished = (0..5).map(|line| (round * 7 + part * 13 + line * 31) % 200).collect();
            let rows = (0..round % 9).map(|row| ((round + row * 29) % 310, "-")).collect();
            let cursor =
                (round % 4 > 0).then_some(CursorPosition { row: part, column: round % 90 });
            replay.checks_each_step = false;
            let update = UpdateStep { finished, rows, cursor, display, styles: round * 10 + part };
            replay.update(&update, replay.size);
        }
        replay.checks_each_step = round % 40 == 39;
        replay.apply(&ReplayStep::Resize(size));
    }
    assert_eq!(replay.lines_written, 10_000);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(80) })]

    #[test]
    fn vt100_replay_keeps_every_row(steps in proptest::collection::vec(replay_step(), 1..25)) {
        let mut replay = Replay::new(Vt100Terminal::new(START));
        for step in &steps {
            replay.apply(step);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn tmux_replay_keeps_every_row(steps in proptest::collection::vec(replay_step_with_late_resize(), 10..25)) {
        let mut replay = Replay::new(TmuxTerminal::new(START));
        for step in &steps {
            replay.apply(step);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(10) })]

    #[test]
    fn xterm_replay_keeps_every_row(steps in proptest::collection::vec(replay_step(), 1..25)) {
        let mut replay = Replay::new(XtermTerminal::new(START));
        for step in &steps {
            replay.apply(step);
        }
    }
}
