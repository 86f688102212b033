//! Prints the events of a run, as text or as JSON lines.
//!
//! In text form, only the answer goes to stdout, so that `zero run … > answer.md` stores the answer.
//! Calls, diffs and notices go to stderr. As a stream, every ledger entry is one line on stdout; as
//! JSON, there is one object at the end.

use std::collections::HashMap;
use std::io;

use anstyle::Style;
use serde_json::{Value, json};
use zero_core::event::{
    Event, EventKind, ResultContent, RunOutcome, TokenUsage, ToolCallStatus, describe_compaction,
    describe_fallback,
};
use zero_core::{ResultDisplay, ToolKind, ToolOutcome};

use zero_runtime::audit::UNWRITABLE_LOG;
use zero_runtime::dialect::render_plain;
use zero_runtime::redaction;
use zero_session::agent::DIRECT;
use zero_session::output_schema::OutputSchema;
use zero_session::sessions::{SubagentTally, SubagentTotals};
use zero_wire::zero_sessions::RunUnrecorded;

use crate::approval::error_for_user;
use crate::cli::OutputFormat;
use crate::exit::ExitOutcome;
use crate::plan_steps::render_step;
use crate::terminal::markdown::MarkdownStream;
use crate::terminal::{
    BAD, ElapsedCounter, FAINT, GOOD, NOTABLE, STRONG, Terminal, TerminalStream, escape_line,
};

/// Lines shown of the error of a failed call.
const ERROR_LINES_MAX: usize = 8;
/// Notes shown about a command.
const NOTES_MAX: usize = 20;
/// Last lines that are shown of what a command printed, unless all are wanted.
const OUTPUT_LINES_MAX: usize = 5;
/// Lines that are shown of a command's other stream, whatever the first one has.
const OTHER_LINES_MAX: usize = 2;
/// Lines shown of a diff.
const DIFF_LINES_MAX: usize = 60;
/// Lines shown of a web request; the tool's own limit.
const SENT_LINES_MAX: usize = 200;

/// What is shown besides the usual.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct RunDetails {
    /// The model's thinking.
    pub(in crate::commands) thoughts: bool,
    /// All output of commands, not only its last lines.
    pub(in crate::commands) whole_output: bool,
    /// The answer as the model wrote it, also on a terminal.
    pub(in crate::commands) plain: bool,
    /// Whether the prompt is a slash command, which may call a tool without the model.
    pub(in crate::commands) slash_command: bool,
    /// Schema that the answer fits. It is printed once it is complete.
    pub(in crate::commands) output_schema: Option<OutputSchema>,
}

/// Prints the events of one run and determines the exit code.
pub(in crate::commands) struct RunPrinter {
    terminal: Terminal,
    form: OutputFormat,
    details: RunDetails,
    counter: ElapsedCounter,
    /// Renders the answer, on a terminal.
    markdown: Option<MarkdownStream>,
    /// Whether the counter shows that the answer is being written.
    is_counting: bool,
    /// Whether the last output did not end with a line break.
    line_is_open: bool,
    /// Whether the last output was a thought.
    was_thinking: bool,
    calls: HashMap<String, PrintedCall>,
    /// Whether a call was denied, also one of a sub-agent.
    denied: bool,
    /// What sub-agents used.
    subagents: SubagentTally,
    /// Whether the run has no model; a failed call then makes the run fail.
    is_direct: bool,
    failed: bool,
    /// Whether a call was completed.
    has_completed: bool,
    /// Whether a call was refused because the audit log cannot be written.
    is_log_unwritable: bool,
    /// Whether the last call ran a command that failed.
    command_failed: bool,
    /// The answer that a slash command would have, if it made the last call.
    direct_answer: Option<String>,
    /// What the last command printed, until it is known whether the answer is the same.
    held_output: Option<String>,
    /// Error of the last failed call, if it was shown completely.
    shown_error: Option<String>,
    /// What the model wrote after its last call.
    answer: String,
    agent: String,
    model: String,
    end: Option<(RunOutcome, TokenUsage)>,
}

/// A call that has not ended.
struct PrintedCall {
    title: String,
    kind: ToolKind,
    /// Web request of the call, with secrets redacted; only for WebRequest.
    request: Option<String>,
}

impl PrintedCall {
    fn with_title(title: &str) -> Self {
        Self { title: title.to_owned(), kind: ToolKind::Other, request: None }
    }
}

/// Renders the web request in a tool input, with secrets redacted.
fn describe_request(name: &str, input: &Value) -> Option<String> {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let url = text("url").filter(|_| name == "WebRequest")?;
    let mut request =
        format!("{} {}\n", text("method").unwrap_or("GET"), redaction::redact_text(url));
    for (name, value) in input.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let value = redaction::redact_field(name, value.as_str().unwrap_or_default());
        request.push_str(&format!("{name}: {value}\n"));
    }
    if let Some(body) = text("body").filter(|body| !body.is_empty()) {
        request.push_str(&format!("\n{}", redaction::redact_text(body)));
    }
    Some(request)
}

impl RunPrinter {
    pub(in crate::commands) fn new(
        terminal: &Terminal,
        form: OutputFormat,
        details: RunDetails,
        counter: ElapsedCounter,
    ) -> Self {
        let is_rendered = terminal.out.is_terminal() && !details.plain;
        Self {
            terminal: terminal.clone(),
            markdown: is_rendered.then(|| MarkdownStream::new(&terminal.out)),
            form,
            details,
            counter,
            is_counting: false,
            line_is_open: false,
            was_thinking: false,
            calls: HashMap::new(),
            denied: false,
            subagents: SubagentTally::default(),
            is_direct: false,
            failed: false,
            has_completed: false,
            is_log_unwritable: false,
            command_failed: false,
            direct_answer: None,
            held_output: None,
            shown_error: None,
            answer: String::new(),
            agent: String::new(),
            model: String::new(),
            end: None,
        }
    }

    /// Ends the output when no more events will arrive.
    pub(in crate::commands) fn finish_interrupted(&mut self) -> io::Result<()> {
        self.counter.stop();
        match self.form {
            OutputFormat::Json | OutputFormat::StreamJson => Ok(()),
            OutputFormat::Text => self.close_line(),
        }
    }

    /// Prints that the end of the run is not recorded. Returns the exit code if it never will be.
    pub(in crate::commands) fn print_unrecorded(
        &mut self,
        run: &RunUnrecorded,
    ) -> io::Result<Option<ExitOutcome>> {
        if !run.is_abandoned {
            self.finish_interrupted()?;
            self.terminal.print_note(&escape_line(&run.message));
            return Ok(None);
        }
        let end = RunOutcome::Failed { kind: "store".to_owned(), message: run.message.clone() };
        let usage = TokenUsage::default();
        match self.form {
            OutputFormat::Text => {
                self.print_text(&EventKind::RunEnded { end: end.clone(), usage })?
            }
            // The lines of JSON are the ledger, which has no such entry.
            OutputFormat::Json | OutputFormat::StreamJson => {
                self.terminal.print_note(&escape_line(&run.message));
            }
        }
        self.end = Some((end, usage));
        Ok(Some(ExitOutcome::Error))
    }

    /// Prints an event. Returns the exit code if it ends the run.
    pub(in crate::commands) fn print_event(
        &mut self,
        event: &Event,
    ) -> io::Result<Option<ExitOutcome>> {
        let denied_before = self.subagents.totals().denied_calls;
        self.subagents.add_event(&event.kind);
        let denied_calls = self.subagents.totals().denied_calls.saturating_sub(denied_before);
        match &event.kind {
            EventKind::RunStarted { model, agent, .. } => {
                self.is_direct = model == DIRECT;
                self.model.clone_from(model);
                self.agent.clone_from(agent);
                if self.is_direct {
                    // The output of a tool is not Markdown.
                    self.markdown = None;
                }
            }
            EventKind::ToolEnded { status, outcome, .. } => {
                self.denied |=
                    *status == ToolCallStatus::Denied || self.subagents.totals().denied_calls > 0;
                self.failed |= *status == ToolCallStatus::Failed;
                self.has_completed |= *status == ToolCallStatus::Completed;
                self.is_log_unwritable |= *status == ToolCallStatus::Failed
                    && join_text(outcome).contains(UNWRITABLE_LOG);
                self.shown_error = extract_error(*status, outcome);
                self.command_failed |= failed_exit_code(outcome).is_some();
                self.direct_answer = self.details.slash_command.then(|| join_text(outcome));
            }
            EventKind::ToolStarted { .. } => self.answer.clear(),
            EventKind::ModelFallback { to, .. } => self.model.clone_from(to),
            // The model writes its answer again.
            EventKind::Notice { topic, .. } if topic == "output_schema" => self.answer.clear(),
            EventKind::RunEnded { end, usage } => self.end = Some((end.clone(), *usage)),
            // The answer equals the call's error or output: a slash command bypassed the model.
            EventKind::Text { text } => {
                self.answer.push_str(text);
                let answers = [&self.shown_error, &self.direct_answer];
                self.is_direct |= answers.into_iter().any(|answer| answer.as_ref() == Some(text));
            }
            _ => {}
        }
        if let Some(shown) = self.held_output.take().filter(|_| !self.is_direct) {
            self.counter.stop();
            self.terminal.err.write(&shown)?;
        }
        match self.form {
            OutputFormat::StreamJson => self.terminal.out.write_json_line(event)?,
            OutputFormat::Json => self.print_denial(&event.kind)?,
            OutputFormat::Text => self.print_text(&event.kind)?,
        }
        if denied_calls > 0 && self.form != OutputFormat::StreamJson {
            self.print_denials_of_subagent(denied_calls, &event.kind);
        }
        Ok(match &event.kind {
            EventKind::RunEnded { end, .. } => Some(self.exit_outcome(end)),
            _ => None,
        })
    }

    /// Prints a denied call: the object at the end has only the exit code.
    fn print_denial(&self, kind: &EventKind) -> io::Result<()> {
        let EventKind::ToolEnded { status: ToolCallStatus::Denied, outcome, .. } = kind else {
            return Ok(());
        };
        let message = outcome.error().map_or("a call was denied", |error| &*error.message);
        self.terminal.err.write(&format!("⊘ {}\n", escape_line(&error_for_user(message))))
    }

    /// Says why the exit code tells of a denial: the calls of a sub-agent are in its own session.
    fn print_denials_of_subagent(&self, count: u64, kind: &EventKind) {
        let EventKind::ToolEnded { outcome, .. } = kind else { return };
        let calls = match count {
            1 => "a call of the sub-agent was denied".to_owned(),
            count => format!("{count} calls of the sub-agent were denied"),
        };
        let session = outcome.result().and_then(|result| result.structured.get("session"));
        let advice = session
            .and_then(Value::as_str)
            .map(|session| format!("; `zero sessions show {session}` shows what it did"));
        self.terminal.print_note(&format!("{calls}{}", advice.unwrap_or_default()));
    }

    fn print_text(&mut self, kind: &EventKind) -> io::Result<()> {
        match kind {
            EventKind::RunStarted { .. } => self.counter.start("thinking"),
            // The answer to a slash command repeats the call's error, which was already printed.
            EventKind::Text { text } if self.shown_error.as_ref() == Some(text) => {
                self.counter.stop()
            }
            // Printed at the end, when it fits the schema.
            EventKind::Text { .. } if self.details.output_schema.is_some() => {}
            EventKind::Text { text } => {
                if std::mem::take(&mut self.was_thinking) {
                    self.close_line()?;
                }
                self.write_answer(text)?;
            }
            EventKind::Thought { text } if self.details.thoughts => {
                self.counter.stop();
                self.was_thinking = true;
                self.write_text(&self.terminal.err.clone(), text, FAINT)?;
            }
            EventKind::ToolStarted { call, name, title, kind, input, .. } => {
                let request = describe_request(name, input);
                let (title, kind) = (title.clone(), *kind);
                // The counter would erase what the model said in this line.
                self.close_line()?;
                self.counter.start(&title);
                self.calls.insert(call.clone(), PrintedCall { title, kind, request });
            }
            EventKind::ToolUpdated { call, title, kind, progress, .. } => {
                if let Some(title) = title {
                    let known = self.calls.entry(call.clone());
                    let known = known.or_insert_with(|| PrintedCall::with_title(title));
                    known.title.clone_from(title);
                    known.kind = kind.unwrap_or(known.kind);
                    self.counter.start(title);
                }
                if let Some(progress) = progress {
                    self.counter.progress(&progress.message);
                }
            }
            EventKind::ToolEnded { call, status, outcome } => {
                self.counter.stop();
                let known = self.calls.remove(call);
                let known = known.unwrap_or_else(|| PrintedCall::with_title(call));
                self.print_tool(&known, *status, outcome)?;
                self.counter.start("thinking");
            }
            EventKind::Plan { entries } => {
                self.counter.stop();
                self.close_line()?;
                let err = &self.terminal.err;
                for entry in entries {
                    err.write(&format!("{}\n", render_step(err, entry)))?;
                }
            }
            EventKind::Notice { text, .. } => {
                self.counter.stop();
                self.close_line()?;
                self.terminal.print_note(text);
            }
            EventKind::ModelFallback { from, to, reason } => {
                self.counter.stop();
                self.close_line()?;
                self.terminal.print_note(&describe_fallback(from, to, reason));
                self.counter.start("thinking");
            }
            EventKind::Compacted { tokens_before, tokens_after, extent, .. } => {
                self.counter.stop();
                self.close_line()?;
                let text = describe_compaction(*tokens_before, *tokens_after, *extent);
                self.terminal.print_note(&text);
            }
            EventKind::Opaque(opaque) => {
                self.counter.stop();
                self.close_line()?;
                self.terminal.print_note(&opaque.describe());
            }
            EventKind::RunEnded { end, usage } => {
                self.counter.stop();
                self.close_line()?;
                if let (Some(Ok(value)), RunOutcome::Completed) = (self.parse_answer(), end) {
                    self.terminal.out.write_json_line(&value)?;
                }
                self.print_run_end(end, usage)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn print_tool(
        &mut self,
        call: &PrintedCall,
        status: ToolCallStatus,
        outcome: &ToolOutcome,
    ) -> io::Result<()> {
        let display = outcome.result().map(|result| &result.display);
        self.close_line()?;
        let err = &self.terminal.err;
        let exit_code = failed_exit_code(outcome).filter(|_| call.kind == ToolKind::Execute);
        let (mark, style) = match status {
            ToolCallStatus::Completed if exit_code.is_some() => ("✗", BAD),
            ToolCallStatus::Completed => ("●", GOOD),
            ToolCallStatus::Denied => ("⊘", BAD),
            ToolCallStatus::Failed | ToolCallStatus::Interrupted => ("✗", BAD),
            ToolCallStatus::Cancelled => ("■", NOTABLE),
        };
        let ending = exit_code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
        let title = err.truncate_line(&escape_line(&call.title), 2 + ending.len());
        let title = err.paint(STRONG, &title);
        let mut text = format!("{} {title}{}\n", err.paint(style, mark), err.paint(BAD, &ending));
        if let Some(ResultDisplay::Diff(diff)) = display {
            text.push_str(&render_bounded_diff(&self.terminal.err, &diff.unified));
        }
        // The web request that was sent, with its target.
        let sent = match (status, call.kind, display) {
            (
                ToolCallStatus::Completed,
                ToolKind::Fetch,
                Some(ResultDisplay::Markdown { text }),
            ) => Some(text),
            (ToolCallStatus::Completed | ToolCallStatus::Denied, ..) => None,
            // The request may have been sent partly or completely.
            _ => call.request.as_ref(),
        };
        for line in sent.map_or("", String::as_str).lines().take(SENT_LINES_MAX) {
            match line.is_empty() {
                true => text.push('\n'),
                false => text.push_str(&err.render_foreign_line(FAINT, line)),
            }
        }
        // Such as files that were moved to quarantine: the model is not the only one to know.
        if call.kind == ToolKind::Execute {
            for note in command_notes(outcome).take(NOTES_MAX) {
                push_wrapped(&mut text, err, NOTABLE, note);
            }
        }
        // The answer to a slash command is the output itself.
        if call.kind == ToolKind::Execute && !self.is_direct {
            let shown = self.render_output(outcome, exit_code.is_some());
            match self.details.slash_command {
                true => self.held_output = Some(shown),
                false => text.push_str(&shown),
            }
        }
        if is_error(status) {
            let error = join_text(outcome);
            let error = error_for_user(&error);
            // The title is above it.
            let bare = error.strip_prefix(&*call.title).and_then(|rest| rest.strip_prefix(": "));
            let error = bare.unwrap_or(&error);
            for line in error.lines().take(ERROR_LINES_MAX) {
                push_wrapped(&mut text, err, FAINT, line);
            }
            let more = error.lines().count().saturating_sub(ERROR_LINES_MAX);
            if more > 0 {
                let note = format!("  … {} more; --json shows all\n", count_lines(more));
                text.push_str(&err.paint(FAINT, &note));
            }
        }
        err.write(&text)
    }

    /// What a command printed: the last lines of its output and of its errors, and how many are left
    /// out. Of the two, the one that says more about its end has more lines.
    fn render_output(&self, outcome: &ToolOutcome, has_failed: bool) -> String {
        let err = &self.terminal.err;
        let facts = outcome.result().map(|result| &result.structured);
        let lines_of = |name: &str| -> Vec<&str> {
            let text = facts.and_then(|facts| facts.get(name)).and_then(Value::as_str);
            text.unwrap_or_default().trim_end().lines().collect()
        };
        let (stdout, stderr) = (lines_of("stdout"), lines_of("stderr"));
        // Test runners write to either, so that neither is left out.
        let beside =
            |main: &[&str]| OUTPUT_LINES_MAX.saturating_sub(main.len()).max(OTHER_LINES_MAX);
        let (stdout_max, stderr_max) = match has_failed && !stderr.is_empty() {
            true => (beside(&stderr), OUTPUT_LINES_MAX),
            false => (OUTPUT_LINES_MAX, beside(&stdout)),
        };
        let mut text = String::new();
        let mut push = |line: &str| text.push_str(&err.render_foreign_line(FAINT, line));
        for (lines, lines_max) in [(&stdout, stdout_max), (&stderr, stderr_max)] {
            let before = match self.details.whole_output {
                true => 0,
                false => lines.len().saturating_sub(lines_max),
            };
            if before > 0 {
                push(&format!("… {} before; --verbose shows all", count_lines(before)));
            }
            lines.iter().skip(before).for_each(|line| push(line));
        }
        text
    }

    fn print_run_end(&self, end: &RunOutcome, usage: &TokenUsage) -> io::Result<()> {
        match end {
            RunOutcome::Completed => {}
            RunOutcome::MaxTokens => self.terminal.print_error(
                "output limit reached, the reply is cut off; to go on, run `zero -c \"continue\"`",
            ),
            RunOutcome::MaxTurns { turns } => self.terminal.print_error(&format!(
                "the run reached its limit of {turns} model requests; to go on, run `zero -c \"continue\"`, or raise `maxTurns` of the agent"
            )),
            RunOutcome::Budget { message } => self.terminal.print_error(message),
            RunOutcome::Refused { message } => {
                self.terminal.print_error(&format!("the model refused: {message}"));
            }
            RunOutcome::Aborted { by } => self.terminal.print_error(match by.as_str() {
                "rpc" => "stopped",
                "loop_guard" => "stopped: the model kept repeating the same calls",
                "timeout" => "stopped: the run took too long",
                "shutdown" => "stopped: the gateway is shutting down; send the prompt again later",
                "reset" | "delete" => "stopped: the session was reset or deleted",
                _ => "stopped",
            }),
            RunOutcome::Failed { message, .. } => self.terminal.print_error(message),
            RunOutcome::Interrupted => self.terminal.print_error("zero exited before the run ended"),
        }
        if usage.input_tokens.saturating_add(usage.output_tokens) == 0
            || !self.terminal.err.is_terminal()
        {
            return Ok(());
        }
        let cost = usage.cost_usd.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
        let cached = match usage.cache_read_tokens.saturating_mul(100) / usage.input_tokens.max(1) {
            0 => String::new(),
            percent => format!(" ({percent} % from the cache)"),
        };
        let text = format!(
            "{} input tokens{cached}, {} output tokens{cost}\n",
            usage.input_tokens, usage.output_tokens
        );
        self.terminal.err.write(&self.terminal.err.paint(FAINT, &text))
    }

    /// The value of the answer, if it must fit a schema.
    fn parse_answer(&self) -> Option<Result<Value, String>> {
        Some(self.details.output_schema.as_ref()?.parse_answer(&self.answer))
    }

    /// Prints the result of the run as one JSON object.
    pub(super) fn print_result(
        &self,
        session: &str,
        run: &str,
        exit: ExitOutcome,
    ) -> io::Result<()> {
        let (outcome, usage) = match &self.end {
            Some((end, usage)) => (serde_json::to_value(end).unwrap_or_default(), *usage),
            None => (Value::Null, TokenUsage::default()),
        };
        let mut all = SubagentTotals { usage, denied_calls: 0 };
        all.add(self.subagents.totals());
        let usage = all.usage;
        let mut result = json!({
            "type": "result",
            "answer": self.answer,
            "session": session,
            "run": run,
            "agent": self.agent,
            "model": self.model,
            "outcome": outcome,
            "exit_code": exit.code(),
            "usage": usage,
            "cost_usd": usage.cost_usd,
        });
        if let (Some(answer), ExitOutcome::Ok | ExitOutcome::Denied) = (self.parse_answer(), exit) {
            result["output"] = answer.unwrap_or_default();
        }
        self.terminal.out.write_json_line(&result)
    }

    /// Writes a piece of the answer, or as much of it as can be rendered.
    fn write_answer(&mut self, text: &str) -> io::Result<()> {
        let Some(markdown) = &mut self.markdown else {
            self.counter.stop();
            return self.write_text(&self.terminal.out.clone(), text, Style::new());
        };
        let shown = markdown.push(text);
        let waits = markdown.has_pending();
        if !shown.is_empty() {
            self.counter.stop();
            self.is_counting = false;
            self.terminal.out.write(&shown)?;
        }
        if waits && !std::mem::replace(&mut self.is_counting, true) {
            self.counter.start("writing");
        }
        Ok(())
    }

    /// Writes a piece of streamed text.
    fn write_text(&mut self, stream: &TerminalStream, text: &str, style: Style) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.line_is_open = !text.ends_with('\n');
        stream.write(&stream.paint(style, &stream.escape_foreign(text)))
    }

    /// Ends an open line, so that the next output starts on its own line.
    fn close_line(&mut self) -> io::Result<()> {
        let rest = self.markdown.as_mut().map(MarkdownStream::finish).unwrap_or_default();
        self.is_counting = false;
        if !rest.is_empty() {
            self.counter.stop();
            self.terminal.out.write(&rest)?;
        }
        if std::mem::take(&mut self.line_is_open) {
            // The open line may be part of the answer, so its end goes to stdout.
            self.terminal.out.write("\n")?;
        }
        Ok(())
    }

    fn exit_outcome(&self, end: &RunOutcome) -> ExitOutcome {
        match end {
            RunOutcome::Completed if matches!(self.parse_answer(), Some(Err(_))) => {
                ExitOutcome::Misfit
            }
            RunOutcome::Completed if self.denied => ExitOutcome::Denied,
            RunOutcome::Completed if self.is_direct && (self.failed || self.command_failed) => {
                ExitOutcome::Error
            }
            // The agent could do nothing at all, whatever it said in the end.
            RunOutcome::Completed if self.is_log_unwritable && !self.has_completed => {
                ExitOutcome::Error
            }
            RunOutcome::Completed => ExitOutcome::Ok,
            RunOutcome::MaxTokens | RunOutcome::MaxTurns { .. } | RunOutcome::Budget { .. } => {
                ExitOutcome::Limit
            }
            RunOutcome::Aborted { by } if by == "rpc" => ExitOutcome::Interrupted,
            RunOutcome::Failed { kind, .. } if kind == "output_schema" => ExitOutcome::Misfit,
            _ => ExitOutcome::Error,
        }
    }
}

/// The notes about a command besides its output, and about jobs that it asks for.
fn command_notes(outcome: &ToolOutcome) -> impl Iterator<Item = &str> {
    let facts = outcome.result().map(|result| &result.structured);
    let jobs = facts.and_then(|facts| facts.get("jobs")).and_then(Value::as_array);
    let all = facts.into_iter().chain(jobs.into_iter().flatten());
    let notes = all.filter_map(|facts| facts.get("notes").and_then(Value::as_array));
    let reported_lines =
        outcome.result().map(|result| &result.metadata.notes[..]).unwrap_or_default();
    reported_lines.iter().map(String::as_str).chain(notes.flatten().filter_map(Value::as_str))
}

/// The exit code of a command that failed.
fn failed_exit_code(outcome: &ToolOutcome) -> Option<i64> {
    let code = outcome.result()?.structured.get("exit_code")?.as_i64()?;
    (code != 0).then_some(code)
}

/// Adds a line of prose below a call, wrapped between words.
fn push_wrapped(text: &mut String, stream: &TerminalStream, style: Style, line: &str) {
    let rows = stream.wrap_prose(&format!("  {}", escape_line(line)), 0);
    for row in rows.lines() {
        text.push_str(&format!(
            "  {}\n",
            stream.paint(style, row.strip_prefix("  ").unwrap_or(row))
        ));
    }
}

fn count_lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

fn is_error(status: ToolCallStatus) -> bool {
    matches!(status, ToolCallStatus::Failed | ToolCallStatus::Denied)
}

/// Joins the text parts of an outcome.
fn join_text(outcome: &ToolOutcome) -> String {
    let texts = render_plain(outcome).into_iter().filter_map(|piece| match piece {
        ResultContent::Text { text } => Some(text),
        ResultContent::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Error text of a failed call, if it is short enough to be shown completely.
fn extract_error(status: ToolCallStatus, outcome: &ToolOutcome) -> Option<String> {
    let words = join_text(outcome);
    let is_whole = words.lines().count() <= ERROR_LINES_MAX;
    (is_error(status) && is_whole && !words.is_empty()).then_some(words)
}

/// The first lines of a diff, and how many more there are.
pub(in crate::commands) fn render_bounded_diff(stream: &TerminalStream, unified: &str) -> String {
    let count = unified.lines().count();
    let shown: Vec<&str> = unified.lines().take(DIFF_LINES_MAX).collect();
    let mut text = stream.render_diff(&shown.join("\n"));
    if count > shown.len() {
        let more = format!("… {} more lines\n", count - shown.len());
        text.push_str(&stream.paint(FAINT, &more));
    }
    text
}

#[cfg(test)]
mod tests {
    use zero_core::FileDiff;

    use super::*;

    fn make_event(kind: EventKind) -> Event {
        Event { seq: 1, run: None, time_ms: 0, kind }
    }

    #[track_caller]
    fn check_events(events: Vec<EventKind>, exit: ExitOutcome, out: &str, err: &str) {
        check_detailed_events(RunDetails::default(), events, exit, out, err);
    }

    #[track_caller]
    fn check_detailed_events(
        details: RunDetails,
        events: Vec<EventKind>,
        exit: ExitOutcome,
        out: &str,
        err: &str,
    ) {
        let terminal = Terminal::for_test();
        let mut show = RunPrinter::new(
            &terminal,
            OutputFormat::Text,
            details,
            ElapsedCounter::new(&terminal.err),
        );
        let mut ended = None;
        for kind in events {
            ended = show.print_event(&make_event(kind)).unwrap();
        }
        assert_eq!(ended, Some(exit));
        assert_eq!(
            (terminal.out.written_text().as_str(), terminal.err.written_text().as_str()),
            (out, err)
        );
    }

    fn make_call_started(call: &str) -> EventKind {
        EventKind::ToolStarted {
            call: call.to_owned(),
            name: "Edit".to_owned(),
            title: "Edit `a`".to_owned(),
            kind: ToolKind::Edit,
            input: serde_json::Value::Null,
            locations: vec![],
            waits: false,
            transcript_id: None,
        }
    }

    fn make_call_end(
        status: ToolCallStatus,
        content: Vec<ResultContent>,
        display: Option<ResultDisplay>,
    ) -> EventKind {
        let outcome = ToolOutcome::from_content(status, content, display, vec![]);
        EventKind::tool_ended("c", outcome)
    }

    fn make_run_end(end: RunOutcome) -> EventKind {
        EventKind::RunEnded { end, usage: TokenUsage::default() }
    }

    fn make_text(text: &str) -> EventKind {
        EventKind::Text { text: text.to_owned() }
    }

    #[test]
    fn run_without_a_logged_call_fails() {
        let call = |status, text: &str| {
            make_call_end(status, vec![ResultContent::Text { text: text.to_owned() }], None)
        };
        let unlogged = || {
            let text =
                "the audit log cannot be written (No space left on device), so nothing was done";
            call(ToolCallStatus::Failed, text)
        };
        let exit = |events: Vec<EventKind>| {
            let terminal = Terminal::for_test();
            let counter = ElapsedCounter::new(&terminal.err);
            let details = RunDetails::default();
            let mut printer = RunPrinter::new(&terminal, OutputFormat::Json, details, counter);
            let events = events.into_iter().chain([make_run_end(RunOutcome::Completed)]);
            events.filter_map(|kind| printer.print_event(&make_event(kind)).unwrap()).last()
        };
        assert_eq!(exit(vec![unlogged()]), Some(ExitOutcome::Error));
        let other = call(ToolCallStatus::Failed, "no such file");
        assert_eq!(exit(vec![other]), Some(ExitOutcome::Ok));
        let logged = call(ToolCallStatus::Completed, "done");
        assert_eq!(exit(vec![logged, unlogged()]), Some(ExitOutcome::Ok));
    }

    #[test]
    fn sent_request_is_shown_in_full() {
        let begun = EventKind::ToolStarted {
            call: "c".to_owned(),
            name: "WebRequest".to_owned(),
            title: "POST `http://a.test/`".to_owned(),
            kind: ToolKind::Fetch,
            input: serde_json::Value::Null,
            locations: vec![],
            waits: false,
            transcript_id: None,
        };
        let request = "```http\nPOST http://a.test/\nx-a: b\n\nwords\n```\n\nHTTP 200 OK";
        let done = make_call_end(
            ToolCallStatus::Completed,
            vec![],
            Some(ResultDisplay::markdown(request)),
        );
        check_events(
            vec![begun, done, make_run_end(RunOutcome::Completed)],
            ExitOutcome::Ok,
            "",
            "● POST `http://a.test/`\n  ```http\n  POST http://a.test/\n  x-a: b\n\n  words\n  ```\n\n  HTTP 200 OK\n",
        );
    }

    #[test]
    fn sent_request_is_shown_when_no_answer_came() {
        for (status, mark, is_shown, exit) in [
            (ToolCallStatus::Failed, "✗", true, ExitOutcome::Ok),
            (ToolCallStatus::Cancelled, "■", true, ExitOutcome::Ok),
            (ToolCallStatus::Denied, "⊘", false, ExitOutcome::Denied),
        ] {
            let begun = EventKind::ToolStarted {
                call: "c".to_owned(),
                name: "WebRequest".to_owned(),
                title: "POST".to_owned(),
                kind: ToolKind::Fetch,
                input: serde_json::json!({
                    "url": "http://a.test/", "method": "POST", "body": "one\n\ntwo",
                    "headers": {"x-a": "b", "authorization": "Bearer abcdef123456"},
                }),
                locations: vec![],
                waits: false,
                transcript_id: None,
            };
            let done = make_call_end(status, vec![], None);
            let sent = match is_shown {
                true => {
                    "  POST http://a.test/\n  x-a: b\n  authorization: [redacted]\n\n  one\n\n  two\n"
                }
                false => "",
            };
            let events = vec![begun, done, make_run_end(RunOutcome::Completed)];
            check_events(events, exit, "", &format!("{mark} POST\n{sent}"));
        }
    }

    #[test]
    fn notes_about_command_and_its_failure_are_shown() {
        let make_begun = |kind: ToolKind| EventKind::ToolStarted {
            call: "c".to_owned(),
            name: "Bash".to_owned(),
            title: "make".to_owned(),
            kind,
            input: serde_json::Value::Null,
            locations: vec![],
            waits: false,
            transcript_id: None,
        };
        let note = "`.vscode` was moved to quarantine";
        let noted = format!("● make\n  {note}\n");
        let long = "line\n".repeat(OUTPUT_LINES_MAX + 1);
        let failed = serde_json::json!({"exit_code": 2, "stdout": long, "stderr": " "});
        let cut = "  … 1 line before; --verbose shows all\n";
        let lines = "  line\n".repeat(OUTPUT_LINES_MAX);
        let shown = format!("✗ make (exit code 2)\n{cut}{lines}");
        let passed = serde_json::json!({"exit_code": 0, "stdout": long, "stderr": "1\n2\nOK\n"});
        let ends = format!("● make\n{cut}{lines}{cut}  2\n  OK\n");
        let both = serde_json::json!({"exit_code": 0, "stdout": "out\n\n", "stderr": "err"});
        let errors = serde_json::json!({"exit_code": 1, "stdout": "out", "stderr": "err\x1b[2J"});
        for (structured, kind, expected) in [
            (serde_json::json!({"notes": [note]}), ToolKind::Execute, noted.as_str()),
            (serde_json::json!({"jobs": [{"notes": [note]}]}), ToolKind::Execute, noted.as_str()),
            (serde_json::json!({"notes": [note]}), ToolKind::Other, "● make\n"),
            (serde_json::json!({"exit_code": 0, "stdout": "x"}), ToolKind::Read, "● make\n"),
            (both, ToolKind::Execute, "● make\n  out\n  err\n"),
            (passed, ToolKind::Execute, ends.as_str()),
            (errors, ToolKind::Execute, "✗ make (exit code 1)\n  out\n  err\\u{1b}[2J\n"),
            (failed, ToolKind::Execute, shown.as_str()),
        ] {
            let mut outcome =
                ToolOutcome::from_content(ToolCallStatus::Completed, vec![], None, vec![]);
            if let ToolOutcome::Result(result) = &mut outcome {
                if let Some(note) = structured["notes"][0].as_str() {
                    result.metadata.add_note(note);
                } else {
                    result.structured = structured;
                }
            }
            let done = EventKind::tool_ended("c", outcome);
            let events = vec![make_begun(kind), done, make_run_end(RunOutcome::Completed)];
            check_events(events, ExitOutcome::Ok, "", expected);
        }
    }

    #[test]
    fn notes_about_command_are_wrapped_between_words() {
        let stream = Terminal::for_test().err.with_columns(24).without_colours();
        let mut text = String::new();
        push_wrapped(&mut text, &stream, FAINT, "one two three four five six");
        assert_eq!(text, "  one two three four\n  five six\n");
        push_wrapped(&mut text, &Terminal::for_test().err, FAINT, "");
        assert!(text.ends_with("six\n  \n"), "{text:?}");
    }

    #[test]
    fn whole_output_is_shown_on_request() {
        let make_events = || {
            let mut outcome =
                ToolOutcome::from_content(ToolCallStatus::Completed, vec![], None, vec![]);
            if let ToolOutcome::Result(result) = &mut outcome {
                let stdout = (1..=20).map(|line| format!("{line}\n")).collect::<String>();
                result.structured = serde_json::json!({"exit_code": 0, "stdout": stdout});
            }
            let begun = EventKind::ToolStarted {
                call: "c".to_owned(),
                name: "Bash".to_owned(),
                title: "seq".to_owned(),
                kind: ToolKind::Execute,
                input: serde_json::Value::Null,
                locations: vec![],
                waits: false,
                transcript_id: None,
            };
            vec![begun, EventKind::tool_ended("c", outcome), make_run_end(RunOutcome::Completed)]
        };
        let lines = |from: usize| (from..=20).map(|line| format!("  {line}\n")).collect::<String>();
        let cut = format!("● seq\n  … 15 lines before; --verbose shows all\n{}", lines(16));
        check_events(make_events(), ExitOutcome::Ok, "", &cut);
        let details = RunDetails { whole_output: true, ..RunDetails::default() };
        let whole = format!("● seq\n{}", lines(1));
        check_detailed_events(details.clone(), make_events(), ExitOutcome::Ok, "", &whole);
    }

    #[test]
    fn output_of_slash_command_is_shown_once_and_its_failure_fails_the_run() {
        let text = |text: &str| vec![ResultContent::Text { text: text.to_owned() }];
        let make_events = |answer: &str, exit_code: i64| {
            let content = text("out\n");
            let mut outcome =
                ToolOutcome::from_content(ToolCallStatus::Completed, content, None, vec![]);
            if let ToolOutcome::Result(result) = &mut outcome {
                result.structured = serde_json::json!({"exit_code": exit_code, "stdout": "out\n"});
            }
            let answer = match answer {
                "" => join_text(&outcome),
                answer => answer.to_owned(),
            };
            let begun = EventKind::ToolStarted {
                call: "c".to_owned(),
                name: "Bash".to_owned(),
                title: "Run `x`".to_owned(),
                kind: ToolKind::Execute,
                input: serde_json::Value::Null,
                locations: vec![],
                waits: false,
                transcript_id: None,
            };
            let done = EventKind::tool_ended("c", outcome);
            vec![begun, done, make_text(&answer), make_run_end(RunOutcome::Completed)]
        };
        let details = RunDetails { slash_command: true, ..RunDetails::default() };
        let (called, failed) = ("● Run `x`\n", "✗ Run `x` (exit code 3)\n");
        check_detailed_events(
            details.clone(),
            make_events("", 0),
            ExitOutcome::Ok,
            "out\n",
            called,
        );
        check_detailed_events(
            details.clone(),
            make_events("", 3),
            ExitOutcome::Error,
            "out\n",
            failed,
        );
        // A stored prompt of the user, which the model answers.
        let shown = format!("{called}  out\n");
        check_detailed_events(
            details.clone(),
            make_events("Well.", 0),
            ExitOutcome::Ok,
            "Well.\n",
            &shown,
        );
    }

    #[test]
    fn answer_goes_to_stdout_and_progress_to_stderr() {
        let diff = ResultDisplay::Diff(FileDiff {
            path: "a".to_owned(),
            unified: "@@ -1 +1 @@\n-x\n+y\n".to_owned(),
            old_text: None,
            new_text: None,
            partial: false,
        });
        let done = make_call_end(ToolCallStatus::Completed, vec![], Some(diff));
        check_events(
            vec![
                make_text("I edit"),
                make_text(" it."),
                make_call_started("c"),
                done,
                make_text("Done.\n"),
                make_run_end(RunOutcome::Completed),
            ],
            ExitOutcome::Ok,
            "I edit it.\nDone.\n",
            "● Edit `a`\n@@ -1 +1 @@\n-x\n+y\n",
        );
    }

    #[test]
    fn answer_is_rendered_on_terminal_unless_plain() {
        let text = "# Head\n\nSome **bold** text.\n";
        let rendered = "\x1b[1m\x1b[4mHead\x1b[0m\n\nSome \x1b[1mbold\x1b[0m text.\n";
        for (plain, model, expected) in
            [(false, "m", rendered), (true, "m", text), (false, DIRECT, text)]
        {
            let mut terminal = Terminal::for_test();
            terminal.out = terminal.out.with_columns(80);
            let details = RunDetails { plain, ..RunDetails::default() };
            let counter = ElapsedCounter::new(&terminal.err);
            let mut printer = RunPrinter::new(&terminal, OutputFormat::Text, details, counter);
            let started = EventKind::RunStarted {
                agent: "main".to_owned(),
                model: model.to_owned(),
                parent: None,
            };
            printer.print_event(&make_event(started)).unwrap();
            for piece in text.split_inclusive(' ') {
                printer.print_event(&make_event(make_text(piece))).unwrap();
            }
            printer.print_event(&make_event(make_run_end(RunOutcome::Completed))).unwrap();
            assert_eq!(terminal.out.written_text(), expected, "{plain} {model}");
        }
    }

    #[test]
    fn run_end_sets_exit_code() {
        let text = |text: &str| vec![ResultContent::Text { text: text.to_owned() }];
        let denied =
            make_call_end(ToolCallStatus::Denied, text("Edit `a`: denied by a rule"), None);
        check_events(
            vec![
                make_call_started("c"),
                denied,
                make_text("no"),
                make_run_end(RunOutcome::Completed),
            ],
            ExitOutcome::Denied,
            "no\n",
            "⊘ Edit `a`\n  denied by a rule\n",
        );
        let failed = |words: &str| make_call_end(ToolCallStatus::Failed, text(words), None);
        // The answer to a slash command is printed once, and the run fails.
        check_events(
            vec![
                make_call_started("c"),
                failed("no `a`"),
                make_text("no `a`"),
                make_run_end(RunOutcome::Completed),
            ],
            ExitOutcome::Error,
            "",
            "✗ Edit `a`\n  no `a`\n",
        );
        check_events(
            vec![
                make_call_started("c"),
                failed("no `a`"),
                make_text("Never mind."),
                make_run_end(RunOutcome::Completed),
            ],
            ExitOutcome::Ok,
            "Never mind.\n",
            "✗ Edit `a`\n  no `a`\n",
        );
        let long = "line\n".repeat(ERROR_LINES_MAX + 1);
        let shown = "  line\n".repeat(ERROR_LINES_MAX);
        check_events(
            vec![
                make_call_started("c"),
                failed(&long),
                make_text(&long),
                make_run_end(RunOutcome::Completed),
            ],
            ExitOutcome::Ok,
            &long,
            &format!("✗ Edit `a`\n{shown}  … 1 line more; --json shows all\n"),
        );
        check_events(
            vec![make_run_end(RunOutcome::Failed {
                kind: "auth".to_owned(),
                message: "no key".to_owned(),
            })],
            ExitOutcome::Error,
            "",
            "error: no key\n",
        );
        check_events(
            vec![make_text("half"), make_run_end(RunOutcome::Aborted { by: "rpc".to_owned() })],
            ExitOutcome::Interrupted,
            "half\n",
            "error: stopped\n",
        );
    }
}
