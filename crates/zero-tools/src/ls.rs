//! The LS tool: lists the entries of a folder.

use std::path::Path;
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{
    Effect, Effects, ErrorReason, FileLocation, ResultDisplay, RiskLevel, TimeoutClass,
    ToolCategory, ToolError, ToolKind, ToolResultPart,
};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::{FileType, FinalLinkMode, FolderEntry, FolderHandle, ResolvedPath, Workspace};

use crate::path_not_found;
use crate::text_format::to_single_line;
use crate::walk::WalkEntryKind;
use crate::walk::denied_entries::{DeniedEntries, ReadFilter};

/// Most entries in a result.
const ENTRIES_MAX: usize = 1_000;

/// Lists the entries of a folder, hidden files included: folders end in `/`, links in `@`. It does
/// not list subfolders and ignores `.gitignore`; to find files anywhere below a folder use Glob.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LsArgs {
    /// The folder: a path relative to the workspace root, or an absolute one. The workspace root
    /// when absent.
    path: Option<String>,
    /// Globs of names to leave out, such as `*.o` or `node_modules`.
    #[serde(default)]
    #[schemars(length(max = 100))]
    ignore: Vec<String>,
}

/// The entries of a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LsOutput {
    /// The entries, sorted by name; the first 1,000.
    pub entries: Vec<LsEntry>,
    /// Number of all entries.
    pub count: u64,
    /// Number of files and folders left out because reading them is denied; absent when there are
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

/// One entry of a folder.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LsEntry {
    /// Name of the entry.
    pub name: String,
    /// The kind of entry.
    #[serde(rename = "type")]
    pub entry_type: LsEntryType,
    /// Size in bytes; 0 unless it is a file.
    pub size: u64,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LsEntryType {
    /// An ordinary file.
    File,
    /// A folder.
    Directory,
    /// A link.
    Symlink,
    /// A pipe, socket or device.
    Other,
}

impl LsEntry {
    fn from_entry(entry: &FolderEntry) -> Self {
        let entry_type = match entry.file_type {
            FileType::File => LsEntryType::File,
            FileType::Directory => LsEntryType::Directory,
            FileType::Symlink => LsEntryType::Symlink,
            FileType::Special => LsEntryType::Other,
        };
        Self { name: entry.name.to_string_lossy().into_owned(), entry_type, size: entry.size }
    }

    /// Returns the name on one line, so that a line break in a name does not look like two names.
    fn render_line(&self) -> String {
        let mut line = to_single_line(&self.name);
        match self.entry_type {
            LsEntryType::Directory => line.push('/'),
            LsEntryType::Symlink => line.push('@'),
            LsEntryType::File | LsEntryType::Other => {}
        }
        line
    }
}

/// A validated call: the folder, and the names to leave out.
#[derive(Debug)]
pub struct LsPlan {
    folder: ResolvedPath,
    ignore: GlobSet,
}

impl LsPlan {
    fn location(&self) -> FileLocation {
        FileLocation { path: self.folder.path().to_owned(), line: None }
    }
}

/// Lists a folder.
pub struct LsTool;

impl Tool for LsTool {
    type Args = LsArgs;
    type Output = LsOutput;
    type Plan = LsPlan;
    const NAME: &'static str = "LS";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "List folder",
            category: ToolCategory::File,
            kind: ToolKind::Read,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("reads the names of the entries of one folder")
            .with_bounds([ToolBound::count("listed entries", ENTRIES_MAX)])
    }

    fn plan(&self, args: LsArgs, workspace: &Workspace) -> Result<LsPlan, ToolError> {
        let folder =
            workspace.resolve(args.path.as_deref().unwrap_or("."), FinalLinkMode::Follow)?;
        Ok(LsPlan { folder, ignore: compile_name_globs(&args.ignore)? })
    }

    fn describe(&self, plan: &LsPlan) -> CallDescription {
        CallDescription {
            title: format!("List `{}`", plan.folder.display_path()),
            locations: vec![plan.location()],
        }
    }

    fn effects(&self, plan: &LsPlan) -> Effects {
        vec![Effect::Read(plan.folder.target().clone())]
    }

    async fn run(
        &self,
        plan: Arc<LsPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<LsOutput>, ToolError> {
        cx.run_blocking(move |cx| {
            let folder = path_not_found::open_folder(&plan.folder, cx)?;
            let mut entries = folder.entries()?;
            let denied = retain_readable(&mut entries, &folder, &plan, cx);
            entries.retain(|entry| !plan.ignore.is_match(&entry.name));
            entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            Ok(build_reply(&entries, &denied, &plan))
        })
        .await
    }
}

/// Removes entries that may not be read, whatever `ignore` says about them.
fn retain_readable(
    entries: &mut Vec<FolderEntry>,
    folder: &FolderHandle,
    plan: &LsPlan,
    cx: &CallContext,
) -> DeniedEntries {
    let Some(reads) = ReadFilter::new(plan.folder.target().written(), folder.path(), cx) else {
        return DeniedEntries::default();
    };
    entries.retain(|entry| {
        let (name, path) = (Path::new(&entry.name), folder.path().join(&entry.name));
        match entry.file_type {
            FileType::Symlink => reads.allows_link(name, &path),
            FileType::Directory => reads.allows(name, &path, WalkEntryKind::Folder),
            FileType::File | FileType::Special => reads.allows(name, &path, WalkEntryKind::File),
        }
    });
    reads.take_denied()
}

fn build_reply(
    entries: &[FolderEntry],
    denied: &DeniedEntries,
    plan: &LsPlan,
) -> ToolReply<LsOutput> {
    let listed: Vec<LsEntry> = entries.iter().take(ENTRIES_MAX).map(LsEntry::from_entry).collect();
    let lines: Vec<String> = listed.iter().map(LsEntry::render_line).collect();
    let text = if lines.is_empty() { "(empty folder)".to_owned() } else { lines.join("\n") };
    let mut content = vec![ToolResultPart::Text(text)];
    let unlisted = entries.len() - listed.len();
    if unlisted > 0 {
        content.push(ToolResultPart::Text(format!(
            "({unlisted} of {} entries are not listed; exclude some with `ignore`, or find files with Glob)",
            entries.len()
        )));
    }
    content.extend(denied.note().map(|note| ToolResultPart::Text(format!("({note})"))));
    let entries_word = if entries.len() == 1 { "entry" } else { "entries" };
    let summary = format!("`{}` has {} {entries_word}", plan.folder.display_path(), entries.len());
    ToolReply {
        content,
        display: ResultDisplay::markdown(summary),
        output: LsOutput { entries: listed, count: entries.len() as u64, left_out: denied.count() },
        locations: vec![plan.location()],
    }
}

/// Compiles globs over names. A trailing slash is allowed and ignored.
fn compile_name_globs(patterns: &[String]) -> Result<GlobSet, ToolError> {
    let bad = |pattern: &str, error: &globset::Error| {
        let message = format!("`{pattern}` in `ignore` is not a glob: {}", error.kind());
        ToolError::invalid(ErrorReason::BadPattern, message).with_detail("pattern", pattern)
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let name = pattern.strip_suffix('/').unwrap_or(pattern);
        set.add(Glob::new(name).map_err(|error| bad(pattern, &error))?);
    }
    set.build().map_err(|error| bad(&patterns.join(", "), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;
    use serde_json::json;

    fn sample_host() -> TestHost {
        let host = TestHost::new().with_files(&[
            ("src/main.rs", "fn main() {}"),
            ("src/deep/er.rs", ""),
            ("b.txt", "12345"),
            ("A.o", ""),
            (".hidden", ""),
            (".git/HEAD", ""),
            (".gitignore", "b.txt"),
        ]);
        std::os::unix::fs::symlink("b.txt", host.path("link")).unwrap();
        host
    }

    #[track_caller]
    fn check(input: serde_json::Value, expected: &str) {
        assert_eq!(sample_host().text("LS", input), expected);
    }

    #[test]
    fn folder_entries_are_all_listed() {
        check(json!({}), ".git/\n.gitignore\n.hidden\nA.o\nb.txt\nlink@\nsrc/");
        check(json!({"path": "src"}), "deep/\nmain.rs");
        check(json!({"path": "src/"}), "deep/\nmain.rs");
        check(json!({"ignore": [".*", "*.o", "src/"]}), "b.txt\nlink@");
        check(json!({"path": "src", "ignore": ["*"]}), "(empty folder)");
    }

    #[test]
    fn structured_output_has_types_and_sizes() {
        let result = sample_host().ok("LS", json!({"ignore": [".*", "A.o"]}));
        assert_eq!(
            result.structured,
            json!({
                "entries": [
                    {"name": "b.txt", "type": "file", "size": 5},
                    {"name": "link", "type": "symlink", "size": 0},
                    {"name": "src", "type": "directory", "size": 0},
                ],
                "count": 3,
            })
        );
    }

    #[test]
    fn huge_folder_is_truncated_and_counted() {
        let host = TestHost::new();
        for number in 0..ENTRIES_MAX + 7 {
            host.write_file(&format!("f{number:05}"), b"");
        }
        let result = host.ok("LS", json!({}));
        assert_eq!(result.structured["count"], 1_007);
        assert_eq!(result.structured["entries"].as_array().unwrap().len(), 1_000);
        let ToolResultPart::Text(note) = &result.content[1] else { panic!("a note") };
        assert_eq!(
            note,
            "(7 of 1007 entries are not listed; exclude some with `ignore`, or find files with Glob)"
        );
    }

    #[test]
    fn control_characters_in_name_stay_on_one_line() {
        let host = TestHost::new().with_files(&[("a\nb", "")]);
        assert_eq!(host.text("LS", json!({})), "a\\nb");
    }

    #[test]
    fn listing_errors_are_explained() {
        #[track_caller]
        fn check(input: serde_json::Value, reason: ErrorReason, message: &str) {
            let error = sample_host().err("LS", input);
            assert_eq!((error.reason(), &*error.message), (Some(reason), message));
        }
        check(
            json!({"path": "b.txt"}),
            ErrorReason::NotDirectory,
            "`b.txt` is a file; name a folder",
        );
        check(
            json!({"path": "srcs"}),
            ErrorReason::Io,
            "`srcs` does not exist; did you mean `src`?",
        );
        check(
            json!({"ignore": ["[a"]}),
            ErrorReason::BadPattern,
            "`[a` in `ignore` is not a glob: unclosed character class; missing ']'",
        );
    }
}
