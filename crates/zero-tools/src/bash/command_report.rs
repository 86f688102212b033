//! Rendering of a command's output: interleaved for the model, by stream for programs, with colours
//! for the user.

use zero_core::text_shortening::{char_remainder_len, incomplete_char_len};
use zero_core::{ByteSize, ResultDisplay, ToolResultPart, ansi_filter, signal_name};
use zero_exec::jobs::OutputChunk;
use zero_runtime::{CommandOutcome, ShellEndFolder, ToolReply};
use zero_sandbox::output_collector::{HeadTail, InterleavedOutput, OutputStream};
use zero_sandbox::{ConfinementGap, Workspace};

use super::{BashOutput, quarantine_notice};

/// Added to the signal number to get an exit code, as shells do.
const SIGNAL_BASE: i32 = 128;

/// The report about a command that ended.
pub(super) struct CommandReport {
    text: String,
    shown: String,
    output: BashOutput,
}

impl CommandReport {
    pub(super) fn from_outcome(outcome: &CommandOutcome, workspace: &Workspace) -> Self {
        let CommandOutcome {
            output,
            exit: ended,
            folder,
            spill_file,
            missing,
            watch_report,
            network,
            limits,
        } = outcome;
        let omitted = output.mixed.omitted_bytes();
        let code = ended.exit_code.or_else(|| Some(SIGNAL_BASE + ended.signal?)).unwrap_or(-1);
        let signal = ended.signal.map(signal_name);
        let (cwd, mut notes) = match folder {
            ShellEndFolder::Same => (None, Vec::new()),
            ShellEndFolder::Moved(folder) => (Some(workspace.display_path(folder)), Vec::new()),
            ShellEndFolder::Outside(folder) => (
                Some(".".to_owned()),
                vec![format!(
                    "the shell ended in `{}`, which is outside the workspace; the next command starts in the workspace root again",
                    folder.display()
                )],
            ),
        };
        notes.extend(missing.iter().map(weaker_sandbox_note));
        if limits.lacks_disk_rate() {
            notes.push(
                "the limit `command-disk-rate` is not enforced on this machine; `zero doctor` says why"
                    .to_owned(),
            );
        }
        if output.spill_error.is_some() && omitted > 0 {
            notes.push("the rest of the output could not be saved".to_owned());
        }
        notes.extend(quarantine_notice::quarantine_notes(watch_report, workspace));
        notes.extend(network.iter().cloned());
        let place = spill_file.as_deref();
        let mut text = render_mixed(&output.mixed, place);
        let mut last = Vec::new();
        match &signal {
            Some(signal) => last.push(format!("(ended by {signal}, exit code {code})")),
            None if code != 0 => last.push(format!("(exit code {code})")),
            None => {}
        }
        if let ShellEndFolder::Moved(_) = folder {
            last.push(format!("(now in `{}`)", cwd.as_deref().unwrap_or(".")));
        }
        last.extend(notes.iter().map(|note| format!("({note})")));
        if text.is_empty() && last.is_empty() {
            last.push("(no output)".to_owned());
        }
        for line in &last {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(line);
        }
        let (head, tail, _) = whole_segments(&output.mixed);
        let raw = [head.concat(), tail.concat()].concat();
        let mut shown = String::from_utf8_lossy(&raw).into_owned();
        if code != 0 {
            shown.push_str(&format!("\n(exit code {code})"));
        }
        Self {
            text,
            shown,
            output: BashOutput {
                stdout: render_stream(&output.stdout, place),
                stderr: render_stream(&output.stderr, place),
                exit_code: Some(code),
                signal,
                cwd,
                truncated: (omitted > 0).then_some(true),
                spill_file: spill_file.clone(),
                job_id: None,
                quarantined: quarantine_notice::quarantine_notices(watch_report, workspace),
                notes,
            },
        }
    }

    pub(super) fn into_reply(self) -> ToolReply<BashOutput> {
        ToolReply {
            content: vec![ToolResultPart::Text(self.text)],
            display: ResultDisplay::markdown(self.shown),
            output: self.output,
            locations: Vec::new(),
        }
    }
}

/// Returns the output of a job: of one stream, or of both in the order written.
pub(crate) fn output_text(pieces: &[OutputChunk], stream: Option<OutputStream>) -> String {
    let chunks = pieces.iter().filter(|piece| stream.is_none_or(|s| s == piece.stream));
    ansi_filter::strip_pieces(chunks.map(|piece| &piece.bytes[..]))
}

/// Describes a property of the sandbox that does not hold here, as the settings permit.
pub(crate) fn weaker_sandbox_note(gap: &ConfinementGap) -> String {
    let ConfinementGap { property, why, .. } = gap;
    format!(
        "ran in a weaker sandbox, as `sandbox.weaker` permits: `{property}` does not hold here, because {why}"
    )
}

/// Renders both streams in the order written.
fn render_mixed(mixed: &InterleavedOutput, place: Option<&str>) -> String {
    match mixed.omitted_bytes() {
        0 => ansi_filter::strip_pieces(mixed.head().chain(mixed.tail()).map(|run| run.bytes)),
        omitted => {
            let (head, tail, parts) = whole_segments(mixed);
            let head = ansi_filter::strip_pieces(head.into_iter());
            let tail = ansi_filter::strip_pieces(tail.into_iter());
            join_truncated(&head, omitted + parts, mixed.total_bytes(), &tail, place)
        }
    }
}

pub(crate) fn render_stream(head_tail: &HeadTail, place: Option<&str>) -> String {
    match head_tail.omitted_bytes() {
        0 => ansi_filter::strip(&[head_tail.head(), head_tail.tail()].concat()),
        omitted => {
            let (head, tail) = (whole_head(head_tail.head()), whole_tail(head_tail.tail()));
            let parts = head_tail.head().len() - head.len() + head_tail.tail().len() - tail.len();
            let (head, tail) = (ansi_filter::strip(head), ansi_filter::strip(tail));
            join_truncated(&head, omitted + parts as u64, head_tail.total_bytes(), &tail, place)
        }
    }
}

/// The segments of the beginning and of the end, and the bytes left out of them: where something is
/// missing between the two, they have no part of a character there.
fn whole_segments(mixed: &InterleavedOutput) -> (Vec<&[u8]>, Vec<&[u8]>, u64) {
    let mut head: Vec<&[u8]> = mixed.head().map(|run| run.bytes).collect();
    let mut tail: Vec<&[u8]> = mixed.tail().map(|run| run.bytes).collect();
    let mut parts = 0;
    if mixed.omitted_bytes() > 0 {
        if let Some(last) = head.last_mut() {
            let whole = whole_head(last);
            parts += last.len() - whole.len();
            *last = whole;
        }
        if let Some(first) = tail.first_mut() {
            let whole = whole_tail(first);
            parts += first.len() - whole.len();
            *first = whole;
        }
    }
    (head, tail, parts as u64)
}

/// Bytes before a cut without an incomplete character.
fn whole_head(bytes: &[u8]) -> &[u8] {
    bytes.get(..bytes.len() - incomplete_char_len(bytes)).unwrap_or_default()
}

/// Bytes after a cut without the rest of a character.
fn whole_tail(bytes: &[u8]) -> &[u8] {
    bytes.get(char_remainder_len(bytes)..).unwrap_or_default()
}

fn join_truncated(head: &str, omitted: u64, total: u64, tail: &str, place: Option<&str>) -> String {
    let (omitted, total) = (ByteSize::bytes(omitted), ByteSize::bytes(total));
    let rest =
        place.map_or_else(String::new, |place| format!("; the complete output is in {place}"));
    format!("{head}\n\n[… {omitted} of {total} left out{rest} …]\n\n{tail}")
}

#[cfg(test)]
mod tests {
    use zero_sandbox::SandboxProperty;

    use super::*;

    #[test]
    fn weaker_sandbox_note_names_property_and_reason() {
        let why = "`/tmp` is the host's, for reading".to_owned();
        let gap = ConfinementGap { property: SandboxProperty::PrivateTmp, why, fix: None };
        assert_eq!(
            weaker_sandbox_note(&gap),
            "ran in a weaker sandbox, as `sandbox.weaker` permits: `private_tmp` does not hold here, because `/tmp` is the host's, for reading"
        );
    }
}
