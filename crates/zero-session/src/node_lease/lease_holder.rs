//! Keeps the lease of this process, as [`NodeLease`] says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zero_core::SessionId;

use super::{LeaseRules, LeaseStep, NodeLease, NodeLeaseStore};
use crate::store::{ClaimEpoch, StoreError};

/// Pause before claims are asked for again that could not be read.
const CONFIRM_PAUSE: Duration = Duration::from_millis(200);

/// Holds the lease of this process until it is ended or dropped; then it runs out.
pub struct LeaseHolder {
    shared: Arc<SharedLease>,
    stop: CancellationToken,
}

struct SharedLease {
    store: Arc<dyn NodeLeaseStore>,
    node: String,
    rules: LeaseRules,
    started: Instant,
    lease: Mutex<NodeLease>,
    /// The claims that were confirmed last, after the lease may have run out.
    confirmed: watch::Sender<Option<Arc<BTreeMap<SessionId, ClaimEpoch>>>>,
}

impl LeaseHolder {
    /// Registers the process under a name that no other has or had, and renews its lease from then on.
    pub async fn start(
        store: Arc<dyn NodeLeaseStore>,
        node: &str,
        rules: LeaseRules,
    ) -> Result<Self, StoreError> {
        let started = Instant::now();
        if !store.register_node(node, rules.duration).await? {
            let why = format!("the name `{node}` belongs to another process; start zero again");
            return Err(StoreError::Broken { verb: "register this process", why });
        }
        let shared = Arc::new(SharedLease {
            store,
            node: node.to_owned(),
            rules,
            started,
            lease: Mutex::new(NodeLease::granted(rules, Duration::ZERO)),
            confirmed: watch::Sender::new(None),
        });
        let stop = CancellationToken::new();
        tokio::spawn(
            stop.clone().run_until_cancelled_owned(renew_until_stopped(Arc::clone(&shared))),
        );
        Ok(Self { shared, stop })
    }

    /// Name of the process.
    pub fn node(&self) -> &str {
        &self.shared.node
    }

    /// Whether the process may act for its sessions now. To be asked immediately before anything that
    /// cannot be undone.
    pub fn can_act(&self) -> bool {
        self.shared.lease().can_act(self.shared.now())
    }

    /// See [`NodeLease::can_act_since`].
    pub fn can_act_since(&self, generation: u64) -> bool {
        self.shared.lease().can_act_since(generation, self.shared.now())
    }

    /// See [`NodeLease::generation`].
    pub fn generation(&self) -> u64 {
        self.shared.lease().generation()
    }

    /// Changes when the lease may have run out and was renewed, to the claims that are still held. All
    /// others were taken over.
    pub fn confirmed_claims(
        &self,
    ) -> watch::Receiver<Option<Arc<BTreeMap<SessionId, ClaimEpoch>>>> {
        self.shared.confirmed.subscribe()
    }

    /// Ends the lease at once, so that others need not wait for it to run out. Nothing may be done for a
    /// session any more.
    pub async fn end(&self) -> Result<(), StoreError> {
        self.stop.cancel();
        self.shared.lease().mark_lost();
        self.shared.store.end_node(&self.shared.node).await
    }
}

impl Drop for LeaseHolder {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl SharedLease {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn lease(&self) -> MutexGuard<'_, NodeLease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn renew(&self) {
        let sent_at = self.now();
        let renewal = self.store.renew_node(&self.node, self.rules.duration);
        // Later, the answer would be of no use.
        let answer = tokio::time::timeout(self.rules.duration, renewal).await;
        let now = self.now();
        let mut lease = self.lease();
        match answer {
            Ok(Ok(true)) => lease.record_renewal(sent_at, now),
            Ok(Ok(false)) => {
                tracing::error!(node = self.node, "the lease of this process is no longer known");
                lease.mark_lost();
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lease could not be renewed");
                lease.record_failed_renewal(now);
            }
            Err(_) => {
                tracing::warn!("the renewal of the lease was not answered");
                lease.record_failed_renewal(now);
            }
        }
    }

    async fn confirm(&self) {
        let generation = self.lease().generation();
        let answer =
            tokio::time::timeout(self.rules.duration, self.store.list_held_claims(&self.node))
                .await;
        match answer {
            Ok(Ok(claims)) => {
                let now = self.now();
                let counts = self.lease().confirm_claims(generation, now);
                if counts {
                    let claims = Some(Arc::new(claims.into_iter().collect()));
                    self.confirmed.send_replace(claims);
                }
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the claims of this process could not be read");
                tokio::time::sleep(CONFIRM_PAUSE).await;
            }
            Err(_) => {
                tracing::warn!("the question for the claims of this process was not answered")
            }
        }
    }
}

/// Runs until the lease is lost.
async fn renew_until_stopped(shared: Arc<SharedLease>) {
    loop {
        let step = shared.lease().next_step(shared.now());
        match step {
            LeaseStep::Renew => shared.renew().await,
            LeaseStep::ConfirmClaims => shared.confirm().await,
            LeaseStep::Wait(until) => {
                let until = shared.started.checked_add(until).unwrap_or(shared.started);
                tokio::time::sleep_until(until).await;
            }
            LeaseStep::Stop => return,
        }
    }
}
