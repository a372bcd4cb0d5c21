//! What the parser makes of single frames. Answers on the wire are in the transcripts.

use super::*;
use crate::protocol::reply::ShownCas;

fn parse_all(input: &[u8]) -> Parsed<'_> {
    parse(input, |_, _, len| len <= 100)
}

fn frame(opcode: u8, cas: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = u32::try_from(extras.len() + key.len() + value.len()).expect("short");
    let key_len = u16::try_from(key.len()).expect("short").to_be_bytes();
    let header = [
        &[
            MAGIC,
            opcode,
            key_len[0],
            key_len[1],
            extras.len() as u8,
            0,
            0,
            0,
        ][..],
        &body.to_be_bytes(),
        b"opaq",
        &cas.to_be_bytes(),
    ];
    [&header.concat(), extras, key, value].concat()
}

fn reply(opcode: u8) -> Reply<'static> {
    Reply::Binary(Form {
        opcode: Opcode(opcode),
        opaque: *b"opaq",
        cas: ShownCas::Cas,
    })
}

fn request(input: &[u8]) -> Request<'_> {
    match parse_all(input) {
        Parsed::Command {
            consumed,
            command: Command::Request { request, reply: to },
        } => {
            assert_eq!((consumed, to), (input.len(), reply(input[1])));
            request
        }
        other => panic!("{}: {other:?}", input.escape_ascii()),
    }
}

#[test]
fn frames_become_requests() {
    let set = frame(0x11, 0, b"\0\0\0\x05\0\0\0\x0a", b"key", b"data");
    assert_eq!(
        request(&set),
        Request::Store {
            mode: StoreMode::Set,
            key: b"key",
            flags: 5,
            exptime: Exptime(10),
            data: b"data",
            binary_key: false,
        }
    );
    let delete = frame(0x04, 9, b"", b"key", b"");
    assert_eq!(
        request(&delete),
        Request::Delete {
            key: b"key",
            cas: 9,
            timed: false
        }
    );
    let touch = frame(0x1c, 0, b"\0\0\0\x01", b"key", b"");
    assert_eq!(
        request(&touch),
        Request::Get {
            key: b"key",
            touch: Some(Exptime(1))
        }
    );
}

#[test]
fn a_cas_is_a_condition_of_whatever_stores() {
    let modes = [
        (0x01, StoreMode::Cas(9)),
        (0x02, StoreMode::Cas(9)),
        (0x03, StoreMode::Cas(9)),
        (0x0e, StoreMode::Append(9)),
        (0x0f, StoreMode::Prepend(9)),
    ];
    for (opcode, expected) in modes {
        let extras: &[u8] = if opcode < 0x04 { &[0; 8] } else { &[] };
        let input = frame(opcode, 9, extras, b"key", b"data");
        let Request::Store { mode, .. } = request(&input) else {
            panic!("{opcode:#x} stores nothing")
        };
        assert_eq!(mode, expected);
    }
}

#[test]
fn a_counter_is_created_unless_its_exptime_says_no() {
    for (exptime, created) in [([0xff; 4], false), ([0, 0, 0, 7], true)] {
        let extras = [&[0; 8][..], &[0, 0, 0, 0, 0, 0, 0, 3], &exptime].concat();
        let input = frame(0x05, 0, &extras, b"key", b"");
        let Request::Arithmetic { initial, steps, .. } = request(&input) else {
            panic!("no counter")
        };
        assert_eq!((initial, steps.create()), (3, created));
    }
}

#[test]
fn what_is_missing_is_said() {
    let whole = frame(0x01, 0, &[0; 8], b"key", b"data");
    for len in 0..whole.len() {
        let needed = match len {
            ..24 => 24,
            24..35 => 35,
            _ => 39,
        };
        let expected = Parsed::Incomplete { needed };
        assert_eq!(parse_all(&whole[..len]), expected, "{len} bytes");
    }
}

#[test]
fn a_value_over_the_limit_is_refused_before_it_has_come() {
    let mut input = frame(0x02, 0, &[0; 8], b"key", b"");
    input[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    let Parsed::Command { consumed, command } = parse_all(&input) else {
        panic!("not a command")
    };
    assert_eq!((consumed, command.discard()), (35, u32::MAX as usize - 11));
    let mode = StoreMode::Add;
    let expected = Request::StoreTooLarge { mode, key: b"key" };
    assert!(matches!(command, Command::TooLarge { request, .. } if request == expected));
}

proptest::proptest! {
    /// Headers that are nearly right, with any body.
    #[test]
    fn no_frame_makes_the_parser_panic_or_consume_more_than_there_is(
        opcode in 0_u8..0x26,
        key_len in 0_u16..300,
        extras_len in 0_u8..24,
        body_len in proptest::prop_oneof![0_u32..400, proptest::prelude::any::<u32>()],
        rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 12..400),
    ) {
        let mut input = vec![MAGIC, opcode];
        input.extend(key_len.to_be_bytes());
        input.extend([extras_len, 0, 0, 0]);
        input.extend(body_len.to_be_bytes());
        input.extend(&rest);
        match parse_all(&input) {
            Parsed::Command { consumed, command } => {
                assert!((HEADER_LEN..=input.len()).contains(&consumed));
                assert!(command.discard() <= u32::MAX as usize);
            }
            Parsed::Incomplete { needed } => {
                assert!(needed > input.len());
                assert!(needed <= HEADER_LEN + 65_535 + 255 + MAX_AUTH_LEN);
            }
            Parsed::Close => panic!("the frame begins well"),
        }
    }
}
