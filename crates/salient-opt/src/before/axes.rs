//! Canonical axes: the first pass. Every tensor function gets one spelling of its indices.
//!
//! A rename such as `k[b, h, j, e]` of a `k` declared over `t` is pushed down to the inputs, where it vanishes into the
//! choice of the input's own axis names; bound axes get the lowest name that is free, so that equal sums are equal
//! nodes. What is then computed twice under two names (a layer norm read as queries and as keys) is the business of
//! [`share`](super::share). Views that are more than renames stay where they are, except at inputs and in integer
//! expressions, into which they are composed.

mod groups;
mod ports;
pub(crate) mod transposed;

use crate::graph::border::Tie;
use crate::graph::index::{self, Bounds};
use groups::Groups;
use ports::{Read, Survey};
use salient_ir::{AxisId, AxisSet, Builder, Class, Graph, NodeId, Op, ReduceOp, demand};
use std::collections::HashMap;

/// Operators of an index or a mask into which indices are substituted, at most.
const LARGEST: usize = 1 << 10;

/// What each free axis of a node is replaced by: nodes of the new graph, by axis of the old.
type Subst = Vec<(AxisId, NodeId)>;

/// The same model over canonical axes. Names and places of nodes are kept. `tied` are inputs and outputs, by
/// position, whose axes are of one kind: the output of one computation becomes the input of another.
pub(crate) fn canonicalise(g: &Graph, tied: &[Tie]) -> Graph {
    // A first run finds how inputs are read and which axes occur; the second is built on that.
    let mut survey = Renamer::new(g, &Survey::default(), tied);
    survey.run();
    if survey.simplified {
        // What became a plain index joins axes that were apart.
        return canonicalise(&survey.b.finish(), tied);
    }
    let plan = survey.plan();
    let mut renamer = Renamer::new(g, &plan, tied);
    renamer.run();
    renamer.b.finish()
}

struct Renamer<'a> {
    g: &'a Graph,
    b: Builder,
    groups: Groups,
    /// The rank of each canonical axis among those of its group.
    ranks: HashMap<AxisId, usize>,
    memo: HashMap<(NodeId, Subst), NodeId>,
    /// Which nodes are cheap functions of indices and stored values: see [`Renamer::is_transparent`].
    transparent: Vec<bool>,
    bounds: Bounds<'a>,
    /// The new nodes of inputs and parameters, and the best way seen of naming their axes.
    ports: Vec<NodeId>,
    reads: Vec<Option<Read>>,
    /// Whether an index turned out simpler than it was written.
    simplified: bool,
}

impl<'a> Renamer<'a> {
    fn new(g: &'a Graph, plan: &Survey, tied: &[Tie]) -> Renamer<'a> {
        let mut r = Renamer {
            g,
            b: Builder::new(g.name()),
            groups: Groups::new(g, tied),
            ranks: HashMap::new(),
            memo: HashMap::new(),
            transparent: transparent(g),
            bounds: Bounds::new(g),
            ports: Vec::new(),
            reads: vec![None; g.inputs().len() + g.params().len()],
            simplified: false,
        };
        for (name, extent) in &plan.axes {
            r.b.axis_id(name, extent);
        }
        r.b.states_of(g);
        for requirement in g.requirements() {
            r.b.require(requirement.clone());
        }
        let mut nodes: Vec<Option<NodeId>> = vec![None; g.inputs().len() + g.params().len()];
        for id in g.ids() {
            if let Op::Input(n) = g.op(id) {
                nodes[*n] = Some(id);
            } else if let Op::Param(n) = g.op(id) {
                nodes[g.inputs().len() + n] = Some(id);
            }
        }
        for (n, port) in g.inputs().iter().enumerate() {
            let axes = r.port_axes(port, nodes[n], plan.ports.get(n));
            let id = r.b.input(&port.name, &axes, port.dtype, port.origin);
            r.ports.push(id);
        }
        for (n, port) in g.params().iter().enumerate() {
            let at = g.inputs().len() + n;
            let axes = r.port_axes(port, nodes[at], plan.ports.get(at));
            let init = port.init.map(|init| init.map(|node| r.transform(node, &Vec::new())));
            let id = r.b.param(&port.name, &axes, port.dtype, init, port.origin);
            r.ports.push(id);
        }
        for (n, port) in g.inputs().iter().enumerate() {
            let init = port.init.map(|init| init.map(|node| r.transform(node, &Vec::new())));
            r.b.begins_as(n, init);
        }
        r
    }

    /// The canonical axis of that group and rank, for an axis of the old graph.
    fn axis(&mut self, group: usize, old: AxisId, rank: usize) -> AxisId {
        let id = self.b.axis_id(&self.groups.name(group, rank), self.g.extent(old));
        self.ranks.insert(id, rank);
        id
    }

    /// The first canonical axis for `old`, an axis of the node, that is not in `avoid`.
    fn lowest(&mut self, id: NodeId, old: AxisId, avoid: &AxisSet) -> AxisId {
        let group = self.groups.of(self.g, id, old);
        let mut rank = 0;
        loop {
            let axis = self.axis(group, old, rank);
            if !avoid.contains(axis) {
                return axis;
            }
            rank += 1;
        }
    }

    fn run(&mut self) {
        for out in self.g.outputs() {
            let mut used = AxisSet::new();
            let mut axes = Vec::new();
            for axis in &out.axes {
                let new = self.lowest(out.node, *axis, &used);
                used.insert(new);
                axes.push(new);
            }
            let free = &self.g.node(out.node).axes;
            let mut subst = Subst::new();
            for (old, new) in out.axes.iter().zip(&axes).filter(|(old, _)| free.contains(**old)) {
                subst.push((*old, self.b.iota(*new)));
            }
            subst.sort_unstable();
            let node = self.transform(out.node, &subst);
            self.b.output(&out.name, &axes, node).expect("the same axes as before, renamed");
        }
    }

    /// The node with its free axes replaced; `subst` lists exactly those, sorted.
    fn transform(&mut self, id: NodeId, subst: &Subst) -> NodeId {
        let key = (id, subst.clone());
        if let Some(new) = self.memo.get(&key) {
            return *new;
        }
        let new = self.rebuild(id, subst);
        let node = self.g.node(id);
        self.b.describe(new, node.name.as_ref(), node.origin);
        self.memo.insert(key, new);
        new
    }

    fn rebuild(&mut self, id: NodeId, subst: &Subst) -> NodeId {
        let g = self.g;
        let args = g.args(id);
        match g.op(id) {
            Op::Input(n) => self.read(*n, &g.inputs()[*n].axes, subst),
            Op::Param(n) => self.read(g.inputs().len() + n, &g.params()[*n].axes, subst),
            Op::Const(c) => self.b.constant(*c),
            Op::Iota(axis) => lookup(subst, *axis),
            Op::Extent(dim) => self.b.extent_of(dim),
            Op::Map(map) => {
                let args: Vec<NodeId> = args.iter().map(|a| self.inner(*a, subst, None)).collect();
                let simpler = index::simpler(&mut self.b, *map, &args);
                self.simplified |= simpler.is_some();
                simpler.unwrap_or_else(|| self.add(Op::Map(*map), &args))
            }
            Op::Reduce(op, axis) => self.reduce(*op, *axis, args[0], subst),
            Op::At(axis) => self.at(*axis, args[0], args[1], subst),
            Op::Concat(axis, parts) => self.keeping(*axis, subst, id, |r, bound| {
                let mut new_parts = smallvec::SmallVec::new();
                let mut new_args = Vec::new();
                for (part, arg) in parts.iter().zip(&args) {
                    let others = r.image(*arg, subst, Some(*part));
                    let new = r.lowest(*arg, *part, &others);
                    let iota = r.b.iota(new);
                    new_parts.push(new);
                    new_args.push(r.inner(*arg, subst, Some((*part, iota))));
                }
                r.add(Op::Concat(bound, new_parts), &new_args)
            }),
            Op::CumSum(direction, axis) => self.keeping(*axis, subst, id, |r, bound| {
                let iota = r.b.iota(bound);
                let arg = r.inner(args[0], subst, Some((*axis, iota)));
                r.add(Op::CumSum(*direction, bound), &[arg])
            }),
            Op::Fused(op, axis) => {
                let build = |r: &mut Renamer<'a>, bound: AxisId| {
                    let iota = r.b.iota(bound);
                    let args: Vec<NodeId> =
                        args.iter().map(|a| r.inner(*a, subst, Some((*axis, iota)))).collect();
                    r.add(Op::Fused(*op, bound), &args)
                };
                if op.info().reduces {
                    let mut others = AxisSet::new();
                    for arg in &args {
                        others = others.union(&self.image(*arg, subst, Some(*axis)));
                    }
                    let bound = self.lowest(args[0], *axis, &others);
                    build(self, bound)
                } else {
                    self.keeping(*axis, subst, id, build)
                }
            }
        }
    }

    fn add(&mut self, op: Op, args: &[NodeId]) -> NodeId {
        self.b.add(op, args).expect("renaming axes keeps types")
    }

    fn reduce(&mut self, op: ReduceOp, axis: AxisId, x: NodeId, subst: &Subst) -> NodeId {
        let others = self.image(x, subst, Some(axis));
        let bound = self.lowest(x, axis, &others);
        let iota = self.b.iota(bound);
        let x = self.inner(x, subst, Some((axis, iota)));
        self.add(Op::Reduce(op, bound), &[x])
    }

    fn at(&mut self, axis: AxisId, x: NodeId, at: NodeId, subst: &Subst) -> NodeId {
        let index = self.inner(at, subst, None);
        let renames = matches!(self.b.op(index), Op::Iota(to) if self.b.extent(*to) == self.g.extent(axis));
        if !self.g.node(x).axes.contains(axis) {
            let of = self.inner(x, subst, None);
            if renames || self.bounds.is_inside(at, axis) {
                return of;
            }
            // The index of what is the same everywhere is looked at too.
            let group = self.groups.by_extent[self.g.extent(axis)];
            let others = self.b.node(of).axes.clone();
            let mut free = (0..).map(|rank| self.axis(group, axis, rank));
            let bound = free.find(|a| !others.contains(*a)).expect("ranks do not end");
            return self.add(Op::At(bound), &[of, index]);
        }
        // A view of a view may be one, if the index is checked against the axis all the same.
        let one = (self.transparent[x.index()] || self.places(x, axis))
            && (demand::stays_checked(self.g, x, axis) || self.bounds.is_inside(at, axis));
        if renames || one {
            return self.inner(x, subst, Some((axis, index)));
        }
        let others = self.image(x, subst, Some(axis));
        let bound = self.lowest(x, axis, &others);
        let iota = self.b.iota(bound);
        let x = self.inner(x, subst, Some((axis, iota)));
        self.b.at(x, bound, index).expect("an index stays an integer")
    }

    /// Whether a value depends on the axis only by where it reads another one: two views are one.
    fn places(&self, mut x: NodeId, axis: AxisId) -> bool {
        while let Op::At(bound) = self.g.op(x) {
            let of = self.g.args(x)[0];
            if *bound == axis || !self.g.node(of).axes.contains(axis) {
                return true;
            }
            x = of;
        }
        false
    }

    /// Builds a node that keeps the axis it works along, under the name that `subst` asks for where that is possible.
    fn keeping(
        &mut self,
        axis: AxisId,
        subst: &Subst,
        id: NodeId,
        build: impl FnOnce(&mut Renamer<'a>, AxisId) -> NodeId,
    ) -> NodeId {
        let others = self.image(id, subst, Some(axis));
        let wanted = lookup(subst, axis);
        if let Op::Iota(to) = *self.b.op(wanted)
            && self.b.extent(to) == self.g.extent(axis)
            && !others.contains(to)
        {
            return build(self, to);
        }
        let bound = self.lowest(id, axis, &others);
        let node = build(self, bound);
        self.b.at(node, bound, wanted).expect("an index stays an integer")
    }

    /// An argument under the substitution of its user, with one axis bound anew.
    fn inner(&mut self, arg: NodeId, subst: &Subst, bound: Option<(AxisId, NodeId)>) -> NodeId {
        let free = self.g.node(arg).axes.clone();
        let mut inner: Subst = subst
            .iter()
            .copied()
            .filter(|(a, _)| free.contains(*a) && bound.is_none_or(|(b, _)| b != *a))
            .collect();
        inner.extend(bound.filter(|(b, _)| free.contains(*b)));
        inner.sort_unstable();
        self.transform(arg, &inner)
    }

    /// The new axes on which the node's free axes other than `except` will depend.
    fn image(&self, id: NodeId, subst: &Subst, except: Option<AxisId>) -> AxisSet {
        let free = &self.g.node(id).axes;
        let mut out = AxisSet::new();
        for (axis, index) in subst {
            if free.contains(*axis) && Some(*axis) != except {
                out = out.union(&self.b.node(*index).axes);
            }
        }
        out
    }
}

fn lookup(subst: &Subst, axis: AxisId) -> NodeId {
    let at = subst.binary_search_by_key(&axis, |(a, _)| *a).expect("every free axis is replaced");
    subst[at].1
}

/// Nodes through which any index may be substituted without computing more: stored tensors, and integer or boolean
/// expressions over them.
fn transparent(g: &Graph) -> Vec<bool> {
    let mut out: Vec<bool> = Vec::with_capacity(g.len());
    // Operators of each as a tree: what shares its parts would be taken apart, once for each way to read it.
    let mut sizes: Vec<usize> = Vec::with_capacity(g.len());
    for id in g.ids() {
        let args = g.args(id);
        let size = args.iter().fold(1, |size: usize, a| size.saturating_add(sizes[a.index()]));
        sizes.push(size);
        let inside = size <= LARGEST && args.iter().all(|a| out[a.index()]);
        out.push(match g.op(id).class() {
            Class::Port | Class::Leaf => true,
            Class::View => inside,
            Class::Map => inside && !g.node(id).dtype.is_float(),
            Class::Concat | Class::Bind => false,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use salient_ir::{DType, Dim, MapOp};

    /// Scores over the given index names; the order of the factors as asked for.
    fn scores(names: [&str; 3], swapped: bool) -> Graph {
        let mut b = Builder::new("m");
        let (big, e_extent) = (Dim::symbol("T"), Dim::symbol("E"));
        let (t, d) = (b.axis_id("t", &big), b.axis_id("d", &e_extent));
        let [i, j, e] =
            [(names[0], &big), (names[1], &big), (names[2], &e_extent)].map(|(n, x)| b.axis_id(n, x));
        let x = b.input("x", &[t, d], DType::F32, None);
        let index = [i, j, e].map(|a| b.iota(a));
        let q = b.at_all(x, &[(t, index[0]), (d, index[2])]).unwrap();
        let k = b.at_all(x, &[(t, index[1]), (d, index[2])]).unwrap();
        let product = b.map(MapOp::Mul, &if swapped { [k, q] } else { [q, k] }).unwrap();
        let s = b.reduce(ReduceOp::Sum, e, product).unwrap();
        b.output("s", &[i, j], s).unwrap();
        b.finish()
    }

    #[test]
    fn names_of_indices_do_not_matter() {
        let text = |names, swapped| salient_ir::text::print(&canonicalise(&scores(names, swapped), &[]));
        let first = text(["i", "j", "e"], false);
        assert!(first.contains("= x[t, e] * x[t.1, e]"), "{first}");
        for names in [["t", "s", "d"], ["j", "t", "x"], ["t.1", "t", "d"]] {
            assert_eq!(text(names, false), first);
        }
        // The port is named after its lowest reading, whichever comes first.
        let swapped = text(["i", "j", "e"], true);
        assert!(swapped.contains("= x[t.1, e] * x[t, e]"), "{swapped}");
    }
}
