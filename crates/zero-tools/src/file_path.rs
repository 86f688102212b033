//! Resolution of a path that must name a file.

use zero_core::{ErrorReason, ToolError};
use zero_sandbox::{FinalLinkMode, ResolvedPath, Workspace};

/// Resolves the path of a file. A path with a slash at the end is refused, whatever is there:
/// `link/` means the target of the link, and the link itself must not be changed instead.
pub(crate) fn locate_file(
    written: &str,
    workspace: &Workspace,
    last: FinalLinkMode,
) -> Result<ResolvedPath, ToolError> {
    if written.ends_with('/') || written.ends_with("/.") || written.ends_with("/..") {
        let message = format!("`{written}` names a folder; name a file in it");
        return Err(
            ToolError::invalid(ErrorReason::IsDirectory, message).with_detail("file", written)
        );
    }
    workspace.resolve(written, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;

    #[test]
    fn folder_path_is_not_accepted_as_file() {
        let host = TestHost::new().with_files(&[("a", ""), ("d/b", "")]);
        for (written, is_file) in [
            ("a", true),
            ("d/b", true),
            ("new", true),
            ("a/", false),
            ("a/.", false),
            ("d/..", false),
        ] {
            let located = locate_file(written, host.workspace(), FinalLinkMode::Keep);
            assert_eq!(located.is_ok(), is_file, "{written}");
        }
    }
}
