//! Markdown on a terminal, rendered block by block while it arrives.
//!
//! A block is printed when the text after it shows that it is complete; lines of a paragraph and of a
//! fenced code block are printed one by one. Waiting text is bounded. Untrusted text is escaped after it was
//! parsed: Markdown itself can write any character, as in `&#27;`.

mod block_split;
mod renderer;
mod span_wrap;
mod stable_text;

use self::block_split::{BlockSplitter, CodeFence};
use self::renderer::BlockRenderer;
use self::stable_text::stable_len;
use super::TerminalStream;
use super::code_highlight::CodeHighlighter;

/// Most bytes that wait for the end of their block; more are rendered as they are.
const PENDING_BYTES_MAX: usize = 32 * 1024;
/// An incomplete paragraph is rendered again once it has grown by this part of a row, and not for each
/// word.
const ROW_PART: usize = 2;

/// How Markdown is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkdownLayout {
    /// What stands before an item of a list without numbers.
    pub bullet: char,
    /// Whether a line of code that is wider than the window is split into marked rows. One that stays
    /// whole can be copied as it is.
    pub wraps_code: bool,
    /// Columns of the window that stay free at the right.
    pub margin: usize,
}

impl Default for MarkdownLayout {
    fn default() -> Self {
        Self { bullet: '•', wraps_code: true, margin: 0 }
    }
}

/// Renders a whole text for a window of so many columns.
pub fn render_markdown(
    stream: &TerminalStream,
    columns: usize,
    layout: MarkdownLayout,
    text: &str,
) -> String {
    BlockRenderer::new(stream, columns.saturating_sub(layout.margin), layout).render(text)
}

/// Renders a stream of Markdown.
pub struct MarkdownStream {
    stream: TerminalStream,
    layout: MarkdownLayout,
    /// Text whose block is not complete.
    pending: String,
    splitter: BlockSplitter,
    /// Bytes of the incomplete paragraph when it was rendered last.
    rendered_bytes: usize,
    /// The lines of an incomplete paragraph that were printed, and the width for which they were
    /// wrapped.
    open_block: Option<(String, usize)>,
    /// The code block that is being printed.
    fence: Option<CodeFence>,
    /// Its colors.
    highlighter: Option<CodeHighlighter>,
    /// Whether something was printed, so that the next block needs a blank line before it.
    has_printed: bool,
}

impl MarkdownStream {
    /// Renders for a stream, fitted to its window.
    pub fn new(stream: &TerminalStream) -> Self {
        Self {
            stream: stream.clone(),
            layout: MarkdownLayout::default(),
            pending: String::new(),
            splitter: BlockSplitter::default(),
            rendered_bytes: 0,
            open_block: None,
            fence: None,
            highlighter: None,
            has_printed: false,
        }
    }

    /// Uses another layout.
    #[must_use]
    pub fn with_layout(self, layout: MarkdownLayout) -> Self {
        Self { layout, ..self }
    }

    /// Adds text, and returns what is complete as lines for the terminal.
    pub fn push(&mut self, text: &str) -> String {
        self.pending.push_str(text);
        let mut shown = self.take_complete();
        if self.pending.len() > PENDING_BYTES_MAX {
            shown.push_str(&self.take_rest());
        }
        let grown_bytes = self.rendered_bytes + self.columns() / ROW_PART;
        if self.fence.is_none() && self.pending.len() > grown_bytes {
            self.rendered_bytes = self.pending.len();
            self.show_begun(&mut shown);
        }
        shown
    }

    /// Returns the rest, complete or not.
    pub fn finish(&mut self) -> String {
        let mut shown = self.take_complete();
        shown.push_str(&self.take_rest());
        self.fence = None;
        self.has_printed = false;
        shown
    }

    /// Whether text waits for the end of its block.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The lines of the block that is not complete, as they would look if it ended now, without those
    /// that were returned already.
    pub fn render_pending(&self) -> String {
        if let Some(fence) = &self.fence {
            let shown = !self.pending.is_empty() && !fence.is_closed_by(&self.pending);
            // The line is not complete: its effect on the next one is not known.
            let mut highlighter = self.highlighter.clone();
            return match shown {
                true => self.render_code_line(fence, &mut highlighter, &self.pending),
                false => String::new(),
            };
        }
        let (printed, columns) = match &self.open_block {
            Some((printed, columns)) => (printed.as_str(), *columns),
            None => ("", self.columns()),
        };
        let lines = self.renderer(columns).render(&self.pending);
        match lines.strip_prefix(printed) {
            Some(rest) => rest.to_owned(),
            None => lines,
        }
    }

    fn columns(&self) -> usize {
        self.stream.window_size().columns.saturating_sub(self.layout.margin)
    }

    fn renderer(&self, columns: usize) -> BlockRenderer<'_> {
        BlockRenderer::new(&self.stream, columns, self.layout)
    }

    fn take_complete(&mut self) -> String {
        let mut shown = String::new();
        // Each turn takes a code block or the text before one, so that it ends.
        loop {
            let Some(fence) = self.fence.clone() else {
                let split = self.splitter.split(&self.pending);
                if split.complete > 0 || split.fence.is_some() {
                    self.rendered_bytes = 0;
                }
                let blocks: String = self.pending.drain(..split.complete).collect();
                self.render_blocks(&blocks, &mut shown);
                let Some((fence, line)) = split.fence else { return shown };
                self.pending.drain(..line);
                self.start_block(&mut shown);
                self.highlighter = Some(CodeHighlighter::new(&self.stream, &fence.language));
                self.fence = Some(fence);
                continue;
            };
            let pending = std::mem::take(&mut self.pending);
            let mut rest = pending.as_str();
            while self.fence.is_some()
                && let Some((line, after)) = rest.split_once('\n')
            {
                self.show_code_line(&fence, line.trim_end_matches('\r'), &mut shown);
                rest = after;
            }
            rest.clone_into(&mut self.pending);
            if self.fence.is_some() {
                return shown;
            }
        }
    }

    fn take_rest(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        self.splitter = BlockSplitter::default();
        self.rendered_bytes = 0;
        let mut shown = String::new();
        match self.fence.clone() {
            Some(fence) if !rest.is_empty() => self.show_code_line(&fence, &rest, &mut shown),
            Some(_) => {}
            None => self.render_blocks(&rest, &mut shown),
        }
        shown
    }

    fn show_code_line(&mut self, fence: &CodeFence, line: &str, shown: &mut String) {
        if fence.is_closed_by(line) {
            self.fence = None;
            return;
        }
        let mut highlighter = self.highlighter.take();
        shown.push_str(&self.render_code_line(fence, &mut highlighter, line));
        self.highlighter = highlighter;
    }

    fn render_code_line(
        &self,
        fence: &CodeFence,
        highlighter: &mut Option<CodeHighlighter>,
        line: &str,
    ) -> String {
        let room = if self.layout.wraps_code { self.columns() } else { usize::MAX };
        let highlighter =
            highlighter.get_or_insert_with(|| CodeHighlighter::new(&self.stream, &fence.language));
        let rows =
            renderer::render_code_line(&self.stream, room, &fence.language, highlighter, line);
        rows.into_iter().map(|row| row + "\n").collect()
    }

    /// Shows the lines of an incomplete paragraph that cannot change any more: all but the last, which
    /// may get further words.
    fn show_begun(&mut self, shown: &mut String) {
        let stable = stable_len(&self.pending);
        let Some(text) = self.pending.get(..stable).filter(|text| !text.is_empty()) else { return };
        let columns =
            self.open_block.as_ref().map_or_else(|| self.columns(), |(_, columns)| *columns);
        let lines = self.renderer(columns).render(text);
        let end = lines.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
        let printed = self.open_block.as_ref().map_or("", |(printed, _)| printed);
        let whole = lines.get(..end).unwrap_or_default();
        let Some(new) = whole.strip_prefix(printed).filter(|new| !new.is_empty()) else { return };
        if self.open_block.is_none() {
            self.start_block(shown);
        }
        shown.push_str(new);
        self.open_block = Some((whole.to_owned(), columns));
    }

    fn render_blocks(&mut self, text: &str, shown: &mut String) {
        if text.trim().is_empty() {
            return;
        }
        if let Some((printed, columns)) = self.open_block.take() {
            let lines = self.renderer(columns).render(text);
            match lines.strip_prefix(&printed) {
                Some(rest) => shown.push_str(rest),
                // Rather twice than not at all.
                None => shown.push_str(&lines),
            }
            return;
        }
        let lines = self.renderer(self.columns()).render(text);
        if !lines.is_empty() {
            self.start_block(shown);
            shown.push_str(&lines);
        }
    }

    fn start_block(&mut self, shown: &mut String) {
        if std::mem::replace(&mut self.has_printed, true) {
            shown.push('\n');
        }
    }
}

#[cfg(test)]
mod tests;
