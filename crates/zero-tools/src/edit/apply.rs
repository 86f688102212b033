//! Edits as a pure function from text to text ([`apply`]).
//!
//! A text to replace must occur exactly once. If it does not occur literally, a few differences
//! without meaning are tolerated, in a fixed order, and reported: line endings, white space at line
//! ends, typographic punctuation. Nothing else is guessed. Lines that are equal in the old and the
//! new text keep the bytes that they have in the file.

use super::line_rewrite::{LineEndingFinder, LineRewrite};
use super::text_match::find_matches;

/// Most lines listed for a text that occurs more than once.
pub(super) const MATCHES_MAX: usize = 20;

/// A single edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditOperation {
    /// Replaces `old` with `new`.
    Replace {
        /// The text to find.
        old: String,
        /// The text to replace it with.
        new: String,
        /// Whether to replace all occurrences. Otherwise there must be exactly one.
        all: bool,
    },
    /// Inserts a text before a line.
    Insert {
        /// The line, counted from 1; one past the last appends.
        line: u64,
        /// The text. It becomes lines of its own.
        text: String,
    },
}

/// Which differences were tolerated to find a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchTolerance {
    /// None: the text matched literally.
    Exact,
    /// `\r\n` and `\n` are equal.
    LineEndings,
    /// In addition, spaces and tabs at line ends are ignored.
    TrailingSpace,
    /// In addition, typographic quotes, dashes and spaces equal their plain forms.
    Punctuation,
}

impl MatchTolerance {
    pub(super) const ORDER: [Self; 4] =
        [Self::Exact, Self::LineEndings, Self::TrailingSpace, Self::Punctuation];

    /// Returns the note for the caller, or `None` if there is nothing to report.
    pub fn note(self) -> Option<&'static str> {
        match self {
            // Models do not see line endings, and expect that they are kept.
            Self::Exact | Self::LineEndings => None,
            Self::TrailingSpace => Some("matched although white space at line ends differs"),
            Self::Punctuation => {
                Some("matched although quotes, dashes or spaces differ typographically")
            }
        }
    }
}

/// The result of applying edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditResult {
    /// The text after all edits.
    pub text: Vec<u8>,
    /// Number of places replaced or inserted at.
    pub replacements: u64,
    /// The largest tolerance that was needed.
    pub tolerance: MatchTolerance,
}

/// Why an edit cannot be applied. Lines are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditApplyError {
    /// The text to replace is empty.
    EmptyOld,
    /// The replacement equals the text that it replaces.
    SameText,
    /// The text does not occur.
    NoMatch,
    /// The text occurs more than once.
    Ambiguous {
        /// The lines in which the first occurrences start.
        lines: Vec<usize>,
        /// Number of occurrences.
        count: usize,
    },
    /// The file has no such line.
    NoSuchLine {
        /// The requested line.
        line: u64,
        /// The highest valid line.
        highest: u64,
    },
}

/// Applies all edits in order, each to the result of the one before. If one fails, none is applied
/// and its index (from 0) is returned with the error.
pub fn apply(text: &[u8], edits: &[EditOperation]) -> Result<EditResult, (usize, EditApplyError)> {
    let mut edited =
        EditResult { text: text.to_vec(), replacements: 0, tolerance: MatchTolerance::Exact };
    for (index, edit) in edits.iter().enumerate() {
        let (text, count, tolerance) = match edit {
            EditOperation::Replace { old, new, all } => replace(&edited.text, old, new, *all),
            EditOperation::Insert { line, text } => {
                insert(&edited.text, *line, text).map(|text| (text, 1, MatchTolerance::Exact))
            }
        }
        .map_err(|problem| (index, problem))?;
        edited.text = text;
        edited.replacements += count;
        edited.tolerance = edited.tolerance.max(tolerance);
    }
    Ok(edited)
}

fn replace(
    text: &[u8],
    old: &str,
    new: &str,
    all: bool,
) -> Result<(Vec<u8>, u64, MatchTolerance), EditApplyError> {
    if old.is_empty() {
        return Err(EditApplyError::EmptyOld);
    }
    if old == new {
        return Err(EditApplyError::SameText);
    }
    let (places, tolerance) = find_matches(text, old).ok_or(EditApplyError::NoMatch)?;
    if places.len() > 1 && !all {
        let listed = places.iter().take(MATCHES_MAX);
        let mut lines: Vec<usize> = listed.map(|place| line_number(text, place.start)).collect();
        lines.dedup();
        return Err(EditApplyError::Ambiguous { lines, count: places.len() });
    }
    let rewrite = LineRewrite::new(old, new, tolerance);
    let mut endings = LineEndingFinder::new(text);
    let mut result = Vec::with_capacity(text.len() + new.len());
    let (mut end, mut count) = (0, 0);
    for place in &places {
        if place.start < end {
            continue;
        }
        result.extend_from_slice(&text[end..place.start]);
        rewrite.append_to(place, &mut endings, &mut result);
        end = place.end;
        count += 1;
    }
    result.extend_from_slice(&text[end..]);
    Ok((result, count, tolerance))
}

fn insert(text: &[u8], line: u64, new: &str) -> Result<Vec<u8>, EditApplyError> {
    let starts = || std::iter::once(0).chain(memchr::memchr_iter(b'\n', text).map(|at| at + 1));
    let ends_open = text.last().is_some_and(|byte| *byte != b'\n');
    // A text that ends with a newline has one more line start than lines: the position for
    // appending.
    let highest = starts().count() as u64 + u64::from(ends_open);
    let index = line.checked_sub(1).filter(|_| line <= highest);
    let Some(index) = index.and_then(|index| usize::try_from(index).ok()) else {
        return Err(EditApplyError::NoSuchLine { line, highest });
    };
    let at = starts().nth(index).unwrap_or(text.len());
    let ending = LineEndingFinder::new(text).ending_at(&(at..at));
    let mut new = new.replace("\r\n", "\n").replace('\n', ending).into_bytes();
    if at == text.len() && ends_open {
        new.splice(0..0, ending.bytes());
    } else if !new.ends_with(b"\n") {
        new.extend_from_slice(ending.as_bytes());
    }
    Ok([&text[..at], &new, &text[at..]].concat())
}

/// Returns the line of a byte offset, counted from 1.
fn line_number(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..at]).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace_once(old: &str, new: &str) -> EditOperation {
        EditOperation::Replace { old: old.to_owned(), new: new.to_owned(), all: false }
    }

    fn replace_every(old: &str, new: &str) -> EditOperation {
        EditOperation::Replace { old: old.to_owned(), new: new.to_owned(), all: true }
    }

    fn insert_at(line: u64, text: &str) -> EditOperation {
        EditOperation::Insert { line, text: text.to_owned() }
    }

    #[track_caller]
    fn check(text: &str, edits: &[EditOperation], expected: &str) {
        let edited = apply(text.as_bytes(), edits).expect("a valid edit");
        assert_eq!(String::from_utf8_lossy(&edited.text), expected, "{text:?} {edits:?}");
    }

    #[track_caller]
    fn check_refused(text: &str, edits: &[EditOperation], expected: EditApplyError) {
        assert_eq!(apply(text.as_bytes(), edits).map_err(|(_, problem)| problem), Err(expected));
    }

    #[test]
    fn unique_text_is_replaced() {
        check("a b c", &[replace_once("b", "x")], "a x c");
        check("a a", &[replace_every("a", "b")], "b b");
        check("one\ntwo\n", &[replace_once("one\n", "")], "two\n");
        check_refused("a", &[replace_once("b", "c")], EditApplyError::NoMatch);
        check_refused("a", &[replace_once("", "c")], EditApplyError::EmptyOld);
        check_refused("a", &[replace_once("a", "a")], EditApplyError::SameText);
        check_refused(
            "a\na\n\na",
            &[replace_once("a", "b")],
            EditApplyError::Ambiguous { lines: vec![1, 2, 4], count: 3 },
        );
    }

    #[test]
    fn overlapping_matches_are_ambiguous() {
        let twice = |lines| EditApplyError::Ambiguous { lines, count: 2 };
        check_refused("aaa", &[replace_once("aa", "b")], twice(vec![1]));
        check_refused("x\nx\nx\n", &[replace_once("x\nx", "y")], twice(vec![1, 2]));
        check("x \nx\nx \n", &[replace_once("x\nx", "y")], "x \ny \n");
        check("aaa", &[replace_every("aa", "b")], "ba");
        // These are equal to a caller that does not see line endings.
        check_refused("a\nb\n-\na\r\nb\n", &[replace_once("a\nb", "c")], twice(vec![1, 4]));
        check("a\nb\n-\na\r\nb\n", &[replace_every("a\nb", "c\nd")], "c\nd\n-\nc\r\nd\n");
    }

    #[test]
    fn line_ending_is_never_split() {
        check("a\r\nfoo\r\n", &[replace_once("\nfoo", "\nbar")], "a\r\nbar\r\n");
        check("a\r\nfoo\r\n", &[replace_once("\nfoo", "")], "a\r\n");
        check("a\r\nb\r\n", &[replace_every("\n", "\n\n")], "a\r\n\r\nb\r\n\r\n");
        check("a\r\nb\nc", &[replace_every("\n", " ")], "a b c");
        check("a\r\nfoo \r\nb\r\n", &[replace_once("\nfoo\nb", "\nbar\nb")], "a\r\nbar\r\nb\r\n");
        let large = format!("{}a\r\nfoo\r\n", "-\r\n".repeat(6_000_000));
        let edited =
            apply(large.as_bytes(), &[replace_once("\nfoo", "\nbar")]).expect("a literal match");
        assert!(edited.text.ends_with(b"-\r\na\r\nbar\r\n"));
    }

    #[test]
    fn unchanged_lines_keep_their_bytes() {
        check("a\r\nb\nc\r\nd\n", &[replace_once("a\nb\nc\n", "A\nb\nc\n")], "A\r\nb\nc\r\nd\n");
        check("a\r\nb\nc\r\n", &[replace_once("a\nb\nc", "a\nB\nc")], "a\r\nB\nc\r\n");
        check("a\nb\r\nc\n", &[replace_once("a\nb\nc", "a\nx\nb\nc")], "a\nx\nb\r\nc\n");
        check("a\nb\r\nc\n", &[replace_once("a\nb\nc", "b\nc")], "b\r\nc\n");
        check("a  \nb\t\nc\n", &[replace_once("a\nb\nc", "a\nb\nC")], "a  \nb\t\nC\n");
        check("say “a”\nb\n", &[replace_once("say \"a\"\nb", "say \"a\"\nc")], "say “a”\nc\n");
        check("a\nb\n", &[replace_once("a\nb", "a\r\nb")], "a\r\nb\n");
    }

    #[test]
    fn unchanged_lines_are_found_in_long_texts() {
        let (many, old) = ("same \nsame\t\n".repeat(3_000), "same\n".repeat(6_000));
        let edit = replace_once(&format!("{old}x\n{old}"), &format!("{old}y\nz\n{old}"));
        let edited = apply(format!("{many}x\n{many}").as_bytes(), &[edit]).expect("forgiven");
        assert!(edited.text == format!("{many}y\nz\n{many}").as_bytes());
    }

    #[test]
    fn line_endings_follow_surrounding_lines() {
        check("a\r\nb\r\nc\r\n", &[replace_once("a\nb", "x\ny\nz")], "x\r\ny\r\nz\r\nc\r\n");
        check("a\r\nb\nc\n", &[replace_once("b", "x\ny")], "a\r\nx\ny\nc\n");
        check("a\r\nb\nc\n", &[replace_once("a", "x\ny")], "x\r\ny\r\nb\nc\n");
        check("a\nb\n", &[replace_once("a\r\nb", "x\r\ny")], "x\ny\n");
        check("a\r\nb", &[replace_once("b", "x\ny")], "a\r\nx\r\ny");
    }

    #[test]
    fn small_differences_match_with_a_note() {
        let edited =
            apply(b"if x {  \n\ty\n}\n", &[replace_once("if x {\n\ty", "z")]).expect("tolerated");
        assert_eq!(
            (&edited.text[..], edited.tolerance),
            (&b"z\n}\n"[..], MatchTolerance::TrailingSpace)
        );
        let edited =
            apply("say \u{201C}hi\u{201D} – now".as_bytes(), &[replace_once("\"hi\" -", "x")])
                .expect("forgiven");
        assert_eq!(
            (&edited.text[..], edited.tolerance),
            (&b"say x now"[..], MatchTolerance::Punctuation)
        );
        // Indentation carries meaning.
        check_refused("  a\n  b\n", &[replace_once("a\nb", "x")], EditApplyError::NoMatch);
    }

    #[test]
    fn whitespace_is_ignored_only_at_line_ends() {
        check_refused(
            "return xyz;",
            &[replace_once("return x ", "return y ")],
            EditApplyError::NoMatch,
        );
        check_refused("return xyz;\n", &[replace_once("return x\t", "y")], EditApplyError::NoMatch);
        check_refused("a\nb\nc\n", &[replace_every("\n    ", " ")], EditApplyError::NoMatch);
        check_refused("a\n\nb\n", &[replace_once("\n  \n", "x")], EditApplyError::NoMatch);
        check_refused("bar\nfoo\n", &[replace_once("  \nfoo", "x")], EditApplyError::NoMatch);
        check("x\n\t\nfoo\n", &[replace_once("  \nfoo", "bar")], "x\nbar\n");
        check("\t\nfoo\n", &[replace_once("  \nfoo", "bar")], "bar\n");
        check("return x;\n", &[replace_once("return x;  ", "y")], "y\n");
        check("return x;\t\r\n", &[replace_once("return x;  ", "y")], "y\r\n");
        check("return x;\t", &[replace_once("return x;  ", "y")], "y");
        check("a  \nb c", &[replace_once("a\nb ", "x")], "xc");
        check("a\n-\na\n", &[replace_every("a  ", "b")], "b\n-\nb\n");
        check("a\na\n", &[replace_every("a  ", "b")], "b\nb\n");
    }

    #[test]
    fn long_whitespace_matches_in_linear_time() {
        let text = format!("{}x\n", " ".repeat(1_000_000));
        check_refused(&text, &[replace_once("y ", "z")], EditApplyError::NoMatch);
    }

    #[test]
    fn insert_places_text_before_line() {
        check("a\nb\n", &[insert_at(1, "x")], "x\na\nb\n");
        check("a\nb\n", &[insert_at(2, "x\n")], "a\nx\nb\n");
        check("a\nb\n", &[insert_at(3, "x")], "a\nb\nx\n");
        check("a\nb", &[insert_at(3, "x")], "a\nb\nx");
        check("a\r\nb\r\n", &[insert_at(2, "x\ny")], "a\r\nx\r\ny\r\nb\r\n");
        check("", &[insert_at(1, "x")], "x\n");
        check_refused(
            "a\nb\n",
            &[insert_at(4, "x")],
            EditApplyError::NoSuchLine { line: 4, highest: 3 },
        );
        check_refused(
            "a\nb",
            &[insert_at(4, "x")],
            EditApplyError::NoSuchLine { line: 4, highest: 3 },
        );
        check_refused("", &[insert_at(2, "x")], EditApplyError::NoSuchLine { line: 2, highest: 1 });
        check_refused(
            "a",
            &[insert_at(0, "x")],
            EditApplyError::NoSuchLine { line: 0, highest: 2 },
        );
    }

    #[test]
    fn edits_apply_in_sequence_all_or_none() {
        check(
            "a\n",
            &[replace_once("a", "b"), replace_once("b", "c"), insert_at(1, "z")],
            "z\nc\n",
        );
        assert_eq!(
            apply(b"a\n", &[replace_once("a", "b"), replace_once("a", "c")]),
            Err((1, EditApplyError::NoMatch))
        );
    }

    #[test]
    fn invalid_bytes_are_preserved() {
        let edited = apply(b"\xFF\xFE a \xC3", &[replace_once("a", "b")]).expect("found");
        assert_eq!(edited.text, b"\xFF\xFE b \xC3");
    }

    proptest::proptest! {
        /// The bytes around a replaced text stay unchanged, whatever was tolerated.
        #[test]
        fn untouched_bytes_stay(
            head in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
            tail in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
            new in "[xyz\r\n]{0,10}",
        ) {
            let text = [&head[..], b"\nNEEDLE\n", &tail[..]].concat();
            match apply(&text, &[replace_once("NEEDLE", &new)]) {
                Ok(edited) => {
                    proptest::prop_assert!(edited.text.starts_with(&[&head[..], b"\n"].concat()));
                    proptest::prop_assert!(edited.text.ends_with(&[b"\n", &tail[..]].concat()));
                }
                Err((_, EditApplyError::Ambiguous { .. })) => {}
                Err(other) => proptest::prop_assert!(false, "{:?}", other),
            }
        }

        #[test]
        fn no_edit_panics(text in "[ab \t\r\n“–é]{0,60}", old in "[ab \r\n\"-]{0,8}", new in "[ab\r\n]{0,8}", at in 0..12_u64) {
            let _ = apply(text.as_bytes(), &[replace_every(&old, &new), insert_at(at, &new), replace_once(&old, "c")]);
        }

        /// A caller that copies lines without their endings, and changes one, changes only that
        /// one.
        #[test]
        fn one_changed_line_is_the_only_one(
            lines in proptest::collection::vec(("[ab]{0,2}", "[ \t]{0,2}\r?\n"), 1..12),
            first in 0..12_usize, length in 1..6_usize, changed in 0..6_usize,
        ) {
            let first = first % lines.len();
            let last = (first + length).min(lines.len());
            let changed = first + changed % (last - first);
            // A unique mark makes the lines unique.
            let content = |at: usize, mark: &str| match at {
                at if at == changed && !mark.is_empty() => mark.to_owned(),
                at if at == first => format!("<{}", lines[at].0),
                at => lines[at].0.clone(),
            };
            let tail = |at: usize, mark: &str| match &lines[at].1 {
                tail if at == changed && !mark.is_empty() => tail.trim_start_matches([' ', '\t']),
                tail => tail,
            };
            let file = |mark: &str| -> String {
                (0..lines.len()).map(|at| content(at, mark) + tail(at, mark)).collect()
            };
            let copied = |mark: &str| -> String {
                (first..last).map(|at| content(at, mark) + "\n").collect()
            };
            let edited = apply(file("").as_bytes(), &[replace_once(&copied(""), &copied("#"))]);
            let edited = edited.map(|edited| String::from_utf8_lossy(&edited.text).into_owned());
            proptest::prop_assert_eq!(edited, Ok(file("#")));
        }

        /// Replacing a text with a unique mark, and the mark with the text, changes nothing.
        #[test]
        fn an_edit_can_be_taken_back(text in "[ab\n]{1,60}", from in 0..40_usize, to in 1..20_usize) {
            let from = from.min(text.len() - 1);
            let old = &text[from..(from + to).min(text.len())];
            if let Ok(edited) = apply(text.as_bytes(), &[replace_once(old, "#")]) {
                let back = apply(&edited.text, &[replace_once("#", old)]).expect("a unique mark");
                proptest::prop_assert_eq!(back.text, text.as_bytes());
            }
        }
    }
}
