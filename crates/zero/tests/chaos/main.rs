//! Three gateways share a database and a bus, and faults happen to all of them: no acknowledged
//! prompt, entry or result is lost, no call takes effect twice, and each run ends once.
//!
//! `cargo xtask chaos` runs this for longer.

#![cfg(feature = "cluster")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]
#![expect(clippy::disallowed_methods, reason = "the processes, files and links are real")]
#![expect(clippy::print_stdout, reason = "who waits wants to see what happens")]

mod chaos_options;
mod chaos_report;
mod cluster;
mod counting_tools;
mod database_history;
mod fault;
mod gateway_node;
mod history_check;
mod link_proxy;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../it/model_server.rs"]
mod model_server;
/// The servers of the tests of `zero-session`.
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../../../zero-session/tests/it/nats_server.rs"]
mod nats_server;
#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../../../zero-session/tests/it/postgres_server.rs"]
mod postgres_server;
mod session_client;

use std::time::{Duration, Instant};

use crate::chaos_options::ChaosOptions;
use crate::chaos_report::ChaosReport;
use crate::cluster::Cluster;
use crate::fault::FaultPlan;
use crate::history_check::check_histories;
use crate::session_client::{SessionClient, SessionKind};

/// Sessions of each kind.
const SESSIONS_EACH: usize = 3;
/// After the last fault, everything has to be idle within this time.
const IDLE_WITHIN: Duration = Duration::from_secs(90);
/// Time between two faults, at most.
const GAP_MS_MAX: u64 = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_lose_no_run_and_repeat_no_call() {
    let options = ChaosOptions::from_environment();
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut cluster = Cluster::start().await;
    let mut clients = Vec::new();
    for number in 0..SESSIONS_EACH {
        for kind in [SessionKind::Talk, SessionKind::ClientTools] {
            let seed = random.u64(..);
            clients.push(SessionClient::start(kind, number, seed, cluster.addresses()));
        }
    }
    let started = Instant::now();
    let mut plan = FaultPlan::new(&mut random);
    let mut report = ChaosReport::new(&options);
    while options.goes_on(report.fault_count(), started.elapsed()) {
        tokio::time::sleep(Duration::from_millis(random.u64(200..GAP_MS_MAX))).await;
        let fault = plan.next(&mut random);
        println!("{:>7.1} s  {fault}", started.elapsed().as_secs_f64());
        fault.happen(&mut cluster).await;
        report.count(&fault);
    }
    let ceased = Instant::now();
    cluster.heal().await;
    let mut histories = Vec::new();
    for client in clients {
        histories.push(client.finish(ceased + IDLE_WITHIN).await);
    }
    report.idle_after = ceased.elapsed();
    cluster.wait_until_idle(ceased + IDLE_WITHIN).await;
    let ledgers = cluster.read_ledgers(&histories).await;
    let claims = cluster.database_history().await;
    let findings = check_histories(&histories, &ledgers, &claims, &mut report);
    report.duration = started.elapsed();
    report.publish(&options);
    if !findings.is_empty() {
        let folder = cluster.keep_logs();
        let findings = findings.join("\n");
        panic!(
            "with seed {}, {findings}\nthe logs of the gateways are in {}",
            options.seed,
            folder.display()
        );
    }
}
