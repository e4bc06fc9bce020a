//! Finds why an array with an element for every query and key is stored: what reads it, or how it is made.

use super::Repetition;
use super::pairs::{Pairs, Side, goes_over};
use super::reason::{Along, Reason, Then, Value};
use crate::plan::contraction::is_matrix_product;
use crate::plan::{Plan, Step};
use crate::program::kernel::Role;
use salient_ir::op::RowWeights;
use salient_ir::{AxisId, AxisSet, Class, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The reasons for which a plan stores arrays.
pub(super) struct Reasons<'p, 'g> {
    plan: &'p Plan<'g>,
    pairs: &'p Pairs<'p>,
    stored: BTreeMap<NodeId, &'p Step>,
}

/// What is found of the values that read an array.
#[derive(Default)]
struct Found {
    /// The axes of the array.
    of_array: AxisSet,
    reasons: BTreeSet<Reason>,
    /// A value that reduces it along keys, and one that reduces it along queries.
    along: [Option<Value>; 2],
    /// Whether one of these sums values under it.
    sums_values: bool,
}

impl<'p, 'g> Reasons<'p, 'g> {
    pub(super) fn new(plan: &'p Plan<'g>, pairs: &'p Pairs<'p>) -> Reasons<'p, 'g> {
        Reasons { plan, pairs, stored: plan.steps.iter().map(|step| (step.node, step)).collect() }
    }

    /// Why a value with an element for every query and key is stored, the strongest reason first.
    pub(super) fn of(&self, id: NodeId) -> Vec<Reason> {
        let g = &*self.plan.graph;
        let mut found = Found { of_array: g.node(id).axes.clone(), ..Found::default() };
        found.reasons.extend(self.asked_for(id));
        found.reasons.extend(self.distance(id));
        let (mut seen, mut stack) = (BTreeSet::from([id]), vec![id]);
        while let Some(read) = stack.pop() {
            for user in g.users(read) {
                let passes = self.reader(read, user, &mut found);
                if !passes || !seen.insert(user) {
                    continue;
                }
                if self.stored.contains_key(&user) && self.pairs.has(user) {
                    found.reasons.insert(Reason::For(Value::of(self.plan, user)));
                } else {
                    stack.push(user);
                }
            }
        }
        if let [Some(rows), Some(columns)] = &found.along {
            found.reasons.insert(Reason::BothWays {
                rows: rows.clone(),
                columns: columns.clone(),
                are_reductions: !found.sums_values,
            });
        }
        if found.reasons.is_empty() {
            found.reasons.extend(found.along.into_iter().flatten().map(Reason::Apart));
        }
        found.reasons.into_iter().collect()
    }

    /// The outputs and states that hold the value.
    fn asked_for(&self, id: NodeId) -> Vec<Reason> {
        let g = &self.plan.graph;
        let is_state = |at: usize| g.states().iter().any(|state| state.output == at);
        let of = |state: bool| {
            let outputs = g.outputs().iter().enumerate();
            let of = outputs.filter(move |(at, o)| o.node == id && is_state(*at) == state);
            of.map(|(_, o)| o.name.to_string())
        };
        let returned: Vec<String> = of(false).collect();
        let returned = (!returned.is_empty()).then_some(Reason::Returned(returned));
        returned.into_iter().chain(of(true).map(Reason::Kept)).collect()
    }

    /// Notes what a user of a value that is made of the array does with it; whether what it makes is the array element by
    /// element.
    fn reader(&self, read: NodeId, user: NodeId, found: &mut Found) -> bool {
        let g = &*self.plan.graph;
        let value = || Value::of(self.plan, user);
        match g.op(user) {
            Op::Map(_) => return true,
            Op::At(axis) => return self.view(read, user, *axis, found),
            Op::Concat(..) => {
                found.reasons.insert(Reason::Joined(value()));
            }
            Op::CumSum(_, axis) => {
                let along = Along::of(self.pairs.side(read, *axis));
                found.reasons.insert(Reason::Running(value(), along, self.then(read, user)));
            }
            Op::Reduce(op, axis) => self.bound(read, user, *axis, Some(*op), found),
            Op::Fused(op, axis) => {
                self.bound(read, user, *axis, None, found);
                // Weights of a row are an array too.
                return !op.info().reduces;
            }
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {}
        }
        false
    }

    /// A view of the array, or one at positions that are computed from it.
    fn view(&self, read: NodeId, user: NodeId, axis: AxisId, found: &mut Found) -> bool {
        let g = &*self.plan.graph;
        let args = g.args(user);
        if args[0] != read || g.is_renamed(axis, args[1]) {
            return true;
        }
        let value = Value::of(self.plan, user);
        let along = self.along(read, axis, user);
        let of_data = depends_on_data(g, args[1]);
        found.reasons.insert(match of_data {
            true => Reason::Gathered(value, along, self.then(read, user)),
            false => Reason::Moved(value, along, self.then(read, user)),
        });
        false
    }

    /// The positions that a view of an axis, and views of that, put in another order.
    fn along(&self, read: NodeId, axis: AxisId, view: NodeId) -> Along {
        let g = &*self.plan.graph;
        let mut last = view;
        while let [next] = g.users(last)[..]
            && matches!(g.op(next), Op::At(_))
            && g.args(next)[0] == last
        {
            last = next;
        }
        // An axis of which both queries and keys follow mixes them.
        let mixes =
            g.node(last).axes.iter().map(|axis| self.pairs.side(last, axis)).any(|s| s.queries && s.keys);
        if mixes { Along::Both } else { Along::of(self.pairs.side(read, axis)) }
    }

    /// An operator that combines the array along an axis: a reduction of that kind, or a fused operator.
    fn bound(&self, read: NodeId, user: NodeId, axis: AxisId, op: Option<ReduceOp>, found: &mut Found) {
        let g = &*self.plan.graph;
        let value = Value::of(self.plan, user);
        let side = self.pairs.side(read, axis);
        let reason = match op {
            _ if side == Side::default() => {
                let then = if op == Some(ReduceOp::Sum) { self.then(read, user) } else { Then::Other };
                Some(Reason::Mixed { by: value.clone(), along: g.axis(axis).name.clone(), then })
            }
            _ if self.compares(read, user, axis) => Some(Reason::Compared(value.clone())),
            Some(
                op @ (ReduceOp::Prod | ReduceOp::Min | ReduceOp::Any | ReduceOp::All | ReduceOp::ArgMax),
            ) => Some(Reason::Reduced(value.clone(), op)),
            _ if self.sums_pairs(read, user) => Some(Reason::ValuesOfPairs(value.clone())),
            Some(ReduceOp::Sum | ReduceOp::Max) => {
                self.repetition(user, &found.of_array).map(|of| Reason::Repeated(value.clone(), of))
            }
            None => None,
        };
        match reason {
            Some(reason) => {
                found.reasons.insert(reason);
            }
            None => {
                let at = usize::from(!side.keys);
                found.along[at].get_or_insert(value);
                found.sums_values |= self.is_sum_under(user);
            }
        }
    }

    /// Why a kernel would make the scores of an array with those axes again for each feature of what a reduction combines with it, if
    /// it would.
    fn repetition(&self, reduction: NodeId, of_array: &AxisSet) -> Option<Repetition> {
        let g = &*self.plan.graph;
        let terms = g.args(reduction)[0];
        let is_feature =
            |axis: &AxisId| !of_array.contains(*axis) && self.pairs.side(terms, *axis) == Side::default();
        let features: AxisSet = g.node(terms).axes.iter().filter(is_feature).collect();
        let has_features = |id: NodeId| features.iter().any(|axis| g.node(id).axes.contains(axis));
        if !has_features(terms) || is_matrix_product(g, reduction) {
            return None;
        }
        // Zero where a mask does not hold is no choice among values.
        let is_masked = *g.op(terms) == Op::Map(MapOp::Select)
            && !g.args(terms).iter().enumerate().any(|(at, arg)| at != 1 && has_features(*arg));
        (!is_masked).then(|| combination(g, terms, has_features))
    }

    /// Whether a reduction leaves an element for every query and key, since it is one of elements beside others.
    fn compares(&self, read: NodeId, user: NodeId, axis: AxisId) -> bool {
        let g = &*self.plan.graph;
        let is_over_all = || {
            let rest =
                g.node(user).axes.iter().filter(|rest| self.pairs.side(read, *rest) != Side::default());
            rest.into_iter().any(|rest| goes_over(g.extent(axis), g.extent(rest)))
        };
        self.pairs.is_comparison(user)
            || g.op(user).class() == Class::Bind
                && self.reduces(user)
                && self.pairs.has(user)
                && is_over_all()
    }

    fn reduces(&self, user: NodeId) -> bool {
        match self.plan.graph.op(user) {
            Op::Reduce(..) => true,
            Op::Fused(op, _) => op.info().reduces,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
            Op::Map(_) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => false,
        }
    }

    /// Whether a node is a sum.
    fn is_sum(&self, id: NodeId) -> bool {
        match self.plan.graph.op(id) {
            Op::Reduce(op, _) => *op == ReduceOp::Sum,
            Op::Fused(op, _) => op.info().weights == RowWeights::Unnormalised,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
            Op::Map(_) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => false,
        }
    }

    /// Whether a node sums values under weights.
    fn is_sum_under(&self, user: NodeId) -> bool {
        let g = &*self.plan.graph;
        match g.op(user) {
            Op::Fused(op, _) => op.info().has_values(),
            Op::Reduce(ReduceOp::Sum, _) => is_matrix_product(g, user),
            Op::Reduce(..) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => {
                false
            }
            Op::Map(_) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) => false,
        }
    }

    /// Whether all that becomes of what a node makes of the array is a sum of values under it.
    fn then(&self, read: NodeId, user: NodeId) -> Then {
        let g = &*self.plan.graph;
        let (mut seen, mut stack) = (BTreeSet::new(), vec![user]);
        let mut sums = self.pairs.is_weights(read);
        while let Some(id) = stack.pop() {
            sums &= g.outputs().iter().all(|o| o.node != id) && self.pairs.has(id);
            for next in g.users(id).into_iter().filter(|next| seen.insert(*next)) {
                let is_choice = *g.op(next) == Op::Map(MapOp::Select);
                // A sum that leaves no pairs, and has features that the array lacks, is one of values.
                let has_features = || g.node(next).axes.iter().any(|axis| !g.node(read).axes.contains(axis));
                if !self.pairs.has(next) && has_features() {
                    sums &= self.is_sum(next);
                    continue;
                }
                stack.push(next);
                // A choice of zero around what is moved past the ends is linear in it.
                sums &= match g.op(next) {
                    Op::Map(_) => is_choice || !self.pairs.is_bent_by(id, next),
                    Op::Reduce(op, _) => *op == ReduceOp::Sum,
                    Op::At(_) | Op::CumSum(..) => true,
                    Op::Fused(..) | Op::Concat(..) => false,
                    Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
                };
            }
        }
        if sums { Then::Summed } else { Then::Other }
    }

    /// Whether a sum under the array is one of values that have an element for every query and key.
    fn sums_pairs(&self, read: NodeId, user: NodeId) -> bool {
        let g = &*self.plan.graph;
        let Op::Fused(op, key) = *g.op(user) else { return false };
        let args = g.args(user);
        let of_queries = || {
            g.node(read)
                .axes
                .iter()
                .find(|axis| *axis != key && self.pairs.side(read, *axis) != Side::default())
        };
        let values = op.info().has_values().then(|| args[1]);
        values.is_some_and(|v| v != read && of_queries().is_some_and(|axis| g.node(v).axes.contains(axis)))
    }

    /// Whether the value is a comparison that is no product, looking through what is computed element by element.
    fn distance(&self, id: NodeId) -> Option<Reason> {
        let g = &*self.plan.graph;
        let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
        while let Some(made) = stack.pop() {
            if !seen.insert(made) || made != id && self.stored.contains_key(&made) {
                continue;
            }
            if let Op::Reduce(..) = g.op(made)
                && self.pairs.is_comparison(made)
                && !is_matrix_product(g, made)
            {
                let squares = is_square(g, g.args(made)[0]) && self.is_softmaxed(made);
                return Some(Reason::Distance { squares });
            }
            if g.op(made).class() == Class::Map {
                stack.extend(g.args(made));
            }
        }
        None
    }

    /// Whether all that becomes of a value is a softmax of it or of multiples of it.
    fn is_softmaxed(&self, id: NodeId) -> bool {
        let g = &*self.plan.graph;
        let is_linear =
            |op: &Op| matches!(op, Op::Map(MapOp::Neg | MapOp::Mul | MapOp::Div | MapOp::Add | MapOp::Sub));
        let is_softmax = |op: &Op| matches!(op, Op::Fused(op, _) if op.info().weights.is_exponential());
        let readers = g.readers(id, is_linear);
        readers.is_some_and(|readers| readers.iter().all(|(reader, _)| is_softmax(g.op(*reader))))
    }

    /// Whether a value is asked for, or one that has as many axes and that a kernel makes of it: scores of weights that are
    /// returned are stored for these.
    pub(super) fn is_asked_for(&self, id: NodeId) -> bool {
        let g = &*self.plan.graph;
        let axes = g.node(id).axes.len();
        let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
        while let Some(made) = stack.pop() {
            if !seen.insert(made) || !self.pairs.has(made) || g.node(made).axes.len() < axes {
                continue;
            }
            let step = self.stored.get(&made);
            let is_output = |step: &&&Step| matches!(self.plan.buffers[step.buffer.0].role, Role::Output(_));
            if step.filter(is_output).is_some() || g.outputs().iter().any(|o| o.node == made) {
                return true;
            }
            if made == id || step.is_none() {
                stack.extend(g.users(made));
            }
        }
        false
    }
}

/// Whether an index is made of data, and not of indices alone.
fn depends_on_data(g: &Graph, index: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![index]);
    while let Some(id) = stack.pop() {
        if g.op(id).class() == Class::Port {
            return true;
        }
        if seen.insert(id) {
            stack.extend(g.args(id));
        }
    }
    false
}

/// In which way terms that are summed over keys combine scores with what has features.
pub(super) fn combination(g: &Graph, terms: NodeId, has_features: impl Fn(NodeId) -> bool) -> Repetition {
    if *g.op(terms) == Op::Map(MapOp::Select) && !has_features(g.args(terms)[0]) {
        return Repetition::Choice;
    }
    let (mut square, mut seen, mut stack) = (false, BTreeSet::from([terms]), vec![terms]);
    while let Some(id) = stack.pop() {
        square |= has_features(id) && is_square(g, id);
        if let Op::Map(_) = g.op(id) {
            stack.extend(g.args(id).into_iter().filter(|arg| seen.insert(*arg)));
        }
    }
    Repetition::NoProduct { square }
}

/// Whether a value is the square of a difference.
fn is_square(g: &Graph, id: NodeId) -> bool {
    let is_difference = |id: NodeId| *g.op(id) == Op::Map(MapOp::Sub);
    let args = g.args(id);
    match g.op(id) {
        Op::Map(MapOp::Mul) => args[0] == args[1] && is_difference(args[0]),
        Op::Map(MapOp::Pow) => is_difference(args[0]),
        Op::Map(_) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => false,
        Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => false,
    }
}
