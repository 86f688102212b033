//! JSON parsers for text of others, stricter or more patient than `serde_json`'s own.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a text and rejects an object with two fields of one name.
///
/// Parsers differ in which of the two they use. The policy must evaluate the same value that later
/// runs elsewhere. `serde_json` bounds the nesting depth.
pub fn parse_unique(text: &[u8]) -> serde_json::Result<Value> {
    parse(text, JsonVisitor { depth_left: usize::MAX, is_unique: true })
}

/// Parses a text in which arrays and objects nested in `depth` others become empty.
///
/// A parser that fails at the first value nested too deeply would let one tool of a list reject all
/// others. Deeper values are skipped without recursion.
pub fn parse_depth_limited(text: &[u8], depth: usize) -> serde_json::Result<Value> {
    parse(text, JsonVisitor { depth_left: depth, is_unique: false })
}

fn parse(text: &[u8], visitor: JsonVisitor) -> serde_json::Result<Value> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = visitor.deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct JsonVisitor {
    depth_left: usize,
    /// Whether a field may occur only once in an object.
    is_unique: bool,
}

impl JsonVisitor {
    fn nested(self) -> Option<Self> {
        Some(Self { depth_left: self.depth_left.checked_sub(1)?, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for JsonVisitor {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        match self.nested() {
            Some(inner) => {
                while let Some(item) = items.next_element_seed(inner)? {
                    read.push(item);
                }
            }
            None => while items.next_element::<IgnoredAny>()?.is_some() {},
        }
        Ok(read.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        match self.nested() {
            Some(inner) => {
                while let Some(name) = fields.next_key::<String>()? {
                    if self.is_unique && read.contains_key(&name) {
                        let message = format!("duplicate field `{name}`; keep one of them");
                        return Err(A::Error::custom(message));
                    }
                    read.insert(name, fields.next_value_seed(inner)?);
                }
            }
            None => while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {},
        }
        Ok(read.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::depth_exceeds;

    #[test]
    fn unique_json_parses_as_usual() {
        for text in [
            "null",
            "[]",
            r#"{"a": [1, -2, 1.5, 18446744073709551615, 1e300, "x\u00e9", true, null, {"a": {}}], "b": {"a": 1}}"#,
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse_unique(text.as_bytes()).unwrap(), plain, "{text}");
        }
        for text in ["", "{", "{} x", "nul", "{1: 2}", "\u{0}", "[1,]"] {
            assert!(parse_unique(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse_unique("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn duplicate_field_is_refused_at_any_depth() {
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"[{"b": {"a": 1, "c": 2, "a": 3}}]"#,
            r#"{"a": 1, "\u0061": 2}"#,
        ] {
            let error = parse_unique(text.as_bytes()).unwrap_err().to_string();
            assert!(
                error.starts_with("duplicate field `a`; keep one of them at line 1"),
                "{error}"
            );
        }
    }

    #[track_caller]
    fn check(text: &str, depth: usize, expected: &str) {
        let read = parse_depth_limited(text.as_bytes(), depth)
            .map_or_else(|_| "error".to_owned(), |v| v.to_string());
        assert_eq!(read, expected, "{text:.60}");
    }

    #[test]
    fn deep_values_are_emptied_and_the_rest_kept() {
        check(r#"[1,-2,1.5,"a",null,true,{"b":[]}]"#, 9, r#"[1,-2,1.5,"a",null,true,{"b":[]}]"#);
        check("[[[1]],2]", 2, "[[[]],2]");
        check(r#"[{"a":{"b":1}},2]"#, 2, r#"[{"a":{}},2]"#);
        check(r#"[{"a":1},2]"#, 0, "[]");
        let deep = format!("[{}{},2]", "[".repeat(100_000), "]".repeat(100_000));
        check(&deep, 2, "[[[]],2]");
        check("[1", 5, "error");
        check("[1] x", 5, "error");
        check("[[[[x]]]]", 1, "error");
    }

    #[test]
    fn omitted_depth_is_detected() {
        let text = b"[[[1]],2]";
        assert!(!depth_exceeds(&parse_depth_limited(text, 9).unwrap(), 3));
        for depth in [1, 2] {
            assert!(depth_exceeds(&parse_depth_limited(text, 9).unwrap(), depth));
            assert!(depth_exceeds(&parse_depth_limited(text, depth).unwrap(), depth));
        }
    }
}
