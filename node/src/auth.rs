//! Users and their passwords.
//!
//! Owns the file they are in: memcached's password file (`-Y`, a line `user:password` each), or for SASL (`-S`) the one
//! that MEMCACHED_SASL_PWDB names, whose lines may go on behind another colon. Who has logged in is each connection's
//! own knowledge.
//!
//! Users show who they are with their password, or with [`cram_md5`].
//!
//! The file is read again when it has changed, at the next login: it is small and in the system's memory.

mod cram_md5;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use thiserror::Error;
use tracing::warn;

use crate::config::Access;
pub(crate) use cram_md5::Challenge;

/// Names SASL's users, as it does for memcached.
const SASL_FILE: &str = "MEMCACHED_SASL_PWDB";
/// More than any list of users that is written by hand.
const MAX_FILE: u64 = 1 << 20;
/// A file that changed so recently may change again without a later time.
const CLOCK_GRAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Error)]
pub enum AuthError {
    #[error("cannot read the users in {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("line {line} of {} is not user:password", path.display())]
    Line { path: PathBuf, line: usize },
    #[error("{} is larger than {MAX_FILE} bytes, which is no list of users", path.display())]
    TooLarge { path: PathBuf },
}

/// Who may log in.
#[derive(Debug)]
pub enum Auth {
    /// Nobody needs to.
    Open,
    Users(UserFile),
    /// Users are asked for, but there is no list of them.
    Nobody,
}

impl Auth {
    /// What `access` asks for. `environment` is where SASL's file is named.
    pub fn open(
        access: &Access,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, AuthError> {
        if let Some(path) = &access.auth_file {
            let users = UserFile::new(path.clone(), false);
            // A mistake is found now, not by the first client.
            users.current()?;
            return Ok(Self::Users(users));
        }
        if !access.sasl {
            return Ok(Self::Open);
        }
        Ok(match environment(SASL_FILE) {
            Some(path) => Self::Users(UserFile::new(path.into(), true)),
            None => {
                warn!("-S: nobody can log in, because {SASL_FILE} does not name a file of users");
                Self::Nobody
            }
        })
    }

    /// Whether a connection must log in before it may do anything.
    pub fn required(&self) -> bool {
        !matches!(self, Self::Open)
    }

    /// Whether this is a user with this password.
    pub fn check(&self, user: &[u8], password: &[u8]) -> bool {
        match self {
            Self::Open => true,
            Self::Nobody => false,
            Self::Users(file) => file.current().is_ok_and(|users| users.has(user, password)),
        }
    }

    /// Whether a user has answered `challenge`.
    pub(crate) fn check_answer(&self, challenge: &Challenge, answer: &[u8]) -> bool {
        match (self, cram_md5::Answer::parse(answer)) {
            (Self::Users(file), Some(answer)) => file
                .current()
                .is_ok_and(|users| users.has_answered(challenge, answer)),
            _ => false,
        }
    }
}

/// A list of users that may change.
#[derive(Debug)]
pub struct UserFile {
    path: PathBuf,
    /// Whether something may follow the password, behind a colon.
    more_may_follow: bool,
    known: Mutex<Option<(Version, Arc<Users>)>>,
}

/// What changes with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    modified: SystemTime,
    len: u64,
}

impl Version {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            modified: metadata.modified()?,
            len: metadata.len(),
        })
    }

    fn may_change_unseen(self) -> bool {
        self.modified.elapsed().is_ok_and(|age| age < CLOCK_GRAIN)
    }
}

impl UserFile {
    fn new(path: PathBuf, more_may_follow: bool) -> Self {
        Self {
            path,
            more_may_follow,
            known: Mutex::default(),
        }
    }

    /// The users as the file has them now. What has become unreadable leaves those that were there.
    fn current(&self) -> Result<Arc<Users>, AuthError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let version = Version::of(&self.path).map_err(|source| self.unreadable(source));
        if let (Some((read, users)), Ok(version)) = (&*known, &version)
            && read == version
            && !version.may_change_unseen()
        {
            return Ok(Arc::clone(users));
        }
        match version.and_then(|version| Ok((version, Arc::new(self.read(version)?)))) {
            Ok(read) => {
                let users = Arc::clone(&read.1);
                *known = Some(read);
                Ok(users)
            }
            Err(error) => {
                warn!(%error, "the users stay as they were");
                known
                    .as_ref()
                    .map(|(_, users)| Arc::clone(users))
                    .ok_or(error)
            }
        }
    }

    fn read(&self, version: Version) -> Result<Users, AuthError> {
        if version.len > MAX_FILE {
            let path = self.path.clone();
            return Err(AuthError::TooLarge { path });
        }
        let text = fs::read(&self.path).map_err(|source| self.unreadable(source))?;
        Users::parse(&text, self.more_may_follow).map_err(|line| AuthError::Line {
            path: self.path.clone(),
            line,
        })
    }

    fn unreadable(&self, source: io::Error) -> AuthError {
        AuthError::Read {
            path: self.path.clone(),
            source,
        }
    }
}

#[derive(Debug)]
struct Login {
    user: Box<[u8]>,
    password: Box<[u8]>,
}

#[derive(Debug)]
struct Users {
    list: Vec<Login>,
    more_may_follow: bool,
}

impl Users {
    /// The users in the lines of `text`, or the number of the line that is none.
    fn parse(text: &[u8], more_may_follow: bool) -> Result<Self, usize> {
        let mut list = Vec::new();
        for (number, line) in (1_usize..).zip(text.split(|byte| *byte == b'\n')) {
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            let colon = line.iter().position(|byte| *byte == b':').ok_or(number)?;
            list.push(Login {
                user: line[..colon].into(),
                password: line[colon + 1..].into(),
            });
        }
        Ok(Self {
            list,
            more_may_follow,
        })
    }

    /// Takes as long for a wrong password as for the right one.
    fn has(&self, user: &[u8], password: &[u8]) -> bool {
        let mut found = false;
        for login in &self.list {
            found |= same(&login.user, user) & self.is(&login.password, password);
        }
        found
    }

    /// Takes as long for somebody who is no user as for a user.
    fn has_answered(&self, challenge: &Challenge, answer: cram_md5::Answer<'_>) -> bool {
        let mut stored: &[u8] = b"";
        let mut known = false;
        for login in &self.list {
            if same(&login.user, answer.user) {
                (stored, known) = (&login.password, true);
            }
        }
        let colons = memchr::memchr_iter(b':', stored).filter(|_| self.more_may_follow);
        let ends = colons.chain([stored.len()]);
        let answered = ends.fold(false, |answered, end| {
            answered | challenge.is_answered(answer, &stored[..end])
        });
        known & answered
    }

    fn is(&self, stored: &[u8], password: &[u8]) -> bool {
        match stored.get(password.len()) {
            Some(b':') if self.more_may_follow => same(&stored[..password.len()], password),
            _ => same(stored, password),
        }
    }
}

/// Whether two byte strings are the same, in a time that only their lengths decide.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(auth_file: Option<&Path>, sasl: bool) -> Access {
        Access {
            protocol: Default::default(),
            auth_file: auth_file.map(PathBuf::from),
            sasl,
            shutdown: false,
            flush_all: true,
            dump: true,
            watch: true,
        }
    }

    #[test]
    fn users_are_those_in_the_file_as_it_is_now() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("users");
        fs::write(&path, "foo:bar\nbaaaz:quux:more\r\n").expect("written");
        let auth = Auth::open(&access(Some(&path), false), |_| None).expect("users");
        assert!(auth.required());
        assert!(auth.check(b"foo", b"bar") && auth.check(b"baaaz", b"quux:more"));
        for (user, password) in [
            ("foo", "ba"),
            ("foo", "barr"),
            ("fo", "bar"),
            ("", ""),
            ("baaaz", "quux"),
        ] {
            assert!(
                !auth.check(user.as_bytes(), password.as_bytes()),
                "{user}:{password}"
            );
        }
        fs::write(&path, "new:user\n").expect("written");
        assert!(auth.check(b"new", b"user") && !auth.check(b"foo", b"bar"));
        fs::write(&path, "no user\n").expect("written");
        assert!(auth.check(b"new", b"user"), "a mistake locks nobody out");
        assert!(Auth::open(&access(Some(&path), false), |_| None).is_err());
    }

    #[test]
    fn sasl_users_may_be_written_after_the_start_and_more_may_follow_a_password() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("users");
        let named = |name: &str| (name == SASL_FILE).then(|| path.display().to_string());
        let auth = Auth::open(&access(None, true), named).expect("opened");
        assert!(auth.required() && !auth.check(b"petra", b"cached"));
        fs::write(&path, "petra:cached:x\n").expect("written");
        assert!(auth.check(b"petra", b"cached") && !auth.check(b"petra", b"cach"));
        let nobody = Auth::open(&access(None, true), |_| None).expect("opened");
        assert!(nobody.required() && !nobody.check(b"petra", b"cached"));
        let open = Auth::open(&access(None, false), |_| None).expect("opened");
        assert!(!open.required());
    }
}
