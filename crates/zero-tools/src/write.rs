//! The Write tool: creates a file or replaces its content.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::tool_result::ToolResultPart;
use zero_core::{
    ByteSize, Effect, Effects, ErrorReason, FileDiff, FileLocation, ResultDisplay, RiskLevel,
    TargetPath, TimeoutClass, ToolCategory, ToolError, ToolKind,
};
use zero_runtime::seen_files::{FileFreshness, stale_file_error};
use zero_runtime::{CallContext, CallDescription, Tool, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::{FileSnapshot, FinalLinkMode, ResolvedPath, Workspace};

use crate::diff::file_diff;
use crate::editor_change_note;
use crate::file_backup;
use crate::file_path::locate_file;
use crate::lsp::{ChangedText, append_new_diagnostics, diagnostics_bounds};
use crate::preview_fingerprint::PreviewFingerprint;
use crate::text_encoding::TextEncoding;

/// Creates a file, or replaces the whole content of one. Missing folders are created. An existing
/// file must have been read before; to change part of it, use Edit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteArgs {
    /// Path of the file, absolute or relative to the workspace.
    file_path: String,
    /// The whole new content.
    content: String,
    /// Keep the earlier content beside it, as `NAME.bak`, or `NAME.bak1` and so on if that exists. False
    /// when absent, unless the settings say otherwise.
    #[serde(default)]
    backup: bool,
}

/// The result of a write.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WriteOutput {
    success: bool,
    /// Bytes on disk, in the file's own encoding.
    bytes_written: u64,
    /// Path of the backup. Absent if none was requested, or if the file did not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<String>,
}

/// A validated call, with the resolved path.
#[derive(Debug)]
pub struct WritePlan {
    file: ResolvedPath,
    content: String,
    backup: Option<ResolvedPath>,
    previewed: PreviewFingerprint,
}

/// Creates a file or replaces its content.
pub struct WriteTool;

impl Tool for WriteTool {
    type Args = WriteArgs;
    type Output = WriteOutput;
    type Plan = WritePlan;
    const NAME: &'static str = "Write";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Write file",
            category: ToolCategory::File,
            kind: ToolKind::Edit,
            risk: RiskLevel::Medium,
            timeout_class: TimeoutClass::File,
            idempotent: false,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        let effects = "creates or replaces one file, and missing folders; `zero undo` reverts it";
        ToolNotes::for_file_changes(effects).with_bounds(diagnostics_bounds())
    }

    fn plan(&self, args: WriteArgs, workspace: &Workspace) -> Result<WritePlan, ToolError> {
        let file = locate_file(&args.file_path, workspace, FinalLinkMode::Follow)?;
        let backup =
            if args.backup { file_backup::find_free_path(&file, workspace)? } else { None };
        Ok(WritePlan {
            file,
            content: args.content,
            backup,
            previewed: PreviewFingerprint::default(),
        })
    }

    fn describe(&self, plan: &WritePlan) -> CallDescription {
        let locations = vec![FileLocation { path: plan.file.path().to_owned(), line: None }];
        CallDescription { title: format!("Write `{}`", plan.file.display_path()), locations }
    }

    fn effects(&self, plan: &WritePlan) -> Effects {
        let read = plan.backup.as_ref().map(|_| Effect::Read(plan.file.target().clone()));
        let files = std::iter::once(&plan.file).chain(&plan.backup);
        read.into_iter().chain(files.map(|file| Effect::Write(file.target().clone()))).collect()
    }

    fn path_effects(&self, path: TargetPath) -> Effects {
        vec![Effect::Write(path)]
    }

    fn rehearse(&self, plan: &WritePlan, cx: &CallContext) -> Result<(), ToolError> {
        plan.file.check_writable()?;
        let before = cx.snapshot(&plan.file)?;
        check_freshness(plan, cx, &before)?;
        encode_text(&before, &plan.content, plan.file.display_path()).map(drop)
    }

    fn preview(&self, plan: &WritePlan, cx: &CallContext) -> Option<ResultDisplay> {
        let before = cx.snapshot(&plan.file).ok()?;
        plan.previewed.record(&before);
        let written = encode_text(&before, &plan.content, plan.file.display_path()).ok()?;
        Some(ResultDisplay::Diff(diff_with_before(&plan.file, &before, &written)))
    }

    async fn run(
        &self,
        plan: Arc<WritePlan>,
        cx: CallContext,
    ) -> Result<ToolReply<WriteOutput>, ToolError> {
        let (reply, changed) = cx.run_blocking(move |cx| write_file(&plan, cx)).await?;
        Ok(append_new_diagnostics(reply, changed, &cx).await)
    }
}

/// A text in the encoding of its file.
struct EncodedText {
    bytes: Vec<u8>,
    text: String,
    /// Appended to the summary if line endings or an encoding were kept.
    note: String,
}

fn write_file(
    plan: &WritePlan,
    cx: &CallContext,
) -> Result<(ToolReply<WriteOutput>, Option<ChangedText>), ToolError> {
    let shown = plan.file.display_path();
    if let Some(backup) = &plan.backup {
        let before = cx.snapshot(&plan.file)?;
        check_freshness(plan, cx, &before)?;
        file_backup::save(backup, before, cx)?;
    }
    let (changed, mut written) = cx.change_text(&plan.file, |before| {
        plan.previewed.check_unchanged(before, shown)?;
        check_freshness(plan, cx, before)?;
        let new = encode_text(before, &plan.content, shown)?;
        Ok((new.bytes.clone(), new))
    })?;
    if let Some(seen) = cx.seen_files() {
        changed.record_seen(plan.file.path(), seen);
    }
    let editor_note = editor_change_note::editor_change_note(&changed, &written.text, shown);
    if editor_note.is_some() {
        written.text = String::from_utf8_lossy(&changed.bytes).into_owned();
    }
    let bytes_written = changed.bytes.len() as u64;
    let diff = diff_with_before(&plan.file, &changed.before, &written);
    let kind = if changed.before == FileSnapshot::Absent { "new file" } else { "replaced" };
    let unit = if bytes_written == 1 { "byte" } else { "bytes" };
    let mut summary = format!("Wrote {bytes_written} {unit} to {shown} ({kind}){}", written.note);
    let backup = match (&plan.backup, &changed.before) {
        (Some(backup), FileSnapshot::File { .. }) => Some(backup.display_path().to_string()),
        _ => None,
    };
    if let Some(backup) = &backup {
        summary.push_str(&format!("; the earlier content is in {backup}"));
    }
    summary.push_str(&editor_note.unwrap_or_default());
    let reply = ToolReply {
        content: vec![build_content(summary, &diff)],
        display: ResultDisplay::Diff(diff),
        output: WriteOutput { success: true, bytes_written, backup },
        locations: vec![FileLocation { path: plan.file.path().to_owned(), line: None }],
    };
    Ok((reply, ChangedText::from_change(&plan.file, &changed)))
}

/// Builds the result for the model. It omits the diff of a new file, because the model wrote its content.
fn build_content(summary: String, diff: &FileDiff) -> ToolResultPart {
    let unified = if diff.old_text.is_some() { diff.unified.clone() } else { String::new() };
    ToolResultPart::Diff { summary, diff: FileDiff { unified, ..diff.without_texts() } }
}

fn check_freshness(
    plan: &WritePlan,
    cx: &CallContext,
    before: &FileSnapshot,
) -> Result<(), ToolError> {
    let Some(seen) = cx.seen_files().filter(|_| *before != FileSnapshot::Absent) else {
        return Ok(());
    };
    match seen.freshness(plan.file.path(), before) {
        FileFreshness::Fresh => Ok(()),
        other => Err(stale_file_error(plan.file.display_path(), other)),
    }
}

/// Encodes the content in the encoding, and with the line endings, of the file that it replaces.
fn encode_text(
    before: &FileSnapshot,
    content: &str,
    shown: &str,
) -> Result<EncodedText, ToolError> {
    let old = match before {
        FileSnapshot::File { bytes, .. } if !bytes.is_empty() => Some(bytes),
        _ => None,
    };
    let encoding =
        old.and_then(|bytes| TextEncoding::detect_in_file(bytes)).unwrap_or(TextEncoding::UTF_8);
    // The byte order mark of the file stays; if the content starts with one, too, it is not
    // doubled.
    let own_mark = if encoding.has_byte_order_mark() { "\u{FEFF}" } else { "" };
    let mut text = content.strip_prefix(own_mark).unwrap_or(content).to_owned();
    let mut note = String::new();
    if old.is_some_and(|bytes| is_all_crlf(&encoding.decode(bytes)))
        && !text.contains('\r')
        && text.contains('\n')
    {
        text = text.replace('\n', "\r\n");
        note.push_str("; its CRLF line endings were kept");
    }
    if encoding != TextEncoding::UTF_8 {
        note.push_str(&format!("; its encoding, {}, was kept", encoding.name()));
    }
    let bytes = encoding.encode(&text).map_err(|error| {
        let message = format!("`{shown}`: {error}, which is the file's encoding; leave the character out, or delete the file first to write a new one in UTF-8");
        ToolError::invalid(ErrorReason::Encoding, message).with_detail("file", shown)
    })?;
    Ok(EncodedText { bytes, text, note })
}

fn is_all_crlf(text: &str) -> bool {
    let newlines = text.matches('\n').count();
    newlines > 0 && text.matches("\r\n").count() == newlines
}

fn diff_with_before(file: &ResolvedPath, before: &FileSnapshot, written: &EncodedText) -> FileDiff {
    let old = match before {
        FileSnapshot::File { bytes, .. } => Some(match TextEncoding::detect_in_file(bytes) {
            Some(encoding) => encoding.decode(bytes),
            None => format!("(binary, {})\n", ByteSize::bytes(bytes.len() as u64)),
        }),
        _ => None,
    };
    file_diff(file.display_path(), old.as_deref(), Some(&written.text))
}
