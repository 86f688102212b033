//! The BashOutput tool: returns the new output of background jobs, and sends them input.

use std::sync::Arc;
use std::time::Duration;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::sanitize::escape_line;
use zero_core::{
    CommandExecution, CommandLine, Effect, Effects, ErrorReason, ResultDisplay, RiskLevel,
    TimeoutClass, ToolCategory, ToolError, ToolKind, ToolResultPart, signal_name,
};
use zero_exec::jobs::{Job, JobStatus, OutputChunk, UNREAD_BYTES_MAX};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::Workspace;
use zero_sandbox::output_collector::OutputStream;

use crate::bash::{QuarantineNotice, output_text, quarantine_notice, weaker_sandbox_note};
use crate::text_format::{pluralize, to_single_line};

/// Longest text that can be sent to a job, in bytes.
const STDIN_BYTES_MAX: usize = 64 * 1024;
/// Longest time to wait for a job, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;
/// Time for the rest of a call that waits.
const CALL_TIME: Duration = Duration::from_secs(30);

/// Returns what a background job wrote since the last call, whether it still runs and how long it
/// has run. To wait for a job, give `wait_ms` instead of calling again and again. Without `job_id`
/// it lists the jobs. With `stdin` it first sends the job a text to read; end it with a newline if
/// the job reads lines. With `filter` only matching lines are returned, and the others count as
/// read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashOutputArgs {
    /// The job, as Bash named it. All jobs are listed when absent.
    job_id: Option<String>,
    /// A regular expression for the lines to return.
    filter: Option<String>,
    /// A text to send to the job first. The user is asked, since it may be a command.
    stdin: Option<String>,
    /// How long to wait for new output or the end of the job, in milliseconds. The call returns
    /// as soon as there is either. It does not wait when absent.
    #[schemars(range(max = 60_000))]
    wait_ms: Option<u64>,
}

/// The new output of a job, or the list of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BashJobOutput {
    /// Its standard output since the last call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Its standard error since the last call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Bytes that it wrote since the last call, also those that `filter` left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_bytes: Option<u64>,
    /// The job, or all jobs.
    pub jobs: Vec<BashJobReport>,
}

/// The state of a job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BashJobReport {
    /// The id of the job.
    pub job_id: String,
    /// The command that it runs.
    pub command: String,
    /// Whether the job is running.
    pub status: BashJobState,
    /// Its exit code, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Why it was stopped, if a limit or its timeout did that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds since its start, or from its start to its end.
    pub run_ms: u64,
    /// Bytes of output not read yet.
    pub unread_bytes: u64,
    /// The file with its complete output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spill_file: Option<String>,
    /// Files that it created but commands may not create, which were moved to quarantine; known once
    /// it has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<QuarantineNotice>,
    /// Further notes, such as refused hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Whether a job is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BashJobState {
    /// The job is running.
    Running,
    /// The job has ended.
    Exited,
}

impl BashJobReport {
    fn from_job(job: &Job, workspace: &Workspace) -> Self {
        let (status, end) = match job.status() {
            JobStatus::Running => (BashJobState::Running, None),
            JobStatus::Ended(end) => (BashJobState::Exited, end),
        };
        let report = job.watch_report();
        let stopped = job.stop_error();
        let reason = stopped.as_ref().and_then(|error| error.details.get("reason"));
        let signal = end.as_ref().and_then(|end| end.signal);
        Self {
            job_id: job.id().to_owned(),
            command: job.command().to_owned(),
            status,
            exit_code: end.and_then(|end| end.exit_code).or_else(|| Some(128 + signal?)),
            signal: signal.map(signal_name),
            run_ms: u64::try_from(job.run_time().as_millis()).unwrap_or(u64::MAX),
            unread_bytes: job.unread_bytes() as u64,
            spill_file: job.spill_file().map(str::to_owned),
            quarantined: quarantine_notice::quarantine_notices(&report, workspace),
            reason: reason.and_then(|reason| reason.as_str()).map(str::to_owned),
            notes: [
                stopped.iter().map(|error| error.message.clone()).collect(),
                job.sandbox_gaps().iter().map(weaker_sandbox_note).collect(),
                quarantine_notice::quarantine_notes(&report, workspace),
                job.sandbox_notes(),
            ]
            .concat(),
        }
    }

    fn describe_status(&self) -> String {
        match (self.status, &self.signal, self.exit_code) {
            (BashJobState::Running, ..) => format!("running for {} s", self.run_ms / 1000),
            (_, Some(signal), _) => format!("ended by {signal}"),
            (_, None, Some(code)) => format!("exited with code {code}"),
            (_, None, None) => "ended".to_owned(),
        }
    }
}

/// A validated call.
#[derive(Debug)]
pub struct BashOutputPlan {
    job_id: Option<String>,
    filter: Option<RegexMatcher>,
    stdin: Option<String>,
    wait: Option<Duration>,
}

/// Returns what a background command printed since the last call.
pub struct BashOutputTool;

impl Tool for BashOutputTool {
    type Args = BashOutputArgs;
    type Output = BashJobOutput;
    type Plan = BashOutputPlan;
    const NAME: &'static str = "BashOutput";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Read job output",
            category: ToolCategory::Development,
            kind: ToolKind::Execute,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::File,
            idempotent: false,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        let effects = "returns the output of a job of the session; with `stdin`, sends the job a text, which is checked as a command";
        ToolNotes {
            other_risks: Some("with `stdin` as Bash, since the text may be a command"),
            ..ToolNotes::new(effects)
        }
        .with_bounds([
            ToolBound::bytes("`stdin`", STDIN_BYTES_MAX),
            ToolBound::time("`wait_ms`", Duration::from_millis(WAIT_MS_MAX)),
            ToolBound::bytes("unread output, of which the newest is kept", UNREAD_BYTES_MAX),
        ])
    }

    fn plan(
        &self,
        args: BashOutputArgs,
        _workspace: &Workspace,
    ) -> Result<BashOutputPlan, ToolError> {
        let BashOutputArgs { job_id, filter, stdin, wait_ms } = args;
        if job_id.is_none() && (stdin.is_some() || filter.is_some() || wait_ms.is_some()) {
            let message = "`stdin`, `filter` and `wait_ms` need a `job_id`";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        }
        if stdin.as_ref().is_some_and(|text| text.len() > STDIN_BYTES_MAX) {
            let message =
                format!("`stdin` has more than {STDIN_BYTES_MAX} bytes; send it in parts");
            return Err(ToolError::invalid(ErrorReason::TooLarge, message));
        }
        let compiled = filter.as_deref().map(RegexMatcher::new).transpose();
        let filter = compiled.map_err(|error| {
            let message = format!("`filter` is not a regular expression: {error}");
            ToolError::invalid(ErrorReason::BadPattern, message)
        })?;
        let wait = wait_ms.map(|wait| Duration::from_millis(wait.min(WAIT_MS_MAX)));
        Ok(BashOutputPlan { job_id, filter, stdin, wait })
    }

    fn describe(&self, plan: &BashOutputPlan) -> CallDescription {
        let title = match (&plan.job_id, &plan.stdin) {
            (None, _) => "List jobs".to_owned(),
            (Some(id), None) if plan.wait.is_some() => {
                format!("Wait for output of `{}`", escape_line(id))
            }
            (Some(id), None) => format!("Read output of `{}`", escape_line(id)),
            (Some(id), Some(_)) => format!("Send text to `{}`", escape_line(id)),
        };
        CallDescription { title, locations: Vec::new() }
    }

    /// A text for a job is checked as the command that it may be, so that denied commands stay
    /// denied. It is also checked as a shell that reads commands, so that the user is asked even if
    /// the text looks harmless: what the job does with it, and in which folder, is unknown.
    fn effects(&self, plan: &BashOutputPlan) -> Effects {
        let words = ["sh", "-s"].map(str::to_owned).to_vec();
        let reader = || CommandExecution::new(CommandLine::Program(words.clone()));
        let sent =
            plan.stdin.iter().flat_map(|text| [CommandExecution::from_shell(text), reader()]);
        let sent = sent.map(Effect::Exec);
        std::iter::once(Effect::State("a job".to_owned())).chain(sent).collect()
    }

    fn deadline(&self, plan: &BashOutputPlan) -> Option<Duration> {
        plan.wait.map(|wait| wait.saturating_add(CALL_TIME))
    }

    fn check(&self, plan: &BashOutputPlan, cx: &CallContext) -> Result<(), ToolError> {
        plan.job_id.as_ref().map_or(Ok(()), |id| cx.jobs().get(id).map(|_| ()))
    }

    async fn run(
        &self,
        plan: Arc<BashOutputPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<BashJobOutput>, ToolError> {
        let Some(id) = &plan.job_id else {
            return Ok(reply_job_list(&cx.jobs().list(), cx.workspace()));
        };
        let job = cx.jobs().get(id)?;
        if let Some(text) = &plan.stdin {
            job.send(text)?;
        }
        if let Some(limit) = plan.wait {
            tokio::select! {
                () = job.wait_progress() => {}
                () = tokio::time::sleep(limit) => {}
                () = cx.cancelled() => return Err(ToolError::cancelled()),
            }
        }
        // Taken before the output is read: for a job that has already ended, no more output
        // follows.
        let facts = BashJobReport::from_job(&job, cx.workspace());
        let (pieces, lost) = job.take_output();
        Ok(reply_output(
            &pieces,
            lost,
            plan.filter.as_ref(),
            BashJobReport { unread_bytes: 0, ..facts },
        ))
    }
}

fn reply_job_list(jobs: &[Arc<Job>], workspace: &Workspace) -> ToolReply<BashJobOutput> {
    let facts: Vec<BashJobReport> =
        jobs.iter().map(|job| BashJobReport::from_job(job, workspace)).collect();
    let lines = facts.iter().map(|job| {
        format!(
            "{}: {}, {} unread: {}",
            job.job_id,
            job.describe_status(),
            pluralize(job.unread_bytes, "byte", "bytes"),
            to_single_line(&job.command)
        )
    });
    let lines: Vec<String> = lines.collect();
    let text = if lines.is_empty() { "(no jobs)".to_owned() } else { lines.join("\n") };
    ToolReply {
        content: vec![ToolResultPart::Text(text.clone())],
        display: ResultDisplay::markdown(text),
        output: BashJobOutput { stdout: None, stderr: None, new_bytes: None, jobs: facts },
        locations: Vec::new(),
    }
}

fn reply_output(
    pieces: &[OutputChunk],
    lost: u64,
    filter: Option<&RegexMatcher>,
    facts: BashJobReport,
) -> ToolReply<BashJobOutput> {
    let of = |stream: Option<OutputStream>| filter_lines(&output_text(pieces, stream), filter);
    let mut text = of(None);
    if lost > 0 {
        let all = facts
            .spill_file
            .as_ref()
            .map_or_else(String::new, |file| format!("; the complete output is in {file}"));
        text.insert_str(0, &format!("[… {lost} earlier bytes left out{all} …]\n"));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let new_bytes = pieces.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>() + lost;
    let new_output = match (facts.status, new_bytes) {
        (BashJobState::Exited, _) => String::new(),
        (BashJobState::Running, 0) => "; no new output".to_owned(),
        (BashJobState::Running, bytes) => {
            format!("; {} since the last call", pluralize(bytes, "new byte", "new bytes"))
        }
    };
    let last = format!("({} {}{new_output})", facts.job_id, facts.describe_status());
    text.push_str(&last);
    for note in &facts.notes {
        text.push_str(&format!("\n({note})"));
    }
    ToolReply {
        content: vec![ToolResultPart::Text(text)],
        display: ResultDisplay::markdown(last),
        output: BashJobOutput {
            stdout: Some(of(Some(OutputStream::Stdout))),
            stderr: Some(of(Some(OutputStream::Stderr))),
            new_bytes: Some(new_bytes),
            jobs: vec![facts],
        },
        locations: Vec::new(),
    }
}

fn filter_lines(text: &str, filter: Option<&RegexMatcher>) -> String {
    let Some(filter) = filter else { return text.to_owned() };
    let matches =
        |line: &&str| filter.is_match(line.trim_end_matches('\n').as_bytes()).unwrap_or(false);
    text.split_inclusive('\n').filter(matches).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_keeps_whole_lines() {
        let filter = RegexMatcher::new("^err").unwrap();
        assert_eq!(filter_lines("err 1\nok\nerr 2", Some(&filter)), "err 1\nerr 2");
        assert_eq!(filter_lines("a\nb", None), "a\nb");
    }
}
