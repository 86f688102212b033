//! A row as a terminal shows it: letters, and the style of each.

use std::fmt;

use zero_terminal::text_columns;

/// More columns than any row has.
pub(crate) const COLUMNS_MAX: u16 = 1_000;

/// A row without blanks at its end.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct ShownRow(Vec<ShownLetter>);

/// A letter; blank where nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownLetter {
    pub(crate) letter: char,
    pub(crate) style: LetterStyle,
}

/// How a letter looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LetterStyle {
    /// Whether it is bold, faint, italic, underlined.
    pub(crate) marks: [bool; 4],
    pub(crate) is_inverse: bool,
    /// The color of the letter, and of what is behind it.
    pub(crate) colors: [Option<LetterColor>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetterColor {
    Palette(u8),
    /// Red, green and blue.
    Exact(u32),
}

impl ShownRow {
    pub(crate) fn new(letters: impl IntoIterator<Item = ShownLetter>) -> Self {
        let mut letters: Vec<ShownLetter> = letters.into_iter().map(ShownLetter::seen).collect();
        while letters.last().is_some_and(|last| *last == ShownLetter::BLANK) {
            letters.pop();
        }
        Self(letters)
    }

    /// A row as it was written, text and styles.
    pub(crate) fn from_written(text: &str) -> Self {
        let mut terminal = vt100::Parser::new(1, COLUMNS_MAX, 0);
        terminal.process(text.as_bytes());
        Self::from_screen(terminal.screen(), 0)
    }

    /// A row of the library's screen.
    pub(crate) fn from_screen(screen: &vt100::Screen, row: u16) -> Self {
        let cells = (0..).map_while(|column| screen.cell(row, column));
        Self::new(cells.filter(|cell| !cell.is_wide_continuation()).map(ShownLetter::from_cell))
    }

    /// The row after the first letters that fit into so many columns were taken from it.
    pub(crate) fn split_at_columns(mut self, columns: usize) -> (Self, Self) {
        let mut used = 0;
        let mut fits = |letter: &ShownLetter| {
            used += letter.columns();
            used <= columns
        };
        let count = self.0.iter().take_while(|letter| fits(letter)).count();
        let rest = self.0.split_off(count);
        (Self::new(self.0), Self(rest))
    }

    /// The row with a cursor that is drawn in a column.
    pub(crate) fn with_drawn_cursor(mut self, column: usize) -> Self {
        let mut end = self.columns();
        while end <= column {
            self.0.push(ShownLetter::BLANK);
            end += 1;
        }
        let mut used = 0;
        let is_under = |letter: &&mut ShownLetter| {
            used += letter.columns();
            used > column
        };
        if let Some(letter) = self.0.iter_mut().find(is_under) {
            letter.style.is_inverse = true;
        }
        self
    }

    pub(crate) fn columns(&self) -> usize {
        self.0.iter().map(ShownLetter::columns).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl ShownLetter {
    const BLANK: Self = Self {
        letter: ' ',
        style: LetterStyle { marks: [false; 4], is_inverse: false, colors: [None; 2] },
    };

    fn from_cell(cell: &vt100::Cell) -> Self {
        let color = |color: vt100::Color| match color {
            vt100::Color::Default => None,
            vt100::Color::Idx(index) => Some(LetterColor::Palette(index)),
            vt100::Color::Rgb(red, green, blue) => {
                Some(LetterColor::Exact(u32::from_be_bytes([0, red, green, blue])))
            }
        };
        Self {
            letter: cell.contents().chars().next().unwrap_or(' '),
            style: LetterStyle {
                marks: [cell.bold(), cell.dim(), cell.italic(), cell.underline()],
                is_inverse: cell.inverse(),
                colors: [color(cell.fgcolor()), color(cell.bgcolor())],
            },
        }
    }

    /// What the user sees of it: the letter of a blank has no looks.
    fn seen(self) -> Self {
        let LetterStyle { marks: [.., is_underlined], is_inverse, colors: [_, behind] } =
            self.style;
        match self.letter == ' ' && !is_underlined && !is_inverse && behind.is_none() {
            true => Self::BLANK,
            false => self,
        }
    }

    fn columns(&self) -> usize {
        text_columns(self.letter.encode_utf8(&mut [0; 4]))
    }
}

/// The text, with the style wherever it changes.
impl fmt::Debug for ShownRow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut style = LetterStyle::default();
        for letter in &self.0 {
            if letter.style != style {
                style = letter.style;
                write!(formatter, "<{style:?}>")?;
            }
            write!(formatter, "{}", letter.letter)?;
        }
        Ok(())
    }
}

/// Without empty rows at the end.
pub(crate) fn trim_rows(rows: impl IntoIterator<Item = ShownRow>) -> Vec<ShownRow> {
    let mut rows: Vec<ShownRow> = rows.into_iter().collect();
    while rows.last().is_some_and(ShownRow::is_empty) {
        rows.pop();
    }
    rows
}
