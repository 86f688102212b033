//! Lets faults happen to three gateways for as long as is wanted, and writes down what came of it.
//!
//! The test `chaos` of the crate `zero` does the work; its short version is among the tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::repository::{self, cargo_command};
use crate::required_programs;

/// Where `--write` puts the report.
const DOCUMENT: &str = "docs/reference/chaos.md";
const BEGIN: &str = "<!-- chaos:begin -->";
const END: &str = "<!-- chaos:end -->";
const USAGE: &str = "chaos takes --seed N, --faults N or --minutes N, and --write";

/// What to do; the variables for the test.
#[derive(Debug, Default, PartialEq)]
struct ChaosArgs {
    variables: Vec<(&'static str, String)>,
    write: bool,
}

/// What the test reports.
#[derive(Deserialize)]
struct ChaosFigures {
    seed: u64,
    seconds: u64,
    faults: BTreeMap<String, u64>,
    figures: BTreeMap<String, u64>,
}

/// Runs it; fails if anything is not as promised.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let Some(options) = parse_options(args) else {
        eprintln!("{USAGE}");
        return Ok(ExitCode::from(2));
    };
    if options.write && has_changes()? {
        eprintln!("the report names its commit; commit your changes before `--write`");
        return Ok(ExitCode::from(2));
    }
    required_programs::ensure();
    let folder = tempfile::tempdir().context("could not make a folder for the report")?;
    let path = folder.path().join("report.json");
    let mut test = cargo_command(&["test", "--package=zero", "--test=chaos", "--", "--nocapture"]);
    test.env("ZERO_CHAOS_REPORT", &path).envs(options.variables);
    if !test.status().context("could not start cargo")?.success() {
        return Ok(ExitCode::FAILURE);
    }
    if options.write {
        let report = std::fs::read(&path).context("the test left no report")?;
        let figures: ChaosFigures =
            serde_json::from_slice(&report).context("the report cannot be understood")?;
        write_report(&figures)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns `None` for invalid arguments.
fn parse_options(args: &[String]) -> Option<ChaosArgs> {
    let mut options = ChaosArgs::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let variable = match arg.as_str() {
            "--write" => {
                options.write = true;
                continue;
            }
            "--seed" => "ZERO_CHAOS_SEED",
            "--faults" => "ZERO_CHAOS_FAULTS",
            "--minutes" => "ZERO_CHAOS_MINUTES",
            _ => return None,
        };
        let number = args.next()?;
        number.parse::<u64>().ok()?;
        options.variables.push((variable, number.clone()));
    }
    Some(options)
}

fn has_changes() -> Result<bool> {
    Ok(!git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty())
}

fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git").args(args).current_dir(repository::root()).output();
    let output = output.context("could not start git")?;
    ensure!(output.status.success(), "git {} failed", args.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn write_report(figures: &ChaosFigures) -> Result<()> {
    let document = repository::root().join(DOCUMENT);
    let old =
        std::fs::read_to_string(&document).with_context(|| format!("could not read {DOCUMENT}"))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let section = render(figures, &git(&["rev-parse", "--short", "HEAD"])?, cores);
    let new = replace_section(&old, &section)
        .with_context(|| format!("{DOCUMENT} lacks the markers `{BEGIN}` and `{END}`"))?;
    std::fs::write(&document, new).with_context(|| format!("could not write {DOCUMENT}"))
}

fn replace_section(document: &str, section: &str) -> Option<String> {
    let (head, rest) = document.split_once(BEGIN)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{BEGIN}\n{section}{END}{tail}"))
}

fn render(figures: &ChaosFigures, commit: &str, cores: usize) -> String {
    let ChaosFigures { seed, seconds, faults, figures } = figures;
    let mut text = String::new();
    for (heading, rows) in [("fault", faults), ("figure", figures)] {
        let _ = write!(text, "| {heading} | count |\n|---|---|\n");
        for (what, count) in rows {
            let _ = writeln!(text, "| {what} | {count} |");
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "Commit {commit}, seed {seed}, {seconds} s, {cores} cores. Nothing was lost or repeated."
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<ChaosArgs> {
        parse_options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_become_variables_of_the_test() {
        assert_eq!(parse(""), Some(ChaosArgs::default()));
        let variables =
            vec![("ZERO_CHAOS_SEED", "7".to_owned()), ("ZERO_CHAOS_MINUTES", "30".to_owned())];
        let expected = ChaosArgs { variables, write: true };
        assert_eq!(parse("--seed 7 --minutes 30 --write"), Some(expected));
        for wrong in ["--seed", "--seed x", "--faults -1", "seven"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn report_replaces_the_one_before() {
        let row = |what: &str, count| BTreeMap::from([(what.to_owned(), count)]);
        let figures = ChaosFigures {
            seed: 7,
            seconds: 60,
            faults: row("restart of the database", 2),
            figures: row("prompts", 9),
        };
        let old = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let new = replace_section(&old, &render(&figures, "abc", 2)).unwrap();
        let expected = format!(
            "before\n{BEGIN}\n| fault | count |\n|---|---|\n| restart of the database | 2 |\n\n\
             | figure | count |\n|---|---|\n| prompts | 9 |\n\n\
             Commit abc, seed 7, 60 s, 2 cores. Nothing was lost or repeated.\n{END}\nafter\n"
        );
        assert_eq!(new, expected);
        assert_eq!(replace_section("none", ""), None);
    }
}
