//! How much of a paragraph that is still being written looks the same whatever follows.
//!
//! Emphasis, code, links, escapes and tags change text that came before their end, so that text waits
//! from the first of them that is open. The answer errs towards waiting: a paragraph that waits is shown
//! when it is complete.

/// The bytes at the start of an incomplete block that later text cannot change; 0 if it is not certain
/// that the block is a paragraph.
pub(crate) fn stable_len(block: &str) -> usize {
    let first_line = block.lines().next().unwrap_or_default();
    // A line with a bar may begin a table.
    if !block.starts_with(char::is_alphabetic) || first_line.contains('|') {
        return 0;
    }
    let text = block.get(..paragraph_len(block)).unwrap_or_default();
    // The last word may go on.
    let words = text.rfind(char::is_whitespace).unwrap_or(0);
    text.get(..words).map_or(0, closed_len)
}

/// The length of the lines that certainly belong to the paragraph. Others may begin a list, a quote or
/// code, or make a heading of the paragraph.
fn paragraph_len(block: &str) -> usize {
    let starts = block.match_indices('\n').map(|(at, _)| at);
    let mut other = starts.filter(|at| {
        let next = block.get(at + 1..).and_then(|rest| rest.chars().next());
        !next.is_some_and(char::is_alphabetic)
    });
    other.next().unwrap_or(block.len())
}

/// The length of the text before the first mark that is not closed.
fn closed_len(text: &str) -> usize {
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(mark) = rest.chars().next() else { break };
        let run = rest.len() - rest.trim_start_matches(mark).len();
        let length = match mark {
            '`' => match find_run(rest, run) {
                Some(end) => end,
                None => return first_open(&open, at),
            },
            '*' | '_' | '~' => {
                let run = rest.get(..run).unwrap_or_default();
                match open.last() {
                    Some((_, last)) if *last == run => drop(open.pop()),
                    _ => open.push((at, run)),
                }
                run.len()
            }
            // Text that may be a link, a tag, an entity or an escape waits until the paragraph is
            // complete.
            '[' | '<' | '&' | '\\' => return first_open(&open, at),
            _ => mark.len_utf8(),
        };
        at += length;
    }
    first_open(&open, text.len())
}

fn first_open(open: &[(usize, &str)], at: usize) -> usize {
    open.first().map_or(at, |(first, _)| *first)
}

/// Where code that begins with this many backticks ends, if it does.
fn find_run(text: &str, length: usize) -> Option<usize> {
    let mut at = length;
    while let Some(next) = text.get(at..).and_then(|rest| rest.find('`')) {
        at += next;
        let rest = text.get(at..)?;
        let run = rest.len() - rest.trim_start_matches('`').len();
        at += run;
        if run == length {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_stable_up_to_what_may_change() {
        for (block, stable) in [
            ("", ""),
            ("one", ""),
            ("one two thr", "one two"),
            ("one\ntwo thr", "one\ntwo"),
            ("one **two** three", "one **two**"),
            ("one **two three", "one "),
            ("one *two **three* four", "one "),
            ("one `a * b` two", "one `a * b`"),
            ("one ``a ` b` two", "one "),
            ("a [link](x) b c", "a "),
            ("a <b c", "a "),
            ("a\\*b c d", "a"),
            ("2 * 3", ""),
            ("- a b c", ""),
            ("a | b c\n", ""),
            ("one two\n- three", "one"),
            ("one two\n===", "one"),
            ("snake_case_name is it", "snake_case_name is"),
        ] {
            assert_eq!(&block[..stable_len(block)], stable, "{block:?}");
        }
    }
}
