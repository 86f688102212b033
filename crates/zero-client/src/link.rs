//! A connection to a gateway that is made when it is first needed, and again when it was lost.
//!
//! All sessions of a [`Link`] share one connection. While one is open, a lost connection is dialled
//! again in the background; every session is opened anew, its tools are hosted anew, and what was
//! missed is heard before anything else.

mod ask;
mod ear;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use zero_runtime::tool::BoxFuture;
use zero_wire::client::{Client, Events};

use crate::error::LinkError;
use crate::family;
use crate::near::{Heard, Listed, Listing, Near, Opening};
use crate::own;

pub(crate) use self::ask::{Again, Unanswered};
pub(crate) use self::shared::{Patience, Shared, Side, Up};

/// How long a lost connection is dialled again, unless said otherwise.
const RETURN_MAX: Duration = Duration::from_secs(120);

/// How a gateway is reached.
pub trait Dial: Send + Sync {
    /// Connects. Asked again after a connection was lost.
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, LinkError>>;

    /// Where it is, for people: an address without credentials, or `this process`.
    fn whereabouts(&self) -> String;
}

/// A connection that was made.
pub struct Dialled {
    /// To ask by.
    pub client: Client,
    /// What happens there.
    pub events: Events,
    /// Where it leads.
    pub place: Place,
}

/// Where a gateway is, as far as it is to be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Somewhere else, also where that is another process of this machine: what it wants is a wish.
    #[default]
    Elsewhere,
    /// In this very process, over this person's own store: what it keeps is what they chose. A dial
    /// that led here once always does.
    Here,
}

/// A gateway, connected or not. Clones share the connection.
#[derive(Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

impl Link {
    /// Connects to nothing yet.
    pub fn new(dial: Arc<dyn Dial>) -> Self {
        Self::with_patience(dial, RETURN_MAX)
    }

    /// The same; a connection that was lost is dialled again for so long, before sessions are told
    /// that it is gone.
    pub fn with_patience(dial: Arc<dyn Dial>, return_max: Duration) -> Self {
        Self { shared: Shared::new(dial, return_max) }
    }

    /// Connects, unless that was done: for whoever is about to need it, and has something else to do
    /// meanwhile. What keeps it from that is told to who needs it.
    pub async fn connect(&self) {
        if let Err(error) = self.shared.ready(Patience::Now).await {
            tracing::debug!(%error, "there is no connection yet");
        }
    }

    /// Opens a session, and hears of it from now on.
    pub async fn open(&self, wanted: Opening) -> Result<(Near, Heard), LinkError> {
        match self.shared.ready(Patience::Now).await?.side {
            Side::Own => own::open(&self.shared, wanted).await,
            Side::Family => family::open(&self.shared, wanted).await,
        }
    }

    /// The sessions there are.
    pub async fn list(&self, wanted: Listing) -> Result<Listed, LinkError> {
        match self.shared.ready(Patience::Now).await?.side {
            Side::Own => own::list(&self.shared, wanted).await,
            Side::Family => family::list(&self.shared, wanted).await,
        }
    }

    /// Does away with a session; that there is none is fine.
    pub async fn delete(&self, key: &str) -> Result<(), LinkError> {
        let params = json!({"key": key});
        match self.shared.ask_value("sessions.delete", params, Again::Once).await {
            Ok(_) => Ok(()),
            Err(unanswered) => match unanswered.error.about(key) {
                LinkError::NoSession { .. } => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Ends the connection. Runs go on at a gateway elsewhere.
    pub async fn close(&self) {
        self.shared.close().await;
    }

    /// Where the gateway is, for people.
    pub fn whereabouts(&self) -> String {
        self.shared.whereabouts()
    }
}
