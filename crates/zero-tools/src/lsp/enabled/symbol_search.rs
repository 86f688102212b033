//! Finds a name by its text, where no language server answers ([`SymbolSearch`]).

use zero_core::{Effects, ToolError};
use zero_runtime::CallContext;
use zero_sandbox::{ResolvedPath, Workspace};

use super::output::LspItem;
use super::query::ITEMS_MAX;
use crate::grep::{self, GrepMatch, GrepOutput, GrepPlan};
use crate::walk::search_roots::SearchRoots;

/// Where a name is searched as text: in the files of the workspace with the same extension.
#[derive(Clone, Debug)]
pub(super) struct SymbolSearch {
    roots: SearchRoots,
    glob: Option<String>,
}

/// The lines with the name.
pub(super) struct SymbolLines {
    pub(super) items: Vec<LspItem>,
    /// All such lines, shown or not.
    pub(super) total: u64,
    /// Files and folders left out because reading them is denied.
    pub(super) denied: u64,
}

impl SymbolSearch {
    pub(super) fn resolve(file: &ResolvedPath, workspace: &Workspace) -> Result<Self, ToolError> {
        let extension = file.path().extension().and_then(|extension| extension.to_str());
        // Other characters could have a meaning in a glob.
        let plain = extension.filter(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        Ok(Self {
            roots: SearchRoots::resolve(None, workspace)?,
            glob: plain.map(|extension| format!("*.{extension}")),
        })
    }

    pub(super) fn effects(&self) -> Effects {
        self.roots.read_effects()
    }

    /// Searches. Blocks.
    pub(super) fn find(&self, name: &str, cx: &CallContext) -> Result<SymbolLines, ToolError> {
        let Self { roots, glob } = self.clone();
        let plan = GrepPlan::for_text(name, roots, glob.as_deref(), ITEMS_MAX as u64)?;
        let GrepOutput { matches, total_matches, left_out } = grep::find_lines(&plan, cx)?;
        let item = |found: GrepMatch| {
            let before = found.content.split(name).next().unwrap_or_default();
            LspItem {
                file_path: found.file,
                line: found.line_number,
                character: before.chars().count() as u64 + 1,
                text: Some(found.content),
                ..LspItem::default()
            }
        };
        Ok(SymbolLines {
            items: matches.into_iter().map(item).collect(),
            total: total_matches,
            denied: left_out.unwrap_or_default(),
        })
    }
}
