//! Formats of texts in forms: the four that MCP knows. A validator of JSON Schema does not check them.

use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::Value;
use zero_core::SchemaViolation;

/// A format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// `email`
    Email,
    /// `uri`
    Uri,
    /// `date`
    Date,
    /// `date-time`
    DateTime,
}

impl TextFormat {
    /// The format that the schema of a field asks for; `None` if it asks for none of these.
    pub fn of_schema(field: &Value) -> Option<Self> {
        match field.get("format")?.as_str()? {
            "email" => Some(Self::Email),
            "uri" => Some(Self::Uri),
            "date" => Some(Self::Date),
            "date-time" => Some(Self::DateTime),
            _ => None,
        }
    }

    /// Whether a text has this format.
    pub fn fits(self, text: &str) -> bool {
        let is_plain = !text.contains(char::is_whitespace);
        match self {
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                is_plain && !name.is_empty() && !host.is_empty() && !host.contains('@')
            }),
            Self::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
                is_plain
                    && !rest.is_empty()
                    && scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
                    && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
            }),
            Self::Date => text.len() == "2026-01-31".len() && text.parse::<Date>().is_ok(),
            Self::DateTime => text.parse::<Timestamp>().is_ok(),
        }
    }

    /// What is expected, with an example.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Email => "an email address",
            Self::Uri => "a URL such as https://example.com",
            Self::Date => "a day such as 2026-01-31",
            Self::DateTime => "a time such as 2026-01-31T12:00:00Z",
        }
    }
}

/// Checks the formats of the fields of a form.
pub fn check_formats(form: &Value, values: &Value) -> Result<(), Vec<SchemaViolation>> {
    let fields = form.get("properties").and_then(Value::as_object);
    let violations: Vec<SchemaViolation> = fields
        .into_iter()
        .flatten()
        .filter_map(|(name, field)| {
            let format = TextFormat::of_schema(field)?;
            let value = values.get(name)?.as_str().filter(|text| !format.fits(text))?;
            let pointer = super::join_pointer("", name);
            Some(SchemaViolation::new(pointer, format.describe(), super::quote(&value.into())))
        })
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_what_they_name() {
        for (format, fitting, others) in [
            (
                TextFormat::Email,
                &["me@x.org", "a.b+c@sub.x"][..],
                &["me", "@x", "me@", "a b@x", "a@b@c"][..],
            ),
            (
                TextFormat::Uri,
                &["https://x.org/a?b#c", "mailto:me@x", "urn:a:b"],
                &["x.org", "x org:a", ":a", "1a:b", "https:"],
            ),
            (
                TextFormat::Date,
                &["2026-01-31"],
                &["tomorrow", "2026-02-30", "2026-1-1", "20260131", "2026-01-31T12:00:00Z"],
            ),
            (
                TextFormat::DateTime,
                &["2026-01-31T12:00:00Z", "2026-01-31T12:00:00+01:00"],
                &["2026-01-31", "12:00", "2026-01-31T25:00:00Z", "2026-01-31T12:00:00"],
            ),
        ] {
            for text in fitting {
                assert!(format.fits(text), "{format:?}: {text}");
            }
            for text in others {
                assert!(!format.fits(text), "{format:?}: {text}");
            }
        }
    }
}
