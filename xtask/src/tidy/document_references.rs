//! Checks that what documents name exists: the tests of pages with claims, because a claim without its
//! test is only a claim, and the source files of `ARCHITECTURE.md`, which is the map of a newcomer.

use std::collections::BTreeSet;

use super::finding::TidyFinding;
use crate::repository::RepositoryFile;

/// Pages that name a test for each claim.
const CLAIMS: [&str; 2] = ["docs/security.md", "docs/reference/contracts.md"];
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Returns a finding for each test and source file that does not exist.
pub(super) fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    check_tests(files).into_iter().chain(check_source_files(files)).collect()
}

/// Finds tests that pages name and that their crate does not have.
fn check_tests(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let pages = files.iter().filter(|file| CLAIMS.contains(&file.path.as_str()));
    pages.flat_map(|page| check_tests_of(page, files)).collect()
}

fn check_tests_of(page: &RepositoryFile, files: &[RepositoryFile]) -> Vec<TidyFinding> {
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
            &page.path,
            format!("`{package}` has no test `{test}`"),
            "name the test that proves this, or write it",
        )
    };
    missing.map(finding).collect()
}

/// Finds source files that the page names and that do not exist.
fn check_source_files(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let Some(page) = files.iter().find(|file| file.path == ARCHITECTURE) else { return Vec::new() };
    let words = page.text.split('`').skip(1).step_by(2);
    let named: BTreeSet<&str> = words.filter(|word| word.ends_with(".rs")).collect();
    let is_missing = |name: &&str| {
        let end = format!("/{name}");
        !files.iter().any(|file| file.path == **name || file.path.ends_with(&end))
    };
    let finding = |name: &str| {
        TidyFinding::new(
            ARCHITECTURE,
            format!("there is no file `{name}`"),
            "name the file as it is called",
        )
    };
    named.into_iter().filter(is_missing).map(finding).collect()
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
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
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
            file(CLAIMS[0], page),
            file("crates/zero-mcp/src/a.rs", "fn first_test() {}"),
            file("crates/zero-sandbox/src/a.rs", "fn second_test() {}"),
            file("crates/zero/tests/it/main.rs", "mod third_test;"),
        ];
        let missing: Vec<String> = check_tests(&files).iter().map(ToString::to_string).collect();
        assert_eq!(
            missing,
            [
                "docs/security.md: `zero-mcp` has no test `second_test`; name the test that proves this, or write it"
            ]
        );
    }

    #[test]
    fn named_file_must_exist() {
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), text: text.into() };
        let page = "`engine.rs` and `src/walk.rs`, `alk.rs` and `gone.rs`";
        let files =
            [file(ARCHITECTURE, page), file("a/engine.rs", ""), file("crates/a/src/walk.rs", "")];
        let missing: Vec<String> =
            check_source_files(&files).iter().map(ToString::to_string).collect();
        assert_eq!(
            missing,
            [
                "ARCHITECTURE.md: there is no file `alk.rs`; name the file as it is called",
                "ARCHITECTURE.md: there is no file `gone.rs`; name the file as it is called",
            ]
        );
    }
}
