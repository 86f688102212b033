//! The Glob tool: finds files by their path.

use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::tool_result::{ResultDisplay, ToolResultPart};
use zero_core::{Effects, RiskLevel, TimeoutClass, ToolCategory, ToolError, ToolKind};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::Workspace;

use crate::path_glob_set::{PATTERN_BYTES_MAX, PathGlobSet};
use crate::path_not_found;
use crate::text_format::{pluralize, to_single_line};
use crate::walk::denied_entries::DeniedEntries;
use crate::walk::ignore_files::SkippedFolders;
use crate::walk::search_roots::SearchRoots;
use crate::walk::{FileVisitor, FileWalk};

/// Most files in a result.
const FILES_MAX: usize = 1_000;

/// Finds files whose path matches a glob, sorted by path. `*` does not cross folders: `*.md`
/// matches at the top only, `**/*.md` at any depth, `src/**/*.{ts,tsx}` below `src`. Files that
/// `.gitignore` excludes are not found, nor hidden ones unless the pattern names them
/// (`.github/**`). Use Grep to search by content.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobArgs {
    /// The glob, matched against paths relative to `path`.
    pattern: String,
    /// Folder to search in; the whole workspace when absent.
    path: Option<String>,
}

/// The files found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GlobOutput {
    /// Paths in order; at most 1000.
    files: Vec<String>,
    /// How many files match in all.
    count: u64,
    /// Number of files and folders left out because reading them is denied, whether they match or
    /// not; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

/// A validated call, with its search roots and compiled glob.
pub struct GlobPlan {
    bases: SearchRoots,
    written: String,
    pattern: PathGlobSet,
}

/// Finds files by a pattern of their path.
pub struct GlobTool;

impl Tool for GlobTool {
    type Args = GlobArgs;
    type Output = GlobOutput;
    type Plan = GlobPlan;
    const NAME: &'static str = "Glob";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Find files",
            category: ToolCategory::Search,
            kind: ToolKind::Search,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::Search,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("reads the names of all entries below a folder, and its ignore files")
            .with_bounds([
                ToolBound::count("listed files", FILES_MAX),
                ToolBound::bytes("the glob", PATTERN_BYTES_MAX),
            ])
    }

    fn plan(&self, args: GlobArgs, workspace: &Workspace) -> Result<GlobPlan, ToolError> {
        let pattern = PathGlobSet::from_path_glob(&args.pattern)?;
        let bases = SearchRoots::resolve(args.path.as_deref(), workspace)?;
        Ok(GlobPlan { bases, written: args.pattern, pattern })
    }

    fn describe(&self, plan: &GlobPlan) -> CallDescription {
        CallDescription {
            title: format!("Glob `{}`{}", plan.written, plan.bases.describe_location()),
            locations: vec![],
        }
    }

    fn effects(&self, plan: &GlobPlan) -> Effects {
        plan.bases.read_effects()
    }

    async fn run(
        &self,
        plan: Arc<GlobPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<GlobOutput>, ToolError> {
        cx.run_blocking(move |cx| find_files(&plan, cx)).await
    }
}

fn find_files(plan: &GlobPlan, cx: &CallContext) -> Result<ToolReply<GlobOutput>, ToolError> {
    let mut first = FirstMatches::default();
    let (mut left_out, mut denied) = (SkippedFolders::default(), DeniedEntries::default());
    for (index, base) in plan.bases.folders().iter().enumerate() {
        let folder = path_not_found::open_folder(base, cx)?;
        let without = plan.bases.nested_root(base);
        let walk = FileWalk { without, ..FileWalk::for_pattern(&plan.pattern) };
        let walked = walk.run(&folder, base.target().written(), cx, || GlobVisitor {
            base: index,
            pattern: &plan.pattern,
            first: FirstMatches::default(),
        })?;
        first =
            walked.visitors.into_iter().map(|finder| finder.first).fold(first, FirstMatches::merge);
        left_out = left_out.merge(walked.left_out);
        denied = denied.merge(walked.denied);
    }
    Ok(build_reply(plan, first, &left_out, &denied, cx.workspace()))
}

fn build_reply(
    plan: &GlobPlan,
    first: FirstMatches,
    left_out: &SkippedFolders,
    denied: &DeniedEntries,
    workspace: &Workspace,
) -> ToolReply<GlobOutput> {
    let count = first.count;
    let bases = plan.bases.folders();
    let files: Vec<String> = first
        .into_paths()
        .into_iter()
        .map(|(base, path)| workspace.display_path(&bases[base].path().join(path)))
        .collect();
    let mut text = match files.is_empty() {
        true => format!(
            "No files match `{}`{}; ignored (.gitignore) and hidden files are not searched",
            plan.written,
            plan.bases.describe_location()
        ),
        false => files.iter().map(|file| to_single_line(file)).collect::<Vec<_>>().join("\n"),
    };
    let shown = files.len() as u64;
    let cut = (shown < count)
        .then(|| format!("showing {shown} of {count} files; use a narrower pattern"));
    let notes: Vec<String> =
        cut.into_iter().chain(left_out.note(workspace)).chain(denied.note()).collect();
    if !notes.is_empty() {
        text.push_str(&format!("\n\n({})", notes.join("; ")));
    }
    ToolReply {
        content: vec![ToolResultPart::Text(text)],
        display: ResultDisplay::markdown(format!("Found {}", pluralize(count, "file", "files"))),
        output: GlobOutput { files, count, left_out: denied.count() },
        locations: vec![],
    }
}

/// One thread's part of the search.
struct GlobVisitor<'a> {
    /// Index of the root that it searches.
    base: usize,
    pattern: &'a PathGlobSet,
    first: FirstMatches,
}

impl FileVisitor for GlobVisitor<'_> {
    fn visit_file(&mut self, relative: &Path) {
        if self.pattern.is_match(relative) {
            self.first.add(self.base, relative);
        }
    }
}

/// The first files by root and path, and the number of all matches.
#[derive(Default)]
struct FirstMatches {
    count: u64,
    /// The last one kept is on top. Paths are compared byte by byte and not by component, because
    /// this is done for every match.
    best_matches: BinaryHeap<(usize, OsString)>,
}

impl FirstMatches {
    fn add(&mut self, base: usize, path: &Path) {
        self.count += 1;
        self.insert_bounded(base, path.as_os_str());
    }

    fn insert_bounded(&mut self, base: usize, path: &OsStr) {
        if self.best_matches.len() < FILES_MAX {
            self.best_matches.push((base, path.to_owned()));
        } else if let Some(mut last) = self.best_matches.peek_mut()
            && (base, path) < (last.0, last.1.as_os_str())
        {
            *last = (base, path.to_owned());
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.count += other.count;
        for (base, path) in other.best_matches {
            self.insert_bounded(base, &path);
        }
        self
    }

    /// Returns the paths, each with the index of its root.
    fn into_paths(self) -> Vec<(usize, OsString)> {
        self.best_matches.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests create real files")]
    use super::*;
    use crate::test_host::TestHost;
    use serde_json::{Value, json};
    use zero_core::{ErrorReason, ErrorType};

    fn sample_tree() -> TestHost {
        TestHost::new().with_files(&[
            (".gitignore", "*.log\n/out/\n!keep.log\n"),
            (".github/workflows/ci.yml", ""),
            (".git/config.md", ""),
            ("README.md", ""),
            ("docs/guide.md", ""),
            ("docs/.hidden.md", ""),
            ("docs/.gitignore", "draft*\n!draft-final.md\n"),
            ("docs/draft-1.md", ""),
            ("docs/draft-final.md", ""),
            ("out/a.md", ""),
            ("src/main.rs", ""),
            ("src/app/view.tsx", ""),
            ("src/app/model.ts", ""),
            ("trace.log", ""),
            ("keep.log", ""),
        ])
    }

    #[track_caller]
    fn check(host: &TestHost, input: Value, expected: &[&str]) {
        let shown = input.to_string();
        let result = host.ok("Glob", input);
        let mut files: Vec<String> =
            serde_json::from_value(result.structured["files"].clone()).unwrap();
        files.sort();
        assert_eq!(files, expected, "{shown}");
        assert_eq!(result.structured["count"], expected.len());
    }

    #[test]
    fn patterns_match_below_base_and_skip_ignored() {
        let host = sample_tree();
        check(&host, json!({"pattern": "*.md"}), &["README.md"]);
        check(
            &host,
            json!({"pattern": "**/*.md"}),
            &["README.md", "docs/draft-final.md", "docs/guide.md"],
        );
        check(
            &host,
            json!({"pattern": "*.md", "path": "docs"}),
            &["docs/draft-final.md", "docs/guide.md"],
        );
        check(
            &host,
            json!({"pattern": "src/**/*.{ts,tsx}"}),
            &["src/app/model.ts", "src/app/view.tsx"],
        );
        check(&host, json!({"pattern": "src/*/model.ts"}), &["src/app/model.ts"]);
        check(&host, json!({"pattern": "src/main.rs"}), &["src/main.rs"]);
        check(&host, json!({"pattern": "*.log"}), &["keep.log"]);
        check(&host, json!({"pattern": "out/*.md"}), &[]);
        check(&host, json!({"pattern": "**/*.yml"}), &[]);
        check(&host, json!({"pattern": ".github/**"}), &[".github/workflows/ci.yml"]);
        check(&host, json!({"pattern": "docs/.*.md"}), &["docs/.hidden.md"]);
        check(&host, json!({"pattern": ".git/*.md"}), &[]);
        check(
            &host,
            json!({"pattern": "*", "path": ".github/workflows"}),
            &[".github/workflows/ci.yml"],
        );
        let folder = host.path("src").display().to_string();
        check(&host, json!({"pattern": "*.rs", "path": folder}), &["src/main.rs"]);
    }

    #[test]
    fn links_are_not_followed() {
        let host = sample_tree();
        std::fs::write(host.outside().join("secret.md"), "").unwrap();
        std::os::unix::fs::symlink(host.outside(), host.path("leak")).unwrap();
        std::os::unix::fs::symlink(host.path("README.md"), host.path("link.md")).unwrap();
        check(&host, json!({"pattern": "{*,leak/*}.md"}), &["README.md"]);
    }

    /// A name is shown on one line, whatever characters it has; the structured name is unchanged.
    #[test]
    fn control_characters_in_name_stay_on_one_line() {
        let host = TestHost::new().with_files(&[("a\nREADME.md", ""), ("b\u{1b}[2J", "")]);
        let mut lines: Vec<String> =
            host.text("Glob", json!({"pattern": "*"})).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, [r"a\nREADME.md", r"b\u{1b}[2J"]);
        check(&host, json!({"pattern": "*"}), &["a\nREADME.md", "b\u{1b}[2J"]);
    }

    #[test]
    fn files_are_sorted_and_count_is_exact() {
        let host = TestHost::new();
        let total = FILES_MAX + 5;
        for n in (0..total).rev() {
            host.write_file(&format!("f{n:04}"), b"");
        }
        let result = host.ok("Glob", json!({"pattern": "*"}));
        let files: Vec<String> =
            serde_json::from_value(result.structured["files"].clone()).unwrap();
        assert_eq!(files, (0..FILES_MAX).map(|n| format!("f{n:04}")).collect::<Vec<_>>());
        assert_eq!(result.structured["count"], total);
        let text = host.text("Glob", json!({"pattern": "*"}));
        assert!(text.contains("(showing 1000 of 1005 files; use a narrower pattern"), "{text}");
    }

    #[test]
    fn empty_result_and_bad_input_are_explained() {
        let host = sample_tree();
        let text = host.text("Glob", json!({"pattern": "*.py", "path": "src"}));
        assert!(text.starts_with("No files match `*.py` in src;"), "{text}");
        for (input, error_type, reason, why) in [
            (
                json!({"pattern": "[a"}),
                ErrorType::InvalidInput,
                ErrorReason::BadPattern,
                "unclosed character class",
            ),
            (
                json!({"pattern": "/etc/*"}),
                ErrorType::InvalidInput,
                ErrorReason::BadPattern,
                "`path`",
            ),
            (
                json!({"pattern": "a/../*"}),
                ErrorType::InvalidInput,
                ErrorReason::BadPattern,
                "`path`",
            ),
            (
                json!({"pattern": "*", "path": "README.md"}),
                ErrorType::InvalidInput,
                ErrorReason::NotDirectory,
                "is a file",
            ),
            (
                json!({"pattern": "*", "path": "srcs"}),
                ErrorType::NotFound,
                ErrorReason::Io,
                "did you mean `src`",
            ),
        ] {
            let shown = input.to_string();
            let error = host.err("Glob", input);
            assert_eq!((error.error_type, error.reason()), (error_type, Some(reason)), "{shown}");
            assert!(error.message.contains(why), "{shown}: {error}");
        }
    }

    #[tokio::test]
    async fn title_names_pattern_and_folder() {
        let host = sample_tree();
        let title = async |input| host.call("Glob", input).await.title.unwrap();
        assert_eq!(title(json!({"pattern": "**/*.rs"})).await, "Glob `**/*.rs`");
        assert_eq!(title(json!({"pattern": "*", "path": "src/app/"})).await, "Glob `*` in src/app");
    }
}
