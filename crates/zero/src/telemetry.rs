//! Sends traces and figures of a gateway to an OpenTelemetry collector, where the settings name one.
//!
//! What is sent says that runs and calls were, how long they took and how they ended. It never says
//! what was asked, what a tool was given or what it gave. Sending is beside the work: a collector that
//! is slow or gone costs what waits for it, and never a run.

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

pub(crate) use self::collector::{OtlpCollector, validate_setting as check_setting};
pub(crate) use self::spans::TraceLayer;

/// Time between two batches.
const SEND_INTERVAL: Duration = Duration::from_secs(5);
/// How long what waits has to be sent at the end.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

/// Sends what happens until it is stopped.
pub(crate) struct TelemetryExporter {
    collector: Arc<OtlpCollector>,
    provider: SdkTracerProvider,
    stop: CancellationToken,
    figures: Option<JoinHandle<()>>,
}

impl TelemetryExporter {
    /// Sends traces from now on. The layer has to become part of the log. Only within a runtime.
    pub(crate) fn start(collector: OtlpCollector) -> (Self, TraceLayer) {
        let collector = Arc::new(collector);
        let (provider, traces) = spans::make_provider(&collector);
        let stop = CancellationToken::new();
        (Self { collector, provider, stop, figures: None }, traces)
    }

    /// Sends the figures of a gateway, too.
    pub(crate) fn start_metrics(&mut self, gateway: Gateway) {
        let (collector, stop) = (Arc::clone(&self.collector), self.stop.clone());
        self.figures = Some(tokio::spawn(send_metrics(collector, gateway, stop)));
    }

    /// Sends what waits, but not for long.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let provider = self.provider;
        let spans =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH_TIME_MAX));
        let rest = async {
            // What could not be sent was said already.
            let _ = spans.await;
            if let Some(figures) = self.figures {
                let _ = figures.await;
            }
        };
        let _ = timeout(FLUSH_TIME_MAX, rest).await;
    }
}

/// Sends figures now and then, and once more at the end.
async fn send_metrics(collector: Arc<OtlpCollector>, gateway: Gateway, stop: CancellationToken) {
    let began = SystemTime::now();
    let mut every = interval(SEND_INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let is_last = tokio::select! {
            _ = every.tick() => false,
            () = stop.cancelled() => true,
        };
        let body =
            gateway_metrics::encode_request(&gateway.collect_metrics(), began, SystemTime::now());
        collector.post("v1/metrics", body).await;
        if is_last {
            return;
        }
    }
}

/// What the program is called by those who watch it.
const SERVICE_NAME: &str = "zero";

/// Who sends: the program, and which of several that run.
fn resource_attributes() -> [(&'static str, String); 3] {
    static INSTANCE_ID: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| format!("{:032x}", fastrand::u128(..)));
    [
        ("service.name", SERVICE_NAME.to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", INSTANCE_ID.clone()),
    ]
}
