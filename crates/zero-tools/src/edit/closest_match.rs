//! Finds the place in a file where a text that does not occur was probably meant to be.

use zero_core::text_shortening::head_chars;
use zero_runtime::dialect::result_rendering::number_lines;

/// Most lines of the file that are compared.
const LINES_MAX: usize = 20_000;
/// Most characters of a line that are compared.
const CHARS_MAX: usize = 200;
/// Most lines of the text that are compared.
const WANTED_LINES_MAX: usize = 20;
/// Similarity below which no place is suggested.
const SIMILARITY_MIN: f64 = 0.5;
/// Lines shown around the place.
const CONTEXT_LINES: usize = 2;
/// Most lines shown.
const SHOWN_LINES_MAX: usize = 20;

/// The place in the file that is most similar.
pub(super) struct ClosestMatch {
    /// Its first line, counted from 1.
    pub(super) line: usize,
    /// The lines there, with numbers.
    pub(super) excerpt: String,
}

/// Returns the place in `text` that is most similar to `sought`.
pub(super) fn find_closest(text: &str, sought: &str) -> Option<ClosestMatch> {
    let lines: Vec<&str> = text.lines().take(LINES_MAX).collect();
    let sought: Vec<&str> =
        sought.lines().skip_while(|line| line.trim().is_empty()).take(WANTED_LINES_MAX).collect();
    let first = sought.first()?;
    // The first line finds candidates; the following lines decide among the best of them.
    let mut candidates: Vec<(usize, f64)> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| (at, similarity(line, first)))
        .filter(|(_, likeness)| *likeness >= SIMILARITY_MIN)
        .collect();
    candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
    let whole = |at: usize| -> f64 {
        let pairs = sought.iter().zip(&lines[at..]);
        pairs.map(|(sought, line)| similarity(line, sought)).sum::<f64>() / sought.len() as f64
    };
    let best = candidates
        .into_iter()
        .take(50)
        .map(|(at, _)| (at, whole(at)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let at = best.0;
    let from = at.saturating_sub(CONTEXT_LINES);
    let to = (at + sought.len() + CONTEXT_LINES).min(lines.len()).min(from + SHOWN_LINES_MAX);
    let shown: Vec<&str> = lines[from..to].iter().map(|line| head_chars(line, CHARS_MAX)).collect();
    Some(ClosestMatch { line: at + 1, excerpt: number_lines(from as u64 + 1, &shown.join("\n")) })
}

fn similarity(a: &str, b: &str) -> f64 {
    let (a, b) = (head_chars(a.trim(), CHARS_MAX), head_chars(b.trim(), CHARS_MAX));
    if a.is_empty() || b.is_empty() {
        return if a == b { 1.0 } else { 0.0 };
    }
    strsim::sorensen_dice(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_match_is_shown_with_context() {
        let text = "fn a() {}\n\nfn main() {\n    println!(\"Hello\");\n}\n\nfn main2() {\n}\n";
        let place = find_closest(text, "fn main() {\n    println!(\"Helo\");").expect("a place");
        assert_eq!(place.line, 3);
        assert!(place.excerpt.contains("     4\t    println!(\"Hello\");"), "{}", place.excerpt);
        assert!(find_closest(text, "completely different words").is_none());
        assert!(find_closest("", "a").is_none());
    }
}
