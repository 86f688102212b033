//! Selects the parts of a long page that are about a question ([`select_relevant`]).
//!
//! Used if no model reads the page. The page is split at its headings, each part is weighted by how
//! many of the rarer words of the question it contains, and the best are returned in their order on
//! the page. The headings of the others are listed, so that the caller knows what else there is.

use std::collections::{HashMap, HashSet};
use zero_core::text_shortening::{head, shorten_end};

/// Longest part, in bytes. A longer one is split at a paragraph, or anywhere.
const PART_BYTES_MAX: usize = 4_000;
/// Most words of a question that are used.
const WORDS_MAX: usize = 64;
/// Most headings of omitted parts that are listed.
const HEADINGS_MAX: usize = 40;
/// Longest listed heading, in characters.
const HEADING_CHARS_MAX: usize = 80;

/// The relevant parts of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PageSelection {
    /// The parts, in their order on the page.
    pub(super) text: String,
    /// The omitted parts; `None` if the page is complete.
    pub(super) left_out: Option<OmittedSections>,
}

/// The parts that were omitted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OmittedSections {
    pub(super) shown: usize,
    pub(super) parts: usize,
    /// Headings of omitted parts.
    pub(super) headings: Vec<String>,
}

/// Selects the parts of a page that are about a question, up to about `bytes_max` bytes.
pub(super) fn select_relevant(page: &str, question: &str, bytes_max: usize) -> PageSelection {
    if page.len() <= bytes_max {
        return PageSelection { text: page.to_owned(), left_out: None };
    }
    let parts = split_sections(page);
    let words = query_words(question);
    let found: Vec<HashMap<&str, usize>> =
        parts.iter().map(|part| count_words(part, &words)).collect();
    let rarity: HashMap<&str, f64> = words
        .iter()
        .map(|word| {
            let has = found.iter().filter(|found| found.contains_key(word.as_str())).count();
            (word.as_str(), (1.0 + parts.len() as f64 / (1.0 + has as f64)).ln())
        })
        .collect();
    let weight = |at: usize| -> f64 {
        let Some((part, found)) = parts.get(at).zip(found.get(at)) else { return 0.0 };
        let heading = part.lines().next().filter(|line| line.starts_with('#')).unwrap_or_default();
        let heading = heading.to_lowercase();
        let of_word = |(word, count): (&&str, &usize)| {
            let count = *count as f64;
            let in_heading = if heading.contains(*word) { 2.0 } else { 1.0 };
            rarity.get(*word).copied().unwrap_or_default() * in_heading * count / (count + 1.0)
        };
        found.iter().map(of_word).sum()
    };
    let mut order: Vec<(usize, f64)> = (0..parts.len()).map(|at| (at, weight(at))).collect();
    // Among equal parts the first ones win, since pages start with what they are about.
    order.sort_by(|(at, weight), (other_at, other)| other.total_cmp(weight).then(at.cmp(other_at)));
    let mut kept = HashSet::new();
    let mut bytes = 0;
    for (at, _) in order {
        let length = parts.get(at).map_or(0, |part| part.len());
        if bytes + length <= bytes_max {
            bytes += length;
            kept.insert(at);
        }
    }
    let (mut text, mut headings, mut last) = (String::new(), Vec::new(), None);
    for (at, part) in parts.iter().enumerate() {
        if !kept.contains(&at) {
            if let Some(heading) = part.lines().next().and_then(|line| line.strip_prefix('#'))
                && headings.len() < HEADINGS_MAX
            {
                let heading = heading.trim_start_matches('#').trim();
                headings.push(shorten_end(heading, HEADING_CHARS_MAX));
            }
            continue;
        }
        if at.checked_sub(1) != last {
            text.push_str(if text.is_empty() { "[…]\n\n" } else { "\n\n[…]\n\n" });
        } else if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(part);
        last = Some(at);
    }
    if last.is_some_and(|last| last + 1 < parts.len()) {
        text.push_str("\n\n[…]");
    }
    let left_out = OmittedSections { shown: kept.len(), parts: parts.len(), headings };
    PageSelection { text, left_out: Some(left_out).filter(|left| left.shown < left.parts) }
}

/// Splits a page at its headings, and long parts at paragraphs.
fn split_sections(page: &str) -> Vec<&str> {
    let mut starts = vec![0];
    let (mut at, mut in_code, mut after_blank) = (0, false, true);
    for line in page.split_inclusive('\n') {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        let start = starts.last().copied().unwrap_or_default();
        let begins = !in_code && line.starts_with('#');
        let is_long = at - start + line.len() > PART_BYTES_MAX;
        if at > start && (begins || is_long && (after_blank || at - start > PART_BYTES_MAX / 2)) {
            starts.push(at);
        }
        after_blank = line.trim().is_empty();
        at += line.len();
    }
    starts.push(page.len());
    let whole = starts.windows(2).filter_map(|ends| match ends {
        [start, end] => page.get(*start..*end),
        _ => None,
    });
    whole.flat_map(split_long_section).map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Splits a part into pieces that are not too long, even if it is one line.
fn split_long_section(mut part: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while part.len() > PART_BYTES_MAX * 2 {
        let (piece, rest) = part.split_at(part.floor_char_boundary(PART_BYTES_MAX));
        pieces.push(piece);
        part = rest;
    }
    pieces.push(part);
    pieces
}

/// Returns the significant words of a question.
fn query_words(question: &str) -> Vec<String> {
    const STOP_WORDS: &[&str] = &[
        "the",
        "and",
        "for",
        "with",
        "from",
        "that",
        "this",
        "what",
        "which",
        "how",
        "are",
        "was",
        "does",
        "all",
        "any",
        "its",
        "page",
        "about",
        "extract",
        "find",
        "get",
        "give",
        "list",
        "show",
        "tell",
        "summarize",
        "section",
        "please",
        "into",
        "you",
        "there",
        "when",
        "where",
    ];
    let mut seen = HashSet::new();
    let words = question.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_lowercase);
    let words = words.filter(|word| word.chars().count() > 2 || !word.is_ascii());
    words
        .filter(|word| !word.is_empty() && !STOP_WORDS.contains(&word.as_str()))
        .filter(|word| seen.insert(word.clone()))
        .take(WORDS_MAX)
        .collect()
}

/// Counts how often words occur in a part, including as the start of longer words.
fn count_words<'w>(part: &str, words: &'w [String]) -> HashMap<&'w str, usize> {
    let part = part.to_lowercase();
    let count = |word: &'w String| {
        // `handling` also finds `handle`.
        let stem = head(word, 6);
        let count = part.matches(stem).take(16).count();
        (count > 0).then_some((word.as_str(), count))
    };
    words.iter().filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_manual() -> String {
        let section = |name: &str, about: &str| {
            format!("## {name}\n\n{}\n", format!("A sentence on {about}. ").repeat(40))
        };
        ["Names", "Semicolons", "Control structures", "Errors", "Concurrency", "Testing"]
            .iter()
            .map(|name| section(name, &name.to_lowercase()))
            .collect()
    }

    #[test]
    fn short_page_is_returned_whole() {
        let chosen = select_relevant("# A\n\nb", "anything", 100);
        assert_eq!(chosen, PageSelection { text: "# A\n\nb".to_owned(), left_out: None });
    }

    #[test]
    fn relevant_sections_are_selected_and_others_named() {
        let manual = sample_manual();
        #[track_caller]
        fn check(page: &str, question: &str, expected: &str) {
            let chosen = select_relevant(page, question, 1_500);
            assert!(chosen.text.contains(expected), "{question}: {}", chosen.text);
            let left_out = chosen.left_out.unwrap();
            assert_eq!((left_out.shown, left_out.parts), (1, 6), "{question}");
            assert_eq!(left_out.headings.len(), 5);
            assert!(chosen.text.len() < 1_600);
        }
        check(&manual, "Extract the section about error handling", "## Errors");
        check(&manual, "how does concurrency work?", "## Concurrency");
        // Without significant words the page is returned from its start.
        check(&manual, "", "## Names");
    }

    #[test]
    fn omitted_sections_are_marked() {
        let chosen = select_relevant(&sample_manual(), "names and testing", 2_300);
        assert!(chosen.text.starts_with("## Names"), "{}", chosen.text);
        assert!(chosen.text.contains("[…]\n\n## Testing"), "{}", chosen.text);
    }

    #[test]
    fn page_of_one_line_is_split() {
        let page = "ä".repeat(50_000);
        let chosen = select_relevant(&page, "x", 10_000);
        assert!(chosen.text.len() <= 10_100, "{}", chosen.text.len());
        assert!(chosen.left_out.is_some());
    }

    #[test]
    fn code_is_not_parsed_as_heading() {
        assert_eq!(
            split_sections("a\n```\n# not\n```\n# yes\nb"),
            ["a\n```\n# not\n```", "# yes\nb"]
        );
    }
}
