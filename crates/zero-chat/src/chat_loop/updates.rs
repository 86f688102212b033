//! What the session reports.

use tokio::time::Instant;
use zero_client::GatewayUpdate;
use zero_core::event::{Event, EventKind};

use super::{ChatLoop, WatchedRun};

impl ChatLoop {
    pub(super) fn handle_update(&mut self, update: GatewayUpdate) {
        match update {
            GatewayUpdate::Entry(event) => self.handle_entry(&event),
            GatewayUpdate::Disconnected => {
                self.status.is_disconnected = true;
                self.paint_soon();
            }
            GatewayUpdate::Reconnected => {
                self.status.is_disconnected = false;
                self.paint_soon();
            }
            GatewayUpdate::Lost(error) => {
                let rest = self.transcript.finish();
                self.print(&rest);
                self.active_run = None;
                self.notice(&format!(
                    "the connection to the gateway is lost: {error}; send a prompt to try again"
                ));
            }
            GatewayUpdate::Unrecorded(run) => {
                if run.is_abandoned {
                    let rest = self.transcript.finish();
                    self.print(&rest);
                    self.handle_run_end(Some(&run.run_id));
                }
                self.notice(&run.message);
            }
            GatewayUpdate::Displaced { host } => self.notice(&format!(
                "{host} runs the tools of this session now; this chat only shows what happens"
            )),
        }
    }

    fn handle_entry(&mut self, event: &Event) {
        let run = event.run.as_ref().map(|run| run.as_str().to_owned());
        match &event.kind {
            EventKind::RunStarted { parent: None, .. } => {
                if let Some(id) = run {
                    self.active_run = Some(WatchedRun { id, since: Instant::now() });
                }
            }
            EventKind::RunEnded { .. } => self.handle_run_end(run.as_deref()),
            EventKind::QuestionAsked(question) => self.spawn_question(question.clone()),
            EventKind::QuestionAnswered { id, action } => self.withdraw_question(id, action),
            EventKind::ApprovalRequested(request) => self.spawn_approval(request.clone()),
            EventKind::ApprovalResolved { id, answer, .. } => self.withdraw_question(id, answer),
            EventKind::Changed { field, value } if field == "mode" => {
                self.spawn_ledger_mode(value.as_deref(), event.seq);
            }
            _ => {}
        }
        let lines = self.transcript.apply(event);
        if self.is_plain()
            && let Some(title) = begun_call(&event.kind)
        {
            self.print(&lines);
            self.announce_call(title);
            return;
        }
        if matches!(event.kind, EventKind::Changed { .. }) {
            self.spawn_status_program();
        }
        self.print(&lines);
        self.paint_soon();
    }

    fn handle_run_end(&mut self, run: Option<&str>) {
        let is_active = self.active_run.as_ref().is_some_and(|active| Some(&*active.id) == run);
        let Some(active) = self.active_run.take_if(|_| is_active) else { return };
        self.status.hint = None;
        self.spawn_branch_lookup();
        self.spawn_status_program();
        self.files = None;
        let took = active.since.elapsed().as_secs();
        if !self.focus.is_known()
            && took >= self.config.signals.min_seconds
            && let Some(signal) = &self.config.signals.run_end
        {
            // Without a terminal, it is not needed.
            let _ = self.config.stream.write(signal);
        }
    }

    /// Stops the run that answers now; false if there is none.
    pub(super) fn stop_run(&mut self) -> bool {
        let Some(run) = self.active_run.as_ref().map(|run| run.id.clone()) else { return false };
        self.spawn_abort(run);
        true
    }
}

/// The title of a call that begins, once it has one: at first, only the name of its tool is known.
fn begun_call(kind: &EventKind) -> Option<&str> {
    match kind {
        EventKind::ToolStarted { name, title, .. } if title != name => Some(title),
        EventKind::ToolUpdated { title, .. } => title.as_deref(),
        _ => None,
    }
}
