//! Reports which secret values are masked, by their names.

use std::path::Path;

use zero_runtime::{SecretReport, WorkspaceSecrets};
use zero_settings::WorkspaceSettings;

use super::base_checks::LISTED_MAX;
use super::count_of;
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
    if *values == 0 && files.is_empty() && variables.is_empty() {
        return "no secret files and no secret variables found".to_owned();
    }
    let mut masked: Vec<&str> = names.iter().chain(variables).map(String::as_str).collect();
    masked.dedup();
    let (values, files) = (count_of(*values, "value"), count_of(files.len(), "secret file"));
    let variables = count_of(variables.len(), "variable");
    let mut text = format!("{values} from {files} and {variables} masked");
    if !masked.is_empty() {
        text.push_str(&format!(": {}", list_names(&masked)));
    }
    if !left_alone.is_empty() {
        let left_alone: Vec<&str> = left_alone.iter().map(String::as_str).collect();
        text.push_str(&format!("; not secret: {}", list_names(&left_alone)));
    }
    text
}

/// The names, if there are not too many.
fn list_names(names: &[&str]) -> String {
    let shown = names.iter().take(LISTED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
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
            "3 values from 1 secret file and 1 variable masked: A_KEY, B_KEY, CI_TOKEN; not secret: PORT"
        );
        let none = "no secret files and no secret variables found";
        assert_eq!(summarize(&SecretReport::default()), none);
    }
}
