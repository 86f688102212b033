//! Tests of files whose names are not protected, but that something protected leads to.

use std::path::{Path, PathBuf};

use zero_core::{Effect, PathZone, RiskLevel, TargetPath};
use zero_policy::{
    DecisionRequest, EmptyMachine, FileSearchOutcome, Machine, PermissionMode, TargetProtection,
    Verdict,
};

use crate::engine_harness::build_engine;

/// A file to which a protected name leads, and a folder that cannot be checked.
const TARGET: &str = "/w/conf/envrc";
const UNCHECKED: &str = "/w/huge";

struct LinkMachine;

impl Machine for LinkMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        EmptyMachine.canonicalize(absolute)
    }

    fn expand_glob(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>> {
        EmptyMachine.expand_glob(pattern, most)
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        EmptyMachine.git_helpers(folder)
    }

    fn find_program(&self, name: &str, folder: &Path) -> Option<PathBuf> {
        EmptyMachine.find_program(name, folder)
    }

    fn find_file(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        EmptyMachine.find_file(folder, wanted)
    }

    fn target_protection(
        &self,
        roots: &[PathBuf],
        home: Option<&Path>,
        canonical: &Path,
    ) -> TargetProtection {
        assert_eq!((roots, home), (&[PathBuf::from("/w")][..], Some(Path::new("/home/me"))));
        match canonical {
            path if path == Path::new(TARGET) => {
                TargetProtection::Protected("`/w/.envrc` leads to it".to_owned())
            }
            path if path.starts_with(UNCHECKED) => {
                TargetProtection::Unknown("`/w/huge` cannot be listed".to_owned())
            }
            _ => TargetProtection::Unprotected,
        }
    }
}

#[track_caller]
fn check(rules: &str, path: &str, expected: (Verdict, &str)) {
    let engine = build_engine(rules, PermissionMode::AcceptEdits);
    let target = TargetPath::new(path, PathBuf::from("/w").join(path), PathZone::Workspace);
    let decision = engine.decide(DecisionRequest {
        tool: "Write",
        risk: RiskLevel::Medium,
        effects: &[Effect::Write(target)],
        arguments: None,
        grants: &[],
        mode: None,
        machine: &LinkMachine,
    });
    assert_eq!(decision.verdict, expected.0, "{path}: {}", decision.reason);
    assert!(decision.reason.contains(expected.1), "{path}: {}", decision.reason);
}

#[test]
fn target_of_protected_name_is_asked_whatever_the_rules() {
    for rules in ["", "allow Write; allow Edit"] {
        check(rules, "conf/envrc", (Verdict::Ask, "protected: `/w/.envrc` leads to it"));
    }
    check("", "src/a.rs", (Verdict::Allow, ""));
}

#[test]
fn unchecked_links_are_asked_with_the_reason() {
    check("", "huge/a", (Verdict::Ask, "because `/w/huge` cannot be listed"));
}
