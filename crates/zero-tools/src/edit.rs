//! The Edit tool: replaces or inserts text in an existing file.

pub mod apply;
mod closest_match;
mod line_rewrite;
mod text_match;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::tool_result::ToolResultPart;
use zero_core::{
    Effect, Effects, ErrorReason, FileDiff, FileLocation, ResultDisplay, RiskLevel,
    SchemaViolation, TargetPath, TimeoutClass, ToolCategory, ToolError, ToolKind,
};
use zero_runtime::seen_files::{FileFreshness, stale_file_error};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::{FileSnapshot, FinalLinkMode, ResolvedPath, Workspace};

use self::apply::{EditApplyError, EditOperation, EditResult, MATCHES_MAX};
use crate::diff::file_diff;
use crate::editor_change_note;
use crate::file_backup;
use crate::file_path::locate_file;
use crate::lsp::{ChangedText, append_new_diagnostics, diagnostics_bounds};
use crate::path_not_found;
use crate::preview_fingerprint::PreviewFingerprint;
use crate::text_encoding::TextEncoding;

/// Most edits in one call.
const EDITS_MAX: usize = 100;

/// Changes parts of an existing file. Give `old_string` and `new_string` for one replacement, or
/// `edits` for several. The text to replace must match the file exactly, white space included, and
/// occur only once; add surrounding lines to make it unique, or set `replace_all`. Either all edits
/// are made or none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditArgs {
    /// Path of the file, absolute or relative to the workspace.
    file_path: String,
    /// The exact text to replace, without line numbers.
    old_string: Option<String>,
    /// The text to put in its place.
    new_string: Option<String>,
    /// Replace every occurrence instead of the only one.
    #[serde(default)]
    replace_all: bool,
    /// Several edits instead of one, made in this order.
    edits: Option<Vec<EditItem>>,
    /// Keep the earlier content beside it, as `NAME.bak`, or `NAME.bak1` and so on if that exists. False
    /// when absent, unless the settings say otherwise.
    #[serde(default)]
    backup: bool,
}

/// One of several edits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditItem {
    /// `replace` a text, or `insert` one before a line.
    #[serde(rename = "type")]
    kind: EditKind,
    /// For `replace`: the exact text to replace.
    #[serde(rename = "oldText")]
    old_text: Option<String>,
    /// The text to put there.
    #[serde(rename = "newText")]
    new_text: String,
    /// For `insert`: the line to put the text before, counted from 1; one past the last appends.
    #[schemars(range(min = 1))]
    line: Option<u64>,
}

/// The kind of an edit.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum EditKind {
    /// Replaces a text with another.
    Replace,
    /// Inserts a text before a line.
    Insert,
}

/// The result of an edit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditOutput {
    success: bool,
    /// Number of places changed.
    replacements: u64,
    /// Path of the backup. Absent if none was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<String>,
}

/// A validated call, with the resolved path.
#[derive(Debug)]
pub struct EditPlan {
    file: ResolvedPath,
    edits: Vec<EditOperation>,
    backup: Option<ResolvedPath>,
    previewed: PreviewFingerprint,
}

/// Replaces exact text in a file.
pub struct EditTool;

impl Tool for EditTool {
    type Args = EditArgs;
    type Output = EditOutput;
    type Plan = EditPlan;
    const NAME: &'static str = "Edit";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Edit file",
            category: ToolCategory::File,
            kind: ToolKind::Edit,
            risk: RiskLevel::Medium,
            timeout_class: TimeoutClass::File,
            idempotent: false,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        let effects = "changes one file; `zero undo` reverts it";
        ToolNotes::for_file_changes(effects)
            .with_bounds([ToolBound::count("edits in a call", EDITS_MAX)])
            .with_bounds(diagnostics_bounds())
    }

    fn plan(&self, args: EditArgs, workspace: &Workspace) -> Result<EditPlan, ToolError> {
        let file = locate_file(&args.file_path, workspace, FinalLinkMode::Follow)?;
        let backup =
            if args.backup { file_backup::find_free_path(&file, workspace)? } else { None };
        let edits = parse_operations(args).map_err(|wrong| ToolError::from_violations(&wrong))?;
        Ok(EditPlan { file, edits, backup, previewed: PreviewFingerprint::default() })
    }

    fn describe(&self, plan: &EditPlan) -> CallDescription {
        let locations = vec![FileLocation { path: plan.file.path().to_owned(), line: None }];
        let title = match plan.edits.len() {
            1 => format!("Edit `{}`", plan.file.display_path()),
            count => format!("Edit `{}` in {count} places", plan.file.display_path()),
        };
        CallDescription { title, locations }
    }

    fn effects(&self, plan: &EditPlan) -> Effects {
        let target = plan.file.target();
        let backup = plan.backup.as_ref().map(|backup| Effect::Write(backup.target().clone()));
        let effects = [Effect::Read(target.clone()), Effect::Write(target.clone())];
        effects.into_iter().chain(backup).collect()
    }

    fn path_effects(&self, path: TargetPath) -> Effects {
        vec![Effect::Read(path.clone()), Effect::Write(path)]
    }

    fn check(&self, plan: &EditPlan, cx: &CallContext) -> Result<(), ToolError> {
        match plan.file.facts()? {
            Some(_) => Ok(()),
            None => Err(path_not_found::not_found_error(&plan.file, cx)),
        }
    }

    fn rehearse(&self, plan: &EditPlan, cx: &CallContext) -> Result<(), ToolError> {
        plan.file.check_writable()?;
        apply_edits(plan, cx, &cx.snapshot(&plan.file)?).map(drop)
    }

    fn preview(&self, plan: &EditPlan, cx: &CallContext) -> Option<ResultDisplay> {
        let before = cx.snapshot(&plan.file).ok()?;
        plan.previewed.record(&before);
        let FileSnapshot::File { bytes, .. } = before else { return None };
        let text = EditableText::read(&bytes, plan.file.display_path()).ok()?;
        let edited = text.edit(plan).ok()?;
        Some(ResultDisplay::Diff(text.diff(plan, &edited)))
    }

    async fn run(
        &self,
        plan: Arc<EditPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<EditOutput>, ToolError> {
        let (reply, changed) = cx.run_blocking(move |cx| edit_file(&plan, cx)).await?;
        Ok(append_new_diagnostics(reply, changed, &cx).await)
    }
}

/// Returns the edits of a call in one form, or all violations that were found.
fn parse_operations(args: EditArgs) -> Result<Vec<EditOperation>, Vec<SchemaViolation>> {
    match args {
        EditArgs { edits: Some(edits), old_string, new_string, replace_all, .. } => {
            let beside = [
                ("/old_string", old_string.map(|_| "a string")),
                ("/new_string", new_string.map(|_| "a string")),
                ("/replace_all", replace_all.then_some("true")),
            ];
            let beside = beside.into_iter().filter_map(|(pointer, found)| {
                Some(SchemaViolation::new(pointer, "nothing beside `edits`", found?))
            });
            parse_edit_list(edits, beside.collect())
        }
        EditArgs { old_string: Some(old), new_string: Some(new), replace_all, .. } => {
            Ok(vec![EditOperation::Replace { old, new, all: replace_all }])
        }
        EditArgs { old_string: Some(_), .. } => Err(vec![SchemaViolation::new(
            "/new_string",
            "a string",
            "nothing (it goes with `old_string`)",
        )]),
        EditArgs { new_string: Some(_), .. } => Err(vec![SchemaViolation::new(
            "/old_string",
            "a string",
            "nothing (it goes with `new_string`)",
        )]),
        _ => Err(vec![SchemaViolation::new(
            "",
            "`old_string` and `new_string`, or `edits`",
            "none of them",
        )]),
    }
}

fn parse_edit_list(
    edits: Vec<EditItem>,
    mut wrong: Vec<SchemaViolation>,
) -> Result<Vec<EditOperation>, Vec<SchemaViolation>> {
    match edits.len() {
        0 => wrong.push(SchemaViolation::new("/edits", "at least one edit", "none")),
        1..=EDITS_MAX => {}
        count => {
            let expected = format!("at most {EDITS_MAX} edits");
            wrong.push(SchemaViolation::new("/edits", expected, count.to_string()));
        }
    }
    let mut operations = Vec::with_capacity(edits.len());
    for (index, edit) in edits.into_iter().take(EDITS_MAX).enumerate() {
        match parse_operation(&format!("/edits/{index}"), edit) {
            Ok(operation) => operations.push(operation),
            Err(more) => wrong.extend(more),
        }
    }
    if wrong.is_empty() { Ok(operations) } else { Err(wrong) }
}

fn parse_operation(pointer: &str, edit: EditItem) -> Result<EditOperation, Vec<SchemaViolation>> {
    let (old_text, line) = (format!("{pointer}/oldText"), format!("{pointer}/line"));
    let mut wrong = Vec::new();
    match (edit.kind, edit.old_text, edit.line) {
        (EditKind::Replace, Some(old), None) => {
            return Ok(EditOperation::Replace { old, new: edit.new_text, all: false });
        }
        (EditKind::Insert, None, Some(line)) => {
            return Ok(EditOperation::Insert { line, text: edit.new_text });
        }
        (EditKind::Replace, old, number) => {
            if old.is_none() {
                wrong.push(SchemaViolation::new(&old_text, "the text to `replace`", "nothing"));
            }
            if let Some(number) = number {
                wrong.push(SchemaViolation::new(
                    &line,
                    "nothing for a `replace`",
                    number.to_string(),
                ));
            }
        }
        (EditKind::Insert, old, number) => {
            if number.is_none() {
                wrong.push(SchemaViolation::new(&line, "the line to `insert` before", "nothing"));
            }
            if old.is_some() {
                wrong.push(SchemaViolation::new(&old_text, "nothing for an `insert`", "a string"));
            }
        }
    }
    Err(wrong)
}

fn edit_file(
    plan: &EditPlan,
    cx: &CallContext,
) -> Result<(ToolReply<EditOutput>, Option<ChangedText>), ToolError> {
    let shown = plan.file.display_path();
    if let Some(backup) = &plan.backup {
        // Edits that cannot be made leave no backup.
        let before = cx.snapshot(&plan.file)?;
        apply_edits(plan, cx, &before)?;
        file_backup::save(backup, before, cx)?;
    }
    let (changed, (freshness, text, mut edited)) = cx.change_text(&plan.file, |before| {
        let AppliedEdits { freshness, text, edited, new } = apply_edits(plan, cx, before)?;
        Ok((new, (freshness, text, edited)))
    })?;
    let editor_note = editor_change_note::editor_change_note(
        &changed,
        &String::from_utf8_lossy(&edited.text),
        shown,
    );
    if editor_note.is_some() {
        edited.text.clone_from(&changed.bytes);
    }
    let diff = text.diff(plan, &edited);
    // If only the replaced text was known, the file still counts as not read.
    if let (Some(seen), Some(FileFreshness::Fresh)) = (cx.seen_files(), freshness) {
        changed.record_seen(plan.file.path(), seen);
    }
    let places = if edited.replacements == 1 { "place" } else { "places" };
    let note = edited.tolerance.note().map(|note| format!("; {note}")).unwrap_or_default();
    let backup = plan.backup.as_ref().map(|backup| backup.display_path().to_owned());
    let kept = backup.as_ref().map(|backup| format!("; the earlier content is in {backup}"));
    let notes = [Some(note), kept, editor_note].map(Option::unwrap_or_default).concat();
    let summary = format!("Edited {shown} in {} {places}{notes}", edited.replacements);
    let line = first_changed_line(&diff);
    let reply = ToolReply {
        content: vec![ToolResultPart::Diff { summary, diff: diff.without_texts() }],
        display: ResultDisplay::Diff(diff),
        output: EditOutput { success: true, replacements: edited.replacements, backup },
        locations: vec![FileLocation { path: plan.file.path().to_owned(), line }],
    };
    Ok((reply, ChangedText::from_change(&plan.file, &changed)))
}

/// What the edits of a call make of a file.
struct AppliedEdits {
    freshness: Option<FileFreshness>,
    text: EditableText,
    edited: EditResult,
    /// The new content, in the encoding of the file.
    new: Vec<u8>,
}

/// Applies the edits to the state of a file, or returns why they cannot be made.
fn apply_edits(
    plan: &EditPlan,
    cx: &CallContext,
    before: &FileSnapshot,
) -> Result<AppliedEdits, ToolError> {
    let shown = plan.file.display_path();
    if edits_by_line(plan) {
        plan.previewed.check_unchanged(before, shown)?;
    }
    let freshness = check_freshness(plan, cx, before)?;
    let FileSnapshot::File { bytes, .. } = before else {
        return Err(path_not_found::not_found_error(&plan.file, cx));
    };
    let text = EditableText::read(bytes, shown)?;
    let edited = text.edit(plan)?;
    let new = text.encode(&edited, shown)?;
    if new == *bytes {
        let message = format!("the edits do not change `{shown}`");
        return Err(ToolError::invalid(ErrorReason::NoChange, message).with_detail("file", shown));
    }
    Ok(AppliedEdits { freshness, text, edited, new })
}

/// Returns whether an edit depends on line numbers. A text that occurs exactly once proves that the
/// caller knows it, and replacing it is the same change whatever else in the file changed. A line
/// number proves nothing.
fn edits_by_line(plan: &EditPlan) -> bool {
    plan.edits.iter().any(|edit| matches!(edit, EditOperation::Insert { .. }))
}

/// Returns what the session knows about the file, or `None` outside a session. A file that changed
/// since it was read is refused, whichever way it is edited.
fn check_freshness(
    plan: &EditPlan,
    cx: &CallContext,
    before: &FileSnapshot,
) -> Result<Option<FileFreshness>, ToolError> {
    let Some(seen) = cx.seen_files() else { return Ok(None) };
    match seen.freshness(plan.file.path(), before) {
        FileFreshness::Fresh => Ok(Some(FileFreshness::Fresh)),
        FileFreshness::Unseen if !edits_by_line(plan) => Ok(Some(FileFreshness::Unseen)),
        other => Err(stale_file_error(plan.file.display_path(), other)),
    }
}

/// A file's text in a form that can be edited.
///
/// UTF-8 is edited as bytes, so that invalid bytes are preserved. Other encodings are edited as
/// text, and only if encoding the decoded text gives the same bytes again.
struct EditableText {
    encoding: TextEncoding,
    body: Vec<u8>,
}

impl EditableText {
    fn read(bytes: &[u8], shown: &str) -> Result<Self, ToolError> {
        let Some(encoding) = TextEncoding::detect_in_file(bytes) else {
            let message = format!("`{shown}` is not a text file; Edit changes text only");
            return Err(ToolError::invalid(ErrorReason::Binary, message).with_detail("file", shown));
        };
        if encoding.is_utf8() {
            let body = bytes.strip_prefix(encoding.byte_order_mark()).unwrap_or(bytes).to_vec();
            return Ok(Self { encoding, body });
        }
        let text = encoding.decode(bytes);
        if encoding.encode(&text).ok().as_deref() != Some(bytes) {
            let message = format!(
                "`{shown}` is not valid {}; editing it would change other parts of it",
                encoding.name()
            );
            return Err(
                ToolError::invalid(ErrorReason::Encoding, message).with_detail("file", shown)
            );
        }
        Ok(Self { encoding, body: text.into_bytes() })
    }

    fn edit(&self, plan: &EditPlan) -> Result<EditResult, ToolError> {
        apply::apply(&self.body, &plan.edits)
            .map_err(|(index, problem)| explain_error(plan, index, &problem, &self.body))
    }

    fn encode(&self, edited: &EditResult, shown: &str) -> Result<Vec<u8>, ToolError> {
        if self.encoding.is_utf8() {
            return Ok([self.encoding.byte_order_mark(), &edited.text].concat());
        }
        self.encoding.encode(&String::from_utf8_lossy(&edited.text)).map_err(|error| {
            let message = format!(
                "`{shown}`: {error}, which is the file's encoding; leave the character out"
            );
            ToolError::invalid(ErrorReason::Encoding, message).with_detail("file", shown)
        })
    }

    fn diff(&self, plan: &EditPlan, edited: &EditResult) -> FileDiff {
        let (old, new) =
            (String::from_utf8_lossy(&self.body), String::from_utf8_lossy(&edited.text));
        file_diff(plan.file.display_path(), Some(&old), Some(&new))
    }
}

fn explain_error(
    plan: &EditPlan,
    index: usize,
    problem: &EditApplyError,
    text: &[u8],
) -> ToolError {
    let shown = plan.file.display_path();
    let which = if plan.edits.len() > 1 { format!("edit {}: ", index + 1) } else { String::new() };
    let error = match problem {
        EditApplyError::EmptyOld => ToolError::invalid(
            ErrorReason::NoMatch,
            format!(
                "{which}the text to replace is empty; give the exact text, or write the whole file"
            ),
        ),
        EditApplyError::SameText => ToolError::invalid(
            ErrorReason::NoChange,
            format!("{which}the new text is the same as the old; nothing was changed"),
        ),
        EditApplyError::Ambiguous { lines, count } => {
            let more = if *count > MATCHES_MAX { ", …" } else { "" };
            let word = if lines.len() == 1 { "line" } else { "lines" };
            let places: Vec<String> = lines.iter().map(usize::to_string).collect();
            let message = format!(
                "{which}the text to replace occurs {count} times in `{shown}`, at {word} {}{more}; add surrounding lines to make it unique, or replace all of them",
                places.join(", ")
            );
            ToolError::invalid(ErrorReason::AmbiguousMatch, message)
                .with_detail("lines", lines.clone())
                .with_detail("count", *count)
        }
        EditApplyError::NoSuchLine { line, highest } => {
            let message = format!(
                "{which}`{shown}` has no line {line} to insert before; the highest is {highest}, which appends"
            );
            ToolError::invalid(ErrorReason::OutOfRange, message)
        }
        EditApplyError::NoMatch => no_match_error(plan, index, &which, text),
    };
    error.with_detail("file", shown).with_detail("edit", index + 1)
}

fn no_match_error(plan: &EditPlan, index: usize, which: &str, text: &[u8]) -> ToolError {
    let shown = plan.file.display_path();
    let message = format!("{which}the text to replace is not in `{shown}`");
    let old = match &plan.edits[index] {
        EditOperation::Replace { old, .. } => old.as_str(),
        EditOperation::Insert { .. } => "",
    };
    match closest_match::find_closest(&String::from_utf8_lossy(text), old) {
        Some(place) => ToolError::invalid(
            ErrorReason::NoMatch,
            format!(
                "{message}; copy it exactly, white space included. The closest match is:\n{}",
                place.excerpt
            ),
        )
        .with_detail("closest_line", place.line),
        None => ToolError::invalid(
            ErrorReason::NoMatch,
            format!("{message}, nor anything like it; read the file again"),
        ),
    }
}

/// Returns the line of the new file with the first change.
fn first_changed_line(diff: &FileDiff) -> Option<u64> {
    let (header, body) = diff.unified.split_once('\n')?;
    let start = header.split('+').nth(1)?.split([',', ' ']).next()?.parse::<u64>().ok()?;
    let above = body.lines().take_while(|line| line.starts_with(' ')).count() as u64;
    Some(start + above)
}
