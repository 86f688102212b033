//! The Grep tool: searches the contents of files.
//!
//! The directory walk and the search are ripgrep's crates, run in this process: there are no flags
//! to inject and no output to parse. The result is deterministic: it has the first hits in path
//! order, in whatever order the threads find them ([`hit_collector`]), and exact totals even if not
//! all hits are shown.

mod file_filter;
mod grep_results;
mod hit_collector;
mod search;

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::text_shortening::shorten_end;
use zero_core::{
    ByteSize, Effects, ErrorReason, HostLimits, RiskLevel, TimeoutClass, ToolCategory, ToolError,
    ToolKind,
};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::{FileType, ResolvedPath, Workspace};

use crate::paging::LINE_CHARS_MAX;
use crate::path_glob_set::PATTERN_BYTES_MAX;
use crate::path_not_found;
use crate::walk::denied_entries::DeniedEntries;
use crate::walk::ignore_files::SkippedFolders;
use crate::walk::search_roots::SearchRoots;
use crate::walk::{FileWalk, WalkResult};
use file_filter::GrepFileFilter;
use grep_results::GrepResults;
use hit_collector::{GrepBudget, HitCollector};
use search::{FileSearcher, FolderSearchVisitor, GrepQuery, GrepTotals, MatchRetention};

/// Most hits in a result unless the caller sets a limit.
const HEAD_LIMIT: u64 = 1_000;
/// Most text of all hits in a result, in bytes.
const HITS_BYTES_MAX: usize = 8_000_000;
/// Most memory for a compiled pattern, in bytes.
const REGEX_BYTES_MAX: usize = 10_000_000;
/// Longest pattern in a title, in characters.
const TITLE_CHARS_MAX: usize = 80;

/// Searches the contents of files with a regular expression (Rust syntax: no look-around or
/// backreferences; escape literal `(`, `{`, `[`, `.` with a backslash). Skips binary files, files
/// that `.gitignore` excludes, and hidden files unless `glob` names them (`.github/**`). By default
/// lists the files that match; set `output_mode` to `content` for the matching lines. Totals always
/// cover all matches.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrepArgs {
    /// The regular expression, matched line by line.
    pattern: String,
    /// File or folder to search; the whole workspace when absent.
    path: Option<String>,
    /// Only search files that match this glob: `*.rs` by name at any depth, `src/**/*.ts` by path
    /// below `path`; a leading `!` searches all others.
    glob: Option<String>,
    /// `content` shows matching lines, `files_with_matches` (default) paths, `count` matches per
    /// file.
    output_mode: Option<GrepOutputMode>,
    /// Ignore case.
    #[serde(rename = "-i")]
    ignore_case: Option<bool>,
    /// Show line numbers with `content`; default true.
    #[serde(rename = "-n")]
    numbered: Option<bool>,
    /// Lines to show after each match with `content`.
    #[serde(rename = "-A")]
    #[schemars(range(max = 1000))]
    after: Option<u32>,
    /// Lines to show before each match with `content`.
    #[serde(rename = "-B")]
    #[schemars(range(max = 1000))]
    before: Option<u32>,
    /// Lines to show before and after each match with `content`.
    #[serde(rename = "-C")]
    #[schemars(range(max = 1000))]
    around: Option<u32>,
    /// Let matches span lines: `.` also matches a newline.
    multiline: Option<bool>,
    /// Only search files of this type, such as `rust`, `ts` or `py`.
    r#type: Option<String>,
    /// Most matches, or files, to show; default 1000.
    head_limit: Option<NonZeroU64>,
    /// Globs of files and folders to leave out, such as `node_modules` or `**/*.min.js`.
    exclude: Option<Vec<String>>,
    /// Search for the text itself if `pattern` is not a valid regular expression.
    #[serde(default)]
    literal_fallback: bool,
}

/// What a result lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrepOutputMode {
    /// Matching lines.
    Content,
    /// Files that match.
    #[default]
    FilesWithMatches,
    /// The number of matches in each file.
    Count,
}

/// The hits, in path order.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GrepOutput {
    /// One per matching line; one per file in the modes that list files.
    pub(crate) matches: Vec<GrepMatch>,
    /// Matching lines over everything searched, shown or not; with `multiline`, matches.
    pub(crate) total_matches: u64,
    /// Number of files and folders left out because reading them is denied, whatever they contain;
    /// absent when there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<u64>,
}

/// A single hit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GrepMatch {
    /// Path of the file.
    pub(crate) file: String,
    /// Number of the line, counted from 1; of the first matching line where a file is listed.
    pub(crate) line_number: u64,
    /// The line, cut after 2000 characters; in `count` mode the number of matches in the file.
    pub(crate) content: String,
}

/// A validated call, with its search roots and compiled patterns.
pub struct GrepPlan {
    bases: SearchRoots,
    pattern: String,
    matcher: RegexMatcher,
    /// What the reader must know if the pattern was searched as text.
    literal_note: Option<String>,
    multiline: bool,
    mode: GrepOutputMode,
    numbered: bool,
    before: usize,
    after: usize,
    head_limit: u64,
    filter: GrepFileFilter,
}

#[cfg(feature = "lsp")]
impl GrepPlan {
    /// A plan that lists at most `head_limit` lines with a text, in files that match `glob`.
    pub(crate) fn for_text(
        text: &str,
        bases: SearchRoots,
        glob: Option<&str>,
        head_limit: u64,
    ) -> Result<Self, ToolError> {
        let matcher = compile_pattern(&escape_pattern(text), false, false)
            .map_err(|kind| bad_regex_error(text, &kind))?;
        Ok(Self {
            bases,
            pattern: text.to_owned(),
            matcher,
            literal_note: None,
            multiline: false,
            mode: GrepOutputMode::Content,
            numbered: true,
            before: 0,
            after: 0,
            head_limit,
            filter: GrepFileFilter::parse(glob, None, None)?,
        })
    }
}

/// Searches for another tool. Blocks.
#[cfg(feature = "lsp")]
pub(crate) fn find_lines(plan: &GrepPlan, cx: &CallContext) -> Result<GrepOutput, ToolError> {
    run_grep(plan, cx).map(|reply| reply.output)
}

/// Searches the content of files.
pub struct GrepTool;

impl Tool for GrepTool {
    type Args = GrepArgs;
    type Output = GrepOutput;
    type Plan = GrepPlan;
    const NAME: &'static str = "Grep";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Search file contents",
            category: ToolCategory::Search,
            kind: ToolKind::Search,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::Search,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("reads every file below a folder that globs and ignore files do not exclude")
            .with_bounds([
                ToolBound::count("hits, unless `head_limit` is set", HEAD_LIMIT as usize),
                ToolBound::bytes("text of all hits", HITS_BYTES_MAX),
                ToolBound::lines("one match", search::MATCH_LINES_MAX),
                ToolBound::characters("a shown line", LINE_CHARS_MAX),
                ToolBound::bytes("the compiled pattern", REGEX_BYTES_MAX),
                ToolBound::bytes("a glob", PATTERN_BYTES_MAX),
            ])
    }

    fn plan(&self, args: GrepArgs, workspace: &Workspace) -> Result<GrepPlan, ToolError> {
        let multiline = args.multiline.unwrap_or(false);
        let (matcher, literal_note) = build_matcher(&args)?;
        let filter = GrepFileFilter::parse(
            args.glob.as_deref(),
            args.exclude.as_deref(),
            args.r#type.as_deref(),
        )?;
        let bases = SearchRoots::resolve(args.path.as_deref(), workspace)?;
        let mode = args.output_mode.unwrap_or_default();
        let context = |side: Option<u32>| match mode {
            GrepOutputMode::Content => side.or(args.around).unwrap_or(0) as usize,
            GrepOutputMode::FilesWithMatches | GrepOutputMode::Count => 0,
        };
        Ok(GrepPlan {
            bases,
            matcher,
            literal_note,
            multiline,
            mode,
            numbered: args.numbered.unwrap_or(true),
            before: context(args.before),
            after: context(args.after),
            head_limit: args.head_limit.map_or(HEAD_LIMIT, NonZeroU64::get),
            filter,
            pattern: args.pattern,
        })
    }

    fn describe(&self, plan: &GrepPlan) -> CallDescription {
        let pattern = shorten_end(&plan.pattern, TITLE_CHARS_MAX);
        let title = format!("Grep `{pattern}`{}", plan.bases.describe_location());
        CallDescription { title, locations: vec![] }
    }

    fn effects(&self, plan: &GrepPlan) -> Effects {
        plan.bases.read_effects()
    }

    async fn run(
        &self,
        plan: Arc<GrepPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<GrepOutput>, ToolError> {
        cx.run_blocking(move |cx| run_grep(&plan, cx)).await
    }
}

/// Returns the matcher of a call, and a note if the pattern is searched as text.
fn build_matcher(args: &GrepArgs) -> Result<(RegexMatcher, Option<String>), ToolError> {
    let ignore_case = args.ignore_case.unwrap_or(false);
    let multiline = args.multiline.unwrap_or(false);
    let kind = match compile_pattern(&args.pattern, ignore_case, multiline) {
        Ok(matcher) => return Ok((matcher, None)),
        Err(kind) => kind,
    };
    let error = bad_regex_error(&args.pattern, &kind);
    if !args.literal_fallback || !is_syntax_error(&kind) {
        return Err(error);
    }
    // A text that cannot be searched either, such as one with a line break, fails for the reason
    // that the pattern has.
    let text = escape_pattern(&args.pattern);
    let matcher = compile_pattern(&text, ignore_case, multiline).map_err(|_| error)?;
    let shown = shorten_end(&args.pattern, TITLE_CHARS_MAX);
    let note = format!("`{shown}` is not a regular expression; it was searched as text");
    Ok((matcher, Some(note)))
}

/// Compiles a pattern with the options of `rg`, so that it has the same meaning and cost.
fn compile_pattern(
    pattern: &str,
    ignore_case: bool,
    multiline: bool,
) -> Result<RegexMatcher, ErrorKind> {
    let mut builder = RegexMatcherBuilder::new();
    builder.multi_line(true).case_insensitive(ignore_case).size_limit(REGEX_BYTES_MAX);
    match multiline {
        true => builder.dot_matches_new_line(true),
        // With the promise that no match spans lines, the searcher can skip from hit to hit.
        false => builder.line_terminator(Some(b'\n')),
    };
    builder.build(pattern).map_err(|error| error.kind().clone())
}

/// Whether a pattern is not an expression at all; one that is too large is.
fn is_syntax_error(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Regex(why) if !why.contains("size limit"))
}

fn bad_regex_error(pattern: &str, kind: &ErrorKind) -> ToolError {
    let message = match kind {
        ErrorKind::NotAllowed(_) => {
            "the pattern contains a newline, but lines are searched one by one; let matches span lines, or search for one of its lines".to_owned()
        }
        ErrorKind::Regex(why) if why.contains("size limit") => {
            "the pattern is too large once compiled; use smaller repetitions or fewer alternatives".to_owned()
        }
        ErrorKind::Regex(why) if why.contains("not supported") => {
            format!("{why}\nsearch for a simpler pattern and look at the lines around its matches")
        }
        ErrorKind::Regex(why) => {
            format!("{why}\nto search for exactly this text, use the pattern `{}`", escape_pattern(pattern))
        }
        other => format!("the pattern is not valid: {other:?}"),
    };
    ToolError::invalid(ErrorReason::BadPattern, message).with_detail("pattern", pattern)
}

/// Returns the pattern that matches `text` literally.
fn escape_pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn run_grep(plan: &GrepPlan, cx: &CallContext) -> Result<ToolReply<GrepOutput>, ToolError> {
    let hits = HitCollector::new(GrepBudget {
        entries: plan.head_limit,
        bytes: hits_bytes_max(cx.limits()),
    });
    let query = build_query(plan, cx);
    let mut totals = GrepTotals::default();
    let (mut left_out, mut denied) = (SkippedFolders::default(), DeniedEntries::default());
    for (index, base) in plan.bases.folders().iter().enumerate() {
        let search = || FileSearcher::new(&query, index, &hits, cx);
        totals = totals.plus(match base.facts()?.map(|facts| facts.file_type) {
            None => return Err(path_not_found::not_found_error(base, cx)),
            Some(FileType::Directory) => {
                let walked = search_folder(plan, base, search, cx)?;
                left_out = left_out.merge(walked.left_out);
                denied = denied.merge(walked.denied);
                walked.visitors.into_iter().fold(GrepTotals::default(), GrepTotals::plus)
            }
            Some(_) => search_file(base, search(), cx)?,
        });
    }
    let left_out = left_out.note(cx.workspace());
    Ok(GrepResults::new(plan, hits, totals, cx.workspace())
        .into_reply(plan, totals, left_out, &denied))
}

/// Leaves space in a result for the text for the model, and for the fields around the hits.
fn hits_bytes_max(limits: &HostLimits) -> usize {
    let [result, model] =
        [limits.result_bytes_max, limits.model_output_bytes_max].map(ByteSize::as_usize);
    HITS_BYTES_MAX.min(result.saturating_sub(model) / 5 * 4)
}

fn build_query(plan: &GrepPlan, cx: &CallContext) -> GrepQuery {
    GrepQuery {
        matcher: plan.matcher.clone(),
        multiline: plan.multiline,
        keep: match plan.mode {
            GrepOutputMode::Content => MatchRetention::AllMatches,
            GrepOutputMode::FilesWithMatches | GrepOutputMode::Count => MatchRetention::FirstMatch,
        },
        before: plan.before,
        after: plan.after,
        heap_bytes_max: cx.limits().file_bytes_max.as_usize(),
    }
}

fn search_folder<'a>(
    plan: &GrepPlan,
    base: &ResolvedPath,
    search: impl Fn() -> FileSearcher<'a>,
    cx: &CallContext,
) -> Result<WalkResult<GrepTotals>, ToolError> {
    let folder = base.open_folder()?;
    let walk = FileWalk { without: plan.bases.nested_root(base), ..plan.filter.build_walk() };
    let walked = walk.run(&folder, base.target().written(), cx, || FolderSearchVisitor {
        folder: &folder,
        is_included: |relative: &Path| plan.filter.accepts(relative),
        search: search(),
    })?;
    let WalkResult { visitors, left_out, denied } = walked;
    let visitors = visitors.iter().map(|beneath| beneath.search.totals()).collect();
    Ok(WalkResult { visitors, left_out, denied })
}

/// A file that is named explicitly is searched regardless of filters and `.gitignore`.
fn search_file(
    base: &ResolvedPath,
    mut search: FileSearcher<'_>,
    cx: &CallContext,
) -> Result<GrepTotals, ToolError> {
    search.search(base.open_file()?, Path::new(""));
    cx.check_cancelled()?;
    Ok(search.totals())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests create real files")]
    use super::*;
    use crate::test_host::TestHost;
    use serde_json::{Value, json};
    use std::path::PathBuf;
    use tokio_util::sync::CancellationToken;
    use zero_core::ErrorType;
    use zero_core::{FileLocation, ResultDisplay};
    use zero_sandbox::FinalLinkMode;

    fn sample_tree() -> TestHost {
        let host = TestHost::new().with_files(&[
            (".gitignore", "*.log\n/out/\n!keep.log\n"),
            (".env", "needle\n"),
            (".git/x", "needle\n"),
            ("a.rs", "one needle\ntwo\nthree\nfour\nNeedle five\nsix needle needle\n"),
            ("lib/b.rs", "fn needle() {}\n"),
            ("lib/c.py", "needle = 1\r\nother\r\n"),
            ("lib/.gitignore", "skip*\n!skip-not.md\n"),
            ("lib/skip.md", "needle\n"),
            ("lib/skip-not.md", "needle\n"),
            ("out/d.rs", "needle\n"),
            ("keep.log", "needle\n"),
            ("run.log", "needle\n"),
        ]);
        host.write_file("bin.dat", b"needle\n\0\x01needle\n");
        host.write_file("latin.txt", b"needle \xe9\n");
        host.write_file("wide.txt", b"\xff\xfen\0e\0e\0d\0l\0e\0\n\0");
        host
    }

    /// Returns the structured hits as `file:line:content`, and the total.
    fn hits(host: &TestHost, input: Value) -> (Vec<String>, u64) {
        let output = host.ok("Grep", input).structured;
        let line = |m: &Value| {
            format!(
                "{}:{}:{}",
                m["file"].as_str().unwrap(),
                m["line_number"],
                m["content"].as_str().unwrap()
            )
        };
        (
            output["matches"].as_array().unwrap().iter().map(line).collect(),
            output["total_matches"].as_u64().unwrap(),
        )
    }

    #[track_caller]
    fn check(host: &TestHost, input: Value, expected: &[&str], total: u64) {
        let shown = input.to_string();
        assert_eq!(
            hits(host, input),
            (expected.iter().map(|&hit| hit.to_owned()).collect(), total),
            "{shown}"
        );
    }

    /// Checks the paths of the matching files.
    #[track_caller]
    fn check_files(host: &TestHost, input: Value, expected: &[&str]) {
        let shown = input.to_string();
        let files: Vec<String> = hits(host, input)
            .0
            .iter()
            .map(|hit| hit.split(':').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(files, expected, "{shown}");
    }

    /// Returns the text for the model.
    fn model_text(host: &TestHost, input: Value) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let rendered = runtime.block_on(host.call("Grep", input)).outcome.unwrap().rendered;
        rendered.content.iter().filter_map(|piece| piece["text"].as_str()).collect()
    }

    #[test]
    fn output_modes_agree_on_totals() {
        let host = sample_tree();
        check(
            &host,
            json!({"pattern": "needle", "path": "a.rs", "output_mode": "content"}),
            &["a.rs:1:one needle", "a.rs:6:six needle needle"],
            2,
        );
        check(
            &host,
            json!({"pattern": "needle"}),
            &[
                "a.rs:1:one needle",
                "keep.log:1:needle",
                "latin.txt:1:needle \u{fffd}",
                "lib/b.rs:1:fn needle() {}",
                "lib/c.py:1:needle = 1",
                "lib/skip-not.md:1:needle",
                "wide.txt:1:needle",
            ],
            8,
        );
        check(
            &host,
            json!({"pattern": "needle", "-i": true, "output_mode": "count", "glob": "*.{rs,py}"}),
            &["a.rs:1:3", "lib/b.rs:1:1", "lib/c.py:1:1"],
            5,
        );
        assert_eq!(
            model_text(&host, json!({"pattern": "needle", "glob": "lib/**"})),
            "lib/b.rs\nlib/c.py\nlib/skip-not.md"
        );
        assert_eq!(
            model_text(&host, json!({"pattern": "needle", "type": "rust", "output_mode": "count"})),
            "a.rs:2\nlib/b.rs:1"
        );
        let nothing = model_text(&host, json!({"pattern": "absent"}));
        assert_eq!(
            nothing,
            "No matches found for `absent` (7 files searched, 1 binary file skipped)"
        );
    }

    #[test]
    fn filters_narrow_without_unignoring() {
        let host = sample_tree();
        let all = |key: &str, value: Value| json!({"pattern": "needle", key: value});
        check_files(&host, all("glob", json!("*.rs")), &["a.rs", "lib/b.rs"]);
        check_files(&host, all("glob", json!("lib/*.rs")), &["lib/b.rs"]);
        check_files(&host, all("glob", json!("*.log")), &["keep.log"]);
        check_files(&host, all("glob", json!("out/*")), &[]);
        check_files(&host, all("glob", json!("!*.{rs,txt,log}")), &["lib/c.py", "lib/skip-not.md"]);
        check_files(
            &host,
            all("glob", json!("!lib/")),
            &["a.rs", "keep.log", "latin.txt", "wide.txt"],
        );
        check_files(&host, all("glob", json!(".env")), &[".env"]);
        check_files(&host, all("glob", json!(".git/*")), &[]);
        check_files(&host, all("type", json!("py")), &["lib/c.py"]);
        check_files(&host, all("exclude", json!(["lib", "*.txt"])), &["a.rs", "keep.log"]);
        check_files(
            &host,
            all("exclude", json!(["lib/*.py", "./a.rs", "*.txt", "*.log"])),
            &["lib/b.rs", "lib/skip-not.md"],
        );
        check_files(&host, all("path", json!("lib")), &["lib/b.rs", "lib/c.py", "lib/skip-not.md"]);
        check_files(&host, all("path", json!("run.log")), &["run.log"]);
        check_files(&host, all("path", json!("out")), &["out/d.rs"]);
        check_files(
            &host,
            json!({"pattern": "needle", "path": "lib", "glob": "b.*"}),
            &["lib/b.rs"],
        );
    }

    /// A name is shown on one line, whatever characters it has; the structured name is unchanged.
    #[test]
    fn control_characters_in_name_stay_on_one_line() {
        let host = TestHost::new().with_files(&[("a\nb.rs", "needle\n")]);
        for (mode, expected) in [
            ("files_with_matches", r"a\nb.rs"),
            ("count", r"a\nb.rs:1"),
            ("content", r"a\nb.rs:1:needle"),
        ] {
            let input = json!({"pattern": "needle", "output_mode": mode});
            assert_eq!(model_text(&host, input.clone()), expected);
            assert_eq!(host.ok("Grep", input).structured["matches"][0]["file"], "a\nb.rs");
        }
    }

    #[test]
    fn context_lines_are_shown_but_not_counted() {
        let host = sample_tree();
        let shown = model_text(
            &host,
            json!({"pattern": "one|six", "path": "a.rs", "output_mode": "content", "-A": 1, "-B": 1}),
        );
        assert_eq!(
            shown,
            "a.rs:1:one needle\na.rs-2-two\n--\na.rs-5-Needle five\na.rs:6:six needle needle"
        );
        let around = json!({"pattern": "three", "path": "a.rs", "output_mode": "content", "-C": 1, "-A": 0, "-n": false});
        assert_eq!(model_text(&host, around), "a.rs-two\na.rs:three");
        check(
            &host,
            json!({"pattern": "one", "path": "a.rs", "output_mode": "content", "-C": 9}),
            &["a.rs:1:one needle"],
            1,
        );
        let cut = json!({"pattern": "needle", "path": "a.rs", "output_mode": "content", "-C": 1, "head_limit": 1});
        assert_eq!(
            model_text(&host, cut),
            "a.rs:1:one needle\na.rs-2-two\n\n(showing 1 of 2 matches in 1 file; narrow the search or raise its limit)"
        );
    }

    #[test]
    fn multiline_counts_matches_and_shows_lines_once() {
        let host = TestHost::new()
            .with_files(&[("m.txt", "start a\nend b\nx start c end start d\ne end\nlast\n")]);
        let input = json!({"pattern": "start.*?end", "multiline": true, "output_mode": "content"});
        check(
            &host,
            input.clone(),
            &[
                "m.txt:1:start a\nend b",
                "m.txt:3:x start c end start d",
                "m.txt:3:x start c end start d\ne end",
            ],
            3,
        );
        assert_eq!(
            model_text(&host, input),
            "m.txt:1:start a\nm.txt:2:end b\nm.txt:3:x start c end start d\nm.txt:4:e end"
        );
        check(
            &host,
            json!({"pattern": "start.*?end", "multiline": true, "output_mode": "count"}),
            &["m.txt:1:3"],
            3,
        );
        check(
            &host,
            json!({"pattern": "a$\\n^end", "multiline": true}),
            &["m.txt:1:start a\nend b"],
            1,
        );
        check(&host, json!({"pattern": "start", "multiline": true}), &["m.txt:1:start a"], 3);
        check(&host, json!({"pattern": "start.*?end"}), &["m.txt:3:x start c end start d"], 1);
    }

    #[test]
    fn shown_hits_are_first_by_path_and_totals_exact() {
        let host = TestHost::new();
        for n in 0..300 {
            host.write_file(&format!("d{}/f{n:03}", n % 7), "hit\nmiss\n".repeat(n % 5).as_bytes());
        }
        for (mode, first) in [
            ("content", "d0/f007:1:hit"),
            ("files_with_matches", "d0/f007:1:hit"),
            ("count", "d0/f007:1:2"),
        ] {
            let input =
                |limit: u64| json!({"pattern": "hit", "output_mode": mode, "head_limit": limit});
            let (all, total) = hits(&host, input(10_000));
            assert_eq!((all[0].as_str(), total), (first, 600));
            let mut sorted = all.clone();
            sorted.sort_by_key(|hit| PathBuf::from(hit.split(':').next().unwrap()));
            assert_eq!(all, sorted);
            for _ in 0..20 {
                assert_eq!(hits(&host, input(17)), (all[..17].to_vec(), 600), "{mode}");
            }
        }
        let files = model_text(&host, json!({"pattern": "hit", "head_limit": 2}));
        assert!(
            files.ends_with(
                "(showing 2 of 240 files with 600 matches; narrow the search or raise its limit)"
            ),
            "{files}"
        );
    }

    #[test]
    fn results_are_bounded_in_bytes() {
        let line = format!("hit {}\n", "x".repeat(1_900));
        let host = TestHost::new().with_result_max(100_000);
        for n in 0..4 {
            host.write_file(&format!("f{n}"), line.repeat(20).as_bytes());
        }
        let (shown, total) = hits(&host, json!({"pattern": "hit", "output_mode": "content"}));
        assert_eq!(total, 80);
        assert_eq!(shown.len(), 21);
        assert!(shown[..20].iter().all(|hit| hit.starts_with("f0:")));
    }

    #[test]
    fn long_line_is_truncated() {
        let host =
            TestHost::new().with_files(&[("min.js", &format!("hit{}", "y".repeat(200_000)))]);
        let (shown, _) = hits(&host, json!({"pattern": "hit", "output_mode": "content"}));
        assert!(shown[0].ends_with("y… (198003 more characters)"), "{}", shown[0]);
    }

    #[test]
    fn file_longer_than_buffer_is_searched_fully() {
        let host = TestHost::new();
        let filler = "nothing here\n".repeat(20_000);
        host.write_file("long.txt", format!("{filler}hit\n").as_bytes());
        host.write_file("late.bin", format!("hit\n{filler}\0").as_bytes());
        check(&host, json!({"pattern": "hit"}), &["long.txt:20001:hit"], 1);
        let both = json!({"pattern": "hit|nothing$", "multiline": true});
        check(&host, both, &["late.bin:1:hit", "long.txt:20001:hit"], 2);
    }

    #[test]
    fn links_are_not_followed() {
        let host = sample_tree();
        std::fs::write(host.outside().join("secret.txt"), "password\n").unwrap();
        std::os::unix::fs::symlink(host.outside(), host.path("leak")).unwrap();
        std::os::unix::fs::symlink(host.outside().join("secret.txt"), host.path("link.txt"))
            .unwrap();
        check(&host, json!({"pattern": "password"}), &[], 0);
    }

    /// An entry found by the walk may be gone or replaced when it is opened.
    #[test]
    fn file_swapped_for_link_is_not_opened() {
        let host = sample_tree();
        std::fs::write(host.outside().join("secret"), "password\n").unwrap();
        std::os::unix::fs::symlink(host.outside(), host.path("folder")).unwrap();
        std::os::unix::fs::symlink(host.outside().join("secret"), host.path("file")).unwrap();
        let folder =
            host.workspace().resolve(".", FinalLinkMode::Follow).unwrap().open_folder().unwrap();
        assert!(folder.open_beneath(Path::new("a.rs")).is_some());
        assert!(folder.open_beneath(Path::new("file")).is_none());
        assert!(folder.open_beneath(Path::new("folder/secret")).is_none());
    }

    #[test]
    fn bad_input_is_explained() {
        let host = sample_tree();
        for (input, error_type, why) in [
            (
                json!({"pattern": "fn main("}),
                ErrorType::InvalidInput,
                r"use the pattern `fn main\(`",
            ),
            (json!({"pattern": "fn main("}), ErrorType::InvalidInput, "unclosed group"),
            (json!({"pattern": "(?=x)"}), ErrorType::InvalidInput, "look-around"),
            (json!({"pattern": "a\\nb"}), ErrorType::InvalidInput, "let matches span lines"),
            (
                json!({"pattern": "((a{99}){99}){99}"}),
                ErrorType::InvalidInput,
                "too large once compiled",
            ),
            (json!({"pattern": "a", "glob": "[x"}), ErrorType::InvalidInput, "is not a glob"),
            (json!({"pattern": "a", "exclude": ["/etc"]}), ErrorType::InvalidInput, "is absolute"),
            (
                json!({"pattern": "a", "type": "rusty"}),
                ErrorType::InvalidInput,
                "did you mean `rust`",
            ),
            (json!({"pattern": "a", "head_limit": 0}), ErrorType::InvalidInput, "at least 1"),
            (json!({"pattern": "a", "-C": 5000}), ErrorType::InvalidInput, "at most 1000"),
            (
                json!({"pattern": "a", "output_mode": "lines"}),
                ErrorType::InvalidInput,
                "files_with_matches",
            ),
            (json!({"pattern": "a", "path": "lob"}), ErrorType::NotFound, "did you mean `lib`"),
        ] {
            let shown = input.to_string();
            let error = host.err("Grep", input);
            assert_eq!(error.error_type, error_type, "{shown}");
            assert!(error.message.contains(why), "{shown}: {error}");
        }
    }

    #[tokio::test]
    async fn search_stops_on_cancel() {
        let host = TestHost::new();
        // Takes seconds to search.
        host.write_file("large.txt", &b"some text to look at\n".repeat(4_000_000));
        let large = host.path("large.txt").canonicalize().unwrap();
        let is_searched = || {
            let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file == large)
        };
        let stop = CancellationToken::new();
        let cancel = async {
            while !is_searched() {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let input = json!({"pattern": "(t.x.)+ t[^q]*k", "-i": true});
        let (report, ()) = tokio::join!(host.call_until("Grep", input, &stop), cancel);
        let reason = report.outcome.err().and_then(|error| error.reason());
        assert_eq!(reason, Some(ErrorReason::Cancelled));
    }

    #[tokio::test]
    async fn call_reports_effects_and_locations() {
        let host = sample_tree();
        let input = json!({"pattern": "needle", "path": "lib", "output_mode": "content"});
        let report = host.call("Grep", input).await;
        assert_eq!(report.title.as_deref(), Some("Grep `needle` in lib"));
        let result = report.outcome.unwrap().result;
        assert_eq!(result.display, ResultDisplay::markdown("Found 3 matches in 3 files"));
        let root = host.path("").canonicalize().unwrap();
        assert_eq!(
            result.locations[0],
            FileLocation { path: root.join("lib/b.rs"), line: Some(1) }
        );
    }
}
