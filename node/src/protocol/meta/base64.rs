//! Keys in base64 (RFC 4648), for keys that could not stand in a line.
//!
//! Owns memcached's leniency: what is not of the alphabet is skipped, and the first padded group ends the key.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes `text` into `out`, or says that it is no base64.
pub(super) fn decode<'a>(text: &[u8], out: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    out.clear();
    let digits = || text.iter().filter(|byte| value(**byte).is_some());
    let count = digits().count();
    if count == 0 || count % 4 != 0 {
        return None;
    }
    let mut digits = digits();
    while let (Some(a), Some(b), Some(c), Some(d)) =
        (digits.next(), digits.next(), digits.next(), digits.next())
    {
        let group = [a, b, c, d];
        let bits = group
            .iter()
            .fold(0, |bits, digit| bits << 6 | value(**digit).unwrap_or(0));
        let padding = group.iter().filter(|digit| ***digit == b'=').count();
        let kept = 3_usize.checked_sub(padding).filter(|kept| *kept > 0)?;
        out.extend_from_slice(&bits.to_be_bytes()[1..=kept]);
        if padding > 0 {
            break;
        }
    }
    Some(out)
}

/// Six bits, none for the padding.
fn value(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    })
}

/// Appends `data` in base64.
pub(super) fn encode(data: &[u8], out: &mut impl Extend<u8>) {
    for group in data.chunks(3) {
        let mut bytes = [0; 4];
        bytes[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bytes);
        out.extend((0..4).map(|place| {
            if place > group.len() {
                b'='
            } else {
                ALPHABET[(bits >> (18 - 6 * place) & 63) as usize]
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        decode(text, &mut Vec::new()).map(<[u8]>::to_vec)
    }

    #[test]
    fn the_vectors_of_the_standard_hold_both_ways() {
        let vectors: [(&[u8], &[u8]); 6] = [
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foob", b"Zm9vYg=="),
            (b"fooba", b"Zm9vYmE="),
            (b"foobar", b"Zm9vYmFy"),
        ];
        for (plain, text) in vectors {
            let mut encoded = Vec::new();
            encode(plain, &mut encoded);
            assert_eq!(encoded, text);
            assert_eq!(decoded(text).as_deref(), Some(plain));
        }
    }

    #[test]
    fn decoding_is_as_lenient_as_memcached_and_no_more() {
        let cases: [(&[u8], Option<&[u8]>); 8] = [
            (b"Zm-9_v", Some(b"foo")),
            (b"Zg==Zg==", Some(b"f")),
            (b"AP/+", Some(b"\0\xff\xfe")),
            (b"", None),
            (b"Z", None),
            (b"Zm9vY", None),
            (b"Z===", None),
            (b"====", None),
        ];
        for (text, plain) in cases {
            assert_eq!(decoded(text).as_deref(), plain, "{}", text.escape_ascii());
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_survive_the_way_there_and_back(data: Vec<u8>) {
            let mut encoded = Vec::new();
            encode(&data, &mut encoded);
            assert_eq!(decoded(&encoded), (!data.is_empty()).then_some(data));
        }

        #[test]
        fn any_text_is_decoded_to_less(text: Vec<u8>) {
            assert!(decoded(&text).is_none_or(|data| data.len() < text.len()));
        }
    }
}
