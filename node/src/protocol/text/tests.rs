//! What the parser makes of single lines. Answers on the wire are in the transcripts.

use super::*;
use crate::protocol::command::Command;
use crate::protocol::reply::Reply;
use crate::protocol::request::{ANY_VERSION, Direction, Request, Steps, StoreMode};
use crate::store::item::Exptime;

/// No command here needs room for a key.
fn parse_all(input: &[u8]) -> Parsed<'_> {
    parse(input, Box::leak(Box::default()), |_, _, len| len <= 100)
}

fn request(input: &[u8]) -> Request<'_> {
    match parse_all(input) {
        Parsed::Command {
            consumed,
            command:
                Command::Request {
                    request,
                    reply: Reply::Line,
                },
        } => {
            assert_eq!(consumed, input.len());
            request
        }
        other => panic!("{}: {other:?}", input.escape_ascii()),
    }
}

#[test]
fn commands_become_requests() {
    let cases: [(&[u8], Request<'_>); 9] = [
        (
            b"set key 1 2 3\r\nabc\r\n",
            Request::Store {
                mode: StoreMode::Set,
                key: b"key",
                flags: 1,
                exptime: Exptime(2),
                data: b"abc",
                binary_key: false,
            },
        ),
        (
            b"cas key 1 -1 0 18446744073709551615\n\r\n",
            Request::Store {
                mode: StoreMode::Cas(u64::MAX),
                key: b"key",
                flags: 1,
                exptime: Exptime(-1),
                data: b"",
                binary_key: false,
            },
        ),
        (
            b"delete key\r\n",
            Request::Delete {
                key: b"key",
                cas: ANY_VERSION,
                timed: false,
            },
        ),
        (
            b"delete key 0\r\n",
            Request::Delete {
                key: b"key",
                cas: ANY_VERSION,
                timed: false,
            },
        ),
        (
            b"incr key 5\r\n",
            Request::Arithmetic {
                direction: Direction::Incr,
                key: b"key",
                delta: 5,
                cas: ANY_VERSION,
                initial: 0,
                steps: Steps::default(),
            },
        ),
        (
            b"decr key 5\r\n",
            Request::Arithmetic {
                direction: Direction::Decr,
                key: b"key",
                delta: 5,
                cas: ANY_VERSION,
                initial: 0,
                steps: Steps::default(),
            },
        ),
        (
            b"touch key 4294967295\r\n",
            Request::Touch {
                key: b"key",
                exptime: Exptime(-1),
            },
        ),
        (b"flush_all\r\n", Request::FlushAll { delay: Exptime(0) }),
        (
            b"flush_all 10\r\n",
            Request::FlushAll { delay: Exptime(10) },
        ),
    ];
    for (input, expected) in cases {
        assert_eq!(request(input), expected);
    }
}

#[test]
fn gets_have_any_number_of_keys() {
    let Parsed::Command {
        command:
            Command::Gets {
                keys,
                with_cas,
                touch,
            },
        ..
    } = parse_all(b"gats 10 a  b c\r\n")
    else {
        panic!("not a get");
    };
    assert_eq!(keys.collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    assert_eq!((with_cas, touch), (true, Some(Exptime(10))));
}

#[test]
fn what_is_missing_is_said_and_no_proper_start_of_a_command_is_refused() {
    let whole = b"set key 1 2 3\r\nabc\r\n";
    for len in 0..whole.len() {
        let expected = if len < 15 { len + 1 } else { whole.len() };
        assert_eq!(
            parse_all(&whole[..len]),
            Parsed::Incomplete { needed: expected },
            "{len} bytes"
        );
    }
    // What follows is not looked at.
    let Parsed::Command { consumed, .. } = parse_all(b"set key 1 2 3\r\nabc\r\nget") else {
        panic!("not a command");
    };
    assert_eq!(consumed, whole.len());
}

#[test]
fn a_value_over_the_limit_is_refused_before_it_has_come() {
    let Parsed::Command { consumed, command } = parse_all(b"add key 0 0 101 noreply\r\nx") else {
        panic!("not a command");
    };
    assert_eq!(consumed, 25);
    assert_eq!(command.discard(), 103);
    let request = Request::StoreTooLarge {
        mode: StoreMode::Add,
        key: b"key",
    };
    assert_eq!(
        command,
        Command::TooLarge {
            request,
            reply: Reply::None,
            discard: 103
        }
    );
}

#[test]
fn lines_without_an_end_are_waited_for_up_to_a_limit() {
    let line =
        |start: &str, len: usize| [start.as_bytes(), &vec![b'x'; len - start.len()]].concat();
    assert_eq!(
        parse_all(&line("", 2048)),
        Parsed::Incomplete { needed: 2049 }
    );
    assert_eq!(parse_all(&line("", 2049)), Parsed::Close);
    assert_eq!(parse_all(&line("getx ", 2049)), Parsed::Close);
    for get in ["get ", "gets ", "gat 0 ", "gats 0 ", "  get "] {
        assert_eq!(
            parse_all(&line(get, 1 << 20)),
            Parsed::Incomplete {
                needed: (1 << 20) + 1
            }
        );
        assert_eq!(parse_all(&line(get, (1 << 20) + 1)), Parsed::Close);
    }
}

proptest::proptest! {
    /// Lengths are where parsers die: any number in any place, with any data behind it.
    #[test]
    fn no_numbers_make_the_parser_panic_or_consume_more_than_there_is(
        name in "set|add|cas|incr|touch|gat|flush_all",
        numbers in proptest::collection::vec("[-+]?[0-9]{1,25}|18446744073709551614|2147483645", 0..6),
        data in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
    ) {
        let line = format!("{name} key {}\r\n", numbers.join(" "));
        let input = [line.as_bytes(), &data].concat();
        if let Parsed::Command { consumed, command } = parse_all(&input) {
            assert!((line.len()..=input.len()).contains(&consumed));
            assert!(command.discard() <= i32::MAX as usize + 1);
        }
    }
}
