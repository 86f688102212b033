//! Debug logging to stderr, enabled by `ZERO_LOG`. A gateway can also send traces to the collector
//! in its settings.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::telemetry::TraceLayer;
use crate::terminal::Terminal;

/// Directive that overrides every filter: the MCP SDK logs OAuth codes on this target.
const QUIET_TARGETS: &str = "rmcp::transport::auth=warn";

/// Starts logging if a filter is given, and tracing if a layer is given. An invalid filter is
/// reported and ignored, since a logging mistake must not stop the command.
pub(crate) fn start(filter: Option<&str>, terminal: &Terminal, traces: Option<TraceLayer>) {
    let filter = filter.and_then(|filter| match parse_filter(filter) {
        Ok(filter) => Some(filter),
        Err(error) => {
            terminal.print_note(&format!(
                "ignoring ZERO_LOG: {error}; use a filter such as `info` or `zero_runtime=debug`"
            ));
            None
        }
    });
    if filter.is_none() && traces.is_none() {
        return;
    }
    let log = filter.map(|filter| {
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter)
    });
    let subscriber = Registry::default().with(traces).with(log);
    // Fails only if a subscriber is already set; that one then stays in use.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn parse_filter(filter: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    Ok(EnvFilter::try_new(filter)?.add_directive(QUIET_TARGETS.parse()?))
}

/// Logs panics instead of printing them; the caller that catches the panic reports the failure.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(place, message, "panic");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(filter: &str) {
        let read = parse_filter(filter).unwrap().to_string();
        let directives: Vec<&str> =
            read.split(',').filter(|part| part.starts_with("rmcp::transport::auth=")).collect();
        assert_eq!(directives, [QUIET_TARGETS], "{filter}: {read}");
    }

    #[test]
    fn login_codes_are_never_logged() {
        check("trace");
        check("zero_mcp=debug");
        check("rmcp::transport::auth=trace");
    }
}
