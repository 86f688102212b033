//! Authorizes a call whose path could not be resolved.
//!
//! The reason why a path cannot be resolved reveals what exists there: `part of the path is a file`
//! tells that the file exists. So the resolvable part of the path is authorized before the reason
//! is reported.

use std::path::Path;

use serde_json::Value;
use zero_core::tool_result::{FileLocation, ResultDisplay, ToolResult};
use zero_core::{Effects, PathZone, TargetPath, ToolError, ToolSpec};
use zero_sandbox::{FinalLinkMode, Workspace};

use crate::call_context::CallContext;
use crate::tool::{AnyPlan, AnyTool, BoxFuture, CallDescription};

/// A call that can only fail, with the effects it would have had.
pub(crate) struct FailedPlan {
    description: CallDescription,
    effects: Effects,
    error: ToolError,
}

impl FailedPlan {
    /// The failed plan of a call about `written`, or the error itself if it is not about a path.
    pub(crate) fn new(
        tool: &dyn AnyTool,
        written: Option<&str>,
        workspace: &Workspace,
        error: ToolError,
    ) -> Result<Self, ToolError> {
        let named = error.details.get("file").and_then(Value::as_str);
        let path =
            named.and_then(|named| resolve_partial_path(written.unwrap_or(named), workspace));
        let Some(path) = path else { return Err(error) };
        let title = call_title(tool.spec(), path.written());
        let locations = vec![FileLocation { path: path.canonical().to_owned(), line: None }];
        let effects = tool.path_effects(path);
        Ok(Self { description: CallDescription { title, locations }, effects, error })
    }
}

/// The fields of inputs that name a path.
pub(crate) const PATH_ARGUMENTS: [&str; 3] = ["file_path", "path", "filePath"];

/// The path in an input, if it has one.
pub(crate) fn path_argument(input: &Value) -> Option<String> {
    PATH_ARGUMENTS.into_iter().find_map(|name| input.get(name)?.as_str()).map(str::to_owned)
}

/// A title that reveals no more than the caller knows.
pub(crate) fn call_title(spec: &ToolSpec, written: &str) -> String {
    format!("{} `{written}`", spec.name)
}

/// Resolves a path as far as possible; `None` if it is not a path. The unresolvable part is kept as
/// written.
pub fn resolve_partial_path(written: &str, workspace: &Workspace) -> Option<TargetPath> {
    let mut cut = written.len();
    // One iteration per slash; resolvable paths have few.
    loop {
        let (known, rest) = written.split_at_checked(cut)?;
        let known = match (known, rest) {
            ("", rest) if rest.starts_with('/') => "/",
            ("", _) => ".",
            (known, _) => known,
        };
        if let Ok(found) = workspace.resolve(known, FinalLinkMode::Follow) {
            let found = found.target();
            let below = Path::new(rest.trim_start_matches('/'));
            let canonical = zero_policy::path::normalize_lexically(&found.canonical().join(below));
            let whereabouts = match found.zone() {
                PathZone::Spill if canonical.starts_with(found.canonical()) => PathZone::Spill,
                _ if workspace.roots().any(|root| canonical.starts_with(root)) => {
                    PathZone::Workspace
                }
                _ => PathZone::Outside,
            };
            return Some(TargetPath::new(written, canonical, whereabouts));
        }
        if cut == 0 {
            return None;
        }
        cut = written.get(..cut)?.rfind('/').unwrap_or(0);
    }
}

impl AnyPlan for FailedPlan {
    fn describe(&self) -> CallDescription {
        self.description.clone()
    }

    fn effects(&self) -> Effects {
        self.effects.clone()
    }

    fn check(&self, _: &CallContext) -> Result<(), ToolError> {
        Err(self.error.clone())
    }

    fn preview(&self, _: &CallContext) -> Option<ResultDisplay> {
        None
    }

    fn run(&self, _: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let error = self.error.clone();
        Box::pin(async move { Err(error) })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn path_is_resolved_as_far_as_possible() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let root = base.join("w");
        std::fs::create_dir_all(root.join("secrets")).unwrap();
        std::fs::write(root.join("secrets/key"), "").unwrap();
        symlink("secrets", root.join("way")).unwrap();
        symlink("loop", root.join("secrets/loop")).unwrap();
        let workspace =
            Workspace::open(std::slice::from_ref(&root), Some(base.join("home"))).unwrap();
        for (written, expected) in [
            ("secrets/key/x", "w/secrets/key/x"),
            ("way/key/x/y", "w/secrets/key/x/y"),
            ("way/loop", "w/secrets/loop"),
            ("way/loop/../../x", "w/x"),
            ("secrets/key/../z", "w/secrets/z"),
            ("../o/key", "o/key"),
            ("~/.ssh/x", "home/.ssh/x"),
        ] {
            let found = resolve_partial_path(written, &workspace).unwrap();
            assert_eq!(found.canonical(), base.join(expected), "{written}");
            let inside = expected.starts_with("w/");
            assert_eq!(found.zone() == PathZone::Workspace, inside, "{written}");
        }
        assert_eq!(
            resolve_partial_path("/a/../../b", &workspace).unwrap().canonical(),
            Path::new("/b")
        );
    }
}
