//! What a check found.

use serde::Serialize;

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DoctorFinding {
    /// How it is.
    pub(super) status: FindingStatus,
    /// What was looked at.
    pub(super) check: &'static str,
    /// What was found.
    pub(super) message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

/// How it is with what was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum FindingStatus {
    /// As it should be.
    #[serde(rename = "ok")]
    Well,
    /// Worth a look.
    #[serde(rename = "warning")]
    Notable,
    /// Not as it should be.
    #[serde(rename = "error")]
    Wrong,
}

/// The findings so far.
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
