//! Prints the events of a run, as text or as JSON lines.
//!
//! In text form, only the answer goes to stdout, so that `zero run … > answer.md` stores the answer.
//! Calls, diffs and notices go to stderr. As a stream, every ledger entry is one line on stdout; as
//! JSON, there is one object at the end.

mod call_rendering;
mod run_summary;

use std::collections::HashMap;
use std::io;

use anstyle::Style;
use serde_json::Value;
use zero_core::event::{
    Event, EventKind, RunOutcome, TokenUsage, ToolCallStatus, describe_compaction,
    describe_fallback,
};
use zero_core::{ToolKind, ToolOutcome};
use zero_session::output_schema::OutputSchema;
use zero_wire::zero_sessions::RunUnrecorded;

pub(in crate::commands) use self::call_rendering::render_bounded_diff;
use self::call_rendering::{PrintedCall, is_error, render_output};
use self::run_summary::RunSummary;
use crate::approval::error_for_user;
use crate::cli::OutputFormat;
use crate::exit::ExitOutcome;
use crate::plan_steps::render_step;
use crate::terminal::markdown::MarkdownStream;
use crate::terminal::{ElapsedCounter, FAINT, Terminal, TerminalStream, escape_line};

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
    /// What the last command printed, until it is known whether the answer is the same.
    held_output: Option<String>,
    summary: RunSummary,
}

impl RunPrinter {
    pub(in crate::commands) fn new(
        terminal: &Terminal,
        form: OutputFormat,
        details: RunDetails,
        counter: ElapsedCounter,
    ) -> Self {
        let is_rendered = terminal.out.is_terminal() && !details.plain;
        let summary = RunSummary::new(details.output_schema.clone(), details.slash_command);
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
            held_output: None,
            summary,
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
        self.summary.set_end(end, usage);
        Ok(Some(ExitOutcome::Error))
    }

    /// Prints an event. Returns the exit code if it ends the run.
    pub(in crate::commands) fn print_event(
        &mut self,
        event: &Event,
    ) -> io::Result<Option<ExitOutcome>> {
        let denied_calls = self.summary.add_event(&event.kind);
        if matches!(event.kind, EventKind::RunStarted { .. }) && self.summary.is_direct() {
            // The output of a tool is not Markdown.
            self.markdown = None;
        }
        if let Some(shown) = self.held_output.take().filter(|_| !self.summary.is_direct()) {
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
            EventKind::RunEnded { end, .. } => Some(self.summary.exit_outcome(end)),
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
            EventKind::Text { text } if self.summary.is_shown_error(text) => self.counter.stop(),
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
                // The counter would erase what the model said in this line.
                self.close_line()?;
                self.counter.start(title);
                self.calls.insert(call.clone(), PrintedCall::new(name, title, *kind, input));
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
                if let (Some(Ok(value)), RunOutcome::Completed) = (self.summary.parse_answer(), end)
                {
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
        self.close_line()?;
        let err = &self.terminal.err;
        let mut text = call.render_end(err, status, outcome);
        // The answer to a slash command is the output itself.
        if call.kind == ToolKind::Execute && !self.summary.is_direct() {
            let output = render_output(err, outcome, self.details.whole_output);
            match self.details.slash_command {
                true => self.held_output = Some(output),
                false => text.push_str(&output),
            }
        }
        if is_error(status) {
            text.push_str(&call.render_error(err, outcome));
        }
        err.write(&text)
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

    /// Prints the result of the run as one JSON object.
    pub(super) fn print_result(
        &self,
        session: &str,
        run: &str,
        exit: ExitOutcome,
    ) -> io::Result<()> {
        self.terminal.out.write_json_line(&self.summary.to_json(session, run, exit))
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
}

#[cfg(test)]
mod tests;
