//! Stop strings in a stream: text is withheld while it may be the beginning of one.

/// Text that comes in pieces, ended by the first stop string.
#[derive(Debug)]
pub(crate) struct Stops {
    strings: Vec<String>,
    /// What may be the beginning of a stop string.
    held: String,
}

impl Stops {
    /// Empty strings stop nothing.
    pub(crate) fn new(strings: &[String]) -> Stops {
        Stops { strings: strings.iter().filter(|s| !s.is_empty()).cloned().collect(), held: String::new() }
    }

    /// What may be shown after this piece, and whether a stop string ends it there.
    pub(crate) fn push(&mut self, piece: &str) -> (String, bool) {
        self.held.push_str(piece);
        if let Some(at) = self.strings.iter().filter_map(|s| self.held.find(s.as_str())).min() {
            let shown = self.held[..at].to_owned();
            self.held.clear();
            return (shown, true);
        }
        let begins = |at: &usize| self.strings.iter().any(|s| s.starts_with(&self.held[*at..]));
        let kept = self.held.char_indices().map(|(at, _)| at).find(begins).unwrap_or(self.held.len());
        let rest = self.held.split_off(kept);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// What was withheld when the stream ends by itself.
    pub(crate) fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces that are shown, and whether the stream was stopped.
    fn shown(strings: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut stops = Stops::new(&strings.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        let mut out = String::new();
        for piece in pieces {
            let (text, stopped) = stops.push(piece);
            out += &text;
            assert!(strings.iter().all(|s| s.is_empty() || !out.contains(s)), "{out}");
            if stopped {
                return (out, true);
            }
        }
        (out + &stops.rest(), false)
    }

    #[test]
    fn a_stop_string_ends_the_text_before_it_however_it_is_cut() {
        let text = "one two STOP three";
        for cut in 0..=text.len() {
            for second in cut..=text.len() {
                let pieces = [&text[..cut], &text[cut..second], &text[second..]];
                assert_eq!(shown(&["STOP", "three"], &pieces), ("one two ".to_owned(), true));
            }
        }
    }

    #[test]
    fn what_only_begins_like_a_stop_string_is_shown_in_the_end() {
        assert_eq!(shown(&["STOP"], &["a ST", "O"]), ("a STO".to_owned(), false));
        assert_eq!(shown(&["aab"], &["aa", "aa", "ac"]), ("aaaaac".to_owned(), false));
        assert_eq!(shown(&["é!"], &["caf", "é", "?"]), ("café?".to_owned(), false));
        assert_eq!(shown(&[""], &["a"]), ("a".to_owned(), false));
    }
}
