//! What can be wrong with a file, said in one sentence.
//!
//! An [`IoError`] is a [`Cause`] with the file and the array it happened in. Causes are data, not prose built on the
//! spot, so that tests and callers can tell them apart.

use std::io;
use std::path::{Path, PathBuf};

use salient_ir::array::ArrayError;
use thiserror::Error;

use crate::format::Format;

/// A failure to read or write arrays: where, and why. Displays as `FILE: array NAME: CAUSE`.
#[derive(Debug, Error)]
#[error("{}{}{cause}", file_prefix(.file), array_prefix(.array))]
pub struct IoError {
    /// The file, where one is involved.
    pub file: Option<PathBuf>,
    /// The array of the file, where the fault lies in one.
    pub array: Option<String>,
    /// What is wrong.
    pub cause: Cause,
}

fn file_prefix(file: &Option<PathBuf>) -> String {
    file.as_ref().map_or_else(String::new, |path| format!("{}: ", path.display()))
}

fn array_prefix(array: &Option<String>) -> String {
    array.as_ref().map_or_else(String::new, |name| format!("array `{name}`: "))
}

/// What is wrong with a file or an array.
#[derive(Debug, Error)]
pub enum Cause {
    /// The operating system refused to open or read.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The operating system refused to create or write.
    #[error("cannot be written: {0}")]
    Write(#[source] io::Error),
    /// The path leads to something else than a file.
    #[error("cannot be read: it is {found}, not a file")]
    NotFile {
        /// What it is.
        found: &'static str,
    },
    /// A text has more bytes than are read of one.
    #[error("is too long: at most {most} bytes are read")]
    TooLong {
        /// The limit.
        most: u64,
    },
    /// A text is not in the one encoding that is read.
    #[error("cannot be read: it is not UTF-8 (at byte {at})")]
    NotText {
        /// The first byte that is not.
        at: usize,
    },
    /// There is not enough memory for what the file holds.
    #[error("does not fit into memory: it takes {bytes} bytes")]
    Memory {
        /// What it takes.
        bytes: u64,
    },
    /// The compressed members that are read of an archive are larger, all together, than is unpacked.
    #[error(
        "unpacks to more than {most} bytes, which is the limit for compressed arrays; store them uncompressed"
    )]
    Unpacked {
        /// The limit.
        most: u64,
    },
    /// The first bytes are of no format that is read.
    #[error("is not an array file: expected {}", Format::list())]
    UnknownFormat,
    /// The bytes are not of the format that was asked for.
    #[error("is not {expected}: {found}")]
    NotFormat {
        /// The format that was asked for.
        expected: Format,
        /// What was found in its place.
        found: String,
    },
    /// A header or an archive breaks the rules of its format.
    #[error("has a malformed {part}: {problem}")]
    Malformed {
        /// The part of the file.
        part: &'static str,
        /// The rule that it breaks.
        problem: String,
    },
    /// More bytes are claimed than there are: the file is truncated, or its header lies.
    #[error("is truncated or lies about its size: {part} should take {claimed} bytes, {available} are there")]
    Short {
        /// The part of the file that claims.
        part: &'static str,
        /// The number of bytes it claims.
        claimed: u64,
        /// The number of bytes there are.
        available: u64,
    },
    /// Bytes are left over after everything the header describes.
    #[error("has {extra} bytes that its header does not account for")]
    Trailing {
        /// The number of such bytes.
        extra: u64,
    },
    /// The elements are of a type that has no counterpart.
    #[error(
        "has elements of type {found}, which are not read from {format} files; convert them to float32 first"
    )]
    ElementType {
        /// The type as the file spells it.
        found: String,
        /// The format of the file.
        format: Format,
    },
    /// An integer does not fit the type it is read as.
    #[error("element {index} is {value}, which i64 cannot hold")]
    Integer {
        /// The position of the element in the file.
        index: usize,
        /// The value.
        value: u64,
    },
    /// A byte of a boolean array is neither 0 nor 1.
    #[error("element {index} of a boolean array is the byte {byte}")]
    Boolean {
        /// The position of the element in the file.
        index: usize,
        /// The byte.
        byte: u8,
    },
    /// The shape or a value cannot be held in an array.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// Two arrays of one name.
    #[error("is there twice")]
    Duplicate,
    /// An index of shards names a file that does not hold the tensor.
    #[error("is not in `{shard}`, where the index places it")]
    Missing {
        /// The file that the index names.
        shard: String,
    },
    /// A shard holds a tensor that its index places elsewhere or nowhere.
    #[error("is in `{shard}`, where the index does not place it")]
    Unlisted {
        /// The file that holds the tensor.
        shard: String,
    },
    /// An archive has two members of one name; which, its directory does not keep.
    #[error("has two members of one name")]
    DuplicateMember,
    /// An array of a data file whose name says neither input, parameter nor output.
    #[error("the name must start with {known}")]
    Prefix {
        /// The prefixes that there are.
        known: String,
    },
}

impl Cause {
    pub(crate) fn malformed(part: &'static str, problem: impl Into<String>) -> Cause {
        Cause::Malformed { part, problem: problem.into() }
    }

    /// Why a file cannot be read, without saying again that it cannot.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        text.strip_prefix("cannot be read: ").map_or_else(|| format!("it {text}"), str::to_owned)
    }

    /// This cause, in an array.
    pub(crate) fn in_array(self, name: impl Into<String>) -> IoError {
        IoError { file: None, array: Some(name.into()), cause: self }
    }
}

impl From<Cause> for IoError {
    fn from(cause: Cause) -> IoError {
        IoError { file: None, array: None, cause }
    }
}

impl IoError {
    /// This error, in a file; an inner file that is already named stays.
    pub(crate) fn in_file(self, path: &Path) -> IoError {
        IoError { file: self.file.or_else(|| Some(path.to_owned())), ..self }
    }
}

/// Refuses a claim of `claimed` bytes where only `available` are.
pub(crate) fn check_claim(part: &'static str, claimed: u64, available: u64) -> Result<(), Cause> {
    if claimed > available { Err(Cause::Short { part, claimed, available }) } else { Ok(()) }
}
