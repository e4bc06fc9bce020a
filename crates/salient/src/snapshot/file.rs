//! A snapshot in a file: insta's header, a block of YAML between two lines of dashes, and the text behind it. So
//! `cargo insta review` shows and takes what [`pending`] holds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where the snapshot of a source file is kept: `m.attn.snap` for `m.attn`.
pub fn kept(source: &Path) -> PathBuf {
    with(source, ".snap")
}

/// Where one is written that differs, for review: `m.attn.snap.new`.
pub fn pending(source: &Path) -> PathBuf {
    with(source, ".snap.new")
}

fn with(source: &Path, end: &str) -> PathBuf {
    let mut out: OsString = source.as_os_str().to_owned();
    out.push(end);
    out.into()
}

/// The file of a text.
pub fn with_header(source: &Path, text: &str) -> String {
    let name = source.file_name().unwrap_or(source.as_os_str()).to_string_lossy();
    // JSON's strings, which are what insta writes, are YAML's.
    let quoted = |text: &str| {
        let escaped: String = text.chars().flat_map(escaped).collect();
        format!("\"{escaped}\"")
    };
    let command = quoted(&format!("salient snapshot {name}"));
    format!("---\nsource: {}\nexpression: {command}\n---\n{}\n", quoted(&name), text.trim_end())
}

fn escaped(c: char) -> Vec<char> {
    match c {
        '"' | '\\' => vec!['\\', c],
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)).chars().collect(),
        c => vec![c],
    }
}

/// The text of a file, with line breaks as they are written here; none where it has no header.
pub fn without_header(file: &str) -> Option<String> {
    let lines: Vec<&str> = file.lines().map(str::trim_end).collect();
    let (first, rest) = lines.split_first()?;
    let end = rest.iter().position(|line| *line == "---").filter(|_| *first == "---")?;
    Some(rest[end + 1..].join("\n").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_from_its_file() {
        let text = "snapshot = 1\n\n---\nx";
        let file = with_header(Path::new("a/m \"1\".attn"), text);
        assert!(file.starts_with("---\nsource: \"m \\\"1\\\".attn\"\n"), "{file}");
        assert_eq!(without_header(&file).as_deref(), Some(text));
        assert_eq!(without_header(&file.replace('\n', "\r\n")).as_deref(), Some(text));
        assert_eq!(without_header(text), None);
    }
}
