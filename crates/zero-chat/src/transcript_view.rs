//! A part of a transcript that fills a window: scrolled, searched, and folded cell by cell.
//!
//! Only the cells that are seen are rendered, so that a long transcript costs no more than a short one. The
//! view stays at a cell and not at a row number: it does not move when the window changes its width.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use crate::cell_view::Fold;
use crate::chat_transcript::ChatTranscript;
use crate::styled_row::row_text;

/// Cells whose rows are kept between two paints.
const KEPT_CELLS_MAX: usize = 256;
const REVERSE_ON: &str = "\x1b[7m";
const REVERSE_OFF: &str = "\x1b[27m";

/// What is seen of a transcript.
#[derive(Debug)]
pub struct TranscriptView {
    /// The row at the top; `None` while the end is followed.
    top: Option<RowAnchor>,
    /// The cell that keys fold and copy.
    selected: Option<u64>,
    /// How cells are shown that the user did not fold or unfold.
    fold: Fold,
    /// Cells that are shown the other way.
    refolded: HashSet<u64>,
    /// What is searched, in lower case.
    needle: String,
    /// The row that was found last.
    found: Option<RowAnchor>,
    row_cache: RefCell<KeptRows>,
}

/// A row, by its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RowAnchor {
    cell: u64,
    row: usize,
}

/// Rows that were rendered before, for one width.
#[derive(Debug, Default)]
struct KeptRows {
    columns: usize,
    cells: HashMap<(u64, bool), Rc<Vec<String>>>,
    open: OpenRows,
}

/// The rows of the text that is being written. Only those that came since the last paint are wrapped.
#[derive(Debug, Default)]
struct OpenRows {
    /// Number of its cell.
    cell: u64,
    /// The rows as they were written that are in it, by number, and the rows that each takes.
    written: Range<u64>,
    counts: VecDeque<usize>,
    rows: Rc<Vec<String>>,
}

impl OpenRows {
    fn update(&mut self, window: ViewWindow<'_>, cell: u64) {
        let now = window.transcript.open_row_numbers();
        let goes_on = self.cell == cell
            && self.written.start <= now.start
            && now.start <= self.written.end
            && self.written.end <= now.end;
        if !goes_on {
            *self = Self { cell, written: now.start..now.start, ..Self::default() };
        }
        let rows = Rc::make_mut(&mut self.rows);
        let dropped: usize =
            (self.written.start..now.start).filter_map(|_| self.counts.pop_front()).sum();
        rows.drain(..dropped.min(rows.len()));
        for number in self.written.end..now.end {
            let wrapped = window.transcript.wrap_open_row(number, window.columns);
            self.counts.push_back(wrapped.len());
            rows.extend(wrapped);
        }
        self.written = now;
    }
}

/// A row of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRow {
    /// Number of its cell.
    pub cell: u64,
    /// What is shown, styled.
    pub text: String,
}

/// The window of the view.
#[derive(Clone, Copy)]
pub struct ViewWindow<'a> {
    /// The cells.
    pub transcript: &'a ChatTranscript,
    /// Its width.
    pub columns: usize,
    /// Its height.
    pub rows: usize,
}

impl TranscriptView {
    /// A view of the end.
    pub fn new(fold: Fold) -> Self {
        Self {
            top: None,
            selected: None,
            fold,
            refolded: HashSet::new(),
            needle: String::new(),
            found: None,
            row_cache: RefCell::default(),
        }
    }

    /// Whether the newest rows are seen.
    pub(crate) fn is_at_end(&self) -> bool {
        self.top.is_none()
    }

    /// Number of the selected cell.
    pub(crate) fn selected(&self) -> Option<u64> {
        self.selected
    }

    /// Selects nothing.
    pub(crate) fn deselect(&mut self) {
        self.selected = None;
    }

    /// What is searched.
    pub(crate) fn needle(&self) -> &str {
        &self.needle
    }

    /// Renders everything again, as after a change of how cells look.
    pub(crate) fn forget_rows(&mut self) {
        self.row_cache = RefCell::default();
    }

    /// The rows of the window; fewer if there are no more.
    pub fn page(&mut self, window: ViewWindow<'_>) -> Vec<ViewRow> {
        if let Some(top) = self.top {
            let page = self.page_from(window, top);
            if page.len() >= window.rows {
                return page.into_iter().map(|row| self.mark_match(row)).collect();
            }
            self.top = None;
        }
        let page = self.page_at_end(window);
        page.into_iter().map(|row| self.mark_match(row)).collect()
    }

    /// Moves by so many rows, up if they are negative.
    pub fn scroll(&mut self, window: ViewWindow<'_>, rows: isize) {
        let mut at = match self.top {
            Some(top) => top,
            None if rows > 0 => return,
            None => self.top_at_end(window),
        };
        let first = window.transcript.first_number();
        let mut left = rows.unsigned_abs();
        if rows < 0 {
            while at.row < left && at.cell > first {
                left -= at.row;
                at.cell -= 1;
                at.row = self.rows_of(window, at.cell).len();
            }
            at.row = at.row.saturating_sub(left);
        } else {
            at.row += left;
            loop {
                let length = self.rows_of(window, at.cell).len();
                if at.row < length {
                    break;
                }
                if at.cell >= window.transcript.end_number() {
                    self.top = None;
                    return;
                }
                at = RowAnchor { cell: at.cell + 1, row: at.row - length };
            }
        }
        self.top = Some(at);
    }

    pub(crate) fn scroll_to_start(&mut self, window: ViewWindow<'_>) {
        self.top = Some(RowAnchor { cell: window.transcript.first_number(), row: 0 });
    }

    pub(crate) fn scroll_to_end(&mut self) {
        self.top = None;
    }

    /// Selects the next cell that has rows, or the one before; the first time, the last one that is
    /// seen.
    pub(crate) fn select(&mut self, window: ViewWindow<'_>, is_forward: bool) {
        let transcript = window.transcript;
        let (first, end) = (transcript.first_number(), transcript.end_number());
        let has_rows = |number: &u64| !self.rows_of(window, *number).is_empty();
        let next = match self.selected {
            Some(selected) if is_forward => {
                (selected.saturating_add(1).max(first)..end).find(has_rows)
            }
            Some(selected) => (first..selected.min(end)).rev().find(has_rows),
            None => {
                let page = self.clone_page(window);
                page.iter().rev().map(|row| row.cell).find(|number| *number < end)
            }
        };
        if let Some(next) = next {
            self.selected = Some(next);
            self.reveal(window, RowAnchor { cell: next, row: 0 });
        }
    }

    /// Folds the selected cell, or unfolds it.
    pub(crate) fn toggle_fold(&mut self, window: ViewWindow<'_>) {
        let Some(selected) = self.selected else { return };
        if !self.refolded.remove(&selected) {
            self.refolded.insert(selected);
        }
        self.reveal(window, RowAnchor { cell: selected, row: 0 });
    }

    /// Folds all cells, or unfolds them.
    pub(crate) fn toggle_all(&mut self) {
        self.refolded.clear();
        self.fold = match self.fold {
            Fold::Open => Fold::Folded,
            Fold::Folded => Fold::Open,
        };
        if let Some(top) = &mut self.top {
            top.row = 0;
        }
    }

    /// Searches from the end for a text, whatever its case; false if it is nowhere.
    pub(crate) fn search(&mut self, window: ViewWindow<'_>, needle: &str) -> bool {
        self.needle = needle.to_lowercase();
        self.found = None;
        self.needle.is_empty() || self.find_next(window, false)
    }

    /// Goes to the next match, or the one before; false if there is none.
    pub(crate) fn find_next(&mut self, window: ViewWindow<'_>, is_forward: bool) -> bool {
        let transcript = window.transcript;
        let (first, end) = (transcript.first_number(), transcript.end_number());
        if self.needle.is_empty() {
            return false;
        }
        let from = self.found.unwrap_or(RowAnchor { cell: end, row: usize::MAX });
        let mut number = from.cell;
        loop {
            let matches = self.matches_in(window, number);
            let found = match (number == from.cell, is_forward) {
                (true, true) => matches.into_iter().find(|row| *row > from.row),
                (true, false) => matches.into_iter().rev().find(|row| *row < from.row),
                (false, true) => matches.into_iter().next(),
                (false, false) => matches.into_iter().next_back(),
            };
            if let Some(row) = found {
                let found = RowAnchor { cell: number, row };
                (self.found, self.selected) = (Some(found), (number < end).then_some(number));
                self.reveal(window, found);
                return true;
            }
            number = match is_forward {
                true if number < end => number + 1,
                false if number > first => number - 1,
                _ => return false,
            };
        }
    }

    /// The rows of a cell with a match. A folded cell with one is unfolded.
    fn matches_in(&mut self, window: ViewWindow<'_>, number: u64) -> Vec<usize> {
        if let Some(cell) = window.transcript.numbered_cell(number) {
            let text = cell.source_text();
            let title = match cell {
                crate::Cell::Call(call) => call.title.as_str(),
                _ => "",
            };
            let has = |text: &str| text.to_lowercase().contains(&self.needle);
            if !has(&text) && !has(title) {
                return Vec::new();
            }
            if self.fold_of(number) == Fold::Folded {
                self.refolded.insert(number);
                if self.fold == Fold::Open {
                    self.refolded.remove(&number);
                }
            }
        }
        let rows = self.rows_of(window, number);
        let has_match = |row: &String| row_text(row).to_lowercase().contains(&self.needle);
        let found: Vec<usize> =
            rows.iter().enumerate().filter(|(_, row)| has_match(row)).map(|(at, _)| at).collect();
        match found.is_empty() && number < window.transcript.end_number() && !rows.is_empty() {
            // It is divided between rows.
            true => vec![0],
            false => found,
        }
    }

    /// Scrolls until a row is seen.
    fn reveal(&mut self, window: ViewWindow<'_>, at: RowAnchor) {
        let top = self.top.unwrap_or_else(|| self.top_at_end(window));
        let is_seen = at >= top && {
            let mut below = at.row;
            let mut number = at.cell;
            while number > top.cell && below < window.rows {
                number -= 1;
                below += self.rows_of(window, number).len();
            }
            number == top.cell && below < window.rows + top.row
        };
        if !is_seen {
            let above = isize::try_from(window.rows / 3).unwrap_or(0);
            self.top = Some(at);
            self.scroll(window, -above);
        }
    }

    fn fold_of(&self, number: u64) -> Fold {
        match (self.fold, self.refolded.contains(&number)) {
            (Fold::Open, false) | (Fold::Folded, true) => Fold::Open,
            _ => Fold::Folded,
        }
    }

    fn rows_of(&self, window: ViewWindow<'_>, number: u64) -> Rc<Vec<String>> {
        let ViewWindow { transcript, columns, .. } = window;
        let fold = self.fold_of(number);
        let mut row_cache = self.row_cache.borrow_mut();
        if row_cache.columns != columns || row_cache.cells.len() > KEPT_CELLS_MAX {
            *row_cache = KeptRows { columns, ..KeptRows::default() };
        }
        if number >= transcript.end_number() {
            row_cache.open.update(window, number);
            return Rc::clone(&row_cache.open.rows);
        }
        let render = || Rc::new(transcript.numbered_rows(number, columns, fold));
        Rc::clone(row_cache.cells.entry((number, fold == Fold::Open)).or_insert_with(render))
    }

    fn page_from(&self, window: ViewWindow<'_>, top: RowAnchor) -> Vec<ViewRow> {
        let transcript = window.transcript;
        let (first, end) = (transcript.first_number(), transcript.end_number());
        let top = if top.cell < first { RowAnchor { cell: first, row: 0 } } else { top };
        let mut page = Vec::new();
        for cell in top.cell..=end {
            let skipped = if cell == top.cell { top.row } else { 0 };
            let rows = self.rows_of(window, cell);
            let left = window.rows - page.len();
            let shown = rows.iter().skip(skipped).take(left);
            page.extend(shown.map(|text| ViewRow { cell, text: text.clone() }));
            if page.len() >= window.rows {
                break;
            }
        }
        page
    }

    fn page_at_end(&self, window: ViewWindow<'_>) -> Vec<ViewRow> {
        let transcript = window.transcript;
        let mut page = VecDeque::new();
        for cell in (transcript.first_number()..=transcript.end_number()).rev() {
            let rows = self.rows_of(window, cell);
            let left = window.rows - page.len();
            for text in rows.iter().rev().take(left) {
                page.push_front(ViewRow { cell, text: text.clone() });
            }
            if page.len() >= window.rows {
                break;
            }
        }
        page.into()
    }

    fn clone_page(&self, window: ViewWindow<'_>) -> Vec<ViewRow> {
        match self.top {
            Some(top) => self.page_from(window, top),
            None => self.page_at_end(window),
        }
    }

    fn top_at_end(&self, window: ViewWindow<'_>) -> RowAnchor {
        let page = self.page_at_end(window);
        let cell = page.first().map_or(window.transcript.first_number(), |row| row.cell);
        let seen = page.iter().filter(|row| row.cell == cell).count();
        RowAnchor { cell, row: self.rows_of(window, cell).len().saturating_sub(seen) }
    }

    /// Shows where a row has what is searched. Its other styles are left out.
    fn mark_match(&self, row: ViewRow) -> ViewRow {
        if self.needle.is_empty() {
            return row;
        }
        let text = row_text(&row.text);
        let lower = text.to_lowercase();
        // Letters whose case changes their length would move the marks.
        if lower.len() != text.len() || !lower.contains(&self.needle) {
            return row;
        }
        let mut marked = String::new();
        let mut from = 0;
        for (at, found) in lower.match_indices(&self.needle) {
            let (Some(before), Some(part)) = (text.get(from..at), text.get(at..at + found.len()))
            else {
                return row;
            };
            marked.push_str(before);
            marked.push_str(&format!("{REVERSE_ON}{part}{REVERSE_OFF}"));
            from = at + found.len();
        }
        marked.push_str(text.get(from..).unwrap_or_default());
        ViewRow { text: marked, ..row }
    }
}

#[cfg(test)]
mod tests {
    use zero_terminal::Terminal;

    use super::*;
    use crate::cell_view::ViewOptions;

    /// A transcript with cells of two rows each, and a blank one between them.
    fn make_transcript(cells: usize) -> ChatTranscript {
        let stream = Terminal::for_test().out.with_columns(40).without_colours();
        let mut transcript = ChatTranscript::new(&stream, ViewOptions::default());
        for number in 0..cells {
            transcript.add_printed(&format!("cell {number}\nend {number}"));
        }
        transcript
    }

    fn window(transcript: &ChatTranscript) -> ViewWindow<'_> {
        ViewWindow { transcript, columns: 39, rows: 4 }
    }

    fn texts(view: &mut TranscriptView, transcript: &ChatTranscript) -> Vec<String> {
        view.page(window(transcript)).into_iter().map(|row| row.text).collect()
    }

    #[test]
    fn view_follows_the_end_until_it_is_scrolled() {
        let mut transcript = make_transcript(5);
        let mut view = TranscriptView::new(Fold::Folded);
        assert_eq!(texts(&mut view, &transcript), ["cell 3", "end 3", "cell 4", "end 4"]);
        view.scroll(window(&transcript), -3);
        assert_eq!(texts(&mut view, &transcript), ["end 1", "cell 2", "end 2", "cell 3"]);
        transcript.add_printed("cell 5\nend 5");
        assert_eq!(texts(&mut view, &transcript)[0], "end 1");
        view.scroll(window(&transcript), 2);
        assert_eq!(texts(&mut view, &transcript)[0], "end 2");
        view.scroll(window(&transcript), 100);
        assert!(view.is_at_end());
        assert_eq!(texts(&mut view, &transcript)[3], "end 5");
        view.scroll(window(&transcript), -100);
        assert_eq!(texts(&mut view, &transcript)[0], "cell 0");
        view.scroll_to_end();
        assert_eq!(texts(&mut view, &transcript)[3], "end 5");
    }

    fn make_text(text: &str) -> zero_core::event::Event {
        let kind = zero_core::event::EventKind::Text { text: text.to_owned() };
        zero_core::event::Event { seq: 1, run: None, time_ms: 0, kind }
    }

    /// A transcript with an answer that is being written, of so many paragraphs.
    fn make_open_answer(paragraphs: usize) -> ChatTranscript {
        let mut transcript = make_transcript(1);
        for number in 0..paragraphs {
            let text = format!("paragraph {number} has words for more than a row of a window\n\n");
            transcript.apply(&make_text(&text));
        }
        transcript
    }

    #[test]
    fn rows_of_an_open_text_are_those_of_a_new_view() {
        let mut view = TranscriptView::new(Fold::Folded);
        let mut transcript = make_open_answer(3);
        for number in 0..2_500 {
            let text = format!("more {number} of this, and some words that need another row\n\n");
            transcript.apply(&make_text(&text));
            if number % 50 == 0 || number > 2_480 {
                let columns = if number % 100 == 0 { 39 } else { 21 };
                let window = ViewWindow { transcript: &transcript, columns, rows: 40 };
                let fresh = TranscriptView::new(Fold::Folded).page(window);
                assert_eq!(view.page(window), fresh, "{number}");
            }
        }
    }

    #[test]
    fn paint_of_a_long_open_text_costs_no_more_than_of_a_short_one() {
        let best = |transcript: &ChatTranscript| {
            let mut view = TranscriptView::new(Fold::Folded);
            let times = (0..20).map(|_| {
                let start = std::time::Instant::now();
                view.page(window(transcript));
                start.elapsed()
            });
            times.min().unwrap()
        };
        let (short, long) = (best(&make_open_answer(20)), best(&make_open_answer(1_500)));
        // Seen without the rows that are kept: more than a hundred times.
        assert!(long < short * 10 + std::time::Duration::from_micros(200), "{long:?}, {short:?}");
    }

    #[test]
    fn search_starts_at_end_and_marks_matches() {
        let transcript = make_transcript(9);
        let mut view = TranscriptView::new(Fold::Folded);
        assert!(view.search(window(&transcript), "END 2"));
        let marked = format!("{REVERSE_ON}end 2{REVERSE_OFF}");
        assert!(texts(&mut view, &transcript).contains(&marked));
        assert_eq!(view.selected(), Some(2));
        assert!(!view.find_next(window(&transcript), false));
        assert!(view.search(window(&transcript), "cell"));
        assert_eq!(view.selected(), Some(8));
        assert!(view.find_next(window(&transcript), false));
        assert_eq!(view.selected(), Some(7));
        assert!(view.find_next(window(&transcript), true));
        assert_eq!(view.selected(), Some(8));
        assert!(!view.search(window(&transcript), "nowhere"));
    }

    #[test]
    fn selection_moves_over_cells_and_is_seen() {
        let transcript = make_transcript(9);
        let mut view = TranscriptView::new(Fold::Folded);
        for expected in [8, 7, 6, 5] {
            view.select(window(&transcript), false);
            assert_eq!(view.selected(), Some(expected));
            let page = view.page(window(&transcript));
            assert!(page.iter().any(|row| row.cell == expected), "{page:?}");
        }
        view.select(window(&transcript), true);
        assert_eq!(view.selected(), Some(6));
    }
}
