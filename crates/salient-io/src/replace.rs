//! Files that are written whole or not at all: the one place where files are written.
//!
//! What is to be a file is written beside its place under another name, which then becomes its own. Until that moment the
//! old file is there, and an error or the end of the process leaves it. Permissions stay those of the old file; of a link
//! the file is replaced that it leads to. What is no file (a device, a pipe, `/dev/stdout`) is written as it is, after all
//! of it has been made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Cursor, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Cause, IoError};
use crate::source::is_open_already;

/// Where the bytes of a file go.
pub trait Sink: Write + Seek {}

impl<T: Write + Seek> Sink for T {}

/// The most links that lead to one file.
const MOST_LINKS: usize = 40;

/// Writes a file: what `write` puts into the sink becomes its content once all of it is there.
///
/// # Errors
/// As `write`, and if the file or its folder cannot be written; then the file is as it was.
pub fn replace_file(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut dyn Sink) -> Result<(), IoError>,
) -> Result<(), IoError> {
    let path = path.as_ref();
    let result = if is_stream(path) { write_through(path, write) } else { write_beside(path, write) };
    result.map_err(|error| error.in_file(path))
}

/// Writes a text as a file, as [`replace_file`] does.
///
/// # Errors
/// As [`replace_file`].
pub fn replace_text(path: impl AsRef<Path>, text: &str) -> Result<(), IoError> {
    replace_file(path, |sink| Ok(sink.write_all(text.as_bytes()).map_err(Cause::Write)?))
}

/// Whether a path stands for something that has no content of its own.
fn is_stream(path: &Path) -> bool {
    let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    is_special || is_open_already(path)
}

fn write_through(
    path: &Path,
    write: impl FnOnce(&mut dyn Sink) -> Result<(), IoError>,
) -> Result<(), IoError> {
    let mut bytes = Cursor::new(Vec::new());
    write(&mut bytes)?;
    let mut stream = OpenOptions::new().append(true).open(path).map_err(Cause::Write)?;
    Ok(stream.write_all(bytes.get_ref()).map_err(Cause::Write)?)
}

fn write_beside(
    path: &Path,
    write: impl FnOnce(&mut dyn Sink) -> Result<(), IoError>,
) -> Result<(), IoError> {
    let place = followed(path).map_err(Cause::Write)?;
    // One that may not be written is not replaced either.
    let old = match OpenOptions::new().write(true).open(&place) {
        Ok(old) => Some(old.metadata().map_err(Cause::Write)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Cause::Write(error).into()),
    };
    let (new, file) = New::beside(&place).map_err(Cause::Write)?;
    let mut sink = BufWriter::new(file);
    write(&mut sink)?;
    let file = sink.into_inner().map_err(|error| Cause::Write(error.into_error()))?;
    if let Some(old) = &old {
        // Where something could be lost, the new file is on the disk before the old one goes.
        file.set_permissions(old.permissions()).and_then(|()| file.sync_all()).map_err(Cause::Write)?;
    }
    drop(file);
    Ok(new.take(&place).map_err(Cause::Write)?)
}

/// Where a path leads, through links, whether or not there is something.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut place = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&place) {
            Ok(target) => place = place.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(place),
        }
    }
    Err(io::Error::other("too many links lead to one another"))
}

/// A file under a name for the time being; gone if it does not take its place.
struct New {
    path: PathBuf,
    in_place: bool,
}

impl New {
    fn beside(place: &Path) -> io::Result<(New, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = place.file_name().ok_or_else(|| io::Error::other("it is no name of a file"))?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{count}.part", std::process::id()));
        let path = place.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok((New { path, in_place: false }, file))
    }

    fn take(mut self, place: &Path) -> io::Result<()> {
        fs::rename(&self.path, place)?;
        self.in_place = true;
        Ok(())
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if !self.in_place {
            drop(fs::remove_file(&self.path));
        }
    }
}
