//! Facts about a tool for users who decide about it: its effects, its risk and its bounds.
//!
//! They are defined beside the tool's code, from the same constants, so that generated
//! documentation agrees with the code.

use std::time::Duration;

use zero_core::ByteSize;
use zero_core::digit_grouping::group_digits;

/// Facts about a tool besides its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolNotes {
    /// The effects of its calls, in one line. Each call declares its exact effects before it runs.
    pub effects: &'static str,
    /// Which of its calls have another risk than usual.
    pub other_risks: Option<&'static str>,
    /// Bounds of its own, in addition to those of all tools.
    pub bounds: Vec<ToolBound>,
}

impl ToolNotes {
    /// Notes with only the effects.
    pub fn new(effects: &'static str) -> Self {
        Self { effects, other_risks: None, bounds: Vec::new() }
    }

    /// Notes of a tool that changes files; some files have a higher risk.
    pub fn for_file_changes(effects: &'static str) -> Self {
        let other_risks = Some(
            "high for files that decide what runs later, such as git hooks and shell startup files",
        );
        Self { other_risks, ..Self::new(effects) }
    }

    /// Adds bounds of its own.
    #[must_use]
    pub fn with_bounds(self, bounds: impl IntoIterator<Item = ToolBound>) -> Self {
        Self { bounds: self.bounds.into_iter().chain(bounds).collect(), ..self }
    }
}

impl Default for ToolNotes {
    fn default() -> Self {
        Self::new("see its description")
    }
}

/// A bound, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolBound {
    /// What is bounded, such as `a line that is shown`.
    pub what: &'static str,
    /// The maximum, such as `2,000 characters`.
    pub most: String,
}

impl ToolBound {
    /// At most this many.
    pub fn count(what: &'static str, most: usize) -> Self {
        Self { what, most: format_number(most) }
    }

    /// Between these numbers.
    pub fn range(what: &'static str, least: usize, most: usize) -> Self {
        Self { what, most: format!("{} to {}", format_number(least), format_number(most)) }
    }

    /// At most this many lines.
    pub fn lines(what: &'static str, most: usize) -> Self {
        Self { what, most: format!("{} lines", format_number(most)) }
    }

    /// At most this many characters.
    pub fn characters(what: &'static str, most: usize) -> Self {
        Self { what, most: format!("{} characters", format_number(most)) }
    }

    /// At most this many bytes.
    pub fn bytes(what: &'static str, most: usize) -> Self {
        let most = match most {
            bytes if bytes % 1_000 == 0 => ByteSize::bytes(bytes as u64).to_string(),
            bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
            bytes if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
            bytes => format!("{} bytes", format_number(bytes)),
        };
        Self { what, most }
    }

    /// At most this long.
    pub fn time(what: &'static str, most: Duration) -> Self {
        let most = match (most.as_secs(), most.subsec_millis()) {
            (hours, 0) if hours >= 3_600 && hours % 3_600 == 0 => format!("{} h", hours / 3_600),
            (minutes, 0) if minutes >= 300 && minutes % 60 == 0 => format!("{} min", minutes / 60),
            (seconds, 0) => format!("{seconds} s"),
            (0, millis) => format!("{millis} ms"),
            _ => format!("{} s", most.as_secs_f64()),
        };
        Self { what, most }
    }
}

/// `12,345`.
fn format_number(number: usize) -> String {
    group_digits(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_use_suitable_units() {
        let time = |millis| ToolBound::time("", Duration::from_millis(millis));
        for (bound, expected) in [
            (ToolBound::count("", 7), "7"),
            (ToolBound::count("", 1_000), "1,000"),
            (ToolBound::range("", 2, 1_234_567), "2 to 1,234,567"),
            (ToolBound::lines("", 190), "190 lines"),
            (ToolBound::characters("", 2_000), "2,000 characters"),
            (ToolBound::bytes("", 16_000_000), "16 MB"),
            (ToolBound::bytes("", 15_000), "15 KB"),
            (ToolBound::bytes("", 10 << 20), "10 MiB"),
            (ToolBound::bytes("", 24 << 10), "24 KiB"),
            (ToolBound::bytes("", 4_097), "4,097 bytes"),
            (time(500), "500 ms"),
            (time(2_500), "2.5 s"),
            (time(120_000), "120 s"),
            (time(15 * 60_000), "15 min"),
            (time(24 * 3_600_000), "24 h"),
        ] {
            assert_eq!(bound.most, expected);
        }
    }
}
