//! Measures the cost of idle connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::LoadResult;
use crate::load_client::{EventFormat, LoadClient, ReceivedFrame};
use crate::measured_gateway::MeasuredGateway;

/// Connections opened concurrently.
const CONNECT_BATCH: usize = 128;

/// Opens `count` connections, holds them for the given time and reports memory and CPU use.
pub(crate) async fn measure(
    zero: PathBuf,
    folder: PathBuf,
    connections: usize,
    seconds: usize,
) -> LoadResult<Value> {
    let gateway = MeasuredGateway::start(&zero, &folder, "127.0.0.1:9".parse()?).await?;
    let before = gateway.memory()?.now;
    let address = gateway.address;
    let places = Arc::new(Semaphore::new(CONNECT_BATCH));
    let mut connecting: JoinSet<LoadResult<LoadClient>> = JoinSet::new();
    let began = Instant::now();
    for _ in 0..connections {
        let places = Arc::clone(&places);
        connecting.spawn(async move {
            let _place = places.acquire_owned().await?;
            LoadClient::connect(address, EventFormat::OpenClaw).await
        });
    }
    let mut holding: JoinSet<LoadResult<()>> = JoinSet::new();
    let ticks = Arc::new(AtomicUsize::new(0));
    while let Some(client) = connecting.join_next().await {
        let (mut client, ticks) = (client??, Arc::clone(&ticks));
        holding.spawn(async move {
            let mut is_first = true;
            // Returns only when the gateway closes the connection.
            while let ReceivedFrame::Event = client.receive(|_| Ok(())).await? {
                if std::mem::take(&mut is_first) {
                    ticks.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        });
    }
    let connected_after = began.elapsed();
    let held = gateway.memory()?.now;
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    let lost = std::iter::from_fn(|| holding.try_join_next()).count();
    let memory = gateway.memory()?;
    Ok(json!({
        "connections": connections,
        "connecting_ms": connected_after.as_millis() as u64,
        "before_bytes": before,
        "connected_bytes": held,
        "held_bytes": memory.now,
        "peak_bytes": memory.peak,
        "ticked": ticks.load(Ordering::Relaxed),
        "lost": lost,
    }))
}
