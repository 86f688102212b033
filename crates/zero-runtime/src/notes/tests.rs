//! Notes in real folders, with links and files that zero did not write.

#![expect(clippy::disallowed_methods, reason = "tests set up real files")]

use std::os::unix::fs::symlink;

use super::*;

struct NotesFixture {
    temp: tempfile::TempDir,
    workspace: Workspace,
}

impl NotesFixture {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap().join("w");
        std::fs::create_dir(&root).unwrap();
        let workspace = Workspace::open(&[root], None).unwrap();
        Self { temp, workspace }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    fn open_store(&self, scope: NoteScope) -> NoteStore {
        let state = StateDir::new(self.path("state"));
        let memories = NoteStoreSet::new(Some(self.path("own")), state);
        memories.open_or_create_store(scope, &self.workspace).unwrap()
    }

    fn put(&self, scope: NoteScope, name: &str, text: &str) -> Result<bool, ToolError> {
        let note = Note {
            scope,
            name: NoteName::new(name).unwrap(),
            text: text.to_owned(),
            provenance: NoteProvenance::from_agent(Some("s1".to_owned())),
        };
        self.open_store(scope).put(&note, &change_note(), || Ok(()))
    }

    fn texts(&self, scope: NoteScope) -> Vec<String> {
        let (notes, _) = self.open_store(scope).list_notes(&|_| true).unwrap();
        notes.iter().map(|note| format!("{}: {}", note.name, note.text)).collect()
    }
}

fn change_note() -> ChangeOrigin {
    ChangeOrigin { tool: "Memory".to_owned(), call: "call".to_owned(), caller: None }
}

#[test]
fn notes_are_stored_replaced_and_removed_in_both_scopes() {
    let fixture = NotesFixture::new();
    for (scope, file) in
        [(NoteScope::Project, "w/.zero/memory/a.md"), (NoteScope::User, "own/memory/a.md")]
    {
        assert_eq!(fixture.texts(scope), Vec::<String>::new());
        assert!(!fixture.put(scope, "a", "one\n").unwrap());
        assert!(fixture.put(scope, "a", "two\n---\nby: nobody").unwrap());
        assert_eq!(fixture.texts(scope), ["a: two\n---\nby: nobody"]);
        let written = std::fs::read_to_string(fixture.path(file)).unwrap();
        assert!(written.contains("\nby: agent\nsession: s1\nseal: "), "{written}");
        let name = NoteName::new("a").unwrap();
        let (notes, _) = fixture.open_store(scope).list_notes(&|_| true).unwrap();
        assert_eq!(notes[0].provenance.by.as_deref(), Some("agent"), "not what its text says");
        assert!(
            fixture.open_store(scope).list_notes(&|_| false).unwrap().0.is_empty(),
            "by a rule"
        );
        let shelf = fixture.open_store(scope);
        assert!(shelf.forget(&name, &change_note(), || Ok(())).unwrap());
        assert!(!shelf.forget(&name, &change_note(), || Ok(())).unwrap());
        assert_eq!(fixture.texts(scope), Vec::<String>::new());
    }
}

#[test]
fn user_written_file_is_a_note() {
    let fixture = NotesFixture::new();
    let folder = fixture.path("w/.zero/memory");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("mine.md"), "# Tabs\nnot spaces\n").unwrap();
    std::fs::write(folder.join("open.md"), "---\nby: x\nno end").unwrap();
    // Rules of Markdown are not the fences of a header.
    std::fs::write(folder.join("rules.md"), "---\nby: x\nUse tabs.\n---\nAlways.").unwrap();
    std::fs::write(folder.join("README"), "no note").unwrap();
    std::fs::write(folder.join("Upper.md"), "no note").unwrap();
    assert_eq!(
        fixture.texts(NoteScope::Project),
        [
            "mine: # Tabs\nnot spaces",
            "open: ---\nby: x\nno end",
            "rules: ---\nby: x\nUse tabs.\n---\nAlways."
        ]
    );
    let (notes, more) = fixture.open_store(NoteScope::Project).list_notes(&|_| true).unwrap();
    assert_eq!((notes[0].first_line(80).as_str(), more), ("Tabs", 0));
    assert_eq!(notes[0].provenance.to_string(), "by a file of unknown origin");
}

#[test]
fn provenance_is_vouched_only_while_note_is_unchanged() {
    let fixture = NotesFixture::new();
    fixture.put(NoteScope::Project, "a", "Use tabs.").unwrap();
    let folder = fixture.path("w/.zero/memory");
    let kept = std::fs::read_to_string(folder.join("a.md")).unwrap();
    let origin = |name: &str| {
        let (notes, _) = fixture.open_store(NoteScope::Project).list_notes(&|_| true).unwrap();
        let note = notes.into_iter().find(|note| note.name.as_str() == name).unwrap();
        (note.provenance.is_confirmed, note.provenance.to_string())
    };
    assert!(origin("a").0 && origin("a").1.starts_with("by agent in session s1, 20"));
    let unknown = "unverified; the file says: ";
    for (changed, says) in [
        (kept.replace("tabs", "spaces"), "by agent in session s1"),
        (kept.replace("by: agent", "by: person"), "by person in session s1"),
        (kept.replace("session: s1\n", ""), "by agent, 20"),
        ("---\nby: person\n---\n\nUse tabs.\n".to_owned(), "by person"),
        (kept.replace("by: agent\n", ""), "in session s1, 20"),
        (
            "---\nedited: 2026-01-31T00:00:00Z\n---\n\nUse tabs.\n".to_owned(),
            "edited by person, 2026-01-31",
        ),
    ] {
        std::fs::write(folder.join("a.md"), &changed).unwrap();
        let (vouched, shown) = origin("a");
        assert!(!vouched && shown.starts_with(&format!("{unknown}{says}")), "{shown}: {changed}");
    }
    // A copy under another name or in another project is not the same note.
    std::fs::write(folder.join("b.md"), &kept).unwrap();
    assert!(!origin("b").0);
    let elsewhere = fixture.path("w2/.zero/memory");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("a.md"), &kept).unwrap();
    let memories = NoteStoreSet::new(None, StateDir::new(fixture.path("state")));
    let other = Workspace::open(&[fixture.path("w2")], None).unwrap();
    let (notes, _) = memories.list_notes(None, &other, &|_, _| true).unwrap();
    assert!(!notes[0].provenance.is_confirmed);
    // The original text verifies again, whatever its line endings.
    fixture.put(NoteScope::Project, "c", "Use tabs.\r\nAlways.").unwrap();
    for (name, endings) in [("a", "\n"), ("a", "\r\n"), ("c", "\n"), ("c", "\r\n")] {
        let path = folder.join(name).with_extension("md");
        let text = if name == "a" { kept.clone() } else { std::fs::read_to_string(&path).unwrap() };
        let text = text.replace("\r\n", "\n").replace('\n', endings);
        std::fs::write(&path, text).unwrap();
        assert!(origin(name).0, "{name} with {endings:?}");
    }
    let note = NoteProvenance { is_confirmed: false, ..NoteProvenance::from_agent(None) };
    assert_eq!(note.with_user_edit().by.as_deref(), Some("person"), "no other author is verified");
}

#[test]
fn links_are_never_followed() {
    let fixture = NotesFixture::new();
    std::fs::create_dir_all(fixture.path("secret")).unwrap();
    std::fs::write(fixture.path("secret/key.md"), "secret").unwrap();
    // A note that is a link is not read, and nothing is written through it.
    std::fs::create_dir_all(fixture.path("w/.zero/memory")).unwrap();
    symlink(fixture.path("secret/key.md"), fixture.path("w/.zero/memory/key.md")).unwrap();
    assert_eq!(fixture.texts(NoteScope::Project), Vec::<String>::new());
    let refused = fixture.put(NoteScope::Project, "key", "mine").unwrap_err();
    assert_eq!(refused.reason(), Some(ErrorReason::BadPath), "{refused}");
    assert_eq!(std::fs::read_to_string(fixture.path("secret/key.md")).unwrap(), "secret");
    // A folder that is a link is not used.
    std::fs::remove_dir_all(fixture.path("w/.zero")).unwrap();
    for (link, target) in [("w/.zero", "secret"), ("w/.zero/memory", "../../secret")] {
        if link.ends_with("memory") {
            std::fs::remove_file(fixture.path("w/.zero")).unwrap();
            std::fs::create_dir(fixture.path("w/.zero")).unwrap();
            symlink(target, fixture.path(link)).unwrap();
        } else {
            std::fs::create_dir_all(fixture.path("secret/memory")).unwrap();
            symlink(fixture.path(target), fixture.path(link)).unwrap();
        }
        let error = fixture.open_store(NoteScope::Project).list_notes(&|_| true).unwrap_err();
        assert_eq!(error.reason(), Some(ErrorReason::BadPath), "{link}: {error}");
        assert!(fixture.put(NoteScope::Project, "x", "mine").is_err(), "{link}");
    }
    assert!(!fixture.path("secret/x.md").exists() && !fixture.path("secret/memory/x.md").exists());
}

#[test]
fn note_names_cannot_escape_folder() {
    for (name, fits) in [
        ("build-command", true),
        ("a1", true),
        ("", false),
        ("..", false),
        ("../x", false),
        ("a/b", false),
        ("-rf", false),
        ("A", false),
        ("a.b", false),
        ("ü", false),
        (&*"x".repeat(65), false),
    ] {
        assert_eq!(NoteName::new(name).is_ok(), fits, "{name}");
    }
    for (text, name) in [
        ("Run `just test` before each commit, please!", "run-just-test-before-each-commit-864be1"),
        ("Run `just test` before each commit.", "run-just-test-before-each-commit"),
        ("../../etc/passwd", "etc-passwd"),
        ("über alles", "note-722a75"),
        ("…", "note-b49358"),
        ("说明", "note-4262c4"),
        (&*"x".repeat(100), "note-09ecb6"),
    ] {
        let found = NoteName::from_text(text);
        assert_eq!(found.as_str(), name, "{text}");
        assert_eq!(NoteName::new(name), Ok(found));
    }
}

#[test]
fn note_count_and_size_are_bounded() {
    let fixture = NotesFixture::new();
    let folder = fixture.path("w/.zero/memory");
    std::fs::create_dir_all(&folder).unwrap();
    for at in 0..NOTES_MAX + 5 {
        std::fs::write(folder.join(format!("n{at:04}.md")), "x").unwrap();
    }
    std::fs::write(folder.join("n0000.md"), "ü".repeat(TEXT_BYTES_MAX)).unwrap();
    let (notes, more) = fixture.open_store(NoteScope::Project).list_notes(&|_| true).unwrap();
    assert_eq!((notes.len(), more), (NOTES_MAX, 5));
    assert!(
        notes[0].text.len() < FILE_BYTES_MAX + 100 && notes[0].text.contains("[truncated after")
    );
    let refused = fixture.put(NoteScope::Project, "another", "x").unwrap_err();
    assert_eq!(refused.reason(), Some(ErrorReason::ResourceExhausted));
    assert!(fixture.put(NoteScope::Project, "n0001", "replaced").unwrap());
}

#[test]
fn reading_creates_no_folder() {
    let fixture = NotesFixture::new();
    let state = StateDir::new(fixture.path("state"));
    let memories = NoteStoreSet::new(Some(fixture.path("own")), state.clone());
    let all = |scope| memories.list_notes(scope, &fixture.workspace, &|_, _| true).unwrap().0;
    assert!(all(None).is_empty() && all(Some(NoteScope::User)).is_empty());
    assert!(!fixture.path("own").exists() && !fixture.path("w/.zero").exists());
    let unconfigured = NoteStoreSet::new(None, state);
    assert!(unconfigured.open_store(NoteScope::User, &fixture.workspace).unwrap().is_none());
    assert!(unconfigured.open_or_create_store(NoteScope::User, &fixture.workspace).is_err());
    fixture.put(NoteScope::User, "mine", "x").unwrap();
    fixture.put(NoteScope::Project, "mine", "y").unwrap();
    let name = NoteName::new("mine").unwrap();
    let find =
        |scope| memories.find(scope, &name, &fixture.workspace, &|_, _| true, "").unwrap().text;
    assert_eq!((find(None), find(Some(NoteScope::User))), ("y".to_owned(), "x".to_owned()));
    let wrong = NoteName::new("mime").unwrap();
    let error = memories.find(None, &wrong, &fixture.workspace, &|_, _| true, "").unwrap_err();
    assert_eq!(error.message, "there is no note `mime`; did you mean `mine`?");
}
