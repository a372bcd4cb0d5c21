//! Random lines of the text protocol, with those of the meta protocol.

use super::{Dialect, Round};

pub(super) const DIALECT: Dialect = Dialect {
    command,
    sentinel: b"mn\r\n",
    sentinel_answer: b"MN\r\n",
};

const KEY_TOO_LONG: usize = 251;

/// One command, which leaves the server at the end of a line.
fn command(round: &mut Round) -> Vec<u8> {
    let line = match round.random.below(20) {
        0..=4 => return storage(round, &EXPTIMES),
        5..=6 => get(round, &EXPTIMES),
        7 => short(round),
        8..=11 => meta_get(round),
        12..=14 => return meta_set(round),
        15..=16 => meta_delete(round),
        17..=18 => meta_arithmetic(round),
        _ => odd_line(round),
    };
    end(round, line)
}

/// Commands with lives of two seconds or of many.
pub(super) fn timed(round: &mut Round) -> Vec<u8> {
    const SHORT_OR_LONG: [&str; 4] = ["2", "2", "100", "0"];
    let line = match round.random.below(4) {
        0 => return storage(round, &SHORT_OR_LONG),
        1 => get(round, &SHORT_OR_LONG),
        2 => {
            let (key, exptime) = (round.key(), round.random.of(&SHORT_OR_LONG));
            format!("touch {key} {exptime}").into_bytes()
        }
        _ => {
            let (key, exptime) = (round.key(), round.random.of(&SHORT_OR_LONG));
            match round.random.of(&["T", "N", "R"]) {
                // Far from what may pass meanwhile.
                "R" => format!("mg {key} v c h R50").into_bytes(),
                flag => format!("mg {key} v c h {flag}{exptime}").into_bytes(),
            }
        }
    };
    end(round, line)
}

const EXPTIMES: [&str; 12] = [
    "0",
    "0",
    "0",
    "0",
    "100",
    "1000",
    "2592000",
    "-1",
    "2592001",
    "x",
    "-",
    "99999999999999999999",
];
const FLAGS: [&str; 8] = [
    "0",
    "0",
    "5",
    "4294967295",
    "x",
    "-1",
    "+3",
    "-18446744073709551615",
];

fn end(round: &mut Round, mut line: Vec<u8>) -> Vec<u8> {
    line.extend_from_slice(if round.random.one_in(10) {
        b"\n"
    } else {
        b"\r\n"
    });
    line
}

/// A key, or now and then what is too long for one.
fn any_key(round: &mut Round) -> String {
    if round.random.one_in(60) {
        "k".repeat(KEY_TOO_LONG)
    } else {
        round.key()
    }
}

fn noreply(round: &mut Round) -> &'static str {
    round.random.of(&["", "", "", "", " noreply", " x"])
}

fn storage(round: &mut Round, exptimes: &[&str]) -> Vec<u8> {
    let name = round.random.of(&[
        "set", "set", "set", "add", "replace", "append", "prepend", "cas",
    ]);
    let data = round.random.value();
    let key = any_key(round);
    let (flags, exptime) = (round.random.of(&FLAGS), round.random.of(exptimes));
    let cas = match name {
        "cas" => format!(" {}", round.cas()),
        _ => String::new(),
    };
    let noreply = noreply(round);
    let line = format!(
        "{name} {key} {flags} {exptime} {}{cas}{noreply}",
        data.len()
    );
    let mut bytes = end(round, line.into_bytes());
    // A bad line is followed by its data, which is then taken for lines: it must be harmless ones.
    let is_good =
        key.len() < KEY_TOO_LONG && !matches!(flags, "x" | "-1") && exptime.parse::<i64>().is_ok();
    if is_good {
        bytes.extend_from_slice(&data);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn get(round: &mut Round, exptimes: &[&str]) -> Vec<u8> {
    let name = round.random.of(&["get", "gets", "gat", "gats"]);
    let mut line = name.to_owned();
    if name.starts_with("gat") {
        line.push(' ');
        line.push_str(round.random.of(exptimes));
    }
    if round.random.one_in(60) {
        return format!("{line} {}", "k".repeat(KEY_TOO_LONG)).into_bytes();
    }
    for _ in 0..=round.random.below(5) {
        line.push_str(round.random.of(&[" ", "  "]));
        line.push_str(&round.key());
    }
    line.into_bytes()
}

fn short(round: &mut Round) -> Vec<u8> {
    let key = any_key(round);
    let noreply = noreply(round);
    let delta = round
        .random
        .of(&["1", "0", "100", "1099511627776", "x", "-1"]);
    let exptime = round.random.of(&EXPTIMES);
    match round.random.below(8) {
        0 => format!("delete {key}{noreply}"),
        1 => format!(
            "delete {key} {}",
            round
                .random
                .of(&["0", "0 noreply", "0 x", "x", "x noreply"])
        ),
        2 => format!("touch {key} {exptime}{noreply}"),
        3..=4 => format!("incr {key} {delta}{noreply}"),
        5..=6 => format!("decr {key} {delta}{noreply}"),
        _ => round
            .random
            .of(&[
                "verbosity 1",
                "verbosity",
                "flush_all x",
                "delete",
                "incr a",
            ])
            .to_owned(),
    }
    .into_bytes()
}

/// The key as it is, or in base64, with the flag that says so.
fn meta_key(round: &mut Round) -> (String, &'static str) {
    match round.random.below(8) {
        0 => (
            round.random.of(&["Z", "Zm9vY", "Zm8==", "="]).to_owned(),
            " b",
        ),
        1..=2 => (base64(round.key().as_bytes()), " b"),
        _ => (any_key(round), ""),
    }
}

fn base64(data: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    data.chunks(3)
        .flat_map(|group| {
            let byte = |at| u32::from(group.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            (0..4).map(move |place| match place > group.len() {
                true => '=',
                false => char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]),
            })
        })
        .collect()
}

/// `line` with some of `flags`, and now and then one that is wrong.
fn with_flags(round: &mut Round, line: String, flags: &[String]) -> Vec<u8> {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut chosen = round.random.some_of(&flags, 6);
    if round.random.one_in(15) {
        let wrong = [
            "!", "Tx", "Fx", "Cx", "MEE", "Jx", "Dx", "N", "\x7f", "k", "q", "E5", "x", "S1",
        ];
        chosen.push(round.random.of(&wrong));
    }
    let flags = chosen.iter().map(|flag| format!(" {flag}"));
    flags.fold(line, |line, flag| line + &flag).into_bytes()
}

fn owned(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|flag| (*flag).to_owned()).collect()
}

fn meta_get(round: &mut Round) -> Vec<u8> {
    let (key, base64) = meta_key(round);
    let life = round.random.of(&["0", "30", "100", "1000"]);
    let recache = round.random.of(&["0", "60", "500", "-1"]);
    let mut flags = owned(&[
        "v", "s", "f", "c", "h", "k", "q", "u", "t", "Oab", "P", "L1", "I",
    ]);
    flags.extend([format!("R{recache}")]);
    if round.random.one_in(3) {
        flags.extend([format!("T{life}"), format!("N{life}")]);
    }
    with_flags(round, format!("mg {key}{base64}"), &flags)
}

fn meta_set(round: &mut Round) -> Vec<u8> {
    let (key, base64) = meta_key(round);
    let data = round.random.value();
    let mode = round.random.of(&["E", "A", "P", "R", "S", "S", "X"]);
    let life = round.random.of(&["0", "30", "100", "-1"]);
    let opaque = round
        .random
        .of(&["Oab", "O", "Oabcdefghijklmnopqrstuvwxyz0123456789"]);
    let cas = round.cas();
    let mut flags = owned(&["q", "k", "c", "I", "F9", opaque, "v", "t"]);
    flags.extend([format!("M{mode}"), format!("T{life}"), format!("C{cas}")]);
    let line = format!("ms {key} {}{base64}", data.len());
    let line = with_flags(round, line, &flags);
    let mut bytes = end(round, line);
    if key.len() < KEY_TOO_LONG {
        bytes.extend_from_slice(&data);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn meta_delete(round: &mut Round) -> Vec<u8> {
    let (key, base64) = meta_key(round);
    let life = round.random.of(&["0", "30", "100"]);
    let mut flags = owned(&["q", "k", "I", "I", "Oab", "v"]);
    flags.dedup();
    flags.push(format!("T{life}"));
    if round.random.one_in(3) {
        flags.push(format!("C{}", round.cas()));
    }
    with_flags(round, format!("md {key}{base64}"), &flags)
}

fn meta_arithmetic(round: &mut Round) -> Vec<u8> {
    let (key, base64) = meta_key(round);
    let mode = round.random.of(&["I", "+", "D", "-", "X"]);
    let delta = round.random.of(&["1", "0", "90", "1099511627776"]);
    let life = round.random.of(&["0", "30", "100"]);
    let mut flags = owned(&["q", "k", "v", "t", "c", "Oab", "J7"]);
    flags.extend([format!("M{mode}"), format!("D{delta}"), format!("N{life}")]);
    if round.random.one_in(4) {
        flags.push(format!("C{}", round.cas()));
    }
    with_flags(round, format!("ma {key}{base64}"), &flags)
}

/// Words in any order, of commands that wait for no data.
fn odd_line(round: &mut Round) -> Vec<u8> {
    let words = [
        "get",
        "gets",
        "gat",
        "incr",
        "decr",
        "touch",
        "mg",
        "md",
        "ma",
        "me",
        "mx",
        "0",
        "1",
        "-1",
        "noreply",
        "v",
        "t",
        "k",
        "q",
        "b",
        "",
        "\0",
        "verbosity",
        "bogus",
        "GET",
        "\t",
    ];
    let count = round.random.below(7);
    let mut line = String::new();
    for _ in 0..count {
        line.push_str(round.random.of(&words));
        line.push(' ');
    }
    line.into_bytes()
}

/// Lines that announce more or less data than there is, and words in any order.
pub(super) fn broken(round: &mut Round) -> Vec<u8> {
    let key = round.key();
    let len = round.random.of(&[
        "0",
        "1",
        "2",
        "5",
        "30",
        "-1",
        "x",
        "2147483645x",
        "2147483646",
        "99999999999999999999",
    ]);
    let noreply = noreply(round);
    let line = match round.random.below(9) {
        0 => format!("set {key} 0 0 {len}{noreply}"),
        1 => format!("add {key} 1 0 {len}{noreply}"),
        2 => format!("append {key} 1 0 {len}{noreply}"),
        3 => format!("cas {key} 1 0 {len} {}{noreply}", round.cas()),
        4 => format!("ms {key} {len} q c"),
        5 => format!("ms {key} {len} !"),
        6 => format!("ms {key} {len} T0 S"),
        7 => format!("get {key} {key}"),
        _ => return odd_line(round),
    };
    let mut bytes = end(round, line.into_bytes());
    let data_len = round.random.below(8);
    bytes.extend_from_slice(&round.random.bytes(data_len));
    bytes.extend_from_slice(round.random.of(&[&b"\r\n"[..], b"\n", b"", b"\r\n\r\n"]));
    bytes
}
