//! The target `config` of `crore-fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| crore_fuzz::fuzz("config", input));
