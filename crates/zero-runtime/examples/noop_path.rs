//! Measures the cost of the call path itself: a tool that does nothing, through all eleven steps, with
//! audit, in a workspace that is watched for secrets.
//!
//! Prints the median of 100,000 calls on one thread, and the resident memory after 100,000 and
//! after 1,000,000 calls. `cargo xtask bench` runs it; its one argument is a folder for the audit
//! log, which grows to a few hundred megabytes and is removed.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement, not part of the product"
)]

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use zero_core::{
    Effect, Effects, ResultDisplay, RiskLevel, TimeoutClass, ToolCall, ToolCategory, ToolError,
    ToolKind, ToolResultPart,
};
use zero_policy::SecretFileSet;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    CallContext, CallDescription, Dialect, DialectName, Tool, ToolHost, ToolHostConfig,
    ToolHostSession, ToolInfo, ToolReply, erase,
};
use zero_sandbox::{StateDir, Workspace};

const MEASURED_CALLS: usize = 100_000;
const ALL_CALLS: usize = 1_000_000;
const WARM_UP_CALLS: usize = 1_000;

/// Does nothing, to the thing it is given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoopArgs {
    /// The thing to do nothing to.
    thing: String,
}

#[derive(Serialize, JsonSchema)]
struct NoopOutput {
    done: bool,
}

struct Noop;

impl Tool for Noop {
    type Args = NoopArgs;
    type Output = NoopOutput;
    type Plan = NoopArgs;
    const NAME: &'static str = "Noop";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Do nothing",
            category: ToolCategory::Project,
            kind: ToolKind::Think,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        }
    }

    fn plan(&self, args: NoopArgs, _workspace: &Workspace) -> Result<NoopArgs, ToolError> {
        Ok(args)
    }

    fn describe(&self, plan: &NoopArgs) -> CallDescription {
        CallDescription { title: format!("Do nothing to {}", plan.thing), locations: Vec::new() }
    }

    fn effects(&self, plan: &NoopArgs) -> Effects {
        vec![Effect::State(plan.thing.clone())]
    }

    async fn run(
        &self,
        _plan: Arc<NoopArgs>,
        _cx: CallContext,
    ) -> Result<ToolReply<NoopOutput>, ToolError> {
        Ok(ToolReply {
            content: vec![ToolResultPart::Text("done".to_owned())],
            display: ResultDisplay::Markdown { text: "done".to_owned() },
            output: NoopOutput { done: true },
            locations: Vec::new(),
        })
    }
}

struct NoopHarness {
    host: ToolHost,
    session: ToolHostSession,
    dialect: Dialect,
}

impl NoopHarness {
    fn new(folder: &std::path::Path) -> Result<Self, Box<dyn Error>> {
        let root = folder.join("workspace");
        std::fs::create_dir_all(&root)?;
        let workspace = Workspace::open(&[root], None)?;
        let mut config = ToolHostConfig::new(workspace, StateDir::new(folder.join("state")));
        config.secrets.files = SecretFileSet::standard();
        let host = ToolHost::new(config);
        host.registry().add("example", vec![erase(Noop)])?;
        let session = host.open_one_shot_session()?;
        Ok(Self { host, session, dialect: Dialect::new(DialectName::Canonical) })
    }

    /// Makes one call and returns its duration.
    async fn call(&self) -> Result<Duration, ToolError> {
        let (id, tool, input) = (new_call_id(), "Noop".to_owned(), json!({"thing": "the list"}));
        let call = ToolCall { id, session: None, tool, input, timeout: None };
        let start = Instant::now();
        let report =
            self.host.call(&self.session, &self.dialect, call, &CancellationToken::new()).await;
        let took = start.elapsed();
        report.outcome.map(|_| took)
    }
}

/// The resident memory of the process, in kilobytes.
fn resident_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder =
        PathBuf::from(std::env::args_os().nth(1).ok_or("name a folder for the audit log")?);
    let path = NoopHarness::new(&folder)?;
    for _ in 0..WARM_UP_CALLS {
        path.call().await?;
    }
    let mut durations = Vec::with_capacity(MEASURED_CALLS);
    for _ in 0..MEASURED_CALLS {
        durations.push(path.call().await?);
    }
    let early_kb = resident_kb();
    for _ in MEASURED_CALLS..ALL_CALLS {
        path.call().await?;
    }
    let late_kb = resident_kb();
    durations.sort_unstable();
    let median_ns = durations[durations.len() / 2].as_nanos();
    println!(
        "{}",
        json!({"median_ns": median_ns as u64, "resident_early_kb": early_kb, "resident_late_kb": late_kb})
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
