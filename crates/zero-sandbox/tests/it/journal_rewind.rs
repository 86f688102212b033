//! All changes of a set of calls are taken back, newest first, or nothing is.

use std::collections::HashSet;

use zero_sandbox::journal::{SetLimits, SetOrigin, UndoConflictPolicy};
use zero_sandbox::{ChangeOrigin, FileChange, FinalLinkMode, Journal, Workspace};

use crate::command_changes::{UndoLab, origin, snapshot};

fn change(lab: &UndoLab, caller: &str, path: &str, content: Option<&str>) -> u64 {
    let workspace = Workspace::open(&[lab.tree()], None).unwrap();
    let target = workspace.resolve(path, FinalLinkMode::Follow).unwrap();
    let caller = Some(caller.to_owned());
    let note = ChangeOrigin { tool: "Write".to_owned(), call: "call_x".to_owned(), caller };
    let decide = |_: &_| {
        Ok(content.map_or(FileChange::Remove, |content| FileChange::Replace(content.into())))
    };
    lab.journal.change(&target, &note, || Ok(()), decide).unwrap().id
}

/// Does what a command does, by hand: each path is recorded before it is touched.
fn command(lab: &UndoLab, caller: &str, paths: &[&str], work: impl FnOnce()) {
    let caller = Some(caller.to_owned());
    let origin = SetOrigin { caller, ..origin() };
    let mut recorder = lab.journal.record_command(origin, SetLimits::NONE).unwrap();
    for path in paths {
        let path = lab.tree().join(path);
        recorder.record(&path);
        if path.is_file() {
            recorder.record_contents(&path);
        }
    }
    work();
    recorder.finish().unwrap();
}

fn calls(names: &[&str]) -> HashSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn conflicts(journal: &Journal, names: &[&str]) -> Vec<String> {
    let plan = journal.plan_rewind(&calls(names), "r").unwrap();
    let line = |conflict| format!("{} {}", journal.display_conflict(conflict), conflict.what);
    plan.conflicts.iter().map(line).collect()
}

#[track_caller]
fn rewind(lab: &UndoLab, names: &[&str], id: &str) -> usize {
    let plan = lab.journal.plan_rewind(&calls(names), id).unwrap();
    lab.journal.apply_rewind(&plan, id).unwrap().len()
}

#[test]
fn mixed_changes_of_one_file_are_taken_back_and_made_again() {
    let lab = UndoLab::new();
    let file = |name: &str| lab.tree().join(name);
    std::fs::write(file("a"), "zero").unwrap();
    change(&lab, "before", "b", Some("kept"));
    let before = snapshot(&lab.tree());
    change(&lab, "c1", "a", Some("one"));
    command(&lab, "c2", &["a", "d"], || {
        std::fs::write(file("a"), "two-").unwrap();
        std::fs::create_dir(file("d")).unwrap();
        std::fs::write(file("d/x"), "x").unwrap();
    });
    change(&lab, "c3", "d/x", Some("y"));
    change(&lab, "c3", "d/new/z", Some("z"));
    change(&lab, "c4", "a", None);
    let after = snapshot(&lab.tree());
    let all = ["c1", "c2", "c3", "c4"];
    assert_eq!(conflicts(&lab.journal, &all), [""; 0]);
    assert_eq!(rewind(&lab, &all, "r1"), 5);
    assert_eq!(snapshot(&lab.tree()), before);
    assert_eq!(rewind(&lab, &["c1", "c2", "c3", "c4", "r1"], "r2"), 0, "nothing is left to do");
    // The rewind is taken back, and made again.
    rewind(&lab, &["r1"], "r2");
    assert_eq!(snapshot(&lab.tree()).len(), after.len());
    assert_eq!(std::fs::read_to_string(file("d/x")).unwrap(), "y");
    assert!(!file("a").exists());
    rewind(&lab, &["c1", "c2", "c3", "c4", "r1", "r2"], "r3");
    assert_eq!(std::fs::read_to_string(file("a")).unwrap(), "zero");
    assert!(!file("d").exists());
}

#[test]
fn foreign_change_is_a_conflict_and_nothing_is_touched() {
    let lab = UndoLab::new();
    let file = |name: &str| lab.tree().join(name);
    change(&lab, "c1", "a", Some("one"));
    change(&lab, "c1", "b", Some("one"));
    command(&lab, "c2", &["c", "d"], || {
        std::fs::write(file("c"), "c").unwrap();
        std::fs::create_dir(file("d")).unwrap();
    });
    std::fs::write(file("a"), "mine").unwrap();
    std::fs::remove_file(file("b")).unwrap();
    std::fs::write(file("c"), "also mine").unwrap();
    std::fs::write(file("d/more"), "mine").unwrap();
    // A file that is as before needs nothing.
    let expected = ["a changed", "c changed", "d/more created"];
    assert_eq!(conflicts(&lab.journal, &["c1", "c2"]), expected);
    assert_eq!(conflicts(&lab.journal, &["c2"]), expected[1..]);
    rewind(&lab, &["c1", "c2"], "r");
    assert_eq!(snapshot(&lab.tree()).len(), 0);
    // What was overwritten is recorded.
    rewind(&lab, &["r"], "s");
    assert_eq!(std::fs::read_to_string(file("a")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(file("d/more")).unwrap(), "mine");
}

#[test]
fn change_between_two_calls_is_a_conflict() {
    let lab = UndoLab::new();
    change(&lab, "c1", "a", Some("one"));
    std::fs::write(lab.tree().join("a"), "mine").unwrap();
    change(&lab, "c2", "a", Some("two"));
    assert_eq!(conflicts(&lab.journal, &["c1", "c2"]), ["a changed"]);
    assert_eq!(conflicts(&lab.journal, &["c2"]), [""; 0]);
}

#[test]
fn interrupted_rewind_is_completed_by_repeating_it() {
    let lab = UndoLab::new();
    let file = |name: &str| lab.tree().join(name);
    let before = snapshot(&lab.tree());
    change(&lab, "c1", "a", Some("one"));
    command(&lab, "c2", &["b"], || std::fs::write(file("b"), "b").unwrap());
    change(&lab, "c3", "a", Some("three"));
    let all = calls(&["c1", "c2", "c3"]);
    // Killed after each step: only the first changes of the plan were taken back.
    for steps in 0..3 {
        let mut plan = lab.journal.plan_rewind(&all, "r").unwrap();
        assert_eq!(plan.changes.len(), 3 - steps, "the rest is planned");
        plan.changes.truncate(1);
        lab.journal.apply_rewind(&plan, "r").unwrap();
    }
    assert_eq!(snapshot(&lab.tree()), before);
    // As one rewind, it is taken back as a whole.
    assert_eq!(rewind(&lab, &["r"], "s"), 3);
    assert_eq!(std::fs::read_to_string(file("a")).unwrap(), "three");
    assert_eq!(std::fs::read_to_string(file("b")).unwrap(), "b");
}

#[test]
fn undone_change_is_not_taken_back_again() {
    let lab = UndoLab::new();
    let first = change(&lab, "c1", "a", Some("one"));
    change(&lab, "c1", "b", Some("one"));
    lab.journal.undo(first, UndoConflictPolicy::Refuse).unwrap();
    assert_eq!(rewind(&lab, &["c1"], "r"), 1);
    // Only what the rewind took back is made again.
    assert_eq!(rewind(&lab, &["r"], "s"), 1);
    let tree = snapshot(&lab.tree());
    assert!(!tree.contains_key(&lab.tree().join("a")) && tree.contains_key(&lab.tree().join("b")));
}
