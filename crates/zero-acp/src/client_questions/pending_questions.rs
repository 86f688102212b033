//! The questions of a session that wait for an answer. Each runs in a task of its own and ends with
//! its subject. On withdrawal the client request ends at once; the asker is released later, after
//! the gateway has been notified.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use zero_core::RunId;

/// Questions that may wait. Further ones are refused.
const WAITING_MAX: usize = 64;

/// What a question belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuestionSubject {
    /// A run at the gateway; `None` if its id is not known.
    Run(Option<RunId>),
    /// A call of the tools hosted here.
    Call(String),
    /// The asker did not say.
    Unknown,
}

/// Whether a question was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionAdmission {
    Admitted,
    Full,
}

/// Withdraws all questions of a session as soon as the client cancels: the session's task may have
/// many messages to handle before the cancel message.
#[derive(Default)]
pub(crate) struct QuestionCanceller(Mutex<CancellationToken>);

impl QuestionCanceller {
    /// Withdraws every question that was asked before.
    pub(crate) fn cancel_all(&self) {
        std::mem::take(&mut *self.lock_token()).cancel();
    }

    fn lock_token(&self) -> MutexGuard<'_, CancellationToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pending questions of a session.
pub(super) struct PendingQuestions {
    stops: Arc<QuestionCanceller>,
    waiting: HashMap<String, PendingEntry>,
    /// Number of questions asked so far.
    next_id: u64,
}

struct PendingEntry {
    number: u64,
    subject: QuestionSubject,
    taken_back: WithdrawalSignal,
    task: QuestionTaskGuard,
}

/// The task of a question; dropping the guard aborts it.
struct QuestionTaskGuard(AbortHandle);

impl Drop for QuestionTaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A question that waits for its turn: the client shows one at a time.
pub(super) struct QueuedQuestion<Turn, Asked> {
    /// Resolves to a guard that holds the turn.
    pub(super) turn: Turn,
    /// Asks the client; runs while the turn is held.
    pub(super) pending_question: Asked,
}

/// Tells a question's task that the question was withdrawn.
#[derive(Clone)]
pub(super) struct WithdrawalSignal(CancellationToken);

impl WithdrawalSignal {
    /// Waits for the question's turn and then for the client's answer. After a withdrawal nothing is
    /// sent, and an answer is ignored.
    pub(super) async fn run_unless_withdrawn<T>(
        &self,
        question: QueuedQuestion<impl Future, impl Future<Output = T>>,
    ) -> T {
        let answer = async {
            let _turn = question.turn.await;
            // The turn may come because this question and all before it are being withdrawn.
            match self.0.is_cancelled() {
                true => std::future::pending().await,
                false => question.pending_question.await,
            }
        };
        tokio::select! {
            biased;
            () = self.0.cancelled() => {}
            answer = answer => return answer,
        }
        std::future::pending().await
    }
}

impl PendingQuestions {
    pub(super) fn new(stops: Arc<QuestionCanceller>) -> Self {
        Self { stops, waiting: HashMap::new(), next_id: 0 }
    }

    /// Starts the task of a question. If too many questions wait, `question` is dropped uncalled,
    /// and the caller refuses it.
    pub(super) fn spawn_question<Q>(
        &mut self,
        id: String,
        subject: QuestionSubject,
        question: impl FnOnce(WithdrawalSignal) -> Q,
    ) -> QuestionAdmission
    where
        Q: Future<Output = ()> + Send + 'static,
    {
        self.waiting.retain(|_, waiting| !waiting.task.0.is_finished());
        if self.waiting.len() >= WAITING_MAX {
            return QuestionAdmission::Full;
        }
        let taken_back = WithdrawalSignal(self.stops.lock_token().child_token());
        let task = QuestionTaskGuard(tokio::spawn(question(taken_back.clone())).abort_handle());
        self.next_id += 1;
        self.waiting.insert(id, PendingEntry { number: self.next_id, subject, taken_back, task });
        QuestionAdmission::Admitted
    }

    /// Whether a question waits for its answer.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.waiting.contains_key(id)
    }

    /// Withdraws the matching questions.
    pub(super) fn withdraw_matching(
        &mut self,
        which: impl Fn(&str, &QuestionSubject) -> bool,
    ) -> WithdrawnQuestions {
        let expired = self.waiting.extract_if(|id, waiting| which(id, &waiting.subject));
        let mut taken: Vec<(String, PendingEntry)> = expired.collect();
        taken.sort_unstable_by_key(|(_, waiting)| waiting.number);
        // Newest first: when an older question releases its turn, the newer ones are already
        // withdrawn.
        for (_, waiting) in taken.iter().rev() {
            waiting.taken_back.0.cancel();
        }
        let questions = taken.into_iter().map(|(id, waiting)| (id, waiting.task)).collect();
        WithdrawnQuestions { questions }
    }
}

/// Questions that were withdrawn from the client. Dropping this releases their askers, without an
/// answer.
#[must_use = "dropping it releases everyone who waits for an answer"]
pub(crate) struct WithdrawnQuestions {
    questions: Vec<(String, QuestionTaskGuard)>,
}

impl WithdrawnQuestions {
    /// Ids of the questions.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.questions.iter().map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};

    use tokio::sync::oneshot;

    use super::*;

    /// A question whose turn it is.
    fn first_in_turn<Asked>(asked: Asked) -> QueuedQuestion<Ready<()>, Asked> {
        QueuedQuestion { turn: ready(()), pending_question: asked }
    }

    #[tokio::test]
    async fn withdraw_matching_withdraws_only_matches() {
        let mut pending = PendingQuestions::new(Arc::default());
        let run = |name: &str| QuestionSubject::Run(Some(RunId::new(name).unwrap()));
        let subjects =
            [("a", run("r1")), ("b", run("r2")), ("c", QuestionSubject::Call("c1".to_owned()))];
        let mut answers = HashMap::new();
        for (id, subject) in subjects {
            let (reply, answer) = oneshot::channel::<()>();
            let question = |taken_back: WithdrawalSignal| async move {
                taken_back.run_unless_withdrawn(first_in_turn(std::future::pending::<()>())).await;
                drop(reply);
            };
            assert_eq!(
                pending.spawn_question(id.to_owned(), subject, question),
                QuestionAdmission::Admitted
            );
            answers.insert(id, answer);
        }
        let withdrawn = pending.withdraw_matching(|_, subject| *subject == run("r1"));
        assert_eq!(withdrawn.ids(), ["a"]);
        tokio::task::yield_now().await;
        let waits = answers.get_mut("a").unwrap().try_recv();
        assert_eq!(waits, Err(oneshot::error::TryRecvError::Empty), "not before it is dropped");
        drop(withdrawn);
        assert!(answers.remove("a").unwrap().await.is_err(), "whoever waits is told");
        assert!(!pending.contains("a") && pending.contains("b") && pending.contains("c"));
        for answer in answers.values_mut() {
            assert!(
                answer.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
            );
        }
    }

    async fn never(taken_back: WithdrawalSignal) {
        taken_back.run_unless_withdrawn(first_in_turn(std::future::pending())).await
    }

    /// A pending request holds locks that others wait for, such as the next question's turn.
    #[tokio::test]
    async fn withdraw_stops_client_request_immediately() {
        let mut pending = PendingQuestions::new(Arc::default());
        let (asked, mut gone) = oneshot::channel::<()>();
        let (reply, mut answer) = oneshot::channel::<()>();
        let question = |taken_back: WithdrawalSignal| async move {
            taken_back
                .run_unless_withdrawn(first_in_turn(async {
                    std::future::pending::<()>().await;
                    drop(asked);
                }))
                .await;
            let _ = reply.send(());
        };
        assert_eq!(
            pending.spawn_question("a".to_owned(), QuestionSubject::Unknown, question),
            QuestionAdmission::Admitted
        );
        tokio::task::yield_now().await;
        let withdrawn = pending.withdraw_matching(|_, _| true);
        assert!((&mut gone).await.is_err(), "it is dropped");
        assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop(withdrawn);
        assert!(answer.await.is_err(), "let go without an answer");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn withdrawn_questions_do_not_get_their_turn() {
        use tokio::sync::Mutex;
        use zero_runtime::ordered_lock::queue_for_lock;

        for _ in 0..200 {
            let mut pending = PendingQuestions::new(Arc::default());
            let (turn, asked) = (Arc::<Mutex<()>>::default(), Arc::new(Mutex::new(Vec::new())));
            let (first, is_first_asked) = oneshot::channel();
            let mut first = Some(first);
            for number in 0..WAITING_MAX {
                let (turn_permit, asked, first) =
                    (queue_for_lock(&turn), Arc::clone(&asked), first.take());
                let question = |taken_back: WithdrawalSignal| async move {
                    let ask = async {
                        asked.lock().await.push(number);
                        if let Some(first) = first {
                            first.send(()).unwrap();
                        }
                        std::future::pending::<()>().await;
                    };
                    let queued = QueuedQuestion { turn: turn_permit, pending_question: ask };
                    taken_back.run_unless_withdrawn(queued).await;
                };
                pending.spawn_question(number.to_string(), QuestionSubject::Unknown, question);
            }
            is_first_asked.await.unwrap();
            drop(pending.withdraw_matching(|_, _| true));
            // The queue is empty when the lock is free.
            drop(turn.lock().await);
            assert_eq!(*asked.lock().await, [0]);
        }
    }

    #[tokio::test]
    async fn answer_after_withdrawal_is_ignored() {
        let taken_back = WithdrawalSignal(CancellationToken::new());
        taken_back.0.cancel();
        let late = tokio::time::timeout(
            std::time::Duration::ZERO,
            taken_back.run_unless_withdrawn(first_in_turn(ready(1))),
        );
        assert!(late.await.is_err());
    }

    #[tokio::test]
    async fn cancel_withdraws_earlier_questions_only() {
        let stops = Arc::new(QuestionCanceller::default());
        let mut pending = PendingQuestions::new(Arc::clone(&stops));
        let mut answers = Vec::new();
        for name in ["a", "b"] {
            let (reply, answer) = oneshot::channel();
            let question = |taken_back: WithdrawalSignal| async move {
                let _ =
                    reply.send(taken_back.run_unless_withdrawn(first_in_turn(ready(name))).await);
            };
            assert_eq!(
                pending.spawn_question(name.to_owned(), QuestionSubject::Unknown, question),
                QuestionAdmission::Admitted
            );
            if name == "a" {
                stops.cancel_all();
            }
            answers.push(answer);
        }
        assert_eq!(answers.pop().unwrap().await, Ok("b"));
        let waits = answers[0].try_recv();
        assert_eq!(waits, Err(oneshot::error::TryRecvError::Empty), "it is let go later");
        drop(pending);
        assert!(answers.remove(0).await.is_err());
    }

    #[tokio::test]
    async fn question_with_same_id_replaces_previous() {
        let mut pending = PendingQuestions::new(Arc::default());
        let (reply, answer) = oneshot::channel::<()>();
        let question = |taken_back: WithdrawalSignal| async move {
            never(taken_back).await;
            drop(reply);
        };
        assert_eq!(
            pending.spawn_question("a".to_owned(), QuestionSubject::Unknown, question),
            QuestionAdmission::Admitted
        );
        assert_eq!(
            pending.spawn_question("a".to_owned(), QuestionSubject::Unknown, never),
            QuestionAdmission::Admitted
        );
        assert!(answer.await.is_err());
        assert!(pending.contains("a"));
    }

    #[tokio::test]
    async fn pending_questions_are_limited() {
        let mut pending = PendingQuestions::new(Arc::default());
        for number in 0..WAITING_MAX {
            let room = pending.spawn_question(number.to_string(), QuestionSubject::Unknown, never);
            assert_eq!(room, QuestionAdmission::Admitted);
        }
        let more = |pending: &mut PendingQuestions| {
            pending.spawn_question("more".to_owned(), QuestionSubject::Unknown, never)
        };
        assert_eq!(more(&mut pending), QuestionAdmission::Full);
        drop(pending.withdraw_matching(|id, _| id == "0"));
        assert_eq!(more(&mut pending), QuestionAdmission::Admitted);
    }
}
