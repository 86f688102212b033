//! What goes on inside, for whoever debugs zero: on stderr, and only when `ZERO_LOG` asks for it.
//! A gateway also sends traces where its settings say so.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry};

use crate::telemetry::TraceLayer;
use crate::terminal::Terminal;

/// What is never logged in more detail: the MCP SDK writes the codes of a login there.
const QUIET_TARGETS: &str = "rmcp::transport::auth=warn";

/// Starts logging when a filter is given, and sending traces when something takes them. A bad filter is
/// said and ignored: it must not stop the work.
pub(crate) fn start(filter: Option<&str>, terminal: &Terminal, traces: Option<TraceLayer>) {
    let filter = filter.and_then(|filter| match parse_filter(filter) {
        Ok(filter) => Some(filter),
        Err(error) => {
            terminal.print_note(&format!(
                "ZERO_LOG is ignored: {error}; write it like `info` or `zero_runtime=debug`"
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
    // Fails only when one is set already, and then that one logs.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

fn parse_filter(filter: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    Ok(EnvFilter::try_new(filter)?.add_directive(QUIET_TARGETS.parse()?))
}

/// Sends panics to the log instead of the person's screen; callers say what failed in plain words.
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
        let said: Vec<&str> =
            read.split(',').filter(|part| part.starts_with("rmcp::transport::auth=")).collect();
        assert_eq!(said, [QUIET_TARGETS], "{filter}: {read}");
    }

    #[test]
    fn login_codes_are_never_logged() {
        check("trace");
        check("zero_mcp=debug");
        check("rmcp::transport::auth=trace");
    }
}
