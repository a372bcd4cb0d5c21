//! The lab from inside a test: its machines can be entered, cut off and started again.

use std::process::Command;

/// The region that the tests run on.
pub(crate) fn region() -> String {
    std::env::var("TEST_REGION").expect("TEST_REGION: the region of the lab that is tested on")
}

/// Runs the lab's command line.
pub(crate) fn lab(arguments: &[&str]) -> String {
    let lab = concat!(env!("CARGO_MANIFEST_DIR"), "/lab/lab");
    let output = Command::new(lab).args(arguments).output().expect("a lab");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "lab {arguments:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
