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
//! - A value that reads an index outside its axis is refused by all, and nothing else is.

pub mod range;

use crate::ways::Call;
use range::{Fault, Range, added, corners, growing, sum};
use salient::{Bindings, Graph};
use salient_ir::{AxisId, Const, DType, MapOp, NodeId, Op, ReduceOp};

/// Above this many elements of a node a program is not judged.
const ELEMENTS: usize = 1 << 21;
/// Stored values in front of which compiled code has checks, at most.
const MOST_CHECKS: usize = 8;

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
    /// Whether something undefined is left aside in a program of more reductions than compiled code checks one by one: it may
    /// be refused all the same (the last section of `docs/semantics.md`).
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
    let is_whole = |id: &NodeId| matches!(graph.op(*id), Op::Reduce(..) | Op::CumSum(_) | Op::Fused(..));
    let beyond_checks = graph.ids().filter(is_whole).count() > MOST_CHECKS
        && court.tensors.iter().flat_map(|t| &t.values).any(|r| r.fault != Fault::No);
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
                    out.wild |= outside.iter().any(|(factor, divides)| {
                        let value = self.read(*factor, at);
                        !value.is_finite() || *divides && value.lo <= 0.0 && value.hi >= 0.0
                    });
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
            Op::CumSum(axis) => {
                let length = self.extent(*axis)?;
                self.each(&axes, |at| {
                    let along: Vec<Range> = (0..length).map(|n| self.moved(args[0], at, *axis, n)).collect();
                    let end = at[axis.index()];
                    let fault = along.iter().map(|r| r.fault).max().unwrap_or(Fault::No);
                    let total = reduce(ReduceOp::Sum, &along[..=end], node.dtype);
                    Range { fault: total.fault.max(fault), ..total }
                })?
            }
            Op::Fused(..) => return None,
        };
        Some(Tensor { axes, shape, values })
    }

    /// The factors of a summand that do not depend on the axis, and whether each divides: they may leave the sum, also one
    /// of nothing.
    fn factors_outside(&self, summand: NodeId, axis: AxisId) -> Vec<(NodeId, bool)> {
        let (mut out, mut waiting) = (Vec::new(), vec![(summand, axis, false)]);
        while let Some((id, axis, divides)) = waiting.pop() {
            let args = self.graph.args(id);
            if !self.graph.node(id).axes.contains(axis) {
                out.push((id, divides));
                continue;
            }
            match self.graph.op(id) {
                Op::Map(MapOp::Mul) => waiting.extend(args.iter().map(|a| (*a, axis, divides))),
                Op::Map(MapOp::Div) => waiting.extend([(args[0], axis, divides), (args[1], axis, !divides)]),
                Op::Map(MapOp::Neg | MapOp::Pow | MapOp::Sqrt) => waiting.push((args[0], axis, divides)),
                Op::Map(MapOp::Recip) => waiting.push((args[0], axis, !divides)),
                // Another name of the axis.
                Op::At(of) if *self.graph.op(args[1]) == Op::Iota(axis) => {
                    waiting.push((args[0], *of, divides))
                }
                Op::Map(_) | Op::At(_) | Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) => {}
                Op::Extent(_) | Op::Reduce(..) | Op::Concat(..) | Op::CumSum(_) | Op::Fused(..) => {}
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
            Op::Map(_) | Op::Iota(_) | Op::Extent(_) | Op::Reduce(..) | Op::CumSum(_) | Op::Fused(..) => {
                Some(Factor::Computed)
            }
        }
    }

    fn holds(self, value: Range) -> bool {
        let small = self == Factor::Data && value.magnitude() < 1e-9 && value.magnitude() != 0.0;
        !value.nan && value.magnitude() <= 1e9 && !small
    }
}

fn constant(c: Const) -> Range {
    Range::exactly(c.value())
}

fn truth(known: Option<bool>) -> Range {
    match known {
        Some(b) => Range::exactly(f64::from(u8::from(b))),
        None => Range::between(0.0, 1.0),
    }
}

fn known(r: Range) -> Option<bool> {
    r.exact().map(|x| x != 0.0)
}

/// What a comparison gives: `certain` and `impossible` are of numbers; NaN compares as `of_nan`.
fn compared(a: Range, b: Range, certain: bool, impossible: bool, of_nan: bool) -> Range {
    let numbers = a.is_number() && b.is_number();
    let may_be_nan = a.nan || b.nan;
    let of_numbers = if certain {
        Some(true)
    } else if impossible {
        Some(false)
    } else {
        None
    };
    let result = match (numbers, may_be_nan) {
        (false, _) => Some(of_nan),
        (true, false) => of_numbers,
        (true, true) => of_numbers.filter(|x| *x == of_nan),
    };
    truth(result).of(&[a, b])
}

fn scaled(a: Range, b: Range) -> Range {
    let mut out = corners(a, b, |x, y| x * y);
    // Where one may be infinite and the other zero, NaN may come of it; and where one may be zero and the other finite, zero.
    let zero = |r: Range| r.is_number() && r.lo <= 0.0 && r.hi >= 0.0;
    let infinite = |r: Range| r.is_number() && (r.lo.is_infinite() || r.hi.is_infinite());
    let finite = |r: Range| r.is_number() && !(r.lo == r.hi && r.lo.is_infinite());
    if zero(a) && infinite(b) || zero(b) && infinite(a) {
        out.nan = true;
        out.wild = true;
    }
    // A product with a mask is a choice in default mode: what a zero leaves out need not be looked at.
    if a.exact() == Some(0.0) && b.fault == Fault::Yes || b.exact() == Some(0.0) && a.fault == Fault::Yes {
        out.fault = Fault::Maybe;
    }
    if zero(a) && finite(b) || zero(b) && finite(a) {
        (out.lo, out.hi) = (out.lo.min(0.0), out.hi.max(0.0));
    }
    out
}

fn quotient(a: Range, b: Range) -> Range {
    if b.is_number() && b.lo <= 0.0 && b.hi >= 0.0 {
        let nan = a.nan || b.nan || a.lo <= 0.0 && a.hi >= 0.0;
        return Range { nan, ..Range::ANY }.of(&[a, b]);
    }
    let mut out = corners(a, b, |x, y| x / y);
    let infinite = |r: Range| r.is_number() && (r.lo.is_infinite() || r.hi.is_infinite());
    if infinite(a) && infinite(b) {
        out.nan = true;
        out.wild = true;
    }
    out
}

fn power(a: Range, b: Range) -> Range {
    if b.exact() == Some(2.0) {
        let square = scaled(a, a);
        let lo = if a.lo <= 0.0 && a.hi >= 0.0 { 0.0 } else { square.lo.max(0.0) };
        return if square.is_number() { Range { lo, ..square } } else { square };
    }
    if !a.is_number() || !b.is_number() || a.lo < 0.0 || a.lo == 0.0 && b.lo <= 0.0 || b.magnitude() > 64.0 {
        return Range::ANY.of(&[a, b]);
    }
    let out = corners(a, b, f64::powf);
    let slope = [a.lo, a.hi]
        .into_iter()
        .filter(|x| *x > 0.0 && x.is_finite())
        .fold(1.0, |m: f64, x| m.max(x.ln().abs()));
    if out.is_number() && out.lo.is_finite() && out.hi.is_finite() {
        let error = out.magnitude() * slope * b.magnitude() * 1e-6;
        return out.wider(error);
    }
    out
}

fn wave(a: Range, f: fn(f64) -> f64) -> Range {
    if !a.is_number() || !a.lo.is_finite() || !a.hi.is_finite() {
        return Range::ANY.of(&[a]);
    }
    let (middle, half) = (f((a.lo + a.hi) / 2.0), (a.hi - a.lo) / 2.0 + 4e-7);
    let (lo, hi) = ((middle - half).max(-1.0), (middle + half).min(1.0));
    Range { lo, hi, ..a }
}

fn logarithm(a: Range) -> Range {
    if !a.is_number() {
        return a;
    }
    if a.hi < 0.0 {
        return Range { wild: true, ..Range::exactly(f64::NAN) }.of(&[a]);
    }
    let mut out = Range { lo: a.lo.max(0.0).ln(), hi: a.hi.ln(), ..a };
    if a.lo < 0.0 {
        out.nan = true;
        out.wild = true;
    }
    if a.lo <= 0.0 && a.hi > 0.0 {
        out.wild = true;
    }
    let approximate = out.approximate();
    if approximate.lo.is_finite() && approximate.hi.is_finite() {
        approximate.wider(1e-7)
    } else {
        approximate
    }
}

fn integers(op: MapOp, a: Range, b: Range) -> Range {
    let (Some(x), Some(y)) = (a.exact(), b.exact()) else { return Range::ANY.of(&[a, b]) };
    if y == 0.0 {
        // Whether the call is refused or not is not for numbers to say.
        return Range { fault: Fault::Maybe, ..Range::ANY }.of(&[a, b]);
    }
    Range::exactly((op.info().eval)(&[x, y])).of(&[a, b])
}

/// A cast to an integer: exact where the number is known and fits.
fn whole(a: Range) -> Range {
    if !a.is_number() || a.nan || a.magnitude() > 2e9 {
        return Range { fault: a.fault.max(Fault::Maybe), ..Range::ANY };
    }
    Range { lo: a.lo.trunc(), hi: a.hi.trunc(), ..a }
}

fn extremum(op: MapOp, a: Range, b: Range) -> Range {
    if !a.is_number() || !b.is_number() {
        return Range::exactly(f64::NAN).of(&[a, b]);
    }
    let pick = if op == MapOp::Min { f64::min } else { f64::max };
    let picked = Range::between(pick(a.lo, b.lo), pick(a.hi, b.hi));
    Range { nan: a.nan || b.nan, ..picked }.of(&[a, b])
}

fn select(args: &[Range]) -> Range {
    let (condition, yes, no) = (args[0], args[1], args[2]);
    let mut out = match known(condition) {
        Some(true) => yes,
        Some(false) => no,
        None => yes.or(no),
    };
    out.wild |= condition.wild;
    out.fault = out.fault.max(condition.fault);
    out
}

fn map(op: MapOp, args: &[Range], dtype: DType) -> Range {
    let float = dtype == DType::F32;
    let a = args[0];
    let b = args.get(1).copied().unwrap_or(a);
    match op {
        MapOp::Neg => {
            if a.is_number() {
                Range { lo: -a.hi, hi: -a.lo, ..a }
            } else {
                a
            }
        }
        MapOp::Abs => {
            if !a.is_number() {
                return a;
            }
            let least = if a.lo <= 0.0 && a.hi >= 0.0 { 0.0 } else { a.lo.abs().min(a.hi.abs()) };
            Range { lo: least, hi: a.magnitude(), ..a }
        }
        MapOp::Floor => growing(a, f64::floor),
        MapOp::Exp => growing(a, f64::exp).approximate(),
        MapOp::Sqrt if a.is_number() && a.lo < 0.0 => {
            let hi = a.hi.max(0.0).sqrt();
            if a.hi < 0.0 {
                Range { wild: true, ..Range::exactly(f64::NAN) }.of(&[a])
            } else {
                Range { lo: 0.0, hi, nan: true, wild: true, ..a }
            }
        }
        MapOp::Sqrt => growing(a, f64::sqrt).rounded(),
        MapOp::Tanh => growing(a, f64::tanh).approximate(),
        MapOp::Erf => growing(a, salient_ir::math::erf).approximate(),
        MapOp::Log => logarithm(a),
        MapOp::Sin => wave(a, f64::sin),
        MapOp::Cos => wave(a, f64::cos),
        MapOp::Recip => quotient(Range::exactly(1.0), a).rounded(),
        MapOp::Not => truth(known(a).map(|x| !x)).of(&[a]),
        MapOp::ToF32 => {
            if a.exact().is_some_and(|x| x.abs() < 1.6e7) {
                a
            } else {
                a.rounded()
            }
        }
        MapOp::ToI32 | MapOp::ToI64 => whole(a),
        MapOp::Add if float => added(a, b),
        MapOp::Sub if float => added(a, map(MapOp::Neg, &[b], dtype)),
        MapOp::Mul if float => scaled(a, b).rounded(),
        MapOp::Add => corners(a, b, |x, y| x + y),
        MapOp::Sub => corners(a, b, |x, y| x - y),
        MapOp::Mul => scaled(a, b),
        MapOp::Div => quotient(a, b).rounded(),
        MapOp::Pow => power(a, b).approximate(),
        MapOp::Min | MapOp::Max => extremum(op, a, b),
        MapOp::IntDiv | MapOp::Mod => integers(op, a, b),
        MapOp::Eq => {
            let same = a.exact().is_some() && a.exact() == b.exact();
            compared(a, b, same, a.hi < b.lo || b.hi < a.lo, false)
        }
        MapOp::Ne => {
            let same = a.exact().is_some() && a.exact() == b.exact();
            compared(a, b, a.hi < b.lo || b.hi < a.lo, same, true)
        }
        MapOp::Lt => compared(a, b, a.hi < b.lo, a.lo >= b.hi, false),
        MapOp::Le => compared(a, b, a.hi <= b.lo, a.lo > b.hi, false),
        MapOp::And => truth(match (known(a), known(b)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        })
        .of(&[a, b]),
        MapOp::Or => truth(match (known(a), known(b)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        })
        .of(&[a, b]),
        MapOp::Select => select(args),
        MapOp::Philox => Range::between(0.0, 1.0).of(args),
    }
}

fn reduce(op: ReduceOp, along: &[Range], dtype: DType) -> Range {
    let empty = Range::exactly(op.info().empty);
    if along.is_empty() && dtype.is_int() && !empty.is_finite() {
        // No integer is infinite.
        return Range { fault: Fault::Maybe, ..Range::ANY };
    }
    match op {
        ReduceOp::Sum if dtype == DType::F32 => sum(along),
        ReduceOp::Sum => along.iter().fold(empty, |a, b| map(MapOp::Add, &[a, *b], dtype)),
        ReduceOp::Prod => product(along, dtype),
        ReduceOp::Max => along.iter().fold(empty, |a, b| extremum(MapOp::Max, a, *b)),
        ReduceOp::Min => along.iter().fold(empty, |a, b| extremum(MapOp::Min, a, *b)),
        ReduceOp::Any => along.iter().fold(empty, |a, b| map(MapOp::Or, &[a, *b], dtype)),
        ReduceOp::All => along.iter().fold(empty, |a, b| map(MapOp::And, &[a, *b], dtype)),
        ReduceOp::ArgMax => greatest(along),
    }
}

fn product(along: &[Range], dtype: DType) -> Range {
    let most: f64 = along.iter().map(|r| r.magnitude().max(1.0)).product();
    let least: f64 = along.iter().map(|r| r.magnitude().min(1.0)).filter(|x| *x > 0.0).product();
    if !(most < 1e38 && least > 1e-37) {
        return Range::ANY.of(along);
    }
    along.iter().fold(Range::exactly(1.0), |a, b| map(MapOp::Mul, &[a, *b], dtype)).of(along)
}

/// The first position of the greatest value: each position whose value may be it.
fn greatest(along: &[Range]) -> Range {
    if along.iter().any(|r| r.nan) {
        return Range::between(0.0, along.len().saturating_sub(1) as f64).of(along);
    }
    let floor = along.iter().map(|r| r.lo).fold(f64::NEG_INFINITY, f64::max);
    let first = along.iter().position(|r| r.hi >= floor).unwrap_or(0);
    // Behind a first one that is certainly not less than all others, none comes into question.
    let certain = along.get(first).is_some_and(|r| along.iter().all(|o| r.lo >= o.hi));
    let last = if certain { first } else { along.iter().rposition(|r| r.hi >= floor).unwrap_or(0) };
    Range::between(first as f64, last as f64).of(along)
}
