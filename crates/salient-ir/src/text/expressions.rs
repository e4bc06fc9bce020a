//! Expressions of a graph written out in place, as one reads them: what a kernel computes of what is stored.
//!
//! A value that is read several times, or that the source gives a name, has a line of its own; all else stands where it is
//! used.

use super::lines::has_line;
use super::{Env, Printer, literal};
use crate::axis::{AxisId, AxisSet};
use crate::graph::{Graph, NodeId};
use crate::op::{Binding, MapOp, Op};
use std::collections::{BTreeMap, BTreeSet};

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

/// What is written by its name.
#[derive(Clone, Debug, Default)]
pub struct Leaves {
    /// Values that are stored.
    pub stored: BTreeSet<NodeId>,
    /// Operands in a form of their own, each with a word for the form: the stored value that such an operand is, or is a view
    /// of, has the word behind its name.
    pub forms: BTreeMap<NodeId, String>,
    /// Values that have lines of their own.
    pub lines: BTreeSet<NodeId>,
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

    /// The same under other names for some values.
    #[must_use]
    pub fn renamed(mut self, names: impl Iterator<Item = (NodeId, String)>) -> Expressions<'a> {
        for (id, name) in names {
            let known = &mut self.printer.names.nodes[id.index()];
            if known.is_some() {
                *known = Some(name);
            }
        }
        self
    }

    /// The name of a value in texts, if it has one.
    pub fn name(&self, id: NodeId) -> Option<&str> {
        self.printer.names.nodes[id.index()].as_deref()
    }

    /// The name of an axis in texts.
    pub fn axis(&self, axis: AxisId) -> String {
        self.printer.axis_name(axis)
    }

    /// The first line of a text about the graph: what goes in and out.
    pub fn signature(&self, word: &str) -> String {
        self.printer.signature(word)
    }

    /// The path of each state, with what it is.
    pub fn states(&self) -> Vec<(String, String)> {
        let g = self.printer.g;
        let port = |input: usize| &g.inputs()[input];
        g.states()
            .iter()
            .map(|s| (port(s.input).name.to_string(), self.printer.port(port(s.input))))
            .collect()
    }

    /// A name with the axes, their extents where no operand has shown them.
    pub fn place(&self, name: &str, axes: &[AxisId], seen: &AxisSet) -> String {
        format!("{name}{}", self.printer.header(axes, seen))
    }

    /// The lines of what computes a value from what is stored: its parts that have lines of their own, then the value itself.
    /// Its axes are in the given order.
    pub fn lines(&self, root: NodeId, name: &str, order: &[AxisId], leaves: &Leaves) -> Vec<Line> {
        let mut w = Writing { leaves, lines: self.own_lines(root, leaves), seen: AxisSet::new() };
        let mut out = Vec::new();
        for id in w.lines.clone() {
            w.seen = AxisSet::new();
            let text = self.body(id, &Env::new(), &mut w).0;
            let place =
                self.place(self.name(id).unwrap_or("value"), &self.printer.order[id.index()], &w.seen);
            out.push(Line { node: id, place, text });
        }
        w.seen = AxisSet::new();
        let text = self.body(root, &Env::new(), &mut w).0;
        out.push(Line { node: root, place: self.place(name, order, &w.seen), text });
        out
    }

    /// The parts of an expression that have lines of their own: what is read twice or more, what the source names, and what
    /// binds an axis under a view.
    fn own_lines(&self, root: NodeId, leaves: &Leaves) -> BTreeSet<NodeId> {
        let g = self.printer.g;
        let is_inside = |id: &NodeId| !leaves.stored.contains(id);
        let mut inside = BTreeSet::from([root]);
        let mut uses: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut under_view = BTreeSet::new();
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            for arg in g.args(id).into_iter().filter(is_inside) {
                *uses.entry(arg).or_default() += 1;
                if inside.insert(arg) {
                    stack.push(arg);
                }
            }
        }
        // Users have greater ids than what they use.
        for id in inside.iter().rev() {
            let is_view = matches!(g.op(*id), Op::At(_));
            for (n, arg) in g.args(*id).into_iter().enumerate() {
                if is_view && n == 0 || under_view.contains(id) {
                    under_view.insert(arg);
                }
            }
        }
        inside.remove(&root);
        let has_own = |id: &NodeId| {
            let of_indices = self.printer.lines.of_indices[id.index()];
            let may = has_line(g.op(*id)) && !of_indices && self.name(*id).is_some();
            let binds = !matches!(g.op(*id), Op::Map(_));
            may && (uses[id] > 1
                || leaves.lines.contains(id)
                || g.node(*id).name.is_some()
                || under_view.contains(id) && binds)
        };
        inside.into_iter().filter(has_own).collect()
    }

    /// The expression of a value, whether or not it has a name.
    fn body(&self, id: NodeId, env: &Env, w: &mut Writing<'_>) -> (String, Binding) {
        let p = &self.printer;
        let args = p.g.args(id);
        let inner = |axis: AxisId| {
            let mut env = env.clone();
            env.remove(&axis);
            env
        };
        match p.g.op(id) {
            Op::Map(op) => self.operator(*op, &args, env, w),
            Op::Reduce(op, axis) => {
                let body = self.list(&args, &inner(*axis), w);
                (format!("{}[{}]({body})", op.info().name, p.binder(*axis, &w.seen)), Binding::Atom)
            }
            Op::CumSum(axis) => {
                let body = self.list(&args, env, w);
                (format!("cumsum[{}]({body})", p.binder(*axis, &w.seen)), Binding::Atom)
            }
            Op::Fused(op, axis) => {
                let body = self.list(&args, &inner(*axis), w);
                (format!("fused.{}[{}]({body})", op.info().name, p.binder(*axis, &w.seen)), Binding::Atom)
            }
            Op::Concat(axis, parts) => {
                let index = env.get(axis).cloned().unwrap_or_else(|| p.axis_name(*axis));
                let shown: Vec<String> = args
                    .iter()
                    .zip(parts)
                    .map(|(arg, part)| {
                        let mut env = env.clone();
                        env.insert(*part, index.clone());
                        self.operand(*arg, &env, w).0
                    })
                    .collect();
                w.seen.insert(*axis);
                (format!("concat[{index}]({})", shown.join(", ")), Binding::Atom)
            }
            Op::At(axis) => self.view(id, *axis, env, w),
            Op::Const(c) => (literal(*c), Binding::Atom),
            Op::Extent(dim) => match dim.as_symbol() {
                Some(name) => (name.to_string(), Binding::Atom),
                None => (format!("({dim})"), Binding::Atom),
            },
            Op::Iota(axis) => (env.get(axis).cloned().unwrap_or_else(|| p.axis_name(*axis)), Binding::Atom),
            Op::Input(_) | Op::Param(_) => (self.by_name(id, "", env, w), Binding::Atom),
        }
    }

    fn list(&self, args: &[NodeId], env: &Env, w: &mut Writing<'_>) -> String {
        args.iter().map(|a| self.operand(*a, env, w).0).collect::<Vec<_>>().join(", ")
    }

    /// A value as an operand.
    fn operand(&self, id: NodeId, env: &Env, w: &mut Writing<'_>) -> (String, Binding) {
        let form = w.leaves.forms.get(&id).map(|form| format!("~{form}"));
        if w.leaves.stored.contains(&id) || w.lines.contains(&id) {
            return (self.by_name(id, form.as_deref().unwrap_or(""), env, w), Binding::Atom);
        }
        match (form, self.printer.g.op(id)) {
            (Some(form), Op::At(_)) => self.viewed(id, &form, env, w),
            (Some(form), _) if self.name(id).is_some() => (self.by_name(id, &form, env, w), Binding::Atom),
            (Some(_) | None, _) => self.body(id, env, w),
        }
    }

    /// A view of an operand in a form of its own.
    fn viewed(&self, id: NodeId, form: &str, env: &Env, w: &mut Writing<'_>) -> (String, Binding) {
        let g = self.printer.g;
        if let (Op::At(axis), false) = (g.op(id), w.leaves.stored.contains(&id)) {
            let mut inner = env.clone();
            inner.insert(*axis, self.index(id, env, w));
            return self.viewed(g.args(id)[0], form, &inner, w);
        }
        (self.by_name(id, form, env, w), Binding::Atom)
    }

    fn view(&self, id: NodeId, axis: AxisId, env: &Env, w: &mut Writing<'_>) -> (String, Binding) {
        let mut inner = env.clone();
        inner.insert(axis, self.index(id, env, w));
        self.operand(self.printer.g.args(id)[0], &inner, w)
    }

    /// The index of a view.
    fn index(&self, id: NodeId, env: &Env, w: &mut Writing<'_>) -> String {
        let index = self.printer.g.args(id)[1];
        // Unlike a plain use this does not show how long an axis is: another one is replaced here.
        let Op::Iota(axis) = self.printer.g.op(index) else { return self.operand(index, env, w).0 };
        env.get(axis).cloned().unwrap_or_else(|| self.printer.axis_name(*axis))
    }

    fn operator(&self, op: MapOp, args: &[NodeId], env: &Env, w: &mut Writing<'_>) -> (String, Binding) {
        let own = op.info().binding();
        // `/` divides indices; the quotient of other integers goes by its name.
        let is_index = args.iter().all(|a| self.printer.is_index(*a));
        let shown: Vec<(String, Binding)> = args.iter().map(|a| self.operand(*a, env, w)).collect();
        let wrapped = |n: usize, least: Binding| {
            let (text, binding) = &shown[n];
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
            Binding::Sign | Binding::Atom => Binding::Atom,
        };
        let text = match (op, op.info().sign(), args.len()) {
            (MapOp::Select, ..) => {
                format!("if {} then {} else {}", wrapped(0, Binding::Or), wrapped(1, Binding::Or), shown[2].0)
            }
            (_, Some(sign), 1) => format!("{sign}{}", wrapped(0, own)),
            (_, Some(sign), 2) if op != MapOp::IntDiv || is_index => {
                let first = if own == Binding::Comparison { tighter(own) } else { own };
                format!("{} {sign} {}", wrapped(0, first), wrapped(1, tighter(own)))
            }
            _ => {
                let list: Vec<String> = shown.iter().map(|(text, _)| text.clone()).collect();
                return (format!("{}({})", op.info().name, list.join(", ")), Binding::Atom);
            }
        };
        (text, own)
    }

    /// `name[axes]`, the axes standing for what `env` says.
    fn by_name(&self, id: NodeId, form: &str, env: &Env, w: &mut Writing<'_>) -> String {
        let p = &self.printer;
        let name = self.name(id).unwrap_or("value");
        let axes = &p.order[id.index()];
        if axes.is_empty() {
            return format!("{name}{form}");
        }
        let mut shown = Vec::new();
        for axis in axes {
            shown.push(env.get(axis).cloned().unwrap_or_else(|| {
                w.seen.insert(*axis);
                p.axis_name(*axis)
            }));
        }
        format!("{name}{form}[{}]", shown.join(", "))
    }
}
