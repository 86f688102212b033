//! The result of a query ([`LspOutput`]), and its rendering for the model.

use schemars::JsonSchema;
use serde::Serialize;

use super::LspOperation;
use crate::text_format::{pluralize, to_single_line};

/// The result of a query.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LspOutput {
    /// The operation of the call.
    pub(super) operation: LspOperation,
    /// The server that answered.
    pub(super) server: String,
    /// Number of all items, of which `items` may have only the first.
    pub(super) total: u64,
    /// The items found.
    pub(super) items: Vec<LspItem>,
    /// For `hover`: the type and documentation of the name, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hover: Option<String>,
    /// Number of items left out because their files may not be read.
    pub(super) denied: u64,
    /// Whether the server was still indexing the project, so that items may be missing.
    pub(super) incomplete: bool,
    /// Why no server answered, if the items are lines of text with the name.
    #[serde(skip)]
    pub(super) server_failure: Option<String>,
}

/// An item found: a location, a symbol, a call or a problem.
#[derive(Clone, Debug, Default, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LspItem {
    /// Path of the file, as other tools accept it.
    pub(super) file_path: String,
    /// The line, counted from 1.
    pub(super) line: u64,
    /// The character in the line, counted from 1.
    pub(super) character: u64,
    /// Of a location in the workspace: the text of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// Of a symbol: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Of a symbol: its kind, such as `function`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    /// Of a symbol: the name of the enclosing symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<String>,
    /// Of a symbol of a file: its nesting depth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) depth: Option<u64>,
    /// Of a caller: the lines of the calls, in the file of the caller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) call_lines: Vec<u64>,
    /// Of a problem: `error`, `warning`, `information` or `hint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) severity: Option<String>,
    /// Of a problem: its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Of a problem: the tool that reports it, and its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
}

impl LspItem {
    /// Combines this location with details, which replace the text of the line.
    pub(super) fn with_details(self, about: Self) -> Self {
        let Self { file_path, line, character, text, .. } = self;
        let is_bare = about.name.is_none() && about.message.is_none();
        Self { file_path, line, character, text: text.filter(|_| is_bare), ..about }
    }

    /// Renders the item in one line.
    pub(super) fn render_line(&self) -> String {
        let file = to_single_line(&self.file_path);
        let at = format!("{file}:{}:{}", self.line, self.character);
        if let (Some(severity), Some(message)) = (&self.severity, &self.message) {
            let source = self.source.as_ref().map(|source| format!(" ({source})"));
            let message = message.replace('\n', "\n  ");
            return format!("{at}: {severity}: {message}{}", source.unwrap_or_default());
        }
        if let (Some(name), Some(kind)) = (&self.name, &self.kind) {
            let container = self.container.as_ref().map(|container| format!(" in {container}"));
            let calls = match &self.call_lines[..] {
                [] => String::new(),
                [one] => format!(", call in line {one}"),
                several => {
                    let lines: Vec<String> = several.iter().map(u64::to_string).collect();
                    format!(", calls in lines {}", lines.join(", "))
                }
            };
            return format!("{at}: {kind} {name}{}{calls}", container.unwrap_or_default());
        }
        match &self.text {
            Some(text) => format!("{at}: {}", to_single_line(text.trim())),
            None => at,
        }
    }

    /// Renders a symbol of the queried file in one line.
    fn render_outline_line(&self) -> String {
        let indent = "  ".repeat(usize::try_from(self.depth.unwrap_or(0)).unwrap_or(0));
        let (kind, name) = (self.kind.as_deref(), self.name.as_deref());
        let at = format!("{}:{}", self.line, self.character);
        format!("{indent}{at} {} {}", kind.unwrap_or_default(), name.unwrap_or_default())
    }
}

impl LspOutput {
    /// Renders everything for the model. `shown` is the path of the queried file.
    pub(super) fn render(&self, shown: &str) -> String {
        let mut text = self.render_headline(shown);
        if let Some(hover) = &self.hover {
            text.push_str("\n\n");
            text.push_str(hover);
        }
        for item in &self.items {
            text.push('\n');
            text.push_str(&match self.operation {
                LspOperation::DocumentSymbol => item.render_outline_line(),
                _ => item.render_line(),
            });
        }
        for note in self.notes() {
            text.push_str(&format!("\n({note})"));
        }
        text
    }

    fn render_headline(&self, shown: &str) -> String {
        let (total, server) = (self.total, &self.server);
        if let Some(why) = &self.server_failure {
            let lines = pluralize(total, "line", "lines");
            return format!("{why}\n{server} finds {lines} with this text instead:");
        }
        let (one, many) = match self.operation {
            LspOperation::GoToDefinition => ("definition", "definitions"),
            LspOperation::FindReferences => ("reference", "references"),
            LspOperation::GoToImplementation => ("implementation", "implementations"),
            LspOperation::DocumentSymbol | LspOperation::WorkspaceSymbol => ("symbol", "symbols"),
            LspOperation::PrepareCallHierarchy => ("function", "functions"),
            LspOperation::IncomingCalls => ("caller", "callers"),
            LspOperation::OutgoingCalls => ("called function", "called functions"),
            LspOperation::Diagnostics => ("problem", "problems"),
            LspOperation::Hover if self.hover.is_some() => return format!("{server}:"),
            LspOperation::Hover => {
                return format!("{server} has no information about this position");
            }
        };
        let place = match self.operation {
            LspOperation::DocumentSymbol | LspOperation::Diagnostics => format!(" in {shown}"),
            _ => String::new(),
        };
        match total {
            0 => format!("{server} finds no {many}{place}"),
            total => format!("{server} finds {}{place}:", pluralize(total, one, many)),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let listed = self.items.len() as u64;
        let rest = self.total.saturating_sub(listed + self.denied);
        if rest > 0 && self.hover.is_none() {
            notes.push(format!("{rest} more are not shown; narrow the query"));
        }
        if self.denied > 0 {
            let places = pluralize(self.denied, "place", "places");
            notes.push(format!("{places} left out: reading the file is denied or needs approval"));
        }
        if self.incomplete {
            notes.push(format!(
                "{} is still indexing the project, so results may be missing; try again later",
                self.server
            ));
        }
        notes
    }
}
