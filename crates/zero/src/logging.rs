//! What goes on inside, for whoever debugs zero: on stderr, and only when `ZERO_LOG` asks for it.

use tracing_subscriber::EnvFilter;

use crate::terminal::Terminal;

/// What is never logged in more detail: the MCP SDK writes the codes of a login there.
const QUIET: &str = "rmcp::transport::auth=warn";

/// Starts logging when a filter is given. A bad one is said and ignored: it must not stop the work.
pub(crate) fn start(filter: Option<&str>, terminal: &Terminal) {
    let Some(filter) = filter else { return };
    match read(filter) {
        Ok(filter) => {
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(std::io::stderr)
                .finish();
            // Fails only when one is set already, and then that one logs.
            let _ = tracing::subscriber::set_global_default(subscriber);
        }
        Err(error) => terminal.note(&format!(
            "ZERO_LOG is ignored: {error}; write it like `info` or `zero_runtime=debug`"
        )),
    }
}

fn read(filter: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    Ok(EnvFilter::try_new(filter)?.add_directive(QUIET.parse()?))
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
        let read = read(filter).unwrap().to_string();
        let said: Vec<&str> =
            read.split(',').filter(|part| part.starts_with("rmcp::transport::auth=")).collect();
        assert_eq!(said, [QUIET], "{filter}: {read}");
    }

    #[test]
    fn codes_of_logins_are_not_logged_whatever_is_asked_for() {
        check("trace");
        check("zero_mcp=debug");
        check("rmcp::transport::auth=trace");
    }
}
