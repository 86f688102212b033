//! What a tool says of itself to a person who decides about it: what it does to the world, when it
//! is riskier than usual, and where it stops.
//!
//! It stands beside the code of the tool and is made of the constants that the code holds to, so
//! that pages which tell it cannot say anything else.

use std::time::Duration;

use zero_core::ByteSize;

/// What is to be known of a tool beside its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolNotes {
    /// What its calls do to the world, in a line. Each call says exactly what before it runs.
    pub effects: &'static str,
    /// Which of its calls have another risk than the usual.
    pub other_risks: Option<&'static str>,
    /// Bounds of its own, beside those of all tools.
    pub bounds: Vec<ToolBound>,
}

impl ToolNotes {
    /// What its calls do to the world; nothing else is to be known.
    pub fn new(effects: &'static str) -> Self {
        Self { effects, other_risks: None, bounds: Vec::new() }
    }

    /// The same of a tool that changes files: some of them are not like others.
    pub fn for_file_changes(effects: &'static str) -> Self {
        let other_risks = Some(
            "high for files that decide what runs later, such as hooks of git and start files of shells",
        );
        Self { other_risks, ..Self::new(effects) }
    }

    /// The same with bounds of its own.
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
    /// The most of it that there may be, such as `2,000 characters`.
    pub most: String,
}

impl ToolBound {
    /// So many at the most.
    pub fn count(what: &'static str, most: usize) -> Self {
        Self { what, most: group_digits(most) }
    }

    /// From so many to so many.
    pub fn range(what: &'static str, least: usize, most: usize) -> Self {
        Self { what, most: format!("{} to {}", group_digits(least), group_digits(most)) }
    }

    /// So many lines at the most.
    pub fn lines(what: &'static str, most: usize) -> Self {
        Self { what, most: format!("{} lines", group_digits(most)) }
    }

    /// So many characters at the most.
    pub fn characters(what: &'static str, most: usize) -> Self {
        Self { what, most: format!("{} characters", group_digits(most)) }
    }

    /// So many bytes at the most.
    pub fn bytes(what: &'static str, most: usize) -> Self {
        let most = match most {
            bytes if bytes % 1_000 == 0 => ByteSize::bytes(bytes as u64).to_string(),
            bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
            bytes if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
            bytes => format!("{} bytes", group_digits(bytes)),
        };
        Self { what, most }
    }

    /// So long at the most.
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
fn group_digits(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
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
