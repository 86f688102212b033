//! Keeps a result within what a model and a client can take.
//!
//! What is too long keeps its head and its tail, says how much is missing, and names a file that
//! holds all of it. That file is the session's own and can be read like any other.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::Value;
use zero_core::result::{Content, Hit};
use zero_core::{ByteSize, CallId, Limits, Reason, ToolError, ToolResult};
use zero_sandbox::StateDir;

/// Brings a result within `limits`.
pub(crate) fn bound(
    mut result: ToolResult,
    call: &CallId,
    limits: &Limits,
    spill: &StateDir,
) -> Result<ToolResult, ToolError> {
    let cap = limits.model_output_bytes_max.as_usize();
    for (index, content) in result.content.iter_mut().enumerate() {
        let save = |text: &str| Spilled::write(spill, call, index, text, limits.result_bytes_max);
        match content {
            Content::Text(text) if text.len() > cap => *text = cut_text(text, cap, &save(text)),
            Content::Matches { hits, numbered, note } if hits_len(hits) > cap => {
                let spilled = save(&write_hits(hits, *numbered));
                let missing = cut_hits(hits, cap);
                let line = format!("{missing} lines in the middle left out; {spilled}");
                *note = Some(
                    note.take().map_or_else(|| line.clone(), |note| format!("{note}\n{line}")),
                );
            }
            Content::Diff { diff, .. } if diff.unified.len() > cap => {
                diff.unified = cut_text(&diff.unified, cap, &save(&diff.unified));
            }
            _ => {}
        }
    }
    let size = json_len(&result.structured) + result.content.iter().map(content_len).sum::<usize>();
    if size > limits.result_bytes_max.as_usize() {
        let message = format!(
            "the result has {}, more than the {} a result may have; ask for less at once",
            ByteSize::bytes(size as u64),
            limits.result_bytes_max
        );
        return Err(ToolError::failed(Reason::TooLarge, message));
    }
    Ok(result)
}

/// Where the whole of a text went.
struct Spilled(Option<(String, bool)>);

impl Spilled {
    fn write(spill: &StateDir, call: &CallId, index: usize, text: &str, max: ByteSize) -> Self {
        let name = format!("{call}-{index}.txt");
        let kept = &text[..text.floor_char_boundary(max.as_usize())];
        let written = spill.create_new(&name).and_then(|mut file| file.write_all(kept.as_bytes()));
        if let Err(error) = &written {
            tracing::warn!(%error, "an oversized result could not be kept");
        }
        let path = spill.path().join(name).display().to_string();
        Self(written.is_ok().then_some((path, kept.len() < text.len())))
    }
}

impl std::fmt::Display for Spilled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some((path, false)) => {
                write!(f, "all of it is in {path}, use Read on that file with offset and limit")
            }
            Some((path, true)) => {
                write!(f, "as much as may be kept is in {path}, use Read on that file")
            }
            None => f.write_str("the rest could not be kept, ask for less at once"),
        }
    }
}

/// Keeps the head and the tail of a text, on character boundaries, and says what is missing.
fn cut_text(text: &str, cap: usize, spilled: &Spilled) -> String {
    let head = &text[..text.floor_char_boundary(cap * 2 / 3)];
    let tail = &text[text.ceil_char_boundary(text.len() - cap / 3)..];
    let missing = text.len() - head.len() - tail.len();
    format!("{head}\n\n[… {missing} of {} bytes left out; {spilled} …]\n\n{tail}", text.len())
}

fn hit_len(hit: &Hit) -> usize {
    hit.file.len() + hit.text.len() + 10
}

fn hits_len(hits: &[Hit]) -> usize {
    hits.iter().map(hit_len).sum()
}

/// Removes hits from the middle until the rest fits; returns how many.
fn cut_hits(hits: &mut Vec<Hit>, cap: usize) -> usize {
    let fitting = |budget: usize, hits: &mut dyn Iterator<Item = &Hit>| {
        let mut used = 0;
        hits.take_while(|hit| {
            used += hit_len(hit);
            used <= budget
        })
        .count()
    };
    let head = fitting(cap * 2 / 3, &mut hits.iter());
    let tail = fitting(cap / 3, &mut hits[head..].iter().rev());
    let missing = hits.len() - head - tail;
    hits.drain(head..head + missing);
    missing
}

/// Hits as text, the way `grep` writes them: with context, `--` stands where lines are left out.
pub fn write_hits(hits: &[Hit], numbered: bool) -> String {
    let mut text = String::with_capacity(hits_len(hits));
    let grouped = hits.iter().any(|hit| !hit.is_match);
    for (index, hit) in hits.iter().enumerate() {
        let follows = |last: &Hit| last.file == hit.file && last.line + 1 == hit.line;
        if grouped && index > 0 && !follows(&hits[index - 1]) {
            text.push_str("--\n");
        }
        let mark = if hit.is_match { ':' } else { '-' };
        // Writing to a String cannot fail.
        let _ = match numbered {
            true => writeln!(text, "{}{mark}{}{mark}{}", hit.file, hit.line, hit.text),
            false => writeln!(text, "{}{mark}{}", hit.file, hit.text),
        };
    }
    text.pop();
    text
}

fn content_len(content: &Content) -> usize {
    match content {
        Content::Text(text) | Content::Lines { text, .. } => text.len(),
        Content::Matches { hits, .. } => hits_len(hits),
        Content::Diff { diff, .. } => {
            let texts = [&diff.old_text, &diff.new_text];
            diff.unified.len()
                + texts.iter().map(|text| text.as_ref().map_or(0, String::len)).sum::<usize>()
        }
        Content::Image { data, .. }
        | Content::Audio { data, .. }
        | Content::Resource { data, .. } => data.len(),
    }
}

/// Roughly how long a value is as JSON.
pub(crate) fn json_len(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| json_len(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, field)| name.len() + json_len(field) + 4).sum::<usize>()
        }
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests")]
    use super::*;
    use zero_core::Display;

    fn result(content: Content) -> ToolResult {
        ToolResult {
            content: vec![content],
            display: Display::markdown(""),
            structured: Value::Null,
            locations: vec![],
        }
    }

    fn bounded(content: Content) -> (Result<ToolResult, ToolError>, tempfile::TempDir) {
        let temp = tempfile::tempdir().unwrap();
        let limits = Limits {
            model_output_bytes_max: ByteSize::bytes(300),
            result_bytes_max: ByteSize::bytes(5_000),
            ..Limits::default()
        };
        let call = CallId::new("c1").unwrap();
        (bound(result(content), &call, &limits, &StateDir::new(temp.path())), temp)
    }

    #[test]
    fn a_long_text_keeps_head_and_tail_and_names_the_rest() {
        let long = format!("START{}END", "é".repeat(1_000));
        let (result, temp) = bounded(Content::Text(long.clone()));
        let Content::Text(text) = &result.unwrap().content[0] else { panic!("a text") };
        assert!(text.starts_with("START") && text.ends_with("END"), "{text}");
        assert!(text.contains("of 2008 bytes left out"), "{text}");
        let file = temp.path().join("c1-0.txt");
        assert!(text.contains(file.to_str().unwrap()));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), long);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&file).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn hits_are_cut_whole() {
        let hit = |n| Hit { file: "a".into(), line: n, text: format!("line {n}"), is_match: true };
        let (result, _temp) = bounded(Content::Matches {
            hits: (1..=50).map(hit).collect(),
            numbered: true,
            note: None,
        });
        let Content::Matches { hits, note, .. } = &result.unwrap().content[0] else {
            panic!("matches")
        };
        assert_eq!((hits[0].line, hits.last().unwrap().line), (1, 50));
        assert!(
            note.as_ref().unwrap().contains("lines in the middle left out; all of it is in"),
            "{note:?}"
        );
    }

    #[test]
    fn nothing_passes_the_hard_cap() {
        let image = Content::Image { mime: "image/png".into(), data: "A".repeat(6_000) };
        let error = bounded(image).0.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::TooLarge));
    }
}
