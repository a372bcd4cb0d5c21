//! Corpora between their text and libFuzzer's files.

use std::path::Path;
use std::process::ExitCode;

use petra_fuzz::corpus;

const USAGE: &str = "usage: fuzz-corpus unpack TARGET DIR | pack TARGET DIR | show FILE";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["unpack", target, dir] => corpus::unpack(target, Path::new(dir)),
        ["pack", target, dir] => corpus::pack(target, Path::new(dir)),
        ["show", file] => std::fs::read(file).map(|input| print!("{}", corpus::written(&input))),
        _ => Err(std::io::Error::other(USAGE)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz-corpus: {error}");
            ExitCode::FAILURE
        }
    }
}
