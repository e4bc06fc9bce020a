//! Addresses of files, `file:///…`, and their paths.

use lsp_types::Uri;
use std::path::{Path, PathBuf};

/// The path of a file's address; of any other address, such as that of a text without a file, what stands behind its scheme.
pub(crate) fn path_of(uri: &Uri) -> PathBuf {
    let Some(rest) = uri.0.strip_prefix("file://") else {
        return PathBuf::from(decoded(uri.0.split_once(':').map_or(uri.0.as_str(), |(_, rest)| rest)));
    };
    // An authority is this machine's name, where it is not empty.
    let path = decoded(rest.find('/').map_or(rest, |at| &rest[at..]));
    let with_drive = path.strip_prefix('/').filter(|path| cfg!(windows) && path.chars().nth(1) == Some(':'));
    PathBuf::from(with_drive.unwrap_or(&path))
}

/// The address of a file.
pub(crate) fn uri_of(path: &Path) -> Uri {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut text = absolute.display().to_string();
    if cfg!(windows) {
        text = format!("/{}", text.replace('\\', "/"));
    }
    let mut out = String::from("file://");
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Uri(out)
}

/// A text in which `%41` stands for `A`; what is no such thing stays.
fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.filter(|_| *first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_addresses_are_inverse() {
        for path in ["/a/b c/ä#?%41.attn", "/x.attn"] {
            assert_eq!(path_of(&uri_of(Path::new(path))), PathBuf::from(path));
        }
        assert_eq!(uri_of(Path::new("/a b/ü")).0, "file:///a%20b/%C3%BC");
    }

    #[test]
    fn any_address_has_a_path() {
        assert_eq!(path_of(&Uri("untitled:Untitled-1".into())), PathBuf::from("Untitled-1"));
        assert_eq!(path_of(&Uri("file://host/a%2".into())), PathBuf::from("/a%2"));
        assert_eq!(path_of(&Uri("%%%".into())), PathBuf::from("%%%"));
        assert_eq!(path_of(&Uri(String::new())), PathBuf::new());
    }
}
