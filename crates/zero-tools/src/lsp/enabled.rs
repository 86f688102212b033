//! The LSP tool: queries a language server about code.

mod location_renderer;
mod new_diagnostics;
mod output;
mod query;
mod symbol_search;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{
    Effect, Effects, ErrorReason, FileLocation, PathZone, RiskLevel, SchemaViolation, TimeoutClass,
    ToolCategory, ToolError, ToolKind,
};
use zero_lsp::{LanguageServerLimits, LanguageServers, LanguageServersConfig};
use zero_runtime::{
    AnyTool, CallContext, CallDescription, MissingTool, Tool, ToolBound, ToolHost, ToolInfo,
    ToolNotes, ToolReply, erase,
};
use zero_sandbox::{FileSnapshot, FinalLinkMode, ResolvedPath, Workspace};

pub(crate) use self::new_diagnostics::{
    ChangedText, append_new_diagnostics, bounds as diagnostics_bounds,
};
pub use self::output::{LspItem, LspOutput};
use self::symbol_search::SymbolSearch;
use crate::file_path::locate_file;
use crate::path_not_found;
use crate::text_encoding::TextEncoding;

/// Largest file that is sent to a server, in bytes.
const FILE_BYTES_MAX: u64 = 4_000_000;
/// Longest symbol name to search for, in characters.
const QUERY_CHARS_MAX: usize = 200;

/// No tool is missing.
pub(crate) const MISSING: &[MissingTool] = &[];

pub(crate) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![erase(LspTool)]
}

/// Lets the tools of a host use language servers. They start on first use.
pub fn add_language_servers(host: &ToolHost, config: LanguageServersConfig) {
    host.insert_extension(Arc::new(LanguageServers::new(config)));
}

/// Queries a language server about code: it knows what names mean, where Grep only finds text.
/// Point at a name with `line` and `character`, counted from 1 as Read numbers them, on its first
/// letter. Use it to find a definition, all uses of something before you change it, the callers of
/// a function, or the outline of a file; and `diagnostics` to see the problems in a file. It works
/// for files of the workspace whose language has a server installed, if the user trusts the
/// project; the first call in a project may take a while. Without a server, `workspaceSymbol`
/// searches for the name as text; for the others use Grep and Read instead.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LspArgs {
    /// What to query. `goToDefinition`, `goToImplementation`, `findReferences` and `hover` are
    /// about the name at `line` and `character`, as are `prepareCallHierarchy`, `incomingCalls`
    /// (its callers) and `outgoingCalls` (the functions that it calls). `documentSymbol` and
    /// `diagnostics` are about the file, `workspaceSymbol` is about the project: it finds names
    /// like `query`.
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

/// The queries that the tool offers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum LspOperation {
    /// Where the name is defined.
    GoToDefinition,
    /// Where the name is used.
    FindReferences,
    /// The type and documentation of the name.
    Hover,
    /// The symbols that a file defines.
    DocumentSymbol,
    /// The symbols of the project with such a name.
    WorkspaceSymbol,
    /// Where the name is implemented.
    GoToImplementation,
    /// The function at a position.
    PrepareCallHierarchy,
    /// The functions that call it.
    IncomingCalls,
    /// The functions that it calls.
    OutgoingCalls,
    /// The problems in a file.
    Diagnostics,
}

impl LspOperation {
    /// All operations.
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

    /// Whether the operation is about a position in the file.
    fn needs_position(self) -> bool {
        !matches!(self, Self::DocumentSymbol | Self::WorkspaceSymbol | Self::Diagnostics)
    }

    /// The title of a call.
    fn title(self) -> &'static str {
        match self {
            Self::GoToDefinition => "Find the definition",
            Self::FindReferences => "Find the uses",
            Self::Hover => "Describe the name",
            Self::DocumentSymbol => "Outline",
            Self::WorkspaceSymbol => "Find a symbol",
            Self::GoToImplementation => "Find implementations",
            Self::PrepareCallHierarchy => "Find the function",
            Self::IncomingCalls => "Find the callers",
            Self::OutgoingCalls => "Find what is called",
            Self::Diagnostics => "Check",
        }
    }
}

/// A position in a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SourcePoint {
    line: u64,
    character: u64,
}

/// A validated call, with the resolved file.
#[derive(Debug)]
pub struct LspPlan {
    operation: LspOperation,
    file: ResolvedPath,
    point: Option<SourcePoint>,
    query: Option<String>,
    /// What finds the name if no server answers.
    fallback: Option<SymbolSearch>,
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
            display_name: "Query a language server",
            category: ToolCategory::Code,
            kind: ToolKind::Search,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::Search,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        let effects = "reads the file, and starts a language server that reads the workspace, in a read-only sandbox without network access; only in trusted folders";
        let servers = LanguageServerLimits::default();
        ToolNotes::new(effects).with_bounds([
            ToolBound::count("shown items", query::ITEMS_MAX),
            ToolBound::count("shown symbols of a file", query::SYMBOLS_MAX),
            ToolBound::bytes("a queried file", FILE_BYTES_MAX as usize),
            ToolBound::characters("`query`", QUERY_CHARS_MAX),
            ToolBound::count("files of which lines are shown", location_renderer::FILES_MAX),
            ToolBound::bytes("all such files together", location_renderer::BYTES_MAX),
            ToolBound::characters("a shown line", location_renderer::LINE_CHARS_MAX),
            ToolBound::time("a server's start", servers.start_max),
            ToolBound::time("a server's answer", servers.answer_max),
            ToolBound::time("waiting for it to index the project", servers.reading_max),
            ToolBound::time("an unused server keeps running", servers.idle_max),
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
        let point = line.map(|line| SourcePoint { line, character: character.unwrap_or(1) });
        let fallback = match operation {
            LspOperation::WorkspaceSymbol => Some(SymbolSearch::resolve(&file, workspace)?),
            _ => None,
        };
        Ok(LspPlan { operation, file, point, query, fallback })
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
        let mut effects = vec![Effect::Read(plan.file.target().clone())];
        effects.extend(plan.fallback.iter().flat_map(SymbolSearch::effects));
        effects
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
                "`{shown}` is outside the workspace, which language servers do not cover; use Read and Grep"
            );
            return Err(
                ToolError::invalid(ErrorReason::BadPath, message).with_detail("file", shown)
            );
        }
        let answered = match cx.extension::<LanguageServers>() {
            Some(servers) => tokio::select! {
                biased;
                done = query::run_query(&servers, &plan, &cx) => done,
                () = cx.cancelled() => Err(ToolError::cancelled()),
            },
            None => {
                let message = "language servers are not available here; use Grep and Read";
                Err(ToolError::not_found(ErrorReason::ServerUnavailable, message))
            }
        };
        match answered {
            Err(error) if plan.fallback.is_some() && is_server_failure(&error) => {
                query::run_fallback(&plan, &cx, error).await
            }
            answered => answered,
        }
    }
}

/// Whether no server answered, for whatever reason.
fn is_server_failure(error: &ToolError) -> bool {
    matches!(
        error.reason(),
        Some(ErrorReason::ServerUnavailable | ErrorReason::Untrusted | ErrorReason::RemoteFailure)
    )
}

/// Returns the fields that the operation lacks or does not take.
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
                let found = "nothing (this operation needs a position)";
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
                "nothing, except for `workspaceSymbol`",
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

/// Returns a file's text as the user sees it in the editor, and whether it differs from the disk.
/// Blocks.
fn read_text(file: &ResolvedPath, cx: &CallContext) -> Result<(String, bool), ToolError> {
    let shown = file.display_path();
    let facts = file.facts()?.ok_or_else(|| path_not_found::not_found_error(file, cx))?;
    if facts.size > FILE_BYTES_MAX {
        let message = format!(
            "`{shown}` has {} bytes; language servers handle files of up to {FILE_BYTES_MAX} bytes",
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
