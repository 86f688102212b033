//! How long faults happen, and which. `cargo xtask chaos` sets the variables.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Seed of the short version.
const SEED: u64 = 0x5eed;
/// Faults of the short version: each kind once.
const FAULTS: usize = 12;

/// What to do.
pub(crate) struct ChaosOptions {
    /// Chooses the faults, their order and the times between them.
    pub(crate) seed: u64,
    faults: usize,
    minutes: Option<f64>,
    /// Where the report goes.
    pub(crate) report: Option<PathBuf>,
}

impl ChaosOptions {
    pub(crate) fn from_environment() -> Self {
        Self {
            seed: read("ZERO_CHAOS_SEED").unwrap_or(SEED),
            faults: read("ZERO_CHAOS_FAULTS").unwrap_or(FAULTS),
            minutes: read("ZERO_CHAOS_MINUTES"),
            report: read("ZERO_CHAOS_REPORT"),
        }
    }

    /// Whether one more fault happens.
    pub(crate) fn goes_on(&self, faults: usize, elapsed: Duration) -> bool {
        match self.minutes {
            Some(minutes) => elapsed.as_secs_f64() < minutes * 60.0,
            None => faults < self.faults,
        }
    }
}

fn read<T: FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().ok().unwrap_or_else(|| panic!("{variable} cannot be `{text}`")))
}
