//! The Memory tool: saves, finds and deletes notes that outlive a session.

mod args;

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use zero_core::{
    Effect, Effects, ErrorReason, ResultDisplay, RiskLevel, TimeoutClass, ToolCategory, ToolError,
    ToolKind, sanitize,
};
use zero_runtime::notes::{
    NAME_CHARS_MAX, NOTES_MAX, Note, NoteName, NoteProvenance, NoteScope, NoteStore, NoteStoreSet,
    TEXT_BYTES_MAX,
};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::Workspace;

pub use self::args::{MemoryAction, MemoryArgs, MemoryScopeName};
use self::args::{MemoryPlan, MemoryRequest};
use crate::text_format::pluralize;

/// Longest part of a note's first line in a list, in characters.
const SUMMARY_CHARS_MAX: usize = 120;
/// Most notes that a search returns in full.
const FOUND_MAX: usize = 20;

/// A saved note.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct MemoryNote {
    /// `project` or `user`.
    pub scope: String,
    /// Name of the note.
    pub name: String,
    /// Text of the note; in a list its beginning.
    pub text: String,
    /// Who wrote the note, and when.
    pub origin: String,
}

/// The notes that a call is about.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryOutput {
    /// The notes that were found, or the one that was saved or deleted.
    pub notes: Vec<MemoryNote>,
}

/// Keeps and finds notes for later sessions.
pub struct MemoryTool;

impl Tool for MemoryTool {
    type Args = MemoryArgs;
    type Output = MemoryOutput;
    type Plan = MemoryPlan;
    const NAME: &'static str = "Memory";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Remember",
            category: ToolCategory::Project,
            kind: ToolKind::Think,
            risk: RiskLevel::Medium,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        let effects = "saves, changes or deletes a note, which is added to the context of later sessions; reading notes changes nothing";
        ToolNotes::new(effects).with_bounds([
            ToolBound::bytes("a note", TEXT_BYTES_MAX),
            ToolBound::count("notes of a scope", NOTES_MAX),
            ToolBound::characters("a name", NAME_CHARS_MAX),
            ToolBound::characters("`query`", args::QUERY_CHARS_MAX),
            ToolBound::count("notes that a search returns", FOUND_MAX),
            ToolBound::characters("of each note in a list", SUMMARY_CHARS_MAX),
        ])
    }

    fn plan(&self, args: MemoryArgs, workspace: &Workspace) -> Result<MemoryPlan, ToolError> {
        let request = args.into_request()?;
        let changes = note_effects(&request, workspace.cwd());
        Ok(MemoryPlan { request, changes })
    }

    fn describe(&self, plan: &MemoryPlan) -> CallDescription {
        let place = |scope: NoteScope| match scope {
            NoteScope::Project => "for this project",
            NoteScope::User => "for all your work",
        };
        let title = match &plan.request {
            MemoryRequest::Save { scope, name, .. } => {
                format!("Remember `{name}` {}", place(*scope))
            }
            MemoryRequest::Forget { scope: Some(scope), name } => {
                format!("Forget `{name}`, kept {}", place(*scope))
            }
            MemoryRequest::Forget { scope: None, name } => format!("Forget `{name}`"),
            MemoryRequest::Read { name, .. } => format!("Recall `{name}`"),
            MemoryRequest::List { .. } => "List notes".to_owned(),
            MemoryRequest::Search { words, .. } => {
                format!("Recall {}", sanitize::to_quoted_line(&words.join(" ")))
            }
        };
        CallDescription { title, locations: Vec::new() }
    }

    fn effects(&self, plan: &MemoryPlan) -> Effects {
        match &plan.request {
            // The user decides what later sessions get to know.
            MemoryRequest::Save { .. } | MemoryRequest::Forget { .. } => plan.changes.clone(),
            MemoryRequest::List { .. }
            | MemoryRequest::Read { .. }
            | MemoryRequest::Search { .. } => {
                vec![Effect::State("what is recalled".to_owned())]
            }
        }
    }

    fn preview(&self, plan: &MemoryPlan, _cx: &CallContext) -> Option<ResultDisplay> {
        match &plan.request {
            MemoryRequest::Save { text, .. } => {
                Some(ResultDisplay::markdown(sanitize::to_code_block(text, "markdown")))
            }
            _ => None,
        }
    }

    async fn run(
        &self,
        plan: Arc<MemoryPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<MemoryOutput>, ToolError> {
        cx.run_blocking(move |cx| {
            let Some(memories) = cx.extension::<NoteStoreSet>() else {
                let message = "notes are not available here; put what matters into your reply";
                return Err(ToolError::not_found(ErrorReason::ServerUnavailable, message));
            };
            MemoryCall { memories: &memories, cx }.execute(&plan.request)
        })
        .await
    }
}

/// Returns the effects on notes, seen from a workspace. If a note to delete is given without scope,
/// it may be in either.
fn note_effects(request: &MemoryRequest, root: &Path) -> Effects {
    let (scope, name, forgets) = match request {
        MemoryRequest::Save { scope, name, .. } => (Some(*scope), name, false),
        MemoryRequest::Forget { scope, name } => (*scope, name, true),
        MemoryRequest::List { .. } | MemoryRequest::Read { .. } | MemoryRequest::Search { .. } => {
            return Vec::new();
        }
    };
    let scopes = NoteScope::ALL.into_iter().filter(|one| scope.is_none_or(|scope| scope == *one));
    scopes.map(|scope| Effect::Note(scope.note_change(name, forgets, root))).collect()
}

/// The context of a call.
struct MemoryCall<'a> {
    memories: &'a NoteStoreSet,
    cx: &'a CallContext,
}

impl MemoryCall<'_> {
    fn execute(&self, request: &MemoryRequest) -> Result<ToolReply<MemoryOutput>, ToolError> {
        match request {
            MemoryRequest::Save { scope, name, text } => {
                let session = self.cx.session().map(ToString::to_string);
                let provenance = NoteProvenance::from_agent(session);
                let (scope, name, text) = (*scope, name.clone(), text.clone());
                let note = Note { scope, name, text, provenance };
                let signed = self.cx.change_note();
                let note_store = self.note_store(scope)?;
                let replaced = note_store.put(&note, &signed, || self.cx.check_cancelled())?;
                let what = if replaced { "Replaced the note" } else { "Remembered as" };
                let summary = format!("{what} `{}` ({}).", note.name, scope.as_str());
                Ok(ToolReply::from_text(
                    summary,
                    MemoryOutput { notes: vec![to_memory_note(&note)] },
                ))
            }
            MemoryRequest::Forget { scope, name } => {
                let note = self.find_note(*scope, name)?;
                let store = self.note_store(note.scope)?;
                store.forget(name, &self.cx.change_note(), || self.cx.check_cancelled())?;
                let summary = format!("Forgot `{name}` ({}).", note.scope.as_str());
                Ok(ToolReply::from_text(
                    summary,
                    MemoryOutput { notes: vec![to_memory_note(&note)] },
                ))
            }
            MemoryRequest::Read { scope, name } => {
                let note = self.find_note(*scope, name)?;
                Ok(ToolReply::from_text(
                    render_note(&note),
                    MemoryOutput { notes: vec![to_memory_note(&note)] },
                ))
            }
            MemoryRequest::List { scope } => {
                let (notes, more) = self.readable_notes(*scope)?;
                let line = |note: &Note| {
                    let (name, scope) = (&note.name, note.scope.as_str());
                    format!("- {name} ({scope}): {}", note.first_line(SUMMARY_CHARS_MAX))
                };
                let mut lines: Vec<String> = notes.iter().map(line).collect();
                lines.extend((more > 0).then(|| format!("({more} more are not shown)")));
                let text = match lines.is_empty() {
                    true => "There are no notes yet.".to_owned(),
                    false => lines.join("\n"),
                };
                let short = |note: &Note| MemoryNote {
                    text: note.first_line(SUMMARY_CHARS_MAX),
                    ..to_memory_note(note)
                };
                let notes = notes.iter().map(short).collect();
                Ok(ToolReply::from_text(text, MemoryOutput { notes }))
            }
            MemoryRequest::Search { scope, words } => {
                let (mut notes, _) = self.readable_notes(*scope)?;
                notes.retain(|note| note.contains_words(words));
                let found = pluralize(notes.len() as u64, "note", "notes");
                let mut parts = match notes.is_empty() {
                    true => vec!["No note contains these words.".to_owned()],
                    false => vec![format!("{found} found:")],
                };
                parts.extend(notes.iter().take(FOUND_MAX).map(render_note));
                if notes.len() > FOUND_MAX {
                    parts.push(format!("({} more; use more words)", notes.len() - FOUND_MAX));
                }
                let notes = notes.iter().take(FOUND_MAX).map(to_memory_note).collect();
                Ok(ToolReply::from_text(parts.join("\n\n"), MemoryOutput { notes }))
            }
        }
    }

    fn note_store(&self, scope: NoteScope) -> Result<NoteStore, ToolError> {
        self.memories.open_or_create_store(scope, self.cx.workspace())
    }

    fn readable_notes(&self, scope: Option<NoteScope>) -> Result<(Vec<Note>, usize), ToolError> {
        let may_read = |scope: NoteScope, path: &Path| self.may_read(scope, path);
        self.memories.list_notes(scope, self.cx.workspace(), &may_read)
    }

    fn find_note(&self, scope: Option<NoteScope>, name: &NoteName) -> Result<Note, ToolError> {
        let may_read = |scope: NoteScope, path: &Path| self.may_read(scope, path);
        let hint = "list the notes to see their names";
        self.memories.find(scope, name, self.cx.workspace(), &may_read, hint)
    }

    /// Rules may deny reading files of the project. Notes of the user are not such files.
    fn may_read(&self, scope: NoteScope, path: &Path) -> bool {
        scope == NoteScope::User || self.cx.may_read(path, path)
    }
}

/// Renders a note with its origin. The text is quoted, because it is information and not an
/// instruction.
fn render_note(note: &Note) -> String {
    let Note { scope, name, text, provenance } = note;
    format!(
        "{name} ({}, {provenance})\n{}",
        scope.as_str(),
        sanitize::to_code_block(text, "markdown")
    )
}

fn to_memory_note(note: &Note) -> MemoryNote {
    MemoryNote {
        scope: note.scope.as_str().to_owned(),
        name: note.name.to_string(),
        text: note.text.clone(),
        origin: note.provenance.to_string(),
    }
}

#[cfg(test)]
mod tests;
