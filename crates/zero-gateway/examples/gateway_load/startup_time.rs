//! Measures startup time and the memory use of an idle gateway.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::LoadResult;
use crate::measured_gateway::MeasuredGateway;

/// Idle time before the memory use is read.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Starts the gateway several times, each time with an empty folder.
pub(crate) async fn measure(zero: PathBuf, folder: PathBuf, runs: usize) -> LoadResult<Value> {
    // No run takes place here, so the model is never contacted.
    let nobody = "127.0.0.1:9".parse()?;
    let mut times = Vec::with_capacity(runs);
    let mut held = 0;
    for run in 0..runs.max(1) {
        let gateway = MeasuredGateway::start(&zero, &folder.join(run.to_string()), nobody).await?;
        times.push(gateway.ready_after);
        if run == 0 {
            tokio::time::sleep(SETTLE_TIME).await;
            held = gateway.memory()?.now;
        }
    }
    times.sort_unstable();
    let middle = times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = times.last().copied().unwrap_or_default();
    Ok(json!({
        "ready_us": middle.as_micros() as u64,
        "ready_longest_us": longest.as_micros() as u64,
        "idle_bytes": held,
    }))
}
