//! Expressions of a graph written out in place, as one reads them: what a kernel computes of what is stored.
//!
//! A value that is read several times, or that the source gives a name, has a line of its own; all else stands where it is
//! used.

use super::own_lines::Leaves;
use super::written::{Env, Index, Written, has_sign, is_index};
use super::{Printer, constant, dimension, requirement};
use crate::axis::{AxisId, AxisSet, stored_names};
use crate::dim::Dim;
use crate::graph::{Graph, NodeId, Port};
use crate::op::{Binding, Const, MapOp, Op};
use std::collections::BTreeSet;

/// Writes expressions of one graph.
pub struct Expressions<'a> {
    printer: Printer<'a>,
}

/// A value with its expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The value.
    pub node: NodeId,
    /// Its name with its axes.
    pub place: String,
    /// What it is.
    pub text: String,
}

/// A parameter or a state as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Where a checkpoint or a session holds it.
    pub path: String,
    /// Its name in texts.
    pub name: String,
    /// Its type, with the names of its axes where these are not the usual ones.
    pub ty: String,
    /// Its type without them.
    pub shape: String,
    /// The names of its axes, if these are not the usual ones.
    pub axes: Vec<String>,
}

/// A value of which an expression is being written.
struct Writing<'w> {
    leaves: &'w Leaves,
    /// Values with a line of their own.
    lines: BTreeSet<NodeId>,
    /// The axes that operands have shown.
    seen: AxisSet,
}

impl<'a> Expressions<'a> {
    /// Those of a graph, of which the axes of some values are listed in the given order.
    pub fn new(g: &'a Graph, orders: impl Iterator<Item = (NodeId, Vec<AxisId>)>) -> Expressions<'a> {
        let mut printer = Printer::new(g);
        for (id, order) in orders {
            printer.order[id.index()] = order;
        }
        Expressions { printer }
    }

    /// The same under these names, one for each node; what has none is written out wherever it is read.
    #[must_use]
    pub fn named(mut self, names: Vec<Option<String>>) -> Expressions<'a> {
        self.printer.names.nodes = names;
        self
    }

    /// The name of a value in texts, if it has one.
    pub fn name(&self, id: NodeId) -> Option<&str> {
        self.printer.names.nodes[id.index()].as_deref()
    }

    /// The axes of a value in the order in which its name lists them.
    pub fn order(&self, id: NodeId) -> &[AxisId] {
        &self.printer.order[id.index()]
    }

    /// The name of an axis in texts.
    pub fn axis(&self, axis: AxisId) -> String {
        self.printer.axis_name(axis)
    }

    /// The first line of a text about the graph: what goes in and out.
    pub fn signature(&self, word: &str) -> String {
        self.printer.signature(word)
    }

    /// What is declared of each state, in order.
    pub fn states(&self) -> Vec<Declared> {
        let p = &self.printer;
        p.g.states().iter().map(|s| self.declared(&p.g.inputs()[s.input], &p.names.inputs[s.input])).collect()
    }

    /// What is declared of each parameter, in order.
    pub fn params(&self) -> Vec<Declared> {
        let p = &self.printer;
        p.g.params().iter().zip(&p.names.params).map(|(port, name)| self.declared(port, name)).collect()
    }

    fn declared(&self, port: &Port, name: &str) -> Declared {
        let p = &self.printer;
        let axes: Vec<String> = port.axes.iter().map(|axis| p.axis_name(*axis)).collect();
        let is_usual = axes == stored_names(&p.g.shape(&port.axes));
        Declared {
            path: port.name.to_string(),
            name: name.to_owned(),
            ty: p.port(port),
            shape: format!("{}[{}]", port.dtype, p.dims(&port.axes)),
            axes: if is_usual { Vec::new() } else { axes },
        }
    }

    /// The relations between dimensions on which the model relies.
    pub fn requirements(&self) -> Vec<String> {
        self.printer.g.requirements().iter().map(requirement).collect()
    }

    /// A name with the axes, their extents where no operand has shown them.
    pub fn place(&self, name: &str, axes: &[AxisId], seen: &AxisSet) -> String {
        format!("{name}{}", self.printer.header(axes, seen))
    }

    /// The lines of what computes a value from what is stored: its parts that have lines of their own, then the value itself.
    /// Its axes are in the given order.
    pub fn lines(&self, root: NodeId, name: &str, order: &[AxisId], leaves: &Leaves) -> Vec<Line> {
        let p = &self.printer;
        let mut w = Writing { leaves, lines: leaves.own_lines(p, root), seen: AxisSet::new() };
        let mut out = Vec::new();
        for id in leaves.in_order(p.g, root, &w.lines) {
            w.seen = AxisSet::new();
            let text = self.body(id, &Env::new(), &mut w).text;
            let place = self.place(self.name(id).unwrap_or("value"), &p.order[id.index()], &w.seen);
            out.push(Line { node: id, place, text });
        }
        w.seen = AxisSet::new();
        let text = if leaves.stored.contains(&root) {
            self.operand(root, &Env::new(), &mut w)
        } else {
            self.body(root, &Env::new(), &mut w)
        };
        let text = text.text;
        out.push(Line { node: root, place: self.place(name, order, &w.seen), text });
        out
    }

    /// The expression of a value, whether or not it has a name.
    fn body(&self, id: NodeId, env: &Env, w: &mut Writing<'_>) -> Written {
        let p = &self.printer;
        let args = p.g.args(id);
        let inner = |axis: AxisId| {
            let mut env = env.clone();
            env.remove(&axis);
            env
        };
        match p.g.op(id) {
            Op::Map(op) => match self.dim_of(id) {
                Some(dim) => dimension(&dim),
                None => self.operator(*op, &args, env, w),
            },
            Op::Reduce(op, axis) => {
                let body = self.list(&args, &inner(*axis), w);
                Written::atom(format!("{}[{}]({body})", op.info().name, p.binder(*axis, &w.seen)))
            }
            Op::CumSum(direction, axis) => {
                let body = self.list(&args, env, w);
                Written::atom(format!("{}[{}]({body})", direction.name(), p.binder(*axis, &w.seen)))
            }
            Op::Fused(op, axis) => {
                let body = self.list(&args, &inner(*axis), w);
                Written::atom(format!("fused.{}[{}]({body})", op.info().name, p.binder(*axis, &w.seen)))
            }
            Op::Concat(axis, parts) => {
                let index = p.index_of(*axis, env);
                let shown: Vec<String> = args
                    .iter()
                    .zip(parts)
                    .map(|(arg, part)| {
                        let mut env = env.clone();
                        env.insert(*part, index.clone());
                        self.operand(*arg, &env, w).text
                    })
                    .collect();
                w.seen.insert(*axis);
                Written::atom(format!("concat[{}]({})", index.in_brackets(), shown.join(", ")))
            }
            Op::At(axis) => self.view(id, *axis, env, w),
            Op::Const(c) => constant(*c),
            Op::Extent(dim) => dimension(dim),
            Op::Iota(axis) => p.index_of(*axis, env).written,
            Op::Input(_) | Op::Param(_) => self.by_name(id, "", env, w),
        }
    }

    /// The dimension that a value is which is computed of dimensions and numbers alone.
    fn dim_of(&self, id: NodeId) -> Option<Dim> {
        let g = self.printer.g;
        // At most `LONGEST` words, so nothing is remembered.
        if !self.printer.lines.of_indices[id.index()] {
            return None;
        }
        match (g.op(id), g.args(id).as_slice()) {
            (Op::Const(Const::I64(n)), _) => Some(Dim::constant(*n)),
            (Op::Extent(dim), _) => Some(dim.clone()),
            (Op::Map(MapOp::Add), [a, b]) => Some(&self.dim_of(*a)? + &self.dim_of(*b)?),
            (Op::Map(MapOp::Sub), [a, b]) => Some(&self.dim_of(*a)? - &self.dim_of(*b)?),
            (Op::Map(MapOp::Mul), [a, b]) => Some(&self.dim_of(*a)? * &self.dim_of(*b)?),
            (Op::Map(MapOp::Neg), [a]) => Some(&Dim::constant(0) - &self.dim_of(*a)?),
            _ => None,
        }
    }

    fn list(&self, args: &[NodeId], env: &Env, w: &mut Writing<'_>) -> String {
        args.iter().map(|a| self.operand(*a, env, w).text).collect::<Vec<_>>().join(", ")
    }

    /// A value as an operand.
    fn operand(&self, id: NodeId, env: &Env, w: &mut Writing<'_>) -> Written {
        let form = w.leaves.forms.get(&id).map(|form| format!("~{form}"));
        if w.leaves.stored.contains(&id) || w.lines.contains(&id) {
            return self.by_name(id, form.as_deref().unwrap_or(""), env, w);
        }
        match (form, self.printer.g.op(id)) {
            (Some(form), Op::At(_)) => self.viewed(id, &form, env, w),
            (Some(form), _) if self.name(id).is_some() => self.by_name(id, &form, env, w),
            (Some(_) | None, _) => self.body(id, env, w),
        }
    }

    /// A view of an operand in a form of its own.
    fn viewed(&self, id: NodeId, form: &str, env: &Env, w: &mut Writing<'_>) -> Written {
        let g = self.printer.g;
        if let (Op::At(axis), false) = (g.op(id), w.leaves.stored.contains(&id)) {
            let mut inner = env.clone();
            inner.insert(*axis, self.index(id, env, w));
            return self.viewed(g.args(id)[0], form, &inner, w);
        }
        self.by_name(id, form, env, w)
    }

    fn view(&self, id: NodeId, axis: AxisId, env: &Env, w: &mut Writing<'_>) -> Written {
        let mut inner = env.clone();
        inner.insert(axis, self.index(id, env, w));
        self.operand(self.printer.g.args(id)[0], &inner, w)
    }

    /// The index of a view.
    fn index(&self, id: NodeId, env: &Env, w: &mut Writing<'_>) -> Index {
        let g = self.printer.g;
        let index = g.args(id)[1];
        let Op::Iota(from) = g.op(index) else { return Index::of(self.operand(index, env, w)) };
        let of = self.printer.index_of(*from, env);
        let is_other = matches!(g.op(id), Op::At(axis) if g.extent(*from) != g.extent(*axis));
        if is_other { of.made_a_value() } else { of }
    }

    fn operator(&self, op: MapOp, args: &[NodeId], env: &Env, w: &mut Writing<'_>) -> Written {
        let own = op.info().binding();
        let shown: Vec<Written> = args.iter().map(|a| self.operand(*a, env, w)).collect();
        // Nothing is added to an index.
        match (op, shown.as_slice()) {
            (MapOp::Add | MapOp::Sub, [other, nothing]) | (MapOp::Add, [nothing, other])
                if nothing.is_zero =>
            {
                return other.clone();
            }
            _ => {}
        }
        let wrapped = |n: usize, least: Binding| {
            let Written { text, binding, .. } = &shown[n];
            // A negative number is an operand of its own.
            if *binding < least || n > 0 && text.starts_with('-') {
                format!("({text})")
            } else {
                text.clone()
            }
        };
        let tighter = |binding: Binding| match binding {
            Binding::Choice => Binding::Or,
            Binding::Or => Binding::And,
            Binding::And => Binding::Not,
            Binding::Not | Binding::Comparison => Binding::Sum,
            Binding::Sum => Binding::Product,
            Binding::Product => Binding::Sign,
            Binding::Sign | Binding::Power | Binding::Atom => Binding::Atom,
        };
        let of_indices = is_index(op, &shown);
        let text = match (op, op.info().sign().filter(|_| has_sign(op, &shown)), args.len()) {
            (MapOp::Select, ..) => {
                let [condition, then] = [0, 1].map(|n| wrapped(n, Binding::Or));
                format!("if {condition} then {then} else {}", shown[2].text)
            }
            (_, Some(sign), 1) => format!("{sign}{}", wrapped(0, own)),
            (_, Some(sign), 2) => {
                let is_chain = own != Binding::Comparison && own != Binding::Power;
                let first = if is_chain { own } else { tighter(own) };
                format!("{} {sign} {}", wrapped(0, first), wrapped(1, tighter(own)))
            }
            _ => {
                let list: Vec<&str> = shown.iter().map(|operand| operand.text.as_str()).collect();
                let text = format!("{}({})", op.info().name, list.join(", "));
                return Written { of_indices, ..Written::atom(text) };
            }
        };
        Written { text, binding: own, of_indices, is_zero: false }
    }

    /// `name[axes]`, the axes standing for what `env` says.
    fn by_name(&self, id: NodeId, form: &str, env: &Env, w: &mut Writing<'_>) -> Written {
        let name = format!("{}{form}", self.name(id).unwrap_or("value"));
        Written::atom(self.printer.with_axes(name, id, env, &mut w.seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, DType, Graph, ReduceOp};

    /// The sum over `n` of `x[index]`, with the index along `n` that `of` makes of an index along `t`, where `table[t]` stands
    /// for that index.
    fn at_a_quotient(of: impl FnOnce(&mut Builder, NodeId) -> NodeId) -> Graph {
        let mut b = Builder::new("quotients");
        let [n, m, t] =
            [("n", "N"), ("m", "M"), ("t", "T")].map(|(name, d)| b.axis_id(name, &Dim::symbol(d)));
        let x = b.input("x", &[n], DType::F32, None);
        let table = b.input("table", &[t], DType::I64, None);
        let row = b.iota(m);
        let index = of(&mut b, row);
        let two = b.constant(Const::I64(2));
        let half = b.map(MapOp::IntDiv, &[index, two]).unwrap();
        let halves = b.at(x, n, half).unwrap();
        let read = b.at(halves, m, table).unwrap();
        let sum = b.reduce(ReduceOp::Sum, t, read).unwrap();
        b.output("y", &[], sum).unwrap();
        b.finish()
    }

    fn shown(g: &Graph) -> String {
        let root = g.outputs()[0].node;
        Expressions::new(g, std::iter::empty()).lines(root, "y", &[], &Leaves::default()).remove(0).text
    }

    /// `/` divides indices, and no other integers: neither data nor a choice of indices.
    #[test]
    fn the_quotient_of_data_goes_by_its_name() {
        let of_data = at_a_quotient(|_, row| row);
        assert_eq!(shown(&of_data), "sum[t](x[int_div(table[t], 2)])");
        let of_choice = at_a_quotient(|b, row| {
            let zero = b.constant(Const::I64(0));
            let is_later = b.map(MapOp::Lt, &[zero, row]).unwrap();
            b.map(MapOp::Select, &[is_later, row, zero]).unwrap()
        });
        assert!(
            shown(&of_choice).contains("int_div(if 0 < table[t] then table[t] else 0, 2)"),
            "{}",
            shown(&of_choice)
        );
    }

    #[test]
    fn nothing_is_added_to_an_index() {
        let g = at_a_quotient(|b, row| {
            let zero = b.constant(Const::I64(0));
            b.map(MapOp::Add, &[row, zero]).unwrap()
        });
        assert_eq!(shown(&g), "sum[t](x[int_div(table[t], 2)])");
    }
}
