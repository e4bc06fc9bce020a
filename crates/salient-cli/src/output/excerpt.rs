//! Excerpts of sources whose lines are longer than a terminal is wide: only what is around the marks is shown.

/// Between the number of a line, or the blanks in its place, and the line.
const GUTTER: &str = "│ ";
/// What stands in the place of what is left out.
const CUT: char = '…';
/// Columns that are shown before the first mark of a line that is cut at its beginning.
const BEFORE: usize = 12;

/// A rendered text in which source lines that are too long are cut, with the marks under them.
pub(crate) fn clipped(text: &str, width: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < lines.len() {
        let marks = if is_numbered(lines[at]) { marks_under(&lines[at + 1..]) } else { 0 };
        group(&mut out, &lines[at..=at + marks], width);
        at += marks + 1;
    }
    out
}

/// A line without its colours: what the terminal shows.
fn plain(line: &str) -> String {
    let mut shown = String::new();
    let mut is_escape = false;
    for letter in line.chars() {
        match (is_escape, letter) {
            (false, '\x1b') => is_escape = true,
            (false, _) => shown.push(letter),
            (true, _) => is_escape = !letter.is_ascii_alphabetic(),
        }
    }
    shown
}

/// Whether it is a line of the source.
fn is_numbered(line: &str) -> bool {
    let line = plain(line);
    let number = line.split_once(GUTTER).map_or("", |(number, _)| number.trim());
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// How many lines of marks and labels follow a line of the source.
fn marks_under(lines: &[&str]) -> usize {
    let is_marks = |line: &&&str| {
        let line = plain(line);
        line.split_once(GUTTER).is_some_and(|(before, _)| before.trim().is_empty())
    };
    lines.iter().take_while(is_marks).count()
}

/// A line of the source and the lines of marks under it.
fn group(out: &mut String, lines: &[&str], width: usize) {
    let shown = plain(lines[0]);
    let gutter = shown.split_once(GUTTER).map_or(0, |(number, _)| number.chars().count() + 2);
    let room = width.saturating_sub(gutter);
    let marked = lines[1..].iter().filter_map(|line| first_mark(line)).min().unwrap_or(0);
    if shown.chars().count() <= width || gutter == 0 || room <= 2 * BEFORE {
        lines.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        return;
    }
    let from = if marked < room / 2 { 0 } else { marked - BEFORE };
    for (at, line) in lines.iter().enumerate() {
        let end = if at == 0 { from + room } else { usize::MAX };
        out.push_str(&window(line, gutter, (from, end), at == 0));
        out.push('\n');
    }
}

/// The column of the first mark, behind the gutter.
fn first_mark(line: &str) -> Option<usize> {
    let line = plain(line);
    line.split_once(GUTTER)?.1.chars().position(|letter| letter != ' ')
}

/// The columns of a line behind the gutter from one to another; colours stay. A cut of the source is shown.
fn window(line: &str, gutter: usize, (from, end): (usize, usize), is_source: bool) -> String {
    let length = plain(line).chars().count().saturating_sub(gutter);
    let (mut out, mut column, mut is_escape) = (String::new(), 0_usize, false);
    for letter in line.chars() {
        if is_escape || letter == '\x1b' {
            is_escape = letter == '\x1b' || !letter.is_ascii_alphabetic();
            out.push(letter);
            continue;
        }
        let at = column;
        column += 1;
        let Some(at) = at.checked_sub(gutter) else {
            out.push(letter);
            continue;
        };
        if at < from || at >= end {
            continue;
        }
        let is_cut = is_source && (at == from && from > 0 || at + 1 == end && end < length);
        out.push(if is_cut { CUT } else { letter });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(before: usize, after: usize) -> String {
        let (before_text, after_text) = ("a".repeat(before), "b".repeat(after));
        format!(
            "error: no\n  ┌─ f:1:1\n  │\n1 │ {before_text}WRONG{after_text}\n  │ {}^^^^^ a label that is not cut, however long it is\n\n",
            " ".repeat(before)
        )
    }

    /// The columns at which the culprit and its marks begin.
    fn columns(text: &str) -> (usize, usize) {
        let column = |what: &str| {
            let line = text.lines().find(|line| line.contains(what)).expect("it is shown");
            line.split_once(what).expect("it is shown").0.chars().count()
        };
        (column("WRONG"), column("^^^^^"))
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let text = excerpt(10, 10);
        assert_eq!(clipped(&text, 80), text);
        assert_eq!(clipped("error: a sentence of some length\n", 10), "error: a sentence of some length\n");
    }

    #[test]
    fn long_lines_are_cut_around_their_marks() {
        for (before, after) in [(4, 200), (200, 4), (200, 200), (45, 30)] {
            let text = clipped(&excerpt(before, after), 60);
            let source = text.lines().find(|line| line.starts_with("1 │ ")).expect("the line");
            assert!(source.chars().count() <= 60 && source.contains('…'), "{text}");
            let (culprit, marks) = columns(&text);
            assert_eq!(culprit, marks, "{text}");
            assert!(text.contains("a label that is not cut, however long it is"), "{text}");
        }
    }

    #[test]
    fn colours_take_no_columns() {
        let coloured = |text: &str| {
            text.replace("WRONG", "\x1b[31mWRONG\x1b[0m").replace("^^^^^", "\x1b[31m^^^^^\x1b[0m")
        };
        let text = excerpt(100, 100);
        assert_eq!(plain(&clipped(&coloured(&text), 60)), clipped(&text, 60));
    }
}
