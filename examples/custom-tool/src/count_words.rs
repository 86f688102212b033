//! The tool: what it takes, what it gives, what it touches and what it does.

use std::io::{Read as _, read_to_string};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{Effect, Effects, Reason, Risk, ToolError};
use zero_runtime::{About, CallContext, Tool, ToolReply};
use zero_sandbox::{LastLink, Located, Workspace};

/// Counts the words of a text file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The file, absolute or seen from the workspace's first folder.
    file: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Count {
    words: usize,
}

pub(crate) struct CountWords;

impl Tool for CountWords {
    type Args = Args;
    type Output = Count;
    type Plan = Located;
    const NAME: &'static str = "CountWords";

    fn about(&self) -> About {
        About::new("Count words", Risk::Low)
    }

    fn plan(&self, args: Args, workspace: &Workspace) -> Result<Located, ToolError> {
        workspace.locate(&args.file, LastLink::Follow)
    }

    fn effects(&self, file: &Located) -> Effects {
        vec![Effect::Read(file.target().clone())]
    }

    async fn run(
        &self,
        file: Arc<Located>,
        cx: CallContext,
    ) -> Result<ToolReply<Count>, ToolError> {
        let words = cx.blocking(move |cx| count(&file, cx)).await?;
        Ok(ToolReply::text(format!("{words} words"), Count { words }))
    }
}

fn count(file: &Located, cx: &CallContext) -> Result<usize, ToolError> {
    let most = cx.limits().file_bytes_max.get();
    let text = read_to_string(file.open_file()?.take(most)).map_err(|error| {
        ToolError::failed(Reason::Io, format!("`{}` cannot be read: {error}", file.shown()))
    })?;
    Ok(text.split_whitespace().count())
}
