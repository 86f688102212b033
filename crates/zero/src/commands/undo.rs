//! `zero undo`: takes back what a tool did to a file.

use serde_json::json;
use zero_core::{Limits, Reason, ToolError};
use zero_sandbox::journal::Conflicts;
use zero_sandbox::{Entry, EntryState, Journal};

use crate::App;
use crate::cli::UndoArgs;
use crate::exit::Exit;
use crate::terminal::{
    Cell, Counter, FAINT, GOOD, NOTABLE, STRONG, Stream, Table, escape_line, short_time,
};

pub(super) fn run(app: &App, args: &UndoArgs) -> anyhow::Result<Exit> {
    let workspace = app.config.workspace(args.workspace.as_slice())?;
    let shown = workspace.cwd().display().to_string();
    let journal = Journal::new(&app.config.state()?, workspace, Limits::default().file_bytes_max);
    if args.list {
        return list(app, args, &journal, &shown);
    }
    match undo(app, args, &journal, &shown) {
        Ok(entry) => {
            let out = &app.terminal.out;
            if args.json {
                let undone = json!({"id": entry.id, "path": entry.path, "action": entry.action});
                out.write_line(&json!({"ok": true, "undone": undone}))?;
            } else {
                out.write(&format!("{}\n", told(&entry)))?;
            }
            Ok(Exit::Ok)
        }
        Err(error) => refused(app, args, &error.for_tool("undo")),
    }
}

fn undo(
    app: &App,
    args: &UndoArgs,
    journal: &Journal,
    workspace: &str,
) -> Result<Entry, ToolError> {
    journal.recover()?;
    let entry = match args.id {
        Some(id) => journal.entry(id)?,
        None => journal.newest()?.ok_or_else(|| nothing(workspace))?,
    };
    let conflicts = if args.yes { Conflicts::Overwrite } else { Conflicts::Refuse };
    match journal.undo(entry.id, conflicts) {
        Err(error) if error.reason() == Some(Reason::StaleFile) && agreed(app, args, &entry) => {
            journal.undo(entry.id, Conflicts::Overwrite)?;
        }
        outcome => drop(outcome?),
    }
    Ok(entry)
}

/// Whether the person, if there is one, wants what was changed since overwritten.
fn agreed(app: &App, args: &UndoArgs, entry: &Entry) -> bool {
    let worth_asking = entry.state == EntryState::ChangedSince && !args.yes;
    let answers = app.terminal.answers().filter(|_| worth_asking);
    answers.is_some_and(|answers| {
        let path = escape_line(&entry.path);
        app.terminal.confirm(
            &answers,
            &format!(
                "`{path}` was changed again after change {}. Restore it all the same?",
                entry.id
            ),
        )
    })
}

fn nothing(workspace: &str) -> ToolError {
    let message = format!(
        "there is nothing to undo: no tool changed a file in `{workspace}`, or everything is undone; `--workspace DIR` names another folder"
    );
    ToolError::not_found(Reason::NoChange, message)
}

fn refused(app: &App, args: &UndoArgs, error: &ToolError) -> anyhow::Result<Exit> {
    if args.json {
        app.terminal.out.write_line(&json!({"ok": false, "error": error}))?;
    } else {
        app.terminal.error(&error.message);
    }
    Ok(match error.reason() {
        // Saying no to an overwrite is a refusal, not a failure.
        Some(Reason::StaleFile) => Exit::Denied,
        _ => Exit::of_error(error),
    })
}

/// What an undo did, in one line.
fn told(entry: &Entry) -> String {
    let (id, path, tool) = (entry.id, escape_line(&entry.path), escape_line(&entry.tool));
    match entry.action {
        "create" => format!("removed `{path}`, which {tool} had created (change {id})"),
        "remove" => format!("brought back `{path}`, which {tool} had removed (change {id})"),
        _ => format!("restored `{path}` as it was before {tool} changed it (change {id})"),
    }
}

fn list(app: &App, args: &UndoArgs, journal: &Journal, workspace: &str) -> anyhow::Result<Exit> {
    // Each entry is compared with its file, which takes a while when they are large.
    let counter = Counter::new(&app.terminal.err);
    counter.begin("comparing the recorded changes with their files");
    let entries = journal.list();
    counter.end();
    let entries = entries?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&entries)?;
    } else if entries.is_empty() {
        out.write(&format!("no changes are recorded for `{}`\n", escape_line(workspace)))?;
    } else {
        out.write(&table(&entries, out))?;
    }
    Ok(Exit::Ok)
}

fn table(entries: &[Entry], out: &Stream) -> String {
    let mut table = Table::new(["ID", "TIME", "TOOL", "ACTION", "STATE", "PATH"]);
    for entry in entries {
        let (state, style) = match entry.state {
            EntryState::Applied => ("can be undone", GOOD),
            EntryState::ChangedSince => ("changed since", NOTABLE),
            EntryState::NotApplied => ("not applied", FAINT),
            EntryState::Undone => ("undone", FAINT),
        };
        let action = match entry.undoes {
            Some(id) => format!("undo of {id}"),
            None => entry.action.to_owned(),
        };
        table.row([
            Cell::styled(entry.id.to_string(), STRONG),
            entry.time.parse().map_or_else(|_| entry.time.clone(), short_time).into(),
            (&entry.tool).into(),
            action.into(),
            Cell::styled(state, style),
            (&entry.path).into(),
        ]);
    }
    table.render(out)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test stands outside zero and looks at its files"
)]
mod tests {
    use clap::Parser;
    use zero_sandbox::{Change, ChangeNote, LastLink};

    use super::*;
    use crate::cli::Cli;
    use crate::config::Config;
    use crate::terminal::Terminal;
    use crate::testing::tools;

    /// A workspace in which a tool changed `a.txt` from `one` to `two` and created `new/b.txt`.
    struct Fixture {
        folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("a.txt"), "one").unwrap();
            let fixture = Self { folder };
            fixture.change("a.txt", "two");
            fixture.change("new/b.txt", "b");
            fixture
        }

        fn change(&self, path: &str, content: &str) {
            let config = Config::for_test(self.folder.path());
            let workspace = config.workspace(&[]).unwrap();
            let journal = Journal::new(
                &config.state().unwrap(),
                workspace.clone(),
                Limits::default().file_bytes_max,
            );
            let target = workspace.locate(path, LastLink::Follow).unwrap();
            let note = ChangeNote { tool: "Write".to_owned(), call: "call_1".to_owned() };
            journal
                .change(&target, &note, || Ok(()), |_| Ok(Change::Replace(content.into())))
                .unwrap();
        }

        fn read(&self, path: &str) -> Option<String> {
            std::fs::read_to_string(self.folder.path().join(path)).ok()
        }

        #[track_caller]
        fn check(&self, words: &[&str], exit: Exit, told: &str) {
            let app = App {
                config: Config::for_test(self.folder.path()),
                terminal: Terminal::for_test(),
                tools,
            };
            let cli = Cli::try_parse_from(["zero", "undo"].iter().chain(words)).unwrap();
            let ended = crate::commands::run(&app, cli).unwrap();
            let said = app.terminal.out.written() + &app.terminal.err.written();
            assert_eq!(ended, exit, "{said}");
            assert!(said.contains(told), "{said}");
        }
    }

    #[test]
    fn undo_goes_back_step_by_step() {
        let f = Fixture::new();
        f.check(&[], Exit::Ok, "removed `new/b.txt`, which Write had created (change 2)");
        assert!(!f.folder.path().join("new").exists());
        f.check(
            &["--json"],
            Exit::Ok,
            r#"{"ok":true,"undone":{"id":1,"path":"a.txt","action":"change"}}"#,
        );
        assert_eq!(f.read("a.txt").as_deref(), Some("one"));
        f.check(&[], Exit::Error, "there is nothing to undo");
        f.check(&["--list"], Exit::Ok, "undo of 1");
        f.check(&["--list", "--json"], Exit::Ok, r#""undoes": 1"#);
        f.check(&["99"], Exit::Error, "there is no change 99");
    }

    #[test]
    fn what_was_changed_since_is_left_alone_unless_told() {
        let f = Fixture::new();
        std::fs::write(f.folder.path().join("a.txt"), "three").unwrap();
        f.check(&["--list"], Exit::Ok, "changed since");
        f.check(&["1"], Exit::Denied, "`a.txt` was changed again after change 1");
        f.check(&["1", "--json"], Exit::Denied, r#""reason":"stale_file""#);
        assert_eq!(f.read("a.txt").as_deref(), Some("three"));
        f.check(&["1", "--yes"], Exit::Ok, "restored `a.txt`");
        assert_eq!(f.read("a.txt").as_deref(), Some("one"));
    }
}
