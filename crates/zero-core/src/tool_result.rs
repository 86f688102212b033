//! The result of a call: for the model, the user and programs.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::event::{PlanEntry, ResultContent};
use crate::result_metadata::ResultMetadata;

/// Estimated size of a value besides its text.
const NODE_BYTES: usize = 8;

/// One part of the content for the model. The dialect decides how it is rendered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolResultPart {
    /// Plain text.
    Text(String),
    /// Lines of a file. Some dialects number them, some do not.
    Lines {
        /// Number of the first line, counted from 1.
        first: u64,
        /// The lines, joined by `\n`, without a trailing one.
        text: String,
        /// Set if more lines follow and the caller did not ask to leave them out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rest: Option<RemainingLines>,
        /// A note for the model about these lines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Search hits: `file`, line number, text of the line.
    Matches {
        /// The hits, in display order.
        #[schemars(length(max = 100000))]
        hits: Vec<SearchHit>,
        /// Whether to show line numbers.
        numbered: bool,
        /// What was left out, if anything.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A changed file.
    Diff {
        /// One-line summary of the change.
        summary: String,
        /// The change. Its texts may be in the display only.
        diff: FileDiff,
    },
    /// An image.
    Image {
        /// Media type.
        mime: String,
        /// The image data, in base64.
        data: String,
    },
    /// An audio clip.
    Audio {
        /// Media type.
        mime: String,
        /// The audio data, in base64.
        data: String,
    },
    /// Any other document, such as a PDF.
    Resource {
        /// Address of the document.
        uri: String,
        /// Media type.
        mime: String,
        /// The bytes of the document, in base64.
        data: String,
    },
}

/// The lines after those of the result. The dialect tells the model how to request them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemainingLines {
    /// Number of the first line that is missing, counted from 1.
    pub next: u64,
    /// Number of lines of the whole file.
    pub total_lines: u64,
}

/// One line of a search result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SearchHit {
    /// Path of the file, in a form that the model can pass to other tools.
    pub file: String,
    /// Number of the line, counted from 1.
    pub line: u64,
    /// The line without its ending.
    pub text: String,
    /// True if the line matched, false if it is context.
    pub is_match: bool,
}

impl SearchHit {
    /// Whether it is the line after `last` in the same file.
    pub fn follows(&self, last: &Self) -> bool {
        last.file == self.file && last.line.checked_add(1) == Some(self.line)
    }
}

/// A change to one file, with all that a client needs to display it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// Path of the file, in a form that the model can pass to other tools.
    pub path: String,
    /// Unified hunks with three lines of context, without file headers.
    pub unified: String,
    /// The text before the change. Missing for a new file and, if `partial`, where it is too long.
    #[serde(default)]
    pub old_text: Option<String>,
    /// The text after the change. Missing for a removed file and, if `partial`, where it is too
    /// long.
    #[serde(default)]
    pub new_text: Option<String>,
    /// True if the file is large and the texts have only the part that changed, or its beginning.
    #[serde(default)]
    pub partial: bool,
}

/// The part of a result that is displayed to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultDisplay {
    /// Text with Markdown.
    Markdown {
        /// The text.
        text: String,
    },
    /// A changed file.
    Diff(FileDiff),
    /// The current plan.
    Plan {
        /// Steps of the plan, in order.
        #[schemars(length(max = 10000))]
        entries: Vec<PlanEntry>,
    },
}

impl From<ResultContent> for ToolResultPart {
    fn from(content: ResultContent) -> Self {
        match content {
            ResultContent::Text { text } => Self::Text(text),
            ResultContent::Image { mime, data } => Self::Image { mime, data },
        }
    }
}

impl ToolResultPart {
    fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Lines { text, note, .. } => text.len() + optional_bytes(note),
            Self::Matches { hits, note, .. } => {
                let hit_bytes = |hit: &SearchHit| NODE_BYTES + hit.file.len() + hit.text.len();
                hits.iter().map(hit_bytes).sum::<usize>() + optional_bytes(note)
            }
            Self::Diff { summary, diff } => summary.len() + diff.bytes(),
            Self::Image { mime, data } | Self::Audio { mime, data } => mime.len() + data.len(),
            Self::Resource { uri, mime, data } => uri.len() + mime.len() + data.len(),
        }
    }
}

impl FileDiff {
    /// The change without the texts of the file. The content of a result needs no more: its display
    /// has them, and a stored result has them once.
    #[must_use]
    pub fn without_texts(&self) -> Self {
        Self {
            path: self.path.clone(),
            unified: self.unified.clone(),
            old_text: None,
            new_text: None,
            partial: true,
        }
    }

    fn bytes(&self) -> usize {
        self.path.len()
            + self.unified.len()
            + optional_bytes(&self.old_text)
            + optional_bytes(&self.new_text)
    }
}

impl ToolResult {
    /// A result with text for the model only.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ToolResultPart::Text(text.into())],
            display: ResultDisplay::markdown(""),
            structured: Value::Null,
            locations: Vec::new(),
            metadata: ResultMetadata::default(),
        }
    }

    /// The plan that the result sets, if any.
    pub fn plan(&self) -> Option<&[PlanEntry]> {
        match &self.display {
            ResultDisplay::Plan { entries } => Some(entries),
            ResultDisplay::Markdown { .. } | ResultDisplay::Diff(_) => None,
        }
    }

    /// Estimated size: the bytes of its texts and media.
    pub(crate) fn bytes(&self) -> usize {
        let location_bytes = |location: &FileLocation| NODE_BYTES + location.path.as_os_str().len();
        self.content.iter().map(ToolResultPart::bytes).sum::<usize>()
            + self.display.bytes()
            + json_bytes(&self.structured)
            + self.locations.iter().map(location_bytes).sum::<usize>()
            + self.metadata.bytes()
    }
}

fn optional_bytes(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

/// Estimated size of a JSON value: the bytes of its keys and strings, and a constant for each node.
fn json_bytes(value: &Value) -> usize {
    let inner: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(json_bytes).sum(),
        Value::Object(fields) => fields_bytes(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    NODE_BYTES + inner
}

/// Estimated size of the fields of a JSON object.
pub(crate) fn fields_bytes(fields: &Map<String, Value>) -> usize {
    fields.iter().map(|(key, item)| key.len() + json_bytes(item)).sum()
}

impl ResultDisplay {
    /// Estimated size: the bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Markdown { text } => text.len(),
            Self::Diff(diff) => diff.bytes(),
            Self::Plan { entries } => {
                let entry_bytes = |entry: &PlanEntry| {
                    entry.content.len() + entry.priority.len() + entry.status.len()
                };
                entries.iter().map(entry_bytes).sum()
            }
        }
    }

    /// A Markdown text for the user.
    pub fn markdown(text: impl Into<String>) -> Self {
        Self::Markdown { text: text.into() }
    }
}

/// The steps of a plan as a Markdown list, for clients that cannot show a plan.
pub fn render_checklist(entries: &[PlanEntry]) -> String {
    let line = |entry: &PlanEntry| {
        let PlanEntry { content, status, .. } = entry;
        match status.as_str() {
            "completed" => format!("- [x] {content}"),
            "in_progress" => format!("- [ ] {content} (in progress)"),
            _ => format!("- [ ] {content}"),
        }
    };
    entries.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A file, or a line of it, that a call used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileLocation {
    /// Absolute path.
    #[serde(serialize_with = "lossy")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Line, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Serializes a path as text. JSON has no bytes, and a path that is not UTF-8 must not make the
/// whole result fail: invalid bytes become `\u{FFFD}`.
fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Content for the model.
    #[schemars(length(max = 10000))]
    pub content: Vec<ToolResultPart>,
    /// Display for the user.
    pub display: ResultDisplay,
    /// Data for programs. It matches the tool's output schema.
    #[serde(default)]
    pub structured: Value,
    /// Files that the call used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000))]
    pub locations: Vec<FileLocation>,
    /// How the call went, beside its output.
    #[serde(default, skip_serializing_if = "ResultMetadata::is_empty")]
    pub metadata: ResultMetadata,
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn non_utf8_path_serializes_lossily() {
        let path = PathBuf::from(OsStr::from_bytes(b"/w/x\xfe.txt"));
        let location = serde_json::to_value(FileLocation { path, line: Some(1) }).unwrap();
        assert_eq!(location, serde_json::json!({"path": "/w/x\u{FFFD}.txt", "line": 1}));
    }
}
