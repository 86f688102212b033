//! `zero tools call`: runs one tool call through the same path as an agent's call.

pub(super) mod output;
pub(super) mod signals;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, HostLimits, ToolCall, ToolError, ToolKind};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    Approver, CallEvent, CallEventObserver, CallOutcome, Dialect, Elicitor, ToolHost,
    ToolHostSession, WithdrawalNote,
};
use zero_sandbox::spawner::Spawner;
use zero_sandbox::{Workspace, machine_resources};
use zero_settings::WorkspaceSettings;

use crate::AppContext;
use crate::approval::{AutoApprover, DenyAllApprover, TerminalApprover, elicitation};
use crate::cli::ToolsCallArgs;
use crate::commands::dry_run::{DryRun, DryRunEnd};
use crate::exit::{ExitOutcome, UsageError};
use crate::external_tools::ExternalTools;
use crate::host_setup::small_runtime;
use crate::json_input;
use crate::terminal::{AnswerSource, ElapsedCounter, PromptTurn};

/// Advice for calls denied because there is no terminal to ask on.
const HOW_TO_ALLOW: &str = "pass `--yes`, or run it in a terminal to be asked";

pub(super) fn run(app: &AppContext, args: &ToolsCallArgs) -> anyhow::Result<ExitOutcome> {
    if args.dry_run {
        return run_dry(&app.for_dry_run(), args);
    }
    let prepared = match prepare(app, args) {
        Ok(prepared) => prepared,
        Err(error) => return print_refusal(app, args, error),
    };
    let runtime = small_runtime()?;
    let outcome = runtime.block_on(make_call(args, prepared));
    // A cancelled question still waits for input, which must not delay the exit.
    runtime.shutdown_background();
    output::print(app, args, outcome)
}

/// Runs the call, shows what it changed, and keeps or discards that.
fn run_dry(app: &AppContext, args: &ToolsCallArgs) -> anyhow::Result<ExitOutcome> {
    let prepared = prepare(app, args)?;
    let dry_run = DryRun::new(app, app.config.open_workspace(&args.workspace)?)?;
    let runtime = small_runtime()?;
    let outcome = runtime.block_on(make_call(args, prepared));
    runtime.shutdown_background();
    let exit = output::print(app, args, outcome)?;
    Ok(match dry_run.finish(answer_source(app, args))? {
        DryRunEnd::Interrupted => ExitOutcome::Interrupted,
        DryRunEnd::Unchanged | DryRunEnd::Kept | DryRunEnd::Discarded => exit,
    })
}

/// A validated call, ready to run.
struct PreparedToolCall {
    host: Arc<ToolHost>,
    outside: ExternalTools,
    session: ToolHostSession,
    call: ToolCall,
}

/// Validates the whole command line before anything runs.
fn prepare(app: &AppContext, args: &ToolsCallArgs) -> anyhow::Result<PreparedToolCall> {
    let workspace = app.config.open_workspace(&args.workspace)?;
    if runs_commands(app, args) {
        Spawner::start_shared_early();
    }
    let settings = app.load_settings(&workspace, &args.settings)?;
    let mut limits = HostLimits::for_machine(machine_resources::read());
    settings.apply_limits(&mut limits);
    args.set_limits(&mut limits);
    let call = ToolCall {
        id: new_call_id(),
        session: None,
        tool: args.name.clone(),
        input: json_input::read(app, &args.input, &limits)?,
        timeout: args.timeout,
    };
    if let Some(note) = settings.trust_note() {
        app.terminal.print_note(&note);
    }
    for warning in settings.warnings() {
        app.terminal.print_note(&warning);
    }
    let turn = PromptTurn::new(ElapsedCounter::new(&app.terminal.err));
    let elicitor = choose_elicitor(app, args, &turn);
    let reached = TerminalInteraction { elicitor: elicitor.clone(), turn };
    let host = Arc::new(build_host(app, args, workspace, &settings, limits, reached)?);
    let outside = app.external_tools(&host, &settings, elicitor);
    outside.register_known();
    // Fails only if the state folder is not writable, which is not the tool's error.
    let session = host.open_one_shot_session().map_err(|error| {
        UsageError(format!("{}; set XDG_STATE_HOME to a writable folder", error.message))
    })?;
    Ok(PreparedToolCall { host, outside, session, call })
}

/// Whether the named tool is one of zero's own that run commands.
fn runs_commands(app: &AppContext, args: &ToolsCallArgs) -> bool {
    let mut specs = app.tools.iter().map(|tool| tool.spec());
    specs.any(|spec| spec.name.as_str() == args.name && spec.kind == ToolKind::Execute)
}

/// Approver, elicitor and observer of a call on the terminal.
struct TerminalInteraction {
    elicitor: Option<Arc<dyn Elicitor>>,
    turn: PromptTurn,
}

fn build_host(
    app: &AppContext,
    args: &ToolsCallArgs,
    workspace: Workspace,
    settings: &WorkspaceSettings,
    limits: HostLimits,
    reached: TerminalInteraction,
) -> anyhow::Result<ToolHost> {
    let mut config = app.host_config(workspace, settings, args.mode)?;
    config.limits = limits;
    let TerminalInteraction { elicitor, turn } = reached;
    config.approver = Some(choose_approver(app, args, &turn));
    config.elicitor = elicitor;
    let counter = turn.counter().clone();
    config.observer = Some(Arc::new(CounterObserver { counter, title: Mutex::default() }));
    app.build_host(config, settings)
}

fn choose_approver(app: &AppContext, args: &ToolsCallArgs, turn: &PromptTurn) -> Arc<dyn Approver> {
    if args.yes {
        return Arc::new(AutoApprover { name: "--yes" });
    }
    match answer_source(app, args) {
        // One call offers no rules.
        Some(answers) => Arc::new(TerminalApprover {
            terminal: app.terminal.clone(),
            answers,
            turn: turn.clone(),
            rule_files: Vec::new(),
        }),
        None => Arc::new(DenyAllApprover { how_to_allow: how_to_allow(args) }),
    }
}

/// Answers questions of MCP servers. `--yes` does not answer them, since they ask for values.
fn choose_elicitor(
    app: &AppContext,
    args: &ToolsCallArgs,
    turn: &PromptTurn,
) -> Option<Arc<dyn Elicitor>> {
    let (answers, turn) = (answer_source(app, args)?, turn.clone());
    Some(elicitation::terminal_elicitor(&app.terminal, answers, turn, WithdrawalNote::default()))
}

fn answer_source(app: &AppContext, args: &ToolsCallArgs) -> Option<AnswerSource> {
    match args.takes_stdin() {
        true => app.terminal.tty_answer_source(),
        false => app.terminal.answer_source(),
    }
}

fn how_to_allow(args: &ToolsCallArgs) -> String {
    match args.takes_stdin() {
        true => format!("{HOW_TO_ALLOW}; stdin is used for the input"),
        false => HOW_TO_ALLOW.to_owned(),
    }
}

async fn make_call(
    args: &ToolsCallArgs,
    prepared: PreparedToolCall,
) -> Result<CallOutcome, ToolError> {
    let PreparedToolCall { host, outside, session, call } = prepared;
    let dialect = Dialect::new(args.dialect);
    let cancel = CancellationToken::new();
    signals::cancel_on_interrupt(&cancel);
    let ensured = tokio::select! {
        ensured = outside.ensure_tool(&call.tool) => ensured,
        () = cancel.cancelled() => Err(ToolError::cancelled()),
    };
    let outcome = match ensured {
        Ok(()) => host.call(&session, &dialect, call, &cancel).await.outcome,
        Err(error) => Err(error.with_tool(&args.name)),
    };
    outside.stop().await;
    outcome
}

/// Prints a usage error, as JSON if requested.
fn print_refusal(
    app: &AppContext,
    args: &ToolsCallArgs,
    error: anyhow::Error,
) -> anyhow::Result<ExitOutcome> {
    let Some(UsageError(message)) = error.downcast_ref::<UsageError>() else { return Err(error) };
    if args.json {
        let error = ToolError::invalid(ErrorReason::SchemaViolation, message.clone())
            .with_detail("usage", true)
            .with_tool(&args.name);
        output::print_error(&app.terminal.out, args, &error)?;
    }
    Err(error)
}

/// Shows the elapsed time of a slow call.
struct CounterObserver {
    counter: ElapsedCounter,
    title: Mutex<String>,
}

impl CounterObserver {
    fn lock_title(&self) -> MutexGuard<'_, String> {
        self.title.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallEventObserver for CounterObserver {
    fn on_event(&self, event: &CallEvent) {
        match event {
            CallEvent::Described { title, .. } => self.lock_title().clone_from(title),
            CallEvent::Started { .. } => self.counter.start(&self.lock_title()),
            CallEvent::Progress { progress, .. } => self.counter.progress(&progress.message),
            // The result contains the whole output and goes to the same terminal.
            CallEvent::Output { .. } => {}
            CallEvent::Ended { .. } => self.counter.stop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use crate::AppContext;
    use crate::cli::Cli;
    use crate::environment::EnvironmentConfig;
    use crate::exit::ExitOutcome;
    use crate::terminal::Terminal;
    use crate::test_tools::small_tools;

    /// Runs `zero tools call` with these words; gives the exit code, stdout and stderr.
    fn run_call(words: &[&str]) -> (ExitOutcome, String, String) {
        let folder = tempfile::tempdir().unwrap();
        let app = AppContext {
            config: EnvironmentConfig::for_test(folder.path()),
            terminal: Terminal::for_test(),
            tools: std::sync::Arc::new(std::sync::LazyLock::new(small_tools)),
            notifiers: std::sync::Arc::default(),
            console: std::sync::Arc::default(),
            gateway_locality: std::sync::Arc::default(),
        };
        let cli = Cli::try_parse_from(["zero", "tools", "call"].iter().chain(words)).unwrap();
        let exit =
            crate::commands::run(&app, cli).unwrap_or_else(|error| crate::report(&app, &error));
        (exit, app.terminal.out.written_text(), app.terminal.err.written_text())
    }

    #[track_caller]
    fn check_call(words: &[&str], exit: ExitOutcome, out: &str, err: &str) {
        assert_eq!(run_call(words), (exit, out.to_owned(), err.to_owned()), "{words:?}");
    }

    #[test]
    fn text_goes_to_stdout_and_errors_to_stderr() {
        check_call(&["Echo", r#"{"text":"hi"}"#], ExitOutcome::Ok, "hi\n", "");
        check_call(
            &["Echo", r#"{"text":1}"#],
            ExitOutcome::Error,
            "",
            "error: the input does not fit the schema\n- /text: expected a string, found 1\n",
        );
        check_call(
            &["Ecko", "{}"],
            ExitOutcome::Error,
            "",
            "error: there is no tool `Ecko`; did you mean Echo?\n",
        );
        check_call(&["Smash", "{}", "--yes"], ExitOutcome::Ok, "smashed\n", "");
        check_call(
            &["Smash", "{}"],
            ExitOutcome::Denied,
            "",
            "error: Smash: denied, because its risk is medium and no user can approve it here; to allow it, pass `--yes`, or run it in a terminal to be asked\n",
        );
    }

    #[test]
    fn json_output_is_one_object_in_every_case() {
        check_call(
            &["Echo", r#"{"text":"hi"}"#, "--json"],
            ExitOutcome::Ok,
            "{\"ok\":true,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"display\":{\"type\":\"markdown\",\"text\":\"hi\"},\"structured\":{\"text\":\"hi\"},\"locations\":[]}}\n",
            "",
        );
        for (words, exit, error_type, reason) in [
            (["Echo", "{}", "--json"], ExitOutcome::Error, "invalid_input", "schema_violation"),
            (["Nope", "{}", "--json"], ExitOutcome::Error, "not_found", "unknown_tool"),
            (["Smash", "{}", "--json"], ExitOutcome::Denied, "permission_denied", "no_approver"),
            (["Echo", "{", "--json"], ExitOutcome::Usage, "invalid_input", "schema_violation"),
        ] {
            let (ended, out, _) = run_call(&words);
            let answer: Value = serde_json::from_str(&out).unwrap();
            let error = &answer["error"];
            assert_eq!((ended, &answer["ok"]), (exit, &Value::from(false)), "{out}");
            assert_eq!(
                (&error["error_type"], &error["details"]["reason"]),
                (&error_type.into(), &reason.into())
            );
            assert_eq!(error.as_object().unwrap().len(), 4);
        }
    }

    /// Both a failed call and a wrong command line have the names of Qwen Code in its dialect.
    #[test]
    fn qwen_error_has_model_and_display_text() {
        for input in ["{}", "{"] {
            let (_, out, _) = run_call(&["nope", input, "--json", "--dialect", "qwen"]);
            let answer: Value = serde_json::from_str(&out).unwrap();
            let error = &answer["error"];
            assert_eq!(answer["returnDisplay"], error["message"], "{out}");
            let text = answer["llmContent"][0]["text"].as_str().unwrap();
            assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), error, "{out}");
            let (_, out, _) = run_call(&["nope", input, "--json"]);
            assert!(!out.contains("llmContent") && !out.contains("returnDisplay"), "{out}");
        }
    }

    #[test]
    fn missing_workspace_is_refused() {
        let (exit, _, err) = run_call(&["Echo", r#"{"text":"hi"}"#, "--workspace", "nowhere"]);
        assert_eq!(exit, ExitOutcome::Usage);
        assert!(err.contains("does not exist; create it or name another"), "{err}");
    }

    #[test]
    fn limits_and_timeouts_reach_the_call() {
        let (exit, _, err) = run_call(&["Sleep", "{}", "--timeout", "50ms"]);
        assert_eq!(exit, ExitOutcome::Error, "{err}");
        assert!(
            run_call(&["Sleep", "{}", "--limit", "file-timeout=50ms", "--json"])
                .1
                .contains("\"error_type\":\"timeout\"")
        );
    }
}
