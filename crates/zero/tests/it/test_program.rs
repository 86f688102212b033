//! Runs the built program in a folder of its own.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A fresh home and workspace.
pub(crate) struct TestProgram {
    folder: TempDir,
}

impl TestProgram {
    pub(crate) fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    /// The same, but where commands see it: in their own `/tmp` they would not.
    pub(crate) fn outside_tmp() -> Self {
        Self::in_folder(tempfile::tempdir_in("/var/tmp").unwrap())
    }

    #[expect(clippy::disallowed_methods, reason = "the home is made outside zero")]
    fn in_folder(folder: TempDir) -> Self {
        std::fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder }
    }

    /// Where the program runs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The program with these arguments, not started yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.external_command(env!("CARGO_BIN_EXE_zero"));
        command.env_remove("PATH").args(args);
        command
    }

    /// Another program in the same surroundings, which finds this one as `$ZERO`.
    #[expect(clippy::disallowed_methods, reason = "the test starts the program it tests")]
    pub(crate) fn external_command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command
            .current_dir(self.folder())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("SHELL", "/bin/sh")
            .env("ZERO", env!("CARGO_BIN_EXE_zero"))
            .env("HOME", self.folder().join("home"))
            .env("COLUMNS", "100")
            .stdin(Stdio::null());
        command
    }

    /// Runs it and gives back everything that can be seen, in one text: exit code, stdout, stderr.
    pub(crate) fn run(&self, args: &[&str]) -> String {
        self.render_output(&self.command(args).output().unwrap())
    }

    /// The same with something on stdin.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> String {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        self.render_output(&child.wait_with_output().unwrap())
    }

    /// Stdout of a run that must succeed.
    #[track_caller]
    pub(crate) fn stdout(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{}", self.render_output(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The exit code, stdout and stderr of a run, with `[FOLDER]` in place of the folder's path.
    pub(crate) fn render_output(&self, output: &Output) -> String {
        let code = output.status.code().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let mut text = format!("exit {code}\n{stdout}");
        if !stderr.is_empty() {
            text.push_str(&format!("--- stderr\n{stderr}"));
        }
        let folder = self.folder().canonicalize().unwrap();
        text.replace(folder.to_str().unwrap(), "[FOLDER]")
    }
}
