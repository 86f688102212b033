//! Markdown on a terminal, rendered block by block while it arrives.
//!
//! A block is printed when the text after it shows that it is complete; lines of a fenced code block
//! are printed one by one. What waits is bounded. Untrusted text is escaped after it was parsed:
//! Markdown itself can write any character, as in `&#27;`.

mod block_split;
mod renderer;
mod span_wrap;

use self::block_split::{CodeFence, split_blocks};
use self::renderer::BlockRenderer;
use super::TerminalStream;

/// Most bytes that wait for the end of their block; more are rendered as they are.
const PENDING_BYTES_MAX: usize = 32 * 1024;

/// Renders a stream of Markdown.
pub(crate) struct MarkdownStream {
    stream: TerminalStream,
    /// Text whose block is not complete.
    pending: String,
    /// The code block that is being printed.
    fence: Option<CodeFence>,
    /// Whether something was printed, so that the next block needs a blank line before it.
    has_printed: bool,
}

impl MarkdownStream {
    /// Renders for a stream, fitted to its window.
    pub(crate) fn new(stream: &TerminalStream) -> Self {
        Self { stream: stream.clone(), pending: String::new(), fence: None, has_printed: false }
    }

    /// Adds text, and returns what is complete as lines for the terminal.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.pending.push_str(text);
        let mut shown = self.take_complete();
        if self.pending.len() > PENDING_BYTES_MAX {
            shown.push_str(&self.take_rest());
        }
        shown
    }

    /// Returns the rest, complete or not.
    pub(crate) fn finish(&mut self) -> String {
        let mut shown = self.take_complete();
        shown.push_str(&self.take_rest());
        self.fence = None;
        self.has_printed = false;
        shown
    }

    /// Whether text waits for the end of its block.
    pub(crate) fn has_pending(&self) -> bool {
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

    fn render_blocks(&mut self, text: &str, shown: &mut String) {
        if text.trim().is_empty() {
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
