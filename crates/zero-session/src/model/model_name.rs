//! Parses model names, for APIs whose requests depend on the model.

/// The parts of a model name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedModelName {
    /// Variant of the model: `opus`, `flash`, …
    pub(crate) kind: Option<String>,
    /// Version, `(4, 5)`. `None` for a name like `gemini-flash-latest`.
    pub(crate) version: Option<(u32, u32)>,
}

impl ParsedModelName {
    /// Parses a model name of `maker` (`claude`, `gemini`), with any prefix, as in
    /// `us.anthropic.claude-sonnet-4-5-20250929-v1:0`. Returns `None` for other makers.
    pub(crate) fn parse(id: &str, maker: &str) -> Option<Self> {
        let id = id.to_ascii_lowercase();
        let (_, rest) = id.split_once(maker)?;
        let words: Vec<&str> =
            rest.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
        let kind = words.iter().find(|word| word.bytes().all(|b| b.is_ascii_alphabetic()));
        let numbers: Vec<Option<u32>> =
            words.iter().map(|word| parse_version_number(word)).collect();
        let version = numbers.iter().position(Option::is_some).and_then(|at| {
            let major = numbers.get(at).copied().flatten()?;
            Some((major, numbers.get(at + 1).copied().flatten().unwrap_or(0)))
        });
        Some(Self { kind: kind.map(|word| (*word).to_owned()), version })
    }
}

/// Whether two names of a maker may denote the same model. Providers reply with a longer or shorter
/// name than requested, so a name without a version may match.
pub(crate) fn can_be_same_model(one: &str, other: &str, maker: &str) -> bool {
    match (ParsedModelName::parse(one, maker), ParsedModelName::parse(other, maker)) {
        (Some(one), Some(other)) if one.version.is_some() && other.version.is_some() => {
            one == other
        }
        _ => true,
    }
}

/// Versions have one or two digits; longer numbers are dates.
fn parse_version_number(word: &str) -> Option<u32> {
    if word.len() > 2 { None } else { word.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(id: &str, maker: &str, kind: Option<&str>, version: Option<(u32, u32)>) {
        let expected = ParsedModelName { kind: kind.map(str::to_owned), version };
        assert_eq!(ParsedModelName::parse(id, maker), Some(expected), "{id}");
    }

    #[test]
    fn model_name_gives_kind_and_version() {
        check("claude-opus-4-1-20250805", "claude", Some("opus"), Some((4, 1)));
        check("claude-sonnet-4-20250514", "claude", Some("sonnet"), Some((4, 0)));
        check("claude-3-7-sonnet-latest", "claude", Some("sonnet"), Some((3, 7)));
        check("anthropic/Claude-4.5-Sonnet", "claude", Some("sonnet"), Some((4, 5)));
        let long = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
        check(long, "claude", Some("sonnet"), Some((4, 5)));
        check("claude-mythos-preview", "claude", Some("mythos"), None);
        check("gemini-2.5-flash-preview-09-2025", "gemini", Some("flash"), Some((2, 5)));
        check("gemini-3-pro-preview", "gemini", Some("pro"), Some((3, 0)));
        check("gemini-flash-latest", "gemini", Some("flash"), None);
        check("gemini", "gemini", None, None);
        assert_eq!(ParsedModelName::parse("gpt-5", "claude"), None);
    }

    #[test]
    fn dated_name_is_same_model() {
        for (one, other, same) in [
            ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", true),
            ("claude-sonnet-4-5", "claude-4.5-sonnet", true),
            ("claude-opus-5", "claude-opus-5-5", false),
            ("claude-opus-4-5", "claude-sonnet-4-5", false),
            ("claude-mythos-preview", "claude-mythos-5", true),
            ("kimi-k2", "kimi-k2-0905", true),
        ] {
            assert_eq!(can_be_same_model(one, other, "claude"), same, "{one} {other}");
        }
    }
}
