//! Asks a language server about code.

mod aftermath;
mod ask;
mod output;
mod places;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{
    Category, Effect, Effects, Kind, Location, Reason, Risk, TimeoutClass, ToolError, Violation,
    Whereabouts,
};
use zero_lsp::{Bounds, LanguageServers};
use zero_runtime::{About, Bound, CallContext, Description, Particulars, Tool, ToolReply};
use zero_sandbox::{LastLink, Located, Snapshot, Workspace};

pub(crate) use self::aftermath::{ChangedText, bounds as aftermath_bounds, with_new_problems};
pub use self::output::{LspItem, LspOutput};
use crate::file_path::locate_file;
use crate::missing;
use crate::text::TextEncoding;

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
    operation: Operation,
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
pub enum Operation {
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

impl Operation {
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
    fn needs_place(self) -> bool {
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
struct Point {
    line: u64,
    character: u64,
}

/// A question whose file is settled.
#[derive(Debug)]
pub struct LspPlan {
    operation: Operation,
    file: Located,
    point: Option<Point>,
    query: Option<String>,
}

/// Asks a language server about code.
pub struct Lsp;

impl Tool for Lsp {
    type Args = LspArgs;
    type Output = LspOutput;
    type Plan = LspPlan;
    const NAME: &'static str = "LSP";

    fn about(&self) -> About {
        About {
            display_name: "Ask a language server",
            category: Category::Code,
            kind: Kind::Search,
            risk: Risk::Low,
            timeout_class: TimeoutClass::Search,
            idempotent: true,
            fallback: None,
        }
    }

    fn particulars(&self) -> Particulars {
        let effects = "reads the file, and starts a language server that reads the workspace, changes nothing of it and reaches nobody; only in folders that are trusted";
        let servers = Bounds::default();
        Particulars::of(effects).within([
            Bound::count("items that are shown", ask::ITEMS_MAX),
            Bound::count("symbols of a file that are shown", ask::SYMBOLS_MAX),
            Bound::bytes("a file that is asked about", FILE_BYTES_MAX as usize),
            Bound::characters("`query`", QUERY_CHARS_MAX),
            Bound::count("files whose lines are shown", places::FILES_MAX),
            Bound::bytes("such files in all", places::BYTES_MAX),
            Bound::characters("a line that is shown", places::LINE_CHARS_MAX),
            Bound::time("a server's start", servers.start_max),
            Bound::time("a server's answer", servers.answer_max),
            Bound::time("waiting for it to read the project", servers.reading_max),
            Bound::time("a server that nobody asks", servers.idle_max),
            Bound::count("servers at a time", servers.servers_max),
        ])
    }

    fn plan(&self, args: LspArgs, workspace: &Workspace) -> Result<LspPlan, ToolError> {
        let LspArgs { operation, file_path, line, character, query } = args;
        let wrong = violations(operation, line, character, query.as_deref());
        if !wrong.is_empty() {
            return Err(ToolError::from_violations(&wrong));
        }
        let file = locate_file(&file_path, workspace, LastLink::Follow)?;
        let point = line.map(|line| Point { line, character: character.unwrap_or(1) });
        Ok(LspPlan { operation, file, point, query })
    }

    fn describe(&self, plan: &LspPlan) -> Description {
        let line = plan.point.map(|point| point.line);
        let shown = plan.file.shown();
        let title = match (plan.operation, &plan.query, line) {
            (Operation::WorkspaceSymbol, Some(query), _) => {
                format!("Find symbols like {}", zero_core::shown::quoted(query))
            }
            (operation, _, Some(line)) => format!("{} at `{shown}:{line}`", operation.title()),
            (operation, _, None) => format!("{} `{shown}`", operation.title()),
        };
        let locations = vec![Location { path: plan.file.path().to_owned(), line }];
        Description { title, locations }
    }

    fn effects(&self, plan: &LspPlan) -> Effects {
        vec![Effect::Read(plan.file.target().clone())]
    }

    fn check(&self, plan: &LspPlan, cx: &CallContext) -> Result<(), ToolError> {
        match plan.file.facts()? {
            Some(_) => Ok(()),
            None => Err(missing::not_found(&plan.file, cx)),
        }
    }

    async fn run(
        &self,
        plan: Arc<LspPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<LspOutput>, ToolError> {
        let shown = plan.file.shown();
        if plan.file.target().whereabouts() != Whereabouts::Workspace {
            let message = format!(
                "`{shown}` lies outside the workspace, where no language server looks; use Read and Grep"
            );
            return Err(ToolError::invalid(Reason::BadPath, message).with("file", shown));
        }
        let Some(servers) = cx.companion::<LanguageServers>() else {
            let message = "there are no language servers here; use Grep and Read";
            return Err(ToolError::not_found(Reason::ServerUnavailable, message));
        };
        tokio::select! {
            biased;
            done = ask::ask(&servers, &plan, &cx) => done,
            () = cx.cancelled() => Err(ToolError::cancelled()),
        }
    }
}

/// What an operation lacks, or has too much of.
fn violations(
    operation: Operation,
    line: Option<u64>,
    character: Option<u64>,
    query: Option<&str>,
) -> Vec<Violation> {
    let mut wrong = Vec::new();
    if operation.needs_place() {
        for (pointer, value) in [("/line", line), ("/character", character)] {
            if value.is_none() {
                let found = "nothing (this operation is about a name at a place)";
                wrong.push(Violation::new(pointer, "a number from 1", found));
            }
        }
    }
    for (pointer, value) in [("/line", line), ("/character", character)] {
        if value == Some(0) {
            wrong.push(Violation::new(pointer, "a number from 1", "0"));
        }
    }
    match query {
        Some(_) if operation != Operation::WorkspaceSymbol => {
            wrong.push(Violation::new("/query", "nothing but for `workspaceSymbol`", "a string"));
        }
        Some(query) if query.chars().count() > QUERY_CHARS_MAX => {
            let expected = format!("at most {QUERY_CHARS_MAX} characters");
            wrong.push(Violation::new("/query", expected, "more"));
        }
        None if operation == Operation::WorkspaceSymbol
            && (line.is_none() || character.is_none()) =>
        {
            wrong.push(Violation::new(
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
fn text_of(file: &Located, cx: &CallContext) -> Result<(String, bool), ToolError> {
    let shown = file.shown();
    let facts = file.facts()?.ok_or_else(|| missing::not_found(file, cx))?;
    if facts.size > FILE_BYTES_MAX {
        let message = format!(
            "`{shown}` has {} bytes; language servers are asked about files of up to {FILE_BYTES_MAX}",
            facts.size
        );
        return Err(ToolError::invalid(Reason::TooLarge, message).with("file", shown));
    }
    let Snapshot::File { bytes, .. } = cx.journal().read(file)? else {
        return Err(missing::not_found(file, cx));
    };
    let unsaved = cx.unsaved(file.path(), &bytes);
    let is_unsaved = unsaved.is_some();
    let bytes = unsaved.unwrap_or(bytes);
    let Some(encoding) = TextEncoding::of_file(&bytes) else {
        let message = format!("`{shown}` is not a text file");
        return Err(ToolError::invalid(Reason::Binary, message).with("file", shown));
    };
    Ok((encoding.decode(&bytes), is_unsaved))
}
