//! Finds the blocks at the start of a Markdown text that later text cannot change.

/// A fenced code block that is not indented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeFence {
    mark: char,
    length: usize,
    /// The first word after the opening fence.
    pub(crate) language: String,
}

impl CodeFence {
    /// Parses the line that opens a code block.
    fn from_line(line: &str) -> Option<Self> {
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.chars().take_while(|letter| *letter == mark).count();
        let info = line.get(length..)?.trim();
        // A line such as "```x```" is inline code.
        if length < 3 || (mark == '`' && info.contains('`')) {
            return None;
        }
        let language = info.split_whitespace().next().unwrap_or_default().to_owned();
        Some(Self { mark, length, language })
    }

    /// Whether a line ends the code block.
    pub(crate) fn is_closed_by(&self, line: &str) -> bool {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let line = line.trim();
        indent < 4
            && line.chars().all(|letter| letter == self.mark)
            && line.chars().count() >= self.length
    }
}

/// Where the complete blocks of a text end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlockSplit {
    /// Bytes of complete blocks.
    pub(crate) complete: usize,
    /// The code block that begins there, with the bytes of its first line.
    pub(crate) fence: Option<(CodeFence, usize)>,
}

/// Splits a text that grows at the end of its complete blocks. A block ends before a line that is not
/// indented and follows a blank line: an indented line may belong to a list item. Each line is looked at
/// once.
#[derive(Debug)]
pub(crate) struct BlockSplitter {
    /// Bytes of lines that were looked at.
    seen: usize,
    after_blank: bool,
}

impl Default for BlockSplitter {
    fn default() -> Self {
        Self { seen: 0, after_blank: true }
    }
}

impl BlockSplitter {
    /// Splits the text up to the first code block. The caller removes what is complete from its start,
    /// and the first line of the code block.
    pub(crate) fn split(&mut self, text: &str) -> BlockSplit {
        let mut complete = 0;
        for line in text.get(self.seen..).unwrap_or_default().split_inclusive('\n') {
            let is_blank = line.trim().is_empty();
            if !is_blank && self.after_blank && !line.starts_with([' ', '\t']) {
                complete = self.seen;
            }
            if !line.ends_with('\n') {
                break;
            }
            if let Some(fence) = CodeFence::from_line(line.trim_end()) {
                let complete = std::mem::take(self).seen;
                return BlockSplit { complete, fence: Some((fence, line.len())) };
            }
            self.seen += line.len();
            let is_heading = line.trim_start_matches('#').starts_with(' ') && line.starts_with('#');
            if is_heading {
                complete = self.seen;
            }
            self.after_blank = is_blank || is_heading;
        }
        self.seen -= complete;
        BlockSplit { complete, fence: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_ends_before_unindented_line_after_blank_line() {
        for (text, complete) in [
            ("", 0),
            ("one", 0),
            ("one\ntwo\n", 0),
            ("one\n\n", 0),
            ("one\n\ntwo", 5),
            ("one\n\n  two", 0),
            ("- a\n\n  b\n\n- c", 10),
            ("# head\n", 7),
            ("# head\none", 7),
            ("#hash\none\n", 0),
            ("|a|\n|-|\n|b|\n\nx", 13),
        ] {
            let found = split(text);
            assert_eq!((found.complete, found.fence.is_some()), (complete, false), "{text:?}");
            // The same in pieces, some of which are removed meanwhile.
            let (mut splitter, mut pending, mut removed) =
                (BlockSplitter::default(), String::new(), 0);
            for letter in text.chars() {
                pending.push(letter);
                let found = splitter.split(&pending);
                pending.drain(..found.complete);
                removed += found.complete;
            }
            assert_eq!(removed, complete, "{text:?} in pieces");
        }
    }

    fn split(text: &str) -> BlockSplit {
        BlockSplitter::default().split(text)
    }

    #[test]
    fn fence_begins_and_ends_code() {
        let found = split("text\n```rust ignore\nfn\n");
        let (fence, line) = found.fence.unwrap();
        assert_eq!((found.complete, line, fence.language.as_str()), (5, 15, "rust"));
        assert!(fence.is_closed_by("```") && fence.is_closed_by("  ````  "));
        assert!(!fence.is_closed_by("``") && !fence.is_closed_by("~~~"));
        assert!(!fence.is_closed_by("    ```") && !fence.is_closed_by("``` x"));
        assert_eq!(split("```rust").fence, None, "the line is not complete");
        assert_eq!(split("```x``` y\n").fence, None, "inline code");
        assert_eq!(split("  ```\n").fence, None, "it may be in a list");
    }
}
