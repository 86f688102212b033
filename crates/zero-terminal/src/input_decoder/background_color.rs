//! Reads the answer to the question which color the background has.

use crate::input_event::InputEvent;

/// What an answer means that began with `ESC ]`; `None` if nothing here.
pub(super) fn interpret_osc(bytes: &[u8]) -> Option<InputEvent> {
    let color = std::str::from_utf8(bytes).ok()?.strip_prefix("11;")?;
    let [red, green, blue] = read_color(color)?;
    // How bright people see the three, which are shares of one.
    let brightness = 0.299 * red + 0.587 * green + 0.114 * blue;
    Some(InputEvent::Background { is_light: brightness > 0.5 })
}

/// The parts of a color such as `rgb:ffff/8000/0000`, as shares of one.
fn read_color(color: &str) -> Option<[f64; 3]> {
    if let Some(digits) = color.strip_prefix('#') {
        let part_len = digits.len() / 3;
        let part = |at: usize| read_share(digits.get(at * part_len..(at + 1) * part_len)?);
        return (part_len * 3 == digits.len()).then_some([part(0)?, part(1)?, part(2)?]);
    }
    // A fourth part says how much shines through.
    let parts = color.strip_prefix("rgb:").or_else(|| color.strip_prefix("rgba:"))?;
    let mut shares = parts.split('/').map(read_share);
    Some([shares.next()??, shares.next()??, shares.next()??])
}

/// One to four hexadecimal digits as a share of the most that they can be.
fn read_share(digits: &str) -> Option<f64> {
    if !(1..=4).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let value = u16::from_str_radix(digits, 16).ok()?;
    let most = (1_u32 << (4 * digits.len())) - 1;
    Some(f64::from(value) / f64::from(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn background_is_light_or_dark() {
        #[track_caller]
        fn check(answer: &str, expected: Option<bool>) {
            let is_light = match interpret_osc(answer.as_bytes()) {
                Some(InputEvent::Background { is_light }) => Some(is_light),
                _ => None,
            };
            assert_eq!(is_light, expected, "{answer}");
        }
        check("11;rgb:ffff/ffff/ffff", Some(true));
        check("11;rgb:fdfd/f6f6/e3e3", Some(true));
        check("11;rgb:00/2b/36", Some(false));
        check("11;rgb:f/f/0", Some(true));
        check("11;rgba:0000/0000/ffff/8000", Some(false));
        check("11;#ffffff", Some(true));
        check("11;#1e1e1e", Some(false));
        check("11;#ffff", None);
        check("11;rgb:ffff/ffff", None);
        check("11;rgb:fffff/0/0", None);
        check("11;rgb:+f/0/0", None);
        check("11;white", None);
        check("10;rgb:ffff/ffff/ffff", None);
        check("", None);
    }
}
