//! libFuzzer's way into [`petra_fuzz`].

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| petra_fuzz::disk(input));
