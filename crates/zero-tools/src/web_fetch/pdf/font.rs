//! Fonts ([`PdfFont`]): which text the character codes stand for, and how wide the glyphs are.

use std::collections::HashMap;

use encoding_rs::{MACINTOSH, WINDOWS_1252};

use super::PdfBudget;
use super::document::PdfDocument;
use super::glyph_names;
use super::syntax::{PdfDict, PdfValue, PdfValueReader};

/// Most codes of one font that are stored.
const CODES_MAX: usize = 70_000;
/// Cost of storing an entry for one code, in bytes examined.
const CODE_COST: usize = 32;
/// Width of a glyph without declared width, in thousandths of the font size.
const DEFAULT_WIDTH: f64 = 500.0;
/// Longest text of one code, in characters.
const LIGATURE_CHARS_MAX: usize = 16;

/// Decodes the text of one font.
pub(super) struct PdfFont {
    /// Bytes per code.
    width: usize,
    characters: HashMap<u32, String>,
    ranges: Vec<CodeRange>,
    widths: HashMap<u32, f64>,
    usual_width: f64,
}

/// A range of codes for consecutive characters.
struct CodeRange {
    first: u32,
    last: u32,
    character: u32,
}

/// One code of a text.
pub(super) struct Glyph<'f> {
    /// The text that it stands for.
    pub(super) characters: Option<std::borrow::Cow<'f, str>>,
    /// Its advance width, in thousandths of the font size.
    pub(super) width: f64,
    /// Whether it is the space character, to which word spacing applies.
    pub(super) is_space: bool,
}

impl PdfFont {
    pub(super) fn read(dict: &PdfDict, document: &PdfDocument<'_>, budget: &mut PdfBudget) -> Self {
        let name = |field: &str| document.get(dict, field).and_then(PdfValue::as_name);
        let is_composite = name("Subtype") == Some("Type0");
        let mut font = Self {
            width: if is_composite { 2 } else { 1 },
            characters: HashMap::new(),
            ranges: Vec::new(),
            widths: HashMap::new(),
            usual_width: DEFAULT_WIDTH,
        };
        match is_composite {
            true => font.read_descendant_font(dict, document, budget),
            false => font.read_simple_font(dict, document, budget),
        }
        let map = dict.get("ToUnicode").and_then(|map| document.read_stream(map, budget));
        if let Some(map) = map {
            font.read_unicode_map(&map, budget);
        }
        font.ranges.sort_by_key(|range| range.first);
        font
    }

    /// Returns the glyphs of a text.
    pub(super) fn glyphs<'f>(&'f self, text: &'f [u8]) -> impl Iterator<Item = Glyph<'f>> {
        text.chunks(self.width).map(move |code| {
            let code = code.iter().fold(0_u32, |code, byte| code << 8 | u32::from(*byte));
            Glyph {
                characters: self.text_for_code(code),
                width: self.widths.get(&code).copied().unwrap_or(self.usual_width),
                is_space: self.width == 1 && code == 32,
            }
        })
    }

    fn text_for_code(&self, code: u32) -> Option<std::borrow::Cow<'_, str>> {
        let in_range = || {
            let after = self.ranges.partition_point(|range| range.first <= code);
            let range =
                self.ranges.get(after.checked_sub(1)?).filter(|range| code <= range.last)?;
            char::from_u32(range.character.checked_add(code - range.first)?)
        };
        match in_range() {
            Some(character) => Some(character.to_string().into()),
            None => self.characters.get(&code).map(|characters| characters.as_str().into()),
        }
    }

    fn read_simple_font(
        &mut self,
        dict: &PdfDict,
        document: &PdfDocument<'_>,
        budget: &mut PdfBudget,
    ) {
        let encoding = document.get(dict, "Encoding");
        let base = match encoding {
            Some(PdfValue::Dict(encoding)) => document.get(encoding, "BaseEncoding"),
            encoding => encoding,
        };
        let table = match base.and_then(PdfValue::as_name) {
            Some("MacRomanEncoding") => MACINTOSH,
            _ => WINDOWS_1252,
        };
        for code in 32..=255_u8 {
            let (character, _) = table.decode_without_bom_handling(std::slice::from_ref(&code));
            self.characters.insert(u32::from(code), character.into_owned());
        }
        if let Some(PdfValue::Dict(encoding)) = encoding
            && let Some(differences) =
                document.get(encoding, "Differences").and_then(PdfValue::as_list)
        {
            let mut code = 0_u32;
            for value in differences.iter().take_while(|_| budget.spend_work(CODE_COST)) {
                match value {
                    PdfValue::Number(number) => code = clamp_code(*number),
                    PdfValue::Name(name) => {
                        // The codes of a simple font are single bytes.
                        if code <= 255
                            && let Some(characters) = glyph_names::glyph_text(name)
                        {
                            self.characters.insert(code, characters);
                        }
                        code = code.saturating_add(1);
                    }
                    _ => {}
                }
            }
        }
        let first =
            document.get(dict, "FirstChar").and_then(PdfValue::as_number).unwrap_or_default();
        let first = clamp_code(first);
        let widths = document.get(dict, "Widths").and_then(PdfValue::as_list).unwrap_or_default();
        for (code, width) in (first..).zip(widths.iter().take(256)) {
            if let Some(width) = document.resolve(width).and_then(PdfValue::as_number) {
                self.widths.insert(code, width);
            }
        }
    }

    fn read_descendant_font(
        &mut self,
        dict: &PdfDict,
        document: &PdfDocument<'_>,
        budget: &mut PdfBudget,
    ) {
        let descendants = document.get(dict, "DescendantFonts").and_then(PdfValue::as_list);
        let descendant = descendants.and_then(|fonts| document.resolve(fonts.first()?));
        let Some(descendant) = descendant.and_then(PdfValue::as_dict) else { return };
        let usual = document.get(descendant, "DW").and_then(PdfValue::as_number);
        self.usual_width = usual.unwrap_or(1_000.0);
        let mut widths =
            document.get(descendant, "W").and_then(PdfValue::as_list).unwrap_or_default().iter();
        let mut left = CODES_MAX;
        // The forms are `10 [500 600]` and `10 20 500`.
        while let Some(first) = widths.next().and_then(PdfValue::as_number) {
            let first = clamp_code(first);
            match widths.next().and_then(|value| document.resolve(value)) {
                Some(PdfValue::List(each)) => {
                    for (code, width) in
                        (first..).zip(each).take_while(|_| budget.spend_work(CODE_COST))
                    {
                        self.set_width(code, width, &mut left);
                    }
                }
                Some(PdfValue::Number(last)) => {
                    let Some(width) = widths.next() else { return };
                    let codes = (first..=clamp_code(*last)).take(left);
                    for code in codes.take_while(|_| budget.spend_work(CODE_COST)) {
                        self.set_width(code, width, &mut left);
                    }
                }
                _ => return,
            }
        }
    }

    /// Stores a width, unless the limit is reached.
    fn set_width(&mut self, code: u32, width: &PdfValue, left: &mut usize) {
        if let (Some(width), Some(fewer)) = (width.as_number(), left.checked_sub(1)) {
            *left = fewer;
            self.widths.insert(code, width);
        }
    }

    /// Reads the ToUnicode map.
    fn read_unicode_map(&mut self, map: &[u8], budget: &mut PdfBudget) {
        let mut reader = PdfValueReader::new(map, 0);
        let mut texts: Vec<PdfValue> = Vec::new();
        while let Some(value) = reader.read_value(budget) {
            match value {
                PdfValue::Keyword(word) => {
                    match word.as_str() {
                        "endcodespacerange" => {
                            if let Some(PdfValue::Text(code)) = texts.first() {
                                self.width = code.len().clamp(1, 4);
                            }
                        }
                        "endbfchar" => texts.chunks_exact(2).for_each(|pair| self.map_code(pair)),
                        "endbfrange" => texts.chunks_exact(3).for_each(|row| self.map_range(row)),
                        _ => {}
                    }
                    texts.clear();
                }
                value @ (PdfValue::Text(_) | PdfValue::List(_)) if texts.len() < CODES_MAX => {
                    texts.push(value);
                }
                _ => {}
            }
        }
    }

    fn map_code(&mut self, pair: &[PdfValue]) {
        if let [PdfValue::Text(code), PdfValue::Text(characters)] = pair
            && self.characters.len() < CODES_MAX
        {
            self.characters.insert(parse_code(code), decode_utf16(characters));
        }
    }

    fn map_range(&mut self, row: &[PdfValue]) {
        let [PdfValue::Text(first), PdfValue::Text(last), target] = row else { return };
        let (first, last) = (parse_code(first), parse_code(last));
        match target {
            PdfValue::Text(characters) => {
                let characters = decode_utf16(characters);
                let mut chars = characters.chars();
                // Only a range that starts with a single character can be continued.
                if let (Some(character), None) = (chars.next(), chars.next())
                    && self.ranges.len() < CODES_MAX
                {
                    self.ranges.push(CodeRange { first, last, character: u32::from(character) });
                } else if self.characters.len() < CODES_MAX {
                    self.characters.insert(first, characters);
                }
            }
            PdfValue::List(each) => {
                for (code, characters) in (first..=last).zip(each) {
                    if let PdfValue::Text(characters) = characters
                        && self.characters.len() < CODES_MAX
                    {
                        self.characters.insert(code, decode_utf16(characters));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Converts a number in the file to a code.
fn clamp_code(number: f64) -> u32 {
    const CODE_MAX: f64 = 16_777_216.0;
    number.clamp(0.0, CODE_MAX) as u32
}

fn parse_code(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |code, byte| code << 8 | u32::from(*byte))
}

/// Decodes UTF-16, the encoding of these maps.
fn decode_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks(2).map(|unit| match unit {
        [high, low] => u16::from_be_bytes([*high, *low]),
        rest => rest.iter().fold(0, |_, byte| u16::from(*byte)),
    });
    char::decode_utf16(units).filter_map(Result::ok).take(LIGATURE_CHARS_MAX).collect()
}
