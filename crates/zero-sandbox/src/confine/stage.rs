//! The last step inside bubblewrap: this binary again, under the name `zero-confined`.
//!
//! Landlock forbids mounts, so it can only come after them, and by then bubblewrap has made its
//! namespaces and knows nothing of Landlock. So bubblewrap starts us, and we give up the rest and
//! become the command. The command's environment comes along as data: bubblewrap and this step run
//! outside of part of the walls and must not load a library that a variable names.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::forward;
use super::restrict::{Ready, Restrictions};
use crate::profile::CommandSpec;

/// Where bubblewrap finds us: a link in the child's own `/dev`, so that our name is the last part
/// of it whatever the binary is called and wherever it lies.
pub(crate) const DOOR: &str = "/dev/zero-confined";

/// Exit code of a step that failed before the command could start.
const FAILED: u8 = 125;
/// Exit code for a command that cannot be run, as shells have it.
const CANNOT_RUN: u8 = 126;
/// Exit code for a command that is not there, as shells have it.
const NOT_FOUND: u8 = 127;

/// What the last step has to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) command: CommandSpec,
    pub(crate) restrictions: Restrictions,
    pub(crate) forward: Forward,
    /// The number of the handle on which to say that everything else went well.
    pub(crate) started: RawFd,
}

/// Whether connections to the proxy's port are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Forward {
    Nothing,
    Proxy,
}

/// Becomes the command that the plan behind the handle `number` asks for.
/// Comes back only when that failed, with an exit code.
pub(crate) fn run(number: Option<OsString>) -> u8 {
    match become_command(number) {
        Ok(never) => match never {},
        Err((code, words)) => {
            let said = writeln!(io::stderr(), "zero: {words}");
            drop(said);
            code
        }
    }
}

enum Never {}

fn become_command(number: Option<OsString>) -> Result<Never, (u8, String)> {
    let failed = |what: &str, error: &dyn std::error::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        (FAILED, format!("{what}: {error}{cause}"))
    };
    let Plan { command, restrictions, forward, started } =
        read_plan(number).map_err(|error| failed("no plan to follow", &error))?;
    remove_door();
    if forward == Forward::Proxy {
        forward::start(&restrictions).map_err(|error| failed("no way to the proxy", &error))?;
    }
    let image = Image::new(&command).map_err(|error| failed("cannot start", &error))?;
    let ready = Ready::new(&restrictions, &command.folder)
        .map_err(|error| failed("cannot confine", &error))?;
    ready.apply().map_err(|error| failed("cannot confine", &error))?;
    say_started(started).map_err(|error| failed("cannot say so", &error))?;
    let error = image.exec();
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN };
    Err((code, format!("cannot run `{}`: {error}", command.program.display())))
}

#[expect(unsafe_code, reason = "the handle comes as a number, from whoever started us")]
fn read_plan(number: Option<OsString>) -> io::Result<Plan> {
    let number = number.and_then(|number| number.to_str()?.parse::<RawFd>().ok());
    let number = number.filter(|number| *number > 2).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: asks about a handle by number, whatever it is.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and this process has opened nothing yet that could own it.
    let mut file = unsafe { File::from_raw_fd(number) };
    file.rewind()?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

#[expect(unsafe_code, reason = "the handle comes as a number, from whoever started us")]
fn say_started(number: RawFd) -> io::Result<()> {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: writes eight live bytes to a handle, whatever it is.
    let written = unsafe { libc::write(number, one.as_ptr().cast(), one.len()) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[expect(clippy::disallowed_methods, reason = "a link in the child's own /dev, made for this step")]
fn remove_door() {
    // It leads nowhere once we are gone; that it stays hurts nobody.
    let removed = std::fs::remove_file(DOOR);
    drop(removed);
}

/// A program with its arguments and environment as exec wants them.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) envp: Vec<CString>,
}

impl Image {
    /// Looks the program up and lays the words out.
    pub(crate) fn new(command: &CommandSpec) -> Result<Self, std::ffi::NulError> {
        let program = find(&command.program, &command.environment);
        let words = std::iter::once(&command.program).chain(&command.args);
        let argv = words.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
        let envp = command
            .environment
            .iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
        Ok(Self {
            program: CString::new(program.as_os_str().as_bytes())?,
            argv,
            envp: envp.collect::<Result<_, _>>()?,
        })
    }

    /// Becomes the program; comes back only with the reason why not.
    #[expect(unsafe_code, reason = "the standard library cannot exec with a given environment")]
    fn exec(&self) -> io::Error {
        let argv = pointers(&self.argv);
        let envp = pointers(&self.envp);
        // SAFETY: both lists end with a null, and what they point at lives in `self`.
        unsafe { libc::execve(self.program.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
        io::Error::last_os_error()
    }
}

fn pointers(words: &[CString]) -> Vec<*const libc::c_char> {
    words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Looks a bare name up along `PATH`. Parts that depend on where one stands are left out: a file in
/// the working folder is not a program because it has the right name.
fn find(program: &OsStr, environment: &[(OsString, OsString)]) -> PathBuf {
    const DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";
    if program.as_bytes().contains(&b'/') {
        return program.into();
    }
    let path = environment.iter().rev().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(DEFAULT), |(_, value)| value);
    let runs = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    let mut folders = path.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
    let found = folders.by_ref().map(Path::new).filter(|folder| folder.is_absolute());
    // A name with a slash before it that is not there: exec says so.
    let missing = || Path::new("/nonexistent").join(program);
    found.map(|folder| folder.join(program)).find(runs).unwrap_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(program: &str, path: &str, expected: &str) {
        let environment = [("PATH".into(), path.into())];
        assert_eq!(find(program.as_ref(), &environment), Path::new(expected));
    }

    #[test]
    fn programs_are_found_along_the_path() {
        check("sh", "/nowhere:/bin", "/bin/sh");
        check("./sh", "/bin", "./sh");
        check("sh", ".::bin", "/nonexistent/sh");
        check("no-such-program", "/bin", "/nonexistent/no-such-program");
        assert!(find("sh".as_ref(), &[]).is_absolute());
    }
}
