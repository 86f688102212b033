//! Follows an unattended run: it parks when it only waits for answers.
//!
//! The tools run with the gateway of this process, so that the store has the question and any process
//! of this machine can continue the run.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use serde_json::Map;
use tokio_util::sync::CancellationToken;
use zero_core::event::{ApprovalRequest, ApprovalSubject, EventKind, UserQuestion};
use zero_core::{ResultDisplay, RunId, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{AGENT_ORIGIN, ApprovalAnswer};
use zero_session::open_question::QuestionScope;
use zero_wire::EventFrame;
use zero_wire::chat::{ChatAbort, ChatAbortParams, ChatAttachment, ChatSend, ChatSendParams};
use zero_wire::client::GatewayClient;
use zero_wire::zero_sessions::{
    ApprovalsResolveParams, QuestionsResolveParams, SessionInfo, SessionOpenParams,
    ZeroApprovalsResolve, ZeroQuestionsResolve, ZeroSessionsOpen,
};

use super::run_events::{next_event, parse_run_event, read_ahead, unrecorded_end};
use super::run_printer::{RunDetails, RunPrinter, render_bounded_diff};
use crate::AppContext;
use crate::cli::RunArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::terminal::{ElapsedCounter, STRONG, TerminalStream, escape_line};

/// How long calls beside the one that waits may take to end before the run is stopped.
const PARK_GRACE: Duration = Duration::from_secs(60);

/// A question that a run waits for.
pub(in crate::commands) struct ParkedQuestion {
    pub(in crate::commands) id: String,
    /// The change that a call would make to a file, as it is printed; empty if it makes none.
    pub(in crate::commands) preview: String,
    /// The question in a sentence, with the command that answers it.
    pub(in crate::commands) description: String,
}

/// A run to follow.
pub(in crate::commands) struct UnattendedRun<'a> {
    pub(in crate::commands) app: &'a AppContext,
    pub(in crate::commands) session_key: String,
    pub(in crate::commands) run_id: String,
    pub(in crate::commands) printer: RunPrinter,
    /// Events that arrived before it was followed.
    pub(in crate::commands) early: VecDeque<EventFrame>,
    /// The questions that it waits for.
    pub(in crate::commands) waiting: Vec<ParkedQuestion>,
}

/// A prompt of an unattended run.
pub(super) struct UnattendedPrompt<'a> {
    pub(super) text: String,
    pub(super) images: Vec<ChatAttachment>,
    /// The folder to work in.
    pub(super) cwd: &'a Path,
}

/// `zero run --park`: sends a prompt and follows its run.
pub(super) async fn run_prompt(
    app: &AppContext,
    args: &RunArgs,
    mut connection: CliGatewayConnection,
    session: SessionInfo,
    prompt: UnattendedPrompt<'_>,
    cancel: &CancellationToken,
) -> anyhow::Result<ExitOutcome> {
    if !connection.is_local() {
        connection.close().await;
        let what = "`--park` is for sessions of this machine; a gateway elsewhere parks its questions itself, if the tools run there";
        return Err(UsageError(what.to_owned()).into());
    }
    if let Some(host) = &session.tool_host {
        let what = format!(
            "the tools of this session are with {} and stay there, so its questions cannot be parked; omit `--session` to start a new one",
            escape_line(host)
        );
        connection.close().await;
        return Err(UsageError(what).into());
    }
    if let Some(store) = connection.local_store() {
        let id = SessionId::new(session.session_id.clone())?;
        let open = store.open_questions(QuestionScope::Session(&id)).await?;
        if let Some(question) = open.first() {
            let what = format!(
                "a run of this session waits for an answer; answer it with `zero questions answer {} ANSWER` first, or use another session",
                escape_line(question.content.id())
            );
            connection.close().await;
            return Err(UsageError(what).into());
        }
    }
    let run_id = format!("run_{:032x}", fastrand::u128(..));
    let is_slash_command = prompt.text.trim_start().starts_with('/');
    let params = SessionOpenParams {
        session_key: Some(session.session_key.clone()),
        cwd: Some(prompt.cwd.display().to_string()),
        mode: args.options.mode.map(|mode| mode.to_string()),
        ..SessionOpenParams::default()
    };
    let send = ChatSendParams {
        session_key: session.session_key.clone(),
        message: prompt.text,
        idempotency_key: run_id.clone(),
        attachments: prompt.images,
        budget: args.budget(),
        ..ChatSendParams::default()
    };
    let (client, mut early) = (connection.client.clone(), VecDeque::new());
    let begin = async {
        client.request::<ZeroSessionsOpen>(params).await?;
        client.request::<ChatSend>(send).await?;
        anyhow::Ok(())
    };
    if let Err(error) = read_ahead(&mut connection.events, &mut early, begin).await {
        connection.close().await;
        return Err(error);
    }
    let details = RunDetails {
        thoughts: args.options.thoughts,
        whole_output: args.options.verbose,
        plain: args.plain || is_slash_command,
        slash_command: is_slash_command,
        output_schema: None,
    };
    let form = args.format();
    let counter = ElapsedCounter::new(&app.terminal.err);
    let printer = RunPrinter::new(&app.terminal, form, details, counter);
    let session_key = session.session_key;
    let run = UnattendedRun { app, session_key, run_id, printer, early, waiting: Vec::new() };
    run.follow(connection, cancel).await
}

impl UnattendedRun<'_> {
    /// Prints what the run does until it ends, or only waits for answers: while one sub-agent waits, others go
    /// on.
    pub(in crate::commands) async fn follow(
        mut self,
        mut connection: CliGatewayConnection,
        cancel: &CancellationToken,
    ) -> anyhow::Result<ExitOutcome> {
        let client = connection.client.clone();
        let mut is_stopping = false;
        let mut parking: Option<BoxFuture<'static, ()>> = None;
        loop {
            if parking.is_none() && !self.waiting.is_empty() {
                parking = Some(Box::pin(connection.park_runs()));
            }
            let parked = async {
                match &mut parking {
                    Some(parking) => parking.await,
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = next_event(&mut self.early, &mut connection.events) => event,
                () = parked => {
                    if self.has_ended(&connection).await? {
                        // Its end is on the way.
                        parking = Some(Box::pin(std::future::pending()));
                        continue;
                    }
                    return self.park(connection).await;
                }
                () = cancel.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    let abort = ChatAbortParams {
                        session_key: self.session_key.clone(),
                        run_id: Some(self.run_id.clone()),
                        ..ChatAbortParams::default()
                    };
                    let client = client.clone();
                    tokio::spawn(async move { client.request::<ChatAbort>(abort).await });
                    continue;
                }
            };
            let Some(event) = event else {
                self.printer.finish_interrupted()?;
                anyhow::bail!(
                    "lost the connection to the gateway during the run; `zero questions list` shows whether it waits"
                );
            };
            if let Some(end) = unrecorded_end(&event, &self.session_key, &self.run_id) {
                if let Some(exit) = self.printer.print_unrecorded(&end)? {
                    connection.close().await;
                    return Ok(exit);
                }
                continue;
            }
            let Some(event) = parse_run_event(event, &self.session_key, &self.run_id)? else {
                continue;
            };
            if let Some(exit) = self.printer.print_event(&event)? {
                connection.close().await;
                return Ok(exit);
            }
            match event.kind {
                EventKind::ApprovalRequested(request) => match request.subject {
                    ApprovalSubject::Call | ApprovalSubject::SubagentCall => {
                        let preview = render_preview(&self.app.terminal.err, &request);
                        let description = describe_approval(&request);
                        self.waiting.push(ParkedQuestion { id: request.id, preview, description });
                    }
                    // The command runs and cannot be parked.
                    ApprovalSubject::Connection => reject(client.clone(), request.id),
                },
                EventKind::QuestionAsked(question)
                    if question.origin == AGENT_ORIGIN || question.subagent.is_some() =>
                {
                    let (preview, description) = (String::new(), describe_form(&question));
                    self.waiting.push(ParkedQuestion { id: question.id, preview, description });
                }
                EventKind::QuestionAsked(question) => cancel_form(client.clone(), question.id),
                EventKind::ApprovalResolved { id, .. } | EventKind::QuestionAnswered { id, .. } => {
                    self.waiting.retain(|question| question.id != id);
                }
                _ => {}
            }
        }
    }

    /// Whether the run has ended.
    async fn has_ended(&self, connection: &CliGatewayConnection) -> anyhow::Result<bool> {
        let Some(store) = connection.local_store() else { return Ok(false) };
        let run = store.find_run(None, &RunId::new(self.run_id.clone())?).await?;
        Ok(run.is_none_or(|run| run.end.is_some()))
    }

    /// Leaves the run in the store and says how to go on.
    async fn park(mut self, connection: CliGatewayConnection) -> anyhow::Result<ExitOutcome> {
        self.printer.finish_interrupted()?;
        connection.close_within(PARK_GRACE).await;
        let terminal = &self.app.terminal;
        for ParkedQuestion { preview, description, .. } in &self.waiting {
            terminal.err.write(preview)?;
            terminal.print_note(&format!("the run waits for your answer: {description}"));
        }
        Ok(ExitOutcome::Parked)
    }
}

/// Answers whose id in protocols says `always`, with their words on the command line. They apply to
/// one session; "allow always" on a terminal adds a rule.
const SESSION_ANSWERS: [(&str, &str); 2] =
    [("allow_always", "allow_session"), ("reject_always", "reject_session")];

/// The word on the command line for the id of an answer.
pub(in crate::commands) fn answer_word(id: &str) -> &str {
    SESSION_ANSWERS.iter().find(|(known, _)| *known == id).map_or(id, |(_, word)| word)
}

/// The id of an answer that was written as a word or as the id itself.
pub(in crate::commands) fn answer_id(written: &str) -> &str {
    SESSION_ANSWERS.iter().find(|(_, word)| *word == written).map_or(written, |(id, _)| id)
}

/// An approval request in a sentence, with the command that answers it.
pub(in crate::commands) fn describe_approval(request: &ApprovalRequest) -> String {
    let options: Vec<&str> = request.options.iter().map(|option| answer_word(&option.id)).collect();
    format!(
        "{} ({}); answer it with `zero questions answer {} ANSWER`, where ANSWER is {}",
        escape_line(&request.title),
        escape_line(&request.reason),
        escape_line(&request.id),
        options.join(", ")
    )
}

/// The change that a call would make to a file, as far as it is short; empty if it makes none.
pub(in crate::commands) fn render_preview(
    stream: &TerminalStream,
    request: &ApprovalRequest,
) -> String {
    match &request.preview {
        Some(ResultDisplay::Diff(diff)) => {
            let path = escape_line(&diff.path);
            let shown = render_bounded_diff(stream, &diff.unified);
            format!("{}\n{shown}", stream.paint(STRONG, &path))
        }
        _ => String::new(),
    }
}

/// A form in a sentence, with the command that answers it.
pub(in crate::commands) fn describe_form(question: &UserQuestion) -> String {
    format!(
        "{}; answer it with `zero questions answer {} ANSWER`, where ANSWER is a JSON object with the fields that `zero questions list --json` shows, or `decline`",
        escape_line(&question.message),
        escape_line(&question.id)
    )
}

/// Rejects a connection: no user sees the question, and its command cannot wait for days.
fn reject(client: GatewayClient, id: String) {
    let answer = ApprovalAnswer::RejectOnce.id().to_owned();
    tokio::spawn(async move {
        let resolve = ApprovalsResolveParams { id, answer };
        if let Err(error) = client.request::<ZeroApprovalsResolve>(resolve).await {
            tracing::warn!(%error, "could not send the answer to the gateway");
        }
    });
}

/// Cancels the question of a server whose call cannot be parked.
fn cancel_form(client: GatewayClient, id: String) {
    tokio::spawn(async move {
        let resolve =
            QuestionsResolveParams { id, action: "cancel".to_owned(), content: Map::new() };
        if let Err(error) = client.request::<ZeroQuestionsResolve>(resolve).await {
            tracing::warn!(%error, "could not send the answer to the gateway");
        }
    });
}
