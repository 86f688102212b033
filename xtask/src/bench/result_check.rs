//! Checks that both sides find the same results, before anything is timed.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bench_context::{BenchContext, run_for_output};

/// One search that is measured.
pub(super) struct SearchCase {
    pub(super) what: &'static str,
    pub(super) pattern: &'static str,
    pub(super) ignore_case: bool,
    pub(super) shown: SearchScope,
}

/// How many results zero is asked to show; ripgrep always shows all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchScope {
    /// All results: each location is compared.
    All,
    /// The default number: the totals are compared.
    Default,
}

/// More results than any search that shows all of them finds.
const MATCHES_MAX: u64 = 100_000;

#[rustfmt::skip]
pub(super) const SEARCHES: &[SearchCase] = &[
    SearchCase { what: "literal", pattern: "quokka_handler", ignore_case: false, shown: SearchScope::All },
    SearchCase { what: "regex", pattern: r"fn \w+_(alpha|omega)\d{3}\(", ignore_case: false, shown: SearchScope::All },
    SearchCase { what: "case-insensitive", pattern: "wombat report", ignore_case: true, shown: SearchScope::All },
    SearchCase { what: "many matches, all shown", pattern: "checkpoint", ignore_case: false, shown: SearchScope::All },
    SearchCase { what: "very many matches", pattern: "return", ignore_case: false, shown: SearchScope::Default },
];

/// The pattern of the file search.
pub(super) const GLOB_PATTERN: &str = "**/*.rs";

impl SearchCase {
    /// The input for zero's tool.
    pub(super) fn to_input(&self) -> Value {
        let mut input = json!({"pattern": self.pattern, "output_mode": "content", "-n": true});
        if self.ignore_case {
            input["-i"] = true.into();
        }
        if self.shown == SearchScope::All {
            input["head_limit"] = MATCHES_MAX.into();
        }
        input
    }

    /// The arguments for ripgrep, with `mode` first.
    pub(super) fn rg_args(&self, mode: &'static str) -> Vec<&'static str> {
        let mut args = vec![mode, "--no-heading", "--with-filename"];
        if self.ignore_case {
            args.push("--ignore-case");
        }
        args.extend(["-e", self.pattern]);
        args
    }
}

#[derive(Deserialize)]
struct CallAnswer<T> {
    result: StructuredAnswer<T>,
}

#[derive(Deserialize)]
struct StructuredAnswer<T> {
    structured: T,
}

#[derive(Deserialize)]
struct GrepAnswer {
    matches: Vec<GrepHit>,
    total_matches: u64,
}

#[derive(Deserialize)]
struct GrepHit {
    file: String,
    line_number: u64,
}

#[derive(Deserialize)]
struct GlobAnswer {
    files: Vec<String>,
    count: usize,
}

/// Fails if the two sides find different results.
pub(super) fn check(bench: &BenchContext) -> Result<()> {
    eprintln!("== comparing what both sides find");
    for search in SEARCHES {
        check_search(bench, search).with_context(|| format!("Grep, {}", search.what))?;
    }
    check_glob(bench).context("Glob")
}

fn check_search(bench: &BenchContext, search: &SearchCase) -> Result<()> {
    let printed = run_for_output(bench.zero_call_command("Grep", &search.to_input()))?;
    let answer: CallAnswer<GrepAnswer> =
        serde_json::from_slice(&printed).context("could not read zero's answer")?;
    let ours = answer.result.structured;
    let counts = decode_text(run_for_output(bench.rg_command(&search.rg_args("--count")))?)?;
    let total: u64 =
        counts.lines().filter_map(|line| line.rsplit(':').next()?.parse::<u64>().ok()).sum();
    ensure!(total > 0, "the tree holds nothing to find");
    ensure!(
        ours.total_matches == total,
        "zero counts {} matching lines, rg {total}",
        ours.total_matches
    );
    if search.shown == SearchScope::All {
        let ours: BTreeSet<String> = ours
            .matches
            .iter()
            .map(|found| format!("{}:{}", found.file, found.line_number))
            .collect();
        let lines =
            decode_text(run_for_output(bench.rg_command(&search.rg_args("--line-number")))?)?;
        check_same(&ours, &lines.lines().filter_map(parse_location).collect())?;
    }
    Ok(())
}

/// The `file:line` of a line that ripgrep printed.
fn parse_location(line: &str) -> Option<String> {
    let mut parts = line.splitn(3, ':');
    Some(format!("{}:{}", parts.next()?, parts.next()?))
}

fn check_glob(bench: &BenchContext) -> Result<()> {
    let printed =
        run_for_output(bench.zero_call_command("Glob", &json!({"pattern": GLOB_PATTERN})))?;
    let answer: CallAnswer<GlobAnswer> =
        serde_json::from_slice(&printed).context("could not read zero's answer")?;
    let (ours, count) = (answer.result.structured.files, answer.result.structured.count);
    let listed = decode_text(run_for_output(bench.rg_command(&["--files", "-g", GLOB_PATTERN]))?)?;
    let theirs: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    ensure!(count == theirs.len(), "zero finds {count} files, rg {}", theirs.len());
    let ours: BTreeSet<String> = ours.into_iter().collect();
    // zero may show only the first of many files; those must be among ripgrep's.
    if ours.len() == count {
        check_same(&ours, &theirs)
    } else {
        check_same(&ours, &ours.intersection(&theirs).cloned().collect())
    }
}

fn check_same(ours: &BTreeSet<String>, theirs: &BTreeSet<String>) -> Result<()> {
    let first = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        a.difference(b).next().cloned().unwrap_or_default()
    };
    ensure!(
        ours == theirs,
        "zero finds {} places, rg {}; only zero: `{}`, only rg: `{}`",
        ours.len(),
        theirs.len(),
        first(ours, theirs),
        first(theirs, ours)
    );
    Ok(())
}

fn decode_text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).context("rg printed something that is not text")
}
