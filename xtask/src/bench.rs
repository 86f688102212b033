//! What zero costs, measured against the programs people know.
//!
//! Both sides of a pair run in turn within one minute on the same tree, so that a busy machine
//! slows both; what is compared is their ratio. Before anything is timed, both must have found the
//! same things: a fast wrong answer is no answer.

mod acp;
mod gateway;
mod machine;
mod mcp;
mod peak;
mod policy;
mod rows;
mod same_results;
mod sandbox;
mod stopwatch;
mod table;
mod tree;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use self::table::Table;
use crate::repository::{self, Metadata, cargo};

/// Runs of each side of a pair, and of the pairs that take only milliseconds.
#[derive(Clone, Copy, Debug)]
struct Runs {
    search: usize,
    start: usize,
}

const FULL: Runs = Runs { search: 21, start: 101 };
const QUICK: Runs = Runs { search: 5, start: 21 };

/// What the measurements work on.
struct Bench {
    zero: PathBuf,
    noop: PathBuf,
    decide: PathBuf,
    spawn_cost: PathBuf,
    call_cost: PathBuf,
    /// An MCP server that does as it is told.
    other_server: PathBuf,
    /// A gateway's model and its clients.
    gateway_load: PathBuf,
    tree: PathBuf,
    large_file: PathBuf,
    /// zero's own state during the measurements, so that nobody's audit log is touched.
    state: PathBuf,
    runs: Runs,
}

/// Measures one part, and adds its rows.
type Measure = fn(&Bench, &mut Table) -> Result<()>;

/// What is measured, in this order, by the names that `--only` takes.
const PARTS: [(&str, Measure); 6] = [
    ("files", rows::measure),
    ("policy", policy::measure),
    ("sandbox", sandbox::measure),
    ("mcp", mcp::measure),
    ("gateway", gateway::measure),
    ("acp", acp::measure),
];

/// Measures, prints the table, and says by its exit code whether every budget was met.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let Some(Asked { runs, write, only }) = asked(args) else {
        let parts = PARTS.map(|(name, _)| name).join(", ");
        eprintln!(
            "bench takes --quick, --write, and --only with one of: {parts}; not the last two"
        );
        return Ok(ExitCode::from(2));
    };
    if Command::new("rg").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!(
            "`rg` is missing, and zero is measured against it; `apt-get install -y ripgrep` installs it"
        );
        return Ok(ExitCode::from(2));
    }
    let bench = Bench::prepare(runs)?;
    if only.is_none() {
        same_results::check(&bench)?;
    }
    let mut table = Table::default();
    for (name, measure) in PARTS {
        if only.is_none_or(|only| only == name) {
            measure(&bench, &mut table)?;
        }
    }
    print!("{}", table.for_terminal());
    if write {
        table.write_into(&repository::root().join("docs/performance.md"), &machine::facts()?)?;
    }
    Ok(if table.all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What to measure and where to put it.
struct Asked {
    runs: Runs,
    write: bool,
    only: Option<&'static str>,
}

/// Nothing when it cannot be done.
fn asked(args: &[String]) -> Option<Asked> {
    let mut asked = Asked { runs: FULL, write: false, only: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => asked.runs = QUICK,
            "--write" => asked.write = true,
            "--only" => {
                let name = args.next()?;
                asked.only = Some(PARTS.into_iter().find(|(known, _)| known == name)?.0);
            }
            _ => return None,
        }
    }
    // A part of the table is no table.
    (!(asked.write && asked.only.is_some())).then_some(asked)
}

impl Bench {
    /// Builds what is measured and what it is measured on.
    fn prepare(runs: Runs) -> Result<Self> {
        build(&["build", "--release", "--package", "zero"])?;
        build(&["build", "--release", "--package", "zero-runtime", "--example", "noop_path"])?;
        build(&["build", "--release", "--package", "zero-policy", "--example", "decide"])?;
        build(&["build", "--release", "--package", "zero-sandbox", "--example", "spawn_cost"])?;
        let mcp_examples = ["--example", "call_cost", "--example", "hostile_server"];
        build(&[&["build", "--release", "--package", "zero-mcp"][..], &mcp_examples].concat())?;
        build(&["build", "--release", "--package", "zero-gateway", "--example", "gateway_load"])?;
        let target = Metadata::load()?.target_directory;
        let tree = target.join("bench-tree");
        let large_file = target.join("bench-large").join("lines.txt");
        tree::generate(&tree).context("could not generate the tree to search")?;
        tree::generate_large_file(&large_file).context("could not generate the large file")?;
        let state = target.join("bench-state");
        // What earlier runs left would only make this one slower.
        if state.exists() {
            std::fs::remove_dir_all(&state)?;
        }
        let release = target.join("release");
        let (zero, noop) = (release.join("zero"), release.join("examples/noop_path"));
        let decide = release.join("examples/decide");
        let spawn_cost = release.join("examples/spawn_cost");
        let call_cost = release.join("examples/call_cost");
        let other_server = release.join("examples/hostile_server");
        let gateway_load = release.join("examples/gateway_load");
        Ok(Self {
            zero,
            noop,
            decide,
            spawn_cost,
            call_cost,
            other_server,
            gateway_load,
            tree,
            large_file,
            state,
            runs,
        })
    }

    /// A call of one of zero's tools on the tree.
    fn zero_call(&self, tool: &str, input: &serde_json::Value) -> Command {
        let mut command = Command::new(&self.zero);
        command
            .args(["tools", "call", tool, &input.to_string(), "--json"])
            .current_dir(&self.tree)
            .env("XDG_STATE_HOME", &self.state)
            .env_remove("ZERO_LOG");
        command
    }

    /// Runs ripgrep on the tree, as it is without anybody's settings.
    fn rg(&self, args: &[&str]) -> Command {
        let mut command = Command::new("rg");
        command.arg("--no-config").args(args).current_dir(&self.tree);
        command
    }
}

fn build(args: &[&str]) -> Result<()> {
    eprintln!("== cargo {}", args.join(" "));
    let status = cargo(args).status().context("could not start cargo")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// What a command printed. Exit code 1 is how a search says that it found nothing.
fn output_of(mut command: Command) -> Result<Vec<u8>> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start {command:?}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        bail!("{command:?} failed: {}", said.chars().take(2_000).collect::<String>());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &str, expected: Option<(usize, bool, Option<&str>)>) {
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let asked = asked(&args).map(|asked| (asked.runs.search, asked.write, asked.only));
        assert_eq!(asked, expected);
    }

    #[test]
    fn what_is_asked_for_is_understood_or_refused() {
        check("", Some((FULL.search, false, None)));
        check("--quick --write", Some((QUICK.search, true, None)));
        check("--only acp --quick", Some((QUICK.search, false, Some("acp"))));
        check("--only", None);
        check("--only none", None);
        check("--only acp --write", None);
        check("--fast", None);
    }
}
