//! Any bytes as the text of a plan: see `salient_tests::fuzz`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| salient_tests::fuzz::plan(bytes));
