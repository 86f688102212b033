//! One thread's part of a search ([`FileSearcher`]): searches file after file, counts and collects
//! hits.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish,
    SinkMatch,
};
use zero_core::text_shortening::head_chars;
use zero_runtime::CallContext;
use zero_sandbox::FolderHandle;

use super::hit_collector::{
    FileHits, GrepBudget, GrepBudgetUsage, HitCollector, HitLine, HitLineRole,
};
use crate::paging::LINE_CHARS_MAX;
use crate::text_format::describe_omitted_chars;
use crate::walk::FileVisitor;

/// Most lines of one match that are kept.
pub(super) const MATCH_LINES_MAX: usize = 100;
/// How many bytes past a match over several lines are examined again to find its end.
const LOOK_AHEAD_BYTES: usize = 128;
/// Bytes read at once. A file that fits is searched in this buffer, which avoids the searcher's own
/// buffer and two of the three reads it needs for a small file. The searcher looks for the NUL of a
/// binary file in the same number of bytes, so that none is missed.
const READ_BYTES: usize = 64 * 1024;
/// Number of matches after which cancellation is checked again.
const CANCEL_CHECK_MATCHES: u64 = 1_024;

/// What is searched for, and which hits are kept.
#[derive(Clone, Debug)]
pub(super) struct GrepQuery {
    pub(super) matcher: RegexMatcher,
    /// Whether a match may span lines. Then matches are counted, not lines.
    pub(super) multiline: bool,
    /// Whether all matching lines of a file are kept, or only the first.
    pub(super) keep: MatchRetention,
    /// Lines of context before a match.
    pub(super) before: usize,
    /// Lines of context after a match.
    pub(super) after: usize,
    /// Most memory for a line, or in multiline mode for a file, in bytes.
    pub(super) heap_bytes_max: usize,
}

/// Which matches of a file are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchRetention {
    /// Every match, with its context.
    AllMatches,
    /// The first match only.
    FirstMatch,
}

/// Exact totals over everything searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GrepTotals {
    /// Matching lines; in multiline mode, matches.
    pub(super) matches: u64,
    /// Files with a match.
    pub(super) matching_files: u64,
    /// Files searched.
    pub(super) files: u64,
    /// Files skipped because they are binary.
    pub(super) binary_files: u64,
    /// Files that could not be read.
    pub(super) unreadable_files: u64,
}

impl GrepTotals {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            matches: self.matches + other.matches,
            matching_files: self.matching_files + other.matching_files,
            files: self.files + other.files,
            binary_files: self.binary_files + other.binary_files,
            unreadable_files: self.unreadable_files + other.unreadable_files,
        }
    }
}

/// One thread's part of a search.
pub(super) struct FileSearcher<'a> {
    query: GrepQuery,
    /// Index of the root that it searches.
    base: usize,
    hits: &'a HitCollector,
    cx: &'a CallContext,
    /// Searcher with line numbers and context.
    full: Searcher,
    /// Searcher that only finds matches, for files that can no longer be part of the result.
    bare: Searcher,
    buffer: Vec<u8>,
    totals: GrepTotals,
}

impl<'a> FileSearcher<'a> {
    pub(super) fn new(
        query: &GrepQuery,
        base: usize,
        hits: &'a HitCollector,
        cx: &'a CallContext,
    ) -> Self {
        let mut builder = SearcherBuilder::new();
        builder
            .binary_detection(BinaryDetection::quit(0))
            .multi_line(query.multiline)
            .heap_limit(Some(query.heap_bytes_max))
            .line_number(false);
        let bare = builder.build();
        builder.line_number(true).before_context(query.before).after_context(query.after);
        let full = builder.build();
        let buffer = vec![0; READ_BYTES];
        Self {
            query: query.clone(),
            base,
            hits,
            cx,
            full,
            bare,
            buffer,
            totals: GrepTotals::default(),
        }
    }

    /// Searches a file. `path` is its path below the root, under which hits are stored.
    pub(super) fn search(&mut self, file: File, path: &Path) {
        let place = (self.base, path);
        let wanted = self.hits.can_accept(place);
        let mut tally = FileMatchSink {
            query: &self.query,
            cx: self.cx,
            path,
            budget: wanted.then(|| self.hits.budget()),
            budget_usage: GrepBudgetUsage::default(),
            hits: FileHits::default(),
            binary: false,
        };
        let searcher = if wanted { &mut self.full } else { &mut self.bare };
        let read = search_file(searcher, &self.query.matcher, file, &mut self.buffer, &mut tally);
        let FileMatchSink { hits, binary, .. } = tally;
        match (read, binary) {
            (Err(_), _) => self.totals.unreadable_files += 1,
            (Ok(()), true) => self.totals.binary_files += 1,
            (Ok(()), false) => {
                self.totals.files += 1;
                self.totals.matches += hits.matches;
                if hits.matches > 0 {
                    self.totals.matching_files += 1;
                    if wanted {
                        self.hits.add(place, hits);
                    }
                }
            }
        }
    }

    /// Returns the totals of this thread.
    pub(super) fn totals(&self) -> GrepTotals {
        self.totals
    }
}

/// Searches all files below a folder.
pub(super) struct FolderSearchVisitor<'a, F> {
    pub(super) folder: &'a FolderHandle,
    pub(super) is_included: F,
    pub(super) search: FileSearcher<'a>,
}

impl<F: Fn(&Path) -> bool + Send> FileVisitor for FolderSearchVisitor<'_, F> {
    fn visit_file(&mut self, relative: &Path) {
        if !(self.is_included)(relative) {
            return;
        }
        match self.folder.open_beneath(relative) {
            Some(file) => self.search.search(file, relative),
            None => self.search.totals.unreadable_files += 1,
        }
    }
}

fn search_file(
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    mut file: File,
    buffer: &mut [u8],
    tally: &mut FileMatchSink<'_>,
) -> io::Result<()> {
    let length = fill_buffer(&mut file, buffer)?;
    let head = &buffer[..length];
    if length < buffer.len() {
        return searcher.search_slice(matcher, head, tally);
    }
    let rest = CancellableFile { file, cx: tally.cx };
    searcher.search_reader(matcher, head.chain(rest), tally)
}

/// Reads until the buffer is full or the file ends.
fn fill_buffer(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// A reader that stops once the call is cancelled, for long files.
struct CancellableFile<'a> {
    file: File,
    cx: &'a CallContext,
}

impl Read for CancellableFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cx.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

/// Receives the matches of one file.
struct FileMatchSink<'a> {
    query: &'a GrepQuery,
    cx: &'a CallContext,
    path: &'a Path,
    /// Capacity for hits; `None` if matches are only counted.
    budget: Option<GrepBudget>,
    budget_usage: GrepBudgetUsage,
    hits: FileHits,
    binary: bool,
}

impl FileMatchSink<'_> {
    fn record_line(&mut self, number: Option<u64>, bytes: &[u8], role: HitLineRole) {
        let Some(budget) = self.budget else { return };
        // Once the result is full, only the context after its last match is still added.
        if self.budget_usage.exhausts(budget) && role != HitLineRole::After {
            self.budget = None;
            return;
        }
        let line = HitLine { number: number.unwrap_or(0), text: render_lines(bytes), role };
        self.budget_usage.add(self.path, &line);
        self.hits.lines.push(line);
        if self.query.keep == MatchRetention::FirstMatch {
            self.budget = None;
        }
    }

    /// Counts and stores each match in a block of lines, with all lines that it touches.
    fn record_matches(&mut self, found: &SinkMatch<'_>) -> io::Result<()> {
        let block = found.bytes_range_in_buffer();
        let seen = &found.buffer()[..found.buffer().len().min(block.end + LOOK_AHEAD_BYTES)];
        let matcher = &self.query.matcher;
        let mut line_start = block.start;
        let mut number = found.line_number();
        let each = |tally: &mut Self, start: usize, end: usize| {
            tally.hits.matches += 1;
            if tally.budget.is_some() {
                let skipped = &seen[line_start..start];
                if let Some(newline) = memchr::memrchr(b'\n', skipped) {
                    number = number.map(|n| n + memchr::memchr_iter(b'\n', skipped).count() as u64);
                    line_start += newline + 1;
                }
                // A match that ends with a newline does not touch the line after it.
                let last = end.clamp(start, block.end).saturating_sub(1).max(start);
                let to =
                    memchr::memchr(b'\n', &seen[last..block.end]).map_or(block.end, |at| last + at);
                tally.record_line(number, &seen[line_start..to], HitLineRole::Match);
            }
        };
        let mut each = each;
        matcher
            .find_iter_at(seen, block.start, |found| {
                let inside = found.start() < block.end;
                if inside {
                    each(self, found.start(), found.end());
                }
                inside
            })
            .map_err(io::Error::other)
    }
}

impl Sink for &mut FileMatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.query.multiline {
            self.record_matches(found)?;
        } else {
            self.hits.matches += 1;
            if self.budget.is_some() {
                self.record_line(found.line_number(), found.bytes(), HitLineRole::Match);
            }
        }
        let ask = self.hits.matches.is_multiple_of(CANCEL_CHECK_MATCHES);
        Ok(!(ask && self.cx.is_cancelled()))
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let role = match context.kind() {
            SinkContextKind::Before => HitLineRole::Before,
            SinkContextKind::After | SinkContextKind::Other => HitLineRole::After,
        };
        self.record_line(context.line_number(), context.bytes(), role);
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Returns lines as text without the last line ending, limited in length and number.
fn render_lines(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if !bytes.contains(&b'\n') {
        return render_line(bytes);
    }
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let mut shown: Vec<String> = lines.by_ref().take(MATCH_LINES_MAX).map(render_line).collect();
    let more = lines.count();
    if more > 0
        && let Some(last) = shown.last_mut()
    {
        last.push_str(&format!(" … ({more} more lines)"));
    }
    shown.join("\n")
}

fn render_line(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    // A character has at most four bytes, so this has at least one more than are shown.
    let head = &bytes[..bytes.len().min((LINE_CHARS_MAX + 1) * 4)];
    let text = String::from_utf8_lossy(head);
    let shown = head_chars(&text, LINE_CHARS_MAX);
    if shown.len() == text.len() {
        return text.into_owned();
    }
    let is_start = |byte: &&u8| (**byte & 0b1100_0000) != 0b1000_0000;
    let more = bytes.iter().filter(is_start).count().saturating_sub(LINE_CHARS_MAX);
    format!("{shown}{}", describe_omitted_chars(more as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_truncated_at_char_boundary() {
        assert_eq!(render_lines(b"plain\r\n"), "plain");
        assert_eq!(render_lines(b"bad \xff byte\n"), "bad \u{fffd} byte");
        let long = "é".repeat(LINE_CHARS_MAX + 7);
        assert_eq!(
            render_lines(long.as_bytes()),
            format!("{}… (7 more characters)", "é".repeat(LINE_CHARS_MAX))
        );
        let exact = "é".repeat(LINE_CHARS_MAX);
        assert_eq!(render_lines(exact.as_bytes()), exact);
    }

    #[test]
    fn match_over_many_lines_is_truncated() {
        let text = "x\n".repeat(MATCH_LINES_MAX + 5);
        let shown = render_lines(text.as_bytes());
        assert_eq!(shown.lines().count(), MATCH_LINES_MAX);
        assert!(shown.ends_with("x … (5 more lines)"), "{shown}");
    }
}
