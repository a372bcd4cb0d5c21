//! Frames of the binary protocol, as text that can be read and written.
//!
//! ```text
//!   set cas=1 ext=0000000500000000 key=a value=what is left of the line
//!   set status=2 value=Data exists for key.
//! ```
//!
//! What is 0 or empty is left out. The body is as long as its parts unless it is said otherwise, and `opaque` and `ext`
//! are hexadecimal.

use std::fmt::Write;

pub(crate) const HEADER_LEN: usize = 24;

const NAMES: &[(&str, u8)] = &[
    ("get", 0x00),
    ("set", 0x01),
    ("add", 0x02),
    ("replace", 0x03),
    ("delete", 0x04),
    ("incr", 0x05),
    ("decr", 0x06),
    ("quit", 0x07),
    ("flush", 0x08),
    ("getq", 0x09),
    ("noop", 0x0a),
    ("version", 0x0b),
    ("getk", 0x0c),
    ("getkq", 0x0d),
    ("append", 0x0e),
    ("prepend", 0x0f),
    ("stat", 0x10),
    ("setq", 0x11),
    ("addq", 0x12),
    ("replaceq", 0x13),
    ("deleteq", 0x14),
    ("incrq", 0x15),
    ("decrq", 0x16),
    ("quitq", 0x17),
    ("flushq", 0x18),
    ("appendq", 0x19),
    ("prependq", 0x1a),
    ("verbosity", 0x1b),
    ("touch", 0x1c),
    ("gat", 0x1d),
    ("gatq", 0x1e),
    ("sasl_list", 0x20),
    ("sasl_auth", 0x21),
    ("sasl_step", 0x22),
    ("gatk", 0x23),
    ("gatkq", 0x24),
    ("unknown", 0x7f),
];

/// The bytes of a request. `bytes` reads the escapes of a text.
pub(crate) fn request(text: &str, bytes: impl Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let (name, mut rest) = text.split_once(' ').unwrap_or((text, ""));
    let named = NAMES.iter().find(|(known, _)| *known == name);
    let opcode = named.unwrap_or_else(|| panic!("what is {name}?")).1;
    let (mut extras, mut key, mut value, mut opaque) = (vec![], vec![], vec![], vec![0; 4]);
    let (mut cas, mut body_len) = (0_u64, None);
    while let Some((field, tail)) = rest.split_once('=') {
        let (text, tail) = match field {
            "value" => (tail, ""),
            _ => tail.split_once(' ').unwrap_or((tail, "")),
        };
        rest = tail;
        match field {
            "ext" => extras = hex(text),
            "opaque" => opaque = hex(text),
            "key" => key = bytes(text),
            "value" => value = bytes(text),
            "cas" => cas = text.parse().expect("a number"),
            "body" => body_len = Some(text.parse().expect("a number")),
            _ => panic!("what is {field}?"),
        }
    }
    let all = extras.len() + key.len() + value.len();
    let body_len: u32 = body_len.unwrap_or(all.try_into().expect("32 bits"));
    let mut frame = vec![0x80, opcode];
    frame.extend((key.len() as u16).to_be_bytes());
    frame.extend([extras.len() as u8, 0, 0, 0]);
    frame.extend(body_len.to_be_bytes());
    frame.extend(opaque);
    frame.extend(cas.to_be_bytes());
    [frame, extras, key, value].concat()
}

/// How long the body of an answer is.
pub(crate) fn body_len(header: &[u8; HEADER_LEN]) -> usize {
    u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize
}

/// An answer as text.
pub(crate) fn describe(header: &[u8; HEADER_LEN], body: &[u8]) -> String {
    assert_eq!(header[0], 0x81, "no frame: {}", header.escape_ascii());
    let named = NAMES.iter().find(|(_, opcode)| *opcode == header[1]);
    let mut text = named.map_or("?", |(name, _)| name).to_owned();
    let key_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let (extras, rest) = body.split_at(header[4].into());
    let (key, value) = rest.split_at(key_len);
    let status = u16::from_be_bytes([header[6], header[7]]);
    let opaque = &header[12..16];
    let cas = header[16..]
        .iter()
        .fold(0, |cas, byte| cas << 8 | u64::from(*byte));
    if status != 0 {
        let _ = write!(text, " status={status}");
    }
    if opaque != [0; 4] {
        let _ = write!(text, " opaque={}", to_hex(opaque));
    }
    if cas != 0 {
        let _ = write!(text, " cas={cas}");
    }
    if !extras.is_empty() {
        let _ = write!(text, " ext={}", to_hex(extras));
    }
    if !key.is_empty() {
        let _ = write!(text, " key={}", key.escape_ascii());
    }
    if !value.is_empty() {
        let _ = write!(text, " value={}", value.escape_ascii());
    }
    text
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    assert_eq!(digits.len(), text.len(), "{text}");
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
