//! A gateway under load: the real program, a scripted model, and as many clients as are wanted.
//!
//! Prints one line of JSON with figures. The arguments are what to measure, the program `zero`, and
//! a folder that holds nothing yet:
//!
//! - `start ZERO FOLDER RUNS`: from the start of the program until it says that it is ready, and what
//!   it holds when nobody is there.
//! - `idle ZERO FOLDER CONNECTIONS SECONDS`: what so many connections cost that say nothing, after
//!   they were held so long.
//! - `load ZERO FOLDER CLIENTS RUNS CHUNKS_PER_SECOND SECONDS`: so many clients, so many runs of them
//!   at a time, and a model that says so much in all. Every client has a run at least.
//!
//! Model and clients are in this process, so one clock says when a word was said and when it was
//! heard; they work on the same processors as the gateway. `cargo xtask bench` runs it.
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

/// What goes wrong here ends the measurement.
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
