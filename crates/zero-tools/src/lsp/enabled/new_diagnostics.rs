//! Diagnostics that a change introduced: problems that a language server reports after it and did
//! not report before.
//!
//! Only a server that is already running is queried, and only for a short time, since the caller
//! waits for the result of the change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use zero_core::tool_result::ToolResultPart;
use zero_lsp::response::{DiagnosticSeverity, LspDiagnostic, LspLocation};
use zero_lsp::{DocumentText, LanguageServerLease, LanguageServers, LspError};
use zero_runtime::{CallContext, TextChange, ToolBound, ToolReply};
use zero_sandbox::{FileSnapshot, FinalLinkMode, ResolvedPath, WriteOutcome};

use super::location_renderer::{LocationRenderer, RenderedLocation};
use super::query::diagnostic_item;
use crate::text_encoding::TextEncoding;
use crate::text_format::pluralize;

/// How long a change waits for diagnostics.
const WAIT_MAX: Duration = Duration::from_millis(2_500);
/// Most problems that are shown.
const SHOWN_MAX: usize = 10;
/// Largest text that is sent to a server for this, in bytes.
const TEXT_BYTES_MAX: usize = 1_000_000;

/// Returns the bounds for the tool reference.
pub(crate) fn bounds() -> [ToolBound; 3] {
    [
        ToolBound::time("waiting for a running language server to report new problems", WAIT_MAX),
        ToolBound::count("shown new problems", SHOWN_MAX),
        ToolBound::bytes("a text checked for new problems", TEXT_BYTES_MAX),
    ]
}

/// A file before and after a change.
#[derive(Debug)]
pub(crate) struct ChangedText {
    path: PathBuf,
    shown: String,
    before: Option<String>,
    after: String,
    is_unsaved: bool,
}

impl ChangedText {
    /// Returns the texts of a change, or `None` if they are not text or too long.
    pub(crate) fn from_change(file: &ResolvedPath, changed: &TextChange) -> Option<Self> {
        let text = |bytes: &[u8]| {
            let encoding =
                TextEncoding::detect_in_file(bytes).filter(|_| bytes.len() <= TEXT_BYTES_MAX)?;
            Some(encoding.decode(bytes))
        };
        let before = match &changed.before {
            FileSnapshot::File { bytes, .. } => Some(text(bytes)?),
            _ => None,
        };
        Some(Self {
            path: file.path().to_owned(),
            shown: file.display_path().to_owned(),
            before,
            after: text(&changed.bytes)?,
            is_unsaved: changed.landed == WriteOutcome::Pending,
        })
    }
}

/// Appends the new problems to a reply, if a server reports them in time.
pub(crate) async fn append_new_diagnostics<O>(
    mut reply: ToolReply<O>,
    changed: Option<ChangedText>,
    cx: &CallContext,
) -> ToolReply<O> {
    let Some(changed) = changed else { return reply };
    let asking = describe_new_diagnostics(changed, cx);
    let published = tokio::select! {
        published = tokio::time::timeout(WAIT_MAX, asking) => published.ok().flatten(),
        () = cx.cancelled() => None,
    };
    reply.content.extend(published.map(ToolResultPart::Text));
    reply
}

async fn describe_new_diagnostics(changed: ChangedText, cx: &CallContext) -> Option<String> {
    let servers = cx.extension::<LanguageServers>()?;
    // Write access to a file does not imply that its content may be disclosed.
    if !cx.may_read(Path::new(&changed.shown), &changed.path) {
        return None;
    }
    let (server, language) = servers.trusted_for_file(&changed.path).await?;
    let found = compare_diagnostics(&server, &language, &changed).await.ok()??;
    servers.verify_lease(&server).await.ok()?;
    let (name, encoding) = (server.server_name().to_owned(), server.encoding());
    let found = cx.run_blocking(move |cx| {
        let file = cx.workspace().resolve_path(&changed.path, FinalLinkMode::Follow)?;
        let mut renderer = LocationRenderer::new(cx, encoding, &file, &changed.after);
        let lines = found.new.iter().take(SHOWN_MAX).filter_map(|found| {
            let place = LspLocation { uri: String::new(), start: found.start };
            match renderer.render(&place) {
                RenderedLocation::Item(item) => {
                    Some(item.with_details(diagnostic_item(found)).render_line())
                }
                RenderedLocation::Denied | RenderedLocation::Missing => None,
            }
        });
        let lines: Vec<String> = lines.collect();
        Ok(render_diagnostics(&name, file.display_path(), &found, &lines))
    });
    found.await.ok().flatten()
}

/// The diagnostics after a change.
struct DiagnosticsDiff {
    /// The problems not reported before, or all problems if the earlier ones are unknown.
    new: Vec<LspDiagnostic>,
    /// Whether the earlier problems are known.
    is_known: bool,
}

async fn compare_diagnostics(
    server: &LanguageServerLease,
    language: &str,
    changed: &ChangedText,
) -> Result<Option<DiagnosticsDiff>, LspError> {
    let ChangedText { path, before, after, is_unsaved, .. } = changed;
    let document = |text, is_unsaved| DocumentText { path, language, text, is_unsaved };
    // This text is no longer on disk. Whatever happens, the server is sent the new one next.
    let known = match before {
        Some(before) => {
            let state = server.sync_document(document(before, true)).await?;
            server
                .wait_for_diagnostics(path, state, WAIT_MAX / 2)
                .await?
                .map(|report| report.found.items)
        }
        None => Some(Vec::new()),
    };
    let state = server.sync_document(document(after, *is_unsaved)).await?;
    if !is_unsaved {
        server.notify_saved(path).await?;
    }
    let Some(report) = server.wait_for_diagnostics(path, state, WAIT_MAX).await? else {
        return Ok(None);
    };
    let is_known = known.is_some();
    let new = retain_new(known.unwrap_or_default(), report.found.items);
    Ok(Some(DiagnosticsDiff { new, is_known }))
}

/// Returns the errors and warnings of `after` that are not in `before`, ignoring their positions.
fn retain_new(mut before: Vec<LspDiagnostic>, after: Vec<LspDiagnostic>) -> Vec<LspDiagnostic> {
    let is_bad = |found: &LspDiagnostic| found.severity <= DiagnosticSeverity::Warning;
    let mut new: Vec<LspDiagnostic> = after
        .into_iter()
        .filter(is_bad)
        .filter(|found| {
            let same = |old: &LspDiagnostic| {
                (old.severity, &old.message, &old.code, &old.source)
                    == (found.severity, &found.message, &found.code, &found.source)
            };
            match before.iter().position(same) {
                Some(index) => {
                    before.swap_remove(index);
                    false
                }
                None => true,
            }
        })
        .collect();
    new.sort_by_key(|found| (found.severity, found.start));
    new
}

fn render_diagnostics(
    server: &str,
    shown: &str,
    found: &DiagnosticsDiff,
    lines: &[String],
) -> Option<String> {
    if lines.is_empty() {
        return None;
    }
    let total = found.new.len() as u64;
    let what = match found.is_known {
        true => format!("{} in {shown}", pluralize(total, "new problem", "new problems")),
        false => format!(
            "{} in {shown}, of which some may have been there before",
            pluralize(total, "problem", "problems")
        ),
    };
    let rest = total.saturating_sub(lines.len() as u64);
    let more = if rest > 0 { format!("\n({rest} more are not shown)") } else { String::new() };
    Some(format!("{server} finds {what}:\n{}{more}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use zero_lsp::response::LspPosition;

    use super::*;

    fn diagnostic(line: u64, severity: DiagnosticSeverity, message: &str) -> LspDiagnostic {
        LspDiagnostic {
            start: LspPosition { line, character: 0 },
            severity,
            message: message.to_owned(),
            source: None,
            code: None,
        }
    }

    #[test]
    fn only_new_diagnostics_are_retained() {
        use DiagnosticSeverity::{Error, Hint, Warning};
        #[track_caller]
        fn check(before: &[LspDiagnostic], after: &[LspDiagnostic], expected: &[&str]) {
            let new = retain_new(before.to_vec(), after.to_vec());
            let messages: Vec<&str> = new.iter().map(|found| found.message.as_str()).collect();
            assert_eq!(messages, expected);
        }
        check(&[], &[diagnostic(1, Error, "a")], &["a"]);
        // It moved, but is the same problem.
        check(&[diagnostic(1, Error, "a")], &[diagnostic(9, Error, "a")], &[]);
        // A second problem of the same kind is new.
        check(
            &[diagnostic(1, Error, "a")],
            &[diagnostic(1, Error, "a"), diagnostic(2, Error, "a")],
            &["a"],
        );
        check(&[diagnostic(1, Warning, "a")], &[diagnostic(1, Error, "a")], &["a"]);
        check(
            &[],
            &[diagnostic(1, Warning, "w"), diagnostic(7, Error, "e"), diagnostic(2, Hint, "h")],
            &["e", "w"],
        );
        check(&[diagnostic(1, Error, "gone")], &[], &[]);
    }
}
