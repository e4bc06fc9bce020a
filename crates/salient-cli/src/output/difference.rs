//! Two texts line by line: what is gone, what is new, and a few lines around them.

use similar::{ChangeTag, TextDiff};

/// Lines that are shown around a change.
const AROUND: usize = 3;

/// The lines in which two texts differ, as `diff -u` shows them.
pub(crate) fn difference(before: &str, after: &str, colour: bool) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut out = String::new();
    for hunk in diff.unified_diff().context_radius(AROUND).iter_hunks() {
        out.push_str(&painted(&hunk.header().to_string(), "\x1b[36m", colour));
        for change in hunk.iter_changes() {
            let line = change.value().trim_end_matches(['\r', '\n']);
            out.push_str(&match change.tag() {
                ChangeTag::Equal => painted(&format!(" {line}"), "", colour),
                ChangeTag::Delete => painted(&format!("-{line}"), "\x1b[31m", colour),
                ChangeTag::Insert => painted(&format!("+{line}"), "\x1b[32m", colour),
            });
        }
    }
    out
}

fn painted(line: &str, code: &str, colour: bool) -> String {
    if colour && !code.is_empty() { format!("{code}{line}\x1b[0m\n") } else { format!("{line}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_and_what_is_new_are_marked() {
        let shown = difference("a\nb\nc\n", "a\nd\nc\n", false);
        assert_eq!(shown, "@@ -1,3 +1,3 @@\n a\n-b\n+d\n c\n");
        assert!(difference("a", "b", true).contains("\x1b[32m+b\x1b[0m"));
        assert_eq!(difference("a\n", "a\n", true), "");
    }
}
