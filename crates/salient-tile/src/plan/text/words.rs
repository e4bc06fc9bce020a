//! The words of a plan's text: what is a name in an expression, and which names a line defines.

use salient_ir::quantised::Bits;

/// A piece of a text; all pieces one after the other are the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word<'t> {
    /// A name, and the form in which it is read.
    Name { name: &'t str, form: Option<&'t str> },
    /// Anything else: numbers, signs, functions.
    Other(&'t str),
}

fn is_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn is_inside(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Bytes at the start of a text that are of one kind.
fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}

/// Bytes of the name at the start of a text: words with points between them, and the number of a block behind `@`.
fn name_length(text: &str) -> usize {
    let mut end = run(text, is_inside);
    while let Some(rest) = text[end..].strip_prefix('.')
        && rest.starts_with(is_inside)
    {
        end += 1 + run(rest, is_inside);
    }
    let number = text[end..].strip_prefix('@').map_or(0, |rest| run(rest, |c| c.is_ascii_digit()));
    if number > 0 { end + 1 + number } else { end }
}

/// Bytes of the number at the start of a text.
fn number_length(text: &str) -> usize {
    let digits = run(text, is_inside);
    let mut end = digits;
    if let Some(rest) = text[end..].strip_prefix('.')
        && rest.starts_with(|c: char| c.is_ascii_digit())
    {
        end += 1 + run(rest, is_inside);
    }
    let rest = &text[end..];
    if text[..end].ends_with('e') && rest.len() > 1 && rest.starts_with(['-', '+']) {
        end += 1 + run(&rest[1..], is_inside);
    }
    end
}

/// Where the bracket ends with which a text starts.
pub(crate) fn bracket_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether what stands behind a name makes it that of a function: arguments, maybe behind the axis that it binds.
fn is_call(rest: &str) -> bool {
    rest.starts_with('(')
        || rest.starts_with('[') && bracket_end(rest).is_some_and(|end| rest[end..].starts_with('('))
}

/// The words of a text.
pub(crate) fn words(text: &str) -> Vec<Word<'_>> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let (word, length) = if is_start(first) {
            let end = name_length(rest);
            let form = rest[end..].strip_prefix('~').map(|form| &form[..run(form, is_inside)]);
            if form.is_none() && is_call(&rest[end..]) {
                (Word::Other(&rest[..end]), end)
            } else {
                (Word::Name { name: &rest[..end], form }, end + form.map_or(0, |form| form.len() + 1))
            }
        } else if first.is_ascii_digit() {
            let end = number_length(rest);
            (Word::Other(&rest[..end]), end)
        } else {
            let end = run(rest, |c| !is_start(c) && !c.is_ascii_digit());
            (Word::Other(&rest[..end]), end)
        };
        out.push(word);
        rest = &rest[length..];
    }
    out
}

/// The text with other names; forms are kept.
pub(crate) fn renamed(text: &str, mut new: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    for word in words(text) {
        match word {
            Word::Other(other) => out.push_str(other),
            Word::Name { name, form } => {
                match new(name) {
                    Some(new) => out.push_str(&new),
                    None => out.push_str(name),
                }
                if let Some(form) = form {
                    out.push('~');
                    out.push_str(form);
                }
            }
        }
    }
    out
}

/// The form in which an operand is read: the word behind `~`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperandForm {
    /// In panels.
    Packed,
    /// In panels that are made once, when the parameters are bound.
    Prepacked,
    /// In panels of codes of so many bits.
    Codes(Bits),
    /// Stored row by row for a product.
    Rows,
    /// In panels that are made for each tile of keys.
    Tile,
}

impl OperandForm {
    pub(crate) fn text(self) -> &'static str {
        match self {
            OperandForm::Packed => "packed",
            OperandForm::Prepacked => "prepacked",
            OperandForm::Codes(Bits::Four) => "codes4",
            OperandForm::Codes(Bits::Eight) => "codes8",
            OperandForm::Rows => "rows",
            OperandForm::Tile => "tile",
        }
    }

    /// Whether a text reads an operand in this form.
    pub(crate) fn is_read_in(self, text: &str) -> bool {
        words(text).iter().any(|word| match word {
            Word::Name { form, .. } => *form == Some(self.text()),
            Word::Other(_) => false,
        })
    }
}

/// The word with which the line of a kernel begins: what the kernel is built around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelWord {
    Map,
    Append,
    /// An output that lies where what it is a view of is stored.
    Alias,
    Rows,
    Columns,
    /// A sum whose terms are each added at one position.
    Scatter,
    Gemm,
    Attention,
    /// By the kernel of the attention that stands before it.
    Beside,
    Pack,
}

impl KernelWord {
    pub(crate) const ALL: [KernelWord; 10] = [
        KernelWord::Map,
        KernelWord::Append,
        KernelWord::Alias,
        KernelWord::Rows,
        KernelWord::Columns,
        KernelWord::Scatter,
        KernelWord::Gemm,
        KernelWord::Attention,
        KernelWord::Beside,
        KernelWord::Pack,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            KernelWord::Map => "map",
            KernelWord::Append => "append",
            KernelWord::Alias => "alias",
            KernelWord::Rows => "rows",
            KernelWord::Columns => "columns",
            KernelWord::Scatter => "scatter",
            KernelWord::Gemm => "gemm",
            KernelWord::Attention => "attention",
            KernelWord::Beside => "beside",
            KernelWord::Pack => "pack",
        }
    }

    fn read(text: &str) -> Option<KernelWord> {
        KernelWord::ALL.into_iter().find(|word| word.text() == text)
    }
}

/// What a line says behind its first words, if it is that of a kernel: whether it runs once, the word of its anchor, the rest.
pub(crate) fn kernel_line(line: &str) -> Option<(bool, KernelWord, &str)> {
    let line = line.trim();
    let (once, line) = line.strip_prefix("once ").map_or((false, line), |rest| (true, rest));
    let (word, rest) = line.split_once(' ')?;
    Some((once, KernelWord::read(word)?, rest))
}

/// What a line defines: the name, and the form if it is an operand in a form of its own.
pub(crate) fn defined(line: &str) -> Option<(&str, Option<&str>)> {
    let rest = match kernel_line(line) {
        Some((_, _, rest)) => rest,
        None => line.trim().strip_prefix("where ")?,
    };
    match words(rest).first() {
        Some(Word::Name { name, form }) => Some((name, *form)),
        Some(Word::Other(_)) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_functions_and_numbers() {
        let text = "sum[n](x.2@3[b, n] * w~packed[n]) * 1e-5 + max(h.0.keys, 2.5)";
        let names: Vec<&str> = words(text)
            .into_iter()
            .filter_map(|word| match word {
                Word::Name { name, .. } => Some(name),
                Word::Other(_) => None,
            })
            .collect();
        assert_eq!(names, ["n", "x.2@3", "b", "n", "w", "n", "h.0.keys"]);
        assert_eq!(renamed(text, |_| None), text);
    }

    #[test]
    fn lines_say_what_they_define() {
        assert_eq!(defined("    once pack w~packed[n] = x[n]"), Some(("w", Some("packed"))));
        assert_eq!(defined("where x.1[n] = 2.0"), Some(("x.1", None)));
        assert_eq!(defined("over n in 0 .. 4"), None);
    }
}
