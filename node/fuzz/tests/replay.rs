//! Every property holds for every input that is known.

use petra_fuzz::{TARGETS, corpus};

#[test]
fn nothing_that_was_ever_found_is_found_again() {
    for target in TARGETS {
        let inputs = corpus::known(target.name).expect("files");
        assert!(!inputs.is_empty());
        for input in inputs {
            // Said by the test if it is the last.
            println!("{}: {}", target.name, corpus::written(&input).trim_end());
            (target.check)(&input);
        }
    }
}
