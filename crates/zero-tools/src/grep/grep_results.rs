//! The result of a Grep ([`GrepResults`]): the hits that are shown, and exact totals.

use std::path::{Path, PathBuf};

use zero_core::tool_result::{FileLocation, ResultDisplay, SearchHit, ToolResultPart};
use zero_runtime::ToolReply;
use zero_sandbox::Workspace;

use super::hit_collector::{FileHits, GrepBudgetUsage, HitCollector, HitLine, HitLineRole};
use super::search::GrepTotals;
use super::{GrepMatch, GrepOutput, GrepOutputMode, GrepPlan};
use crate::text_format::{pluralize, to_single_line};
use crate::walk::denied_entries::DeniedEntries;

/// Most locations reported to an editor.
const LOCATIONS_MAX: usize = 20;

/// The hits that are shown.
pub(super) struct GrepResults {
    matches: Vec<GrepMatch>,
    /// The hits and the lines around them, one by one.
    hits: Vec<SearchHit>,
    locations: Vec<FileLocation>,
    total_matches: u64,
}

impl GrepResults {
    pub(super) fn new(
        plan: &GrepPlan,
        hits: HitCollector,
        totals: GrepTotals,
        workspace: &Workspace,
    ) -> Self {
        let budget = hits.budget();
        let mut budget_usage = GrepBudgetUsage::default();
        let mut answer = Self {
            matches: vec![],
            hits: vec![],
            locations: vec![],
            total_matches: totals.matches,
        };
        for ((base, relative), found) in hits.into_files() {
            let base = plan.bases.folders()[base].path();
            let path = match relative.as_os_str().is_empty() {
                true => base.to_owned(),
                false => base.join(&relative),
            };
            let file = workspace.display_path(&path);
            match plan.mode {
                GrepOutputMode::Content => {
                    for line in found.lines {
                        if budget_usage.exhausts(budget) && line.role != HitLineRole::After {
                            break;
                        }
                        budget_usage.add(&relative, &line);
                        answer.add_line(&path, &file, line);
                    }
                }
                GrepOutputMode::FilesWithMatches | GrepOutputMode::Count => {
                    answer.add_file(plan.mode, path, file, found)
                }
            }
        }
        answer
    }

    /// Adds a line, or a match over several lines. Lines that were added already are not shown
    /// twice.
    fn add_line(&mut self, path: &Path, file: &str, line: HitLine) {
        let is_match = line.role == HitLineRole::Match;
        let named = to_single_line(file);
        for (number, text) in (line.number..).zip(line.text.split('\n')) {
            let shown =
                self.hits.last().is_some_and(|last| last.file == named && last.line >= number);
            if !shown {
                self.hits.push(SearchHit {
                    file: named.clone(),
                    line: number,
                    text: text.to_owned(),
                    is_match,
                });
            }
        }
        if is_match {
            self.add_location(path.to_owned(), line.number);
            self.matches.push(GrepMatch {
                file: file.to_owned(),
                line_number: line.number,
                content: line.text,
            });
        }
    }

    fn add_file(&mut self, mode: GrepOutputMode, path: PathBuf, file: String, found: FileHits) {
        let Some(first) = found.lines.into_iter().next() else { return };
        let content = match mode {
            GrepOutputMode::Count => found.matches.to_string(),
            GrepOutputMode::Content | GrepOutputMode::FilesWithMatches => first.text,
        };
        self.add_location(path, first.number);
        self.matches.push(GrepMatch { file, line_number: first.number, content });
    }

    fn add_location(&mut self, path: PathBuf, line: u64) {
        if self.locations.len() < LOCATIONS_MAX {
            self.locations.push(FileLocation { path, line: Some(line) });
        }
    }

    pub(super) fn into_reply(
        self,
        plan: &GrepPlan,
        totals: GrepTotals,
        left_out: Option<String>,
        denied: &DeniedEntries,
    ) -> ToolReply<GrepOutput> {
        let missed: Vec<String> = (plan.literal_note.clone().into_iter())
            .chain(unreadable_note(totals))
            .chain(left_out)
            .chain(denied.note())
            .collect();
        let note = truncation_note(plan.mode, self.matches.len() as u64, totals, &missed);
        let lines = |line: &dyn Fn(&GrepMatch) -> String| {
            let lines: Vec<String> = self.matches.iter().map(line).collect();
            let note = note.as_ref().map_or_else(String::new, |note| format!("\n\n({note})"));
            ToolResultPart::Text(lines.join("\n") + &note)
        };
        let content = match plan.mode {
            _ if totals.matches == 0 => {
                ToolResultPart::Text(no_match_message(plan, totals, missed))
            }
            GrepOutputMode::FilesWithMatches => lines(&|found| to_single_line(&found.file)),
            GrepOutputMode::Count => {
                lines(&|found| format!("{}:{}", to_single_line(&found.file), found.content))
            }
            GrepOutputMode::Content => {
                ToolResultPart::Matches { hits: self.hits, numbered: plan.numbered, note }
            }
        };
        ToolReply {
            content: vec![content],
            display: ResultDisplay::markdown(format!("Found {}", describe_totals(totals))),
            output: GrepOutput {
                matches: self.matches,
                total_matches: self.total_matches,
                left_out: denied.count(),
            },
            locations: self.locations,
        }
    }
}

/// Returns a text such as `12 matches in 3 files`.
fn describe_totals(totals: GrepTotals) -> String {
    let matches = pluralize(totals.matches, "match", "matches");
    format!("{matches} in {}", pluralize(totals.matching_files, "file", "files"))
}

/// Returns what the reader must know besides the hits shown.
fn truncation_note(
    mode: GrepOutputMode,
    shown: u64,
    totals: GrepTotals,
    missed: &[String],
) -> Option<String> {
    let mut notes = Vec::new();
    match mode {
        GrepOutputMode::Content if shown < totals.matches => {
            notes.push(format!(
                "showing {shown} of {}; narrow the search or raise its limit",
                describe_totals(totals)
            ));
        }
        GrepOutputMode::FilesWithMatches | GrepOutputMode::Count
            if shown < totals.matching_files =>
        {
            let files = pluralize(totals.matching_files, "file", "files");
            let matches = pluralize(totals.matches, "match", "matches");
            notes.push(format!(
                "showing {shown} of {files} with {matches}; narrow the search or raise its limit"
            ));
        }
        _ => {}
    }
    notes.extend_from_slice(missed);
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn no_match_message(plan: &GrepPlan, totals: GrepTotals, missed: Vec<String>) -> String {
    let place = plan.bases.describe_location();
    let mut facts = vec![format!("{} searched", pluralize(totals.files, "file", "files"))];
    if totals.binary_files > 0 {
        facts.push(format!(
            "{} skipped",
            pluralize(totals.binary_files, "binary file", "binary files")
        ));
    }
    facts.extend(missed);
    format!("No matches found for `{}`{place} ({})", plan.pattern, facts.join(", "))
}

fn unreadable_note(totals: GrepTotals) -> Option<String> {
    let files = pluralize(totals.unreadable_files, "file", "files");
    (totals.unreadable_files > 0).then(|| format!("{files} could not be read"))
}
