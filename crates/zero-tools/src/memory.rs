//! Memory: notes that outlive a session.

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
use crate::text_format::counted;

/// Most of a note's first line that a list shows, in characters.
const SUMMARY_CHARS_MAX: usize = 120;
/// Most notes that a search tells in full.
const FOUND_MAX: usize = 20;

/// A note.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct MemoryNote {
    /// `project` or `user`.
    pub scope: String,
    /// Its name.
    pub name: String,
    /// What it says; in a list the beginning.
    pub text: String,
    /// Where it comes from.
    pub origin: String,
}

/// The notes that a call was about.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryOutput {
    /// The notes: those that were found, or the one that was kept or forgotten.
    pub notes: Vec<MemoryNote>,
}

/// Keeps, finds and forgets notes.
pub struct MemoryTool;

impl Tool for MemoryTool {
    type Args = MemoryArgs;
    type Output = MemoryOutput;
    type Plan = MemoryPlan;
    const NAME: &'static str = "Memory";

    fn about(&self) -> ToolInfo {
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

    fn particulars(&self) -> ToolNotes {
        let effects = "keeps, changes or removes a note, which later sessions are told; reading notes changes nothing";
        ToolNotes::of(effects).within([
            ToolBound::bytes("a note", TEXT_BYTES_MAX),
            ToolBound::count("notes of a scope", NOTES_MAX),
            ToolBound::characters("a name", NAME_CHARS_MAX),
            ToolBound::characters("`query`", args::QUERY_CHARS_MAX),
            ToolBound::count("notes that a search tells", FOUND_MAX),
            ToolBound::characters("of each note in a list", SUMMARY_CHARS_MAX),
        ])
    }

    fn plan(&self, args: MemoryArgs, workspace: &Workspace) -> Result<MemoryPlan, ToolError> {
        let wish = args.settled()?;
        let changes = changes(&wish, workspace.cwd());
        Ok(MemoryPlan { wish, changes })
    }

    fn describe(&self, plan: &MemoryPlan) -> CallDescription {
        let place = |scope: NoteScope| match scope {
            NoteScope::Project => "for this project",
            NoteScope::User => "for all your work",
        };
        let title = match &plan.wish {
            MemoryRequest::Save { scope, name, .. } => {
                format!("Remember `{name}` {}", place(*scope))
            }
            MemoryRequest::Forget { scope: Some(scope), name } => {
                format!("Forget `{name}`, kept {}", place(*scope))
            }
            MemoryRequest::Forget { scope: None, name } => format!("Forget `{name}`"),
            MemoryRequest::Read { name, .. } => format!("Recall `{name}`"),
            MemoryRequest::List { .. } => "List what is remembered".to_owned(),
            MemoryRequest::Search { words, .. } => {
                format!("Recall {}", sanitize::quoted(&words.join(" ")))
            }
        };
        CallDescription { title, locations: Vec::new() }
    }

    fn effects(&self, plan: &MemoryPlan) -> Effects {
        match &plan.wish {
            // What later sessions are told is for the person to decide about.
            MemoryRequest::Save { .. } | MemoryRequest::Forget { .. } => plan.changes.clone(),
            MemoryRequest::List { .. }
            | MemoryRequest::Read { .. }
            | MemoryRequest::Search { .. } => {
                vec![Effect::State("what is recalled".to_owned())]
            }
        }
    }

    fn preview(&self, plan: &MemoryPlan, _cx: &CallContext) -> Option<ResultDisplay> {
        match &plan.wish {
            MemoryRequest::Save { text, .. } => {
                Some(ResultDisplay::markdown(sanitize::block(text, "markdown")))
            }
            _ => None,
        }
    }

    async fn run(
        &self,
        plan: Arc<MemoryPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<MemoryOutput>, ToolError> {
        cx.blocking(move |cx| {
            let Some(memories) = cx.companion::<NoteStoreSet>() else {
                let message = "nothing is remembered here; put what matters into your reply";
                return Err(ToolError::not_found(ErrorReason::ServerUnavailable, message));
            };
            MemoryCall { memories: &memories, cx }.make(&plan.wish)
        })
        .await
    }
}

/// What becomes of notes, seen from a workspace. Where nobody says whose a note is that goes, it may be
/// either's.
fn changes(wish: &MemoryRequest, root: &Path) -> Effects {
    let (scope, name, forgets) = match wish {
        MemoryRequest::Save { scope, name, .. } => (Some(*scope), name, false),
        MemoryRequest::Forget { scope, name } => (*scope, name, true),
        MemoryRequest::List { .. } | MemoryRequest::Read { .. } | MemoryRequest::Search { .. } => {
            return Vec::new();
        }
    };
    let scopes = NoteScope::ALL.into_iter().filter(|one| scope.is_none_or(|scope| scope == *one));
    scopes.map(|scope| Effect::Note(scope.change(name, forgets, root))).collect()
}

/// What a call works with.
struct MemoryCall<'a> {
    memories: &'a NoteStoreSet,
    cx: &'a CallContext,
}

impl MemoryCall<'_> {
    fn make(&self, wish: &MemoryRequest) -> Result<ToolReply<MemoryOutput>, ToolError> {
        match wish {
            MemoryRequest::Save { scope, name, text } => {
                let session = self.cx.session().map(ToString::to_string);
                let provenance = NoteProvenance::agent(session);
                let (scope, name, text) = (*scope, name.clone(), text.clone());
                let note = Note { scope, name, text, provenance };
                let signed = self.cx.change_note();
                let shelf = self.shelf(scope)?;
                let replaced = shelf.put(&note, &signed, || self.cx.check_cancelled())?;
                let what = if replaced { "Replaced the note" } else { "Remembered as" };
                let said = format!("{what} `{}` ({}).", note.name, scope.word());
                Ok(ToolReply::text(said, MemoryOutput { notes: vec![told(&note)] }))
            }
            MemoryRequest::Forget { scope, name } => {
                let note = self.find(*scope, name)?;
                let shelf = self.shelf(note.scope)?;
                shelf.forget(name, &self.cx.change_note(), || self.cx.check_cancelled())?;
                let said = format!("Forgot `{name}` ({}).", note.scope.word());
                Ok(ToolReply::text(said, MemoryOutput { notes: vec![told(&note)] }))
            }
            MemoryRequest::Read { scope, name } => {
                let note = self.find(*scope, name)?;
                Ok(ToolReply::text(in_full(&note), MemoryOutput { notes: vec![told(&note)] }))
            }
            MemoryRequest::List { scope } => {
                let (notes, more) = self.notes(*scope)?;
                let line = |note: &Note| {
                    let (name, scope) = (&note.name, note.scope.word());
                    format!("- {name} ({scope}): {}", note.first_line(SUMMARY_CHARS_MAX))
                };
                let mut lines: Vec<String> = notes.iter().map(line).collect();
                lines.extend((more > 0).then(|| format!("({more} more are not shown)")));
                let text = match lines.is_empty() {
                    true => "Nothing is remembered yet.".to_owned(),
                    false => lines.join("\n"),
                };
                let short = |note: &Note| MemoryNote {
                    text: note.first_line(SUMMARY_CHARS_MAX),
                    ..told(note)
                };
                let notes = notes.iter().map(short).collect();
                Ok(ToolReply::text(text, MemoryOutput { notes }))
            }
            MemoryRequest::Search { scope, words } => {
                let (mut notes, _) = self.notes(*scope)?;
                notes.retain(|note| note.holds(words));
                let found = counted(notes.len() as u64, "note", "notes");
                let mut parts = match notes.is_empty() {
                    true => vec!["No note holds these words.".to_owned()],
                    false => vec![format!("{found} found:")],
                };
                parts.extend(notes.iter().take(FOUND_MAX).map(in_full));
                if notes.len() > FOUND_MAX {
                    parts.push(format!("({} more: use more words)", notes.len() - FOUND_MAX));
                }
                let notes = notes.iter().take(FOUND_MAX).map(told).collect();
                Ok(ToolReply::text(parts.join("\n\n"), MemoryOutput { notes }))
            }
        }
    }

    fn shelf(&self, scope: NoteScope) -> Result<NoteStore, ToolError> {
        self.memories.made_shelf(scope, self.cx.workspace())
    }

    fn notes(&self, scope: Option<NoteScope>) -> Result<(Vec<Note>, usize), ToolError> {
        let may_read = |scope: NoteScope, path: &Path| self.may_read(scope, path);
        self.memories.notes(scope, self.cx.workspace(), &may_read)
    }

    fn find(&self, scope: Option<NoteScope>, name: &NoteName) -> Result<Note, ToolError> {
        let may_read = |scope: NoteScope, path: &Path| self.may_read(scope, path);
        self.memories.find(scope, name, self.cx.workspace(), &may_read)
    }

    /// Rules may keep files of the project from being read; the person's notes are no such files.
    fn may_read(&self, scope: NoteScope, path: &Path) -> bool {
        scope == NoteScope::User || self.cx.may_read(path, path)
    }
}

/// A note with where it comes from. What it says is set off: it is information, and no order.
fn in_full(note: &Note) -> String {
    let Note { scope, name, text, provenance } = note;
    format!("{name} ({}, {provenance})\n{}", scope.word(), sanitize::block(text, "markdown"))
}

fn told(note: &Note) -> MemoryNote {
    MemoryNote {
        scope: note.scope.word().to_owned(),
        name: note.name.to_string(),
        text: note.text.clone(),
        origin: note.provenance.to_string(),
    }
}

#[cfg(test)]
mod tests;
