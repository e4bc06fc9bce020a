//! Random programs as text: definitions by index with whatever expression, whole tensors, and calls of the library.
//!
//! Most are accepted; what the language refuses must be refused with a message.

use salient_ir::op::map::functions;
use std::fmt::Write;

/// A tensor of the program: its name and its dimensions.
#[derive(Clone)]
struct Tensor {
    name: String,
    dims: Vec<&'static str>,
}

/// An expression, and what must hold where it is looked at.
struct Open {
    text: String,
    guards: Vec<String>,
}

/// The indices in scope with their dimensions.
type Scope = Vec<(String, &'static str)>;

struct Writer {
    rng: fastrand::Rng,
    body: String,
    tensors: Vec<Tensor>,
    masks: Vec<Tensor>,
    made: usize,
}

const DIMS: [&str; 6] = ["T", "S", "D", "T", "D", "3"];

/// The program of a seed with that many definitions.
pub fn source(seed: u64, steps: usize) -> String {
    let tensor = |name: &str, dims: &[&'static str]| Tensor { name: name.to_owned(), dims: dims.to_vec() };
    let tensors = vec![
        tensor("x", &["T", "D"]),
        tensor("y", &["S", "D"]),
        tensor("z", &["T", "S"]),
        tensor("w", &["D"]),
        tensor("r", &["T"]),
    ];
    let masks = vec![tensor("keep", &["T", "S"]), tensor("pad", &["S"])];
    let mut w = Writer { rng: fastrand::Rng::with_seed(seed), body: String::new(), tensors, masks, made: 0 };
    while w.made < steps {
        w.definition();
    }
    let results = w.results();
    format!(
        "model random(x: f32[T, D], y: f32[S, D], z: f32[T, S], w: f32[D], r: f32[T], keep: bool[T, S], pad: bool[S], \
         ids: i64[T], counts: i64[T]) {{\n{}    return {results}\n}}\n",
        w.body
    )
}

impl Writer {
    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.usize(0..from.len())].clone()
    }

    /// A tensor, a late one more often.
    fn tensor(&mut self) -> Tensor {
        let n = self.tensors.len();
        let from = if self.rng.bool() { n.saturating_sub(3) } else { 0 };
        self.tensors[self.rng.usize(from..n)].clone()
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("v{}", self.made)
    }

    fn line(&mut self, text: &str) {
        _ = writeln!(self.body, "    {text}");
    }

    fn results(&mut self) -> String {
        let last: Vec<String> = self.tensors.iter().rev().take(4).map(|t| t.name.clone()).collect();
        let mut out = vec![last[0].clone()];
        for name in &last[1..] {
            if self.rng.u8(0..3) == 0 {
                out.push(name.clone());
            }
        }
        out.join(", ")
    }

    fn definition(&mut self) {
        match self.rng.u8(0..12) {
            0..6 => self.by_index(),
            6 => self.mask(),
            7 | 8 => self.whole(),
            9 => self.of_library(),
            _ => self.attention(),
        }
    }

    /// `let v[i: T, j: S] = …`.
    fn by_index(&mut self) {
        let rank = self.rng.usize(1..4);
        let scope: Scope =
            (0..rank).map(|n| (format!("{}{n}", self.pick(&["i", "j", "d"])), self.pick(&DIMS))).collect();
        let depth = self.rng.usize(1..4);
        let value = self.expression(depth, &scope);
        let value = self.closed(value, "0.0");
        let name = self.name();
        let header: Vec<String> = scope.iter().map(|(n, d)| format!("{n}: {d}")).collect();
        self.line(&format!("let {name}[{}] = {value}", header.join(", ")));
        self.tensors.push(Tensor { name, dims: scope.iter().map(|(_, d)| *d).collect() });
    }

    fn mask(&mut self) {
        let rank = self.rng.usize(1..3);
        let scope: Scope = (0..rank).map(|n| (format!("i{n}"), self.pick(&DIMS))).collect();
        let condition = self.condition(2, &scope);
        let condition = self.closed(condition, "false");
        let name = self.name();
        let header: Vec<String> = scope.iter().map(|(n, d)| format!("{n}: {d}")).collect();
        self.line(&format!("let {name}[{}] = {condition}", header.join(", ")));
        self.masks.push(Tensor { name, dims: scope.iter().map(|(_, d)| *d).collect() });
    }

    /// Operators on whole tensors.
    fn whole(&mut self) {
        let (x, y) = (self.tensor(), self.tensor());
        let same = x.dims == y.dims;
        let a = &x.name;
        let b = if same || x.dims.ends_with(&y.dims) {
            y.name.clone()
        } else {
            self.pick(&["0.5", "2", "-1"]).to_owned()
        };
        let text = match self.rng.u8(0..10) {
            0 => format!("{a} + {b}"),
            1 => format!("{a} * tanh({b})"),
            2 => format!("max({a}, {b})"),
            3 => format!("{a} - mean({a})[.., _]"),
            4 => format!("{a} / (1 + sum(abs({a}))[.., _])"),
            5 => format!("sigmoid({a}) * {a}"),
            6 => format!("if {a} > 0 then {a} else {b}"),
            7 => format!("min(max({a}, -0.5), 1)"),
            8 => format!("{a} ** 2 / (1 + {a} ** 2)"),
            _ => format!("cumsum({a}) / 4"),
        };
        let name = self.name();
        self.line(&format!("let {name} = {text}"));
        self.tensors.push(Tensor { name, dims: x.dims });
    }

    /// Calls of the library.
    fn of_library(&mut self) {
        let x = self.tensor();
        let (a, name) = (x.name.clone(), self.name());
        let text = match self.rng.u8(0..7) {
            0 => format!("softmax({a})"),
            1 => format!("log_softmax({a})"),
            2 => format!("rms_norm[eps = 0.01]({a}) as {name}"),
            3 => format!("layer_norm[eps = 0.1]({a}) as {name}"),
            4 => format!("gelu_tanh({a})"),
            5 => format!("silu({a})"),
            _ => format!("softmax({a} * 3)"),
        };
        self.line(&format!("let {name} = {text}"));
        self.tensors.push(Tensor { name, dims: x.dims });
    }

    /// Scores, weights of any kind, and values under them.
    fn attention(&mut self) {
        let (mut q, mut k) = ("x".to_owned(), "y".to_owned());
        let (mut rows, mut keys) = ("T", "S");
        for _ in 0..6 {
            let t = self.tensor();
            if t.dims.len() == 2 && t.dims[1] == "D" {
                if self.rng.bool() {
                    (q, rows) = (t.name, t.dims[0])
                } else {
                    (k, keys) = (t.name, t.dims[0])
                }
            }
        }
        let v = self.tensors.iter().rev().find(|t| t.dims.len() == 2 && t.dims[0] == keys).cloned();
        let v = v.unwrap_or_else(|| self.tensors[if keys == "T" { 0 } else { 1 }].clone());
        if v.dims[0] != keys {
            return;
        }
        let (score, weight, out) = (self.name(), self.name(), self.name());
        self.line(&format!("let {score} = {q} @ {k}.T / sqrt(D + 1)"));
        let own: Vec<Tensor> =
            self.masks.iter().filter(|m| m.dims == [rows, keys] || m.dims == [keys]).cloned().collect();
        let mask = match self.rng.u8(0..5) {
            0 => format!("{score} > 0.1"),
            1 => format!("{score} > max({score})[.., _] - 1.5"),
            2 => "true".to_owned(),
            _ if own.is_empty() => format!("{score} < 2"),
            _ => self.pick(&own).name,
        };
        let masked = format!("if {mask} then {score} else -inf");
        let weights = match self.rng.u8(0..6) {
            0 => format!("exp({score}) / (1 + sum(exp({score}))[.., _])"),
            1 => format!("softmax({score} * 2)"),
            2 => format!("max(softmax({masked}) - 0.05, 0)"),
            3 => format!("softmax(if {mask} then {score} else -1e9)"),
            _ => format!("softmax({masked})"),
        };
        self.line(&format!("let {weight} = {weights}"));
        let values = match self.rng.u8(0..4) {
            0 => format!("(if {weight} > 0.04 then {weight} else 0) @ {}", v.name),
            1 => format!("{weight} @ {0} / (0.1 + sum({weight}))[.., _]", v.name),
            _ => format!("{weight} @ {}", v.name),
        };
        self.line(&format!("let {out} = {values}"));
        self.tensors.push(Tensor { name: weight, dims: vec![rows, keys] });
        self.tensors.push(Tensor { name: out, dims: vec![rows, v.dims[1]] });
    }

    fn expression(&mut self, depth: usize, scope: &Scope) -> Open {
        if depth == 0 {
            return self.leaf(scope);
        }
        match self.rng.u8(0..10) {
            0 | 1 => {
                let (a, b) = (self.expression(depth - 1, scope), self.expression(depth - 1, scope));
                let op = self.pick(&["+", "-", "*", "+", "*"]);
                joined(a, b, |a, b| format!("({a} {op} {b})"))
            }
            2 => {
                let a = self.expression(depth - 1, scope);
                let smooth = functions().filter(|row| !row.exact && row.curve.is_some_and(|c| c.is_total()));
                let names: Vec<&str> = smooth.map(|row| row.name).chain(["abs", "sigmoid"]).collect();
                let f = self.pick(&names);
                Open { text: format!("{f}({})", a.text), ..a }
            }
            3 | 4 => {
                let (c, a) = (self.condition(depth - 1, scope), self.expression(depth - 1, scope));
                let c = self.closed(c, "false");
                let b = self.expression(depth - 1, scope);
                joined(a, b, |a, b| format!("(if {c} then {a} else {b})"))
            }
            5..8 => self.reduction(depth, scope),
            8 => {
                let a = self.expression(depth - 1, scope);
                let text = self.closed(a, "0.0");
                Open { text, guards: Vec::new() }
            }
            _ => self.leaf(scope),
        }
    }

    /// `sum[k: T](…)` and its like: what depends on `k` is closed inside.
    fn reduction(&mut self, depth: usize, scope: &Scope) -> Open {
        let axis = format!("k{}", scope.len());
        let mut inner = scope.clone();
        inner.push((axis.clone(), self.pick(&DIMS)));
        let body = self.expression(depth - 1, &inner);
        let (bound, free): (Vec<String>, Vec<String>) =
            body.guards.iter().cloned().partition(|g| g.contains(&axis));
        let op = self.pick(&["sum", "mean", "max", "min", "sum"]);
        let other = if op == "sum" || op == "mean" { "0.0" } else { "-1.0" };
        let body = self.closed(Open { text: body.text, guards: bound }, other);
        let (axis, dim) = inner.pop().expect("just pushed");
        Open { text: format!("{op}[{axis}: {dim}]({body})"), guards: free }
    }

    fn leaf(&mut self, scope: &Scope) -> Open {
        match self.rng.u8(0..8) {
            0 => {
                Open { text: self.pick(&["0.5", "1.0", "-2.0", "0.0", "0.1"]).to_owned(), guards: Vec::new() }
            }
            1 => {
                let n = self.integer(2, scope);
                Open { text: format!("f32({n} % 7) * 0.2"), guards: Vec::new() }
            }
            _ => {
                let t = self.tensor();
                self.read(&t, scope)
            }
        }
    }

    /// A tensor at indices, which need guards where they may be outside.
    fn read(&mut self, t: &Tensor, scope: &Scope) -> Open {
        let mut guards = Vec::new();
        let indices: Vec<String> =
            t.dims.clone().into_iter().map(|dim| self.index(dim, scope, &mut guards)).collect();
        Open { text: format!("{}[{}]", t.name, indices.join(", ")), guards }
    }

    fn index(&mut self, dim: &'static str, scope: &Scope, guards: &mut Vec<String>) -> String {
        let fitting: Vec<String> = scope.iter().filter(|(_, d)| *d == dim).map(|(n, _)| n.clone()).collect();
        if !fitting.is_empty() && self.rng.u8(0..3) > 0 {
            return self.pick(&fitting);
        }
        let n = self.integer(1, scope);
        match self.rng.u8(0..5) {
            0 => format!("({n}) % {dim}"),
            1 => format!("min(max({n}, 0), {dim} - 1)"),
            2 if dim == "S" && scope.iter().any(|(_, d)| *d == "T") => {
                let (i, _) = scope.iter().find(|(_, d)| *d == "T").expect("just seen");
                format!("ids[{i}]")
            }
            _ => {
                guards.push(format!("0 <= {n}"));
                guards.push(format!("{n} < {dim}"));
                n
            }
        }
    }

    fn integer(&mut self, depth: usize, scope: &Scope) -> String {
        let leaf = |w: &mut Writer| match w.rng.u8(0..4) {
            0 => w.rng.i64(0..4).to_string(),
            _ => w.pick(scope).0,
        };
        if depth == 0 {
            return leaf(self);
        }
        let (a, b) = (self.integer(depth - 1, scope), leaf(self));
        match self.rng.u8(0..8) {
            0 => format!("({a} + {b})"),
            1 | 2 => format!("({a} - {b})"),
            3 => format!("({a} / 2)"),
            4 => format!("({a} % 3)"),
            5 => format!("abs({a} - {b})"),
            6 => format!("(2 * {a} + 1)"),
            _ => a,
        }
    }

    fn condition(&mut self, depth: usize, scope: &Scope) -> Open {
        match self.rng.u8(0..8) {
            0 | 1 if depth > 0 => {
                let (a, b) = (self.condition(depth - 1, scope), self.condition(depth - 1, scope));
                let op = self.pick(&["and", "or"]);
                joined(a, b, |a, b| format!("({a} {op} {b})"))
            }
            2 => {
                let a = self.expression(depth.min(1), scope);
                let c = self.pick(&["0.03", "-0.4", "0.7"]);
                Open { text: format!("({} > {c})", a.text), ..a }
            }
            3 => {
                let masks = self.masks.clone();
                let mask = self.pick(&masks);
                self.read(&mask, scope)
            }
            4 if depth > 0 => {
                let a = self.condition(depth - 1, scope);
                Open { text: format!("not ({})", a.text), ..a }
            }
            _ => {
                let (a, b) = (self.integer(1, scope), self.integer(1, scope));
                let op = self.pick(&["<", "<=", ">", ">=", "==", "!="]);
                Open { text: format!("({a} {op} {b})"), guards: Vec::new() }
            }
        }
    }

    /// An expression that may stand anywhere.
    fn closed(&mut self, open: Open, other: &str) -> String {
        if open.guards.is_empty() {
            return open.text;
        }
        if self.rng.bool() {
            return format!("(if {} then {} else {other})", open.guards.join(" and "), open.text);
        }
        open.guards
            .iter()
            .rev()
            .fold(open.text, |text, guard| format!("(if {guard} then {text} else {other})"))
    }
}

fn joined(a: Open, b: Open, text: impl Fn(String, String) -> String) -> Open {
    let mut guards = a.guards;
    guards.extend(b.guards);
    Open { text: text(a.text, b.text), guards }
}
