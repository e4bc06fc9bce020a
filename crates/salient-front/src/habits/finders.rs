//! What is more than a sign: statements, choices, brackets and numbers as other languages have them.

use super::marks::Match;
use super::reading::Reading;
use super::spell::value;

fn at(from: usize, to: usize, it: &str, write: impl Into<String>) -> Option<Match> {
    Some(Match { from, to, it: it.to_owned(), write: write.into() })
}

// ---- comments and texts

pub(super) fn block_comment(r: &Reading<'_>, n: usize) -> Option<Match> {
    let begins = r.at(n) == "/" && r.touches(n + 1) && matches!(r.at(n + 1), "*" | "**");
    if !begins {
        return None;
    }
    let ends = |m: &usize| r.at(*m) == "/" && r.touches(*m) && r.at(*m - 1).ends_with('*');
    let to = (n + 2..r.len()).find(ends).map_or(n + 2, |m| m + 1);
    at(n, to, "/*", "")
}

/// A comment or the end of a line as other languages mark it: the rest of the line is none of the program.
pub(super) fn hash(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) == "#" { at(n, r.line_end(n), "#", "") } else { None }
}

pub(super) fn quotes(r: &Reading<'_>, n: usize) -> Option<Match> {
    let mark = r.at(n);
    if !["“", "”", "‘", "’", "'", "„", "«", "\""].contains(&mark) {
        return None;
    }
    let ends = |m: &usize| ["“", "”", "‘", "’", "'", "»", "\""].contains(&r.at(*m));
    let to = (n + 1..r.line_end(n)).find(ends).map_or(n + 1, |m| m + 1);
    at(n, to, mark, "")
}

// ---- declarations

pub(super) fn python_import(r: &Reading<'_>, n: usize) -> Option<Match> {
    let from = r.at(n) == "from" && r.is_name(n + 1);
    let import = r.at(n) == "import" && r.is_name(n + 1);
    let other =
        matches!(r.at(n), "use" | "using" | "require" | "include") && r.is_name(n + 1) && r.column(n) == 0;
    let hit = r.begins_line(n) && (from || import || other);
    if hit { at(n, r.line_end(n), r.at(n), "") } else { None }
}

pub(super) fn class(r: &Reading<'_>, n: usize) -> Option<Match> {
    let hit = r.begins_line(n) && matches!(r.at(n), "class" | "struct") && r.is_name(n + 1);
    if hit { at(n, r.block_end(n), r.at(n), "") } else { None }
}

pub(super) fn function(r: &Reading<'_>, n: usize) -> Option<Match> {
    let word = matches!(r.at(n), "def" | "function" | "func" | "fun" | "layer" | "network");
    let hit = r.begins_line(n) && word && r.is_name(n + 1) && matches!(r.at(n + 2), "(" | "[");
    if hit { at(n, header_end(r, n + 2)?, r.at(n), "") } else { None }
}

/// One past what stands between a declaration's name and its body.
fn header_end(r: &Reading<'_>, open: usize) -> Option<usize> {
    let mut end = r.close(open)? + 1;
    if r.at(end) == "(" {
        end = r.close(end)? + 1;
    }
    if r.at(end) == "->" {
        end = if r.at(end + 1) == "(" { r.close(end + 1)? + 1 } else { r.operand_after(end + 1)? };
    }
    Some(end + usize::from(r.at(end) == ":"))
}

/// Where the parameters of a declaration end whose keyword stands here.
fn parameters_end(r: &Reading<'_>, n: usize) -> Option<usize> {
    let declares = matches!(r.at(n), "fn" | "model" | "block") && r.is_name(n + 1);
    let mut open = n + 2;
    if declares && r.at(open) == "[" {
        open = r.close(open)? + 1;
    }
    if declares && r.at(open) == "(" { r.close(open) } else { None }
}

pub(super) fn result_by_colon(r: &Reading<'_>, n: usize) -> Option<Match> {
    let close = parameters_end(r, n)?;
    if r.at(close + 1) != ":" || r.begins_line(close + 2) {
        return None;
    }
    let end = r.operand_after(close + 2)?;
    at(close + 1, end, ":", format!("-> {}", r.source(close + 2, end)))
}

pub(super) fn body_by_colon(r: &Reading<'_>, n: usize) -> Option<Match> {
    let close = parameters_end(r, n)?;
    let colon = if r.at(close + 1) == "->" {
        if r.at(close + 2) == "(" { r.close(close + 2)? + 1 } else { r.operand_after(close + 2)? }
    } else {
        close + 1
    };
    let hit = r.at(colon) == ":" && r.begins_line(colon + 1);
    if hit { at(n, colon + 1, ":", format!("{} {{ … }}", r.source(n, colon))) } else { None }
}

// ---- statements

/// A loop in the manner of Python, C or Julia, as a statement or over an argument.
pub(super) fn loop_(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) != "for" {
        return None;
    }
    let statement = r.begins_line(n) || r.at(n - 1) == "{";
    let written = |name: &str, low: &str, high: &str| {
        let body = if statement { " { … }" } else { "" };
        format!("for {name} in {low}..{high}{body}")
    };
    if r.at(n + 1) == "(" {
        return c_loop(r, n, &written);
    }
    let end = header_of_loop(r, n, statement);
    let by_colon = r.at(end - 1) == ":";
    let last = end - usize::from(by_colon);
    let name = r.at(n + 1);
    if !matches!(r.at(n + 2), "in" | "=") {
        return over_pairs(r, n, &written);
    }
    let first = n + 3;
    if r.at(first) == "range" && r.at(first + 1) == "(" {
        let close = r.close(first + 1)?;
        let bounds: Vec<String> = r.arguments(first + 1, close).into_iter().map(|(_, text)| text).collect();
        let write = match bounds.as_slice() {
            [high] => written(name, "0", high),
            [low, high, ..] => written(name, low, high),
            [] => written(name, "0", "N"),
        };
        return at(n, end.max(close + 1), "for", write);
    }
    let depth_zero = |sign: &'static str| (first..last).find(|m| r.at(*m) == sign);
    if let Some(dots) = depth_zero("..") {
        let inclusive = r.at(dots + 1) == "=";
        let behind = dots + 1 + usize::from(inclusive || r.at(dots + 1) == ".");
        let braced = !statement || r.at(end) == "{";
        if behind == dots + 1 && r.at(n + 2) == "in" && !by_colon && braced {
            return None;
        }
        let high = r.source(behind, last) + if inclusive { " + 1" } else { "" };
        return at(n, end, "for", written(name, &r.source(first, dots), &high));
    }
    if let Some(colon) = depth_zero(":") {
        return at(n, end, "for", written(name, &r.source(first, colon), &r.source(colon + 1, last)));
    }
    let over = r.source(first, last);
    let length = r.shape(&over, n).and_then(|s| s.first().map(|(_, length)| length.clone()));
    at(n, end, "for", written(name, "0", &length.unwrap_or_else(|| "N".to_owned())))
}

/// `for i, x in enumerate(xs)`.
fn over_pairs(r: &Reading<'_>, n: usize, written: &dyn Fn(&str, &str, &str) -> String) -> Option<Match> {
    let end = r.line_end(n);
    let in_ = (n..end).find(|m| r.at(*m) == "in")?;
    let to = (in_..end).find(|m| matches!(r.at(*m), "{" | ":")).unwrap_or(end);
    let over = if r.at(in_ + 2) == "(" { r.at(in_ + 3) } else { r.at(in_ + 1) };
    let length = r.shape(over, n).and_then(|s| s.first().map(|(_, length)| length.clone()));
    let high = length.unwrap_or_else(|| "N".to_owned());
    if r.at(n + 2) == "," { at(n, to, "for", written(r.at(n + 1), "0", &high)) } else { None }
}

/// One past the header of a loop: its body's brace, the end of its line, or what closes the argument.
fn header_of_loop(r: &Reading<'_>, n: usize, statement: bool) -> usize {
    let end = r.expression_end(n + 1);
    if statement { end.min(r.line_end(n)) } else { end }
}

fn c_loop(r: &Reading<'_>, n: usize, written: &dyn Fn(&str, &str, &str) -> String) -> Option<Match> {
    let close = r.close(n + 1)?;
    let sign = |text: &str| (n + 2..close).find(|m| r.at(*m) == text);
    let write = match (sign("="), sign("<").or(sign("<=")), sign(";")) {
        (Some(equal), Some(less), Some(semicolon)) => {
            let second = (less..close).find(|m| r.at(*m) == ";").unwrap_or(close);
            let more = if r.at(less) == "<=" { " + 1" } else { "" };
            let high = r.source(less + 1, second) + more;
            written(r.at(equal - 1), &r.source(equal + 1, semicolon), &high)
        }
        _ => written("i", "0", "N"),
    };
    at(n, close + 1, "for", write)
}

/// `if c:` with its `elif` and `else`.
pub(super) fn python_if(r: &Reading<'_>, n: usize) -> Option<Match> {
    let end = r.line_end(n);
    let hit = r.at(n) == "if" && r.begins_line(n) && r.at(end - 1) == ":";
    if !hit {
        return None;
    }
    let mut next = r.block_end(n);
    let mut to = end;
    while matches!(r.at(next), "elif" | "else") && r.at(r.line_end(next) - 1) == ":" {
        to = r.line_end(next);
        next = r.block_end(next);
    }
    let more = if to > end { " else { … }" } else { "" };
    // What stands between the lines is read once the lines are right.
    at(n, to, "if", format!("if {} {{ … }}{more}", r.source(n + 1, end - 1)))
}

pub(super) fn while_(r: &Reading<'_>, n: usize) -> Option<Match> {
    let hit = r.at(n) == "while" && r.begins_line(n) && r.at(n + 1) != "=";
    if hit { at(n, r.line_end(n), "while", "") } else { None }
}

pub(super) fn print(r: &Reading<'_>, n: usize) -> Option<Match> {
    let hit = matches!(r.at(n), "print" | "println" | "printf") && r.begins_line(n);
    let call = hit && matches!(r.at(n + 1), "(" | "!");
    if call { at(n, r.line_end(n), "print", "") } else { None }
}

/// `var y = …`, `float y = …`.
pub(super) fn declared_by_word(r: &Reading<'_>, n: usize) -> Option<Match> {
    let words =
        ["var", "val", "auto", "const", "float", "int", "double", "tensor", "Tensor", "f32", "i64", "bool"];
    let hit = r.begins_line(n) && words.contains(&r.at(n)) && r.is_name(n + 1) && r.at(n + 2) == "=";
    if !hit || (r.at(n) == "const" && r.column(n) == 0) {
        return None;
    }
    at(n, r.line_end(n), r.at(n), format!("let {}", r.source(n + 1, r.line_end(n))))
}

pub(super) fn mutable(r: &Reading<'_>, n: usize) -> Option<Match> {
    let hit = r.at(n) == "let" && r.at(n + 1) == "mut" && r.is_name(n + 2);
    if hit { at(n, n + 3, "mut", format!("let {}", r.at(n + 2))) } else { None }
}

/// `x += y`.
pub(super) fn compound(r: &Reading<'_>, n: usize) -> Option<Match> {
    let operator = ["+", "-", "*", "/", "%", "@", "**", "&", "|"].contains(&r.at(n));
    if !operator || r.at(n + 1) != "=" || !r.touches(n + 1) || r.at(n + 2) == "=" {
        return None;
    }
    let from = r.operand_before(n)?;
    let (target, end) = (r.source(from, n), r.expression_end(n + 2));
    let value = r.source(n + 2, end);
    let simple = !value.contains(' ') || matches!(r.at(n), "+");
    let value = if simple { value } else { format!("({value})") };
    at(n, n + 2, &r.source(n, n + 2), format!("{target} = {target} {} {value}", r.at(n)))
}

pub(super) fn increment(r: &Reading<'_>, n: usize) -> Option<Match> {
    let twice = matches!(r.at(n), "+" | "-") && r.at(n + 1) == r.at(n) && r.touches(n + 1) && r.touches(n);
    if !twice || !r.begins_line(n + 2) && r.operand_after(n + 2).is_some() {
        return None;
    }
    let target = r.source(r.operand_before(n)?, n);
    at(n, n + 2, &r.source(n, n + 2), format!("{target} = {target} {} 1", r.at(n)))
}

/// `x[0] = 1`.
pub(super) fn element_assigned(r: &Reading<'_>, n: usize) -> Option<Match> {
    if !r.begins_line(n) || !r.is_name(n) || r.at(n + 1) != "[" || !r.touches(n + 1) {
        return None;
    }
    let close = r.close(n + 1)?;
    let items = r.items(n + 1, close);
    let plain = |(from, to): &(usize, usize)| {
        let alone = *to == from + 1 && (r.is_name(*from) || matches!(r.at(*from), ".." | "_"));
        alone || r.is_name(*from) && r.at(from + 1) == ":" && from + 2 < *to
    };
    let assigned = r.at(close + 1) == "=" && r.at(close + 2) != "=";
    if !assigned || items.iter().all(plain) {
        return None;
    }
    let end = r.line_end(close);
    let shape = r.shape(r.at(n), n).filter(|shape| shape.len() >= items.len());
    let rank = shape.as_ref().map_or(items.len(), Vec::len);
    let is_alone = |own: &str| shape.iter().flatten().filter(|(name, _)| name == own).count() == 1;
    let spare = ["i", "j", "k", "l", "m"];
    let names: Vec<String> = (0..rank.min(spare.len()))
        .map(|m| shape.as_ref().map_or("", |s| s[m].0.as_str()))
        .zip(spare)
        .map(|(own, other)| if own.is_empty() || !is_alone(own) { other } else { own }.to_owned())
        .collect();
    let fixed = items.iter().zip(&names).filter(|((from, _), _)| r.at(*from) != ":");
    let conditions: Vec<String> =
        fixed.map(|((from, to), name)| format!("{name} == {}", r.source(*from, *to))).collect();
    let (x, list) = (r.at(n), names.join(", "));
    let (condition, value) = (conditions.join(" and "), r.source(close + 2, end));
    let write = format!("let {x}[{list}] = if {condition} then {value} else {x}[{list}]");
    at(n, end, x, if condition.is_empty() { String::new() } else { write })
}

// ---- functions without names

/// `lambda x: …`, `|x| …`, `x => …`.
pub(super) fn lambda(r: &Reading<'_>, n: usize) -> Option<Match> {
    let python = r.at(n) == "lambda" && (r.is_name(n + 1) || r.at(n + 1) == ":");
    let names_end = |from: usize| {
        let mut m = from;
        while r.is_name(m) {
            m += 1 + usize::from(r.at(m + 1) == ",");
        }
        m
    };
    let bars = r.at(n) == "|" && !r.follows_operand(n) && r.is_name(n + 1);
    let arrow = r.is_name(n) && r.at(n + 1) == "=" && r.at(n + 2) == ">" && r.touches(n + 2);
    let end_of_names = names_end(n + 1);
    let closed = bars && r.at(end_of_names) == "|" && r.operand_after(end_of_names + 1).is_some();
    let (names, body) = if python || closed {
        (n + 1..end_of_names, end_of_names + 1)
    } else if arrow {
        (n..n + 1, n + 3)
    } else {
        return None;
    };
    let end = r.expression_end(body);
    let write = format!("fn f({}) {{ return {} }}", r.source(names.start, names.end), r.source(body, end));
    at(n, end, "lambda", write)
}

// ---- choices

/// `c ? a : b`.
pub(super) fn ternary(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) != "?" {
        return None;
    }
    let (from, end) = (r.expression_start(n), r.expression_end(n));
    let colon = (n..end).find(|m| r.at(*m) == ":").filter(|_| from < n)?;
    let (c, a, b) = (r.source(from, n), r.source(n + 1, colon), r.source(colon + 1, end));
    at(from, end, "?", format!("if {} then {} else {}", value(&c), value(&a), value(&b)))
}

/// `a if c else b`.
pub(super) fn python_choice(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) != "if" || !r.follows_operand(n) {
        return None;
    }
    let (from, end) = (r.expression_start(n), r.expression_end(n));
    let otherwise = (n..end).find(|m| r.at(*m) == "else")?;
    let is_choice = (n..otherwise).all(|m| r.at(m) != "then") && from < n;
    let (a, c) = (r.source(from, n), r.source(n + 1, otherwise));
    let b = r.source(otherwise + 1, end);
    let write = format!("if {} then {} else {}", value(&c), value(&a), value(&b));
    if is_choice { at(from, end, "if", write) } else { None }
}

/// `if c { a } else { b }` as a value.
pub(super) fn braced_choice(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) != "if" || n == 0 || !matches!(r.at(n - 1), "=" | "return" | "(" | ",") {
        return None;
    }
    let open = r.expression_end(n);
    let close = (r.at(open) == "{").then(|| r.close(open)).flatten()?;
    let other =
        (r.at(close + 1) == "else" && r.at(close + 2) == "{").then(|| r.close(close + 2)).flatten()?;
    let (c, a, b) = (r.source(n + 1, open), r.source(open + 1, close), r.source(close + 3, other));
    at(n, other + 1, "if", format!("if {c} then {a} else {b}"))
}

/// `|x|`.
pub(super) fn magnitude(r: &Reading<'_>, n: usize) -> Option<Match> {
    let opens = r.at(n) == "|" && !r.follows_operand(n) && r.at(n + 1) != "|";
    let end = r.line_end(n);
    let close = opens.then(|| (n + 2..end).find(|m| r.at(*m) == "|" && r.follows_operand(*m))).flatten()?;
    at(n, close + 1, "|", format!("abs({})", r.source(n + 1, close)))
}

// ---- brackets

/// `x[::-1]`, `x[0:8:2]`.
pub(super) fn stepped(r: &Reading<'_>, n: usize) -> Option<Match> {
    let close = (r.at(n) == "[" && r.follows_operand(n)).then(|| r.close(n)).flatten()?;
    let items = r.items(n, close);
    let colons = |(from, to): &(usize, usize)| (*from..*to).filter(|m| r.at(*m) == ":").count();
    let which = items.iter().position(|item| colons(item) == 2)?;
    let (from, to) = items[which];
    let second = (from..to).rfind(|m| r.at(*m) == ":")?;
    let start = r.operand_before(n)?;
    let (x, step) = (r.source(start, n), r.source(second + 1, to));
    let shape = r.shape(&x, n).filter(|shape| shape.len() >= items.len());
    let length = shape.as_ref().map_or("T".to_owned(), |s| s[which].1.clone());
    let last = shape.as_ref().is_none_or(|s| s.len() == which + 1) && items.len() == 1;
    let read = match step.as_str() {
        "-1" if last => return at(start, close + 1, "::", format!("flip({x})")),
        "-1" => format!("{length} - 1 - n"),
        step => format!("n * {step}"),
    };
    let extent = if step == "-1" { length } else { format!("{length} / {step}") };
    let rest = if shape.as_ref().is_some_and(|s| s.len() == which + 1) { "" } else { ", .." };
    let names: Vec<&str> = ["i", "j", "k", "l"][..which.min(4)].to_vec();
    let before: String = names.iter().map(|name| format!("{name}, ")).collect();
    at(start, close + 1, "::", format!("let z[{before}n: {extent}{rest}] = {x}[{before}{read}{rest}]"))
}

/// `(a, b)`, as a value or on the left of a definition.
pub(super) fn tuple(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) != "(" || r.follows_operand(n) || r.at(n.wrapping_sub(1)) == "->" {
        return None;
    }
    let close = r.close(n)?;
    let items = r.items(n, close);
    let one = r.at(close.wrapping_sub(1)) == ",";
    if items.len() < 2 && !one {
        return None;
    }
    let before = if matches!(r.at(n.wrapping_sub(1)), "return" | "let") { r.at(n - 1) } else { "" };
    let list: Vec<String> = items.iter().map(|(from, to)| r.source(*from, *to)).collect();
    at(n, close + 1, "(", format!("{before} {}", list.join(", ")).trim().to_owned())
}

/// `[a, b]` where a value begins.
pub(super) fn list(r: &Reading<'_>, n: usize) -> Option<Match> {
    let value = n > 0 && matches!(r.at(n - 1), "=" | "return" | "(" | "," | "+" | "-" | "*" | "/" | "@");
    if r.at(n) != "[" || !value {
        return None;
    }
    let close = r.close(n)?;
    let each = (n..close).find(|m| r.at(*m) == "for");
    let inside = r.source(n + 1, close);
    if each.is_some_and(|m| r.at(m + 3) == "range") {
        return None;
    }
    at(
        n,
        close + 1,
        "[",
        if each.is_some() { format!("concat({inside})") } else { format!("stack({inside})") },
    )
}

// ---- numbers

/// Letters behind a number that say its type in other languages.
const SUFFIXES: &[&str] = &[
    "f", "F", "l", "L", "d", "D", "u", "U", "h", "H", "j", "J", "m", "M", "lf", "LL", "UL", "f16", "f32",
    "f64", "i32", "i64", "u8", "u32", "u64",
];

/// One past a number with letters behind it. Such an integer is no token: its digits stand alone.
fn lettered(r: &Reading<'_>, n: usize) -> Option<usize> {
    let is_digit = |m: usize| r.at(m).len() == 1 && r.at(m).chars().all(|c| c.is_ascii_digit());
    let mut end = n;
    while is_digit(end) && (end == n || r.touches(end)) {
        end += 1;
    }
    if end == n {
        end = n + usize::from(r.is_number(n));
    }
    (end > n && r.touches(end) && r.is_name(end)).then_some(end)
}

/// `1.0f`, `2L`.
pub(super) fn suffix(r: &Reading<'_>, n: usize) -> Option<Match> {
    let end = lettered(r, n)?;
    let hit = SUFFIXES.contains(&r.at(end));
    if hit { at(n, end + 1, r.at(end), r.source(n, end).replace(' ', "")) } else { None }
}

/// `2x`.
pub(super) fn number_times(r: &Reading<'_>, n: usize) -> Option<Match> {
    let letters = lettered(r, n)?;
    let number = r.source(n, letters).replace(' ', "");
    let end = r.operand_after(letters)?;
    at(n, end, &number, format!("{number} * {}", r.source(letters, end)))
}

/// `.5` and `1.`.
pub(super) fn point(r: &Reading<'_>, n: usize) -> Option<Match> {
    let before =
        r.at(n) == "." && r.is_number(n + 1) && r.touches(n + 1) && !(r.touches(n) && r.follows_operand(n));
    if before {
        return at(n, n + 2, ".", format!("0.{}", r.at(n + 1)));
    }
    let method = r.is_name(n + 2) && r.touches(n + 2);
    let behind = r.is_number(n) && r.at(n + 1) == "." && r.touches(n + 1) && !method;
    if behind { at(n, n + 2, ".", format!("{}.0", r.at(n))) } else { None }
}

// ---- operators

/// `x is None`, `x == None`.
pub(super) fn is_none(r: &Reading<'_>, n: usize) -> Option<Match> {
    let compares = (r.at(n) == "is" && r.follows_operand(n)) || matches!(r.at(n), "==" | "!=");
    let none = n + 1 + usize::from(r.at(n + 1) == "not");
    let hit = compares && r.at(none) == "None";
    if hit { at(r.operand_before(n)?, none + 1, "None", "") } else { None }
}

/// `a is not b`.
pub(super) fn is_(r: &Reading<'_>, n: usize) -> Option<Match> {
    if r.at(n) != "is" || !r.follows_operand(n) {
        return None;
    }
    let negated = r.at(n + 1) == "not";
    let end = r.operand_after(n + 1 + usize::from(negated))?;
    let from = r.operand_before(n)?;
    let sign = if negated { "!=" } else { "==" };
    let right = r.source(n + 1 + usize::from(negated), end);
    at(from, end, "is", format!("{} {sign} {}", r.source(from, n), value(&right)))
}

/// `!x`.
pub(super) fn bang(r: &Reading<'_>, n: usize) -> Option<Match> {
    let end = (r.at(n) == "!").then(|| r.operand_after(n + 1)).flatten()?;
    at(n, end, "!", format!("not {}", r.source(n + 1, end)))
}
