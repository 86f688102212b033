//! Bytes and the events that they become, at any split.

use proptest::prelude::*;

use super::*;

fn decode(bytes: &[u8]) -> Vec<InputEvent> {
    decode_pieces([bytes])
}

fn decode_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<InputEvent> {
    let mut decoder = InputDecoder::default();
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut events);
    }
    for _ in 0..=PASTE_PAUSES_MAX {
        events.extend(decoder.finish());
    }
    assert!(!decoder.is_pending());
    events
}

/// An event as `C-x`, `M-C-Enter`, `S-Tab`, `?`, …
fn describe(event: &InputEvent) -> String {
    let stroke = match event {
        InputEvent::Key(stroke) => stroke,
        InputEvent::Unknown => return "?".to_owned(),
        other => return format!("{other:?}"),
    };
    let modifiers = [(stroke.alt, "M-"), (stroke.ctrl, "C-"), (stroke.shift, "S-")];
    let held = modifiers.iter().filter(|(held, _)| *held).map(|(_, name)| *name);
    let code = match stroke.code {
        KeyCode::Char(letter) => letter.to_string(),
        KeyCode::Function(number) => format!("F{number}"),
        code => format!("{code:?}"),
    };
    held.collect::<String>() + &code
}

#[track_caller]
fn check(rows: &[(&[u8], &str)]) {
    for (bytes, expected) in rows {
        let events = decode(bytes);
        let described = events.iter().map(describe).collect::<Vec<_>>().join(" ");
        assert_eq!(described, *expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn plain_bytes_become_keys() {
    check(&[
        (b"y\r", "y Enter"),
        ("aü界🙂".as_bytes(), "a ü 界 🙂"),
        (b"\x03\x04\n\x1a", "C-c C-d C-j C-z"),
        (b"\x7f\x08\t", "Backspace Backspace Tab"),
        (b"\x00\x1c\x1d\x1e\x1f", "C-  C-\\ C-] C-^ C-_"),
        (b"\xff\xfey", "? ? y"),
        (b"\xe7\x95y", "? y"),
        (b"\xe7\x95", "?"),
        (b"\xc2\x9b1m", "? 1 m"),
    ]);
}

#[test]
fn escape_is_key_or_prefix() {
    check(&[
        (b"\x1b", "Escape"),
        (b"\x1b\x1b", "Escape Escape"),
        (b"\x1b\x1b\x1b", "Escape Escape Escape"),
        (b"\x1bb\x1bB", "M-b M-B"),
        ("\x1bü".as_bytes(), "M-ü"),
        (b"\x1b\r\x1b\x7f\x1b\x02", "M-Enter M-Backspace M-C-b"),
        (b"\x1b\x1bb", "Escape M-b"),
        (b"\x1b\x1b[A\x1b\x1bOB", "M-Up M-Down"),
        (b"\x1b[", "M-["),
        (b"\x1bO", "M-O"),
        (b"\x1b]", "M-]"),
        (b"\x1bP", "M-P"),
    ]);
}

#[test]
fn legacy_sequences_become_keys() {
    check(&[
        (b"\x1b[A\x1b[B\x1bOC\x1bOD", "Up Down Right Left"),
        (b"\x1b[H\x1bOF\x1b[1~\x1b[4~\x1b[7~\x1b[8~", "Home End Home End Home End"),
        (b"\x1b[1;5C\x1b[1;2A\x1b[1;3D\x1b[1;8B", "C-Right S-Up M-Left M-C-S-Down"),
        (b"\x1b[3~\x1b[3;2~\x1b[5;5~\x1b[6;3~", "Delete S-Delete C-PageUp M-PageDown"),
        (b"\x1b[Z\x1b[1;5Z", "S-Tab C-S-Tab"),
        (b"\x1bOP\x1bOQ\x1bOR\x1bOS", "F1 F2 F3 F4"),
        (b"\x1b[11~\x1b[15~\x1b[17~\x1b[21~\x1b[23~\x1b[24~", "F1 F5 F6 F10 F11 F12"),
        (b"\x1b[25~\x1b[29~\x1b[34~", "F13 F16 F20"),
        (b"\x1b[[A\x1b[[E", "F1 F5"),
        (b"\x1b[1;2P\x1b[1;2R\x1bO5P\x1bO1;2Q", "S-F1 S-F3 C-F1 S-F2"),
        (b"\x1b[3$\x1b[3^\x1b[3@\x1b[a\x1bOd", "S-Delete C-Delete C-S-Delete S-Up C-Left"),
        (b"\x1bOM\x1bOp\x1bOy\x1bOk\x1bOX", "Enter 0 9 + ="),
        (b"\x1b[27;5;13~\x1b[27;2;13~\x1b[27;6;65~", "C-Enter S-Enter C-S-a"),
        (b"\x1b[27;5;44~\x1b[27;3;127~", "C-, M-Backspace"),
    ]);
}

#[test]
fn kitty_sequences_become_keys() {
    check(&[
        (b"\x1b[27u\x1b[13u\x1b[9;2u\x1b[127;5u", "Escape Enter S-Tab C-Backspace"),
        (b"\x1b[97;5u\x1b[97;6u\x1b[97;3u\x1b[97;4u", "C-a C-S-a M-a M-A"),
        (b"\x1b[97u\x1b[97;1:1u\x1b[97;1:2u\x1b[97;1:3u", "a a a"),
        (b"\x1b[1;1:3A\x1b[3;1:3~\x1b[1;5:2A", "C-Up"),
        (b"\x1b[97:65;2u\x1b[49:33;2u\x1b[49:33:49;2;33u", "A ! !"),
        (b"\x1b[97;65u\x1b[97;66u", "A a"),
        (b"\x1b[0;;228u\x1b[97;;104:105u", "ä h i"),
        (b"\x1b[32;2u\x1b[32;2;32u", "   "),
        (b"\x1b[1089::99;5u", "C-с"),
        (b"\x1b[99;9u\x1b[99;17u\x1b[1;9D", "? ? ?"),
        (b"\x1b[57399u\x1b[57408;;57u\x1b[57414u\x1b[57417u\x1b[57413u", "0 9 Enter Left +"),
        (b"\x1b[57364u\x1b[57375;2u\x1b[57376u", "F1 S-F12 F13"),
        (b"\x1b[57441;2u\x1b[57358u\x1b[57425u", "? ? ?"),
        (b"\x1b[u\x1b[0u\x1b[5;5u\x1b[4294967296u\x1b[1114112u", "? ? ? ? ?"),
    ]);
}

#[test]
fn reports_are_not_keys() {
    check(&[
        (b"\x1b[I\x1b[O", "FocusGained FocusLost"),
        (b"\x1b[?1u\x1b[?62;4c", "KeyboardReport DeviceAttributes"),
        (b"\x1b[>0;276;0c\x1b[0n\x1b[?2026;2$y", "? ? ?"),
        (b"\x1b]11;rgb:0000/0000/0000\x1b\\y", "Background { is_light: false } y"),
        (b"\x1b]11;rgb:ffff/ffff/ffff\x07y", "Background { is_light: true } y"),
        (b"\x1b]11;rgb:ffff/ffff/ffff\x18y", "? y"),
        (b"\x1bP11;rgb:ffff/ffff/ffff\x07y", "? y"),
        (b"\x1b]10;rgb:0000/0000/0000\x07y", "? y"),
        (b"\x1bP>|name(1)\x1b\\\x1b_Gi=1;OK\x1b\\\x1b^x\x1b\\y", "? ? ? y"),
        (b"\x1b]52;c;yyy", "?"),
        (b"\x1b]52;c;yyy\x1b[A", "? Up"),
        (b"\x1b]52;c;yyy\x18n", "? n"),
        (b"\x1b[<0;10;10M\x1b[<0;10;10m\x1b[M !!y", "? ? ? y"),
        (b"\x1b[M \x03", "? C-c"),
    ]);
}

#[test]
fn sequence_without_meaning_is_one_event() {
    let long = [b"\x1b[".as_slice(), &[b'1'; 3 * SEQUENCE_BYTES_MAX], b"yn"].concat();
    check(&[
        (b"\x1b[1;5yn", "? n"),
        (b"\x1b[12;5H\x1b[2A\x1b[y\x1bOy", "? ? ? 9"),
        (b"\x1b[?1;2A\x1b[1 A\x1bOz", "? ? ?"),
        (b"\x1b[1;2", "?"),
        (b"\x1b[1;2\x1b[A", "? Up"),
        (b"\x1b[1;2\x03y", "? C-c y"),
        (b"\x1b[1;2\x18y", "? y"),
        ("\x1b[1;ü".as_bytes(), "? ü"),
        (b"\x1b[201~y\x1b[2~", "? y ?"),
        (&long, "? n"),
    ]);
}

#[test]
fn cursor_report_counts_only_if_expected() {
    let mut decoder = InputDecoder::default();
    let mut events = Vec::new();
    decoder.expect_report();
    decoder.push(b"\x1b[1;2R\x1b[1;2R", &mut events);
    let shift_f3 = KeyStroke { shift: true, ..KeyStroke::plain(KeyCode::Function(3)) };
    assert_eq!(events, [InputEvent::CursorReport { row: 0, column: 1 }, InputEvent::Key(shift_f3)]);
    decoder.expect_report();
    events.clear();
    decoder.push(b"\x1b[0;0R\x1b[24;80R", &mut events);
    assert_eq!(events, [InputEvent::Unknown, InputEvent::CursorReport { row: 23, column: 79 }]);
}

#[test]
fn paste_is_one_event() {
    let paste = |text: &str| InputEvent::Paste(text.to_owned());
    for (bytes, text) in [
        (b"\x1b[200~a\rb\r\nc\nd\x1b[201~".as_slice(), "a\nb\nc\nd"),
        (b"\x1b[200~\x1b[201~", ""),
        (b"\x1b[200~\x1b[A\x1b[20\x1b\x1b[201~", "\x1b[A\x1b[20\x1b"),
        (b"\x1b[200~\x03\xff\x1b[201~", "\x03\u{fffd}"),
        (b"\x1b[200~unterminated", "unterminated"),
    ] {
        assert_eq!(decode(bytes), [paste(text)], "{}", bytes.escape_ascii());
    }
}

#[test]
fn unterminated_paste_is_delivered_after_pauses() {
    let mut decoder = InputDecoder::default();
    let mut events = Vec::new();
    decoder.push(b"\x1b[200~a", &mut events);
    for _ in 1..PASTE_PAUSES_MAX {
        assert_eq!(decoder.finish(), None);
    }
    // The terminal goes on: the time starts again.
    decoder.push(b"b", &mut events);
    for _ in 1..PASTE_PAUSES_MAX {
        assert_eq!(decoder.finish(), None);
    }
    assert_eq!(events, []);
    assert_eq!(decoder.finish(), Some(InputEvent::Paste("ab".to_owned())));
    decoder.push(b"c", &mut events);
    assert_eq!(events.iter().map(describe).collect::<String>(), "c");
}

#[test]
fn paste_beyond_limit_is_cut_and_ends() {
    let text = vec![b'x'; PASTE_BYTES_MAX + 1_000];
    let events = decode(&[b"\x1b[200~".as_slice(), &text, b"\x1b[201~y"].concat());
    let [InputEvent::Paste(pasted), InputEvent::Key(last)] = events.as_slice() else {
        panic!("{} events", events.len());
    };
    assert_eq!(pasted.len(), PASTE_BYTES_MAX);
    assert_eq!(*last, KeyStroke::plain(KeyCode::Char('y')));
}

/// Bytes as terminals and broken terminals send them.
fn input_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..6),
        "[a-z0-9;:?$~\\[\\]OPu]{0,8}".prop_map(String::into_bytes),
        Just(b"\x1b".to_vec()),
        Just(b"\x1b[".to_vec()),
        Just(b"\x1bO".to_vec()),
        Just(b"\x1b]0;y".to_vec()),
        Just(b"\x1b\\".to_vec()),
        Just(b"\x1b[200~".to_vec()),
        Just(b"\x1b[201~".to_vec()),
        "\\PC{0,3}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_same_events(bytes in input_bytes(), cuts in proptest::collection::vec(0_usize..80, 0..6)) {
        let whole = decode(&bytes);
        prop_assert_eq!(&decode_pieces(bytes.chunks(1)), &whole);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
        prop_assert_eq!(&decode_pieces(pieces), &whole);
    }

    #[test]
    fn letters_of_sequences_are_never_keys(
        opener in prop_oneof![Just("\x1b[?"), Just("\x1b[>"), Just("\x1b[<"), Just("\x1b[="), Just("\x1b[1;2;3;")],
        parameters in "[0-9;:]{0,20}",
        last in "[@-Zab-tv-zA-Z]",
    ) {
        let sequence = format!("{opener}{parameters}{last}");
        let events = decode(sequence.as_bytes());
        prop_assert_eq!(events.len(), 1);
        prop_assert!(!matches!(events[0], InputEvent::Key(_)), "{:?}", events);
    }

    #[test]
    fn letters_of_answers_are_never_keys(opener in "[\\]P_^X]", text in "[ -~]{1,200}") {
        let events = decode(format!("\x1b{opener}{text}\x1b\\").as_bytes());
        prop_assert_eq!(events, [InputEvent::Unknown]);
    }
}
