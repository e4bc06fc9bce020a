//! Products with what lies at a distance from each row, `sum[e](q[i, e] * r[i - j, e])`: one product with all distances, of which
//! each row reads another part (Dai et al., "Transformer-XL", 2019).
//!
//! The distances stand the other way round, so that the place that is read grows with the key: then it is a row of memory.
//! Whether the source multiplies pair by pair or with all distances, in which order, or with a key and what lies at a distance
//! together, does not show.
//!
//! So it is for what is picked for each pair in another way, as by a distance that is cut at an end or by the bucket of a distance (Shaw
//! et al., "Self-Attention with Relative Position Representations", 2018): `sum[e](q[i, e] * r[f(i, j), e])` is one product with all
//! of `r`, of which each pair reads one element.

use super::moved::places_of;
use super::{index_of, row_and_key};
use crate::graph::factors::args_of;
use crate::graph::index::AffineIndex;
use crate::graph::rewrite::rewrite;
use salient_ir::{AxisId, AxisSet, Builder, Dim, Graph, MapOp, NodeId, Op, ReduceOp};
use std::collections::{BTreeMap, BTreeSet};

/// The same model with each such product as a view of one with all distances.
pub(crate) fn relative_products(g: &Graph) -> Graph {
    let is_one = |id: NodeId| product(g, id).is_some() || falling(g, id).is_some();
    if !g.ids().any(is_one) {
        return g.clone();
    }
    let rewritten = rewrite(g, |b, new, id| {
        if let Some(found) = product(g, id) {
            return found.build(g, b, new);
        }
        let (of, along, place) = falling(g, id)?;
        Some(Backwards { g, along, place: &place, made: BTreeMap::new() }.read(b, new, of))
    });
    rewritten.graph
}

/// A read at a place that falls as the key grows.
struct Backwards<'g> {
    g: &'g Graph,
    along: AxisId,
    place: &'g AffineIndex,
    /// What has been read so far: an expression may have its parts in it over and over.
    made: BTreeMap<NodeId, NodeId>,
}

impl Backwards<'_> {
    /// What is read of a value: of a product with all distances the same with the distances the other way round.
    fn read(&mut self, b: &mut Builder, new: &[NodeId], of: NodeId) -> NodeId {
        if let Some(made) = self.made.get(&of) {
            return *made;
        }
        let made = self.make(b, new, of);
        self.made.insert(of, made);
        made
    }

    fn make(&mut self, b: &mut Builder, new: &[NodeId], of: NodeId) -> NodeId {
        let g = self.g;
        if !g.node(of).axes.contains(self.along) {
            return new[of.index()];
        }
        if let Some(built) = backwards(g, of, self.along, self.place).and_then(|found| found.build(g, b, new))
        {
            return built;
        }
        if matches!(g.op(of), Op::Map(_)) && self.is_of_product(of) {
            let args: Vec<NodeId> = g.args(of).iter().map(|arg| self.read(b, new, *arg)).collect();
            return b.add(g.op(of).clone(), &args).expect("as before at another place");
        }
        let index = index_of(b, self.place);
        b.at(new[of.index()], self.along, index).expect("an index as before")
    }

    /// Whether an expression has such a product in it, element by element.
    fn is_of_product(&self, of: NodeId) -> bool {
        let (g, mut seen, mut stack) = (self.g, BTreeSet::new(), vec![of]);
        while let Some(id) = stack.pop() {
            if !g.node(id).axes.contains(self.along) || !seen.insert(id) || seen.len() > LARGEST {
                continue;
            }
            if backwards(g, id, self.along, self.place).is_some() {
                return true;
            }
            if matches!(g.op(id), Op::Map(_)) {
                stack.extend(g.args(id));
            }
        }
        false
    }
}

/// Operators that are looked through for a product, at most.
const LARGEST: usize = 32;

/// What a view is of, the axis of that along which its index falls as one of its own does, and the index. Of a view of views, as of a
/// matrix that is padded and cut into rows of another length, it is what the innermost one is of, where all else is read at its own
/// place.
fn falling(g: &Graph, id: NodeId) -> Option<(NodeId, AxisId, AffineIndex)> {
    let Op::At(axis) = *g.op(id) else { return None };
    let is_single = |times: &Dim| matches!(times.as_constant(), Some(1 | -1));
    let falls = |place: &AffineIndex| {
        place.terms.values().any(|times| times.as_constant() == Some(-1))
            && place.terms.values().all(is_single)
    };
    let (of, mut places) = places_of(g, id);
    places.retain(|axis, place| g.node(of).axes.contains(*axis) && *place != AffineIndex::own(*axis));
    if let Some((along, place)) = places.first_key_value()
        && places.len() == 1
        && falls(place)
    {
        return Some((of, *along, place.clone()));
    }
    let place = AffineIndex::of(g, g.args(id)[1])?;
    falls(&place).then(|| (g.args(id)[0], axis, place))
}

/// What one of several views reads of the tensor below it.
struct Read {
    table: NodeId,
    /// Views of other axes around that view, the outermost first: each an axis and its index.
    around: Vec<(AxisId, NodeId)>,
    along: AxisId,
    index: NodeId,
}

/// The tensors below the views that a value is, the outermost view first: any of these may be the one that is looked for.
fn reads(g: &Graph, read: NodeId) -> Vec<Read> {
    let (mut out, mut around, mut id) = (Vec::new(), Vec::new(), read);
    while let Op::At(along) = *g.op(id) {
        let (table, index) = (g.args(id)[0], g.args(id)[1]);
        out.push(Read { table, around: around.clone(), along, index });
        around.push((along, index));
        id = table;
    }
    out
}

/// An index under views, in the indices outside of them.
fn outside(g: &Graph, index: NodeId, around: &[(AxisId, NodeId)]) -> Option<AffineIndex> {
    let mut place = AffineIndex::of(g, index)?;
    for (axis, by) in around.iter().rev() {
        if place.terms.contains_key(axis) {
            place = place.with(*axis, &AffineIndex::of(g, *by)?);
        }
    }
    Some(place)
}

/// The axes of a tensor under views of axes other than that of the distances; `None` if one of them takes the name of that.
fn axes_under(g: &Graph, table: NodeId, along: AxisId, around: &[(AxisId, NodeId)]) -> Option<AxisSet> {
    let mut axes: AxisSet = g.node(table).axes.iter().filter(|axis| *axis != along).collect();
    for (axis, index) in around.iter().rev().filter(|(axis, _)| *axis != along) {
        if axes.contains(*axis) {
            axes = axes.iter().filter(|own| own != axis).collect::<AxisSet>().union(&g.node(*index).axes);
        }
    }
    (!axes.contains(along)).then_some(axes)
}

/// Where each row reads for each key.
enum Place {
    /// At a distance.
    Distance(AffineIndex),
    /// At an index of both, however that is computed.
    Picked(NodeId),
}

/// A sum over `depth` of a factor of the row by what is read of a tensor at a place of row and key.
struct Relative {
    depth: AxisId,
    /// The factor of the row.
    query: NodeId,
    /// The tensor, the views of its other axes, the outermost first, and its axis of distances.
    table: NodeId,
    around: Vec<(AxisId, NodeId)>,
    along: AxisId,
    place: Place,
    /// What is added to what is read, and multiplied with the query too.
    beside: Option<NodeId>,
}

/// The product with what is read pair by pair.
fn product(g: &Graph, id: NodeId) -> Option<Relative> {
    let (a, c, depth) = g.sum_of_products(id)?;
    let at_distance = |query: NodeId, read: NodeId, beside: Option<NodeId>| {
        let (Read { table, around, along, .. }, place) = reads(g, read).into_iter().find_map(|read| {
            let place = outside(g, read.index, &read.around)?;
            row_and_key(&place).is_some().then_some((read, place))
        })?;
        let (first, second) = row_and_key(&place)?;
        let axes = axes_under(g, table, along, &around)?;
        let of_query = &g.node(query).axes;
        // Row and key are told apart by the query, and the tensor has neither.
        let is_one = of_query.contains(first) != of_query.contains(second)
            && !axes.contains(first)
            && !axes.contains(second)
            && axes.contains(depth);
        let found = Relative { depth, query, table, around, along, place: Place::Distance(place), beside };
        is_one.then_some(found)
    };
    let alone = |query: NodeId, read: NodeId, beside: Option<NodeId>| {
        at_distance(query, read, beside).or_else(|| picked(g, (query, depth), read, beside))
    };
    let try_with = |query: NodeId, read: NodeId| {
        alone(query, read, None).or_else(|| {
            let parts = args_of(g, read, MapOp::Add)?;
            let all = parts.iter().all(|part| g.node(*part).axes.contains(depth));
            let both = [(parts[0], parts[1]), (parts[1], parts[0])];
            both.into_iter().filter(|_| all).find_map(|(part, other)| alone(query, part, Some(other)))
        })
    };
    try_with(a, c).or_else(|| try_with(c, a))
}

/// Positions of a table of which each pair picks one, at most.
const LARGEST_TABLE: i64 = 1024;

/// Whether a table has so few positions that the product with all of them takes less than one for each key.
fn is_small(g: &Graph, table: AxisId, keys: &[AxisId]) -> bool {
    let Some(positions) = g.extent(table).as_constant() else { return false };
    let each: Option<Vec<i64>> = keys.iter().map(|key| g.extent(*key).as_constant()).collect();
    let most = each.map_or(LARGEST_TABLE, |each| each.into_iter().fold(1, i64::saturating_mul));
    positions <= most.min(LARGEST_TABLE)
}

/// The product with what is picked for each pair.
fn picked(
    g: &Graph,
    (query, depth): (NodeId, AxisId),
    read: NodeId,
    beside: Option<NodeId>,
) -> Option<Relative> {
    reads(g, read).into_iter().find_map(|Read { table, around, along, index }| {
        let of_index = &g.node(index).axes;
        let (rows, keys): (Vec<AxisId>, Vec<AxisId>) =
            of_index.iter().partition(|axis| g.node(query).axes.contains(*axis));
        let axes = axes_under(g, table, along, &around)?;
        let is_apart = around.iter().all(|(axis, _)| !of_index.contains(*axis))
            && of_index.iter().all(|axis| axis != depth && !axes.contains(axis));
        // What is merged or moved, as the features of a head, is read at a place that is affine.
        let is_one = !rows.is_empty()
            && !keys.is_empty()
            && AffineIndex::of(g, index).is_none()
            && is_apart
            && axes.contains(depth)
            && is_small(g, along, &keys);
        let place = Place::Picked(index);
        is_one.then_some(Relative { depth, query, table, around, along, place, beside })
    })
}

/// A product with all distances that is read at a place which falls as the key grows.
fn backwards(g: &Graph, id: NodeId, along: AxisId, place: &AffineIndex) -> Option<Relative> {
    let (a, c, depth) = g.sum_of_products(id)?;
    let has = |x: NodeId| g.node(x).axes.contains(along);
    let (query, table) = match (has(a), has(c)) {
        (false, true) => (a, c),
        (true, false) => (c, a),
        (true, true) | (false, false) => return None,
    };
    let (row, key) = row_and_key(place)?;
    let is_free = key == along || !g.node(id).axes.contains(key);
    let falls = g.node(query).axes.contains(row) && is_free;
    let (around, place) = (Vec::new(), Place::Distance(place.clone()));
    falls.then_some(Relative { depth, query, table, around, along, place, beside: None })
}

impl Place {
    /// The axes whose indices go into it.
    fn axes(&self, g: &Graph) -> AxisSet {
        match self {
            Place::Distance(place) => place.terms.keys().copied().collect(),
            Place::Picked(index) => g.node(*index).axes.clone(),
        }
    }
}

impl Relative {
    /// Where the product with all of the table reads that, by an axis of its own, and where each pair reads the product.
    fn places(
        &self,
        g: &Graph,
        b: &mut Builder,
        new: &[NodeId],
        distance: AxisId,
    ) -> Option<(NodeId, NodeId)> {
        let own = AffineIndex::own(distance);
        let place = match &self.place {
            Place::Distance(place) => place,
            Place::Picked(index) => return Some((b.iota(distance), new[index.index()])),
        };
        let (_, key) = row_and_key(place)?;
        // The place grows with the key where the key is what is added.
        if g.node(self.query).axes.contains(key) {
            return Some((index_of(b, &own), index_of(b, place)));
        }
        let last = g.extent(self.along) - &Dim::constant(1);
        let far_first = |place: &AffineIndex| {
            let last = AffineIndex { terms: [].into(), offset: last.clone() };
            last.less(place)
        };
        Some((index_of(b, &far_first(&own)), index_of(b, &far_first(place))))
    }

    fn build(&self, g: &Graph, b: &mut Builder, new: &[NodeId]) -> Option<NodeId> {
        let [query, mut table] = [self.query, self.table].map(|id| new[id.index()]);
        let mut taken = g.node(self.query).axes.union(&g.node(self.table).axes);
        for (_, index) in &self.around {
            taken = taken.union(&g.node(*index).axes);
        }
        taken = taken.union(&[self.along, self.depth].into_iter().collect::<AxisSet>());
        taken = taken.union(&self.place.axes(g));
        let distance = b.fresh_axis(self.along, &taken);
        let (inside, outside) = self.places(g, b, new, distance)?;
        table = b.at(table, self.along, inside).ok()?;
        for (axis, index) in self.around.iter().rev().filter(|(axis, _)| *axis != self.along) {
            table = b.at(table, *axis, new[index.index()]).ok()?;
        }
        let products = b.map(MapOp::Mul, &[query, table]).ok()?;
        let all = b.reduce(ReduceOp::Sum, self.depth, products).ok()?;
        let found = b.at(all, distance, outside).ok()?;
        match self.beside {
            None => Some(found),
            Some(beside) => {
                let products = b.map(MapOp::Mul, &[query, new[beside.index()]]).ok()?;
                let sum = b.reduce(ReduceOp::Sum, self.depth, products).ok()?;
                b.map(MapOp::Add, &[sum, found]).ok()
            }
        }
    }
}
