//! Random frames of the binary protocol.

use super::{Dialect, Round};

pub(super) const DIALECT: Dialect = Dialect {
    command,
    sentinel: b"\x80\x0a\0\0\0\0\0\0\0\0\0\0\xfe\xed\xfa\xce\0\0\0\0\0\0\0\0",
    sentinel_answer: b"\x81\x0a\0\0\0\0\0\0\0\0\0\0\xfe\xed\xfa\xce\0\0\0\0\0\0\0\0",
};

const VERSION: u8 = 0x0b;
const EXPTIMES: [u32; 7] = [0, 0, 0, 100, 2_592_001, 4_000_000_000, 1_000_000];

/// What a frame is made of.
#[derive(Default)]
struct Parts {
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    cas: u64,
}

fn command(round: &mut Round) -> Vec<u8> {
    let opcode = match round.random.below(30) {
        0 => round.random.of(&[0x1f, 0x25, 0x30, 0x7f, 0xff]),
        1 => round.random.of(&[0x20, 0x21, 0x22]),
        2..=8 => round.random.of(&[0x01, 0x02, 0x03, 0x11]),
        9..=13 => round.random.of(&[0x00, 0x09, 0x0c, 0x0d]),
        _ => Some(round.random.below(0x25) as u8)
            .filter(|opcode| *opcode != VERSION)
            .unwrap_or(0x1d),
    };
    let mut parts = parts(round, opcode);
    if round.random.one_in(4) {
        parts.cas = round.cas();
    }
    let known = opcode < 0x25 && !matches!(opcode, 0x10 | 0x1b | 0x1f);
    if known && round.random.one_in(40) {
        spoil(round, &mut parts);
    }
    frame(round, opcode, &parts)
}

fn parts(round: &mut Round, opcode: u8) -> Parts {
    let mut parts = Parts::default();
    match opcode {
        0x00 | 0x04 | 0x09 | 0x0c | 0x0d | 0x14 => parts.key = key(round),
        0x01..=0x03 | 0x11..=0x13 => {
            parts.key = key(round);
            parts.value = round.random.value();
            let flags = round.random.of(&[0, 5, u32::MAX]);
            let exptime = round.random.of(&EXPTIMES);
            parts.extras = [flags.to_be_bytes(), exptime.to_be_bytes()].concat();
        }
        0x05 | 0x06 | 0x15 | 0x16 => {
            parts.key = key(round);
            let delta = round.random.of(&[0, 1, 100, 1_u64 << 40]);
            let initial = round.random.of(&[0, 9, 1_u64 << 60]);
            let exptime = round.random.of(&[0, 100, u32::MAX]);
            parts.extras = [
                &delta.to_be_bytes()[..],
                &initial.to_be_bytes(),
                &exptime.to_be_bytes(),
            ]
            .concat();
        }
        0x0e | 0x0f | 0x19 | 0x1a => {
            parts.key = key(round);
            parts.value = round.random.value();
        }
        0x1c..=0x1e | 0x23 | 0x24 => {
            parts.key = key(round);
            parts.extras = round.random.of(&EXPTIMES).to_be_bytes().to_vec();
        }
        0x10 => {
            parts.key = round
                .random
                .of(&[
                    &b"nonsense"[..],
                    b"detail",
                    b"detail on",
                    b"detailx",
                    b"conns",
                ])
                .to_vec()
        }
        0x21 | 0x22 => {
            parts.key = b"PLAIN".to_vec();
            parts.value = b"\0user\0password".to_vec();
        }
        0x1f | 0x25..=0xff => {
            let len = round.random.below(30);
            parts.value = round.random.bytes(len);
        }
        _ => {}
    }
    parts
}

fn key(round: &mut Round) -> Vec<u8> {
    match round.random.below(60) {
        0 => vec![b'k'; 251],
        1 => vec![b'k'; 250],
        2 => [round.prefix.as_bytes(), b" \r\n\0"].concat(),
        _ => round.key().into_bytes(),
    }
}

/// Extras that are not the command's.
fn spoil(round: &mut Round, parts: &mut Parts) {
    match round.random.below(3) {
        0 => parts.extras.extend([0; 2]),
        1 => parts.key.clear(),
        _ => parts.extras.clear(),
    }
}

fn frame(round: &mut Round, opcode: u8, parts: &Parts) -> Vec<u8> {
    let body_len = (parts.extras.len() + parts.key.len() + parts.value.len()) as u32;
    let mut frame = vec![0x80, opcode];
    frame.extend((parts.key.len() as u16).to_be_bytes());
    frame.extend([parts.extras.len() as u8, 0, 0, 0]);
    frame.extend(body_len.to_be_bytes());
    frame.extend((round.random.below(1000) as u32).to_be_bytes());
    frame.extend(parts.cas.to_be_bytes());
    [&frame[..], &parts.extras, &parts.key, &parts.value].concat()
}
