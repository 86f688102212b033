//! Tests of Write, Edit and Delete.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;

use serde_json::{Value, json};
use zero_runtime::DialectName;

use crate::fixture::{ToolFixture, result_text};

#[tokio::test]
async fn write_creates_folders_and_reports_change() {
    let f = ToolFixture::one_shot();
    let done =
        f.call("Write", json!({"file_path": "a/b/new.txt", "content": "héllo\n"})).await.unwrap();
    assert_eq!(done.result.structured, json!({"success": true, "bytes_written": 7}));
    assert_eq!(f.read_text("a/b/new.txt"), "héllo\n");
    assert_eq!(result_text(&done), "Wrote 7 bytes to a/b/new.txt (new file)\n");
    assert_eq!(done.rendered.display["type"], "diff");
    assert_eq!(done.rendered.display["unified"], "@@ -0,0 +1 @@\n+héllo");
    let again =
        f.call("Write", json!({"file_path": "a/b/new.txt", "content": "hello\n"})).await.unwrap();
    assert_eq!(
        result_text(&again),
        "Wrote 6 bytes to a/b/new.txt (replaced)\n@@ -1 +1 @@\n-héllo\n+hello"
    );
    assert_eq!(std::fs::read_dir(f.path("a/b")).unwrap().count(), 1, "no temporary file is left");
}

#[tokio::test]
async fn write_preserves_mode_encoding_and_line_endings() {
    let f = ToolFixture::one_shot();
    f.write_file("run.sh", "old\r\nlines\r\n");
    std::fs::set_permissions(f.path("run.sh"), std::fs::Permissions::from_mode(0o750)).unwrap();
    f.call("Write", json!({"file_path": "run.sh", "content": "a\nb\n"})).await.unwrap();
    assert_eq!(f.read_text("run.sh"), "a\r\nb\r\n");
    assert_eq!(std::fs::metadata(f.path("run.sh")).unwrap().permissions().mode() & 0o7777, 0o750);

    f.write_file("wide.txt", b"\xFF\xFEo\0l\0d\0");
    f.call("Write", json!({"file_path": "wide.txt", "content": "né"})).await.unwrap();
    assert_eq!(f.read_bytes("wide.txt"), b"\xFF\xFEn\0\xE9\0");

    f.write_file("marked.txt", "\u{FEFF}old\n");
    f.call("Write", json!({"file_path": "marked.txt", "content": "\u{FEFF}new\n"})).await.unwrap();
    assert_eq!(f.read_text("marked.txt"), "\u{FEFF}new\n");
    let done = f.call("Write", json!({"file_path": "one.txt", "content": "1"})).await.unwrap();
    assert_eq!(result_text(&done), "Wrote 1 byte to one.txt (new file)\n");

    f.write_file("latin.txt", b"caf\xE9 cr\xE8me br\xFBl\xE9e\n");
    f.call("Write", json!({"file_path": "latin.txt", "content": "thé\n"})).await.unwrap();
    assert_eq!(f.read_bytes("latin.txt"), b"th\xE9\n");
    let error = f.call_error("Write", json!({"file_path": "latin.txt", "content": "漢"})).await;
    assert!(
        error.starts_with("encoding: `latin.txt`: `漢` (line 1) cannot be written in windows-1252"),
        "{error}"
    );
    assert_eq!(f.read_bytes("latin.txt"), b"th\xE9\n", "nothing was lost");
}

#[tokio::test]
async fn write_through_link_changes_target() {
    let f = ToolFixture::one_shot();
    f.write_file("real.txt", "old");
    symlink("real.txt", f.path("link.txt")).unwrap();
    f.call("Write", json!({"file_path": "link.txt", "content": "new"})).await.unwrap();
    assert_eq!(f.read_text("real.txt"), "new");
    assert!(std::fs::symlink_metadata(f.path("link.txt")).unwrap().is_symlink());
}

#[tokio::test]
async fn backup_is_stored_beside_the_file() {
    let f = ToolFixture::one_shot();
    f.write_file("a.txt", "one");
    for (content, backup) in [("two", "one"), ("three", "two")] {
        let input = json!({"file_path": "a.txt", "content": content, "backup": true});
        let done = f.call("Write", input).await.unwrap();
        assert!(
            result_text(&done).contains("the earlier content is in a.txt.bak"),
            "{}",
            result_text(&done)
        );
        let newest = if backup == "one" { "a.txt.bak" } else { "a.txt.bak1" };
        assert_eq!(f.read_text(newest), backup);
    }
}

#[tokio::test]
async fn backup_of_file_with_many_backups_gets_a_free_name() {
    let f = ToolFixture::one_shot();
    f.write_file("a.txt", "one");
    f.write_file("a.txt.bak", "");
    for number in 1..250 {
        f.write_file(&format!("a.txt.bak{number}"), "");
    }
    for (content, name) in [("two", "a.txt.bak250"), ("three", "a.txt.bak251")] {
        let before = f.read_text("a.txt");
        let input = json!({"file_path": "a.txt", "content": content, "backup": true});
        let done = f.call("Write", input).await.unwrap();
        assert_eq!(done.result.structured["backup"], name);
        assert_eq!(f.read_text(name), before);
    }
}

#[tokio::test]
async fn edit_keeps_backup_of_successful_change() {
    let f = ToolFixture::one_shot();
    f.write_file("a.txt", "one");
    let edit = |old: &str| json!({"file_path": "a.txt", "old_string": old, "new_string": "two", "backup": true});
    f.call("Edit", edit("absent")).await.unwrap_err();
    assert!(!f.path("a.txt.bak").exists());
    let done = f.call("Edit", edit("one")).await.unwrap();
    assert_eq!(
        done.result.structured,
        json!({"success": true, "replacements": 1, "backup": "a.txt.bak"})
    );
    assert!(result_text(&done).contains("the earlier content is in a.txt.bak"));
    assert_eq!((f.read_text("a.txt.bak"), f.read_text("a.txt")), ("one".into(), "two".into()));
}

/// In every dialect, also in those whose tools have no field for it.
#[tokio::test]
async fn host_can_keep_backups_unless_call_declines() {
    let f = ToolFixture::session_opened_with(
        |config| config.file_backup = true,
        |host| host.open_one_shot_session(),
    );
    f.write_file("a.txt", "one").write_file("b.txt", "one").write_file("c.txt", "one");
    let write = json!({"path": "a.txt", "content": "two"});
    f.call_as(DialectName::Opencode, "write", write).await.unwrap();
    let edits = json!([{"type": "replace", "oldText": "one", "newText": "two"}]);
    let edit = json!({"path": "b.txt", "edits": edits});
    f.call_as(DialectName::Acp, "edit_file", edit).await.unwrap();
    let write = json!({"file_path": "c.txt", "content": "two", "backup": false});
    f.call("Write", write).await.unwrap();
    assert_eq!((f.read_text("a.txt.bak"), f.read_text("b.txt.bak")), ("one".into(), "one".into()));
    assert!(!f.path("c.txt.bak").exists());
    let new = json!({"file_path": "new.txt", "content": "x"});
    assert_eq!(f.call("Write", new).await.unwrap().result.structured.get("backup"), None);
}

#[tokio::test]
async fn session_overwrite_requires_prior_read() {
    let f = ToolFixture::session();
    f.write_file("a.txt", "old\n");
    let write = json!({"file_path": "a.txt", "content": "new\n"});
    let error = f.call_error("Write", write.clone()).await;
    assert_eq!(
        error,
        "stale_file: `a.txt` exists but was not read in this session; read it before you change it"
    );
    f.call("Read", json!({"file_path": "a.txt"})).await.unwrap();
    f.write_file("a.txt", "mid\n");
    let error = f.call_error("Write", write.clone()).await;
    assert_eq!(
        error,
        "stale_file: `a.txt` changed since it was last read; read it again before you change it"
    );
    let edit = json!({"file_path": "a.txt", "old_string": "mid", "new_string": "x"});
    assert!(f.call_error("Edit", edit.clone()).await.starts_with("stale_file"));
    assert_eq!(f.read_text("a.txt"), "mid\n");
    f.call("Read", json!({"file_path": "a.txt"})).await.unwrap();
    f.call("Edit", edit).await.unwrap();
    // What the session wrote itself counts as read; a changed timestamp alone changes nothing.
    f.write_file("a.txt", "x\n");
    f.call("Write", write).await.unwrap();
    f.call("Write", json!({"file_path": "b.txt", "content": "b"})).await.unwrap();
    f.call("Write", json!({"file_path": "b.txt", "content": "c"})).await.unwrap();
}

#[tokio::test]
async fn edit_by_line_requires_prior_read() {
    let f = ToolFixture::session();
    f.write_file("a.txt", "one\n");
    let insert =
        json!({"file_path": "a.txt", "edits": [{"type": "insert", "line": 1, "newText": "zero"}]});
    assert!(f.call_error("Edit", insert).await.starts_with("stale_file"));
    f.call("Edit", json!({"file_path": "a.txt", "old_string": "one", "new_string": "1"}))
        .await
        .unwrap();
}

#[tokio::test]
async fn edit_does_not_count_as_read() {
    let f = ToolFixture::session();
    f.write_file("a.txt", "one\ntwo\n");
    let edit =
        |old: &str, new: &str| json!({"file_path": "a.txt", "old_string": old, "new_string": new});
    let write = json!({"file_path": "a.txt", "content": "new\n"});
    f.call("Edit", edit("one", "1")).await.unwrap();
    f.call("Edit", edit("1", "eins")).await.unwrap();
    assert!(f.call_error("Write", write.clone()).await.starts_with("stale_file"));
    f.call("Read", json!({"file_path": "a.txt"})).await.unwrap();
    f.call("Edit", edit("two", "2")).await.unwrap();
    f.call("Write", write).await.unwrap();
}

#[tokio::test]
async fn edit_violations_are_reported_together() {
    let f = ToolFixture::one_shot();
    f.write_file("a.txt", "a\n");
    let edit = |more: Value| {
        let mut input = json!({"file_path": "a.txt"});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let insert = json!({"type": "insert", "line": 1, "newText": "x"});
    for (input, expected) in [
        (
            json!({}),
            vec![
                "the input: expected `old_string` and `new_string`, or `edits`, found none of them",
            ],
        ),
        (
            json!({"replace_all": true, "old_string": "a"}),
            vec!["/new_string: expected a string, found nothing (it goes with `old_string`)"],
        ),
        (
            json!({"new_string": "a"}),
            vec!["/old_string: expected a string, found nothing (it goes with `new_string`)"],
        ),
        (json!({"edits": []}), vec!["/edits: expected at least one edit, found none"]),
        (
            json!({"edits": vec![insert.clone(); 101]}),
            vec!["/edits: expected at most 100 edits, found 101"],
        ),
        (
            json!({"old_string": "a", "new_string": "b", "replace_all": true, "edits": [
                {"type": "replace", "line": 3, "newText": "x"},
                insert,
                {"type": "insert", "oldText": "a", "newText": "x"},
            ]}),
            vec![
                "/old_string: expected nothing beside `edits`, found a string",
                "/new_string: expected nothing beside `edits`, found a string",
                "/replace_all: expected nothing beside `edits`, found true",
                "/edits/0/oldText: expected the text to `replace`, found nothing",
                "/edits/0/line: expected nothing for a `replace`, found 3",
                "/edits/2/line: expected the line to `insert` before, found nothing",
                "/edits/2/oldText: expected nothing for an `insert`, found a string",
            ],
        ),
    ] {
        let error = f.call("Edit", edit(input)).await.unwrap_err();
        assert_eq!(error.message.split("\n- ").skip(1).collect::<Vec<_>>(), expected);
        assert_eq!(error.details["reason"], "schema_violation");
        assert_eq!(error.details["violations"].as_array().unwrap().len(), expected.len());
    }
    assert_eq!(f.read_text("a.txt"), "a\n");
}

#[tokio::test]
async fn utf8_file_with_invalid_bytes_stays_utf8() {
    let f = ToolFixture::one_shot();
    let ascii = "plain\n".repeat(20_000).into_bytes();
    let file = |word: &[u8]| [&ascii[..], word, b" caf\xE9 cr\xE8me br\xFBl\xE9e\n"].concat();
    f.write_file("a.txt", file(b"old"));
    f.call("Edit", json!({"file_path": "a.txt", "old_string": "old", "new_string": "漢"}))
        .await
        .unwrap();
    assert_eq!(f.read_bytes("a.txt"), file("漢".as_bytes()));
}

#[tokio::test]
async fn large_change_succeeds() {
    let f = ToolFixture::one_shot();
    f.write_file("a.txt", "old line\n".repeat(300_000));
    let input = json!({"file_path": "a.txt", "old_string": "old", "new_string": "new", "replace_all": true});
    let done = f.call("Edit", input).await.unwrap();
    assert_eq!(done.result.structured["replacements"], 300_000);
    let input = json!({"file_path": "a.txt", "content": "x\n".repeat(2_500_000)});
    f.call("Write", input).await.unwrap();
    assert_eq!(f.read_bytes("a.txt").len(), 5_000_000);
}

#[tokio::test]
async fn edit_preserves_other_bytes() {
    let f = ToolFixture::one_shot();
    f.write_file("a.txt", b"\xEF\xBB\xBFone\r\ntwo\nthree\r\n\xFF\n");
    let done = f
        .call("Edit", json!({"file_path": "a.txt", "old_string": "two", "new_string": "2\nzwei"}))
        .await
        .unwrap();
    assert_eq!(f.read_bytes("a.txt"), b"\xEF\xBB\xBFone\r\n2\nzwei\nthree\r\n\xFF\n");
    assert_eq!(done.result.structured, json!({"success": true, "replacements": 1}));
    assert_eq!(done.result.locations[0].line, Some(2));

    f.write_file(
        "wide.txt",
        "\u{FEFF}a\r\nb\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>(),
    );
    f.call("Edit", json!({"file_path": "wide.txt", "old_string": "a\nb", "new_string": "x\ny"}))
        .await
        .unwrap();
    let expected: Vec<u8> =
        "\u{FEFF}x\r\ny\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(f.read_bytes("wide.txt"), expected);

    f.write_file("mode.sh", "a");
    std::fs::set_permissions(f.path("mode.sh"), std::fs::Permissions::from_mode(0o4711)).unwrap();
    f.call("Edit", json!({"file_path": "mode.sh", "old_string": "a", "new_string": "b"}))
        .await
        .unwrap();
    assert_eq!(std::fs::metadata(f.path("mode.sh")).unwrap().mode() & 0o7777, 0o4711);
}

#[tokio::test]
async fn failed_edit_explains_and_changes_nothing() {
    let f = ToolFixture::one_shot();
    f.write_file("a.rs", "fn main() {\n    print(1);\n}\nfn more() {\n    print(1);\n}\n");
    let edit =
        |old: &str, new: &str| json!({"file_path": "a.rs", "old_string": old, "new_string": new});
    let error = f.call_error("Edit", edit("print(1)", "x")).await;
    assert_eq!(
        error,
        "ambiguous_match: the text to replace occurs 2 times in `a.rs`, at lines 2, 5; add surrounding lines to make it unique, or replace all of them"
    );
    let error = f.call_error("Edit", edit("fn mian() {", "x")).await;
    assert!(
        error.starts_with("no_match: the text to replace is not in `a.rs`; copy it exactly"),
        "{error}"
    );
    assert!(error.contains("     1\tfn main() {"), "{error}");
    assert!(f.call_error("Edit", edit("a", "a")).await.starts_with("no_change"));
    assert!(f.call_error("Edit", edit("", "a")).await.starts_with("no_match"));
    assert!(
        f.call_error("Edit", json!({"file_path": "a.rs"}))
            .await
            .contains("expected `old_string` and `new_string`, or `edits`")
    );
    let half = json!({"file_path": "a.rs", "edits": [
        {"type": "replace", "oldText": "fn main", "newText": "fn start"},
        {"type": "insert", "line": 99, "newText": "x"},
    ]});
    assert_eq!(f.call("Edit", half.clone()).await.unwrap_err().details["edit"], 2);
    let error = f.call_error("Edit", half).await;
    assert_eq!(
        error,
        "out_of_range: edit 2: `a.rs` has no line 99 to insert before; the highest is 7, which appends"
    );
    assert_eq!(
        f.read_text("a.rs"),
        "fn main() {\n    print(1);\n}\nfn more() {\n    print(1);\n}\n"
    );
    let gone = json!({"file_path": "b.rs", "old_string": "a", "new_string": "b"});
    assert_eq!(f.call_error("Edit", gone).await, "io: `b.rs` does not exist; did you mean `a.rs`?");
    f.write_file("b.txt", "aaa");
    assert_eq!(
        f.call_error("Edit", json!({"file_path": "b.txt", "old_string": "aa", "new_string": "b"}))
            .await,
        "ambiguous_match: the text to replace occurs 2 times in `b.txt`, at line 1; add surrounding lines to make it unique, or replace all of them"
    );
    f.write_file("blob", b"\0\x01\x02");
    assert!(
        f.call_error("Edit", json!({"file_path": "blob", "old_string": "a", "new_string": "b"}))
            .await
            .starts_with("binary")
    );
}

#[tokio::test]
async fn concurrent_edits_of_one_file_are_all_kept() {
    let f = Arc::new(ToolFixture::one_shot());
    let lines: String = (0..40).map(|n| format!("line {n} old\n")).collect();
    f.write_file("shared.txt", &lines);
    let edits: Vec<_> = (0..40)
        .map(|n| {
            let f = Arc::clone(&f);
            let input = json!({"file_path": "shared.txt", "old_string": format!("line {n} old\n"), "new_string": format!("line {n} new\n")});
            tokio::spawn(async move { f.call("Edit", input).await.map(drop) })
        })
        .collect();
    for edit in edits {
        edit.await.unwrap().unwrap();
    }
    assert_eq!(f.read_text("shared.txt"), lines.replace("old", "new"));
}

#[tokio::test]
async fn delete_removes_only_files_and_links() {
    let f = ToolFixture::one_shot();
    f.write_file("dir/a.txt", "a").write_file("target.txt", "t");
    symlink("target.txt", f.path("link")).unwrap();
    f.call("Delete", json!({"file_path": "link"})).await.unwrap();
    assert!(f.path("target.txt").exists() && !f.path("link").exists());
    let done = f.call("Delete", json!({"file_path": "dir/a.txt"})).await.unwrap();
    assert_eq!(done.result.structured, json!({"success": true}));
    assert!(!f.path("dir/a.txt").exists());
    assert!(f.call_error("Delete", json!({"file_path": "dir"})).await.starts_with("is_directory"));
    assert_eq!(
        f.call_error("Delete", json!({"file_path": "target.tx"})).await,
        "io: `target.tx` does not exist; did you mean `target.txt`?"
    );
}

#[tokio::test]
async fn new_file_never_replaces_one_created_meanwhile() {
    let f = ToolFixture::one_shot();
    let workspace = zero_sandbox::Workspace::open(&[f.path("")], None).unwrap();
    let target = workspace.resolve("new.txt", zero_sandbox::FinalLinkMode::Follow).unwrap();
    let note = zero_sandbox::ChangeOrigin { tool: "t".into(), call: "c".into(), caller: None };
    let error = f.journal().change(
        &target,
        &note,
        || Ok(()),
        |_| {
            f.write_file("new.txt", "theirs");
            Ok(zero_sandbox::FileChange::Replace(b"ours".to_vec()))
        },
    );
    assert!(error.unwrap_err().message.contains("changed by another program"));
    assert_eq!(f.read_text("new.txt"), "theirs");
    assert_eq!(std::fs::read_dir(f.path("")).unwrap().count(), 1, "no temporary file is left");
    assert!(f.journal().list().unwrap().is_empty(), "no change is recorded");
}
