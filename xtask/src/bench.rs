//! Measures the performance of zero, compared with well-known programs.
//!
//! Both sides of a pair run in turn within one minute on the same files, so that a busy machine
//! slows both; their ratio is compared. Before anything is timed, both must have found the same
//! results: a fast wrong answer does not count.

mod acp;
mod bench_context;
mod bench_table;
mod build_time;
mod calls;
mod chat;
mod console;
mod gateway;
mod growth;
mod machine_info;
mod machine_pace;
mod mcp;
mod measurements;
mod network;
mod peak_memory;
mod policy;
mod profile;
mod questions;
mod result_check;
mod sandbox;
mod search_tree;
mod secrets;
mod stopwatch;
mod store;
mod undo;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

use self::bench_context::{BenchContext, FULL, QUICK, RunCounts};
use self::bench_table::BenchTable;
use crate::repository::{self, cargo_command};

/// Measures one suite, and adds its rows.
type MeasureFn = fn(&BenchContext, &mut BenchTable) -> Result<()>;

/// Where `--write` puts the results: a section per suite, each with its commit.
const DOCUMENT: &str = "docs/reference/performance.md";

/// A group of measurements.
struct BenchSuite {
    /// The name for `--only`.
    name: &'static str,
    measure: MeasureFn,
    /// The examples it runs: their packages, and their names.
    examples: &'static [(&'static str, &'static [&'static str])],
}

/// The suite that searches generated files, which take a while to write, and is compared with `rg`.
const SEARCH_SUITE: &str = "files";

/// All suites, in this order.
const PARTS: [BenchSuite; 16] = [
    BenchSuite {
        name: "files",
        measure: measurements::measure,
        examples: &[("zero-runtime", &["noop_path"])],
    },
    BenchSuite { name: "calls", measure: calls::measure, examples: &[] },
    BenchSuite { name: "profile", measure: profile::measure, examples: &[] },
    BenchSuite {
        name: "policy",
        measure: policy::measure,
        examples: &[("zero-policy", &["decide"]), ("zero-tools", &["decision_delay"])],
    },
    BenchSuite {
        name: "chat",
        measure: chat::measure,
        examples: &[("zero-chat", &["chat_cells"])],
    },
    BenchSuite { name: "questions", measure: questions::measure, examples: &[] },
    BenchSuite {
        name: "secrets",
        measure: secrets::measure,
        examples: &[("zero-core", &["mask_cost"])],
    },
    BenchSuite {
        name: "sandbox",
        measure: sandbox::measure,
        examples: &[("zero-sandbox", &["spawn_cost"])],
    },
    BenchSuite {
        name: "network",
        measure: network::measure,
        examples: &[("zero-sandbox", &["spawn_cost"]), ("zero-exec", &["egress_cost"])],
    },
    BenchSuite {
        name: "undo",
        measure: undo::measure,
        examples: &[("zero-sandbox", &["undo_cost"])],
    },
    BenchSuite {
        name: "mcp",
        measure: mcp::measure,
        examples: &[("zero-mcp", &["call_cost", "hostile_server"])],
    },
    BenchSuite {
        name: "store",
        measure: store::measure,
        examples: &[("zero-session", &["begin_cost", "parked_questions", "prune_delay"])],
    },
    BenchSuite {
        name: "gateway",
        measure: gateway::measure,
        examples: &[("zero-gateway", &["gateway_load"])],
    },
    BenchSuite { name: "console", measure: console::measure, examples: &[] },
    BenchSuite { name: "acp", measure: acp::measure, examples: &[] },
    BenchSuite {
        name: "growth",
        measure: growth::measure,
        examples: &[("zero-gateway", &["gateway_load"])],
    },
];

/// Measures, prints the table, and returns whether every budget was met.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let Some(BenchOptions { runs, write, only, program }) = parse_options(args) else {
        let parts = PARTS.map(|part| part.name).join(", ");
        eprintln!(
            "bench takes --quick, --write, --only with one of: {parts}, build (repeat it for more), and --program \
             with the path of a zero that was built before; --write does not go with --program"
        );
        return Ok(ExitCode::from(2));
    };
    if write && machine_info::has_changes_beside(DOCUMENT)? {
        eprintln!(
            "the results name the commit that they are of; commit your changes before `--write`"
        );
        return Ok(ExitCode::from(2));
    }
    let mut all = BenchTable::default();
    if only.contains(&build_time::NAME) {
        let mut table = BenchTable::default();
        build_time::measure(&mut table)?;
        finish_suite(table, build_time::NAME, write, &mut all)?;
    }
    if only == [build_time::NAME] {
        return Ok(report(&all));
    }
    let parts: Vec<BenchSuite> =
        PARTS.into_iter().filter(|part| only.is_empty() || only.contains(&part.name)).collect();
    let searches = parts.iter().any(|part| part.name == SEARCH_SUITE);
    if searches && Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!(
            "`rg` is missing, and zero is measured against it; `apt-get install -y ripgrep` installs it"
        );
        return Ok(ExitCode::from(2));
    }
    if program.is_none() {
        build_all(&parts)?;
    }
    let bench = BenchContext::prepare(runs, program)?;
    if searches {
        bench.generate_files()?;
    }
    if only.is_empty() {
        result_check::check(&bench)?;
    }
    for part in parts {
        let mut table = BenchTable::default();
        table.add(machine_pace::measure(&bench, part.name)?);
        (part.measure)(&bench, &mut table)?;
        finish_suite(table, part.name, write, &mut all)?;
    }
    Ok(report(&all))
}

/// Writes the results of a suite at once, so that a later suite that fails does not lose them.
fn finish_suite(table: BenchTable, suite: &str, write: bool, all: &mut BenchTable) -> Result<()> {
    if write {
        let facts = machine_info::describe_machine()?;
        table.write_into(&repository::root().join(DOCUMENT), suite, &facts)?;
    }
    all.append(table);
    Ok(())
}

/// Prints all results; the code says whether every budget was met.
fn report(all: &BenchTable) -> ExitCode {
    print!("{}", all.render_terminal());
    if all.is_all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What to measure and where to write it.
struct BenchOptions {
    runs: RunCounts,
    write: bool,
    /// The suites to measure; empty for all but the builds.
    only: Vec<&'static str>,
    /// Measures this program with the examples beside it, and builds nothing.
    program: Option<PathBuf>,
}

/// Returns `None` for invalid arguments.
fn parse_options(args: &[String]) -> Option<BenchOptions> {
    let mut asked = BenchOptions { runs: FULL, write: false, only: Vec::new(), program: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => asked.runs = QUICK,
            "--write" => asked.write = true,
            "--only" => {
                let name = args.next()?;
                let names = PARTS.iter().map(|part| part.name).chain([build_time::NAME]);
                asked.only.push({ names }.find(|part| part == name)?);
            }
            "--program" => asked.program = Some(PathBuf::from(args.next()?)),
            _ => return None,
        }
    }
    // The commit of another program is not known.
    (!(asked.write && asked.program.is_some())).then_some(asked)
}

/// Builds the program, and the examples that the suites name.
fn build_all(parts: &[BenchSuite]) -> Result<()> {
    build(&["build", "--profile", "dist", "--package", "zero"])?;
    // All examples at once, so that shared dependencies are built once.
    let examples: Vec<&str> = parts
        .iter()
        .flat_map(|part| part.examples)
        .flat_map(|(package, names)| {
            let names = names.iter().flat_map(|name| ["--example", *name]);
            ["--package", package].into_iter().chain(names)
        })
        .collect();
    if examples.is_empty() {
        return Ok(());
    }
    build(&[&["build", "--profile", bench_context::EXAMPLE_PROFILE][..], &examples].concat())
}

fn build(args: &[&str]) -> Result<()> {
    eprintln!("== cargo {}", args.join(" "));
    let status = cargo_command(args).status().context("could not start cargo")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &str, expected: Option<(usize, bool, &[&str])>) {
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let asked = parse_options(&args);
        let asked = asked.as_ref().map(|asked| (asked.runs.search, asked.write, &asked.only[..]));
        assert_eq!(asked, expected);
    }

    #[test]
    fn bench_options_are_parsed_or_refused() {
        check("", Some((FULL.search, false, &[])));
        check("--quick --write", Some((QUICK.search, true, &[])));
        check("--only acp --quick", Some((QUICK.search, false, &["acp"])));
        check("--only acp --only build --write", Some((FULL.search, true, &["acp", "build"])));
        check("--only", None);
        check("--only none", None);
        check("--program a/zero --quick", Some((QUICK.search, false, &[])));
        check("--program", None);
        check("--program a/zero --write", None);
        check("--fast", None);
    }

    #[test]
    fn document_has_a_section_for_each_suite() {
        let document = std::fs::read_to_string(repository::root().join(DOCUMENT)).unwrap();
        for suite in PARTS.map(|part| part.name).into_iter().chain([build_time::NAME]) {
            for edge in ["begin", "end"] {
                assert!(document.contains(&format!("<!-- bench:{suite}:{edge} -->")), "{suite}");
            }
        }
    }

    #[test]
    fn suite_that_searches_exists() {
        assert!(PARTS.iter().any(|part| part.name == SEARCH_SUITE));
    }
}
