//! Changed inputs: from the seeds of a target and a number, always the same.

use salient_ir::op::{MAPS, REDUCES};

/// How inputs of a kind are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Byte by byte, with lengths and counts set to what is hard on readers.
    Bytes,
    /// As bytes, and word by word.
    Text,
    /// Word by word and line by line, with the words of the language; rarely byte by byte.
    Program,
}

/// Words and signs of the language and of files of text, beside the names of operators.
const WORDS: [&str; 64] = [
    "model",
    "fn",
    "block",
    "let",
    "param",
    "state",
    "return",
    "for",
    "in",
    "if",
    "then",
    "else",
    "require",
    "import",
    "const",
    "as",
    "true",
    "false",
    "inf",
    "nan",
    "axis",
    "mean",
    "cumsum",
    "softmax",
    "log_softmax",
    "logsumexp",
    "concat",
    "append",
    "bool",
    "f16",
    "bf16",
    "linear",
    "layer_norm",
    "attention",
    "causal",
    "rope_half",
    "dropout",
    "draw",
    "training",
    "zeros",
    "ones",
    "normal",
    "uniform",
    "..",
    "_",
    ":",
    ",",
    "->",
    "@",
    "**",
    "/",
    "//",
    "%",
    "==",
    "!=",
    "<=",
    "<",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".T",
];

/// A word or a sign of the language.
fn word(rng: &mut fastrand::Rng) -> &'static str {
    let operators = MAPS.iter().map(|row| row.name).chain(REDUCES.iter().map(|row| row.name));
    let words: Vec<&str> = WORDS.into_iter().chain(operators).collect();
    words[rng.usize(0..words.len())]
}

/// Numbers that are hard on arithmetic.
const NUMBERS: [&str; 20] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "64",
    "65",
    "255",
    "4096",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "0.0",
    "1e-45",
    "3.5e38",
    "1e400",
];

const HARD_BYTES: [u8; 14] = [0, 1, 2, 0x7f, 0x80, 0xff, b'0', b'9', b'{', b'[', b'"', b'(', b'-', b'\n'];

const HARD_COUNTS: [u64; 14] = [
    0,
    1,
    7,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
    0x4000_0000_0000_0001,
];

/// Longest mutant, in bytes.
const MOST: usize = 1 << 16;

/// The mutant of that number.
pub fn mutant(seeds: &[Vec<u8>], manner: Manner, number: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(number);
    let mut out = seeds[rng.usize(0..seeds.len())].clone();
    let other = &seeds[rng.usize(0..seeds.len())];
    for _ in 0..1 + rng.usize(0..4) * rng.usize(0..3) {
        let words = match manner {
            Manner::Bytes => false,
            Manner::Text => rng.bool(),
            Manner::Program => rng.u8(0..12) > 0,
        };
        if words {
            by_words(&mut out, other, &mut rng);
        } else {
            by_bytes(&mut out, other, &mut rng);
        }
    }
    out.truncate(MOST);
    out
}

/// A range of what has that length.
fn part(length: usize, most: usize, rng: &mut fastrand::Rng) -> std::ops::Range<usize> {
    let from = rng.usize(0..=length);
    let to = (from + rng.usize(0..=most)).min(length);
    from..to
}

fn by_bytes(out: &mut Vec<u8>, other: &[u8], rng: &mut fastrand::Rng) {
    let length = out.len();
    let place = |rng: &mut fastrand::Rng| rng.usize(0..length.max(1));
    match rng.u8(0..9) {
        0 if length > 0 => out[place(rng)] ^= 1 << rng.u8(0..8),
        1 if length > 0 => out[place(rng)] = HARD_BYTES[rng.usize(0..HARD_BYTES.len())],
        2 if length > 0 => out[place(rng)] = rng.u8(..),
        3 => out.truncate(place(rng)),
        4 => drop(out.drain(part(length, 16, rng))),
        5 => {
            let copied = out[part(length, 32, rng)].to_vec();
            let at = rng.usize(0..=length);
            out.splice(at..at, copied);
        }
        6 => {
            let count = HARD_COUNTS[rng.usize(0..HARD_COUNTS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][rng.usize(0..4)];
            let at = place(rng);
            if at + width <= length {
                out[at..at + width].copy_from_slice(&count[..width]);
            }
        }
        7 => {
            let taken = other[part(other.len(), 64, rng)].to_vec();
            let range = part(length, 64, rng);
            out.splice(range, taken);
        }
        _ => {
            let at = rng.usize(0..=length);
            let byte = HARD_BYTES[rng.usize(0..HARD_BYTES.len())];
            out.splice(at..at, std::iter::repeat_n(byte, rng.usize(1..9)));
        }
    }
}

/// The words, signs and spaces of a text.
fn words(text: &str) -> Vec<&str> {
    let class = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            0
        } else if c == '\n' {
            1
        } else if c.is_whitespace() {
            2
        } else {
            3
        }
    };
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let same = |c: char| class(first) != 3 && class(first) != 1 && class(c) == class(first);
        let end = rest.char_indices().skip(1).find(|(_, c)| !same(*c)).map_or(rest.len(), |(at, _)| at);
        out.push(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

fn by_words(out: &mut Vec<u8>, other: &[u8], rng: &mut fastrand::Rng) {
    let (text, other) =
        (String::from_utf8_lossy(out).into_owned(), String::from_utf8_lossy(other).into_owned());
    if rng.u8(0..5) == 0 {
        *out = by_lines(&text, &other, rng).into_bytes();
        return;
    }
    let mut found: Vec<&str> = words(&text);
    let others = words(&other);
    let meaning: Vec<usize> = (0..found.len()).filter(|n| !found[*n].trim().is_empty()).collect();
    let Some(at) = rng.choice(&meaning).copied() else {
        out.extend_from_slice(word(rng).as_bytes());
        return;
    };
    let is_number = |w: &str| w.starts_with(|c: char| c.is_ascii_digit());
    let wrapped;
    match rng.u8(0..9) {
        0 => drop(found.remove(at)),
        1 => found.insert(at, found[at]),
        2 => {
            let with = *rng.choice(&meaning).expect("there is one");
            found.swap(at, with);
        }
        3 => found[at] = word(rng),
        4 => found.insert(at, word(rng)),
        5 => {
            let numbers: Vec<usize> = meaning.iter().copied().filter(|n| is_number(found[*n])).collect();
            let at = rng.choice(&numbers).copied().unwrap_or(at);
            found[at] = NUMBERS[rng.usize(0..NUMBERS.len())];
        }
        // One name becomes another: of the same text, so that much of it still means something.
        6 => found[at] = found[*rng.choice(&meaning).expect("there is one")],
        7 if !others.is_empty() => found[at] = others[rng.usize(0..others.len())],
        _ => {
            let times = [1, 2, 5, 70][rng.usize(0..4)];
            let (open, close) = [("(", ")"), ("[", "]"), ("-", ""), ("not ", "")][rng.usize(0..4)];
            wrapped = format!("{}{}{}", open.repeat(times), found[at], close.repeat(times));
            found[at] = &wrapped;
        }
    }
    *out = found.concat().into_bytes();
}

fn by_lines(text: &str, other: &str, rng: &mut fastrand::Rng) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let others: Vec<&str> = other.lines().collect();
    if lines.is_empty() {
        return other.to_owned();
    }
    let (at, with) = (rng.usize(0..lines.len()), rng.usize(0..lines.len()));
    match rng.u8(0..5) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[with]),
        2 => lines.swap(at, with),
        3 if !others.is_empty() => lines.insert(at, others[rng.usize(0..others.len())]),
        _ => {
            let times = [2, 10, 200][rng.usize(0..3)];
            let line = lines[at];
            lines.splice(at..at, std::iter::repeat_n(line, times));
        }
    }
    lines.join("\n")
}
