//! What a command made that it may not make, told.

use schemars::JsonSchema;
use serde::Serialize;
use zero_runtime::WatchReport;
use zero_sandbox::Workspace;

/// Something that was taken away because commands may not create it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QuarantineNotice {
    /// Where it was.
    pub path: String,
    /// Where it lies now.
    pub kept_at: String,
    /// What it is.
    pub why: String,
}

/// What was taken away, for programs.
pub(crate) fn quarantine_notices(
    settled: &WatchReport,
    workspace: &Workspace,
) -> Vec<QuarantineNotice> {
    let told = |taken: &zero_runtime::QuarantinedFile| QuarantineNotice {
        path: workspace.display_path(&taken.path),
        kept_at: taken.kept_at.display().to_string(),
        why: taken.why.clone(),
    };
    settled.taken_away.iter().map(told).collect()
}

/// The same in sentences, and what else should be looked at.
pub(crate) fn quarantine_notes(settled: &WatchReport, workspace: &Workspace) -> Vec<String> {
    let taken = quarantine_notices(settled, workspace).into_iter().map(|QuarantineNotice { path, kept_at, why }| {
        // Of a repository's own files no rule opens any.
        let rule = match path.split('/').any(|part| part == ".git") {
            true => String::new(),
            false => format!("; a rule of theirs that allows `Edit({path})` lets commands do it"),
        };
        format!(
            "`{path}` was taken away: it is {why}, which commands may not create; it lies in `{kept_at}` now. Create it with Write instead, which asks the person{rule}"
        )
    });
    taken.chain(settled.warnings.iter().cloned()).collect()
}
