//! Expressions of a graph written out in place, as one reads them: what a kernel computes of what is stored.
//!
//! A value that is read several times, or that the source gives a name, has a line of its own; all else stands where it is
//! used.

use super::lines::has_line;
use super::{Env, Printer, literal, requirement};
use crate::axis::{AxisId, AxisSet, stored_names};
use crate::dim::Dim;
use crate::graph::{Graph, NodeId, Port};
use crate::op::{Binding, Const, MapOp, Op};
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
    /// All values that have lines of their own, if that is not to be decided.
    pub chosen: Option<BTreeSet<NodeId>>,
}

/// Whether an index is a name by itself.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

/// A dimension as an operand.
fn dimension(dim: &Dim) -> String {
    match (dim.as_symbol(), dim.as_constant()) {
        (Some(name), _) => name.to_string(),
        (None, Some(n)) => n.to_string(),
        (None, None) => format!("({dim})"),
    }
}

/// How tightly the operators of an index bind that is written in place of an axis.
fn binding_of(text: &str) -> Binding {
    let (mut depth, mut least) = (0, Binding::Atom);
    for word in text.split(' ') {
        let own = match word {
            _ if depth > 0 => Binding::Atom,
            "if" => Binding::Choice,
            "or" => Binding::Or,
            "and" => Binding::And,
            "not" => Binding::Not,
            "==" | "!=" | "<" | "<=" => Binding::Comparison,
            "+" | "-" => Binding::Sum,
            "*" | "/" | "%" => Binding::Product,
            "**" => Binding::Power,
            _ if word.starts_with('-') => Binding::Sign,
            _ => Binding::Atom,
        };
        least = least.min(own);
        let count = |open: char, close: char| {
            word.chars().filter(|c| *c == open).count() as i64
                - word.chars().filter(|c| *c == close).count() as i64
        };
        depth += count('(', ')') + count('[', ']');
    }
    least
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
        let mut w = Writing { leaves, lines: self.own_lines(root, leaves), seen: AxisSet::new() };
        let mut out = Vec::new();
        for id in self.in_order(root, &w.lines, leaves) {
            w.seen = AxisSet::new();
            let text = self.body(id, &Env::new(), &mut w).0;
            let place =
                self.place(self.name(id).unwrap_or("value"), &self.printer.order[id.index()], &w.seen);
            out.push(Line { node: id, place, text });
        }
        w.seen = AxisSet::new();
        let text = if leaves.stored.contains(&root) {
            self.operand(root, &Env::new(), &mut w).0
        } else {
            self.body(root, &Env::new(), &mut w).0
        };
        out.push(Line { node: root, place: self.place(name, order, &w.seen), text });
        out
    }

    /// Lines in the order in which the expression comes to them, each after those that it reads: an order that the text alone
    /// gives.
    fn in_order(&self, root: NodeId, lines: &BTreeSet<NodeId>, leaves: &Leaves) -> Vec<NodeId> {
        let (mut out, mut seen) = (Vec::new(), BTreeSet::from([root]));
        let mut stack: Vec<(NodeId, bool)> =
            self.inner(root, leaves).into_iter().rev().map(|arg| (arg, false)).collect();
        while let Some((id, is_done)) = stack.pop() {
            if is_done {
                out.extend(Some(id).filter(|id| lines.contains(id)));
            } else if seen.insert(id) {
                stack.push((id, true));
                stack.extend(self.inner(id, leaves).into_iter().rev().map(|arg| (arg, false)));
            }
        }
        out
    }

    /// The parts of an expression that have lines of their own: what is read twice or more, what the source names, what
    /// binds an axis under a view, and a part of a concatenation that does not show how long it is.
    fn own_lines(&self, root: NodeId, leaves: &Leaves) -> BTreeSet<NodeId> {
        let g = self.printer.g;
        if leaves.stored.contains(&root) {
            return BTreeSet::new();
        }
        let mut inside = BTreeSet::from([root]);
        let mut uses: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut under_view = BTreeSet::new();
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            for arg in self.inner(id, leaves) {
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
        if let Some(chosen) = &leaves.chosen {
            return inside.intersection(chosen).copied().collect();
        }
        let parts = self.parts_without_length(&inside, root, leaves);
        let has_own = |id: &NodeId| {
            let of_indices = self.printer.lines.of_indices[id.index()];
            let may = has_line(g.op(*id)) && !of_indices && self.name(*id).is_some();
            let binds = !matches!(g.op(*id), Op::Map(_));
            if leaves.forms.contains_key(id) {
                return false;
            }
            let is_named_part = parts.contains(id) && self.name(*id).is_some();
            is_named_part
                || may
                    && (uses[id] > 1
                        || leaves.lines.contains(id)
                        || g.node(*id).name.is_some()
                        || under_view.contains(id) && binds)
        };
        inside.into_iter().filter(has_own).collect()
    }

    /// The values that are written out in place of their names in what stands for a value. Of an operand in a form of its own
    /// these are the indices of views alone.
    fn inner(&self, id: NodeId, leaves: &Leaves) -> Vec<NodeId> {
        let g = self.printer.g;
        let mut out: Vec<NodeId> = Vec::new();
        if leaves.forms.contains_key(&id) {
            let mut of = id;
            while let (Op::At(_), [inner, index]) = (g.op(of), g.args(of).as_slice()) {
                out.push(*index);
                of = *inner;
            }
        } else {
            out.extend(g.args(id));
        }
        out.retain(|arg| !leaves.stored.contains(arg));
        out
    }

    /// The parts of concatenations of which no operand shows how long they are.
    fn parts_without_length(
        &self,
        inside: &BTreeSet<NodeId>,
        root: NodeId,
        leaves: &Leaves,
    ) -> BTreeSet<NodeId> {
        let g = self.printer.g;
        let mut out = BTreeSet::new();
        for id in inside.iter().chain([&root]) {
            let Op::Concat(_, parts) = g.op(*id) else { continue };
            let hidden = |arg: NodeId, part: AxisId| {
                g.extent(part).as_constant() != Some(1) && !self.shows(arg, part, leaves)
            };
            out.extend(g.args(*id).into_iter().zip(parts).filter(|(a, p)| hidden(*a, **p)).map(|(a, _)| a));
        }
        out
    }

    /// Whether a value that is written out shows how long an axis is: the axis stands by itself in an operand.
    fn shows(&self, root: NodeId, axis: AxisId, leaves: &Leaves) -> bool {
        let g = self.printer.g;
        let (mut seen, mut stack) = (BTreeSet::new(), vec![(root, axis)]);
        while let Some((id, axis)) = stack.pop() {
            if !g.node(id).axes.contains(axis) || !seen.insert((id, axis)) {
                continue;
            }
            match (g.op(id), g.args(id).as_slice()) {
                (Op::Iota(_), _) => {}
                _ if leaves.stored.contains(&id) => return true,
                (Op::At(replaced), [of, index]) => {
                    if *g.op(*index) == Op::Iota(axis) && g.is_renamed(*replaced, *index) {
                        stack.push((*of, *replaced));
                    } else {
                        stack.push((*index, axis));
                    }
                    if *replaced != axis {
                        stack.push((*of, axis));
                    }
                }
                (Op::Map(_), args) => stack.extend(args.iter().map(|arg| (*arg, axis))),
                _ => return true,
            }
        }
        false
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
            Op::Map(op) => match self.dim_of(id) {
                Some(dim) => (dimension(&dim), Binding::Atom),
                None => self.operator(*op, &args, env, w),
            },
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
            Op::Extent(dim) => (dimension(dim), Binding::Atom),
            Op::Iota(axis) => match env.get(axis) {
                Some(index) => {
                    let name = index.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
                    let index = name.filter(|name| is_name(name)).unwrap_or(index);
                    (index.to_owned(), binding_of(index))
                }
                None => (p.axis_name(*axis), Binding::Atom),
            },
            Op::Input(_) | Op::Param(_) => (self.by_name(id, "", env, w), Binding::Atom),
        }
    }

    /// The dimension that a value is which is computed of dimensions and numbers alone.
    fn dim_of(&self, id: NodeId) -> Option<Dim> {
        let g = self.printer.g;
        // These are few enough words to be gone over each time.
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
        let g = self.printer.g;
        let index = g.args(id)[1];
        if let (Op::At(axis), Op::Iota(from)) = (g.op(id), g.op(index))
            && g.extent(*from) != g.extent(*axis)
        {
            // In parentheses an index is a value: its extent is not the axis's.
            let text = env.get(from).cloned().unwrap_or_else(|| self.printer.axis_name(*from));
            return if is_name(&text) { format!("({text})") } else { text };
        }
        // Unlike a plain use this does not show how long an axis is: another one is replaced here.
        let Op::Iota(axis) = self.printer.g.op(index) else { return self.operand(index, env, w).0 };
        env.get(axis).cloned().unwrap_or_else(|| self.printer.axis_name(*axis))
    }

    fn operator(&self, op: MapOp, args: &[NodeId], env: &Env, w: &mut Writing<'_>) -> (String, Binding) {
        let own = op.info().binding();
        // `/` divides indices; the quotient of other integers goes by its name.
        let is_index = args.iter().all(|a| self.printer.is_index(*a));
        let shown: Vec<(String, Binding)> = args.iter().map(|a| self.operand(*a, env, w)).collect();
        // Nothing is added to an index.
        match (op, shown.as_slice()) {
            (MapOp::Add | MapOp::Sub, [other, (nothing, _)]) | (MapOp::Add, [(nothing, _), other])
                if nothing == "0" =>
            {
                return other.clone();
            }
            _ => {}
        }
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
            Binding::Sign | Binding::Power | Binding::Atom => Binding::Atom,
        };
        let text = match (op, op.info().sign(), args.len()) {
            (MapOp::Select, ..) => {
                format!("if {} then {} else {}", wrapped(0, Binding::Or), wrapped(1, Binding::Or), shown[2].0)
            }
            (_, Some(sign), 1) => format!("{sign}{}", wrapped(0, own)),
            (_, Some(sign), 2) if op != MapOp::IntDiv || is_index => {
                let is_chain = own != Binding::Comparison && own != Binding::Power;
                let first = if is_chain { own } else { tighter(own) };
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
