//! What complete sequences mean: keys with modifiers in the encodings of xterm, rxvt, the Linux console
//! and the kitty keyboard protocol, and answers of the terminal.

use crate::input_event::{InputEvent, KeyCode, KeyStroke};

/// Most parameters, and most parts of a parameter, that are looked at.
const PARAMETERS_MAX: usize = 16;

/// The events of a sequence after `ESC [`, its last byte included. A key that is released has none; a
/// text of several characters has one for each.
pub(super) fn interpret_csi(sequence: &[u8], is_report_expected: bool) -> Vec<InputEvent> {
    let Some((&last, parameters)) = sequence.split_last() else {
        return vec![InputEvent::Unknown];
    };
    match (parameters, last) {
        ([], b'I') => return vec![InputEvent::FocusGained],
        ([], b'O') => return vec![InputEvent::FocusLost],
        ([b'?', ..], b'u') => return vec![InputEvent::KeyboardReport],
        ([b'?', ..], b'c') => return vec![InputEvent::DeviceAttributes],
        ([b'<', report @ ..], b'M' | b'm') => return vec![interpret_mouse(report, last)],
        ([b'['], b'A'..=b'E') => return plain_key(KeyCode::Function(last - b'A' + 1)),
        // Keys with Shift on rxvt.
        ([], b'a'..=b'd') => return shift_key(last.to_ascii_uppercase()),
        _ => {}
    }
    let Some(parameters) = Parameters::parse(parameters) else {
        return vec![InputEvent::Unknown];
    };
    if last == b'R' && is_report_expected && parameters.count() == 2 {
        let (row, column) = (parameters.number(0, 0), parameters.number(1, 0));
        return vec![match (row.checked_sub(1), column.checked_sub(1)) {
            (Some(row), Some(column)) => {
                InputEvent::CursorReport { row: to_usize(row), column: to_usize(column) }
            }
            _ => InputEvent::Unknown,
        }];
    }
    match last {
        b'u' => interpret_kitty(&parameters),
        b'~' if parameters.number(0, 0) == 27 && parameters.count() == 3 => {
            let modifiers = Modifiers::from_parameter(parameters.number(1, 0));
            modified_key(modifiers, |_| character_code(parameters.number(2, 0)))
        }
        b'~' => match tilde_code(parameters.number(0, 0)) {
            Some(code) => interpret_functional(&parameters, code),
            None => vec![InputEvent::Unknown],
        },
        b'^' | b'$' | b'@' if parameters.count() == 1 => {
            let (ctrl, shift) = (last != b'$', last != b'^');
            match tilde_code(parameters.number(0, 0)) {
                Some(code) => {
                    vec![InputEvent::Key(KeyStroke { ctrl, shift, ..KeyStroke::plain(code) })]
                }
                None => vec![InputEvent::Unknown],
            }
        }
        // A letter is a key only with the parameters that keys have: `1;modifiers`.
        _ if parameters.number(0, 1) != 1 || parameters.count() > 2 => vec![InputEvent::Unknown],
        b'Z' => shift_tab(&parameters),
        _ => match letter_code(last) {
            Some(code) => interpret_functional(&parameters, code),
            None => vec![InputEvent::Unknown],
        },
    }
}

/// A mouse report `button;column;row`: only the wheel has a meaning.
fn interpret_mouse(report: &[u8], last: u8) -> InputEvent {
    let button = report.split(|byte| *byte == b';').next();
    match (button, last) {
        (Some(b"64"), b'M') => InputEvent::Wheel { is_up: true },
        (Some(b"65"), b'M') => InputEvent::Wheel { is_up: false },
        _ => InputEvent::Unknown,
    }
}

/// The event of a sequence after `ESC O`, its last byte included.
pub(super) fn interpret_ss3(sequence: &[u8]) -> InputEvent {
    let Some((&last, parameters)) = sequence.split_last() else {
        return InputEvent::Unknown;
    };
    let Some(parameters) = Parameters::parse(parameters) else {
        return InputEvent::Unknown;
    };
    // The modifiers are the last parameter: `ESC O 5 P` or `ESC O 1 ; 5 P`.
    let modifiers = match parameters.count() {
        0 => Modifiers::default(),
        count => Modifiers::from_parameter(parameters.number(count - 1, 1)),
    };
    let (code, modifiers) = match last {
        // Keys of the keypad.
        b'M' => (KeyCode::Enter, modifiers),
        b'I' => (KeyCode::Tab, modifiers),
        b'X' => (KeyCode::Char('='), modifiers),
        // Arrows with Ctrl on rxvt.
        b'a'..=b'd' if parameters.count() == 0 => match letter_code(last.to_ascii_uppercase()) {
            Some(code) => (code, Modifiers { ctrl: true, ..modifiers }),
            None => return InputEvent::Unknown,
        },
        b'j'..=b'y' => (KeyCode::Char(char::from(last - 0x40)), modifiers),
        _ => match letter_code(last) {
            Some(code) => (code, modifiers),
            None => return InputEvent::Unknown,
        },
    };
    modifiers.apply(code).map_or(InputEvent::Unknown, InputEvent::Key)
}

/// Modifiers as terminals send them: a number of bits, plus one.
#[derive(Clone, Copy, Debug, Default)]
struct Modifiers {
    shift: bool,
    alt: bool,
    ctrl: bool,
    caps_lock: bool,
    /// Super or Hyper: shortcuts of the desktop, which nothing here uses.
    is_foreign: bool,
}

impl Modifiers {
    fn from_parameter(parameter: u32) -> Self {
        let bits = parameter.saturating_sub(1);
        Self {
            shift: bits & 1 != 0,
            // Meta is Alt on other keyboards.
            alt: bits & (2 | 32) != 0,
            ctrl: bits & 4 != 0,
            is_foreign: bits & (8 | 16) != 0,
            caps_lock: bits & 64 != 0,
        }
    }

    /// The key with these modifiers. Shift is part of a character, except with Ctrl, where the
    /// character is in lower case.
    fn apply(self, code: KeyCode) -> Option<KeyStroke> {
        let Self { shift, alt, ctrl, .. } = self;
        if self.is_foreign {
            return None;
        }
        let stroke = match code {
            KeyCode::Char(letter) if ctrl => {
                let code = KeyCode::Char(single_char(letter.to_lowercase()).unwrap_or(letter));
                KeyStroke { code, ctrl, alt, shift }
            }
            KeyCode::Char(_) => KeyStroke { code, ctrl, alt, shift: false },
            _ => KeyStroke { code, ctrl, alt, shift },
        };
        Some(stroke)
    }
}

/// The numbers of a sequence: parameters divided by `;`, their parts by `:`.
struct Parameters(Vec<Vec<Option<u32>>>);

impl Parameters {
    /// `None` if there is anything else than numbers, or too much.
    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self(Vec::new()));
        }
        let mut parameters = Vec::new();
        for parameter in bytes.split(|byte| *byte == b';') {
            let mut parts = Vec::new();
            for part in parameter.split(|byte| *byte == b':') {
                let text = std::str::from_utf8(part).ok()?;
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                let number = match text {
                    "" => None,
                    text if is_number => Some(text.parse().ok()?),
                    _ => return None,
                };
                parts.push(number);
            }
            parameters.push(parts);
            if parameters.len() > PARAMETERS_MAX
                || parameters.last().is_some_and(|parts| parts.len() > PARAMETERS_MAX)
            {
                return None;
            }
        }
        Some(Self(parameters))
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn part(&self, parameter: usize, part: usize) -> Option<u32> {
        *self.0.get(parameter)?.get(part)?
    }

    fn number(&self, parameter: usize, default: u32) -> u32 {
        self.part(parameter, 0).unwrap_or(default)
    }

    fn modifiers(&self) -> Modifiers {
        Modifiers::from_parameter(self.number(1, 1))
    }

    /// Whether the sequence says that the key was released.
    fn is_release(&self) -> bool {
        self.part(1, 1) == Some(3)
    }
}

/// A key of the kitty protocol: `code:shifted:base ; modifiers:event ; text`.
fn interpret_kitty(parameters: &Parameters) -> Vec<InputEvent> {
    if parameters.is_release() {
        return Vec::new();
    }
    let modifiers = parameters.modifiers();
    let texts = parameters.0.get(2).map(Vec::as_slice).unwrap_or_default();
    let has_command = modifiers.ctrl || modifiers.alt || modifiers.is_foreign;
    // The text is what the layout made of the key: better than any guess from its code.
    let letters: Vec<char> = texts
        .iter()
        .filter_map(|code| char::from_u32((*code)?))
        .filter(|letter| !letter.is_control())
        .collect();
    let code = parameters.number(0, 0);
    if !letters.is_empty() && !has_command && functional_code(code).is_none() {
        let stroke = |letter| InputEvent::Key(KeyStroke::plain(KeyCode::Char(letter)));
        return letters.into_iter().map(stroke).collect();
    }
    modified_key(modifiers, |modifiers| {
        let code = character_code(code)?;
        let KeyCode::Char(letter) = code else {
            return Some(code);
        };
        let shifted = parameters.part(0, 1).and_then(char::from_u32);
        let upper = single_char(letter.to_uppercase());
        Some(KeyCode::Char(match (modifiers.shift, modifiers.caps_lock) {
            (true, false) => shifted.or(upper).unwrap_or(letter),
            (true, true) if !letter.is_alphabetic() => shifted.unwrap_or(letter),
            (false, true) => upper.unwrap_or(letter),
            _ => letter,
        }))
    })
}

fn interpret_functional(parameters: &Parameters, code: KeyCode) -> Vec<InputEvent> {
    match parameters.is_release() {
        true => Vec::new(),
        false => modified_key(parameters.modifiers(), |_| Some(code)),
    }
}

fn modified_key(
    modifiers: Modifiers,
    code: impl FnOnce(Modifiers) -> Option<KeyCode>,
) -> Vec<InputEvent> {
    let stroke = code(modifiers).and_then(|code| modifiers.apply(code));
    vec![stroke.map_or(InputEvent::Unknown, InputEvent::Key)]
}

fn plain_key(code: KeyCode) -> Vec<InputEvent> {
    vec![InputEvent::Key(KeyStroke::plain(code))]
}

fn shift_key(letter: u8) -> Vec<InputEvent> {
    let stroke =
        letter_code(letter).map(|code| KeyStroke { shift: true, ..KeyStroke::plain(code) });
    vec![stroke.map_or(InputEvent::Unknown, InputEvent::Key)]
}

fn shift_tab(parameters: &Parameters) -> Vec<InputEvent> {
    if parameters.is_release() {
        return Vec::new();
    }
    let modifiers = Modifiers { shift: true, ..parameters.modifiers() };
    modified_key(modifiers, |_| Some(KeyCode::Tab))
}

/// The key of a final letter, after `ESC [` or `ESC O`.
fn letter_code(letter: u8) -> Option<KeyCode> {
    Some(match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'P'..=b'S' => KeyCode::Function(letter - b'P' + 1),
        _ => return None,
    })
}

/// The key of a number before `~`.
fn tilde_code(number: u32) -> Option<KeyCode> {
    let function = |first_key: u32, first_number: u32| {
        u8::try_from(number - first_number + first_key).ok().map(KeyCode::Function)
    };
    match number {
        1 | 7 => Some(KeyCode::Home),
        3 => Some(KeyCode::Delete),
        4 | 8 => Some(KeyCode::End),
        5 => Some(KeyCode::PageUp),
        6 => Some(KeyCode::PageDown),
        11..=15 => function(1, 11),
        17..=21 => function(6, 17),
        23..=26 => function(11, 23),
        28..=29 => function(15, 28),
        31..=34 => function(17, 31),
        _ => None,
    }
}

/// The key of a code of the kitty protocol or of xterm's `modifyOtherKeys`.
fn character_code(code: u32) -> Option<KeyCode> {
    if let Some(code) = functional_code(code) {
        return Some(code);
    }
    // Codes of other functional keys are in this private area.
    if (57_344..=63_743).contains(&code) {
        return None;
    }
    char::from_u32(code).filter(|letter| !letter.is_control()).map(KeyCode::Char)
}

fn functional_code(code: u32) -> Option<KeyCode> {
    let offset = |first: u32, add: u8| u8::try_from(code - first).ok().map(|offset| offset + add);
    Some(match code {
        9 | 57_346 => KeyCode::Tab,
        13 | 57_345 | 57_414 => KeyCode::Enter,
        27 | 57_344 => KeyCode::Escape,
        8 | 127 | 57_347 => KeyCode::Backspace,
        57_349 | 57_426 => KeyCode::Delete,
        57_350 | 57_417 => KeyCode::Left,
        57_351 | 57_418 => KeyCode::Right,
        57_352 | 57_419 => KeyCode::Up,
        57_353 | 57_420 => KeyCode::Down,
        57_354 | 57_421 => KeyCode::PageUp,
        57_355 | 57_422 => KeyCode::PageDown,
        57_356 | 57_423 => KeyCode::Home,
        57_357 | 57_424 => KeyCode::End,
        57_364..=57_398 => KeyCode::Function(offset(57_364, 1)?),
        57_399..=57_408 => KeyCode::Char(char::from(offset(57_399, b'0')?)),
        57_409 => KeyCode::Char('.'),
        57_410 => KeyCode::Char('/'),
        57_411 => KeyCode::Char('*'),
        57_412 => KeyCode::Char('-'),
        57_413 => KeyCode::Char('+'),
        57_415 => KeyCode::Char('='),
        57_416 => KeyCode::Char(','),
        _ => return None,
    })
}

fn single_char(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let first = letters.next()?;
    letters.next().is_none().then_some(first)
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
