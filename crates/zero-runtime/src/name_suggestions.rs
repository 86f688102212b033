//! "Did you mean": the known names closest to a wrong one, by spelling or by meaning.

/// Least similarity, between 0 and 1, of a suggestion.
const SIMILARITY_MIN: f64 = 0.75;
/// Names up to this many letters are too short to be misspelt.
const SHORT_CHARS_MAX: usize = 2;
/// Words and names of this length may have two typos.
const LONG_CHARS_MIN: usize = 7;

/// Field names that mean the same on different platforms. Models mix them up.
const SYNONYMS: &[&[&str]] = &[
    &["pattern", "query", "regex", "search"],
    &["-i", "ignore_case", "case_insensitive"],
    &["-C", "context", "context_lines"],
    &["-n", "line_numbers"],
    &["head_limit", "limit", "max_results"],
    &["glob", "include", "include_pattern"],
    &["file_path", "path", "absolute_path", "filename", "file"],
    &["offset", "line", "start_line", "start"],
    &["limit", "lines", "count", "max_lines"],
    &["old_string", "old_text", "old"],
    &["new_string", "new_text", "new"],
    &["content", "contents", "text", "file_text"],
    &["pattern", "glob"],
];

/// The synonym of `wanted` among `known`.
pub fn find_synonym<'a>(misspelled_name: &str, known: &[&'a str]) -> Option<&'a str> {
    let is = |query: &str, name: &str| fold_identifier(query) == fold_identifier(name);
    let rows = SYNONYMS.iter().filter(|row| row.iter().any(|name| is(misspelled_name, name)));
    let mut same = rows.flat_map(|row| row.iter());
    same.find_map(|name| known.iter().find(|known| is(name, known)).copied())
}

/// Whether a word was probably meant to be this name: mistyped in one place, in two if it is long, or
/// not typed to its end.
pub fn is_mistyped(word: &str, name: &str) -> bool {
    let (word, name) = (word.to_lowercase(), name.to_lowercase());
    let letters = word.chars().count();
    if letters <= SHORT_CHARS_MAX {
        return false;
    }
    let is_long = letters.max(name.chars().count()) >= LONG_CHARS_MIN;
    let slips_max = if is_long { 2 } else { 1 };
    name.starts_with(&word) || strsim::damerau_levenshtein(&word, &name) <= slips_max
}

/// The name that a word was most probably meant to be, if it was meant to be one of them.
pub fn find_nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Of two names with as many typos, the one of the same length: letters were exchanged.
    let distance =
        |name: &&str| (strsim::damerau_levenshtein(word, name), word.len().abs_diff(name.len()));
    known.into_iter().filter(|name| is_mistyped(word, name)).min_by_key(distance)
}

/// Up to `max` of `known` that are similar to `wanted`, most similar first.
pub fn suggest_names<'a>(
    misspelled_name: &str,
    known: impl IntoIterator<Item = &'a str>,
    max: usize,
) -> Vec<String> {
    let folded = fold_identifier(misspelled_name);
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .map(|name| (similarity(&folded, &fold_identifier(name)), name))
        .filter(|(likeness, _)| *likeness >= SIMILARITY_MIN)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(max).map(|(_, name)| name.to_owned()).collect()
}

/// The similarity of two folded names, from 0 to 1.
fn similarity(misspelled_name: &str, name: &str) -> f64 {
    let letters = [misspelled_name, name].map(|text| text.chars().count());
    let (shorter, longer) = (letters[0].min(letters[1]), letters[0].max(letters[1]));
    if shorter <= SHORT_CHARS_MAX {
        return f64::from(misspelled_name == name);
    }
    // A single typo weighs little in a long name, but would be most of a short one.
    let slip = strsim::damerau_levenshtein(misspelled_name, name) == 1;
    let spelling = strsim::jaro_winkler(misspelled_name, name).max(f64::from(slip) * 0.9);
    // A part of a name is a hint, the stronger the more of the name it covers.
    let is_part = name.contains(misspelled_name) || misspelled_name.contains(name);
    #[expect(clippy::cast_precision_loss, reason = "names are short")]
    let part = f64::from(is_part) * (SIMILARITY_MIN + 0.2 * shorter as f64 / longer as f64);
    spelling.max(part)
}

/// Ignores case and separators: `filePath` equals `file_path`.
fn fold_identifier(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typo_differs_from_another_word() {
        for (word, name) in [
            ("rnu", "run"),
            ("tool", "tools"),
            ("doc", "doctor"),
            ("sesions", "sessions"),
            ("sesion", "sessions"),
            ("Login", "login"),
        ] {
            assert!(is_mistyped(word, name), "{word} {name}");
        }
        for (word, name) in
            [("hello", "help"), ("hi", "help"), ("fix", "run"), ("why", "man"), ("mc", "mcp")]
        {
            assert!(!is_mistyped(word, name), "{word} {name}");
        }
        assert_eq!(find_nearest("modle", ["mode", "model", "yes"]), Some("model"));
        assert_eq!(find_nearest("colour", ["mode", "model", "yes"]), None);
    }

    const READ: &[&str] = &["file_path", "offset", "limit"];
    const GREP: &[&str] = &[
        "pattern",
        "path",
        "glob",
        "output_mode",
        "-i",
        "-n",
        "-A",
        "-B",
        "-C",
        "multiline",
        "type",
        "head_limit",
        "exclude",
    ];

    #[test]
    fn closest_names_come_first_and_unrelated_are_omitted() {
        #[track_caller]
        fn check(wanted: &str, known: &[&str], expected: &str) {
            let found = suggest_names(wanted, known.iter().copied(), 1).pop();
            assert_eq!(found.as_deref().unwrap_or("nothing"), expected, "{wanted}");
        }
        check("filePath", READ, "file_path");
        check("path", READ, "file_path");
        check("ofset", READ, "offset");
        check("zebra", READ, "nothing");
        check("patern", GREP, "pattern");
        check("pattrn", GREP, "pattern");
        check("paths", GREP, "path");
        check("globs", GREP, "glob");
        check("outputMode", GREP, "output_mode");
        check("mode", GREP, "output_mode");
        check("multi_line", GREP, "multiline");
        check("excludes", GREP, "exclude");
        check("file_type", GREP, "type");
        check("A", GREP, "-A");
        check("-c", GREP, "-C");
        check("b", &["-A", "-i"], "nothing");
        check("scr", &["src", "docs", "target"], "src");
        check("contained", &["-i", "-n", "content"], "content");
    }

    #[test]
    fn synonym_from_other_platform_is_found() {
        #[track_caller]
        fn check(wanted: &str, known: &[&str], expected: &str) {
            assert_eq!(find_synonym(wanted, known).unwrap_or("nothing"), expected, "{wanted}");
        }
        for (wanted, expected) in [
            ("query", "pattern"),
            ("regex", "pattern"),
            ("search", "pattern"),
            ("ignore_case", "-i"),
            ("case_insensitive", "-i"),
            ("caseInsensitive", "-i"),
            ("context", "-C"),
            ("limit", "head_limit"),
            ("max_results", "head_limit"),
            ("include", "glob"),
            ("includePattern", "glob"),
            ("file_path", "path"),
            ("offset", "nothing"),
        ] {
            check(wanted, GREP, expected);
        }
        for (wanted, expected) in [
            ("path", "file_path"),
            ("filename", "file_path"),
            ("absolute_path", "file_path"),
            ("filePath", "file_path"),
            ("line", "offset"),
            ("start_line", "offset"),
            ("start", "offset"),
            ("lines", "limit"),
            ("count", "limit"),
        ] {
            check(wanted, READ, expected);
        }
        let edit = &["path", "oldString", "newString", "replaceAll"];
        check("old", edit, "oldString");
        check("oldText", edit, "oldString");
        check("old_string", edit, "oldString");
        check("new", edit, "newString");
        check("newText", edit, "newString");
        check("file_path", edit, "path");
        check("oldString", &["file_path", "old_string"], "old_string");
        check("old_string", &["type", "oldText", "newText"], "oldText");
        check("offset", &["path", "limit", "line"], "line");
        check("glob", &["pattern", "path"], "pattern");
    }
}
