//! What to say of a path at which nothing stands: how far it does exist, and what it may mean.

use std::fs::File;

use zero_core::{ErrorType, ToolError};
use zero_runtime::nearest::nearest;
use zero_sandbox::Folder;
use zero_sandbox::Located;

/// Names in the folder that are compared with the missing one.
const COMPARED_MAX: usize = 10_000;
/// Names that are suggested.
const SUGGESTED_MAX: usize = 3;

/// Opens a file for reading; one that is missing is answered with the nearest names.
pub fn open_file(located: &Located) -> Result<File, ToolError> {
    located.open_file().map_err(|error| explain(located, error))
}

/// Opens a folder; one that is missing is answered with the nearest names.
pub fn open_folder(located: &Located) -> Result<Folder, ToolError> {
    located.open_folder().map_err(|error| explain(located, error))
}

fn explain(located: &Located, error: ToolError) -> ToolError {
    if error.error_type == ErrorType::NotFound { not_found(located) } else { error }
}

/// The error for a path at which nothing stands. It says which part of the path exists and names
/// what lies there and looks alike, in `details.nearest` too.
pub fn not_found(located: &Located) -> ToolError {
    let (folder, name) = located.first_missing();
    let beside = located.siblings(COMPARED_MAX);
    let near: Vec<String> = nearest(&name, beside.iter().map(String::as_str), SUGGESTED_MAX)
        .iter()
        .map(|name| located.shown_sibling(name))
        .collect();
    let mut error = located.not_found();
    if located.shown_sibling(&name) != located.shown() {
        error.message.push_str(&format!(": there is no `{name}` in `{folder}`"));
    }
    error.message.push_str(&match &near[..] {
        [] => format!("; list `{folder}`, or look for it by its name"),
        near => format!("; did you mean {}?", either(near)),
    });
    error.with("nearest", near)
}

/// `a`, `b` or `c`.
fn either(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestHost;
    use zero_sandbox::LastLink;

    #[test]
    fn a_missing_path_says_how_far_it_exists_and_what_it_may_mean() {
        let host = TestHost::new().files(&[
            ("src/main.rs", ""),
            ("src/parser/lexer.rs", ""),
            ("src/parser/token.rs", ""),
            ("README.md", ""),
        ]);
        #[track_caller]
        fn check(host: &TestHost, written: &str, expected: &str) {
            let located = host.workspace().locate(written, LastLink::Follow).unwrap();
            assert_eq!(open_file(&located).unwrap_err().message, expected);
        }
        check(&host, "src/mian.rs", "`src/mian.rs` does not exist; did you mean `src/main.rs`?");
        check(&host, "readme.md", "`readme.md` does not exist; did you mean `README.md`?");
        check(&host, "src/zzz", "`src/zzz` does not exist; list `src`, or look for it by its name");
        check(
            &host,
            "src/parsers/lexer.rs",
            "`src/parsers/lexer.rs` does not exist: there is no `parsers` in `src`; did you mean `src/parser`?",
        );
        check(
            &host,
            "lib/a/b.rs",
            "`lib/a/b.rs` does not exist: there is no `lib` in `.`; list `.`, or look for it by its name",
        );
    }

    #[test]
    fn programs_get_the_names_too() {
        let host = TestHost::new().files(&[("notes.txt", ""), ("notes.md", "")]);
        let located = host.workspace().locate("notes.tx", LastLink::Follow).unwrap();
        let error = not_found(&located);
        assert_eq!(error.details["file"], "notes.tx");
        assert_eq!(error.details["nearest"], serde_json::json!(["notes.txt", "notes.md"]));
    }
}
