//! Methods, the functions of modules, and calls whose arguments are lists, tuples or axes by number.

use super::marks::Match;
use super::reading::Reading;
use super::spell::{Foreign, Spelling, spelled, value};

/// What functions stand behind in other systems.
const MODULES: &[&str] = &[
    "np",
    "numpy",
    "torch",
    "F",
    "nn",
    "functional",
    "jnp",
    "jax",
    "lax",
    "math",
    "tf",
    "linalg",
    "special",
    "fft",
    "einops",
    "mx",
    "scipy",
];

/// A method, an attribute, or a function of a module, with what is written instead.
struct Found {
    from: usize,
    to: usize,
    /// What is said of it.
    it: String,
    /// The name that has no meaning here.
    name: String,
    spelling: Option<Spelling>,
}

/// Where the operand begins behind which a dot and a word stand.
fn behind_word(r: &Reading<'_>, n: usize) -> Option<usize> {
    let dotted = r.at(n) == "." && n > 0 && r.touches(n) && r.is_name(n + 1) && r.touches(n + 1);
    if !dotted || r.at(n + 1) == "T" || r.at(n - 1) == "fused" { None } else { r.operand_before(n) }
}

fn found(r: &Reading<'_>, n: usize, from: usize) -> Option<Found> {
    let is_module = n == from + 1 && MODULES.contains(&r.at(from));
    if is_module { of_module(r, n, from) } else { methods(r, n, from) }
}

/// `x.sum(-1)`, `x.shape[0]`, `np.sum(x, axis=-1)`.
pub(super) fn dotted(r: &Reading<'_>, n: usize) -> Option<Match> {
    let from = behind_word(r, n)?;
    if r.at(from) == "self" {
        return of_self(r, n, from);
    }
    let found = found(r, n, from)?;
    let write = found.spelling.map_or_else(|| without_spelling(&found.name), |spelling| spelling.help());
    Some(Match { from: found.from, to: found.to, it: found.it, write })
}

fn of_self(r: &Reading<'_>, n: usize, from: usize) -> Option<Match> {
    let to = r.operand_after(n + 1)?;
    let write =
        "a parameter is `param weight: f32[D]`, a layer is called with its path: `linear[E](x) as W_q`";
    Some(Match { from, to, it: "there is no `self`".to_owned(), write: write.to_owned() })
}

/// A call that begins with its name; gives the call, and one past its end. Its arguments are written as they are to be.
fn call(r: &Reading<'_>, name: usize) -> Option<(Foreign, usize)> {
    let mut call = Foreign { name: r.at(name).to_owned(), ..Foreign::default() };
    let mut end = name + 1;
    let opens = |at: usize, bracket: &str| r.at(at) == bracket && r.touches(at);
    if opens(end, "(") || opens(end, "[") && matches!(r.at(name), "shape" | "size") {
        let close = r.close(end)?;
        call.given = r.arguments(end, close);
        for ((_, text), (from, to)) in call.given.iter_mut().zip(r.items(end, close)) {
            let from = if r.at(from + 1) == "=" { from + 2 } else { from };
            if let Some(inner) = translated(r, from, to) {
                *text = inner;
            }
        }
        end = close + 1;
    }
    Some((call, end))
}

/// Tokens with the methods and functions of modules in them written as they are to be, where each is a value.
fn translated(r: &Reading<'_>, from: usize, to: usize) -> Option<String> {
    let mut out = Vec::new();
    let mut start = from;
    let mut at = from;
    while at < to {
        let found = behind_word(r, at)
            .and_then(|first| found(r, at, first))
            .filter(|f| f.from >= start && f.to <= to);
        at = match found {
            Some(Found { from, to, spelling: Some(spelling), .. }) if spelling.is_value() => {
                out.push(r.source(start, from));
                out.push(spelling.code);
                start = to;
                to
            }
            Some(_) | None => at + 1,
        };
    }
    if out.is_empty() {
        return None;
    }
    out.push(r.source(start, to));
    Some(out.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "))
}

/// The shape of the first argument, or of the first tensor of the list that it is.
fn shape_of_first(r: &Reading<'_>, call: &Foreign, before: usize) -> Option<super::Shape> {
    let (_, first) = call.given.first()?;
    let name = first.trim_start_matches(['[', '(']).split([',', ')', ']']).next()?;
    r.shape(name.trim(), before)
}

/// `np.exp(x)`, `torch.nn.functional.softmax(x, dim=-1)`, `np.inf`.
fn of_module(r: &Reading<'_>, n: usize, from: usize) -> Option<Found> {
    let mut name = n + 1;
    while r.at(name + 1) == "." && r.touches(name + 1) && r.touches(name + 2) && r.at(name + 2) != "T" {
        if !MODULES.contains(&r.at(name)) {
            break;
        }
        name += 2;
    }
    let (mut call, mut to) = call(r, name)?;
    let module = r.source(from, name).replace(' ', "");
    let it = format!("there is no module `{}`", module.trim_end_matches('.'));
    // A layer that is made and called at once.
    if r.at(to) == "(" && r.touches(to) {
        let close = r.close(to)?;
        call.input = Some(r.source(to + 1, close));
        to = close + 1;
    }
    call.shape = shape_of_first(r, &call, n);
    let here = value(&r.source(from, name + 1).replace(' ', ""));
    let constant = to == name + 1 && here != r.source(from, name + 1).replace(' ', "");
    let spelling = if constant { Some(Spelling { code: here, note: String::new() }) } else { spelled(&call) };
    Some(Found { from, to, it, name: call.name, spelling })
}

/// One method behind another, as far as each is a value.
fn methods(r: &Reading<'_>, n: usize, from: usize) -> Option<Found> {
    let receiver = r.source(from, n);
    let it = format!("`{receiver}` has no method or attribute `.{}`", r.at(n + 1));
    let mut code = receiver.clone();
    let mut at = n;
    let mut last = None;
    loop {
        let (mut call, end) = call(r, at + 1)?;
        call.given.insert(0, (None, code.clone()));
        call.shape = r.shape(&code, n);
        let Some(spelling) = spelled(&call) else {
            at = if at == n { end } else { at };
            break;
        };
        let is_value = spelling.is_value();
        at = end;
        code.clone_from(&spelling.code);
        last = Some(spelling);
        let more = r.at(end) == "." && r.touches(end) && r.is_name(end + 1) && r.at(end + 1) != "T";
        if !more || !is_value {
            break;
        }
    }
    Some(Found { from, to: at, it, name: r.at(n + 1).to_owned(), spelling: last })
}

fn without_spelling(name: &str) -> String {
    let near = crate::diag::did_you_mean(name, crate::habits::callable());
    near.unwrap_or_else(|| "a function is called by its name alone, as `softmax(x)`".to_owned())
}

/// A call with arguments that no function here takes: `concat([x, y], 1)`, `zeros((3, 4))`, `softmax(x, axis=-1)`.
pub(super) fn foreign(r: &Reading<'_>, n: usize) -> Option<Match> {
    let is_call = r.is_name(n) && r.at(n + 1) == "(" && r.touches(n + 1) && (n == 0 || r.at(n - 1) != ".");
    if !is_call || matches!(r.at(n.wrapping_sub(1)), "fn" | "model" | "block" | "def") {
        return None;
    }
    let close = r.close(n + 1)?;
    let items = r.items(n + 1, close);
    let list = |from: usize, to: usize| r.at(from) == "[" && r.close(from) == Some(to - 1);
    let tuple = |from: usize, to: usize| {
        r.at(from) == "(" && r.close(from) == Some(to - 1) && r.items(from, to - 1).len() > 1
    };
    let axis = |from: usize| r.at(from) == "axis" && r.at(from + 1) == "=";
    let text = |from: usize| matches!(r.at(from), "'" | "‘" | "’");
    let takes = |(from, to): &(usize, usize)| {
        let value = if r.at(from + 1) == "=" { from + 2 } else { *from };
        list(value, *to) || tuple(value, *to) || axis(*from) || text(value)
    };
    let odd = items.iter().find(|item| takes(item))?;
    let (mut call, to) = call(r, n)?;
    call.shape = shape_of_first(r, &call, n);
    let spelling = spelled(&call)?;
    let value = if r.at(odd.0 + 1) == "=" { odd.0 + 2 } else { odd.0 };
    let what = if axis(odd.0) {
        super::axis_in_brackets(&call.name)
    } else if text(value) {
        format!("`{}` takes no text", call.name)
    } else {
        format!("`{}` takes no list or tuple", call.name)
    };
    Some(Match { from: n, to, it: what, write: spelling.help() })
}

/// `float('-inf')`.
pub(super) fn number_of_text(r: &Reading<'_>, n: usize) -> Option<Match> {
    let quoted = |m: usize| matches!(r.at(m), "'" | "‘") || r.at(m).starts_with('"');
    let call = r.at(n) == "float" && r.at(n + 1) == "(" && r.touches(n + 1) && quoted(n + 2);
    let close = if call { r.close(n + 1)? } else { return None };
    let write = value(&r.source(n, close + 1).replace(' ', ""));
    Some(Match { from: n, to: close + 1, it: "float".to_owned(), write })
}
