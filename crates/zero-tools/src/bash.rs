//! The Bash tool: runs a command to its end or as a background job.

mod command_report;
pub(crate) mod quarantine_notice;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::sanitize::escape_line;
use zero_core::text_shortening::shorten_end;
use zero_core::{
    CommandExecution, CommandLine, Effect, Effects, ErrorReason, FileLocation, ResultDisplay,
    RiskLevel, TimeoutClass, ToolCategory, ToolError, ToolKind, ToolResultPart,
};
use zero_exec::jobs::{JOBS_MAX, Job};
use zero_runtime::{
    CallContext, CallDescription, CommandDisposition, CommandRequest, StreamMode, Tool, ToolBound,
    ToolInfo, ToolNotes, ToolReply,
};
use zero_sandbox::output_collector::OutputStream;
use zero_sandbox::{FileType, FinalLinkMode, ResolvedPath, Workspace};

use crate::path_not_found;
use crate::text_format::to_single_line;
use command_report::CommandReport;
pub(crate) use command_report::{output_text, render_stream, weaker_sandbox_note};
pub use quarantine_notice::QuarantineNotice;

/// Longest title of a call, in characters.
const TITLE_CHARS_MAX: usize = 160;
/// Longest command in a title, in characters.
const COMMAND_TITLE_CHARS_MAX: usize = 100;

/// Runs a command and returns its output and exit code. `command` is a line for bash; with `args`
/// it is a program that gets them unchanged. The working folder is kept from call to call: after
/// `cd src` the next command starts there, as long as it is inside the workspace. Commands cannot
/// read input from the user. They reach only hosts that the user allowed, by HTTP, HTTPS or SOCKS,
/// and cannot change files outside the workspace. To read, search or change files use Read, Grep,
/// Glob and Edit instead of `cat`, `grep`, `find` and `sed`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashArgs {
    /// The command: a line for a shell, or with `args` a program.
    #[schemars(length(min = 1))]
    command: String,
    /// Arguments of the program, passed without a shell.
    args: Option<Vec<String>>,
    /// The folder to run it in. When absent, the folder in which the last command ended, at first
    /// the workspace root.
    cwd: Option<String>,
    /// Environment variables to set for it.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Timeout in milliseconds; 120,000 when absent, unless the settings say otherwise. A command that
    /// takes longer is killed, or continues as a job if the settings say so.
    #[schemars(range(min = 1, max = 600_000))]
    timeout: Option<u64>,
    /// Start it and return at once with a `job_id`; BashOutput returns its output, BashKill ends
    /// it. It may run as long as the session lasts, unless `timeout` is given.
    #[serde(default)]
    run_in_background: bool,
    /// Give it a terminal, for programs that behave differently without one.
    #[serde(default)]
    tty: bool,
    /// Let it change the workspace although it seems to only read, if it failed because of that.
    #[serde(default)]
    write_access: bool,
    /// Let it connect to every host that the user allowed, although it seems to need no network or
    /// only the hosts that it names, if it failed because of that.
    #[serde(default)]
    network_access: bool,
    /// Run it outside the sandbox, if it was the last command and failed because of the sandbox, and
    /// nothing inside helps. The user is always asked, and may switch it off.
    #[serde(default)]
    outside_sandbox: bool,
    /// What the command does, in five to ten words.
    description: Option<String>,
}

/// The output of a command and how it ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BashOutput {
    /// Its standard output, as plain text.
    pub stdout: String,
    /// Its standard error, as plain text.
    pub stderr: String,
    /// Its exit code; 128 plus the signal number if a signal ended it. Null for a job that still
    /// runs.
    pub exit_code: Option<i32>,
    /// The signal that ended it, such as `SIGSEGV`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The folder where the next command starts, when this one changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// True when output was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// The file with the complete output, when some was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spill_file: Option<String>,
    /// The job that was started, or that the command became because it took too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Files that it created but commands may not create, which were moved to quarantine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<QuarantineNotice>,
    /// Further notes, such as refused hosts; for the metadata of the result, because the
    /// specification of the tool does not have them.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// A validated call: the command, its folder and its limits.
#[derive(Debug)]
pub struct BashPlan {
    execution: CommandExecution,
    folder: Option<ResolvedPath>,
    streams: StreamMode,
    timeout: Option<Duration>,
    run_in_background: bool,
    description: Option<String>,
}

impl BashPlan {
    fn title(&self) -> String {
        let title = command_title(self.description.as_deref(), &self.execution.to_string());
        match (self.execution.outside_sandbox, self.run_in_background) {
            (true, _) => format!("{title} outside the sandbox"),
            (false, true) => format!("{title} in the background"),
            (false, false) => title,
        }
    }

    fn request(&self) -> CommandRequest {
        CommandRequest { execution: self.execution.clone(), streams: self.streams, input: None }
    }
}

/// Runs a shell command in the sandbox.
pub struct BashTool;

impl Tool for BashTool {
    type Args = BashArgs;
    type Output = BashOutput;
    type Plan = BashPlan;
    const NAME: &'static str = "Bash";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Run command",
            category: ToolCategory::Development,
            kind: ToolKind::Execute,
            risk: RiskLevel::High,
            timeout_class: TimeoutClass::Command,
            idempotent: false,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        let effects = "runs a command in the sandbox: it can read the machine's files except credentials and the rest of the home folder that builds do not need, change the workspace, and reach allowed hosts; the files and hosts that its command line names are checked one by one";
        ToolNotes {
            other_risks: Some(
                "low for commands that only read; critical if one destroys or discloses something irreversibly, such as deleting recursively, rewriting shared history, or publishing",
            ),
            ..ToolNotes::new(effects)
        }
        .with_bounds([ToolBound::count("jobs of a session that are running or unread", JOBS_MAX)])
    }

    fn plan(&self, args: BashArgs, workspace: &Workspace) -> Result<BashPlan, ToolError> {
        self.plan_in(args, workspace, None)
    }

    fn plan_in(
        &self,
        args: BashArgs,
        workspace: &Workspace,
        folder: Option<&Path>,
    ) -> Result<BashPlan, ToolError> {
        if args.command.trim().is_empty() {
            let message = "`command` is empty; say what to run";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        }
        check_texts(&args)?;
        if args.outside_sandbox && args.run_in_background {
            let message = "`outside_sandbox` and `run_in_background` exclude each other: what runs outside the sandbox ends with its call";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        }
        let command = match args.args {
            None => CommandLine::Shell(args.command),
            Some(rest) => CommandLine::Program([vec![args.command], rest].concat()),
        };
        let folder = match (args.cwd, folder) {
            (Some(cwd), _) => Some(workspace.resolve(&cwd, FinalLinkMode::Follow)?),
            (None, Some(folder)) => Some(workspace.resolve_path(folder, FinalLinkMode::Follow)?),
            (None, None) => None,
        };
        let execution = CommandExecution {
            command,
            folder: folder.as_ref().map(|folder| folder.target().clone()),
            variables: args.env.into_iter().collect(),
            write_access: args.write_access,
            network_access: args.network_access,
            outside_sandbox: args.outside_sandbox,
        };
        Ok(BashPlan {
            execution,
            folder,
            streams: if args.tty { StreamMode::Terminal } else { StreamMode::Pipes },
            timeout: args.timeout.map(Duration::from_millis),
            run_in_background: args.run_in_background,
            description: args.description,
        })
    }

    fn describe(&self, plan: &BashPlan) -> CallDescription {
        let folder = plan.folder.as_ref();
        CallDescription {
            title: plan.title(),
            locations: folder
                .map(|f| FileLocation { path: f.path().to_owned(), line: None })
                .into_iter()
                .collect(),
        }
    }

    fn effects(&self, plan: &BashPlan) -> Effects {
        vec![Effect::Exec(plan.execution.clone())]
    }

    fn deadline(&self, plan: &BashPlan) -> Option<Duration> {
        plan.timeout.filter(|_| !plan.run_in_background)
    }

    fn check(&self, plan: &BashPlan, cx: &CallContext) -> Result<(), ToolError> {
        let Some(folder) = &plan.folder else { return Ok(()) };
        match folder.facts()? {
            Some(facts) if facts.file_type == FileType::Directory => Ok(()),
            // This error says what is there instead, or which names are similar.
            _ => path_not_found::open_folder(folder, cx).map(|_| ()),
        }
    }

    fn preview(&self, plan: &BashPlan, cx: &CallContext) -> Option<ResultDisplay> {
        let folder = plan.folder.as_ref().map_or_else(
            || cx.workspace().cwd().display().to_string(),
            |folder| folder.path().display().to_string(),
        );
        let mut lines = vec![plan.execution.to_string(), String::new(), format!("in {folder}")];
        lines.extend(
            plan.execution.variables.iter().map(|(name, value)| format!("with {name}={value}")),
        );
        if plan.execution.write_access {
            lines.push("with write access to the workspace".to_owned());
        }
        if plan.execution.network_access {
            lines.push("with access to every host that commands may reach".to_owned());
        }
        if plan.execution.outside_sandbox {
            lines.push(
                "OUTSIDE THE SANDBOX: nothing confines it. It can read and change every file that you can, and connect to every host. Only its limits and its timeout apply."
                    .to_owned(),
            );
        }
        if plan.run_in_background {
            lines.push("in the background".to_owned());
        }
        Some(ResultDisplay::markdown(lines.join("\n")))
    }

    async fn run(
        &self,
        plan: Arc<BashPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<BashOutput>, ToolError> {
        let reply = if plan.run_in_background {
            let job = cx.start_job(plan.request(), plan.timeout).await?;
            reply_started(&job)
        } else {
            match cx.run_command(plan.request()).await? {
                CommandDisposition::Ended(outcome) => {
                    CommandReport::from_outcome(&outcome, cx.workspace()).into_reply()
                }
                CommandDisposition::ContinuedAsJob(job) => reply_continued(&job),
            }
        };
        cx.record_notes(&reply.output.notes);
        Ok(reply)
    }
}

/// Rejects texts that cannot be passed to a program, naming the field.
fn check_texts(args: &BashArgs) -> Result<(), ToolError> {
    let refused = |field: String, what: &str| {
        let message = format!("`{field}` {what}");
        Err(ToolError::invalid(ErrorReason::SchemaViolation, message).with_detail("field", field))
    };
    const NUL: &str = "contains a NUL character, which cannot be passed to a program; remove it";
    if args.command.contains('\0') {
        return refused("command".to_owned(), NUL);
    }
    let mut words = args.args.iter().flatten();
    if let Some(at) = words.position(|word| word.contains('\0')) {
        return refused(format!("args/{at}"), NUL);
    }
    for (name, value) in &args.env {
        let field = || format!("env/{}", to_single_line(name));
        if name.is_empty() || name.contains(['=', '\0']) {
            return refused(field(), "is not a variable name: it is empty, or contains `=` or NUL");
        }
        if value.contains('\0') {
            return refused(field(), NUL);
        }
    }
    Ok(())
}

fn reply_started(job: &Job) -> ToolReply<BashOutput> {
    let id = job.id();
    let text = format!(
        "Started in the background as `{id}`; BashOutput returns its output, BashKill ends it"
    );
    reply_with_job(job, text, format!("Started `{id}`"))
}

/// Returns the reply for a command that exceeded its timeout and continues as a job.
pub(crate) fn reply_continued(job: &Job) -> ToolReply<BashOutput> {
    let id = job.id();
    let (pieces, _) = job.take_output();
    let mut text = output_text(&pieces, None);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!(
        "(it exceeded its `timeout` and continues as job `{id}`; BashOutput returns its further output, BashKill ends it)"
    ));
    let mut reply = reply_with_job(job, text, format!("Continues as `{id}`"));
    reply.output.stdout = output_text(&pieces, Some(OutputStream::Stdout));
    reply.output.stderr = output_text(&pieces, Some(OutputStream::Stderr));
    reply.output.spill_file = job.spill_file().map(str::to_owned);
    reply
}

fn reply_with_job(job: &Job, mut text: String, shown: String) -> ToolReply<BashOutput> {
    let mut notes: Vec<String> = job.sandbox_gaps().iter().map(weaker_sandbox_note).collect();
    notes.extend(job.sandbox_notes());
    for note in &notes {
        text.push_str(&format!("\n({note})"));
    }
    ToolReply {
        content: vec![ToolResultPart::Text(text)],
        display: ResultDisplay::markdown(shown),
        output: BashOutput {
            stdout: String::new(),
            stderr: String::new(),
            exit_code: None,
            signal: None,
            cwd: None,
            truncated: None,
            spill_file: None,
            job_id: Some(job.id().to_owned()),
            quarantined: Vec::new(),
            notes,
        },
        locations: Vec::new(),
    }
}

/// Returns the title of a call: the first line of the command, and the model's description of it.
/// The command comes first, because the description may not match it.
pub(crate) fn command_title(description: Option<&str>, command: &str) -> String {
    let line =
        |text: &str| escape_line(text.trim().lines().next().unwrap_or_default()).into_owned();
    let more = if command.trim().lines().count() > 1 { " …" } else { "" };
    let shown = shorten_end(&line(command), COMMAND_TITLE_CHARS_MAX);
    let title = format!("Run `{shown}{more}`");
    match description.map(line).filter(|text| !text.is_empty()) {
        Some(description) => shorten_end(&format!("{title}: {description}"), TITLE_CHARS_MAX),
        None => title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_one_short_line() {
        #[track_caller]
        fn check(description: Option<&str>, command: &str, expected: &str) {
            assert_eq!(command_title(description, command), expected);
        }
        check(None, "ls -l", "Run `ls -l`");
        check(None, "\n  cd x\nmake", "Run `cd x …`");
        check(Some("Builds all"), "make", "Run `make`: Builds all");
        check(Some("  "), "make", "Run `make`");
        check(Some("a\nb"), "make", "Run `make`: a");
        check(None, "echo \u{1b}[31m", "Run `echo \\u{1b}[31m`");
        check(Some("a\u{202e}\u{3164}"), "make", "Run `make`: a\\u{202e}\\u{3164}");
        let long = command_title(Some(&"x".repeat(500)), &"x".repeat(500));
        assert_eq!(long.chars().count(), TITLE_CHARS_MAX + 1);
        assert!(long.contains("…`: xxx"), "{long}");
    }
}
