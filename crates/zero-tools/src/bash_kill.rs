//! The BashKill tool: ends a background job.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::sanitize::escape_line;
use zero_core::{
    Effect, Effects, ErrorReason, ResultDisplay, RiskLevel, TimeoutClass, ToolCategory, ToolError,
    ToolKind, ToolResultPart,
};
use zero_exec::jobs::JobStatus;
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::Workspace;

use crate::bash::quarantine_notice;

/// How long to wait for the job to end.
const EXIT_WAIT_MAX: Duration = Duration::from_secs(5);

/// Ends a background job that Bash started, with all of its processes. Its output can still be read
/// with BashOutput.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashKillArgs {
    /// The job, as Bash named it.
    job_id: String,
}

/// The outcome for the job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BashKillOutput {
    /// The id of the job.
    pub job_id: String,
    /// Whether it was still running.
    pub killed: bool,
}

/// Ends a background command and all its processes.
pub struct BashKillTool;

impl Tool for BashKillTool {
    type Args = BashKillArgs;
    type Output = BashKillOutput;
    type Plan = String;
    const NAME: &'static str = "BashKill";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "End job",
            category: ToolCategory::Development,
            kind: ToolKind::Execute,
            risk: RiskLevel::Medium,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("ends one job of the session, with all of its processes")
            .with_bounds([ToolBound::time("waiting for it to end", EXIT_WAIT_MAX)])
    }

    fn plan(&self, args: BashKillArgs, _workspace: &Workspace) -> Result<String, ToolError> {
        Ok(args.job_id)
    }

    fn describe(&self, job_id: &String) -> CallDescription {
        CallDescription { title: format!("End `{}`", escape_line(job_id)), locations: Vec::new() }
    }

    fn effects(&self, _job_id: &String) -> Effects {
        vec![Effect::State("a job".to_owned())]
    }

    fn check(&self, job_id: &String, cx: &CallContext) -> Result<(), ToolError> {
        cx.jobs().get(job_id).map(|_| ())
    }

    async fn run(
        &self,
        job_id: Arc<String>,
        cx: CallContext,
    ) -> Result<ToolReply<BashKillOutput>, ToolError> {
        cx.run_blocking(move |cx| {
            let job = cx.jobs().get(&job_id)?;
            let killed = job.status() == JobStatus::Running;
            job.kill();
            if !job.wait(EXIT_WAIT_MAX) {
                let message =
                    format!("job `{job_id}` was signalled but has not ended yet; try again");
                return Err(ToolError::failed(ErrorReason::Busy, message));
            }
            let mut text = match killed {
                true => format!("Ended `{job_id}`"),
                false => format!("`{job_id}` had ended already"),
            };
            for note in quarantine_notice::quarantine_notes(&job.watch_report(), cx.workspace()) {
                text.push_str(&format!("\n({note})"));
            }
            Ok(ToolReply {
                content: vec![ToolResultPart::Text(text.clone())],
                display: ResultDisplay::markdown(text),
                output: BashKillOutput { job_id: job_id.to_string(), killed },
                locations: Vec::new(),
            })
        })
        .await
    }
}
