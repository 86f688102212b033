//! Leases in a real Postgres, and the process that holds one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zero_core::{RunId, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_session::key::SessionKey;
use zero_session::node_lease::{LeaseHolder, LeaseRules, LiveNode, NodeLeaseStore};
use zero_session::store::{
    BeginRunOutcome, ClaimEpoch, ClaimOutcome, NewRun, NewSession, Store, StoreError,
    ToolHostLocation,
};

use crate::postgres_server::PostgresServer;
use crate::postgres_store::{open, open_leases};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// Begins a run of a process in a session of its own.
async fn begin_run(store: &dyn Store, node: &str, name: &str) -> (SessionId, ClaimEpoch) {
    let session = NewSession {
        key: SessionKey::resolve(name, "main").unwrap(),
        label: None,
        cwd: None,
        model: None,
        mode: None,
        owner: "local".to_owned(),
        owned_max: 10,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    };
    let session = store.create(session).await.unwrap().id;
    let run = NewRun {
        id: RunId::new(name).unwrap(),
        session: session.clone(),
        node: node.to_owned(),
        started_ms: 1,
        options: Default::default(),
        first: Vec::new(),
    };
    let BeginRunOutcome::Started { claim, .. } = store.begin_run(run).await.unwrap() else {
        panic!("it is free")
    };
    (session, claim)
}

/// Claims a session until its holder has no lease any more.
async fn take_over(store: &dyn Store, session: &SessionId, node: &str, held: ClaimEpoch) {
    loop {
        match store.claim(session, node, Some(held)).await.unwrap() {
            ClaimOutcome::Claimed(next) => return assert!(next.0 > held.0),
            ClaimOutcome::Held(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

#[tokio::test]
async fn session_is_taken_over_only_without_lease() {
    let server = PostgresServer::start();
    let url = server.url("zero", &server.create_database().await);
    let (store, leases) = (open(&url).await, open_leases(&url).await);
    assert!(leases.register_node("x", LONG).await.unwrap());
    assert!(!leases.register_node("x", LONG).await.unwrap(), "the name is taken");
    assert!(!leases.renew_node("nobody", LONG).await.unwrap());
    let (session, claim) = begin_run(&*store, "x", "a").await;
    let taken = store.claim(&session, "y", Some(claim)).await.unwrap();
    assert!(matches!(taken, ClaimOutcome::Held(held) if held.node == "x" && held.epoch == claim));
    assert_eq!(leases.list_held_claims("x").await.unwrap(), [(session.clone(), claim)]);
    let live = leases.list_live_nodes().await.unwrap();
    let [LiveNode { name, lease_left, sessions: 1 }] = &live[..] else { panic!("{live:?}") };
    assert!(name == "x" && *lease_left <= LONG);
    // It ends at once.
    leases.end_node("x").await.unwrap();
    assert_eq!(leases.list_live_nodes().await.unwrap(), []);
    assert!(!leases.register_node("x", LONG).await.unwrap(), "a name is used once");
    take_over(&*store, &session, "y", claim).await;
    assert_eq!(leases.list_held_claims("x").await.unwrap(), []);
    // It runs out by itself.
    assert!(leases.register_node("z", Duration::from_millis(50)).await.unwrap());
    let (session, claim) = begin_run(&*store, "z", "b").await;
    take_over(&*store, &session, "y", claim).await;
    // A lease that ran out can be renewed. What was taken stays so.
    assert!(leases.renew_node("z", LONG).await.unwrap());
    assert_eq!(leases.list_held_claims("z").await.unwrap(), []);
    let late = store.append(&session, Some(claim), Vec::new()).await.unwrap_err();
    assert_eq!(late, StoreError::ClaimLost(session.to_string()));
}

/// Leases whose renewals can be kept from the database.
struct InterruptedLeases {
    leases: Arc<dyn NodeLeaseStore>,
    is_interrupted: AtomicBool,
}

impl NodeLeaseStore for InterruptedLeases {
    fn register_node(
        &self,
        node: &str,
        lease: Duration,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.leases.register_node(node, lease)
    }

    fn renew_node(&self, node: &str, lease: Duration) -> BoxFuture<'_, Result<bool, StoreError>> {
        match self.is_interrupted.load(Ordering::SeqCst) {
            true => Box::pin(std::future::ready(Err(StoreError::Busy))),
            false => self.leases.renew_node(node, lease),
        }
    }

    fn end_node(&self, node: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        self.leases.end_node(node)
    }

    fn list_live_nodes(&self) -> BoxFuture<'_, Result<Vec<LiveNode>, StoreError>> {
        self.leases.list_live_nodes()
    }

    fn list_held_claims(
        &self,
        node: &str,
    ) -> BoxFuture<'_, Result<Vec<(SessionId, ClaimEpoch)>, StoreError>> {
        self.leases.list_held_claims(node)
    }
}

#[tokio::test]
async fn process_that_was_cut_off_acts_only_for_what_it_still_holds() {
    let mut server = PostgresServer::start();
    let url = server.url("zero", &server.create_database().await);
    let store = open(&url).await;
    let leases = Arc::new(InterruptedLeases {
        leases: open_leases(&url).await,
        is_interrupted: AtomicBool::new(false),
    });
    let rules = LeaseRules {
        duration: Duration::from_secs(2),
        renewal_interval: Duration::from_millis(300),
        margin: Duration::from_millis(200),
    };
    let holder = LeaseHolder::start(leases.clone(), "x", rules).await.unwrap();
    let mut confirmed = holder.confirmed_claims();
    let (first, claim) = begin_run(&*store, "x", "a").await;
    let (second, other_claim) = begin_run(&*store, "x", "b").await;
    leases.is_interrupted.store(true, Ordering::SeqCst);
    // Others may take a session over only when the process itself knows that it may not act.
    take_over(&*store, &first, "y", claim).await;
    assert!(!holder.can_act());
    leases.is_interrupted.store(false, Ordering::SeqCst);
    confirmed.changed().await.unwrap();
    let held = confirmed.borrow_and_update().clone().unwrap();
    assert_eq!(held.iter().collect::<Vec<_>>(), [(&second, &other_claim)]);
    assert!(holder.generation() > 0);
    // The database is away for longer than the lease, and the process goes on by itself.
    server.stop();
    while holder.can_act() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.run();
    confirmed.changed().await.unwrap();
    assert_eq!(confirmed.borrow().as_ref().unwrap().len(), 1);
    // A drain needs nobody to wait.
    holder.end().await.unwrap();
    take_over(&*store, &second, "y", other_claim).await;
}
