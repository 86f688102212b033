//! Errors for paths that do not exist: which part of the path exists, and which similar names there
//! are.

use std::fs::File;
use std::path::Path;

use zero_core::{ErrorType, ToolError};
use zero_runtime::CallContext;
use zero_runtime::name_suggestions::suggest_names;
use zero_sandbox::{FinalLinkMode, FolderHandle, ResolvedPath};

/// Most names in a folder that are compared with the missing one.
const COMPARED_MAX: usize = 10_000;
/// Most names that are suggested.
const SUGGESTED_MAX: usize = 3;
/// Most names that are considered for a suggestion, since some may not be disclosed.
const CANDIDATES_MAX: usize = 16;

/// Opens a file for reading. If it does not exist, the error suggests similar names.
pub fn open_file(located: &ResolvedPath, cx: &CallContext) -> Result<File, ToolError> {
    located.open_file().map_err(|error| explain_missing(located, error, cx))
}

/// Opens a folder. If it does not exist, the error suggests similar names.
pub fn open_folder(located: &ResolvedPath, cx: &CallContext) -> Result<FolderHandle, ToolError> {
    located.open_folder().map_err(|error| explain_missing(located, error, cx))
}

fn explain_missing(located: &ResolvedPath, error: ToolError, cx: &CallContext) -> ToolError {
    if error.error_type == ErrorType::NotFound { not_found_error(located, cx) } else { error }
}

/// Returns the error for a path that does not exist. It says which part of the path exists and
/// suggests similar names there, in `details.nearest` too, except those that may not be read.
pub fn not_found_error(located: &ResolvedPath, cx: &CallContext) -> ToolError {
    let (folder, name) = located.first_missing();
    let beside = located.siblings(COMPARED_MAX);
    let similar: Vec<String> =
        suggest_names(&name, beside.iter().map(String::as_str), CANDIDATES_MAX)
            .iter()
            .map(|name| located.sibling_display_path(name))
            .filter(|shown| may_suggest(shown, cx))
            .take(SUGGESTED_MAX)
            .collect();
    let mut error = located.not_found_error();
    if located.sibling_display_path(&name) != located.display_path() {
        error.message.push_str(&format!(": there is no `{name}` in `{folder}`"));
    }
    error.message.push_str(&match &similar[..] {
        [] => format!("; list `{folder}`, or search for it by name"),
        similar => format!("; did you mean {}?", join_alternatives(similar)),
    });
    error.with_detail("nearest", similar)
}

fn may_suggest(shown: &str, cx: &CallContext) -> bool {
    let written = Path::new(shown);
    let ends_at = |last| cx.workspace().resolve(shown, last);
    !cx.filters_reads()
        || [FinalLinkMode::Keep, FinalLinkMode::Follow]
            .into_iter()
            .all(|last| ends_at(last).is_ok_and(|found| cx.may_read(written, found.path())))
}

/// Returns a list such as `a`, `b` or `c`.
fn join_alternatives(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::test_host::TestHost;
    use serde_json::json;

    #[test]
    fn missing_path_error_names_existing_part_and_suggestions() {
        let host = TestHost::new().with_files(&[
            ("src/main.rs", ""),
            ("src/parser/lexer.rs", ""),
            ("src/parser/token.rs", ""),
            ("README.md", ""),
        ]);
        #[track_caller]
        fn check(host: &TestHost, written: &str, expected: &str) {
            assert_eq!(host.err("Read", json!({"file_path": written})).message, expected);
        }
        check(&host, "src/mian.rs", "`src/mian.rs` does not exist; did you mean `src/main.rs`?");
        check(&host, "readme.md", "`readme.md` does not exist; did you mean `README.md`?");
        check(&host, "src/zzz", "`src/zzz` does not exist; list `src`, or search for it by name");
        check(
            &host,
            "src/parsers/lexer.rs",
            "`src/parsers/lexer.rs` does not exist: there is no `parsers` in `src`; did you mean `src/parser`?",
        );
        check(
            &host,
            "lib/a/b.rs",
            "`lib/a/b.rs` does not exist: there is no `lib` in `.`; list `.`, or search for it by name",
        );
    }

    #[test]
    fn suggestions_are_in_error_details() {
        let host = TestHost::new().with_files(&[("notes.txt", ""), ("notes.md", "")]);
        let error = host.err("Read", json!({"file_path": "notes.tx"}));
        assert_eq!(error.details["file"], "notes.tx");
        assert_eq!(error.details["nearest"], json!(["notes.txt", "notes.md"]));
    }

    #[test]
    fn denied_names_are_not_suggested() {
        let files = [("secret.txt", ""), ("secrets.txt", ""), ("vault/secret.md", "")];
        let host = TestHost::new().with_files(&files).with_denied(&["secret.txt", "vault"]);
        std::os::unix::fs::symlink("secret.txt", host.path("secret.tx")).unwrap();
        for (tool, input) in [
            ("Read", json!({"file_path": "secre.txt"})),
            ("Edit", json!({"file_path": "secre.txt", "old_string": "a", "new_string": "b"})),
            ("Delete", json!({"file_path": "secre.txt"})),
            ("LS", json!({"path": "secre.txt"})),
            ("Glob", json!({"path": "secre.txt", "pattern": "*"})),
            ("Grep", json!({"path": "secre.txt", "pattern": "x"})),
        ] {
            let error = host.err(tool, input);
            assert_eq!(error.details["nearest"], json!(["secrets.txt"]), "{tool}");
            let expected = "`secre.txt` does not exist; did you mean `secrets.txt`?";
            assert_eq!(error.message, expected, "{tool}");
        }
    }
}
