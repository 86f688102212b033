//! The objects of a PDF and its pages ([`PdfDocument`]).
//!
//! Objects are found by searching the file for their headers and not by its cross-reference table:
//! in a truncated or repaired file the table is often wrong, and in a hostile one it cannot be
//! trusted.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use memchr::memmem;

use super::PdfBudget;
use super::stream_filter::{EarlyChange, PdfStreamFilter, Predictor, SampleLayout};
use super::syntax::{PdfDict, PdfValue, PdfValueReader, is_space, parse_integer};

/// Most bytes before `obj` that can contain the object's numbers.
const OBJECT_HEADER_BYTES_MAX: usize = 24;
/// Most filters of one stream.
const FILTERS_MAX: usize = 3;
/// Cost of searching for a stream, in bytes examined.
const STREAM_SEARCH_COST: usize = 64;
/// Most steps from a reference to its target.
const REFERENCE_STEPS_MAX: usize = 8;
/// Most nodes of the page tree.
const NODES_MAX: usize = 20_000;

/// The objects of a file, by number.
pub(super) struct PdfDocument<'a> {
    bytes: &'a [u8],
    objects: HashMap<u32, PdfObject>,
    is_encrypted: bool,
}

struct PdfObject {
    value: PdfValue,
    /// Byte range of its content, if it is a stream.
    stream: Option<Range<usize>>,
}

/// A page, with the resources that it may inherit.
pub(super) struct PdfPage<'d> {
    pub(super) dict: &'d PdfDict,
    pub(super) resources: Option<&'d PdfDict>,
}

impl<'a> PdfDocument<'a> {
    pub(super) fn read(bytes: &'a [u8], budget: &mut PdfBudget) -> Self {
        let mut document = Self { bytes, objects: HashMap::new(), is_encrypted: false };
        let mut packed = Vec::new();
        let mut at = 0;
        while let Some(found) = memmem::find(bytes.get(at..).unwrap_or_default(), b"obj") {
            let body = at + found + 3;
            let number = object_number_before(bytes, body - 3);
            at = body;
            let Some(number) = number else { continue };
            let mut reader = PdfValueReader::new(bytes, body);
            let Some(value) = reader.read_value(budget) else {
                if budget.exceeded {
                    break;
                }
                continue;
            };
            let stream = stream_range_after(bytes, &mut reader, &value);
            at = stream.as_ref().map_or(reader.position(), |stream| stream.end).max(body);
            let is_of = |kind: &str| {
                let own = value.as_dict().and_then(|dict| dict.get("Type"));
                own.and_then(PdfValue::as_name) == Some(kind)
            };
            if is_of("ObjStm") && stream.is_some() {
                packed.push(number);
            }
            if is_of("XRef") && value.as_dict().is_some_and(|dict| dict.contains_key("Encrypt")) {
                document.is_encrypted = true;
            }
            document.objects.insert(number, PdfObject { value, stream });
        }
        document.read_trailers(budget);
        for number in packed {
            document.unpack_object_stream(number, budget);
        }
        document
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    fn read_trailers(&mut self, budget: &mut PdfBudget) {
        const TRAILERS_MAX: usize = 64;
        let trailers: Vec<usize> =
            memmem::find_iter(self.bytes, b"trailer").take(TRAILERS_MAX).collect();
        for place in trailers {
            let mut reader = PdfValueReader::new(self.bytes, place + b"trailer".len());
            if let Some(PdfValue::Dict(trailer)) = reader.read_value(budget) {
                self.is_encrypted |= trailer.contains_key("Encrypt");
            }
        }
    }

    /// Extracts the objects of an object stream.
    fn unpack_object_stream(&mut self, number: u32, budget: &mut PdfBudget) {
        let Some(dict) = self.objects.get(&number).and_then(|object| object.value.as_dict()) else {
            return;
        };
        let figure =
            |name: &str| self.get(dict, name).and_then(PdfValue::as_number).unwrap_or_default();
        // Untrusted numbers: whatever they are, nothing outside of the stream is accessed.
        let (count, first) = (figure("N").max(0.0) as usize, figure("First").max(0.0) as usize);
        let Some(bytes) = self.read_numbered_stream(number, budget) else { return };
        let mut heads = PdfValueReader::new(&bytes, 0);
        for _ in 0..count {
            let (Some(PdfValue::Number(number)), Some(PdfValue::Number(offset))) =
                (heads.read_value(budget), heads.read_value(budget))
            else {
                return;
            };
            let place = first.saturating_add(offset.max(0.0) as usize);
            let Some(value) = PdfValueReader::new(&bytes, place).read_value(budget) else {
                continue;
            };
            // An object directly in the file is newer, or equivalent.
            let number = number.max(0.0) as u32;
            self.objects.entry(number).or_insert(PdfObject { value, stream: None });
        }
    }

    /// Follows references and returns the value.
    pub(super) fn resolve<'d>(&'d self, mut value: &'d PdfValue) -> Option<&'d PdfValue> {
        for _ in 0..REFERENCE_STEPS_MAX {
            match value {
                PdfValue::Reference(number) => value = &self.objects.get(number)?.value,
                value => return Some(value),
            }
        }
        None
    }

    /// Returns the value of a dictionary entry, following references.
    pub(super) fn get<'d>(&'d self, dict: &'d PdfDict, name: &str) -> Option<&'d PdfValue> {
        self.resolve(dict.get(name)?)
    }

    /// Returns the decoded bytes of the stream that a value refers to.
    pub(super) fn read_stream(&self, value: &PdfValue, budget: &mut PdfBudget) -> Option<Vec<u8>> {
        match value {
            PdfValue::Reference(number) => self.read_numbered_stream(*number, budget),
            _ => None,
        }
    }

    fn read_numbered_stream(&self, number: u32, budget: &mut PdfBudget) -> Option<Vec<u8>> {
        let object = self.objects.get(&number)?;
        let dict = object.value.as_dict()?;
        let raw = self.bytes.get(object.stream.clone()?)?;
        if !budget.spend_work(STREAM_SEARCH_COST) {
            return None;
        }
        let filters = self.stream_filters(dict)?;
        if !PdfBudget::spend(&mut budget.unpacked, &mut budget.exceeded, raw.len()) {
            return None;
        }
        let mut bytes = raw.to_vec();
        for filter in filters {
            bytes = filter.decode(&bytes, budget)?;
        }
        Some(bytes)
    }

    /// Returns the filters of a stream, the outermost first, or `None` if one is not supported.
    fn stream_filters(&self, dict: &PdfDict) -> Option<Vec<PdfStreamFilter>> {
        let names = match self.get(dict, "Filter") {
            None => return Some(Vec::new()),
            Some(name @ PdfValue::Name(_)) => std::slice::from_ref(name),
            Some(PdfValue::List(names)) if names.len() <= FILTERS_MAX => names,
            Some(_) => return None,
        };
        let parameters = match self.get(dict, "DecodeParms") {
            None => &[],
            Some(PdfValue::List(parameters)) => parameters.as_slice(),
            Some(alone) => std::slice::from_ref(alone),
        };
        let filter = |(at, name): (usize, &PdfValue)| {
            let name = self.resolve(name)?.as_name()?;
            let parameters = parameters.get(at).and_then(|own| self.resolve(own)?.as_dict());
            Some(match name {
                "FlateDecode" | "Fl" => PdfStreamFilter::Flate(self.read_predictor(parameters)?),
                "LZWDecode" | "LZW" => {
                    let early =
                        parameters.and_then(|own| self.get(own, "EarlyChange")?.as_number());
                    let early = if early == Some(0.0) { EarlyChange::No } else { EarlyChange::Yes };
                    PdfStreamFilter::Lzw(early, self.read_predictor(parameters)?)
                }
                "ASCIIHexDecode" | "AHx" => PdfStreamFilter::Hex,
                "ASCII85Decode" | "A85" => PdfStreamFilter::Base85,
                _ => return None,
            })
        };
        names.iter().enumerate().map(filter).collect()
    }

    /// Returns the predictor of a stream, or `None` if its parameters are invalid.
    fn read_predictor(&self, parameters: Option<&PdfDict>) -> Option<Predictor> {
        let Some(parameters) = parameters else { return Some(Predictor::None) };
        // Untrusted numbers: invalid ones become a value that does not fit.
        let figure = |name: &str, usual: usize| match self.get(parameters, name) {
            None => usual,
            Some(value) => value.as_number().map_or(0, |number| number.max(0.0) as usize),
        };
        let samples = || {
            SampleLayout::new(
                figure("Colors", 1),
                figure("BitsPerComponent", 8),
                figure("Columns", 1),
            )
        };
        match figure("Predictor", 1) {
            1 => Some(Predictor::None),
            2 => samples().map(Predictor::Tiff),
            10..=15 => samples().map(Predictor::Png),
            _ => None,
        }
    }

    /// Returns the pages in order.
    pub(super) fn pages(&self, most: usize) -> Vec<PdfPage<'_>> {
        let kind = |object: &PdfObject, kind: &str| {
            let own = object.value.as_dict().and_then(|dict| self.get(dict, "Type"));
            own.and_then(PdfValue::as_name) == Some(kind)
        };
        let mut catalogs: Vec<&u32> = self
            .objects
            .iter()
            .filter(|(_, object)| kind(object, "Catalog"))
            .map(|(n, _)| n)
            .collect();
        // The last one belongs to the latest revision.
        catalogs.sort();
        let mut pages = Vec::new();
        for catalog in catalogs.into_iter().rev() {
            let root = self.objects.get(catalog).and_then(|object| object.value.as_dict());
            let root = root.and_then(|dict| dict.get("Pages"));
            if let Some(root) = root {
                self.collect_pages(root, most, &mut pages);
            }
            if !pages.is_empty() {
                return pages;
            }
        }
        let mut numbers: Vec<&u32> = self
            .objects
            .iter()
            .filter(|(_, object)| kind(object, "Page"))
            .map(|(n, _)| n)
            .collect();
        numbers.sort();
        let page = |number| {
            let dict = self.objects.get(number)?.value.as_dict()?;
            let resources = self.get(dict, "Resources").and_then(PdfValue::as_dict);
            Some(PdfPage { dict, resources })
        };
        numbers.into_iter().filter_map(page).take(most).collect()
    }

    /// Traverses the page tree and visits each node once.
    fn collect_pages<'d>(&'d self, root: &'d PdfValue, most: usize, pages: &mut Vec<PdfPage<'d>>) {
        let mut seen = HashSet::new();
        let mut waiting: Vec<(&PdfValue, Option<&PdfDict>)> = vec![(root, None)];
        let mut nodes = 0;
        while let Some((node, inherited)) = waiting.pop() {
            nodes += 1;
            if pages.len() >= most || nodes > NODES_MAX {
                return;
            }
            if let PdfValue::Reference(number) = node
                && !seen.insert(*number)
            {
                continue;
            }
            let Some(dict) = self.resolve(node).and_then(PdfValue::as_dict) else { continue };
            let resources = self.get(dict, "Resources").and_then(PdfValue::as_dict).or(inherited);
            match self.get(dict, "Kids").and_then(PdfValue::as_list) {
                Some(kids) => {
                    // Kids that are inline have no number, and may occur repeatedly.
                    let room = NODES_MAX.saturating_sub(nodes + waiting.len());
                    waiting.extend(kids.iter().take(room).rev().map(|kid| (kid, resources)));
                }
                None => pages.push(PdfPage { dict, resources }),
            }
        }
    }
}

/// Returns the number of the object whose `obj` is at `place`.
fn object_number_before(bytes: &[u8], place: usize) -> Option<u32> {
    let before = bytes.get(place.saturating_sub(OBJECT_HEADER_BYTES_MAX)..place)?;
    let mut words = before.rsplit(|byte| is_space(*byte)).filter(|word| !word.is_empty());
    // In `endobj` a letter precedes `obj`.
    if !before.last().is_some_and(|byte| is_space(*byte)) {
        return None;
    }
    let generation = words.next()?;
    let number = words.next()?;
    // The preceding token may end right before the number.
    let digits = number.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    parse_integer(generation)?;
    parse_integer(number.get(digits..)?)
}

/// Returns the byte range of a stream, if one follows.
fn stream_range_after(
    bytes: &[u8],
    reader: &mut PdfValueReader<'_>,
    value: &PdfValue,
) -> Option<Range<usize>> {
    let dict = value.as_dict()?;
    reader.skip_space();
    let after = reader.rest().strip_prefix(b"stream")?;
    let after = after.strip_prefix(b"\r").unwrap_or(after);
    let after = after.strip_prefix(b"\n").unwrap_or(after);
    let start = bytes.len() - after.len();
    let ends_at = |end: usize| {
        let rest = bytes.get(end..)?;
        let space = rest.iter().take(4).take_while(|byte| is_space(**byte)).count();
        rest.get(space..)?.starts_with(b"endstream").then_some(end)
    };
    // The declared length is used if the stream really ends there.
    let declared_end =
        dict.get("Length").and_then(PdfValue::as_number).filter(|length| *length >= 0.0);
    let declared_end = declared_end.and_then(|length| ends_at(start.checked_add(length as usize)?));
    let end = declared_end.or_else(|| Some(start + memmem::find(after, b"endstream")?));
    let end = end.unwrap_or(bytes.len());
    reader.skip_to(end);
    Some(start..end)
}
