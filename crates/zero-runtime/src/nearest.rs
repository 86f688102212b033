//! "Did you mean": the known names closest to a wrong one.

/// Up to `max` of `known` that look like `wanted`, closest first; ones that do not are left out.
pub fn nearest<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str>,
    max: usize,
) -> Vec<String> {
    let folded = fold(wanted);
    let mut scored: Vec<(f64, &str)> = known
        .into_iter()
        .filter_map(|name| {
            let candidate = fold(name);
            // A part of a name is a better hint than its spelling is.
            let contains =
                !folded.is_empty() && (candidate.contains(&folded) || folded.contains(&candidate));
            // One slip of the finger weighs little in a long name and would be all of a short one.
            let slip = folded.len() > 2 && strsim::damerau_levenshtein(&folded, &candidate) == 1;
            let likeness = strsim::jaro_winkler(&folded, &candidate).max(f64::from(slip) * 0.9);
            let score = likeness + if contains { 1.0 } else { 0.0 };
            (score >= 0.75).then_some((score, name))
        })
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(max).map(|(_, name)| name.to_owned()).collect()
}

/// Case and separators do not count: `filePath` is `file_path`.
fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_come_first_and_strangers_not_at_all() {
        let known = ["file_path", "offset", "limit"];
        assert_eq!(nearest("filePath", known, 1), ["file_path"]);
        assert_eq!(nearest("path", known, 1), ["file_path"]);
        assert_eq!(nearest("ofset", known, 3), ["offset"]);
        assert_eq!(nearest("scr", ["src", "docs", "target"], 3), ["src"]);
        assert!(nearest("zebra", known, 3).is_empty());
    }
}
