//! The bus over a real Postgres: the conformance suite, directly and behind a pooler, and what is specific
//! to a database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;
use zero_session::node_bus::{DoorbellSignal, NodeBus, NodeBusError, NodeBusState, NodeBusStore};
use zero_session::postgres_store::{PostgresOptions, PostgresPorts, PostgresStore};

use crate::node_bus_conformance::{TestHandler, TestNetwork, check_node_bus, session, wait_for};
use crate::postgres_server::{PostgresServer, TransactionPooler};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60);

async fn open(url: String) -> PostgresPorts {
    PostgresStore::open(&PostgresOptions { url, ..PostgresOptions::default() }).await.unwrap()
}

async fn join(url: &str, node: &str) -> Arc<dyn NodeBus> {
    open(url.to_owned()).await.bus.join(node).await.unwrap()
}

/// Writes that a session has entries up to a number.
async fn write_seq(server: &PostgresServer, database: &str, session: &SessionId, seq: u64) {
    let sql = format!(
        "INSERT INTO zero.sessions (id, key, key_folded, agent, owner, tool_host, created_ms,
            updated_ms, transcript, usage, last_seq)
         VALUES ('{session}', '{session}', '', 'main', 'local', '', 1, 1, 1, '', {seq})
         ON CONFLICT (id) DO UPDATE SET last_seq = {seq}"
    );
    server.execute(database, &sql).await;
}

/// Clusters on one server, each in a database of its own.
struct PostgresNetwork {
    server: Arc<PostgresServer>,
    pooler: Option<Arc<TransactionPooler>>,
    databases: tokio::sync::Mutex<HashMap<String, String>>,
    stores: Mutex<Vec<Arc<dyn NodeBusStore>>>,
}

impl PostgresNetwork {
    fn new(server: &Arc<PostgresServer>, pooler: Option<&Arc<TransactionPooler>>) -> Self {
        Self {
            server: Arc::clone(server),
            pooler: pooler.cloned(),
            databases: tokio::sync::Mutex::default(),
            stores: Mutex::default(),
        }
    }

    async fn database(&self, cluster: &str) -> String {
        let mut databases = self.databases.lock().await;
        if let Some(database) = databases.get(cluster) {
            return database.clone();
        }
        let database = self.server.create_database().await;
        databases.insert(cluster.to_owned(), database.clone());
        database
    }
}

impl TestNetwork for PostgresNetwork {
    fn join<'a>(&'a self, cluster: &'a str, node: &'a str) -> BoxFuture<'a, Arc<dyn NodeBus>> {
        Box::pin(async move {
            let database = self.database(cluster).await;
            let url = match &self.pooler {
                Some(pooler) => pooler.url(&database),
                None => self.server.url("zero", &database),
            };
            let store = open(url).await.bus;
            self.stores.lock().unwrap().push(Arc::clone(&store));
            store.join(node).await.unwrap()
        })
    }

    fn store_seq<'a>(
        &'a self,
        cluster: &'a str,
        session: &'a SessionId,
        seq: u64,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            write_seq(&self.server, &self.database(cluster).await, session, seq).await;
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_node_bus_passes_conformance() {
    let server = Arc::new(PostgresServer::start());
    check_node_bus(|| async {
        Arc::new(PostgresNetwork::new(&server, None)) as Arc<dyn TestNetwork>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_node_bus_passes_conformance_behind_transaction_pooler() {
    let server = Arc::new(PostgresServer::start());
    let pooler = Arc::new(TransactionPooler::start(&server));
    check_node_bus(|| async {
        Arc::new(PostgresNetwork::new(&server, Some(&pooler))) as Arc<dyn TestNetwork>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn notifications_wake_but_are_not_trusted() {
    let server = PostgresServer::start();
    let database = server.create_database().await;
    let url = server.url("zero", &database);
    let (x, y) = (join(&url, "x").await, join(&url, "y").await);
    let a = session("a");
    let mut doorbell = y.doorbell(&a);
    // Once both listen.
    let mut seq = 0;
    while y.status().counts.rings_received == 0 {
        seq += 1;
        write_seq(&server, &database, &a, seq).await;
        x.ring(&a, seq);
        wait_for(&mut doorbell, seq).await;
    }
    assert!(x.status().counts.rings_sent > 0);
    // Somebody else who may use the database.
    for payload in ["", "x", "r", "ra b", "r/", "azz", "q", "qy", "a-1"] {
        server.execute(&database, &format!("SELECT pg_notify('zero_bus', '{payload}')")).await;
    }
    while y.status().counts.messages_ignored < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    write_seq(&server, &database, &a, seq + 1).await;
    assert_eq!(
        doorbell.rung().await,
        DoorbellSignal::UpTo(seq + 1),
        "only what the store has is rung for"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn name_of_a_live_process_is_refused() {
    let server = PostgresServer::start();
    let url = server.url("zero", &server.create_database().await);
    let (x, y) = (join(&url, "x").await, join(&url, "y").await);
    let taken = open(url.clone()).await.bus.join("x").await;
    let Err(error) = taken else { panic!("the name is taken") };
    assert!(error.to_string().contains("belongs to another process"), "{error}");
    x.serve(TestHandler::echo());
    assert_eq!(y.request("x", Bytes::new(), LONG).await.unwrap(), "y: ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bus_survives_crash_of_the_database() {
    let mut server = PostgresServer::start();
    let database = server.create_database().await;
    let url = server.url("zero", &database);
    let (x, y) = (join(&url, "x").await, join(&url, "y").await);
    y.serve(TestHandler::echo());
    assert_eq!(x.request("y", Bytes::new(), LONG).await.unwrap(), "x: ");
    let a = session("a");
    let mut doorbell = y.doorbell(&a);
    server.crash();
    while x.status().state == NodeBusState::Connected {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let error = x.request("y", Bytes::new(), Duration::from_secs(5)).await.unwrap_err();
    assert!(!error.to_string().contains("correct-horse"), "{error}");
    server.run();
    // The crash has emptied the tables of the bus; each process says again that it is there.
    loop {
        match x.request("y", Bytes::new(), Duration::from_secs(5)).await {
            Ok(answer) => break assert_eq!(answer, "x: "),
            Err(NodeBusError::TooLarge { .. }) => panic!("it is not"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    write_seq(&server, &database, &a, 5).await;
    wait_for(&mut doorbell, 5).await;
    while x.status().state != NodeBusState::Connected {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(x.status().counts.connections_lost >= 1);
}
