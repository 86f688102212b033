//! Handles gateway updates of a session and forwards them to the client.

use agent_client_protocol::v1::schema::{self, SessionUpdate};
use zero_client::GatewayUpdate;
use zero_client::wire::RunUnrecorded;
use zero_core::event::{Event, EventKind, RunOutcome, TokenUsage};

use super::SessionActor;
use crate::rpc_error;
use crate::text_sanitizer;
use crate::update_presenter::{self, DeliveryMode};

/// Longest host name that is shown, in characters.
const HOST_CHARS_MAX: usize = 128;

impl SessionActor {
    pub(super) async fn handle_gateway_update(&mut self, update: GatewayUpdate) {
        match update {
            GatewayUpdate::Entry(event) => self.handle_entry(event).await,
            GatewayUpdate::Disconnected => {
                tracing::warn!(session = %self.active.id, "lost the connection to the gateway; reconnecting");
            }
            GatewayUpdate::Reconnected => {
                tracing::info!(session = %self.active.id, "the gateway is back")
            }
            GatewayUpdate::Displaced { host } => {
                tracing::warn!(session = %self.active.id, host, "the tools are hosted elsewhere");
                self.report_displacement(&host).await;
            }
            GatewayUpdate::Unrecorded(run) => self.handle_unrecorded(&run).await,
            GatewayUpdate::Lost(error) => {
                self.withdraw_all_questions().await;
                let updates = self
                    .presenter
                    .abandon_all("the connection to the gateway was lost; the outcome is unknown");
                self.send_updates(updates).await;
                for run in self.pending_runs() {
                    self.fail_prompt(&run, rpc_error::from_link_error(&error));
                }
            }
        }
    }

    /// Tells the user that the end of a run is not recorded; if it never will be, the prompt ends.
    async fn handle_unrecorded(&mut self, run: &RunUnrecorded) {
        if !self.waiting.contains_key(&run.run_id) {
            // Prompts that were sent after a cancelled one wait for its end, too.
            if !self.waiting.is_empty() && !run.is_abandoned {
                let text = format!("this prompt waits for the run before it: {}", run.message);
                self.send_remark(text).await;
            }
            return;
        }
        if !run.is_abandoned {
            return self.send_remark(run.message.clone()).await;
        }
        let updates = self.presenter.abandon_all("the run ended before this call did");
        self.send_updates(updates).await;
        let end = RunOutcome::Failed { kind: "store".to_owned(), message: run.message.clone() };
        let locality = self.active.handle.locality();
        let answer =
            update_presenter::build_response(&end, TokenUsage::default(), &run.run_id, locality);
        self.finish_prompt(&run.run_id, answer);
    }

    /// Reports that another host runs the tools of this session now.
    async fn report_displacement(&mut self, host: &str) {
        let text = format!(
            "`{}` has opened this session, too, and has its tools now: what the agent does, it does \
             there; open the session again to have them here",
            text_sanitizer::visible_line(host, HOST_CHARS_MAX)
        );
        self.send_remark(text).await;
    }

    async fn handle_entry(&mut self, event: Event) {
        // A replay does not include changes, so those that happened in the meantime are sent now.
        if event.seq <= self.sent_until && !matches!(event.kind, EventKind::Changed { .. }) {
            return;
        }
        self.sent_until = self.sent_until.max(event.seq);
        let ours = event.run.as_ref().is_some_and(|run| self.waiting.contains_key(run.as_str()));
        let is_observed = event.run.as_ref().is_some_and(|run| !self.own_runs.contains(run));
        match (&event.run, &event.kind) {
            (Some(run), EventKind::RunEnded { .. }) => {
                self.stopped.remove(run.as_str());
                self.own_runs.remove(run);
            }
            (Some(run), _) => self.stopped.stop_again(run.as_str(), &self.active.handle),
            (None, _) => {}
        }
        if let EventKind::Changed { .. } = event.kind {
            self.handle_change(&event).await;
            return;
        }
        if is_observed {
            return self.present_observed(&event).await;
        }
        // What a prompt of this client does is said in its run.
        match &event.kind {
            EventKind::Reset { transcript } => {
                let text = format!(
                    "the session was reset elsewhere: the agent does not know the conversation so far, which is transcript {transcript}"
                );
                return self.send_remark(text).await;
            }
            EventKind::Rewound { prompt, scope, files, .. } if event.run.is_none() => {
                return self.send_remark(scope.describe_rewind(*prompt, *files)).await;
            }
            _ => {}
        }
        // Of an own run whose prompt is answered, only the ends of calls that were shown are sent.
        let is_shown = matches!(&event.kind, EventKind::ToolEnded { call, .. } if self.presenter.has_shown(call));
        if !ours && !is_shown {
            return;
        }
        match &event.kind {
            EventKind::ApprovalRequested(request) => {
                let (updates, call) =
                    self.presenter.present_run_approval(event.run.as_ref(), request);
                self.send_updates(updates).await;
                self.questions.ask_gateway_permission(event.run.clone(), request, call);
                self.withdraw_stopped_questions().await;
            }
            EventKind::ApprovalResolved { id, answer, .. } => {
                self.questions.withdraw(id);
                self.show_answer(id, answer).await;
            }
            EventKind::QuestionAsked(question) => {
                self.questions.ask_gateway_question(event.run.clone(), question);
                self.withdraw_stopped_questions().await;
            }
            EventKind::QuestionAnswered { id, .. } => {
                self.questions.withdraw(id);
                self.show_answer(id, "cancelled").await;
            }
            EventKind::RunEnded { end, usage } => {
                let remark = self.unheeded.take();
                let remark = remark
                    .map(|text| self.presenter.present_closing_remark(event.run.as_ref(), &text));
                let mut updates: Vec<SessionUpdate> = remark.into_iter().collect();
                updates.extend(self.presenter.present_entry(&event, DeliveryMode::Live));
                self.send_updates(updates).await;
                if let Some(run) = &event.run {
                    let locality = self.active.handle.locality();
                    let answer =
                        update_presenter::build_response(end, *usage, run.as_str(), locality);
                    self.finish_prompt(run.as_str(), answer);
                }
            }
            _ => {
                let updates = self.presenter.present_entry(&event, DeliveryMode::Live);
                self.send_updates(updates).await;
            }
        }
    }

    /// Shows an entry of a run that another client of this session started. Its questions are not
    /// asked here: that client, or the host of the tools, asks them.
    async fn present_observed(&mut self, event: &Event) {
        let updates = self.presenter.present_entry(event, DeliveryMode::Observed);
        let Some(run) = &event.run else { return };
        let is_over = matches!(event.kind, EventKind::RunEnded { .. });
        self.observed_run = Some(run.clone()).filter(|_| !is_over);
        self.to_client.send_observed_updates(&self.active.id, run, updates).await;
    }

    /// Handles a change of mode, model or title by any client.
    async fn handle_change(&mut self, event: &Event) {
        let mut updates = self.presenter.present_entry(event, DeliveryMode::Live);
        if let EventKind::Changed { field, value } = &event.kind
            && field == "mode"
        {
            self.handle_mode_change(value.as_deref(), event.seq).await;
        }
        {
            let mut choices = self.active.options();
            choices.own_mode = self.active.own_mode.chosen_mode();
            let mut info = choices.info.clone();
            if let EventKind::Changed { field, value } = &event.kind {
                match field.as_str() {
                    "mode" => info.mode.clone_from(value),
                    "model" => info.model = value.clone().unwrap_or(info.model),
                    "title" => info.title.clone_from(value),
                    _ => {}
                }
            }
            choices.info = info;
            for update in &mut updates {
                if let SessionUpdate::CurrentModeUpdate(mode_update) = update {
                    mode_update.current_mode_id =
                        schema::SessionModeId::new(choices.mode().as_str());
                }
            }
            updates.push(SessionUpdate::ConfigOptionUpdate(schema::ConfigOptionUpdate::new(
                choices.options(),
            )));
        }
        self.send_updates(updates).await;
    }

    /// Applies a mode change to the tools; tells the user if the mode does not apply here.
    async fn handle_mode_change(&mut self, mode: Option<&str>, seq: u64) {
        let (own_mode, backend) = (&self.active.own_mode, &self.active.backend);
        let chosen = mode.and_then(|mode| mode.parse().ok());
        own_mode.apply_ledger_mode(chosen, seq);
        if let Err(error) = own_mode.apply_to_backend(&**backend).await {
            tracing::warn!(%error, "the mode could not be changed");
        }
        self.unheeded = own_mode.ignored_mode_message(chosen).filter(|_| !self.waiting.is_empty());
    }
}
