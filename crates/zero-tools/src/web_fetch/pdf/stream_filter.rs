//! Decoders for the stream filters of PDF ([`PdfStreamFilter`]).
//!
//! Each returns what precedes an error in the stream, and never more than the budget allows: a few
//! compressed bytes can expand to more than all memory.

use std::io::Read as _;

use flate2::read::ZlibDecoder;

use super::PdfBudget;

/// One filter of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PdfStreamFilter {
    Flate(Predictor),
    Lzw(EarlyChange, Predictor),
    Hex,
    Base85,
}

/// When LZW codes get longer: one code early, as in nearly every file, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlyChange {
    Yes,
    No,
}

/// How bytes are encoded as differences, as in cross-reference streams and images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Predictor {
    #[default]
    None,
    /// Differences to the sample on the left.
    Tiff(SampleLayout),
    /// Differences to neighbouring samples, with a method for each row.
    Png(SampleLayout),
}

/// The layout of the samples in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleLayout {
    colors: usize,
    bits: usize,
    columns: usize,
}

impl SampleLayout {
    /// Creates a layout of rows with `columns` of `colors` samples of `bits` bits. Returns `None`
    /// for values that PDF does not allow.
    pub(super) fn new(colors: usize, bits: usize, columns: usize) -> Option<Self> {
        let fits = (1..=32).contains(&colors)
            && [1, 2, 4, 8, 16].contains(&bits)
            && (1..=1 << 20).contains(&columns);
        fits.then_some(Self { colors, bits, columns })
    }

    /// Bytes per row.
    fn row_bytes(self) -> usize {
        (self.colors * self.bits * self.columns).div_ceil(8)
    }

    /// Distance in bytes to the sample on the left.
    fn sample_bytes(self) -> usize {
        (self.colors * self.bits).div_ceil(8)
    }
}

impl PdfStreamFilter {
    /// Decodes the bytes. Returns `None` if they are invalid or the budget is exceeded.
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

/// Returns the decoded bytes if they are complete, and charges the budget.
fn charge_unpacked(unpacked: Vec<u8>, most: usize, budget: &mut PdfBudget) -> Option<Vec<u8>> {
    PdfBudget::spend(&mut budget.unpacked, &mut budget.exceeded, unpacked.len());
    if unpacked.len() >= most {
        budget.exceeded = true;
        return None;
    }
    Some(unpacked)
}

/// The code that clears the table, the end code, and the first code for several bytes.
const LZW_CLEAR: usize = 256;
const LZW_END: usize = 257;
const LZW_FIRST: usize = 258;
/// Most codes in a table.
const LZW_CODES_MAX: usize = 4_096;

fn decode_lzw(bytes: &[u8], early: EarlyChange, budget: &mut PdfBudget) -> Option<Vec<u8>> {
    let most = budget.unpacked;
    let mut unpacked: Vec<u8> = Vec::new();
    // For each code: the offset in the output at which it first occurs, and its length.
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
                // A code that is just being defined is the last one plus its first byte.
                let (from, length) = match (table.get(code - LZW_FIRST), last) {
                    (Some(known), _) => *known,
                    (None, Some((from, length))) if code - LZW_FIRST == table.len() => {
                        (from, length + 1)
                    }
                    // Invalid from here on.
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
            // The last code plus the first byte of this one, which follows it in the output.
            table.push((from, length + 1));
        }
        last = Some((start, unpacked.len() - start));
        if unpacked.len() >= most {
            return charge_unpacked(unpacked, most, budget);
        }
    }
}

/// Adds the sample on the left to each sample of a row.
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

/// Decodes PNG differences; the first byte of each row names the method.
fn undo_png(bytes: &[u8], samples: SampleLayout) -> Option<Vec<u8>> {
    // If a row is longer than the data, only its beginning exists.
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

/// Returns the neighbour closest to the linear prediction.
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
