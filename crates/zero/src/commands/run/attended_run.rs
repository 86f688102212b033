//! Follows a run on this terminal: prints its events, asks its questions, and stops it when the user
//! interrupts.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use anyhow::Context;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zero_client::tool_service::ToolService;
use zero_core::event::{ApprovalRequest, Event, EventKind, UserQuestion};
use zero_core::sanitize::to_quoted_line;
use zero_runtime::{Elicitor, WithdrawalNote};
use zero_session::notification::NotificationKind;
use zero_settings::notify::{NotifySettings, TerminalSignal};
use zero_wire::EventFrame;
use zero_wire::chat::{ChatAbort, ChatAbortParams};
use zero_wire::client::{GatewayClient, GatewayEvents};
use zero_wire::zero_sessions::{
    ApprovalsResolveParams, QuestionsResolveParams, ZeroApprovalsResolve, ZeroQuestionsResolve,
};

use super::open_questions::OpenQuestions;
use super::run_events::{EARLY_EVENTS_MAX, next_event, parse_run_event, unrecorded_end};
use super::run_printer::RunPrinter;
use super::session_choice::follow_up_command;
use crate::AppContext;
use crate::cli::{OutputFormat, RunArgs};
use crate::exit::ExitOutcome;
use crate::tool_host_factory::TerminalPromptOptions;
use crate::user_question::elicit_answer;

/// A run that this process follows.
pub(super) struct AttendedRun<'a> {
    pub(super) app: &'a AppContext,
    pub(super) args: &'a RunArgs,
    pub(super) client: GatewayClient,
    pub(super) session_key: &'a str,
    pub(super) run_id: &'a str,
    /// The tools of the run, which this process hosts.
    pub(super) tools: &'a Arc<ToolService>,
    /// How questions are asked on this terminal.
    pub(super) options: TerminalPromptOptions,
    pub(super) notify: NotifySettings,
    pub(super) printer: RunPrinter,
    /// Events that are printed once no question is on the terminal.
    pub(super) held_events: VecDeque<Event>,
    pub(super) questions: OpenQuestions,
}

impl AttendedRun<'_> {
    /// Follows the run to its end. `early` are the frames that arrived before.
    pub(super) async fn follow(
        &mut self,
        mut early: VecDeque<EventFrame>,
        events: &mut GatewayEvents,
        cancel: &CancellationToken,
    ) -> anyhow::Result<ExitOutcome> {
        let turn = self.options.turn.clone();
        let mut is_stopping = false;
        let mut aborts = JoinSet::new();
        loop {
            let frame = tokio::select! {
                () = turn.wait_until_closed(), if !self.held_events.is_empty() => {
                    let Some(event) = self.held_events.pop_front() else { continue };
                    match self.printer.print_event(&event)? {
                        Some(exit) => return Ok(exit),
                        None => continue,
                    }
                }
                frame = next_event(&mut early, events),
                    if self.held_events.len() < EARLY_EVENTS_MAX => frame,
                () = cancel.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    let abort = ChatAbortParams {
                        session_key: self.session_key.to_owned(),
                        run_id: Some(self.run_id.to_owned()),
                        ..ChatAbortParams::default()
                    };
                    let client = self.client.clone();
                    aborts.spawn(async move { client.request::<ChatAbort>(abort).await });
                    continue;
                }
                Some(aborted) = aborts.join_next() => {
                    aborted.context("zero is shutting down")??;
                    continue;
                }
            };
            let Some(frame) = frame else { return Err(self.report_lost_connection()?) };
            if let Some(exit) = self.handle_frame(frame)? {
                return Ok(exit);
            }
        }
    }

    /// Handles a frame of the gateway. Returns the exit code if it ends the run.
    fn handle_frame(&mut self, frame: EventFrame) -> anyhow::Result<Option<ExitOutcome>> {
        if let Some(displaced) = self.tools.displaced_by(&frame) {
            self.app.terminal.print_note(&format!(
                "{} took over the tools of this session; this run continues to show its events",
                to_quoted_line(&displaced.host)
            ));
        }
        if let Some(unrecorded) = unrecorded_end(&frame, self.session_key, self.run_id) {
            return Ok(self.printer.print_unrecorded(&unrecorded)?);
        }
        if self.tools.handle_event(&frame) {
            return Ok(None);
        }
        let Some(event) = parse_run_event(frame, self.session_key, self.run_id)? else {
            return Ok(None);
        };
        self.update_questions(&event.kind);
        self.signal_end(&event.kind);
        Ok(self.print_or_hold(event)?)
    }

    /// Asks what an event asks, and withdraws what was answered elsewhere.
    fn update_questions(&mut self, kind: &EventKind) {
        match kind {
            EventKind::QuestionAsked(question) => {
                self.questions.spawn(&question.id, |withdrawal| {
                    let elicitor = self.options.elicitor(self.app, withdrawal);
                    answer_question(self.client.clone(), elicitor, question.clone())
                });
            }
            EventKind::QuestionAnswered { id, action } => self.questions.withdraw(id, action),
            EventKind::ApprovalRequested(request) => {
                self.questions.spawn(&request.id, |withdrawal| {
                    let (options, app) = (self.options.clone(), self.app.clone());
                    let client = self.client.clone();
                    resolve_approval(client, options, app, request.clone(), withdrawal)
                });
            }
            EventKind::ApprovalResolved { id, answer, .. } => self.questions.withdraw(id, answer),
            _ => {}
        }
    }

    /// Gets the user's attention when a long run ends.
    fn signal_end(&self, kind: &EventKind) {
        if matches!(kind, EventKind::RunEnded { .. })
            && let Some(notification) =
                NotificationKind::from_event(kind, self.notify.min_seconds())
            && let Some(signal) = self.notify.terminal
        {
            let sequence = terminal_sequence(notification, signal);
            self.options.turn.counter().write_signal(&sequence);
        }
    }

    /// Prints an event, or holds it while a question is on the terminal: nothing is written over a
    /// question. Output for scripts on stdout continues.
    fn print_or_hold(&mut self, event: Event) -> io::Result<Option<ExitOutcome>> {
        let waits_for_answers =
            self.args.format() == OutputFormat::Text || self.app.terminal.out.is_terminal();
        // Those that wait come first.
        let must_wait = waits_for_answers && self.options.turn.is_open();
        if !self.held_events.is_empty() || must_wait {
            self.held_events.push_back(event);
            return Ok(None);
        }
        self.printer.print_event(&event)
    }

    /// Prints what arrived before the connection was lost, and returns the error.
    fn report_lost_connection(&mut self) -> io::Result<anyhow::Error> {
        for event in &self.held_events {
            self.printer.print_event(event)?;
        }
        self.printer.finish_interrupted()?;
        let command = follow_up_command(self.args, "sessions show", self.session_key);
        Ok(anyhow::anyhow!(
            "lost the connection to the gateway during the run; when it is back, run `{command}` to see the result"
        ))
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
    options: TerminalPromptOptions,
    app: AppContext,
    request: ApprovalRequest,
    withdrawal: WithdrawalNote,
) {
    let (id, answer) = options.resolve_approval(&app, &request, &withdrawal).await;
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
