//! Checks the names of files, their module docs, and forbidden words.

use super::finding::TidyFinding;
use crate::repository::RepositoryFile;

/// Names without a concept.
const VAGUE_NAMES: &[&str] = &["utils.rs", "util.rs", "common.rs", "helpers.rs", "misc.rs"];

/// Words that belong to one machine or to a service that may not exist.
const FORBIDDEN_WORDS: &[&str] = &[
    concat!("..", "/shared"),
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("registry", ".npmjs"),
    concat!("issue ", "#"),
];

/// What may follow the keyword `unsafe` where it has an effect.
const UNSAFE_FORMS: &[&str] = &["{", "fn ", "impl ", "impl<", "trait ", "extern "];

pub(super) fn check(file: &RepositoryFile) -> Vec<TidyFinding> {
    let mut findings = check_forbidden_words(file);
    if is_source_file(&file.path) {
        findings.extend(check_file_name(file));
        findings.extend(check_module_doc(file));
        findings.extend(check_unsafe_code(file));
    }
    findings
}

pub(super) fn is_source_file(path: &str) -> bool {
    let in_source = path.starts_with("xtask/src/")
        || path
            .strip_prefix("crates/")
            .and_then(|rest| rest.split_once('/'))
            .is_some_and(|(_, rest)| rest.starts_with("src/"));
    in_source && path.ends_with(".rs")
}

fn check_file_name(file: &RepositoryFile) -> Option<TidyFinding> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if name == "mod.rs" {
        let fix =
            "put it beside its folder, as `folder.rs`: tabs and search results then say something";
        return Some(TidyFinding::new(&file.path, "`mod.rs` hides what the module is", fix));
    }
    VAGUE_NAMES.contains(&name).then(|| {
        TidyFinding::new(
            &file.path,
            format!("`{name}` names no concept"),
            "name it after what it holds, or split it",
        )
    })
}

fn check_module_doc(file: &RepositoryFile) -> Option<TidyFinding> {
    let opens_well = file.text.lines().next().is_some_and(|line| line.starts_with("//! "));
    (!opens_well).then(|| {
        TidyFinding::new(
            &file.path,
            "it does not open with a `//!` doc",
            "say first why the module exists",
        )
    })
}

fn check_unsafe_code(file: &RepositoryFile) -> Option<TidyFinding> {
    if file.path.starts_with("crates/zero-sandbox/") {
        return None;
    }
    let line = file.text.lines().position(uses_unsafe)? + 1;
    let what = format!("line {line} is unsafe code");
    Some(TidyFinding::new(&file.path, what, "only zero-sandbox may: give it a safe function there"))
}

fn uses_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("unsafe").any(|(at, word)| {
        let starts_a_word =
            !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '"');
        let rest = &code[at + word.len()..];
        let attribute = rest.starts_with('(') && code[..at].ends_with("#[");
        let spaced = rest.trim_start();
        starts_a_word
            && (attribute
                || (spaced.len() < rest.len()
                    && UNSAFE_FORMS.iter().any(|form| spaced.starts_with(form))))
    })
}

fn check_forbidden_words(file: &RepositoryFile) -> Vec<TidyFinding> {
    // The lock file names the source of each crate; cargo writes it.
    if file.path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let numbered = file.text.lines().zip(1..);
    numbered
        .flat_map(|(line, number)| {
            let lower = line.to_lowercase();
            FORBIDDEN_WORDS.iter().filter(move |word| lower.contains(**word)).map(move |word| {
                TidyFinding::new(
                    &file.path,
                    format!("line {number} mentions `{word}`"),
                    "say it in the product's own words",
                )
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(path: &str, text: &str, expected: &str) {
        let file = RepositoryFile { path: path.to_owned(), text: text.to_owned() };
        let found: Vec<String> = check(&file).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found.join("\n"), expected, "{path}: {text}");
    }

    #[test]
    fn vague_file_names_are_found() {
        check_one("crates/zero/src/undo.rs", "//! Takes changes back.\n", "");
        check_one(
            "crates/zero/src/undo/mod.rs",
            "//! Takes changes back.\n",
            "`mod.rs` hides what the module is",
        );
        check_one("crates/zero/src/utils.rs", "//! Things.\n", "`utils.rs` names no concept");
        check_one("crates/zero/tests/common.rs", "", "");
    }

    #[test]
    fn missing_module_doc_is_found() {
        check_one("xtask/src/main.rs", "fn main() {}\n", "it does not open with a `//!` doc");
        check_one("crates/zero/src/a.rs", "", "it does not open with a `//!` doc");
        check_one("crates/zero/src/a.rs", "//!\n", "it does not open with a `//!` doc");
    }

    #[test]
    fn unsafe_code_outside_sandbox_is_found() {
        let line = |code: &str| format!("//! Why.\n{}\n", code.replace('!', "unsafe"));
        for code in [
            "! { x() }",
            "pub ! fn x() {}",
            "! impl Send for X {}",
            "#[!(no_mangle)]",
            "a(! { b })",
        ] {
            check_one("crates/zero/src/a.rs", &line(code), "line 2 is unsafe code");
            check_one("crates/zero-sandbox/src/a.rs", &line(code), "");
        }
        for code in
            ["// an ! { block }", "#[deny(!_code)]", "let not_! = 1;", "say(\"! at any speed\")"]
        {
            check_one("crates/zero/src/a.rs", &line(code), "");
        }
    }

    #[test]
    fn forbidden_words_are_found() {
        for word in FORBIDDEN_WORDS {
            check_one(
                "docs/a.md",
                &format!("fine\nsee {word}2\n"),
                &format!("line 2 mentions `{word}`"),
            );
            check_one("Cargo.lock", word, "");
        }
    }
}
