//! Notices about files that a command created although commands may not create them.

use schemars::JsonSchema;
use serde::Serialize;
use zero_runtime::WatchReport;
use zero_sandbox::Workspace;

/// A file or folder that was moved to quarantine because commands may not create it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QuarantineNotice {
    /// Path at which it was created.
    pub path: String,
    /// Path in the quarantine folder, where it is now.
    pub kept_at: String,
    /// The kind of file, such as editor settings that run code.
    pub why: String,
}

/// Returns the notices for programs.
pub(crate) fn quarantine_notices(
    report: &WatchReport,
    workspace: &Workspace,
) -> Vec<QuarantineNotice> {
    let to_notice = |taken: &zero_runtime::QuarantinedFile| QuarantineNotice {
        path: workspace.display_path(&taken.path),
        kept_at: taken.kept_at.display().to_string(),
        why: taken.why.clone(),
    };
    report.quarantined.iter().map(to_notice).collect()
}

/// Returns the notices as sentences, and other notes about the watched files.
pub(crate) fn quarantine_notes(report: &WatchReport, workspace: &Workspace) -> Vec<String> {
    let notices = quarantine_notices(report, workspace).into_iter().zip(&report.quarantined);
    let taken = notices.map(|(QuarantineNotice { path, kept_at, why }, taken)| {
        let advice = match taken {
            taken if taken.is_denied_by_rule() => {
                "The rule applies to all tools: ask the user how to proceed".to_owned()
            }
            taken if taken.is_closed_by_setting() => {
                "Create it with Write instead; only commands are closed out".to_owned()
            }
            taken if taken.opens_by_rule => format!(
                "Create it with Write instead, which asks for approval; a user rule that allows `Edit({path})` lets commands create it"
            ),
            _ => "Create it with Write instead, which asks for approval".to_owned(),
        };
        format!(
            "`{path}` was moved to quarantine: it is {why}, which commands may not create; it is now in `{kept_at}`. {advice}"
        )
    });
    taken.chain(report.warnings.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zero_runtime::QuarantinedFile;

    #[test]
    fn advice_does_not_name_a_tool_that_is_denied() {
        let temp = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(&[temp.path().to_owned()], None).unwrap();
        let note = |why: &str, opens_by_rule: bool| {
            let file = QuarantinedFile {
                path: temp.path().join("x"),
                kept_at: "/kept/x".into(),
                why: why.to_owned(),
                opens_by_rule,
            };
            let report = WatchReport { quarantined: vec![file], warnings: Vec::new() };
            quarantine_notes(&report, &workspace).concat()
        };
        let asked = note("a setting", false);
        assert!(
            asked.ends_with("Create it with Write instead, which asks for approval"),
            "{asked}"
        );
        assert!(note("a setting", true).contains("a user rule that allows `Edit(x)`"));
        let configured = note("protected by a setting", false);
        assert!(configured.contains("Write") && !configured.contains("asks"), "{configured}");
        let denied = note("a path that a deny rule names", false);
        assert!(!denied.contains("Write") && denied.contains("ask the user"), "{denied}");
    }
}
