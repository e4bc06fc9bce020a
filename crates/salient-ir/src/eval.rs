//! The oracle: evaluates any graph in f64, by the definition of each operator.
//!
//! Slow on purpose and simple: every other way of running a model is compared with this one. A node's value at one
//! position is computed when it is asked for and kept; the arm of a `select` that is not taken is never asked for, so
//! an index that a guard excludes is no error here.

use crate::array::{Array, ArrayError, element_count};
use crate::axis::AxisId;
use crate::dim::{Bindings, DimError, Name};
use crate::graph::{Graph, Init, NodeId, Origin, Output, Port};
use crate::op::{FusedOp, MOST_ARGUMENTS, MapOp, Op, ReduceOp, RowWeights};
use crate::stack::with_room;
use crate::ty::DType;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Why a graph has no value on some data.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// A dimension cannot be computed.
    #[error(transparent)]
    Dim(#[from] DimError),
    /// An index that is used leaves its axis.
    #[error("index {index} is outside the axis `{axis}` of length {extent}{of}")]
    OutOfRange {
        /// The index.
        index: i64,
        /// The axis.
        axis: Name,
        /// Its length.
        extent: i64,
        /// ` of NAME` where the tensor has a name, else empty.
        of: String,
        /// Where the index was written.
        origin: Option<Origin>,
    },
    /// A number that is used as an integer and is none of that type.
    #[error("{value} does not fit {dtype}")]
    NoInteger {
        /// The number.
        value: f64,
        /// The type that it should have.
        dtype: DType,
    },
    /// A tensor that the graph names was not given.
    #[error("`{0}` was not given")]
    Missing(Name),
    /// A tensor has another shape than the graph says.
    #[error("`{name}` has the shape {found:?}, expected {expected:?}")]
    Shape {
        /// Which tensor.
        name: Name,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that the dimensions give.
        expected: Vec<usize>,
    },
    /// A result cannot be stored.
    #[error("the output `{0}`: {1}")]
    Output(Name, ArrayError),
    /// A graph for whose depth there is no stack.
    #[error("no stack could be made for a graph of this depth: {0}")]
    NoRoom(String),
    /// A negative extent.
    #[error("the axis `{0}` has the negative length {1}")]
    NegativeExtent(Name, i64),
}

impl EvalError {
    /// Where in the source that which failed was written.
    pub fn origin(&self) -> Option<Origin> {
        match self {
            EvalError::OutOfRange { origin, .. } => *origin,
            EvalError::Dim(_)
            | EvalError::NoInteger { .. }
            | EvalError::Missing(_)
            | EvalError::Shape { .. }
            | EvalError::Output(..)
            | EvalError::NoRoom(_)
            | EvalError::NegativeExtent(..) => None,
        }
    }
}

/// The inputs and parameters of one evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    /// Inputs by name.
    pub inputs: &'a BTreeMap<String, Array>,
    /// Parameters by path.
    pub params: &'a BTreeMap<String, Array>,
}

/// The values of every output, as arrays of the output's dtype, in the order of the graph's outputs.
///
/// `bindings` must give every symbol of the graph.
pub fn eval(g: &Graph, bindings: &Bindings, data: Data<'_>) -> Result<Vec<(Name, Array)>, EvalError> {
    let outputs = || {
        let oracle = Oracle::new(g, bindings, data)?;
        let value = |out: &Output| {
            let values = oracle.tensor(out.node, &out.axes)?;
            let shape = out.axes.iter().map(|a| oracle.extents[a.index()] as usize).collect();
            let array = Array::from_f64(out.dtype.compute(), shape, &values)
                .map_err(|e| EvalError::Output(out.name.clone(), e))?;
            Ok((out.name.clone(), array.rounded_to(out.dtype)))
        };
        g.outputs().iter().map(value).collect()
    };
    with_room(g.depth(), outputs).unwrap_or_else(|e| Err(EvalError::NoRoom(e.to_string())))
}

/// One evaluation of a graph: extents, data and the cells computed so far.
#[derive(Debug)]
pub struct Oracle<'a> {
    g: &'a Graph,
    bindings: &'a Bindings,
    extents: Vec<i64>,
    inputs: Vec<Option<Vec<f64>>>,
    params: Vec<Option<Vec<f64>>>,
    memo: RefCell<Vec<Option<Memo>>>,
    /// Scalar operators that are read in several places: what reads itself twice, again and again, is computed once.
    shared: Vec<bool>,
}

/// The cells of one node over its free axes, row-major by axis id; `None` where not asked for yet.
#[derive(Debug)]
struct Memo {
    cells: Vec<Option<f64>>,
}

/// The integers of 32 bits.
const I32_LEAST: f64 = i32::MIN as f64;
const I32_MOST: f64 = i32::MAX as f64;
/// One more than the greatest integer of 64 bits.
const I64_END: f64 = 9_223_372_036_854_775_808.0;

/// Above this many cells a node is not kept but computed anew at each use.
const MEMO_CELLS: usize = 1 << 26;

/// The same for a scalar operator, which is cheap.
const SHARED_CELLS: usize = 1 << 20;

/// The index at each axis, by the position of the axis in the graph.
type Position = Vec<i64>;

impl<'a> Oracle<'a> {
    /// Binds data to a graph, checking shapes. Tensors that are missing are an error only when they are used.
    pub fn new(g: &'a Graph, bindings: &'a Bindings, data: Data<'_>) -> Result<Oracle<'a>, EvalError> {
        // An axis that no live node mentions may have an extent that cannot be computed.
        let extents = g.axes().map(|(_, a)| a.extent.eval(bindings).unwrap_or(-1)).collect();
        let mut oracle = Oracle {
            g,
            bindings,
            extents,
            inputs: Vec::new(),
            params: Vec::new(),
            memo: RefCell::new((0..g.len()).map(|_| None).collect()),
            shared: shared(g),
        };
        oracle.inputs = g
            .inputs()
            .iter()
            .map(|p| oracle.stored(p, data.inputs.get(&*p.name)))
            .collect::<Result<_, _>>()?;
        oracle.params = g
            .params()
            .iter()
            .map(|p| oracle.stored(p, data.params.get(&*p.name)))
            .collect::<Result<_, _>>()?;
        Ok(oracle)
    }

    fn stored(&self, port: &Port, array: Option<&Array>) -> Result<Option<Vec<f64>>, EvalError> {
        let Some(array) = array else { return Ok(None) };
        let mut expected = Vec::new();
        for axis in &port.axes {
            expected.push(self.extent(*axis)? as usize);
        }
        if array.shape() != expected {
            let (name, found) = (port.name.clone(), array.shape().to_vec());
            return Err(EvalError::Shape { name, found, expected });
        }
        Ok(Some(array.to_f64_vec()))
    }

    fn extent(&self, axis: AxisId) -> Result<i64, EvalError> {
        let n = self.g.extent(axis).eval(self.bindings)?;
        if n < 0 {
            return Err(EvalError::NegativeExtent(self.g.axis(axis).name.clone(), n));
        }
        Ok(n)
    }

    /// All values of a node, row-major over `axes`, which must list every free axis of it.
    pub fn tensor(&self, id: NodeId, axes: &[AxisId]) -> Result<Vec<f64>, EvalError> {
        let mut shape = Vec::new();
        for axis in axes {
            shape.push(self.extent(*axis)?);
        }
        let name = || self.g.node(id).name.clone().unwrap_or_else(|| "a tensor".into());
        let lengths: Vec<usize> = shape.iter().map(|n| *n as usize).collect();
        let count = element_count(&lengths, DType::I64).map_err(|e| EvalError::Output(name(), e))? as i64;
        let mut out = Vec::new();
        let no_memory = |_| EvalError::Output(name(), ArrayError::no_memory(DType::I64, &lengths));
        out.try_reserve_exact(count as usize).map_err(no_memory)?;
        let mut at = vec![0; self.extents.len()];
        for flat in 0..count {
            let mut rest = flat;
            for (axis, n) in axes.iter().zip(&shape).rev() {
                at[axis.index()] = rest % n;
                rest /= n;
            }
            out.push(self.value(id, &mut at)?);
        }
        Ok(out)
    }

    /// The value of a node at one position, which must be set for each of its free axes. `at` is as before on return.
    pub fn value(&self, id: NodeId, at: &mut Position) -> Result<f64, EvalError> {
        let Some(cell) = self.cell(id, at)? else { return self.compute(id, at) };
        let known = self.memo.borrow()[id.index()].as_ref().and_then(|m| m.cells[cell]);
        if let Some(v) = known {
            return Ok(v);
        }
        let v = self.compute(id, at)?;
        if let Some(m) = self.memo.borrow_mut()[id.index()].as_mut() {
            m.cells[cell] = Some(v);
        }
        Ok(v)
    }

    /// Where the value is kept, for operators that cost more than one step.
    fn cell(&self, id: NodeId, at: &Position) -> Result<Option<usize>, EvalError> {
        let node = self.g.node(id);
        let most = match node.op {
            Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) => MEMO_CELLS,
            Op::Map(_) | Op::Concat(..) if self.shared[id.index()] => SHARED_CELLS,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Extent(_) => return Ok(None),
            Op::Map(_) | Op::At(_) | Op::Concat(..) => return Ok(None),
        };
        let mut cell = 0usize;
        let mut count = 1usize;
        for axis in node.axes.iter() {
            let n = self.extents[axis.index()];
            if n < 0 {
                self.extent(axis)?;
            }
            cell = cell * n as usize + at[axis.index()] as usize;
            count = count.saturating_mul(n as usize);
        }
        if count > most {
            return Ok(None);
        }
        let memo = &mut self.memo.borrow_mut()[id.index()];
        memo.get_or_insert_with(|| Memo { cells: vec![None; count] });
        Ok(Some(cell))
    }

    fn port(&self, port: &Port, values: &Option<Vec<f64>>, at: &Position) -> Result<f64, EvalError> {
        let values = values.as_ref().ok_or_else(|| EvalError::Missing(port.name.clone()))?;
        let flat = port.axes.iter().fold(0, |f, a| f * self.extents[a.index()] + at[a.index()]);
        Ok(values[flat as usize])
    }

    /// The value of `x` at each position of `axis`, in order.
    fn along(&self, x: NodeId, axis: AxisId, at: &mut Position) -> Result<Vec<f64>, EvalError> {
        let n = self.extent(axis)?;
        let before = at[axis.index()];
        let mut out = Vec::new();
        let no_memory = |_| {
            let axis = self.g.axis(axis).name.clone();
            EvalError::Output(axis, ArrayError::no_memory(DType::I64, &[n as usize]))
        };
        out.try_reserve_exact(n as usize).map_err(no_memory)?;
        for k in 0..n {
            at[axis.index()] = k;
            out.push(self.value(x, at)?);
        }
        at[axis.index()] = before;
        Ok(out)
    }

    /// Where a node, or what reads it, was written.
    fn origin(&self, id: NodeId) -> Option<Origin> {
        self.g.nearest_user(id, |node| node.origin.is_some()).and_then(|node| node.origin)
    }

    fn compute(&self, id: NodeId, at: &mut Position) -> Result<f64, EvalError> {
        let args = self.g.args(id);
        match self.g.op(id) {
            Op::Input(n) => self.port(&self.g.inputs()[*n], &self.inputs[*n], at),
            Op::Param(n) => match (&self.params[*n], self.g.params()[*n].init) {
                (None, Some(Init::Zeros)) => Ok(0.0),
                (None, Some(Init::Ones)) => Ok(1.0),
                (values, _) => self.port(&self.g.params()[*n], values, at),
            },
            Op::Const(c) => Ok(c.value()),
            Op::Iota(axis) => Ok(at[axis.index()] as f64),
            Op::Extent(dim) => Ok(dim.eval(self.bindings)? as f64),
            Op::Map(MapOp::Select) => {
                let arm = if self.value(args[0], at)? != 0.0 { args[1] } else { args[2] };
                self.value(arm, at)
            }
            Op::Map(map) => {
                let mut values = [0.0; MOST_ARGUMENTS];
                for (v, arg) in values.iter_mut().zip(&args) {
                    *v = self.value(*arg, at)?;
                }
                let value = (map.info().eval)(&values[..args.len()]);
                // 2^63 is a double, and the greatest integer of 64 bits is not: NaN and infinities are in no range.
                let narrow = *map == MapOp::ToI32 && !(I32_LEAST..=I32_MOST).contains(&value);
                if narrow || *map == MapOp::ToI64 && !(-I64_END..I64_END).contains(&value) {
                    return Err(EvalError::NoInteger { value: values[0], dtype: self.g.node(id).dtype });
                }
                Ok(value)
            }
            Op::Reduce(op, axis) => {
                let values = self.along(args[0], *axis, at)?;
                Ok(match op.info().step {
                    Some(step) => values.into_iter().fold(op.info().empty, step),
                    None => first_greatest(*op, &values) as f64,
                })
            }
            Op::At(axis) => {
                let index = self.value(args[1], at)? as i64;
                let extent = self.extent(*axis)?;
                if !(0..extent).contains(&index) {
                    let name = self.g.node(args[0]).name.as_ref();
                    let of = name.map(|n| format!(" of `{n}`")).unwrap_or_default();
                    let axis = self.g.axis(*axis).name.clone();
                    let origin = self.origin(id);
                    return Err(EvalError::OutOfRange { index, axis, extent, of, origin });
                }
                let before = std::mem::replace(&mut at[axis.index()], index);
                let value = self.value(args[0], at);
                at[axis.index()] = before;
                value
            }
            Op::Concat(axis, parts) => {
                let mut index = at[axis.index()];
                for (part, arg) in parts.iter().zip(&args) {
                    let n = self.extent(*part)?;
                    if index < n {
                        let before = std::mem::replace(&mut at[part.index()], index);
                        let value = self.value(*arg, at);
                        at[part.index()] = before;
                        return value;
                    }
                    index -= n;
                }
                let (extent, axis) = (self.extent(*axis)?, self.g.axis(*axis).name.clone());
                let (of, origin) = (String::new(), self.origin(id));
                Err(EvalError::OutOfRange { index, axis, extent, of, origin })
            }
            Op::CumSum(direction, axis) => {
                let own = at[axis.index()] as usize;
                Ok(direction.part(&self.along(args[0], *axis, at)?, own).iter().sum())
            }
            Op::Fused(op, axis) => self.fused(*op, *axis, &args, at),
        }
    }

    fn fused(&self, op: FusedOp, axis: AxisId, args: &[NodeId], at: &mut Position) -> Result<f64, EvalError> {
        let (info, here) = (op.info(), at[axis.index()] as usize);
        let x = self.along(args[0], axis, at)?;
        let mut row = x.clone();
        if info.sink {
            // The further score is one more entry of the row, of which nothing is made.
            row.push(self.value(*args.last().expect("an operator has arguments"), at)?);
        }
        let shares = info.weights.of(&row, |x| x);
        if info.weights == RowWeights::LogSumExp {
            return Ok(shares.shift + shares.divisor.ln());
        }
        let weights: Vec<f64> = shares.numerators.into_iter().map(|x| x / shares.divisor).collect();
        if !info.reduces {
            return Ok(weights[here]);
        }
        let masked = f64::from(info.masked());
        let mut sum = if weights.iter().any(|w| w.is_nan()) { f64::NAN } else { 0.0 };
        let before = at[axis.index()];
        for (k, w) in weights[..x.len()].iter().enumerate().filter(|(k, _)| x[*k] != masked) {
            at[axis.index()] = k as i64;
            sum += w * self.value(args[1], at)?;
        }
        at[axis.index()] = before;
        Ok(sum)
    }
}

/// Whether each scalar operator or concatenation is an argument in several places.
fn shared(g: &Graph) -> Vec<bool> {
    let mut places = vec![0usize; g.len()];
    g.ids().flat_map(|id| g.args(id)).for_each(|arg| places[arg.index()] += 1);
    let several = |id: NodeId| matches!(g.op(id), Op::Map(_) | Op::Concat(..)) && places[id.index()] > 1;
    g.ids().map(several).collect()
}

/// The position of the first greatest value; NaN counts as greatest; 0 if there is none.
fn first_greatest(op: ReduceOp, values: &[f64]) -> usize {
    debug_assert_eq!(op, ReduceOp::ArgMax, "the only reduction by position");
    let mut best = 0;
    for (k, v) in values.iter().enumerate() {
        if values[best].is_nan() {
            break;
        }
        if v.is_nan() || *v > values[best] {
            best = k;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, Const, DType, Dim};

    fn data() -> BTreeMap<String, Array> {
        BTreeMap::from([("x".to_owned(), Array::from_f32(vec![2, 3], vec![1., 2., 3., 4., 5., 6.]).unwrap())])
    }

    fn run(
        build: impl FnOnce(&mut Builder, NodeId, AxisId, AxisId) -> (Vec<AxisId>, NodeId),
    ) -> Result<Vec<f64>, EvalError> {
        let mut b = Builder::new("m");
        let (t, d) = (b.axis_id("t", &Dim::symbol("T")), b.axis_id("d", &Dim::symbol("D")));
        let x = b.input("x", &[t, d], DType::F32, None);
        let (axes, node) = build(&mut b, x, t, d);
        b.output("y", &axes, node).unwrap();
        let g = b.finish();
        assert_eq!(crate::graph::verify::verify(&g), Vec::<String>::new());
        let bindings = Bindings::from([("T".into(), 2), ("D".into(), 3)]);
        let (inputs, params) = (data(), BTreeMap::new());
        eval(&g, &bindings, Data { inputs: &inputs, params: &params }).map(|out| out[0].1.to_f64_vec())
    }

    #[test]
    fn products_sum_over_the_bound_axis() {
        let y = run(|b, x, t, d| {
            let s = b.axis_id("s", &Dim::symbol("T"));
            let x2 = b.rename(x, t, s).unwrap();
            let m = b.map(MapOp::Mul, &[x, x2]).unwrap();
            (vec![t, s], b.reduce(ReduceOp::Sum, d, m).unwrap())
        });
        assert_eq!(y.unwrap(), [14., 32., 32., 77.]);
    }

    #[test]
    fn a_guard_makes_an_index_outside_harmless() {
        let shifted = |guarded: bool| {
            run(move |b, x, t, d| {
                let (i, one, three) = (b.iota(d), b.constant(Const::I64(1)), b.constant(Const::I64(2)));
                let next = b.map(MapOp::Add, &[i, one]).unwrap();
                let y = b.at(x, d, next).unwrap();
                let inside = b.map(MapOp::Lt, &[i, three]).unwrap();
                let zero = b.constant(Const::f32(0.0));
                let y = if guarded { b.map(MapOp::Select, &[inside, y, zero]).unwrap() } else { y };
                (vec![t, d], y)
            })
        };
        assert_eq!(shifted(true).unwrap(), [2., 3., 0., 5., 6., 0.]);
        let err = shifted(false).unwrap_err();
        assert_eq!(err.to_string(), "index 3 is outside the axis `d` of length 3");
    }

    #[test]
    fn replacing_several_axes_at_once_is_simultaneous() {
        let y = run(|b, x, t, d| {
            // A square view of x, transposed: d and e swap.
            let e = b.axis_id("e", &Dim::symbol("D"));
            let (it, zero) = (b.iota(e), b.constant(Const::I64(0)));
            let row = b.at(x, t, zero).unwrap();
            let col = b.rename(row, d, e).unwrap();
            let ten = b.constant(Const::f32(10.0));
            let outer = b.map(MapOp::Mul, &[row, ten]).unwrap();
            let square = b.map(MapOp::Add, &[outer, col]).unwrap();
            let id = b.iota(d);
            (vec![d, e], b.at_all(square, &[(d, it), (e, id)]).unwrap())
        });
        assert_eq!(y.unwrap(), [11., 21., 31., 12., 22., 32., 13., 23., 33.]);
    }

    #[test]
    fn what_reads_itself_twice_is_computed_once() {
        let y = run(|b, x, t, d| {
            let half = b.constant(Const::f32(0.5));
            let mut y = x;
            for _ in 0..60 {
                let sum = b.map(MapOp::Add, &[y, y]).unwrap();
                y = b.map(MapOp::Mul, &[sum, half]).unwrap();
            }
            (vec![t, d], y)
        });
        assert_eq!(y.unwrap(), [1., 2., 3., 4., 5., 6.]);
    }

    #[test]
    fn a_deep_graph_does_not_overflow_the_stack() {
        let y = run(|b, x, t, d| {
            let one = b.constant(Const::f32(1.0));
            let deep = (0..20_000).fold(x, |y, _| b.map(MapOp::Add, &[y, one]).unwrap());
            (vec![t, d], deep)
        });
        assert_eq!(y.unwrap()[0], 20_001.0);
    }
}
