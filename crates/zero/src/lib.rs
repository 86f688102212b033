//! The `zero` program: connects the crates, and talks to the user with `zero-terminal`.
//!
//! [`run`] is the entry point. [`cli`] defines the command line, `commands` has one file per
//! command, and [`exit`] defines the exit codes.

mod app_context;
mod approval;
mod change_view;
pub mod cli;
mod command_line;
mod commands;
mod data_retention;
mod device_key;
#[cfg(test)]
mod document_tests;
mod editor_tool_hosts;
mod environment;
mod error_chain;
pub mod exit;
mod external_tools;
mod folder_trust;
mod gateway_connection;
mod gateway_dialer;
mod gateway_lock;
mod host_setup;
mod idle_trim;
mod job_holding;
mod json_input;
mod logging;
mod model_key;
mod notify_command;
mod paired_device_file;
mod plan_steps;
mod policy;
mod secret;
mod secret_files;
mod session_engine;
mod session_lookup;
mod session_name;
mod session_store;
mod settings_adapter;
mod settings_file_edit;
mod subagent_worktrees;
mod telemetry;
#[cfg(test)]
mod test_tools;
mod token_holder;
mod tool_host_factory;
mod trial_host;
mod user_question;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use zero_client::GatewayLocality;
use zero_core::ToolError;
use zero_terminal as terminal;
use zero_wire::ErrorCode;
use zero_wire::client::{GatewayClientError, REFUSAL_PREFIX};

use crate::app_context::AppContext;
use crate::environment::EnvironmentConfig;
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::Terminal;

/// Runs `zero` with command-line arguments; the first one is the program name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    job_holding::prepare(&args);
    let config = EnvironmentConfig::from_env();
    let terminal = Terminal::new(config.streams);
    logging::report_panics();
    let tools = Arc::new(LazyLock::new(zero_tools::builtin_tools as _));
    let app = AppContext {
        config,
        terminal,
        tools,
        notifiers: Arc::default(),
        console: Arc::default(),
        gateway_locality: Arc::default(),
    };
    let outcome = run_app(&app, args);
    job_holding::hold_jobs(&app, outcome);
    zero_exec::end_all_programs();
    outcome.into()
}

/// Runs a command line. A panic becomes an error message and [`ExitOutcome::Error`].
fn run_app(app: &AppContext, args: impl IntoIterator<Item = OsString>) -> ExitOutcome {
    std::panic::catch_unwind(AssertUnwindSafe(|| parse_and_run(app, args))).unwrap_or_else(|_| {
        app.terminal.print_error(
            "zero stopped because of a bug; run it again with ZERO_LOG=error to see where",
        );
        ExitOutcome::Error
    })
}

fn parse_and_run(app: &AppContext, args: impl IntoIterator<Item = OsString>) -> ExitOutcome {
    match command_line::parse(args.into_iter().collect()) {
        Ok(cli) => {
            // A gateway starts logging later: its settings may name a trace collector.
            if !cli.is_server() {
                logging::start(cli.log_filter(app.config.log.as_deref()), &app.terminal, None);
            }
            commands::run(app, cli).unwrap_or_else(|error| report(app, &error))
        }
        Err(error) => {
            // `--help` and `--version` arrive here too. A closed pipe is not an error.
            let _ = error.print();
            if error.use_stderr() { ExitOutcome::Usage } else { ExitOutcome::Ok }
        }
    }
}

/// Prints the error chain of a failed command and returns the exit code.
fn report(app: &AppContext, error: &anyhow::Error) -> ExitOutcome {
    if error_chain::is_closed_pipe(error) {
        return ExitOutcome::Ok;
    }
    let mut message = error_chain::describe_error(error);
    let refusal = match error.downcast_ref() {
        Some(GatewayClientError::Refused { error }) => Some(error),
        _ => None,
    };
    // The user named no gateway, and need not know that there is one in this process.
    let is_here = app.gateway_locality.get() == Some(&GatewayLocality::InProcess);
    let refusal = refusal.filter(|_| is_here);
    if refusal.is_some() {
        message = message.replacen(REFUSAL_PREFIX, "", 1);
    }
    app.terminal.print_error(&message);
    let is_invalid = refusal.is_some_and(|error| error.code == ErrorCode::InvalidRequest);
    if is_invalid || error.is::<UsageError>() {
        ExitOutcome::Usage
    } else {
        error.downcast_ref::<ToolError>().map_or(ExitOutcome::Error, ExitOutcome::from_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::EnvironmentConfig;

    #[test]
    fn panic_is_reported_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let config = EnvironmentConfig::for_test(folder.path());
        let app = AppContext {
            config,
            terminal: Terminal::for_test(),
            tools: Arc::new(LazyLock::new(|| panic!("a bug"))),
            notifiers: Arc::default(),
            console: Arc::default(),
            gateway_locality: Arc::default(),
        };
        let exit = run_app(&app, ["zero", "tools", "list"].map(OsString::from));
        assert_eq!(exit, ExitOutcome::Error);
        assert!(
            app.terminal.err.written_text().starts_with("error: zero stopped because of a bug")
        );
    }
}
