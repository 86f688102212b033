//! The result of a tool's command, in the established form for tools of this kind.
//!
//! If a command succeeds and writes nothing to stderr, its stdout is the result. Otherwise the
//! model gets both streams and the exit status, each with a label.

use serde_json::Value;
use zero_core::text_shortening::{TextFocus, shorten_middle};
use zero_core::{
    ByteSize, ErrorReason, ResultDisplay, ResultMetadata, ToolError, ToolResult, ToolResultPart,
    signal_name,
};
use zero_runtime::{CallContext, CommandOutcome, ToolReply};

use crate::bash::{BashOutput, quarantine_notice, render_stream, weaker_sandbox_note};

/// Bytes reserved for labels, notes and truncation marks.
const OVERHEAD_BYTES: usize = 512;

/// Returns the result of a command that ended, for the model and the user.
pub(super) fn result_from_outcome(
    outcome: &CommandOutcome,
    cx: &CallContext,
) -> Result<ToolResult, ToolError> {
    let place = outcome.spill_file.as_deref();
    let (stdout, stderr) = (&outcome.output.stdout, &outcome.output.stderr);
    let mut notes: Vec<String> = outcome.missing.iter().map(weaker_sandbox_note).collect();
    notes.extend(quarantine_notice::quarantine_notes(&outcome.watch_report, cx.workspace()));
    notes.extend(outcome.network.iter().cloned());
    let outcome_report = ToolCommandReport {
        stdout: render_stream(stdout, place),
        stderr: render_stream(stderr, place),
        exit_code: outcome.exit.exit_code,
        signal: outcome.exit.signal.map(signal_name),
        notes,
    };
    let whole = match stdout.omitted_bytes() {
        0 => serde_json::from_slice([stdout.head(), stdout.tail()].concat().as_slice()).ok(),
        _ => None,
    };
    let structured = whole.filter(Value::is_object).unwrap_or_default();
    let most = cx.limits().model_output_bytes_max.as_usize();
    match outcome_report.truncated_to(most.saturating_sub(OVERHEAD_BYTES), place).into_content() {
        Ok(content) => {
            let text = content.join("\n");
            Ok(ToolResult {
                content: content.into_iter().map(ToolResultPart::Text).collect(),
                display: ResultDisplay::markdown(text),
                structured,
                locations: Vec::new(),
                metadata: ResultMetadata::default(),
            })
        }
        Err(error) => Err(match place {
            Some(file) => error.with_detail("spill_file", file),
            None => error,
        }),
    }
}

/// Returns the result of a command that exceeded its timeout and continues as a job.
pub(super) fn result_from_job(reply: ToolReply<BashOutput>) -> Result<ToolResult, ToolError> {
    let ToolReply { content, display, output, locations } = reply;
    let structured = serde_json::to_value(output).unwrap_or_default();
    Ok(ToolResult { content, display, structured, locations, metadata: ResultMetadata::default() })
}

/// The output of a command that ended.
#[derive(Clone, Debug, Default)]
struct ToolCommandReport {
    stdout: String,
    stderr: String,
    exit_code: Option<i32>,
    signal: Option<String>,
    /// Notes besides the output.
    notes: Vec<String>,
}

impl ToolCommandReport {
    /// Returns the texts for the model: the output, and the notes.
    fn into_content(self) -> Result<Vec<String>, ToolError> {
        let notes: Vec<String> = self.notes.iter().map(|note| format!("({note})")).collect();
        let is_well = self.exit_code == Some(0) && self.signal.is_none();
        if is_well {
            let output = match (self.stdout.is_empty(), self.stderr.is_empty()) {
                (true, true) => "(no output)".to_owned(),
                (false, true) => self.stdout,
                _ => self.render_streams(),
            };
            let notes = (!notes.is_empty()).then(|| notes.join("\n"));
            return Ok([Some(output), notes].into_iter().flatten().collect());
        }
        let how = match (&self.signal, self.exit_code) {
            (Some(signal), _) => format!("was killed by {signal}"),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended in an unknown way".to_owned(),
        };
        let mut lines = vec![format!("the tool's command {how}"), self.render_streams()];
        lines.extend(notes);
        Err(ToolError::failed(ErrorReason::RemoteFailure, lines.join("\n"))
            .with_detail("exit_code", self.exit_code)
            .with_detail("signal", self.signal))
    }

    /// Renders both streams and the exit status with labels.
    fn render_streams(&self) -> String {
        let or = |text: &str, none: &str| if text.is_empty() { none } else { text }.to_owned();
        let code = self.exit_code.map_or_else(|| "(none)".to_owned(), |code| code.to_string());
        let lines = [
            ("Stdout", or(self.stdout.trim_end_matches('\n'), "(empty)")),
            ("Stderr", or(self.stderr.trim_end_matches('\n'), "(empty)")),
            // A command that could not be run at all is reported earlier.
            ("Error", "(none)".to_owned()),
            ("Exit Code", code),
            ("Signal", or(self.signal.as_deref().unwrap_or_default(), "(none)")),
        ];
        lines.map(|(name, text)| format!("{name}: {text}\n")).concat()
    }

    /// Truncates both streams together to `most` bytes. A short one leaves its share to the other.
    fn truncated_to(mut self, most: usize, place: Option<&str>) -> Self {
        let stdout_most = most.saturating_sub(self.stderr.len().min(most / 2));
        let stderr_most = most.saturating_sub(self.stdout.len().min(stdout_most));
        self.stdout = shorten_output(&self.stdout, stdout_most, place);
        self.stderr = shorten_output(&self.stderr, stderr_most, place);
        self
    }
}

/// Returns the beginning and the end of a text that is too long.
fn shorten_output(text: &str, most: usize, place: Option<&str>) -> String {
    let rest =
        place.map_or_else(String::new, |place| format!("; the complete output is in {place}"));
    let mark = |bytes| format!("\n[… {} left out{rest} …]\n", ByteSize::bytes(bytes as u64));
    shorten_middle(text, most, TextFocus::End, mark).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(
        stdout: &str,
        stderr: &str,
        exit_code: Option<i32>,
        signal: Option<&str>,
    ) -> ToolCommandReport {
        let [stdout, stderr] = [stdout, stderr].map(str::to_owned);
        ToolCommandReport {
            stdout,
            stderr,
            exit_code,
            signal: signal.map(str::to_owned),
            notes: vec![],
        }
    }

    #[test]
    fn successful_output_is_the_result() {
        #[track_caller]
        fn check(stdout: &str, stderr: &str, expected: &str) {
            assert_eq!(report(stdout, stderr, Some(0), None).into_content().unwrap(), [expected]);
        }
        check("12 °C\n", "", "12 °C\n");
        check("", "", "(no output)");
        check(
            "12",
            "old data\n",
            "Stdout: 12\nStderr: old data\nError: (none)\nExit Code: 0\nSignal: (none)\n",
        );
        check(
            "",
            "old data",
            "Stdout: (empty)\nStderr: old data\nError: (none)\nExit Code: 0\nSignal: (none)\n",
        );
    }

    #[test]
    fn failure_includes_streams_and_exit() {
        #[track_caller]
        fn check(outcome_report: ToolCommandReport, expected: &str, details: Value) {
            let error = outcome_report.into_content().unwrap_err();
            assert_eq!(error.message, expected);
            assert_eq!(Value::from(error.details), details);
        }
        check(
            report("", "", Some(3), None),
            "the tool's command ended with exit code 3\nStdout: (empty)\nStderr: (empty)\nError: (none)\nExit Code: 3\nSignal: (none)\n",
            json!({"reason": "remote_failure", "exit_code": 3, "signal": null}),
        );
        check(
            report("half\n", "oh\nno\n", None, Some("SIGSEGV")),
            "the tool's command was killed by SIGSEGV\nStdout: half\nStderr: oh\nno\nError: (none)\nExit Code: (none)\nSignal: SIGSEGV\n",
            json!({"reason": "remote_failure", "exit_code": null, "signal": "SIGSEGV"}),
        );
    }

    #[test]
    fn notes_are_separate_from_output() {
        let notes = vec!["no host was reached".to_owned()];
        let answer = ToolCommandReport { notes: notes.clone(), ..report("1", "", Some(0), None) }
            .into_content();
        assert_eq!(answer.unwrap(), ["1", "(no host was reached)"]);
        let error = ToolCommandReport { notes, ..report("1", "", Some(1), None) }
            .into_content()
            .unwrap_err();
        assert!(error.message.ends_with("Signal: (none)\n\n(no host was reached)"), "{error}");
    }

    #[test]
    fn streams_share_the_output_budget() {
        #[track_caller]
        fn check(stdout: usize, stderr: usize, expected: (bool, bool)) {
            let outcome_report =
                report(&"o".repeat(stdout), &"é".repeat(stderr / 2), Some(1), None);
            let fitted = outcome_report.clone().truncated_to(300, Some("/x"));
            let is_whole =
                (fitted.stdout == outcome_report.stdout, fitted.stderr == outcome_report.stderr);
            assert_eq!(is_whole, expected, "{stdout} {stderr}");
            let marks = 2 * "\n[… 1000.0 kB left out; the complete output is in /x …]\n".len();
            assert!(fitted.stdout.len() + fitted.stderr.len() <= 300 + marks);
        }
        check(100, 200, (true, true));
        check(200, 100, (true, true));
        check(300, 0, (true, true));
        check(0, 300, (true, true));
        check(10_000, 100, (false, true));
        check(100, 10_000, (true, false));
        check(10_000, 10_000, (false, false));
    }
}
