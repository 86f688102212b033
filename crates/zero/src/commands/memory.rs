//! `zero memory`: lists, shows, adds, edits and deletes notes.

mod edit;

use serde_json::{Value, json};
use zero_core::{ErrorType, ToolError, sanitize};
use zero_exec::check_creation;
use zero_runtime::notes::{
    Note, NoteName, NoteProvenance, NoteScope, NoteStoreSet, TEXT_BYTES_MAX,
};
use zero_sandbox::{ChangeOrigin, Workspace};

use crate::AppContext;
use crate::cli::{MemoryCommand, MemoryCommonArgs, MemoryScope};
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::{FAINT, STRONG, TextTable, escape_line, format_short_time};

/// Characters shown of the first line of a note in a list.
const SUMMARY_CHARS_MAX: usize = 80;

pub(super) fn run(app: &AppContext, command: &MemoryCommand) -> anyhow::Result<ExitOutcome> {
    let place = match command {
        MemoryCommand::List(args) => &args.place,
        MemoryCommand::Show(args) | MemoryCommand::Edit(args) | MemoryCommand::Forget(args) => {
            &args.place
        }
        MemoryCommand::Add(args) => &args.place,
        MemoryCommand::Search(args) => &args.place,
    };
    let workspace = app.config.open_workspace(place.workspace.as_slice())?;
    let memories = app.note_store(app.config.state_dir()?);
    let context = MemoryCommandContext { app, place, workspace, memories };
    let done = match command {
        MemoryCommand::List(_) => context.list(),
        MemoryCommand::Show(args) => context.show(&parse_name(&args.name)?),
        MemoryCommand::Edit(args) => context.edit(&parse_name(&args.name)?),
        MemoryCommand::Forget(args) => context.forget(&parse_name(&args.name)?),
        MemoryCommand::Search(args) => context.search(&args.words),
        MemoryCommand::Add(args) => {
            let text = args.text.join(" ").trim().to_owned();
            if !is_valid_text(&text) {
                return Err(UsageError(text_bounds_message()).into());
            }
            let name = match &args.name {
                Some(name) => parse_name(name)?,
                None => NoteName::from_text(&text),
            };
            context.add(name, text)
        }
    };
    match done {
        Ok(()) => Ok(ExitOutcome::Ok),
        Err(error) => match error.downcast::<ToolError>() {
            Ok(error) => context.report_failure(&error.with_tool("memory")),
            Err(error) => Err(error),
        },
    }
}

/// Error for a note text that is empty or too long.
fn text_bounds_message() -> String {
    format!("the text of a note must have 1 to {TEXT_BYTES_MAX} bytes")
}

fn is_valid_text(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len())
}

fn parse_name(name: &str) -> Result<NoteName, UsageError> {
    NoteName::new(name)
        .map_err(|error| UsageError(format!("{}: {error}", sanitize::to_quoted_line(name))))
}

/// Workspace, note stores and options of one command.
struct MemoryCommandContext<'a> {
    app: &'a AppContext,
    place: &'a MemoryCommonArgs,
    workspace: Workspace,
    memories: NoteStoreSet,
}

impl MemoryCommandContext<'_> {
    fn scope(&self) -> Option<NoteScope> {
        self.place.scope.map(|scope| match scope {
            MemoryScope::Project => NoteScope::Project,
            MemoryScope::User => NoteScope::User,
        })
    }

    fn list_notes(&self) -> anyhow::Result<Vec<Note>> {
        let (notes, more) =
            self.memories.list_notes(self.scope(), &self.workspace, &|_, _| true)?;
        if more > 0 {
            self.app.terminal.print_note(&format!("{more} more notes are not shown; delete some"));
        }
        Ok(notes)
    }

    fn find_note(&self, name: &NoteName) -> anyhow::Result<Note> {
        let hint = "`zero memory list` shows them";
        Ok(self.memories.find(self.scope(), name, &self.workspace, &|_, _| true, hint)?)
    }

    fn list(&self) -> anyhow::Result<()> {
        let (notes, out) = (self.list_notes()?, &self.app.terminal.out);
        if self.place.json {
            return Ok(out.write_pretty_json(&self.notes_to_json(&notes))?);
        }
        if notes.is_empty() {
            out.write("no notes; add one with `zero memory add`\n")?;
            return Ok(());
        }
        let mut table = TextTable::new(["SCOPE", "NAME", "BY", "SAVED", "NOTE"]);
        for note in &notes {
            let NoteProvenance { saved, by, is_confirmed: vouched, .. } = &note.provenance;
            let by = by.as_deref().filter(|_| *vouched).unwrap_or("a file");
            table.add_row([
                note.scope.as_str().into(),
                note.name.as_str().into(),
                by.into(),
                saved.filter(|_| *vouched).map(format_short_time).unwrap_or_default().into(),
                note.first_line(SUMMARY_CHARS_MAX).into(),
            ]);
        }
        Ok(out.write(&table.render(out))?)
    }

    fn show(&self, name: &NoteName) -> anyhow::Result<()> {
        let (note, out) = (self.find_note(name)?, &self.app.terminal.out);
        match self.place.json {
            true => Ok(out.write_pretty_json(&self.note_to_json(&note))?),
            false => Ok(out.write(&self.render_note(&note))?),
        }
    }

    fn search(&self, words: &[String]) -> anyhow::Result<()> {
        let words: Vec<String> =
            words.iter().flat_map(|word| word.split_whitespace()).map(str::to_lowercase).collect();
        let (mut notes, out) = (self.list_notes()?, &self.app.terminal.out);
        notes.retain(|note| note.contains_words(&words));
        if self.place.json {
            return Ok(out.write_pretty_json(&self.notes_to_json(&notes))?);
        }
        if notes.is_empty() {
            return Ok(out.write("no note contains these words\n")?);
        }
        let shown: Vec<String> = notes.iter().map(|note| self.render_note(note)).collect();
        Ok(out.write(&shown.join("\n"))?)
    }

    fn add(&self, name: NoteName, text: String) -> anyhow::Result<()> {
        let scope = self.scope().unwrap_or(NoteScope::Project);
        if let Some(file) = scope.note_change(&name, false, self.workspace.cwd()).file {
            check_creation(&self.app.config.state_dir()?, file.canonical())?;
        }
        let note = Note { scope, name, text, provenance: NoteProvenance::from_user() };
        let note_store = self.memories.open_or_create_store(scope, &self.workspace)?;
        let replaced = note_store.put(&note, &change_note(), || Ok(()))?;
        let what = if replaced { "replaced" } else { "added" };
        self.print_change(what, &note)
    }

    fn forget(&self, name: &NoteName) -> anyhow::Result<()> {
        let note = self.find_note(name)?;
        let note_store = self.memories.open_or_create_store(note.scope, &self.workspace)?;
        note_store.forget(name, &change_note(), || Ok(()))?;
        self.print_change("deleted", &note)
    }

    fn print_change(&self, what: &str, note: &Note) -> anyhow::Result<()> {
        let out = &self.app.terminal.out;
        match self.place.json {
            true => out.write_json_line(&json!({"ok": true, "note": self.note_to_json(note)}))?,
            false => out.write(&format!("{what} `{}` ({})\n", note.name, note.scope.as_str()))?,
        }
        Ok(())
    }

    fn report_failure(&self, error: &ToolError) -> anyhow::Result<ExitOutcome> {
        let terminal = &self.app.terminal;
        match self.place.json {
            true => terminal.out.write_json_line(&json!({"ok": false, "error": error}))?,
            false => terminal.print_error(&error.message),
        }
        Ok(match error.error_type {
            ErrorType::PermissionDenied => ExitOutcome::Denied,
            _ => ExitOutcome::Error,
        })
    }

    fn note_path(&self, note: &Note) -> String {
        let note_store = self.memories.open_store(note.scope, &self.workspace).ok().flatten();
        note_store
            .map(|notes| notes.note_path(&note.name).display().to_string())
            .unwrap_or_default()
    }

    fn render_note(&self, note: &Note) -> String {
        let out = &self.app.terminal.out;
        let name = out.paint(STRONG, note.name.as_str()).into_owned();
        let about =
            escape_line(&format!("({}, {})", note.scope.as_str(), note.provenance)).into_owned();
        let path = escape_line(&self.note_path(note)).into_owned();
        let text = out.escape_foreign(&note.text).into_owned();
        format!("{name} {}\n{}\n\n{text}\n", out.paint(FAINT, &about), out.paint(FAINT, &path))
    }

    fn notes_to_json(&self, notes: &[Note]) -> Value {
        notes.iter().map(|note| self.note_to_json(note)).collect()
    }

    fn note_to_json(&self, note: &Note) -> Value {
        let NoteProvenance { saved, by, session, edited, is_confirmed: vouched } = &note.provenance;
        json!({
            "scope": note.scope.as_str(),
            "name": note.name.as_str(),
            "text": note.text,
            "saved": saved.map(|saved| saved.to_string()),
            "by": by,
            "session": session,
            "edited": edited.map(|edited| edited.to_string()),
            "vouched": vouched,
            "path": self.note_path(note),
        })
    }
}

fn change_note() -> ChangeOrigin {
    ChangeOrigin { tool: "zero memory".to_owned(), call: String::new(), caller: None }
}
