//! What a program may compute: for each element, the numbers that f32 arithmetic may give for it as written.
//!
//! The oracle computes in f64 and takes every number for exact, so that it cannot say what a comparison of computed values
//! gives, nor what overflows. Here every value is a range that holds whatever rounding makes of it, in any order of sums. The
//! judgement of results is in one place, [`Verdict::of`]:
//!
//! - `strict` and unfused code give what is written: a number in its range, an infinity or NaN where that may be.
//! - Fused code gives the same, but for what the contract (`docs/semantics.md`) leaves open: where something overflowed on the
//!   way, or was computed of NaN or +inf, it may be mended, and which number is the mended one depends on what is left out;
//!   where a factor is beyond the bounds, products may be grouped anew. Such a value is *wild*, and anything goes there.
//! - What is -inf, and nothing else, is as written.
//! - A product in a sum is multiplied and added in one step: whether it overflows by itself is open in every mode.
//! - A value that reads an index outside its axis is refused by all, and nothing else is.

mod operators;
pub mod range;

use crate::ways::Call;
use operators::{constant, map, reduce};
use range::{Fault, Range};
use salient::{Bindings, Graph};
use salient_ir::{AxisId, DType, MapOp, NodeId, Op, ReduceOp};
use salient_tile::MOST_CHECKS;

/// Above this many elements of a node a program is not judged.
const ELEMENTS: usize = 1 << 21;

/// The ranges of a node over its axes, row-major in the order of the set.
#[derive(Debug)]
struct Tensor {
    axes: Vec<AxisId>,
    shape: Vec<usize>,
    values: Vec<Range>,
}

/// The ranges of an output, row-major over its axes as declared.
#[derive(Debug)]
pub struct Judged {
    /// The name of the output.
    pub name: String,
    /// An element each.
    pub ranges: Vec<Range>,
    /// Whether more reductions depend on something undefined than compiled code checks one by one: where a choice leaves them
    /// aside, the call may be refused all the same (the last section of `docs/semantics.md`).
    pub beyond_checks: bool,
}

/// How much a way of running may depart from what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// Not at all.
    AsWritten,
    /// It may be finite where what is written is not.
    Mended,
}

/// What is wrong with an element.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Position in the output.
    pub at: usize,
    /// What was found.
    pub found: f64,
    /// What may be found.
    pub range: Range,
}

impl Verdict {
    /// The first element that is wrong. With a `tolerance`, a deviation of that much from the middle of a range is let pass.
    pub fn of(found: &[f64], judged: &Judged, freedom: Freedom, tolerance: f64) -> Option<Verdict> {
        let wrong = |(found, range): (&f64, &Range)| {
            let near = range.is_finite() && (found - (range.lo + range.hi) / 2.0).abs() <= tolerance;
            let free = freedom == Freedom::Mended && range.wild || range.contracted;
            // What is too small for a normal number may be lost where a row is computed otherwise.
            let lost = freedom == Freedom::Mended && range.wider(range::SMALL).holds(*found);
            !(range.holds(*found) || near || free || lost)
        };
        let at = found.iter().zip(&judged.ranges).position(wrong)?;
        Some(Verdict { at, found: found[at], range: judged.ranges[at] })
    }
}

/// What may be computed for each output; `None` if the program is too large to be judged.
pub fn judge(graph: &Graph, bindings: &Bindings, call: &Call) -> Option<Vec<Judged>> {
    let mut court = Court { graph, bindings, extents: Vec::new(), tensors: Vec::new() };
    court.extents = graph.axes().map(|(_, a)| a.extent.eval(bindings).unwrap_or(-1)).collect();
    for id in graph.ids() {
        let tensor = court.tensor(id, call)?;
        court.tensors.push(tensor);
    }
    // The optimiser may compute one twice, under two names of its axes.
    let beyond_checks = 2 * court.reductions_behind_faults() > MOST_CHECKS;
    graph
        .outputs()
        .iter()
        .map(|o| Some(Judged { name: o.name.to_string(), ranges: court.listed(o)?, beyond_checks }))
        .collect()
}

/// Whether the program must be refused for an index outside its axis, as far as that is certain.
pub fn refused(judged: &[Judged]) -> Fault {
    judged.iter().flat_map(|j| &j.ranges).map(|r| r.fault).max().unwrap_or(Fault::No)
}

struct Court<'a> {
    graph: &'a Graph,
    bindings: &'a Bindings,
    extents: Vec<i64>,
    tensors: Vec<Tensor>,
}

impl Court<'_> {
    fn extent(&self, axis: AxisId) -> Option<usize> {
        usize::try_from(self.extents[axis.index()]).ok()
    }

    /// An argument at a position, given by axis.
    fn read(&self, id: NodeId, at: &[usize]) -> Range {
        let t = &self.tensors[id.index()];
        let flat = t.axes.iter().zip(&t.shape).fold(0, |f, (a, n)| f * n + at[a.index()]);
        t.values[flat]
    }

    fn each(&self, axes: &[AxisId], mut make: impl FnMut(&mut [usize]) -> Range) -> Option<Vec<Range>> {
        let shape: Vec<usize> = axes.iter().map(|a| self.extent(*a)).collect::<Option<_>>()?;
        let count = shape.iter().try_fold(1usize, |n, m| n.checked_mul(*m)).filter(|n| *n <= ELEMENTS)?;
        let mut at = vec![0; self.extents.len()];
        let values = (0..count).map(|flat| {
            let mut rest = flat;
            for (axis, n) in axes.iter().zip(&shape).rev() {
                at[axis.index()] = rest % n;
                rest /= n;
            }
            make(&mut at)
        });
        Some(values.collect())
    }

    /// The reductions that depend on a value that is undefined somewhere, or may be as far as a compiler can know: what is read
    /// at a place that is computed.
    fn reductions_behind_faults(&self) -> usize {
        let mut depends: Vec<bool> = Vec::with_capacity(self.tensors.len());
        for (id, tensor) in self.graph.ids().zip(&self.tensors) {
            let args = self.graph.args(id);
            let below = args.iter().any(|a| depends[a.index()]);
            let is_computed = |index| !matches!(self.graph.op(index), Op::Iota(_) | Op::Const(_));
            let may_be = matches!(self.graph.op(id), Op::At(_)) && is_computed(args[1]);
            depends.push(below || may_be || tensor.values.iter().any(|r| r.fault != Fault::No));
        }
        let is_whole =
            |id: &NodeId| matches!(self.graph.op(*id), Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..));
        self.graph.ids().filter(is_whole).filter(|id| depends[id.index()]).count()
    }

    fn listed(&self, output: &salient_ir::Output) -> Option<Vec<Range>> {
        // The greatest number and half a step of the type that is written.
        let (most, step) = match output.dtype {
            DType::F16 => (65504.0, 1.0 / 2048.0),
            DType::BF16 => (3.38e38, 1.0 / 256.0),
            DType::F32 | DType::I32 | DType::I64 | DType::Bool => {
                return self.each(&output.axes, |at| self.read(output.node, at));
            }
        };
        self.each(&output.axes, |at| {
            let range = self.read(output.node, at);
            let fits = range.magnitude() * (1.0 + step) < most;
            if fits { range.wider(range.magnitude() * step + 6e-8) } else { Range::ANY.of(&[range]) }
        })
    }

    fn tensor(&self, id: NodeId, call: &Call) -> Option<Tensor> {
        let node = self.graph.node(id);
        let axes: Vec<AxisId> = node.axes.iter().collect();
        let shape = axes.iter().map(|a| self.extent(*a)).collect::<Option<Vec<usize>>>()?;
        let args = self.graph.args(id);
        let values = match &node.op {
            Op::Input(_) | Op::Param(_) => {
                let port = self.graph.port(id).expect("it is one");
                let given = call.inputs.get(&port.name).or_else(|| call.params.get(&port.name))?.to_f64_vec();
                let shape: Vec<usize> = port.axes.iter().map(|a| self.extent(*a)).collect::<Option<_>>()?;
                self.each(&axes, |at| {
                    let flat = port.axes.iter().zip(&shape).fold(0, |f, (a, n)| f * n + at[a.index()]);
                    Range::exactly(given[flat])
                })?
            }
            Op::Const(c) => vec![constant(*c)],
            Op::Iota(axis) => self.each(&axes, |at| Range::exactly(at[axis.index()] as f64))?,
            Op::Extent(dim) => vec![Range::exactly(dim.eval(self.bindings).ok()? as f64)],
            Op::Map(op) => {
                let is_product = matches!(op, MapOp::Mul | MapOp::Div | MapOp::Recip | MapOp::Pow);
                let groups = is_product && node.dtype == DType::F32;
                let factors: Vec<Option<Factor>> =
                    args.iter().map(|a| Factor::of(self.graph, *a).filter(|_| groups)).collect();
                self.each(&axes, |at| {
                    let values: Vec<Range> = args.iter().map(|a| self.read(*a, at)).collect();
                    let mut out = map(*op, &values, node.dtype);
                    let bounded = values.iter().zip(&factors).all(|(v, f)| f.is_none_or(|f| f.holds(*v)));
                    out.wild |= !bounded;
                    out
                })?
            }
            Op::Reduce(op, axis) => {
                let length = self.extent(*axis)?;
                let is_of_products = *op == ReduceOp::Sum && *self.graph.op(args[0]) == Op::Map(MapOp::Mul);
                let outside = if length == 0 { self.factors_outside(args[0], *axis) } else { Vec::new() };
                self.each(&axes, |at| {
                    let along: Vec<Range> = (0..length).map(|n| self.moved(args[0], at, *axis, n)).collect();
                    let mut out = reduce(*op, &along, node.dtype);
                    out.contracted |= is_of_products && along.iter().any(|r| r.magnitude().is_infinite());
                    out.wild |= outside.iter().any(|factor| factor.is_bad(self, at));
                    out
                })?
            }
            Op::At(axis) => {
                let length = self.extent(*axis)?;
                self.each(&axes, |at| self.picked(&args, at, *axis, length))?
            }
            Op::Concat(axis, parts) => self.each(&axes, |at| {
                let mut index = at[axis.index()];
                for (part, arg) in parts.iter().zip(&args) {
                    let n = self.extents[part.index()] as usize;
                    if index < n {
                        return self.moved(*arg, at, *part, index);
                    }
                    index -= n;
                }
                Range::OUTSIDE
            })?,
            Op::CumSum(direction, axis) => {
                let length = self.extent(*axis)?;
                self.each(&axes, |at| {
                    let along: Vec<Range> = (0..length).map(|n| self.moved(args[0], at, *axis, n)).collect();
                    let fault = along.iter().map(|r| r.fault).max().unwrap_or(Fault::No);
                    let total = reduce(ReduceOp::Sum, direction.part(&along, at[axis.index()]), node.dtype);
                    Range { fault: total.fault.max(fault), ..total }
                })?
            }
            Op::Fused(..) => return None,
        };
        Some(Tensor { axes, shape, values })
    }

    /// The factors of a summand that do not depend on the axis: they may leave the sum, also one of nothing.
    fn factors_outside(&self, summand: NodeId, axis: AxisId) -> Vec<Outside> {
        let whole = Outside { factor: summand, divides: false, moved: false };
        let (mut out, mut waiting) = (Vec::new(), vec![(whole, axis)]);
        while let Some((of, axis)) = waiting.pop() {
            let args = self.graph.args(of.factor);
            if !self.graph.node(of.factor).axes.contains(axis) {
                out.push(of);
                continue;
            }
            let part = |n: usize| Outside { factor: args[n], ..of };
            let divisor = |n: usize| Outside { divides: !of.divides, ..part(n) };
            match self.graph.op(of.factor) {
                Op::Map(MapOp::Mul) => waiting.extend([(part(0), axis), (part(1), axis)]),
                Op::Map(MapOp::Div) => waiting.extend([(part(0), axis), (divisor(1), axis)]),
                Op::Map(MapOp::Neg | MapOp::Pow | MapOp::Sqrt) => waiting.push((part(0), axis)),
                Op::Map(MapOp::Recip) => waiting.push((divisor(0), axis)),
                // Another name of the axis, or another place along others.
                Op::At(named) if *self.graph.op(args[1]) == Op::Iota(axis) => waiting.push((part(0), *named)),
                Op::At(named) if *named != axis && self.graph.node(args[0]).axes.contains(axis) => {
                    waiting.push((Outside { moved: true, ..part(0) }, axis));
                }
                Op::Map(_) | Op::At(_) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) => {}
                Op::Extent(_) | Op::Reduce(..) | Op::Concat(..) | Op::CumSum(..) | Op::Fused(..) => {}
            }
        }
        out
    }

    /// An argument where one axis is elsewhere.
    fn moved(&self, id: NodeId, at: &mut [usize], axis: AxisId, to: usize) -> Range {
        let before = std::mem::replace(&mut at[axis.index()], to);
        let value = self.read(id, at);
        at[axis.index()] = before;
        value
    }

    fn picked(&self, args: &[NodeId], at: &mut [usize], axis: AxisId, length: usize) -> Range {
        let index = self.read(args[1], at);
        if index.fault == Fault::Yes || !index.is_number() {
            return Range { fault: index.fault.max(Fault::Maybe), ..Range::ANY };
        }
        if let Some(n) = index.exact() {
            if n < 0.0 || n >= length as f64 {
                return Range::OUTSIDE;
            }
            return self.moved(args[0], at, axis, n as usize).of(&[Range { wild: false, ..index }]);
        }
        let inside = |x: f64| x.clamp(0.0, length as f64);
        let (first, last) = (inside(index.lo.floor()) as usize, inside(index.hi.floor() + 1.0) as usize);
        let mut out = if index.lo < 0.0 || index.hi >= length as f64 || index.nan {
            Some(Range { fault: Fault::Maybe, ..Range::ANY })
        } else {
            None
        };
        for n in first..last {
            let value = self.moved(args[0], at, axis, n);
            out = Some(out.map_or(value, |o: Range| o.or(value)));
        }
        out.unwrap_or(Range::OUTSIDE).of(&[index])
    }
}

/// A factor that may leave a sum.
#[derive(Clone, Copy, Debug)]
struct Outside {
    factor: NodeId,
    /// Whether it divides.
    divides: bool,
    /// Whether it is read at another place, any as far as the judge knows.
    moved: bool,
}

impl Outside {
    /// Whether a product with it may be no number, or may be none where it divides.
    fn is_bad(self, court: &Court<'_>, at: &[usize]) -> bool {
        let is_bad = |value: &Range| !value.is_finite() || self.divides && value.lo <= 0.0 && value.hi >= 0.0;
        let values = &court.tensors[self.factor.index()].values;
        if self.moved || values.is_empty() {
            values.iter().any(is_bad)
        } else {
            is_bad(&court.read(self.factor, at))
        }
    }
}

/// What the contract says of a factor of a product, which may be grouped with others anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factor {
    /// Data: neither too large nor, unless it is zero, too small.
    Data,
    /// A value that is computed: not too large.
    Computed,
}

impl Factor {
    /// What is asked of an operand of a product: nothing of another product, whose factors are asked.
    fn of(graph: &Graph, id: NodeId) -> Option<Factor> {
        match graph.op(id) {
            Op::Map(MapOp::Mul | MapOp::Div | MapOp::Recip) => None,
            Op::Map(MapOp::Neg | MapOp::Abs) | Op::At(_) => Factor::of(graph, graph.args(id)[0]),
            Op::Input(_) | Op::Param(_) | Op::Const(_) => Some(Factor::Data),
            Op::Concat(..) | Op::Map(MapOp::Select | MapOp::Min | MapOp::Max) => Some(Factor::Data),
            Op::Map(_) | Op::Iota(_) | Op::Extent(_) | Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) => {
                Some(Factor::Computed)
            }
        }
    }

    fn holds(self, value: Range) -> bool {
        let small = self == Factor::Data && value.magnitude() < 1e-9 && value.magnitude() != 0.0;
        !value.nan && value.magnitude() <= 1e9 && !small
    }
}
