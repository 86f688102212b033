//! The text of a PDF, within bounds that no file can leave.
//!
//! A PDF from the web can be anything: packed a thousandfold, nested without end, full of objects
//! that refer to each other. So it is not loaded by a library that trusts it, but read here for its
//! text alone, with one [`PdfBudget`] for all of it: bytes looked at, bytes unpacked, values kept,
//! text made. What the budget does not cover is left out, and said.
//!
//! Not here: pictures (a scanned page has no text), encryption, layout in columns.

mod content_stream;
mod document;
mod font;
mod glyph_names;
mod stream_filter;
mod syntax;

use self::content_stream::ContentInterpreter;
use self::document::PdfDocument;

/// Most pages that are read.
pub(super) const PAGES_MAX: usize = 2_000;
/// Most text that is made of a file, in bytes.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a PDF says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PdfText {
    /// The text of its pages, a blank line between two.
    pub(super) text: String,
    /// How many pages it has.
    pub(super) pages: usize,
    /// Whether something was left out because there was too much.
    pub(super) cut: bool,
}

/// Why a PDF has no text to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PdfError {
    #[error("it is encrypted")]
    Encrypted,
    #[error("it has no pages that can be read")]
    NoPages,
    #[error("its pages hold no text; they may be pictures")]
    NoText,
}

/// What reading one file may cost.
struct PdfBudget {
    /// Bytes that are looked at.
    work: usize,
    /// Bytes that are unpacked.
    unpacked: usize,
    /// Forms that are painted: one may hold many, and they each other.
    forms: usize,
    /// Values that are kept.
    values: usize,
    /// Whether something was left out for want of it.
    exceeded: bool,
}

impl PdfBudget {
    fn for_file(bytes: usize) -> Self {
        Self {
            work: bytes.saturating_mul(4) + 32 * 1024 * 1024,
            unpacked: 32 * 1024 * 1024,
            forms: 10_000,
            values: 1_000_000,
            exceeded: false,
        }
    }

    /// Takes some of an amount; false, and noted, when there is not enough left.
    fn spend(amount: &mut usize, exceeded: &mut bool, taken: usize) -> bool {
        match amount.checked_sub(taken) {
            Some(left) => {
                *amount = left;
                true
            }
            None => {
                *amount = 0;
                *exceeded = true;
                false
            }
        }
    }

    fn spend_work(&mut self, bytes: usize) -> bool {
        Self::spend(&mut self.work, &mut self.exceeded, bytes)
    }

    fn spend_form(&mut self) -> bool {
        Self::spend(&mut self.forms, &mut self.exceeded, 1)
    }

    fn spend_value(&mut self) -> bool {
        Self::spend(&mut self.values, &mut self.exceeded, 1)
    }
}

/// Reads the text of a PDF.
pub(super) fn read_text(bytes: &[u8]) -> Result<PdfText, PdfError> {
    let mut budget = PdfBudget::for_file(bytes.len());
    let document = PdfDocument::read(bytes, &mut budget);
    if document.is_encrypted() {
        return Err(PdfError::Encrypted);
    }
    let pages = document.pages(PAGES_MAX);
    if pages.is_empty() {
        return Err(PdfError::NoPages);
    }
    let mut painter = ContentInterpreter::new(&document);
    let mut text = String::new();
    let mut cut = pages.len() == PAGES_MAX;
    for page in &pages {
        if budget.work == 0 {
            break;
        }
        let painted = painter.page_text(page, &mut budget);
        if text.len() + painted.len() > TEXT_BYTES_MAX {
            cut = true;
            break;
        }
        if !text.is_empty() && !painted.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&painted);
    }
    if text.is_empty() {
        return Err(PdfError::NoText);
    }
    Ok(PdfText { text, pages: pages.len(), cut: cut || budget.exceeded })
}

#[cfg(test)]
mod tests;
