//! Which nodes are stored, and by which kernel.
//!
//! Users come first, so that what a kernel takes in is decided before it is asked for elsewhere. Layouts, buffers and
//! kernels are made by `schedule`.

use crate::attention::{any_place, expressions_of, query_axis, tiled_scores};
use crate::contraction::{Contraction, contraction, sum_of_products};
use crate::index::{Bound, Ranges};
use crate::keep::{Uses, kept, uses};
use crate::layout::innermost;
use crate::repeat::Repeats;
use crate::statistics::statistics;
use salient_ir::{AxisId, Graph, MapOp, NodeId, Op};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The kernel that a stored node gets.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// Inputs and parameters are stored already.
    Source,
    /// An expression of stored nodes.
    Map,
    /// A row-wise kernel of the node itself.
    Rows,
    /// An expression of the product of that node.
    Product(NodeId),
    /// An expression of the attention of that node, with the axis whose positions are the rows of a tile.
    Attention(NodeId, Option<AxisId>),
}

impl Form {
    /// The node whose product it stores an expression of.
    pub(crate) fn product(&self) -> Option<NodeId> {
        match self {
            Form::Product(node) => Some(*node),
            Form::Source | Form::Map | Form::Rows | Form::Attention(..) => None,
        }
    }

    /// Whether it is the form `before` of the corresponding node one block before.
    pub(crate) fn follows(&self, before: &Form, repeats: &Repeats<'_>) -> bool {
        match (self, before) {
            (Form::Source, Form::Source) | (Form::Map, Form::Map) | (Form::Rows, Form::Rows) => true,
            (Form::Product(n), Form::Product(b)) => repeats.shift(*b) == *n,
            (Form::Attention(n, query), Form::Attention(b, other)) => {
                repeats.shift(*b) == *n && query == other
            }
            (Form::Source | Form::Map | Form::Rows | Form::Product(_) | Form::Attention(..), _) => false,
        }
    }
}

/// Decides which nodes are stored and by which kernel.
pub(crate) struct Planner<'g> {
    g: &'g Graph,
    fuse: bool,
    /// Products inside scores that are not stored.
    tiled: BTreeSet<NodeId>,
    /// Whether each node is an expression of them.
    of_scores: Vec<bool>,
    /// Where the value of each node goes.
    uses: Vec<Uses>,
    /// The nodes that are results of the model.
    outputs: BTreeSet<NodeId>,
    /// Element-wise nodes that are stored for their several readers, or for what their kernel holds.
    kept: BTreeSet<NodeId>,
    /// Reductions that the kernel of the only rows that need them holds.
    held: BTreeSet<NodeId>,
    forms: BTreeMap<NodeId, Form>,
    /// What [`Planner::needs_a_guard`] has said.
    guarded: RefCell<HashMap<NodeId, bool>>,
}

/// Whether a strip cannot compute the node on the way.
fn is_anchor(op: &Op) -> bool {
    match op {
        Op::Reduce(..) | Op::CumSum(_) | Op::Fused(..) | Op::Input(_) | Op::Param(_) => true,
        Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) | Op::At(_) | Op::Concat(..) => false,
    }
}

impl<'g> Planner<'g> {
    /// Nothing is decided yet, but which values are stored for their several readers.
    pub(crate) fn new(g: &'g Graph, fuse: bool) -> Planner<'g> {
        let tiled = tiled_scores(g, fuse);
        let of_scores = expressions_of(g, |id| tiled.contains(&id));
        let uses = uses(g);
        let outputs = g.outputs().iter().map(|o| o.node).collect();
        let kept = if fuse { kept(g, &uses, &of_scores) } else { BTreeSet::new() };
        let (held, forms, guarded) = (BTreeSet::new(), BTreeMap::new(), RefCell::default());
        Planner { g, fuse, tiled, of_scores, uses, outputs, kept, held, forms, guarded }
    }

    /// Whether a node is stored wherever it is read.
    fn is_anchor(&self, id: NodeId) -> bool {
        is_anchor(self.g.op(id)) || self.kept.contains(&id)
    }

    /// Decides which reductions are held.
    fn hold(&mut self) {
        let lies = |id| innermost(self.g, id);
        let found = statistics(self.g, (&self.kept, &self.outputs), (&self.uses, &self.of_scores), lies);
        let kept = self.kept.clone();
        self.kept.extend(found.values());
        let mut of_rows: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        found.iter().for_each(|(held, root)| of_rows.entry(*root).or_default().push(*held));
        let is_map = |root: NodeId| matches!(self.form(root).0, Form::Map);
        let holds = |(root, held): (&NodeId, &Vec<NodeId>)| {
            (is_map(*root) && !self.reads_more(*root, held)).then_some(*root)
        };
        let rows: BTreeSet<NodeId> = of_rows.iter().filter_map(holds).collect();
        self.held = found.into_iter().filter(|(_, root)| rows.contains(root)).map(|(id, _)| id).collect();
        self.kept.retain(|id| kept.contains(id) || rows.contains(id));
    }

    /// Whether rows read where a tensor may end and the reductions `held` for them do not: these are computed wherever they
    /// stand, the rest only where it is asked for.
    fn reads_more(&self, root: NodeId, held: &[NodeId]) -> bool {
        let g = self.g;
        let own = held.iter().map(|id| g.args(*id)[0]);
        let (mut seen, mut stack) = (BTreeSet::new(), own.collect::<Vec<_>>());
        let mut more = false;
        // What the reductions go over, then the rest.
        for part in [None, Some(root)] {
            stack.extend(part);
            while let Some(id) = stack.pop() {
                if !seen.insert(id) || is_anchor(g.op(id)) {
                    continue;
                }
                if let Op::At(axis) = *g.op(id) {
                    more |= part.is_some() && self.may_leave(id, axis);
                }
                stack.extend(g.args(id));
            }
        }
        more
    }

    /// The form of every node that is stored.
    pub(crate) fn plan(mut self) -> BTreeMap<NodeId, Form> {
        if self.fuse {
            self.hold();
        }
        let mut work = self.outputs.clone();
        if !self.fuse {
            work.extend(self.g.ids().filter(|id| self.is_whole_operator(*id)));
        }
        // Users first, so that what a kernel takes in is decided before it is asked for elsewhere.
        while let Some(id) = work.pop_last() {
            if self.forms.contains_key(&id) {
                continue;
            }
            let (form, operands) = self.form(id);
            self.forms.insert(id, form);
            let mut seen = BTreeSet::new();
            for operand in operands {
                self.frontier(operand, &mut seen, &mut work);
            }
        }
        self.forms
    }

    /// Whether the unfused program stores the node: every element-wise operator on tensors, but the multiplication
    /// inside a product.
    fn is_whole_operator(&self, id: NodeId) -> bool {
        let g = self.g;
        let node = g.node(id);
        let users = g.users(id);
        let inside_product = !users.is_empty() && users.iter().all(|u| contraction_of(g, *u).is_some());
        let elementwise = matches!(node.op, Op::Map(_)) && !node.axes.is_empty() && !node.dtype.is_int();
        elementwise && !inside_product && !self.needs_a_guard(id)
    }

    /// Whether the expression of a node reads where a tensor may end: it must stay inside the choice that guards it.
    fn needs_a_guard(&self, id: NodeId) -> bool {
        if let Some(known) = self.guarded.borrow().get(&id) {
            return *known;
        }
        let needed = self.reads_where_it_may_end(id);
        self.guarded.borrow_mut().insert(id, needed);
        needed
    }

    fn reads_where_it_may_end(&self, id: NodeId) -> bool {
        let g = self.g;
        match *g.op(id) {
            // A choice guards its own arms.
            Op::Map(MapOp::Select) => self.needs_a_guard(g.args(id)[0]),
            Op::Map(_) => g.args(id).iter().any(|a| self.needs_a_guard(*a)),
            Op::At(axis) => self.may_leave(id, axis) || self.needs_a_guard(g.args(id)[0]),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
            Op::Reduce(..) | Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => false,
        }
    }

    /// Whether a view reads where its tensor may end.
    fn may_leave(&self, view: NodeId, axis: AxisId) -> bool {
        let g = self.g;
        let mut ranges = Ranges::default();
        let env = any_place(g, view);
        for (axis, bound) in &env {
            if let Bound::Poly(place) = bound
                && let Some(symbol) = place.as_symbol()
            {
                ranges.insert(symbol, g.extent(*axis));
            }
        }
        let index = ranges.evaluate(g, g.args(view)[1], &env);
        !index.is_some_and(|index| ranges.inside(&index, g.extent(axis)))
    }

    /// Anchors that the expression of `id` reads.
    fn frontier(&self, id: NodeId, seen: &mut BTreeSet<NodeId>, work: &mut BTreeSet<NodeId>) {
        if !seen.insert(id) {
            return;
        }
        let stored_alone = !self.fuse && self.is_whole_operator(id);
        if self.held.contains(&id) {
            self.frontier(self.g.args(id)[0], seen, work);
        } else if self.is_anchor(id) || stored_alone || self.ends_a_kernel(id) {
            work.insert(id);
        } else {
            self.g.args(id).iter().for_each(|a| self.frontier(*a, seen, work));
        }
    }

    /// Whether a product or an attention is used by this expression alone: then its kernel computes the expression too, and
    /// what is stored is that.
    fn ends_a_kernel(&self, id: NodeId) -> bool {
        self.fuse
            && matches!(self.g.op(id), Op::Map(_))
            && !self.needs_a_guard(id)
            && match self.form(id).0 {
                Form::Product(_) | Form::Attention(..) => true,
                Form::Source | Form::Map | Form::Rows => false,
            }
    }

    /// The kernel for a node, and the nodes whose expressions it evaluates.
    fn form(&self, id: NodeId) -> (Form, Vec<NodeId>) {
        let g = self.g;
        match g.op(id) {
            Op::Input(_) | Op::Param(_) => (Form::Source, Vec::new()),
            Op::Reduce(..) | Op::Fused(..) | Op::CumSum(_) => {
                self.anchor_form(id, id).unwrap_or_else(|| (Form::Rows, g.args(id).to_vec()))
            }
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::At(_) | Op::Concat(..) => {
                (Form::Map, g.args(id).to_vec())
            }
            Op::Map(_) => {
                let mut inline = Vec::new();
                self.elementwise(id, &mut inline);
                let anchors = inline
                    .iter()
                    .copied()
                    .filter(|a| self.is_output(*a).not_then(|| self.joins(*a, id, &inline)));
                let found = if self.fuse {
                    anchors.into_iter().find_map(|a| self.anchor_form(a, id).map(|f| (a, f)))
                } else {
                    None
                };
                match found {
                    Some((anchor, (form, mut operands))) => {
                        operands.extend(inline.into_iter().filter(|x| *x != anchor && self.is_anchor(*x)));
                        operands.extend(self.views(id));
                        (form, operands)
                    }
                    None => (Form::Map, g.args(id).to_vec()),
                }
            }
        }
    }

    /// Nodes that `id` reads element by element, with the same indices: through scalar operators only.
    fn elementwise(&self, id: NodeId, out: &mut Vec<NodeId>) {
        for arg in self.g.args(id) {
            if out.contains(&arg) {
                continue;
            }
            match self.g.op(arg) {
                Op::Map(_) => {
                    out.push(arg);
                    if !self.kept.contains(&arg) {
                        self.elementwise(arg, out);
                    }
                }
                Op::Reduce(..) | Op::Fused(..) | Op::CumSum(_) | Op::Input(_) | Op::Param(_) => out.push(arg),
                Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::At(_) | Op::Concat(..) => {}
            }
        }
    }

    /// Views and concatenations among the element-wise operands of `id`.
    fn views(&self, id: NodeId) -> Vec<NodeId> {
        let g = self.g;
        let mut inline = vec![id];
        self.elementwise(id, &mut inline);
        let is_inner = |x: NodeId| matches!(g.op(x), Op::Map(_)) && (x == id || !self.kept.contains(&x));
        let inner = inline.iter().filter(|x| is_inner(**x));
        inner.flat_map(|x| g.args(*x)).filter(|a| matches!(g.op(*a), Op::At(_) | Op::Concat(..))).collect()
    }

    fn is_output(&self, id: NodeId) -> Flag {
        Flag(self.outputs.contains(&id))
    }

    /// Whether every use of `anchor` ends in `root`, through nodes of `inline`.
    fn joins(&self, anchor: NodeId, root: NodeId, inline: &[NodeId]) -> bool {
        let users = self.g.users(anchor);
        !users.is_empty()
            && users.iter().all(|u| {
                *u == root
                    || inline.contains(u)
                        && matches!(self.g.op(*u), Op::Map(_))
                        && !self.is_output(*u).0
                        && !self.kept.contains(u)
                        && self.joins(*u, root, inline)
            })
    }

    /// The product or attention kernel of `anchor` that stores `root`, with the expressions that it evaluates.
    fn anchor_form(&self, anchor: NodeId, root: NodeId) -> Option<(Form, Vec<NodeId>)> {
        let g = self.g;
        if g.node(anchor).axes != g.node(root).axes {
            return None;
        }
        let order: Vec<AxisId> = g.node(anchor).axes.iter().collect();
        if contraction(g, anchor, &order).is_some() {
            let (a, b, _) = sum_of_products(g, anchor)?;
            return Some((Form::Product(anchor), vec![a, b]));
        }
        let is_stored =
            |id: NodeId| self.forms.contains_key(&id) || self.is_anchor(id) && !self.tiled.contains(&id);
        let (query, inside) = query_axis(g, anchor, &self.of_scores, &is_stored)?;
        // Without values there is nothing to stream but the scores; where those are read and not made, rows do.
        let values = &g.args(anchor)[1..];
        if values.is_empty() && inside.is_empty() {
            return None;
        }
        let mut operands = values.to_vec();
        self.around(g.args(anchor)[0], &inside, &mut operands);
        Some((Form::Attention(anchor, query), operands))
    }

    /// The operands of an expression, with those of the products inside it in place of the products. What ends the kernel of
    /// another product is read as that stores it.
    fn around(&self, id: NodeId, inside: &[NodeId], out: &mut Vec<NodeId>) {
        if inside.contains(&id) {
            if let Some((a, b, _)) = sum_of_products(self.g, id) {
                out.extend([a, b]);
            }
        } else if self.is_anchor(id) || inside.is_empty() && self.ends_a_kernel(id) {
            out.push(id);
        } else {
            self.g.args(id).iter().for_each(|a| self.around(*a, inside, out));
        }
    }
}

/// A truth value with the one combinator that reads well where it is used.
struct Flag(bool);

impl Flag {
    fn not_then(&self, other: impl FnOnce() -> bool) -> bool {
        !self.0 && other()
    }
}

fn contraction_of(g: &Graph, id: NodeId) -> Option<Contraction> {
    let order: Vec<AxisId> = g.node(id).axes.iter().collect();
    contraction(g, id, &order)
}
