//! Runs the program as a user does and looks at what comes back. Paths are relative to the project's root.
#![allow(dead_code, reason = "not every group of tests uses all of it")]

pub(crate) mod document;
pub(crate) mod editor;

use salient::{Array, Arrays};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a call left behind.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Calls the program.
pub(crate) fn salient(args: &[&str]) -> Ended {
    salient_with(&[], args)
}

/// Calls the program with variables of the environment. The user's own tuning is not read unless they say so.
pub(crate) fn salient_with(variables: &[(&str, &str)], args: &[&str]) -> Ended {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_salient"))
        .args(args)
        .current_dir(root)
        .env_remove("RUST_BACKTRACE")
        .env_remove("COLUMNS")
        .env("SALIENT_TUNING", "default")
        .envs(variables.iter().copied())
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program speaks UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Calls the program with words separated by blanks and lines on its standard input.
pub(crate) fn told(line: &str, input: &str) -> Ended {
    told_bytes(line, input.as_bytes())
}

/// Calls the program with words separated by blanks and bytes on its standard input.
pub(crate) fn told_bytes(line: &str, input: &[u8]) -> Ended {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut child = Command::new(env!("CARGO_BIN_EXE_salient"))
        .args(line.split_whitespace())
        .current_dir(root)
        .env_remove("COLUMNS")
        .env("SALIENT_TUNING", "default")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("it has a standard input");
    stdin.write_all(input).expect("the program reads");
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program speaks UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Calls the program with words separated by blanks.
pub(crate) fn words(line: &str) -> Ended {
    salient(&line.split_whitespace().collect::<Vec<_>>())
}

/// A path in the tests' own folder; names must differ between tests, which run at once.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Writes a file of the tests' own.
pub(crate) fn file(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = scratch(name);
    std::fs::write(&path, bytes).expect("the tests' folder can be written");
    path.display().to_string()
}

/// Writes an array of one axis, of a type that is not written by the library.
pub(crate) fn npy(name: &str, descr: &str, elements: &[u8]) -> String {
    let size: usize = descr[2..].parse().expect("a size");
    let header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({},), }}", elements.len() / size);
    let length = u16::try_from(header.len()).expect("a short header").to_le_bytes();
    file(name, [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), elements].concat())
}

/// Writes an archive of the tests' own.
pub(crate) fn npz(name: &str, arrays: Vec<(&str, Array)>) -> String {
    let path = scratch(name);
    let mut all = Arrays::new();
    arrays.into_iter().for_each(|(name, array)| all.insert(name, array).expect("names differ"));
    salient::write_npz(&path, &all).expect("the tests' folder can be written");
    path.display().to_string()
}

/// An `f32` array counting up from zero.
pub(crate) fn counting(shape: &[usize]) -> Array {
    let count = shape.iter().product::<usize>();
    Array::from_f32(shape.to_vec(), (0..count).map(|n| n as f32).collect()).expect("the count is right")
}
