//! Input that a tool passes to a command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_core::{
    CommandExecution, CommandLine, Effect, Effects, ErrorReason, HostLimits, ToolError,
};
use zero_runtime::{
    CallContext, CallDescription, CommandDisposition, CommandRequest, CommandSettings, StreamMode,
    Tool, ToolInfo, ToolReply, erase,
};
use zero_sandbox::Workspace;

use crate::fixture::ToolFixture;

/// A tool that passes some bytes to a command.
struct CommandInputTool;

/// Runs a command with so many bytes of input.
#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct CommandInputArgs {
    words: Vec<String>,
    bytes: Option<usize>,
    terminal: Option<bool>,
}

#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
struct CommandInputOutput {
    exit_code: Option<i32>,
    written: u64,
    begin: String,
}

impl CommandInputArgs {
    fn execution(&self) -> CommandExecution {
        let command = CommandLine::Program(self.words.clone());
        CommandExecution::new(command)
    }
}

impl Tool for CommandInputTool {
    type Args = CommandInputArgs;
    type Output = CommandInputOutput;
    type Plan = CommandInputArgs;
    const NAME: &'static str = "Feeder";

    fn info(&self) -> ToolInfo {
        zero_tools::bash::BashTool.info()
    }

    fn plan(&self, args: CommandInputArgs, _: &Workspace) -> Result<CommandInputArgs, ToolError> {
        Ok(args)
    }

    fn describe(&self, _: &CommandInputArgs) -> CallDescription {
        CallDescription::default()
    }

    fn effects(&self, plan: &CommandInputArgs) -> Effects {
        vec![Effect::Exec(plan.execution())]
    }

    async fn run(
        &self,
        plan: Arc<CommandInputArgs>,
        cx: CallContext,
    ) -> Result<ToolReply<CommandInputOutput>, ToolError> {
        let streams =
            if plan.terminal == Some(true) { StreamMode::Terminal } else { StreamMode::Pipes };
        let input = plan.bytes.map(|count| vec![b'x'; count]);
        let request = CommandRequest { execution: plan.execution(), streams, input };
        let CommandDisposition::Ended(outcome) = cx.run_command(request).await? else {
            panic!("the command continues as a job")
        };
        let head = outcome.output.stdout.head().to_vec();
        let output = CommandInputOutput {
            exit_code: outcome.exit.exit_code,
            written: outcome.output.stdout.total_bytes(),
            begin: String::from_utf8_lossy(&head[..head.len().min(20)]).trim().to_owned(),
        };
        let display = zero_core::ResultDisplay::markdown(String::new());
        Ok(ToolReply { content: Vec::new(), display, output, locations: Vec::new() })
    }
}

fn fixture_with_limits(limits: HostLimits) -> ToolFixture {
    let f = ToolFixture::with_limits(CommandSettings::default(), limits);
    f.host.registry().add("test", vec![erase(CommandInputTool)]).unwrap();
    f
}

async fn check(f: &ToolFixture, words: &[&str], bytes: Option<usize>, expected: (i64, u64, &str)) {
    let begun = Instant::now();
    let came = f.call("Feeder", json!({"words": words, "bytes": bytes})).await.unwrap();
    let came: Value = came.result.structured;
    let seen = (came["exit_code"].as_i64(), came["written"].as_u64(), came["begin"].as_str());
    let (code, written, begin) = expected;
    assert_eq!(seen, (Some(code), Some(written), Some(begin)), "{words:?} {bytes:?}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{words:?}: {:?}", begun.elapsed());
}

#[tokio::test]
async fn command_reads_input_until_eof() {
    let f = fixture_with_limits(HostLimits::default());
    check(&f, &["cat"], Some(1_000_000), (0, 1_000_000, &"x".repeat(20))).await;
    check(&f, &["wc", "-c"], Some(1_000_000), (0, 8, "1000000")).await;
    check(&f, &["wc", "-c"], Some(0), (0, 2, "0")).await;
    check(&f, &["wc", "-c"], None, (0, 2, "0")).await;
}

#[tokio::test]
async fn command_that_ignores_input_succeeds() {
    let f = fixture_with_limits(HostLimits::default());
    check(&f, &["true"], Some(1_000_000), (0, 0, "")).await;
    check(&f, &["false"], Some(1_000_000), (1, 0, "")).await;
    check(&f, &["head", "-c", "3"], Some(1_000_000), (0, 3, "xxx")).await;
    let closes = ["sh", "-c", "exec <&-; echo closed"];
    check(&f, &closes, Some(1_000_000), (0, 7, "closed")).await;
    // A command that leaves a process with the input open still ends.
    let leaves = ["sh", "-c", "sleep 600 & echo left"];
    check(&f, &leaves, Some(1_000_000), (0, 5, "left")).await;
}

#[tokio::test]
async fn oversized_input_and_terminal_input_are_refused() {
    let f = fixture_with_limits(HostLimits {
        input_bytes_max: zero_core::ByteSize::kilobytes(10),
        ..HostLimits::default()
    });
    check(&f, &["wc", "-c"], Some(10_000), (0, 6, "10000")).await;
    let error = f.call("Feeder", json!({"words": ["cat"], "bytes": 10_001})).await.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::TooLarge));
    assert_eq!(error.message, "the input of a command is limited to 10 KB; send less");
    let input = json!({"words": ["cat"], "bytes": 1, "terminal": true});
    let error = f.call("Feeder", input).await.unwrap_err();
    assert!(error.message.contains("use pipes"), "{error:?}");
}
