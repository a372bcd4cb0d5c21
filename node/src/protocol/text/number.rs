//! Numbers as memcached reads them, which is as C's `strtoull` and `strtoll` do.
//!
//! Owns that leniency: leading white space and a sign are fine, and so is anything behind white space.

/// An unsigned number, memcached's `safe_strtoull`. A minus sign wraps around, unless the result would be 2^63
/// or more, which is what a plain negative number gives.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    let (negative, magnitude) = signed_magnitude(text)?;
    if !negative {
        return Some(magnitude);
    }
    let wrapped = magnitude.wrapping_neg();
    (wrapped >> 63 == 0).then_some(wrapped)
}

/// A signed number, memcached's `safe_strtoll`.
pub(in crate::protocol) fn signed(text: &[u8]) -> Option<i64> {
    let (negative, magnitude) = signed_magnitude(text)?;
    if negative {
        0_i64.checked_sub_unsigned(magnitude)
    } else {
        magnitude.try_into().ok()
    }
}

fn signed_magnitude(text: &[u8]) -> Option<(bool, u64)> {
    let text = &text[text.iter().take_while(|byte| is_space(**byte)).count()..];
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let len = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let ends_well = digits.get(len).is_none_or(|byte| is_space(*byte));
    if len == 0 || !ends_well {
        return None;
    }
    let magnitude = digits[..len].iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    Some((negative, magnitude))
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_numbers_are_read_as_memcached_reads_them() {
        let cases: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("007", Some(7)),
            ("+1", Some(1)),
            (" 10", Some(10)),
            ("10 ", Some(10)),
            ("1\t2", Some(1)),
            ("18446744073709551615", Some(u64::MAX)),
            ("018446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-1", None),
            ("-0", Some(0)),
            ("-18446744073709551615", Some(1)),
            ("", None),
            (" ", None),
            ("-", None),
            ("+-1", None),
            ("1a", None),
            ("0x1", None),
        ];
        for (text, number) in cases {
            assert_eq!(unsigned(text.as_bytes()), *number, "{text:?}");
        }
    }

    #[test]
    fn signed_numbers_are_read_as_memcached_reads_them() {
        let cases: &[(&str, Option<i64>)] = &[
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("18446744073709551614", None),
            ("1\r", Some(1)),
            ("x", None),
        ];
        for (text, number) in cases {
            assert_eq!(signed(text.as_bytes()), *number, "{text:?}");
        }
    }
}
