//! Large texts stay quick.

use std::time::{Duration, Instant};

use super::*;

/// Far more than a key takes, far less than it would take to split the whole text into clusters.
const KEY_TIME_MAX: Duration = Duration::from_millis(100);

/// Checks the best time of several tries, since other programs may run meanwhile.
#[track_caller]
fn check(text: &str) {
    let mut composer = composer_with(&[], EditMode::Emacs);
    composer.set_text(text);
    for key in ["a", "<BS>", "<Up>", "<Down>", "<Left>", "<C-Left>", "<C-w>", "a<C-z>"] {
        let times = (0..8).map(|_| {
            let start = Instant::now();
            type_keys(&mut composer, key);
            composer.layout(80, 10);
            composer.completion_token();
            start.elapsed()
        });
        let best = times.min().unwrap();
        assert!(best < KEY_TIME_MAX, "{key} took {best:?}");
    }
}

#[test]
fn key_in_large_text_is_quick() {
    check(&"some words in a line\n".repeat(50_000));
    check(&"some words in a line ".repeat(50_000));
    check(&"界 ".repeat(350_000));
    check(&"\n".repeat(1_000_000));
}
