//! How a call went, beside its output: notes, and what replaced an implementation that failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text_shortening::head;

/// How a call went, beside its output. The structured result of a tool has the fields of its
/// specification and no others; whatever else programs should know is here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultMetadata {
    /// What the caller should know, such as what the sandbox refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub notes: Vec<String>,
    /// Implementations that failed, in order, each with the one that was used instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    pub fallbacks: Vec<ResultFallback>,
}

/// An implementation that failed, and the one that was used instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResultFallback {
    /// What failed, such as a language server or a search engine.
    pub from: String,
    /// What was used instead.
    pub to: String,
    /// Why the first failed.
    pub reason: String,
}

impl ResultFallback {
    fn texts_mut(&mut self) -> [&mut String; 3] {
        let Self { from, to, reason } = self;
        [from, to, reason]
    }
}

impl ResultMetadata {
    /// Most notes.
    pub const NOTES_MAX: usize = 100;
    /// Most fallbacks.
    pub const FALLBACKS_MAX: usize = 10;
    /// Longest note or reason, in bytes.
    const TEXT_BYTES_MAX: usize = 4_096;

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.fallbacks.is_empty()
    }

    /// Adds a note, unless there are too many.
    pub fn add_note(&mut self, note: &str) {
        if self.notes.len() < Self::NOTES_MAX {
            self.notes.push(head(note, Self::TEXT_BYTES_MAX).to_owned());
        }
    }

    /// Adds a fallback, unless there are too many.
    pub fn add_fallback(&mut self, from: &str, to: &str, reason: &str) {
        if self.fallbacks.len() < Self::FALLBACKS_MAX {
            let text = |text: &str| head(text, Self::TEXT_BYTES_MAX).to_owned();
            let (from, to, reason) = (text(from), text(to), text(reason));
            self.fallbacks.push(ResultFallback { from, to, reason });
        }
    }

    /// All texts, to mask or measure them.
    pub(crate) fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.notes.iter_mut().chain(self.fallbacks.iter_mut().flat_map(ResultFallback::texts_mut))
    }

    /// Estimated size: the bytes of its texts.
    pub fn bytes(&self) -> usize {
        let of_fallback = |it: &ResultFallback| it.from.len() + it.to.len() + it.reason.len();
        self.notes.iter().map(String::len).sum::<usize>()
            + self.fallbacks.iter().map(of_fallback).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_bounded() {
        let mut metadata = ResultMetadata::default();
        let long = "x".repeat(10_000);
        for _ in 0..200 {
            metadata.add_note(&long);
            metadata.add_fallback("a", "b", &long);
        }
        assert_eq!((metadata.notes.len(), metadata.fallbacks.len()), (100, 10));
        assert!(metadata.texts_mut().all(|text| text.len() <= 4_096));
    }

    #[test]
    fn empty_metadata_is_an_empty_object() {
        let empty = ResultMetadata::default();
        assert!(empty.is_empty());
        assert_eq!(serde_json::to_value(&empty).unwrap(), json!({}));
        let mut metadata = empty;
        metadata.add_fallback("brave", "tavily", "HTTP 500");
        let written =
            json!({"fallbacks": [{"from": "brave", "to": "tavily", "reason": "HTTP 500"}]});
        assert_eq!(serde_json::to_value(&metadata).unwrap(), written);
        assert_eq!(serde_json::from_value::<ResultMetadata>(written).unwrap(), metadata);
    }
}
