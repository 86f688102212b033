//! Which request a question of a call belongs to.
//!
//! A host asks and tells by the id of a call; a client is reached through the request that made it.
//! The switchboard knows which is which for as long as the call runs. It is made before the host,
//! because the host is given an approver, and bound to a server by every call that is made there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ProtocolVersion,
};
use tokio::sync::{mpsc, oneshot, watch};
use zero_core::CallId;

/// Questions of one call that wait for their turn.
const QUESTIONS_WAITING_MAX: usize = 4;

/// Leads from a call to the request that made it.
#[derive(Default)]
pub struct McpCallRouter {
    lines: Mutex<HashMap<CallId, Arc<McpCallRoute>>>,
}

/// How the client of one call is reached.
pub(super) struct McpCallRoute {
    pub(super) reach: ElicitationSupport,
    questions: mpsc::Sender<ClientQuestion>,
    pub(super) news: watch::Sender<String>,
}

/// What a client can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ElicitationSupport {
    /// It can fill in a form.
    pub(super) forms: bool,
    /// It can send a person to a page.
    pub(super) pages: bool,
    /// How it wants choices to be written.
    pub(super) choices: ChoiceStyle,
}

/// How the names of choices are written in a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChoiceStyle {
    /// `enumNames` beside `enum`, as in 2025-06-18.
    Named,
    /// `oneOf` with titles, since 2025-11-25.
    Titled,
}

impl ElicitationSupport {
    /// What a client of this version can be asked that declared these.
    pub(super) fn from_capabilities(
        version: Option<&ProtocolVersion>,
        capabilities: Option<&ClientCapabilities>,
    ) -> Self {
        let elicitation = capabilities.and_then(|declared| declared.elicitation.as_ref());
        let pages = elicitation.is_some_and(|modes| modes.url.is_some());
        // One that names no mode means forms.
        let forms = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        let old = version.is_some_and(|version| *version < ProtocolVersion::V_2025_11_25);
        Self { forms, pages, choices: if old { ChoiceStyle::Named } else { ChoiceStyle::Titled } }
    }

    /// Whether it can be asked anything.
    pub(super) fn can_elicit(self) -> bool {
        self.forms || self.pages
    }
}

/// One question to a client. Whoever asked may give up, which closes `answer`.
pub(super) struct ClientQuestion {
    pub(super) params: ElicitRequestParams,
    pub(super) answer: oneshot::Sender<ElicitResult>,
}

/// The side of a line that the request holds.
pub(super) struct McpCallRouteReceiver {
    pub(super) questions: mpsc::Receiver<ClientQuestion>,
    pub(super) news: watch::Receiver<String>,
    _entry: McpCallRouteGuard,
}

/// Takes a line off the board when its call is over.
struct McpCallRouteGuard {
    board: Arc<McpCallRouter>,
    call: CallId,
}

impl McpCallRouter {
    /// A board without lines.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Opens the line of a call; it stays for as long as the end is kept.
    pub(super) fn open_route(
        self: &Arc<Self>,
        call: CallId,
        reach: ElicitationSupport,
    ) -> McpCallRouteReceiver {
        let (questions, asked) = mpsc::channel(QUESTIONS_WAITING_MAX);
        let (news, heard) = watch::channel(String::new());
        self.routes().insert(call.clone(), Arc::new(McpCallRoute { reach, questions, news }));
        let entry = McpCallRouteGuard { board: Arc::clone(self), call };
        McpCallRouteReceiver { questions: asked, news: heard, _entry: entry }
    }

    /// The line of a call that runs.
    pub(super) fn route(&self, call: &CallId) -> Option<Arc<McpCallRoute>> {
        self.routes().get(call).cloned()
    }

    /// The only line there is, for a question that does not say which call it is about.
    pub(super) fn only_route(&self) -> Option<Arc<McpCallRoute>> {
        let lines = self.routes();
        let mut all = lines.values();
        all.next().filter(|_| lines.len() == 1).cloned()
    }

    fn routes(&self) -> MutexGuard<'_, HashMap<CallId, Arc<McpCallRoute>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl McpCallRoute {
    /// Puts a question to the client; cancelled when nobody is there any more who could answer.
    pub(super) async fn ask(&self, params: ElicitRequestParams) -> ElicitResult {
        let (answer, answered) = oneshot::channel();
        let nobody = || ElicitResult::new(ElicitationAction::Cancel);
        if self.questions.send(ClientQuestion { params, answer }).await.is_err() {
            return nobody();
        }
        answered.await.unwrap_or_else(|_| nobody())
    }
}

impl Drop for McpCallRouteGuard {
    fn drop(&mut self) {
        self.board.routes().remove(&self.call);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ElicitationSchema;

    use super::*;

    #[track_caller]
    fn check(version: &str, capabilities: &str, forms: bool, pages: bool, choices: ChoiceStyle) {
        let version: ProtocolVersion = serde_json::from_value(version.into()).unwrap();
        let declared: ClientCapabilities = serde_json::from_str(capabilities).unwrap();
        let reach = ElicitationSupport::from_capabilities(Some(&version), Some(&declared));
        assert_eq!(reach, ElicitationSupport { forms, pages, choices }, "{version} {capabilities}");
    }

    #[test]
    fn client_is_asked_only_what_it_declared() {
        use ChoiceStyle::{Named, Titled};
        check("2025-06-18", "{}", false, false, Named);
        check("2025-06-18", r#"{"elicitation":{}}"#, true, false, Named);
        check("2025-11-25", r#"{"elicitation":{}}"#, true, false, Titled);
        check("2025-11-25", r#"{"elicitation":{"url":{}}}"#, false, true, Titled);
        check("2026-07-28", r#"{"elicitation":{"form":{},"url":{}}}"#, true, true, Titled);
        check("2026-07-28", r#"{"sampling":{}}"#, false, false, Titled);
    }

    #[tokio::test]
    async fn route_and_its_questions_end_with_the_call() {
        let board = McpCallRouter::new();
        let reach = ElicitationSupport { forms: true, pages: false, choices: ChoiceStyle::Titled };
        let call = CallId::from_bits(1);
        let end = board.open_route(call.clone(), reach);
        let line = board.route(&call).unwrap();
        assert!(board.only_route().is_some());
        let second = board.open_route(CallId::from_bits(2), reach);
        assert!(board.only_route().is_none(), "nobody knows which of two is meant");
        drop((end, second));
        assert!(board.route(&call).is_none());
        let params = super::super::mcp_approver::form_request(
            "?",
            ElicitationSchema::new(Default::default()),
        );
        assert_eq!(line.ask(params).await.action, ElicitationAction::Cancel);
    }
}
