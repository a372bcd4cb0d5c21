//! The process itself: its user, whether it runs in the background, and its number in a file.
//!
//! Owns what must happen before there is a second thread. A process cannot be split or given to another user later
//! without risk, so both are done by starting the program anew: with the same arguments, in the place of this process
//! for another user (`-u`), or beside it for the background (`-d`).

mod user;

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getuid, setrlimit, setsid};
use thiserror::Error;
use tracing::warn;

use crate::config::Config;
use crate::config::flags::MemcachedFlags;
use crate::descriptors;
use crate::store;
use user::User;
pub use user::UserError;

/// Set for the process that runs in the background. It says on its standard output when it serves.
const DETACHED: &str = "PETRACACHE_DETACHED";
const READY: &[u8] = b"ready";

#[derive(Debug, Error)]
pub enum ProcessError {
    #[error(transparent)]
    User(#[from] UserError),
    #[error("cannot start the program again as {user}: {source}")]
    Become { user: String, source: io::Error },
    #[error("cannot make the database directory {} for {user}: {source}", path.display())]
    Directory {
        path: PathBuf,
        user: String,
        source: io::Error,
    },
    #[error("cannot go to the background: {0}")]
    Detach(io::Error),
    #[error("cannot write the process's number to {}: {source}", path.display())]
    PidFile { path: PathBuf, source: io::Error },
}

/// What becomes of this process.
pub enum Role {
    /// It serves.
    Serve(Process),
    /// Another one serves in the background, or has failed to.
    Done(ExitCode),
}

/// The process that serves.
pub struct Process {
    pid_file: Option<PathBuf>,
    detached: bool,
    /// Whether the log goes on after the process has left its terminal.
    keep_log: bool,
}

/// Does what memcached's flags say about the process. To be called before any thread is started.
pub fn prepare(
    flags: &MemcachedFlags,
    config: &Config,
    verbose: bool,
) -> Result<Role, ProcessError> {
    if flags.enable_coredumps {
        allow_core_dumps();
    }
    change_user(flags, config)?;
    let detached = env::var_os(DETACHED).is_some();
    if flags.daemon && !detached {
        return Ok(Role::Done(serve_in_background()?));
    }
    if detached {
        setsid().map_err(|error| ProcessError::Detach(error.into()))?;
    }
    if flags.lock_memory
        && let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
    {
        // As memcached: it goes on without.
        warn!(%error, "-k: memory cannot be locked");
    }
    if let Some(path) = &flags.pidfile {
        write_pid_file(path)?;
    }
    Ok(Role::Serve(Process {
        pid_file: flags.pidfile.clone(),
        detached,
        keep_log: verbose,
    }))
}

impl Process {
    /// Tells whoever started the process that it serves.
    pub fn ready(&self) {
        if self.detached
            && let Err(error) = self.leave_terminal()
        {
            warn!(%error, "the process is still tied to its terminal");
        }
    }

    fn leave_terminal(&self) -> io::Result<()> {
        io::stdout().write_all(READY)?;
        io::stdout().flush()?;
        let null = fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        if !self.keep_log {
            rustix::stdio::dup2_stderr(&null)?;
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(path) = &self.pid_file {
            // It may have been removed by somebody else.
            let _ = fs::remove_file(path);
        }
    }
}

/// Starts the program again in this place, if it runs as root and shall not.
fn change_user(flags: &MemcachedFlags, config: &Config) -> Result<(), ProcessError> {
    if !getuid().is_root() {
        // As memcached: only root can become somebody else.
        return Ok(());
    }
    let Some(name) = &flags.user else {
        return Ok(());
    };
    let user = User::find(name)?;
    if user.uid == 0 {
        return Ok(());
    }
    make_directory(&config.storage.db_path, name, &user)?;
    descriptors::make_room(config.max_connections, store::MAX_OPEN_FILES);
    let source = this_program()
        .and_then(|mut program| Err(program.uid(user.uid).gid(user.gid).exec()))
        .unwrap_or_else(|error: io::Error| error);
    Err(ProcessError::Become {
        user: name.clone(),
        source,
    })
}

/// A new database is the user's own.
fn make_directory(path: &Path, name: &str, user: &User) -> Result<(), ProcessError> {
    if path.exists() {
        return Ok(());
    }
    fs::create_dir_all(path)
        .and_then(|()| std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)))
        .map_err(|source| ProcessError::Directory {
            path: path.to_path_buf(),
            user: name.to_owned(),
            source,
        })
}

/// Returns when the process in the background serves, or has ended.
fn serve_in_background() -> Result<ExitCode, ProcessError> {
    let mut child = start_detached().map_err(ProcessError::Detach)?;
    let mut said = Vec::new();
    if let Some(stdout) = &mut child.stdout {
        stdout
            .take(READY.len() as u64)
            .read_to_end(&mut said)
            .map_err(ProcessError::Detach)?;
    }
    if said == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(ProcessError::Detach)?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

fn start_detached() -> io::Result<Child> {
    this_program()?
        .env(DETACHED, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
}

fn this_program() -> io::Result<Command> {
    // The link works also for a user who may not look into the program's directory.
    let path = match cfg!(target_os = "linux") {
        true => PathBuf::from("/proc/self/exe"),
        false => env::current_exe()?,
    };
    let mut program = Command::new(path);
    if let Some(name) = env::args_os().next() {
        program.arg0(name);
    }
    program.args(env::args_os().skip(1));
    Ok(program)
}

fn allow_core_dumps() {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let hard = rustix::process::getrlimit(Resource::Core).maximum;
    let allowed = Rlimit {
        current: hard,
        maximum: hard,
    };
    if setrlimit(Resource::Core, unlimited).is_err()
        && let Err(error) = setrlimit(Resource::Core, allowed)
    {
        warn!(%error, "-r: core dumps cannot be allowed");
    }
}

fn write_pid_file(path: &Path) -> Result<(), ProcessError> {
    fs::write(path, format!("{}\n", std::process::id())).map_err(|source| ProcessError::PidFile {
        path: path.to_path_buf(),
        source,
    })
}
