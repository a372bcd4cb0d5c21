//! Answers of the meta protocol.
//!
//! Owns their two letters, and that what a client repeats its answers by is in them.

use petra_node::protocol::meta::{Form, Verb};

use super::{CRLF, Places, block, line, number};

/// Where the answer to a command of this form may end.
pub(super) fn ends(form: &Form<'_>, answers: &[u8]) -> Places {
    let mut places: Places = answer(form, answers).into_iter().collect();
    if form.quiet {
        places.push(0);
    }
    places
}

fn answer(form: &Form<'_>, answers: &[u8]) -> Option<usize> {
    let end = line(answers)?;
    let text = &answers[..end - CRLF.len()];
    let mut words = text.split(|byte| *byte == b' ');
    let status = words.next()?;
    if !statuses(form.verb).contains(&status) {
        return None;
    }
    // Nothing is repeated by those two.
    if !matches!(form.verb, Verb::Debug | Verb::Noop) && !repeats_opaque(form, text) {
        return None;
    }
    if status == b"VA" {
        let len = usize::try_from(number(words.next()?)?).ok()?;
        form.value.then_some(block(end, len, answers)?)
    } else {
        Some(end)
    }
}

fn statuses(verb: Verb) -> &'static [&'static [u8]] {
    match verb {
        Verb::Get => &[b"HD", b"VA", b"EN"],
        Verb::Set => &[b"HD", b"NS", b"EX", b"NF"],
        Verb::Delete => &[b"HD", b"NF", b"EX"],
        Verb::Arithmetic => &[b"HD", b"VA", b"NF", b"NS", b"EX"],
        Verb::Debug => &[b"ME", b"EN"],
        Verb::Noop => &[b"MN"],
    }
}

fn repeats_opaque(form: &Form<'_>, text: &[u8]) -> bool {
    let line_end = form.flags.iter().position(|byte| *byte == 0);
    let flags = &form.flags[..line_end.unwrap_or(form.flags.len())];
    let asked = flags
        .split(|byte| *byte == b' ')
        .find(|flag| flag.first() == Some(&b'O'));
    asked.is_none_or(|opaque| text.split(|byte| *byte == b' ').any(|word| word == opaque))
}
