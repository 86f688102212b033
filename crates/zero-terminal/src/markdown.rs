//! Markdown on a terminal, rendered block by block while it arrives.
//!
//! A block is printed when the text after it shows that it is complete; lines of a paragraph and of a
//! fenced code block are printed one by one. What waits is bounded. Untrusted text is escaped after it was parsed:
//! Markdown itself can write any character, as in `&#27;`.

mod block_split;
mod renderer;
mod span_wrap;
mod stable_text;

use self::block_split::{CodeFence, split_blocks};
use self::renderer::BlockRenderer;
use self::stable_text::stable_len;
use super::TerminalStream;

/// Most bytes that wait for the end of their block; more are rendered as they are.
const PENDING_BYTES_MAX: usize = 32 * 1024;

/// Renders a stream of Markdown.
pub struct MarkdownStream {
    stream: TerminalStream,
    /// Text whose block is not complete.
    pending: String,
    /// The lines of an incomplete paragraph that were printed, and the width for which they were
    /// wrapped.
    begun: Option<(String, usize)>,
    /// The code block that is being printed.
    fence: Option<CodeFence>,
    /// Whether something was printed, so that the next block needs a blank line before it.
    has_printed: bool,
}

impl MarkdownStream {
    /// Renders for a stream, fitted to its window.
    pub fn new(stream: &TerminalStream) -> Self {
        let (pending, begun) = (String::new(), None);
        Self { stream: stream.clone(), pending, begun, fence: None, has_printed: false }
    }

    /// Adds text, and returns what is complete as lines for the terminal.
    pub fn push(&mut self, text: &str) -> String {
        self.pending.push_str(text);
        let mut shown = self.take_complete();
        if self.pending.len() > PENDING_BYTES_MAX {
            shown.push_str(&self.take_rest());
        }
        self.show_begun(&mut shown);
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

    fn take_complete(&mut self) -> String {
        let mut shown = String::new();
        // Each turn takes a code block or the text before one, so that it ends.
        loop {
            let Some(fence) = self.fence.clone() else {
                let split = split_blocks(&self.pending);
                let blocks: String = self.pending.drain(..split.complete).collect();
                self.render_blocks(&blocks, &mut shown);
                let Some((fence, line)) = split.fence else { return shown };
                self.pending.drain(..line);
                self.start_block(&mut shown);
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
        let columns = self.stream.window_size().columns;
        for row in renderer::render_code_line(&self.stream, columns, &fence.language, line) {
            shown.push_str(&row);
            shown.push('\n');
        }
    }

    /// Shows the lines of an incomplete paragraph that cannot change any more: all but the last, which
    /// may get further words.
    fn show_begun(&mut self, shown: &mut String) {
        let stable = match self.fence {
            Some(_) => 0,
            None => stable_len(&self.pending),
        };
        let Some(text) = self.pending.get(..stable).filter(|text| !text.is_empty()) else { return };
        let columns = self
            .begun
            .as_ref()
            .map_or_else(|| self.stream.window_size().columns, |(_, columns)| *columns);
        let lines = BlockRenderer::new(&self.stream, columns).render(text);
        let end = lines.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
        let printed = self.begun.as_ref().map_or("", |(printed, _)| printed);
        let whole = lines.get(..end).unwrap_or_default();
        let Some(new) = whole.strip_prefix(printed).filter(|new| !new.is_empty()) else { return };
        if self.begun.is_none() {
            self.start_block(shown);
        }
        shown.push_str(new);
        self.begun = Some((whole.to_owned(), columns));
    }

    fn render_blocks(&mut self, text: &str, shown: &mut String) {
        if text.trim().is_empty() {
            return;
        }
        if let Some((printed, columns)) = self.begun.take() {
            let lines = BlockRenderer::new(&self.stream, columns).render(text);
            match lines.strip_prefix(&printed) {
                Some(rest) => shown.push_str(rest),
                // Rather twice than not at all.
                None => shown.push_str(&lines),
            }
            return;
        }
        let columns = self.stream.window_size().columns;
        let lines = BlockRenderer::new(&self.stream, columns).render(text);
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
