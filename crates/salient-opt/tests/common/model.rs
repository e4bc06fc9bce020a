//! Graphs built by hand, in the notation of the language as far as Rust allows it.
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each user takes its part")]

use salient_ir::{AxisId, Builder, Const, DType, Dim, Direction, Graph, MapOp, Name, NodeId, Op, ReduceOp};
use std::cell::RefCell;
use std::rc::Rc;

/// A builder that values share, so that they can be combined with operators.
#[derive(Clone)]
pub struct Model(Rc<RefCell<Builder>>);

/// A node of a model.
#[derive(Clone)]
pub struct V {
    m: Model,
    id: NodeId,
}

impl Model {
    pub fn new() -> Model {
        Model(Rc::new(RefCell::new(Builder::new("m"))))
    }

    fn wrap(&self, id: NodeId) -> V {
        V { m: self.clone(), id }
    }

    /// An axis `name: extent`, the extent a symbol or a number.
    pub fn axis(&self, name: &str, extent: &str) -> AxisId {
        let dim = extent.parse().map_or_else(|_| Dim::symbol(extent), Dim::constant);
        self.0.borrow_mut().axis_id(name, &dim)
    }

    pub fn axis_of(&self, name: &str, extent: &Dim) -> AxisId {
        self.0.borrow_mut().axis_id(name, extent)
    }

    pub fn input(&self, name: &str, axes: &[AxisId]) -> V {
        self.typed(name, axes, DType::F32)
    }

    pub fn typed(&self, name: &str, axes: &[AxisId], dtype: DType) -> V {
        let id = self.0.borrow_mut().input(name, axes, dtype, None);
        self.wrap(id)
    }

    pub fn param(&self, name: &str, axes: &[AxisId]) -> V {
        let id = self.0.borrow_mut().param(name, axes, DType::F32, None, None);
        self.wrap(id)
    }

    pub fn num(&self, x: f32) -> V {
        self.constant(Const::f32(x))
    }

    pub fn int(&self, x: i64) -> V {
        self.constant(Const::I64(x))
    }

    fn constant(&self, c: Const) -> V {
        let id = self.0.borrow_mut().constant(c);
        self.wrap(id)
    }

    pub fn iota(&self, axis: AxisId) -> V {
        let id = self.0.borrow_mut().iota(axis);
        self.wrap(id)
    }

    /// A dimension as a value.
    pub fn extent(&self, dim: &Dim) -> V {
        let id = self.0.borrow_mut().extent_of(dim);
        self.wrap(id)
    }

    /// The square root of the extent of an axis.
    pub fn sqrt_of(&self, axis: AxisId) -> V {
        let dim = self.0.borrow().extent(axis).clone();
        let id = self.0.borrow_mut().extent_of(&dim);
        self.wrap(id).map(MapOp::ToF32).map(MapOp::Sqrt)
    }

    pub fn map(&self, op: MapOp, args: &[&V]) -> V {
        let ids: Vec<NodeId> = args.iter().map(|a| a.id).collect();
        let id = self.0.borrow_mut().map(op, &ids).unwrap();
        self.wrap(id)
    }

    /// Parts one after the other along an axis, each along an axis of its own.
    pub fn concat(&self, whole: AxisId, parts: &[(AxisId, &V)]) -> V {
        let args: Vec<NodeId> = parts.iter().map(|(_, part)| part.id).collect();
        let op = Op::Concat(whole, parts.iter().map(|(axis, _)| *axis).collect());
        let id = self.0.borrow_mut().add(op, &args).unwrap();
        self.wrap(id)
    }

    pub fn select(&self, c: &V, yes: &V, no: &V) -> V {
        self.map(MapOp::Select, &[c, yes, no])
    }

    pub fn require(&self, requirement: salient_ir::Requirement) {
        self.0.borrow_mut().require(requirement);
    }

    pub fn output(&self, name: &str, axes: &[AxisId], v: &V) {
        self.0.borrow_mut().output(name, axes, v.id).unwrap();
    }

    /// The model's graph; the model is empty afterwards.
    pub fn finish(&self) -> Graph {
        self.0.replace(Builder::new("m")).finish()
    }

    /// The language's own softmax along an axis.
    pub fn softmax(&self, j: AxisId, s: &V) -> V {
        let m = s.reduce(ReduceOp::Max, j);
        let empty = self.map(MapOp::Eq, &[&m, &self.num(f32::NEG_INFINITY)]);
        let shifted = s.clone() - self.select(&empty, &self.num(0.0), &m);
        let e = shifted.exp();
        let z = e.sum(j);
        let none = self.map(MapOp::Eq, &[&z, &self.num(0.0)]);
        e / self.select(&none, &self.num(1.0), &z)
    }

    /// Softmax by hand, without a maximum.
    pub fn exp_over_sum(&self, j: AxisId, s: &V) -> V {
        s.exp() / s.exp().sum(j)
    }

    /// Softmax by hand, with a maximum.
    pub fn shifted_exp_over_sum(&self, j: AxisId, s: &V) -> V {
        let e = (s.clone() - s.reduce(ReduceOp::Max, j)).exp();
        e.clone() / e.sum(j)
    }
}

impl V {
    pub fn map(&self, op: MapOp) -> V {
        self.m.map(op, &[self])
    }

    pub fn exp(&self) -> V {
        self.map(MapOp::Exp)
    }

    pub fn not(&self) -> V {
        self.map(MapOp::Not)
    }

    pub fn f32(&self) -> V {
        self.map(MapOp::ToF32)
    }

    pub fn le(&self, other: &V) -> V {
        self.m.map(MapOp::Le, &[self, other])
    }

    pub fn lt(&self, other: &V) -> V {
        self.m.map(MapOp::Lt, &[self, other])
    }

    pub fn eq(&self, other: &V) -> V {
        self.m.map(MapOp::Eq, &[self, other])
    }

    pub fn and(&self, other: &V) -> V {
        self.m.map(MapOp::And, &[self, other])
    }

    pub fn reduce(&self, op: ReduceOp, axis: AxisId) -> V {
        let id = self.m.0.borrow_mut().reduce(op, axis, self.id).unwrap();
        self.m.wrap(id)
    }

    pub fn cumsum(&self, axis: AxisId) -> V {
        let id = self.m.0.borrow_mut().add(Op::CumSum(Direction::Forward, axis), &[self.id]).unwrap();
        self.m.wrap(id)
    }

    pub fn sum(&self, axis: AxisId) -> V {
        self.reduce(ReduceOp::Sum, axis)
    }

    /// The value with axes renamed at once.
    pub fn at(&self, with: &[(AxisId, AxisId)]) -> V {
        let mut b = self.m.0.borrow_mut();
        let with: Vec<_> = with.iter().map(|(from, to)| (*from, b.iota(*to))).collect();
        let id = b.at_all(self.id, &with).unwrap();
        drop(b);
        self.m.wrap(id)
    }

    /// The value at an index expression.
    pub fn at_index(&self, axis: AxisId, index: &V) -> V {
        let id = self.m.0.borrow_mut().at(self.id, axis, index.id).unwrap();
        self.m.wrap(id)
    }

    /// The free axes, by id.
    pub fn axes(&self) -> Vec<AxisId> {
        self.m.0.borrow().node(self.id).axes.iter().collect()
    }

    pub fn named(self, name: &str) -> V {
        self.m.0.borrow_mut().describe(self.id, Some(&Name::from(name)), None);
        self
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:ident) => {
        impl std::ops::$trait<V> for V {
            type Output = V;
            fn $method(self, other: V) -> V {
                self.m.map(MapOp::$op, &[&self, &other])
            }
        }
        impl std::ops::$trait<&V> for &V {
            type Output = V;
            fn $method(self, other: &V) -> V {
                self.m.map(MapOp::$op, &[self, other])
            }
        }
    };
}
operator!(Add, add, Add);
operator!(Sub, sub, Sub);
operator!(Mul, mul, Mul);
operator!(Div, div, Div);
