//! Measures many clients with many concurrent runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::LoadResult;
use crate::load_client::{EventFormat, LoadClient, ReceivedFrame};
use crate::measured_gateway::{MeasuredGateway, cpu_time};
use crate::paced_model::{CLIENT_PREFIX, PacedModel};
use crate::run_follower::{ClientFigures, RunFollower};

/// Connections opened concurrently.
const CONNECT_BATCH: usize = 64;
/// Time over which the first runs start. Later runs start when another one ends.
const RAMP: Duration = Duration::from_secs(2);
/// A client that receives nothing for this long has lost an event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Parameters of the measurement.
#[derive(Clone, Copy)]
pub(crate) struct LoadPlan {
    pub(crate) clients: usize,
    /// Concurrent runs.
    pub(crate) runs: usize,
    /// Chunks per second that the model sends in total.
    pub(crate) chunks_per_second: usize,
    /// After this time no more runs start, except for clients that have had none.
    pub(crate) seconds: usize,
}

/// State that all clients share.
struct LoadState {
    plan: LoadPlan,
    began: Instant,
    /// Permits for concurrent runs.
    places: Semaphore,
    /// Runs started, and clients that have had no run.
    runs: AtomicUsize,
    without: AtomicUsize,
    /// Events and words received so far.
    events: AtomicU64,
    words: AtomicU64,
}

pub(crate) async fn measure(zero: PathBuf, folder: PathBuf, plan: LoadPlan) -> LoadResult<Value> {
    let zero_hour = Instant::now();
    let pause = Duration::from_secs(1).mul_f64(plan.runs as f64 / plan.chunks_per_second as f64);
    let model = PacedModel::start(zero_hour, pause).await?;
    let gateway = MeasuredGateway::start(&zero, &folder, model.address).await?;
    eprint_pid(&gateway);
    let clients = connect(gateway.address, plan.clients).await?;
    let connected = gateway.memory()?;
    let shared = Arc::new(LoadState {
        plan,
        began: Instant::now(),
        places: Semaphore::new(0),
        runs: AtomicUsize::new(0),
        without: AtomicUsize::new(plan.clients),
        events: AtomicU64::new(0),
        words: AtomicU64::new(0),
    });
    let mut following = JoinSet::new();
    for (number, (client, words)) in clients.into_iter().enumerate() {
        let follower = RunFollower::new(number, words, zero_hour);
        following.spawn(run_client(client, follower, number, Arc::clone(&shared)));
    }
    for _ in 0..plan.runs {
        shared.places.add_permits(1);
        tokio::time::sleep(RAMP / u32::try_from(plan.runs)?).await;
    }
    // From here until the last run starts, the configured number of runs is active.
    let (from, busy_from) = (shared.snapshot(), gateway.cpu_time()?);
    let own_from = cpu_time("self")?;
    while !shared.has_enough_runs() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (until, busy_until) = (shared.snapshot(), gateway.cpu_time()?);
    let own_until = cpu_time("self")?;
    // Releases the clients that still wait for a permit.
    shared.places.add_permits(plan.clients);
    let mut all = ClientFigures::default();
    let mut failures = Vec::new();
    while let Some(followed) = following.join_next().await {
        match followed? {
            Ok(figures) => all.add(figures),
            Err(error) => failures.push(error.to_string()),
        }
    }
    let memory = gateway.memory()?;
    let seconds = (until.at - from.at).as_secs_f64();
    let rate = |from: u64, until: u64| ((until - from) as f64 / seconds).round();
    let share = |from: Duration, until: Duration| (until - from).as_secs_f64() / seconds;
    all.late_us.sort_unstable();
    Ok(json!({
        "clients": plan.clients,
        "runs_at_a_time": plan.runs,
        "runs": shared.runs.load(Ordering::Relaxed),
        "seconds": seconds,
        "events": all.events,
        "words": all.words,
        "events_per_second": rate(from.events, until.events),
        "words_per_second": rate(from.words, until.words),
        "late_p50_us": all.latency_percentile(50.0),
        "late_p90_us": all.latency_percentile(90.0),
        "late_p99_us": all.latency_percentile(99.0),
        "late_max_us": all.latency_percentile(100.0),
        "connected_bytes": connected.now,
        "held_bytes": memory.now,
        "peak_bytes": memory.peak,
        "gateway_processors": share(busy_from, busy_until),
        "driver_processors": share(own_from, own_until),
        "failed": failures.len(),
        "failures": failures.iter().take(5).collect::<Vec<_>>(),
    }))
}

/// Prints the process id, so that other tools can attach to the gateway.
#[expect(clippy::print_stderr, reason = "a measurement, not part of the product")]
fn eprint_pid(gateway: &MeasuredGateway) {
    eprintln!("   the gateway is process {}", gateway.pid());
}

/// Connects all clients, alternating between the two event formats.
async fn connect(address: SocketAddr, count: usize) -> LoadResult<Vec<(LoadClient, EventFormat)>> {
    let places = Arc::new(Semaphore::new(CONNECT_BATCH));
    let mut connecting: JoinSet<LoadResult<(LoadClient, EventFormat)>> = JoinSet::new();
    for number in 0..count {
        let places = Arc::clone(&places);
        connecting.spawn(async move {
            let _place = places.acquire_owned().await?;
            let words = if number % 2 == 0 { EventFormat::Ledger } else { EventFormat::OpenClaw };
            Ok((LoadClient::connect(address, words).await?, words))
        });
    }
    let mut clients = Vec::with_capacity(count);
    while let Some(client) = connecting.join_next().await {
        clients.push(client??);
    }
    Ok(clients)
}

/// Performs runs one after the other while more are needed.
async fn run_client(
    mut client: LoadClient,
    mut follower: RunFollower,
    number: usize,
    shared: Arc<LoadState>,
) -> LoadResult<ClientFigures> {
    let mut round = 0;
    loop {
        let place = shared.places.acquire().await?;
        if round > 0 && shared.has_enough_runs() {
            return Ok(follower.figures);
        }
        if round == 0 {
            shared.without.fetch_sub(1, Ordering::Relaxed);
        }
        shared.runs.fetch_add(1, Ordering::Relaxed);
        let run = format!("load-{number}-{round}");
        follower.begin_run(&run);
        let prompt = format!("Read the note, {CLIENT_PREFIX}{number}");
        let params = json!({"sessionKey": follower.session_key(), "message": prompt,
            "idempotencyKey": run, "timeoutMs": 60_000});
        client.send_request("chat.send", params).await?;
        while !follower.is_over()? {
            let (events, words) = (follower.figures.events, follower.figures.words);
            match timeout(PATIENCE, client.receive(|payload| follower.check_payload(payload))).await
            {
                Err(_) => return Err(format!("client {number} waits in vain").into()),
                Ok(heard) => {
                    if let ReceivedFrame::End = heard? {
                        return Err(format!("client {number} was cut off").into());
                    }
                }
            }
            shared.events.fetch_add(follower.figures.events - events, Ordering::Relaxed);
            shared.words.fetch_add(follower.figures.words - words, Ordering::Relaxed);
        }
        drop(place);
        round += 1;
        // Lets clients that are behind catch up first.
        tokio::task::yield_now().await;
    }
}

/// Totals at one point in time.
struct LoadSnapshot {
    at: Instant,
    events: u64,
    words: u64,
}

impl LoadState {
    fn snapshot(&self) -> LoadSnapshot {
        LoadSnapshot {
            at: Instant::now(),
            events: self.events.load(Ordering::Relaxed),
            words: self.words.load(Ordering::Relaxed),
        }
    }

    fn has_enough_runs(&self) -> bool {
        self.began.elapsed().as_secs() >= self.plan.seconds as u64
            && self.without.load(Ordering::Relaxed) == 0
    }
}

impl ClientFigures {
    fn add(&mut self, other: Self) {
        self.events += other.events;
        self.words += other.words;
        self.late_us.extend(other.late_us);
    }

    /// Requires sorted values.
    fn latency_percentile(&self, percent: f64) -> u32 {
        let last = self.late_us.len().saturating_sub(1);
        let place = (last as f64 * percent / 100.0).round() as usize;
        self.late_us.get(place).copied().unwrap_or_default()
    }
}
