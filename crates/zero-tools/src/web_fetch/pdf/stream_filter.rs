//! The ways in which a PDF packs the bytes of a stream, undone.
//!
//! Each gives what came before a stream broke off, and never more than the budget covers: a few
//! bytes can be packed that are more than all memory.

use std::io::Read as _;

use flate2::read::ZlibDecoder;

use super::PdfBudget;

/// One step of unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PdfStreamFilter {
    Flate(Predictor),
    Lzw(EarlyChange, Predictor),
    Hex,
    Base85,
}

/// When codes of LZW get longer: one code before they have to, as nearly every file has it, or then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlyChange {
    Yes,
    No,
}

/// How bytes are kept as differences to others: tables of objects and pictures are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Predictor {
    #[default]
    None,
    /// To the sample on their left.
    Tiff(SampleLayout),
    /// To their neighbours, each row in a way of its own.
    Png(SampleLayout),
}

/// How rows are made of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleLayout {
    colors: usize,
    bits: usize,
    columns: usize,
}

impl SampleLayout {
    /// Rows of so many columns of so many colors with so many bits; none where no file has such.
    pub(super) fn new(colors: usize, bits: usize, columns: usize) -> Option<Self> {
        let fits = (1..=32).contains(&colors)
            && [1, 2, 4, 8, 16].contains(&bits)
            && (1..=1 << 20).contains(&columns);
        fits.then_some(Self { colors, bits, columns })
    }

    /// Bytes of a row.
    fn row_bytes(self) -> usize {
        (self.colors * self.bits * self.columns).div_ceil(8)
    }

    /// Bytes from one to the one on its left.
    fn sample_bytes(self) -> usize {
        (self.colors * self.bits).div_ceil(8)
    }
}

impl PdfStreamFilter {
    /// Undoes it. Nothing where it cannot be, or the budget does not cover it.
    pub(super) fn decode(self, bytes: &[u8], budget: &mut PdfBudget) -> Option<Vec<u8>> {
        match self {
            Self::Flate(predictor) => predictor.decode(inflate(bytes, budget)?),
            Self::Lzw(early, predictor) => predictor.decode(decode_lzw(bytes, early, budget)?),
            Self::Hex => Some(decode_hex(bytes)),
            Self::Base85 => Some(decode_base85(bytes)),
        }
    }
}

impl Predictor {
    fn decode(self, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        match self {
            Self::None => Some(bytes),
            Self::Tiff(samples) => {
                for row in bytes.chunks_mut(samples.row_bytes()) {
                    undo_tiff_row(row, samples);
                }
                Some(bytes)
            }
            Self::Png(samples) => undo_png(&bytes, samples),
        }
    }
}

fn inflate(bytes: &[u8], budget: &mut PdfBudget) -> Option<Vec<u8>> {
    let most = budget.unpacked;
    let mut unpacked = Vec::new();
    let read = ZlibDecoder::new(bytes).take(most as u64).read_to_end(&mut unpacked);
    if unpacked.is_empty() && read.is_err() {
        return None;
    }
    charge_unpacked(unpacked, most, budget)
}

/// What was unpacked, if it is all that there was.
fn charge_unpacked(unpacked: Vec<u8>, most: usize, budget: &mut PdfBudget) -> Option<Vec<u8>> {
    PdfBudget::spend(&mut budget.unpacked, &mut budget.exceeded, unpacked.len());
    if unpacked.len() >= most {
        budget.exceeded = true;
        return None;
    }
    Some(unpacked)
}

/// The code that empties the table, the one at the end, and the first that stands for several bytes.
const LZW_CLEAR: usize = 256;
const LZW_END: usize = 257;
const LZW_FIRST: usize = 258;
/// Codes that a table has room for.
const LZW_CODES_MAX: usize = 4_096;

fn decode_lzw(bytes: &[u8], early: EarlyChange, budget: &mut PdfBudget) -> Option<Vec<u8>> {
    let most = budget.unpacked;
    let mut unpacked: Vec<u8> = Vec::new();
    // Where in what was unpacked each code was first put down, and how long it is.
    let mut table: Vec<(usize, usize)> = Vec::new();
    let mut last: Option<(usize, usize)> = None;
    let (mut held, mut bits) = (0_u32, 0);
    let mut rest = bytes.iter();
    loop {
        let width = match LZW_FIRST + table.len() + usize::from(early == EarlyChange::Yes) {
            ..512 => 9,
            512..1024 => 10,
            1024..2048 => 11,
            _ => 12,
        };
        while bits < width {
            let Some(byte) = rest.next() else { return charge_unpacked(unpacked, most, budget) };
            held = held << 8 | u32::from(*byte);
            bits += 8;
        }
        bits -= width;
        let code = (held >> bits) as usize & ((1 << width) - 1);
        held &= (1 << bits) - 1;
        let start = unpacked.len();
        match code {
            LZW_CLEAR => {
                table.clear();
                last = None;
                continue;
            }
            LZW_END => return charge_unpacked(unpacked, most, budget),
            ..LZW_CLEAR => unpacked.push(u8::try_from(code).unwrap_or_default()),
            code => {
                // One that is only just being made begins with the last and its first byte.
                let (from, length) = match (table.get(code - LZW_FIRST), last) {
                    (Some(known), _) => *known,
                    (None, Some((from, length))) if code - LZW_FIRST == table.len() => {
                        (from, length + 1)
                    }
                    // It is broken from here on.
                    _ => return charge_unpacked(unpacked, most, budget),
                };
                if start + length >= most {
                    (budget.unpacked, budget.exceeded) = (0, true);
                    return None;
                }
                for at in from..from + length {
                    let byte = unpacked.get(at).copied().unwrap_or_default();
                    unpacked.push(byte);
                }
            }
        }
        if let Some((from, length)) = last
            && LZW_FIRST + table.len() < LZW_CODES_MAX
        {
            // The last and the first byte of this one, which stands behind it.
            table.push((from, length + 1));
        }
        last = Some((start, unpacked.len() - start));
        if unpacked.len() >= most {
            return charge_unpacked(unpacked, most, budget);
        }
    }
}

/// Adds to each sample of a row the one on its left.
fn undo_tiff_row(row: &mut [u8], samples: SampleLayout) {
    let SampleLayout { colors, bits, .. } = samples;
    match bits {
        8 => {
            for at in colors..row.len() {
                let left = row.get(at - colors).copied().unwrap_or_default();
                if let Some(byte) = row.get_mut(at) {
                    *byte = byte.wrapping_add(left);
                }
            }
        }
        16 => {
            let pair = |row: &[u8], at: usize| match row.get(2 * at..2 * at + 2) {
                Some([high, low]) => u16::from_be_bytes([*high, *low]),
                _ => 0,
            };
            for at in colors..row.len() / 2 {
                let sum = pair(row, at).wrapping_add(pair(row, at - colors));
                if let Some(place) = row.get_mut(2 * at..2 * at + 2) {
                    place.copy_from_slice(&sum.to_be_bytes());
                }
            }
        }
        bits => {
            let mask = (1_u8 << bits) - 1;
            let of_byte = 8 / bits;
            let shift = |at: usize| 8 - bits - at % of_byte * bits;
            for at in colors..row.len() * of_byte {
                let left = at - colors;
                let left = row.get(left / of_byte).map_or(0, |byte| byte >> shift(left) & mask);
                if let Some(byte) = row.get_mut(at / of_byte) {
                    let sum = (*byte >> shift(at) & mask).wrapping_add(left) & mask;
                    *byte = *byte & !(mask << shift(at)) | sum << shift(at);
                }
            }
        }
    }
}

/// Undoes differences of which each row says by its first byte what they are to.
fn undo_png(bytes: &[u8], samples: SampleLayout) -> Option<Vec<u8>> {
    // Of a row that is longer than all there is, there is only the beginning.
    let (row, step) = (samples.row_bytes().min(bytes.len()), samples.sample_bytes());
    let mut unpacked: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut above = vec![0; row];
    for packed in bytes.chunks(row + 1) {
        let (kind, packed) = packed.split_first()?;
        let mut this = packed.to_vec();
        for at in 0..this.len() {
            let before = |row: &[u8]| at.checked_sub(step).and_then(|at| row.get(at).copied());
            let (left, corner) = (before(&this).unwrap_or(0), before(&above).unwrap_or(0));
            let up = above.get(at).copied().unwrap_or_default();
            let guess = match kind {
                0 => 0,
                1 => left,
                2 => up,
                3 => u8::try_from((u16::from(left) + u16::from(up)) / 2).unwrap_or_default(),
                4 => paeth_predictor(left, up, corner),
                _ => return None,
            };
            if let Some(byte) = this.get_mut(at) {
                *byte = byte.wrapping_add(guess);
            }
        }
        unpacked.extend(&this);
        above = this;
    }
    Some(unpacked)
}

/// The neighbour that is nearest to what a slope between them would give.
fn paeth_predictor(left: u8, up: u8, corner: u8) -> u8 {
    let slope = i16::from(left) + i16::from(up) - i16::from(corner);
    let off = |neighbour: u8| (slope - i16::from(neighbour)).abs();
    match () {
        () if off(left) <= off(up) && off(left) <= off(corner) => left,
        () if off(up) <= off(corner) => up,
        () => corner,
    }
}

fn decode_hex(bytes: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = bytes
        .iter()
        .take_while(|byte| **byte != b'>')
        .filter_map(|byte| char::from(*byte).to_digit(16))
        .filter_map(|digit| u8::try_from(digit).ok())
        .collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}

fn decode_base85(bytes: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let mut group: Vec<u32> = Vec::with_capacity(5);
    for byte in bytes.iter().take_while(|byte| **byte != b'~') {
        match byte {
            b'z' if group.is_empty() => unpacked.extend([0; 4]),
            b'!'..=b'u' => group.push(u32::from(byte - b'!')),
            _ => continue,
        }
        if group.len() == 5 {
            push_base85_group(&mut unpacked, &group, 4);
            group.clear();
        }
    }
    if group.len() > 1 {
        let bytes = group.len() - 1;
        group.resize(5, 84);
        push_base85_group(&mut unpacked, &group, bytes);
    }
    unpacked
}

fn push_base85_group(unpacked: &mut Vec<u8>, group: &[u32], bytes: usize) {
    let value =
        group.iter().fold(0_u32, |value, digit| value.wrapping_mul(85).wrapping_add(*digit));
    unpacked.extend(value.to_be_bytes().iter().take(bytes));
}
