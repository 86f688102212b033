//! The earlier content of a file, kept beside it before the file is changed.
//!
//! A backup discloses the content to everyone who may read the backup, so a tool that makes one
//! declares that it reads the file, and that it writes the backup.

use std::path::Path;

use zero_core::{ErrorReason, ToolError};
use zero_runtime::{CallContext, ToolBound};
use zero_sandbox::{FileChange, FileSnapshot, FinalLinkMode, ResolvedPath, Workspace};

/// Most backup names that are tried.
const BACKUPS_MAX: u32 = 100;

/// The limit of a tool that makes backups.
pub(crate) fn backups_bound() -> ToolBound {
    ToolBound::count("backups of a file", BACKUPS_MAX as usize)
}

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

/// Returns the first free name among `NAME.bak`, `NAME.bak1`, …, or `None` if there is nothing to
/// back up.
pub(crate) fn find_free_path(
    file: &ResolvedPath,
    workspace: &Workspace,
) -> Result<Option<ResolvedPath>, ToolError> {
    if file.facts()?.is_none() {
        return Ok(None);
    }
    for number in 0..BACKUPS_MAX {
        let suffix = if number == 0 { String::new() } else { number.to_string() };
        let mut path = file.path().as_os_str().to_owned();
        path.push(format!(".bak{suffix}"));
        let backup = workspace.resolve_path(Path::new(&path), FinalLinkMode::Keep)?;
        if backup.facts()?.is_none() {
            return Ok(Some(backup));
        }
    }
    let message = format!(
        "`{}` has {BACKUPS_MAX} backups already; remove some or write without one",
        file.display_path()
    );
    Err(ToolError::invalid(ErrorReason::TooLarge, message).with_detail("file", file.display_path()))
}
