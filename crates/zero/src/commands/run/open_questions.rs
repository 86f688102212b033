//! Questions of the gateway that this process asks on the terminal. Another client may answer one
//! first.

use tokio::task::AbortHandle;
use zero_runtime::{QuestionWithdrawal, WithdrawalNote};

/// The questions that are asked at present. Dropping it ends their dialogs.
#[derive(Default)]
pub(super) struct OpenQuestions {
    open: Vec<DialogQuestion>,
}

/// A question, and the task that asks it.
struct DialogQuestion {
    id: String,
    withdrawal: WithdrawalNote,
    task: AbortHandle,
}

impl OpenQuestions {
    /// Asks a question in a task of its own.
    pub(super) fn spawn<F>(&mut self, id: &str, ask: impl FnOnce(WithdrawalNote) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.open.retain(|question| !question.task.is_finished());
        let withdrawal = WithdrawalNote::default();
        let task = tokio::spawn(ask(withdrawal.clone())).abort_handle();
        self.open.push(DialogQuestion { id: id.to_owned(), withdrawal, task });
    }

    /// Withdraws a question after the gateway reported its answer. One that was answered here has ended
    /// already.
    pub(super) fn withdraw(&mut self, id: &str, answer: &str) {
        let reason = match answer {
            "cancel" | "cancelled" => QuestionWithdrawal::CallCancelled,
            "expired" => QuestionWithdrawal::Expired,
            _ => QuestionWithdrawal::AnsweredElsewhere,
        };
        for question in self.open.extract_if(.., |question| question.id == id) {
            question.withdrawal.set(reason);
            question.task.abort();
        }
    }
}

impl Drop for OpenQuestions {
    fn drop(&mut self) {
        self.open.iter().for_each(|question| question.task.abort());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Sends the reason when its question is dropped.
    struct DropProbe(WithdrawalNote, mpsc::SyncSender<Option<QuestionWithdrawal>>);

    impl Drop for DropProbe {
        fn drop(&mut self) {
            let _ = self.1.send(self.0.reason());
        }
    }

    #[tokio::test]
    async fn question_answered_elsewhere_is_withdrawn_with_the_reason() {
        for (answer, expected) in [
            ("allow_once", QuestionWithdrawal::AnsweredElsewhere),
            ("accept", QuestionWithdrawal::AnsweredElsewhere),
            ("expired", QuestionWithdrawal::Expired),
            ("cancelled", QuestionWithdrawal::CallCancelled),
        ] {
            let (sender, reasons) = mpsc::sync_channel(1);
            let mut questions = OpenQuestions::default();
            questions.spawn("a", |withdrawal| {
                let probe = DropProbe(withdrawal, sender);
                async move {
                    let _probe = probe;
                    std::future::pending().await
                }
            });
            questions.withdraw("b", answer);
            assert_eq!(questions.open.len(), 1);
            questions.withdraw("a", answer);
            assert!(questions.open.is_empty());
            tokio::task::yield_now().await;
            assert_eq!(reasons.recv().unwrap(), Some(expected), "{answer}");
        }
    }
}
