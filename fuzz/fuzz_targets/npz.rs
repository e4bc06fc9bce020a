//! Any bytes as a file of the format npz: arrays or an error, never a panic, and no memory for what is not there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    drop(salient_io::decode_npz(Cursor::new(bytes)));
    drop(salient_io::decode_contents(Cursor::new(bytes), "a"));
});
