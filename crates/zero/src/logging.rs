//! What goes on inside, for whoever debugs zero: on stderr, and only when `ZERO_LOG` asks for it.

use tracing_subscriber::EnvFilter;

use crate::terminal::Terminal;

/// Starts logging when a filter is given. A bad one is said and ignored: it must not stop the work.
pub(crate) fn start(filter: Option<&str>, terminal: &Terminal) {
    let Some(filter) = filter else { return };
    match EnvFilter::try_new(filter) {
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

/// Sends panics to the log instead of the person's screen; callers say what failed in plain words.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("no message");
        tracing::error!(place, message, "panic");
    }));
}
