//! `zero run`: sends a prompt to an agent, prints the events of the run, and exits.
//!
//! The tools run in this process, even if a remote gateway runs the agent, and ask for approval on
//! this terminal.

mod command_check;
mod open_questions;
mod piped_input;
pub(super) mod run_printer;
mod session_choice;
pub(super) mod unattended_run;

use std::collections::VecDeque;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use base64::Engine as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zero_client::GatewayLocality;
use zero_client::tool_service::ToolService;
use zero_core::event::{ApprovalRequest, Event, EventKind, UserQuestion};
use zero_core::shell_quoting::quote_shell_word;
use zero_core::{SecretMask, SessionId};
use zero_mcp::client::{McpServerSet, McpServerStatus, ServerPhase};
use zero_policy::PermissionMode;
use zero_runtime::prompt_mentions::{MentionReport, read_mentions};
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::tool_backend::ToolBackend;
use zero_runtime::{Elicitor, WithdrawalNote};
use zero_sandbox::ConfigFile;
use zero_session::agent::DIRECT;
use zero_session::approvals::StoredGrants;
use zero_session::model::catalog::NO_MODEL_HELP;
use zero_session::notification::NotificationKind;
use zero_session::output_schema::OutputSchema;
use zero_session::store::GrantRecord;
use zero_settings::WorkspaceSettings;
use zero_settings::notify::{NotifySettings, TerminalSignal};
use zero_wire::chat::{ChatAbort, ChatAbortParams, ChatAttachment, ChatSend, ChatSendParams};
use zero_wire::client::{GatewayClient, GatewayClientError, GatewayEvents};
use zero_wire::sessions::{SessionsDelete, SessionsDeleteParams};
use zero_wire::tools::{TOOLS_HOSTED, ToolsAttachParams};
use zero_wire::zero_sessions::{
    ApprovalsResolveParams, QuestionsResolveParams, RUN_UNRECORDED, RunUnrecorded, SESSION_EVENT,
    SessionEvent, SessionInfo, SessionOpenParams, ZeroApprovalsResolve, ZeroQuestionsResolve,
    ZeroSessionsOpen,
};
use zero_wire::{ErrorCode, EventFrame};

use self::command_check::check_command;
use self::open_questions::OpenQuestions;
use self::piped_input::PipedInput;
use self::run_printer::{RunDetails, RunPrinter};
pub(in crate::commands) use self::session_choice::short_name;
use self::session_choice::{OpenedSession, is_unnamed, open_session};
use crate::AppContext;
use crate::cli::{OutputFormat, RunArgs};
use crate::commands::dry_run::{DryRun, DryRunEnd};
use crate::commands::mcp::ask_about_downloads;
use crate::commands::tools_call::signals;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::host_setup::small_runtime;
use crate::terminal::{ElapsedCounter, PromptTurn, escape_line};
use crate::tool_host_factory::{TerminalBackendRequest, TerminalPromptOptions};
use crate::user_question::elicit_answer;

/// Largest prompt read from stdin, in bytes.
const PROMPT_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Most events that are kept while the run is being started.
const EARLY_EVENTS_MAX: usize = 16 * 1024;
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
            notify: settings.notify(),
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

/// Folder of the tools, and the permission mode of its settings.
struct RunFolder {
    cwd: PathBuf,
    settings_mode: PermissionMode,
    result_lifetime: ResultLifetime,
    /// Where the gateway runs.
    locality: GatewayLocality,
    /// What the user chose earlier in the session.
    stored: Option<StoredChoices>,
    /// How zero notifies the user that a run needs them.
    notify: NotifySettings,
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
    let RunRequest { prompt, input, images, output_schema } = request;
    let notify = std::mem::take(&mut folder.notify);
    let signal = |kind| notify.terminal.map(|signal| terminal_sequence(kind, signal));
    let turn = PromptTurn::new(ElapsedCounter::new(&app.terminal.err))
        .with_signal(signal(NotificationKind::Question));
    let asking = TerminalPromptOptions {
        yes: args.yes,
        takes_stdin: args.prompt == "-" || input != PipedInput::Nothing,
        turn: turn.clone(),
        continued: Arc::default(),
    };
    let opened = open_session(app, args, &connection, &asking, &folder.cwd).await?;
    let Some(OpenedSession { info: mut session, is_created }) = opened else {
        connection.close().await;
        return Ok(ExitOutcome::Interrupted);
    };
    let needs_model = session.model == DIRECT && session.agent != DIRECT;
    let is_slash_command = prompt.trim_start().starts_with('/');
    if needs_model && !is_slash_command {
        if is_created {
            delete_session(&connection.client, session).await;
        }
        let is_local = connection.local_store().is_some();
        connection.close().await;
        if let Some(error) = is_local.then(|| app.chosen_model_error(settings)).flatten() {
            return Err(error.into());
        }
        anyhow::bail!(NO_MODEL_HELP);
    }
    if args.park {
        if let PipedInput::Text(_) = input {
            let what = "`--park` attaches nothing from stdin; put it into a file and mention that, or pass `< /dev/null`";
            if is_created {
                delete_session(&connection.client, session).await;
            }
            connection.close().await;
            return Err(UsageError(what.to_owned()).into());
        }
        let prompt = unattended_run::UnattendedPrompt { text: prompt, images, cwd: &folder.cwd };
        return unattended_run::run_prompt(app, args, connection, session, prompt, &cancel).await;
    }
    let client = connection.client.clone();
    let run_id = format!("run_{:032x}", fastrand::u128(..));
    let mut send = ChatSendParams {
        session_key: session.session_key.clone(),
        message: prompt,
        idempotency_key: run_id.clone(),
        attachments: images,
        budget: args.budget(),
        output_schema: output_schema.as_ref().map(|schema| schema.as_value().clone()),
        ..ChatSendParams::default()
    };
    // While a request is not answered, events are read: the client reads no answers while its queue
    // of events is full.
    let mut early = VecDeque::new();
    folder.stored = StoredChoices::load(&connection, &session, &folder.cwd).await?;
    let grants = folder.stored.as_ref().map(|stored| Arc::clone(&stored.grants));
    let begin = async {
        let RunTools { service: tools, backend, secrets, servers } =
            host_tools(app, args, &client, &mut session, &asking, folder).await?;
        let is_direct = session.model == DIRECT;
        if let Err(wrong) = check_command(&send.message, &*backend, is_direct).await {
            tools.stop_all_calls();
            return Err(wrong.into());
        }
        if !is_direct && !send.message.starts_with('/') {
            let waiting = cancel.run_until_cancelled(backend.wait_for_servers());
            for missing in waiting.await.unwrap_or_default() {
                // Those that failed are named at the end.
                if missing.why.is_none() {
                    app.terminal.print_note(&escape_line(&missing.to_string()));
                }
            }
            tools.offer_if_changed().await?;
        }
        secrets.mask_string(&mut send.message);
        attach_mentions(app, &*backend, &mut send, &cancel).await;
        // Last, since an `@` in it mentions nothing.
        let mut attached = String::new();
        input.append_to(&mut attached);
        secrets.mask_string(&mut attached);
        send.message.push_str(&attached);
        if cancel.is_cancelled() {
            tools.stop_all_calls();
            return Ok(None);
        }
        client.request::<ChatSend>(send).await?;
        anyhow::Ok(Some((tools, servers)))
    };
    let begun = read_ahead(&mut connection.events, &mut early, begin).await;
    let (tools, servers) = match begun {
        Ok(Some(hosted)) => hosted,
        unbegun => {
            if is_created && unbegun.as_ref().map_or_else(is_refusal, |_| true) {
                delete_session(&client, session).await;
            }
            connection.close().await;
            return unbegun.map(|_| ExitOutcome::Interrupted);
        }
    };
    let form = args.format();
    let counter = turn.counter().clone();
    // What a tool prints is not Markdown.
    let plain = args.plain || is_slash_command;
    let details = RunDetails {
        thoughts: args.options.thoughts,
        whole_output: args.options.verbose,
        plain,
        slash_command: is_slash_command,
        output_schema,
    };
    let mut show = RunPrinter::new(&app.terminal, form, details, counter);
    // Nothing is written over a question. Output for scripts on stdout continues.
    let waits_for_answers = form == OutputFormat::Text || app.terminal.out.is_terminal();
    let mut held_events: VecDeque<Event> = VecDeque::new();
    let mut questions = OpenQuestions::default();
    let mut stopping = false;
    let mut aborts = JoinSet::new();
    let exit = loop {
        let event = tokio::select! {
            () = turn.wait_until_closed(), if !held_events.is_empty() => {
                let Some(event) = held_events.pop_front() else { continue };
                match show.print_event(&event)? {
                    Some(exit) => break exit,
                    None => continue,
                }
            }
            event = next_event(&mut early, &mut connection.events),
                if held_events.len() < EARLY_EVENTS_MAX => event,
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
            for event in &held_events {
                show.print_event(event)?;
            }
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
        if let Some(unrecorded) = unrecorded_end(&event, &session.session_key, &run_id) {
            if let Some(exit) = show.print_unrecorded(&unrecorded)? {
                break exit;
            }
            continue;
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
        match &update.event.kind {
            EventKind::QuestionAsked(question) => {
                questions.spawn(&question.id, |withdrawal| {
                    let elicitor = asking.elicitor(app, withdrawal);
                    answer_question(client.clone(), elicitor, question.clone())
                });
            }
            EventKind::QuestionAnswered { id, action } => questions.withdraw(id, action),
            EventKind::ApprovalRequested(request) => {
                questions.spawn(&request.id, |withdrawal| {
                    let (asking, app) = (asking.clone(), app.clone());
                    resolve_approval(client.clone(), asking, app, request.clone(), withdrawal)
                });
            }
            EventKind::ApprovalResolved { id, answer, .. } => questions.withdraw(id, answer),
            _ => {}
        }
        if let EventKind::RunEnded { .. } = &update.event.kind
            && let Some(kind) =
                NotificationKind::from_event(&update.event.kind, notify.min_seconds())
            && let Some(signal) = signal(kind)
        {
            turn.counter().write_signal(&signal);
        }
        // Those that wait come first.
        if !held_events.is_empty() || (waits_for_answers && turn.is_open()) {
            held_events.push_back(update.event);
        } else if let Some(exit) = show.print_event(&update.event)? {
            break exit;
        }
    };
    if form == OutputFormat::Json {
        show.print_result(&session.session_key, &run_id, exit)?;
    }
    print_failed_servers(app, &servers);
    // Not needed if the user named the session, or if a script reads stderr and the run succeeded.
    let is_needed =
        app.terminal.err.is_terminal() || form != OutputFormat::Text || exit != ExitOutcome::Ok;
    if is_unnamed(args) && is_needed {
        let again = follow_up_command(args, "run --session", short_name(&session.session_key));
        app.terminal.print_note(&format!("to continue this session, run `{again} PROMPT`"));
    }
    tools.stop_all_calls();
    if let Some(grants) = grants {
        grants.store_latest().await;
    }
    connection.close().await;
    Ok(exit)
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

/// The report that the end of this run is not recorded.
fn unrecorded_end(event: &EventFrame, session_key: &str, run_id: &str) -> Option<RunUnrecorded> {
    let payload = event.payload.as_ref().filter(|_| event.event == RUN_UNRECORDED)?;
    let end: RunUnrecorded = serde_json::from_value(payload.clone()).ok()?;
    (end.session_key == session_key && end.run_id == run_id).then_some(end)
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

/// What the user chose earlier in a session of this machine.
struct StoredChoices {
    /// The mode, if the session has one of its own.
    mode: Option<PermissionMode>,
    /// What was granted.
    given: Vec<GrantRecord>,
    /// Stores what is granted from now on.
    grants: Arc<StoredGrants>,
}

impl StoredChoices {
    /// Reads them; `None` if the session is at a gateway elsewhere, which must not loosen anything
    /// here. They apply to the folder that they were made for.
    async fn load(
        connection: &CliGatewayConnection,
        session: &SessionInfo,
        cwd: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let Some(store) = connection.local_store() else { return Ok(None) };
        let id = SessionId::new(session.session_id.clone())?;
        let is_here = session.cwd.as_deref().is_some_and(|folder| Path::new(folder) == cwd);
        let (mode, given) = match is_here {
            true => {
                let mode = session.mode.as_deref().and_then(|mode| mode.parse().ok());
                (mode, store.grants(&id).await?)
            }
            false => (None, Vec::new()),
        };
        let grants = StoredGrants::new(&store, id, given.clone());
        Ok(Some(Self { mode, given, grants }))
    }
}

/// The tools that this process hosts.
struct RunTools {
    service: Arc<ToolService>,
    backend: Arc<dyn ToolBackend>,
    /// The secret values of the folder, which no prompt contains.
    secrets: Arc<SecretMask>,
    /// The MCP servers, some of which may fail.
    servers: Arc<McpServerSet>,
}

/// Attaches the files and folders that the prompt mentions as `@path`, read with the tools and under
/// their rules. A slash command is sent as it is.
async fn attach_mentions(
    app: &AppContext,
    backend: &dyn ToolBackend,
    send: &mut ChatSendParams,
    cancel: &CancellationToken,
) {
    if send.message.starts_with('/') {
        return;
    }
    let (contents, reports) = read_mentions(backend, &send.message, cancel).await;
    for MentionReport { path, problem } in reports {
        let shown = escape_line(&path);
        app.terminal.print_note(&match problem {
            None => format!("attached `{shown}`"),
            Some(why) => format!("`@{shown}` was not attached: {}", escape_line(&why)),
        });
    }
    contents.append_to(&mut send.message);
    let images = contents.images.into_iter().map(|(mime, data, path)| ChatAttachment {
        kind: Some("image".to_owned()),
        mime_type: Some(mime),
        file_name: Some(path),
        content: Some(data),
    });
    send.attachments.extend(images);
}

/// Attaches this process as the tool host of the session and sets the session's folder.
async fn host_tools(
    app: &AppContext,
    args: &RunArgs,
    client: &GatewayClient,
    session: &mut SessionInfo,
    asking: &TerminalPromptOptions,
    folder: RunFolder,
) -> anyhow::Result<RunTools> {
    let RunFolder { cwd, settings_mode, result_lifetime, locality, stored, .. } = folder;
    let mode = args.options.mode.or_else(|| stored.as_ref().and_then(|stored| stored.mode));
    let own_mode = mode.unwrap_or(settings_mode);
    let (grants, grant_store) = match stored {
        Some(stored) => (stored.given, Some(stored.grants)),
        None => (Vec::new(), None),
    };
    let request = TerminalBackendRequest {
        session,
        cwd: &cwd,
        settings_files: &args.options.settings,
        mode,
        result_lifetime,
        grants,
        grant_store,
    };
    let (backend, servers) = app.local_backend(request, asking)?;
    let secrets = backend.secret_mask().await;
    let attach_params = ToolsAttachParams {
        session_key: session.session_key.clone(),
        host: format!("zero run on {}", std::env::consts::OS),
        take_over: args.take_over,
        return_ms: None,
    };
    let service =
        ToolService::attach(client, attach_params, Arc::clone(&backend), own_mode, locality)
            .await?;
    // Set the folder only after attaching: it may exist only on this machine, not at the gateway.
    let params = SessionOpenParams {
        session_key: Some(session.session_key.clone()),
        cwd: Some(cwd.display().to_string()),
        mode: args.options.mode.map(|mode| mode.to_string()),
        ..SessionOpenParams::default()
    };
    *session = client.request::<ZeroSessionsOpen>(params).await?;
    Ok(RunTools { service, backend, secrets, servers })
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

/// Asks the user on this terminal and sends the answer to the gateway; without a terminal, the answer
/// is `cancel`.
async fn answer_question(
    client: GatewayClient,
    elicitor: Arc<dyn Elicitor>,
    question: UserQuestion,
) {
    let id = question.id.clone();
    let (action, content) = elicit_answer(&*elicitor, question).await;
    let answer = QuestionsResolveParams { id, action: action.to_owned(), content };
    if let Err(error) = client.request::<ZeroQuestionsResolve>(answer.clone()).await {
        tracing::warn!(%error, "could not send the answer to the gateway");
        // A form that the gateway refuses must not keep the run waiting.
        if let Some(cancel) = answer.cancelled_instead() {
            let cancelled = client.request::<ZeroQuestionsResolve>(cancel).await;
            cancelled.map_or_else(|error| tracing::debug!(%error, "nor cancel the question"), drop);
        }
    }
}

/// Answers approval requests of the gateway itself: whether a run that repeats itself may continue.
/// Approvals for tool calls are requested by the tool host, which is this process.
async fn resolve_approval(
    client: GatewayClient,
    asking: TerminalPromptOptions,
    app: AppContext,
    request: ApprovalRequest,
    withdrawal: WithdrawalNote,
) {
    let (id, answer) = asking.resolve_approval(&app, &request, &withdrawal).await;
    let answer = ApprovalsResolveParams { id, answer: answer.id().to_owned() };
    if let Err(error) = client.request::<ZeroApprovalsResolve>(answer).await {
        tracing::warn!(%error, "could not send the answer to the gateway");
    }
}

/// What is written to the terminal to get the user's attention.
pub(in crate::commands) fn terminal_sequence(
    kind: NotificationKind,
    signal: TerminalSignal,
) -> String {
    match signal {
        TerminalSignal::Bell => "\u{7}".to_owned(),
        TerminalSignal::Osc9 => format!("\u{1b}]9;zero: {}\u{7}", kind.text()),
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
