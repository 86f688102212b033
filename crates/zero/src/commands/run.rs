//! `zero run`: sends a prompt to an agent, prints the events of the run, and exits.
//!
//! The tools run in this process, even if a remote gateway runs the agent, and ask for approval on
//! this terminal.

mod run_printer;

use std::collections::VecDeque;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use base64::Engine as _;
use serde_json::{Map, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zero_client::tool_service::ToolService;
use zero_core::SecretMask;
use zero_core::event::{ApprovalRequest, Event, EventKind, UserQuestion};
use zero_core::shell_quoting::quote_shell_word;
use zero_policy::PermissionMode;
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};
use zero_sandbox::ConfigFile;
use zero_session::agent::DIRECT;
use zero_session::model::catalog::NO_MODEL_HELP;
use zero_wire::chat::{ChatAbort, ChatAbortParams, ChatAttachment, ChatSend, ChatSendParams};
use zero_wire::client::{GatewayClient, GatewayClientError, GatewayEvents};
use zero_wire::sessions::{SessionsDelete, SessionsDeleteParams};
use zero_wire::tools::{TOOLS_HOSTED, ToolsAttachParams};
use zero_wire::zero_sessions::{
    ApprovalsResolveParams, QuestionsResolveParams, SESSION_EVENT, SessionEvent, SessionInfo,
    SessionOpenParams, ZeroApprovalsResolve, ZeroQuestionsResolve, ZeroSessionsOpen,
};
use zero_wire::{ErrorCode, EventFrame};

use self::run_printer::{RunFormat, RunPrinter};
use crate::AppContext;
use crate::cli::RunArgs;
use crate::commands::tools_call::signals;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::host_setup::small_runtime;
use crate::terminal::ElapsedCounter;
use crate::tool_host_factory::TerminalPromptOptions;

/// Largest prompt read from stdin, in bytes.
const PROMPT_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Most events that are kept while the run is being started.
const EARLY_EVENTS_MAX: usize = 16 * 1024;
/// Largest image file, in bytes.
const IMAGE_BYTES_MAX: u64 = 6 * 1024 * 1024;

pub(super) fn run(app: &AppContext, args: &RunArgs) -> anyhow::Result<ExitOutcome> {
    let app =
        &app.with_secret_files(args.remote.token_file.iter().chain(&args.remote.password_file));
    let prompt = read_prompt(args)?;
    if prompt.trim().is_empty() && args.images.is_empty() {
        return Err(UsageError(
            "the prompt is empty; pass a prompt, or `-` to read it from stdin".to_owned(),
        )
        .into());
    }
    // From here on, an interrupt cancels the run. Earlier, it ends the process, which is what a user
    // expects while typing the prompt.
    let (runtime, cancel) = (small_runtime()?, CancellationToken::new());
    runtime.block_on(async { signals::cancel_on_interrupt(&cancel) });
    let images =
        args.images.iter().map(|file| read_image(app, file)).collect::<Result<Vec<_>, _>>()?;
    let folders: Vec<PathBuf> = args.cwd.iter().cloned().collect();
    let workspace = app.config.open_workspace(&folders)?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    for line in settings.trust_note().into_iter().chain(settings.warning()) {
        app.terminal.print_note(&line);
    }
    let ended = runtime.block_on(async {
        let cwd = workspace.cwd().to_owned();
        let connection = tokio::select! {
            connection = app.connect(&args.remote, &settings, &args.settings, &cwd) => connection?,
            () = cancel.cancelled() => return Ok(ExitOutcome::Interrupted),
        };
        let own_mode = args.mode.unwrap_or_else(|| settings.mode());
        let folder = RunFolder { cwd, own_mode };
        run_turn(app, args, connection, prompt, images, folder, cancel)
            .await
            .map_err(to_usage_error)
    });
    // A pending read of stdin must not delay the exit.
    runtime.shutdown_background();
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

/// Folder and permission mode of the tools.
struct RunFolder {
    cwd: PathBuf,
    own_mode: PermissionMode,
}

async fn run_turn(
    app: &AppContext,
    args: &RunArgs,
    mut connection: CliGatewayConnection,
    prompt: String,
    images: Vec<ChatAttachment>,
    folder: RunFolder,
    cancel: CancellationToken,
) -> anyhow::Result<ExitOutcome> {
    let counter = ElapsedCounter::new(&app.terminal.err);
    let mut session = open_session(args, &connection).await?;
    let needs_model = session.model == DIRECT && session.agent != DIRECT;
    if needs_model && !prompt.trim_start().starts_with('/') {
        if args.session.is_none() {
            delete_session(&connection.client, session).await;
        }
        connection.close().await;
        anyhow::bail!(NO_MODEL_HELP);
    }
    let asking = TerminalPromptOptions {
        yes: args.yes,
        takes_stdin: args.prompt == "-",
        counter: counter.clone(),
        continued: Arc::default(),
    };
    let lifetime = connection.result_lifetime();
    let client = connection.client.clone();
    let run_id = format!("run_{:032x}", fastrand::u128(..));
    let mut send = ChatSendParams {
        session_key: session.session_key.clone(),
        message: prompt,
        idempotency_key: run_id.clone(),
        attachments: images,
        ..ChatSendParams::default()
    };
    // While a request is not answered, events are read: the client reads no answers while its queue
    // of events is full.
    let mut early = VecDeque::new();
    let begin = async {
        let (tools, secrets) =
            host_tools(app, args, &client, &mut session, lifetime, &asking, folder).await?;
        secrets.mask_string(&mut send.message);
        if cancel.is_cancelled() {
            tools.stop_all_calls();
            return Ok(None);
        }
        client.request::<ChatSend>(send).await?;
        anyhow::Ok(Some(tools))
    };
    let begun = read_ahead(&mut connection.events, &mut early, begin).await;
    let tools = match begun {
        Ok(Some(tools)) => tools,
        unbegun => {
            // Keep a session that the user named: another client may use it, even if it is new.
            if args.session.is_none() && unbegun.as_ref().map_or_else(is_refusal, |_| true) {
                delete_session(&client, session).await;
            }
            connection.close().await;
            return unbegun.map(|_| ExitOutcome::Interrupted);
        }
    };
    let form = if args.json { RunFormat::Json } else { RunFormat::Text };
    let mut show = RunPrinter::new(&app.terminal, form, args.thoughts, counter);
    let mut stopping = false;
    let mut aborts = JoinSet::new();
    let exit = loop {
        let event = tokio::select! {
            event = next_event(&mut early, &mut connection.events) => event,
            () = cancel.cancelled(), if !stopping => {
                stopping = true;
                let key = session.session_key.clone();
                let run_id = Some(run_id.clone());
                let abort = ChatAbortParams { session_key: key, run_id, ..ChatAbortParams::default() };
                let client = client.clone();
                aborts.spawn(async move { client.request::<ChatAbort>(abort).await });
                continue;
            }
            Some(aborted) = aborts.join_next() => {
                aborted.context("zero is shutting down")??;
                continue;
            }
        };
        let Some(event) = event else {
            show.finish_interrupted()?;
            let sessions = follow_up_command(args, "sessions show", &session.session_key);
            anyhow::bail!(
                "lost the connection to the gateway during the run; when it is back, run `{sessions}` to see the result"
            );
        };
        if let Some(displaced) = tools.displaced_by(&event) {
            app.terminal.print_note(&format!(
                "{} took over the tools of this session; this run continues to show its events",
                zero_core::sanitize::to_quoted_line(&displaced.host)
            ));
        }
        if tools.handle_event(&event) || event.event != SESSION_EVENT {
            continue;
        }
        let Some(payload) = event.payload else { continue };
        let update: SessionEvent =
            serde_json::from_value(payload).context("the gateway sent an invalid event")?;
        if update.session_key != session.session_key || !belongs_to_run(&update.event, &run_id) {
            continue;
        }
        if let EventKind::QuestionAsked(question) = &update.event.what {
            tokio::spawn(answer_question(client.clone(), asking.elicitor(app), question.clone()));
        }
        if let EventKind::ApprovalRequested(request) = &update.event.what {
            tokio::spawn(resolve_approval(
                client.clone(),
                asking.clone(),
                app.clone(),
                request.clone(),
            ));
        }
        if let Some(exit) = show.print_event(&update.event)? {
            break exit;
        }
    };
    // Not needed if the user named the session, or if a script reads stderr and the run succeeded.
    let is_needed = app.terminal.err.is_terminal() || args.json || exit != ExitOutcome::Ok;
    if args.session.is_none() && is_needed {
        let again = follow_up_command(args, "run --session", &session.session_key);
        app.terminal.print_note(&format!("to continue this session, run `{again} PROMPT`"));
    }
    tools.stop_all_calls();
    connection.close().await;
    Ok(exit)
}

/// Runs requests and keeps the events that arrive meanwhile.
async fn read_ahead<T>(
    events: &mut GatewayEvents,
    early: &mut VecDeque<EventFrame>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            event = events.next(), if early.len() < EARLY_EVENTS_MAX => match event {
                Some(event) => early.push_back(event),
                None => return work.await,
            },
        }
    }
}

/// The next event, those that arrived early first.
async fn next_event(
    early: &mut VecDeque<EventFrame>,
    events: &mut GatewayEvents,
) -> Option<EventFrame> {
    match early.pop_front() {
        Some(event) => Some(event),
        None => events.next().await,
    }
}

/// Attaches this process as the tool host of the session and sets the session's folder. Returns the
/// secret values of the folder, too, which no prompt contains.
async fn host_tools(
    app: &AppContext,
    args: &RunArgs,
    client: &GatewayClient,
    session: &mut SessionInfo,
    lifetime: ResultLifetime,
    asking: &TerminalPromptOptions,
    folder: RunFolder,
) -> anyhow::Result<(Arc<ToolService>, Arc<SecretMask>)> {
    let RunFolder { cwd, own_mode } = folder;
    let backend = app.local_backend(session, &cwd, &args.settings, args.mode, lifetime, asking)?;
    let secrets = backend.secret_mask().await;
    let wish = ToolsAttachParams {
        session_key: session.session_key.clone(),
        host: format!("zero run on {}", std::env::consts::OS),
        take_over: args.take_over,
        return_ms: None,
    };
    let tools = ToolService::attach(client, wish, backend, own_mode).await?;
    // Set the folder only after attaching: it may exist only on this machine, not at the gateway.
    let here = SessionOpenParams {
        session_key: Some(session.session_key.clone()),
        cwd: Some(cwd.display().to_string()),
        mode: args.mode.map(|mode| mode.to_string()),
        ..SessionOpenParams::default()
    };
    *session = client.request::<ZeroSessionsOpen>(here).await?;
    Ok((tools, secrets))
}

/// Whether the gateway refused the request, so that no run was started. Without an answer, the run may
/// have started; with `TOOLS_HOSTED`, another tool host may have started one.
fn is_refusal(error: &anyhow::Error) -> bool {
    let Some(GatewayClientError::Refused { error }) = error.downcast_ref() else { return false };
    let code = error.details.as_ref().and_then(|details| details.get("code")?.as_str());
    code != Some(TOOLS_HOSTED)
}

/// Deletes a session that was created for a prompt that was not sent, unless it changed since. Does
/// nothing if the gateway does not permit it.
async fn delete_session(client: &GatewayClient, session: SessionInfo) {
    let wanted = SessionsDeleteParams {
        key: session.session_key,
        expected_session_id: Some(session.session_id),
        expected_session_updated_at: Some(session.updated_ms as f64),
        ..SessionsDeleteParams::default()
    };
    if let Err(error) = client.request::<SessionsDelete>(wanted).await {
        tracing::debug!(%error, "could not delete the empty session");
    }
}

/// Asks the user on this terminal and sends the answer to the gateway; without a terminal, the answer
/// is `cancel`.
async fn answer_question(
    client: GatewayClient,
    elicitor: Arc<dyn Elicitor>,
    question: UserQuestion,
) {
    let wanted = match (question.schema, question.url) {
        (_, Some(url)) => ElicitationMode::Url(url),
        (schema, None) => {
            ElicitationMode::Form(schema.unwrap_or_else(|| json!({"type": "object"})))
        }
    };
    let (origin, message) = (question.origin, question.message);
    let asked = Elicitation { origin, call: None, message, wanted };
    let (action, content) = match elicitor.elicit(&asked).await {
        ElicitationAnswer::Accept(content) => ("accept", content),
        ElicitationAnswer::Decline => ("decline", Map::new()),
        ElicitationAnswer::Cancel => ("cancel", Map::new()),
    };
    let answer = QuestionsResolveParams { id: question.id, action: action.to_owned(), content };
    if let Err(error) = client.request::<ZeroQuestionsResolve>(answer).await {
        tracing::warn!(%error, "could not send the answer to the gateway");
    }
}

/// Answers approval requests of the gateway itself: whether a run that repeats itself may continue.
/// Approvals for tool calls are requested by the tool host, which is this process.
async fn resolve_approval(
    client: GatewayClient,
    asking: TerminalPromptOptions,
    app: AppContext,
    request: ApprovalRequest,
) {
    let answer = tokio::task::spawn_blocking(move || asking.resolve_approval(&app, &request));
    let Ok((id, answer)) = answer.await else { return };
    let answer = ApprovalsResolveParams { id, answer: answer.id().to_owned() };
    if let Err(error) = client.request::<ZeroApprovalsResolve>(answer).await {
        tracing::warn!(%error, "could not send the answer to the gateway");
    }
}

/// Command line that uses the same session on the same gateway.
fn follow_up_command(args: &RunArgs, command: &str, key: &str) -> String {
    let key = quote_shell_word(key);
    match &args.remote.url {
        Some(url) => format!("zero {command} {key} --url {}", quote_shell_word(url)),
        None => format!("zero {command} {key}"),
    }
}

fn belongs_to_run(event: &Event, run_id: &str) -> bool {
    event.run.as_ref().is_some_and(|run| run.as_str() == run_id)
}

/// Opens the named session, or a new one.
async fn open_session(
    args: &RunArgs,
    connection: &CliGatewayConnection,
) -> anyhow::Result<SessionInfo> {
    let name = match &args.session {
        Some(key) if key.trim().is_empty() => {
            let what = "`--session` is empty; pass the key of a session (`zero sessions list`), a new name, or omit it";
            return Err(UsageError(what.to_owned()).into());
        }
        Some(key) => key.clone(),
        None => format!("run-{:016x}", fastrand::u64(..)),
    };
    let agent = match (&args.agent, &args.model) {
        (Some(agent), _) => Some(agent.as_str()),
        (None, Some(model)) if model == DIRECT => Some(DIRECT),
        _ => None,
    };
    let key = match agent {
        Some(agent) if !name.starts_with("agent:") => format!("agent:{agent}:{name}"),
        Some(agent) if !name.starts_with(&format!("agent:{agent}:")) => {
            let what = format!(
                "session `{name}` belongs to another agent than `{agent}`; omit `--session` or `--agent`"
            );
            return Err(UsageError(what).into());
        }
        _ => name,
    };
    let wanted = SessionOpenParams {
        session_key: Some(key),
        model: args.model.clone(),
        mode: args.mode.map(|mode| mode.to_string()),
        ..SessionOpenParams::default()
    };
    Ok(connection.client.request::<ZeroSessionsOpen>(wanted).await?)
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
