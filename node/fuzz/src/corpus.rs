//! Inputs that are known.
//!
//! Owns where they come from and how they are written: one a line, in the notation of the transcripts, so that a corpus
//! can be read and reviewed.
//!
//! - `corpus/TARGET.txt`: few inputs that reach as much as all that were ever tried; written by `run.sh --merge`
//! - `regressions/TARGET.txt`: inputs that failed once, each under a remark (`#`) that says what was wrong
//! - `../tests/transcripts/`: conversations that memcached has agreed to

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[expect(dead_code, reason = "answers are read by the tests that have the file")]
#[path = "../../tests/node/frames.rs"]
mod frames;
#[path = "../../tests/node/notation.rs"]
mod notation;

/// Longer inputs are slower and reach no more.
pub const MAX_LEN: usize = 4096;

/// Everything that is known for a target.
pub fn known(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let mut inputs = transcripts()?;
    inputs.extend(listed(&file("corpus", target))?);
    inputs.extend(listed(&file("regressions", target))?);
    Ok(inputs)
}

/// Writes every known input into a file of its own below `dir`, for libFuzzer.
pub fn unpack(target: &str, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for (number, input) in known(target)?.iter().enumerate() {
        fs::write(dir.join(number.to_string()), input)?;
    }
    Ok(())
}

/// Makes the files below `dir` the corpus.
pub fn pack(target: &str, dir: &Path) -> io::Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir)? {
        lines.push(written(&fs::read(entry?.path())?));
    }
    lines.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    fs::write(file("corpus", target), lines.concat())
}

/// An input as a line.
pub fn written(input: &[u8]) -> String {
    let mut line = String::new();
    for byte in input {
        match byte {
            // Those that mean something where the input is read.
            b'{' | b'#' => {
                // Writing into memory cannot fail.
                let _ = write!(line, "\\x{byte:02x}");
            }
            b'"' | b'\'' => line.push(char::from(*byte)),
            byte => line.extend(byte.escape_ascii().map(char::from)),
        }
    }
    line.push('\n');
    line
}

fn file(folder: &str, target: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.join(folder).join(target).with_extension("txt")
}

fn listed(path: &Path) -> io::Result<Vec<Vec<u8>>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        // Nothing has failed yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let inputs = text.lines().filter(|line| !line.starts_with('#'));
    Ok(inputs.map(notation::bytes).collect())
}

/// What the clients of the transcripts send: all of a connection, and each stretch between remarks and empty lines.
fn transcripts() -> io::Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/transcripts");
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        for connection in text.split("! connect") {
            inputs.push(sent(connection.lines()));
            let lines: Vec<_> = connection.lines().collect();
            let stretches = lines.split(|line| line.is_empty() || line.starts_with('#'));
            inputs.extend(stretches.map(|lines| sent(lines.iter().copied())));
        }
    }
    inputs.retain(|input| (1..=MAX_LEN).contains(&input.len()));
    inputs.sort();
    inputs.dedup();
    Ok(inputs)
}

fn sent<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut input = Vec::new();
    for line in lines {
        match line.split_once(' ').unwrap_or((line, "")) {
            (">", text) => input.extend([&notation::bytes(text)[..], b"\r\n"].concat()),
            (">>", text) => input.extend(notation::bytes(text)),
            (">b", text) => input.extend(frames::request(text, notation::bytes)),
            _ => {}
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_input_is_read_as_it_was_written() {
        let all: Vec<u8> = (0..=255).collect();
        for input in [&all[..], b"", b"#{a*3}\\x\r\n'\""] {
            let line = written(input);
            let text = line.strip_suffix('\n').expect("a line");
            assert!(!text.starts_with('#') && !text.contains('\n'));
            assert_eq!(notation::bytes(text), input);
        }
    }

    #[test]
    fn transcripts_have_conversations_of_every_protocol() {
        let inputs = transcripts().expect("files");
        for start in [&b"set "[..], b"mg ", b"\x80"] {
            assert!(inputs.iter().any(|input| input.starts_with(start)));
        }
    }
}
