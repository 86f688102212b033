//! Encodes labels with non-ASCII letters for DNS (RFC 3492).

const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const FIRST_BIAS: u32 = 72;
const FIRST_BEYOND_ASCII: u32 = 0x80;

/// The label as `xn--…`; `None` if the result is too long.
pub(super) fn encode(label: &str) -> Option<String> {
    let mut encoded: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(encoded.len()).ok()?;
    let total = u32::try_from(label.chars().count()).ok()?;
    if basic > 0 {
        encoded.push('-');
    }
    let (mut next, mut delta, mut bias, mut handled) =
        (FIRST_BEYOND_ASCII, 0_u32, FIRST_BIAS, basic);
    while handled < total {
        let smallest = label.chars().map(u32::from).filter(|code| *code >= next).min()?;
        delta = delta.checked_add((smallest - next).checked_mul(handled + 1)?)?;
        next = smallest;
        for code in label.chars().map(u32::from) {
            if code < next {
                delta = delta.checked_add(1)?;
            } else if code == next {
                push_number(&mut encoded, delta, bias);
                bias = adapt_bias(delta, handled + 1, handled == basic);
                delta = 0;
                handled += 1;
            }
        }
        delta = delta.checked_add(1)?;
        next += 1;
    }
    Some(format!("xn--{encoded}"))
}

fn push_number(encoded: &mut String, mut number: u32, bias: u32) {
    let mut place = BASE;
    loop {
        let threshold = place.saturating_sub(bias).clamp(T_MIN, T_MAX);
        if number < threshold {
            encoded.push(encode_digit(number));
            return;
        }
        encoded.push(encode_digit(threshold + (number - threshold) % (BASE - threshold)));
        number = (number - threshold) / (BASE - threshold);
        place += BASE;
    }
}

fn encode_digit(value: u32) -> char {
    char::from_digit((value + 10) % BASE, BASE).unwrap_or('0')
}

fn adapt_bias(delta: u32, handled: u32, first: bool) -> u32 {
    let mut delta = if first { delta / DAMP } else { delta / 2 };
    delta += delta / handled;
    let mut turns = 0;
    while delta > ((BASE - T_MIN) * T_MAX) / 2 {
        delta /= BASE - T_MIN;
        turns += BASE;
    }
    turns + (BASE - T_MIN + 1) * delta / (delta + SKEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, expected: &str) {
        assert_eq!(encode(label).as_deref(), Some(expected), "{label}");
    }

    #[test]
    fn punycode_encodes_labels_per_standard() {
        check("bücher", "xn--bcher-kva");
        check("münchen", "xn--mnchen-3ya");
        check("ü", "xn--tda");
        check("例え", "xn--r8jz45g");
        check("他们为什么不说中文", "xn--ihqwcrb4cv8a8dqg056pqjye");
        check("почемужеонинеговорятпорусски", "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l");
        check("3年b組金八先生", "xn--3b-ww4c5e180e575a65lsy2b");
        check("☃-⌘", "xn----dqo34k");
        check("аррӏе", "xn--80ak6aa92e");
    }
}
