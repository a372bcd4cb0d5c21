//! Requests as mcrouter sends them to a server, one key each, and their ASCII form.

use std::fmt;

/// What is asked of a server. The names are those of the protocol and of `operation_policies`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// `get <key>`
    Get,
    /// `gets <key>`
    Gets,
    /// `gat <exptime> <key>`
    Gat,
    /// `gats <exptime> <key>`
    Gats,
    /// `metaget <key>`
    Metaget,
    /// `lease-get <key>`
    LeaseGet,
    /// `lease-set <key> <token> <flags> <exptime> <bytes>`
    LeaseSet,
    /// `set <key> <flags> <exptime> <bytes>`
    Set,
    /// `add`, like `set`
    Add,
    /// `replace`, like `set`
    Replace,
    /// `append`, like `set`
    Append,
    /// `prepend`, like `set`
    Prepend,
    /// `cas <key> <flags> <exptime> <bytes> <cas>`
    Cas,
    /// `incr <key> <delta>`
    Incr,
    /// `decr <key> <delta>`
    Decr,
    /// `delete <key>`
    Delete,
    /// `touch <key> <exptime>`
    Touch,
}

/// How `failover_errors` and `MissFailoverRoute` tell operations apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads, with or without a new expiration time.
    Get,
    /// Everything that writes but does not delete.
    Update,
    /// delete.
    Delete,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 17] = [
        Self::Get,
        Self::Gets,
        Self::Gat,
        Self::Gats,
        Self::Metaget,
        Self::LeaseGet,
        Self::LeaseSet,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::Cas,
        Self::Incr,
        Self::Decr,
        Self::Delete,
        Self::Touch,
    ];

    /// The operation's name, `lease-get` for one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Gets => "gets",
            Self::Gat => "gat",
            Self::Gats => "gats",
            Self::Metaget => "metaget",
            Self::LeaseGet => "lease-get",
            Self::LeaseSet => "lease-set",
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Cas => "cas",
            Self::Incr => "incr",
            Self::Decr => "decr",
            Self::Delete => "delete",
            Self::Touch => "touch",
        }
    }

    /// The operation of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }

    /// Whether it reads, writes or deletes.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Get | Self::Gets | Self::Gat | Self::Gats | Self::Metaget | Self::LeaseGet => {
                Kind::Get
            }
            Self::Delete => Kind::Delete,
            _ => Kind::Update,
        }
    }

    /// Whether a data block follows the request's line.
    pub const fn has_value(self) -> bool {
        matches!(
            self,
            Self::LeaseSet
                | Self::Set
                | Self::Add
                | Self::Replace
                | Self::Append
                | Self::Prepend
                | Self::Cas
        )
    }

    const fn has_exptime(self) -> bool {
        self.has_value() || matches!(self, Self::Gat | Self::Gats | Self::Touch)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request for one key. Fields that the operation does not have are 0 or empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub operation: Operation,
    /// Of which key, with its routing prefix if it has one.
    pub key: Vec<u8>,
    /// The client's flags; 64 bits in mcrouter.
    pub flags: u64,
    /// Seconds; negative, relative or a Unix time, as memcached has it.
    pub exptime: i64,
    /// Of incr and decr.
    pub delta: u64,
    /// The unique number of cas, or the token of lease-set.
    pub cas: u64,
    /// The data block.
    pub value: Vec<u8>,
}

/// A request's line, and how long its data block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine {
    /// One request per key: a get of many keys is that many requests. Values are still empty.
    pub requests: Vec<Request>,
    /// Bytes of the data block without its line end, for operations that have one.
    pub value_length: Option<usize>,
    /// Whether the client wants no answer.
    pub noreply: bool,
}

/// A line that is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed request")]
pub struct Malformed;

impl Request {
    /// A request without flags, expiration time, number or value.
    pub fn new(operation: Operation, key: impl Into<Vec<u8>>) -> Self {
        Self {
            operation,
            key: key.into(),
            flags: 0,
            exptime: 0,
            delta: 0,
            cas: 0,
            value: Vec::new(),
        }
    }

    /// The same request with another expiration time; unchanged when it has none.
    pub(crate) fn with_exptime(&self, exptime: i64) -> Self {
        let mut request = self.clone();
        if self.operation.has_exptime() {
            request.exptime = exptime;
        }
        request
    }

    /// The expiration time, if the operation has one.
    pub(crate) fn exptime(&self) -> Option<i64> {
        self.operation.has_exptime().then_some(self.exptime)
    }

    /// The line that a server is sent, without line end and data block.
    pub fn line(&self) -> String {
        let key = String::from_utf8_lossy(&self.key);
        let Self {
            operation,
            flags,
            exptime,
            delta,
            cas,
            ..
        } = self;
        let length = self.value.len();
        match operation {
            Operation::Get
            | Operation::Gets
            | Operation::Metaget
            | Operation::LeaseGet
            | Operation::Delete => format!("{operation} {key}"),
            Operation::Gat | Operation::Gats => format!("{operation} {exptime} {key}"),
            Operation::Touch => format!("{operation} {key} {exptime}"),
            Operation::Incr | Operation::Decr => format!("{operation} {key} {delta}"),
            Operation::Cas => format!("{operation} {key} {flags} {exptime} {length} {cas}"),
            Operation::LeaseSet => format!("{operation} {key} {cas} {flags} {exptime} {length}"),
            _ => format!("{operation} {key} {flags} {exptime} {length}"),
        }
    }

    /// Everything that a server is sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        // The line is rebuilt around the key's bytes, which need not be UTF-8.
        let line = self.line();
        let lossy = String::from_utf8_lossy(&self.key);
        let mut bytes = match line.split_once(lossy.as_ref()) {
            Some((before, after)) => [before.as_bytes(), &self.key, after.as_bytes()].concat(),
            None => line.into_bytes(),
        };
        bytes.extend_from_slice(b"\r\n");
        if self.operation.has_value() {
            bytes.extend_from_slice(&self.value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    /// Reads a client's line, without its line end.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for anything but a known operation, in lower case, with the arguments it takes.
    pub fn parse_line(line: &[u8]) -> Result<RequestLine, Malformed> {
        let mut words = line
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        let operation = words
            .next()
            .and_then(|word| std::str::from_utf8(word).ok())
            .and_then(Operation::from_name)
            .ok_or(Malformed)?;
        let mut words: Vec<&[u8]> = words.collect();
        let noreply = words.last() == Some(&&b"noreply"[..]) && operation.kind() != Kind::Get;
        if noreply {
            words.pop();
        }
        let requests = parse_arguments(operation, &words)?;
        let value_length = match (operation.has_value(), operation) {
            (false, _) => None,
            (true, Operation::LeaseSet) => Some(number(words[4])?),
            (true, _) => Some(number(words[3])?),
        };
        Ok(RequestLine {
            requests,
            value_length,
            noreply,
        })
    }
}

fn parse_arguments(operation: Operation, words: &[&[u8]]) -> Result<Vec<Request>, Malformed> {
    let keyed = |key: &[u8]| Request::new(operation, key);
    Ok(match (operation, words) {
        (Operation::Get | Operation::Gets, [_, ..]) => words.iter().map(|key| keyed(key)).collect(),
        (Operation::Gat | Operation::Gats, [exptime, keys @ ..]) if !keys.is_empty() => {
            let exptime = number(exptime)?;
            keys.iter()
                .map(|key| Request {
                    exptime,
                    ..keyed(key)
                })
                .collect()
        }
        (Operation::Metaget | Operation::LeaseGet | Operation::Delete, [key]) => vec![keyed(key)],
        (Operation::Delete, [key, _exptime]) => vec![keyed(key)],
        (Operation::Touch, [key, exptime]) => {
            vec![Request {
                exptime: number(exptime)?,
                ..keyed(key)
            }]
        }
        (Operation::Incr | Operation::Decr, [key, delta]) => {
            vec![Request {
                delta: number(delta)?,
                ..keyed(key)
            }]
        }
        (Operation::Cas, [key, flags, exptime, _length, cas]) => vec![Request {
            flags: number(flags)?,
            exptime: number(exptime)?,
            cas: number(cas)?,
            ..keyed(key)
        }],
        (Operation::LeaseSet, [key, token, flags, exptime, _length]) => vec![Request {
            cas: number(token)?,
            flags: number(flags)?,
            exptime: number(exptime)?,
            ..keyed(key)
        }],
        (
            Operation::Set
            | Operation::Add
            | Operation::Replace
            | Operation::Append
            | Operation::Prepend,
            [key, flags, exptime, _length],
        ) => vec![Request {
            flags: number(flags)?,
            exptime: number(exptime)?,
            ..keyed(key)
        }],
        _ => return Err(Malformed),
    })
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Result<T, Malformed> {
    std::str::from_utf8(word)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_was_read() {
        for line in [
            "get a",
            "gats 30 a",
            "lease-set a 7 1 60 2",
            "cas a 3 60 2 9",
            "incr a 5",
            "touch a -1",
            "delete a",
            "set a 3 60 2",
        ] {
            let parsed = Request::parse_line(line.as_bytes()).unwrap();
            let mut request = parsed.requests[0].clone();
            request.value = vec![b'x'; parsed.value_length.unwrap_or(0)];
            assert_eq!(request.line(), line);
        }
    }

    #[test]
    fn a_get_of_many_keys_is_many_requests() {
        let parsed = Request::parse_line(b"get a b c").unwrap();
        assert_eq!(parsed.requests.len(), 3);
        assert_eq!(parsed.requests[2].key, b"c");
    }

    #[test]
    fn noreply_is_not_a_key() {
        assert!(Request::parse_line(b"delete a noreply").unwrap().noreply);
        assert!(!Request::parse_line(b"get noreply").unwrap().noreply);
    }

    #[test]
    fn what_is_no_request_is_malformed() {
        for line in [
            "",
            "mg a",
            "GET a",
            "get",
            "set a 1 2",
            "incr a x",
            "cas a 0 0 1",
        ] {
            assert_eq!(
                Request::parse_line(line.as_bytes()),
                Err(Malformed),
                "{line}"
            );
        }
    }
}
