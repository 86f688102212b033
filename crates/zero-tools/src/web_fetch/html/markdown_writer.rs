//! Writes the text of a page as Markdown, block by block ([`MarkdownWriter`]).

use url::Url;
use zero_core::text_shortening::head;

/// Longest URL of a link, in bytes.
const LINK_BYTES_MAX: usize = 500;
/// Most nested inline marks that are tracked.
const MARKS_MAX: usize = 16;
/// Most nested lists and quotes that are indented.
const DEPTH_MAX: usize = 12;
/// Most cells of a table that is written as a table.
const CELLS_MAX: usize = 20_000;

/// The part of a page that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageRegion {
    /// The main content.
    Main,
    /// Other content.
    Body,
    /// Navigation, footers and similar.
    Boilerplate,
}

/// Inline markup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InlineMark {
    Strong,
    Emphasis,
    Strikethrough,
    Code,
    /// A link to an absolute URL, or `None` if it leads to the same page.
    Link(Option<String>),
}

impl InlineMark {
    fn is_same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Writes a page as Markdown.
pub(super) struct MarkdownWriter {
    base: Url,
    /// Size limit in bytes, and whether text was left out because of it.
    bytes_max: usize,
    is_cut: bool,
    parts: [String; 3],
    region: PageRegion,
    /// The text of the current block.
    line: String,
    heading: Option<usize>,
    /// The open marks, with the offset in the line at which each started.
    marks: Vec<(usize, InlineMark)>,
    lists: Vec<ListState>,
    quotes: usize,
    /// The language of the current code block, if it is one.
    code: Option<Option<String>>,
    table: Option<HtmlTable>,
}

struct ListState {
    /// Number of the next item, for a numbered list.
    next: Option<u64>,
    /// Whether the current item still needs its bullet.
    is_new: bool,
}

/// A table that may be written as a table.
#[derive(Default)]
struct HtmlTable {
    rows: Vec<Vec<String>>,
    cells: usize,
    bytes: usize,
    in_cell: bool,
}

impl MarkdownWriter {
    /// Creates a writer for a page with the URL `base`, limited to so many bytes.
    pub(super) fn new(base: Url, bytes_max: usize) -> Self {
        Self {
            base,
            bytes_max,
            is_cut: false,
            parts: Default::default(),
            region: PageRegion::Body,
            line: String::new(),
            heading: None,
            marks: Vec::new(),
            lists: Vec::new(),
            quotes: 0,
            code: None,
            table: None,
        }
    }

    /// Returns whether text was left out because of the size limit.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns how many bytes can still be written, after those that are pending.
    fn remaining_bytes(&self) -> usize {
        let put_down: usize = self.parts.iter().map(String::len).sum();
        let in_table = self.table.as_ref().map_or(0, |table| table.bytes);
        self.bytes_max.saturating_sub(put_down + in_table + self.line.len())
    }

    /// Returns the main part, the other content and the boilerplate; and whether text was left out.
    pub(super) fn finish(mut self) -> ([String; 3], bool) {
        self.end_table();
        self.end_code();
        self.end_block();
        (self.parts, !self.is_cut)
    }

    pub(super) fn set_region(&mut self, region: PageRegion) {
        if region != self.region {
            self.end_block();
            self.region = region;
        }
    }

    pub(super) fn add_text(&mut self, text: &str) {
        let room = self.remaining_bytes();
        if text.len() > room {
            self.is_cut = true;
        }
        let text = head(text, room);
        let kept = text.chars().filter(|c| c.is_whitespace() || super::is_visible_char(*c));
        if self.code.is_some() {
            self.line.extend(kept.filter(|c| *c != '\r'));
            return;
        }
        for c in kept {
            match c.is_whitespace() {
                false => self.line.push(c),
                true => self.add_space(),
            }
        }
    }

    fn add_space(&mut self) {
        if !self.line.is_empty() && !self.line.ends_with([' ', '\n']) {
            self.line.push(' ');
        }
    }

    pub(super) fn add_line_break(&mut self) {
        if self.table.as_ref().is_some_and(|table| table.in_cell) {
            self.add_space();
        } else if self.code.is_some() {
            self.line.push('\n');
        } else if self.heading.is_some() {
            self.add_space();
        } else if !self.line.is_empty() {
            self.line.truncate(self.line.trim_end_matches(' ').len());
            self.line.push('\n');
        }
    }

    pub(super) fn add_rule(&mut self) {
        self.end_block();
        if self.table.is_none() && self.code.is_none() {
            self.write_block("---");
        }
    }

    pub(super) fn add_image(&mut self, alt: &str, source: Option<&str>) {
        let alt: Vec<&str> = alt.split_whitespace().collect();
        if alt.is_empty() || self.code.is_some() {
            return;
        }
        let alt: String =
            alt.join(" ").chars().filter(|c| super::is_visible_char(*c)).take(300).collect();
        match source.and_then(|source| self.resolve_link(source)) {
            Some(address) => self.line.push_str(&format!("![{alt}]({address})")),
            None => self.line.push_str(&format!("[{alt}]")),
        }
    }

    // Marks.

    pub(super) fn begin_mark(&mut self, mark: InlineMark) {
        if self.code.is_none() && self.marks.len() < MARKS_MAX {
            self.marks.push((self.line.len(), mark));
        }
    }

    pub(super) fn end_mark(&mut self, mark: &InlineMark) {
        if let Some(place) = self.marks.iter().rposition(|(_, open)| open.is_same_kind(mark)) {
            while self.marks.len() > place {
                let Some((start, mark)) = self.marks.pop() else { break };
                self.apply_mark(start, &mark);
            }
        }
    }

    /// Adds a mark around the end of the line, from `start` on.
    fn apply_mark(&mut self, start: usize, mark: &InlineMark) {
        let marked = self.line.get(start..).unwrap_or_default();
        let inner = marked.trim().to_owned();
        if inner.is_empty() {
            return;
        }
        let (before, after) = match mark {
            InlineMark::Strong => ("**", "**".to_owned()),
            InlineMark::Emphasis => ("*", "*".to_owned()),
            InlineMark::Strikethrough => ("~~", "~~".to_owned()),
            InlineMark::Code if inner.contains('`') => ("`` ", " ``".to_owned()),
            InlineMark::Code => ("`", "`".to_owned()),
            InlineMark::Link(Some(address)) => ("[", format!("]({address})")),
            InlineMark::Link(None) => return,
        };
        let (leads, trails) =
            (marked.starts_with(char::is_whitespace), marked.ends_with(char::is_whitespace));
        self.line.truncate(start);
        if leads {
            self.add_space();
        }
        self.line.push_str(before);
        self.line.push_str(&inner);
        self.line.push_str(&after);
        if trails {
            self.add_space();
        }
    }

    /// Starts a link to a URL, as written in the page.
    pub(super) fn begin_link(&mut self, written: &str) {
        // Resolved once, since a link may enclose many blocks.
        let address = self.resolve_link(written);
        self.begin_mark(InlineMark::Link(address));
    }

    /// Resolves a URL; `None` if it leads to the same page or cannot be fetched.
    fn resolve_link(&self, written: &str) -> Option<String> {
        let written = written.trim();
        if written.is_empty() || written.starts_with('#') || written.len() > LINK_BYTES_MAX {
            return None;
        }
        let address = self.base.join(written).ok()?;
        let fits = matches!(address.scheme(), "http" | "https" | "mailto");
        let text: String = address.into();
        let text = text.replace('(', "%28").replace(')', "%29");
        (fits && text.len() <= LINK_BYTES_MAX).then_some(text)
    }

    #[cfg(test)]
    pub(super) fn marks(&self) -> Vec<InlineMark> {
        self.marks.iter().map(|(_, mark)| mark.clone()).collect()
    }

    // Blocks.

    pub(super) fn begin_heading(&mut self, level: usize) {
        self.end_block();
        self.heading = Some(level.clamp(1, 6));
    }

    pub(super) fn end_heading(&mut self) {
        self.end_block();
        self.heading = None;
    }

    pub(super) fn begin_list(&mut self, first: Option<u64>) {
        self.end_block();
        if self.lists.len() < DEPTH_MAX {
            self.lists.push(ListState { next: first, is_new: false });
        }
    }

    pub(super) fn end_list(&mut self) {
        self.end_block();
        self.lists.pop();
        if self.lists.is_empty() {
            self.region_text().push('\n');
        }
    }

    pub(super) fn begin_item(&mut self) {
        self.end_block();
        if let Some(list) = self.lists.last_mut() {
            list.is_new = true;
        }
    }

    pub(super) fn end_item(&mut self) {
        self.end_block();
        if let Some(list) = self.lists.last_mut() {
            list.is_new = false;
        }
    }

    pub(super) fn begin_quote(&mut self) {
        self.end_block();
        self.quotes += 1;
    }

    pub(super) fn end_quote(&mut self) {
        self.end_block();
        self.quotes = self.quotes.saturating_sub(1);
    }

    pub(super) fn begin_code(&mut self, language: Option<String>) {
        self.end_block();
        self.marks.clear();
        self.code = Some(language);
    }

    /// Sets the language of the current code block, if it has none yet.
    pub(super) fn set_code_language(&mut self, language: Option<String>) {
        if let (Some(known @ None), Some(language)) = (&mut self.code, language) {
            *known = Some(language);
        }
    }

    pub(super) fn end_code(&mut self) {
        let Some(language) = self.code.take() else { return };
        let code = std::mem::take(&mut self.line);
        let code = code.trim_start_matches('\n').trim_end();
        if code.is_empty() {
            return;
        }
        if self.table.as_ref().is_some_and(|table| table.in_cell) {
            // A cell has one line.
            code.clone_into(&mut self.line);
            return;
        }
        let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or_default();
        let delimiter = "`".repeat((longest + 1).max(3));
        self.write_block(&format!(
            "{delimiter}{}\n{code}\n{delimiter}",
            language.unwrap_or_default()
        ));
    }

    /// Ends the current block, if there is one.
    pub(super) fn end_block(&mut self) {
        if self.table.as_ref().is_some_and(|table| table.in_cell) {
            self.add_space();
            return;
        }
        if self.code.is_some() {
            if !self.line.is_empty() && !self.line.ends_with('\n') {
                self.line.push('\n');
            }
            return;
        }
        // A link around a block becomes a link in the block.
        for index in (0..self.marks.len()).rev() {
            let Some((start, mark)) = self.marks.get(index).cloned() else { continue };
            self.apply_mark(start, &mark);
        }
        self.marks.iter_mut().for_each(|(start, _)| *start = 0);
        let line = std::mem::take(&mut self.line);
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        match self.heading {
            Some(level) => {
                self.write_block(&format!("{} {}", "#".repeat(level), line.replace('\n', " ")))
            }
            None => self.write_block(line),
        }
    }

    /// Writes a block, indented by its lists and quotes.
    fn write_block(&mut self, block: &str) {
        let quote = "> ".repeat(self.quotes.min(DEPTH_MAX));
        let depth = self.lists.len().saturating_sub(1);
        let indent = "  ".repeat(depth);
        let (first, rest, is_item) = match self.lists.last_mut() {
            None => (String::new(), String::new(), false),
            Some(list) => {
                let bullet = match &mut list.next {
                    _ if !list.is_new => "  ".to_owned(),
                    None => "- ".to_owned(),
                    Some(number) => {
                        let bullet = format!("{number}. ");
                        *number = number.saturating_add(1);
                        bullet
                    }
                };
                let rest = format!("{indent}{}", " ".repeat(bullet.len()));
                list.is_new = false;
                (format!("{indent}{bullet}"), rest, true)
            }
        };
        let mut room = self.remaining_bytes();
        let mut is_cut = false;
        let part = self.region_text();
        for (number, line) in block.split('\n').enumerate() {
            let begin = if number == 0 { &first } else { &rest };
            let taken = quote.len() + begin.len() + 2;
            let fits = line.floor_char_boundary(room.saturating_sub(taken).min(line.len()));
            is_cut |= fits < line.len() || room <= taken;
            if room <= taken {
                break;
            }
            for piece in [&quote, begin, line.get(..fits).unwrap_or_default(), "\n"] {
                part.push_str(piece);
            }
            room = room.saturating_sub(taken + fits);
        }
        if !is_item {
            part.push('\n');
        }
        self.is_cut |= is_cut;
    }

    fn region_text(&mut self) -> &mut String {
        let [main, body, around] = &mut self.parts;
        match self.region {
            PageRegion::Main => main,
            PageRegion::Body => body,
            PageRegion::Boilerplate => around,
        }
    }

    // Tables.

    pub(super) fn begin_table(&mut self) {
        // A table that contains another is used for layout only.
        self.flatten_table();
        self.end_block();
        self.table = Some(HtmlTable::default());
    }

    pub(super) fn begin_row(&mut self) {
        self.end_row();
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        } else {
            self.end_block();
        }
    }

    pub(super) fn end_row(&mut self) {
        self.end_cell();
    }

    pub(super) fn begin_cell(&mut self) {
        self.end_cell();
        if self.table.as_ref().is_some_and(|table| table.cells >= CELLS_MAX) {
            self.flatten_table();
        }
        self.end_block();
        self.marks.clear();
        if let Some(table) = &mut self.table {
            if table.rows.is_empty() {
                table.rows.push(Vec::new());
            }
            table.in_cell = true;
        }
    }

    pub(super) fn end_cell(&mut self) {
        if !self.table.as_ref().is_some_and(|table| table.in_cell) {
            return;
        }
        self.end_code();
        while let Some((start, mark)) = self.marks.pop() {
            self.apply_mark(start, &mark);
        }
        let cell = std::mem::take(&mut self.line);
        let cell = cell.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        if let Some(table) = &mut self.table {
            table.in_cell = false;
            table.cells += 1;
            table.bytes += cell.len();
            if let Some(row) = table.rows.last_mut() {
                row.push(cell);
            }
        }
    }

    pub(super) fn end_table(&mut self) {
        self.end_cell();
        let Some(table) = self.table.take() else { return self.end_block() };
        let rows: Vec<Vec<String>> =
            table.rows.into_iter().filter(|row| row.iter().any(|cell| !cell.is_empty())).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
        if columns < 2 || rows.len() < 2 {
            return self.write_rows(&rows);
        }
        let mut lines = Vec::with_capacity(rows.len() + 1);
        for (number, row) in rows.iter().enumerate() {
            let cells = (0..columns.min(64)).map(|at| row.get(at).map_or("", String::as_str));
            lines.push(format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
            if number == 0 {
                lines.push(format!("|{}", " --- |".repeat(columns.min(64))));
            }
        }
        self.write_block(&lines.join("\n"));
    }

    /// Writes the cells of a layout table as lines.
    fn flatten_table(&mut self) {
        self.end_cell();
        if let Some(table) = self.table.take() {
            self.write_rows(&table.rows);
        }
    }

    fn write_rows(&mut self, rows: &[Vec<String>]) {
        for row in rows {
            let cells: Vec<&str> =
                row.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
            if !cells.is_empty() {
                self.write_block(&cells.join(" "));
            }
        }
    }
}
