//! Measures a decision that has to search a large folder many times: sixty recursive searches in one
//! line, 50,000 files, one rule that denies a file. Also measures how long everything else waits.
//!
//! Prints one line of JSON. `cargo xtask bench` runs it.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement, not part of the product"
)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use zero_core::ToolCall;
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{PolicyEngine, PolicyEngineConfig, Verdict};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{Dialect, DialectName, RulePolicy, ToolHost, ToolHostConfig};
use zero_sandbox::{StateDir, Workspace};

const FOLDERS: usize = 500;
const FILES_PER_FOLDER: usize = 100;
const SEARCHES: usize = 60;
const ROUNDS: usize = 5;
/// How often the other task wants to run.
const TICK: Duration = Duration::from_millis(1);

fn main() -> Result<(), Box<dyn Error>> {
    let temp = tempfile::tempdir_in("/var/tmp")?;
    let root = temp.path().join("work");
    for folder in 0..FOLDERS {
        let folder = root.join(folder.to_string());
        std::fs::create_dir_all(&folder)?;
        for file in 0..FILES_PER_FOLDER {
            std::fs::write(folder.join(file.to_string()), "")?;
        }
    }
    std::fs::write(root.join("499/secret"), "")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (decided, delay) = runtime.block_on(measure(temp.path(), &root))?;
    println!(r#"{{"decided_ns": {}, "delay_ns": {}}}"#, decided.as_nanos(), delay.as_nanos());
    Ok(())
}

/// The fastest decision, and the shortest of the longest delays.
async fn measure(folder: &Path, root: &Path) -> Result<(Duration, Duration), Box<dyn Error>> {
    let workspace = Workspace::open(&[root.to_owned()], None)?;
    let source = RuleSource { name: "example".to_owned(), line: None, owner: RuleOwner::User };
    let rule = PolicyRule::parse("Read(**/secret)", Verdict::Deny, source)?;
    let engine = PolicyEngine::new(PolicyEngineConfig {
        rules: vec![rule],
        roots: workspace.roots().map(Path::to_owned).collect(),
        ..PolicyEngineConfig::default()
    });
    let mut config = ToolHostConfig::new(workspace, StateDir::new(folder.join("state")));
    config.policy = Arc::new(RulePolicy::new(engine, vec!["/usr/bin".into()]));
    let host = ToolHost::new(config);
    host.registry().add("builtin", zero_tools::builtin_tools())?;
    let session = host.open_one_shot_session()?;
    let dialect = Dialect::new(DialectName::Canonical);
    // Nobody can approve the first command, so nothing runs.
    let command = format!("unknown-program{}", "; grep -r x .".repeat(SEARCHES));
    let (mut decided, mut delay) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let stop = CancellationToken::new();
        let ticking = tokio::spawn(longest_delay(stop.clone()));
        let (id, input) = (new_call_id(), json!({ "command": command }));
        let call = ToolCall { id, session: None, tool: "Bash".to_owned(), input, timeout: None };
        let start = Instant::now();
        let report = host.call(&session, &dialect, call, &CancellationToken::new()).await;
        decided = decided.min(start.elapsed());
        if report.outcome.is_ok() {
            return Err("the command ran".into());
        }
        stop.cancel();
        delay = delay.min(ticking.await?);
    }
    Ok((decided, delay))
}

/// The longest time by which a task that wakes up often was late.
async fn longest_delay(stop: CancellationToken) -> Duration {
    let mut longest = Duration::ZERO;
    while !stop.is_cancelled() {
        let start = Instant::now();
        tokio::time::sleep(TICK).await;
        longest = longest.max(start.elapsed().saturating_sub(TICK));
    }
    longest
}
