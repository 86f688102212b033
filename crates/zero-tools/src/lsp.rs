//! Asks a language server about code.

mod location_renderer;
mod new_diagnostics;
mod output;
mod query;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{
    Effect, Effects, ErrorReason, FileLocation, PathZone, RiskLevel, SchemaViolation, TimeoutClass,
    ToolCategory, ToolError, ToolKind,
};
use zero_lsp::{LanguageServerLimits, LanguageServers};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::{FileSnapshot, FinalLinkMode, ResolvedPath, Workspace};

pub(crate) use self::new_diagnostics::{
    ChangedText, append_new_diagnostics, bounds as aftermath_bounds,
};
pub use self::output::{LspItem, LspOutput};
use crate::file_path::locate_file;
use crate::path_not_found;
use crate::text_encoding::TextEncoding;

/// Largest file that a server is told of, in bytes.
const FILE_BYTES_MAX: u64 = 4_000_000;
/// Longest name that is looked for.
const QUERY_CHARS_MAX: usize = 200;

/// Asks a language server about code: it knows what names mean, where Grep only finds text. Point
/// at a name with `line` and `character`, counted from 1 as Read numbers them, on its first letter.
/// Use it to find a definition, all uses of something before you change it, who calls a function, or
/// the outline of a file; and `diagnostics` to see what is wrong in a file. It works for files of
/// the workspace whose language has a server installed, where the person trusts the project; the
/// first call in a project may take a while. Where it says that no server is there or may run, use
/// Grep and Read instead.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LspArgs {
    /// What to ask. `goToDefinition`, `goToImplementation`, `findReferences` and `hover` are about
    /// the name at `line` and `character`, as are `prepareCallHierarchy`, `incomingCalls` (who calls
    /// it) and `outgoingCalls` (whom it calls). `documentSymbol` and `diagnostics` are about the
    /// file, `workspaceSymbol` about the project: it finds names like `query`.
    operation: LspOperation,
    /// Path of the file, absolute or relative to the workspace. For `workspaceSymbol` any file of
    /// the language.
    file_path: String,
    /// The line, counted from 1.
    #[schemars(range(min = 1))]
    line: Option<u64>,
    /// The character in the line, counted from 1.
    #[schemars(range(min = 1))]
    character: Option<u64>,
    /// For `workspaceSymbol`: the name, or a part of it. The name at `line` and `character` when
    /// absent.
    query: Option<String>,
}

/// What a server is asked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum LspOperation {
    /// Where the name is defined.
    GoToDefinition,
    /// Where it is used.
    FindReferences,
    /// What is to be known about it.
    Hover,
    /// What a file defines.
    DocumentSymbol,
    /// Where something of that name is in the project.
    WorkspaceSymbol,
    /// Where it is implemented.
    GoToImplementation,
    /// The function at a place.
    PrepareCallHierarchy,
    /// Who calls it.
    IncomingCalls,
    /// Whom it calls.
    OutgoingCalls,
    /// What is wrong in a file.
    Diagnostics,
}

impl LspOperation {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::GoToDefinition,
        Self::FindReferences,
        Self::Hover,
        Self::DocumentSymbol,
        Self::WorkspaceSymbol,
        Self::GoToImplementation,
        Self::PrepareCallHierarchy,
        Self::IncomingCalls,
        Self::OutgoingCalls,
        Self::Diagnostics,
    ];

    /// Whether it is about a place in the file.
    fn needs_position(self) -> bool {
        !matches!(self, Self::DocumentSymbol | Self::WorkspaceSymbol | Self::Diagnostics)
    }

    /// What is done, for a title.
    fn title(self) -> &'static str {
        match self {
            Self::GoToDefinition => "Find the definition",
            Self::FindReferences => "Find the uses",
            Self::Hover => "Look at the name",
            Self::DocumentSymbol => "Outline",
            Self::WorkspaceSymbol => "Find a symbol",
            Self::GoToImplementation => "Find implementations",
            Self::PrepareCallHierarchy => "Look at the function",
            Self::IncomingCalls => "Find the callers",
            Self::OutgoingCalls => "Find what is called",
            Self::Diagnostics => "Check",
        }
    }
}

/// A place in a file, as people count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CursorPosition {
    line: u64,
    character: u64,
}

/// A question whose file is settled.
#[derive(Debug)]
pub struct LspPlan {
    operation: LspOperation,
    file: ResolvedPath,
    point: Option<CursorPosition>,
    query: Option<String>,
}

/// Asks a language server about code.
pub struct LspTool;

impl Tool for LspTool {
    type Args = LspArgs;
    type Output = LspOutput;
    type Plan = LspPlan;
    const NAME: &'static str = "LSP";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Ask a language server",
            category: ToolCategory::Code,
            kind: ToolKind::Search,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::Search,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        let effects = "reads the file, and starts a language server that reads the workspace, changes nothing of it and reaches nobody; only in folders that are trusted";
        let servers = LanguageServerLimits::default();
        ToolNotes::new(effects).with_bounds([
            ToolBound::count("items that are shown", query::ITEMS_MAX),
            ToolBound::count("symbols of a file that are shown", query::SYMBOLS_MAX),
            ToolBound::bytes("a file that is asked about", FILE_BYTES_MAX as usize),
            ToolBound::characters("`query`", QUERY_CHARS_MAX),
            ToolBound::count("files whose lines are shown", location_renderer::FILES_MAX),
            ToolBound::bytes("such files in all", location_renderer::BYTES_MAX),
            ToolBound::characters("a line that is shown", location_renderer::LINE_CHARS_MAX),
            ToolBound::time("a server's start", servers.start_max),
            ToolBound::time("a server's answer", servers.answer_max),
            ToolBound::time("waiting for it to read the project", servers.reading_max),
            ToolBound::time("a server that nobody asks", servers.idle_max),
            ToolBound::count("servers at a time", servers.servers_max),
        ])
    }

    fn plan(&self, args: LspArgs, workspace: &Workspace) -> Result<LspPlan, ToolError> {
        let LspArgs { operation, file_path, line, character, query } = args;
        let wrong = find_violations(operation, line, character, query.as_deref());
        if !wrong.is_empty() {
            return Err(ToolError::from_violations(&wrong));
        }
        let file = locate_file(&file_path, workspace, FinalLinkMode::Follow)?;
        let point = line.map(|line| CursorPosition { line, character: character.unwrap_or(1) });
        Ok(LspPlan { operation, file, point, query })
    }

    fn describe(&self, plan: &LspPlan) -> CallDescription {
        let line = plan.point.map(|point| point.line);
        let shown = plan.file.display_path();
        let title = match (plan.operation, &plan.query, line) {
            (LspOperation::WorkspaceSymbol, Some(query), _) => {
                format!("Find symbols like {}", zero_core::sanitize::to_quoted_line(query))
            }
            (operation, _, Some(line)) => format!("{} at `{shown}:{line}`", operation.title()),
            (operation, _, None) => format!("{} `{shown}`", operation.title()),
        };
        let locations = vec![FileLocation { path: plan.file.path().to_owned(), line }];
        CallDescription { title, locations }
    }

    fn effects(&self, plan: &LspPlan) -> Effects {
        vec![Effect::Read(plan.file.target().clone())]
    }

    fn check(&self, plan: &LspPlan, cx: &CallContext) -> Result<(), ToolError> {
        match plan.file.facts()? {
            Some(_) => Ok(()),
            None => Err(path_not_found::not_found_error(&plan.file, cx)),
        }
    }

    async fn run(
        &self,
        plan: Arc<LspPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<LspOutput>, ToolError> {
        let shown = plan.file.display_path();
        if plan.file.target().zone() != PathZone::Workspace {
            let message = format!(
                "`{shown}` lies outside the workspace, where no language server looks; use Read and Grep"
            );
            return Err(
                ToolError::invalid(ErrorReason::BadPath, message).with_detail("file", shown)
            );
        }
        let Some(servers) = cx.extension::<LanguageServers>() else {
            let message = "there are no language servers here; use Grep and Read";
            return Err(ToolError::not_found(ErrorReason::ServerUnavailable, message));
        };
        tokio::select! {
            biased;
            done = query::run_query(&servers, &plan, &cx) => done,
            () = cx.cancelled() => Err(ToolError::cancelled()),
        }
    }
}

/// What an operation lacks, or has too much of.
fn find_violations(
    operation: LspOperation,
    line: Option<u64>,
    character: Option<u64>,
    query: Option<&str>,
) -> Vec<SchemaViolation> {
    let mut wrong = Vec::new();
    if operation.needs_position() {
        for (pointer, value) in [("/line", line), ("/character", character)] {
            if value.is_none() {
                let found = "nothing (this operation is about a name at a place)";
                wrong.push(SchemaViolation::new(pointer, "a number from 1", found));
            }
        }
    }
    for (pointer, value) in [("/line", line), ("/character", character)] {
        if value == Some(0) {
            wrong.push(SchemaViolation::new(pointer, "a number from 1", "0"));
        }
    }
    match query {
        Some(_) if operation != LspOperation::WorkspaceSymbol => {
            wrong.push(SchemaViolation::new(
                "/query",
                "nothing but for `workspaceSymbol`",
                "a string",
            ));
        }
        Some(query) if query.chars().count() > QUERY_CHARS_MAX => {
            let expected = format!("at most {QUERY_CHARS_MAX} characters");
            wrong.push(SchemaViolation::new("/query", expected, "more"));
        }
        None if operation == LspOperation::WorkspaceSymbol
            && (line.is_none() || character.is_none()) =>
        {
            wrong.push(SchemaViolation::new(
                "/query",
                "a name, or `line` and `character` of one",
                "neither",
            ));
        }
        _ => {}
    }
    wrong
}

/// A file's text as the person sees it, and whether that is not what is on disk. Waits.
fn read_text(file: &ResolvedPath, cx: &CallContext) -> Result<(String, bool), ToolError> {
    let shown = file.display_path();
    let facts = file.facts()?.ok_or_else(|| path_not_found::not_found_error(file, cx))?;
    if facts.size > FILE_BYTES_MAX {
        let message = format!(
            "`{shown}` has {} bytes; language servers are asked about files of up to {FILE_BYTES_MAX}",
            facts.size
        );
        return Err(ToolError::invalid(ErrorReason::TooLarge, message).with_detail("file", shown));
    }
    let FileSnapshot::File { bytes, .. } = cx.journal().read(file)? else {
        return Err(path_not_found::not_found_error(file, cx));
    };
    let unsaved = cx.unsaved_bytes(file.path(), &bytes);
    let is_unsaved = unsaved.is_some();
    let bytes = unsaved.unwrap_or(bytes);
    let Some(encoding) = TextEncoding::detect_in_file(&bytes) else {
        let message = format!("`{shown}` is not a text file");
        return Err(ToolError::invalid(ErrorReason::Binary, message).with_detail("file", shown));
    };
    Ok((encoding.decode(&bytes), is_unsaved))
}
