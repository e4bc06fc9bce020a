//! Sums of scores over other axes than that of the keys, as over a batch, come after the sum over keys: `sum[j](f[i, j] *
//! sum[b](x[b, i, j]))` is `sum[b](sum[j](f[i, j] * x[b, i, j]))`.
//!
//! So is the gradient of what all rows of a batch share, as the slope of a bias by distance. The rules let factors leave a sum, by
//! which there are fewer products; where the sum is one of scores they are stored for every query and key, only to be summed
//! again. With the keys first each of them is made and summed at once.

use crate::after::scores::{Scores, readers, reduces_scores};
use crate::graph::demanded::open_values;
use crate::graph::factors::linear_in;
use crate::graph::rewrite::{Rewritten, rewrite_in_order};
use salient_ir::{AxisId, AxisSet, Builder, Class, Graph, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// A sum over keys of what is made of sums of scores.
struct KeysLast {
    key: AxisId,
    /// What is made of the term, the last step first.
    steps: Vec<Step>,
    /// What is summed.
    term: NodeId,
    /// The products of queries and keys inside of it.
    scores: BTreeSet<NodeId>,
}

/// A step from a sum over keys to the scores that it is made of.
#[derive(Clone, Copy)]
enum Step {
    /// A sum over another axis.
    Sum(NodeId, AxisId),
    /// An operator that may be taken term by term of a sum in this argument.
    Linear(NodeId, usize),
}

impl Step {
    fn node(self) -> NodeId {
        match self {
            Step::Sum(id, _) | Step::Linear(id, _) => id,
        }
    }

    fn axis(self) -> Option<AxisId> {
        match self {
            Step::Sum(_, axis) => Some(axis),
            Step::Linear(..) => None,
        }
    }
}

/// The same graph with such sums over keys first.
pub(crate) fn keys_first(g: &Graph) -> Rewritten {
    let found = found(g);
    if found.is_empty() {
        return Rewritten::unchanged(g);
    }
    rewrite_in_order(g, |b, new, id| Some(found.get(&id)?.build(g, b, new)))
}

fn found(g: &Graph) -> BTreeMap<NodeId, KeysLast> {
    let known = Scores::new(g);
    let leads = lead_to_sums(g);
    let sums = g.ids().filter_map(|id| Some((id, KeysLast::of(g, &known, &leads, id)?)));
    let mut found: BTreeMap<NodeId, KeysLast> = sums.collect();
    if !found.is_empty() {
        let open = open_values(g);
        // Scores that are stored for one reader are stored for all.
        found.retain(|_, sum| {
            sum.scores.iter().all(|score| is_combined(g, *score))
                && sum.others(g).all(|(_, x)| is_number_anywhere(g, x) && !open.is_open(x))
        });
    }
    // So are sums of them.
    loop {
        let steps = found.values().flat_map(|sum| sum.steps.iter().map(|step| step.node()));
        let within: BTreeSet<NodeId> = steps.chain(found.keys().copied()).collect();
        let is_left = |id: NodeId| {
            g.users(id).iter().all(|user| within.contains(user)) && g.outputs().iter().all(|o| o.node != id)
        };
        let count = found.len();
        found.retain(|_, sum| sum.steps.iter().all(|step| is_left(step.node())));
        if found.len() == count {
            return found;
        }
    }
}

/// Whether all that read scores, or weights made of them, combine them along an axis.
fn is_combined(g: &Graph, id: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::from([id]), vec![id]);
    while let Some(id) = stack.pop() {
        let Some(readers) = readers(g, id) else { return false };
        for reader in readers.into_iter().filter(|reader| !reduces_scores(g, *reader)) {
            if !makes_weights(g, reader) {
                return false;
            }
            if seen.insert(reader) {
                stack.push(reader);
            }
        }
    }
    true
}

/// Whether it makes weights of scores, one for each.
fn makes_weights(g: &Graph, id: NodeId) -> bool {
    matches!(g.op(id), Op::Fused(op, _) if !op.info().reduces)
}

/// Whether a value is made element by element of data and indices: nothing in it has no value where an axis has no positions.
fn is_number_anywhere(g: &Graph, id: NodeId) -> bool {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        match g.op(id).class() {
            Class::Map | Class::View => stack.extend(g.args(id)),
            Class::Port | Class::Leaf => {}
            Class::Concat | Class::Bind => return false,
        }
    }
    true
}

impl KeysLast {
    /// The sum `id`, if it is one.
    fn of(g: &Graph, known: &Scores<'_>, leads: &[bool], id: NodeId) -> Option<KeysLast> {
        let key = summed_over(g, id)?;
        let (mut steps, mut at) = (Vec::new(), g.args(id)[0]);
        while let Some(step) = step(g, leads, at, key)
            && (step.axis().is_none() || scores_in(g, known, at, key).is_empty())
        {
            steps.push(step);
            at = match step {
                Step::Sum(sum, _) => g.args(sum)[0],
                Step::Linear(map, place) => g.args(map)[place],
            };
        }
        // What is made of scores before they are summed belongs to the term.
        let last = steps.iter().rposition(|step| step.axis().is_some())?;
        steps.truncate(last + 1);
        let term = g.args(steps[last].node())[0];
        let scores = scores_in(g, known, term, key);
        let sum = KeysLast { key, steps, term, scores };
        sum.is_of_pairs(g).then_some(sum)
    }

    /// What stands beside the sums of scores in what is made of them, each with the number of steps before it.
    fn others<'a>(&'a self, g: &'a Graph) -> impl Iterator<Item = (usize, NodeId)> + 'a {
        self.steps.iter().enumerate().flat_map(|(count, step)| {
            let (args, at) = match step {
                Step::Sum(..) => (Default::default(), 0),
                Step::Linear(id, at) => (g.args(*id), *at),
            };
            args.into_iter().enumerate().filter_map(move |(n, x)| (n != at).then_some((count, x)))
        })
    }

    /// Whether there is a sum for every query and key, but not one of values beside, and no value for more than that is made of it.
    fn is_of_pairs(&self, g: &Graph) -> bool {
        let term = &g.node(self.term).axes;
        let without = |steps: &[Step]| -> AxisSet {
            term.iter().filter(|axis| steps.iter().all(|step| step.axis() != Some(*axis))).collect()
        };
        let axes = without(&self.steps);
        let of_scores = self.scores.iter().fold(AxisSet::new(), |all, score| all.union(&g.node(*score).axes));
        let is_pair = |score: &NodeId| {
            let product = g.args(*score)[0];
            let of_key = |x: &NodeId| g.node(*x).axes.contains(self.key);
            let with_key = g.args(product).into_iter().find(of_key);
            let is_query = |axis: AxisId| with_key.is_some_and(|x| !g.node(x).axes.contains(axis));
            g.node(*score).axes.intersection(&axes).iter().any(is_query)
        };
        axes.contains(self.key)
            && axes.is_subset(&of_scores)
            && self.scores.iter().any(is_pair)
            && self.others(g).all(|(count, x)| g.node(x).axes.is_subset(&without(&self.steps[count..])))
    }

    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> NodeId {
        let made = self.steps.iter().rev().fold(new[self.term.index()], |term, step| match step {
            Step::Sum(..) => term,
            Step::Linear(id, at) => {
                let mut args: Vec<NodeId> = g.args(*id).iter().map(|x| new[x.index()]).collect();
                args[*at] = term;
                b.add(g.op(*id).clone(), &args).expect("numbers as before")
            }
        });
        let keys = b.reduce(ReduceOp::Sum, self.key, made).expect("numbers");
        let sums = self.steps.iter().rev().filter_map(|step| step.axis());
        sums.fold(keys, |sum, axis| b.reduce(ReduceOp::Sum, axis, sum).expect("numbers"))
    }
}

/// Whether each node is a sum, or made of one by operators that may be taken term by term.
fn lead_to_sums(g: &Graph) -> Vec<bool> {
    let mut leads: Vec<bool> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let args = g.args(id);
        let is_made = linear_in(g, id).iter().any(|place| leads[args[*place].index()]);
        leads.push(is_made || summed_over(g, id).is_some());
    }
    leads
}

/// The step that a value is, if it leads to a sum of what varies along the key.
fn step(g: &Graph, leads: &[bool], id: NodeId, key: AxisId) -> Option<Step> {
    if let Some(axis) = summed_over(g, id) {
        return Some(Step::Sum(id, axis));
    }
    let args = g.args(id);
    let goes_on = |place: &&usize| {
        let arg = args[**place];
        leads[arg.index()] && g.node(arg).axes.contains(key)
    };
    linear_in(g, id).iter().find(goes_on).map(|place| Step::Linear(id, *place))
}

/// What a number is a sum over.
fn summed_over(g: &Graph, id: NodeId) -> Option<AxisId> {
    let Op::Reduce(ReduceOp::Sum, axis) = *g.op(id) else { return None };
    g.node(id).dtype.is_float().then_some(axis)
}

/// The products of queries and keys inside an expression, and inside of weights that are made of them.
fn scores_in(g: &Graph, known: &Scores<'_>, id: NodeId, key: AxisId) -> BTreeSet<NodeId> {
    let (mut scores, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        if !seen.insert(id) {
            continue;
        }
        match g.op(id).class() == Class::Map || makes_weights(g, id) {
            true => stack.extend(g.args(id)),
            false => scores.extend(known.inside(id, key)),
        }
    }
    scores
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{DType, Dim, MapOp};

    /// The axes of what is summed over keys in `sum[j](beside * sum[b](x))`, where `x` has scores of `i` and `j` as factors, and
    /// what stands beside their sum has the given axes.
    fn summed_over_keys(beside: &[&str], values: bool) -> Vec<String> {
        let mut b = Builder::new("m");
        let axis = |b: &mut Builder, name: &str| b.axis_id(name, &Dim::symbol(&*name.to_uppercase()));
        let [batch, i, j, e, n] = ["b", "i", "j", "e", "n"].map(|name| axis(&mut b, name));
        let input = |b: &mut Builder, name: &str, axes: &[AxisId]| b.input(name, axes, DType::F32, None);
        let (q, k) = (input(&mut b, "q", &[batch, i, e]), input(&mut b, "k", &[batch, j, e]));
        let product = b.map(MapOp::Mul, &[q, k]).unwrap();
        let score = b.reduce(ReduceOp::Sum, e, product).unwrap();
        let weight = b.map(MapOp::Exp, &[score]).unwrap();
        let of_gain = [batch, i, n];
        let gain = input(&mut b, "gain", if values { &of_gain } else { &of_gain[..2] });
        let x = b.map(MapOp::Mul, &[weight, gain]).unwrap();
        let sum = b.reduce(ReduceOp::Sum, batch, x).unwrap();
        let own: Vec<AxisId> = beside.iter().map(|name| axis(&mut b, name)).collect();
        let f = input(&mut b, "f", &own);
        let product = b.map(MapOp::Mul, &[f, sum]).unwrap();
        let keys = b.reduce(ReduceOp::Sum, j, product).unwrap();
        let axes: Vec<AxisId> = b.node(keys).axes.iter().collect();
        b.output("y", &axes, keys).unwrap();
        let g = keys_first(&b.finish()).graph;
        let is_keys = |id: &NodeId| *g.op(*id) == Op::Reduce(ReduceOp::Sum, j);
        let keys = g.ids().find(is_keys).unwrap();
        g.node(keys).axes.iter().map(|axis| g.axis(axis).name.to_string()).collect()
    }

    #[test]
    fn keys_are_summed_before_the_batch_of_scores_is() {
        assert_eq!(summed_over_keys(&["i", "j"], false), ["b", "i"]);
        // For every value of further axes there would be a pass over the keys.
        assert_eq!(summed_over_keys(&["j", "n"], false), ["i", "n"]);
        // With an axis of values it is a product with those, which sums over the batch too.
        assert_eq!(summed_over_keys(&["i", "j"], true), ["i", "n"]);
    }
}
