//! Takes secrets out of whatever is about to be written down.
//!
//! Audit rows, logs and titles quote what a model or a person typed. Two things give a secret
//! away: the name of the field it stands in, and its own shape.

use std::borrow::Cow;
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value};

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Longest text kept of one value, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;
/// Items kept of one list or object.
const ITEMS_MAX: usize = 64;

/// One shape of secrets. Where the pattern has a group, only the group is taken out.
struct Shape {
    /// Texts without any of these, in any case, cannot have the shape: the pattern, which is dear
    /// to build, is not even looked at.
    marks: &'static [&'static str],
    pattern: &'static str,
    built: OnceLock<Option<Regex>>,
}

impl Shape {
    const fn new(marks: &'static [&'static str], pattern: &'static str) -> Self {
        Self { marks, pattern, built: OnceLock::new() }
    }

    /// The pattern, where `lower`, a text in lower case, may have the shape.
    fn for_text(&self, lower: &str) -> Option<&Regex> {
        let may_have = self.marks.iter().any(|mark| lower.contains(mark));
        let built = may_have.then(|| self.built.get_or_init(|| Regex::new(self.pattern).ok()));
        built.and_then(Option::as_ref)
    }
}

static SHAPES: [Shape; 11] = [
    // Private keys in PEM form, whole or cut off.
    Shape::new(
        &["-----begin"],
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
    ),
    // Keys with a maker's mark: OpenAI, Anthropic, Stripe, GitHub, GitLab, Slack, AWS, Google, …
    Shape::new(
        &["sk-", "pk-", "rk-", "sk_", "pk_", "rk_"],
        r"\b(?:sk|pk|rk)[-_](?:[A-Za-z]+[-_])*[A-Za-z0-9_-]{16,}",
    ),
    Shape::new(
        &["gh", "glpat"],
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})",
    ),
    Shape::new(&["xox"], r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    Shape::new(&["akia", "asia"], r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    Shape::new(&["aiza"], r"\bAIza[A-Za-z0-9_-]{30,}"),
    Shape::new(
        &["npm_", "pypi-", "hf_", "dop_v1_", "sg."],
        r"\b(?:npm_|pypi-|hf_|dop_v1_|SG\.)[A-Za-z0-9_.-]{16,}",
    ),
    // JSON web tokens.
    Shape::new(&["eyj"], r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    // `Authorization: Bearer …`, `Basic …`.
    Shape::new(&["bearer", "basic"], r"(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})"),
    // `password=…`, `"api_key": "…"`, `--token …`, `export SECRET_KEY=…`.
    Shape::new(
        &["passw", "passphrase", "secret", "token", "key", "credential"],
        r#"(?i)[\w-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential)[\w-]*["']?\s*(?:[=:]|\s)\s*["']?([^\s"',;&]{4,})"#,
    ),
    // `https://user:password@host`.
    Shape::new(&["://"], r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:([^\s/@]+)@"),
];

/// Words that, as part of a field's name, say that its value is a secret whatever it looks like.
const SECRET_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "apikey",
    "access_key",
    "accesskey",
    "private_key",
    "privatekey",
    "credential",
    "credentials",
    "authorization",
    "cookie",
];

/// Whether a field of that name holds a secret.
fn is_secret_field(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRET_WORDS.iter().any(|word| {
        name.match_indices(word).any(|(start, _)| {
            let (before, after) = (&name[..start], &name[start + word.len()..]);
            (before.is_empty() || before.ends_with('_'))
                && (after.is_empty() || after.starts_with('_'))
        })
    })
}

/// The same text without what looks like a secret.
pub fn text(text: &str) -> Cow<'_, str> {
    let lower = text.to_ascii_lowercase();
    let mut clean = Cow::Borrowed(text);
    for pattern in SHAPES.iter().filter_map(|shape| shape.for_text(&lower)) {
        if pattern.is_match(&clean) {
            clean = Cow::Owned(take_out(pattern, &clean));
        }
    }
    clean
}

fn take_out(shape: &Regex, text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut end = 0;
    for found in shape.captures_iter(text) {
        let Some(secret) = found.get(1).or_else(|| found.get(0)) else { continue };
        clean.push_str(&text[end..secret.start()]);
        clean.push_str(REDACTED);
        end = secret.end();
    }
    clean.push_str(&text[end..]);
    clean
}

/// The same value without secrets, and short enough to be written down.
pub fn value(value: &Value) -> Value {
    match value {
        Value::String(long) => Value::String(short_text(long)),
        Value::Array(items) => {
            Value::Array(items.iter().take(ITEMS_MAX).map(self::value).collect())
        }
        Value::Object(fields) => {
            let clean = |(name, field): (&String, &Value)| {
                let clean = match field {
                    Value::String(_) | Value::Number(_) if is_secret_field(name) => {
                        Value::String(REDACTED.to_owned())
                    }
                    other => self::value(other),
                };
                (name.clone(), clean)
            };
            Value::Object(fields.iter().take(ITEMS_MAX).map(clean).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The same text without secrets, cut to what an audit row holds. It is cleaned before it is cut,
/// on a longer piece than is kept, so that no half of a secret is left at the edge.
pub fn short_text(long: &str) -> String {
    let window = head(long, TEXT_BYTES_MAX * 4);
    let clean = text(window);
    let kept = head(&clean, TEXT_BYTES_MAX);
    if kept.len() == clean.len() && window.len() == long.len() {
        return clean.into_owned();
    }
    format!("{kept}… ({} bytes in all)", long.len())
}

fn head(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(dirty: &str, clean: &str) {
        assert_eq!(text(dirty), clean);
    }

    #[test]
    fn shapes_of_secrets_are_taken_out() {
        check("use sk-ant-api03-abcdefghijklmnopqrstuv now", "use [redacted] now");
        check("ghp_0123456789abcdefghij0123", "[redacted]");
        check("AKIAIOSFODNN7EXAMPLE", "[redacted]");
        check(
            "curl -H 'Authorization: Bearer abcdef123456'",
            "curl -H 'Authorization: Bearer [redacted]'",
        );
        check("DB_PASSWORD=hunter22 make", "DB_PASSWORD=[redacted] make");
        check("mysql --password hunter22", "mysql --password [redacted]");
        check(r#"{"api_key": "abcd1234"}"#, r#"{"api_key": "[redacted]"}"#);
        check("git clone https://me:pa55@host/x", "git clone https://me:[redacted]@host/x");
        check(
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest",
            "[redacted]\nrest",
        );
        check("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]");
    }

    #[test]
    fn every_pattern_can_be_built() {
        assert!(SHAPES.iter().all(|shape| Regex::new(shape.pattern).is_ok()));
    }

    #[test]
    fn ordinary_text_stays() {
        for plain in [
            "fn token_count(&self) -> usize",
            "src/tokens.rs",
            "a sketch of the tasks",
            "risk-free",
            "let x = 1;",
        ] {
            check(plain, plain);
        }
    }

    #[test]
    fn fields_named_after_secrets_lose_their_value() {
        let input = json!({"url": "x", "headers": {"Authorization": "zzz", "X-Api-Key": 12345}, "tokens": 3});
        assert_eq!(
            value(&input),
            json!({"url": "x", "headers": {"Authorization": "[redacted]", "X-Api-Key": "[redacted]"}, "tokens": 3})
        );
    }

    #[test]
    fn long_texts_are_cut_and_no_half_secret_is_left() {
        let long = format!(
            "{}{}",
            "x".repeat(TEXT_BYTES_MAX - 10),
            " sk-abcdefghijklmnopqrstuvwxyz0123456789"
        );
        let short = short_text(&long);
        assert!(!short.contains("sk-"), "{short}");
        assert!(short_text(&"é".repeat(5_000)).ends_with("… (10000 bytes in all)"));
    }
}
