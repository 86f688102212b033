//! Encodes the metrics of a gateway for an OTLP collector.
//!
//! The metrics are already cumulative, so they are encoded directly; the meters of the SDK would count
//! everything a second time.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use zero_gateway::{MetricFamily, MetricHistogram, MetricKind, MetricPoint, MetricValue};

use super::{SERVICE_NAME, resource_attributes};

/// Request body with the metrics at `now`, counted since `began`.
pub(super) fn encode_request(
    families: &[MetricFamily],
    started_at: SystemTime,
    now: SystemTime,
) -> Vec<u8> {
    let times = MetricWindow { started_at: to_nanos(started_at), now: to_nanos(now) };
    let scope = InstrumentationScope { name: SERVICE_NAME.to_owned(), ..Default::default() };
    let attributes = resource_attributes().map(|(key, value)| make_attribute(key, value)).to_vec();
    let resource_metrics = vec![ResourceMetrics {
        resource: Some(Resource { attributes, ..Default::default() }),
        scope_metrics: vec![ScopeMetrics {
            scope: Some(scope),
            metrics: families.iter().map(|family| times.to_metric(family)).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

fn to_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn make_attribute(key: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: key.to_owned(), value, ..Default::default() }
}

fn point_attributes(point: &MetricPoint) -> Vec<KeyValue> {
    point.labels.iter().map(|(key, value)| make_attribute(key, value.clone())).collect()
}

/// The unit of a metric, which its name tells.
fn unit(name: &str) -> &'static str {
    let quantity = name.strip_suffix("_total").unwrap_or(name);
    match quantity.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "1",
    }
}

/// Start and end time of the metrics.
struct MetricWindow {
    started_at: u64,
    now: u64,
}

impl MetricWindow {
    fn to_metric(&self, family: &MetricFamily) -> Metric {
        let aggregation_temporality = AggregationTemporality::Cumulative as i32;
        let numbers =
            || family.points.iter().filter_map(|point| self.to_number_point(point)).collect();
        let data = match family.kind {
            MetricKind::Gauge => metric::Data::Gauge(Gauge { data_points: numbers() }),
            MetricKind::Counter => metric::Data::Sum(Sum {
                data_points: numbers(),
                aggregation_temporality,
                is_monotonic: true,
            }),
            MetricKind::Histogram => metric::Data::Histogram(Histogram {
                data_points: family
                    .points
                    .iter()
                    .filter_map(|point| self.to_histogram_point(point))
                    .collect(),
                aggregation_temporality,
            }),
        };
        Metric {
            name: family.name.to_owned(),
            description: family.help.to_owned(),
            unit: unit(family.name).to_owned(),
            data: Some(data),
            ..Default::default()
        }
    }

    fn to_number_point(&self, point: &MetricPoint) -> Option<NumberDataPoint> {
        let value = match &point.value {
            MetricValue::Count(count) => {
                number_data_point::Value::AsInt(i64::try_from(*count).unwrap_or(i64::MAX))
            }
            MetricValue::Amount(amount) => number_data_point::Value::AsDouble(*amount),
            MetricValue::Histogram(_) => return None,
        };
        Some(NumberDataPoint {
            attributes: point_attributes(point),
            start_time_unix_nano: self.started_at,
            time_unix_nano: self.now,
            value: Some(value),
            ..Default::default()
        })
    }

    fn to_histogram_point(&self, point: &MetricPoint) -> Option<HistogramDataPoint> {
        let MetricValue::Histogram(MetricHistogram { within, sum, count }) = &point.value else {
            return None;
        };
        // OTLP buckets are not cumulative, so take differences.
        let reached = within.iter().map(|(_, reached)| *reached).chain([*count]);
        let mut before = 0;
        let bucket_counts = reached.map(|reached| {
            let more = reached.saturating_sub(before);
            before = reached;
            more
        });
        Some(HistogramDataPoint {
            attributes: point_attributes(point),
            start_time_unix_nano: self.started_at,
            time_unix_nano: self.now,
            count: *count,
            sum: Some(*sum),
            bucket_counts: bucket_counts.collect(),
            explicit_bounds: within.iter().map(|(bound, _)| *bound).collect(),
            ..Default::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert_figure(kind: MetricKind, value: MetricValue) -> metric::Data {
        let points = vec![MetricPoint { labels: vec![("tool", "Read".to_owned())], value }];
        let family = MetricFamily { name: "x_seconds", help: "X.", kind, points };
        let body = encode_request(&[family], UNIX_EPOCH, UNIX_EPOCH);
        let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
        let metric = request.resource_metrics[0].scope_metrics[0].metrics[0].clone();
        assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("x_seconds", "s"));
        metric.data.unwrap()
    }

    #[test]
    fn unit_is_that_of_the_name() {
        for (name, expected) in [
            ("zero_tool_duration_seconds", "s"),
            ("zero_tool_cpu_seconds_total", "s"),
            ("zero_tool_io_bytes_total", "By"),
            ("zero_tool_memory_peak_bytes", "By"),
            ("zero_tool_retries_total", "1"),
        ] {
            assert_eq!(unit(name), expected, "{name}");
        }
    }

    #[test]
    fn metrics_keep_their_kind() {
        let metric::Data::Sum(sum) = convert_figure(MetricKind::Counter, MetricValue::Count(7))
        else {
            panic!()
        };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsInt(7)));
        assert_eq!(sum.data_points[0].attributes, [make_attribute("tool", "Read".to_owned())]);
        let metric::Data::Gauge(gauge) =
            convert_figure(MetricKind::Gauge, MetricValue::Amount(1.5))
        else {
            panic!()
        };
        assert_eq!(gauge.data_points[0].value, Some(number_data_point::Value::AsDouble(1.5)));
    }

    #[test]
    fn histogram_buckets_are_not_cumulative() {
        let spread = MetricHistogram { within: vec![(0.1, 2), (1.0, 5)], sum: 12.5, count: 6 };
        let metric::Data::Histogram(histogram) =
            convert_figure(MetricKind::Histogram, MetricValue::Histogram(spread))
        else {
            panic!()
        };
        let point = &histogram.data_points[0];
        assert_eq!(point.bucket_counts, [2, 3, 1]);
        assert_eq!((point.explicit_bounds.as_slice(), point.count), (&[0.1, 1.0][..], 6));
        assert_eq!(point.sum, Some(12.5));
    }
}
