//! Interprets the content streams of pages and collects their text ([`ContentInterpreter`]).

use std::collections::HashMap;
use std::rc::Rc;

use super::PdfBudget;
use super::document::{PdfDocument, PdfPage};
use super::font::PdfFont;
use super::syntax::{PdfDict, PdfValue, PdfValueReader};

/// Most operands of an operator that are kept.
const OPERANDS_MAX: usize = 64;
/// Most values of one operator, including those in lists.
const VALUES_MAX: usize = 200_000;
/// Most saved graphics states.
const STATES_MAX: usize = 64;
/// Most nested forms.
const FORMS_DEPTH_MAX: usize = 6;
/// Most text of one page, in bytes.
const PAGE_BYTES_MAX: usize = 1024 * 1024;
/// Most fonts that are cached.
const FONTS_MAX: usize = 512;
/// A gap of this fraction of the font size separates two words.
const WORD_GAP: f64 = 0.16;
/// A vertical step of this fraction of the font size starts a line.
const LINE_STEP: f64 = 0.35;
/// A vertical step of this fraction of the font size starts a paragraph.
const PARAGRAPH_STEP: f64 = 1.9;

/// Interprets the content streams of pages.
pub(super) struct ContentInterpreter<'d> {
    document: &'d PdfDocument<'d>,
    /// Fonts by the addresses of their dictionaries.
    fonts: HashMap<*const PdfDict, Rc<PdfFont>>,
}

/// A transformation: `x' = a·x + c·y + e`, `y' = b·x + d·y + f`.
#[derive(Clone, Copy)]
struct TransformMatrix([f64; 6]);

impl TransformMatrix {
    const IDENTITY: Self = Self([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);

    /// Applies this transformation, then the other.
    fn concat(self, Self([oa, ob, oc, od, oe, of]): Self) -> Self {
        let Self([a, b, c, d, e, f]) = self;
        Self([
            a * oa + b * oc,
            a * ob + b * od,
            c * oa + d * oc,
            c * ob + d * od,
            e * oa + f * oc + oe,
            e * ob + f * od + of,
        ])
    }

    fn translated(self, x: f64, y: f64) -> Self {
        Self([1.0, 0.0, 0.0, 1.0, x, y]).concat(self)
    }

    fn translation(self) -> (f64, f64) {
        let Self([.., x, y]) = self;
        (x, y)
    }

    /// Returns the length of a vertical unit after the transformation.
    fn scale(self) -> f64 {
        let Self([_, _, c, d, ..]) = self;
        c.hypot(d)
    }

    /// Returns the length of a horizontal unit after the transformation.
    fn horizontal_scale(self) -> f64 {
        let Self([a, b, ..]) = self;
        a.hypot(b)
    }
}

#[derive(Clone)]
struct GraphicsState {
    page: TransformMatrix,
    font: Option<Rc<PdfFont>>,
    size: f64,
    leading: f64,
    letter_gap: f64,
    word_gap: f64,
}

/// The text of a page while it is interpreted.
struct PageTextBuilder {
    text: String,
    /// Where the last character ended, and its size.
    last: Option<(f64, f64, f64)>,
}

impl<'d> ContentInterpreter<'d> {
    pub(super) fn new(document: &'d PdfDocument<'d>) -> Self {
        Self { document, fonts: HashMap::new() }
    }

    /// Returns the text of a page.
    pub(super) fn page_text(&mut self, page: &PdfPage<'d>, budget: &mut PdfBudget) -> String {
        let mut content = Vec::new();
        let parts = match page.dict.get("Contents") {
            Some(whole @ PdfValue::Reference(_)) => match self.document.resolve(whole) {
                Some(PdfValue::List(parts)) => parts.as_slice(),
                _ => std::slice::from_ref(whole),
            },
            Some(PdfValue::List(parts)) => parts.as_slice(),
            _ => &[],
        };
        for part in parts {
            if !budget.spend_work(1) {
                break;
            }
            content.extend(self.document.read_stream(part, budget).unwrap_or_default());
            content.push(b'\n');
        }
        let state = GraphicsState {
            page: TransformMatrix::IDENTITY,
            font: None,
            size: 1.0,
            leading: 0.0,
            letter_gap: 0.0,
            word_gap: 0.0,
        };
        let mut sheet = PageTextBuilder { text: String::new(), last: None };
        self.run_content(&content, page.resources, state, &mut sheet, 0, budget);
        let lines: Vec<&str> = sheet.text.lines().map(str::trim_end).collect();
        lines.join("\n").trim().to_owned()
    }

    fn run_content(
        &mut self,
        content: &[u8],
        resources: Option<&'d PdfDict>,
        mut state: GraphicsState,
        sheet: &mut PageTextBuilder,
        depth: usize,
        budget: &mut PdfBudget,
    ) {
        budget.values = VALUES_MAX;
        let mut reader = PdfValueReader::new(content, 0);
        let mut operands: Vec<PdfValue> = Vec::new();
        let mut states: Vec<GraphicsState> = Vec::new();
        let (mut line, mut text) = (TransformMatrix::IDENTITY, TransformMatrix::IDENTITY);
        while let Some(value) = reader.read_value(budget) {
            let PdfValue::Keyword(operator) = value else {
                if operands.len() < OPERANDS_MAX {
                    operands.push(value);
                }
                continue;
            };
            // The values of each operator are dropped after it, so the limit applies to one
            // operator.
            budget.values = VALUES_MAX;
            if sheet.text.len() > PAGE_BYTES_MAX {
                budget.exceeded = true;
                return;
            }
            let number =
                |at: usize| operands.get(at).and_then(PdfValue::as_number).unwrap_or_default();
            match operator.as_str() {
                "q" if states.len() < STATES_MAX => states.push(state.clone()),
                "Q" => state = states.pop().unwrap_or(state),
                "cm" => state.page = parse_matrix(&operands).concat(state.page),
                "BT" => (line, text) = (TransformMatrix::IDENTITY, TransformMatrix::IDENTITY),
                "Tf" => {
                    let font = operands.first().and_then(PdfValue::as_name);
                    state.font = font.and_then(|name| self.load_font(name, resources, budget));
                    state.size = number(1);
                }
                "TL" => state.leading = number(0),
                "Tc" => state.letter_gap = number(0),
                "Tw" => state.word_gap = number(0),
                "Td" | "TD" => {
                    if operator == "TD" {
                        state.leading = -number(1);
                    }
                    line = line.translated(number(0), number(1));
                    text = line;
                }
                "Tm" => {
                    line = parse_matrix(&operands);
                    text = line;
                }
                "T*" => {
                    line = line.translated(0.0, -state.leading);
                    text = line;
                }
                "Tj" | "'" | "\"" => {
                    if operator == "\"" {
                        (state.word_gap, state.letter_gap) = (number(0), number(1));
                    }
                    if operator != "Tj" {
                        line = line.translated(0.0, -state.leading);
                        text = line;
                    }
                    if let Some(PdfValue::Text(shown)) = operands.last() {
                        text = sheet.show_text(shown, &state, text);
                    }
                }
                "TJ" => {
                    for part in operands.last().and_then(PdfValue::as_list).unwrap_or_default() {
                        text = match part {
                            PdfValue::Text(shown) => sheet.show_text(shown, &state, text),
                            PdfValue::Number(back) => {
                                text.translated(-back / 1_000.0 * state.size, 0.0)
                            }
                            _ => text,
                        };
                    }
                }
                "Do" if depth < FORMS_DEPTH_MAX => {
                    if let Some(name) = operands.first().and_then(PdfValue::as_name) {
                        self.run_form(name, resources, &state, sheet, depth, budget);
                    }
                }
                "BI" => skip_inline_image(&mut reader, content),
                _ => {}
            }
            operands.clear();
        }
    }

    /// Interprets the content of a form.
    fn run_form(
        &mut self,
        name: &str,
        resources: Option<&'d PdfDict>,
        state: &GraphicsState,
        sheet: &mut PageTextBuilder,
        depth: usize,
        budget: &mut PdfBudget,
    ) {
        let document = self.document;
        let forms =
            resources.and_then(|all| document.get(all, "XObject")).and_then(PdfValue::as_dict);
        let Some(reference) = forms.and_then(|forms| forms.get(name)) else { return };
        let Some(dict) = document.resolve(reference).and_then(PdfValue::as_dict) else { return };
        if document.get(dict, "Subtype").and_then(PdfValue::as_name) != Some("Form") {
            return;
        }
        if !budget.spend_form() {
            return;
        }
        let Some(content) = document.read_stream(reference, budget) else { return };
        let own = document.get(dict, "Resources").and_then(PdfValue::as_dict).or(resources);
        let place = document
            .get(dict, "Matrix")
            .and_then(PdfValue::as_list)
            .map_or(TransformMatrix::IDENTITY, parse_matrix);
        let state = GraphicsState { page: place.concat(state.page), ..state.clone() };
        self.run_content(&content, own, state, sheet, depth + 1, budget);
    }

    fn load_font(
        &mut self,
        name: &str,
        resources: Option<&'d PdfDict>,
        budget: &mut PdfBudget,
    ) -> Option<Rc<PdfFont>> {
        let fonts = self.document.get(resources?, "Font").and_then(PdfValue::as_dict)?;
        let dict = self.document.get(fonts, name).and_then(PdfValue::as_dict)?;
        if let Some(font) = self.fonts.get(&std::ptr::from_ref(dict)) {
            return Some(Rc::clone(font));
        }
        if self.fonts.len() >= FONTS_MAX {
            budget.exceeded = true;
            return None;
        }
        let font = Rc::new(PdfFont::read(dict, self.document, budget));
        self.fonts.insert(std::ptr::from_ref(dict), Rc::clone(&font));
        Some(font)
    }
}

impl PageTextBuilder {
    /// Adds a text, and returns where the next one starts.
    fn show_text(
        &mut self,
        shown: &[u8],
        state: &GraphicsState,
        mut text: TransformMatrix,
    ) -> TransformMatrix {
        let Some(font) = &state.font else { return text };
        for glyph in font.glyphs(shown) {
            // A single operator may show more text than the limit of a page.
            if self.text.len() > PAGE_BYTES_MAX {
                return text;
            }
            let place = text.concat(state.page);
            let size = (place.scale() * state.size.abs()).max(0.01);
            let characters = glyph.characters.unwrap_or_default();
            let characters: String =
                characters.chars().filter(|c| zero_core::sanitize::is_safe_in_prose(*c)).collect();
            let (x, y) = place.translation();
            if !characters.is_empty() {
                self.add_separator(x, y, size);
                self.text.push_str(&characters);
            }
            let gap = state.letter_gap + if glyph.is_space { state.word_gap } else { 0.0 };
            let step = glyph.width / 1_000.0 * state.size + gap;
            text = text.translated(step, 0.0);
            if !characters.is_empty() {
                self.last = Some((x + step * place.horizontal_scale(), y, size));
            }
        }
        text
    }

    /// Adds a line break, a space or nothing before the next text.
    fn add_separator(&mut self, x: f64, y: f64, size: f64) {
        let Some((last_x, last_y, last_size)) = self.last else { return };
        let size = size.max(last_size);
        let step = (y - last_y).abs();
        let part = match () {
            () if step > size * PARAGRAPH_STEP => "\n\n",
            () if step > size * LINE_STEP => "\n",
            () if x - last_x > size * WORD_GAP || last_x - x > size * 2.0 => " ",
            () => return,
        };
        if !self.text.ends_with([' ', '\n']) || part != " " {
            self.text.push_str(part);
        }
    }
}

fn parse_matrix(values: &[PdfValue]) -> TransformMatrix {
    let mut matrix = TransformMatrix::IDENTITY;
    for (slot, value) in matrix.0.iter_mut().zip(values) {
        *slot = value.as_number().unwrap_or_default();
    }
    matrix
}

/// Skips an inline image, which ends with `EI` between spaces.
fn skip_inline_image(reader: &mut PdfValueReader<'_>, content: &[u8]) {
    let start = reader.position();
    let rest = reader.rest();
    let end = memchr::memmem::find_iter(rest, b"EI").find(|place| {
        let is_gap = |at: Option<&u8>| at.is_none_or(|byte| super::syntax::is_space(*byte));
        is_gap(place.checked_sub(1).and_then(|at| rest.get(at))) && is_gap(rest.get(place + 2))
    });
    reader.skip_to(end.map_or(content.len(), |end| start + end + 2));
}
