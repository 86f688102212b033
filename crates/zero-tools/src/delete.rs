//! The Delete tool: deletes one file or symlink.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::tool_result::ToolResultPart;
use zero_core::{
    ByteSize, Effect, Effects, ErrorReason, FileLocation, ResultDisplay, RiskLevel, TargetPath,
    TimeoutClass, ToolCategory, ToolError, ToolKind,
};
use zero_runtime::{CallContext, CallDescription, Tool, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::{FileChange, FileSnapshot, FileType, FinalLinkMode, ResolvedPath, Workspace};

use crate::diff::file_diff;
use crate::file_path::locate_file;
use crate::path_not_found;
use crate::preview_fingerprint::PreviewFingerprint;
use crate::text_encoding::TextEncoding;

/// Deletes one file or link; a link's target stays. Folders are not deleted. The user can restore
/// the file with `zero undo`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteArgs {
    /// Path of the file, absolute or relative to the workspace.
    file_path: String,
}

/// The result of a deletion.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeleteOutput {
    success: bool,
}

/// A validated call, with the resolved path.
#[derive(Debug)]
pub struct DeletePlan {
    file: ResolvedPath,
    previewed: PreviewFingerprint,
}

/// Removes a file or folder, with a way back.
pub struct DeleteTool;

impl Tool for DeleteTool {
    type Args = DeleteArgs;
    type Output = DeleteOutput;
    type Plan = DeletePlan;
    const NAME: &'static str = "Delete";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Delete file",
            category: ToolCategory::File,
            kind: ToolKind::Delete,
            risk: RiskLevel::Critical,
            timeout_class: TimeoutClass::File,
            idempotent: false,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("deletes one file or link; `zero undo` restores it")
    }

    fn plan(&self, args: DeleteArgs, workspace: &Workspace) -> Result<DeletePlan, ToolError> {
        let file = locate_file(&args.file_path, workspace, FinalLinkMode::Keep)?;
        Ok(DeletePlan { file, previewed: PreviewFingerprint::default() })
    }

    fn describe(&self, plan: &DeletePlan) -> CallDescription {
        let locations = vec![FileLocation { path: plan.file.path().to_owned(), line: None }];
        CallDescription { title: format!("Delete `{}`", plan.file.display_path()), locations }
    }

    fn effects(&self, plan: &DeletePlan) -> Effects {
        vec![Effect::Delete(plan.file.target().clone())]
    }

    fn path_effects(&self, path: TargetPath) -> Effects {
        vec![Effect::Delete(path)]
    }

    fn check(&self, plan: &DeletePlan, cx: &CallContext) -> Result<(), ToolError> {
        let shown = plan.file.display_path();
        let (reason, message) = match plan.file.facts()?.map(|facts| facts.file_type) {
            Some(FileType::File | FileType::Symlink) => return Ok(()),
            Some(FileType::Directory) => (
                ErrorReason::IsDirectory,
                format!("`{shown}` is a folder; only single files are deleted"),
            ),
            Some(FileType::Special) => {
                let message =
                    format!("`{shown}` is a pipe, socket or device, which is not deleted");
                (ErrorReason::SpecialFile, message)
            }
            None => return Err(path_not_found::not_found_error(&plan.file, cx)),
        };
        Err(ToolError::invalid(reason, message).with_detail("file", shown))
    }

    fn preview(&self, plan: &DeletePlan, cx: &CallContext) -> Option<ResultDisplay> {
        let before = cx.journal().read(&plan.file).ok()?;
        plan.previewed.record(&before);
        let FileSnapshot::File { bytes, .. } = before else { return None };
        let text = TextEncoding::detect_in_file(&bytes)?.decode(&bytes);
        Some(ResultDisplay::Diff(file_diff(plan.file.display_path(), Some(&text), None)))
    }

    async fn run(
        &self,
        plan: Arc<DeletePlan>,
        cx: CallContext,
    ) -> Result<ToolReply<DeleteOutput>, ToolError> {
        cx.run_blocking(move |cx| delete_file(&plan, cx)).await
    }
}

fn delete_file(plan: &DeletePlan, cx: &CallContext) -> Result<ToolReply<DeleteOutput>, ToolError> {
    let shown = plan.file.display_path();
    let applied = cx.journal().change(
        &plan.file,
        &cx.change_note(),
        || cx.check_cancelled(),
        |before| {
            plan.previewed.check_unchanged(before, shown)?;
            match before {
                FileSnapshot::Absent => Err(path_not_found::not_found_error(&plan.file, cx)),
                FileSnapshot::File { .. } | FileSnapshot::Symlink { .. } => Ok(FileChange::Remove),
            }
        },
    )?;
    if let Some(seen) = cx.seen_files() {
        seen.forget(plan.file.path());
    }
    let what = match &applied.before {
        FileSnapshot::File { bytes, .. } => ByteSize::bytes(bytes.len() as u64).to_string(),
        _ => "a link".to_owned(),
    };
    let summary = format!("Deleted {shown} ({what})");
    Ok(ToolReply {
        content: vec![ToolResultPart::Text(summary.clone())],
        display: ResultDisplay::markdown(format!(
            "{summary}; `zero undo {}` restores it",
            applied.id
        )),
        output: DeleteOutput { success: true },
        locations: vec![FileLocation { path: plan.file.path().to_owned(), line: None }],
    })
}
