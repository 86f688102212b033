//! The store in a real Postgres: the conformance suite, directly and behind a pooler, and what is
//! specific to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use tokio::task::JoinSet;
use zero_core::{RunId, SessionId};
use zero_session::event::TokenUsage;
use zero_session::node_lease::NodeLeaseStore;
use zero_session::postgres_store::{PostgresOptions, PostgresPorts, PostgresStore};
use zero_session::store::{BeginRunOutcome, LedgerReadLimit, NewRun, Store, StoreError};

use crate::postgres_server::{PASSWORD, PostgresServer, TransactionPooler, give_away};
use crate::store::{session, text_event};
use crate::store_conformance;

async fn try_open(url: &str) -> Result<PostgresPorts, StoreError> {
    let options = PostgresOptions { url: url.to_owned(), ..PostgresOptions::default() };
    PostgresStore::open(&options).await
}

pub(crate) async fn open(url: &str) -> Arc<dyn Store> {
    try_open(url).await.unwrap().store
}

pub(crate) async fn open_leases(url: &str) -> Arc<dyn NodeLeaseStore> {
    try_open(url).await.unwrap().leases
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_store_passes_conformance() {
    let server = &PostgresServer::start();
    store_conformance::check_store(|| async {
        open(&server.url("zero", &server.create_database().await)).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_store_passes_conformance_behind_transaction_pooler() {
    let server = &PostgresServer::start();
    let pooler = &TransactionPooler::start(server);
    store_conformance::check_store(|| async {
        open(&pooler.url(&server.create_database().await)).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_start_together_make_tables_once() {
    let server = PostgresServer::start();
    let url = server.url("zero", &server.create_database().await);
    let mut opening = JoinSet::new();
    for _ in 0..8 {
        let url = url.clone();
        opening.spawn(async move { open(&url).await });
    }
    let stores = opening.join_all().await;
    let made = session(&*stores[0]).await;
    for (store, seq) in stores.iter().zip(1..) {
        let written = store.append(&made.id, None, vec![text_event("x")]).await.unwrap();
        assert_eq!(written[0].seq, seq, "all of them write to the same session");
    }
}

#[tokio::test]
async fn version_1_tables_get_run_ids_per_owner() {
    let server = PostgresServer::start();
    let database = server.create_database().await;
    let version_1 = concat!(
        "CREATE SCHEMA zero;
         CREATE TABLE zero.schema_version (version INT4 NOT NULL);
         INSERT INTO zero.schema_version VALUES (1);",
        include_str!("../../src/postgres_store/enabled/schema.sql")
    );
    server.execute(&database, version_1).await;
    let usage = serde_json::to_string(&TokenUsage::default()).unwrap();
    let rows = format!("INSERT INTO zero.sessions (id, key, key_folded, agent, owner, tool_host, created_ms,
            updated_ms, transcript, usage)
        SELECT 'sess_' || owner, 'agent:main:main', 'agent:main:main', 'main', owner,
            '{{\"at\":\"gateway\"}}', 1, 1, 1, '{usage}'
        FROM unnest(ARRAY['mine', 'theirs']) AS owner;
        INSERT INTO zero.runs (id, session, node, started_ms, usage, options)
        SELECT 'run_' || owner, row_id, '', 1, '{usage}', '{{\"budget\":{{}}}}' FROM zero.sessions;
        INSERT INTO zero.run_usage (run, session, session_key, owner, agent, model, started_ms, usage)
        SELECT 'run_' || owner, id, key, owner, 'main', 'm', 1, '{usage}' FROM zero.sessions");
    server.execute(&database, &rows).await;
    let store = open(&server.url("zero", &database)).await;
    let mine = RunId::new("run_mine").unwrap();
    let found = store.find_run(Some("mine"), &mine).await.unwrap().unwrap();
    assert_eq!(found.session.as_str(), "sess_mine");
    assert_eq!(store.find_run(Some("theirs"), &mine).await.unwrap(), None);
    let run = NewRun {
        id: mine,
        session: SessionId::new("sess_theirs").unwrap(),
        node: "here".to_owned(),
        started_ms: 2,
        options: Default::default(),
        first: vec![text_event("begins")],
    };
    let begun = store.begin_run(run).await.unwrap();
    assert!(matches!(begun, BeginRunOutcome::Started { .. }), "{begun:?}");
    assert_eq!(store.run_usages(Default::default()).await.unwrap().len(), 2);
}

/// What an operator may have done wrong, what the message names, and that it names no password.
#[tokio::test]
async fn unusable_database_is_refused_with_reason() {
    let server = PostgresServer::start_with_passwords();
    let setup = format!(
        "CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}';
         CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}';
         CREATE ROLE hasty LOGIN PASSWORD '{PASSWORD}' SUPERUSER;
         ALTER ROLE hasty SET synchronous_commit = off;"
    );
    server.execute("postgres", &setup).await;
    server.execute("postgres", "CREATE DATABASE old ENCODING 'SQL_ASCII' TEMPLATE template0").await;
    let (empty, foreign, newer, used) = (
        server.create_database().await,
        server.create_database().await,
        server.create_database().await,
        server.create_database().await,
    );
    server.execute(&foreign, "CREATE SCHEMA zero; CREATE TABLE zero.sessions (n INT)").await;
    for database in [&newer, &used] {
        open(&server.url("zero", database)).await;
    }
    server.execute(&newer, "UPDATE zero.schema_version SET version = 99").await;
    let unused_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rows = [
        (format!("postgres://zero:wrong-{PASSWORD}@127.0.0.1:{}/x", server.port()), "password"),
        (server.url("zero", "missing"), "no such database"),
        (server.url("guest", &empty), "GRANT CREATE ON DATABASE"),
        (server.url("guest", &used), "does not permit it"),
        (server.url("zero", &foreign), "belongs to another program"),
        (server.url("zero", &newer), "newer zero"),
        (server.url("zero", "old"), "SQL_ASCII"),
        (server.url("hasty", &empty), "synchronous_commit"),
        (format!("postgres://zero:{PASSWORD}@{unused_port}/x"), "that it runs"),
        (format!("{}?sslmode=require", server.url("zero", &empty)), "TLS"),
    ];
    for (url, expected) in rows {
        let Err(error) = try_open(&url).await else { panic!("{url} opens") };
        let text = error.to_string();
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
    // A user who may read and not write, of a store that is set up.
    let reader = "GRANT USAGE ON SCHEMA zero TO reader;
        GRANT SELECT ON ALL TABLES IN SCHEMA zero TO reader";
    server.execute(&used, reader).await;
    let store = open(&server.url("reader", &used)).await;
    let error = store.check_ready().await.unwrap_err().to_string();
    assert!(error.contains("does not permit it"), "{error}");
}

#[tokio::test]
async fn acknowledged_entries_survive_crash_of_server() {
    let mut server = PostgresServer::start();
    let url = server.url("zero", &server.create_database().await);
    let store = open(&url).await;
    let id = session(&*store).await.id;
    let acknowledged = Arc::new(AtomicU64::new(0));
    for round in 1..=3 {
        let writing = tokio::spawn({
            let (store, id, acknowledged) = (store.clone(), id.clone(), acknowledged.clone());
            async move {
                // Ends with the first write that the crash interrupts.
                while let Ok(written) = store.append(&id, None, vec![text_event("x")]).await {
                    acknowledged.store(written[0].seq, Ordering::SeqCst);
                }
            }
        });
        let before = acknowledged.load(Ordering::SeqCst);
        while acknowledged.load(Ordering::SeqCst) < before + 20 {
            tokio::task::yield_now().await;
        }
        server.crash();
        writing.await.unwrap();
        let error = store.check_ready().await.unwrap_err().to_string();
        assert!(error.contains("database"), "{error}");
        server.run();
        // The same store goes on, with new connections.
        let known = acknowledged.load(Ordering::SeqCst);
        let limit = LedgerReadLimit::with_entries(usize::MAX);
        let events = store.events(&id, 0, limit).await.unwrap();
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert!(seqs.len() as u64 >= known, "round {round}: {} of {known}", seqs.len());
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
        store.check_ready().await.unwrap();
    }
}

fn pem(kind: &str, content: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(content);
    format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
}

#[tokio::test]
async fn encrypted_connection_needs_trusted_certificate() {
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = params.self_signed(&authority).unwrap();
    let issuer = rcgen::Issuer::new(params, authority);
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let mut server = PostgresServer::start_with_passwords();
    server.stop();
    let data = server.folder().join("data");
    let files = [
        ("server.crt", pem("CERTIFICATE", certificate.der())),
        ("server.key", pem("PRIVATE KEY", key.serialized_der())),
    ];
    for (name, text) in files {
        let path = data.join(name);
        std::fs::write(&path, text).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, private).unwrap();
        give_away(&path);
    }
    let rules = data.join("pg_hba.conf");
    std::fs::write(&rules, "hostssl all all 127.0.0.1/32 scram-sha-256\n").unwrap();
    server.run_with("ssl=on");
    let plain = server.url("zero", "postgres");
    let url = format!("{plain}?sslmode=verify-full");
    let Err(error) = try_open(&url).await else { panic!("nobody trusts its certificate") };
    assert!(error.to_string().contains("ertificate"), "{error}");
    let options =
        PostgresOptions { url, extra_roots: vec![root.der().to_vec()], ..Default::default() };
    let store = PostgresStore::open(&options).await.unwrap().store;
    store.check_ready().await.unwrap();
    let Err(error) = try_open(&plain).await else { panic!("the server wants encryption") };
    assert!(error.to_string().contains("login"), "{error}");
}
