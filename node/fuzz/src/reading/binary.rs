//! Answers of the binary protocol.
//!
//! Owns the frame: whose answer it is, and that its lengths are true.

use bytes::BytesMut;
use petra_node::protocol::binary::{Form, Verb, compose};
use petra_node::protocol::response::{Counter, Refusal, Response};

use super::Places;

const HEADER_LEN: usize = 24;
const ANSWER: u8 = 0x81;

/// Where the answer to a command of this form may end.
pub(super) fn ends(form: Form, answers: &[u8]) -> Places {
    let mut places: Places = answer(form, answers).into_iter().collect();
    if form.opcode.is_quiet() {
        places.push(0);
    }
    places
}

/// Whatever is answered, it is frames for this command.
pub(super) fn check_answers(form: Form, key: &[u8]) {
    let counter = Counter {
        value: u64::MAX,
        cas: 1,
        ttl: None,
        created: true,
    };
    let responses = [
        Response::Miss,
        Response::Stored { cas: 1 },
        Response::NotStored,
        Response::Exists,
        Response::NotFound,
        Response::Deleted,
        Response::Number(counter),
        Response::Ok,
        Response::Version("1"),
        Response::Mechanisms,
        Response::Authenticated,
        Response::Refused(Refusal::NotANumber),
        Response::Refused(Refusal::WrongPassword),
    ];
    for response in responses {
        let mut out = BytesMut::new();
        compose(form, key, &response, &mut out);
        let read = frame(form, &out).map(|frame| frame.end);
        assert!(read == Some(out.len()) || (out.is_empty() && form.opcode.is_quiet()));
    }
}

struct Frame {
    failed: bool,
    /// Without key and value.
    empty: bool,
    end: usize,
}

fn answer(form: Form, answers: &[u8]) -> Option<usize> {
    let mut last = frame(form, answers)?;
    // Statistics end with an empty frame.
    while form.opcode.verb() == Some(Verb::Stat) && !last.failed && !last.empty {
        let next = frame(form, &answers[last.end..])?;
        last = Frame {
            end: last.end + next.end,
            ..next
        };
    }
    Some(last.end)
}

fn frame(form: Form, answers: &[u8]) -> Option<Frame> {
    let (header, body) = answers.split_first_chunk::<HEADER_LEN>()?;
    let key_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let body_len = u32::from_be_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let is_ours =
        header[0] == ANSWER && header[1] == form.opcode.0 && header[12..16] == form.opaque;
    let is_true = key_len + usize::from(header[4]) <= body_len && body_len <= body.len();
    (is_ours && is_true).then_some(Frame {
        failed: header[6..8] != [0, 0],
        empty: body_len == 0,
        end: HEADER_LEN + body_len,
    })
}
