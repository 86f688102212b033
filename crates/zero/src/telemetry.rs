//! Sends traces and metrics of a gateway to the OpenTelemetry collector in its settings, if zero is
//! built with the feature `telemetry`.

#[cfg(not(feature = "telemetry"))]
mod disabled;
#[cfg(feature = "telemetry")]
mod enabled;

use tracing_subscriber::{Layer, Registry};

#[cfg(not(feature = "telemetry"))]
use self::disabled as exporter;
#[cfg(feature = "telemetry")]
use self::enabled as exporter;
pub(crate) use self::exporter::{OtlpCollector, TelemetryExporter, check_setting};

/// Subscriber layer that creates traces.
pub(crate) type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;
