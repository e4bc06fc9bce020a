//! What is wrong with how parts stand together: values side by side, names that are none, types in parentheses.

use super::marks::Match;
use super::reading::Reading;
use super::spell::value;
use crate::reference::is_keyword;
use salient_ir::DType;

fn at(from: usize, to: usize, it: &str, write: impl Into<String>) -> Option<Match> {
    Some(Match { from, to, it: it.to_owned(), write: write.into() })
}

/// Words of a declaration behind which a name stands.
const DECLARE: &[&str] =
    &["model", "block", "fn", "param", "state", "const", "axis", "import", "let", "for", "as"];

/// Whether a token begins a value: a name, a number, or a group.
fn begins_value(r: &Reading<'_>, n: usize) -> bool {
    r.is_number(n) || r.at(n) == "(" || r.is_name(n) && !DECLARE.contains(&r.at(n))
}

/// `(f32) x`.
pub(super) fn cast(r: &Reading<'_>, n: usize) -> Option<Match> {
    let is_type = r.at(n) == "(" && DType::from_name(r.at(n + 1)).is_some() && r.at(n + 2) == ")";
    if !is_type || r.follows_operand(n) || r.begins_line(n + 3) {
        return None;
    }
    let end = r.operand_after(n + 3)?;
    let inner = r.source(n + 3, end);
    let inner = super::spell::bare(&inner);
    at(n, end, r.at(n + 1), format!("{}({inner})", r.at(n + 1)))
}

/// `x^T`.
pub(super) fn power_of_transpose(r: &Reading<'_>, n: usize) -> Option<Match> {
    let hit = r.at(n) == "^" && r.at(n + 1) == "T" && r.follows_operand(n);
    let from = if hit { r.operand_before(n)? } else { return None };
    at(from, n + 2, "^", format!("{}.T", r.source(from, n)))
}

/// `if c: a else: b` as a value.
pub(super) fn choice_by_colon(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) != "if" || n == 0 || !matches!(r.at(n - 1), "=" | "return" | "(" | ",") {
        return None;
    }
    let end = r.expression_end(n);
    let colon = (n..end).find(|m| r.at(*m) == ":")?;
    let other = (colon..end).find(|m| r.at(*m) == "else")?;
    let behind = other + 1 + usize::from(r.at(other + 1) == ":");
    let (c, a, b) = (r.source(n + 1, colon), r.source(colon + 1, other), r.source(behind, end));
    at(n, end, "if", format!("if {} then {} else {}", value(&c), value(&a), value(&b)))
}

/// `let return = x`, `let 1y = x`, `let y-z = x`.
pub(super) fn no_name(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) != "let" || r.begins_line(n + 1) {
        return None;
    }
    let end = (n + 1..r.line_end(n)).find(|m| r.at(*m) == "=").filter(|end| *end > n + 1)?;
    let name = r.source(n + 1, end).replace(' ', "");
    let word = end == n + 2 && is_keyword(r.at(n + 1));
    let digit = name.starts_with(|c: char| c.is_ascii_digit());
    let joined = end > n + 2
        && (n + 1..end).all(|m| r.is_name(m) || r.is_number(m) || matches!(r.at(m), "-" | "." | "'"))
        && (n + 2..end).all(|m| r.touches(m));
    if word {
        return at(n + 1, end, r.at(n + 1), format!("let {}_ = …", r.at(n + 1)));
    }
    let plain: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let plain = if digit { format!("y{plain}") } else { plain };
    if digit || joined { at(n + 1, end, &name, format!("let {plain} = …")) } else { None }
}

/// `x y`, `1e-5 x`, `q[i j]`.
pub(super) fn side_by_side(r: &Reading<'_>, n: usize) -> Option<Match> {
    let alone = n > 0 && begins_value(r, n) && r.follows_operand(n) && !r.touches(n);
    if !alone || DECLARE.contains(&r.at(n - 1)) {
        return None;
    }
    let from = r.operand_before(n)?;
    // What a declaration names has its type or value behind it.
    if from > 0 && DECLARE.contains(&r.at(from - 1)) && r.at(from - 1) != "let" {
        return None;
    }
    let end = r.operand_after(n).unwrap_or(n + 1);
    let (a, b) = (r.source(from, n), r.source(n, end));
    let write = match r.enclosing(n) {
        Some("[") => format!("{a}, {b}"),
        Some(_) | None => format!("{a} * {b}"),
    };
    at(from, end, &a, write)
}
