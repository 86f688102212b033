//! Debug logging to stderr, enabled by `ZERO_LOG`. A gateway can also send traces to the collector
//! in its settings.

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::telemetry::TraceLayer;
use crate::terminal::Terminal;

/// The MCP SDK. Below warnings, it logs OAuth codes and whole messages, which may contain secrets.
const QUIET_TARGET: &str = "rmcp";

/// Starts logging if a filter is given, and tracing if a layer is given. An invalid filter is
/// reported and ignored, since a logging mistake must not stop the command.
pub(crate) fn start(filter: Option<&str>, terminal: &Terminal, traces: Option<TraceLayer>) {
    let filter = filter.and_then(|filter| match EnvFilter::try_new(filter) {
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
        let filter =
            filter.and(filter_fn(|event: &Metadata<'_>| is_shown(event.target(), *event.level())));
        tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter)
    });
    let subscriber = Registry::default().with(traces).with(log);
    // Fails only if a subscriber is already set; that one then stays in use.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Whether something may be logged, whatever the filter says.
fn is_shown(target: &str, level: Level) -> bool {
    let is_quiet = target
        .strip_prefix(QUIET_TARGET)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    !is_quiet || level <= Level::WARN
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

    #[test]
    fn messages_and_login_codes_of_mcp_are_never_logged() {
        for (target, level, expected) in [
            ("rmcp::service", Level::TRACE, false),
            ("rmcp::transport::auth", Level::DEBUG, false),
            ("rmcp", Level::INFO, false),
            ("rmcp::service", Level::WARN, true),
            ("rmcp_other", Level::TRACE, true),
            ("zero_mcp", Level::TRACE, true),
        ] {
            assert_eq!(is_shown(target, level), expected, "{target} {level}");
        }
    }
}
