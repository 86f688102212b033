//! `zero jobs`: lists, shows and ends the background jobs of all zero processes of the user.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use zero_core::{sanitize, signal_name};
use zero_exec::jobs::{Job, JobRecord, JobRegistry, JobStatus};
use zero_sandbox::StateDir;

use crate::AppContext;
use crate::cli::{JobsArgs, JobsCommand, JobsKillArgs, JobsListArgs, JobsOutputArgs, JobsShowArgs};
use crate::commands::sessions::read_session_names;
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::{FAINT, STRONG, TextTable, escape_line, format_short_duration};

/// How long a killed job may take to end.
const KILL_MAX: Duration = Duration::from_secs(10);
/// The number of SIGKILL.
const KILL: i32 = 9;
/// How often new output is read.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);
/// Most bytes of output that are read at once.
const READ_BYTES_MAX: usize = 64 * 1024;

pub(super) fn run(app: &AppContext, args: &JobsArgs) -> anyhow::Result<ExitOutcome> {
    let registry = JobRegistry::open(&app.config.state_dir()?);
    match &args.command {
        None => list(app, &registry, &args.list),
        Some(JobsCommand::List(args)) => list(app, &registry, args),
        Some(JobsCommand::Show(args)) => show(app, &registry, args),
        Some(JobsCommand::Output(args)) => print_output(app, &registry, args),
        Some(JobsCommand::Kill(args)) => kill(app, &registry, args),
    }
}

fn list(
    app: &AppContext,
    registry: &Arc<JobRegistry>,
    args: &JobsListArgs,
) -> anyhow::Result<ExitOutcome> {
    let records = registry.list().context("could not read the list of jobs")?;
    let jobs = records.into_iter().map(|record| (registry.open_job(record.clone()), record));
    let is_wanted = |job: &Arc<Job>| !args.running || job.status() == JobStatus::Running;
    let jobs: Vec<(Arc<Job>, JobRecord)> = jobs.filter(|(job, _)| is_wanted(job)).collect();
    let out = &app.terminal.out;
    if args.json {
        let jobs: Vec<Value> = jobs.iter().map(|(job, record)| to_json(job, record)).collect();
        out.write_pretty_json(&json!({ "jobs": jobs }))?;
        return Ok(ExitOutcome::Ok);
    }
    if jobs.is_empty() {
        out.write("no jobs\n")?;
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["ID", "STATE", "RUN TIME", "FOLDER", "COMMAND"]);
    for (job, record) in &jobs {
        table.add_row([
            job.id().into(),
            describe_status(job).into(),
            format_short_duration(job.run_time()).into(),
            (&record.owner.workspace).into(),
            (&record.command).into(),
        ]);
    }
    out.write(&table.render(out))?;
    Ok(ExitOutcome::Ok)
}

fn show(
    app: &AppContext,
    registry: &Arc<JobRegistry>,
    args: &JobsShowArgs,
) -> anyhow::Result<ExitOutcome> {
    let (job, record) = find(registry, &args.id)?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&to_json(&job, &record))?;
        return Ok(ExitOutcome::Ok);
    }
    let session = record.owner.session.as_deref();
    // The rest is worth more than the name.
    let names = read_session_names(app, &session.into_iter().collect()).unwrap_or_default();
    let mut text = format!("{}\n", out.paint(STRONG, job.id()));
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            let name = format!("{name:<10}");
            text.push_str(&format!("{} {}\n", out.paint(FAINT, &name), escape_line(value)));
        }
    };
    add("state", &describe_status(&job));
    add("command", &record.command);
    add("started", &record.started.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    add("run time", &format_short_duration(job.run_time()));
    add("folder", &record.owner.workspace);
    add("session", session.map_or("", |id| names.get(id).map_or(id, String::as_str)));
    add("output", job.spill_file().unwrap_or_default());
    for note in notes(&job) {
        add("note", &note);
    }
    out.write(&text)?;
    Ok(ExitOutcome::Ok)
}

fn print_output(
    app: &AppContext,
    registry: &Arc<JobRegistry>,
    args: &JobsOutputArgs,
) -> anyhow::Result<ExitOutcome> {
    let (job, _) = find(registry, &args.id)?;
    let no_output = || format!("the output of `{}` is no longer stored", args.id);
    let path = job.spill_file().map(Path::new).with_context(no_output)?;
    let (folder, name) = path.parent().zip(path.file_name()).with_context(no_output)?;
    let name = name.to_string_lossy();
    let mut file = StateDir::new(folder).open(&name).with_context(no_output)?;
    let out = &app.terminal.out;
    let mut text = SplitText::default();
    loop {
        // Before the output is read: the output of an ended job is complete.
        let has_ended = !args.follow || job.wait(FOLLOW_PAUSE);
        loop {
            let mut bytes = vec![0; READ_BYTES_MAX];
            let read = file.read(&mut bytes).context("could not read the output")?;
            bytes.truncate(read);
            if bytes.is_empty() {
                break;
            }
            out.write(&out.escape_foreign(&text.push(&bytes)))?;
        }
        if has_ended {
            out.write(&out.escape_foreign(&text.finish()))?;
            return Ok(ExitOutcome::Ok);
        }
    }
}

fn kill(
    app: &AppContext,
    registry: &Arc<JobRegistry>,
    args: &JobsKillArgs,
) -> anyhow::Result<ExitOutcome> {
    let jobs: Vec<Arc<Job>> = args
        .ids
        .iter()
        .map(|id| find(registry, id).map(|(job, _)| job))
        .collect::<Result<_, _>>()?;
    let mut killed = Vec::new();
    for job in jobs {
        let was_running = job.status() == JobStatus::Running;
        job.kill();
        if !job.wait(KILL_MAX) {
            anyhow::bail!("`{}` was signalled but has not ended yet; try again", job.id());
        }
        if !args.json {
            let id = job.id();
            app.terminal.out.write(&match was_running {
                true => format!("killed `{id}`\n"),
                false => format!("`{id}` had ended already\n"),
            })?;
        }
        killed.push(json!({"job_id": job.id(), "killed": was_running}));
    }
    if args.json {
        app.terminal.out.write_pretty_json(&json!({ "jobs": killed }))?;
    }
    Ok(ExitOutcome::Ok)
}

/// Kills the jobs of a session that is over. A job that does not end is only reported.
pub(super) fn kill_jobs_of_session(app: &AppContext, session: &str) {
    let Ok(state) = app.config.state_dir() else { return };
    for job in JobRegistry::open(&state).kill_session(session, KILL_MAX) {
        app.terminal.print_note(&format!(
            "`{id}` has not ended yet; run `zero jobs kill {id}`",
            id = job.id()
        ));
    }
}

fn find(registry: &Arc<JobRegistry>, id: &str) -> Result<(Arc<Job>, JobRecord), UsageError> {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    let id = if is_number { Cow::Owned(format!("job_{id}")) } else { Cow::Borrowed(id) };
    let record = registry.find(&id).ok_or_else(|| {
        let shown = sanitize::to_quoted_line(&id);
        UsageError(format!("there is no job {shown}; run `zero jobs` to see all"))
    })?;
    Ok((registry.open_job(record.clone()), record))
}

fn describe_status(job: &Job) -> String {
    match job.status() {
        JobStatus::Running => "running".to_owned(),
        JobStatus::Ended(None) => "ended".to_owned(),
        JobStatus::Ended(Some(exit)) => match (exit.exit_code, exit.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(KILL)) => "killed".to_owned(),
            (None, Some(signal)) => format!("ended by {}", signal_name(signal)),
            (None, None) => "ended".to_owned(),
        },
    }
}

/// Why it was stopped, and what the sandbox and the check afterwards noted.
fn notes(job: &Job) -> Vec<String> {
    let stopped = job.stop_error().map(|error| error.message);
    let report = job.watch_report().notes("commands");
    stopped.into_iter().chain(job.sandbox_notes()).chain(report).collect()
}

fn to_json(job: &Job, record: &JobRecord) -> Value {
    let exit = match job.status() {
        JobStatus::Running => None,
        JobStatus::Ended(exit) => exit,
    };
    json!({
        "job_id": job.id(),
        "status": if job.status() == JobStatus::Running { "running" } else { "exited" },
        "exit_code": exit.as_ref().and_then(|exit| exit.exit_code),
        "signal": exit.as_ref().and_then(|exit| exit.signal),
        "command": record.command,
        "started": record.started,
        "run_ms": u64::try_from(job.run_time().as_millis()).unwrap_or(u64::MAX),
        "workspace": record.owner.workspace,
        "session": record.owner.session,
        "output_file": job.spill_file(),
        "unread_bytes": job.unread_bytes(),
        "notes": notes(job),
    })
}

/// Text that arrives in parts, which may split a character.
#[derive(Default)]
struct SplitText {
    partial_line: Vec<u8>,
}

impl SplitText {
    /// The text up to the last whole character.
    fn push(&mut self, bytes: &[u8]) -> String {
        self.partial_line.extend_from_slice(bytes);
        let whole = self.partial_line.len()
            - zero_core::text_shortening::incomplete_char_len(&self.partial_line);
        let rest = self.partial_line.split_off(whole);
        let text = String::from_utf8_lossy(&self.partial_line).into_owned();
        self.partial_line = rest;
        text
    }

    /// The rest, which is not a character.
    fn finish(self) -> String {
        String::from_utf8_lossy(&self.partial_line).into_owned()
    }
}
