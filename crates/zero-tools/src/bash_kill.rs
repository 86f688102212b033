//! BashKill: ends a job.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{
    Category, Content, Display, Effect, Effects, Kind, Reason, Risk, TimeoutClass, ToolError,
};
use zero_runtime::jobs::JobStatus;
use zero_runtime::{About, Bound, CallContext, Description, Particulars, Tool, ToolReply};
use zero_sandbox::Workspace;

use crate::bash::settled;
use crate::wording::one_line;

/// How long the end of a job is waited for.
const END_MAX: Duration = Duration::from_secs(5);

/// Ends a background job that Bash started, with every process that came of it. What it wrote can
/// still be read with BashOutput.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashKillArgs {
    /// The job, as Bash named it.
    job_id: String,
}

/// What became of the job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BashKillOutput {
    /// The job.
    pub job_id: String,
    /// Whether it was still running.
    pub killed: bool,
}

/// Ends a job.
pub struct BashKill;

impl Tool for BashKill {
    type Args = BashKillArgs;
    type Output = BashKillOutput;
    type Plan = String;
    const NAME: &'static str = "BashKill";

    fn about(&self) -> About {
        About {
            display_name: "End job",
            category: Category::Development,
            kind: Kind::Execute,
            risk: Risk::Medium,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        }
    }

    fn particulars(&self) -> Particulars {
        Particulars::of("ends one job of the session, with every process of it")
            .within([Bound::time("waiting for its end", END_MAX)])
    }

    fn plan(&self, args: BashKillArgs, _workspace: &Workspace) -> Result<String, ToolError> {
        Ok(args.job_id)
    }

    fn describe(&self, job_id: &String) -> Description {
        Description { title: format!("End `{}`", one_line(job_id)), locations: Vec::new() }
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
        cx.blocking(move |cx| {
            let job = cx.jobs().get(&job_id)?;
            let killed = job.status() == JobStatus::Running;
            job.kill();
            if !job.wait(END_MAX) {
                let message = format!("job `{job_id}` was told to end and has not yet; try again");
                return Err(ToolError::failed(Reason::Busy, message));
            }
            let mut text = match killed {
                true => format!("Ended `{job_id}`"),
                false => format!("`{job_id}` had ended already"),
            };
            for note in settled::notes(&job.settled(), cx.workspace()) {
                text.push_str(&format!("\n({note})"));
            }
            Ok(ToolReply {
                content: vec![Content::Text(text.clone())],
                display: Display::markdown(text),
                output: BashKillOutput { job_id: job_id.to_string(), killed },
                locations: Vec::new(),
            })
        })
        .await
    }
}
