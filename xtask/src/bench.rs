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
mod peak_memory;
mod policy;
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

/// A group of measurements.
struct BenchSuite {
    /// The name for `--only`.
    name: &'static str,
    measure: MeasureFn,
    /// The examples it runs: their packages, and their names.
    examples: &'static [(&'static str, &'static [&'static str])],
}

/// All suites, in this order.
const PARTS: [BenchSuite; 14] = [
    BenchSuite {
        name: "files",
        measure: measurements::measure,
        examples: &[("zero-runtime", &["noop_path"])],
    },
    BenchSuite { name: "calls", measure: calls::measure, examples: &[] },
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
            "bench takes --quick, --write, --only with one of: {parts}, build, and --program with the path of \
             a zero that was built before; --write goes with neither of the last two"
        );
        return Ok(ExitCode::from(2));
    };
    if only == Some(build_time::NAME) {
        let mut table = BenchTable::default();
        build_time::measure(&mut table)?;
        print!("{}", table.render_terminal());
        return Ok(if table.is_all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!(
            "`rg` is missing, and zero is measured against it; `apt-get install -y ripgrep` installs it"
        );
        return Ok(ExitCode::from(2));
    }
    let parts: Vec<BenchSuite> =
        PARTS.into_iter().filter(|part| only.is_none_or(|only| only == part.name)).collect();
    if program.is_none() {
        build_all(&parts)?;
    }
    let bench = BenchContext::prepare(runs, program)?;
    if only.is_none() {
        result_check::check(&bench)?;
    }
    let mut table = BenchTable::default();
    for part in parts {
        table.add(machine_pace::measure(&bench, part.name)?);
        (part.measure)(&bench, &mut table)?;
    }
    print!("{}", table.render_terminal());
    if write {
        table.write_into(
            &repository::root().join("docs/reference/performance.md"),
            &machine_info::describe_machine()?,
        )?;
    }
    Ok(if table.is_all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What to measure and where to write it.
struct BenchOptions {
    runs: RunCounts,
    write: bool,
    only: Option<&'static str>,
    /// Measures this program with the examples beside it, and builds nothing.
    program: Option<PathBuf>,
}

/// Returns `None` for invalid arguments.
fn parse_options(args: &[String]) -> Option<BenchOptions> {
    let mut asked = BenchOptions { runs: FULL, write: false, only: None, program: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => asked.runs = QUICK,
            "--write" => asked.write = true,
            "--only" => {
                let name = args.next()?;
                let names = PARTS.iter().map(|part| part.name).chain([build_time::NAME]);
                asked.only = Some({ names }.find(|part| part == name)?);
            }
            "--program" => asked.program = Some(PathBuf::from(args.next()?)),
            _ => return None,
        }
    }
    // A partial table must not be written, nor that of another program.
    (!(asked.write && (asked.only.is_some() || asked.program.is_some()))).then_some(asked)
}

/// Builds the program, and the examples that the suites name.
fn build_all(parts: &[BenchSuite]) -> Result<()> {
    build(&["build", "--profile", "dist", "--package", "zero"])?;
    // All examples at once, so that shared dependencies are built once; separate from the program,
    // which has to be the released one.
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
    build(&[&["build", "--profile", "dist"][..], &examples].concat())
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
    fn check(args: &str, expected: Option<(usize, bool, Option<&str>)>) {
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let asked = parse_options(&args).map(|asked| (asked.runs.search, asked.write, asked.only));
        assert_eq!(asked, expected);
    }

    #[test]
    fn bench_options_are_parsed_or_refused() {
        check("", Some((FULL.search, false, None)));
        check("--quick --write", Some((QUICK.search, true, None)));
        check("--only acp --quick", Some((QUICK.search, false, Some("acp"))));
        check("--only", None);
        check("--only none", None);
        check("--only acp --write", None);
        check("--program a/zero --quick", Some((QUICK.search, false, None)));
        check("--program", None);
        check("--program a/zero --write", None);
        check("--fast", None);
    }
}
