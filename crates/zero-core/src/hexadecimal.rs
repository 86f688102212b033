//! Bytes as hexadecimal text.

/// Two lower-case digits for each byte.
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(u32::from(half), 16).unwrap_or('0');
    // Every audit row needs this, so it allocates one string and not one per byte.
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(to_hex(&[]), "");
        assert_eq!(to_hex(&[0, 1, 0x7f, 0xa0, 0xff]), "00017fa0ff");
    }
}
