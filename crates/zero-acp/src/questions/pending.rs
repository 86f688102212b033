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

    /// Takes questions back.
    pub(super) fn withdraw_those(&mut self, which: impl Fn(&str, &Subject) -> bool) -> Withdrawn {
        let taken = self.waiting.extract_if(|id, (subject, _)| which(id, subject));
        Withdrawn { questions: taken.map(|(id, (_, task))| (id, task)).collect() }
    }
}

/// Questions that were taken back. Whoever waits for an answer is told no when this is dropped.
#[must_use = "whoever waits is told no as soon as it is dropped"]
pub(crate) struct Withdrawn {
    questions: Vec<(String, AbortHandle)>,
}

impl Withdrawn {
    /// Which they were.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.questions.iter().map(|(id, _)| id.clone()).collect()
    }
}

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.questions.iter().for_each(|(_, task)| task.abort());
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
        let withdrawn = pending.withdraw_those(|_, subject| *subject == run("r1"));
        assert_eq!(withdrawn.ids(), ["a"]);
        let waits = answers.get_mut("a").unwrap().try_recv();
        assert_eq!(waits, Err(oneshot::error::TryRecvError::Empty), "not before it is dropped");
        drop(withdrawn);
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
        drop(pending.withdraw_those(|id, _| id == "0"));
        assert_eq!(more(&mut pending), Room::Found);
    }
}
