//! Checks that what documents name exists: the tests of pages with claims, because a claim without its
//! test is only a claim, the source files of `ARCHITECTURE.md`, which is the map of a newcomer, and the
//! types of the glossary. A page for newcomers also stays short.

use std::collections::BTreeSet;

use super::tidy_finding::TidyFinding;
use crate::repository::RepositoryFile;

/// Pages that name a test for each claim.
const CLAIMS: [&str; 2] = ["docs/security.md", "docs/reference/contracts.md"];
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const GLOSSARY: &str = "docs/glossary.md";
const README: &str = "README.md";
/// Most words of the map: what is read in ten minutes.
const ARCHITECTURE_WORDS_MAX: usize = 4_000;
/// Most lines of the first page.
const README_LINES_MAX: usize = 100;
/// What begins the definition of a type.
const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Returns a finding for each test, source file and type that does not exist, and each page that is too
/// long.
pub(super) fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let mut findings = check_tests(files);
    findings.extend(check_source_files(files));
    findings.extend(check_types(files));
    findings.extend(check_lengths(files));
    findings
}

/// Finds pages for newcomers that have grown too long.
fn check_lengths(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let page = |name| files.iter().find(|file| file.path == name);
    let words = page(ARCHITECTURE).map(|page| page.text.split_whitespace().count());
    let lines = page(README).map(|page| page.text.lines().count());
    let too_long = |name, what: &str, count: Option<usize>, most: usize| {
        let count = count.filter(|count| *count > most)?;
        let what = format!("it has {count} {what}; at most {most} are read");
        Some(TidyFinding::new(name, what, "shorten it, or move details to a page of their own"))
    };
    let architecture = too_long(ARCHITECTURE, "words", words, ARCHITECTURE_WORDS_MAX);
    architecture.into_iter().chain(too_long(README, "lines", lines, README_LINES_MAX)).collect()
}

/// Finds types that the glossary explains and that do not exist. Names of one word may be something
/// else, such as a tool.
fn check_types(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let Some(page) = files.iter().find(|file| file.path == GLOSSARY) else { return Vec::new() };
    let defined: BTreeSet<&str> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .flat_map(|file| defined_types(&file.text))
        .collect();
    let named = page.text.split('`').skip(1).step_by(2).filter(|word| is_type_name(word));
    let missing: BTreeSet<&str> = named.filter(|name| !defined.contains(name)).collect();
    let finding = |name: &str| {
        let what = format!("there is no type `{name}`");
        TidyFinding::new(GLOSSARY, what, "explain the type by the name that it has")
    };
    missing.into_iter().map(finding).collect()
}

/// The names after the keywords that begin the definition of a type.
fn defined_types(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut before = "";
    words.filter(|word| !word.is_empty()).filter(move |word| {
        let is_name = TYPE_KEYWORDS.contains(&before);
        before = word;
        is_name
    })
}

/// Whether a word is several words in the form of a type name.
fn is_type_name(word: &str) -> bool {
    let bytes = word.as_bytes();
    let has_inner_capital =
        bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    bytes.first().is_some_and(u8::is_ascii_uppercase)
        && bytes.iter().all(u8::is_ascii_alphanumeric)
        && has_inner_capital
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
    fn type_of_glossary_must_exist() {
        let file = |path: &str, text: &str| RepositoryFile { path: path.into(), text: text.into() };
        let page = "| `ToolCall` / `CallEnd` | a `Bash` call of `XArgs`, `to_gone` |";
        let files = [
            file(GLOSSARY, page),
            file("crates/a/src/a.rs", "/// CallEnd\npub struct ToolCall<T> {"),
        ];
        let missing: Vec<String> = check_types(&files).iter().map(ToString::to_string).collect();
        let expected = "docs/glossary.md: there is no type `CallEnd`; explain the type by the name that it has";
        assert_eq!(missing, [expected]);
    }

    #[test]
    fn long_page_for_newcomers_is_found() {
        let file = |path: &str, text: String| RepositoryFile { path: path.into(), text };
        let long = [
            file(ARCHITECTURE, "a word ".repeat(2_001)),
            file(README, "line\n".repeat(101)),
            file("docs/long.md", "word\n".repeat(9_000)),
        ];
        let found: Vec<String> = check_lengths(&long).iter().map(|it| it.what.clone()).collect();
        let expected =
            ["it has 4002 words; at most 4000 are read", "it has 101 lines; at most 100 are read"];
        assert_eq!(found, expected);
        let short = [file(ARCHITECTURE, "word ".repeat(4_000)), file(README, "\n".repeat(100))];
        assert_eq!(check_lengths(&short), []);
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
