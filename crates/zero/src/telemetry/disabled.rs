//! Rejects `gateway.telemetry` in a build without OpenTelemetry. No exporter can be created.

use zero_core::ExtraRootCertificates;
use zero_gateway::Gateway;
use zero_settings::gateway::TelemetrySettings;

use super::TraceLayer;
use crate::exit::UsageError;

const MISSING: &str =
    "this build has no telemetry; build zero with `--features telemetry`, or remove the setting";

/// A collector, of which this build has none.
pub(crate) enum OtlpCollector {}

impl OtlpCollector {
    pub(crate) fn new(
        _setting: &TelemetrySettings,
        _roots: &ExtraRootCertificates,
    ) -> Result<Self, UsageError> {
        Err(UsageError(format!("invalid `gateway.telemetry`: {MISSING}")))
    }
}

/// An exporter, of which this build has none.
pub(crate) enum TelemetryExporter {}

impl TelemetryExporter {
    pub(crate) fn start(collector: OtlpCollector) -> (Self, TraceLayer) {
        match collector {}
    }

    pub(crate) fn start_metrics(&mut self, _gateway: Gateway) {
        match *self {}
    }

    pub(crate) async fn stop(self) {
        match self {}
    }
}

/// The reason why the setting cannot be used.
pub(crate) fn check_setting(_setting: &TelemetrySettings) -> Result<(), String> {
    Err(MISSING.to_owned())
}
