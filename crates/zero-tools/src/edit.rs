//! Changes parts of a file.

pub mod apply;
mod closest;
mod find;
mod rewrite;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::result::Content;
use zero_core::{
    Category, Display, Effect, Effects, FileDiff, Kind, Location, Reason, Risk, TimeoutClass,
    ToolError,
};
use zero_runtime::seen_files::{Freshness, stale_file};
use zero_runtime::{About, CallContext, Description, Tool, ToolReply};
use zero_sandbox::{Change, LastLink, Located, Snapshot, Workspace};

use self::apply::{EditOp, EditProblem, Edited};
use crate::diff::file_diff;
use crate::previewed::Previewed;
use crate::text::TextEncoding;

/// Edits in one call.
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
    edits: Option<Vec<EditArg>>,
}

/// One of several edits.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditArg {
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

/// What an edit does.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum EditKind {
    /// Puts a text in the place of another.
    Replace,
    /// Puts a text before a line.
    Insert,
}

/// How much was changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EditOutput {
    success: bool,
    /// Places changed.
    replacements: u64,
}

/// Edits whose place is settled.
#[derive(Debug)]
pub struct EditPlan {
    file: Located,
    edits: Vec<EditOp>,
    previewed: Previewed,
}

/// Changes parts of a file.
pub struct Edit;

impl Tool for Edit {
    type Args = EditArgs;
    type Output = EditOutput;
    type Plan = EditPlan;
    const NAME: &'static str = "Edit";

    fn about(&self) -> About {
        About {
            display_name: "Edit File",
            category: Category::File,
            kind: Kind::Edit,
            risk: Risk::Medium,
            timeout_class: TimeoutClass::File,
            idempotent: false,
            fallback: None,
        }
    }

    fn plan(&self, args: EditArgs, workspace: &Workspace) -> Result<EditPlan, ToolError> {
        let file = workspace.locate(&args.file_path, LastLink::Follow)?;
        if file.facts()?.is_none() {
            return Err(file.not_found());
        }
        Ok(EditPlan { file, edits: operations(args)?, previewed: Previewed::default() })
    }

    fn describe(&self, plan: &EditPlan) -> Description {
        let locations = vec![Location { path: plan.file.path().to_owned(), line: None }];
        let title = match plan.edits.len() {
            1 => format!("Edit `{}`", plan.file.shown()),
            count => format!("Edit `{}` in {count} places", plan.file.shown()),
        };
        Description { title, locations }
    }

    fn effects(&self, plan: &EditPlan) -> Effects {
        let target = plan.file.target();
        vec![Effect::Read(target.clone()), Effect::Write(target.clone())]
    }

    fn preview(&self, plan: &EditPlan, cx: &CallContext) -> Option<Display> {
        let before = cx.journal().read(&plan.file).ok()?;
        plan.previewed.remember(&before);
        let Snapshot::File { bytes, .. } = before else { return None };
        let text = Text::read(&bytes, plan.file.shown()).ok()?;
        let edited = text.edit(plan).ok()?;
        Some(Display::Diff(text.diff(plan, &edited)))
    }

    async fn run(
        &self,
        plan: Arc<EditPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<EditOutput>, ToolError> {
        cx.blocking(move |cx| edit(&plan, cx)).await
    }
}

/// The edits asked for, in one form.
fn operations(args: EditArgs) -> Result<Vec<EditOp>, ToolError> {
    let wrong = |message: String| Err(ToolError::invalid(Reason::SchemaViolation, message));
    match (args.old_string, args.new_string, args.edits) {
        (Some(old), Some(new), None) => {
            Ok(vec![EditOp::Replace { old, new, all: args.replace_all }])
        }
        (None, None, Some(edits)) if edits.is_empty() => {
            wrong("/edits: expected at least one edit".to_owned())
        }
        (None, None, Some(edits)) if edits.len() > EDITS_MAX => {
            wrong(format!("/edits: expected at most {EDITS_MAX} edits, found {}", edits.len()))
        }
        (None, None, Some(edits)) => edits
            .into_iter()
            .enumerate()
            .map(|(index, edit)| operation(index, edit, args.replace_all))
            .collect(),
        (Some(_), None, None) => wrong(
            "/new_string: expected a string, found nothing (it goes with `old_string`)".to_owned(),
        ),
        (None, Some(_), None) => wrong(
            "/old_string: expected a string, found nothing (it goes with `new_string`)".to_owned(),
        ),
        (None, None, None) => {
            wrong("the input: expected `old_string` and `new_string`, or `edits`".to_owned())
        }
        _ => wrong(
            "the input: expected either `old_string` and `new_string`, or `edits`, not both"
                .to_owned(),
        ),
    }
}

fn operation(index: usize, edit: EditArg, all: bool) -> Result<EditOp, ToolError> {
    match (edit.kind, edit.old_text, edit.line) {
        (EditKind::Replace, Some(old), None) => {
            Ok(EditOp::Replace { old, new: edit.new_text, all })
        }
        (EditKind::Insert, None, Some(line)) => Ok(EditOp::Insert { line, text: edit.new_text }),
        (kind, ..) => {
            let wanted = match kind {
                EditKind::Replace => "`oldText` and no `line` for a replacement",
                EditKind::Insert => "`line` and no `oldText` for an insertion",
            };
            Err(ToolError::invalid(
                Reason::SchemaViolation,
                format!("/edits/{index}: expected {wanted}"),
            ))
        }
    }
}

fn edit(plan: &EditPlan, cx: &CallContext) -> Result<ToolReply<EditOutput>, ToolError> {
    let shown = plan.file.shown();
    let mut done = None;
    let applied = cx.journal().change(
        &plan.file,
        &cx.change_note(),
        || cx.check_cancelled(),
        |before| {
            if by_line(plan) {
                plan.previewed.check(before, shown)?;
            }
            must_be_fresh(plan, cx, before)?;
            let Snapshot::File { bytes, .. } = before else { return Err(plan.file.not_found()) };
            let text = Text::read(bytes, shown)?;
            let edited = text.edit(plan)?;
            let new = text.encode(&edited, shown)?;
            if new == *bytes {
                let message = format!("the edits leave `{shown}` as it is; nothing was changed");
                return Err(ToolError::invalid(Reason::NoChange, message).with("file", shown));
            }
            done = Some((text.diff(plan, &edited), edited, new.clone()));
            Ok(Change::Replace(new))
        },
    )?;
    let (diff, edited, bytes) =
        done.ok_or_else(|| ToolError::failed(Reason::Io, "nothing was changed"))?;
    if let (Some(seen), Some(facts)) = (cx.seen(), applied.after) {
        seen.saw(plan.file.path(), facts, Some(&bytes));
    }
    let places = if edited.replacements == 1 { "place" } else { "places" };
    let note = edited.tolerance.note().map(|note| format!("; {note}")).unwrap_or_default();
    let summary = format!("Edited {shown} in {} {places}{note}", edited.replacements);
    let line = first_changed_line(&diff);
    Ok(ToolReply {
        content: vec![Content::Diff { summary, diff: diff.clone() }],
        display: Display::Diff(diff),
        output: EditOutput { success: true, replacements: edited.replacements },
        locations: vec![Location { path: plan.file.path().to_owned(), line }],
    })
}

/// A text that is there once proves that whoever named it knows it, and replacing it is the same
/// change whatever happened elsewhere in the file. A line number proves nothing.
fn by_line(plan: &EditPlan) -> bool {
    plan.edits.iter().any(|edit| matches!(edit, EditOp::Insert { .. }))
}

/// A file that was read and has changed since is refused, whichever way it is edited.
fn must_be_fresh(plan: &EditPlan, cx: &CallContext, before: &Snapshot) -> Result<(), ToolError> {
    let Some(seen) = cx.seen() else { return Ok(()) };
    match seen.freshness(plan.file.path(), before) {
        Freshness::Fresh => Ok(()),
        Freshness::Unseen if !by_line(plan) => Ok(()),
        other => Err(stale_file(plan.file.shown(), other)),
    }
}

/// A file's text in a form that edits work on.
///
/// UTF-8 is edited as bytes, so that bytes which are no text stay what they are. Other encodings
/// are edited as text, and only if writing the text back would give the same bytes again.
struct Text {
    encoding: TextEncoding,
    body: Vec<u8>,
}

impl Text {
    fn read(bytes: &[u8], shown: &str) -> Result<Self, ToolError> {
        let Some(encoding) = TextEncoding::detect(bytes, true) else {
            let message = format!("`{shown}` is not a text file; Edit changes text only");
            return Err(ToolError::invalid(Reason::Binary, message).with("file", shown));
        };
        if encoding.is_utf8() {
            let body = bytes.strip_prefix(encoding.mark()).unwrap_or(bytes).to_vec();
            return Ok(Self { encoding, body });
        }
        let text = encoding.decode(bytes);
        if encoding.encode(&text).ok().as_deref() != Some(bytes) {
            let message = format!(
                "`{shown}` is not clean {}; editing it would change other parts of it",
                encoding.name()
            );
            return Err(ToolError::invalid(Reason::Encoding, message).with("file", shown));
        }
        Ok(Self { encoding, body: text.into_bytes() })
    }

    fn edit(&self, plan: &EditPlan) -> Result<Edited, ToolError> {
        apply::apply(&self.body, &plan.edits)
            .map_err(|(index, problem)| explain(plan, index, &problem, &self.body))
    }

    fn encode(&self, edited: &Edited, shown: &str) -> Result<Vec<u8>, ToolError> {
        if self.encoding.is_utf8() {
            return Ok([self.encoding.mark(), &edited.text].concat());
        }
        self.encoding.encode(&String::from_utf8_lossy(&edited.text)).map_err(|error| {
            let message = format!(
                "`{shown}`: {error}, which is the file's encoding; leave the character out"
            );
            ToolError::invalid(Reason::Encoding, message).with("file", shown)
        })
    }

    fn diff(&self, plan: &EditPlan, edited: &Edited) -> FileDiff {
        let (old, new) =
            (String::from_utf8_lossy(&self.body), String::from_utf8_lossy(&edited.text));
        file_diff(plan.file.shown(), Some(&old), Some(&new))
    }
}

fn explain(plan: &EditPlan, index: usize, problem: &EditProblem, text: &[u8]) -> ToolError {
    let shown = plan.file.shown();
    let which = if plan.edits.len() > 1 { format!("edit {}: ", index + 1) } else { String::new() };
    let error = match problem {
        EditProblem::EmptyOld => ToolError::invalid(
            Reason::NoMatch,
            format!(
                "{which}the text to replace is empty; give the exact text, or use Write for a whole file"
            ),
        ),
        EditProblem::SameText => ToolError::invalid(
            Reason::NoChange,
            format!("{which}the new text is the same as the old; nothing was changed"),
        ),
        EditProblem::Ambiguous { lines, count } => {
            let more = if *count > lines.len() { ", …" } else { "" };
            let places: Vec<String> = lines.iter().map(usize::to_string).collect();
            let message = format!(
                "{which}the text to replace occurs {count} times in `{shown}`, at lines {}{more}; add surrounding lines to make it unique, or replace all of them",
                places.join(", ")
            );
            ToolError::invalid(Reason::AmbiguousMatch, message)
                .with("lines", lines.clone())
                .with("count", *count)
        }
        EditProblem::NoSuchLine { line, highest } => {
            let message = format!(
                "{which}`{shown}` has no line {line} to insert before; the highest is {highest}, which appends"
            );
            ToolError::invalid(Reason::NoMatch, message)
        }
        EditProblem::NoMatch => not_found(plan, index, &which, text),
    };
    error.with("file", shown).with("edit", index)
}

fn not_found(plan: &EditPlan, index: usize, which: &str, text: &[u8]) -> ToolError {
    let shown = plan.file.shown();
    let message = format!("{which}the text to replace is not in `{shown}`");
    let old = match &plan.edits[index] {
        EditOp::Replace { old, .. } => old.as_str(),
        EditOp::Insert { .. } => "",
    };
    match closest::closest(&String::from_utf8_lossy(text), old) {
        Some(place) => ToolError::invalid(
            Reason::NoMatch,
            format!(
                "{message}; copy it exactly, white space included. The closest place is:\n{}",
                place.excerpt
            ),
        )
        .with("closest_line", place.line),
        None => ToolError::invalid(
            Reason::NoMatch,
            format!("{message}, nor anything like it; read the file again"),
        ),
    }
}

/// The line of the new file where the first change is.
fn first_changed_line(diff: &FileDiff) -> Option<u64> {
    let (header, body) = diff.unified.split_once('\n')?;
    let start = header.split('+').nth(1)?.split([',', ' ']).next()?.parse::<u64>().ok()?;
    let above = body.lines().take_while(|line| line.starts_with(' ')).count() as u64;
    Some(start + above)
}
