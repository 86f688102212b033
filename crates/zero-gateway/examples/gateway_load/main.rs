//! Load generator for the gateway: the real program, a scripted model and a configurable number of
//! clients.
//!
//! Prints the measurements as one line of JSON. The arguments are the measurement, the path of the
//! `zero` program, and an empty folder:
//!
//! - `start ZERO FOLDER RUNS`: the time from process start until the gateway is ready, and its
//!   memory use when idle.
//! - `idle ZERO FOLDER CONNECTIONS SECONDS`: the cost of idle connections, measured after SECONDS.
//! - `load ZERO FOLDER CLIENTS RUNS CHUNKS_PER_SECOND SECONDS`: the number of clients, of
//!   concurrent runs, and of chunks per second that the model sends in total. Every client has at
//!   least one run.
//!
//! Model and clients run in this process, so latency is measured with one clock; they share the
//! processors with the gateway. `cargo xtask bench` runs this program.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement, not part of the product"
)]

mod idle_connections;
mod load_client;
mod measured_gateway;
mod paced_model;
mod run_follower;
mod run_load;
mod startup_time;

use std::error::Error;
use std::path::PathBuf;

use serde_json::Value;

/// Any error ends the measurement.
type LoadResult<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> LoadResult<()> {
    let mut args = std::env::args().skip(1);
    let mut next = |what: &str| args.next().ok_or_else(|| format!("say {what}"));
    let mode = next("what to measure: start, idle or load")?;
    let zero = PathBuf::from(next("where zero is")?);
    let folder = PathBuf::from(next("a folder that holds nothing yet")?);
    let mut number = |what: &str| -> LoadResult<usize> { Ok(next(what)?.parse()?) };
    let work: std::pin::Pin<Box<dyn Future<Output = LoadResult<Value>>>> = match mode.as_str() {
        "start" => Box::pin(startup_time::measure(zero, folder, number("how many starts")?)),
        "idle" => {
            let (connections, seconds) = (number("how many connections")?, number("how long")?);
            Box::pin(idle_connections::measure(zero, folder, connections, seconds))
        }
        "load" => {
            let plan = run_load::LoadPlan {
                clients: number("how many clients")?,
                runs: number("how many runs at a time")?,
                chunks_per_second: number("how much the model says in a second")?,
                seconds: number("how long")?,
            };
            Box::pin(run_load::measure(zero, folder, plan))
        }
        other => return Err(format!("`{other}` is none of start, idle and load").into()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let figures = runtime.block_on(work)?;
    println!("{figures}");
    Ok(())
}
