//! Findings of the doctor checks.

use serde::Serialize;

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DoctorFinding {
    /// Severity.
    pub(super) status: FindingStatus,
    /// Name of the check, such as `settings`.
    pub(super) check: &'static str,
    /// What the check found.
    pub(super) message: String,
    /// How to fix it; present unless the status is [`FindingStatus::Well`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum FindingStatus {
    /// No problem; `ok` in JSON.
    #[serde(rename = "ok")]
    Well,
    /// A risk; `warning` in JSON. Does not change the exit code.
    #[serde(rename = "warning")]
    Notable,
    /// A problem; `error` in JSON and exit code 1.
    #[serde(rename = "error")]
    Wrong,
}

/// Findings in the order in which they are shown.
#[derive(Debug, Default)]
pub(super) struct DoctorReport(pub(super) Vec<DoctorFinding>);

impl DoctorReport {
    pub(super) fn add_ok(&mut self, check: &'static str, message: impl Into<String>) {
        let message = message.into();
        self.0.push(DoctorFinding { status: FindingStatus::Well, check, message, fix: None });
    }

    pub(super) fn add_warning(
        &mut self,
        check: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (message, fix) = (message.into(), Some(fix.into()));
        self.0.push(DoctorFinding { status: FindingStatus::Notable, check, message, fix });
    }

    pub(super) fn add_error(
        &mut self,
        check: &'static str,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (message, fix) = (message.into(), Some(fix.into()));
        self.0.push(DoctorFinding { status: FindingStatus::Wrong, check, message, fix });
    }
}
