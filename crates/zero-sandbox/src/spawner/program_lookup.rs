//! Finds the program of a command before anything is started for it.
//!
//! A program that is missing here is reported with the folders that were searched. If the kernel
//! noticed it, inside the sandbox, there would only be an error number.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType};

use super::SpawnError;
use crate::profile::CommandSpec;

/// The kernel's limit for one argument or variable, in bytes.
const ONE_BYTES_MAX: usize = 128 * 1024;
/// The kernel's largest limit for all of them, in bytes; it is usually lower.
const ALL_BYTES_MAX: usize = 6 * 1024 * 1024;
/// Where programs are searched if the environment has no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the command with the full path of its program.
pub(super) fn resolve_program(mut command: CommandSpec) -> Result<CommandSpec, SpawnError> {
    check_texts(&command)?;
    let bad_folder =
        |error: io::Error| SpawnError::BadFolder { folder: command.folder.clone(), source: error };
    let stat = rustix::fs::stat(&command.folder).map_err(|errno| bad_folder(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(bad_folder(io::ErrorKind::NotADirectory.into()));
    }
    let path = command.environment.iter().rfind(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(USUAL_PATH), |(_, value)| value.as_os_str());
    command.program = find_program(&command.program, &command.folder, path)?.into();
    Ok(command)
}

/// Refuses texts that cannot be passed to a program unchanged.
fn check_texts(command: &CommandSpec) -> Result<(), SpawnError> {
    let bad = |what: String| Err(SpawnError::BadText { what });
    let variables = command.environment.iter().map(|(name, value)| name.len() + value.len());
    let sizes = command.args.iter().map(|arg| arg.len()).chain(variables);
    if sizes.clone().any(|size| size > ONE_BYTES_MAX) || sizes.sum::<usize>() > ALL_BYTES_MAX {
        return Err(SpawnError::TooLarge);
    }
    let has_null = |text: &OsStr| text.as_bytes().contains(&0);
    if has_null(&command.program) || has_null(command.folder.as_os_str()) {
        return bad("the program or its folder".to_owned());
    }
    if let Some(at) = command.args.iter().position(|arg| has_null(arg)) {
        return bad(format!("argument {}", at + 1));
    }
    for (name, value) in &command.environment {
        if name.is_empty() || name.as_bytes().contains(&b'=') || has_null(name) || has_null(value) {
            return bad(format!("variable `{}`", name.to_string_lossy().replace('\0', "")));
        }
    }
    Ok(())
}

fn find_program(program: &OsStr, folder: &Path, path: &OsStr) -> Result<PathBuf, SpawnError> {
    let not_found = |searched| SpawnError::NotFound {
        program: program.to_string_lossy().into_owned(),
        searched,
    };
    if program.as_bytes().contains(&b'/') {
        return match inspect_candidate(&folder.join(program)) {
            LookupOutcome::Program(path) => Ok(path),
            LookupOutcome::Unusable(refusal) => Err(refusal),
            LookupOutcome::NotFound => Err(not_found(Vec::new())),
        };
    }
    if program.is_empty() {
        return Err(not_found(Vec::new()));
    }
    let mut searched = Vec::new();
    let mut first_refusal = None;
    for place in std::env::split_paths(path) {
        let place = folder.join(place);
        match inspect_candidate(&place.join(program)) {
            LookupOutcome::Program(path) => return Ok(path),
            // As a shell does: a later folder may have a usable one.
            LookupOutcome::Unusable(refusal) => first_refusal = first_refusal.or(Some(refusal)),
            LookupOutcome::NotFound => {}
        }
        searched.push(place);
    }
    Err(first_refusal.unwrap_or_else(|| not_found(searched)))
}

enum LookupOutcome {
    Program(PathBuf),
    Unusable(SpawnError),
    NotFound,
}

fn inspect_candidate(path: &Path) -> LookupOutcome {
    let refused =
        |why| LookupOutcome::Unusable(SpawnError::NotExecutable { path: path.to_owned(), why });
    let Ok(stat) = rustix::fs::stat(path) else { return LookupOutcome::NotFound };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return refused("it is a folder"),
        _ => return refused("it is not a regular file"),
    }
    match rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) => LookupOutcome::Program(path.to_owned()),
        Err(_) => refused("it has no permission to be executed"),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[track_caller]
    fn check(temp: &Path, program: &str, path: &str, expected: &str) {
        let path = path.replace('@', &temp.display().to_string());
        let found = match find_program(OsStr::new(program), temp, OsStr::new(&path)) {
            Ok(path) => path.display().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            found.replace(&temp.display().to_string(), "@"),
            expected,
            "{program} in {path}"
        );
    }

    #[test]
    fn program_lookup_matches_shell() {
        let temp = tempfile::tempdir().unwrap();
        let temp = temp.path();
        for (name, mode) in [("a/tool", 0o644), ("b/tool", 0o755), ("a/plain", 0o644)] {
            std::fs::create_dir_all(temp.join(name).parent().unwrap()).unwrap();
            std::fs::write(temp.join(name), "").unwrap();
            std::fs::set_permissions(temp.join(name), PermissionsExt::from_mode(mode)).unwrap();
        }
        check(temp, "tool", "@/b", "@/b/tool");
        check(temp, "tool", "@/a:@/b", "@/b/tool");
        check(temp, "tool", "b", "@/b/tool");
        check(temp, "b/tool", "", "@/b/tool");
        check(temp, "./b/tool", "", "@/./b/tool");
        check(temp, "tool", "@/c:@", "program `tool` was not found in `@/c`, `@`");
        check(temp, "tool", "@/c:@:@/c", "program `tool` was not found in `@/c`, `@`");
        check(
            temp,
            "tool",
            "@/1:@/2:@/3:@/4:@/5:@/1:@/6",
            "program `tool` was not found in `@/1`, `@/2`, `@/3`, `@/4` and 2 more folders of `PATH`",
        );
        check(temp, "./tool", "@/b", "program `./tool` was not found");
        check(temp, "", "@/b", "program `` was not found");
        let refused = "`@/a/plain` cannot be executed: it has no permission to be executed";
        check(temp, "plain", "@/b:@/a", refused);
        check(temp, "a", "@", "`@/a` cannot be executed: it is a folder");
    }

    #[test]
    fn unrepresentable_arguments_are_refused() {
        let command = |args: &[&str], name: &str, value: &str| CommandSpec {
            program: "sh".into(),
            args: args.iter().map(Into::into).collect(),
            folder: "/".into(),
            environment: vec![(name.into(), value.into())],
        };
        for (command, what) in [
            (command(&["a", "b\0c"], "A", ""), "argument 2"),
            (command(&[], "A=B", ""), "variable `A=B`"),
            (command(&[], "", "x"), "variable ``"),
            (command(&[], "A", "x\0y"), "variable `A`"),
        ] {
            let error = resolve_program(command).unwrap_err().to_string();
            assert!(error.starts_with(what), "{error}");
        }
        assert_eq!(resolve_program(command(&["ok"], "PATH", "/bin")).unwrap().program, "/bin/sh");
    }
}
