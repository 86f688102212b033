//! The questions of a session that wait for an answer, each in a task of its own and with what it is
//! about: when that is over, so is the question.

use std::collections::HashMap;

use tokio::task::AbortHandle;
use zero_core::RunId;

/// Questions that wait. More are answered no.
const WAITING_MAX: usize = 64;

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Something that a run at the gateway wants.
    Run(Option<RunId>),
    /// A call of the tools here.
    Call(String),
    /// Nobody said.
    Unknown,
}

/// Whether there was room for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Found,
    None,
}

/// Those that wait.
#[derive(Default)]
pub(super) struct Pending {
    waiting: HashMap<String, (Subject, AbortHandle)>,
}

impl Pending {
    /// Whoever asks too much at a time is told no: what waits for the answer is dropped.
    pub(super) fn ask(
        &mut self,
        id: String,
        subject: Subject,
        question: impl Future<Output = ()> + Send + 'static,
    ) -> Room {
        self.waiting.retain(|_, (_, task)| !task.is_finished());
        if self.waiting.len() >= WAITING_MAX {
            return Room::None;
        }
        self.waiting.insert(id, (subject, tokio::spawn(question).abort_handle()));
        Room::Found
    }

    /// Whether a question waits for its answer.
    pub(super) fn has(&self, id: &str) -> bool {
        self.waiting.contains_key(id)
    }

    /// Takes questions back; says which they were.
    pub(super) fn withdraw_those(&mut self, which: impl Fn(&str, &Subject) -> bool) -> Vec<String> {
        let taken = self.waiting.extract_if(|id, (subject, _)| which(id, subject));
        let withdraw = |(id, (_, task)): (String, (Subject, AbortHandle))| {
            task.abort();
            id
        };
        taken.map(withdraw).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn those_that_are_about_something_are_taken_back_and_no_others() {
        let mut pending = Pending::default();
        let run = |name: &str| Subject::Run(Some(RunId::new(name).unwrap()));
        let subjects = [("a", run("r1")), ("b", run("r2")), ("c", Subject::Call("c1".to_owned()))];
        let mut answers = HashMap::new();
        for (id, subject) in subjects {
            let (reply, answer) = oneshot::channel::<()>();
            let question = async move {
                std::future::pending::<()>().await;
                drop(reply);
            };
            assert_eq!(pending.ask(id.to_owned(), subject, question), Room::Found);
            answers.insert(id, answer);
        }
        assert_eq!(pending.withdraw_those(|_, subject| *subject == run("r1")), ["a"]);
        assert!(answers.remove("a").unwrap().await.is_err(), "whoever waits is told");
        assert!(!pending.has("a") && pending.has("b") && pending.has("c"));
        for answer in answers.values_mut() {
            assert!(
                answer.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty)
            );
        }
    }

    #[tokio::test]
    async fn there_are_so_many_at_a_time() {
        let mut pending = Pending::default();
        for number in 0..WAITING_MAX {
            let room = pending.ask(number.to_string(), Subject::Unknown, std::future::pending());
            assert_eq!(room, Room::Found);
        }
        let more = |pending: &mut Pending| {
            pending.ask("more".to_owned(), Subject::Unknown, std::future::pending())
        };
        assert_eq!(more(&mut pending), Room::None);
        pending.withdraw_those(|id, _| id == "0");
        assert_eq!(more(&mut pending), Room::Found);
    }
}
