//! Any bytes as a GGUF file: see `salient_tests::fuzz`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| salient_tests::fuzz::gguf(bytes));
