//! Which nodes are stored, and by which kernel.
//!
//! Users come first, so that what a kernel takes in is decided before it is asked for elsewhere. Layouts and kernels
//! are decided by `decide`.

pub(crate) mod keep;
mod made_by_attentions;
pub(crate) mod row_reductions;
pub(crate) mod scatter;
pub(crate) mod shared_scores;
pub(crate) mod statistics;

use crate::defined::Defined;
use crate::plan::Options;
use crate::plan::attention::{Among, TiledScores, has_scalar_values, query_axis, tiled_scores};
use crate::plan::contraction::{Contraction, contraction};
use crate::plan::layouts::axis_order::innermost;
use crate::plan::materialise::keep::{Uses, gathered_values, joined_operands, kept, uses};
use crate::plan::materialise::made_by_attentions::{made_by_attentions, missed};
use crate::plan::materialise::row_reductions::{Known, row_reductions};
use crate::plan::materialise::scatter::{Scatter, scatter, scatter_by_data};
use crate::plan::materialise::shared_scores::{with_shared_scores, without_unread};
use crate::plan::materialise::statistics::statistics;
use crate::plan::repeat::Repeats;
use salient_ir::{AxisId, Class, Graph, NodeId, Op};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What is stored and how, where it is not the planner that decides it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// The values in the order in which they are stored, with the kernel of each.
    pub(crate) kernels: Vec<(NodeId, KernelChoice)>,
    /// The axes of each as they lie.
    pub(crate) axes: BTreeMap<NodeId, Vec<AxisId>>,
    /// The output in which each is stored, if it is in one.
    pub(crate) homes: BTreeMap<NodeId, Option<usize>>,
    /// The products whose left operand is stored row by row.
    pub(crate) rows: BTreeSet<NodeId>,
    /// Of values whose kernels run as one the number of the set.
    pub(crate) joint: BTreeMap<NodeId, usize>,
}

impl Choices {
    /// Whether the kernels of two values run as one.
    pub(crate) fn are_joint(&self, a: NodeId, b: NodeId) -> bool {
        self.joint.get(&a).is_some_and(|set| self.joint.get(&b) == Some(set))
    }
}

/// The kernel that a stored node gets.
#[derive(Clone, Debug)]
pub(crate) enum KernelChoice {
    /// Inputs and parameters are stored already.
    Source,
    /// An expression of stored nodes.
    Map,
    /// An expression of stored nodes and of reductions of its own rows along that axis, which its kernel holds.
    Statistics(AxisId),
    /// A row-wise kernel of the node itself.
    Rows,
    /// A sum whose terms are each added at one position.
    Scatter,
    /// An expression of the product of that node.
    Product(NodeId),
    /// An expression of the attention of that node, with the axis whose positions are the rows of a tile.
    Attention(NodeId, Option<AxisId>),
    /// An expression of a reduction of scores, or of a weighted sum, that the kernel of the attention stores that the host is of.
    Beside { host: NodeId, of: NodeId },
}

impl KernelChoice {
    /// The node whose product it stores an expression of.
    pub(crate) fn product(&self) -> Option<NodeId> {
        match self {
            KernelChoice::Product(node) => Some(*node),
            KernelChoice::Source
            | KernelChoice::Map
            | KernelChoice::Statistics(_)
            | KernelChoice::Rows
            | KernelChoice::Scatter
            | KernelChoice::Beside { .. }
            | KernelChoice::Attention(..) => None,
        }
    }

    /// The attention, or the reduction of scores, that it stores an expression of.
    pub(crate) fn attention(&self) -> Option<NodeId> {
        match self {
            KernelChoice::Attention(of, _) | KernelChoice::Beside { of, .. } => Some(*of),
            KernelChoice::Source
            | KernelChoice::Map
            | KernelChoice::Statistics(_)
            | KernelChoice::Rows
            | KernelChoice::Scatter
            | KernelChoice::Product(_) => None,
        }
    }

    /// Whether it is the choice `before` for the corresponding node one block before.
    pub(crate) fn follows(&self, before: &KernelChoice, repeats: &Repeats<'_>) -> bool {
        match (self, before) {
            (KernelChoice::Source, KernelChoice::Source)
            | (KernelChoice::Map, KernelChoice::Map)
            | (KernelChoice::Rows, KernelChoice::Rows)
            | (KernelChoice::Scatter, KernelChoice::Scatter) => true,
            (KernelChoice::Statistics(axis), KernelChoice::Statistics(other)) => axis == other,
            (KernelChoice::Product(n), KernelChoice::Product(b)) => repeats.shift(*b) == *n,
            (KernelChoice::Attention(n, query), KernelChoice::Attention(b, other)) => {
                repeats.shift(*b) == *n && query == other
            }
            (
                KernelChoice::Source
                | KernelChoice::Map
                | KernelChoice::Statistics(_)
                | KernelChoice::Rows
                | KernelChoice::Scatter,
                _,
            ) => false,
            (KernelChoice::Product(_) | KernelChoice::Attention(..), _) => false,
            // Kernels that store several values are planned one by one.
            (KernelChoice::Beside { .. }, _) => false,
        }
    }
}

/// What is stored, with the kernel of each, each after those that it reads.
pub(crate) fn materialised(
    g: &Graph,
    defined: &Defined,
    options: Options<'_>,
) -> Vec<(NodeId, KernelChoice)> {
    let mut refused = BTreeSet::new();
    loop {
        let (steps, missed) = Planner::new(g, defined, options, &refused).plan();
        if missed.is_empty() {
            return steps;
        }
        refused.extend(missed);
    }
}

/// Decides which nodes are stored and by which kernel.
struct Planner<'g> {
    g: &'g Graph,
    defined: &'g Defined,
    fuse: bool,
    /// Whether every product is taken as written.
    keeps_order: bool,
    /// What kernels of attentions were expected to make and do not: it is stored.
    refused: &'g BTreeSet<NodeId>,
    /// The most rows of an attention that are split over keys.
    few_rows: i64,
    /// Products inside scores that are not stored, and mixtures of them.
    tiled: TiledScores,
    /// Whether each node is an expression of them.
    of_scores: Vec<bool>,
    /// Where the value of each node goes.
    uses: Vec<Uses>,
    /// The nodes that are results of the model.
    outputs: BTreeSet<NodeId>,
    /// Element-wise nodes that are stored for their several readers, or for what their kernel holds.
    kept: BTreeSet<NodeId>,
    /// Reductions that the kernel of the only rows that need them holds, or that of the attention over these rows.
    held: BTreeSet<NodeId>,
    /// Those rows, each with the axis that the reductions run along.
    rows: BTreeMap<NodeId, AxisId>,
    /// What is chosen so far.
    choices: BTreeMap<NodeId, KernelChoice>,
}

/// Whether a strip cannot compute the node on the way.
fn is_anchor(op: &Op) -> bool {
    matches!(op.class(), Class::Bind | Class::Port)
}

impl<'g> Planner<'g> {
    /// Nothing is decided yet, but which values are stored for their several readers.
    fn new(
        g: &'g Graph,
        defined: &'g Defined,
        options: Options<'_>,
        refused: &'g BTreeSet<NodeId>,
    ) -> Planner<'g> {
        let Options { fuse, tiling, keeps_order, .. } = options;
        let tiled = tiled_scores(g, defined, fuse, refused);
        let of_scores = tiled.expressions(g);
        let uses = uses(g);
        let outputs = g.outputs().iter().map(|o| o.node).collect();
        let mut kept = if fuse { kept(g, defined, &uses, &of_scores) } else { BTreeSet::new() };
        if fuse {
            kept.extend(gathered_values(g, defined));
            kept.extend(joined_operands(g, defined));
        }
        kept.extend(ends_of_long_chains(g, defined, &kept));
        let (held, rows, choices) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let few_rows = tiling.few_rows;
        Planner {
            g,
            defined,
            fuse,
            keeps_order,
            refused,
            few_rows,
            tiled,
            of_scores,
            uses,
            outputs,
            kept,
            held,
            rows,
            choices,
        }
    }

    /// Whether a node is stored wherever it is read.
    fn is_anchor(&self, id: NodeId) -> bool {
        is_anchor(self.g.op(id)) || self.kept.contains(&id)
    }

    /// Decides which reductions are held; gives the running sums and mixtures that kernels of attentions are expected to hold.
    fn hold(&mut self) -> BTreeSet<NodeId> {
        let lies = |id| innermost(self.g, id);
        // Nothing has been planned yet, so that the answer for a node is always the same.
        let ends = RefCell::new(BTreeMap::new());
        let ends_a_kernel = |id| *ends.borrow_mut().entry(id).or_insert_with(|| self.ends_a_kernel(id));
        let is_stored = |id| self.outputs.contains(&id) || self.kept.contains(&id) || ends_a_kernel(id);
        let found = statistics(self.g, (&is_stored, &self.outputs), (&self.uses, &self.of_scores), lies);
        let kept = self.kept.clone();
        self.kept.extend(found.values());
        let holds = |root: NodeId| {
            matches!(self.choice(root).0, KernelChoice::Map) && self.defined.may_be_stored(root)
        };
        let mut rows = BTreeMap::new();
        for (held, root) in &found {
            if let Op::Reduce(_, axis) = *self.g.op(*held)
                && (rows.contains_key(root) || holds(*root))
            {
                rows.insert(*root, axis);
            }
        }
        self.held = found.into_iter().filter(|(_, root)| rows.contains_key(root)).map(|(id, _)| id).collect();
        self.kept.retain(|id| kept.contains(id) || rows.contains_key(id));
        self.rows = rows;
        let of_attentions = self.held_by_attentions();
        self.held.extend(of_attentions);
        let made = made_by_attentions(self);
        self.held.extend(made.iter().copied());
        made
    }

    /// The reductions of scores that attentions hold.
    fn held_by_attentions(&self) -> BTreeSet<NodeId> {
        let is_kept = |id: NodeId| self.outputs.contains(&id) || self.kept.contains(&id);
        let is_stored = |id: NodeId| self.is_anchor(id) && !self.tiled.products.contains(&id);
        let of = Among { g: self.g, defined: self.defined, keeps_order: true, is_stored: &is_stored };
        let of_scores = &self.of_scores;
        row_reductions(&Known { of: &of, is_kept: &is_kept, of_scores, few_rows: self.few_rows })
    }

    /// What is stored, with the kernel of each, each after those that it reads; and what kernels of attentions were expected to
    /// make for all its readers and do not.
    fn plan(mut self) -> (Vec<(NodeId, KernelChoice)>, BTreeSet<NodeId>) {
        let expected = if self.fuse { self.hold() } else { BTreeSet::new() };
        let mut work = self.outputs.clone();
        if !self.fuse {
            work.extend(self.g.ids().filter(|id| self.is_whole_operator(*id)));
        }
        let mut ends = BTreeMap::new();
        // Users first, so that what a kernel takes in is decided before it is asked for elsewhere.
        while let Some(id) = work.pop_last() {
            if self.choices.contains_key(&id) {
                continue;
            }
            let (choice, operands) = self.choice(id);
            self.choices.insert(id, choice);
            let mut seen = BTreeSet::new();
            for operand in operands {
                self.frontier(operand, (&mut seen, &mut ends), &mut work);
            }
        }
        let chosen = || self.choices.clone().into_iter().collect();
        let steps = if self.fuse { with_shared_scores(&self) } else { chosen() };
        let missed = missed(&self, &expected, &steps);
        (without_unread(&self, steps), missed)
    }

    /// Whether the unfused program stores the node: every element-wise operator on tensors, but the multiplication
    /// inside a product.
    fn is_whole_operator(&self, id: NodeId) -> bool {
        let g = self.g;
        let node = g.node(id);
        let users = g.users(id);
        let inside_product = !users.is_empty() && users.iter().all(|u| contraction_of(g, *u).is_some());
        let elementwise = matches!(node.op, Op::Map(_)) && !node.axes.is_empty() && !node.dtype.is_int();
        elementwise && !inside_product && self.defined.may_be_stored(id)
    }

    /// Anchors that the expression of `id` reads; `ends` are answers of [`Self::ends_a_kernel`].
    fn frontier(
        &self,
        id: NodeId,
        (seen, ends): (&mut BTreeSet<NodeId>, &mut BTreeMap<NodeId, bool>),
        work: &mut BTreeSet<NodeId>,
    ) {
        if !seen.insert(id) {
            return;
        }
        let stored_alone = !self.fuse && self.is_whole_operator(id);
        if self.held.contains(&id) {
            self.frontier(self.g.args(id)[0], (seen, ends), work);
        } else if self.is_anchor(id)
            || stored_alone
            || *ends.entry(id).or_insert_with(|| self.ends_a_kernel(id))
        {
            work.insert(id);
        } else {
            self.g.args(id).iter().for_each(|a| self.frontier(*a, (&mut *seen, &mut *ends), work));
        }
    }

    /// Whether a product or an attention is used by this expression alone: then its kernel computes the expression too, and
    /// what is stored is that.
    fn ends_a_kernel(&self, id: NodeId) -> bool {
        self.fuse
            && matches!(self.g.op(id), Op::Map(_))
            && self.defined.may_be_stored(id)
            && match self.choice(id).0 {
                KernelChoice::Product(_) | KernelChoice::Attention(..) => true,
                KernelChoice::Source
                | KernelChoice::Map
                | KernelChoice::Statistics(_)
                | KernelChoice::Beside { .. }
                | KernelChoice::Scatter
                | KernelChoice::Rows => false,
            }
    }

    /// The kernel for a node, and the nodes whose expressions it evaluates.
    fn choice(&self, id: NodeId) -> (KernelChoice, Vec<NodeId>) {
        let g = self.g;
        match g.op(id).class() {
            Class::Port => (KernelChoice::Source, Vec::new()),
            Class::Bind => {
                let by_index = |of: Scatter| (KernelChoice::Scatter, vec![of.index, of.term]);
                let by_data = || scatter_by_data(g, id).filter(|_| self.fuse).map(by_index);
                let by_any = || scatter(g, id).filter(|_| self.fuse).map(by_index);
                let by_row = || (KernelChoice::Rows, g.args(id).to_vec());
                by_data().or_else(|| self.anchor_choice(id, id)).or_else(by_any).unwrap_or_else(by_row)
            }
            Class::Leaf | Class::View | Class::Concat => (KernelChoice::Map, g.args(id).to_vec()),
            Class::Map => {
                let inline = self.elementwise(id);
                let anchors = inline
                    .iter()
                    .copied()
                    .filter(|a| !self.outputs.contains(a) && self.joins(*a, id, &inline));
                let found = if self.fuse {
                    anchors.into_iter().find_map(|a| self.anchor_choice(a, id).map(|f| (a, f)))
                } else {
                    None
                };
                match found {
                    Some((anchor, (choice, mut operands))) => {
                        operands.extend(inline.into_iter().filter(|x| *x != anchor && self.is_anchor(*x)));
                        operands.extend(self.views(id));
                        (choice, operands)
                    }
                    None => {
                        let choice = self
                            .rows
                            .get(&id)
                            .map_or(KernelChoice::Map, |axis| KernelChoice::Statistics(*axis));
                        (choice, g.args(id).to_vec())
                    }
                }
            }
        }
    }

    /// Nodes that `id` reads element by element, with the same indices: through scalar operators only.
    fn elementwise(&self, id: NodeId) -> Vec<NodeId> {
        let (mut out, mut seen) = (Vec::new(), BTreeSet::new());
        let mut stack: Vec<NodeId> = self.g.args(id).into_iter().rev().collect();
        while let Some(arg) = stack.pop() {
            if !seen.insert(arg) {
                continue;
            }
            match self.g.op(arg).class() {
                Class::Map => {
                    out.push(arg);
                    if !self.kept.contains(&arg) {
                        stack.extend(self.g.args(arg).into_iter().rev());
                    }
                }
                Class::Bind | Class::Port => out.push(arg),
                Class::Leaf | Class::View | Class::Concat => {}
            }
        }
        out
    }

    /// Views and concatenations among the element-wise operands of `id`.
    fn views(&self, id: NodeId) -> Vec<NodeId> {
        let g = self.g;
        let mut inline = vec![id];
        inline.extend(self.elementwise(id));
        let is_inner = |x: NodeId| matches!(g.op(x), Op::Map(_)) && (x == id || !self.kept.contains(&x));
        let inner = inline.iter().filter(|x| is_inner(**x));
        inner.flat_map(|x| g.args(*x)).filter(|a| matches!(g.op(*a), Op::At(_) | Op::Concat(..))).collect()
    }

    /// Whether every use of `anchor` ends in `root`, through nodes of `inline`.
    fn joins(&self, anchor: NodeId, root: NodeId, inline: &[NodeId]) -> bool {
        let (mut seen, mut stack) = (BTreeSet::new(), vec![anchor]);
        while let Some(id) = stack.pop() {
            let users = self.g.users(id);
            if users.is_empty() {
                return false;
            }
            for user in users.into_iter().filter(|u| *u != root) {
                let passes = inline.contains(&user)
                    && matches!(self.g.op(user), Op::Map(_))
                    && !self.outputs.contains(&user)
                    && !self.kept.contains(&user);
                if !passes {
                    return false;
                }
                if seen.insert(user) {
                    stack.push(user);
                }
            }
        }
        true
    }

    /// The product or attention kernel of `anchor` that stores `root`, with the expressions that it evaluates.
    fn anchor_choice(&self, anchor: NodeId, root: NodeId) -> Option<(KernelChoice, Vec<NodeId>)> {
        let g = self.g;
        // A running sum that no attention holds is one of rows.
        let is_scan = matches!(g.op(anchor), Op::CumSum(..));
        if g.node(anchor).axes != g.node(root).axes || self.held.contains(&anchor) || is_scan {
            return None;
        }
        if self.fuse && scatter_by_data(g, anchor).is_some() {
            return None;
        }
        let order: Vec<AxisId> = g.node(anchor).axes.iter().collect();
        if contraction(g, anchor, &order).is_some() && !self.tiled.within_rows.contains(&anchor) {
            let (a, b, _) = g.sum_of_products(anchor)?;
            return Some((KernelChoice::Product(anchor), vec![a, b]));
        }
        let is_stored = |id: NodeId| {
            let is_made = self.tiled.products.contains(&id) || self.held.contains(&id);
            self.choices.contains_key(&id) || self.is_anchor(id) && !is_made
        };
        let of = Among { g, defined: self.defined, keeps_order: true, is_stored: &is_stored };
        let (query, mut inside) = query_axis(&of, anchor, &self.of_scores)?;
        inside.extend(self.tiled.made_for(anchor));
        // Without values there is nothing to stream but the scores; where those are read and not made, rows do.
        let values = &g.args(anchor)[1..];
        let is_by_row = has_scalar_values(g, self.defined, anchor);
        if is_by_row || inside.is_empty() && values.is_empty() {
            return None;
        }
        let mut operands = values.to_vec();
        operands.extend(self.around(g.args(anchor)[0], &inside));
        Some((KernelChoice::Attention(anchor, query), operands))
    }

    /// The operands of an expression, with those of the products inside it in place of the products. What ends the kernel of
    /// another product is read as that stores it.
    fn around(&self, score: NodeId, inside: &[NodeId]) -> Vec<NodeId> {
        let (mut out, mut seen, mut stack) = (Vec::new(), BTreeSet::new(), vec![score]);
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            if inside.contains(&id) {
                let operands = self.g.sum_of_products(id);
                out.extend(operands.into_iter().flat_map(|(a, b, _)| [a, b]));
            } else if self.held.contains(&id) {
                stack.extend(self.g.args(id));
            } else if self.is_anchor(id) || inside.is_empty() && self.ends_a_kernel(id) {
                out.push(id);
            } else {
                stack.extend(self.g.args(id).into_iter().rev());
            }
        }
        out
    }
}

/// Operators one after the other up to which a kernel computes an expression on the way.
const LONGEST_CHAIN: usize = 64;

/// Parts of concatenations inside each other up to which a kernel computes them on the way: each is read at a place of its own.
const MOST_PARTS: usize = 64;

/// Nodes that are stored since the expression behind them is long, or has many parts: code for it stays small, however many
/// operators a program chains.
fn ends_of_long_chains(g: &Graph, defined: &Defined, kept: &BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let mut ends = BTreeSet::new();
    // Of the expression that stands for a node where it is read: operators in a row, and parts.
    let mut sizes: Vec<(usize, usize)> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let args = g.args(id);
        let of = args.iter().map(|a| sizes[a.index()]);
        let longest = of.clone().map(|(length, _)| length).max().unwrap_or(0);
        let is_concat = matches!(g.op(id), Op::Concat(..));
        let parts = if is_concat {
            of.fold(0, |sum: usize, (_, parts)| sum.saturating_add(parts))
        } else {
            of.map(|(_, parts)| parts).max().unwrap_or(1)
        };
        let inline = matches!(g.op(id), Op::Map(_) | Op::At(_) | Op::Concat(..));
        let is_long = longest >= LONGEST_CHAIN && matches!(g.op(id), Op::Map(_));
        let ends_here = (is_long || is_concat && parts > MOST_PARTS) && defined.may_be_stored(id);
        if ends_here {
            ends.insert(id);
        }
        sizes.push(if inline && !ends_here && !kept.contains(&id) { (longest + 1, parts) } else { (0, 1) });
    }
    ends
}

fn contraction_of(g: &Graph, id: NodeId) -> Option<Contraction> {
    let order: Vec<AxisId> = g.node(id).axes.iter().collect();
    contraction(g, id, &order)
}
