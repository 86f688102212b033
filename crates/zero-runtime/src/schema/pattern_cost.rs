//! Limits the cost of patterns in external schemas.
//!
//! A pattern of ten characters, such as `(a{900}){300}`, can take half a second and ten megabytes
//! to compile, and a schema can have thousands. They are checked before anything compiles them.

use regex::RegexBuilder;
use serde_json::Value;
use zero_core::text_shortening::excerpt;

/// Most patterns of one schema.
const PATTERNS_MAX: usize = 50;
/// Most bytes of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 256 * 1024;
/// Most nested repetitions of a pattern that the regex crate cannot parse.
const REPEATED_MAX: u64 = 1_000;
/// Most characters of a pattern that are quoted.
const QUOTED_CHARS_MAX: usize = 40;

/// Refuses a schema whose patterns are too expensive. Its depth must be bounded.
pub(super) fn check_patterns(schema: &Value) -> Result<(), String> {
    let mut patterns = Vec::new();
    collect_patterns(schema, &mut patterns);
    if patterns.len() > PATTERNS_MAX {
        return Err(format!("it has more than {PATTERNS_MAX} patterns"));
    }
    match patterns.iter().find(|pattern| is_large(pattern)) {
        None => Ok(()),
        Some(pattern) => {
            Err(format!("the pattern `{}` is too large", excerpt(pattern, QUOTED_CHARS_MAX)))
        }
    }
}

/// Collects everything that may be a pattern, up to one more than allowed.
fn collect_patterns<'a>(schema: &'a Value, patterns: &mut Vec<&'a str>) {
    if patterns.len() > PATTERNS_MAX {
        return;
    }
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(pattern) if key == "pattern" => patterns.push(pattern),
                    Value::Object(named) if key == "patternProperties" => {
                        patterns.extend(named.keys().map(String::as_str).take(PATTERNS_MAX + 1));
                    }
                    _ => {}
                }
                collect_patterns(value, patterns);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_patterns(item, patterns)),
        _ => {}
    }
}

fn is_large(pattern: &str) -> bool {
    // These mean ASCII in JSON Schema, and far more in the regex crate.
    let ascii = pattern.replace(r"\w", "[A-Za-z0-9_]").replace(r"\d", "[0-9]");
    match RegexBuilder::new(&ascii).size_limit(COMPILED_BYTES_MAX).build() {
        Ok(_) => false,
        Err(regex::Error::CompiledTooBig(_)) => true,
        // Look-around and the like, which only the validator supports.
        Err(_) => count_repetitions(pattern) > REPEATED_MAX,
    }
}

/// The repetitions of the innermost part if all repetitions are nested.
fn count_repetitions(pattern: &str) -> u64 {
    let counts = pattern.split('{').skip(1).filter_map(|rest| {
        let numbers = rest.split('}').next()?.split(',');
        numbers.filter_map(|number| number.trim().parse::<u64>().ok()).max()
    });
    counts.fold(1, |product, count| product.saturating_mul(count.max(1)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_one(pattern: &str, is_fine: bool) {
        let schema = json!({"properties": {"a": {"pattern": pattern}}});
        assert_eq!(check_patterns(&schema).is_ok(), is_fine, "{pattern}");
        let schema = json!({"anyOf": [{"patternProperties": {pattern: true}}]});
        assert_eq!(check_patterns(&schema).is_ok(), is_fine, "{pattern}");
    }

    #[test]
    fn ordinary_patterns_pass_and_explosive_fail() {
        check_one("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$", true);
        check_one(r"^\w{1,64}(-\d{1,10})?$", true);
        check_one("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", true);
        check_one(r"^(?!-)[a-z-]{1,63}(?<!-)$", true);
        check_one("^(a+)+$", true);
        check_one("(", true); // broken, and told so by the checker
        check_one("(a{900}){300}", false);
        check_one("((a{99}){99}){99}", false);
        check_one("(?=a)((a{99}){99}){99}", false);
    }

    #[test]
    fn pattern_count_is_bounded() {
        let schema = |count: usize| {
            let field = |at: usize| (format!("p{at}"), json!({"pattern": format!("a{at}")}));
            json!({"properties": (0..count).map(field).collect::<serde_json::Map<_, _>>()})
        };
        assert_eq!(check_patterns(&schema(50)), Ok(()));
        assert_eq!(check_patterns(&schema(51)), Err("it has more than 50 patterns".to_owned()));
        assert!(check_patterns(&schema(100_000)).is_err());
    }
}
