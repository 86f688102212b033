//! Exports traces and metrics in the background.
//!
//! The data contains counts, durations and results of runs and calls. It never contains prompts, tool
//! inputs or tool outputs. Export runs in the background: if the collector is slow or unavailable,
//! data is dropped, but runs are not delayed.

mod collector;
mod gateway_metrics;
mod spans;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use zero_gateway::Gateway;

pub(crate) use self::collector::{OtlpCollector, check_setting};
use super::TraceLayer;

/// Time between two exports.
const SEND_INTERVAL: Duration = Duration::from_secs(5);
/// Time limit for the last export at shutdown.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

/// Exports traces and metrics until it is stopped.
pub(crate) struct TelemetryExporter {
    collector: Arc<OtlpCollector>,
    provider: SdkTracerProvider,
    stop: CancellationToken,
    figures: Option<JoinHandle<()>>,
}

impl TelemetryExporter {
    /// Starts exporting traces. The caller must add the layer to the subscriber. Needs a Tokio runtime.
    pub(crate) fn start(collector: OtlpCollector) -> (Self, TraceLayer) {
        let collector = Arc::new(collector);
        let (provider, traces) = spans::make_provider(&collector);
        let stop = CancellationToken::new();
        (Self { collector, provider, stop, figures: None }, traces)
    }

    /// Also exports the metrics of a gateway.
    pub(crate) fn start_metrics(&mut self, gateway: Gateway) {
        let (collector, stop) = (Arc::clone(&self.collector), self.stop.clone());
        self.figures = Some(tokio::spawn(send_metrics(collector, gateway, stop)));
    }

    /// Exports pending data, for at most [`FLUSH_TIME_MAX`].
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let provider = self.provider;
        let spans =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIME_MAX));
        let rest = async {
            // A failed export was already logged.
            let _ = spans.await;
            if let Some(figures) = self.figures {
                let _ = figures.await;
            }
        };
        let _ = timeout(FLUSH_TIME_MAX, rest).await;
    }
}

/// Exports metrics at each interval, and once more when stopped.
async fn send_metrics(collector: Arc<OtlpCollector>, gateway: Gateway, stop: CancellationToken) {
    let started_at = SystemTime::now();
    let mut every = interval(SEND_INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let is_last = tokio::select! {
            _ = every.tick() => false,
            () = stop.cancelled() => true,
        };
        let body = gateway_metrics::encode_request(
            &gateway.collect_metrics(),
            started_at,
            SystemTime::now(),
        );
        collector.post("v1/metrics", body).await;
        if is_last {
            return;
        }
    }
}

/// Value of `service.name` in exported data.
const SERVICE_NAME: &str = "zero";

/// Resource attributes: service name, version, and a random ID of this process.
fn resource_attributes() -> [(&'static str, String); 3] {
    static INSTANCE_ID: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| format!("{:032x}", fastrand::u128(..)));
    [
        ("service.name", SERVICE_NAME.to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", INSTANCE_ID.clone()),
    ]
}
