//! Opens a store from arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| crore_conformance::fuzz::recover(input));
