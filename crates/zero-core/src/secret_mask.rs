//! Replaces known secret values in text, whatever they are encoded as.
//!
//! A text is compared in a view of it in which spellings of the same value are equal: white space,
//! quotes, capitals, escapes and URL encoding are resolved. A few forms of each value remain: itself,
//! reversed, base64 and base32 at each alignment, hexadecimal. All forms of all values are searched in one pass. Dumps such
//! as those of `xxd`, bytes that are listed as numbers, and lines with numbers before them are decoded and
//! searched in the same way.
//!
//! An Aho-Corasick automaton of a thousand values has a hundred thousand states and reads a megabyte
//! in ten milliseconds. The index of four-byte fragments takes one: most positions need no look at any
//! value, and three of four positions are skipped.
//!
//! Not here: which values are secret, and where they come from (`zero_runtime`).

mod byte_dump;
mod fragment_index;
mod number_run;
mod numbered_lines;
mod secret_stream;
mod text_view;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

use self::fragment_index::{FragmentIndex, SearchBudget};
pub use self::secret_stream::SecretStream;
use crate::event::PlanEntry;
use crate::tool_result::SearchHit;
use crate::{
    CommandExecution, CommandLine, Effect, FileDiff, ResultDisplay, ToolError, ToolResult,
    ToolResultPart,
};

/// Shortest secret value, in characters. A shorter one occurs in ordinary text by chance.
pub const VALUE_CHARS_MIN: usize = 8;
/// Longest name in a placeholder, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Shortest beginning of a value that is replaced where a text was cut off.
const CUT_BYTES_MIN: usize = 12;
/// Longest piece of a form that is compared at once, and how much of it is in the next piece, too. A
/// file can be one value of a megabyte.
const PIECE_BYTES_MAX: usize = 1_024;
const PIECE_OVERLAP_BYTES: usize = 64;
/// Ends a text that was cut off.
const ELLIPSIS: &[u8] = "…".as_bytes();
/// Bytes that are searched at once for the end of a cut text.
const BLOCK_BYTES: usize = 256;
/// The alphabet of base64.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The alphabet of base32.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// The digits of hexadecimal numbers. The view does not distinguish capitals.
const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// What a placeholder begins and ends with.
const PLACEHOLDER_START: &str = "‹secret ";
const PLACEHOLDER_END: &str = "›";

/// A secret value and the name that is shown instead of it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue {
    /// The name of the variable, field or file.
    pub name: String,
    /// The value itself.
    pub text: String,
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretValue").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Known secret values, ready to be found in text. Has no accessor for a value.
#[derive(Default)]
pub struct SecretMask {
    names: Vec<String>,
    index: FragmentIndex,
}

impl fmt::Debug for SecretMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretMask").field("names", &self.names).finish_non_exhaustive()
    }
}

impl SecretMask {
    /// Prepares the values. One that is too short, or consists of white space and signs, is ignored.
    pub fn new(values: impl IntoIterator<Item = SecretValue>) -> Self {
        let mut names = Vec::new();
        let mut forms = Vec::new();
        for SecretValue { name, text } in values {
            if text.chars().count() < VALUE_CHARS_MIN {
                continue;
            }
            let owner = names.len();
            names.push(placeholder_name(&name));
            // The beginning of a URL is not a secret.
            let can_be_cut = !text.contains("://");
            // Many programs take the padding of base64 for a part of `name=value`, and cut it off.
            let unpadded = text.trim_end_matches('=');
            let is_padded = unpadded.len() < text.len();
            let unpadded = Some(unpadded)
                .filter(|short| is_padded && short.chars().count() >= VALUE_CHARS_MIN);
            // In `a\tb`, `\t` may be a tab or two characters, which `%5Ct` are for sure.
            let literal = text.contains('\\').then(|| text.replace('\\', "").into_bytes());
            let forms_of_text =
                std::iter::once(&*text).chain(unpadded).flat_map(|it| encoded_forms(it.as_bytes()));
            for form in forms_of_text.chain(literal) {
                let view = text_view::build(&form);
                let pieces =
                    split_view(&view).filter(|it| it.len() >= FragmentIndex::FORM_BYTES_MIN);
                forms.extend(pieces.map(|it| SecretForm { view: it.into(), owner, can_be_cut }));
            }
        }
        Self { names, index: FragmentIndex::new(forms) }
    }

    /// Whether there is nothing to find.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The text with a placeholder for each secret value. Line breaks inside a value are kept, so
    /// that lines keep their numbers.
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.mask_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(match String::from_utf8(clean) {
                Ok(clean) => clean,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        }
    }

    /// The same for bytes that may not be UTF-8.
    pub fn mask_bytes<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        if self.is_empty() || text.len() < FragmentIndex::FORM_BYTES_MIN {
            return Cow::Borrowed(text);
        }
        let ranges = self.find_ranges(text, CutEdges::Included);
        if ranges.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.replace(text, &ranges))
    }

    /// Replaces secret values in a text.
    pub fn mask_string(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.mask_text(text) {
            *text = clean;
        }
    }

    /// Replaces secret values in all strings and field names of a value.
    pub fn mask_json(&self, value: &mut Value) {
        if self.is_empty() {
            return;
        }
        match value {
            Value::String(text) => self.mask_string(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_json(item)),
            Value::Object(fields) => self.mask_fields(fields),
            Value::Number(number) => {
                if let Cow::Owned(clean) = self.mask_text(&number.to_string()) {
                    *value = Value::String(clean);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn mask_fields(&self, fields: &mut Map<String, Value>) {
        if fields.keys().any(|name| matches!(self.mask_text(name), Cow::Owned(_))) {
            let all = std::mem::take(fields);
            fields.extend(
                all.into_iter().map(|(name, field)| (self.mask_text(&name).into_owned(), field)),
            );
        }
        fields.values_mut().for_each(|field| self.mask_json(field));
    }

    /// Replaces secret values in a result. An image or a sound with a value in its data is withheld.
    pub fn mask_result(&self, result: &mut ToolResult) {
        if self.is_empty() {
            return;
        }
        self.mask_texts(&mut result.content);
        result.content.iter_mut().for_each(|part| self.mask_part(part));
        self.mask_display(&mut result.display);
        self.mask_json(&mut result.structured);
        result.metadata.texts_mut().for_each(|text| self.mask_string(text));
        for location in &mut result.locations {
            if let Cow::Owned(clean) = self.mask_text(&location.path.to_string_lossy()) {
                location.path = clean.into();
            }
        }
    }

    /// Replaces secret values in an error.
    pub fn mask_error(&self, error: &mut ToolError) {
        if self.is_empty() {
            return;
        }
        self.mask_string(&mut error.message);
        self.mask_fields(&mut error.details);
    }

    /// Replaces secret values in what a call does, for people and records. Paths are left as they
    /// are.
    pub fn mask_effect(&self, effect: &mut Effect) {
        match effect {
            Effect::Exec(CommandExecution { command, variables, .. }) => {
                match command {
                    CommandLine::Shell(text) => self.mask_string(text),
                    CommandLine::Program(words) => {
                        words.iter_mut().for_each(|word| self.mask_string(word));
                    }
                }
                variables.iter_mut().for_each(|(_, value)| self.mask_string(value));
            }
            Effect::Net(text) | Effect::State(text) | Effect::Endpoint(text) => {
                self.mask_string(text);
            }
            Effect::Note(note) => self.mask_string(&mut note.name),
            Effect::Read(_)
            | Effect::Write(_)
            | Effect::Delete(_)
            | Effect::Mcp { .. }
            | Effect::Ask => {}
        }
    }

    /// Replaces secret values in the part of a result that is displayed.
    pub fn mask_display(&self, display: &mut ResultDisplay) {
        match display {
            ResultDisplay::Markdown { text } => self.mask_string(text),
            ResultDisplay::Diff(diff) => self.mask_diff(diff),
            ResultDisplay::Plan { entries } => {
                entries.iter_mut().for_each(|PlanEntry { content, .. }| self.mask_string(content));
            }
        }
    }

    /// Texts that follow each other reach a model as one, and a value may go on in the next.
    fn mask_texts(&self, parts: &mut [ToolResultPart]) {
        let is_text = |part: &ToolResultPart| matches!(part, ToolResultPart::Text(_));
        for run in parts.chunk_by_mut(|a, b| is_text(a) && is_text(b)) {
            let mut texts: Vec<&mut String> = run
                .iter_mut()
                .filter_map(|part| match part {
                    ToolResultPart::Text(text) => Some(text),
                    _ => None,
                })
                .collect();
            if texts.len() < 2 {
                continue;
            }
            let joined = texts.iter().map(|text| text.as_str()).collect::<Vec<_>>().join("\n");
            let Cow::Owned(clean) = self.mask_text(&joined) else { continue };
            let mut lines = clean.split('\n');
            for text in &mut texts {
                let count = text.matches('\n').count() + 1;
                **text = lines.by_ref().take(count).collect::<Vec<_>>().join("\n");
            }
        }
    }

    fn mask_part(&self, part: &mut ToolResultPart) {
        match part {
            ToolResultPart::Text(text) => self.mask_string(text),
            ToolResultPart::Lines { text, note, .. } => {
                self.mask_string(text);
                self.mask_optional(note);
            }
            ToolResultPart::Matches { hits, note, .. } => {
                self.mask_hits(hits);
                self.mask_optional(note);
            }
            ToolResultPart::Diff { summary, diff } => {
                self.mask_string(summary);
                self.mask_diff(diff);
            }
            ToolResultPart::Resource { uri, data, .. } => {
                self.mask_string(uri);
                self.mask_string(data);
            }
            ToolResultPart::Image { mime, data } | ToolResultPart::Audio { mime, data } => {
                self.mask_string(mime);
                // Without a value the data would be damaged, so that nothing of it is shown.
                if let Some((_, owner)) =
                    self.find_ranges(data.as_bytes(), CutEdges::Excluded).first()
                {
                    let name = self.name(*owner);
                    *part = ToolResultPart::Text(format!(
                        "(withheld: the data contains {PLACEHOLDER_START}{name}{PLACEHOLDER_END})"
                    ));
                }
            }
        }
    }

    /// Hits are lines of a file: a value may go over several of them.
    fn mask_hits(&self, hits: &mut [SearchHit]) {
        for same in hits.chunk_by_mut(|a, b| a.file == b.file) {
            let clean = same.first().map(|hit| self.mask_text(&hit.file));
            let Some(Cow::Owned(clean)) = clean else { continue };
            same.iter_mut().for_each(|hit| hit.file.clone_from(&clean));
        }
        let joined = hits.iter().map(|hit| hit.text.as_str()).collect::<Vec<_>>().join("\n");
        let Cow::Owned(clean) = self.mask_text(&joined) else { return };
        let mut lines = clean.split('\n');
        for hit in hits {
            let count = hit.text.matches('\n').count() + 1;
            hit.text = lines.by_ref().take(count).collect::<Vec<_>>().join("\n");
        }
    }

    fn mask_diff(&self, diff: &mut FileDiff) {
        let FileDiff { path, unified, old_text, new_text, partial: _ } = diff;
        self.mask_string(path);
        self.mask_string(unified);
        self.mask_optional(old_text);
        self.mask_optional(new_text);
    }

    fn mask_optional(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.mask_string(text);
        }
    }

    /// The names of the secrets in all strings of a value, each once.
    pub fn find_names(&self, value: &Value) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect_names(value, &mut names);
        names
    }

    /// The names of the secrets in bytes that may not be text, in their order.
    pub fn find_names_in_bytes(&self, bytes: &[u8]) -> Vec<&str> {
        if self.is_empty() {
            return Vec::new();
        }
        let found = self.find_ranges(bytes, CutEdges::Excluded);
        found.into_iter().map(|(_, owner)| self.name(owner)).collect()
    }

    fn collect_names<'a>(&'a self, value: &Value, names: &mut Vec<&'a str>) {
        if self.is_empty() {
            return;
        }
        let mut search = |text: &str| {
            for name in self.find_names_in_bytes(text.as_bytes()) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        };
        match value {
            Value::String(text) => search(text),
            Value::Number(number) => search(&number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.collect_names(item, names)),
            Value::Object(fields) => {
                fields.keys().for_each(|name| search(name));
                fields.values().for_each(|field| self.collect_names(field, names));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The name in a placeholder for one of these secrets that a string of a value contains.
    pub fn find_placeholder(&self, value: &Value) -> Option<&str> {
        match value {
            Value::String(text) => text.split(PLACEHOLDER_START).skip(1).find_map(|rest| {
                let (name, _) = rest.split_once(PLACEHOLDER_END)?;
                self.names.iter().find(|known| *known == name).map(String::as_str)
            }),
            Value::Array(items) => items.iter().find_map(|item| self.find_placeholder(item)),
            Value::Object(fields) => fields.values().find_map(|field| self.find_placeholder(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    fn name(&self, owner: usize) -> &str {
        self.names.get(owner).map_or("", String::as_str)
    }

    /// Where secret values are, in order and without overlaps.
    fn find_ranges(&self, text: &[u8], edges: CutEdges) -> Vec<(Range<usize>, usize)> {
        let view = text_view::build(text);
        let mut budget = SearchBudget::for_view(&view);
        let mut found = self.index.find(&view, &mut budget);
        if edges == CutEdges::Included {
            found.extend(self.find_cut_values(&view, &mut budget));
        }
        let ranges = text_view::map_ranges(text, merge_overlaps(found));
        let lines = byte_dump::find_candidates(text);
        let mut dumped = self.find_dumped_values(text, &lines);
        dumped.extend(self.find_listed_values(text));
        dumped.extend(self.find_numbered_values(text, &lines));
        if dumped.is_empty() {
            return ranges;
        }
        let ranges = ranges.into_iter().map(|(range, owner)| FormMatch { range, owner });
        let all = merge_overlaps(ranges.chain(dumped).collect());
        all.into_iter().map(|FormMatch { range, owner }| (range, owner)).collect()
    }

    /// The lines of dumps in which a value is.
    fn find_dumped_values(&self, text: &[u8], lines: &[Range<usize>]) -> Vec<FormMatch> {
        let mut found = Vec::new();
        for dump in byte_dump::find_dumps(text, lines) {
            for bytes in dump.byte_orders() {
                let view = text_view::build(&bytes);
                let mut budget = SearchBudget::for_view(&view);
                let mut values = self.index.find(&view, &mut budget);
                // Printing only the first lines of a dump cuts it in the middle of a value.
                let open = self.index.find_open_end(&view, CUT_BYTES_MIN, &mut budget);
                values.extend(
                    open.filter(|open| open.can_be_cut)
                        .map(|open| FormMatch { range: open.start..view.len(), owner: open.owner }),
                );
                let lines = text_view::map_ranges(&bytes, merge_overlaps(values)).into_iter();
                found.extend(lines.filter_map(|(range, owner)| {
                    Some(FormMatch { range: dump.lines_of(&range)?, owner })
                }));
            }
        }
        found
    }

    /// The numbers that a value is listed as.
    fn find_listed_values(&self, text: &[u8]) -> Vec<FormMatch> {
        let mut found = Vec::new();
        for run in number_run::find_runs(text) {
            let view = text_view::build(&run.bytes);
            let mut budget = SearchBudget::for_view(&view);
            let mut values = self.index.find(&view, &mut budget);
            let open = self.index.find_open_end(&view, CUT_BYTES_MIN, &mut budget);
            values.extend(
                open.filter(|open| open.can_be_cut)
                    .map(|open| FormMatch { range: open.start..view.len(), owner: open.owner }),
            );
            let bytes = text_view::map_ranges(&run.bytes, merge_overlaps(values)).into_iter();
            found.extend(bytes.filter_map(|(range, owner)| {
                Some(FormMatch { range: run.numbers_of(&range)?, owner })
            }));
        }
        found
    }

    /// The values that go over several lines with a number before each.
    fn find_numbered_values(&self, text: &[u8], lines: &[Range<usize>]) -> Vec<FormMatch> {
        let mut found = Vec::new();
        for lines in numbered_lines::find_all(text, lines) {
            let view = text_view::build(&lines.bytes);
            let mut budget = SearchBudget::for_view(&view);
            let values = self.index.find(&view, &mut budget);
            let ranges = text_view::map_ranges(&lines.bytes, merge_overlaps(values)).into_iter();
            found.extend(ranges.filter_map(|(range, owner)| {
                Some(FormMatch { range: lines.place_of(&range)?, owner })
            }));
        }
        found
    }

    /// The beginnings of values at the end of a text, or before an ellipsis.
    fn find_cut_values(&self, view: &[u8], budget: &mut SearchBudget) -> Vec<FormMatch> {
        // Most texts have no such character, and most blocks of the others.
        let blocks = view.chunks(BLOCK_BYTES).enumerate();
        let blocks = blocks.filter(|(_, block)| block.contains(&ELLIPSIS[0]));
        let starts = blocks.flat_map(|(block, _)| block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES);
        let cuts = starts.filter(|at| view.get(*at..at + ELLIPSIS.len()) == Some(ELLIPSIS));
        let beginning = |cut: usize| {
            if budget.is_spent() {
                return Some(FormMatch { range: cut.checked_sub(1)?..view.len(), owner: 0 });
            }
            let found = self.index.find_open_end(view.get(..cut)?, CUT_BYTES_MIN, budget)?;
            found.can_be_cut.then_some(FormMatch { range: found.start..cut, owner: found.owner })
        };
        cuts.chain([view.len()]).filter_map(beginning).collect()
    }

    fn replace(&self, text: &[u8], ranges: &[(Range<usize>, usize)]) -> Vec<u8> {
        let mut clean = Vec::with_capacity(text.len());
        let mut end = 0;
        for (range, owner) in ranges {
            clean.extend_from_slice(text.get(end..range.start).unwrap_or_default());
            clean.extend_from_slice(PLACEHOLDER_START.as_bytes());
            clean.extend_from_slice(self.name(*owner).as_bytes());
            clean.extend_from_slice(PLACEHOLDER_END.as_bytes());
            let hidden = text.get(range.clone()).unwrap_or_default();
            clean.extend(hidden.iter().filter(|byte| **byte == b'\n'));
            end = range.end;
        }
        clean.extend_from_slice(text.get(end..).unwrap_or_default());
        clean
    }
}

/// Whether beginnings of values are searched for where a text was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutEdges {
    Included,
    Excluded,
}

/// One spelling of a value, as a view.
struct SecretForm {
    view: Box<[u8]>,
    /// Index of its name.
    owner: usize,
    /// Whether a beginning of it reveals a part of the secret.
    can_be_cut: bool,
}

/// Where a form is in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FormMatch {
    range: Range<usize>,
    owner: usize,
}

/// Joins matches that overlap; the longest gives the name.
fn merge_overlaps(mut found: Vec<FormMatch>) -> Vec<FormMatch> {
    found.sort_by_key(|found| (found.range.start, usize::MAX - found.range.end));
    let mut merged: Vec<FormMatch> = Vec::with_capacity(found.len());
    for next in found {
        match merged.last_mut() {
            Some(last) if next.range.start < last.range.end => {
                if next.range.len() > last.range.len() {
                    last.owner = next.owner;
                }
                last.range.end = last.range.end.max(next.range.end);
            }
            _ => merged.push(next),
        }
    }
    merged
}

/// The pieces of a long form. They overlap, so that what is found of a text has no gaps.
fn split_view(view: &[u8]) -> impl Iterator<Item = &[u8]> {
    let rest = view.len().saturating_sub(PIECE_OVERLAP_BYTES).max(1);
    let starts = (0..rest).step_by(PIECE_BYTES_MAX - PIECE_OVERLAP_BYTES);
    starts.filter_map(|start| view.get(start..view.len().min(start + PIECE_BYTES_MAX)))
}

/// The value itself and its encodings.
fn encoded_forms(value: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let digits = value.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hex = digits.map(|digit| HEXADECIMAL[usize::from(digit)]).collect();
    let text = String::from_utf8_lossy(value);
    // As PowerShell encodes its commands. The order of the two bytes only shifts them by one.
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    // As `rev` prints it.
    let reversed = text.chars().rev().collect::<String>();
    let mut forms = vec![value.to_vec(), reversed.into_bytes(), hex];
    for (bytes, alphabet, offsets) in
        [(value, &BASE64[..], 3), (value, &BASE32[..], 5), (&wide, &BASE64[..], 3)]
    {
        forms.extend((0..offsets).map(|offset| digits_at(bytes, alphabet, offset)));
    }
    forms.into_iter()
}

/// The digits, each of as many bits as its alphabet has digits for, that depend on the value alone if
/// `offset` bytes precede it.
fn digits_at(value: &[u8], alphabet: &[u8], offset: usize) -> Vec<u8> {
    let width = alphabet.len().ilog2() as usize;
    let mask = alphabet.len() - 1;
    // The bits of the first byte that belong to a digit with what precedes it.
    let shared = (offset * 8).div_ceil(width) * width - offset * 8;
    let mut digits = Vec::with_capacity(value.len() * 8 / width + 1);
    let (mut bits, mut count) = (0, 0);
    for (at, byte) in value.iter().enumerate() {
        bits = bits << 8 & 0xffff | usize::from(*byte);
        count += if at == 0 { 8 - shared } else { 8 };
        while count >= width {
            count -= width;
            digits.extend(alphabet.get(bits >> count & mask));
        }
    }
    digits
}

/// A name that is safe to show and short.
fn placeholder_name(name: &str) -> String {
    let is_safe = |c: &char| !c.is_control() && !PLACEHOLDER_END.contains(*c);
    let name: String = name.chars().filter(is_safe).take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "value".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
