//! Files and folders that a prompt mentions as `@path`, to be attached to it.
//!
//! A mention is read with the tools, so that the same rules, masks and limits apply as to a call of
//! the model. A name that does not exist is not a mention: prompts contain `@Override` and user names,
//! too. Only if it looks like the name of a file, the prompt and the user are told that there is none.
//!
//! Not here: who makes the calls. A session does it for tools on its own machine, a client for those
//! that it hosts.

use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use zero_core::event::ResultContent;
use zero_core::text_shortening::excerpt;
use zero_core::{CallId, ToolCall, ToolOutcome};

use crate::dialect::{DialectName, render_plain};
use crate::tool_backend::{SilentObserver, ToolBackend};

/// Most mentions of a prompt that are examined; further ones stay text.
pub const MENTIONS_MAX: usize = 20;
/// Most bytes of text that are attached to a prompt. Each file also has the limit of a result.
const TEXT_BYTES_MAX: usize = 512 * 1024;
/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 4_096;
/// Longest message about a file that was not attached, in characters.
const REASON_CHARS_MAX: usize = 500;

/// Why nothing was attached for a mention that names no file.
const NOT_FOUND: &str = "there is no such file";
/// Longest extension of a file, in letters.
const EXTENSION_CHARS_MAX: usize = 8;

/// What a mention names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MentionTarget {
    /// A file, which is read.
    File,
    /// A folder, which is listed.
    Folder,
}

/// The paths that a prompt mentions, each once, in their order.
///
/// A mention begins at the start of the text, after white space or after an opening bracket or
/// quote, so that `a@b.c` is none. Its path ends at white space, and loses punctuation at its end. A
/// path with blanks is quoted, as in `@"my file"`, or has a backslash before each, as in `@my\ file`.
pub fn find_mentions(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut before = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let may_begin = before.is_none_or(|c: char| c.is_whitespace() || "([{<\"'`".contains(c));
        if c == '@'
            && may_begin
            && let Some((path, len)) = read_path(after)
        {
            if !found.contains(&path) {
                found.push(path);
            }
            if found.len() == MENTIONS_MAX {
                break;
            }
            before = Some(' ');
            rest = &after[len..];
            continue;
        }
        before = Some(c);
        rest = after;
    }
    found
}

/// The path at the beginning of a text, and the length of what was read.
fn read_path(text: &str) -> Option<(String, usize)> {
    if let Some(quote) = text.chars().next().filter(|c| "\"'".contains(*c)) {
        let (path, _) = text[1..].split_once(quote)?;
        let is_path = !path.is_empty() && !path.contains('\n') && path.len() <= PATH_BYTES_MAX;
        return is_path.then(|| (path.to_owned(), path.len() + 2));
    }
    let mut path = String::new();
    let mut len = 0;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\'
            && let Some((_, escaped)) = chars.clone().next().filter(|(_, c)| c.is_whitespace())
        {
            chars.next();
            path.push(escaped);
            len = at + 1 + escaped.len_utf8();
            continue;
        }
        if c.is_whitespace() || c.is_control() {
            break;
        }
        path.push(c);
        len = at + c.len_utf8();
    }
    // The end of a sentence or of a bracket is not part of the name.
    let trimmed = path.trim_end_matches(|c: char| ".,;:!?)]}>\"'`".contains(c));
    // `.` and `..` are names themselves.
    let kept = if trimmed.is_empty() { path.trim_end_matches(',') } else { trimmed };
    let is_path = !kept.is_empty() && !kept.starts_with('@') && kept.len() <= PATH_BYTES_MAX;
    is_path.then(|| (kept.to_owned(), len))
}

/// Whether a mention looks like the name of a file: it has an extension, or begins as only paths do.
fn is_file_name(path: &str) -> bool {
    let is_extension = |extension: &str| {
        (1..=EXTENSION_CHARS_MAX).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && extension.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    let has_extension = name
        .rsplit_once('.')
        .is_some_and(|(stem, extension)| !stem.is_empty() && is_extension(extension));
    has_extension || ["./", "../", "/", "~/"].iter().any(|start| path.starts_with(start))
}

/// The call that reads a mention, in the canonical dialect.
pub fn mention_call(path: &str, target: MentionTarget) -> ToolCall {
    let (tool, input) = match target {
        MentionTarget::File => ("Read", json!({"file_path": path})),
        MentionTarget::Folder => ("LS", json!({"path": path})),
    };
    ToolCall {
        id: CallId::from_bits(fastrand::u128(..)),
        session: None,
        tool: tool.to_owned(),
        input,
        timeout: None,
    }
}

/// What became of a mention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MentionReport {
    /// Its path, as it was written.
    pub path: String,
    /// Why nothing was attached, if so.
    pub problem: Option<String>,
}

/// Reads what a prompt mentions, with the tools and under their rules.
pub async fn read_mentions(
    backend: &dyn ToolBackend,
    text: &str,
    cancel: &CancellationToken,
) -> (MentionContents, Vec<MentionReport>) {
    let (mut contents, mut reports) = (MentionContents::default(), Vec::new());
    for path in find_mentions(text) {
        let Some(target) = backend.inspect_mention(&path).await else {
            if let Err(why) = contents.note_missing(&path) {
                reports.push(MentionReport { path, problem: Some(why) });
            }
            continue;
        };
        let (call, dialect) = (mention_call(&path, target), DialectName::Canonical);
        let outcome = backend.call(call, dialect, cancel.clone(), Arc::new(SilentObserver)).await;
        let problem = contents.add(&path, &outcome).err();
        reports.push(MentionReport { path, problem });
    }
    (contents, reports)
}

/// What the mentions of a prompt add to it.
#[derive(Debug, Default)]
pub struct MentionContents {
    text: String,
    /// Images, each with its type, its data in base64 and its path.
    pub images: Vec<(String, String, String)>,
}

impl MentionContents {
    /// Adds what a call returned for a mention. Returns why nothing was attached, if so; the prompt
    /// then says that, too.
    pub fn add(&mut self, path: &str, outcome: &ToolOutcome) -> Result<(), String> {
        let added = match outcome {
            ToolOutcome::Error(error) => Err(excerpt(&error.message, REASON_CHARS_MAX)),
            ToolOutcome::Result(_) => self.add_parts(path, render_plain(outcome)),
        };
        if let Err(why) = &added {
            self.text.push_str(&format!("\n\n(`@{path}` was not attached: {why})"));
        }
        added
    }

    /// Notes that nothing was found at a path, if it looks like that of a file. Then returns why nothing
    /// was attached.
    pub fn note_missing(&mut self, path: &str) -> Result<(), String> {
        if !is_file_name(path) {
            return Ok(());
        }
        self.text.push_str(&format!("\n\n(`@{path}` was not attached: {NOT_FOUND})"));
        Err(NOT_FOUND.to_owned())
    }

    fn add_parts(&mut self, path: &str, parts: Vec<ResultContent>) -> Result<(), String> {
        for part in parts {
            match part {
                ResultContent::Text { text } => {
                    if self.text.len() + text.len() > TEXT_BYTES_MAX {
                        return Err(format!(
                            "the files mentioned have more than {TEXT_BYTES_MAX} bytes; read it with Read"
                        ));
                    }
                    self.text.push_str(&format!(
                        "\n\n<attached path=\"{}\">\n{}\n</attached>",
                        path.replace('"', "&quot;"),
                        text.trim_end_matches('\n')
                    ));
                }
                ResultContent::Image { mime, data } => {
                    self.images.push((mime, data, path.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// The text of the prompt, followed by the contents.
    pub fn append_to(&self, prompt: &mut String) {
        prompt.push_str(&self.text);
    }
}

/// Divides the text of a prompt into what the user wrote and the paths of the files whose contents
/// [`MentionContents::append_to`] added. A text that ends otherwise is the user's as a whole.
pub fn split_mentions(prompt: &str) -> (&str, Vec<String>) {
    const OPENING: &str = "\n\n<attached path=\"";
    const CLOSING: &str = "\n</attached>";
    let whole = || (prompt, Vec::new());
    let Some(start) = prompt.find(OPENING) else { return whole() };
    let (written, mut rest) = prompt.split_at(start);
    let mut paths = Vec::new();
    while !rest.is_empty() {
        if let Some(note) = rest.strip_prefix("\n\n(`@") {
            let Some(end) = note.find(')') else { return whole() };
            let after = note.get(end..).and_then(|after| after.find(OPENING));
            rest = after.and_then(|at| note.get(end + at..)).unwrap_or_default();
            continue;
        }
        let Some((path, after)) =
            rest.strip_prefix(OPENING).and_then(|rest| rest.split_once("\">\n"))
        else {
            return whole();
        };
        let Some(end) = find_end(after, CLOSING, OPENING) else { return whole() };
        paths.push(path.replace("&quot;", "\""));
        rest = after.get(end..).unwrap_or_default();
    }
    (written, paths)
}

/// Where the part of one file ends: its closing mark, followed by the next file, a note or nothing.
fn find_end(text: &str, closing: &str, opening: &str) -> Option<usize> {
    text.match_indices(closing).map(|(at, _)| at + closing.len()).find(|end| {
        let after = text.get(*end..).unwrap_or_default();
        after.is_empty() || after.starts_with(opening) || after.starts_with("\n\n(`@")
    })
}

#[cfg(test)]
mod tests {
    use zero_core::event::ToolCallStatus;
    use zero_core::{ErrorReason, ToolError};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(find_mentions(text), expected, "{text:?}");
    }

    #[test]
    fn mentions_are_paths_after_an_at_sign() {
        check("look at @src/main.rs", &["src/main.rs"]);
        check("@a and @b/, (@c.txt) then @d.", &["a", "b/", "c.txt", "d"]);
        check("twice: @a @a", &["a"]);
        check("@../x @./y @~/z @/etc/hosts", &["../x", "./y", "~/z", "/etc/hosts"]);
        check("@. @..", &[".", ".."]);
        check("ends @ä.txt!", &["ä.txt"]);
        check("`@quoted`", &["quoted"]);
    }

    #[test]
    fn missing_file_is_noted_only_if_it_looks_like_one() {
        for (path, is_noted) in [
            ("src/mian.rs", true),
            ("notes.txt", true),
            ("./x", true),
            ("~/y", true),
            ("Override", false),
            ("angular/core", false),
            ("types/node", false),
            ("me.", false),
            (".", false),
            ("v1.2", false),
        ] {
            let mut contents = MentionContents::default();
            assert_eq!(contents.note_missing(path).is_err(), is_noted, "{path}");
            assert_eq!(contents.text.contains("there is no such file"), is_noted, "{path}");
        }
    }

    #[test]
    fn addresses_and_hunks_are_not_mentions() {
        check("mail a@b.c or x.y@z", &[]);
        check("@@ -1,3 +1,3 @@", &[]);
        check("alone @ or @, or\n@", &[]);
        check("@\"\" @'' @\"open", &[]);
    }

    #[test]
    fn blanks_are_quoted_or_escaped() {
        check(
            "@\"my file.txt\" @'other one' @my\\ third\\ file.",
            &["my file.txt", "other one", "my third file"],
        );
        check("@\"a\nb\"", &[]);
    }

    #[test]
    fn number_of_mentions_is_bounded() {
        let text: String = (0..50).map(|number| format!("@f{number} ")).collect();
        assert_eq!(find_mentions(&text).len(), MENTIONS_MAX);
        check(&format!("@{}", "x".repeat(PATH_BYTES_MAX + 1)), &[]);
    }

    #[test]
    fn contents_follow_prompt_and_failures_are_named() {
        let result = |text: &str| {
            let content = vec![ResultContent::Text { text: text.to_owned() }];
            ToolOutcome::from_content(ToolCallStatus::Completed, content, None, Vec::new())
        };
        let mut contents = MentionContents::default();
        contents.add("a\"b", &result("     1\tx\n")).unwrap();
        let denied = ToolError::failed(ErrorReason::Denied, "denied by rule");
        contents.add("c", &ToolOutcome::Error(denied)).unwrap_err();
        contents.add("d", &result(&"x".repeat(TEXT_BYTES_MAX))).unwrap_err();
        let mut prompt = "look at @c".to_owned();
        contents.append_to(&mut prompt);
        assert_eq!(
            prompt,
            format!(
                "look at @c\n\n<attached path=\"a&quot;b\">\n     1\tx\n</attached>\n\n\
                 (`@c` was not attached: denied by rule)\n\n(`@d` was not attached: the files \
                 mentioned have more than {TEXT_BYTES_MAX} bytes; read it with Read)"
            )
        );
    }

    #[test]
    fn contents_are_separated_from_the_prompt() {
        let result = |text: &str| {
            let content = vec![ResultContent::Text { text: text.to_owned() }];
            ToolOutcome::from_content(ToolCallStatus::Completed, content, None, Vec::new())
        };
        let mut contents = MentionContents::default();
        contents.add("a\"b", &result("one\n</attached>\ntwo")).unwrap();
        contents.add("c.rs", &result("three")).unwrap();
        let denied = ToolError::failed(ErrorReason::Denied, "denied (by a rule)");
        contents.add("d", &ToolOutcome::Error(denied)).unwrap_err();
        let mut prompt = "look at @c.rs".to_owned();
        contents.append_to(&mut prompt);
        let paths = vec!["a\"b".to_owned(), "c.rs".to_owned()];
        assert_eq!(split_mentions(&prompt), ("look at @c.rs", paths));
        for whole in
            ["text", "a\n\n<attached path=\"x", "a\n\n<attached path=\"x\">\nb\n</attached> c"]
        {
            assert_eq!(split_mentions(whole), (whole, Vec::new()));
        }
    }
}
