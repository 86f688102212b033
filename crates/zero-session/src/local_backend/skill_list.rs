//! The names and descriptions of skills, added to the context. The tool loads their texts.

use std::fs::File;
use std::path::Path;

use zero_runtime::Policy;
use zero_runtime::rule_policy::is_denied_link;
use zero_runtime::skills::{SKILL_TOOL, SKILLS_SOURCE, SkillSearch, UserSkillFolder, render_list};
use zero_runtime::tool_backend::InstructionFile;
use zero_sandbox::Workspace;

/// Lists the skills that may be used; `None` if there are none.
pub(super) fn read(
    workspace: &Workspace,
    user: Option<&UserSkillFolder>,
    policy: &dyn Policy,
) -> Option<InstructionFile> {
    let search = SkillSearch {
        workspace,
        user: user.and_then(|folder| folder.0.as_deref()),
        may_read: &|written: &Path, path: &Path| policy.may_read(SKILL_TOOL, written, path),
        is_denied_link: &|file: &File| is_denied_link(policy, workspace, file),
    };
    let catalog = search.list();
    for problem in &catalog.problems {
        tracing::warn!(path = problem.path, "a skill cannot be used: {}", problem.message);
    }
    let text = render_list(&catalog.skills)?;
    Some(InstructionFile { path: SKILLS_SOURCE.to_owned(), text })
}
