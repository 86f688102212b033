//! Undoing changes.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;
use zero_sandbox::ChangeState;
use zero_sandbox::journal::UndoConflictPolicy;

use crate::fixture::ToolFixture;

impl ToolFixture {
    /// Undoes the newest change and returns its file.
    fn undo_last(&self) -> String {
        let newest = self.journal().newest_undoable().unwrap().expect("something to undo");
        self.journal().undo(newest.id, UndoConflictPolicy::Refuse).unwrap();
        newest.path
    }
}

#[tokio::test]
async fn changes_are_undone_in_order_byte_exact() {
    let f = ToolFixture::one_shot();
    let original = b"\xEF\xBB\xBFone\r\ntwo\n\xFF".to_vec();
    f.write_file("a.txt", &original);
    std::fs::set_permissions(f.path("a.txt"), std::fs::Permissions::from_mode(0o640)).unwrap();
    f.call("Edit", json!({"file_path": "a.txt", "old_string": "two", "new_string": "2"}))
        .await
        .unwrap();
    f.call("Write", json!({"file_path": "a.txt", "content": "all new"})).await.unwrap();
    f.call("Delete", json!({"file_path": "a.txt"})).await.unwrap();
    f.call("Write", json!({"file_path": "x/y/z.txt", "content": "deep"})).await.unwrap();

    assert_eq!(f.undo_last(), "x/y/z.txt");
    assert!(!f.path("x").exists(), "folders made for it go with it");
    assert_eq!(f.undo_last(), "a.txt");
    assert!(f.read_text("a.txt").ends_with("all new"));
    f.undo_last();
    f.undo_last();
    assert_eq!(f.read_bytes("a.txt"), original);
    assert_eq!(std::fs::metadata(f.path("a.txt")).unwrap().permissions().mode() & 0o7777, 0o640);
    assert!(f.journal().newest_undoable().unwrap().is_none());
}

#[tokio::test]
async fn undo_can_be_undone() {
    let f = ToolFixture::one_shot();
    f.call("Write", json!({"file_path": "a", "content": "1"})).await.unwrap();
    f.undo_last();
    let undo =
        f.journal().list().unwrap().into_iter().find(|entry| entry.undoes.is_some()).unwrap();
    f.journal().undo(undo.id, UndoConflictPolicy::Refuse).unwrap();
    assert_eq!(f.read_text("a"), "1");
    f.undo_last();
    assert!(!f.path("a").exists());
}

#[tokio::test]
async fn file_changed_since_is_not_overwritten() {
    let f = ToolFixture::one_shot();
    f.write_file("a", "old");
    f.call("Write", json!({"file_path": "a", "content": "new"})).await.unwrap();
    f.write_file("a", "by hand");
    let entry = f.journal().newest_undoable().unwrap().unwrap();
    assert_eq!(entry.state, ChangeState::ChangedSince);
    let error = f.journal().undo(entry.id, UndoConflictPolicy::Refuse).unwrap_err();
    assert!(error.message.contains("was changed again after change"), "{error}");
    assert_eq!(f.read_text("a"), "by hand");
    f.journal().undo(entry.id, UndoConflictPolicy::Overwrite).unwrap();
    assert_eq!(f.read_text("a"), "old");
}

#[tokio::test]
async fn deleted_link_is_restored() {
    let f = ToolFixture::one_shot();
    symlink("nowhere/at/all", f.path("link")).unwrap();
    f.call("Delete", json!({"file_path": "link"})).await.unwrap();
    f.undo_last();
    assert_eq!(std::fs::read_link(f.path("link")).unwrap().to_str(), Some("nowhere/at/all"));
}

#[tokio::test]
async fn undo_does_not_follow_replacing_link() {
    let f = ToolFixture::one_shot();
    std::fs::create_dir(f.path("d")).unwrap();
    f.write_file("d/a", "old");
    f.call("Write", json!({"file_path": "d/a", "content": "new"})).await.unwrap();
    let elsewhere = f.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("a"), "new").unwrap();
    std::fs::rename(f.path("d"), f.path("moved")).unwrap();
    symlink(&elsewhere, f.path("d")).unwrap();
    let id = f.journal().list().unwrap()[0].id;
    let error = f.journal().undo(id, UndoConflictPolicy::Overwrite).unwrap_err();
    assert!(error.message.contains("now points to"), "{error}");
    assert_eq!(std::fs::read_to_string(elsewhere.join("a")).unwrap(), "new");
}

#[tokio::test]
async fn damaged_journal_restores_nothing() {
    let f = ToolFixture::one_shot();
    f.write_file("a", "old");
    f.call("Write", json!({"file_path": "a", "content": "new"})).await.unwrap();
    let journal = f.outside().join("state/journal");
    let folder = std::fs::read_dir(journal).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.extension().is_some_and(|e| e == "change"))
        .unwrap();
    let id = f.journal().newest_undoable().unwrap().unwrap().id;
    let whole = std::fs::read_to_string(&kept).unwrap();
    let (record, before) = whole.split_once('\n').unwrap();
    assert_eq!(before, "old");
    for (damaged, expected) in [
        (format!("{record}\ntampered"), "is damaged; nothing was restored"),
        (format!("{record}\nol"), "is damaged; nothing was restored"),
        (record.to_owned(), "is damaged; nothing was restored"),
        (record[..20].to_owned(), "in the journal is damaged"),
        (String::new(), "in the journal is damaged"),
    ] {
        std::fs::write(&kept, &damaged).unwrap();
        let error = f.journal().undo(id, UndoConflictPolicy::Refuse).unwrap_err();
        assert!(error.message.contains(expected), "{damaged}: {error}");
        assert_eq!(f.read_text("a"), "new");
    }
    std::fs::write(&kept, whole).unwrap();
    f.journal().undo(id, UndoConflictPolicy::Refuse).unwrap();
    assert_eq!(f.read_text("a"), "old");
}

/// Creates a change of a process that was killed: so much of it in the journal, and this content in
/// the file.
async fn interrupted_change(kept: impl Fn(&str) -> String, stands: &str) -> (ToolFixture, usize) {
    let f = ToolFixture::one_shot();
    f.write_file("a", "old");
    f.call("Write", json!({"file_path": "a", "content": "new"})).await.unwrap();
    let journal = f.outside().join("state/journal");
    let folder = std::fs::read_dir(journal).unwrap().next().unwrap().unwrap().path();
    let (done, pending) = (folder.join("1.change"), folder.join("1.pending"));
    let whole = std::fs::read_to_string(&done).unwrap();
    std::fs::remove_file(done).unwrap();
    std::fs::write(pending, kept(&whole)).unwrap();
    f.write_file("a", stands);
    let recovered = f.journal().recover().unwrap();
    (f, recovered)
}

#[tokio::test]
async fn interrupted_change_is_resolved_by_file_content() {
    let whole = |whole: &str| whole.to_owned();
    let (f, recovered) = interrupted_change(whole, "new").await;
    assert_eq!(recovered, 1);
    f.undo_last();
    assert_eq!(f.read_text("a"), "old");
    for stands in ["old", "of somebody else"] {
        // The old content was not saved completely, so the file was not touched yet.
        let (f, recovered) =
            interrupted_change(|whole| whole[..whole.len() - 1].to_owned(), stands).await;
        assert_eq!((recovered, f.journal().list().unwrap().len()), (1, 0), "{stands}");
        assert_eq!(f.read_text("a"), stands);
    }
    let (f, recovered) = interrupted_change(whole, "old").await;
    assert_eq!((recovered, f.journal().list().unwrap().len()), (1, 0));
    // It is not known yet whether the process is alive.
    let (f, recovered) = interrupted_change(|_| String::new(), "old").await;
    assert_eq!((recovered, f.journal().list().unwrap().len()), (0, 0));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Whatever the bytes and the edit: undo restores exactly the earlier state.
    #[test]
    fn undo_of_an_edit_is_what_was_there(
        head in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
        tail in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
        new in "[xé\r\n]{0,8}",
    ) {
        let original = [&head[..], b"\nNEEDLE\n", &tail[..]].concat();
        let f = ToolFixture::one_shot();
        f.write_file("a", &original);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let edit = f.call("Edit", json!({"file_path": "a", "old_string": "NEEDLE", "new_string": new}));
        if runtime.block_on(edit).is_ok() {
            proptest::prop_assert_ne!(f.read_bytes("a"), &original[..]);
            f.undo_last();
        }
        proptest::prop_assert_eq!(f.read_bytes("a"), original);
    }
}
