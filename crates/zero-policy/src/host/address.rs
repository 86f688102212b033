//! Parses IP addresses in all spellings and detects those that are not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Parses an IPv4 address like `inet_aton`: one to four numbers, each decimal, octal (`0…`) or
/// hexadecimal (`0x…`); the last one fills the remaining bytes.
pub(super) fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let numbers: Vec<u32> = text.split('.').map(parse_number).collect::<Option<_>>()?;
    let (last, leading) = numbers.split_last()?;
    if leading.len() > 3 || leading.iter().any(|byte| *byte > 0xff) {
        return None;
    }
    let bits_left = 32 - 8 * leading.len();
    if bits_left < 32 && *last >> bits_left != 0 {
        return None;
    }
    let high = leading
        .iter()
        .enumerate()
        .fold(0_u32, |address, (at, byte)| address | (byte << (24 - 8 * at)));
    Some(Ipv4Addr::from_bits(high | last))
}

/// Whether a label is a number, so that a name ending with it must be an address.
pub(super) fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

fn parse_number(text: &str) -> Option<u32> {
    if !is_number(text) {
        return None;
    }
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        // Some parsers read `0x` alone as zero, others reject it.
        Some("") => None,
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

/// Why an address is not public.
pub(super) fn private_reason(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => private_v4_reason(address),
        IpAddr::V6(address) => private_v6_reason(address),
    }
}

fn private_v4_reason(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [0, ..] => Some("the unspecified address, which is this machine"),
        [127, ..] => Some("this machine"),
        [169, 254, 169, 254] | [192, 0, 0, 192] | [100, 100, 100, 200] => {
            Some("a cloud metadata service")
        }
        [169, 254, ..] => Some("a link-local address"),
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => Some("a private network"),
        [100, 64..=127, ..] => Some("a carrier's private network"),
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => Some("a special-use network"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Some("a reserved documentation address")
        }
        [224..=239, ..] => Some("a multicast address"),
        [240..=255, ..] => Some("a reserved address"),
        _ => None,
    }
}

fn private_v6_reason(address: Ipv6Addr) -> Option<&'static str> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match [a, b, c, d, e, f, g, h] {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("the unspecified address, which is this machine"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("this machine"),
        // Embedded IPv4 addresses: mapped, compatible, NAT64 and 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
            private_v4_reason(v4(g, h))
        }
        [0x2002, ..] => private_v4_reason(v4(b, c)),
        // Teredo embeds an IPv4 address too, and is obsolete.
        [0x2001, 0, ..] => Some("a tunnel address"),
        [0x2001, 0xdb8, ..] => Some("a reserved documentation address"),
        [0x2001, 2, 0, ..] | [0x2001, 0x10..=0x2f, ..] => Some("a special-use network"),
        [0x64, 0xff9b, 1, ..] => Some("a private network behind NAT64"),
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Some("a cloud metadata service"),
        _ if a & 0xfe00 == 0xfc00 => Some("a private network"),
        _ if a & 0xffc0 == 0xfe80 => Some("a link-local address"),
        _ if a & 0xffc0 == 0xfec0 => Some("a private network"),
        _ if a & 0xff00 == 0xff00 => Some("a multicast address"),
        _ if a & 0xfff0 == 0x3ff0 => Some("a reserved documentation address"),
        // No other range is assigned yet.
        _ if a & 0xe000 != 0x2000 => Some("a reserved address"),
        _ => None,
    }
}
