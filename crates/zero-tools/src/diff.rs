//! Diffs of changed files, in the form that clients display.

use std::time::Duration;

use similar::TextDiff;
use zero_core::FileDiff;
use zero_core::text_shortening::head;

/// Longest time for a diff. After that it becomes coarser, but stays correct.
const DIFF_TIME_MAX: Duration = Duration::from_millis(500);
/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// Largest text included in full beside the hunks, in bytes.
const WHOLE_TEXT_BYTES_MAX: usize = 1_000_000;
/// Size of each text included if it is larger than that, in bytes.
const PART_BYTES_MAX: usize = WHOLE_TEXT_BYTES_MAX / 2;
/// Largest size of all hunks, in bytes: a change that was made must always fit into a result.
const HUNKS_BYTES_MAX: usize = 1_000_000;

/// Returns the change from `old` to `new`. `None` is a file that does not exist.
pub fn file_diff(path: &str, old: Option<&str>, new: Option<&str>) -> FileDiff {
    let (before, after) = (old.unwrap_or_default(), new.unwrap_or_default());
    // Most changes to a large file are small, so only the part that differs is compared.
    let (start, old_end, new_end) = changed_lines(before, after);
    let unified = unified_diff(before, after, start, old_end, new_end);
    let partial = before.len() + after.len() > WHOLE_TEXT_BYTES_MAX;
    let (old_text, new_text) = match partial {
        false => (old, new),
        true => (
            old.map(|_| head_lines(&before[start..old_end], PART_BYTES_MAX)),
            new.map(|_| head_lines(&after[start..new_end], PART_BYTES_MAX)),
        ),
    };
    FileDiff {
        path: path.to_owned(),
        unified,
        old_text: old_text.map(str::to_owned),
        new_text: new_text.map(str::to_owned),
        partial,
    }
}

/// Returns where the texts first and last differ, on line boundaries.
fn changed_lines(old: &str, new: &str) -> (usize, usize, usize) {
    let pairs = old.split_inclusive('\n').zip(new.split_inclusive('\n'));
    let start: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
    let pairs =
        old[start..].split_inclusive('\n').rev().zip(new[start..].split_inclusive('\n').rev());
    let tail: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
    (start, old.len() - tail, new.len() - tail)
}

/// Returns the hunks of the changed part with context, numbered as in the whole files.
fn unified_diff(old: &str, new: &str, start: usize, old_end: usize, new_end: usize) -> String {
    let context_start = line_start_above(old, start, CONTEXT_LINES);
    let (old_stop, new_stop) =
        (line_end_below(old, old_end, CONTEXT_LINES), line_end_below(new, new_end, CONTEXT_LINES));
    let first_line = old[..context_start].bytes().filter(|byte| *byte == b'\n').count();
    let (old_part, new_part) = (&old[context_start..old_stop], &new[context_start..new_stop]);
    let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(old_part, new_part);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        let hunk = hunk.to_string();
        let (header, body) = hunk.split_once('\n').unwrap_or((&hunk, ""));
        text.push_str(&shift_header(header, first_line));
        text.push('\n');
        text.push_str(body);
        if text.len() > HUNKS_BYTES_MAX {
            break;
        }
    }
    text.truncate(text.trim_end_matches('\n').len());
    if text.len() > HUNKS_BYTES_MAX {
        text.truncate(head_lines(&text, HUNKS_BYTES_MAX).trim_end_matches('\n').len());
        text.push_str("\n\\ The rest of this diff is left out: the change is too large to show");
    }
    text
}

/// Returns the beginning of a text, cut after a line if possible.
fn head_lines(text: &str, bytes_max: usize) -> &str {
    let cut = head(text, bytes_max);
    match cut.rfind('\n') {
        Some(newline) if cut.len() < text.len() => &cut[..=newline],
        _ => cut,
    }
}

/// Returns the header `@@ -1,3 +1,4 @@` with its line numbers increased by `lines`.
fn shift_header(header: &str, lines: usize) -> String {
    let shift = |range: &str| {
        let (sign, numbers) = range.split_at(1);
        let (first, rest) =
            numbers.split_once(',').map_or((numbers, String::new()), |(f, c)| (f, format!(",{c}")));
        match first.parse::<usize>() {
            Ok(first) => format!("{sign}{}{rest}", first + lines),
            Err(_) => range.to_owned(),
        }
    };
    header
        .split(' ')
        .map(|word| {
            if word.starts_with(['-', '+']) && word.len() > 1 {
                shift(word)
            } else {
                word.to_owned()
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the start of the line `lines` lines above the one that starts at `at`.
fn line_start_above(text: &str, at: usize, lines: usize) -> usize {
    let mut at = at;
    for _ in 0..lines {
        if at == 0 {
            break;
        }
        at = text[..at - 1].rfind('\n').map_or(0, |end| end + 1);
    }
    at
}

/// Returns the end of the line `lines` lines below `at`.
fn line_end_below(text: &str, at: usize, lines: usize) -> usize {
    let mut at = at;
    for _ in 0..lines {
        at = text[at..].find('\n').map_or(text.len(), |end| at + end + 1);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, unified: &str) {
        assert_eq!(file_diff("f", Some(old), Some(new)).unified, unified);
    }

    #[test]
    fn hunk_numbers_match_the_file() {
        let numbers =
            |range: std::ops::Range<u32>| range.map(|n| format!("{n}\n")).collect::<String>();
        check(
            &numbers(1..21),
            &numbers(1..21).replace("10\n", "ten\n"),
            "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13",
        );
        check("a\n", "a\nb\n", "@@ -1 +1,2 @@\n a\n+b");
        check("a\nb\n", "b\n", "@@ -1,2 +1 @@\n-a\n b");
        check("x\nsame\n", "y\nsame\n", "@@ -1,2 +1,2 @@\n-x\n+y\n same");
        check("a\na\na\n", "a\na\n", "@@ -1,3 +1,2 @@\n a\n a\n-a");
        check("same", "same", "");
    }

    #[test]
    fn large_change_is_shown_in_part() {
        let lines = |text: &str| format!("{text}\n").repeat(500_000);
        let one_line = |text: &str| text.repeat(1_200_000);
        let rows: [(Option<String>, Option<String>); 4] = [
            (Some(lines("é")), Some(lines("b"))),
            (Some(one_line("é")), Some(one_line("b"))),
            (None, Some(lines("new"))),
            (Some(lines("old")), None),
        ];
        for (old, new) in rows {
            let diff = file_diff("f", old.as_deref(), new.as_deref());
            assert!(diff.partial);
            assert!(diff.unified.len() < HUNKS_BYTES_MAX + 100, "{}", diff.unified.len());
            assert!(diff.unified.ends_with("too large to show"));
            for (whole, part) in [(&old, &diff.old_text), (&new, &diff.new_text)] {
                assert_eq!(whole.is_some(), part.is_some(), "`None` is a file that does not exist");
                assert!(part.as_ref().is_none_or(|part| part.len() <= PART_BYTES_MAX));
            }
        }
    }

    proptest::proptest! {
        /// Comparing only the differing part must not change the content of the diff.
        #[test]
        fn the_cut_diff_says_what_the_whole_diff_says(old in "[ab\n]{0,40}", new in "[ab\n]{0,40}") {
            let (start, old_end, new_end) = changed_lines(&old, &new);
            proptest::prop_assert_eq!(&old[..start], &new[..start]);
            proptest::prop_assert_eq!(&old[old_end..], &new[new_end..]);
            proptest::prop_assert!(start <= old_end && start <= new_end);
            let removed_minus_added = |text: &str| text.lines().fold(0_i64, |sum, line| {
                sum + i64::from(line.starts_with('-')) - i64::from(line.starts_with('+'))
            });
            let lines = |text: &str| text.lines().count() as i64;
            let diff = file_diff("f", Some(&old), Some(&new)).unified;
            proptest::prop_assert_eq!(removed_minus_added(&diff), lines(&old) - lines(&new), "{}", diff);
        }
    }
}
