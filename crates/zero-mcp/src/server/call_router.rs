//! [`McpCallRouter`], which leads from a call to the request that made it.
//!
//! A host asks questions and reports progress by the id of a call; a client is reached through the
//! request that made the call. The router knows which belongs to which while the call runs. It is
//! created before the host, because the host needs an approver, and every call on the server adds
//! its route.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ProtocolVersion,
};
use tokio::sync::{mpsc, oneshot, watch};
use zero_core::CallId;

/// Maximum number of questions of one call that wait.
const QUESTIONS_WAITING_MAX: usize = 4;

/// The routes of all running calls.
#[derive(Default)]
pub struct McpCallRouter {
    lines: Mutex<HashMap<CallId, Arc<McpCallRoute>>>,
}

/// How to reach the client of one call.
pub(super) struct McpCallRoute {
    pub(super) elicitation_support: ElicitationSupport,
    questions: mpsc::Sender<ClientQuestion>,
    pub(super) progress: watch::Sender<String>,
}

/// What a client can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ElicitationSupport {
    /// It can show a form.
    pub(super) forms: bool,
    /// It can send the user to a web page.
    pub(super) pages: bool,
    /// How choices are written in a form.
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
    /// Determines what a client with this version and these capabilities can be asked.
    pub(super) fn from_capabilities(
        version: Option<&ProtocolVersion>,
        capabilities: Option<&ClientCapabilities>,
    ) -> Self {
        let elicitation = capabilities.and_then(|declared| declared.elicitation.as_ref());
        let pages = elicitation.is_some_and(|modes| modes.url.is_some());
        // A client that names no mode supports forms.
        let forms = elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        let old = version.is_some_and(|version| *version < ProtocolVersion::V_2025_11_25);
        Self { forms, pages, choices: if old { ChoiceStyle::Named } else { ChoiceStyle::Titled } }
    }

    /// Whether it can be asked anything.
    pub(super) fn can_elicit(self) -> bool {
        self.forms || self.pages
    }
}

/// A question to a client. `answer` is closed if the call no longer waits for it.
pub(super) struct ClientQuestion {
    pub(super) params: ElicitRequestParams,
    pub(super) answer: oneshot::Sender<ElicitResult>,
}

/// The receiving end of a route, held by the request.
pub(super) struct McpCallRouteReceiver {
    pub(super) questions: mpsc::Receiver<ClientQuestion>,
    pub(super) progress_messages: watch::Receiver<String>,
    _entry: McpCallRouteGuard,
}

/// Removes a route when its call has ended.
struct McpCallRouteGuard {
    router: Arc<McpCallRouter>,
    call: CallId,
}

impl McpCallRouter {
    /// Creates a router without routes.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds the route of a call; it exists until the receiver is dropped.
    pub(super) fn open_route(
        self: &Arc<Self>,
        call: CallId,
        elicitation_support: ElicitationSupport,
    ) -> McpCallRouteReceiver {
        let (questions, asked) = mpsc::channel(QUESTIONS_WAITING_MAX);
        let (progress, receiver) = watch::channel(String::new());
        self.routes().insert(
            call.clone(),
            Arc::new(McpCallRoute { elicitation_support, questions, progress }),
        );
        let entry = McpCallRouteGuard { router: Arc::clone(self), call };
        McpCallRouteReceiver { questions: asked, progress_messages: receiver, _entry: entry }
    }

    /// Returns the route of a running call.
    pub(super) fn route(&self, call: &CallId) -> Option<Arc<McpCallRoute>> {
        self.routes().get(call).cloned()
    }

    /// Returns the route if there is exactly one, for a question that names no call.
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
    /// Asks the client a question; cancelled if the request has ended.
    pub(super) async fn ask(&self, params: ElicitRequestParams) -> ElicitResult {
        let (answer, answered) = oneshot::channel();
        let cancelled = || ElicitResult::new(ElicitationAction::Cancel);
        if self.questions.send(ClientQuestion { params, answer }).await.is_err() {
            return cancelled();
        }
        answered.await.unwrap_or_else(|_| cancelled())
    }
}

impl Drop for McpCallRouteGuard {
    fn drop(&mut self) {
        self.router.routes().remove(&self.call);
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
        let elicitation_support =
            ElicitationSupport::from_capabilities(Some(&version), Some(&declared));
        assert_eq!(
            elicitation_support,
            ElicitationSupport { forms, pages, choices },
            "{version} {capabilities}"
        );
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
        let router = McpCallRouter::new();
        let elicitation_support =
            ElicitationSupport { forms: true, pages: false, choices: ChoiceStyle::Titled };
        let call = CallId::from_bits(1);
        let end = router.open_route(call.clone(), elicitation_support);
        let line = router.route(&call).unwrap();
        assert!(router.only_route().is_some());
        let second = router.open_route(CallId::from_bits(2), elicitation_support);
        assert!(router.only_route().is_none(), "ambiguous with two routes");
        drop((end, second));
        assert!(router.route(&call).is_none());
        let params = super::super::mcp_approver::form_request(
            "?",
            ElicitationSchema::new(Default::default()),
        );
        assert_eq!(line.ask(params).await.action, ElicitationAction::Cancel);
    }
}
