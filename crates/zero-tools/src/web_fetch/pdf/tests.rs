//! Ordinary and hostile PDF files.

use std::collections::HashMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::*;

/// Builds a file of these objects with their numbers.
fn pdf_file(objects: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    for (number, object) in objects {
        bytes.extend(format!("{number} 0 obj\n").bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    bytes.extend(b"trailer << /Root 1 0 R >>\n%%EOF");
    bytes
}

fn stream_object(dict: &str, content: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {dict} /Length {} >>\nstream\n", content.len()).into_bytes();
    object.extend(content);
    object.extend(b"\nendstream");
    object
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Builds a file with one page of this content and this font.
fn one_page_pdf(content: &[u8], font: &str) -> Vec<u8> {
    pdf_file(&[
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (
            2,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F1 5 0 R >> >> >>"
                .to_vec(),
        ),
        (3, b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec()),
        (4, stream_object("/Filter /FlateDecode", &deflate(content))),
        (5, font.as_bytes().to_vec()),
    ])
}

const PLAIN_FONT: &str =
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

#[track_caller]
fn check(content: &str, expected: &str) {
    let read = read_text(&one_page_pdf(content.as_bytes(), PLAIN_FONT)).unwrap();
    assert_eq!(read, PdfText { text: expected.to_owned(), pages: 1, cut: false }, "{content}");
}

#[test]
fn text_layout_yields_words_lines_and_paragraphs() {
    check("BT /F1 10 Tf 72 700 Td (Hello) Tj ET", "Hello");
    check("BT /F1 10 Tf 12 TL 72 700 Td (one) Tj T* (two) Tj (line) ' ET", "one\ntwo\nline");
    check("BT /F1 10 Tf 72 700 Td [(Hel) 20 (lo) -400 (you)] TJ ET", "Hello you");
    check("BT /F1 10 Tf 1 0 0 1 72 700 Tm (a) Tj 1 0 0 1 72 640 Tm (b) Tj ET", "a\n\nb");
    check(
        "q 2 0 0 2 0 0 cm BT /F1 10 Tf 10 10 Td (a) Tj ET Q BT /F1 10 Tf 200 20 Td (b) Tj ET",
        "a b",
    );
    check(
        r"BT /F1 10 Tf 0 0 Td (\(a\) \101\
b \351) Tj <43> Tj ET",
        "(a) Ab éC",
    );
    check("BI /W 1 /H 1 ID \u{1}(x) EI BT /F1 9 Tf 0 0 Td (ok) Tj ET", "ok");
}

#[test]
fn font_encoding_maps_codes_to_text() {
    let differences = "<< /Type /Font /Subtype /Type1 /Encoding << /Differences [65 /eacute.alt /fi 67 /uni20AC] >> >>";
    let read_with = |content: &str, font: &str| {
        read_text(&one_page_pdf(content.as_bytes(), font)).unwrap().text
    };
    assert_eq!(read_with("BT /F1 9 Tf 0 0 Td (ABCD) Tj ET", differences), "e\u{301}fi€D");
    let map = "/CIDInit begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange \
        2 beginbfchar <0001> <0048> <0002> <00660066> endbfchar \
        2 beginbfrange <0010> <0012> <0061> <0020> <0021> [<4E2D> <D83DDE00>] endbfrange endcmap";
    let objects = [
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [3 0 R] >>".to_vec()),
        (3, b"<< /Type /Page /Resources << /Font << /F1 5 0 R >> >> /Contents [4 0 R] >>".to_vec()),
        (4, stream_object("", b"BT /F1 9 Tf 0 0 Td <00010002001000120020 0021> Tj ET")),
        (5, b"<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 6 0 R /DescendantFonts [<< /DW 600 /W [1 [500 500] 16 18 400] >>] >>".to_vec()),
        (6, stream_object("/Filter [/ASCIIHexDecode /FlateDecode]", &deflate(map.as_bytes()).iter().map(|b| format!("{b:02x}")).collect::<String>().into_bytes())),
    ];
    assert_eq!(read_text(&pdf_file(&objects)).unwrap().text, "Hffac中😀");
}

#[test]
fn object_streams_and_forms_are_read() {
    let inner = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] >>",
        "<< /Type /Page /Contents 4 0 R /Resources << /XObject << /X 7 0 R >> >> >>",
    ];
    let (mut heads, mut bodies) = (String::new(), String::new());
    for (number, object) in (1..).zip(inner) {
        heads.push_str(&format!("{number} {} ", bodies.len()));
        bodies.push_str(&format!("{object} "));
    }
    let packed_objects = format!("{heads}{bodies}");
    let objects = [
        (4, stream_object("", b"q /X Do Q")),
        (5, PLAIN_FONT.as_bytes().to_vec()),
        (
            6,
            stream_object(
                &format!("/Type /ObjStm /N 3 /First {} /Filter /FlateDecode", heads.len()),
                &deflate(packed_objects.as_bytes()),
            ),
        ),
        (
            7,
            stream_object(
                "/Subtype /Form /Resources << /Font << /F1 5 0 R >> >>",
                b"BT /F1 9 Tf 0 0 Td (inside) Tj ET /X Do",
            ),
        ),
    ];
    assert_eq!(read_text(&pdf_file(&objects)).unwrap().text, "inside");
}

/// Writes LZW codes. `early` is 1 if they get longer one code early.
#[derive(Default)]
struct LzwCodeWriter {
    packed: Vec<u8>,
    held: u64,
    bits: u32,
    /// Number of codes since the table was cleared.
    count: usize,
    early: usize,
}

impl LzwCodeWriter {
    fn push(&mut self, code: u32) {
        let width = match 257 + self.count + self.early {
            ..512 => 9,
            512..1024 => 10,
            1024..2048 => 11,
            _ => 12,
        };
        self.held = self.held << width | u64::from(code);
        self.bits += width;
        while self.bits >= 8 {
            self.bits -= 8;
            self.packed.push((self.held >> self.bits) as u8);
            self.held &= (1 << self.bits) - 1;
        }
        self.count = if code == 256 { 0 } else { self.count + 1 };
    }

    fn finish(mut self) -> Vec<u8> {
        self.push(257);
        if self.bits > 0 {
            self.packed.push((self.held << (8 - self.bits)) as u8);
        }
        self.packed
    }
}

/// Compresses with LZW, clearing the table before it is full.
fn lzw_encode(content: &[u8], early: usize) -> Vec<u8> {
    let mut codes = LzwCodeWriter { early, ..LzwCodeWriter::default() };
    codes.push(256);
    let mut table: HashMap<Vec<u8>, u32> = HashMap::new();
    let code = |table: &HashMap<Vec<u8>, u32>, word: &[u8]| match word {
        [byte] => u32::from(*byte),
        word => table[word],
    };
    let mut word: Vec<u8> = Vec::new();
    for byte in content {
        let longer = [&word[..], &[*byte]].concat();
        if longer.len() == 1 || table.contains_key(&longer) {
            word = longer;
            continue;
        }
        codes.push(code(&table, &word));
        table.insert(longer, 258 + u32::try_from(table.len()).unwrap());
        word = vec![*byte];
        if table.len() == 3_800 {
            codes.push(256);
            table.clear();
        }
    }
    codes.push(code(&table, &word));
    codes.finish()
}

/// Builds a stream in which each code stands for one byte more than the last.
fn lzw_bomb() -> Vec<u8> {
    let mut codes = LzwCodeWriter { early: 1, ..LzwCodeWriter::default() };
    for _ in 0..10 {
        codes.push(256);
        codes.push(u32::from(b' '));
        (258..4_000).for_each(|code| codes.push(code));
    }
    codes.finish()
}

/// Encodes rows of so many bytes as PNG differences, with alternating methods.
fn png_up_differences(content: &[u8], row: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut above = vec![0_u8; row];
    for (number, this) in content.chunks(row).enumerate() {
        let kind = (number % 5) as u8;
        kept.push(kind);
        for at in 0..this.len() {
            let left = if at == 0 { 0 } else { this[at - 1] };
            let corner = if at == 0 { 0 } else { above[at - 1] };
            let (a, b, c) = (i32::from(left), i32::from(above[at]), i32::from(corner));
            let guess = match kind {
                0 => 0,
                1 => a,
                2 => b,
                3 => (a + b) / 2,
                _ => {
                    let p = a + b - c;
                    *[a, b, c].iter().min_by_key(|near| (p - **near).abs()).unwrap()
                }
            };
            kept.push(this[at].wrapping_sub(guess as u8));
        }
        above = this.to_vec();
        above.resize(row, 0);
    }
    kept
}

#[track_caller]
fn check_packed(dict: &str, content: &[u8], expected: &str) {
    let objects = [
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [3 0 R] >>".to_vec()),
        (3, b"<< /Type /Page /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>".to_vec()),
        (4, stream_object(dict, content)),
        (5, PLAIN_FONT.as_bytes().to_vec()),
    ];
    let read = read_text(&pdf_file(&objects));
    assert_eq!(read.map(|read| read.text), Ok(expected.to_owned()), "{dict}");
}

#[test]
fn every_stream_filter_is_decoded() {
    // The example of the standard.
    let samples = [45, 45, 45, 45, 45, 65, 45, 45, 45, 66];
    let packed_samples = [0x80, 0x0B, 0x60, 0x50, 0x22, 0x0C, 0x0C, 0x85, 0x01];
    assert_eq!(lzw_encode(&samples, 1), packed_samples);
    // Long enough for codes of every length, and for a second table.
    let filler: String = (0..9_000).map(|number| format!("% {number} x\n")).collect();
    let long = format!("{filler}BT /F1 9 Tf 0 0 Td (long) Tj ET");
    let short = b"BT /F1 9 Tf 0 0 Td (aaaaaaaaaaaaaa) Tj ET";
    check_packed("/Filter /LZWDecode", &lzw_encode(short, 1), "aaaaaaaaaaaaaa");
    check_packed("/Filter /LZWDecode", &lzw_encode(long.as_bytes(), 1), "long");
    let late = "/Filter [/LZW] /DecodeParms [<< /EarlyChange 0 >>]";
    check_packed(late, &lzw_encode(long.as_bytes(), 0), "long");
    let hex: String = deflate(short).iter().map(|byte| format!("{byte:02x}")).collect();
    check_packed(
        "/Filter [/AHx /Fl] /DecodeParms [null << /Predictor 1 >>]",
        hex.as_bytes(),
        "aaaaaaaaaaaaaa",
    );
    // Differences, as in cross-reference streams.
    let png = "/DecodeParms << /Predictor 12 /Columns 7 >>";
    let kept = png_up_differences(short, 7);
    check_packed(&format!("/Filter /FlateDecode {png}"), &deflate(&kept), "aaaaaaaaaaaaaa");
    check_packed(&format!("/Filter /LZWDecode {png}"), &lzw_encode(&kept, 1), "aaaaaaaaaaaaaa");
    let wide = "/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 500 >>";
    check_packed(wide, &deflate(&png_up_differences(short, 500)), "aaaaaaaaaaaaaa");
    let tiff: Vec<u8> = short
        .chunks(7)
        .flat_map(|row| {
            (0..row.len()).map(|at| row[at].wrapping_sub(if at == 0 { 0 } else { row[at - 1] }))
        })
        .collect();
    let dict = "/Filter /FlateDecode /DecodeParms << /Predictor 2 /Columns 7 >>";
    check_packed(dict, &deflate(&tiff), "aaaaaaaaaaaaaa");
}

#[test]
fn object_streams_with_predictor_are_read() {
    let objects = "1 0 2 34 << /Type /Catalog /Pages 2 0 R >> << /Type /Pages /Kids [3 0 R] >>";
    let dict = "/Type /ObjStm /N 2 /First 9 /Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 5 >>";
    let table =
        "/Type /XRef /W [1 2 1] /Filter /FlateDecode /DecodeParms << /Columns 4 /Predictor 12 >>";
    let file = pdf_file(&[
        (3, b"<< /Type /Page /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_vec()),
        (4, stream_object("", b"BT /F1 9 Tf 0 0 Td (found) Tj ET")),
        (5, PLAIN_FONT.as_bytes().to_vec()),
        (6, stream_object(dict, &deflate(&png_up_differences(objects.as_bytes(), 5)))),
        (7, stream_object(table, &deflate(&png_up_differences(&[0; 40], 4)))),
    ]);
    assert_eq!(read_text(&file).unwrap().text, "found");
}

#[test]
fn tiff_predictor_handles_every_sample_size() {
    use super::stream_filter::{PdfStreamFilter, Predictor, SampleLayout};
    #[track_caller]
    fn check(samples: (usize, usize, usize), differences: &[u8], expected: &[u8]) {
        let (colors, bits, columns) = samples;
        let predictor = Predictor::Tiff(SampleLayout::new(colors, bits, columns).unwrap());
        let undone = PdfStreamFilter::Flate(predictor)
            .decode(&deflate(differences), &mut PdfBudget::for_file(9));
        assert_eq!(undone.unwrap(), expected, "{samples:?}");
    }
    check((1, 8, 3), &[1, 2, 255, 5], &[1, 3, 2, 5]);
    check((3, 8, 2), &[1, 2, 3, 1, 1, 1], &[1, 2, 3, 2, 3, 4]);
    check((1, 16, 2), &[0, 255, 0, 1], &[0, 255, 1, 0]);
    check((1, 4, 4), &[0x12, 0xF1], &[0x13, 0x23]);
    check((1, 1, 8), &[0b1010_0001], &[0b1100_0001]);
    for wrong in [(0, 8, 1), (1, 3, 1), (1, 8, 0), (99, 8, 1), (1, 8, usize::MAX)] {
        assert!(SampleLayout::new(wrong.0, wrong.1, wrong.2).is_none());
    }
}

#[test]
fn pdf_without_text_reports_reason() {
    assert_eq!(read_text(b"%PDF-1.4"), Err(PdfError::NoPages));
    assert_eq!(read_text(&one_page_pdf(b"0 0 10 10 re f", PLAIN_FONT)), Err(PdfError::NoText));
    let mut encrypted = one_page_pdf(b"BT /F1 9 Tf (x) Tj ET", PLAIN_FONT);
    encrypted.extend(b"\ntrailer << /Root 1 0 R /Encrypt 9 0 R >>");
    assert_eq!(read_text(&encrypted), Err(PdfError::Encrypted));
    // Encryption that is declared in a cross-reference stream.
    let mut encrypted = one_page_pdf(b"BT /F1 9 Tf (x) Tj ET", PLAIN_FONT);
    encrypted.extend(b"\n8 0 obj\n");
    encrypted
        .extend(stream_object("/Type /XRef /W [1 2 1] /Encrypt << /Filter /Standard >>", b"x"));
    encrypted.extend(b"\nendobj\n");
    assert_eq!(read_text(&encrypted).unwrap_err().to_string(), "it is encrypted");
}

#[test]
fn hostile_pdf_ends_within_budget() {
    // Compressed a thousandfold, many times over.
    let bomb = deflate(&vec![b' '; 30 * 1024 * 1024]);
    let mut objects = vec![
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [3 0 R] >>".to_vec()),
        (3, format!("<< /Type /Page /Contents [{}] >>", "4 0 R ".repeat(100)).into_bytes()),
        (4, stream_object("/Filter /FlateDecode", &bomb)),
    ];
    assert_eq!(read_text(&pdf_file(&objects)), Err(PdfError::NoText));
    objects[3] = (4, stream_object("/Filter /LZWDecode", &lzw_bomb()));
    assert_eq!(read_text(&pdf_file(&objects)), Err(PdfError::NoText));
    let rows = "/Filter /FlateDecode /DecodeParms << /Predictor 12 /Colors 32 /BitsPerComponent 16 /Columns 1048576 >>";
    objects[3] = (4, stream_object(rows, &deflate(b"\x02abc")));
    assert_eq!(read_text(&pdf_file(&objects)), Err(PdfError::NoText));
    objects[3] = (4, stream_object("/Filter /FlateDecode", &bomb));
    objects
        .push((9, stream_object("/Type /ObjStm /N 100000 /First 0 /Filter /FlateDecode", &bomb)));
    assert!(read_text(&pdf_file(&objects)).is_err());
    // Nested, unclosed, and circular.
    let nested = [b"1 0 obj ".to_vec(), b"[".repeat(100_000)].concat().repeat(5);
    assert!(read_text(&nested).is_err());
    let dicts = b"1 0 obj << /A ".repeat(50_000);
    assert!(read_text(&dicts).is_err());
    let circle = pdf_file(&[
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [2 0 R 2 0 R 1 0 R 3 0 R] >>".to_vec()),
        (3, b"3 0 R".to_vec()),
    ]);
    assert!(read_text(&circle).is_err());
    // A form that draws itself twice.
    let form = pdf_file(&[
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [3 0 R] >>".to_vec()),
        (3, b"<< /Type /Page /Contents 4 0 R /Resources << /XObject << /X 4 0 R >> >> >>".to_vec()),
        (4, stream_object("/Subtype /Form", &b"/X Do ".repeat(50))),
    ]);
    assert!(read_text(&form).is_err());
    // Invalid numbers.
    let widths = "<< /Type /Font /Subtype /Type0 /DescendantFonts [<< /W [0 1e30 1 0 1e30 1 -5 [1]] >>] /FirstChar 1e99 >>";
    assert_eq!(
        read_text(&one_page_pdf(b"BT /F1 1e300 Tf 1e308 1e308 Td (x) Tj ET", widths)),
        Err(PdfError::NoText)
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_stop_it(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
        let _ = read_text(&[b"%PDF-1.4 1 0 obj ".to_vec(), bytes].concat());
    }

    #[test]
    fn no_words_stop_it(content in "(/F1 9 Tf |BT |ET |[(]a\\\\?[)] ?Tj |[0-9.-]{1,6} |Td |Tm |TJ |\\[|\\]|<<|>>|<[0-9A-F]{0,5}>|q |Q |BI |EI |\n){0,80}") {
        let _ = read_text(&one_page_pdf(content.as_bytes(), PLAIN_FONT));
    }
}

#[test]
fn self_nested_pages_use_little_memory() {
    let kids = format!("[<< /Kids 7 0 R >> {}]", "0 ".repeat(19_999));
    let objects = [
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Kids 7 0 R >>".to_vec()),
        (7, kids.into_bytes()),
    ];
    let before = peak_memory();
    assert!(read_text(&pdf_file(&objects)).is_err());
    assert!(peak_memory() - before < 200 << 20);
}

#[test]
fn operator_text_stops_at_page_limit() {
    let map = format!(
        "1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfchar <61> <{}> endbfchar",
        "d83ddc00".repeat(16)
    );
    let shown = format!("BT /F1 10 Tf [{}] TJ ET", format!("({})", "a".repeat(1 << 20)).repeat(8));
    let font = "<< /Type /Font /Subtype /Type1 /ToUnicode 6 0 R >>";
    let mut bytes = one_page_pdf(shown.as_bytes(), font);
    bytes.truncate(bytes.len() - b"trailer << /Root 1 0 R >>\n%%EOF".len());
    bytes.extend(b"6 0 obj\n");
    bytes.extend(stream_object("/Filter /FlateDecode", &deflate(map.as_bytes())));
    bytes.extend(b"\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF");
    let read = read_text(&bytes).unwrap();
    assert!(read.text.len() > 1 << 20 && read.text.len() < 2 << 20, "{}", read.text.len());
}

#[expect(clippy::disallowed_methods, reason = "kernel statistics are not a user's file")]
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}
