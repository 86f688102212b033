//! Prompts and changes on their way to the gateway: one after the other, in the order of typing.
//!
//! The next one is sent when the one before has arrived, so that neither a file that is read for a
//! prompt nor a connection that is made again changes their order. Entries queued behind a request
//! to open another session are sent to that session. If a prompt cannot be sent, those after it for
//! the same session come back with it: they may build on it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use zero_client::{OpenRequest, OverlapPolicy, SessionChange};

use super::ChatLoop;
use super::pasted_images::PastedImagesOfText;
use super::tasks::TaskOutcome;
use crate::chat_error::ChatError;
use crate::chat_session::{ChatSession, PromptRequest, send_prompt};

/// How long a chat that ends waits for what is being sent.
const SEND_WAIT: Duration = Duration::from_secs(3);

/// Something that the user did, and that the gateway does not know yet.
pub(super) enum SessionSubmission {
    Prompt(PromptRequest),
    Change(SessionChange),
    /// Another session.
    Open(Box<OpenRequest>),
}

impl SessionSubmission {
    /// The text that comes back into the input if it is not sent.
    fn into_text(self) -> Option<String> {
        match self {
            Self::Prompt(prompt) => Some(prompt.text),
            Self::Change(_) | Self::Open(_) => None,
        }
    }
}

/// What waits to be sent.
#[derive(Default)]
pub(super) struct OutgoingQueue {
    waiting: VecDeque<SessionSubmission>,
    /// Whether something is being sent.
    is_sending: bool,
    /// The text of the prompt that is being sent.
    prompt: Option<String>,
}

impl OutgoingQueue {
    /// Takes what is to be sent now, if nothing is on its way.
    fn begin_next(&mut self) -> Option<SessionSubmission> {
        if self.is_sending {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.is_sending = true;
        if let SessionSubmission::Prompt(prompt) = &next {
            self.prompt = Some(prompt.text.clone());
        }
        Some(next)
    }

    /// What was being sent arrived, or did not; returns its text if it is a prompt.
    fn end_current(&mut self) -> Option<String> {
        self.is_sending = false;
        self.prompt.take()
    }

    /// Whether something is on its way or waits for that.
    pub(super) fn is_busy(&self) -> bool {
        self.is_sending || !self.waiting.is_empty()
    }

    /// Takes the prompts that wait for the same session as what was sent last, and leaves the rest.
    fn take_prompts(&mut self) -> Vec<String> {
        let is_open = |outgoing: &SessionSubmission| matches!(outgoing, SessionSubmission::Open(_));
        let end = self.waiting.iter().position(is_open).unwrap_or(self.waiting.len());
        let others = self.waiting.split_off(end);
        let (prompts, rest) =
            std::mem::take(&mut self.waiting).into_iter().partition::<VecDeque<_>, _>(|outgoing| {
                matches!(outgoing, SessionSubmission::Prompt(_))
            });
        self.waiting = rest.into_iter().chain(others).collect();
        prompts.into_iter().filter_map(SessionSubmission::into_text).collect()
    }

    /// Takes all prompts.
    fn into_prompts(self) -> Vec<String> {
        let waiting = self.waiting.into_iter().filter_map(SessionSubmission::into_text);
        self.prompt.into_iter().chain(waiting).collect()
    }
}

impl ChatLoop {
    pub(super) fn send_prompt(&mut self, text: String, overlap: OverlapPolicy) {
        self.was_used = true;
        let PastedImagesOfText { images, missing } = self.images.find_in(&text);
        for mark in missing {
            self.notice(&format!(
                "`{mark}` was not attached: it is not in this chat; paste it again"
            ));
        }
        let prompt = PromptRequest { text, images, overlap };
        self.outgoing.waiting.push_back(SessionSubmission::Prompt(prompt));
        self.send_next();
    }

    pub(super) fn send_change(&mut self, change: SessionChange) {
        self.outgoing.waiting.push_back(SessionSubmission::Change(change));
        self.send_next();
    }

    /// Opens another session, once what was typed before has arrived.
    pub(super) fn open_session(&mut self, request: OpenRequest) {
        self.outgoing.waiting.push_back(SessionSubmission::Open(Box::new(request)));
        self.send_next();
    }

    /// Sends what was done first, unless something is on its way.
    fn send_next(&mut self) {
        let Some(next) = self.outgoing.begin_next() else { return };
        let (handle, backend) = (self.session.handle.clone(), Arc::clone(&self.session.backend));
        let (cancel, turn) = (self.cancel.clone(), self.turn.clone());
        let (link, host) = (self.config.link.clone(), Arc::clone(&self.config.host));
        self.tasks.spawn(async move {
            match next {
                SessionSubmission::Open(request) => {
                    // A new session needs a name of its own, and its key names its agent.
                    let new_key = || match &request.agent {
                        Some(agent) => format!("agent:{agent}:{}", host.new_session_name()),
                        None => host.new_session_name(),
                    };
                    let key = Some(request.key.clone().unwrap_or_else(new_key));
                    let request = OpenRequest { key, ..*request };
                    match ChatSession::open(&link, &*host, request, &turn).await {
                        Ok(session) => TaskOutcome::Opened(Box::new(session)),
                        Err(error) => TaskOutcome::NotOpened(describe(&error)),
                    }
                }
                SessionSubmission::Prompt(request) => {
                    match send_prompt(handle, backend, request, cancel).await {
                        Ok(notes) => TaskOutcome::Sent(notes),
                        Err(error) => TaskOutcome::Unsent(error.to_string()),
                    }
                }
                SessionSubmission::Change(change) => match handle.change(change).await {
                    Ok(_) => TaskOutcome::Sent(Vec::new()),
                    Err(error) => TaskOutcome::Unsent(error.to_string()),
                },
            }
        });
    }

    pub(super) fn handle_sent(&mut self, notes: Vec<String>) {
        self.outgoing.end_current();
        for note in notes {
            self.notice(&note);
        }
        self.send_next();
    }

    /// Another session is open, and gets what waits for it.
    pub(super) fn handle_opened(&mut self) {
        self.outgoing.end_current();
        self.send_next();
    }

    pub(super) fn handle_not_opened(&mut self, why: &str) {
        self.outgoing.end_current();
        self.notice(why);
        let held = self.outgoing.take_prompts();
        self.return_text(&held.join("\n\n"));
        self.send_next();
    }

    pub(super) fn handle_unsent(&mut self, why: &str) {
        match self.outgoing.end_current() {
            None => self.notice(why),
            Some(prompt) => {
                let behind = self.outgoing.take_prompts();
                let others = match behind.len() {
                    0 => String::new(),
                    1 => "; nor was the one after it".to_owned(),
                    count => format!("; nor were the {count} after it"),
                };
                self.notice(&format!("the prompt was not sent: {why}{others}"));
                self.return_text(&[vec![prompt], behind].concat().join("\n\n"));
            }
        }
        self.send_next();
    }

    /// Waits for what is being sent, for a moment; returns the prompts that were not.
    pub(super) async fn finish_sending(&mut self) -> Vec<String> {
        let until = Instant::now() + SEND_WAIT;
        while self.outgoing.is_sending {
            match timeout_at(until, self.tasks.join_next()).await {
                Ok(Some(Ok(TaskOutcome::Sent(_)))) => _ = self.outgoing.end_current(),
                Ok(Some(Ok(TaskOutcome::Unsent(_)))) => break,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        std::mem::take(&mut self.outgoing).into_prompts()
    }
}

fn describe(error: &ChatError) -> String {
    match error {
        ChatError::Terminal(source) => format!("{error}: {source}"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: &str) -> SessionSubmission {
        let overlap = OverlapPolicy::Queue;
        SessionSubmission::Prompt(PromptRequest {
            text: text.to_owned(),
            images: Vec::new(),
            overlap,
        })
    }

    #[test]
    fn one_is_sent_after_the_other_and_those_behind_a_failure_come_back_in_order() {
        let mut queue = OutgoingQueue::default();
        queue.waiting.extend([prompt("one"), prompt("two")]);
        queue.waiting.push_back(SessionSubmission::Change(SessionChange::default()));
        queue.waiting.push_back(prompt("three"));
        assert_eq!(
            queue.begin_next().and_then(SessionSubmission::into_text).as_deref(),
            Some("one")
        );
        assert!(queue.begin_next().is_none(), "one is on its way");
        assert_eq!(queue.end_current().as_deref(), Some("one"));
        assert_eq!(
            queue.begin_next().and_then(SessionSubmission::into_text).as_deref(),
            Some("two")
        );
        assert_eq!(queue.end_current().as_deref(), Some("two"));
        assert_eq!(queue.take_prompts(), ["three"]);
        // A change depends on no prompt.
        assert!(matches!(queue.begin_next(), Some(SessionSubmission::Change(_))));
        assert_eq!(queue.end_current(), None);
    }

    #[test]
    fn prompts_for_another_session_stay_if_one_is_not_sent() {
        let open = || SessionSubmission::Open(Box::default());
        let mut queue = OutgoingQueue::default();
        queue.waiting.extend([prompt("one"), prompt("two"), open(), prompt("three"), open()]);
        queue.begin_next().unwrap();
        assert_eq!((queue.end_current().as_deref(), queue.take_prompts().len()), (Some("one"), 1));
        assert!(matches!(queue.begin_next(), Some(SessionSubmission::Open(_))));
        queue.end_current();
        // It could not be opened.
        assert_eq!(queue.take_prompts(), ["three"]);
        queue.waiting.push_back(prompt("four"));
        assert_eq!(queue.into_prompts(), ["four"]);
    }
}
