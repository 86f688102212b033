//! Connections that wait until the user has answered.
//!
//! A command that connects to a host that was not judged does not fail at once: the proxy holds its
//! connection, and the call's [`ConnectionApprover`] asks. There is one question per host and call;
//! other connections to the same host wait for the same answer, and the answer is kept for the call.
//! A question stays open if its connection gives up: clients that try again find the answer. It is
//! withdrawn when the call ends.
//!
//! Nothing is looked up or connected before the answer: a name that is only resolved carries data
//! already. And an answer opens nothing that a rule denies: after it, the connection is judged again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use zero_policy::{ConnectDeniedError, HostName, is_web_port};

use super::proxy_request::ConnectTarget;

/// Most connections of a call that wait at once.
const HELD_MAX: usize = 32;
/// Most questions of a call. A user would not read more of them.
const QUESTIONS_MAX: usize = 16;
/// Most questions of a call that are answered with no, or not at all. Who said it that often is not
/// asked again.
const REFUSALS_MAX: usize = 3;

/// Asks the user about a connection of one call.
pub trait ConnectionApprover: Send + Sync {
    /// Whether the user can still be asked. Once false, it stays so.
    fn is_open(&self) -> bool;

    /// Asks the question. Dropping the future withdraws it, and so does the end of the call.
    fn ask(&self, question: ConnectionQuestion) -> BoxFuture<'static, ConnectionAnswer>;
}

/// A question whether a connection may be made.
#[derive(Clone, Debug)]
pub struct ConnectionQuestion {
    /// The host and port.
    pub target: ConnectTarget,
    /// Why the connection is not allowed without the user.
    pub refusal: ConnectDeniedError,
    /// Whether a grant or rule for the host would allow the connection.
    pub is_grantable: bool,
    /// The number of other calls whose commands may have opened the connection.
    pub other_calls: usize,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionAnswer {
    /// Whether the connection may be made, or why not.
    pub decision: Result<(), ConnectDeniedError>,
    /// Who answered what, for the audit log; `None` if the user was not asked.
    pub answer_source: Option<String>,
    /// The grants that the answer created for the session, as rules.
    pub grants: Vec<String>,
}

impl ConnectionAnswer {
    /// A missing answer.
    pub fn unasked(refusal: ConnectDeniedError) -> Self {
        Self { decision: Err(refusal), answer_source: None, grants: Vec::new() }
    }
}

type SharedAnswer = Shared<BoxFuture<'static, ConnectionAnswer>>;

/// The questions of one call.
pub struct HeldConnections {
    approver: Arc<dyn ConnectionApprover>,
    state: Arc<Mutex<QuestionState>>,
}

#[derive(Default)]
struct QuestionState {
    hosts: Vec<(AnswerScope, HostQuestion)>,
    held: usize,
    questions: usize,
    refusals: usize,
}

/// What one answer covers: a host on the web ports, or on one other port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AnswerScope {
    host: HostName,
    port: Option<u16>,
}

enum HostQuestion {
    Asking { target: ConnectTarget, since: Instant, answer: SharedAnswer },
    Answered(ConnectionAnswer),
}

impl AnswerScope {
    fn new(target: &ConnectTarget) -> Self {
        let ConnectTarget { host, port } = target;
        Self { host: host.clone(), port: Some(*port).filter(|port| !is_web_port(*port)) }
    }
}

impl HeldConnections {
    /// The questions of a call that this approver answers.
    pub fn new(approver: Arc<dyn ConnectionApprover>) -> Self {
        Self { approver, state: Arc::default() }
    }

    /// Whether the user can still be asked.
    pub(super) fn is_open(&self) -> bool {
        self.approver.is_open()
    }

    /// Whether the user approved connections to this host and port.
    pub(super) fn is_approved(&self, target: &ConnectTarget) -> bool {
        let scope = AnswerScope::new(target);
        lock(&self.state).hosts.iter().any(|(host, state)| {
            matches!(state, HostQuestion::Answered(ConnectionAnswer { decision: Ok(()), .. }) if *host == scope)
        })
    }

    /// The targets whose questions are open, and for how long they are.
    pub(super) fn open_questions(&self) -> Vec<(ConnectTarget, Duration)> {
        let open = |state: &HostQuestion| match state {
            HostQuestion::Asking { target, since, .. } => Some((target.clone(), since.elapsed())),
            HostQuestion::Answered(_) => None,
        };
        lock(&self.state).hosts.iter().filter_map(|(_, state)| open(state)).collect()
    }

    /// Waits for the answer about a connection. If a bound is reached, the user is not asked, and the
    /// connection stays refused.
    pub(super) async fn wait_for_answer(&self, question: ConnectionQuestion) -> ConnectionAnswer {
        let refusal = question.refusal.clone();
        match self.join(question) {
            AnswerWait::Answered(answer) => answer,
            AnswerWait::Waiting(answer, _held) => answer.await,
            AnswerWait::Refused => ConnectionAnswer::unasked(refusal),
        }
    }

    /// Takes the answers that came after the connections that waited for them had given up. An answer
    /// is taken by the connection that waits for it, and a refusal counts even if none does.
    fn take_late_answers(&self) {
        let state = lock(&self.state);
        let asking = state.hosts.iter().filter_map(|(_, state)| match state {
            HostQuestion::Asking { answer, .. } => Some(answer.clone()),
            HostQuestion::Answered(_) => None,
        });
        let asking: Vec<SharedAnswer> = asking.collect();
        // The task that receives an answer locks the state.
        drop(state);
        for answer in asking {
            let _ = answer.now_or_never();
        }
    }

    fn join(&self, question: ConnectionQuestion) -> AnswerWait {
        self.take_late_answers();
        let host = AnswerScope::new(&question.target);
        let mut state = lock(&self.state);
        let known = state.hosts.iter().find(|(known, _)| *known == host);
        let asking = match known {
            Some((_, HostQuestion::Answered(answer))) => {
                return AnswerWait::Answered(answer.clone());
            }
            Some((_, HostQuestion::Asking { answer, .. })) => Some(answer.clone()),
            None => None,
        };
        if state.held >= HELD_MAX {
            return AnswerWait::Refused;
        }
        let answer = match asking {
            Some(answer) => answer,
            None if state.questions >= QUESTIONS_MAX || state.refusals >= REFUSALS_MAX => {
                return AnswerWait::Refused;
            }
            None => {
                state.questions += 1;
                let target = question.target.clone();
                let answer = self.ask(question, host.clone());
                let (since, asked) = (Instant::now(), answer.clone());
                state.hosts.push((host, HostQuestion::Asking { target, since, answer: asked }));
                answer
            }
        };
        state.held += 1;
        AnswerWait::Waiting(answer, HeldGuard { state: Arc::clone(&self.state) })
    }

    /// Asks, and keeps the answer for the call.
    fn ask(&self, question: ConnectionQuestion, host: AnswerScope) -> SharedAnswer {
        let (approver, state) = (Arc::clone(&self.approver), Arc::clone(&self.state));
        let answer = async move {
            let answer = approver.ask(question).await;
            let mut state = lock(&state);
            state.refusals += usize::from(answer.decision.is_err());
            if let Some((_, kept)) = state.hosts.iter_mut().find(|(known, _)| *known == host) {
                *kept = HostQuestion::Answered(answer.clone());
            }
            answer
        };
        answer.boxed().shared()
    }
}

impl Drop for HeldConnections {
    fn drop(&mut self) {
        // Open questions hold the state, and the state holds them.
        drop(std::mem::take(&mut lock(&self.state).hosts));
    }
}

/// What a connection has to do.
enum AnswerWait {
    Answered(ConnectionAnswer),
    Waiting(SharedAnswer, HeldGuard),
    Refused,
}

/// One of the connections that wait.
struct HeldGuard {
    state: Arc<Mutex<QuestionState>>,
}

impl Drop for HeldGuard {
    fn drop(&mut self) {
        lock(&self.state).held -= 1;
    }
}

fn lock(state: &Mutex<QuestionState>) -> MutexGuard<'_, QuestionState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// A user who answers later.
    #[derive(Default)]
    struct LateApprover {
        asked: Mutex<Vec<oneshot::Sender<()>>>,
    }

    impl ConnectionApprover for LateApprover {
        fn is_open(&self) -> bool {
            true
        }

        fn ask(&self, question: ConnectionQuestion) -> BoxFuture<'static, ConnectionAnswer> {
            let (reply, answer) = oneshot::channel();
            self.asked.lock().unwrap().push(reply);
            async move {
                let _ = answer.await;
                ConnectionAnswer::unasked(question.refusal)
            }
            .boxed()
        }
    }

    fn question(host: &str) -> ConnectionQuestion {
        ConnectionQuestion {
            target: ConnectTarget { host: HostName::from_host(host).unwrap(), port: 443 },
            refusal: ConnectDeniedError::NoRule,
            is_grantable: true,
            other_calls: 0,
        }
    }

    #[test]
    fn refusal_counts_after_its_client_gave_up() {
        let user = Arc::new(LateApprover::default());
        let connections = HeldConnections::new(Arc::clone(&user) as Arc<dyn ConnectionApprover>);
        for number in 0..REFUSALS_MAX {
            let host = format!("h{number}.test");
            // The client gives up at once, and then the user says no.
            assert_eq!(connections.wait_for_answer(question(&host)).now_or_never(), None);
            user.asked.lock().unwrap().pop().unwrap().send(()).unwrap();
        }
        let answer = connections.wait_for_answer(question("last.test")).now_or_never();
        assert_eq!(answer, Some(ConnectionAnswer::unasked(ConnectDeniedError::NoRule)));
        assert!(user.asked.lock().unwrap().is_empty(), "nobody was asked again");
    }
}
