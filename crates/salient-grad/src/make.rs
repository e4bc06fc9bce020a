//! Short forms for the nodes that adjoints are made of. Constants are folded where that keeps derivatives short.

use crate::views::linear;
use salient_ir::{AxisId, Builder, Const, DType, Dim, MapOp, NodeId, Op, ReduceOp};

/// What a builder says of nodes that are put together as their types ask for.
const TYPED: &str = "adjoints are typed as their nodes are";

/// Makes nodes.
pub(crate) trait Make {
    /// A scalar operator.
    fn apply(&mut self, op: MapOp, args: &[NodeId]) -> NodeId;
    /// A number.
    fn number(&mut self, x: f32) -> NodeId;
    /// An integer.
    fn integer(&mut self, n: i64) -> NodeId;
    /// Whether a node is this number.
    fn is_number(&self, id: NodeId, x: f32) -> bool;
    /// The product of two numbers.
    fn times(&mut self, a: NodeId, b: NodeId) -> NodeId;
    /// The sum of two numbers.
    fn plus(&mut self, a: NodeId, b: NodeId) -> NodeId;
    /// The negative of a number.
    fn negative(&mut self, a: NodeId) -> NodeId;
    /// `value` where `mask` holds, else zero.
    fn masked(&mut self, mask: Option<NodeId>, value: NodeId) -> NodeId;
    /// Where both hold; the second is looked at only where the first holds.
    fn both(&mut self, a: Option<NodeId>, b: Option<NodeId>) -> Option<NodeId>;
    /// The sum along an axis.
    fn sum(&mut self, axis: AxisId, x: NodeId) -> NodeId;
    /// A node at other indices, all replaced at once.
    fn moved(&mut self, x: NodeId, with: &[(AxisId, NodeId)]) -> NodeId;
    /// An index at other indices. Of a sum of indices it is one again, so that it can be solved.
    fn composed(&mut self, index: NodeId, with: &[(AxisId, NodeId)]) -> NodeId;
    /// An index as a 64-bit integer.
    fn wide(&mut self, x: NodeId) -> NodeId;
    /// A dimension as an integer.
    fn length(&mut self, dim: &Dim) -> NodeId;
}

impl Make for Builder {
    fn apply(&mut self, op: MapOp, args: &[NodeId]) -> NodeId {
        self.map(op, args).expect(TYPED)
    }

    fn number(&mut self, x: f32) -> NodeId {
        self.constant(Const::f32(x))
    }

    fn integer(&mut self, n: i64) -> NodeId {
        self.constant(Const::I64(n))
    }

    fn is_number(&self, id: NodeId, x: f32) -> bool {
        *self.op(id) == Op::Const(Const::f32(x))
    }

    fn times(&mut self, a: NodeId, b: NodeId) -> NodeId {
        if self.is_number(a, 1.0) {
            b
        } else if self.is_number(b, 1.0) {
            a
        } else {
            self.apply(MapOp::Mul, &[a, b])
        }
    }

    fn plus(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.apply(MapOp::Add, &[a, b])
    }

    fn negative(&mut self, a: NodeId) -> NodeId {
        if *self.op(a) == Op::Map(MapOp::Neg) { self.args(a)[0] } else { self.apply(MapOp::Neg, &[a]) }
    }

    fn masked(&mut self, mask: Option<NodeId>, value: NodeId) -> NodeId {
        let Some(mask) = mask else { return value };
        let zero = self.number(0.0);
        // What is looked at only where something else holds stays so.
        if *self.op(mask) == Op::Map(MapOp::Select) {
            let args = self.args(mask);
            let inner = self.masked(Some(args[1]), value);
            return self.masked(Some(args[0]), inner);
        }
        if value == zero { zero } else { self.apply(MapOp::Select, &[mask, value, zero]) }
    }

    fn both(&mut self, a: Option<NodeId>, b: Option<NodeId>) -> Option<NodeId> {
        match (a, b) {
            (None, only) | (only, None) => only,
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(a), Some(b)) => {
                let never = self.constant(Const::Bool(false));
                Some(self.apply(MapOp::Select, &[a, b, never]))
            }
        }
    }

    fn sum(&mut self, axis: AxisId, x: NodeId) -> NodeId {
        // What is the same at the only position of an axis is its own sum.
        let is_single = self.extent(axis).as_constant() == Some(1);
        if is_single && !self.node(x).axes.contains(axis) {
            return x;
        }
        self.reduce(ReduceOp::Sum, axis, x).expect(TYPED)
    }

    fn moved(&mut self, x: NodeId, with: &[(AxisId, NodeId)]) -> NodeId {
        self.at_all(x, with).expect(TYPED)
    }

    fn composed(&mut self, index: NodeId, with: &[(AxisId, NodeId)]) -> NodeId {
        if linear(self, index).is_none() {
            return self.moved(index, with);
        }
        self.index_at_all(index, with).expect(TYPED)
    }

    fn wide(&mut self, x: NodeId) -> NodeId {
        if self.node(x).dtype == DType::I64 { x } else { self.apply(MapOp::ToI64, &[x]) }
    }

    fn length(&mut self, dim: &Dim) -> NodeId {
        self.extent_of(dim)
    }
}
