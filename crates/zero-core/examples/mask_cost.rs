//! Measures what it costs to mask a thousand secret values in a result of a megabyte, in nanoseconds.
//!
//! Prints one line of JSON with the fastest of each measurement. `cargo xtask bench` runs it.

#![expect(clippy::print_stdout, reason = "a measurement, not part of the product")]

use std::time::{Duration, Instant};

use zero_core::{SecretMask, SecretValue};

const VALUES: u64 = 1_000;
const VALUE_BYTES: usize = 40;
const TEXT_BYTES: usize = 1_000_000;
const ROUNDS: usize = 50;
const LINE: &str =
    "    let verdict = self.rules.find(\"Bash(git push:*)\", &effects)?; // 100% as before\n";
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

fn main() {
    let mut state = 88_172_645_463_325_252;
    let values: Vec<SecretValue> = (0..VALUES)
        .map(|number| SecretValue {
            name: format!("TOKEN_{number}"),
            text: random_text(&mut state),
        })
        .collect();
    let last = values.last().map(|value| value.text.clone()).unwrap_or_default();
    let building = Instant::now();
    let mask = SecretMask::new(values);
    let build = building.elapsed();
    let plain: String = LINE.chars().cycle().take(TEXT_BYTES).collect();
    let secret = format!("{}{last}{}", &plain[..TEXT_BYTES / 2], &plain[TEXT_BYTES / 2..]);
    let none = SecretMask::default();
    println!(
        r#"{{"build_ns": {}, "plain_ns": {}, "found_ns": {}, "empty_ns": {}}}"#,
        build.as_nanos(),
        fastest(&mask, &plain).as_nanos(),
        fastest(&mask, &secret).as_nanos(),
        fastest(&none, &plain).as_nanos(),
    );
}

fn fastest(mask: &SecretMask, text: &str) -> Duration {
    let round = |_| {
        let start = Instant::now();
        std::hint::black_box(mask.mask_text(std::hint::black_box(text)));
        start.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

/// Text without any pattern, the same in each run.
fn random_text(state: &mut u64) -> String {
    let mut letter = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        char::from(LETTERS[usize::try_from(*state % 62).unwrap_or(0)])
    };
    (0..VALUE_BYTES).map(|_| letter()).collect()
}
