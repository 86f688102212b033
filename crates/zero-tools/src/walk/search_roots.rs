//! The folders that a search starts from ([`SearchRoots`]): the given one, or all workspace roots.

use std::path::PathBuf;

use zero_core::{Effect, Effects, ToolError};
use zero_sandbox::{FinalLinkMode, ResolvedPath, Workspace};

/// The folders that a search starts from.
#[derive(Clone, Debug)]
pub(crate) struct SearchRoots {
    searched: Vec<ResolvedPath>,
    /// Roots that are searched as a part of another.
    nested: Vec<ResolvedPath>,
}

impl SearchRoots {
    /// Resolves `path`, or all roots of the workspace if it is absent.
    ///
    /// A root inside another is searched as a part of it, so that nothing is found twice and a
    /// pattern written for the outer root still applies. The first root is always searched
    /// separately, because relative paths start there; the walk of the outer root skips it.
    pub(crate) fn resolve(path: Option<&str>, workspace: &Workspace) -> Result<Self, ToolError> {
        let locate = |written: &str| workspace.resolve(written, FinalLinkMode::Follow);
        let first = locate(path.unwrap_or("."))?;
        let mut bases = Self { searched: vec![first], nested: vec![] };
        if path.is_some() {
            return Ok(bases);
        }
        for (index, root) in workspace.roots().enumerate().skip(1) {
            let mut others = workspace.roots().enumerate();
            // Of a root that is given twice, the first is used.
            let lies_in_another = others.any(|(other, path)| {
                other != index && root.starts_with(path) && (root != path || other < index)
            });
            let base = locate(&root.to_string_lossy())?;
            if lies_in_another { &mut bases.nested } else { &mut bases.searched }.push(base);
        }
        Ok(bases)
    }

    /// Returns the folders to search, in the order of the workspace.
    pub(crate) fn folders(&self) -> &[ResolvedPath] {
        &self.searched
    }

    /// Returns the part of a root that is searched separately, as a path below it.
    pub(crate) fn nested_root(&self, base: &ResolvedPath) -> Option<PathBuf> {
        let below =
            |other: &ResolvedPath| other.path().strip_prefix(base.path()).ok().map(PathBuf::from);
        self.searched.iter().filter_map(below).find(|below| !below.as_os_str().is_empty())
    }

    /// Returns the effects of reading each folder.
    pub(crate) fn read_effects(&self) -> Effects {
        let read = |base: &ResolvedPath| Effect::Read(base.target().clone());
        self.searched.iter().chain(&self.nested).map(read).collect()
    }

    /// Returns a text such as ` in src`, or an empty one if the search starts at the first root.
    pub(crate) fn describe_location(&self) -> String {
        match self.searched.first().map_or(".", ResolvedPath::display_path) {
            "." => String::new(),
            shown => format!(" in {shown}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;
    use serde_json::{Value, json};

    fn host_with_roots(roots: &[&'static str]) -> TestHost {
        TestHost::new()
            .with_files(&[
                ("a.txt", "hit\n"),
                ("app/b.txt", "hit\n"),
                ("app/src/c.txt", "hit\n"),
                ("../other/a.txt", "hit\nhit\n"),
                ("../other/out/x.txt", "hit\n"),
                ("../other/.gitignore", "/out/\n"),
            ])
            .with_roots(roots)
    }

    /// Returns a path relative to the temporary folder of the host.
    fn strip_temp_path(host: &TestHost, path: &str) -> String {
        let above = host.outside().canonicalize().unwrap();
        path.strip_prefix(above.to_str().unwrap()).unwrap_or(path).to_owned()
    }

    /// Returns the files that Grep finds, in order.
    fn grep_paths(host: &TestHost, input: Value) -> Vec<String> {
        let output = host.ok("Grep", input).structured;
        let file = |found: &Value| strip_temp_path(host, found["file"].as_str().unwrap());
        output["matches"].as_array().unwrap().iter().map(file).collect()
    }

    /// Returns the files that Glob finds, in order.
    fn glob_paths(host: &TestHost, input: Value) -> Vec<String> {
        let output = host.ok("Glob", input).structured;
        let file = |found: &Value| strip_temp_path(host, found.as_str().unwrap());
        let files: Vec<String> = output["files"].as_array().unwrap().iter().map(file).collect();
        assert_eq!(output["count"], files.len());
        files
    }

    #[test]
    fn nested_roots_are_searched_once() {
        let check = |roots: &[&'static str], expected: &[&str]| {
            let host = host_with_roots(roots);
            assert_eq!(grep_paths(&host, json!({"pattern": "hit"})), expected, "Grep of {roots:?}");
            let mut files = glob_paths(&host, json!({"pattern": "**/*.txt"}));
            files.sort();
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(files, expected, "Glob of {roots:?}");
        };
        check(&[""], &["a.txt", "app/b.txt", "app/src/c.txt"]);
        check(&["", "../other"], &["a.txt", "app/b.txt", "app/src/c.txt", "/other/a.txt"]);
        check(&["../other", "app"], &["a.txt", "/workspace/app/b.txt", "/workspace/app/src/c.txt"]);
        check(&["", "app", "app/src", ""], &["a.txt", "app/b.txt", "app/src/c.txt"]);
        check(&["app", ""], &["b.txt", "src/c.txt", "/workspace/a.txt"]);
        check(
            &["../other", "app", "", "../other"],
            &["a.txt", "/workspace/a.txt", "/workspace/app/b.txt", "/workspace/app/src/c.txt"],
        );
    }

    #[test]
    fn path_narrows_search_to_one_folder() {
        let host = host_with_roots(&["", "../other"]);
        assert_eq!(glob_paths(&host, json!({"pattern": "*.txt", "path": "."})), ["a.txt"]);
        assert_eq!(
            grep_paths(&host, json!({"pattern": "hit", "path": "app/src"})),
            ["app/src/c.txt"]
        );
        let other = host.path("../other").canonicalize().unwrap();
        assert_eq!(grep_paths(&host, json!({"pattern": "hit", "path": other})), ["/other/a.txt"]);
    }

    #[test]
    fn limits_and_order_hold_across_roots() {
        let host = host_with_roots(&["app", "../other"]);
        let input = json!({"pattern": "hit", "output_mode": "content", "head_limit": 3});
        for _ in 0..10 {
            assert_eq!(grep_paths(&host, input.clone()), ["b.txt", "src/c.txt", "/other/a.txt"]);
        }
        assert_eq!(host.ok("Grep", input).structured["total_matches"], 4);
        let found = glob_paths(&host, json!({"pattern": "**/*.txt"}));
        assert_eq!(found, ["b.txt", "src/c.txt", "/other/a.txt"]);
    }

    #[test]
    fn effects_include_each_root() {
        let check = |roots: &[&'static str], path: Option<&str>, expected: &[&str]| {
            let host = host_with_roots(roots);
            let bases = SearchRoots::resolve(path, host.workspace()).unwrap();
            let read: Vec<String> = bases
                .read_effects()
                .iter()
                .map(|effect| match effect {
                    Effect::Read(target) => {
                        strip_temp_path(&host, target.canonical().to_str().unwrap())
                    }
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(read, expected, "{roots:?} {path:?}");
        };
        check(&["", "../other", "app"], None, &["/workspace", "/other", "/workspace/app"]);
        check(&["app", ""], None, &["/workspace/app", "/workspace"]);
        check(&["", "../other"], Some("app"), &["/workspace/app"]);
    }
}
