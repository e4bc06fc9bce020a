//! Files are written whole or not at all.

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use salient_io::{Cause, IoError, read_npy, replace_file, replace_text, write_npy};
use salient_ir::array::Array;

/// An empty folder of its own.
fn folder(name: &str) -> PathBuf {
    let folder = common::scratch(name);
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn names(folder: &PathBuf) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn replace(path: &PathBuf, text: &str) -> Result<(), IoError> {
    replace_text(path, text)
}

#[test]
fn a_write_that_fails_leaves_the_old_file() {
    let folder = folder("replace_fails");
    let path = folder.join("file");
    let failing = || {
        replace_file(&path, |sink| {
            sink.write_all(&[7; 1 << 20]).unwrap();
            // The folder is not empty meanwhile, and the old file is what it was.
            assert!(names(&folder).iter().any(|name| name.starts_with(".file.") && name.ends_with(".part")));
            Err(Cause::Write(std::io::Error::other("the disk is full")).into())
        })
    };
    assert!(failing().unwrap_err().to_string().ends_with("file: cannot be written: the disk is full"));
    assert_eq!(names(&folder), [""; 0], "nothing is left of what is not whole");
    replace(&path, "old").unwrap();
    failing().unwrap_err();
    assert_eq!((std::fs::read(&path).unwrap(), names(&folder)), (b"old".to_vec(), vec!["file".to_owned()]));
    replace(&path, "new").unwrap();
    assert_eq!((std::fs::read(&path).unwrap(), names(&folder)), (b"new".to_vec(), vec!["file".to_owned()]));
}

#[test]
fn permissions_stay_and_links_are_followed() {
    let folder = folder("replace_links");
    let (path, link, dangling) = (folder.join("file"), folder.join("link"), folder.join("dangling"));
    replace(&path, "old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("file", &link).unwrap();
    symlink("made", &dangling).unwrap();
    replace(&link, "new").unwrap();
    replace(&dangling, "other").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read(folder.join("made")).unwrap(), b"other");
    assert!(link.is_symlink() && dangling.is_symlink());
    let circle = folder.join("circle");
    symlink("circle", &circle).unwrap();
    replace(&circle, "").unwrap_err();
    replace(&folder, "").unwrap_err();
}

#[test]
fn what_is_no_file_is_written_as_it_is() {
    replace(&PathBuf::from("/dev/null"), "gone").unwrap();
    let error = replace(&PathBuf::from("/dev/full"), "lost").unwrap_err();
    assert!(matches!(error.cause, Cause::Write(_)), "{error}");
    let pipe = folder("replace_pipe").join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let array = Array::from_f32(vec![2], vec![1.0, 2.0]).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read(pipe).unwrap()
    });
    write_npy(&pipe, &array).unwrap();
    let copy = common::scratch("from_pipe.npy");
    std::fs::write(&copy, reader.join().unwrap()).unwrap();
    assert!(read_npy(copy).unwrap().same_bits(&array));
}
