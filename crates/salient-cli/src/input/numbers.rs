//! Numbers on the command line: every flag that takes one is parsed here, or by a range of clap's.

/// The most seconds that a command can be asked to spend: a day.
const MOST_SECONDS: f64 = 86_400.0;

/// The most times that something can be asked for.
const MOST_TIMES: usize = 1 << 20;

/// A number that is finite.
pub(crate) fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|x| x.is_finite());
    number.ok_or_else(|| "expected a number".to_owned())
}

/// A finite number that is not negative.
pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    let number = finite(text).ok().filter(|x| *x >= 0.0);
    number.ok_or_else(|| "expected a number that is not negative".to_owned())
}

/// A part of 1 that is not nothing.
pub(crate) fn probability(text: &str) -> Result<f64, String> {
    let number = finite(text).ok().filter(|x| *x > 0.0 && *x <= 1.0);
    number.ok_or_else(|| "expected a number above 0 and at most 1".to_owned())
}

/// A time that ends.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let number = finite(text).ok().filter(|x| (0.0..=MOST_SECONDS).contains(x));
    number.ok_or_else(|| format!("expected a number of seconds from 0 to {MOST_SECONDS}"))
}

/// How often: once at least.
pub(crate) fn times(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|n| (1..=MOST_TIMES).contains(n));
    number.ok_or_else(|| format!("expected a whole number from 1 to {MOST_TIMES}"))
}

/// `1000`, `64K`, `2G`: bytes, in powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'K')) => (&text[..at], 1 << 10),
        Some((at, 'M')) => (&text[..at], 1 << 20),
        Some((at, 'G')) => (&text[..at], 1 << 30),
        Some(_) | None => (text, 1),
    };
    let value = number.parse::<usize>().ok().and_then(|n| n.checked_mul(unit));
    value.ok_or_else(|| "expected a number of bytes, such as 1000, 64K or 2G".to_owned())
}
