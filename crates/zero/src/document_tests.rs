//! Checks what the documents show: every command line is one that zero understands, and every block of
//! settings is one that zero accepts.

#![expect(clippy::disallowed_methods, reason = "the tests read the repository")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use zero_settings::{
    SettingsLayer, SettingsLayerKind, UserPaths, WorkspaceSettings, settings_schema,
};

use crate::command_line;

/// Fewest commands and settings that the documents have, so that the tests do not pass without reading
/// any.
const COMMANDS_MIN: usize = 200;
const SETTINGS_MIN: usize = 30;

/// A fenced block of a document.
struct CodeBlock {
    /// File and line of the fence.
    place: String,
    language: String,
    text: String,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.extend(
                    Some(path).filter(|path| path.extension().is_some_and(|it| it == "md")),
                ),
            }
        }
    }
    files
}

fn code_blocks() -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut open: Option<CodeBlock> = None;
        for (at, line) in text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    let place = format!("{}:{}", path.display(), at + 1);
                    open = Some(CodeBlock {
                        place,
                        language: language.to_owned(),
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => block.text += &format!("{line}\n"),
                (None, None) => {}
            }
        }
    }
    blocks
}

/// The simple commands of a script, as words. Substitutions are commands of their own.
fn split_commands(script: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut letters = script.chars().peekable();
    let mut is_redirected = false;
    let end_word =
        |word: &mut Option<String>, commands: &mut Vec<Vec<String>>, is_redirected: &mut bool| {
            if let Some(word) = word.take()
                && !std::mem::take(is_redirected)
                && let Some(command) = commands.last_mut()
            {
                command.push(word);
            }
        };
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('\n') | None => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
            },
            '\'' | '"' => {
                let quoted = word.get_or_insert_default();
                while let Some(inner) = letters.next().filter(|inner| *inner != letter) {
                    match (inner, letter) {
                        ('\\', '"') => quoted.extend(letters.next()),
                        (inner, _) => quoted.push(inner),
                    }
                }
            }
            '#' if word.is_none() => while letters.next_if(|next| *next != '\n').is_some() {},
            ' ' | '\t' => end_word(&mut word, &mut commands, &mut is_redirected),
            '<' | '>' => {
                // The number of a stream is no word.
                word = word.filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit()));
                end_word(&mut word, &mut commands, &mut is_redirected);
                while letters.next_if(|next| "<>&".contains(*next)).is_some() {}
                is_redirected = true;
            }
            '\n' | '|' | '&' | ';' | '(' | ')' | '`' => {
                end_word(&mut word, &mut commands, &mut is_redirected);
                is_redirected = false;
                commands.push(Vec::new());
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    end_word(&mut word, &mut commands, &mut is_redirected);
    commands
}

/// The arguments of a command, if it runs zero.
fn zero_arguments(words: &[String]) -> Option<&[String]> {
    let is_variable = |word: &&String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        })
    };
    let skipped = words.iter().take_while(is_variable).count();
    let words = words.get(skipped..)?;
    (words.first()? == "zero").then_some(words)
}

#[test]
fn every_command_in_documents_is_understood() {
    let (mut count, mut wrong) = (0, Vec::new());
    for block in code_blocks() {
        let is_shell = ["sh", "bash", "console"].contains(&block.language.as_str());
        // In a transcript, the commands stand after a prompt, which may be root's.
        let script: String = match block.language.as_str() {
            "console" => block
                .text
                .lines()
                .filter_map(|line| line.strip_prefix("$ "))
                .map(|line| format!("{line}\n"))
                .collect(),
            _ => block.text.clone(),
        };
        for words in split_commands(&script).iter().filter(|_| is_shell) {
            let Some(words) = zero_arguments(words) else { continue };
            // A line with `…` shows a part.
            if words.iter().any(|word| word.contains('…')) {
                continue;
            }
            count += 1;
            if let Err(error) = command_line::parse(words.iter().map(OsString::from).collect())
                && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
            {
                wrong.push(format!("{}: {words:?}: {error}", block.place));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= COMMANDS_MIN, "only {count} commands were found");
}

#[test]
fn every_settings_block_in_documents_is_accepted() {
    let schema = settings_schema::schema();
    let known = schema["properties"].as_object().unwrap();
    let temp = tempfile::tempdir().unwrap();
    let home = temp.path().canonicalize().unwrap();
    let paths = UserPaths::for_home(&home);
    let (mut count, mut wrong) = (0, Vec::new());
    for block in code_blocks() {
        if !["json", "jsonc"].contains(&block.language.as_str()) || !block.text.starts_with('{') {
            continue;
        }
        let document =
            zero_settings::document::SettingsDocument::parse(&block.place, block.text.as_bytes());
        let Ok(document) = document else { continue };
        let fields = document.value().as_object().unwrap();
        if fields.is_empty() || !fields.keys().all(|key| known.contains_key(key)) {
            continue;
        }
        count += 1;
        let layer = SettingsLayer::parse(
            SettingsLayerKind::User,
            block.place.clone(),
            block.text.as_bytes(),
        );
        match layer {
            Err(problems) => wrong.extend(problems.iter().map(ToString::to_string)),
            Ok(layer) => {
                if let Err(error) = WorkspaceSettings::check_layer(layer, &paths, &home) {
                    wrong.push(format!("{}: {error}", block.place));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= SETTINGS_MIN, "only {count} blocks of settings were found");
}

#[test]
fn commands_are_found_in_scripts() {
    let script = "A=b zero run 'x y' --json | jq . # z\ngit diff | zero run - > out 2>&1\nx=$(zero usage)\nzero \\\n  doctor && echo zero";
    let commands = split_commands(script);
    let found: Vec<String> = commands
        .iter()
        .filter_map(|words| zero_arguments(words))
        .map(|words| words.join(" "))
        .collect();
    assert_eq!(found, ["zero run x y --json", "zero run -", "zero usage", "zero doctor"]);
}

/// Makes cargo xtask reference write the page instead of comparing it.
const UPDATE: &str = "ZERO_UPDATE_REFERENCE";

/// The variants of an enum in a source file, each with its documentation and, if it has one, its number.
fn read_variants(source: &str, name: &str) -> Vec<(String, String, Option<String>)> {
    let start = source.find(&format!("pub enum {name} {{")).unwrap();
    let (body, _) = source[start..].split_once("\n}").unwrap();
    let (mut variants, mut words) = (Vec::new(), Vec::new());
    for line in body.lines().skip(1).map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            words.push(text);
        } else if let Some(variant) = line.strip_suffix(',') {
            let (variant, number) = match variant.split_once(" = ") {
                Some((variant, number)) => (variant, Some(number.to_owned())),
                None => (variant, None),
            };
            variants.push((variant.to_owned(), words.join(" "), number));
            words.clear();
        }
    }
    variants
}

fn errors_page() -> String {
    let reasons = read_variants(include_str!("../../zero-core/src/tool_error.rs"), "ErrorReason");
    let exits = read_variants(include_str!("exit.rs"), "ExitOutcome");
    let mut page = "# Exit codes and error reasons\n\n\
        This page is generated from the code by `cargo xtask reference`. Both lists are stable: numbers and words keep their \
        meaning.\n\n## Exit codes\n\n| code | meaning |\n|---|---|\n"
        .to_owned();
    for (_, text, number) in &exits {
        page += &format!("| {} | {} |\n", number.as_deref().unwrap(), text.trim_end_matches('.'));
    }
    page += "\nA command may use some of them only; its `--help` lists which. [Command line](cli.md#exit-codes) has more on each.\n\n\
        ## Error reasons\n\nAn error of a tool has a type, and `details.reason` refines it \
        ([which reasons a type has](built-in-tools.md#errors)).\n\n| `details.reason` | meaning |\n|---|---|\n";
    for (variant, text, _) in &reasons {
        let reason: zero_core::ErrorReason =
            serde_json::from_value(serde_json::Value::String(snake_case(variant))).unwrap();
        let word = serde_json::to_value(reason).unwrap();
        page += &format!("| `{}` | {} |\n", word.as_str().unwrap(), text.trim_end_matches('.'));
    }
    page
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[test]
fn errors_reference_page_matches_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors.md");
    let page = errors_page();
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(there, page, "run `cargo xtask reference`");
    // The table of types has every reason.
    let tools = std::fs::read_to_string(path.with_file_name("built-in-tools.md")).unwrap();
    let (_, table) = tools.split_once("| `error_type` | reasons |").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    for line in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (word, _) = line.split_once('`').unwrap();
        assert!(
            word == "details.reason" || table.contains(&format!("`{word}`")),
            "`{word}` is in no row"
        );
    }
}
