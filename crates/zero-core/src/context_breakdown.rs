//! What fills the context window of a model, in tokens.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digit_grouping::group_digits;
use crate::sanitize::to_line;

/// Columns of a label, and of a full bar.
const LABEL_COLUMNS: usize = 32;
const BAR_COLUMNS: usize = 16;
/// Largest number and share (in tenths of a percent) that fit into a row; larger ones are cut.
const COUNT_MAX: u64 = 999_999_999;
const SHARE_MAX: u64 = 9_999;

/// What fills the context window of a model, in tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextBreakdown {
    /// Name of the model.
    pub model: String,
    /// Size of its window; null if there is no limit, or none is known.
    pub window_tokens: Option<u64>,
    /// Tokens that the next request would take.
    pub used_tokens: u64,
    /// Where `usedTokens` comes from.
    pub counted_by: TokenCountSource,
    /// What is left of the window.
    pub free_tokens: Option<u64>,
    /// Tokens above which the conversation is compacted before the next request.
    pub compact_at_tokens: Option<u64>,
    /// What the window has, in the order of a request. The numbers are estimates and add up to
    /// `usedTokens` only if that is an estimate too.
    pub parts: Vec<ContextPart>,
    /// Why the system prompt and the tools are not among the parts, if so.
    pub missing: Option<String>,
}

/// Where the number of tokens in use comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenCountSource {
    /// The provider counted them with its last reply. What came later is estimated.
    Provider,
    /// All of them are estimated from the length of the text, as compaction does it.
    #[default]
    Estimate,
}

/// A part of the context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextPart {
    /// Its kind.
    pub kind: ContextPartKind,
    /// The file, the source of the tools or the tool of the results. Null for kinds without names, for
    /// the built-in tools and for the rest of many.
    pub name: Option<String>,
    /// Number of files, tools, messages or results.
    pub items: u64,
    /// Approximate tokens.
    pub tokens: u64,
}

/// Kind of a part of the context.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ContextPartKind {
    /// The system prompt, without the files that are added to it.
    SystemPrompt,
    /// An instruction file, such as `AGENTS.md`.
    Instructions,
    /// Notes from earlier sessions.
    Notes,
    /// The list of skills.
    Skills,
    /// Definitions of tools, by their source: an MCP server, `cmd` for those that a project command
    /// declares, `acp` for those of an editor.
    Tools,
    /// The summary of a compaction, with the prompts that it kept.
    Summary,
    /// Messages of the user.
    User,
    /// Messages of the model, with its thoughts and calls.
    Assistant,
    /// Results of calls, by tool.
    Results,
}

impl ContextBreakdown {
    /// A table with bars, for a terminal of 80 columns.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", self.headline());
        let whole = self.window_tokens.unwrap_or(self.used_tokens);
        text.push('\n');
        for part in &self.parts {
            push_row(&mut text, &part.label(), part.tokens, whole);
        }
        if let Some(free) = self.free_tokens {
            push_row(&mut text, "Free", free, whole);
        }
        text.push('\n');
        if let Some(missing) = &self.missing {
            let _ = writeln!(text, "System prompt and tools are not counted: {}", to_line(missing));
        }
        let estimated = self.parts.iter().map(|part| part.tokens).fold(0, u64::saturating_add);
        let _ = match self.counted_by {
            TokenCountSource::Estimate => writeln!(text, "All numbers are estimates."),
            TokenCountSource::Provider => writeln!(
                text,
                "The parts are estimates, {} tokens together.",
                group_digits(estimated)
            ),
        };
        if let Some(limit) = self.compact_at_tokens {
            let limit = group_digits(limit);
            let _ = writeln!(text, "Above {limit} tokens, the conversation is compacted.");
        }
        text
    }

    fn headline(&self) -> String {
        let used = group_digits(self.used_tokens);
        let how = match self.counted_by {
            TokenCountSource::Provider => "counted by the provider",
            TokenCountSource::Estimate => "estimated",
        };
        let of = match self.window_tokens {
            Some(window) => format!(" of {}", group_digits(window)),
            None => String::new(),
        };
        format!("{}\n{used}{of} tokens, {how}", shorten_label(&to_line(&self.model), 78))
    }
}

impl ContextPart {
    fn label(&self) -> String {
        let items = self.items;
        let name = self.name.as_deref().map(to_line);
        let named = |rest: &str| name.clone().unwrap_or_else(|| rest.to_owned());
        match self.kind {
            ContextPartKind::SystemPrompt => "System prompt".to_owned(),
            ContextPartKind::Instructions => {
                format!("Instructions: {}", named(&format!("{items} others")))
            }
            ContextPartKind::Notes => "Notes".to_owned(),
            ContextPartKind::Skills => "Skills".to_owned(),
            ContextPartKind::Tools => format!("Tools: {} ({items})", named("built in")),
            ContextPartKind::Summary => "Messages: summary".to_owned(),
            ContextPartKind::User => format!("Messages: user ({items})"),
            ContextPartKind::Assistant => format!("Messages: assistant ({items})"),
            ContextPartKind::Results => format!("Results: {} ({items})", named("others")),
        }
    }
}

fn push_row(text: &mut String, label: &str, tokens: u64, whole: u64) {
    let label = shorten_label(label, LABEL_COLUMNS);
    let padding = " ".repeat(LABEL_COLUMNS.saturating_sub(columns(&label)));
    let share = tokens.saturating_mul(1000).checked_div(whole).unwrap_or(0).min(SHARE_MAX);
    let bar = usize::try_from(share).unwrap_or(usize::MAX).min(1000) * BAR_COLUMNS;
    let bar = "█".repeat(bar.div_ceil(1000));
    let (tokens, percent) =
        (group_digits(tokens.min(COUNT_MAX)), format!("{}.{}", share / 10, share % 10));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{}",
        format!("{label}{padding} {tokens:>11} {percent:>5} %  {bar}").trim_end()
    );
}

/// The beginning of a label that fits.
fn shorten_label(label: &str, columns_max: usize) -> String {
    if columns(label) <= columns_max {
        return label.to_owned();
    }
    let mut used = 1;
    let fits = |letter: &char| {
        used += char_columns(*letter);
        used <= columns_max
    };
    let kept: String = label.chars().take_while(fits).collect();
    kept + "…"
}

fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// No character takes more columns.
fn char_columns(letter: char) -> usize {
    match letter {
        letter if letter.is_ascii() => 1,
        '…' | '█' => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: ContextPartKind, name: Option<&str>, items: u64, tokens: u64) -> ContextPart {
        ContextPart { kind, name: name.map(str::to_owned), items, tokens }
    }

    fn breakdown() -> ContextBreakdown {
        ContextBreakdown {
            model: "openai/gpt-x".to_owned(),
            window_tokens: Some(200_000),
            used_tokens: 62_345,
            counted_by: TokenCountSource::Provider,
            free_tokens: Some(137_655),
            compact_at_tokens: Some(160_000),
            parts: vec![
                part(ContextPartKind::SystemPrompt, None, 1, 1_200),
                part(ContextPartKind::Instructions, Some("AGENTS.md"), 1, 900),
                part(ContextPartKind::Tools, None, 21, 9_000),
                part(ContextPartKind::Tools, Some("github"), 40, 22_000),
                part(ContextPartKind::User, None, 3, 400),
                part(ContextPartKind::Results, Some("Read"), 12, 28_000),
            ],
            missing: None,
        }
    }

    #[test]
    fn table_has_parts_and_free_space() {
        let expected = "\
openai/gpt-x
62,345 of 200,000 tokens, counted by the provider

System prompt                          1,200   0.6 %  █
Instructions: AGENTS.md                  900   0.4 %  █
Tools: built in (21)                   9,000   4.5 %  █
Tools: github (40)                    22,000  11.0 %  ██
Messages: user (3)                       400   0.2 %  █
Results: Read (12)                    28,000  14.0 %  ███
Free                                 137,655  68.8 %  ████████████

The parts are estimates, 61,500 tokens together.
Above 160,000 tokens, the conversation is compacted.
";
        assert_eq!(breakdown().render(), expected);
    }

    #[test]
    fn hostile_names_stay_in_their_row() {
        let long = format!("\u{1b}[2J\n{}", "界".repeat(500));
        let mut hostile = breakdown();
        hostile.model = long.clone();
        hostile.used_tokens = u64::MAX;
        hostile.missing = Some("gone\u{7}".to_owned());
        hostile.parts = vec![part(ContextPartKind::Results, Some(&long), u64::MAX, u64::MAX)];
        let text = hostile.render();
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
        let widest = text.lines().map(columns).max();
        assert!(widest.is_some_and(|columns| columns <= 80), "{widest:?}: {text}");
        let unknown = ContextBreakdown::default().render();
        assert!(unknown.contains("All numbers are estimates"), "{unknown}");
    }
}
