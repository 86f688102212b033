//! Who may ask on the terminal: one question at a time, and nothing else is written meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use super::elapsed_counter::{CounterPauseGuard, ElapsedCounter};
use super::key_reader::QuietReason;
use super::screen_owner::{ScreenLease, ScreenOwner};

/// Lets one question after another use the terminal.
#[derive(Clone)]
pub struct PromptTurn {
    counter: ElapsedCounter,
    lock: Arc<Mutex<()>>,
    /// Number of questions that are on the screen or wait for it.
    open: Arc<watch::Sender<usize>>,
    /// Whether the question before was withdrawn.
    withdrawn: Arc<AtomicBool>,
    /// Whether the user is typing something else.
    typing: Arc<AtomicBool>,
    /// Whether the user looks at the terminal.
    focused: Arc<AtomicBool>,
    /// Written to the terminal when a question appears and the user looks elsewhere.
    signal: Option<Arc<str>>,
    /// Makes room for a question.
    owner: Option<Arc<dyn ScreenOwner>>,
}

/// The terminal belongs to one question until this is dropped.
pub struct PromptTurnGuard {
    // Dropped before the turn, so that the owner gets the screen back before the next question.
    _lease: Option<ScreenLease>,
    _turn: OwnedMutexGuard<()>,
    _pause: CounterPauseGuard,
    _count: OpenPromptGuard,
    withdrawn: Arc<AtomicBool>,
    typing: Arc<AtomicBool>,
}

impl PromptTurnGuard {
    /// Notes that the question on the screen is withdrawn, for the next one.
    pub(crate) fn set_withdrawn(&self) {
        self.withdrawn.store(true, Ordering::Relaxed);
    }

    /// Why keys do not count at first, if so; the next question does not learn of it again.
    pub(crate) fn take_caution(&self) -> Option<QuietReason> {
        let was_withdrawn = self.withdrawn.swap(false, Ordering::Relaxed);
        let is_typing = self.typing.swap(false, Ordering::Relaxed);
        match (is_typing, was_withdrawn) {
            (true, _) => Some(QuietReason::Typing),
            (false, true) => Some(QuietReason::Replacement),
            (false, false) => None,
        }
    }
}

/// Counts a question until it is dropped.
struct OpenPromptGuard(Arc<watch::Sender<usize>>);

impl Drop for OpenPromptGuard {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl PromptTurn {
    /// Questions pause this counter.
    pub fn new(counter: ElapsedCounter) -> Self {
        let (open, _) = watch::channel(0);
        let (lock, withdrawn, typing, focused) = Default::default();
        let open = Arc::new(open);
        Self { counter, lock, open, withdrawn, typing, focused, signal: None, owner: None }
    }

    /// Writes this to the terminal when a question appears, unless the user looks at it.
    pub fn with_signal(self, signal: Option<String>) -> Self {
        Self { signal: signal.map(Arc::from), ..self }
    }

    /// Asks this owner of the screen for room before a question appears.
    pub fn with_owner(self, owner: Arc<dyn ScreenOwner>) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// Says whether the user is typing something else while the owner gives the screen away: keys do
    /// not count for a moment then.
    pub fn set_typing(&self, is_typing: bool) {
        self.typing.store(is_typing, Ordering::Relaxed);
    }

    /// Says whether the user looks at the terminal, as far as that is known.
    pub fn set_focused(&self, is_focused: bool) {
        self.focused.store(is_focused, Ordering::Relaxed);
    }

    /// The counter that questions pause.
    pub fn counter(&self) -> &ElapsedCounter {
        &self.counter
    }

    /// Waits until no other question is on the screen.
    pub async fn begin(&self) -> PromptTurnGuard {
        self.begin_with(None).await
    }

    /// Waits for its turn to ask about a call, which does not run meanwhile.
    pub async fn begin_for_call(&self, call: &str) -> PromptTurnGuard {
        self.begin_with(Some(call)).await
    }

    async fn begin_with(&self, call: Option<&str>) -> PromptTurnGuard {
        self.open.send_modify(|open| *open += 1);
        let count = OpenPromptGuard(Arc::clone(&self.open));
        let turn = Arc::clone(&self.lock).lock_owned().await;
        let lease = match &self.owner {
            Some(owner) => Some(owner.lease_screen(call).await),
            None => None,
        };
        if let Some(signal) = &self.signal
            && !self.focused.load(Ordering::Relaxed)
        {
            self.counter.write_signal(signal);
        }
        PromptTurnGuard {
            _lease: lease,
            _turn: turn,
            _pause: self.counter.pause(),
            _count: count,
            withdrawn: Arc::clone(&self.withdrawn),
            typing: Arc::clone(&self.typing),
        }
    }

    /// Whether a question is on the screen or about to be.
    pub fn is_open(&self) -> bool {
        *self.open.borrow() > 0
    }

    /// Completes when no question is on the screen.
    pub async fn wait_until_closed(&self) {
        // The sender lives as long as this value.
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Terminal;

    #[tokio::test]
    async fn question_gets_attention_only_of_a_user_who_looks_elsewhere() {
        for (focus, expected) in [(None, "!"), (Some(false), "!"), (Some(true), "")] {
            let stream = Terminal::for_test().err.with_columns(80);
            let turn = PromptTurn::new(ElapsedCounter::new(&stream));
            let turn = turn.with_signal(Some("!".to_owned()));
            focus.into_iter().for_each(|is_focused| turn.set_focused(is_focused));
            drop(turn.begin().await);
            assert_eq!(stream.written_text().trim_end_matches(['\r', ' ']), expected, "{focus:?}");
        }
    }

    #[tokio::test]
    async fn second_question_waits_for_the_first() {
        let turn = PromptTurn::new(ElapsedCounter::new(&Terminal::for_test().err));
        assert!(!turn.is_open());
        let first = turn.begin().await;
        let second = {
            let turn = turn.clone();
            tokio::spawn(async move { turn.begin().await })
        };
        tokio::task::yield_now().await;
        assert!(turn.is_open() && !second.is_finished());
        drop(first);
        let second = second.await.unwrap();
        assert!(turn.is_open());
        drop(second);
        turn.wait_until_closed().await;
        assert!(!turn.is_open());
    }
}
