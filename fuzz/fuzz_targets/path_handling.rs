//! Any text as a path, in a tree full of links: no panic, and a path that was settled is settled.
#![no_main]

use std::os::unix::fs::symlink;
use std::path::{Component, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use zero_core::PathZone;
use zero_sandbox::canonical_path::PATH_BYTES_MAX;
use zero_sandbox::{FinalLinkMode, Workspace};

struct FuzzTree {
    workspace: Workspace,
    roots: Vec<PathBuf>,
    _temp: TempDir,
}

static TREE: LazyLock<FuzzTree> = LazyLock::new(|| {
    let temp = tempfile::tempdir().expect("a folder");
    let base = temp.path().canonicalize().expect("a canonical folder");
    for folder in ["one/sub/deep", "two", "home", "elsewhere"] {
        std::fs::create_dir_all(base.join(folder)).expect("a folder");
    }
    std::fs::write(base.join("one/a"), "a").expect("a file");
    std::fs::write(base.join("elsewhere/s"), "s").expect("a file");
    // Out, across, up, round in circles, to nowhere, and absolute.
    let links = [
        ("../elsewhere", "one/l"),
        ("../two", "one/t"),
        ("..", "one/sub/u"),
        ("o", "one/o"),
        ("gone/further", "one/g"),
        ("/", "one/r"),
        ("../one/sub/../../elsewhere/s", "two/z"),
    ];
    for (target, link) in links {
        symlink(target, base.join(link)).expect("a link");
    }
    let roots = vec![base.join("one"), base.join("two")];
    let workspace = Workspace::open(&roots, Some(base.join("home"))).expect("a workspace");
    FuzzTree { workspace, roots, _temp: temp }
});

fuzz_target!(|written: &str| {
    for last in [FinalLinkMode::Follow, FinalLinkMode::Keep] {
        let Ok(located) = TREE.workspace.resolve(written, last) else { continue };
        let target = located.target();
        let path = target.canonical();
        assert!(path.is_absolute(), "{path:?}");
        assert!(
            path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_))),
            "{path:?}"
        );
        let beneath = TREE.roots.iter().any(|root| path.starts_with(root));
        assert_eq!(target.zone() == PathZone::Workspace, beneath, "{path:?}");
        // What is settled stays settled: its own path leads to the same place, unless the roots' own
        // length made it longer than a path may be.
        if path.as_os_str().len() > PATH_BYTES_MAX {
            continue;
        }
        let again = TREE
            .workspace
            .resolve(path.to_str().expect("made from text"), last)
            .expect("a settled path");
        assert_eq!(again.target().canonical(), path);
    }
});
