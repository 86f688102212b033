//! Refuses docs of an item that only repeat its name: a reader of `struct QueuedPrompt` learns nothing
//! from "A queued prompt".

use super::text_checks;
use super::tidy_finding::TidyFinding;
use crate::repository::RepositoryFile;

/// A doc of at least this many words is taken to say something.
const REPEATING_DOC_WORDS: usize = 5;

/// Words of a doc that add nothing to a name.
const FILLER_WORDS: &[&str] = &[
    "a", "an", "and", "as", "for", "from", "in", "is", "it", "its", "of", "on", "the", "this", "to",
];

/// Keywords of items with a name.
const ITEM_KEYWORDS: [&str; 8] =
    ["fn", "struct", "enum", "trait", "type", "union", "const", "static"];

/// Words before the keyword of an item.
const QUALIFIERS: [&str; 4] = ["async", "unsafe", "extern", "\"C\""];

pub(super) fn check(file: &RepositoryFile) -> Vec<TidyFinding> {
    if !text_checks::is_source_file(&file.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut doc = String::new();
    let mut doc_line = 0;
    for (line, number) in file.text.lines().zip(1..) {
        let code = line.trim();
        if let Some(text) = code.strip_prefix("///") {
            if doc.is_empty() {
                doc_line = number;
            }
            doc.push_str(text);
            doc.push(' ');
            continue;
        }
        if code.starts_with("#[") {
            continue;
        }
        if let Some(name) = item_name(code)
            && repeats(&doc, name)
        {
            findings.push(TidyFinding::new(
                format!("{}:{doc_line}", file.path),
                format!("the doc of `{name}` repeats its name"),
                "say what a caller must know, or remove the doc of a private item",
            ));
        }
        doc.clear();
    }
    findings
}

/// The name of the item that a line of code begins to define.
fn item_name(code: &str) -> Option<&str> {
    let code = match code.strip_prefix("pub(") {
        Some(rest) => rest.split_once(')')?.1,
        None => code.strip_prefix("pub ").unwrap_or(code),
    };
    let mut words = code.split_whitespace().peekable();
    while words.next_if(|word| QUALIFIERS.contains(word)).is_some() {}
    let keyword = words.next()?;
    if !ITEM_KEYWORDS.contains(&keyword) {
        return None;
    }
    // `const fn` and `const unsafe fn` are functions, `static mut` is a static.
    let name = words.find(|word| !QUALIFIERS.contains(word) && !["fn", "mut"].contains(word))?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}

fn repeats(doc: &str, name: &str) -> bool {
    let words: Vec<String> = words(doc);
    let name = words_of_name(name);
    let mut telling = words.iter().filter(|word| !FILLER_WORDS.contains(&word.as_str())).peekable();
    telling.peek().is_some()
        && words.len() < REPEATING_DOC_WORDS
        && telling.all(|word| name.contains(&stem(word)))
}

fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Stems of the words of a name in any case: `QueuedPrompt`, `queued_prompt`, `QUEUED_PROMPT`.
fn words_of_name(name: &str) -> Vec<String> {
    let mut spaced = String::new();
    let mut before = ' ';
    for c in name.chars() {
        if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
            spaced.push(' ');
        }
        spaced.push(c);
        before = c;
    }
    words(&spaced.replace('_', " ")).iter().map(|word| stem(word)).collect()
}

/// A word without its usual endings, so that "limits" and "limit", "opened" and "open" are one.
fn stem(word: &str) -> String {
    let endings = ["ing", "ies", "es", "ed", "s", "y"];
    let ending =
        endings.iter().find(|ending| word.len() >= ending.len() + 3 && word.ends_with(**ending));
    let stem = ending.map_or(word, |ending| &word[..word.len() - ending.len()]);
    stem.strip_suffix('e').unwrap_or(stem).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        let file =
            RepositoryFile { path: "crates/zero/src/a.rs".to_owned(), text: text.to_owned() };
        let found: Vec<String> =
            check(&file).iter().map(|it| format!("{}: {}", it.file, it.what)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn doc_that_repeats_name_is_refused() {
        for (doc, item, name) in [
            ("A queued prompt.", "struct QueuedPrompt;", "QueuedPrompt"),
            ("Limits of a queue.", "pub(crate) struct QueueLimits {", "QueueLimits"),
            ("Opens the file.", "pub async fn open_file(", "open_file"),
            ("Its paths.", "pub const fn path() -> u8 {", "path"),
            ("The entry.", "pub(super) extern \"C\" fn entry() {", "entry"),
            ("Maximum bytes.", "const MAXIMUM_BYTES: usize = 1;", "MAXIMUM_BYTES"),
        ] {
            let finding = format!("crates/zero/src/a.rs:1: the doc of `{name}` repeats its name");
            check_text(&format!("/// {doc}\n#[must_use]\n{item}\n"), &[&finding]);
        }
    }

    #[test]
    fn doc_that_adds_something_is_accepted() {
        for (doc, item) in [
            ("A prompt that waits.", "struct QueuedPrompt;"),
            ("Opens the file of this session.", "fn open_file("),
            ("Bytes.", "const SIZE_MAX: usize = 1;"),
            ("A prompt.", "prompt: String,"),
        ] {
            check_text(&format!("/// {doc}\n{item}\n"), &[]);
        }
        check_text("/// A prompt.\nlet x = 1;\nstruct Prompt;\n", &[]);
        check_text("fn open_file() {}\n", &[]);
    }
}
