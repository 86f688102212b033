//! What all measurements share: the programs, and the files they are measured on.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::search_tree;
use crate::repository::CargoMetadata;

/// Runs of each side of a pair, and of the pairs that take only milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunCounts {
    pub(super) search: usize,
    pub(super) start: usize,
}

pub(super) const FULL: RunCounts = RunCounts { search: 21, start: 101 };
pub(super) const QUICK: RunCounts = RunCounts { search: 5, start: 21 };

/// Shared state of the measurements.
pub(super) struct BenchContext {
    pub(super) zero: PathBuf,
    /// The folder of the examples that the suites name.
    pub(super) examples: PathBuf,
    pub(super) tree: PathBuf,
    pub(super) large_file: PathBuf,
    /// zero's own state during the measurements, so that the user's audit log is not touched.
    pub(super) state: PathBuf,
    pub(super) runs: RunCounts,
}

/// Where state folders are created: on a disk, as usual, and not in the build folder. Where many
/// files were just removed, some file systems take ten times as long to create one.
pub(super) const STATES: &str = "/var/tmp";

/// The profile of the examples, and the name of its folder.
pub(super) const EXAMPLE_PROFILE: &str = "measure";

impl BenchContext {
    /// Prepares measurements of `program`; `None` is the program that was just built.
    pub(super) fn prepare(runs: RunCounts, program: Option<PathBuf>) -> Result<Self> {
        let target = CargoMetadata::load()?.target_directory;
        let (zero, examples) = match program {
            Some(program) => {
                let program =
                    program.canonicalize().with_context(|| format!("no {}", program.display()))?;
                let examples = program.with_file_name("examples");
                (program, examples)
            }
            None => (target.join("dist/zero"), target.join(EXAMPLE_PROFILE).join("examples")),
        };
        let tree = target.join("bench-tree");
        let large_file = target.join("bench-large").join("lines.txt");
        let state = PathBuf::from(STATES).join(format!("zero-bench-{}", std::process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&state)
            .with_context(|| format!("could not make {}", state.display()))?;
        Ok(Self { zero, examples, tree, large_file, state, runs })
    }

    /// Creates the files that are searched, unless they exist.
    pub(super) fn generate_files(&self) -> Result<()> {
        search_tree::generate(&self.tree).context("could not generate the tree to search")?;
        search_tree::generate_large_file(&self.large_file)
            .context("could not generate the large file")
    }

    /// The path of an example that a suite has named.
    pub(super) fn example_path(&self, name: &str) -> PathBuf {
        self.examples.join(name)
    }

    /// A call of one of zero's tools on the files.
    pub(super) fn zero_call_command(&self, tool: &str, input: &serde_json::Value) -> Command {
        let mut command = Command::new(&self.zero);
        command
            .args(["tools", "call", tool, &input.to_string(), "--json"])
            .current_dir(&self.tree)
            .env("XDG_STATE_HOME", &self.state)
            .env_remove("ZERO_LOG");
        command
    }

    /// Runs ripgrep on the files, without the user's settings.
    pub(super) fn rg_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("rg");
        command.arg("--no-config").args(args).current_dir(&self.tree);
        command
    }
}

impl Drop for BenchContext {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.state) {
            eprintln!("{} could not be removed: {error}", self.state.display());
        }
    }
}

/// The output of a command. A search exits with code 1 if it finds nothing.
pub(super) fn run_for_output(mut command: Command) -> Result<Vec<u8>> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start {command:?}"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        bail!("{command:?} failed: {}", stderr.chars().take(2_000).collect::<String>());
    }
    Ok(output.stdout)
}
