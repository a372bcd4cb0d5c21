//! What the parser makes of single lines. Answers on the wire are in the transcripts.

use super::*;
use crate::protocol::request::{Step, Steps};
use crate::protocol::text;

fn with_parsed<R>(input: &[u8], check: impl FnOnce(Parsed<'_>) -> R) -> R {
    let mut decoded = Vec::new();
    check(text::parse(input, &mut decoded, |_, _, len| len <= 100))
}

fn request<R>(input: &[u8], check: impl FnOnce(Request<'_>, Form<'_>) -> R) -> R {
    with_parsed(input, |parsed| match parsed {
        Parsed::Command {
            consumed,
            command:
                Command::Request {
                    request,
                    reply: Reply::Meta(form),
                },
        } => {
            assert_eq!(consumed, input.len());
            check(request, form)
        }
        other => panic!("{}: {other:?}", input.escape_ascii()),
    })
}

fn steps(steps: &[Step]) -> Steps {
    let mut all = Steps::default();
    for step in steps {
        all.push(*step);
    }
    all
}

#[test]
fn steps_keep_the_order_in_which_the_client_names_them() {
    request(b"mg key t T10 v N-1 R30 q\r\n", |request, form| {
        let expected = [
            Step::ReportTtl,
            Step::Touch(Exptime(10)),
            Step::Create(Exptime(-1)),
            Step::Recache(Exptime(30)),
        ];
        assert_eq!(
            request,
            Request::MetaGet {
                key: b"key",
                steps: steps(&expected),
                read: true
            }
        );
        assert!(form.quiet && form.value);
        assert_eq!(form.flags, b" t T10 v N-1 R30 q");
    });
}

#[test]
fn a_key_in_base64_is_decoded() {
    request(b"mg AA0KIP8= b u\r\n", |request, form| {
        assert_eq!(request.key(), Some(&b"\0\r\n \xff"[..]));
        assert!(form.base64);
        assert!(matches!(request, Request::MetaGet { read: false, .. }));
    });
}

#[test]
fn a_set_has_the_mode_that_its_flags_say_together() {
    let cases: [(&str, StoreMode); 12] = [
        ("", StoreMode::Set),
        ("MS", StoreMode::Set),
        ("I", StoreMode::Set),
        ("MR", StoreMode::Replace),
        ("ME", StoreMode::Add),
        ("ME C5", StoreMode::Add),
        ("MA", StoreMode::Append(ANY_VERSION)),
        ("MP C5", StoreMode::Prepend(5)),
        ("C5", StoreMode::Cas(5)),
        ("C0", StoreMode::Cas(0)),
        ("MR C5", StoreMode::Cas(5)),
        ("MR C5 I", StoreMode::CasOrStale(5)),
    ];
    for (flags, expected) in cases {
        request(
            format!("ms key 1 {flags}\r\nx\r\n").as_bytes(),
            |request, _| {
                let Request::Store { mode, data, .. } = request else {
                    panic!("not a set")
                };
                assert_eq!((mode, data), (expected, &b"x"[..]), "{flags}");
            },
        );
    }
}

#[test]
fn the_data_of_a_refused_set_is_discarded_once_its_length_is_known() {
    let cases = [
        ("ms key 5 !", 7),
        ("ms key 5 Tx", 7),
        ("ms key 5 MX", 7),
        ("ms key 101", 103),
        ("ms key x", 0),
        ("ms key", 0),
        ("ms key 2147483645 Tx", 2_147_483_647),
        ("ms key 18446744073709551614", 0),
    ];
    for (line, discard) in cases {
        with_parsed(format!("{line}\r\n").as_bytes(), |parsed| {
            let Parsed::Command { consumed, command } = parsed else {
                panic!("{line}: {parsed:?}")
            };
            assert_eq!(consumed, line.len() + 2, "{line}");
            assert_eq!(command.discard(), discard, "{line}");
        });
    }
}

#[test]
fn a_delete_of_no_version_deletes_none() {
    request(b"md key C0\r\n", |request, _| {
        assert_eq!(
            request,
            Request::Delete {
                key: b"key",
                cas: VERSION_ZERO,
                timed: false
            }
        );
    });
}

#[test]
fn a_command_is_waited_for_until_its_data_is_there() {
    let whole = b"ms key 3 T1\r\nabc\r\n";
    for len in 0..whole.len() {
        let needed = if len < 13 { len + 1 } else { whole.len() };
        with_parsed(&whole[..len], |parsed| {
            assert_eq!(parsed, Parsed::Incomplete { needed }, "{len} bytes");
        });
    }
}

proptest::proptest! {
    /// Any flags with any tokens, and then what is not even that.
    #[test]
    fn no_line_makes_the_parser_panic_or_consume_more_than_there_is(
        verb in "m[gsdaen]",
        key in "[A-Za-z=]{1,8}",
        flags in proptest::collection::vec("[ -~]?[-+0-9A-Za-z=]{0,22}", 0..25),
        data in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120),
    ) {
        let line = format!("{verb} {key} {}\r\n", flags.join(" "));
        let input = [line.as_bytes(), &data].concat();
        with_parsed(&input, |parsed| match parsed {
            Parsed::Command { consumed, command } => {
                assert!((line.len()..=input.len()).contains(&consumed));
                assert!(command.discard() <= i32::MAX as usize + 1);
            }
            Parsed::Incomplete { needed } => assert!(needed > input.len()),
            Parsed::Close => {}
        });
    }
}
