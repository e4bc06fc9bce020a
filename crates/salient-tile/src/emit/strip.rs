//! Expressions along a strip: a node of the graph as code of a vector body.
//!
//! One axis runs along the lanes, every other is fixed by loop variables of the kernel. Whatever is stored is read where
//! its layout puts it; everything else is computed in place. Reductions are not computed here: they are stored, or
//! the kernel that asks holds them as a stored value of its own.
//!
//! A value is the same whether it is used or not: of an index outside its axis nothing is read. Who uses such a value is
//! found afterwards, in `report`.

use crate::dims::LANE;
use crate::emit::scalar::scalar;
use crate::index::{AxisValue, Env, Ranges};
use crate::plan::Layouts;
use crate::plan::attention::Scores;
use crate::plan::layouts::Stored;
use crate::program::kernel::{Arg, Base, Check, Limit};
use salient_ir::{AxisId, DType, Dim, DimNode, Graph, MapOp, NodeId, Op, Symbol};
use salient_vector::body::{Body, Const, Elem, Value};
use salient_vector::handle::Handle;
use salient_vector::tile::Tile;
use salient_vector::{Builder, F32, I32, Int, Mask, Place, Ptr, math};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// What the expressions of one kernel are made of.
pub(crate) struct Scope<'g> {
    /// What is stored, and for the time of a loop what lies in scratch memory.
    pub(crate) layouts: Layouts<'g>,
    /// What some of that is multiplied by where it is read.
    pub(crate) factors: BTreeMap<NodeId, Stored>,
    pub(crate) ranges: Ranges,
    /// Nodes that were computed in place so far.
    pub(crate) inlined: BTreeSet<NodeId>,
    /// The program's checks so far.
    pub(crate) checks: Vec<Check>,
    /// What has to stay within 32 bits so far.
    pub(crate) limits: Vec<Limit>,
    /// The bodies of the register tiles that were made so far: kernels of products share most of theirs.
    pub(crate) tiles: HashMap<Tile, Arc<Body>>,
}

impl<'g> Deref for Scope<'g> {
    type Target = Layouts<'g>;
    fn deref(&self) -> &Layouts<'g> {
        &self.layouts
    }
}

impl DerefMut for Scope<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.layouts
    }
}

impl<'g> Scope<'g> {
    /// Nothing is computed yet.
    pub(crate) fn new(layouts: Layouts<'g>) -> Scope<'g> {
        Scope {
            layouts,
            factors: BTreeMap::new(),
            ranges: Ranges::default(),
            inlined: BTreeSet::new(),
            checks: Vec::new(),
            limits: Vec::new(),
            tiles: HashMap::new(),
        }
    }

    /// As [`Layouts::slope`], in the kernel's loops.
    pub(crate) fn slope(
        &self,
        node: NodeId,
        env: &Env,
        axis: Option<AxisId>,
        other: Option<AxisId>,
    ) -> Option<Dim> {
        self.layouts.slope(&self.ranges, node, env, axis, other)
    }

    /// The products of queries and keys inside a score that are made tile by tile, the variable `row` standing for the row.
    pub(crate) fn find_scores(&self, score: NodeId, env: &Env, row: &Symbol) -> Vec<Scores> {
        self.layouts.find_scores(&self.ranges, score, env, row)
    }

    /// Forgets what was stored for a node in the meantime.
    pub(crate) fn forget(&mut self, node: NodeId, before: Option<Stored>) {
        match before {
            Some(stored) => self.stored.insert(node, stored),
            None => self.stored.remove(&node),
        };
    }

    /// Notes what has to stay within 32 bits.
    fn limit(&mut self, limit: Limit) {
        if !self.limits.contains(&limit) {
            self.limits.push(limit);
        }
    }

    /// Notes that lanes hold the integer.
    pub(crate) fn limit_integer(&mut self, value: &DimNode) {
        let fits = matches!(value, DimNode::Constant(n) if i32::try_from(*n).is_ok());
        if !fits {
            let below = self.ranges.of(value);
            self.limit(Limit::Integer { value: value.clone(), below });
        }
    }

    /// Notes that each lane reads at a distance of its own from a base; scratch memory has never so many elements.
    fn limit_elements(&mut self, base: Base) {
        if let Base::Buffer(id) = base {
            self.limit(Limit::Elements(id));
        }
    }
}

/// How the positions of a strip are visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visit {
    /// Vector by vector, in a loop over lanes.
    Lanes,
    /// One by one, in a counting loop; every lane holds the same value.
    Single,
}

/// One vector body under construction, with the arguments that calls must pass.
pub(crate) struct Strip<'s, 'g> {
    pub(crate) scope: &'s mut Scope<'g>,
    visit: Visit,
    /// The index of the lane axis at which the strip begins.
    origin: Dim,
    /// Bases that the body writes: reads of them go through the same kind of pointer.
    pub(crate) written: Vec<Base>,
    args: Vec<Arg>,
    /// Begins the names of parameters, where a body has several strips.
    prefix: &'static str,
    pointers: Vec<(Base, Dim, Ptr)>,
    integers: Vec<(Dim, Int)>,
    /// The position within the strip, inside a loop.
    index: Option<Int>,
    /// What is the same along the strip and was computed before.
    pub(crate) held: BTreeMap<NodeId, Value>,
    /// Loop-invariant values, computed before the loops.
    invariant: Vec<(NodeId, Env, Value)>,
    /// What the current loop has computed.
    memo: HashMap<NodeId, Vec<(Env, Value)>>,
    /// Whether positions of the current loop lie inside an axis, by the position and the axis.
    inside: Vec<(AxisValue, AxisId, Mask)>,
    /// Indices that the current loop has read and that are the same along the strip, as vectors and as integers.
    even: Vec<(Value, Int)>,
}

impl<'s, 'g> Strip<'s, 'g> {
    /// A body whose strip begins at `origin` of the lane axis and which writes the given bases.
    pub(crate) fn new(
        scope: &'s mut Scope<'g>,
        visit: Visit,
        origin: Dim,
        written: &[Base],
    ) -> Strip<'s, 'g> {
        Strip {
            scope,
            visit,
            origin,
            written: written.to_vec(),
            args: Vec::new(),
            prefix: "",
            pointers: Vec::new(),
            integers: Vec::new(),
            index: None,
            held: BTreeMap::new(),
            invariant: Vec::new(),
            memo: HashMap::new(),
            inside: Vec::new(),
            even: Vec::new(),
        }
    }

    /// The same, its parameters with a prefix of their own: one of several strips of a body.
    pub(crate) fn prefixed(self, prefix: &'static str) -> Strip<'s, 'g> {
        Strip { prefix, ..self }
    }

    /// The arguments, in the order of the body's parameters.
    pub(crate) fn finish(self) -> Vec<Arg> {
        self.args
    }

    /// Begins a loop: values of an earlier one are out of sight.
    pub(crate) fn enter(&mut self, index: Int) {
        self.index = Some(index);
        self.memo.clear();
        for (id, env, value) in &self.invariant {
            self.memo.entry(*id).or_default().push((env.clone(), *value));
        }
        self.inside.clear();
        self.even.clear();
    }

    /// Leaves a loop.
    pub(crate) fn leave(&mut self) {
        self.index = None;
        self.memo.clear();
        self.inside.clear();
        self.even.clear();
    }

    /// Computes what an expression computes element by element of numbers that are the same along the strip, for the loops to come.
    pub(crate) fn hoist(&mut self, b: &mut Builder, root: NodeId, env: &Env) {
        let g = self.scope.graph;
        let (mut seen, mut stack) = (BTreeSet::new(), vec![root]);
        while let Some(id) = stack.pop() {
            let node = g.node(id);
            let is_there = self.held.contains_key(&id) || self.scope.stored.contains_key(&id);
            if !matches!(g.op(id), Op::Map(_)) || is_there || !seen.insert(id) {
                continue;
            }
            let is_fixed = |axis: AxisId| match env.get(&axis) {
                Some(AxisValue::Poly(d)) => {
                    d.linear_in(&LANE).is_some_and(|(s, _)| s.as_constant() == Some(0))
                }
                Some(AxisValue::Loose(_) | AxisValue::Vector(_)) | None => false,
            };
            if node.dtype == DType::F32 && node.axes.iter().all(is_fixed) {
                let value = self.value(b, id, env);
                let mut relevant = env.clone();
                relevant.retain(|axis, _| node.axes.contains(*axis));
                self.invariant.push((id, relevant, value));
            } else {
                stack.extend(g.args(id));
            }
        }
        self.memo.clear();
    }

    /// From now on the node, which is the same along the strip, has that value.
    pub(crate) fn hold(&mut self, id: NodeId, value: Value) {
        self.held.insert(id, value);
    }

    /// The integer as a value of the body.
    pub(crate) fn integer(&mut self, b: &mut Builder, d: &Dim) -> Int {
        if let Some(n) = d.as_constant() {
            return b.int(n);
        }
        if let Some((_, int)) = self.integers.iter().find(|(known, _)| known == d) {
            return *int;
        }
        let int = b.int_param(format!("{}n{}", self.prefix, self.integers.len()));
        self.integers.push((d.clone(), int));
        self.args.push(Arg::Int(d.clone()));
        int
    }

    /// A pointer to an element of a base.
    pub(crate) fn pointer(&mut self, b: &mut Builder, base: Base, offset: &Dim) -> Ptr {
        if let Some((_, _, ptr)) = self.pointers.iter().find(|(k, o, _)| *k == base && o == offset) {
            return *ptr;
        }
        let n = self.pointers.len();
        let prefix = self.prefix;
        let ptr = if self.written.contains(&base) {
            b.output(format!("{prefix}w{n}"))
        } else {
            b.input(format!("{prefix}r{n}"))
        };
        self.pointers.push((base, offset.clone(), ptr));
        self.args.push(Arg::Address { base, offset: offset.clone() });
        ptr
    }

    /// The place of a stored element, the lane axis running along the strip.
    pub(crate) fn place(&mut self, b: &mut Builder, stored: &Stored, env: &Env) -> Place {
        let mut fixed = stored.offset.clone();
        let mut indices: Vec<(I32, &Dim)> = Vec::new();
        let mut is_loose = false;
        for (axis, stride) in &stored.strides {
            let bound = env.get(axis).unwrap_or_else(|| {
                let name = &self.scope.graph.axis(*axis).name;
                panic!("the axis `{name}` of a stored node is not bound in {:?}", stored.base)
            });
            match bound {
                AxisValue::Poly(d) | AxisValue::Loose(d) => {
                    fixed = &fixed + &(d * stride);
                    is_loose |= matches!(bound, AxisValue::Loose(_));
                }
                AxisValue::Vector(index) => indices.push((*index, stride)),
            }
        }
        let along = fixed.linear_in(&LANE);
        let even: Option<Vec<(Int, &Dim)>> =
            indices.iter().map(|(index, stride)| Some((self.even(*index)?, *stride))).collect();
        if let (Some((slope, rest)), Some(even)) = (&along, even) {
            let ptr = self.pointer(b, stored.base, &(rest + &(slope * &self.origin)));
            let mut moved = None;
            for (index, stride) in even {
                let stride = self.integer(b, stride);
                let part = b.mul(index, stride);
                moved = Some(moved.map_or(part, |sum| b.add(sum, part)));
            }
            return self.along(b, ptr, slope, moved);
        }
        // The distances of lanes may leave 32 bits on the way, but not in the end: they lie between two elements of the tensor.
        self.scope.limit_elements(stored.base);
        let mut vector: Option<I32> = None;
        for (index, stride) in indices {
            let stride = self.integer(b, stride);
            let stride = b.splat(stride);
            let part = b.mul(index, stride);
            vector = Some(vector.map_or(part, |sum| b.add(sum, part)));
        }
        let Some((slope, rest)) = along.filter(|_| !is_loose) else {
            // The position along the lanes is under a quotient, or the strip may begin far outside: every lane has an address
            // of its own.
            let mut at = self.modulo(b, &fixed);
            if let Some(v) = vector {
                at = b.add(at, v);
            }
            let (ptr, one) = (self.pointer(b, stored.base, &Dim::constant(0)), b.int(1));
            return ptr.at_start().indexed(at, one);
        };
        let ptr = self.pointer(b, stored.base, &(&rest + &(&slope * &self.origin)));
        let steps = self.steps(b, &slope);
        let (at, one) = (vector.map_or(steps, |v| b.add(v, steps)), b.int(1));
        ptr.at_start().indexed(at, one)
    }

    /// The place that is `moved` elements and `slope` times the position in the strip after a pointer.
    fn along(&mut self, b: &mut Builder, ptr: Ptr, slope: &Dim, moved: Option<Int>) -> Place {
        let (Some(index), false) = (self.index, slope.as_constant() == Some(0)) else {
            return moved.map_or(ptr.at_start(), |moved| ptr.at(moved)).one();
        };
        let stride = (slope.as_constant() != Some(1)).then(|| self.integer(b, slope));
        let steps = stride.map_or(index, |stride| b.mul(index, stride));
        let at = ptr.at(moved.map_or(steps, |moved| b.add(steps, moved)));
        match (self.visit, stride) {
            (Visit::Single, _) => at.one(),
            (Visit::Lanes, None) => at,
            (Visit::Lanes, Some(stride)) => at.strided(stride),
        }
    }

    /// An index that is the same along the strip, as an integer.
    pub(crate) fn even(&self, index: I32) -> Option<Int> {
        self.even.iter().find(|(known, _)| *known == index.value()).map(|(_, int)| *int)
    }

    /// Whether an index is the same for the whole strip.
    fn is_even(&self, id: NodeId, env: &Env) -> bool {
        let g = self.scope.graph;
        let has_one_place = |axis: AxisId| match env.get(&axis) {
            Some(AxisValue::Poly(d)) => !d.mentions(&LANE),
            Some(AxisValue::Loose(_) | AxisValue::Vector(_)) | None => false,
        };
        if !g.node(id).axes.iter().all(has_one_place) {
            return false;
        }
        if let Some(stored) = self.scope.stored.get(&id) {
            return stored.elem == Elem::I32;
        }
        match g.op(id) {
            _ if self.held.contains_key(&id) => false,
            Op::Const(_) | Op::Iota(_) | Op::Extent(_) => true,
            Op::Map(_) => g.args(id).iter().all(|arg| self.is_even(*arg, env)),
            Op::At(axis) => {
                let ranges = &self.scope.ranges;
                let index = ranges.evaluate(g, g.args(id)[1], env);
                index.filter(|d| ranges.inside(d, g.extent(*axis))).is_some_and(|d| {
                    let mut inner = env.clone();
                    inner.insert(*axis, AxisValue::Poly(d));
                    self.is_even(g.args(id)[0], &inner)
                })
            }
            Op::Concat(..)
            | Op::Input(_)
            | Op::Param(_)
            | Op::Reduce(..)
            | Op::CumSum(..)
            | Op::Fused(..) => false,
        }
    }

    /// Holds an index as an integer too, if it is the same for the whole strip: what lies there is contiguous, and none of it is
    /// gathered.
    fn read_even(&mut self, b: &mut Builder, id: NodeId, env: &Env, index: I32) -> Option<()> {
        if self.even(index).is_some() || !self.is_even(id, env) {
            return None;
        }
        let int = match self.scope.stored.get(&id) {
            None => b.first_lane(index),
            Some(stored) => {
                let (base, at) = stored.at(env)?;
                let ptr = self.pointer(b, base, &at);
                b.load_int(Elem::I32, ptr.at_start())
            }
        };
        self.even.push((index.value(), int));
        Some(())
    }

    /// `slope * (position in the strip)` for each lane.
    fn steps(&mut self, b: &mut Builder, slope: &Dim) -> I32 {
        let slope = self.integer(b, slope);
        let slope = b.splat(slope);
        let position = self.position(b);
        b.mul(position, slope)
    }

    /// The position within the strip of each lane.
    fn position(&mut self, b: &mut Builder) -> I32 {
        match (self.index, self.visit) {
            (Some(index), Visit::Lanes) => b.lane_index(index),
            (Some(index), Visit::Single) => b.splat(index),
            (None, _) => b.i32(0),
        }
    }

    /// A polynomial for each lane.
    pub(crate) fn vector(&mut self, b: &mut Builder, d: &Dim) -> I32 {
        self.scope.limit_integer(&d.to_node());
        self.modulo(b, d)
    }

    /// The low 32 bits of a polynomial for each lane. Sums and products of low bits are the low bits of sums and products; what
    /// is divided has to be there whole.
    fn modulo(&mut self, b: &mut Builder, d: &Dim) -> I32 {
        if let Some((slope, rest)) = d.linear_in(&LANE) {
            let base = self.integer(b, &(&rest + &(&slope * &self.origin)));
            let base = b.splat(base);
            if slope.as_constant() == Some(0) {
                return base;
            }
            let along = if slope.as_constant() == Some(1) { self.position(b) } else { self.steps(b, &slope) };
            return b.add(base, along);
        }
        self.modulo_node(b, &d.to_node())
    }

    fn modulo_node(&mut self, b: &mut Builder, node: &DimNode) -> I32 {
        match node {
            DimNode::Constant(n) => {
                let n = b.int(*n);
                b.splat(n)
            }
            DimNode::Symbol(name) => self.modulo(b, &Dim::symbol(name)),
            DimNode::Add(x, y) => {
                let (x, y) = (self.modulo_node(b, x), self.modulo_node(b, y));
                b.add(x, y)
            }
            DimNode::Mul(x, y) => {
                let (x, y) = (self.modulo_node(b, x), self.modulo_node(b, y));
                b.mul(x, y)
            }
            DimNode::Div(x, y) => {
                for part in [x, y] {
                    self.scope.limit_integer(part);
                }
                let (x, y) = (self.modulo_node(b, x), self.modulo_node(b, y));
                math::div_floor(b, x, y)
            }
        }
    }

    /// The value of a node for each lane; nothing is read outside a tensor.
    pub(crate) fn value(&mut self, b: &mut Builder, id: NodeId, env: &Env) -> Value {
        let free = &self.scope.graph.node(id).axes;
        let known = |known: &&(Env, Value)| free.iter().all(|axis| known.0.get(&axis) == env.get(&axis));
        if let Some((_, value)) = self.memo.get(&id).and_then(|of| of.iter().find(known)) {
            return *value;
        }
        let mut relevant: Env = env.clone();
        relevant.retain(|axis, _| free.contains(*axis));
        let value = self.compute(b, id, &relevant);
        self.memo.entry(id).or_default().push((relevant, value));
        value
    }

    /// [`Strip::value`] of a node that a kernel computes for all positions: what it reads outside its axes is reported if the
    /// node is demanded.
    pub(crate) fn root(&mut self, b: &mut Builder, id: NodeId, env: &Env) -> Value {
        let reports = self.scope.defined.demanding(id);
        self.root_of(b, id, env, reports)
    }

    /// As [`Strip::root`], reporting for a node that is demanded, if there is one.
    pub(crate) fn root_of(
        &mut self,
        b: &mut Builder,
        id: NodeId,
        env: &Env,
        reports: Option<NodeId>,
    ) -> Value {
        let value = self.value(b, id, env);
        self.report(b, id, env, reports);
        value
    }

    /// [`Strip::value`] of an f32 node.
    pub(crate) fn f32(&mut self, b: &mut Builder, id: NodeId, env: &Env) -> F32 {
        debug_assert_eq!(self.scope.graph.node(id).dtype, DType::F32);
        F32::from_value(self.value(b, id, env))
    }

    /// [`Strip::value`] of an integer node.
    pub(crate) fn int(&mut self, b: &mut Builder, id: NodeId, env: &Env) -> I32 {
        debug_assert!(self.scope.graph.node(id).dtype.is_int());
        I32::from_value(self.value(b, id, env))
    }

    /// [`Strip::value`] of a truth value.
    pub(crate) fn truth(&mut self, b: &mut Builder, id: NodeId, env: &Env) -> Mask {
        debug_assert_eq!(self.scope.graph.node(id).dtype, DType::Bool);
        Mask::from_value(self.value(b, id, env))
    }

    fn compute(&mut self, b: &mut Builder, id: NodeId, env: &Env) -> Value {
        let g = self.scope.graph;
        if let Some(value) = self.held.get(&id) {
            return *value;
        }
        if let Some(stored) = self.scope.stored.get(&id).cloned() {
            return self.load(b, id, &stored, env);
        }
        if g.node(id).name.is_some() {
            self.scope.inlined.insert(id);
        }
        if g.node(id).dtype.is_int()
            && let Some(d) = self.scope.ranges.evaluate(g, id, env)
        {
            return self.vector(b, &d).value();
        }
        let args = g.args(id);
        match g.op(id) {
            Op::Const(c) => b.constant(match c.dtype() {
                DType::F32 | DType::F16 | DType::BF16 => Const::F32(c.value() as f32),
                DType::I32 | DType::I64 => Const::I32(c.value() as i32),
                DType::Bool => Const::Mask(c.value() != 0.0),
            }),
            Op::Iota(axis) => self.position_along(b, *axis, env).value(),
            Op::Extent(dim) => self.vector(b, dim).value(),
            Op::Map(MapOp::Select) => {
                let values = [0, 1, 2].map(|n| self.value(b, args[n], env));
                b.op(salient_vector::Op::Select, &values)
            }
            Op::Map(MapOp::Log) if is_one_or_more(g, args[0]) => {
                let x = self.value(b, args[0], env);
                math::log_of_normal(b, F32::from_value(x)).value()
            }
            Op::Map(map) => {
                let values: Vec<Value> = args.iter().map(|a| self.value(b, *a, env)).collect();
                scalar(b, *map, g.node(args[0]).dtype, &values)
            }
            Op::At(axis) => {
                let inner = self.under_view(b, *axis, args[1], env);
                self.value(b, args[0], &inner)
            }
            Op::Concat(axis, parts) => {
                let mut out: Option<Value> = None;
                for (inner, within, arg) in self.parts(b, *axis, parts, &args, env) {
                    let value = self.value(b, arg, &inner);
                    out = Some(match out {
                        None => value,
                        Some(rest) => b.op(salient_vector::Op::Select, &[within.value(), value, rest]),
                    });
                }
                out.expect("a concatenation has parts")
            }
            Op::Input(_) | Op::Param(_) | Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) => {
                unreachable!("{:?} is stored before it is read", g.op(id))
            }
        }
    }

    /// A stored value, where all positions lie inside; zero elsewhere.
    fn load(&mut self, b: &mut Builder, id: NodeId, stored: &Stored, env: &Env) -> Value {
        let place = self.place(b, stored, env);
        let mut used: Option<Mask> = None;
        for axis in self.scope.graph.node(id).axes.iter() {
            let Some(bound @ (AxisValue::Loose(_) | AxisValue::Vector(_))) = env.get(&axis) else { continue };
            let inside = self.inside(b, bound, axis);
            used = Some(both(b, used, inside));
        }
        let place = used.map_or(place, |mask| place.masked(mask));
        let value = b.load_elem(stored.elem, place);
        let Some(factor) = self.scope.factors.get(&id).cloned() else { return value };
        let place = self.place(b, &factor, env);
        let factor = b.load::<F32>(place);
        b.mul(F32::from_value(value), factor).value()
    }

    /// The lanes whose position lies inside an axis.
    pub(crate) fn inside(&mut self, b: &mut Builder, bound: &AxisValue, axis: AxisId) -> Mask {
        if let Some((.., mask)) = self.inside.iter().find(|(known, of, _)| *of == axis && known == bound) {
            return *mask;
        }
        let index = match bound {
            AxisValue::Poly(d) | AxisValue::Loose(d) => self.vector(b, d),
            AxisValue::Vector(index) => *index,
        };
        let extent = self.scope.graph.extent(axis).clone();
        let mask = self.in_range(b, index, &Dim::constant(0), &extent);
        self.inside.push((bound.clone(), axis, mask));
        mask
    }

    /// The index along an axis.
    fn position_along(&mut self, b: &mut Builder, axis: AxisId, env: &Env) -> I32 {
        match env.get(&axis).expect("the axis of an index is bound") {
            AxisValue::Poly(d) | AxisValue::Loose(d) => self.vector(b, &d.clone()),
            AxisValue::Vector(v) => *v,
        }
    }

    /// What axes stand for in the tensor under a view.
    pub(crate) fn under_view(&mut self, b: &mut Builder, axis: AxisId, index: NodeId, env: &Env) -> Env {
        let g = self.scope.graph;
        let bound = match self.scope.ranges.evaluate(g, index, env) {
            Some(d) if self.scope.ranges.inside(&d, g.extent(axis)) => AxisValue::Poly(d),
            Some(d) => AxisValue::Loose(d),
            None => {
                let value = self.int(b, index, env);
                self.read_even(b, index, env, value);
                AxisValue::Vector(value)
            }
        };
        let mut inner = env.clone();
        inner.insert(axis, bound);
        inner
    }

    /// What axes stand for in each part of a concatenation, and the lanes that lie in it.
    pub(crate) fn parts(
        &mut self,
        b: &mut Builder,
        axis: AxisId,
        parts: &[AxisId],
        args: &[NodeId],
        env: &Env,
    ) -> Vec<(Env, Mask, NodeId)> {
        let g = self.scope.graph;
        let index = self.position_along(b, axis, env);
        let (mut from, mut out) = (Dim::constant(0), Vec::new());
        for (part, arg) in parts.iter().zip(args) {
            let to = &from + g.extent(*part);
            let within = self.in_range(b, index, &from, &to);
            let bound = match &env[&axis] {
                AxisValue::Poly(d) | AxisValue::Loose(d) => AxisValue::Loose(d - &from),
                AxisValue::Vector(_) => {
                    let start = self.vector(b, &from);
                    AxisValue::Vector(b.sub(index, start))
                }
            };
            let mut inner = env.clone();
            inner.insert(*part, bound);
            out.push((inner, within, *arg));
            from = to;
        }
        out
    }

    pub(crate) fn in_range(&mut self, b: &mut Builder, index: I32, from: &Dim, to: &Dim) -> Mask {
        let (from, to) = (self.vector(b, from), self.vector(b, to));
        let (low, high) = (b.le(from, index), b.lt(index, to));
        b.and(low, high)
    }
}

/// Whether the node is `c + e^x` with `c >= 1`, which is no less than one.
fn is_one_or_more(g: &Graph, id: NodeId) -> bool {
    let args = g.args(id);
    let is_one = |id: &NodeId| matches!(g.op(*id), Op::Const(c) if c.value() >= 1.0);
    let is_exponential = |id: &NodeId| matches!(g.op(*id), Op::Map(MapOp::Exp));
    matches!(g.op(id), Op::Map(MapOp::Add)) && args.iter().any(is_one) && args.iter().any(is_exponential)
}

pub(crate) fn both(b: &mut Builder, guard: Option<Mask>, mask: Mask) -> Mask {
    guard.map_or(mask, |g| b.and(g, mask))
}
