//! Folders in which no command can run, because its walls would make no sense there.

use std::path::{Path, PathBuf};

use zero_core::{ErrorType, Reason, ToolError};

/// Folders of which each command has its own.
const OWN: &[&str] = &["/tmp", "/run", "/dev", "/proc"];
/// Folders that are the kernel's, with all that is in them.
const KERNELS: &[&str] = &["/dev", "/proc", "/sys"];

/// Refuses a workspace that cannot be kept apart from the machine or from zero's own files.
pub(super) fn check(roots: &[PathBuf], state: &Path) -> Result<(), ToolError> {
    let state = zero_sandbox::survey::canonical(state).unwrap_or_else(|| state.to_owned());
    roots.iter().find_map(|root| objection(root, &state)).map_or(Ok(()), |why| {
        let message = format!("no command can run here: {why}; work in another folder");
        Err(ToolError::new(ErrorType::PermissionDenied, Reason::AccessDenied, message))
    })
}

fn objection(root: &Path, state: &Path) -> Option<String> {
    let shown = root.display();
    if let Some(own) = OWN.iter().find(|own| Path::new(own).starts_with(root)) {
        return Some(format!(
            "`{shown}` holds `{own}`, of which each command has its own (a folder in `/tmp` would do)"
        ));
    }
    if KERNELS.iter().any(|kernels| root.starts_with(kernels)) {
        return Some(format!("`{shown}` belongs to the kernel"));
    }
    root.starts_with(state).then(|| format!("`{shown}` lies in zero's own folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(root: &str, expected: Option<&str>) {
        let said = objection(Path::new(root), Path::new("/home/me/.local/state/zero"));
        match expected {
            Some(part) => assert!(said.as_ref().is_some_and(|s| s.contains(part)), "{said:?}"),
            None => assert_eq!(said, None),
        }
    }

    #[test]
    fn a_workspace_can_be_kept_apart() {
        check("/", Some("`/` holds `/tmp`"));
        check("/tmp", Some("`/tmp` holds `/tmp`"));
        check("/dev/shm/x", Some("belongs to the kernel"));
        check("/home/me/.local/state/zero/tmp/x", Some("zero's own folder"));
        for fine in ["/tmp/x", "/home/me", "/home/me/.local", "/run/user/1/x", "/srv"] {
            check(fine, None);
        }
    }
}
