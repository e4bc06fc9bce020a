//! The sum of a row without what comes up to a position: what comes behind it.
//!
//! `sum[j](x) - cumsum[j](x)` is `reverse_cumsum[j](x) - x`, wherever the two stand in a sum. The difference is as exact as the sum of
//! the row is large, and that of what is behind only as that is. Where the two are exponents, `exp(sum[j](x)) / exp(cumsum[j](x))`,
//! they are subtracted first: each alone may be zero or infinite.

use crate::graph::choices::{conjuncts, value_without, without};
use crate::graph::factors::args_of;
use crate::graph::rewrite::rewrite;
use salient_ir::{Builder, Class, Const, DType, Direction, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// Terms and factors that are looked at, at most.
const MOST: usize = 32;

/// The same model with what is behind a position in place of such differences.
pub(crate) fn what_is_behind(g: &Graph) -> Graph {
    if !g.ids().any(|id| matches!(g.op(id), Op::CumSum(..))) {
        return g.clone();
    }
    let of_exponents = exponents_together(g);
    let g = of_exponents.as_ref().unwrap_or(g);
    let found: BTreeMap<NodeId, Difference> =
        g.ids().filter_map(|id| Some((id, Difference::of(g, id)?))).collect();
    terms_under_their_masks(&rewrite(g, |b, new, id| found.get(&id)?.build(g, b, new, id)).graph)
}

/// The same model where what is behind stands under the mask of its terms without that mask inside: `if m then exp(r - x) else 0` of
/// `if m then exp(r - (if m then x else 0)) else 0`.
fn terms_under_their_masks(g: &Graph) -> Graph {
    let reads_one = |root: NodeId| {
        let (mut stack, mut looks) = (vec![root], MOST);
        while let Some(id) = stack.pop() {
            if matches!(g.op(id), Op::CumSum(Direction::Reverse, _)) {
                return true;
            }
            looks = looks.saturating_sub(1);
            if looks > 0 && g.op(id).class() == Class::Map {
                stack.extend(g.args(id));
            }
        }
        false
    };
    let masked = |id: NodeId| -> Option<(Vec<NodeId>, NodeId)> {
        if let Some(args) = args_of(g, id, MapOp::Select) {
            return Some((vec![args[0]], args[1]));
        }
        // A product of which a factor is zero without the mask.
        args_of(g, id, MapOp::Mul)?;
        let factors = PRODUCT.parts(g, Signed { id, is_negative: false });
        let masks: Vec<NodeId> = factors.iter().flat_map(|factor| masks_of(g, *factor)).collect();
        (!masks.is_empty()).then_some((masks, id))
    };
    let rewritten = rewrite(g, |b, new, id| {
        let (masks, value) = masked(id).filter(|(_, value)| reads_one(*value))?;
        let mut all = BTreeSet::new();
        masks.iter().for_each(|mask| conjuncts(g, *mask, &mut all));
        let value = without(g, b, new, value, &all);
        let other = match args_of(g, id, MapOp::Select) {
            Some(args) => new[args[2].index()],
            None => b.constant(Const::f32(0.0)),
        };
        masks
            .iter()
            .try_fold(value, |value, mask| b.map(MapOp::Select, &[new[mask.index()], value, other]))
            .ok()
    });
    rewritten.graph
}

/// The masks without which a factor is zero, or what is divided by is infinite.
fn masks_of(g: &Graph, factor: Signed) -> BTreeSet<NodeId> {
    let (mut found, mut stack, mut looks) = (BTreeSet::new(), vec![factor.id], MOST);
    let decisive = if factor.is_negative { f32::INFINITY } else { 0.0 };
    while let Some(id) = stack.pop() {
        let args = g.args(id);
        let mask = match g.op(id) {
            Op::Map(MapOp::Select) => Some(args[0]),
            Op::Map(MapOp::ToF32) => Some(args[0]).filter(|mask| g.node(*mask).dtype == DType::Bool),
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) | Op::Map(_) => None,
            Op::Reduce(..) | Op::At(_) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => None,
        };
        let decides = |mask: &NodeId| {
            let value = value_without(g, factor.id, *mask, &mut BTreeMap::new());
            value.map(f32::to_bits) == Some(decisive.to_bits())
        };
        found.extend(mask.filter(decides));
        looks = looks.saturating_sub(1);
        if looks > 0 && g.op(id).class() == Class::Map {
            stack.extend(args);
        }
    }
    found
}

/// The operators of a sum or of a product: the second one takes its second argument with the other sign.
#[derive(Clone, Copy)]
struct Chain([MapOp; 2]);

const SUM: Chain = Chain([MapOp::Add, MapOp::Sub]);
const PRODUCT: Chain = Chain([MapOp::Mul, MapOp::Div]);

/// What is added or multiplied, or, with the other sign, subtracted or divided by.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Signed {
    id: NodeId,
    is_negative: bool,
}

impl Chain {
    /// The arguments of an operator of the chain.
    fn args(self, g: &Graph, at: Signed) -> Option<(MapOp, Vec<Signed>)> {
        let Op::Map(op) = *g.op(at.id) else { return None };
        let [plus, minus] = self.0;
        let other = |id: NodeId| Signed { id, is_negative: !at.is_negative };
        let own = |id: NodeId| Signed { id, ..at };
        let args = g.args(at.id);
        let args = if op == MapOp::Neg && plus == MapOp::Add {
            vec![other(args[0])]
        } else if op == plus || op == minus {
            vec![own(args[0]), if op == plus { own(args[1]) } else { other(args[1]) }]
        } else {
            return None;
        };
        Some((op, args))
    }

    /// What is added or multiplied.
    fn parts(self, g: &Graph, whole: Signed) -> Vec<Signed> {
        let (mut out, mut stack, mut looks) = (Vec::new(), vec![whole], MOST);
        while let Some(at) = stack.pop() {
            looks = looks.saturating_sub(1);
            match self.args(g, at).filter(|_| looks > 0) {
                Some((_, args)) => stack.extend(args),
                None => out.push(at),
            }
        }
        out
    }

    /// The parts of each operand of a sum or a product of two.
    fn operands(self, g: &Graph, id: NodeId) -> Option<[Vec<Signed>; 2]> {
        let (_, args) = self.args(g, Signed { id, is_negative: false })?;
        let [left, right] = args.as_slice() else { return None };
        Some([*left, *right].map(|operand| self.parts(g, operand)))
    }
}

/// A sum or a product again, with others in place of some of its parts, each once.
struct Rebuilt<'a> {
    g: &'a Graph,
    new: &'a [NodeId],
    chain: Chain,
    instead: Vec<(Signed, NodeId)>,
    looks: usize,
}

impl<'a> Rebuilt<'a> {
    fn build(
        (g, new): (&'a Graph, &'a [NodeId]),
        b: &mut Builder,
        (chain, id): (Chain, NodeId),
        instead: Vec<(Signed, NodeId)>,
    ) -> Option<NodeId> {
        // Both operands are looked at as far as they were when the parts were found.
        let mut rebuilt = Rebuilt { g, new, chain, instead, looks: 2 * MOST };
        let built = rebuilt.part(b, Signed { id, is_negative: false })?;
        rebuilt.instead.is_empty().then_some(built)
    }

    fn part(&mut self, b: &mut Builder, at: Signed) -> Option<NodeId> {
        if let Some(found) = self.instead.iter().position(|(part, _)| *part == at) {
            return Some(self.instead.remove(found).1);
        }
        let is_done = self.instead.is_empty() || self.looks == 0;
        let Some((op, args)) = self.chain.args(self.g, at).filter(|_| !is_done) else {
            return Some(self.new[at.id.index()]);
        };
        self.looks -= 1;
        let mut parts = Vec::with_capacity(args.len());
        for arg in args {
            parts.push(self.part(b, arg)?);
        }
        b.map(op, &parts).ok()
    }
}

/// A sum and a running sum of the same terms, one of which is subtracted from the other.
struct Difference {
    sum: Signed,
    running: Signed,
}

impl Difference {
    /// That of a sum of which each operand has one of the two.
    fn of(g: &Graph, id: NodeId) -> Option<Difference> {
        Difference::between(g, &SUM.operands(g, id)?)
    }

    fn between(g: &Graph, [left, right]: &[Vec<Signed>; 2]) -> Option<Difference> {
        let find = |of_sum: &[Signed], of_running: &[Signed]| {
            of_sum.iter().find_map(|sum| {
                let fits = |running: &&Signed| {
                    running.is_negative != sum.is_negative && is_pair(g, sum.id, running.id)
                };
                Some(Difference { sum: *sum, running: *of_running.iter().find(fits)? })
            })
        };
        find(left, right).or_else(|| find(right, left))
    }

    /// The expression with what is behind in place of the sum, and the position's own term in place of the running sum.
    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId], id: NodeId) -> Option<NodeId> {
        let axis = g.op(self.running.id).bound()?;
        let term = new[g.args(self.running.id)[0].index()];
        let behind = b.add(Op::CumSum(Direction::Reverse, axis), &[term]).ok()?;
        Rebuilt::build((g, new), b, (SUM, id), vec![(self.sum, behind), (self.running, term)])
    }
}

/// Whether these are a sum and the running sum of the same terms.
fn is_pair(g: &Graph, sum: NodeId, running: NodeId) -> bool {
    let (Op::Reduce(ReduceOp::Sum, along), Op::CumSum(Direction::Forward, axis)) = (g.op(sum), g.op(running))
    else {
        return false;
    };
    along == axis && g.args(sum) == g.args(running) && g.node(running).dtype.is_float()
}

/// The same model where exponentials of such a pair that are divided by each other are one. None if there are none.
fn exponents_together(g: &Graph) -> Option<Graph> {
    let found: BTreeMap<NodeId, [Signed; 2]> =
        g.ids().filter_map(|id| Some((id, exponentials(g, id)?))).collect();
    if found.is_empty() {
        return None;
    }
    let changed = rewrite(g, |b, new, id| {
        let [first, second] = *found.get(&id)?;
        let [x, y] = [first, second].map(|exp| new[g.args(exp.id)[0].index()]);
        let op = if first.is_negative == second.is_negative { MapOp::Add } else { MapOp::Sub };
        let exponent = b.map(op, &[x, y]).ok()?;
        let (together, one) = (b.map(MapOp::Exp, &[exponent]).ok()?, b.constant(Const::f32(1.0)));
        Rebuilt::build((g, new), b, (PRODUCT, id), vec![(first, together), (second, one)])
    });
    Some(changed.graph)
}

/// Two exponentials, one in each operand of a product, of which the exponents have such a pair.
fn exponentials(g: &Graph, id: NodeId) -> Option<[Signed; 2]> {
    let [left, right] = PRODUCT.operands(g, id)?;
    let terms = |exp: Signed| {
        let inside = (*g.op(exp.id) == Op::Map(MapOp::Exp)).then(|| g.args(exp.id)[0])?;
        Some(SUM.parts(g, Signed { id: inside, ..exp }))
    };
    let mut pairs = left.iter().flat_map(|one| right.iter().map(move |other| [*one, *other]));
    pairs.find(|[one, other]| {
        let (Some(a), Some(b)) = (terms(*one), terms(*other)) else { return false };
        Difference::between(g, &[a, b]).is_some()
    })
}
