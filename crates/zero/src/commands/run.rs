//! `zero run`: sends a prompt to an agent, prints the events of the run, and exits.
//!
//! The tools run in this process, even if a remote gateway runs the agent, and ask for approval on
//! this terminal.

mod attended_run;
mod command_check;
mod open_questions;
mod piped_input;
mod run_events;
pub(super) mod run_printer;
mod run_start;
mod session_choice;
pub(super) mod unattended_run;

use std::collections::VecDeque;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use base64::Engine as _;
use tokio_util::sync::CancellationToken;
use zero_mcp::client::{McpServerSet, McpServerStatus, ServerPhase};
use zero_sandbox::ConfigFile;
use zero_session::agent::DIRECT;
use zero_session::model::catalog::NO_MODEL_HELP;
use zero_session::notification::NotificationKind;
use zero_session::output_schema::OutputSchema;
use zero_settings::WorkspaceSettings;
use zero_wire::ErrorCode;
use zero_wire::chat::{ChatAttachment, ChatSendParams};
use zero_wire::client::{GatewayClient, GatewayClientError};
use zero_wire::sessions::{SessionsDelete, SessionsDeleteParams};
use zero_wire::tools::TOOLS_HOSTED;
use zero_wire::zero_sessions::SessionInfo;

use self::attended_run::AttendedRun;
pub(in crate::commands) use self::attended_run::terminal_sequence;
use self::open_questions::OpenQuestions;
use self::piped_input::PipedInput;
use self::run_events::read_ahead;
use self::run_printer::{RunDetails, RunPrinter};
use self::run_start::{RunFolder, RunStart, StartedRun, StoredChoices};
pub(in crate::commands) use self::session_choice::short_name;
use self::session_choice::{OpenedSession, follow_up_command, is_unnamed, open_session};
use crate::AppContext;
use crate::cli::{OutputFormat, RunArgs};
use crate::commands::dry_run::{DryRun, DryRunEnd};
use crate::commands::mcp::ask_about_downloads;
use crate::commands::tools_call::signals;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::host_setup::small_runtime;
use crate::terminal::{ElapsedCounter, PromptTurn, escape_line};
use crate::tool_host_factory::TerminalPromptOptions;

/// Largest prompt read from stdin, in bytes.
const PROMPT_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Largest file with a schema, in bytes.
const SCHEMA_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Largest image file, in bytes.
const IMAGE_BYTES_MAX: u64 = 6 * 1024 * 1024;

pub(super) fn run(app: &AppContext, args: &RunArgs) -> anyhow::Result<ExitOutcome> {
    let app =
        &app.with_secret_files(args.remote.token_file.iter().chain(&args.remote.password_file));
    let app = &if args.dry_run { app.for_dry_run() } else { app.clone() };
    let prompt = read_prompt(args)?;
    if prompt.trim().is_empty() && args.images.is_empty() {
        return Err(UsageError(
            "the prompt is empty; pass a prompt, or `-` to read it from stdin".to_owned(),
        )
        .into());
    }
    let output_schema =
        args.output_schema.as_deref().map(|file| read_schema(app, file)).transpose()?;
    // A command takes no input.
    let input = match args.prompt == "-" || prompt.trim_start().starts_with('/') {
        true => PipedInput::Nothing,
        false => PipedInput::read_stdin()?,
    };
    match &input {
        PipedInput::Nothing => {}
        PipedInput::Silent => app.terminal.print_note(
            "stdin is an open pipe without data and was not attached; pass `< /dev/null` to not wait for it",
        ),
        PipedInput::Text(text) => {
            app.terminal.print_note(&format!("attached {} bytes from stdin", text.len()));
        }
    }
    // From here on, an interrupt cancels the run. Earlier, it ends the process, which is what a user
    // expects while typing the prompt.
    let (runtime, cancel) = (small_runtime()?, CancellationToken::new());
    runtime.block_on(async { signals::cancel_on_interrupt(&cancel) });
    let images =
        args.images.iter().map(|file| read_image(app, file)).collect::<Result<Vec<_>, _>>()?;
    let folders: Vec<PathBuf> = args.options.cwd.iter().cloned().collect();
    let workspace = app.config.open_workspace(&folders)?;
    let mut settings = app.load_settings(&workspace, &args.options.settings)?;
    // An answer changes the user's own settings, which do not apply to a remote gateway or to
    // `--settings`.
    let is_own = args.options.settings.is_empty() && args.remote.url.is_none() && !args.json;
    if is_own && ask_about_downloads(app, &workspace, &settings)? {
        settings = app.load_settings(&workspace, &args.options.settings)?;
    }
    for line in settings.trust_note().into_iter().chain(settings.warnings()) {
        app.terminal.print_note(&line);
    }
    let dry_run = match args.dry_run {
        true => Some(DryRun::new(app, workspace.clone())?),
        false => None,
    };
    let has_input = input != PipedInput::Nothing;
    let ended = runtime.block_on(async {
        let cwd = workspace.cwd().to_owned();
        let connection = tokio::select! {
            connection = app.connect(&args.remote, &settings, &args.options.settings, &cwd) => connection?,
            () = cancel.cancelled() => return Ok(ExitOutcome::Interrupted),
        };
        let folder = RunFolder {
            cwd,
            settings_mode: settings.mode(),
            result_lifetime: connection.result_lifetime(),
            locality: connection.locality(),
            stored: None,
        };
        let request = RunRequest { prompt, input, images, output_schema };
        run_turn(app, args, connection, request, folder, &settings, cancel)
            .await
            .map_err(to_usage_error)
    });
    // A pending read of stdin must not delay the exit.
    runtime.shutdown_background();
    // Also after a run that failed: it may have changed something before.
    if let Some(dry_run) = dry_run {
        let answers = match args.prompt == "-" || has_input {
            true => app.terminal.tty_answer_source(),
            false => app.terminal.answer_source(),
        };
        if dry_run.finish(answers)? == DryRunEnd::Interrupted {
            return Ok(ExitOutcome::Interrupted);
        }
    }
    ended
}

/// Turns an `invalid_request` refusal of the gateway into a usage error with the same message.
fn to_usage_error(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<GatewayClientError>() {
        Some(GatewayClientError::Refused { error: refused })
            if refused.code == ErrorCode::InvalidRequest =>
        {
            UsageError(refused.message.clone()).into()
        }
        _ => error,
    }
}

/// What is sent to the agent.
struct RunRequest {
    prompt: String,
    /// What stdin brought besides.
    input: PipedInput,
    images: Vec<ChatAttachment>,
    output_schema: Option<OutputSchema>,
}

impl RunRequest {
    fn is_slash_command(&self) -> bool {
        self.prompt.trim_start().starts_with('/')
    }
}

async fn run_turn(
    app: &AppContext,
    args: &RunArgs,
    mut connection: CliGatewayConnection,
    request: RunRequest,
    mut folder: RunFolder,
    settings: &WorkspaceSettings,
    cancel: CancellationToken,
) -> anyhow::Result<ExitOutcome> {
    let notify = settings.notify();
    let signal = notify.terminal.map(|it| terminal_sequence(NotificationKind::Question, it));
    let turn = PromptTurn::new(ElapsedCounter::new(&app.terminal.err)).with_signal(signal);
    let options = TerminalPromptOptions {
        yes: args.yes,
        takes_stdin: args.prompt == "-" || request.input != PipedInput::Nothing,
        turn: turn.clone(),
        continued: Arc::default(),
    };
    let opened = open_session(app, args, &connection, &options, &folder.cwd).await?;
    let Some(OpenedSession { info: mut session, is_created }) = opened else {
        connection.close().await;
        return Ok(ExitOutcome::Interrupted);
    };
    let is_slash_command = request.is_slash_command();
    if let Some(error) = find_refusal(app, args, &connection, &session, &request, settings) {
        if is_created {
            delete_session(&connection.client, session).await;
        }
        connection.close().await;
        return Err(error);
    }
    let RunRequest { prompt, input, images, output_schema } = request;
    if args.park {
        let prompt = unattended_run::UnattendedPrompt { text: prompt, images, cwd: &folder.cwd };
        return unattended_run::run_prompt(app, args, connection, session, prompt, &cancel).await;
    }
    let client = connection.client.clone();
    let run_id = format!("run_{:032x}", fastrand::u128(..));
    let send = ChatSendParams {
        session_key: session.session_key.clone(),
        message: prompt,
        idempotency_key: run_id.clone(),
        attachments: images,
        budget: args.budget(),
        output_schema: output_schema.as_ref().map(|schema| schema.as_value().clone()),
        ..ChatSendParams::default()
    };
    folder.stored = StoredChoices::load(&connection, &session, &folder.cwd).await?;
    let grants = folder.stored.as_ref().map(|stored| Arc::clone(&stored.grants));
    // While a request is not answered, events are read: the client reads no answers while its queue
    // of events is full.
    let mut early = VecDeque::new();
    let start = RunStart { app, args, client: &client, options: &options, cancel: &cancel };
    let started = start.start(&mut session, folder, send, input);
    let StartedRun { tools, servers } =
        match read_ahead(&mut connection.events, &mut early, started).await {
            Ok(Some(started)) => started,
            not_started => {
                if is_created && not_started.as_ref().map_or_else(is_refusal, |_| true) {
                    delete_session(&client, session).await;
                }
                connection.close().await;
                return not_started.map(|_| ExitOutcome::Interrupted);
            }
        };
    let form = args.format();
    let details = RunDetails {
        thoughts: args.options.thoughts,
        whole_output: args.options.verbose,
        // What a tool prints is not Markdown.
        plain: args.plain || is_slash_command,
        slash_command: is_slash_command,
        output_schema,
    };
    let printer = RunPrinter::new(&app.terminal, form, details, turn.counter().clone());
    let session_key = session.session_key;
    let mut run = AttendedRun {
        app,
        args,
        client,
        session_key: &session_key,
        run_id: &run_id,
        tools: &tools,
        options,
        notify,
        printer,
        held_events: VecDeque::new(),
        questions: OpenQuestions::default(),
    };
    let exit = run.follow(early, &mut connection.events, &cancel).await?;
    if form == OutputFormat::Json {
        run.printer.print_result(&session_key, &run_id, exit)?;
    }
    print_failed_servers(app, &servers);
    // Not needed if the user named the session, or if a script reads stderr and the run succeeded.
    let is_needed =
        app.terminal.err.is_terminal() || form != OutputFormat::Text || exit != ExitOutcome::Ok;
    if is_unnamed(args) && is_needed {
        let command = follow_up_command(args, "run --session", short_name(&session_key));
        app.terminal.print_note(&format!("to continue this session, run `{command} PROMPT`"));
    }
    tools.stop_all_calls();
    if let Some(grants) = grants {
        grants.store_latest().await;
    }
    connection.close().await;
    Ok(exit)
}

/// Why the prompt cannot be sent in this session, if so.
fn find_refusal(
    app: &AppContext,
    args: &RunArgs,
    connection: &CliGatewayConnection,
    session: &SessionInfo,
    request: &RunRequest,
    settings: &WorkspaceSettings,
) -> Option<anyhow::Error> {
    let needs_model = session.model == DIRECT && session.agent != DIRECT;
    if needs_model && !request.is_slash_command() {
        let is_local = connection.local_store().is_some();
        let chosen_model_error = is_local.then(|| app.chosen_model_error(settings)).flatten();
        return Some(match chosen_model_error {
            Some(error) => error.into(),
            None => anyhow::anyhow!(NO_MODEL_HELP),
        });
    }
    if args.park && matches!(request.input, PipedInput::Text(_)) {
        let what = "`--park` attaches nothing from stdin; put it into a file and mention that, or pass `< /dev/null`";
        return Some(UsageError(what.to_owned()).into());
    }
    None
}

/// Names the MCP servers that failed: the model only knows that it has no such tools.
fn print_failed_servers(app: &AppContext, servers: &McpServerSet) {
    let failed = servers.status().into_iter().filter(|one| one.state == ServerPhase::Failed);
    for McpServerStatus { alias, last_error, .. } in failed {
        let why = last_error.map_or_else(|| "it exited".to_owned(), |error| error.message);
        app.terminal.print_note(&escape_line(&format!(
            "MCP server `{alias}` could not be used: {why}; `zero mcp status {alias}` shows more"
        )));
    }
}

/// Whether no run was started, because the prompt is wrong or the gateway refused the request. Without an answer, the run may
/// have started; with `TOOLS_HOSTED`, another tool host may have started one.
fn is_refusal(error: &anyhow::Error) -> bool {
    if error.is::<UsageError>() {
        return true;
    }
    let Some(GatewayClientError::Refused { error }) = error.downcast_ref() else { return false };
    let code = error.details.as_ref().and_then(|details| details.get("code")?.as_str());
    code != Some(TOOLS_HOSTED)
}

/// Deletes a session that was created for a prompt that was not sent, unless it changed since. Does
/// nothing if the gateway does not permit it.
async fn delete_session(client: &GatewayClient, session: SessionInfo) {
    let params = SessionsDeleteParams {
        key: session.session_key,
        expected_session_id: Some(session.session_id),
        expected_session_updated_at: Some(session.updated_ms as f64),
        ..SessionsDeleteParams::default()
    };
    if let Err(error) = client.request::<SessionsDelete>(params).await {
        tracing::debug!(%error, "could not delete the empty session");
    }
}

/// Returns the prompt, from the command line or stdin.
fn read_prompt(args: &RunArgs) -> anyhow::Result<String> {
    if args.prompt != "-" {
        return Ok(args.prompt.clone());
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(PROMPT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .context("could not read the prompt from stdin")?;
    if bytes.len() as u64 > PROMPT_BYTES_MAX {
        let what = format!(
            "the prompt on stdin is larger than {PROMPT_BYTES_MAX} bytes; write it to a file and name the file in the prompt"
        );
        return Err(UsageError(what).into());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| UsageError("the prompt on stdin is not valid UTF-8".to_owned()))?;
    Ok(text)
}

/// Reads the schema of the answer. Errors in it are found before anything is sent.
fn read_schema(app: &AppContext, file: &Path) -> anyhow::Result<OutputSchema> {
    let shown = file.display();
    let wrong = |why: String| UsageError(format!("`{shown}`: {why}"));
    let bytes = ConfigFile::Own(app.config.cwd()?.join(file)).read(SCHEMA_FILE_BYTES_MAX);
    let bytes = bytes.map_err(|error| wrong(format!("could not read the schema: {error}")))?;
    let bytes = bytes.ok_or_else(|| wrong("there is no such file".to_owned()))?;
    let schema = serde_json::from_slice(&bytes)
        .map_err(|error| wrong(format!("the schema is not JSON: {error}")))?;
    Ok(OutputSchema::new(schema).map_err(|why| wrong(format!("the schema {why}")))?)
}

/// Reads an image file as an attachment.
fn read_image(app: &AppContext, file: &std::path::Path) -> anyhow::Result<ChatAttachment> {
    let shown = file.display();
    let path = app.config.cwd()?.join(file);
    let bytes = ConfigFile::Own(path).read(IMAGE_BYTES_MAX);
    let bytes = bytes.map_err(|error| UsageError(format!("could not read `{shown}`: {error}")))?;
    let bytes = bytes.ok_or_else(|| UsageError(format!("there is no file `{shown}`")))?;
    let mime = zero_tools::image_media_type(&bytes).ok_or_else(|| {
        UsageError(format!(
            "`{shown}` is not an image in a supported format (PNG, JPEG, GIF, WebP)"
        ))
    })?;
    Ok(ChatAttachment {
        kind: Some("image".to_owned()),
        mime_type: Some(mime.to_owned()),
        file_name: file.file_name().map(|name| name.to_string_lossy().into_owned()),
        content: Some(base64::engine::general_purpose::STANDARD.encode(bytes)),
    })
}
