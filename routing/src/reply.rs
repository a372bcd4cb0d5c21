//! Replies: what a server or a route answers, how bad it is, and its ASCII form.

use crate::request::{Kind, Operation, Request};

/// The result of a request, by mcrouter's names (`carbon::Result`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A hit.
    Found,
    /// A miss.
    NotFound,
    /// A miss for which somebody else holds the lease.
    NotFoundHot,
    /// Stored, also the answer of incr and decr.
    Stored,
    /// A lease-set that came too late.
    StaleStored,
    /// The condition of add, replace, append or prepend did not hold.
    NotStored,
    /// cas: changed since.
    Exists,
    /// Deleted.
    Deleted,
    /// Touched.
    Touched,
    /// The connection was open, the answer did not come.
    Timeout,
    /// The connection did not open in time.
    ConnectTimeout,
    /// The connection was refused.
    ConnectError,
    /// `SERVER_ERROR 307 busy`.
    Busy,
    /// Not asked: the server is known to be down.
    Tko,
    /// Any other `SERVER_ERROR`.
    RemoteError,
    /// The router itself could not.
    LocalError,
    /// `CLIENT_ERROR`.
    ClientError,
}

impl Outcome {
    /// Order of badness; `AllSyncRoute` answers the worst (`resultSeverity` in `McResUtil.h`, where TOUCHED is missing
    /// and so is the worst of all).
    pub(crate) const fn severity(self) -> u8 {
        match self {
            Self::Stored | Self::StaleStored | Self::Exists | Self::Deleted | Self::Found => 1,
            Self::NotFound | Self::NotStored => 4,
            Self::Timeout | Self::ConnectTimeout | Self::ConnectError | Self::Busy | Self::Tko => 5,
            Self::RemoteError => 7,
            Self::LocalError => 8,
            Self::ClientError => 9,
            Self::Touched | Self::NotFoundHot => 10,
        }
    }

    /// Whether the server had the key (`isHitResult`).
    pub const fn is_hit(self) -> bool {
        matches!(self, Self::Found | Self::Deleted | Self::Touched)
    }

    /// Whether a `FailoverRoute` without `failover_errors` tries its next child (`isFailoverErrorResult`).
    pub const fn is_server_error(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::ConnectTimeout
                | Self::ConnectError
                | Self::Busy
                | Self::Tko
                | Self::RemoteError
                | Self::LocalError
        )
    }

    /// Whether nothing was asked: the server is down or known to be.
    pub(crate) const fn is_knocked_out(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::ConnectError | Self::Tko)
    }

    /// The name that `failover_errors` uses, for errors.
    pub const fn error_name(self) -> Option<&'static str> {
        Some(match self {
            Self::Timeout => "timeout",
            Self::ConnectTimeout => "connect_timeout",
            Self::ConnectError => "connect_error",
            Self::Busy => "busy",
            Self::Tko => "tko",
            Self::RemoteError => "remote_error",
            Self::LocalError => "local_error",
            Self::ClientError => "client_error",
            _ => return None,
        })
    }
}

/// An answer. Fields that the operation does not answer are 0 or empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// How it went.
    pub outcome: Outcome,
    /// Of a hit.
    pub flags: u64,
    /// The unique number of gets and gats, the token of lease-get, the new number of incr and decr.
    pub number: u64,
    /// Of metaget: Unix time, 0 for never.
    pub exptime: i64,
    /// Of a hit.
    pub value: Vec<u8>,
    /// Of an error: what a client is told after `SERVER_ERROR` or `CLIENT_ERROR`; of metaget: the server's line.
    pub message: String,
}

/// What the bytes of a server's answer are so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// The answer is not complete.
    Incomplete,
    /// The answer, and how many bytes it took.
    Reply(Reply, usize),
    /// Not an answer to this operation: the connection cannot be used any more.
    Nonsense,
}

impl Reply {
    /// A reply with nothing but its outcome.
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            flags: 0,
            number: 0,
            exptime: 0,
            value: Vec::new(),
            message: String::new(),
        }
    }

    /// An error, with what the client is told.
    pub fn error(outcome: Outcome, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::new(outcome)
        }
    }

    /// What a route without servers answers (`createReply(DefaultReply, ...)`).
    pub(crate) fn default_for(operation: Operation) -> Self {
        let counts = matches!(
            operation,
            Operation::Incr | Operation::Decr | Operation::Touch
        );
        let outcome = if operation.kind() == Kind::Update && !counts {
            Outcome::NotStored
        } else {
            Outcome::NotFound
        };
        Self::new(outcome)
    }

    /// The answer to `request` as a client of the router sees it. A get's `END` is left out, because the answers for
    /// several keys share one.
    pub fn to_bytes(&self, request: &Request) -> Vec<u8> {
        let (key, operation) = (&request.key[..], request.operation);
        let line = |text: &str| format!("{text}\r\n").into_bytes();
        match self.outcome {
            Outcome::Found if operation == Operation::Metaget => line(&self.message),
            Outcome::Found => self.value_bytes(key, operation),
            Outcome::NotFound | Outcome::NotFoundHot if operation == Operation::LeaseGet => {
                let header = format!(" {} {} {}\r\n", self.number, self.flags, self.value.len());
                [b"LVALUE ", key, header.as_bytes(), &self.value, b"\r\n"].concat()
            }
            Outcome::NotFound | Outcome::NotFoundHot if operation.kind() == Kind::Get => Vec::new(),
            Outcome::NotFound | Outcome::NotFoundHot => line("NOT_FOUND"),
            Outcome::Stored if matches!(operation, Operation::Incr | Operation::Decr) => {
                line(&self.number.to_string())
            }
            Outcome::Stored => line("STORED"),
            Outcome::StaleStored => line("STALE_STORED"),
            Outcome::NotStored => line("NOT_STORED"),
            Outcome::Exists => line("EXISTS"),
            Outcome::Deleted => line("DELETED"),
            Outcome::Touched => line("TOUCHED"),
            Outcome::ClientError => line(&format!("CLIENT_ERROR {}", self.message)),
            _ => line(&format!("SERVER_ERROR {}", self.message)),
        }
    }

    fn value_bytes(&self, key: &[u8], operation: Operation) -> Vec<u8> {
        let cas = match operation {
            Operation::Gets | Operation::Gats => format!(" {}", self.number),
            _ => String::new(),
        };
        let header = format!(" {} {}{cas}\r\n", self.flags, self.value.len());
        [b"VALUE ", key, header.as_bytes(), &self.value, b"\r\n"].concat()
    }

    /// Reads a server's answer to `operation`.
    pub fn parse(operation: Operation, bytes: &[u8]) -> Parsed {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return Parsed::Incomplete;
        };
        let line = String::from_utf8_lossy(&bytes[..end]);
        let line = line.trim_end_matches('\r');
        let rest = &bytes[end + 1..];
        let whole = |reply| Parsed::Reply(reply, end + 1);
        if let Some(message) = line.strip_prefix("SERVER_ERROR ") {
            let busy = message.starts_with("307 ");
            let outcome = if busy {
                Outcome::Busy
            } else {
                Outcome::RemoteError
            };
            return whole(Self::error(outcome, message));
        }
        if let Some(message) = line.strip_prefix("CLIENT_ERROR ") {
            return whole(Self::error(Outcome::ClientError, message));
        }
        match operation.kind() {
            Kind::Get => parse_read(line, rest, end + 1),
            Kind::Update | Kind::Delete => match word(operation, line) {
                Some(reply) => whole(reply),
                None => Parsed::Nonsense,
            },
        }
    }
}

fn word(operation: Operation, line: &str) -> Option<Reply> {
    let counts = matches!(operation, Operation::Incr | Operation::Decr);
    Some(Reply::new(match line {
        "STORED" => Outcome::Stored,
        "STALE_STORED" => Outcome::StaleStored,
        "NOT_STORED" => Outcome::NotStored,
        "EXISTS" => Outcome::Exists,
        "NOT_FOUND" => Outcome::NotFound,
        "DELETED" => Outcome::Deleted,
        "TOUCHED" => Outcome::Touched,
        number if counts => {
            return Some(Reply {
                number: number.trim_end().parse().ok()?,
                ..Reply::new(Outcome::Stored)
            });
        }
        _ => return None,
    }))
}

/// The answer of a read: nothing, `VALUE`, `LVALUE` or `META`, then `END`.
fn parse_read(line: &str, rest: &[u8], taken: usize) -> Parsed {
    let words: Vec<&str> = line.split(' ').collect();
    let reply = match words[..] {
        ["END"] => return Parsed::Reply(Reply::new(Outcome::NotFound), taken),
        ["META", ..] => {
            let exptime = line
                .split("exptime: ")
                .nth(1)
                .and_then(|rest| rest.split(';').next())
                .and_then(|number| number.parse().ok());
            let Some(exptime) = exptime else {
                return Parsed::Nonsense;
            };
            Some((
                Reply {
                    exptime,
                    ..Reply::error(Outcome::Found, line)
                },
                0,
            ))
        }
        ["VALUE", _, flags, length] => value(Outcome::Found, "0", flags, length),
        ["VALUE", _, flags, length, cas] => value(Outcome::Found, cas, flags, length),
        ["LVALUE", _, token, flags, length] => value(Outcome::NotFound, token, flags, length),
        _ => None,
    };
    let Some((mut reply, length)) = reply else {
        return Parsed::Nonsense;
    };
    let has_data = reply.message.is_empty();
    let data_end = if has_data { length + 2 } else { 0 };
    let Some(tail) = rest.get(data_end..) else {
        return Parsed::Incomplete;
    };
    if has_data {
        reply.value = rest[..length].to_vec();
    }
    let end = if tail.starts_with(b"END\r\n") { 5 } else { 4 };
    if tail.starts_with(b"END\r\n") || tail.starts_with(b"END\n") {
        Parsed::Reply(reply, taken + data_end + end)
    } else if b"END\r\n".starts_with(tail) {
        Parsed::Incomplete
    } else {
        Parsed::Nonsense
    }
}

fn value(outcome: Outcome, number: &str, flags: &str, length: &str) -> Option<(Reply, usize)> {
    // Two bytes for the line end must not overflow.
    let length = length
        .parse::<usize>()
        .ok()
        .filter(|length| *length < usize::MAX / 2)?;
    let reply = Reply {
        flags: flags.parse().ok()?,
        number: number.parse().ok()?,
        ..Reply::new(outcome)
    };
    Some((reply, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_incomplete_until_their_last_byte() {
        for (operation, answer) in [
            (Operation::Get, "VALUE a 1 2\r\n10\r\nEND\r\n"),
            (Operation::Gets, "VALUE a 1 2 9\r\n10\r\nEND\r\n"),
            (Operation::Get, "END\r\n"),
            (
                Operation::Metaget,
                "META a age: 3; exptime: 99; from: unknown\r\nEND\r\n",
            ),
            (Operation::LeaseGet, "LVALUE a 7 0 0\r\n\r\nEND\r\n"),
            (Operation::Incr, "15\r\n"),
            (Operation::Set, "STORED\r\n"),
            (Operation::Delete, "SERVER_ERROR 307 busy\r\n"),
        ] {
            for end in 0..answer.len() {
                let parsed = Reply::parse(operation, &answer.as_bytes()[..end]);
                assert_eq!(parsed, Parsed::Incomplete, "{answer:?} up to {end}");
            }
            let Parsed::Reply(_, taken) = Reply::parse(operation, answer.as_bytes()) else {
                panic!("{answer:?} was not understood");
            };
            assert_eq!(taken, answer.len());
        }
    }

    #[test]
    fn an_answer_that_is_none_is_nonsense() {
        for (operation, answer) in [
            (Operation::Get, "ERROR\r\n"),
            (Operation::Set, "ERROR\r\n"),
            (Operation::Incr, "many\r\n"),
            (Operation::Get, "VALUE a 1 18446744073709551615\r\n"),
        ] {
            assert_eq!(
                Reply::parse(operation, answer.as_bytes()),
                Parsed::Nonsense,
                "{answer}"
            );
        }
    }

    #[test]
    fn busy_is_told_from_other_errors() {
        let busy = Reply::parse(Operation::Get, b"SERVER_ERROR 307 busy\r\n");
        assert!(matches!(
            busy,
            Parsed::Reply(
                Reply {
                    outcome: Outcome::Busy,
                    ..
                },
                _
            )
        ));
        let other = Reply::parse(Operation::Get, b"SERVER_ERROR out of memory\r\n");
        assert!(matches!(
            other,
            Parsed::Reply(
                Reply {
                    outcome: Outcome::RemoteError,
                    ..
                },
                _
            )
        ));
    }
}
