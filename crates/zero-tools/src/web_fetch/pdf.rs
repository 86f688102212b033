//! Extracts the text of a PDF within fixed limits ([`read_text`]).
//!
//! A PDF from the web can be hostile: compressed a thousandfold, nested without end, full of
//! objects that refer to each other. So it is not loaded by a library that trusts it, but parsed
//! here for its text alone (`docs/design/pdf-reader.md` has the reasons). One [`PdfBudget`] limits everything: bytes examined, bytes
//! decompressed, values stored, text produced. Content that exceeds the budget is left out, and the result
//! says so.
//!
//! Not supported: images (a scanned page has no text), encryption, columns.

mod content_stream;
mod document;
mod font;
mod glyph_names;
mod stream_filter;
mod syntax;

use self::content_stream::ContentInterpreter;
use self::document::PdfDocument;

/// Most pages that are read.
pub const PAGES_MAX: usize = 2_000;
/// Most text of a file, in bytes.
pub const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The text of a PDF.
#[derive(Debug, PartialEq, Eq)]
pub struct PdfText {
    /// The text of its pages, separated by blank lines.
    pub text: String,
    /// Number of pages.
    pub pages: usize,
    /// Whether text was left out because of the budget.
    pub cut: bool,
}

/// Why a PDF has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PdfError {
    /// Its text needs a password.
    #[error("it is encrypted")]
    Encrypted,
    /// It is no PDF, or a broken one.
    #[error("it has no pages that can be read")]
    NoPages,
    /// Nothing on its pages is text.
    #[error("its pages have no text; they may be images")]
    NoText,
}

/// What reading one file may cost.
struct PdfBudget {
    /// Bytes examined.
    work: usize,
    /// Bytes decompressed.
    unpacked: usize,
    /// Forms drawn: a form may contain many others, also recursively.
    forms: usize,
    /// Values stored.
    values: usize,
    /// Whether something was left out because the budget was exceeded.
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

    /// Spends some of an amount. If not enough is left, records that and returns false.
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

/// Returns the text of a PDF.
pub fn read_text(bytes: &[u8]) -> Result<PdfText, PdfError> {
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
        if text.len() + 2 + painted.len() > TEXT_BYTES_MAX {
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
