//! Stands in for libFuzzer: `fuzz_target!` makes a function of a target, which a test calls.

/// Whether libFuzzer would keep an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corpus {
    /// It would.
    Keep,
    /// It would not.
    Reject,
}

/// Makes a function `fuzz` of a target.
#[macro_export]
macro_rules! fuzz_target {
    (|$input:ident: &[u8]| -> Corpus $body:block) => {
        pub(crate) fn fuzz(bytes: &[u8]) {
            let target = |$input: &[u8]| -> Corpus { $body };
            let _ = target(bytes);
        }
    };
    (|$input:ident: &[u8]| $body:block) => {
        pub(crate) fn fuzz(bytes: &[u8]) {
            let target = |$input: &[u8]| $body;
            target(bytes);
        }
    };
    (|$input:ident: &str| -> Corpus $body:block) => {
        pub(crate) fn fuzz(bytes: &[u8]) {
            let target = |$input: &str| -> Corpus { $body };
            if let Ok(text) = std::str::from_utf8(bytes) {
                let _ = target(text);
            }
        }
    };
    (|$input:ident: &str| $body:block) => {
        pub(crate) fn fuzz(bytes: &[u8]) {
            let target = |$input: &str| $body;
            if let Ok(text) = std::str::from_utf8(bytes) {
                target(text);
            }
        }
    };
}
