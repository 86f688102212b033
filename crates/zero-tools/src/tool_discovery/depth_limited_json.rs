//! A JSON parser with a depth limit.
//!
//! A parser that fails at the first value nested too deeply would let one tool reject all others.
//! This one continues: deeper values are skipped without recursion, and left out.

use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses JSON. Arrays and objects nested in `depth` others become empty.
pub(super) fn read_json(text: &[u8], depth: usize) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = DepthLimitedValue { depth }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Returns whether an array or object of the value is nested in `depth` others.
pub(super) fn is_deeper(value: &Value, depth: usize) -> bool {
    let Some(left) = depth.checked_sub(1) else {
        return matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, left)),
        Value::Object(fields) => fields.values().any(|field| is_deeper(field, left)),
        _ => false,
    }
}

#[derive(Clone, Copy)]
struct DepthLimitedValue {
    depth: usize,
}

impl DepthLimitedValue {
    fn nested(self) -> Option<Self> {
        self.depth.checked_sub(1).map(|depth| Self { depth })
    }
}

impl<'de> DeserializeSeed<'de> for DepthLimitedValue {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DepthLimitedValue {
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

    #[track_caller]
    fn check(text: &str, depth: usize, expected: &str) {
        let read = read_json(text.as_bytes(), depth)
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
        assert!(!is_deeper(&read_json(text, 9).unwrap(), 3));
        for depth in [1, 2] {
            assert!(is_deeper(&read_json(text, 9).unwrap(), depth));
            assert!(is_deeper(&read_json(text, depth).unwrap(), depth));
        }
    }
}
