//! Workspace folders in which no command can run, because a sandbox cannot protect anything there.

use std::path::{Path, PathBuf};

use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_sandbox::path_survey;

/// Folders of which each command has its own instance.
const PER_COMMAND_FOLDERS: &[&str] = &["/tmp", "/run", "/dev", "/proc"];
/// Folders of the kernel, with all their contents.
const KERNEL_FOLDERS: &[&str] = &["/dev", "/proc", "/sys"];

/// Refuses a workspace that cannot be separated from the machine or from zero's own files.
pub(super) fn check_roots(roots: &[PathBuf], own: &[PathBuf]) -> Result<(), ToolError> {
    let real = |path: &PathBuf| path_survey::canonicalize(path).unwrap_or_else(|| path.to_owned());
    let own: Vec<PathBuf> = own.iter().map(real).collect();
    roots.iter().find_map(|root| find_objection(root, &own)).map_or(Ok(()), |why| {
        Err(refusal_error(format!("no command can run here: {why}; work in another folder")))
    })
}

/// Refuses a workspace that would have to be hidden from commands.
pub(super) fn check_visible(roots: &[PathBuf], masked: &[PathBuf]) -> Result<(), ToolError> {
    let hidden = roots.iter().find(|root| masked.contains(root));
    hidden.map_or(Ok(()), |root| {
        Err(refusal_error(format!(
            "no command can run in `{}`: it has to be hidden from commands, because it holds secrets, a rule denies reading it, or it cannot be listed to look for what rules deny; work in another folder, narrow the deny rules for `Read`, or open it with `chmod u+rx`",
            root.display()
        )))
    })
}

fn refusal_error(message: String) -> ToolError {
    ToolError::new(ErrorType::PermissionDenied, ErrorReason::AccessDenied, message)
}

fn find_objection(root: &Path, own: &[PathBuf]) -> Option<String> {
    let shown = root.display();
    if let Some(own) = PER_COMMAND_FOLDERS.iter().find(|own| Path::new(own).starts_with(root)) {
        return Some(format!(
            "`{shown}` holds `{own}`, which is private to each command (use a folder inside `/tmp` instead)"
        ));
    }
    if KERNEL_FOLDERS.iter().any(|kernels| root.starts_with(kernels)) {
        return Some(format!("`{shown}` belongs to the kernel"));
    }
    let in_own = own.iter().any(|own| root.starts_with(own));
    in_own.then(|| format!("`{shown}` is in zero's own folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(root: &str, expected: Option<&str>) {
        let own = ["/home/me/.local/state/zero", "/home/me/.config/zero"].map(PathBuf::from);
        let objection = find_objection(Path::new(root), &own);
        match expected {
            Some(part) => {
                assert!(objection.as_ref().is_some_and(|s| s.contains(part)), "{objection:?}")
            }
            None => assert_eq!(objection, None),
        }
    }

    #[test]
    fn forbidden_roots_are_refused() {
        check("/", Some("`/` holds `/tmp`"));
        check("/tmp", Some("`/tmp` holds `/tmp`"));
        check("/dev/shm/x", Some("belongs to the kernel"));
        check("/home/me/.local/state/zero/tmp/x", Some("zero's own folder"));
        check("/home/me/.config/zero", Some("zero's own folder"));
        for fine in
            ["/tmp/x", "/home/me", "/home/me/.local", "/home/me/.config", "/run/user/1/x", "/srv"]
        {
            check(fine, None);
        }
    }
}
