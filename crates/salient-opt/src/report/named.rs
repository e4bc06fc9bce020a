//! What norms and activations are called: they are recognised in the result by their definitions, which the rules have
//! brought into one form.
//!
//! A name changes nothing: there is no operator for these, and the kernels are those of any other expression.

use crate::graph::factors::{Factors, args_of};
use salient_ir::{AxisId, Const, Graph, MapOp, NodeId, Op, Origin, ReduceOp};

/// A norm or an activation that has a name of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedOp {
    /// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps), with a weight or without.
    LayerNorm,
    /// x / sqrt(mean(x^2) + eps), with a weight or without.
    RmsNorm,
    /// x (erf(x / sqrt(2)) + 1) / 2; the half may stand behind the product that sums it.
    GeluErf,
    /// x (tanh(sqrt(2 / pi) (x + 0.044715 x^3)) + 1) / 2.
    GeluTanh,
    /// x / (1 + exp(-x)).
    Silu,
    /// silu(x) y.
    SwiGlu,
}

impl NamedOp {
    /// The library's name for it.
    pub fn name(self) -> &'static str {
        match self {
            NamedOp::LayerNorm => "layer_norm",
            NamedOp::RmsNorm => "rms_norm",
            NamedOp::GeluErf => "gelu_erf",
            NamedOp::GeluTanh => "gelu_tanh",
            NamedOp::Silu => "silu",
            NamedOp::SwiGlu => "swiglu",
        }
    }
}

/// A value that is a norm or an activation.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The node in the optimised graph.
    pub node: NodeId,
    /// What it is.
    pub form: NamedOp,
    /// The block of a chain of equal blocks that it is in.
    pub block: Option<usize>,
    /// Where its value was written.
    pub origin: Option<Origin>,
}

/// Every norm and activation of the graph, each at its outermost product.
pub(crate) fn named(g: &Graph) -> Vec<Named> {
    let forms: Vec<Option<NamedOp>> = g.ids().map(|id| form(g, id)).collect();
    let outermost = |id: &NodeId| !g.users(*id).iter().any(|u| forms[u.index()] == forms[id.index()]);
    let found = g.ids().filter(outermost).filter_map(|id| Some((id, forms[id.index()]?)));
    let origin = |node| g.nearest_user(node, |user| user.origin.is_some()).and_then(|user| user.origin);
    found.map(|(node, form)| Named { node, form, block: None, origin: origin(node) }).collect()
}

fn form(g: &Graph, id: NodeId) -> Option<NamedOp> {
    if !matches!(g.op(id), Op::Map(MapOp::Mul | MapOp::Div)) {
        return None;
    }
    let factors = Factors::of(g, id, &|_| true);
    let norm = || factors.below.iter().find_map(|root| norm(g, &factors.above, *root));
    let gate = || factors.below.iter().find_map(|below| gate(g, &factors.above, *below));
    norm().or_else(gate).or_else(|| gelu_erf(g, id, &factors.above).then_some(NamedOp::GeluErf))
}

fn literal(g: &Graph, id: NodeId) -> Option<f64> {
    if let Op::Const(c @ Const::F32(_)) = g.op(id) { Some(c.value()) } else { None }
}

/// Of a sum of two, what is added to the literal.
fn plus(g: &Graph, id: NodeId, c: f64) -> Option<NodeId> {
    let args = args_of(g, id, MapOp::Add)?;
    let at = args.iter().position(|a| literal(g, *a) == Some(c))?;
    Some(args[1 - at])
}

/// Whether two literals are one up to the rounding of what they were written as.
fn near(x: f64, y: f64) -> bool {
    (x - y).abs() <= 1e-5 * y.abs()
}

/// The axis of a mean and what it is the mean of: a sum, divided by what does not depend on anything.
fn mean(g: &Graph, id: NodeId) -> Option<(AxisId, NodeId)> {
    let factors = Factors::of(g, id, &|_| true);
    let scalar = |id: &NodeId| g.node(*id).axes.is_empty();
    let sum = factors.above.iter().find_map(|f| {
        let Op::Reduce(ReduceOp::Sum, axis) = g.op(*f) else { return None };
        Some((*axis, g.args(*f)[0]))
    });
    let rest = factors.above.len() + factors.below.len() - 1;
    let scalars = factors.above.iter().chain(&factors.below).filter(|f| scalar(f)).count();
    sum.filter(|_| rest == scalars && rest > 0)
}

/// A factor over the root of the mean of its square.
fn norm(g: &Graph, above: &[NodeId], root: NodeId) -> Option<NamedOp> {
    let sum = args_of(g, args_of(g, root, MapOp::Sqrt)?.first().copied()?, MapOp::Add)?;
    let at = sum.iter().position(|a| g.node(*a).axes.is_empty())?;
    let (axis, square) = mean(g, sum[1 - at])?;
    let square = args_of(g, square, MapOp::Mul)?;
    let x = square[0];
    if square[1] != x || !above.contains(&x) {
        return None;
    }
    // A difference from the mean along the same axis.
    let centred = args_of(g, x, MapOp::Sub)
        .is_some_and(|args| mean(g, args[1]).is_some_and(|(along, of)| along == axis && of == args[0]));
    Some(if centred { NamedOp::LayerNorm } else { NamedOp::RmsNorm })
}

/// A factor over one plus an exponential of it.
fn gate(g: &Graph, above: &[NodeId], below: NodeId) -> Option<NamedOp> {
    let exponent = args_of(g, plus(g, below, 1.0)?, MapOp::Exp)?[0];
    if let Some(x) = args_of(g, exponent, MapOp::Neg) {
        let value = above.iter().position(|f| *f == x[0])?;
        let mut others =
            above.iter().enumerate().filter(|(n, f)| *n != value && !g.node(**f).axes.is_empty());
        return Some(if others.next().is_some() { NamedOp::SwiGlu } else { NamedOp::Silu });
    }
    // sqrt(2 / pi) x (1 + 0.044715 x^2), twice and negative.
    let factors = Factors::of(g, exponent, &|_| true);
    let x = *above.iter().find(|x| factors.above.contains(x))?;
    let scale = factors.above.iter().find_map(|f| literal(g, *f))?;
    let cubic = factors.above.iter().find_map(|f| plus(g, *f, 1.0))?;
    let cubic = Factors::of(g, cubic, &|_| true).above;
    let squared = cubic.iter().filter(|f| **f == x).count() == 2;
    let third = cubic.iter().find_map(|f| literal(g, *f))?;
    let root = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
    (squared && near(scale, -2.0 * root) && near(third, 0.044_715)).then_some(NamedOp::GeluTanh)
}

/// Whether every reader of a value sums products of it and takes half of the sum.
fn is_halved(g: &Graph, id: NodeId) -> bool {
    let readers = |id: NodeId, is_one: &dyn Fn(NodeId) -> bool| {
        let users = g.users(id);
        !users.is_empty() && users.into_iter().all(is_one)
    };
    let halves = |sum| {
        readers(sum, &|half| {
            args_of(g, half, MapOp::Mul).is_some_and(|args| args.iter().any(|a| literal(g, *a) == Some(0.5)))
        })
    };
    let sums =
        |product| readers(product, &|sum| matches!(g.op(sum), Op::Reduce(ReduceOp::Sum, _)) && halves(sum));
    sums(id) || readers(id, &|product| args_of(g, product, MapOp::Mul).is_some() && sums(product))
}

/// A factor, one more than an error function of it, and a half, which every reader may have for itself.
fn gelu_erf(g: &Graph, id: NodeId, above: &[NodeId]) -> bool {
    let half = above.iter().any(|f| literal(g, *f) == Some(0.5)) || is_halved(g, id);
    let by_root = |f: &NodeId| literal(g, *f).is_some_and(|c| near(c, std::f64::consts::FRAC_1_SQRT_2));
    let erf = above.iter().find_map(|f| args_of(g, plus(g, *f, 1.0)?, MapOp::Erf));
    half && erf.is_some_and(|arg| {
        let inside = Factors::of(g, arg[0], &|_| true).above;
        inside.len() == 2 && inside.iter().any(by_root) && inside.iter().any(|f| above.contains(f))
    })
}
