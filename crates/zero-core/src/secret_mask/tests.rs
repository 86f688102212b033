//! Values in text, streams and results, in every encoding.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::ErrorReason;

const TOKEN: &str = "tok_8fJ2-kQ+9vLx/Zw3Rt==";
const URL: &str = "postgres://app:S3cr3t-p4ss@db.example.com:5432/shop?ssl=1";

fn value(name: &str, text: &str) -> SecretValue {
    SecretValue { name: name.to_owned(), text: text.to_owned() }
}

fn mask() -> SecretMask {
    SecretMask::new([
        value("API_TOKEN", TOKEN),
        value("DATABASE_URL", URL),
        value("DATABASE_URL", "S3cr3t-p4ss"),
        value("QUOTED", r#"p"a'ss\wo rd%41$x"#),
        value("PICTURE", "key-\u{1f511}-\u{1f512}-of-door"),
        value("SHORT", "short"),
        value("SIGNS", "+-+-+- -+-"),
    ])
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(mask().mask_text(text), expected);
}

fn base64(text: &[u8]) -> String {
    let mut digits = digits_at(&[text, &[0, 0]].concat(), BASE64, 0);
    digits.truncate((text.len() * 8).div_ceil(6));
    while !digits.len().is_multiple_of(4) {
        digits.push(b'=');
    }
    String::from_utf8(digits).unwrap()
}

#[test]
fn value_is_replaced_by_its_name() {
    check(&format!("a {TOKEN} b"), "a ‹secret API_TOKEN› b");
    check(&format!("API_TOKEN={TOKEN}\n"), "API_TOKEN=‹secret API_TOKEN›\n");
    check(&format!("{TOKEN}{TOKEN}"), "‹secret API_TOKEN›‹secret API_TOKEN›");
    check(&format!("'{URL}'"), "'‹secret DATABASE_URL›'");
    check("password S3cr3t-p4ss!", "password ‹secret DATABASE_URL›!");
    check("short +-+-+- -+- db.example.com", "short +-+-+- -+- db.example.com");
}

#[test]
fn backslash_that_is_no_escape_is_found_in_urls() {
    let mask = SecretMask::new([value("PATH_LIKE", r"p@ss\new\tea\u00fc\0171")]);
    for text in [
        r"p@ss\new\tea\u00fc\0171",
        r"p@ss\\new\\tea\\u00fc\\0171",
        "p%40ss%5Cnew%5Ctea%5Cu00fc%5C0171",
        "p%2540ss%255Cnew%255Ctea%255Cu00fc%255C0171",
        "p@ss&#92;new&#92;tea&#92;u00fc&#92;0171",
    ] {
        assert_eq!(mask.mask_text(text), "‹secret PATH_LIKE›", "{text}");
    }
}

#[test]
fn wrapped_value_is_replaced_and_lines_are_kept() {
    let wrapped: String = TOKEN.chars().map(|c| format!("{c}\n  ")).collect();
    let lines = wrapped.matches('\n').count();
    let clean = mask().mask_text(&wrapped).into_owned();
    assert_eq!(clean.trim(), format!("‹secret API_TOKEN›{}", "\n".repeat(lines - 1)).trim());
    assert_eq!(clean.matches('\n').count(), lines);
    check("+tok_8fJ2-kQ+9\n+vLx/Zw3Rt==\n", "+‹secret API_TOKEN›\n\n");
}

#[test]
fn encoded_value_is_replaced() {
    for before in ["", "x", "xy", "xyz"] {
        for text in [TOKEN, URL] {
            let encoded = base64(format!("{before}{text} and more").as_bytes());
            for encoded in [encoded.clone(), encoded.replace('+', "-").replace('/', "_")] {
                let clean = mask().mask_text(&encoded).into_owned();
                assert!(clean.contains("‹secret "), "{before} {encoded} {clean}");
                let middle = &encoded[before.len() + 6..before.len() + 12];
                assert!(!clean.contains(middle), "{encoded} {clean}");
            }
        }
    }
    let hex: String = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect();
    check(&hex, "‹secret API_TOKEN›");
    check(&hex.to_uppercase(), "‹secret API_TOKEN›");
    check("tok_8fJ2-kQ%2B9vLx%2fZw3Rt%3D%3D&b=1", "‹secret API_TOKEN›&b=1");
    check("p%22a%27ss%5Cwo+rd%2541%24x", "‹secret QUOTED›");
    check("tok_8fJ2-kQ%252B9vLx%252fZw3Rt%253D%253D&b=1", "‹secret API_TOKEN›&b=1");
}

#[test]
fn value_in_base32_or_wide_characters_in_base64_is_replaced() {
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    for before in ["", "a", "ab", "abc", "abcd", "API_TOKEN="] {
        let text = format!("{before}{TOKEN}\n");
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let base32 = digits_at(&[text.as_bytes(), &[0; 5]].concat(), BASE32, 0);
        for encoded in [String::from_utf8(base32).unwrap(), base64(&wide(&text)), base64(&big)] {
            let wrapped: String = encoded
                .as_bytes()
                .chunks(20)
                .fold(String::new(), |all, line| all + std::str::from_utf8(line).unwrap() + "\n");
            for shown in [encoded, wrapped] {
                let clean = mask().mask_text(&shown).into_owned();
                assert!(clean.contains("‹secret API_TOKEN›"), "{before} {shown} {clean}");
                // The characters at its edges belong to what is beside it, too.
                let kept = clean.replace("‹secret API_TOKEN›", "");
                assert!(kept.len() <= 8 * before.len() / 2 + 20, "{shown} {clean}");
            }
        }
    }
}

#[test]
fn value_over_numbered_lines_is_replaced() {
    let number = |width: usize, show: &dyn Fn(usize, &str) -> String| -> String {
        let text = format!("API_TOKEN={TOKEN}");
        let lines: Vec<&[u8]> = text.as_bytes().chunks(width).collect();
        let lines = lines.iter().map(|line| std::str::from_utf8(line).unwrap()).enumerate();
        lines.map(|(at, line)| show(at + 1, line)).collect()
    };
    for width in [3, 5, 8, 20] {
        for text in [
            number(width, &|number, line| format!("{number:6}\t{line}\n")),
            number(width, &|number, line| format!("{number}:{line}\n")),
            number(width, &|number, line| format!("{number:>3}  {line}\n")),
        ] {
            let clean = mask().mask_text(&text).into_owned();
            assert!(clean.contains("‹secret API_TOKEN›"), "{text}{clean}");
            assert!(!clean.contains("8fJ") && !clean.contains("w3R"), "{text}{clean}");
            assert_eq!(clean.lines().count(), text.lines().count());
            for size in [1, 7, 50] {
                let mut stream = SecretStream::new(Arc::new(mask()));
                let mut shown: Vec<u8> = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    shown.extend(push(&mut stream, piece));
                }
                shown.extend(stream.finish());
                let shown = String::from_utf8_lossy(&shown);
                assert!(!shown.contains("8fJ") && !shown.contains("w3R"), "{size} {text}{shown}");
            }
        }
    }
    check("1. one\n2. two\n", "1. one\n2. two\n");
}

#[test]
fn quoted_and_escaped_value_is_replaced() {
    let raw = r#"p"a'ss\wo rd%41$x"#;
    let json = serde_json::to_string(raw).unwrap();
    let twice = serde_json::to_string(&json).unwrap();
    for text in
        [raw, &json, &twice, r#"'p"a'"'"'ss\wo rd%41$x'"#, r#"p"\u0061\u0027ss\\wo rd%41\x24x"#]
    {
        let clean = mask().mask_text(text).into_owned();
        assert!(clean.contains("‹secret QUOTED›") && !clean.contains("rd"), "{text} {clean}");
    }
    check(r"x key-\ud83d\udd11-\\ud83d\\udd12-of-door y", "x ‹secret PICTURE› y");
    check("tok_8fJ2-\u{1b}[01;31mkQ+9\u{1b}[0mvLx/Zw3Rt== x", "‹secret API_TOKEN› x");
}

#[test]
fn unseen_characters_do_not_hide_value() {
    for sign in [
        "\u{200b}",
        "\u{ad}",
        "\u{202e}",
        "\u{a0}",
        "\u{2060}",
        "\u{fffd}",
        "\u{e0041}",
        "\\u200b",
        "\u{3164}",
        "\u{115f}",
        "\u{1160}",
        "\u{ffa0}",
        "\u{2800}",
        "\u{fff9}",
        "\u{fffb}",
        "\u{1}",
        "\u{8}",
        "\u{7f}",
        "\u{85}",
        "\u{13430}",
    ] {
        let text: String = TOKEN.chars().map(|c| format!("{c}{sign}")).collect();
        let clean = mask().mask_text(&text).into_owned();
        assert!(clean.starts_with("‹secret API_TOKEN›"), "{sign:?} {clean}");
    }
    for junk in [&b"\xff"[..], b"\x80", b"\xe2\x80", b"\xf0\x9f\x94"] {
        let text: Vec<u8> = TOKEN.bytes().flat_map(|byte| [&[byte], junk].concat()).collect();
        let clean = mask().mask_bytes(&text).into_owned();
        assert!(clean.starts_with("‹secret API_TOKEN›".as_bytes()), "{junk:?} {clean:?}");
    }
    check("é … 🔑 a\u{200b}b", "é … 🔑 a\u{200b}b");
}

/// The text as `xxd` and `hexdump -C` print it, and as words of two bytes as `od -x` does.
fn dump(text: &[u8]) -> [String; 3] {
    let mut dumps = [const { String::new() }; 3];
    for (line, bytes) in text.chunks(16).enumerate() {
        let at = line * 16;
        let shown: String = bytes
            .iter()
            .map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' })
            .collect();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let pairs: Vec<String> = bytes.chunks(2).map(hex).collect();
        let single: Vec<String> = bytes.chunks(1).map(hex).collect();
        let swapped: Vec<String> = bytes
            .chunks(2)
            .map(|pair| hex(&pair.iter().rev().copied().collect::<Vec<_>>()))
            .collect();
        dumps[0].push_str(&format!("{at:08x}: {:<39}  {shown}\n", pairs.join(" ")));
        dumps[1].push_str(&format!("{at:08x}  {}  |{shown}|\n", single.join(" ")));
        dumps[2].push_str(&format!("{at:07o} {}\n", swapped.join(" ")));
    }
    dumps
}

#[test]
fn dumped_value_is_replaced_with_its_lines() {
    let text =
        format!("# the shop, with a comment\nAPI_TOKEN={TOKEN}\nPORT=3000 # and another comment\n");
    for dumped in dump(text.as_bytes()) {
        let clean = mask().mask_text(&dumped).into_owned();
        assert!(clean.contains("‹secret API_TOKEN›"), "{dumped}{clean}");
        let (lines, kept): (Vec<&str>, Vec<&str>) =
            (dumped.lines().collect(), clean.lines().filter(|line| line.len() > 30).collect());
        assert_eq!(clean.lines().count(), lines.len());
        // Lines 2 to 4 have parts of the value.
        assert_eq!(
            kept,
            [&lines[..2], &lines[4..]]
                .concat()
                .into_iter()
                .filter(|line| line.len() > 30)
                .collect::<Vec<_>>(),
            "{clean}"
        );
        for size in [1, 7, 50, 500] {
            let mut stream = SecretStream::new(Arc::new(mask()));
            let mut shown: Vec<u8> = Vec::new();
            for piece in dumped.as_bytes().chunks(size) {
                shown.extend(push(&mut stream, piece));
            }
            shown.extend(stream.finish());
            assert_eq!(String::from_utf8_lossy(&shown), clean, "{size}");
        }
    }
}

/// What `xxd`, `xxd -b`, `od -tu1`, `od -x -w4`, `od -td2` and `od -td8` print of a file, as these programs do.
const DUMPS: [&str; 6] = [
    "00000000: 4150 495f 544f 4b45 4e3d 746f 6b5f 3866  API_TOKEN=tok_8f\n\
     00000010: 4a32 2d6b 512b 3976 4c78 2f5a 7733 5274  J2-kQ+9vLx/Zw3Rt\n\
     00000020: 3d3d                                     ==\n",
    "00000000: 01000001 01010000 01001001 01011111 01010100 01001111  API_TO\n\
     00000006: 01001011 01000101 01001110 00111101 01110100 01101111  KEN=to\n\
     0000000c: 01101011 01011111 00111000 01100110 01001010 00110010  k_8fJ2\n\
     00000012: 00101101 01101011 01010001 00101011 00111001 01110110  -kQ+9v\n\
     00000018: 01001100 01111000 00101111 01011010 01110111 00110011  Lx/Zw3\n\
     0000001e: 01010010 01110100 00111101 00111101 00001010 01000001  Rt==.A\n",
    "0000000  65  80  73  95  84  79  75  69  78  61 116 111 107  95  56 102\n\
     0000020  74  50  45 107  81  43  57 118  76 120  47  90 119  51  82 116\n\
     0000040  61  61\n0000042\n",
    "0000000 5041 5f49\n0000004 4f54 454b\n0000010 3d4e 6f74\n0000014 5f6b 6638\n\
     0000020 324a 6b2d\n0000024 2b51 7639\n0000030 784c 5a2f\n0000034 3377 7452\n\
     0000040 3d3d 410a\n0000044\n",
    "0000000  20545  24393  20308  17739  15694  28532  24427  26168\n0000020  12874  27437  11089  30265  30796  23087  13175  29778\n0000040  15677     10\n0000043\n",
    "0000000  4993171835664814145  7365742105600474446\n0000020  8518887798838473290  8381818444197099596\n0000040               671037\n0000043\n",
];

#[test]
fn printed_numbers_of_value_are_replaced_whole_and_cut() {
    for dump in DUMPS {
        let clean = mask().mask_text(dump).into_owned();
        assert!(clean.contains("‹secret API_TOKEN›"), "{dump}{clean}");
        let kept = clean.lines().filter(|line| line.contains(' ') && !line.contains('‹')).count();
        let lines = dump.lines().count();
        // The first lines have only the name of the variable.
        assert!(kept <= lines / 3, "{clean}");
        // Without its last lines, and with a text after it.
        let half = dump.lines().take(lines.div_ceil(2) + 1).collect::<Vec<_>>().join("\n");
        for cut in [half.clone(), format!("{half}\n(more)\n")] {
            let clean = mask().mask_text(&cut).into_owned();
            assert!(clean.contains("‹secret API_TOKEN›"), "{cut}\n{clean}");
        }
    }
    let without_offsets: String =
        DUMPS[3].lines().map(|line| format!("{}\n", &line[7..])).collect();
    assert!(mask().mask_text(&without_offsets).contains("‹secret API_TOKEN›"));
}

#[test]
fn value_in_capitals_is_replaced() {
    check(&format!("T={}", TOKEN.to_uppercase()), "T=‹secret API_TOKEN›");
    check("s3CR3T-P4SS!", "‹secret DATABASE_URL›!");
}

#[test]
fn value_in_page_is_replaced() {
    let mask = SecretMask::new([value("KEY", "a&b<c>d\"e'f-word")]);
    for text in ["a&amp;b&lt;c&gt;d&quot;e&apos;f-word", "a&#38;b&#x3C;c&#x3e;d&#34;e&#39;f-word"] {
        assert_eq!(mask.mask_text(&format!("<b>{text}</b>")), "<b>‹secret KEY›</b>");
    }
}

#[test]
fn value_listed_by_character_is_replaced() {
    let list = |character: &dyn Fn(u8) -> String, sign: &str| -> String {
        TOKEN.bytes().map(character).collect::<Vec<_>>().join(sign)
    };
    for text in [
        list(&|byte| byte.to_string(), ", "),
        list(&|byte| byte.to_string(), ",\n"),
        list(&|byte| format!("{byte:02x}"), ":"),
        list(&|byte| format!("{byte:#04x}"), ","),
        list(&|byte| format!("&#{byte};"), ""),
        list(&|byte| format!("&#x{byte:x};"), ""),
        list(&|byte| format!("\\{byte:03o}"), ""),
        list(&|byte| format!("\\u{{{byte:x}}}"), ""),
        list(&|byte| format!("U+{byte:04X}"), " "),
        list(&|byte| format!("{:?}", char::from(byte)), ", "),
    ] {
        let clean = mask().mask_text(&format!("see [{text}] there")).into_owned();
        let (before, after) = clean.split_once("‹secret API_TOKEN›").expect(&text);
        assert!(before.len() < 10 && after.trim_start().len() < 10, "{text}: {clean}");
    }
}

#[test]
fn reversed_value_is_replaced() {
    let reversed: String = TOKEN.chars().rev().collect();
    check(&format!("{reversed}=NEKOT_IPA"), "‹secret API_TOKEN›=NEKOT_IPA");
    let picture: String = "key-\u{1f511}-\u{1f512}-of-door".chars().rev().collect();
    check(&picture, "‹secret PICTURE›");
}

#[test]
fn value_without_padding_is_replaced() {
    let unpadded = TOKEN.trim_end_matches('=');
    check(&format!("{unpadded} x"), "‹secret API_TOKEN› x");
    check(&format!("{unpadded}&x=y"), "‹secret API_TOKEN›&x=y");
}

#[test]
fn value_over_two_texts_is_replaced_in_both() {
    let (first, second) = TOKEN.split_at(9);
    let text = |text: &str| ToolResultPart::Text(text.to_owned());
    let mut result = ToolResult {
        content: vec![text(&format!("a\n{first}")), text(second), text("b\nc")],
        ..ToolResult::text("")
    };
    mask().mask_result(&mut result);
    let texts: Vec<&str> = result
        .content
        .iter()
        .map(|part| match part {
            ToolResultPart::Text(text) => text.as_str(),
            _ => panic!("no text"),
        })
        .collect();
    assert_eq!(texts[2], "b\nc");
    assert!(texts[0].starts_with("a\n") && !texts.concat().contains(first), "{texts:?}");
    assert!(!texts.concat().contains(second), "{texts:?}");
}

#[test]
fn paths_of_hits_and_locations_are_masked() {
    let hit =
        |line| SearchHit { file: format!("keys/{TOKEN}"), line, text: "x".into(), is_match: true };
    let location = crate::FileLocation { path: format!("/w/{TOKEN}").into(), line: None };
    let mut result = ToolResult {
        content: vec![ToolResultPart::Matches {
            hits: vec![hit(1), hit(2)],
            numbered: true,
            note: None,
        }],
        locations: vec![location],
        ..ToolResult::text("")
    };
    mask().mask_result(&mut result);
    let ToolResultPart::Matches { hits, .. } = &result.content[0] else { panic!("hits") };
    assert!(hits.iter().all(|hit| hit.file == "keys/‹secret API_TOKEN›"), "{hits:?}");
    assert_eq!(result.locations[0].path, std::path::Path::new("/w/‹secret API_TOKEN›"));
}

#[test]
fn image_with_value_is_withheld() {
    let image =
        |bytes: &[u8]| ToolResultPart::Image { mime: "image/png".into(), data: base64(bytes) };
    let with_value = [b"\x89PNG....IEND", TOKEN.as_bytes()].concat();
    let content = vec![image(&with_value), image(b"\x89PNG....IEND")];
    let mut result = ToolResult {
        content,
        display: ResultDisplay::Markdown { text: String::new() },
        structured: json!(null),
        locations: Vec::new(),
        metadata: crate::ResultMetadata::default(),
    };
    mask().mask_result(&mut result);
    let ToolResultPart::Text(text) = &result.content[0] else { panic!("{:?}", result.content) };
    assert_eq!(text, "(withheld: the data contains ‹secret API_TOKEN›)");
    assert_eq!(result.content[1], image(b"\x89PNG....IEND"));
}

#[test]
fn cut_value_is_replaced() {
    check("curl -H tok_8fJ2-kQ+9vLx", "curl -H ‹secret API_TOKEN›");
    check("curl tok_8fJ2-kQ+9vLx… (90 bytes)", "curl ‹secret API_TOKEN›… (90 bytes)");
    check("curl tok_8fJ", "curl tok_8fJ");
    check("uses postgres://app", "uses postgres://app");
}

#[test]
fn names_are_found_without_values() {
    let mask = mask();
    let input =
        json!({"url": format!("https://x.org/?q={}", base64(TOKEN.as_bytes())), "n": [URL]});
    assert_eq!(mask.find_names(&input), ["API_TOKEN", "DATABASE_URL"]);
    assert!(mask.find_names(&json!({"command": "curl $API_TOKEN tok_8fJ2-kQ+9vLx"})).is_empty());
    let placeholder = json!(["‹secret OTHER› ‹secret ", {"a": "x=‹secret API_TOKEN›"}]);
    assert_eq!(mask.find_placeholder(&placeholder), Some("API_TOKEN"));
    assert_eq!(mask.find_placeholder(&json!("‹secret OTHER›")), None);
    let shown = format!("{mask:?} {:?}", value("A", TOKEN));
    assert!(!shown.contains("8fJ2"), "{shown}");
}

#[test]
fn every_text_of_result_is_masked() {
    let diff = || FileDiff {
        path: format!("a/{TOKEN}"),
        unified: format!("+{TOKEN}"),
        old_text: Some(TOKEN.into()),
        new_text: Some(TOKEN.into()),
        partial: false,
    };
    let hit =
        |line, text: &str| SearchHit { file: "a".into(), line, text: text.into(), is_match: true };
    let note = || Some(TOKEN.to_owned());
    let mut result = ToolResult {
        content: vec![
            ToolResultPart::Text(TOKEN.into()),
            ToolResultPart::Lines { first: 1, text: TOKEN.into(), rest: None, note: note() },
            ToolResultPart::Matches {
                hits: vec![hit(1, "tok_8fJ2-kQ"), hit(2, "+9vLx/Zw3Rt=="), hit(3, "x")],
                numbered: true,
                note: note(),
            },
            ToolResultPart::Diff { summary: TOKEN.into(), diff: diff() },
            ToolResultPart::Resource {
                uri: TOKEN.into(),
                mime: "x".into(),
                data: base64(TOKEN.as_bytes()),
            },
        ],
        display: ResultDisplay::Diff(diff()),
        structured: json!({TOKEN: [{"a": TOKEN}]}),
        locations: Vec::new(),
        metadata: crate::ResultMetadata::default(),
    };
    mask().mask_result(&mut result);
    let written = serde_json::to_string(&result).unwrap();
    assert!(!written.contains("8fJ2") && !written.contains("9vLx"), "{written}");
    let ToolResultPart::Matches { hits, .. } = &result.content[2] else { panic!("hits") };
    assert_eq!(
        hits.iter().map(|hit| &*hit.text).collect::<Vec<_>>(),
        ["‹secret API_TOKEN›", "", "x"]
    );
    let mut error =
        ToolError::invalid(ErrorReason::NoMatch, TOKEN).with_detail("a", json!([TOKEN]));
    mask().mask_error(&mut error);
    assert!(!format!("{error:?}").contains("8fJ2"));
}

#[test]
fn long_value_is_replaced_in_pieces() {
    let long: String = (0..40_000).map(|n| format!("{}", n * 7_919 % 1_000_003)).collect();
    let mask = Arc::new(SecretMask::new([value("LONG", &long)]));
    assert_eq!(mask.mask_text(&format!("a {long} b")), "a ‹secret LONG› b");
    let part = mask.mask_text(&long[90_000..120_000]).into_owned();
    assert!(part.len() < PIECE_BYTES_MAX, "{part}");
    let encoded = base64(long.as_bytes());
    assert_eq!(mask.mask_text(&encoded).trim_matches(['=', 'k', 'w', 'M']), "‹secret LONG›");
    let mut stream = SecretStream::new(mask);
    let mut shown: Vec<u8> = Vec::new();
    for piece in format!("a {long} b").as_bytes().chunks(5_000) {
        shown.extend(push(&mut stream, piece));
    }
    shown.extend(stream.finish());
    let shown = String::from_utf8(shown).unwrap();
    assert_eq!(shown.replace("‹secret LONG›", ""), "a  b");
}

#[test]
fn text_with_too_many_comparisons_is_replaced() {
    let mask = SecretMask::new((300..700).map(|n| value("A", &"a".repeat(n))));
    for text in ["a".repeat(1_000_000), format!("{}…", "a".repeat(299)).repeat(3_000)] {
        let clean = mask.mask_text(&format!("public {text}")).into_owned();
        assert_eq!(clean.matches('a').count(), 0, "{}", clean.len());
    }
}

fn push(stream: &mut SecretStream, bytes: &[u8]) -> Vec<u8> {
    stream.push(bytes).into_owned()
}

#[test]
fn stream_holds_back_only_what_may_be_secret() {
    let mut stream = SecretStream::new(Arc::new(mask()));
    assert_eq!(push(&mut stream, b"hello.\n"), b"hello.\n");
    assert_eq!(push(&mut stream, b"a tok_8"), b"a ");
    assert_eq!(push(&mut stream, b"fJ2 no."), b"tok_8fJ2 no.");
    assert_eq!(push(&mut stream, b" tok_8fJ2-kQ+9vLx/Z"), b" ");
    assert_eq!(push(&mut stream, b"w3Rt== !"), "‹secret API_TOKEN› !".as_bytes());
    assert_eq!(push(&mut stream, b"on 127.0.0.1:3000.\n"), b"on 127.0.0.1:3000.\n");
    assert_eq!(push(&mut stream, b"S3cr3t-p4ss!%4"), "‹secret DATABASE_URL›!".as_bytes());
    assert_eq!(push(&mut stream, b"1!"), b"%41!");
    assert_eq!(push(&mut stream, b"tok_8fJ2-kQ+9v"), b"");
    assert_eq!(stream.finish(), "‹secret API_TOKEN›".as_bytes());
    assert_eq!(stream.finish(), b"");
}

#[test]
fn stream_shows_two_listed_numbers_of_value_at_most() {
    let lists = [
        format!("{:?}", TOKEN.as_bytes()),
        TOKEN.bytes().map(|byte| format!("{byte:02x}:")).collect(),
        TOKEN.bytes().map(|byte| format!("{byte:#x}\n")).collect(),
    ];
    for list in &lists {
        for size in 1..40 {
            let mut stream = SecretStream::new(Arc::new(mask()));
            let mut shown = Vec::new();
            let text = format!("7, see {list} ok");
            for piece in text.as_bytes().chunks(size) {
                shown.extend(push(&mut stream, piece));
            }
            shown.extend(stream.finish());
            let shown = String::from_utf8_lossy(&shown);
            let numbers =
                shown.split(|c: char| !c.is_ascii_hexdigit()).filter(|part| part.len() > 1);
            assert!(numbers.count() <= 4, "{size}: {shown}");
            assert!(shown.starts_with("7, see ") && shown.ends_with(" ok"), "{size}: {shown}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn stream_is_masked_like_whole_text(
        parts in proptest::collection::vec(prop_oneof![
            Just(TOKEN.to_owned()), Just(URL.to_owned()), Just(base64(TOKEN.as_bytes())),
            Just("tok_8f\n  J2-kQ+9vLx/Zw3\x1b[1mRt==".to_owned()),
            Just("tok%255f8fJ2-kQ%252B9vLx%2fZw3Rt%253d=".to_owned()),
            Just(r"key-\ud83d\udd11-\\ud83d\\udd12-of-door".to_owned()),
            Just(TOKEN.to_uppercase()),
            Just(TOKEN.bytes().map(|byte| format!("&#{byte};")).collect()),
            "[a-z%\\\\ \n]{0,12}", "[0-9a-f:, &#;]{0,12}",
        ], 0..8),
        cuts in proptest::collection::vec(1_usize..9, 0..80),
    ) {
        let text = parts.join(" ");
        let mut stream = SecretStream::new(Arc::new(mask()));
        let (mut shown, mut rest) = (Vec::new(), text.as_bytes());
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            shown.extend(push(&mut stream, piece));
            rest = after;
        }
        shown.extend(push(&mut stream, rest));
        shown.extend(stream.finish());
        let clean = mask();
        prop_assert_eq!(String::from_utf8_lossy(&shown), clean.mask_text(&text));
    }

    #[test]
    fn value_is_never_left_in_text(before in ".{0,20}", after in ".{0,20}", secret in "[A-Za-z0-9/_.]{14,40}") {
        let mask = SecretMask::new([value("X", &secret)]);
        prop_assume!(!mask.is_empty());
        let clean = mask.mask_text(&format!("{before}{secret}{after}")).into_owned();
        prop_assert!(!clean.contains(&secret), "{}", clean);
        prop_assert!(mask.mask_text(&clean) == clean);
    }
}
