//! Runs a query: sends the text that the user sees to a server, and builds the result from its
//! reply.

use std::path::PathBuf;

use zero_core::tool_result::ToolResultPart;
use zero_core::{CallProgress, ErrorReason, FileLocation, ResultDisplay, ToolError};
use zero_lsp::response::{
    BoundedList, CallHierarchyEntry, LspDiagnostic, LspLocation, LspPosition, LspSymbol,
};
use zero_lsp::{
    CallDirection, DocumentPosition, DocumentText, LanguageServerLease, LanguageServers, LspClient,
    LspError, PositionEncoding, position,
};
use zero_runtime::{CallContext, ToolReply};
use zero_sandbox::FinalLinkMode;

use super::location_renderer::{LocationRenderer, RenderedLocation};
use super::output::{LspItem, LspOutput};
use super::{LspOperation, LspPlan, SourcePoint, read_text};

/// Most items that are shown, and most symbols of a file.
pub(super) const ITEMS_MAX: usize = 100;
pub(super) const SYMBOLS_MAX: usize = 300;
/// Most other files with unsaved text that are sent again before a query.
const UNSAVED_MAX: usize = 20;
/// The tool whose search is used if no server answers.
const GREP: &str = "Grep";
/// Most lines of calls that are shown of one caller.
const CALL_LINES_MAX: usize = 10;

/// The findings of a query, as the server returns them.
enum LspFindings {
    Locations(BoundedList<LspLocation>),
    Hover(Option<String>),
    Symbols(BoundedList<LspSymbol>),
    Callers(BoundedList<CallHierarchyEntry>),
    Diagnostics(BoundedList<LspDiagnostic>),
}

/// The findings, and the server they come from.
struct LspAnswer {
    found: LspFindings,
    server: String,
    encoding: PositionEncoding,
    incomplete: bool,
}

/// Queries a server, starting it if necessary, and once more if it died meanwhile.
pub(super) async fn run_query(
    servers: &LanguageServers,
    plan: &std::sync::Arc<LspPlan>,
    cx: &CallContext,
) -> Result<ToolReply<LspOutput>, ToolError> {
    let of_file = std::sync::Arc::clone(plan);
    let (text, is_unsaved) = cx.run_blocking(move |cx| read_text(&of_file.file, cx)).await?;
    let line = plan.point.map(|point| line_at(plan, &text, point)).transpose()?.unwrap_or_default();
    let query = symbol_query(plan, line);
    if query.is_none() && plan.operation == LspOperation::WorkspaceSymbol {
        let shown = plan.file.display_path();
        let message =
            format!("there is no name at that position in `{shown}`; give one in `query`");
        return Err(ToolError::invalid(ErrorReason::NoMatch, message).with_detail("file", shown));
    }
    let mut tries = 2;
    let answer = loop {
        tries -= 1;
        match query_once(servers, plan, cx, (&text, is_unsaved), line, query).await {
            Err(error) if error.is_worth_restart() && tries > 0 => {}
            answer => break answer.map_err(|error| error.to_tool_error())?,
        }
    };
    let plan = std::sync::Arc::clone(plan);
    cx.run_blocking(move |cx| Ok(build_reply(&plan, cx, &text, answer))).await
}

/// Finds the name as text, because no server answered. If that fails too, the error is the server's.
pub(super) async fn run_fallback(
    plan: &std::sync::Arc<LspPlan>,
    cx: &CallContext,
    error: ToolError,
) -> Result<ToolReply<LspOutput>, ToolError> {
    let of_search = std::sync::Arc::clone(plan);
    let search = move |cx: &CallContext| {
        let plan = &of_search;
        let (text, _) = read_text(&plan.file, cx)?;
        let line = plan.point.map(|point| line_at(plan, &text, point)).transpose()?;
        let name = symbol_query(plan, line.unwrap_or_default());
        match (&plan.fallback, name) {
            (Some(search), Some(name)) => search.find(name, cx).map(Some),
            _ => Ok(None),
        }
    };
    let found = match cx.run_blocking(search).await {
        Ok(Some(found)) => found,
        Ok(None) | Err(_) if !cx.is_cancelled() => return Err(error),
        Ok(None) | Err(_) => return Err(ToolError::cancelled()),
    };
    cx.record_fallback("language server", GREP, &error.message);
    let output = LspOutput {
        operation: plan.operation,
        server: GREP.to_owned(),
        total: found.total,
        items: found.items,
        hover: None,
        denied: found.denied,
        incomplete: false,
        server_failure: Some(error.message),
    };
    Ok(reply_with_output(output, plan, cx))
}

async fn query_once(
    servers: &LanguageServers,
    plan: &LspPlan,
    cx: &CallContext,
    (text, is_unsaved): (&str, bool),
    line: &str,
    query: Option<&str>,
) -> Result<LspAnswer, LspError> {
    let path = plan.file.path();
    if servers.running_for_file(path).is_none() {
        cx.report_progress(CallProgress::new("starting the language server"));
    }
    let (server, language) = servers.lease_for_file(path, plan.file.display_path()).await?;
    sync_unsaved(&server, &language, path, cx).await?;
    let sent =
        server.sync_document(DocumentText { path, language: &language, text, is_unsaved }).await?;
    let position = plan.point.map_or_else(LspPosition::default, |point| LspPosition {
        line: point.line - 1,
        character: server.encoding().to_units(line, point.character),
    });
    let target = DocumentPosition { path, position };
    let client = LspClient::new(&server, servers.limits());
    let found = match plan.operation {
        LspOperation::GoToDefinition => LspFindings::Locations(client.definition(target).await?),
        LspOperation::FindReferences => LspFindings::Locations(client.references(target).await?),
        LspOperation::GoToImplementation => {
            LspFindings::Locations(client.implementation(target).await?)
        }
        LspOperation::Hover => LspFindings::Hover(client.hover(target).await?),
        LspOperation::DocumentSymbol => LspFindings::Symbols(client.document_symbols(path).await?),
        LspOperation::WorkspaceSymbol => {
            LspFindings::Symbols(client.workspace_symbols(query.unwrap_or_default()).await?)
        }
        LspOperation::PrepareCallHierarchy => {
            let items: Vec<LspSymbol> = client
                .prepare_call_hierarchy(target)
                .await?
                .into_iter()
                .map(|(symbol, _)| symbol)
                .collect();
            let total = items.len();
            LspFindings::Symbols(BoundedList { items, total })
        }
        LspOperation::IncomingCalls => {
            LspFindings::Callers(client.call_hierarchy(target, CallDirection::Incoming).await?)
        }
        LspOperation::OutgoingCalls => {
            LspFindings::Callers(client.call_hierarchy(target, CallDirection::Outgoing).await?)
        }
        LspOperation::Diagnostics => {
            LspFindings::Diagnostics(client.diagnostics(path, sent).await?)
        }
    };
    // Checked last, since the reply may be based on anything the server saw before this point.
    servers.verify_lease(&server).await?;
    Ok(LspAnswer {
        found,
        server: server.server_name().to_owned(),
        encoding: server.encoding(),
        incomplete: server.is_busy(),
    })
}

/// Sends the current text of other files that the server has open with unsaved text.
async fn sync_unsaved(
    server: &LanguageServerLease,
    language: &str,
    requested_path: &std::path::Path,
    cx: &CallContext,
) -> Result<(), LspError> {
    let unsaved: Vec<PathBuf> = server.unsaved_files().await;
    for path in unsaved.into_iter().filter(|path| path != requested_path).take(UNSAVED_MAX) {
        let of_path = path.clone();
        let text = cx.run_blocking(move |cx| {
            let file = cx.workspace().resolve_path(&of_path, FinalLinkMode::Follow)?;
            read_text(&file, cx)
        });
        match text.await {
            Ok((text, true)) => {
                let text = DocumentText { path: &path, language, text: &text, is_unsaved: true };
                server.sync_document(text).await?;
            }
            // The file on disk is used again.
            _ => server.close_file(&path).await?,
        }
    }
    Ok(())
}

/// Returns the line that the query is about.
fn line_at<'a>(plan: &LspPlan, text: &'a str, point: SourcePoint) -> Result<&'a str, ToolError> {
    let number = usize::try_from(point.line - 1).unwrap_or(usize::MAX);
    position::lines(text).nth(number).ok_or_else(|| {
        let shown = plan.file.display_path();
        let count = position::lines(text).count();
        let message = format!("`{shown}` has {count} lines; line {} is past its end", point.line);
        ToolError::invalid(ErrorReason::OutOfRange, message).with_detail("file", shown)
    })
}

/// Returns the name to search for in the project.
fn symbol_query<'a>(plan: &'a LspPlan, line: &'a str) -> Option<&'a str> {
    let at_point = || position::word_at(line, plan.point?.character);
    plan.query.as_deref().or_else(at_point)
}

/// Builds the result from what may be disclosed. Blocks.
fn build_reply(
    plan: &LspPlan,
    cx: &CallContext,
    text: &str,
    answer: LspAnswer,
) -> ToolReply<LspOutput> {
    let LspAnswer { found, server, encoding, incomplete } = answer;
    let mut renderer = LocationRenderer::new(cx, encoding, &plan.file, text);
    let mut output = LspOutput {
        operation: plan.operation,
        server,
        total: 0,
        items: Vec::new(),
        hover: None,
        denied: 0,
        incomplete,
        server_failure: None,
    };
    let (found, total, most) = match found {
        LspFindings::Hover(hover) => {
            let total = usize::from(hover.is_some());
            output.hover = hover;
            (Vec::new(), total, 0)
        }
        LspFindings::Locations(mut places) => {
            let before = places.items.len();
            places.items.dedup();
            let twice = before - places.items.len();
            let found = places.items.into_iter().map(|place| (place, LspItem::default()));
            (found.collect(), places.total - twice, ITEMS_MAX)
        }
        LspFindings::Symbols(symbols) => {
            let of_file = plan.operation == LspOperation::DocumentSymbol;
            let found = symbols.items.into_iter().map(|symbol| {
                let depth = of_file.then_some(symbol.depth as u64);
                (symbol.place.clone(), LspItem { depth, ..symbol_item(symbol) })
            });
            (found.collect(), symbols.total, if of_file { SYMBOLS_MAX } else { ITEMS_MAX })
        }
        LspFindings::Callers(callers) => {
            let found = callers.items.into_iter().map(|CallHierarchyEntry { symbol, calls }| {
                let lines = calls.iter().take(CALL_LINES_MAX);
                let mut call_lines: Vec<u64> = lines.map(|call| call.line + 1).collect();
                call_lines.dedup();
                (symbol.place.clone(), LspItem { call_lines, ..symbol_item(symbol) })
            });
            (found.collect(), callers.total, ITEMS_MAX)
        }
        LspFindings::Diagnostics(mut problems) => {
            problems.items.sort_by_key(|problem| (problem.severity, problem.start));
            let found = problems.items.into_iter().map(|found| {
                (LspLocation { uri: String::new(), start: found.start }, diagnostic_item(&found))
            });
            (found.collect(), problems.total, ITEMS_MAX)
        }
    };
    output.total = total as u64;
    output.add_items(&mut renderer, found, most);
    reply_with_output(output, plan, cx)
}

fn reply_with_output(output: LspOutput, plan: &LspPlan, cx: &CallContext) -> ToolReply<LspOutput> {
    let locations = output.items.iter().take(20).map(|item| FileLocation {
        path: cx.workspace().cwd().join(&item.file_path),
        line: Some(item.line),
    });
    let locations: Vec<FileLocation> = locations.collect();
    let text = output.render(plan.file.display_path());
    let display = ResultDisplay::markdown(text.clone());
    ToolReply { content: vec![ToolResultPart::Text(text)], display, output, locations }
}

impl LspOutput {
    /// Adds items for findings that have a location, as far as they may be disclosed.
    fn add_items(
        &mut self,
        renderer: &mut LocationRenderer<'_>,
        found: Vec<(LspLocation, LspItem)>,
        most: usize,
    ) {
        for (place, about) in found {
            match renderer.render(&place) {
                RenderedLocation::Item(at) if self.items.len() < most => {
                    self.items.push(at.with_details(about))
                }
                RenderedLocation::Item(_) | RenderedLocation::Missing => {}
                RenderedLocation::Denied => self.denied += 1,
            }
        }
    }
}

fn symbol_item(symbol: LspSymbol) -> LspItem {
    LspItem {
        name: Some(symbol.name),
        kind: Some(symbol.kind.to_owned()),
        container: symbol.container,
        ..LspItem::default()
    }
}

/// Returns the item of a problem, without its location.
pub(super) fn diagnostic_item(found: &LspDiagnostic) -> LspItem {
    let source = match (&found.source, &found.code) {
        (Some(source), Some(code)) => Some(format!("{source} {code}")),
        (source, code) => source.clone().or_else(|| code.clone()),
    };
    LspItem {
        severity: Some(found.severity.as_str().to_owned()),
        message: Some(found.message.clone()),
        source,
        ..LspItem::default()
    }
}
