//! Users of this machine.
//!
//! Owns reading /etc/passwd. Users that are known only elsewhere, in LDAP for one, are named by their numbers.

use std::fs;
use std::io;

use thiserror::Error;

const PASSWD: &str = "/etc/passwd";

#[derive(Debug, Error)]
pub enum UserError {
    #[error("cannot find the user {name}: {PASSWD}: {source}")]
    Read { name: String, source: io::Error },
    #[error("there is no user {0} in {PASSWD}; -u takes a name, or numbers as UID:GID")]
    Unknown(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// The user of this name, or with these numbers.
    pub(super) fn find(name: &str) -> Result<Self, UserError> {
        if let Some((uid, gid)) = name.split_once(':')
            && let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse())
        {
            return Ok(Self { uid, gid });
        }
        let passwd = fs::read_to_string(PASSWD).map_err(|source| UserError::Read {
            name: name.to_owned(),
            source,
        })?;
        Self::in_passwd(&passwd, name).ok_or_else(|| UserError::Unknown(name.to_owned()))
    }

    fn in_passwd(passwd: &str, name: &str) -> Option<Self> {
        passwd.lines().find_map(|line| {
            let mut fields = line.split(':');
            if fields.next()? != name {
                return None;
            }
            let mut numbers = fields.skip(1).map(str::parse);
            Some(Self {
                uid: numbers.next()?.ok()?,
                gid: numbers.next()?.ok()?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_numbers() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\n# broken\nnobody:x:65534:65533::/:/bin/false\n";
        let nobody = User {
            uid: 65534,
            gid: 65533,
        };
        assert_eq!(User::in_passwd(passwd, "nobody"), Some(nobody));
        assert_eq!(User::in_passwd(passwd, "nob"), None);
        assert_eq!(User::find("65534:65533").expect("numbers"), nobody);
    }
}
