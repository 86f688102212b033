//! The earlier content of a file, kept beside it before the file is changed.
//!
//! A backup discloses the content to everyone who may read the backup, so a tool that makes one
//! declares that it reads the file, and that it writes the backup.

use std::path::Path;

use zero_core::{ErrorReason, ToolError};
use zero_runtime::CallContext;
use zero_sandbox::{FileChange, FileSnapshot, FinalLinkMode, ResolvedPath, Workspace};

/// Numbers that are tried one after the other, so that the first free one is found. From there on the
/// number doubles, so that a file may have any number of backups.
const CONSECUTIVE_MAX: u32 = 100;

/// Saves the content of a file as a backup; does nothing if there was no file.
pub(crate) fn save(
    backup: &ResolvedPath,
    before: FileSnapshot,
    cx: &CallContext,
) -> Result<(), ToolError> {
    if let FileSnapshot::File { bytes, attributes, .. } = before {
        let copy_content = |_: &FileSnapshot| Ok(FileChange::Copy { bytes, attributes });
        cx.journal().change(backup, &cx.change_note(), || cx.check_cancelled(), copy_content)?;
    }
    Ok(())
}

/// Returns a free name among `NAME.bak`, `NAME.bak1`, …, or `None` if there is nothing to back up.
pub(crate) fn find_free_path(
    file: &ResolvedPath,
    workspace: &Workspace,
) -> Result<Option<ResolvedPath>, ToolError> {
    if file.facts()?.is_none() {
        return Ok(None);
    }
    let find = |number: u32| -> Result<Option<ResolvedPath>, ToolError> {
        let suffix = if number == 0 { String::new() } else { number.to_string() };
        let mut path = file.path().as_os_str().to_owned();
        path.push(format!(".bak{suffix}"));
        let backup = workspace.resolve_path(Path::new(&path), FinalLinkMode::Keep)?;
        Ok(backup.facts()?.is_none().then_some(backup))
    };
    for number in 0..CONSECUTIVE_MAX {
        if let Some(free) = find(number)? {
            return Ok(Some(free));
        }
    }
    let mut used = CONSECUTIVE_MAX - 1;
    let mut next = CONSECUTIVE_MAX;
    let mut found = None;
    // A free number above a used one, then the free number nearest to a used one.
    while found.is_none() && next > used {
        match find(next)? {
            None => (used, next) = (next, next.saturating_mul(2)),
            free => found = free,
        }
    }
    while found.is_some() && next - used > 1 {
        let middle = used + (next - used) / 2;
        match find(middle)? {
            None => used = middle,
            free => (found, next) = (free, middle),
        }
    }
    match found {
        Some(free) => Ok(Some(free)),
        None => {
            let shown = file.display_path();
            let message =
                format!("no name is free for a backup of `{shown}`; remove files `{shown}.bak…`");
            Err(ToolError::invalid(ErrorReason::TooLarge, message).with_detail("file", shown))
        }
    }
}
