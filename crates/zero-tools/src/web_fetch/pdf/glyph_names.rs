//! Names of glyphs in fonts, and their text.

/// Returns the text that a glyph name stands for.
pub(super) fn glyph_text(name: &str) -> Option<String> {
    // `a.alt` is a variant of `a`.
    let name = name.split('.').next().filter(|name| !name.is_empty())?;
    let mut chars = name.chars();
    if let (Some(character), None) = (chars.next(), chars.next()) {
        return Some(character.to_string());
    }
    if let Some((_, characters)) = GLYPH_NAMES.iter().find(|(known, _)| *known == name) {
        return Some((*characters).to_owned());
    }
    let number = |digits: &str| {
        let number = u32::from_str_radix(digits, 16).ok()?;
        char::from_u32(number).map(String::from)
    };
    if let Some(digits) = name.strip_prefix("uni").filter(|digits| digits.len() == 4) {
        return number(digits);
    }
    if let Some(digits) = name.strip_prefix('u').filter(|digits| (4..=6).contains(&digits.len())) {
        return number(digits);
    }
    let accented = |(accent, combining): &(&str, char)| {
        let letter = name.strip_suffix(accent)?;
        let letter = if letter == "dotlessi" { "i" } else { letter };
        (letter.len() == 1).then(|| format!("{letter}{combining}"))
    };
    ACCENTS.iter().find_map(accented)
}

const ACCENTS: &[(&str, char)] = &[
    ("acute", '\u{301}'),
    ("grave", '\u{300}'),
    ("circumflex", '\u{302}'),
    ("dieresis", '\u{308}'),
    ("tilde", '\u{303}'),
    ("ring", '\u{30a}'),
    ("cedilla", '\u{327}'),
    ("caron", '\u{30c}'),
    ("macron", '\u{304}'),
    ("ogonek", '\u{328}'),
];

const GLYPH_NAMES: &[(&str, &str)] = &[
    ("space", " "),
    ("nbspace", " "),
    ("exclam", "!"),
    ("quotedbl", "\""),
    ("numbersign", "#"),
    ("dollar", "$"),
    ("percent", "%"),
    ("ampersand", "&"),
    ("quotesingle", "'"),
    ("quoteright", "\u{2019}"),
    ("quoteleft", "\u{2018}"),
    ("quotedblleft", "\u{201c}"),
    ("quotedblright", "\u{201d}"),
    ("quotedblbase", "\u{201e}"),
    ("quotesinglbase", "\u{201a}"),
    ("guillemotleft", "«"),
    ("guillemotright", "»"),
    ("guilsinglleft", "‹"),
    ("guilsinglright", "›"),
    ("parenleft", "("),
    ("parenright", ")"),
    ("asterisk", "*"),
    ("plus", "+"),
    ("comma", ","),
    ("hyphen", "-"),
    ("sfthyphen", "-"),
    ("minus", "\u{2212}"),
    ("endash", "\u{2013}"),
    ("emdash", "\u{2014}"),
    ("period", "."),
    ("periodcentered", "·"),
    ("ellipsis", "…"),
    ("slash", "/"),
    ("fraction", "\u{2044}"),
    ("zero", "0"),
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("colon", ":"),
    ("semicolon", ";"),
    ("less", "<"),
    ("equal", "="),
    ("greater", ">"),
    ("question", "?"),
    ("at", "@"),
    ("bracketleft", "["),
    ("backslash", "\\"),
    ("bracketright", "]"),
    ("asciicircum", "^"),
    ("underscore", "_"),
    ("grave", "`"),
    ("braceleft", "{"),
    ("bar", "|"),
    ("braceright", "}"),
    ("asciitilde", "~"),
    ("exclamdown", "¡"),
    ("questiondown", "¿"),
    ("cent", "¢"),
    ("sterling", "£"),
    ("yen", "¥"),
    ("Euro", "€"),
    ("section", "§"),
    ("paragraph", "¶"),
    ("copyright", "©"),
    ("registered", "®"),
    ("trademark", "™"),
    ("degree", "°"),
    ("plusminus", "±"),
    ("multiply", "×"),
    ("divide", "÷"),
    ("mu", "µ"),
    ("bullet", "•"),
    ("dagger", "†"),
    ("daggerdbl", "‡"),
    ("fi", "fi"),
    ("fl", "fl"),
    ("ff", "ff"),
    ("ffi", "ffi"),
    ("ffl", "ffl"),
    ("germandbls", "ß"),
    ("ae", "æ"),
    ("AE", "Æ"),
    ("oe", "œ"),
    ("OE", "Œ"),
    ("oslash", "ø"),
    ("Oslash", "Ø"),
    ("aring", "å"),
    ("Aring", "Å"),
    ("dotlessi", "ı"),
    ("lslash", "ł"),
    ("Lslash", "Ł"),
    ("eth", "ð"),
    ("thorn", "þ"),
    ("alpha", "α"),
    ("beta", "β"),
    ("gamma", "γ"),
    ("delta", "δ"),
    ("epsilon", "ε"),
    ("lambda", "λ"),
    ("pi", "π"),
    ("sigma", "σ"),
    ("theta", "θ"),
    ("omega", "ω"),
    ("infinity", "∞"),
    ("lessequal", "≤"),
    ("greaterequal", "≥"),
    ("notequal", "≠"),
    ("approxequal", "≈"),
    ("arrowright", "→"),
    ("arrowleft", "←"),
];
