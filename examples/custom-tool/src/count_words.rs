//! The tool: what it takes, what it gives, what it touches and what it does.

use std::io::{Read as _, read_to_string};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{Effect, Effects, ErrorReason, RiskLevel, ToolError};
use zero_runtime::{CallContext, Tool, ToolInfo, ToolReply};
use zero_sandbox::{FinalLinkMode, ResolvedPath, Workspace};

/// Counts the words of a text file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountWordsArgs {
    /// The file, absolute or seen from the workspace's first folder.
    file: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct WordCount {
    words: usize,
}

pub(crate) struct CountWordsTool;

impl Tool for CountWordsTool {
    type Args = CountWordsArgs;
    type Output = WordCount;
    type Plan = ResolvedPath;
    const NAME: &'static str = "CountWords";

    fn info(&self) -> ToolInfo {
        ToolInfo::new("Count words", RiskLevel::Low)
    }

    fn plan(&self, args: CountWordsArgs, workspace: &Workspace) -> Result<ResolvedPath, ToolError> {
        workspace.resolve(&args.file, FinalLinkMode::Follow)
    }

    fn effects(&self, file: &ResolvedPath) -> Effects {
        vec![Effect::Read(file.target().clone())]
    }

    async fn run(
        &self,
        file: Arc<ResolvedPath>,
        cx: CallContext,
    ) -> Result<ToolReply<WordCount>, ToolError> {
        let words = cx.run_blocking(move |cx| count_words_in(&file, cx)).await?;
        Ok(ToolReply::from_text(format!("{words} words"), WordCount { words }))
    }
}

fn count_words_in(file: &ResolvedPath, cx: &CallContext) -> Result<usize, ToolError> {
    let most = cx.limits().file_bytes_max.get();
    let text = read_to_string(file.open_file()?.take(most)).map_err(|error| {
        ToolError::failed(
            ErrorReason::Io,
            format!("`{}` cannot be read: {error}", file.display_path()),
        )
    })?;
    Ok(text.split_whitespace().count())
}
