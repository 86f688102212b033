//! When a process that shares a database with others may act for the sessions that it has claimed.
//!
//! A process has one lease for all of its sessions, by the clock of the database. Others take its
//! sessions over only after the lease has run out. [`NodeLease`] is the view of the process itself,
//! which sees neither that clock nor what happened to a request without an answer: it acts only while
//! the lease has certainly not run out, and asks which sessions it still holds whenever it may have.
//!
//! This protects what no database can undo, such as the start of a call. Writes need no clock: they are
//! conditional on the number of the claim.
//!
//! Processes of one machine that share a file need no leases: the kernel knows who is alive, see
//! [`crate::node_membership`].

mod lease_holder;

use std::time::Duration;

use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

pub use self::lease_holder::LeaseHolder;
use crate::store::{ClaimEpoch, StoreError};

/// Stores leases beside the sessions, in the same transactions.
pub trait NodeLeaseStore: Send + Sync {
    /// Gives a lease to a process. `false` if another one has or had the name.
    fn register_node(&self, node: &str, lease: Duration)
    -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Extends the lease of a process from now, also one that has run out. `false` if it is not
    /// registered.
    fn renew_node(&self, node: &str, lease: Duration) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Ends the lease of a process at once, so that others need not wait for it to run out.
    fn end_node(&self, node: &str) -> BoxFuture<'_, Result<(), StoreError>>;

    /// The processes whose leases have not run out, by name; at most [`LiveNode::LIST_MAX`].
    fn list_live_nodes(&self) -> BoxFuture<'_, Result<Vec<LiveNode>, StoreError>>;

    /// The sessions with unfinished runs that a process holds.
    fn list_held_claims(
        &self,
        node: &str,
    ) -> BoxFuture<'_, Result<Vec<(SessionId, ClaimEpoch)>, StoreError>>;
}

/// A process with a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// Its name.
    pub name: String,
    /// How much is left of its lease.
    pub lease_left: Duration,
    /// Number of sessions with unfinished runs that it holds.
    pub sessions: u64,
}

impl LiveNode {
    /// Maximum number of processes that are listed.
    pub const LIST_MAX: usize = 1_000;
}

/// How long leases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRules {
    /// How long the database keeps the sessions of a process for it.
    pub duration: Duration,
    /// Time between the renewals of a lease.
    pub renewal_interval: Duration,
    /// How much earlier the process itself stops, since its clock may be slower than that of the
    /// database.
    pub margin: Duration,
}

impl Default for LeaseRules {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(5),
            renewal_interval: Duration::from_millis(1_500),
            margin: Duration::from_millis(250),
        }
    }
}

/// What a process does next about its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// Renew it.
    Renew,
    /// Ask the database which sessions it still holds; the others have been taken over.
    ConfirmClaims,
    /// Nothing, until this time.
    Wait(Duration),
    /// Stop: the database no longer knows the process.
    Stop,
}

/// The lease of a process as the process itself knows it. Pure: all times are those of a steady clock of
/// the process, since any moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeLease {
    rules: LeaseRules,
    /// Until then the lease has certainly not run out.
    valid_until: Duration,
    next_renewal: Duration,
    phase: LeasePhase,
    /// Grows whenever claims have to be confirmed.
    generation: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LeasePhase {
    /// The lease has not run out since the claims were confirmed.
    Held,
    /// It was renewed, and may have run out before.
    Unconfirmed,
    /// The database does not know the process.
    Lost,
}

impl NodeLease {
    /// A lease that was granted upon a request that was sent at this time. No claim is held yet.
    pub fn granted(rules: LeaseRules, sent_at: Duration) -> Self {
        let mut lease = Self {
            rules,
            valid_until: Duration::ZERO,
            next_renewal: Duration::ZERO,
            phase: LeasePhase::Held,
            generation: 0,
        };
        lease.extend(sent_at);
        lease
    }

    /// From when it was sent, since the database counts from when it was received, which is later.
    fn extend(&mut self, sent_at: Duration) {
        let duration = self.rules.duration.saturating_sub(self.rules.margin);
        self.valid_until = self.valid_until.max(sent_at.saturating_add(duration));
        self.next_renewal = sent_at.saturating_add(self.rules.renewal_interval);
    }

    /// Whether the process may act for its sessions at this time.
    pub fn can_act(&self, now: Duration) -> bool {
        self.phase == LeasePhase::Held && now < self.valid_until
    }

    /// The same for a session that the process held when a write for it succeeded, which was sent when
    /// the [generation](Self::generation) was this one. If the lease may have run out since, the session
    /// may have been taken over, although the lease is valid again.
    pub fn can_act_since(&self, generation: u64, now: Duration) -> bool {
        generation == self.generation && self.can_act(now)
    }

    /// Until when the process may act, if nothing happens.
    pub fn valid_until(&self) -> Duration {
        self.valid_until
    }

    /// Changes whenever the lease may have run out, so that others may have taken sessions over.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What to do at this time.
    pub fn next_step(&self, now: Duration) -> LeaseStep {
        match self.phase {
            LeasePhase::Lost => LeaseStep::Stop,
            _ if now >= self.next_renewal => LeaseStep::Renew,
            LeasePhase::Unconfirmed => LeaseStep::ConfirmClaims,
            LeasePhase::Held => LeaseStep::Wait(self.next_renewal),
        }
    }

    /// The lease was renewed by a request that was sent at the first time and answered at the second.
    pub fn record_renewal(&mut self, sent_at: Duration, now: Duration) {
        if self.phase == LeasePhase::Lost {
            return;
        }
        // It may have run out, also if the database says nothing of that: an earlier renewal whose answer was
        // lost may have brought it back.
        if now >= self.valid_until {
            self.phase = LeasePhase::Unconfirmed;
            self.generation = self.generation.saturating_add(1);
        }
        self.extend(sent_at);
    }

    /// A renewal failed or was not answered.
    pub fn record_failed_renewal(&mut self, now: Duration) {
        self.next_renewal = now.saturating_add(self.rules.renewal_interval / 3);
    }

    /// The database answered which sessions are still held, upon a request of this generation. Returns
    /// whether the answer counts: it does not if the lease may have run out since.
    pub fn confirm_claims(&mut self, generation: u64, now: Duration) -> bool {
        let counts = self.phase == LeasePhase::Unconfirmed
            && generation == self.generation
            && now < self.valid_until;
        if counts {
            self.phase = LeasePhase::Held;
        }
        counts
    }

    /// The database does not know the process.
    pub fn mark_lost(&mut self) {
        self.phase = LeasePhase::Lost;
    }
}
