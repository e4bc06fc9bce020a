//! Methods, the functions of modules, and calls whose arguments are lists, tuples or axes by number.

use super::marks::Match;
use super::reading::Reading;
use super::spell::{Foreign, spelled, value};

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

/// A method, an attribute, or a function of a module: `x.sum(-1)`, `x.shape[0]`, `np.sum(x, axis=-1)`.
pub(super) fn dotted(r: &Reading<'_>, n: usize) -> Option<Match> {
    let behind_word = r.at(n) == "." && n > 0 && r.touches(n) && r.is_name(n + 1) && r.touches(n + 1);
    if !behind_word || r.at(n + 1) == "T" || r.at(n - 1) == "fused" {
        return None;
    }
    let from = r.operand_before(n)?;
    let is_module = n == from + 1 && MODULES.contains(&r.at(from));
    if r.at(from) == "self" {
        return of_self(r, n, from);
    }
    if is_module { of_module(r, n, from) } else { methods(r, n, from) }
}

fn of_self(r: &Reading<'_>, n: usize, from: usize) -> Option<Match> {
    let to = r.operand_after(n + 1)?;
    let write =
        "a parameter is `param weight: f32[D]`, a layer is called with its path: `linear[E](x) as W_q`";
    Some(Match { from, to, it: "there is no `self`".to_owned(), write: write.to_owned() })
}

/// A call that begins with its name; gives the call, and one past its end.
fn call(r: &Reading<'_>, name: usize) -> Option<(Foreign, usize)> {
    let mut call = Foreign { name: r.at(name).to_owned(), ..Foreign::default() };
    let mut end = name + 1;
    let called = r.at(end) == "(" || r.at(end) == "[" && matches!(r.at(name), "shape" | "size");
    if called && r.touches(end) {
        let close = r.close(end)?;
        call.given = r.arguments(end, close);
        end = close + 1;
    }
    Some((call, end))
}

/// The shape of the first argument, or of the first tensor of the list that it is.
fn shape_of_first(r: &Reading<'_>, call: &Foreign, before: usize) -> Option<super::Shape> {
    let (_, first) = call.given.first()?;
    let name = first.trim_start_matches(['[', '(']).split([',', ')', ']']).next()?;
    r.shape(name.trim(), before)
}

/// `np.exp(x)`, `torch.nn.functional.softmax(x, dim=-1)`, `np.inf`.
fn of_module(r: &Reading<'_>, n: usize, from: usize) -> Option<Match> {
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
    let write = if constant {
        format!("write `{here}`")
    } else {
        spelled(&call).map_or_else(|| without_spelling(&call.name), |spelling| spelling.help())
    };
    Some(Match { from, to, it, write })
}

/// One method behind another, as far as each is a value.
fn methods(r: &Reading<'_>, n: usize, from: usize) -> Option<Match> {
    let receiver = r.source(from, n);
    let it = format!("`{receiver}` has no method or attribute `.{}`", r.at(n + 1));
    let mut code = receiver.clone();
    let mut at = n;
    let mut write = String::new();
    loop {
        let (mut call, end) = call(r, at + 1)?;
        call.given.insert(0, (None, code.clone()));
        call.shape = r.shape(&code, n);
        let Some(spelling) = spelled(&call) else {
            if at == n {
                write = without_spelling(&call.name);
            }
            at = if at == n { end } else { at };
            break;
        };
        let is_value = spelling.is_value();
        write = spelling.help();
        at = end;
        code = spelling.code;
        let more = r.at(end) == "." && r.touches(end) && r.is_name(end + 1) && r.at(end + 1) != "T";
        if !more || !is_value {
            break;
        }
    }
    Some(Match { from, to: at, it, write })
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
    let takes = |(from, to): &(usize, usize)| {
        let value = if r.at(from + 1) == "=" { from + 2 } else { *from };
        list(value, *to) || tuple(value, *to) || axis(*from)
    };
    let odd = items.iter().find(|item| takes(item))?;
    let (mut call, to) = call(r, n)?;
    call.shape = shape_of_first(r, &call, n);
    let spelling = spelled(&call)?;
    let what = if axis(odd.0) {
        super::axis_in_brackets(&call.name)
    } else {
        format!("`{}` takes no list or tuple", call.name)
    };
    Some(Match { from: n, to, it: what, write: spelling.help() })
}
