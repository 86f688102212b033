//! Arbitrary JSON made of words that the decoders look for.

use proptest::prelude::*;
use serde_json::{Map, Value};

/// Any value, with these words as keys and strings.
pub(crate) fn any_json(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        proptest::sample::select(words).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(words), inner), 0..6).prop_map(
                |fields| {
                    let fields = fields.into_iter().map(|(key, value)| (key.to_owned(), value));
                    Value::Object(fields.collect::<Map<_, _>>())
                }
            ),
        ]
    })
}
