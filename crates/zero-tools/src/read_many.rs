//! The ReadMany tool: returns the beginning of several text files.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::tool_result::RemainingLines;
use zero_core::{
    Effect, Effects, ErrorReason, FileLocation, ResultDisplay, RiskLevel, TargetPath, TimeoutClass,
    ToolCategory, ToolError, ToolKind, ToolResultPart,
};
use zero_runtime::{
    CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply, failed_plan,
};
use zero_sandbox::FolderHandle;
use zero_sandbox::{FinalLinkMode, ResolvedPath, Workspace};

use crate::file_glob::FileGlob;
use crate::file_page::{number_page_lines, page_note, remaining_lines, to_model_content};
use crate::file_path::locate_file;
use crate::paging::{LINE_CHARS_MAX, LINES_DEFAULT, TextPage, TextPageRequest};
use crate::path_glob_set::PATTERN_BYTES_MAX;
use crate::path_not_found;
use crate::readable_file::{FileContentKind, ReadableFile};
use crate::walk::denied_entries::DeniedEntries;

/// Most files in one call.
const FILES_MAX: usize = 100;
/// Smallest useful share of the result for one file, in bytes.
const SHARE_BYTES_MIN: usize = 200;
/// Bytes reserved for a dialect's note on how to continue.
const REST_NOTE_BYTES: usize = 64;
/// Most names listed in a title.
const TITLE_NAMES_MAX: usize = 3;

/// Reads several text files at once, named one by one or by globs such as `src/**/*.rs`, at most
/// 100. The files share the size limit of one result: what does not fit is reported, and can be
/// read with Read. Files that are missing or not text are listed as skipped, each with the reason.
/// Globs do not include files that `.gitignore` excludes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadManyArgs {
    /// Files and globs: paths relative to the workspace root, or absolute ones. In a glob `*` does
    /// not cross folders and `**` does.
    #[schemars(length(min = 1, max = 100))]
    paths: Vec<String>,
}

/// The files that were read and skipped.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadManyOutput {
    /// The files that were read.
    pub files: Vec<ReadManyFile>,
    /// The files that were skipped.
    pub skipped: Vec<UnreadFile>,
    /// Number of files read.
    pub count: u64,
    /// Number of files and folders that the globs left out because reading them is denied, whether
    /// they match or not; absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

/// A file that was read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadManyFile {
    /// Path of the file.
    pub file_path: String,
    /// The lines, each with its number in six columns and a tab.
    pub content: String,
    /// Number of lines of the whole file.
    pub total_lines: u64,
}

/// A file that was skipped.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnreadFile {
    /// Path of the file, or the glob.
    pub file_path: String,
    /// Why it was skipped.
    pub reason: String,
}

/// The meaning of one of the paths.
#[derive(Debug)]
enum ReadTarget {
    File(ResolvedPath),
    Glob(FileGlob),
    /// A path that cannot be resolved; the others are still read. The part that exists is checked
    /// by the policy, because the error discloses what is there.
    Unresolved(UnreadFile, Option<TargetPath>),
}

impl ReadTarget {
    fn resolve(written: &str, workspace: &Workspace) -> Result<Self, ToolError> {
        let located = locate_file(written, workspace, FinalLinkMode::Follow);
        if FileGlob::is_glob(written) {
            // `pages/[id].tsx` means the file if it exists.
            return match located {
                Ok(file) if matches!(file.facts(), Ok(Some(_))) => Ok(Self::File(file)),
                _ => FileGlob::new(written, workspace).map(Self::Glob),
            };
        }
        Ok(match located {
            Ok(file) => Self::File(file),
            Err(error) => {
                let skipped = UnreadFile { file_path: written.to_owned(), reason: error.message };
                Self::Unresolved(skipped, failed_plan::resolve_partial_path(written, workspace))
            }
        })
    }

    fn name(&self) -> &str {
        match self {
            Self::File(file) => file.display_path(),
            Self::Glob(glob) => glob.pattern(),
            Self::Unresolved(skipped, _) => &skipped.file_path,
        }
    }
}

/// A validated call, with resolved paths.
#[derive(Debug)]
pub struct ReadManyPlan {
    targets: Vec<ReadTarget>,
}

/// Reads several files at once.
pub struct ReadManyTool;

impl Tool for ReadManyTool {
    type Args = ReadManyArgs;
    type Output = ReadManyOutput;
    type Plan = ReadManyPlan;
    const NAME: &'static str = "ReadMany";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Read several files",
            category: ToolCategory::File,
            kind: ToolKind::Read,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::Search,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("reads the files it names and those that its globs match").with_bounds([
            ToolBound::count("files in a call", FILES_MAX),
            ToolBound::lines("of each file", LINES_DEFAULT as usize),
            ToolBound::characters("a shown line", LINE_CHARS_MAX),
            ToolBound::bytes("a glob", PATTERN_BYTES_MAX),
        ])
    }

    fn plan(&self, args: ReadManyArgs, workspace: &Workspace) -> Result<ReadManyPlan, ToolError> {
        let settle = |written: &String| ReadTarget::resolve(written, workspace);
        Ok(ReadManyPlan { targets: args.paths.iter().map(settle).collect::<Result<_, _>>()? })
    }

    fn describe(&self, plan: &ReadManyPlan) -> CallDescription {
        let names: Vec<String> =
            plan.targets.iter().map(|target| format!("`{}`", target.name())).collect();
        let title = match names.len().saturating_sub(TITLE_NAMES_MAX) {
            0 => format!("Read {}", names.join(", ")),
            more => format!("Read {} and {more} more", names[..TITLE_NAMES_MAX].join(", ")),
        };
        let location = |wanted: &ReadTarget| match wanted {
            ReadTarget::File(file) => {
                Some(FileLocation { path: file.path().to_owned(), line: None })
            }
            ReadTarget::Glob(_) | ReadTarget::Unresolved(..) => None,
        };
        CallDescription { title, locations: plan.targets.iter().filter_map(location).collect() }
    }

    fn effects(&self, plan: &ReadManyPlan) -> Effects {
        let mut effects = Effects::new();
        for target in &plan.targets {
            let effect = match target {
                ReadTarget::File(file) => Effect::Read(file.target().clone()),
                ReadTarget::Glob(glob) => Effect::Read(glob.root().target().clone()),
                ReadTarget::Unresolved(_, Some(path)) => Effect::Read(path.clone()),
                ReadTarget::Unresolved(_, None) => continue,
            };
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        }
        effects
    }

    async fn run(
        &self,
        plan: Arc<ReadManyPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<ReadManyOutput>, ToolError> {
        cx.run_blocking(move |cx| {
            let mut gathered = ReadCandidates::default();
            for target in &plan.targets {
                gathered.add(target, cx)?;
            }
            let ReadCandidates { files, mut skipped, denied, .. } = gathered;
            let pages = read_candidates(&files, &mut skipped, cx)?;
            match pages.is_empty() {
                true => Err(nothing_read_error(&skipped, &denied)),
                false => Ok(build_reply(pages, skipped, &denied)),
            }
        })
        .await
    }
}

/// The files that all paths stand for, without duplicates, in the order given.
#[derive(Default)]
struct ReadCandidates {
    files: Vec<ReadCandidate>,
    skipped: Vec<UnreadFile>,
    known: HashSet<PathBuf>,
    denied: DeniedEntries,
}

/// A file to read.
struct ReadCandidate {
    shown: String,
    /// Canonical path.
    path: PathBuf,
    size: u64,
    handle: CandidateHandle,
}

/// How to open a file without resolving its name again.
enum CandidateHandle {
    Located(ResolvedPath),
    Beneath(Arc<FolderHandle>, PathBuf),
}

impl ReadCandidates {
    fn add(&mut self, target: &ReadTarget, cx: &CallContext) -> Result<(), ToolError> {
        match target {
            ReadTarget::File(file) => self.add_file(file),
            ReadTarget::Glob(glob) => self.add_matches(glob, cx)?,
            ReadTarget::Unresolved(skipped, _) => self.skip(&skipped.file_path, &skipped.reason),
        }
        Ok(())
    }

    fn skip(&mut self, file_path: &str, reason: &str) {
        let skipped = UnreadFile { file_path: file_path.to_owned(), reason: reason.to_owned() };
        self.skipped.push(skipped);
    }

    fn add_file(&mut self, file: &ResolvedPath) {
        if !self.known.insert(file.path().to_owned()) {
            return;
        }
        if self.files.len() == FILES_MAX {
            return self.skip(
                file.display_path(),
                &format!("more than {FILES_MAX} files; read it with Read"),
            );
        }
        self.files.push(ReadCandidate {
            shown: file.display_path().to_owned(),
            path: file.path().to_owned(),
            size: file.facts().ok().flatten().map_or(0, |facts| facts.size),
            handle: CandidateHandle::Located(file.clone()),
        });
    }

    fn add_matches(&mut self, glob: &FileGlob, cx: &CallContext) -> Result<(), ToolError> {
        let found = glob.find(FILES_MAX, cx)?;
        self.denied = std::mem::take(&mut self.denied).merge(found.denied);
        if let Some(left_out) = &found.left_out {
            self.skip(glob.pattern(), left_out);
        }
        if found.count == 0 {
            self.skip(glob.pattern(), "no file matches");
            return Ok(());
        }
        let mut left_out = found.count - found.paths.len() as u64;
        let folder = Arc::new(found.folder);
        for below in found.paths {
            let path = folder.path().join(&below);
            if self.known.contains(&path) {
                continue;
            }
            if self.files.len() == FILES_MAX {
                left_out += 1;
                continue;
            }
            self.known.insert(path.clone());
            self.files.push(ReadCandidate {
                shown: cx.workspace().display_path(&path),
                size: folder.facts_beneath(&below).map_or(0, |facts| facts.size),
                path,
                handle: CandidateHandle::Beneath(Arc::clone(&folder), below),
            });
        }
        if left_out > 0 {
            let reason = format!(
                "{left_out} more files match; at most {FILES_MAX} are read at once, narrow the glob"
            );
            self.skip(glob.pattern(), &reason);
        }
        Ok(())
    }
}

impl ReadCandidate {
    fn open(&self, cx: &CallContext) -> Result<ReadableFile, ToolError> {
        let file = match &self.handle {
            CandidateHandle::Located(file) => path_not_found::open_file(file, cx)?,
            CandidateHandle::Beneath(folder, below) => {
                folder.open_beneath(below).ok_or_else(|| {
                    ToolError::not_found(ErrorReason::Io, "it was deleted or may not be read")
                })?
            }
        };
        ReadableFile::new(file, &self.shown)
    }

    fn header(&self) -> String {
        format!("--- {} ---", self.shown)
    }

    /// Returns the beginning of the file, as much as fits into its share of the result.
    fn read_page(&self, share: usize, cx: &CallContext) -> Result<FilePage, ToolError> {
        if share < SHARE_BYTES_MIN {
            let message = "no space left in this result; read it with Read";
            return Err(ToolError::failed(ErrorReason::TooLarge, message));
        }
        let bytes_max = share.saturating_sub(self.header().len());
        let document = self.open(cx)?;
        match document.content_kind() {
            FileContentKind::Text(encoding) => {
                let request = TextPageRequest { first: 1, lines_max: LINES_DEFAULT, bytes_max };
                let page = document.read_page(&self.path, encoding, request, cx)?;
                let (rest, note) = (remaining_lines(&page, 1), page_note(&page, encoding));
                let (file, header) = (self.shown.clone(), self.header());
                Ok(FilePage { file, path: self.path.clone(), header, page, rest, note })
            }
            FileContentKind::Media(media) => Err(ToolError::invalid(
                ErrorReason::Binary,
                format!("{}, {} bytes; read it with Read", media.mime, self.size),
            )),
            FileContentKind::Binary(mime) => Err(ToolError::invalid(
                ErrorReason::Binary,
                mime.map_or("binary".to_owned(), |mime| format!("binary ({mime})")),
            )),
        }
    }
}

/// The beginning of a file, with its header and notes.
struct FilePage {
    file: String,
    path: PathBuf,
    header: String,
    page: TextPage,
    rest: Option<RemainingLines>,
    note: Option<String>,
}

impl FilePage {
    /// Size in the result, in bytes.
    fn rendered_bytes(&self) -> usize {
        number_page_lines(&self.page, 1).len()
            + self.header.len()
            + self.rest.map_or(0, |_| REST_NOTE_BYTES)
            + self.note.as_ref().map_or(0, String::len)
    }
}

/// Reads the files, smallest first, so that unused parts of their shares go to larger ones. Pages
/// and errors are returned in the order of the files.
fn read_candidates(
    files: &[ReadCandidate],
    skipped: &mut Vec<UnreadFile>,
    cx: &CallContext,
) -> Result<Vec<FilePage>, ToolError> {
    let mut by_size: Vec<usize> = (0..files.len()).collect();
    by_size.sort_by_key(|index| files[*index].size);
    let mut outcomes = Vec::with_capacity(files.len());
    let mut room = cx.limits().model_output_bytes_max.as_usize();
    for (position, index) in by_size.into_iter().enumerate() {
        let share = room / (files.len() - position);
        cx.check_cancelled()?;
        let outcome = files[index].read_page(share, cx);
        room = room.saturating_sub(outcome.as_ref().map_or(0, FilePage::rendered_bytes));
        outcomes.push((index, outcome));
    }
    // An error of a cancelled read is not a reason to list.
    cx.check_cancelled()?;
    outcomes.sort_by_key(|(index, _)| *index);
    let mut pages = Vec::with_capacity(outcomes.len());
    for (index, outcome) in outcomes {
        match outcome {
            Ok(page) => pages.push(page),
            Err(error) => skipped
                .push(UnreadFile { file_path: files[index].shown.clone(), reason: error.message }),
        }
    }
    Ok(pages)
}

fn build_reply(
    pages: Vec<FilePage>,
    skipped: Vec<UnreadFile>,
    denied: &DeniedEntries,
) -> ToolReply<ReadManyOutput> {
    let mut content = Vec::with_capacity(pages.len() * 2 + 1);
    let mut files = Vec::with_capacity(pages.len());
    let mut locations = Vec::with_capacity(pages.len());
    for FilePage { file, path, header, page, rest, note } in pages {
        files.push(ReadManyFile {
            file_path: file,
            content: number_page_lines(&page, 1),
            total_lines: page.total_lines,
        });
        locations.push(FileLocation { path, line: None });
        content.push(ToolResultPart::Text(header));
        content.push(to_model_content(page, 1, rest, note));
    }
    if !skipped.is_empty() {
        content.push(ToolResultPart::Text(format!("Skipped:\n{}", render_skipped(&skipped))));
    }
    content.extend(denied.note().map(|note| ToolResultPart::Text(format!("({note})"))));
    let count = files.len() as u64;
    let summary = match skipped.len() {
        0 => format!("Read {count} files"),
        missed => format!("Read {count} files, skipped {missed}"),
    };
    ToolReply {
        content,
        display: ResultDisplay::markdown(summary),
        output: ReadManyOutput { files, skipped, count, left_out: denied.count() },
        locations,
    }
}

/// Renders one line each. A reason that names its file needs no prefix.
fn render_skipped(skipped: &[UnreadFile]) -> String {
    let line = |UnreadFile { file_path, reason }: &UnreadFile| {
        let name = format!("`{file_path}`");
        if reason.starts_with(&name) {
            format!("- {reason}")
        } else {
            format!("- {name}: {reason}")
        }
    };
    skipped.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn nothing_read_error(skipped: &[UnreadFile], denied: &DeniedEntries) -> ToolError {
    let mut message = format!("none of the files could be read:\n{}", render_skipped(skipped));
    message.extend(denied.note().map(|note| format!("\n({note})")));
    let error = ToolError::not_found(ErrorReason::Io, message)
        .with_detail("skipped", serde_json::to_value(skipped).unwrap_or_default());
    match denied.count() {
        Some(count) => error.with_detail("left_out", count),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;
    use serde_json::{Value, json};
    use zero_core::ErrorType;
    use zero_sandbox::FinalLinkMode;

    fn sample_host() -> TestHost {
        let host = TestHost::new().with_files(&[
            ("src/main.rs", "fn main() {\n}\n"),
            ("src/deep/lib.rs", "mod a;\n"),
            ("pages/[id].tsx", "page"),
            ("notes.md", "# Notes"),
            ("empty", ""),
            ("target/out.rs", "built"),
            (".gitignore", "target"),
            (".github/ci.yml", "on: push"),
        ]);
        host.write_file("src/logo.png", b"\x89PNG\r\n\x1A\n\0\0");
        host.write_file("src/data.bin", b"\0\x01\x02");
        std::os::unix::fs::symlink("main.rs", host.path("src/link.rs")).unwrap();
        host
    }

    #[track_caller]
    fn check(paths: Value, expected: &str) {
        assert_eq!(sample_host().text("ReadMany", json!({"paths": paths})), expected);
    }

    #[test]
    fn files_and_globs_are_read_once_each() {
        check(
            json!(["notes.md", "src/**/*.rs", "src/main.rs"]),
            "--- notes.md ---\n1: # Notes\n--- src/deep/lib.rs ---\n1: mod a;\n--- src/main.rs ---\n1: fn main() {\n}",
        );
        check(json!(["src/*.rs"]), "--- src/main.rs ---\n1: fn main() {\n}");
        check(json!(["empty"]), "--- empty ---\n(the file is empty)");
        check(json!(["pages/[id].tsx"]), "--- pages/[id].tsx ---\n1: page");
        check(json!([".github/*"]), "--- .github/ci.yml ---\n1: on: push");
        check(json!(["src/link.rs"]), "--- src/main.rs ---\n1: fn main() {\n}");
    }

    #[test]
    fn unreadable_files_are_skipped_with_reason() {
        check(
            json!(["notes.md", "src/mian.rs", "src/*.bin", "src/logo.png", "target/*.rs", "src"]),
            "--- notes.md ---\n1: # Notes\nSkipped:\n\
             - `target/*.rs`: no file matches\n\
             - `src/mian.rs` does not exist; did you mean `src/main.rs` or `src/link.rs`?\n\
             - `src/data.bin`: binary\n\
             - `src/logo.png`: image/png, 10 bytes; read it with Read\n\
             - `src` is a folder; list it or name a file in it",
        );
        check(
            json!(["notes.md", "src/main.rs/x", "", "src/main.rs/"]),
            "--- notes.md ---\n1: # Notes\nSkipped:\n\
             - `src/main.rs/x`: could not look up `src/main.rs/x`: not a directory; part of the path is a file\n\
             - ``: the path is empty; name a file or folder\n\
             - `src/main.rs/` names a folder; name a file in it",
        );
    }

    #[test]
    fn structured_output_has_files_skipped_and_count() {
        let result = sample_host().ok("ReadMany", json!({"paths": ["notes.md", "none*"]}));
        assert_eq!(
            result.structured,
            json!({
                "files": [{"file_path": "notes.md", "content": "     1\t# Notes", "total_lines": 1}],
                "skipped": [{"file_path": "none*", "reason": "no file matches"}],
                "count": 1,
            })
        );
    }

    #[test]
    fn nothing_readable_is_an_error() {
        let error = sample_host().err("ReadMany", json!({"paths": ["none*", "src/data.bin"]}));
        assert_eq!(error.error_type, ErrorType::NotFound);
        assert_eq!(
            error.message,
            "none of the files could be read:\n- `none*`: no file matches\n- `src/data.bin`: binary"
        );
        let error = sample_host().err("ReadMany", json!({"paths": ["notes.md", "src/[a"]}));
        assert_eq!(error.reason(), Some(ErrorReason::BadPattern));
        let error = sample_host().err("ReadMany", json!({"paths": []}));
        assert_eq!(error.reason(), Some(ErrorReason::SchemaViolation));
    }

    #[test]
    fn files_share_the_output_budget() {
        let host = TestHost::new().with_model_output_max(3_000);
        host.write_file("big1", "0123456789\n".repeat(1_000).as_bytes());
        host.write_file("small", b"all of it");
        host.write_file("big2", "0123456789\n".repeat(2_000).as_bytes());
        let result = host.ok("ReadMany", json!({"paths": ["big1", "small", "big2"]}));
        let rests: Vec<Option<u64>> = result
            .content
            .iter()
            .filter_map(|content| match content {
                ToolResultPart::Lines { rest, .. } => Some(rest.map(|rest| rest.next)),
                _ => None,
            })
            .collect();
        assert_eq!(rests, [Some(82), None, Some(80)]);
    }

    #[test]
    fn glob_does_not_follow_links_out_of_workspace() {
        let host =
            TestHost::new().with_files(&[("a/b.txt", "inside"), ("../secret/c.txt", "outside")]);
        std::os::unix::fs::symlink(host.outside().join("secret"), host.path("a/link")).unwrap();
        std::os::unix::fs::symlink("../../secret/c.txt", host.path("a/c.txt")).unwrap();
        let read = |glob: &str| host.ok("ReadMany", json!({"paths": ["a/b.txt", glob]}));
        for glob in ["**/*.txt", "a/**", "a/link/*", "a/link/**/*.txt"] {
            assert_eq!(read(glob).structured["count"], 1, "{glob}");
        }
        // If named explicitly, the target of the link is what the policy checks.
        let error = host.err("ReadMany", json!({"paths": ["a/link/c.txt"]}));
        assert_eq!(error.error_type, ErrorType::PermissionDenied);
    }

    #[test]
    fn file_count_is_bounded() {
        let host = TestHost::new();
        for number in 0..150 {
            host.write_file(&format!("f{number:03}"), b"x");
        }
        let result = host.ok("ReadMany", json!({"paths": ["f149", "f*"]}));
        assert_eq!(result.structured["count"], 100);
        assert_eq!(result.structured["files"][0]["file_path"], "f149");
        assert_eq!(result.structured["files"][1]["file_path"], "f000");
        assert_eq!(
            result.structured["skipped"][0]["reason"],
            "51 more files match; at most 100 are read at once, narrow the glob"
        );
    }

    #[test]
    fn long_lines_stay_within_output_limit() {
        let host = TestHost::new().with_model_output_max(5_000);
        for number in 0..50 {
            host.write_file(&format!("f{number}"), "x".repeat(3_000).as_bytes());
        }
        let result = host.ok("ReadMany", json!({"paths": ["*"]}));
        let count = result.structured["count"].as_u64().unwrap();
        let skipped = result.structured["skipped"].as_array().unwrap();
        assert!((1..5).contains(&count), "{count}");
        assert_eq!(count as usize + skipped.len(), 50);
    }

    #[test]
    fn session_records_what_was_read() {
        let host = TestHost::with_session().with_files(&[("a", "1"), ("d/b", "2")]);
        host.ok("ReadMany", json!({"paths": ["a", "d/*"]}));
        for name in ["a", "d/b"] {
            let located = host.workspace().resolve(name, FinalLinkMode::Follow).unwrap();
            let now = host.snapshot(&located);
            let freshness = host.session().seen_files().unwrap().freshness(located.path(), &now);
            assert_eq!(freshness, zero_runtime::seen_files::FileFreshness::Fresh, "{name}");
        }
    }

    #[test]
    fn title_and_effects_name_the_files() {
        let host = sample_host();
        let args =
            ReadManyArgs { paths: ["a", "b", "src/*.rs", "d", "*.md"].map(str::to_owned).to_vec() };
        let plan = ReadManyTool.plan(args, host.workspace()).unwrap();
        assert_eq!(ReadManyTool.describe(&plan).title, "Read `a`, `b`, `src/*.rs` and 2 more");
        let written: Vec<String> = ReadManyTool
            .effects(&plan)
            .iter()
            .map(|effect| host.workspace().display_path(effect.path().unwrap().canonical()))
            .collect();
        assert_eq!(written, ["a", "b", ".", "d"]);
    }
}
