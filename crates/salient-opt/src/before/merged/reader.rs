//! Reads of several axes, moved into the computation of what is read.

use salient_ir::{AxisId, AxisSet, Builder, Dim, Graph, NodeId, Op};
use std::collections::{BTreeSet, HashMap};

/// An axis under a name that no other has: the canonical one is given later.
pub(super) fn new_axis(b: &mut Builder, stem: &str, extent: &Dim) -> AxisId {
    let names: BTreeSet<String> = b.axes().map(|(_, a)| a.name.to_string()).collect();
    let free = (0..).map(|n| format!("{stem}.{n}")).find(|name| !names.contains(name));
    b.axis_id(&free.expect("numbers do not end"), extent)
}

/// Axes, each with the index that takes its place.
pub(super) type Subst = Vec<(AxisId, NodeId)>;

/// Moves a read of several axes into the computation of a value.
pub(super) struct Reader<'g, F> {
    g: &'g Graph,
    /// The new node of each old one.
    new: &'g [NodeId],
    /// Whether a value is computed anew; one that is not is read as it is.
    through: F,
    known: HashMap<(NodeId, Subst), NodeId>,
}

impl<'g, F: Fn(NodeId) -> bool> Reader<'g, F> {
    pub(super) fn new(g: &'g Graph, new: &'g [NodeId], through: F) -> Self {
        Reader { g, new, through, known: HashMap::new() }
    }

    /// The value at these indices. `None` if an index mentions an axis that is bound on the way.
    pub(super) fn read(&mut self, b: &mut Builder, id: NodeId, with: &Subst) -> Option<NodeId> {
        let free = &self.g.node(id).axes;
        let here: Subst = with.iter().copied().filter(|(a, _)| free.contains(*a)).collect();
        if here.is_empty() {
            return Some(self.new[id.index()]);
        }
        let key = (id, here);
        if let Some(known) = self.known.get(&key) {
            return Some(*known);
        }
        let here = &key.1;
        let node = match here.len() == with.len() && (self.through)(id) {
            true => self.anew(b, id, here)?,
            false => b.at_all(self.new[id.index()], here).ok()?,
        };
        self.known.insert(key, node);
        Some(node)
    }

    fn anew(&mut self, b: &mut Builder, id: NodeId, with: &Subst) -> Option<NodeId> {
        let op = self.g.op(id);
        let args = self.g.args(id);
        let mentioned = with.iter().fold(AxisSet::new(), |all, (_, index)| all.union(&b.node(*index).axes));
        let captures = |axis: &AxisId| mentioned.contains(*axis) || with.iter().any(|(a, _)| a == axis);
        match op {
            Op::Iota(_) => Some(with[0].1),
            Op::Map(_) => self.with_args(b, op, &args, with),
            Op::Reduce(_, axis) | Op::CumSum(_, axis) | Op::Fused(_, axis) if !captures(axis) => {
                self.with_args(b, op, &args, with)
            }
            Op::At(axis) if !captures(axis) => {
                let (x, index) = (self.read(b, args[0], with)?, self.read(b, args[1], with)?);
                b.at(x, *axis, index).ok()
            }
            Op::Reduce(..) | Op::CumSum(..) | Op::Fused(..) | Op::At(_) => None,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Extent(_) | Op::Concat(..) => {
                b.at_all(self.new[id.index()], with).ok()
            }
        }
    }

    fn with_args(&mut self, b: &mut Builder, op: &Op, args: &[NodeId], with: &Subst) -> Option<NodeId> {
        let args = args.iter().map(|a| self.read(b, *a, with)).collect::<Option<Vec<NodeId>>>()?;
        b.add(op.clone(), &args).ok()
    }
}
