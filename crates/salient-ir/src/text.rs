//! The text form of a graph: a flat program of the language, one operator a line, stable and legal.
//!
//! Reading it back is the language front end's work, since the form is a program like any other. Names come from the
//! source where it gave some; other lines are named after the line that uses them: `scores.1`.

mod expressions;
mod lines;
mod names;
mod own_lines;
mod written;

pub use expressions::{Declared, Expressions, Line};
pub use names::identifier;
pub use own_lines::Leaves;

use crate::axis::{AxisId, AxisSet, stored_names};
use crate::dim::Dim;
use crate::graph::{Graph, Init, NodeId, Relation, Requirement};
use crate::op::{Binding, Const, MapOp, Op};
use lines::{Lines, has_line, is_one_view, repeated};
use names::{Names, axis_names, names};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use written::{Env, Index, Written, has_sign, is_index};

/// The program text of a graph.
pub fn print(g: &Graph) -> String {
    Printer::new(g).program()
}

/// The name of each node as [`print`](fn@print) shows it; sources other than inputs and parameters have none.
pub fn node_names(g: &Graph) -> Vec<Option<String>> {
    names(g, &Lines::of(g)).nodes
}

/// An f32 as a literal of the language: shortest text that reads back the same, always with a point.
fn literal(c: Const) -> String {
    match c {
        Const::F32(bits) => {
            let x = f32::from_bits(bits);
            if x.is_nan() {
                "nan".to_owned()
            } else if x.is_infinite() {
                if x > 0.0 { "inf" } else { "-inf" }.to_owned()
            } else {
                format!("{x:?}")
            }
        }
        Const::I32(n) => format!("i32({n})"),
        Const::I64(n) => n.to_string(),
        Const::Bool(b) => b.to_string(),
    }
}

/// A relation between dimensions as the language writes it.
fn requirement(r: &Requirement) -> String {
    let relation = match &r.relation {
        Relation::Equal(a, b) => format!("{a} == {b}"),
        Relation::Divides(a, b) => format!("({a}) % ({b}) == 0"),
        Relation::AtMost(a, b) => format!("{a} <= {b}"),
    };
    let message = r.message.as_ref().map(|m| format!(", {m:?}")).unwrap_or_default();
    format!("{relation}{message}")
}

struct Printer<'a> {
    g: &'a Graph,
    names: Names,
    /// The name of each axis.
    axes: Vec<String>,
    /// The order in which a node's line lists its axes.
    order: Vec<Vec<AxisId>>,
    lines: Lines,
}

impl<'a> Printer<'a> {
    fn new(g: &'a Graph) -> Printer<'a> {
        let lines = Lines::of(g);
        let (names, axes) = (names(g, &lines), axis_names(g, &lines));
        let mut p = Printer { g, names, axes, order: vec![Vec::new(); g.len()], lines };
        p.choose_orders();
        p
    }

    fn choose_orders(&mut self) {
        for id in self.g.ids() {
            self.order[id.index()] = match self.g.port(id) {
                Some(port) => port.axes.clone(),
                None => self.order_of(id),
            };
        }
        for out in self.g.outputs() {
            if self.has_line(out.node) && out.axes.len() == self.g.node(out.node).axes.len() {
                self.order[out.node.index()] = out.axes.clone();
            }
        }
    }

    /// A node's axes in the order in which its arguments show them, so that the text does not depend on axis ids.
    fn order_of(&self, id: NodeId) -> Vec<AxisId> {
        let node = self.g.node(id);
        let args = self.g.args(id);
        let mut shown: Vec<AxisId> = Vec::new();
        if let Op::At(axis) = node.op {
            for a in &self.order[args[0].index()] {
                if *a == axis { shown.extend(&self.order[args[1].index()]) } else { shown.push(*a) }
            }
        } else {
            shown.extend(args.iter().flat_map(|a| &self.order[a.index()]));
        }
        let mut out: Vec<AxisId> = Vec::new();
        for axis in shown.into_iter().chain(node.axes.iter()) {
            if node.axes.contains(axis) && !out.contains(&axis) {
                out.push(axis);
            }
        }
        out
    }

    fn port(&self, p: &crate::Port) -> String {
        format!("{}[{}]", p.dtype, self.stored(&p.axes))
    }

    /// What goes in and out: the first line of a text.
    fn signature(&self, word: &str) -> String {
        let g = self.g;
        let kept: BTreeMap<usize, usize> = g.states().iter().map(|s| (s.output, s.input)).collect();
        let given = |(n, _): &(usize, &crate::Port)| !kept.values().any(|input| input == n);
        let inputs: Vec<_> = (g.inputs().iter().enumerate().filter(given))
            .map(|(_, p)| format!("{}: {}", p.name, self.port(p)))
            .collect();
        let returned = |(n, _): &(usize, &crate::Output)| !kept.contains_key(n);
        let outputs: Vec<_> = (g.outputs().iter().enumerate().filter(returned))
            .map(|(n, o)| {
                let ty = format!("{}[{}]", o.dtype, self.dims(&o.axes));
                let name = identifier(&o.name);
                if name == *o.name {
                    return format!("{name}: {ty}");
                }
                // Two paths may look alike as names.
                format!("{name}_{n}: {ty} as {}", o.name)
            })
            .collect();
        format!("{word} {}({}) -> ({}) {{\n", g.name(), inputs.join(", "), outputs.join(", "))
    }

    fn program(&self) -> String {
        let g = self.g;
        let port = |p: &crate::Port| self.port(p);
        let mut out = self.signature("model");
        let names: Vec<&String> = g.states().iter().map(|s| &self.names.inputs[s.input]).collect();
        let declared = |word: &str, name: &str, p: &crate::Port| {
            let path = if *name == *p.name { String::new() } else { format!(" as {}", p.name) };
            format!("    {word} {name}: {}{}{path}\n", port(p), self.init(p))
        };
        let (begin, zeros): (Vec<_>, Vec<_>) =
            g.states().iter().zip(&names).partition(|(state, _)| g.is_moved_parameter(state.input));
        for (state, name) in zeros {
            out.push_str(&declared("state", name, &g.inputs()[state.input]));
        }
        for r in g.requirements() {
            let _ = writeln!(out, "    require {}", requirement(r));
        }
        // What initialisers mention is there before all else, since they stand above.
        let (of_inits, inits_alone) = (self.of_inits(), self.init_only());
        let large: BTreeSet<NodeId> =
            of_inits.iter().copied().filter(|id| self.lines.by_name[id.index()]).collect();
        for id in &large {
            let Op::Map(map) = self.g.op(*id) else { continue };
            let name = self.names.nodes[id.index()].as_ref().expect("lines are named");
            let body = self.written_out(*id, *map, &Env::new(), &mut AxisSet::new()).text;
            let _ = writeln!(out, "    let {name} = {body}");
        }
        for (state, name) in begin {
            out.push_str(&declared("state", name, &g.inputs()[state.input]));
        }
        for (p, name) in g.params().iter().zip(&self.names.params) {
            out.push_str(&declared("param", name, p));
        }
        let first = g.ids().filter(|id| of_inits.contains(id));
        let lines = first.chain(g.ids().filter(|id| !of_inits.contains(id)));
        for id in lines.filter(|id| self.has_line(*id) && !inits_alone.contains(id) && !large.contains(id)) {
            for (place, arg, part) in repeated(g, id) {
                let mut seen = AxisSet::new();
                let body = self.usage(arg, &Env::new(), &mut seen).text;
                let axes = [&self.order[arg.index()][..], &[part]].concat();
                let name = &self.names.parts[&(id, place)];
                let _ = writeln!(out, "    let {name}{} = {body}", self.header(&axes, &seen));
            }
            let mut seen = AxisSet::new();
            let body = self.expression(id, &mut seen);
            let name = self.names.nodes[id.index()].as_ref().expect("lines are named");
            let _ = writeln!(out, "    let {name}{} = {body}", self.header(&self.order[id.index()], &seen));
        }
        let (mut returned, mut updates) = (Vec::new(), Vec::new());
        for (n, o) in g.outputs().iter().enumerate() {
            let state = g.states().iter().position(|s| s.output == n).map(|at| &names[at]);
            // What reads a state before the call must stand before the state's name changes its meaning.
            let held = |id: NodeId| g.states().iter().any(|s| *g.op(id) == Op::Input(s.input));
            let whole = self.order[o.node.index()] == o.axes && !held(o.node);
            let name = match self.names.nodes[o.node.index()].clone().filter(|_| whole) {
                Some(name) => name,
                None => {
                    let mut seen = AxisSet::new();
                    let body = self.usage(o.node, &Env::new(), &mut seen).text;
                    let name = self.output_name(&o.name);
                    let _ = writeln!(out, "    let {name}{} = {body}", self.output_header(o, &seen));
                    name
                }
            };
            match state {
                Some(state) => updates.push(format!("    {state} = {name}\n")),
                None => returned.push(name),
            }
        }
        out.extend(updates);
        let _ = writeln!(out, "    return {}\n}}", returned.join(", "));
        out
    }

    /// How a parameter or a state begins, as its declaration says it.
    fn init(&self, p: &crate::Port) -> String {
        match p.init {
            None => String::new(),
            Some(Init::Zeros) => " = zeros".to_owned(),
            Some(Init::Ones) => " = ones".to_owned(),
            Some(Init::Normal(s)) => format!(" = normal({})", self.scalar(s)),
            Some(Init::Uniform(a, b)) => format!(" = uniform({}, {})", self.scalar(a), self.scalar(b)),
        }
    }

    /// A name for the line of an output that is no line by itself: nothing else goes by it.
    fn output_name(&self, output: &str) -> String {
        let Names { nodes, parts, inputs, params } = &self.names;
        let taken = |name: &String| {
            nodes.iter().flatten().chain(parts.values()).chain(inputs).chain(params).any(|n| n == name)
        };
        let mut name = format!("{}_out", identifier(output).replace('.', "_"));
        while taken(&name) {
            name.push('_');
        }
        name
    }

    /// Every node that an initialiser mentions.
    fn of_inits(&self) -> BTreeSet<NodeId> {
        let mut out = BTreeSet::new();
        let mut waiting: Vec<NodeId> = self.g.init_nodes().collect();
        while let Some(id) = waiting.pop() {
            if out.insert(id) {
                waiting.extend(self.g.args(id));
            }
        }
        out
    }

    /// Lines that only an initialiser mentions: they are printed inside the declaration of the parameter.
    fn init_only(&self) -> BTreeSet<NodeId> {
        let g = self.g;
        let mut used = vec![false; g.len()];
        g.outputs().iter().for_each(|o| used[o.node.index()] = true);
        for id in g.ids().rev() {
            if used[id.index()] {
                g.args(id).iter().for_each(|a| used[a.index()] = true);
            }
        }
        g.ids().filter(|id| !used[id.index()]).collect()
    }

    fn dims(&self, axes: &[AxisId]) -> String {
        self.g.shape(axes).iter().map(|d| d.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// The dimensions of something stored, with the names of its axes where these are not the usual ones.
    fn stored(&self, axes: &[AxisId]) -> String {
        let dims = self.g.shape(axes);
        let usual = stored_names(&dims);
        let named = axes.iter().zip(&dims).zip(usual).map(|((axis, dim), usual)| {
            let name = self.axis_name(*axis);
            if name == usual { dim.to_string() } else { format!("{name}: {dim}") }
        });
        named.collect::<Vec<_>>().join(", ")
    }

    fn axis_name(&self, axis: AxisId) -> String {
        self.axes[axis.index()].clone()
    }

    /// `[i, j: T]`: the extent is written where no operand shows it.
    fn header(&self, axes: &[AxisId], seen: &AxisSet) -> String {
        if axes.is_empty() {
            return String::new();
        }
        let list: Vec<_> = axes.iter().map(|a| self.binder(*a, seen)).collect();
        format!("[{}]", list.join(", "))
    }

    /// As [`Printer::header`]; an axis of extent one that the result lacks has no name.
    fn output_header(&self, output: &crate::Output, seen: &AxisSet) -> String {
        if output.axes.is_empty() {
            return String::new();
        }
        let axes = &self.g.node(output.node).axes;
        let unit = |a: &AxisId| !axes.contains(*a) && self.g.extent(*a).as_constant() == Some(1);
        let list = output.axes.iter().map(|a| if unit(a) { "_".to_owned() } else { self.binder(*a, seen) });
        format!("[{}]", list.collect::<Vec<_>>().join(", "))
    }

    fn binder(&self, axis: AxisId, seen: &AxisSet) -> String {
        let name = self.axis_name(axis);
        if seen.contains(axis) { name } else { format!("{name}: {}", self.g.extent(axis)) }
    }

    /// The right side of a node's own line.
    fn expression(&self, id: NodeId, seen: &mut AxisSet) -> String {
        let args = self.g.args(id);
        let env = Env::new();
        let operands = |seen: &mut AxisSet| -> Vec<Written> {
            args.iter().map(|a| self.usage(*a, &env, seen)).collect()
        };
        let list = |seen: &mut AxisSet| {
            operands(seen).into_iter().map(|operand| operand.text).collect::<Vec<_>>().join(", ")
        };
        match self.g.op(id) {
            Op::Map(map) => operator(*map, &operands(seen)).text,
            Op::Reduce(op, axis) => {
                let body = list(seen);
                format!("{}[{}]({body})", op.info().name, self.binder(*axis, seen))
            }
            Op::CumSum(direction, axis) => {
                let body = list(seen);
                format!("{}[{}]({body})", direction.name(), self.binder(*axis, seen))
            }
            Op::Fused(op, axis) => {
                let body = list(seen);
                format!("fused.{}[{}]({body})", op.info().name, self.binder(*axis, seen))
            }
            Op::Concat(axis, parts) => {
                // The index is bound in each part on its own, with the part's extent.
                let name = self.axis_name(*axis);
                let mut shown = Vec::new();
                for (place, (arg, part)) in args.iter().zip(parts).enumerate() {
                    if let Some(repeated) = self.names.parts.get(&(id, place)) {
                        shown.push(self.usage_of_repeated(repeated, *arg, &name, seen));
                        continue;
                    }
                    let env = Env::from([(*part, Index::axis(name.clone()))]);
                    shown.push(self.usage(*arg, &env, seen).text);
                }
                seen.insert(*axis);
                format!("concat[{name}]({})", shown.join(", "))
            }
            Op::At(axis) => self.view(id, *axis, &env, seen).text,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {
                self.usage(id, &env, seen).text
            }
        }
    }

    /// Whether a node has a line of its own here.
    fn has_line(&self, id: NodeId) -> bool {
        has_line(self.g.op(id)) || self.lines.is_view(id)
    }

    /// What has a line that repeats it along an axis, at an index of that axis.
    fn usage_of_repeated(&self, name: &str, of: NodeId, index: &str, seen: &mut AxisSet) -> String {
        let order = &self.order[of.index()];
        order.iter().for_each(|a| seen.insert(*a));
        let axes: String = order.iter().map(|a| self.axis_name(*a) + ", ").collect();
        format!("{name}[{axes}{index}]")
    }

    /// A view written out in place.
    fn view(&self, id: NodeId, axis: AxisId, env: &Env, seen: &mut AxisSet) -> Written {
        let args = self.g.args(id);
        let mut index = self.index(args[1], env, seen);
        if let Op::Iota(from) = self.g.op(args[1])
            && self.g.extent(*from) != self.g.extent(axis)
        {
            index = index.made_a_value();
        }
        if let Some(repeated) = self.names.parts.get(&(id, 0)) {
            return Written::atom(self.usage_of_repeated(repeated, args[0], &index.in_brackets(), seen));
        }
        let mut inner = env.clone();
        inner.insert(axis, index);
        // As it is read back: a view that is written into another one.
        if let Op::At(axis) = self.g.op(args[0])
            && !self.lines.views.contains(&args[0])
            && is_one_view(self.g, id)
        {
            return self.view(args[0], *axis, &inner, seen);
        }
        self.usage(args[0], &inner, seen)
    }

    /// A node as an operand, with axes replaced as `env` says.
    fn usage(&self, id: NodeId, env: &Env, seen: &mut AxisSet) -> Written {
        match self.g.op(id) {
            Op::Const(c) => constant(*c),
            Op::Extent(dim) => dimension(dim),
            Op::Iota(axis) => self.index_of(*axis, env).written,
            Op::At(axis) if !self.lines.is_view(id) => self.view(id, *axis, env, seen),
            Op::Input(_)
            | Op::Param(_)
            | Op::Map(_)
            | Op::Reduce(..)
            | Op::At(_)
            | Op::Concat(..)
            | Op::CumSum(..)
            | Op::Fused(..) => {
                let name = self.names.nodes[id.index()].as_ref().expect("lines and ports are named");
                Written::atom(self.with_axes(name.clone(), id, env, seen))
            }
        }
    }

    /// `name[axes]`, the axes standing for what `env` says.
    fn with_axes(&self, name: String, id: NodeId, env: &Env, seen: &mut AxisSet) -> String {
        let axes = &self.order[id.index()];
        if axes.is_empty() {
            return name;
        }
        let mut shown = Vec::new();
        for axis in axes {
            shown.push(env.get(axis).map(Index::in_brackets).unwrap_or_else(|| {
                seen.insert(*axis);
                self.axis_name(*axis)
            }));
        }
        format!("{name}[{}]", shown.join(", "))
    }

    /// What stands for an axis. Unlike an axis of what is read this does not show how long it is.
    fn index_of(&self, axis: AxisId, env: &Env) -> Index {
        env.get(&axis).cloned().unwrap_or_else(|| Index::axis(self.axis_name(axis)))
    }

    /// An integer expression in brackets, written out in place.
    fn index(&self, id: NodeId, env: &Env, seen: &mut AxisSet) -> Index {
        if let Op::Iota(axis) = self.g.op(id) {
            return self.index_of(*axis, env);
        }
        let Op::Map(map) = self.g.op(id) else { return Index::of(self.usage(id, env, seen)) };
        if self.lines.by_name[id.index()] {
            return Index::of(self.usage(id, env, seen));
        }
        Index::of(self.written_out(id, *map, env, seen))
    }

    /// A scalar operator with its arguments written out in place.
    fn written_out(&self, id: NodeId, map: MapOp, env: &Env, seen: &mut AxisSet) -> Written {
        let args = self.g.args(id);
        operator(map, &args.iter().map(|a| self.index(*a, env, seen).written).collect::<Vec<_>>())
    }

    /// A scalar expression without axes, written out in place.
    fn scalar(&self, id: NodeId) -> String {
        self.index(id, &Env::new(), &mut AxisSet::new()).written.text
    }
}

/// A literal as a value.
fn constant(c: Const) -> Written {
    let is_zero = c == Const::I64(0);
    match c {
        Const::I64(_) | Const::I32(_) => Written { is_zero, ..Written::index(literal(c)) },
        Const::F32(_) | Const::Bool(_) => Written::atom(literal(c)),
    }
}

/// A dimension as a value.
fn dimension(dim: &Dim) -> Written {
    Written { is_zero: dim.as_constant() == Some(0), ..Written::index(dim.operand().to_string()) }
}

/// An operator with its written arguments, each of which is in parentheses if it has operators.
fn operator(map: MapOp, args: &[Written]) -> Written {
    let operands: Vec<String> = args.iter().map(Written::as_operand).collect();
    let sign = map.info().sign().filter(|_| has_sign(map, args));
    let (text, binding) = match (map, sign, operands.as_slice()) {
        (MapOp::Select, _, [c, a, b]) => (format!("if {c} then {a} else {b}"), Binding::Choice),
        (_, Some(sign), [a]) => (format!("{sign}{a}"), map.info().binding()),
        (_, Some(sign), [a, b]) => (format!("{a} {sign} {b}"), map.info().binding()),
        _ => (format!("{}({})", map.info().name, operands.join(", ")), Binding::Atom),
    };
    Written { text, binding, of_indices: is_index(map, args), is_zero: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, DType, Dim, ReduceOp};

    #[test]
    fn a_graph_reads_as_a_program() {
        let mut b = Builder::new("scores");
        let (t, d) = (b.axis_id("t", &Dim::symbol("T")), b.axis_id("d", &Dim::symbol("D")));
        let s = b.axis_id("s", &Dim::symbol("T"));
        let x = b.input("x", &[t, d], DType::F32, None);
        let w = b.param("W.weight", &[d], DType::F32, None, None);
        let xw = b.map(MapOp::Mul, &[x, w]).unwrap();
        b.describe(xw, Some(&"scaled".into()), None);
        let keys = b.rename(x, t, s).unwrap();
        let product = b.map(MapOp::Mul, &[xw, keys]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, d, product).unwrap();
        let (i, j) = (b.iota(t), b.iota(s));
        let keep = b.map(MapOp::Le, &[j, i]).unwrap();
        let masked = b.constant(Const::f32(f32::NEG_INFINITY));
        let y = b.map(MapOp::Select, &[keep, sum, masked]).unwrap();
        b.output("y", &[t, s], y).unwrap();
        assert_eq!(
            print(&b.finish()),
            "model scores(x: f32[T, D]) -> (y: f32[T, T]) {
    param W_weight: f32[D] as W.weight
    let scaled[t, d] = x[t, d] * W_weight[d]
    let y.1[t, d, s: T] = scaled[t, d] * x[s, d]
    let y.2[t, s] = sum[d](y.1[t, d, s])
    let y.3[s: T, t: T] = s <= t
    let y[t, s] = if y.3[s, t] then y.2[t, s] else -inf
    return y
}
"
        );
    }
}
