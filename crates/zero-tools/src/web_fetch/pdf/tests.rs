//! Files as programs write them, and files that mean harm.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::*;

/// A file of these objects, each with its number, as programs write them.
fn file(objects: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.7\n".to_vec();
    for (number, object) in objects {
        bytes.extend(format!("{number} 0 obj\n").bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    bytes.extend(b"trailer << /Root 1 0 R >>\n%%EOF");
    bytes
}

fn stream(dict: &str, content: &[u8]) -> Vec<u8> {
    let mut object = format!("<< {dict} /Length {} >>\nstream\n", content.len()).into_bytes();
    object.extend(content);
    object.extend(b"\nendstream");
    object
}

fn packed(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A page with this content and this font.
fn one_page(content: &[u8], font: &str) -> Vec<u8> {
    file(&[
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (
            2,
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F1 5 0 R >> >> >>"
                .to_vec(),
        ),
        (3, b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>".to_vec()),
        (4, stream("/Filter /FlateDecode", &packed(content))),
        (5, font.as_bytes().to_vec()),
    ])
}

const PLAIN: &str =
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

#[track_caller]
fn check(content: &str, expected: &str) {
    let read = read(&one_page(content.as_bytes(), PLAIN)).unwrap();
    assert_eq!(read, PdfText { text: expected.to_owned(), pages: 1, cut: false }, "{content}");
}

#[test]
fn lines_words_and_paragraphs_are_where_they_are_painted() {
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
fn letters_are_found_by_what_the_font_says() {
    let differences = "<< /Type /Font /Subtype /Type1 /Encoding << /Differences [65 /eacute.alt /fi 67 /uni20AC] >> >>";
    let read_with =
        |content: &str, font: &str| read(&one_page(content.as_bytes(), font)).unwrap().text;
    assert_eq!(read_with("BT /F1 9 Tf 0 0 Td (ABCD) Tj ET", differences), "e\u{301}fi€D");
    let map = "/CIDInit begincmap 1 begincodespacerange <0000> <FFFF> endcodespacerange \
        2 beginbfchar <0001> <0048> <0002> <00660066> endbfchar \
        2 beginbfrange <0010> <0012> <0061> <0020> <0021> [<4E2D> <D83DDE00>] endbfrange endcmap";
    let objects = [
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [3 0 R] >>".to_vec()),
        (3, b"<< /Type /Page /Resources << /Font << /F1 5 0 R >> >> /Contents [4 0 R] >>".to_vec()),
        (4, stream("", b"BT /F1 9 Tf 0 0 Td <00010002001000120020 0021> Tj ET")),
        (5, b"<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 6 0 R /DescendantFonts [<< /DW 600 /W [1 [500 500] 16 18 400] >>] >>".to_vec()),
        (6, stream("/Filter [/ASCIIHexDecode /FlateDecode]", &packed(map.as_bytes()).iter().map(|b| format!("{b:02x}")).collect::<String>().into_bytes())),
    ];
    assert_eq!(read(&file(&objects)).unwrap().text, "Hffac中😀");
}

#[test]
fn objects_in_streams_and_forms_are_found() {
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
        (4, stream("", b"q /X Do Q")),
        (5, PLAIN.as_bytes().to_vec()),
        (
            6,
            stream(
                &format!("/Type /ObjStm /N 3 /First {} /Filter /FlateDecode", heads.len()),
                &packed(packed_objects.as_bytes()),
            ),
        ),
        (
            7,
            stream(
                "/Subtype /Form /Resources << /Font << /F1 5 0 R >> >>",
                b"BT /F1 9 Tf 0 0 Td (inside) Tj ET /X Do",
            ),
        ),
    ];
    assert_eq!(read(&file(&objects)).unwrap().text, "inside");
}

#[test]
fn what_gives_no_text_says_why() {
    assert_eq!(read(b"%PDF-1.4"), Err(PdfError::NoPages));
    assert_eq!(read(&one_page(b"0 0 10 10 re f", PLAIN)), Err(PdfError::NoText));
    let mut encrypted = one_page(b"BT /F1 9 Tf (x) Tj ET", PLAIN);
    encrypted.extend(b"\ntrailer << /Root 1 0 R /Encrypt 9 0 R >>");
    assert_eq!(read(&encrypted), Err(PdfError::Encrypted));
}

#[test]
fn hostile_files_end_within_their_budget() {
    // Packed a thousandfold, many times over.
    let bomb = packed(&vec![b' '; 30 * 1024 * 1024]);
    let mut objects = vec![
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [3 0 R] >>".to_vec()),
        (3, format!("<< /Type /Page /Contents [{}] >>", "4 0 R ".repeat(100)).into_bytes()),
        (4, stream("/Filter /FlateDecode", &bomb)),
    ];
    assert_eq!(read(&file(&objects)), Err(PdfError::NoText));
    objects.push((9, stream("/Type /ObjStm /N 100000 /First 0 /Filter /FlateDecode", &bomb)));
    assert!(read(&file(&objects)).is_err());
    // Nested, unclosed, and circular.
    let nested = [b"1 0 obj ".to_vec(), b"[".repeat(100_000)].concat().repeat(5);
    assert!(read(&nested).is_err());
    let dicts = b"1 0 obj << /A ".repeat(50_000);
    assert!(read(&dicts).is_err());
    let circle = file(&[
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [2 0 R 2 0 R 1 0 R 3 0 R] >>".to_vec()),
        (3, b"3 0 R".to_vec()),
    ]);
    assert!(read(&circle).is_err());
    // A form that paints itself, twice each time.
    let form = file(&[
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Type /Pages /Kids [3 0 R] >>".to_vec()),
        (3, b"<< /Type /Page /Contents 4 0 R /Resources << /XObject << /X 4 0 R >> >> >>".to_vec()),
        (4, stream("/Subtype /Form", &b"/X Do ".repeat(50))),
    ]);
    assert!(read(&form).is_err());
    // Figures that mean nothing.
    let widths = "<< /Type /Font /Subtype /Type0 /DescendantFonts [<< /W [0 1e30 1 0 1e30 1 -5 [1]] >>] /FirstChar 1e99 >>";
    assert_eq!(
        read(&one_page(b"BT /F1 1e300 Tf 1e308 1e308 Td (x) Tj ET", widths)),
        Err(PdfError::NoText)
    );
}

proptest::proptest! {
    #[test]
    fn no_bytes_stop_it(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
        let _ = read(&[b"%PDF-1.4 1 0 obj ".to_vec(), bytes].concat());
    }

    #[test]
    fn no_words_stop_it(content in "(/F1 9 Tf |BT |ET |[(]a\\\\?[)] ?Tj |[0-9.-]{1,6} |Td |Tm |TJ |\\[|\\]|<<|>>|<[0-9A-F]{0,5}>|q |Q |BI |EI |\n){0,80}") {
        let _ = read(&one_page(content.as_bytes(), PLAIN));
    }
}

#[test]
fn pages_that_hold_themselves_many_times_take_little_memory() {
    let kids = format!("[<< /Kids 7 0 R >> {}]", "0 ".repeat(19_999));
    let objects = [
        (1, b"<< /Type /Catalog /Pages 2 0 R >>".to_vec()),
        (2, b"<< /Kids 7 0 R >>".to_vec()),
        (7, kids.into_bytes()),
    ];
    let before = peak_memory();
    assert!(read(&file(&objects)).is_err());
    assert!(peak_memory() - before < 200 << 20);
}

#[test]
fn a_text_that_one_operator_shows_ends_where_a_page_does() {
    let map = format!(
        "1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfchar <61> <{}> endbfchar",
        "d83ddc00".repeat(16)
    );
    let shown = format!("BT /F1 10 Tf [{}] TJ ET", format!("({})", "a".repeat(1 << 20)).repeat(8));
    let font = "<< /Type /Font /Subtype /Type1 /ToUnicode 6 0 R >>";
    let mut bytes = one_page(shown.as_bytes(), font);
    bytes.truncate(bytes.len() - b"trailer << /Root 1 0 R >>\n%%EOF".len());
    bytes.extend(b"6 0 obj\n");
    bytes.extend(stream("/Filter /FlateDecode", &packed(map.as_bytes())));
    bytes.extend(b"\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF");
    let read = read(&bytes).unwrap();
    assert!(read.text.len() > 1 << 20 && read.text.len() < 2 << 20, "{}", read.text.len());
}

#[expect(clippy::disallowed_methods, reason = "the kernel's account is no person's file")]
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}
