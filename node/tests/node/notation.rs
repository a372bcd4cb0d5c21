//! Bytes as text: in transcripts, and in the corpora of the fuzz targets.
//!
//! ```text
//!   \r \n \t \0 \\ \xFF are bytes, {k*250} is 250 times k, anything else is itself
//! ```

/// What `text` stands for.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                let hex = std::str::from_utf8(&digits).expect("hexadecimal digits");
                out.push(u8::from_str_radix(hex, 16).expect("hexadecimal digits"));
                tail
            }
            (b'\\', [escaped, tail @ ..]) => {
                out.push(match escaped {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'0' => 0,
                    other => *other,
                });
                tail
            }
            (b'{', tail) => {
                let end = tail
                    .iter()
                    .position(|byte| *byte == b'}')
                    .expect("a closing brace");
                let (inside, after) = tail.split_at(end);
                let inside = std::str::from_utf8(inside).expect("text");
                let (unit, times) = inside.rsplit_once('*').expect("{what*times}");
                out.extend(unit.repeat(times.parse().expect("a number")).bytes());
                &after[1..]
            }
            (byte, tail) => {
                out.push(*byte);
                tail
            }
        };
    }
    out
}
