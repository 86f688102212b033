//! Text of an error with its causes, each once.
//!
//! Some errors repeat the text of their cause, so that printing the whole chain would say
//! "could not open x: not found: not found".

use zero_core::error_chain::describe_causes;

/// The messages of an error and its causes, from the outermost on, without those that the message
/// before them contains already.
pub(crate) fn describe_error(error: &anyhow::Error) -> String {
    describe_causes(error.as_ref())
}

/// Whether an error is a closed pipe, as in `zero tools list | head -1`, which is not a failure.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not read `x`: {0}")]
    struct RepeatingError(#[source] io::Error);

    #[test]
    fn cause_is_shown_once() {
        let not_found = || io::Error::other("not found");
        let repeated = anyhow::Error::from(RepeatingError(not_found()));
        assert_eq!(describe_error(&repeated), "could not read `x`: not found");
        let outer = repeated.context("zero cannot start");
        assert_eq!(describe_error(&outer), "zero cannot start: could not read `x`: not found");
        let same = anyhow::Error::from(not_found()).context("not found");
        assert_eq!(describe_error(&same), "not found");
        let plain = anyhow::Error::from(not_found()).context("could not read `x`");
        assert_eq!(describe_error(&plain), "could not read `x`: not found");
    }
}
