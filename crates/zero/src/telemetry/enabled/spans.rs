//! Exports the spans of runs and tool calls, with the event that ends a call, and nothing else.
//!
//! The exported spans and fields are listed here, so that a span or log event added elsewhere is not
//! exported by accident.

use std::sync::Arc;

use opentelemetry::trace::{Status, TracerProvider as _};
use opentelemetry::{KeyValue, Value};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanEvents,
    SpanExporter, SpanLimits,
};
use prost::Message as _;
use tokio::runtime::Handle;
use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::FilterFn;

use super::{OtlpCollector, SEND_INTERVAL, SERVICE_NAME, TraceLayer, resource_attributes};

/// Exported spans: target prefix and name.
const SENT_SPANS: [(&str, &str); 2] = [("zero_session", "run"), ("zero_runtime", "tool_call")];
/// Exported event of a span: target prefix and name.
const SENT_EVENT: (&str, &str) = ("zero_runtime", "tool_used");
/// Exported fields of the event.
const SENT_EVENT_FIELDS: [&str; 3] = ["tool", "duration_ms", "success"];
/// Exported fields of spans.
const SENT_FIELDS: [&str; 12] = [
    "run_id",
    "session_id",
    "session_key",
    "agent",
    "model",
    "outcome",
    "error_kind",
    "input_tokens",
    "output_tokens",
    "tool",
    "call_id",
    "status",
];
/// Largest number of queued spans; more are dropped.
const QUEUED_SPANS_MAX: usize = 2048;
/// Largest number of spans per request.
const BATCH_SPANS_MAX: usize = 512;

/// Tracer provider that exports spans in batches, and its subscriber layer.
pub(super) fn make_provider(collector: &Arc<OtlpCollector>) -> (SdkTracerProvider, TraceLayer) {
    let attributes = resource_attributes().map(|(key, value)| KeyValue::new(key, value));
    let resource = Resource::builder_empty().with_attributes(attributes).build();
    let exporter = OtlpSpanExporter {
        collector: Arc::clone(collector),
        runtime: Handle::current(),
        resource: ResourceAttributesWithSchema::from(&resource),
    };
    // Set every option explicitly, so that OTEL environment variables have no effect.
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUED_SPANS_MAX)
        .with_max_export_batch_size(BATCH_SPANS_MAX)
        .with_scheduled_delay(SEND_INTERVAL)
        .build();
    let provider = SdkTracerProvider::builder()
        .with_resource(resource)
        .with_sampler(Sampler::AlwaysOn)
        .with_span_limits(SpanLimits::default())
        .with_span_processor(
            BatchSpanProcessor::builder(exporter).with_batch_config(batches).build(),
        )
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_context_activation(false)
        .with_tracer(provider.tracer(SERVICE_NAME))
        .with_filter(FilterFn::new(is_sent).with_max_level_hint(LevelFilter::INFO));
    (provider, Box::new(layer))
}

fn is_sent(metadata: &Metadata<'_>) -> bool {
    let made_in = metadata.target().split("::").next().unwrap_or_default();
    let made = (made_in, metadata.name());
    if metadata.is_span() { SENT_SPANS.contains(&made) } else { made == SENT_EVENT }
}

/// Exports spans from the SDK's batch thread.
#[derive(Debug)]
struct OtlpSpanExporter {
    collector: Arc<OtlpCollector>,
    /// Runtime of the HTTP client, since the batch thread has none.
    runtime: Handle,
    resource: ResourceAttributesWithSchema,
}

impl SpanExporter for OtlpSpanExporter {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(strip_unlisted_fields);
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let collector = Arc::clone(&self.collector);
        // Fails only at shutdown; a failed export was already logged.
        let _ = self.runtime.spawn(async move { collector.post("v1/traces", body).await }).await;
        Ok(())
    }
}

fn strip_unlisted_fields(span: &mut SpanData) {
    span.attributes.retain(|attribute| SENT_FIELDS.contains(&attribute.key.as_str()));
    let mut events = SpanEvents::default();
    for mut event in std::mem::take(&mut span.events) {
        if event.name == SENT_EVENT.1 {
            event.attributes.retain(|field| SENT_EVENT_FIELDS.contains(&field.key.as_str()));
            events.events.push(event);
        }
    }
    span.events = events;
    let says = |key: &str, bad: &dyn Fn(&str) -> bool| {
        span.attributes.iter().any(|attribute| {
            let text = match &attribute.value {
                Value::String(text) => text.as_str(),
                _ => return false,
            };
            attribute.key.as_str() == key && bad(text)
        })
    };
    let failed = says("outcome", &|word| word == "failed") || says("status", &|word| word != "ok");
    span.status = if failed { Status::error("") } else { Status::Unset };
}
