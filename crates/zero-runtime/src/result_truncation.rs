//! Truncates a result to what a model and a client can take.
//!
//! A text that is too long keeps its head and its tail, states where and how much is missing, and
//! names a file with the whole text. The file belongs to the session and can be read like any
//! other.
//!
//! A call that was made stays made, so its result is shortened as far as necessary and never refused.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::Value;
use zero_core::text_shortening::{TextFocus, head, shorten_middle};
use zero_core::tool_outcome::limit_depth;
use zero_core::tool_result::{FileDiff, ResultDisplay, SearchHit, ToolResultPart};
use zero_core::{ByteSize, CallId, HostLimits, ToolError, ToolResult};
use zero_exec::SpillFolder;

/// Truncates a result to `limits`.
pub(crate) fn truncate_result(
    mut result: ToolResult,
    call: &CallId,
    limits: &HostLimits,
    spill: &SpillFolder,
) -> ToolResult {
    let cap = limits.model_output_bytes_max.as_usize();
    let pieces = std::mem::take(&mut result.content);
    for (index, piece) in pieces.into_iter().enumerate() {
        let save =
            |text: &str| SpillLocation::write(spill, call, index, text, limits.result_bytes_max);
        result.content.extend(truncate_content(piece, cap, save));
    }
    limit_depth(&mut result.structured);
    let most = limits.result_bytes_max;
    if result_len(&result) > most.as_usize() {
        shrink(&mut result, cap.min(most.as_usize() / 4));
    }
    let size = result_len(&result);
    if size > most.as_usize() {
        leave_out_parts(&mut result, most.as_usize());
        let size = ByteSize::bytes(size as u64);
        let note = format!(
            "[the result has {size}, more than the limit of {most}; parts are left out, request less at once]"
        );
        result.content.push(ToolResultPart::Text(note));
        if let Value::Object(fields) = &mut result.structured {
            fields.insert("truncated".to_owned(), Value::Bool(true));
        }
    }
    result
}

/// Leaves out what exceeds `most` bytes: media that leave the structured result less than half, the
/// largest before the others, then the rest of the structured result, then the last parts. The
/// structured result keeps its shape.
fn leave_out_parts(result: &mut ToolResult, most: usize) {
    let structured = json_len(&result.structured);
    let most_beside = most.saturating_sub(structured.min(most / 2));
    while result_len(result).saturating_sub(structured) > most_beside {
        let media = result.content.iter_mut().filter(|part| media_type(part).is_some());
        let Some(largest) = media.max_by_key(|part| content_len(part)) else { break };
        let (mime, bytes) = (media_type(largest).unwrap_or_default(), content_len(largest) / 4 * 3);
        *largest = ToolResultPart::Text(format!("[about {bytes} bytes of {mime} left out]"));
    }
    let others = result_len(result).saturating_sub(structured);
    shorten_value(&mut result.structured, most.saturating_sub(others));
    while result_len(result) > most && result.content.len() > 1 {
        result.content.pop();
    }
    let excess = result_len(result).saturating_sub(most);
    if let Some(part) = result.content.first_mut().filter(|_| excess > 0) {
        shorten_part(part, content_len(part).saturating_sub(excess));
    }
}

/// Shortens a part to `most` bytes.
fn shorten_part(part: &mut ToolResultPart, most: usize) {
    match part {
        ToolResultPart::Text(text) | ToolResultPart::Lines { text, .. } => {
            text.truncate(head(text, most).len());
        }
        ToolResultPart::Matches { hits, .. } => {
            let kept = count_fitting(hits.iter().map(hit_len), most);
            hits.truncate(kept);
        }
        ToolResultPart::Diff { diff, .. } => {
            diff.unified.truncate(head(&diff.unified, most).len());
        }
        ToolResultPart::Image { data, .. }
        | ToolResultPart::Audio { data, .. }
        | ToolResultPart::Resource { data, .. } => data.clear(),
    }
}

fn media_type(part: &ToolResultPart) -> Option<&str> {
    match part {
        ToolResultPart::Image { mime, .. }
        | ToolResultPart::Audio { mime, .. }
        | ToolResultPart::Resource { mime, .. } => Some(mime),
        _ => None,
    }
}

/// Shortens a value to about `most` bytes of JSON: texts and lists lose their end, and every field of
/// an object stays, with as equal a share as the small ones leave to the large ones. Its depth was
/// limited before.
fn shorten_value(value: &mut Value, most: usize) {
    if json_len(value) <= most {
        return;
    }
    match value {
        Value::String(text) => {
            let kept = head(text, most.saturating_sub(2)).len();
            text.truncate(kept);
        }
        Value::Array(items) => {
            let sizes = items.iter().map(|item| json_len(item) + 1);
            let kept = count_fitting(sizes, most.saturating_sub(2));
            items.truncate(kept);
        }
        Value::Object(fields) => {
            let names: usize = fields.keys().map(|name| name.len() + 4).sum();
            let mut left = most.saturating_sub(2 + names);
            let mut values: Vec<&mut Value> = fields.values_mut().collect();
            values.sort_by_cached_key(|value| json_len(value));
            let count = values.len();
            for (index, value) in values.into_iter().enumerate() {
                shorten_value(value, left / (count - index));
                left = left.saturating_sub(json_len(value));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Truncates an error to `limits`: the message as a text of a result, each fact to a quarter of it.
pub(crate) fn truncate_error(mut error: ToolError, limits: &HostLimits) -> ToolError {
    let cap = limits.model_output_bytes_max.as_usize();
    if error.message.len() > cap {
        error.message = cut_text(&error.message, cap, None);
    }
    for fact in error.details.values_mut() {
        limit_depth(fact);
        let text = match &*fact {
            Value::String(text) if text.len() > cap / 4 => text.clone(),
            Value::Array(_) | Value::Object(_) => fact.to_string(),
            _ => continue,
        };
        if text.len() > cap / 4 {
            *fact = Value::String(cut_text(&text, cap / 4, None));
        }
    }
    error
}

/// Truncates one part to what a model takes. Hits become two parts with a mark between them.
fn truncate_content(
    piece: ToolResultPart,
    cap: usize,
    save: impl Fn(&str) -> SpillLocation,
) -> Vec<ToolResultPart> {
    match piece {
        ToolResultPart::Text(text) if text.len() > cap => {
            vec![ToolResultPart::Text(cut_text(&text, cap, Some(&save(&text))))]
        }
        ToolResultPart::Matches { hits, numbered, note } if hits_len(&hits) > cap => {
            let spilled = save(&format_hits(&hits, numbered));
            cut_hits(hits, numbered, note, cap, &spilled)
        }
        ToolResultPart::Diff { summary, mut diff } if diff.unified.len() > cap => {
            diff.unified = cut_text(&diff.unified, cap, Some(&save(&diff.unified)));
            vec![ToolResultPart::Diff { summary, diff }]
        }
        piece => vec![piece],
    }
}

/// Removes optional parts of a result: whole texts beside a diff, and the middle of the display.
fn shrink(result: &mut ToolResult, cap: usize) {
    for piece in &mut result.content {
        if let ToolResultPart::Diff { diff, .. } = piece {
            drop_texts(diff);
        }
    }
    let shown = match &mut result.display {
        ResultDisplay::Markdown { text } => text,
        ResultDisplay::Diff(diff) => {
            drop_texts(diff);
            &mut diff.unified
        }
        // A plan has few and short steps; the tools that create it ensure that.
        ResultDisplay::Plan { .. } => return,
    };
    if shown.len() > cap {
        *shown = cut_text(shown, cap, None);
    }
}

fn drop_texts(diff: &mut FileDiff) {
    (diff.old_text, diff.new_text, diff.partial) = (None, None, true);
}

/// Where the whole text was stored.
struct SpillLocation(Option<(String, bool)>);

impl SpillLocation {
    fn write(spill: &SpillFolder, call: &CallId, index: usize, text: &str, max: ByteSize) -> Self {
        let name = format!("{call}-{index}.txt");
        let room = usize::try_from(spill.room()).unwrap_or(usize::MAX);
        let kept = head(text, max.as_usize().min(room));
        let written = spill.create_new(&name).and_then(|mut file| file.write_all(kept.as_bytes()));
        if let Err(error) = &written {
            tracing::warn!(%error, "cannot store an oversized result");
        }
        let path = spill.path().join(name).display().to_string();
        Self(written.is_ok().then_some((path, kept.len() < text.len())))
    }

    /// Describes where all `total` lines or bytes are.
    fn describe_location(&self, total: usize) -> String {
        match &self.0 {
            Some((path, false)) => format!("all {total} are in {path}, read it page by page"),
            Some((path, true)) => {
                format!("the first part is in {path}, read it page by page")
            }
            None => "the rest could not be stored, request less at once".to_owned(),
        }
    }
}

/// Keeps the head and the tail of a text, on character boundaries, and states what is missing.
fn cut_text(text: &str, cap: usize, spilled: Option<&SpillLocation>) -> String {
    let total = text.len();
    let rest = spilled.map_or_else(String::new, |s| format!("; {}", s.describe_location(total)));
    let mark = |missing| format!("\n\n[… {missing} of {total} bytes left out{rest} …]\n\n");
    shorten_middle(text, cap, TextFocus::Start, mark).into_owned()
}

/// How many sizes from the first on fit into `most` bytes.
fn count_fitting(sizes: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut used: usize = 0;
    sizes
        .take_while(|size| {
            used = used.saturating_add(*size);
            used <= most
        })
        .count()
}

fn hit_len(hit: &SearchHit) -> usize {
    hit.file.len() + hit.text.len() + 10
}

fn hits_len(hits: &[SearchHit]) -> usize {
    hits.iter().map(hit_len).sum()
}

/// Removes hits from the middle until the rest fits, and leaves a mark in their place.
fn cut_hits(
    mut hits: Vec<SearchHit>,
    numbered: bool,
    note: Option<String>,
    cap: usize,
    spilled: &SpillLocation,
) -> Vec<ToolResultPart> {
    let total = hits.len();
    let head = count_fitting(hits.iter().map(hit_len), cap * 2 / 3);
    let tail = count_fitting(hits[head..].iter().rev().map(hit_len), cap / 3);
    let last = hits.split_off(total - tail);
    hits.truncate(head);
    let missing = total - head - tail;
    let rest = spilled.describe_location(total);
    let mut pieces = vec![
        ToolResultPart::Matches { hits, numbered, note: None },
        ToolResultPart::Text(format!("[… {missing} of {total} lines left out; {rest} …]")),
        ToolResultPart::Matches { hits: last, numbered, note },
    ];
    let is_empty = |piece: &ToolResultPart| matches!(piece, ToolResultPart::Matches { hits, note: None, .. } if hits.is_empty());
    pieces.retain(|piece| !is_empty(piece));
    pieces
}

/// Formats hits like `grep`: with context, `--` separates groups of lines.
pub fn format_hits(hits: &[SearchHit], numbered: bool) -> String {
    let mut text = String::with_capacity(hits_len(hits));
    let grouped = hits.iter().any(|hit| !hit.is_match);
    for (index, hit) in hits.iter().enumerate() {
        if grouped && index > 0 && !hit.follows(&hits[index - 1]) {
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

fn result_len(result: &ToolResult) -> usize {
    let display = match &result.display {
        ResultDisplay::Markdown { text } => text.len(),
        ResultDisplay::Diff(diff) => diff_len(diff),
        ResultDisplay::Plan { entries } => entries.iter().map(|entry| entry.content.len()).sum(),
    };
    let content: usize = result.content.iter().map(content_len).sum();
    json_len(&result.structured) + content + display + result.metadata.bytes()
}

fn diff_len(diff: &FileDiff) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    diff.unified.len() + text(&diff.old_text) + text(&diff.new_text)
}

fn content_len(content: &ToolResultPart) -> usize {
    match content {
        ToolResultPart::Text(text) | ToolResultPart::Lines { text, .. } => text.len(),
        ToolResultPart::Matches { hits, .. } => hits_len(hits),
        ToolResultPart::Diff { diff, .. } => diff_len(diff),
        ToolResultPart::Image { data, .. }
        | ToolResultPart::Audio { data, .. }
        | ToolResultPart::Resource { data, .. } => data.len(),
    }
}

/// The approximate length of a value as JSON.
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
    use serde_json::json;
    use zero_sandbox::StateDir;

    use super::*;

    fn result(content: ToolResultPart) -> ToolResult {
        ToolResult {
            content: vec![content],
            display: ResultDisplay::markdown(""),
            structured: Value::Null,
            locations: vec![],
            metadata: zero_core::ResultMetadata::default(),
        }
    }

    fn truncate(content: ToolResultPart) -> (ToolResult, tempfile::TempDir) {
        let temp = tempfile::tempdir().unwrap();
        let call = CallId::new("c1").unwrap();
        (
            truncate_result(
                result(content),
                &call,
                &limits(),
                &SpillFolder::new_permanent(StateDir::new(temp.path())),
            ),
            temp,
        )
    }

    fn limits() -> HostLimits {
        HostLimits {
            model_output_bytes_max: ByteSize::bytes(300),
            result_bytes_max: ByteSize::bytes(5_000),
            ..HostLimits::default()
        }
    }

    #[test]
    fn long_text_keeps_head_tail_and_spill_path() {
        let long = format!("START{}END", "é".repeat(1_000));
        let (result, temp) = truncate(ToolResultPart::Text(long.clone()));
        let ToolResultPart::Text(text) = &result.content[0] else { panic!("a text") };
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
    fn hits_are_cut_whole_and_cut_is_marked() {
        let hit =
            |n| SearchHit { file: "a".into(), line: n, text: format!("line {n}"), is_match: true };
        let note = Some("showing 50 of 90".to_owned());
        let hits = (1..=50).map(hit).collect();
        let (result, temp) =
            truncate(ToolResultPart::Matches { hits, numbered: true, note: note.clone() });
        let content = result.content;
        let [
            ToolResultPart::Matches { hits: head, note: None, .. },
            ToolResultPart::Text(mark),
            ToolResultPart::Matches { hits: tail, note: end, .. },
        ] = &content[..]
        else {
            panic!("{content:?}")
        };
        assert_eq!((head[0].line, tail.last().unwrap().line), (1, 50));
        assert_eq!(end, &note);
        let missing = 50 - head.len() - tail.len();
        let file = temp.path().join("c1-0.txt");
        assert_eq!(
            mark,
            &format!(
                "[… {missing} of 50 lines left out; all 50 are in {}, read it page by page …]",
                file.display()
            )
        );
        assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 50);
    }

    #[test]
    fn applied_change_is_never_refused() {
        let diff = |bytes: usize| FileDiff {
            path: "a".into(),
            unified: "+".repeat(bytes),
            old_text: Some("o".repeat(bytes)),
            new_text: Some("n".repeat(bytes)),
            partial: false,
        };
        let changed = |bytes: usize| {
            let temp = tempfile::tempdir().unwrap();
            let change = ToolResult {
                display: ResultDisplay::Diff(diff(bytes)),
                ..result(ToolResultPart::Diff { summary: "Wrote a".into(), diff: diff(bytes) })
            };
            let call = CallId::new("c1").unwrap();
            let bounded = truncate_result(
                change,
                &call,
                &limits(),
                &SpillFolder::new_permanent(StateDir::new(temp.path())),
            );
            assert!(result_len(&bounded) <= limits().result_bytes_max.as_usize());
            let ResultDisplay::Diff(shown) = bounded.display else { panic!("a diff") };
            let ToolResultPart::Diff { diff, .. } = bounded.content[0].clone() else {
                panic!("a diff")
            };
            [diff, shown]
        };
        assert_eq!(changed(200), [diff(200), diff(200)]);
        for diff in changed(2_000) {
            assert_eq!((&diff.old_text, &diff.new_text, diff.partial), (&None, &None, true));
            assert!(diff.unified.contains("of 2000 bytes left out"), "{}", diff.unified);
        }
        changed(100_000);
    }

    #[test]
    fn display_is_truncated_too() {
        let temp = tempfile::tempdir().unwrap();
        let long = ToolResult {
            display: ResultDisplay::markdown("x".repeat(6_000)),
            ..result(ToolResultPart::Text("short".into()))
        };
        let call = CallId::new("c1").unwrap();
        let bounded = truncate_result(
            long,
            &call,
            &limits(),
            &SpillFolder::new_permanent(StateDir::new(temp.path())),
        );
        let ResultDisplay::Markdown { text } = bounded.display else { panic!("a text") };
        assert!(text.len() < 500 && text.contains("[… 5700 of 6000 bytes left out …]"), "{text}");
    }

    #[test]
    fn no_result_exceeds_hard_cap() {
        let image = |bytes: usize| ToolResultPart::Image {
            mime: "image/png".into(),
            data: "A".repeat(bytes),
        };
        let text = |part: &ToolResultPart| match part {
            ToolResultPart::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let content = truncate(image(6_000)).0.content;
        assert_eq!(text(&content[0]), "[about 4500 bytes of image/png left out]");
        assert_eq!(
            text(&content[1]),
            "[the result has 6 KB, more than the limit of 5 KB; parts are left out, request less at once]"
        );

        let temp = tempfile::tempdir().unwrap();
        let spill = SpillFolder::new_permanent(StateDir::new(temp.path()));
        let call = CallId::new("c1").unwrap();
        let rows: Vec<Value> = (0..2_000).map(|n| json!({"line": n})).collect();
        let large = ToolResult {
            content: vec![image(100), image(4_900), ToolResultPart::Text("end".into())],
            structured: json!({"rows": rows, "text": "é".repeat(4_000), "count": 2_000, "ok": "yes"}),
            ..result(image(1))
        };
        let bounded = truncate_result(large, &call, &limits(), &spill);
        assert_eq!(bounded.content[0], image(100), "the largest is left out first");
        assert_eq!(text(&bounded.content[2]), "end");
        let structured = &bounded.structured;
        assert_eq!(
            (&structured["count"], &structured["ok"], &structured["truncated"]),
            (&json!(2_000), &json!("yes"), &json!(true))
        );
        let rows = structured["rows"].as_array().unwrap();
        assert!(rows.len() > 50 && rows[50] == json!({"line": 50}), "{}", rows.len());
        let kept = structured["text"].as_str().unwrap();
        assert!(kept.len() > 1_000 && kept.chars().all(|c| c == 'é'), "{}", kept.len());
        assert!(result_len(&bounded) <= 5_000 + 200, "{}", result_len(&bounded));

        let mut tiny = limits();
        tiny.result_bytes_max = ByteSize::bytes(250);
        let words = result(ToolResultPart::Text("x".repeat(290)));
        let bounded = truncate_result(words, &call, &tiny, &spill);
        assert!(result_len(&bounded) <= 250 + 200, "{}", result_len(&bounded));

        let many = ToolResult {
            content: (0..100).map(|_| ToolResultPart::Text("x".repeat(300))).collect(),
            ..result(image(1))
        };
        let bounded = truncate_result(many, &call, &limits(), &spill);
        assert!(result_len(&bounded) <= 5_000 + 200, "{}", result_len(&bounded));
        assert!(text(bounded.content.last().unwrap()).contains("request less at once"));
    }
}
