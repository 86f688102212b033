//! Reports which secret values are masked, by their names.

use std::path::Path;

use zero_runtime::{SecretReport, WorkspaceSecrets};
use zero_settings::WorkspaceSettings;

use super::base_checks::LISTED_MAX;
use super::findings::DoctorReport;
use crate::AppContext;

const CHECK: &str = "secrets";

pub(super) fn check_secrets(
    app: &AppContext,
    folder: &Path,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let config = app.secret_mask_config(settings);
    if config.files.is_empty() {
        findings.add_warning(
            CHECK,
            "`secrets.mask` is off: models see the values of secrets".to_owned(),
            "remove it from your settings",
        );
        return;
    }
    let report = WorkspaceSecrets::new(&config, vec![folder.to_owned()]).report();
    findings.add_ok(CHECK, summarize(&report));
    for bound in &report.bounds {
        findings.add_warning(
            CHECK,
            bound.clone(),
            "zero asks before a tool reads a secret file whose values it does not mask",
        );
    }
}

fn summarize(report: &SecretReport) -> String {
    let SecretReport { files, names, variables, values, left_alone, .. } = report;
    let mut text = format!("{values} values are masked, from {} files", files.len());
    for (what, names) in
        [("", names), ("variables", variables), ("not secret", left_alone)]
    {
        if !names.is_empty() {
            let more = match names.len().saturating_sub(LISTED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let listed = names.iter().take(LISTED_MAX).map(String::as_str).collect::<Vec<_>>();
            let mark = if what.is_empty() { String::new() } else { format!("{what} ") };
            text.push_str(&format!("; {mark}{}{more}", listed.join(", ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_names_and_counts() {
        let names = |names: &str| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let report = SecretReport {
            files: vec![("/w/.env".into(), true)],
            names: names("A_KEY B_KEY"),
            variables: names("CI_TOKEN"),
            values: 3,
            left_alone: names("PORT"),
            bounds: Vec::new(),
        };
        assert_eq!(
            summarize(&report),
            "3 values are masked, from 1 files; A_KEY, B_KEY; variables CI_TOKEN; not secret PORT"
        );
        assert_eq!(summarize(&SecretReport::default()), "0 values are masked, from 0 files");
    }
}
