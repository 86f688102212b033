//! Texts of errors with their causes.

use std::error::Error;

/// Most causes that are followed: a chain could be a loop.
const CAUSES_MAX: usize = 16;

/// The messages of an error and its causes, from the outermost on. Some errors repeat the text of their
/// cause; a message that is in the text already is left out.
pub fn describe_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in causes(error).map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The message of the innermost cause; `None` if the error has no cause. For errors whose own message
/// has an address that must not be shown.
pub fn root_cause(error: &dyn Error) -> Option<String> {
    causes(error).last().map(ToString::to_string)
}

fn causes<'a>(error: &'a dyn Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source()).take(CAUSES_MAX)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct OuterError {
        text: &'static str,
        #[source]
        cause: io::Error,
    }

    #[track_caller]
    fn check(text: &'static str, cause: &'static str, expected: &str) {
        let error = OuterError { text, cause: io::Error::other(cause) };
        assert_eq!(describe_causes(&error), expected);
        assert_eq!(root_cause(&error).as_deref(), Some(cause));
    }

    #[test]
    fn cause_is_shown_once() {
        check("could not read `x`", "not found", "could not read `x`: not found");
        check("could not read `x`: not found", "not found", "could not read `x`: not found");
        check("not found", "not found", "not found");
        check("", "not found", "not found");
    }

    #[test]
    fn error_without_cause_has_no_root_cause() {
        let error = io::Error::other("not found");
        assert_eq!(describe_causes(&error), "not found");
        assert_eq!(root_cause(&error), None);
    }
}
