//! What happens at the gateway, as its client is told of it.

use agent_client_protocol::v1::schema::{self, SessionUpdate};
use zero_client::GatewayUpdate;
use zero_core::event::{Event, EventKind};

use super::SessionActor;
use crate::rpc_error;
use crate::text_sanitizer;
use crate::update_presenter::{self, DeliveryMode};

/// How much is shown of the name of another host.
const HOST_CHARS_MAX: usize = 128;

impl SessionActor {
    pub(super) async fn news(&mut self, news: GatewayUpdate) {
        match news {
            GatewayUpdate::Entry(event) => self.entry(event).await,
            GatewayUpdate::Away => {
                tracing::warn!(session = %self.active.id, "the gateway is away; connecting again");
            }
            GatewayUpdate::Back => tracing::info!(session = %self.active.id, "the gateway is back"),
            GatewayUpdate::Displaced { host } => {
                tracing::warn!(session = %self.active.id, host, "the tools are hosted elsewhere");
                self.displaced(&host).await;
            }
            GatewayUpdate::Gone(error) => {
                self.withdraw_all().await;
                let updates =
                    self.presenter.abandon("the gateway is gone; what became of it is not known");
                self.tell(updates).await;
                for run in self.runs() {
                    self.fail(&run, rpc_error::of_link(&error));
                }
            }
        }
    }

    /// Says that the tools of this session are not here any more.
    async fn displaced(&mut self, host: &str) {
        let text = format!(
            "`{}` has opened this session, too, and has its tools now: what the agent does, it does \
             there; open the session again to have them here",
            text_sanitizer::one_line(host, HOST_CHARS_MAX)
        );
        self.remark(text).await;
    }

    async fn entry(&mut self, event: Event) {
        // A replay does not tell of changes: what was changed meanwhile is told now.
        if event.seq <= self.told_until && !matches!(event.what, EventKind::Changed { .. }) {
            return;
        }
        self.told_until = self.told_until.max(event.seq);
        let ours = event.run.as_ref().is_some_and(|run| self.waiting.contains_key(run.as_str()));
        match (&event.run, &event.what) {
            (Some(run), EventKind::RunEnded { .. }) => self.stopped.ended(run.as_str()),
            (Some(run), _) => self.stopped.heard(run.as_str(), &self.active.near),
            (None, _) => {}
        }
        if let EventKind::Changed { .. } = event.what {
            self.changed(&event).await;
            return;
        }
        // Of others' runs nothing is told but the end of calls that were made here, and so were shown.
        let is_shown =
            matches!(&event.what, EventKind::ToolEnded { call, .. } if self.presenter.shows(call));
        if !ours && !is_shown {
            return;
        }
        match &event.what {
            EventKind::ApprovalRequested(request) => {
                let (updates, call) = self.presenter.asked_by(event.run.as_ref(), request);
                self.tell(updates).await;
                self.questions.permission_for_gateway(event.run.clone(), request, call);
                self.withdraw_of_stopped().await;
            }
            EventKind::ApprovalResolved { id, answer, .. } => {
                self.questions.withdraw(id);
                self.answered(id, answer).await;
            }
            EventKind::QuestionAsked(question) => {
                self.questions.question_for_gateway(event.run.clone(), question);
                self.withdraw_of_stopped().await;
            }
            EventKind::QuestionAnswered { id, .. } => {
                self.questions.withdraw(id);
                self.answered(id, "cancelled").await;
            }
            EventKind::RunEnded { end, .. } => {
                let remark = self.unheeded.take();
                let remark =
                    remark.map(|text| self.presenter.closing_remark(event.run.as_ref(), &text));
                let mut updates: Vec<SessionUpdate> = remark.into_iter().collect();
                updates.extend(self.presenter.entry(&event, DeliveryMode::Live));
                self.tell(updates).await;
                if let Some(run) = &event.run {
                    let place = self.active.near.place();
                    let answer = update_presenter::answer(end, run.as_str(), place);
                    self.ended(run.as_str(), answer);
                }
            }
            _ => {
                let updates = self.presenter.entry(&event, DeliveryMode::Live);
                self.tell(updates).await;
            }
        }
    }

    /// Mode, model or title changed, whoever changed it.
    async fn changed(&mut self, event: &Event) {
        let mut updates = self.presenter.entry(event, DeliveryMode::Live);
        if let EventKind::Changed { field, value } = &event.what
            && field == "mode"
        {
            self.mode_changed(value.as_deref(), event.seq).await;
        }
        {
            let mut choices = self.active.choices();
            choices.own_mode = self.active.own_mode.own();
            let mut info = choices.info.clone();
            if let EventKind::Changed { field, value } = &event.what {
                match field.as_str() {
                    "mode" => info.mode.clone_from(value),
                    "model" => info.model = value.clone().unwrap_or(info.model),
                    "title" => info.title.clone_from(value),
                    _ => {}
                }
            }
            choices.info = info;
            for update in &mut updates {
                if let SessionUpdate::CurrentModeUpdate(told) = update {
                    told.current_mode_id = schema::SessionModeId::new(choices.mode().as_str());
                }
            }
            updates.push(SessionUpdate::ConfigOptionUpdate(schema::ConfigOptionUpdate::new(
                choices.options(),
            )));
        }
        self.tell(updates).await;
    }

    /// The tools follow what the person chose; where they do not, that is said.
    async fn mode_changed(&mut self, mode: Option<&str>, seq: u64) {
        let (own_mode, hands) = (&self.active.own_mode, &self.active.hands);
        let chosen = mode.and_then(|mode| mode.parse().ok());
        own_mode.heard(chosen, seq);
        if let Err(error) = own_mode.tell(&**hands).await {
            tracing::warn!(%error, "the mode could not be changed");
        }
        self.unheeded = own_mode.unheeded(chosen).filter(|_| !self.waiting.is_empty());
    }
}
