//! A check in front of every use of a stored value that may be undefined there.

use super::Analysis;
use super::domain::{Clause, Domain, Literal, Meaning, Position};
use salient_ir::{AxisId, Builder, Const, DType, Dim, DimNode, Graph, MapOp, NodeId, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The graph with `if defined then value else CULPRIT` in place of each of the nodes `open`, for whoever reads it.
pub(super) fn with_checks(found: Analysis<'_>, open: &BTreeSet<NodeId>) -> Graph {
    let g = found.g;
    let mut rebuilt =
        Rebuilt { found: &found, b: Builder::like(g), value: Vec::new(), defined: BTreeMap::new() };
    for id in g.ids() {
        let args: Vec<NodeId> = g.args(id).iter().map(|a| rebuilt.value[a.index()]).collect();
        let node = g.node(id);
        let plain = typed(rebuilt.b.add(node.op.clone(), &args));
        rebuilt.b.describe(plain, node.name.as_ref(), node.origin);
        rebuilt.value.push(plain);
        if open.contains(&id) {
            let defined = rebuilt.is_defined(id);
            let culprit = rebuilt.culprit(id);
            rebuilt.value[id.index()] = rebuilt.map(MapOp::Select, &[defined, plain, culprit]);
        }
    }
    for output in g.outputs() {
        let value = rebuilt.value[output.node.index()];
        typed(rebuilt.b.output(&output.name, &output.axes, value));
    }
    rebuilt.b.finish()
}

/// What is typed as the nodes it is made of are.
fn typed<T, E: std::fmt::Debug>(made: Result<T, E>) -> T {
    made.expect("a node of a verified graph, or a condition over its nodes")
}

struct Rebuilt<'a, 'g> {
    found: &'a Analysis<'g>,
    b: Builder,
    /// For each node of the old graph the one that stands for it.
    value: Vec<NodeId>,
    /// Conditions so far, by node of the old graph.
    defined: BTreeMap<NodeId, NodeId>,
}

impl Rebuilt<'_, '_> {
    fn map(&mut self, op: MapOp, args: &[NodeId]) -> NodeId {
        typed(self.b.map(op, args))
    }

    fn truth(&mut self, holds: bool) -> NodeId {
        self.b.constant(Const::Bool(holds))
    }

    /// Whether a node of the old graph is defined, as a truth value over its axes.
    fn is_defined(&mut self, id: NodeId) -> NodeId {
        if let Some(known) = self.defined.get(&id) {
            return *known;
        }
        let own = self.found.literal(id);
        let domain = self.found.large.get(&id).unwrap_or(self.found.domain_of(id));
        let made = if domain.iter().any(|clause| clause.contains(&own)) {
            self.all_defined(id)
        } else {
            let domain = domain.clone();
            self.condition(&domain)
        };
        self.defined.insert(id, made);
        made
    }

    /// Whether all elements that a reduction or a fused operator reads are defined, or there are none.
    fn all_defined(&mut self, id: NodeId) -> NodeId {
        let g = self.found.g;
        let axis = g.op(id).bound().expect("only what binds an axis is a condition of its own");
        let parts: Vec<NodeId> = g.args(id).to_vec();
        let mut all = self.truth(true);
        for part in parts {
            let (defined, _) = self.along(part, axis);
            all = self.map(MapOp::And, &[all, defined]);
        }
        let empty = self.at_least_zero(&(&Dim::constant(0) - g.extent(axis)));
        self.map(MapOp::Or, &[all, empty])
    }

    /// Whether a node is defined along all of an axis, and the first position at which it is not.
    fn along(&mut self, id: NodeId, axis: AxisId) -> (NodeId, NodeId) {
        let defined = self.is_defined(id);
        if !self.b.node(defined).axes.contains(axis) {
            return (defined, self.b.constant(Const::I64(0)));
        }
        let missing = self.map(MapOp::Not, &[defined]);
        let missing = self.map(MapOp::ToF32, &[missing]);
        let first = typed(self.b.reduce(ReduceOp::ArgMax, axis, missing));
        (typed(self.b.reduce(ReduceOp::All, axis, defined)), first)
    }

    /// A value that is undefined where the node is, and by the same index outside its axis.
    fn culprit(&mut self, id: NodeId) -> NodeId {
        let g = self.found.g;
        let axis = g.op(id).bound().expect("checked is what binds an axis");
        let parts: Vec<NodeId> = g.args(id).into_iter().filter(|a| self.found.is_open(*a)).collect();
        let mut culprit = None;
        for part in parts.into_iter().rev() {
            let (defined, first) = self.along(part, axis);
            let element = typed(self.b.at(self.value[part.index()], axis, first));
            let element = self.cast(element, g.node(id).dtype);
            culprit = Some(match culprit {
                None => element,
                Some(rest) => self.map(MapOp::Select, &[defined, rest, element]),
            });
        }
        culprit.expect("a node is undefined for what it reads")
    }

    fn cast(&mut self, id: NodeId, to: DType) -> NodeId {
        let from = self.b.node(id).dtype;
        if from == to {
            return id;
        }
        match to {
            DType::F32 | DType::F16 | DType::BF16 => self.map(MapOp::ToF32, &[id]),
            DType::I32 => self.map(MapOp::ToI32, &[id]),
            DType::I64 => self.map(MapOp::ToI64, &[id]),
            DType::Bool => self.map(MapOp::Ne, &[id, id]),
        }
    }

    /// A condition as a truth value.
    fn condition(&mut self, domain: &Domain) -> NodeId {
        let mut all: Option<NodeId> = None;
        for clause in domain {
            let clause = self.clause(clause);
            all = Some(all.map_or(clause, |all| self.map(MapOp::And, &[all, clause])));
        }
        all.unwrap_or_else(|| self.truth(true))
    }

    fn clause(&mut self, clause: &Clause) -> NodeId {
        let mut any: Option<NodeId> = None;
        for literal in clause {
            let literal = self.literal(literal);
            any = Some(any.map_or(literal, |any| self.map(MapOp::Or, &[any, literal])));
        }
        any.unwrap_or_else(|| self.truth(false))
    }

    fn literal(&mut self, literal: &Literal) -> NodeId {
        match literal {
            Literal::Nonnegative(p) => self.at_least_zero(p),
            Literal::Truth { node, place, holds } => {
                let value = self.value[node.index()];
                let value = if self.found.is_open(*node) {
                    let (defined, no) = (self.is_defined(*node), self.truth(false));
                    self.map(MapOp::Select, &[defined, value, no])
                } else {
                    value
                };
                let value = self.view(value, place);
                if *holds { value } else { self.map(MapOp::Not, &[value]) }
            }
            Literal::Defined { node, place } => {
                let value = self.is_defined(*node);
                self.view(value, place)
            }
        }
    }

    /// A value with its axes standing for what `place` says; false or zero where that leaves an axis.
    fn view(&mut self, value: NodeId, place: &Position) -> NodeId {
        let mut with = Vec::new();
        let mut inside = None;
        let free = self.b.node(value).axes.clone();
        for (axis, at) in place.iter().filter(|(a, _)| free.contains(**a)) {
            let index = self.integer(at);
            with.push((*axis, index));
            let extent = self.b.extent(*axis).clone();
            if !self.found.terms.ranges([at]).inside(at, &extent) {
                let last = &(&extent - &Dim::constant(1)) - at;
                let ends = [self.at_least_zero(at), self.at_least_zero(&last)];
                let lies = self.map(MapOp::And, &ends);
                inside = Some(inside.map_or(lies, |all| self.map(MapOp::And, &[all, lies])));
            }
        }
        let view = typed(self.b.at_all(value, &with));
        match inside {
            None => view,
            Some(inside) => {
                let no = self.b.constant(match self.b.node(view).dtype {
                    DType::Bool => Const::Bool(false),
                    DType::I32 => Const::I32(0),
                    DType::I64 => Const::I64(0),
                    DType::F32 | DType::F16 | DType::BF16 => Const::f32(0.0),
                });
                self.map(MapOp::Select, &[inside, view, no])
            }
        }
    }

    fn at_least_zero(&mut self, p: &Dim) -> NodeId {
        let (zero, value) = (self.b.constant(Const::I64(0)), self.integer(p));
        self.map(MapOp::Le, &[zero, value])
    }

    /// A polynomial as an integer of the graph.
    fn integer(&mut self, p: &Dim) -> NodeId {
        self.integer_node(&p.to_node())
    }

    fn integer_node(&mut self, node: &DimNode) -> NodeId {
        let (op, a, b) = match node {
            DimNode::Constant(n) => return self.b.constant(Const::I64(*n)),
            DimNode::Symbol(name) => {
                return match self.found.terms.meaning(name) {
                    Meaning::Axis(axis) => self.b.iota(axis),
                    Meaning::Dimension => self.b.extent_of(&Dim::symbol(name)),
                    Meaning::Nothing => self.b.constant(Const::I64(0)),
                    Meaning::Unknown(node, place) => {
                        let (value, place) = (self.value[node.index()], place.clone());
                        let value = self.view(value, &place);
                        self.cast(value, DType::I64)
                    }
                };
            }
            DimNode::Add(a, b) => (MapOp::Add, a, b),
            DimNode::Mul(a, b) => (MapOp::Mul, a, b),
            DimNode::Div(a, b) => (MapOp::IntDiv, a, b),
        };
        let args = [self.integer_node(a), self.integer_node(b)];
        self.map(op, &args)
    }
}
