//! Runs git as zero itself: in a sandbox, without the user's settings, hooks and monitors, and within
//! limits of time and output. Nothing in the repository is trusted.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zero_sandbox::output_collector::{OutputCollector, OutputStream};
use zero_sandbox::running_command::KillReason;
use zero_sandbox::spawner::{CommandStdio, SpawnSpec, Spawner};
use zero_sandbox::{CommandSpec, SandboxProfile};

/// Most bytes of git's messages that are kept.
const MESSAGE_BYTES_MAX: usize = 2_000;
/// Most bytes that are sent to git at once: as much as a pipe holds, so that the write does not
/// block.
const INPUT_BYTES_MAX: usize = 60_000;
/// The environment of git: none of the user's settings, no download, and no question.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("LC_ALL", "C"),
];
/// Options that stop git from running programs which a repository names.
const OPTIONS: &[&str] = &[
    "--no-replace-objects",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "safe.bareRepository=explicit",
];

/// A git that runs in one sandbox.
#[derive(Clone, Debug)]
pub(crate) struct NeutralGit {
    /// What it may read and write.
    pub(crate) profile: SandboxProfile,
    /// Where git is searched: in no folder that a project chooses.
    pub(crate) search_path: String,
}

/// One run of git.
pub(crate) struct GitRun<'a> {
    /// The folder in which it starts.
    pub(crate) folder: &'a Path,
    /// The git folder and the working folder, if they are given.
    pub(crate) repository: Option<(&'a Path, &'a Path)>,
    pub(crate) args: Vec<OsString>,
    pub(crate) input: GitInput<'a>,
    pub(crate) time_max: Duration,
    /// Most bytes that are read.
    pub(crate) output_bytes_max: usize,
    /// What happens to more output.
    pub(crate) excess: ExcessOutput,
}

/// What git reads.
pub(crate) enum GitInput<'a> {
    Bytes(&'a [u8]),
    File(File),
}

/// What happens to a git that writes more than is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExcessOutput {
    /// It fails.
    Fail,
    /// It is stopped, and the output is cut.
    Cut,
}

/// What git wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GitOutput {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_cut: bool,
}

/// Why git gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`git {command}` failed: {why}")]
pub(crate) struct GitError {
    command: String,
    why: String,
}

impl NeutralGit {
    /// Runs git and returns its output.
    pub(crate) fn run(&self, run: GitRun<'_>) -> Result<GitOutput, GitError> {
        let mut output = Vec::new();
        let is_cut = self.run_into(run, &mut output)?;
        Ok(GitOutput { bytes: output, is_cut })
    }

    /// Runs git with its output written to `output`, and returns whether it is cut.
    pub(crate) fn run_into(
        &self,
        run: GitRun<'_>,
        output: &mut dyn Write,
    ) -> Result<bool, GitError> {
        // Its options come first: `-c name=value`.
        let is_option = |arg: &&OsString| {
            let bytes = arg.as_encoded_bytes();
            bytes.starts_with(b"-") || bytes.contains(&b'=')
        };
        let command = run.args.iter().find(|arg| !is_option(arg));
        let command = command.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |why: String| GitError { command: command.clone(), why };
        let (bytes, file) = match run.input {
            GitInput::Bytes(bytes) if bytes.len() > INPUT_BYTES_MAX => {
                return Err(failed("its input is too long".to_owned()));
            }
            GitInput::Bytes(bytes) => (bytes, None),
            GitInput::File(file) => (&[][..], Some(file)),
        };
        let mut words: Vec<OsString> = OPTIONS.iter().map(OsString::from).collect();
        if let Some((git, work)) = run.repository {
            words.extend(["--git-dir".into(), git.into(), "--work-tree".into(), work.into()]);
        }
        words.extend(run.args);
        let path = ("PATH", self.search_path.as_str());
        let environment = ENVIRONMENT.iter().copied().chain([path]);
        let command = CommandSpec {
            program: "git".into(),
            args: words,
            folder: run.folder.to_owned(),
            environment: environment.map(|(name, value)| (name.into(), value.into())).collect(),
        };
        let order = SpawnSpec {
            command,
            profile: self.profile.clone(),
            stdio: CommandStdio::Pipes,
            timeout: Some(run.time_max),
            net: None,
            capture: None,
        };
        let spawner = Spawner::shared().map_err(|error| failed(error.to_string()))?;
        let mut running =
            spawner.spawn_one_off(order).map_err(|error| failed(error.to_string()))?;
        let feeder = running.stdin.take().map(|stdin| {
            let mut stdin = File::from(stdin);
            // A git that does not read it fails, which is noticed below.
            let _ = stdin.write_all(bytes);
            file.map(|mut file| {
                std::thread::spawn(move || drop(std::io::copy(&mut file, &mut stdin)))
            })
        });
        let (mut size, mut message, mut problem) = (0_usize, Vec::new(), None);
        let collected = OutputCollector::default().collect(&mut running, |came| {
            match came.stream {
                OutputStream::Stdout => {
                    let left = run.output_bytes_max.saturating_sub(size);
                    let fitting = came.bytes.get(..left).unwrap_or(came.bytes);
                    problem = problem.take().or_else(|| output.write_all(fitting).err());
                    size = size.saturating_add(came.bytes.len());
                }
                OutputStream::Stderr => {
                    let left = MESSAGE_BYTES_MAX.saturating_sub(message.len());
                    message.extend_from_slice(came.bytes.get(..left).unwrap_or(came.bytes));
                }
            }
            match size > run.output_bytes_max || problem.is_some() {
                true => ControlFlow::Break(KillReason::OutputLimit),
                false => ControlFlow::Continue(()),
            }
        });
        // It ends with git, which no longer reads.
        drop(running);
        if let Some(feeder) = feeder.flatten() {
            let _ = feeder.join();
        }
        let (_, ended) = collected.map_err(|error| failed(error.to_string()))?;
        if let Some(problem) = problem {
            return Err(failed(format!("its output cannot be stored: {problem}")));
        }
        let is_cut = size > run.output_bytes_max;
        match (is_cut, run.excess, ended.exit_code) {
            (true, ExcessOutput::Cut, _) => Ok(true),
            (true, ExcessOutput::Fail, _) => {
                Err(failed(format!("it wrote more than {} bytes", run.output_bytes_max)))
            }
            (false, _, Some(0)) => Ok(false),
            (false, _, code) => {
                let message = String::from_utf8_lossy(&message);
                Err(failed(match (message.trim(), code) {
                    ("", None) => format!("it was stopped after {} s", run.time_max.as_secs()),
                    ("", Some(code)) => format!("exit code {code}"),
                    (message, _) => message.to_owned(),
                }))
            }
        }
    }
}

impl GitRun<'_> {
    /// The folder of `git` in which a run can start. A sandbox has a `/tmp` of its own: of the host's,
    /// it shows the folder in which it starts.
    pub(crate) fn find_start(git: &Path, common: &Path) -> PathBuf {
        match git.starts_with(common) {
            true => common.to_owned(),
            false => git.to_owned(),
        }
    }
}
