//! Checks the vocabulary: a type is a noun of the field, and its name belongs to it alone.

use std::collections::BTreeMap;

use super::text_checks;
use super::tidy_finding::TidyFinding;
use crate::repository::RepositoryFile;

/// Names that two types share, with the reason. Both are the same concept at two layers, and the
/// module path says which.
const SHARED_NAMES: &[(&str, &str)] = &[];

/// Words that say nothing about what a type holds: participles, adverbs, pronouns, and everyday words
/// with many meanings.
const VAGUE_WORDS: &[&str] = &[
    "Again",
    "Ahead",
    "Asked",
    "Before",
    "Begun",
    "Found",
    "Given",
    "Gone",
    "Heard",
    "Held",
    "Here",
    "Kept",
    "Known",
    "Line",
    "Lost",
    "Made",
    "Meant",
    "Met",
    "Near",
    "Onward",
    "Page",
    "Piece",
    "Place",
    "Read",
    "Rest",
    "Room",
    "Said",
    "Seen",
    "Sent",
    "Shown",
    "Side",
    "Stood",
    "Taken",
    "Thing",
    "Things",
    "Told",
    "Understood",
    "Unheard",
    "Unread",
    "Way",
    "What",
    "Where",
    "Who",
    "Whose",
    "Why",
    "Wish",
    "Word",
    "Words",
];

/// Nouns of the field that happen to end like a participle.
const NOUNS: &[&str] = &["Feed", "Heading", "Seed", "Setting", "Token"];

/// Checks all files together, since a name belongs to one type of the workspace.
pub(super) fn check(files: &[RepositoryFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| text_checks::is_source_file(&file.path)) {
        for TypeDefinition { name, line, visibility } in type_definitions(&file.text) {
            let location = format!("{}:{line}", file.path);
            if is_vague(name) {
                let what = format!("type `{name}` says nothing about what it holds");
                findings.push(TidyFinding::new(
                    &location,
                    what,
                    "name it with a noun of the field",
                ));
            }
            // A search for a name should find one type, private ones included.
            let is_counted = match visibility {
                Some(TypeVisibility::Shared) => true,
                Some(TypeVisibility::Private) => !is_test_file(&file.path),
                None => false,
            };
            if is_counted && !is_disabled_twin(files, &file.path) {
                owners.entry(name).or_default().push(location);
            }
        }
    }
    findings.extend(shared_names(&owners, SHARED_NAMES));
    for file in files.iter().filter(|file| is_test_code(&file.path)) {
        findings.extend(names_taken_by_tests(file, &owners));
    }
    findings
}

/// Types of a test with the name of a type of the product. Helpers of several tests may share a name.
fn names_taken_by_tests(
    file: &RepositoryFile,
    owners: &BTreeMap<&str, Vec<String>>,
) -> Vec<TidyFinding> {
    let taken = type_definitions(&file.text).into_iter().filter_map(|definition| {
        let TypeDefinition { name, line, .. } = definition;
        let is_product =
            |owner: &&String| owner.rsplit_once(':').is_some_and(|(path, _)| !is_test_code(path));
        let owner = owners.get(name)?.iter().find(is_product)?;
        let what = format!("type `{name}` of a test has the name of the type in {owner}");
        let location = format!("{}:{line}", file.path);
        Some(TidyFinding::new(&location, what, "give the helper a name of its own"))
    });
    taken.collect()
}

/// Whether a module takes the place of `enabled.rs` beside it in a build without a cargo feature. Its types are the same
/// concepts, and never in the same build.
fn is_disabled_twin(files: &[RepositoryFile], path: &str) -> bool {
    let enabled = path.strip_suffix("/disabled.rs").map(|folder| format!("{folder}/enabled.rs"));
    enabled.is_some_and(|enabled| files.iter().any(|file| file.path == enabled))
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Whether a file of a crate has tests or an example only.
fn is_test_code(path: &str) -> bool {
    path.starts_with("crates/")
        && path.ends_with(".rs")
        && (is_test_file(path) || path.contains("/examples/") || path.contains("/benches/"))
}

/// Names with several owners, and exceptions that no longer apply.
fn shared_names(
    owners: &BTreeMap<&str, Vec<String>>,
    exceptions: &[(&str, &str)],
) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (name, locations) in owners.iter().filter(|(_, locations)| locations.len() > 1) {
        if exceptions.iter().any(|(shared, _)| shared == name) {
            continue;
        }
        for location in locations {
            let others: Vec<&str> =
                locations.iter().filter(|it| *it != location).map(String::as_str).collect();
            let what = format!("type `{name}` is also defined in {}", others.join(", "));
            findings.push(TidyFinding::new(location, what, "give each concept its own name"));
        }
    }
    for (name, _) in exceptions {
        if owners.get(name).is_none_or(|locations| locations.len() < 2) {
            let what = format!("`{name}` is listed as shared and is not");
            findings.push(TidyFinding::new("xtask/src/tidy/vocabulary.rs", what, "remove the row"));
        }
    }
    findings
}

/// A `struct`, `enum`, `trait`, `type` or `union` of a file.
struct TypeDefinition<'a> {
    name: &'a str,
    /// Counted from 1.
    line: usize,
    /// Who sees it; `None` in a module of tests.
    visibility: Option<TypeVisibility>,
}

/// Whether other files can see a type.
enum TypeVisibility {
    Shared,
    Private,
}

fn type_definitions(text: &str) -> Vec<TypeDefinition<'_>> {
    let mut definitions = Vec::new();
    let mut in_tests = false;
    // Associated types repeat the name that their trait gives them.
    let mut impl_indent = None;
    for (line, number) in text.lines().zip(1..) {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim_start();
        if code.starts_with("#[cfg(test)]") && indent == 0 {
            in_tests = true;
            continue;
        }
        if impl_indent == Some(indent) && code.starts_with('}') {
            impl_indent = None;
        }
        if impl_indent.is_none() && opens_impl_or_trait(code) && !line.trim_end().ends_with('}') {
            impl_indent = Some(indent);
        }
        let is_associated = code.starts_with("type ") && impl_indent.is_some_and(|at| indent > at);
        if let Some((visibility, name)) = defined_type(code).filter(|_| !is_associated) {
            let visibility = (!in_tests).then_some(visibility);
            definitions.push(TypeDefinition { name, line: number, visibility });
        }
        // What follows the item of tests is part of the product again.
        let ends_item = line.starts_with('}') || line.ends_with(';') && indent == 0;
        in_tests &= !ends_item;
    }
    definitions
}

fn opens_impl_or_trait(code: &str) -> bool {
    let code = without_visibility(code).1;
    ["impl ", "impl<", "unsafe impl", "trait "].iter().any(|start| code.starts_with(start))
}

/// Who sees the type that a line defines, and its name.
fn defined_type(code: &str) -> Option<(TypeVisibility, &str)> {
    let (visibility, code) = without_visibility(code);
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    let keyword = ["struct ", "enum ", "trait ", "type ", "union "]
        .iter()
        .find(|it| code.starts_with(**it))?;
    let rest = &code[keyword.len()..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    name.starts_with(|c: char| c.is_ascii_uppercase()).then_some((visibility, name))
}

fn without_visibility(code: &str) -> (TypeVisibility, &str) {
    let rest = code.strip_prefix("pub").and_then(|rest| match rest.strip_prefix('(') {
        Some(restricted) => restricted.split_once(") ").map(|(_, rest)| rest),
        None => rest.strip_prefix(' '),
    });
    rest.map_or((TypeVisibility::Private, code), |rest| (TypeVisibility::Shared, rest))
}

/// One word that is no noun.
fn is_vague(name: &str) -> bool {
    let is_one_word = name.chars().skip(1).all(|c| !c.is_ascii_uppercase());
    let is_participle = name.ends_with("ed") || name.ends_with("ing");
    VAGUE_WORDS.contains(&name) || (is_one_word && is_participle && !NOUNS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> RepositoryFile {
        RepositoryFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[track_caller]
    fn check_files(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<RepositoryFile> =
            files.iter().map(|(path, text)| source(path, text)).collect();
        let found: Vec<String> =
            check(&files).iter().map(|it| format!("{}: {}", it.file, it.what)).collect();
        let found: Vec<&String> =
            found.iter().filter(|it| !it.contains("is listed as shared")).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn type_named_by_participle_is_refused() {
        let vague = |name: &str| {
            format!("crates/zero/src/a.rs:1: type `{name}` says nothing about what it holds")
        };
        for name in ["Told", "Place", "Whose", "Again", "Settled", "Telling"] {
            for form in ["struct X;", "pub(super) enum X {", "trait X {", "type X = u8;"] {
                let line = form.replace('X', name);
                check_files(&[("crates/zero/src/a.rs", &line)], &[&vague(name)]);
            }
        }
        check_files(&[("crates/zero/src/a.rs", "pub struct ToldStory;\npub struct Token;\n")], &[]);
    }

    #[test]
    fn second_definition_of_shared_name_is_refused() {
        let (a, b) = ("crates/zero/src/a.rs", "crates/zero-core/src/b.rs");
        check_files(
            &[(a, "pub(crate) struct FilePosition;"), (b, "\npub enum FilePosition {")],
            &[
                "crates/zero/src/a.rs:1: type `FilePosition` is also defined in crates/zero-core/src/b.rs:2",
                "crates/zero-core/src/b.rs:2: type `FilePosition` is also defined in crates/zero/src/a.rs:1",
            ],
        );
        check_files(
            &[(a, "struct FilePosition;"), (b, "enum FilePosition {")],
            &[
                "crates/zero/src/a.rs:1: type `FilePosition` is also defined in crates/zero-core/src/b.rs:1",
                "crates/zero-core/src/b.rs:1: type `FilePosition` is also defined in crates/zero/src/a.rs:1",
            ],
        );
        for tests in [
            "crates/zero/src/a/tests.rs",
            "crates/zero/src/tests/a.rs",
            "crates/zero/tests/it/a.rs",
            "crates/zero/examples/a.rs",
        ] {
            let taken = format!(
                "{tests}:1: type `FilePosition` of a test has the name of the type in {b}:1"
            );
            check_files(&[(tests, "struct FilePosition;"), (b, "enum FilePosition {")], &[&taken]);
            check_files(
                &[
                    (tests, "pub struct FilePosition;"),
                    ("crates/zero/tests/b.rs", "struct FilePosition;"),
                ],
                &[],
            );
        }
        check_files(
            &[(a, "#[cfg(test)]\npub struct FilePosition;"), (b, "pub enum FilePosition {")],
            &[],
        );
        let after_tests = "#[cfg(test)]\nmod tests {\n    fn a() {}\n}\npub struct FilePosition;";
        check_files(
            &[(a, after_tests), (b, "pub enum FilePosition {")],
            &[
                "crates/zero/src/a.rs:5: type `FilePosition` is also defined in crates/zero-core/src/b.rs:1",
                "crates/zero-core/src/b.rs:1: type `FilePosition` is also defined in crates/zero/src/a.rs:5",
            ],
        );
        let associated =
            "impl Tool for Read {\n    type Args = A;\n}\npub trait Tool {\n    type Args;\n}";
        check_files(&[(a, associated), (b, associated.replace("Tool", "Kit").as_str())], &[]);
    }

    #[test]
    fn module_of_disabled_feature_shares_names() {
        let (a, b) = ("crates/zero/src/a/enabled.rs", "crates/zero/src/a/disabled.rs");
        check_files(&[(a, "pub struct FilePosition;"), (b, "pub enum FilePosition {}")], &[]);
        let alone = ["crates/zero/src/b.rs", b];
        let finding = |it: &str, other: &str| {
            format!("{it}:1: type `FilePosition` is also defined in {other}:1")
        };
        check_files(
            &alone.map(|path| (path, "pub struct FilePosition;")),
            &[&finding(alone[0], alone[1]), &finding(alone[1], alone[0])],
        );
    }

    #[test]
    fn stale_exception_is_refused() {
        let owners = BTreeMap::from([("Store", vec!["a.rs:1".to_owned()])]);
        let found = shared_names(&owners, &[("Store", "two layers")]);
        assert_eq!(found[0].what, "`Store` is listed as shared and is not");
        let owners = BTreeMap::from([("Store", vec!["a.rs:1".to_owned(), "b.rs:1".to_owned()])]);
        assert!(shared_names(&owners, &[("Store", "two layers")]).is_empty());
        assert_eq!(shared_names(&owners, &[]).len(), 2);
    }
}
