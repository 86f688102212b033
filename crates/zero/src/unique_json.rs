//! JSON parser that rejects objects with duplicate fields.
//!
//! Parsers differ in which of two duplicate fields they use. The policy must evaluate the same value
//! that later runs elsewhere, so such a text is rejected.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses a text. `serde_json` bounds the nesting depth.
pub(crate) fn parse(text: &[u8]) -> serde_json::Result<Value> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = UniqueKeyVisitor.deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

struct UniqueKeyVisitor;

impl<'de> DeserializeSeed<'de> for UniqueKeyVisitor {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeyVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
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
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(UniqueKeyVisitor)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!(
                    "duplicate field `{name}`; keep one of them"
                )));
            }
            let field = entries.next_value_seed(UniqueKeyVisitor)?;
            fields.insert(name, field);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_json_parses_as_usual() {
        for text in [
            "null",
            "[]",
            r#"{"a": [1, -2, 1.5, 18446744073709551615, 1e300, "x\u00e9", true, null, {"a": {}}], "b": {"a": 1}}"#,
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), plain, "{text}");
        }
        for text in ["", "{", "{} x", "nul", "{1: 2}", "\u{0}", "[1,]"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn duplicate_field_is_refused_at_any_depth() {
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"[{"b": {"a": 1, "c": 2, "a": 3}}]"#,
            r#"{"a": 1, "\u0061": 2}"#,
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(
                error.starts_with("duplicate field `a`; keep one of them at line 1"),
                "{error}"
            );
        }
    }
}
