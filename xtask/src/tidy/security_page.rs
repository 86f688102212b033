//! Checks that the tests that `docs/security.md` names exist: a claim without its test is only a claim.

use std::collections::BTreeSet;

use super::TidyFinding;
use crate::repository::RepositoryFile;

const PAGE: &str = "docs/security.md";

/// Returns a finding for each test that the page names and that its crate does not have.
pub(super) fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let is_missing = |(package, test): &(&str, &str)| {
        let folder = format!("crates/{package}/");
        let (function, module) = (format!("fn {test}("), format!("mod {test};"));
        let is_here = |file: &&RepositoryFile| file.path.starts_with(&folder);
        !files.iter().filter(is_here).any(|file| {
            file.path.ends_with(".rs")
                && (file.text.contains(&function) || file.text.contains(&module))
        })
    };
    let missing = find_named_tests(&page.text).into_iter().filter(is_missing);
    let finding = |(package, test)| {
        TidyFinding::new(
            PAGE,
            format!("`{package}` has no test `{test}`"),
            "name the test that attacks this, or write it",
        )
    };
    missing.map(finding).collect()
}

/// The tests that a text names: words with underscores after the name of a crate, in a row of a
/// table or a paragraph.
fn find_named_tests(text: &str) -> BTreeSet<(&str, &str)> {
    let mut found = BTreeSet::new();
    let mut package = None;
    for line in text.lines() {
        if line.is_empty() || line.starts_with('|') {
            package = None;
        }
        for word in line.split('`').skip(1).step_by(2) {
            if word == "zero" || word.starts_with("zero-") {
                package = Some(word);
            } else if let Some(package) = package
                && word.contains('_')
                && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            {
                found.insert((package, word));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_test_must_exist_in_its_crate() {
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), text: text.into() };
        let page = "| `a_file` | `zero-mcp` `first_test`, `second_test` |\n| `b_file` |\n\n(`zero`\n`third_test`)";
        let files = [
            file(PAGE, page),
            file("crates/zero-mcp/src/a.rs", "fn first_test() {}"),
            file("crates/zero-sandbox/src/a.rs", "fn second_test() {}"),
            file("crates/zero/tests/it/main.rs", "mod third_test;"),
        ];
        let missing: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
        assert_eq!(
            missing,
            [
                "docs/security.md: `zero-mcp` has no test `second_test`; name the test that attacks this, or write it"
            ]
        );
    }
}
