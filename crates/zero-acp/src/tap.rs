//! Hands whose calls are also told to the session's task, as they are made.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use zero_core::Kind;
use zero_core::event::Place;
use zero_policy::Mode;
use zero_runtime::DialectName;
use zero_runtime::tool::BoxFuture;
use zero_session::hands::{Bench, CallEnd, Hands, HandsCall, HandsError, HandsWatch};

use crate::letter::{Letter, Mailbox};
use crate::own_mode::OwnMode;
use crate::printed::Printed;

/// Hands, and who hears of their calls besides.
pub(crate) struct Tapped {
    pub(crate) hands: Arc<dyn Hands>,
    pub(crate) mailbox: Mailbox,
    pub(crate) own_mode: Arc<OwnMode>,
}

impl Hands for Tapped {
    fn bench(&self, dialect: DialectName) -> BoxFuture<'_, Result<Bench, HandsError>> {
        self.hands.bench(dialect)
    }

    fn call(
        &self,
        call: HandsCall,
        cancel: CancellationToken,
        watch: Arc<dyn HandsWatch>,
    ) -> BoxFuture<'_, CallEnd> {
        let tap = Tap {
            call: call.id.clone(),
            watch,
            mailbox: self.mailbox.clone(),
            printed: Arc::default(),
            untold: Mutex::default(),
        };
        self.hands.call(call, cancel, Arc::new(tap))
    }

    fn set_mode(&self, mode: Mode) -> BoxFuture<'_, Result<(), HandsError>> {
        self.own_mode.wish(mode);
        Box::pin(self.own_mode.tell(&*self.hands))
    }

    fn folder(&self) -> Option<PathBuf> {
        self.hands.folder()
    }

    fn whereabouts(&self) -> String {
        self.hands.whereabouts()
    }
}

/// Hears of one call, and passes it on both ways. What finds no room is told by the ledger, or with
/// the next word.
struct Tap {
    call: String,
    watch: Arc<dyn HandsWatch>,
    mailbox: Mailbox,
    printed: Arc<Printed>,
    /// Whether something was printed and the letter about it found no room.
    untold: Mutex<bool>,
}

impl HandsWatch for Tap {
    fn described(&self, title: String, kind: Kind, locations: Vec<Place>) {
        let _ = self.mailbox.try_put(Letter::Described {
            call: self.call.clone(),
            title: title.clone(),
            kind,
            locations: locations.clone(),
        });
        self.watch.described(title, kind, locations);
    }

    fn progress(&self, message: String) {
        self.watch.progress(message);
    }

    fn begun(&self) {
        let _ = self.mailbox.try_put(Letter::Begun { call: self.call.clone() });
        self.watch.begun();
    }

    fn printed(&self, text: &str) {
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        if self.printed.push(text) || *untold {
            let letter =
                Letter::Printed { call: self.call.clone(), printed: Arc::clone(&self.printed) };
            *untold = self.mailbox.try_put(letter).is_err();
        }
        self.watch.printed(text);
    }
}
