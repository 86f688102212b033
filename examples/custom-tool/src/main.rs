//! A program with a tool of its own, used through the whole path that every call takes.
//!
//! `cargo run -p custom-tool` makes two calls: one that is allowed, and one that is not.

mod count_words;

use std::error::Error;
use std::path::PathBuf;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::ToolCall;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{Dialect, DialectName, ToolHost, ToolHostConfig, erase};
use zero_sandbox::{StateDir, Workspace};

use count_words::CountWordsTool;

#[expect(clippy::print_stdout, reason = "it shows what the model would get")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The workspace is this example's own folder; the audit log goes to a temporary one.
    let workspace = Workspace::open(&[PathBuf::from(env!("CARGO_MANIFEST_DIR"))], None)?;
    let state = tempfile::tempdir()?;
    let host = ToolHost::new(ToolHostConfig::new(workspace, StateDir::new(state.path())));

    host.registry().add("custom-tool", vec![erase(CountWordsTool)])?;

    for file in ["poem.txt", "/etc/passwd"] {
        println!("{file}: {}", call(&host, "CountWords", json!({"file": file})).await?);
    }
    Ok(())
}

/// Makes one call, as a model would, and returns what it would read.
async fn call(host: &ToolHost, tool: &str, input: Value) -> Result<String, Box<dyn Error>> {
    let (id, tool) = (new_call_id(), tool.to_owned());
    let call = ToolCall { id, session: None, tool, input, timeout: None };
    let (session, dialect) = (host.open_one_shot_session()?, Dialect::new(DialectName::Canonical));
    let report = host.call(&session, &dialect, call, &CancellationToken::new()).await;
    Ok(match report.outcome {
        Ok(outcome) => {
            let said = outcome.rendered.content.first().map(|piece| piece["text"].clone());
            format!("{} {}", said.unwrap_or_default(), outcome.result.structured)
        }
        Err(error) => error.to_string(),
    })
}
